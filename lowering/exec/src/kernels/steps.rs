//! Places in even steps on both sides.

use std::ops::Range;

/// One loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Loop {
    pub(crate) count: usize,
    /// What a step adds to the place in the source.
    pub(crate) from: isize,
    /// What a step adds to the place in the target; positive where there are several.
    pub(crate) to: isize,
}

impl Loop {
    /// One place.
    pub(crate) const ONCE: Loop = Loop {
        count: 1,
        from: 0,
        to: 0,
    };

    /// Where some of the places are, if the first one is at `from` and `to`.
    #[inline(always)]
    pub(super) fn places(
        self,
        range: Range<usize>,
        from: *const u8,
        to: *mut u8,
    ) -> impl Iterator<Item = (*const u8, *mut u8)> + use<> {
        range.map(move |i| {
            let i = i as isize;
            (
                from.wrapping_offset(self.from * i),
                to.wrapping_offset(self.to * i),
            )
        })
    }
}
