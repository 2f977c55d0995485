//! A tensor in the MLIR text.

use optc_ir::{DType, Diagnostic};
use optc_layout::Digit;

pub(super) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// A tensor in the MLIR text: the elements of a value in the order of its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mem {
    pub(super) name: String,
    /// The extents, or their stand-in numbers. Any row-major shape of the same volume denotes the same memory.
    pub(super) shape: Vec<u64>,
    pub(super) dtype: DType,
}

/// A tensor, with its digits in terms of loops.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) mem: Mem,
    pub(super) digits: Vec<Digit>,
}
