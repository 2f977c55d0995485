//! Names for parts without a name in the text: the computations of regions, and of functions that are called with
//! several sizes.

use indexmap::{IndexMap, IndexSet};
use optc_mlir_syntax::{Func, Region, Tree};

/// The most computations that a function with unknown sizes may become.
const MOST_COPIES: usize = 64;

/// One name for each region, and several for a function with unknown sizes.
pub(crate) struct Names {
    regions: Vec<String>,
    /// The names of the copies of each function; the first is its own.
    copies: IndexMap<String, Vec<String>>,
    /// The function of each copy with another name.
    originals: IndexMap<String, String>,
}

impl Names {
    /// Names for all regions of the module, and for the copies of the functions for which `open` is true.
    pub(crate) fn of(tree: &Tree<'_>, open: &dyn Fn(&Func<'_>) -> bool) -> Names {
        let count: usize = tree.funcs.iter().map(|func| regions(&func.body)).sum();
        let own: IndexSet<&str> = tree.funcs.iter().map(|func| func.name).collect();
        let taken = |name: &String| own.contains(name.as_str());
        let mut names = Vec::with_capacity(count);
        for number in 0..count {
            let mut name = format!("region.{number}");
            while taken(&name) {
                name.push('_');
            }
            names.push(name);
        }
        let copy = |func: &Func<'_>, number: usize| {
            let mut name = func.name.to_owned();
            if number != 0 {
                name = format!("{name}.s{number}");
                while taken(&name) {
                    name.push('_');
                }
            }
            name
        };
        let mut copies = IndexMap::new();
        let mut originals = IndexMap::new();
        for func in tree.funcs.iter().filter(|func| open(func)) {
            let all: Vec<String> = (0..MOST_COPIES).map(|number| copy(func, number)).collect();
            for name in &all[1..] {
                originals.insert(name.clone(), func.name.to_owned());
            }
            copies.insert(func.name.to_owned(), all);
        }
        Names {
            regions: names,
            copies,
            originals,
        }
    }

    /// The name of a copy of a function; that of the first is the function's own.
    pub(crate) fn copy(&self, func: &str, number: usize) -> Option<&str> {
        self.copies.get(func)?.get(number).map(String::as_str)
    }

    /// The function of which a name is a copy, else the name itself.
    pub(crate) fn original<'n>(&'n self, name: &'n str) -> &'n str {
        self.originals.get(name).map_or(name, String::as_str)
    }

    /// The name of a region, by its number.
    pub(crate) fn region(&self, number: usize) -> &str {
        self.regions.get(number).map_or("region", String::as_str)
    }
}

/// The number of regions nested in a region, at any depth.
fn regions(region: &Region<'_>) -> usize {
    let inner = region.ops.iter().flat_map(|op| &op.regions);
    inner.map(|region| 1 + regions(region)).sum()
}
