//! Places at which a kernel does the same.

use std::ops::Range;

/// Places in even steps that a kernel does the same at.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Repeats {
    pub(crate) count: usize,
    /// Bytes from one place to the next in the source.
    pub(crate) from: isize,
    /// The same in the target.
    pub(crate) to: isize,
}

impl Repeats {
    /// One place.
    pub(crate) const ONCE: Repeats = Repeats {
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
