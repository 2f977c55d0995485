//! Names of what the text does not name: the computations that regions become.

use crate::tree::{Region, Tree};

/// One name a region, and which have been given.
pub(crate) struct Names {
    regions: Vec<String>,
}

impl Names {
    /// As many names as the module has regions.
    pub(crate) fn of(tree: &Tree<'_>) -> Names {
        let count: usize = tree.funcs.iter().map(|func| regions(&func.body)).sum();
        let taken = |name: &String| tree.funcs.iter().any(|func| func.name == name);
        let mut names = Vec::with_capacity(count);
        for number in 0..count {
            let mut name = format!("region.{number}");
            while taken(&name) {
                name.push('_');
            }
            names.push(name);
        }
        Names { regions: names }
    }

    /// The name of a number.
    pub(crate) fn region(&self, number: usize) -> &str {
        self.regions.get(number).map_or("region", String::as_str)
    }
}

/// How many regions lie in one, at any depth.
fn regions(region: &Region<'_>) -> usize {
    let inner = region.ops.iter().flat_map(|op| &op.regions);
    inner.map(|region| 1 + regions(region)).sum()
}
