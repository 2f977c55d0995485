//! The result of folding a function.

use super::conversion::Conversion;
use optc_check::amount::Amount;
use optc_check::{End, FuncWitness};
use optc_ir::{Func, Op, Registry, Value};

/// A folded function.
pub(crate) struct Folded {
    pub(crate) func: Func,
    /// Operations of the old function and their replacements.
    pub(crate) operations: Vec<(Op, Op)>,
    /// Values of the old function that are read, and the new values that hold them.
    pub(crate) held: Vec<(Value, Value)>,
    /// More such pairs, see [`super::emit::Emitted::stored`].
    pub(crate) stored: Vec<(Value, Value)>,
    /// Arguments and results, and whether each is free to have any layout.
    pub(crate) ends: Vec<(End, bool)>,
    /// Operations of the old function that are computed several times, and how many times.
    pub(crate) repeated: Vec<(Op, usize)>,
    /// Bytes that the repeated computation saves.
    pub(crate) saved: u64,
    /// If any are repeated, the function folded without repetition.
    pub(crate) once: Option<Box<Folded>>,
    pub(crate) conversions: Vec<Conversion>,
    pub(crate) why: Vec<(Value, String)>,
    /// The alternatives of the values that `--explain` names.
    pub(crate) alternatives: Vec<(Value, Vec<String>)>,
    pub(crate) naive: Amount,
    pub(crate) naive_padding: Amount,
    /// True if numbers stood in for unknown sizes.
    pub(crate) stands_in: bool,
    /// A lower bound of the bytes that any choice of layouts converts.
    pub(crate) bound: u64,
    pub(crate) proven: bool,
    pub(crate) dropped: u64,
    pub(crate) groups: usize,
    pub(crate) nodes: usize,
    /// Bytes that the function converts when its boundary is free, where that is less.
    pub(crate) freed: Option<u64>,
    /// A larger limit of candidates a group with which fewer bytes are converted.
    pub(crate) cap: Option<usize>,
    /// The number of searches that were made for remarks alone.
    pub(crate) trials: usize,
}

impl Folded {
    /// The witness: for each value of the original function, the new values that hold it.
    pub(crate) fn witness(&self, func: &Func, registry: &Registry) -> FuncWitness {
        FuncWitness::of(func, &self.func, registry, &self.operations, &self.held)
            .with_boundary(func, &self.func, &self.ends)
    }
}
