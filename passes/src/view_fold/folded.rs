//! What a function was folded to.

use super::conversion::Conversion;
use optc_check::amount::Amount;
use optc_check::{End, FuncWitness};
use optc_ir::{Func, Op, Registry, Value};

/// A folded function.
pub(crate) struct Folded {
    pub(crate) func: Func,
    /// Operations of the old function and what stands for them.
    pub(crate) operations: Vec<(Op, Op)>,
    /// Values of the old function that something reads, and the new ones that hold them.
    pub(crate) held: Vec<(Value, Value)>,
    /// Arguments and results, and whether each may have any layout.
    pub(crate) ends: Vec<(End, bool)>,
    /// Operations of the old function that run several times, and how often.
    pub(crate) repeated: Vec<(Op, usize)>,
    /// Bytes that this saves.
    pub(crate) saved: u64,
    /// Where there are any, the function folded without.
    pub(crate) once: Option<Box<Folded>>,
    pub(crate) conversions: Vec<Conversion>,
    pub(crate) why: Vec<(Value, String)>,
    /// What the values that are asked about might have been.
    pub(crate) alternatives: Vec<(Value, Vec<String>)>,
    pub(crate) naive: Amount,
    pub(crate) naive_padding: Amount,
    /// Whether numbers stood in for unknown sizes.
    pub(crate) stands_in: bool,
    /// No choice of layouts converts fewer bytes.
    pub(crate) bound: u64,
    /// Bytes of copies that might have been parts of other values.
    pub(crate) copied: u64,
    pub(crate) proven: bool,
    pub(crate) dropped: u64,
    pub(crate) groups: usize,
    pub(crate) nodes: usize,
    /// Bytes that it converts when its boundary is free, where these are fewer.
    pub(crate) freed: Option<u64>,
    /// A number of candidates that a group may have with which it converts fewer bytes.
    pub(crate) cap: Option<usize>,
    /// Searches that were made for remarks alone.
    pub(crate) trials: usize,
}

impl Folded {
    /// Where the values of the function are that it was folded from.
    pub(crate) fn witness(&self, func: &Func, registry: &Registry) -> FuncWitness {
        FuncWitness::of(func, &self.func, registry, &self.operations, &self.held)
            .with_boundary(func, &self.func, &self.ends)
    }
}
