//! Runs of bytes that lie in even steps.

use super::steps::Repeats;
use std::ops::Range;

/// Runs of `len` bytes.
#[derive(Clone, Debug)]
pub(crate) struct Runs {
    pub(crate) len: usize,
    pub(crate) count: usize,
    /// Bytes from one run to the next in the source.
    pub(crate) from: isize,
    /// The same in the target.
    pub(crate) to: isize,
    /// The same runs at other places.
    pub(crate) repeats: Repeats,
}

/// Runs `range` at some of the places.
#[derive(Clone)]
pub(super) struct RunsPart<'a> {
    pub(super) runs: &'a Runs,
    pub(super) range: Range<usize>,
    pub(super) repeats: Range<usize>,
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}

impl RunsPart<'_> {
    /// Where the first run begins on both sides, at each place.
    #[inline(always)]
    pub(super) fn places(&self) -> impl Iterator<Item = (*const u8, *mut u8)> + use<> {
        self.runs
            .repeats
            .places(self.repeats.clone(), self.from, self.to)
    }
}
