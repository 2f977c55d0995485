//! Names of what the text does not name: the computations that regions become, and those of functions that are called with
//! several sizes.

use crate::tree::{Func, Region, Tree};
use indexmap::IndexMap;

/// How many computations a function with unknown sizes may become.
const MOST_COPIES: usize = 64;

/// One name a region, and several a function with unknown sizes.
pub(crate) struct Names {
    regions: Vec<String>,
    /// For a function the names of its copies, the first its own.
    copies: IndexMap<String, Vec<String>>,
}

impl Names {
    /// As many names as the module has regions, and names for the copies of the functions that `open` says.
    pub(crate) fn of(tree: &Tree<'_>, open: &dyn Fn(&Func<'_>) -> bool) -> Names {
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
        let own = tree.funcs.iter().filter(|func| open(func));
        let copies = own.map(|func| {
            let all = (0..MOST_COPIES).map(|number| copy(func, number));
            (func.name.to_owned(), all.collect())
        });
        Names {
            copies: copies.collect(),
            regions: names,
        }
    }

    /// The name of a copy of a function; the first is the function's own.
    pub(crate) fn copy(&self, func: &str, number: usize) -> Option<&str> {
        self.copies.get(func)?.get(number).map(String::as_str)
    }

    /// The function that a name is a copy of, else the name itself.
    pub(crate) fn original<'n>(&'n self, name: &'n str) -> &'n str {
        let of = |(_, copies): &(&String, &Vec<String>)| copies.iter().any(|copy| copy == name);
        self.copies.iter().find(of).map_or(name, |(func, _)| func)
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
