//! The names under which arguments are given and results are returned.

use indexmap::IndexSet;
use optc_ir::{Func, Port};

/// The keys of a function's arguments, in order: the port's name, else `arg<i>`.
///
/// No two are equal: a name that is already taken gets a suffix `_<i>`.
#[must_use]
pub fn argument_keys(func: &Func) -> Vec<String> {
    keys(&func.arg_ports, func.args.len(), "arg")
}

/// The keys of a function's results, in order: the port's name, else `result<i>`.
///
/// No two are equal: a name that is already taken gets a suffix `_<i>`.
#[must_use]
pub fn result_keys(func: &Func) -> Vec<String> {
    keys(&func.result_ports, func.results.len(), "result")
}

fn keys(ports: &[Port], count: usize, default: &str) -> Vec<String> {
    let mut taken: IndexSet<String> = IndexSet::new();
    for i in 0..count {
        let name = ports.get(i).and_then(|p| p.name.as_deref());
        let mut key = name.map_or_else(|| format!("{default}{i}"), str::to_owned);
        while taken.contains(&key) {
            key = format!("{key}_{i}");
        }
        taken.insert(key);
    }
    taken.into_iter().collect()
}
