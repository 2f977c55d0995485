//! A matrix whose rows lie along the target's memory and whose columns along the source's.

use std::ops::Range;

/// Where the rows or columns begin, in bytes.
#[derive(Clone, Debug)]
pub(crate) enum Offsets {
    Even { count: usize, step: isize },
    Listed(Vec<isize>),
}

impl Offsets {
    pub(crate) fn count(&self) -> usize {
        match self {
            Offsets::Even { count, .. } => *count,
            Offsets::Listed(list) => list.len(),
        }
    }

    /// Whether all of them are of some kind; of even ones, the step is.
    pub(crate) fn all(&self, is: impl Fn(isize) -> bool) -> bool {
        match self {
            Offsets::Even { step, .. } => is(*step),
            Offsets::Listed(list) => list.iter().all(|&offset| is(offset)),
        }
    }

    #[inline(always)]
    pub(crate) fn at(&self, i: usize) -> isize {
        match self {
            Offsets::Even { step, .. } => step * i as isize,
            Offsets::Listed(list) => list[i],
        }
    }
}

/// Element (r, c) goes from `rows[r] + c * unit` to `cols[c] + r * unit`.
#[derive(Clone, Debug)]
pub(crate) struct Matrix {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub(crate) unit: usize,
    /// Where each row begins in the source.
    pub(crate) rows: Offsets,
    /// Where each column begins in the target.
    pub(crate) cols: Offsets,
    /// Whether whole lines of the source are read at once rather than pieces of more rows one after the other.
    pub(crate) lines: bool,
}

/// Some rows and columns of a matrix at a place.
pub(super) struct MatrixPart<'a> {
    pub(super) matrix: &'a Matrix,
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}
