//! The names under which arguments are given and results are returned.

use indexmap::IndexSet;
use optc_ir::Func;

/// The keys of a function's arguments, in order: those of [`Func::arg_key`].
///
/// All keys differ: a name that is already taken gets a suffix `_<i>`.
#[must_use]
pub fn argument_keys(func: &Func) -> Vec<String> {
    distinct(func.args.len(), |i| func.arg_key(i))
}

/// The keys of a function's results, in order: those of [`Func::result_key`].
///
/// All keys differ: a name that is already taken gets a suffix `_<i>`.
#[must_use]
pub fn result_keys(func: &Func) -> Vec<String> {
    distinct(func.results.len(), |i| func.result_key(i))
}

fn distinct(count: usize, key: impl Fn(usize) -> String) -> Vec<String> {
    let mut taken: IndexSet<String> = IndexSet::new();
    for i in 0..count {
        let mut key = key(i);
        while taken.contains(&key) {
            key = format!("{key}_{i}");
        }
        taken.insert(key);
    }
    taken.into_iter().collect()
}
