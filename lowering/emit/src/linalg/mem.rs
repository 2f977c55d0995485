//! A tensor of the text.

use optc_ir::{DType, Diagnostic};
use optc_layout::Digit;

pub(super) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// A tensor of the text: the elements of a value in the order of its memory.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) struct Mem {
    pub(super) name: String,
    /// The extents, or the numbers that stand for them; any row-major shape of as many elements is the same memory.
    pub(super) shape: Vec<u64>,
    pub(super) dtype: DType,
}

/// A tensor and the loops that its digits are of.
#[derive(Clone, Debug)]
pub(super) struct Port {
    pub(super) mem: Mem,
    pub(super) digits: Vec<Digit>,
}
