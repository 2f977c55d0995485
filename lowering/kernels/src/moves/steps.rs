//! Loops with constant strides in the source and in the target.

use std::ops::Range;

/// One loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loop {
    /// The number of steps.
    pub count: usize,
    /// Stride in the source.
    pub from: isize,
    /// Stride in the target; positive if there is more than one step.
    pub to: isize,
}

impl Loop {
    /// A single step.
    pub const ONCE: Loop = Loop {
        count: 1,
        from: 0,
        to: 0,
    };
}

/// Two nested loops, whose places are numbered consecutively.
#[derive(Clone, Copy, Debug)]
pub struct Repeats {
    /// The outer loop.
    pub outer: Loop,
    /// The inner loop.
    pub inner: Loop,
}

impl Repeats {
    /// A single place.
    pub const ONCE: Repeats = Repeats {
        outer: Loop::ONCE,
        inner: Loop::ONCE,
    };

    /// Number of places.
    pub fn count(self) -> usize {
        self.outer.count * self.inner.count
    }

    /// Addresses of some of the places, if the first one is at `from` and `to`.
    #[inline(always)]
    pub(super) fn places(
        self,
        range: Range<usize>,
        from: *const u8,
        to: *mut u8,
    ) -> impl Iterator<Item = (*const u8, *mut u8)> + use<> {
        let Repeats { outer, inner } = self;
        let (mut step, place) = match range.start {
            0 => (0, 0),
            start => (start % inner.count, start / inner.count),
        };
        let along = |of: [isize; 2]| of[0] * place as isize + of[1] * step as isize;
        let mut from = from.wrapping_offset(along([outer.from, inner.from]));
        let mut to = to.wrapping_offset(along([outer.to, inner.to]));
        let last = inner.count as isize - 1;
        range.map(move |_| {
            let at = (from, to);
            step += 1;
            let [next_from, next_to] = if step == inner.count {
                step = 0;
                [outer.from - inner.from * last, outer.to - inner.to * last]
            } else {
                [inner.from, inner.to]
            };
            from = from.wrapping_offset(next_from);
            to = to.wrapping_offset(next_to);
            at
        })
    }
}
