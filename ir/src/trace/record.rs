//! The record of where values are.

use crate::ids::Value;
use crate::op::ViewDims;
use crate::types::Dim;
use indexmap::IndexMap;

/// A rearrangement: its operand in row-major order is read as `view.shape`, transposed by `view.perm`, and read in
/// row-major order as `result`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Step {
    /// The dimensions before the transpose, and the transpose.
    pub view: ViewDims,
    /// The dimensions of the result.
    pub result: Vec<Dim>,
}

/// A value that went in, and a value of this function that has its elements.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Held {
    /// The value that went in.
    pub origin: Value,
    /// The value of this function.
    pub value: Value,
    /// The rearrangements from `value` to `origin`; empty if the elements have the same indices.
    pub steps: Vec<Step>,
}

/// The record of one function.
#[derive(Clone, Debug, Default)]
pub struct Trace {
    /// The places of the values that went in. A value may have several, and places in several functions.
    pub held: Vec<Held>,
    /// The values that lost a place, each with the pass that removed it.
    pub lost: Vec<(Value, &'static str)>,
    pub(super) replaced: IndexMap<Value, Value>,
}
