//! Copies of runs of bytes at constant strides.

use super::steps::Repeats;
use std::ops::Range;

/// Runs of `len` bytes.
#[derive(Clone, Debug)]
pub struct Runs {
    /// Bytes of a run.
    pub len: usize,
    /// The number of runs.
    pub count: usize,
    /// Stride of runs in the source, in bytes.
    pub from: isize,
    /// Stride of runs in the target, in bytes.
    pub to: isize,
    /// Loops around the runs.
    pub repeats: Repeats,
}

/// Runs `range` at some of the repeats.
#[derive(Clone)]
pub(super) struct RunsPart<'a> {
    pub(super) runs: &'a Runs,
    pub(super) range: Range<usize>,
    pub(super) repeats: Range<usize>,
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}

impl RunsPart<'_> {
    /// Start of the first run in both buffers, at each repeat.
    #[inline(always)]
    pub(super) fn places(&self) -> impl Iterator<Item = (*const u8, *mut u8)> + use<> {
        self.runs
            .repeats
            .places(self.repeats.clone(), self.from, self.to)
    }
}
