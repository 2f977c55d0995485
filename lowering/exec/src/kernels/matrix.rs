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

/// Offsets of one form, so that a kernel is compiled for it.
pub(super) trait Places: Copy {
    /// Whether places are in even steps.
    const EVEN: bool;

    /// Where place `first` is, and the places from there on, of which `count` are asked for at most.
    fn part(self, first: usize, count: usize) -> (isize, Self);

    /// What the places from `first` on have in common.
    fn group(self, first: usize) -> isize;

    /// How far from there place `first + i` is.
    fn within(self, first: usize, i: usize) -> isize;

    /// From one place to the next, if they are even.
    fn step(self) -> isize;
}

/// Places in even steps.
#[derive(Clone, Copy)]
pub(super) struct Even(pub(super) isize);

impl Places for Even {
    const EVEN: bool = true;

    #[inline(always)]
    fn part(self, first: usize, _: usize) -> (isize, Self) {
        (self.group(first), self)
    }

    #[inline(always)]
    fn group(self, first: usize) -> isize {
        self.0 * first as isize
    }

    #[inline(always)]
    fn within(self, _: usize, i: usize) -> isize {
        self.0 * i as isize
    }

    #[inline(always)]
    fn step(self) -> isize {
        self.0
    }
}

/// Places that are known one by one.
impl Places for &[isize] {
    const EVEN: bool = false;

    #[inline(always)]
    fn part(self, first: usize, count: usize) -> (isize, Self) {
        (0, &self[first..][..count])
    }

    #[inline(always)]
    fn group(self, _: usize) -> isize {
        0
    }

    #[inline(always)]
    fn within(self, first: usize, i: usize) -> isize {
        self[first + i]
    }

    #[inline(always)]
    fn step(self) -> isize {
        0
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
}

/// Some rows and columns of a matrix at a place.
pub(super) struct MatrixPart<'a> {
    pub(super) matrix: &'a Matrix,
    pub(super) rows: Range<usize>,
    pub(super) cols: Range<usize>,
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}
