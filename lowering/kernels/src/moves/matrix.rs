//! A transposition: rows are contiguous in the source, columns in the target.

use std::ops::Range;

/// Offsets of rows or columns, in bytes.
#[derive(Clone, Debug)]
pub enum Offsets {
    /// Steps of one length.
    Even {
        /// The number of steps.
        count: usize,
        /// Their length.
        step: isize,
    },
    /// One offset for each step.
    Listed(Vec<isize>),
}

impl Offsets {
    /// The number of steps.
    pub fn count(&self) -> usize {
        match self {
            Offsets::Even { count, .. } => *count,
            Offsets::Listed(list) => list.len(),
        }
    }

    /// Returns whether all offsets satisfy `is`; of a constant stride, whether the stride does.
    pub fn all(&self, is: impl Fn(isize) -> bool) -> bool {
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

/// Element (r, c) is moved from `rows[r] + c * unit` to `cols[c] + r * unit`.
#[derive(Clone, Debug)]
pub struct Matrix {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub unit: usize,
    /// Offset of each row in the source.
    pub rows: Offsets,
    /// Offset of each column in the target.
    pub cols: Offsets,
    /// True if whole cache lines of the source are read at once, rather than pieces of more rows.
    pub lines: bool,
}

/// Some rows and columns of a matrix, relative to two addresses.
pub(super) struct MatrixPart<'a> {
    pub(super) matrix: &'a Matrix,
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}
