//! The window of a convolution over an operand: elements inside of bounds, and im2col packing of panels.

use crate::geometry::{DIMS, Run, copy_padded};
use crate::image::Image;
use crate::product::PackElement;
use std::ops::Range;

/// Rows or columns of a product that are positions of the result; the terms are read around each position.
#[derive(Debug)]
pub struct Window {
    /// The operand that the window slides over.
    pub side: usize,
    /// Coordinates in the operand of each position; the last dimension varies fastest.
    pub positions: Vec<[i32; DIMS]>,
    /// Offsets in coordinates of each term.
    pub terms: Vec<[i32; DIMS]>,
    /// Sizes of the operand.
    pub sizes: [i32; DIMS],
    /// Distance between positions along the last dimension, in places.
    pub step: i32,
    /// Distance between positions along the last dimension, in elements of the buffer.
    pub stride: i64,
    /// Consecutive terms at one position of the kernel (the channels).
    pub channels: usize,
    /// True if these terms are contiguous in the buffer.
    pub contiguous: bool,
    /// The padded image that panels of positions are copied from; without one they are copied from the buffer.
    pub image: Option<Image>,
}

/// Least number of contiguous terms for rows to be read in place.
const FEWEST: usize = 32;

/// Terms of a block that are contiguous in the buffer across taps of the last dimension.
#[derive(Debug)]
pub(crate) struct Line {
    /// Index in the block of the first of them.
    first: usize,
    taps: usize,
    /// Terms of each tap.
    width: usize,
    /// Offset of the first tap, in coordinates and in elements.
    by: [i32; DIMS],
    offset: i64,
}

impl Window {
    /// Returns whether rows are read in place.
    pub(crate) fn direct(&self) -> bool {
        self.contiguous && FEWEST <= self.channels
    }

    /// Returns whether a term of a position is inside of the operand.
    pub(crate) fn in_bounds(&self, position: usize, term: usize) -> bool {
        let (place, by) = (&self.positions[position], &self.terms[term]);
        let inside = |d: usize| (0..self.sizes[d]).contains(&(place[d] + by[d]));
        (0..DIMS).all(inside)
    }

    /// Runs of positions that are consecutive along the last dimension.
    pub(crate) fn runs(&self, positions: &Range<usize>, offsets: &[[i64; 4]]) -> Vec<Run> {
        let mut runs: Vec<Run> = Vec::new();
        for (i, position) in positions.clone().enumerate() {
            let place = self.positions[position];
            let offset = offsets[position][self.side];
            if let Some(last) = runs.last_mut() {
                let n = last.count as i32;
                let mut next = last.place;
                next[DIMS - 1] += n * self.step;
                if next == place && last.offset + i64::from(n) * self.stride == offset {
                    last.count += 1;
                    continue;
                }
            }
            runs.push(Run {
                first: i,
                count: 1,
                place,
                offset,
            });
        }
        runs
    }

    /// Packs terms of positions (im2col), with `rest` as padding. `offsets` and `terms` are the offsets of positions and of
    /// terms in the buffer.
    pub(crate) fn pack<E: PackElement>(
        &self,
        source: &[E],
        base: i64,
        (positions, block): (Range<usize>, Range<usize>),
        [offsets, terms]: [&[[i64; 4]]; 2],
        (to, rest): (&mut [E], E),
        width: usize,
    ) {
        let runs = self.runs(&positions, offsets);
        if positions.len() < width {
            to.fill(rest);
        }
        for (to, term) in to.chunks_exact_mut(width).zip(block) {
            let by = &self.terms[term];
            let offset = base + terms[term][self.side];
            for run in &runs {
                let to = &mut to[run.first..run.first + run.count];
                self.run(source, run, by, offset + run.offset, (to, rest));
            }
        }
    }

    /// The contiguous lines of a block of terms.
    pub(crate) fn lines(&self, block: Range<usize>, terms: &[[i64; 4]]) -> Vec<Line> {
        let mut lines: Vec<Line> = Vec::new();
        let mut at = block.start;
        while at < block.end {
            let end = (at / self.channels + 1) * self.channels;
            let width = end.min(block.end) - at;
            let (by, offset) = (self.terms[at], terms[at][self.side]);
            let goes_on = lines.last_mut().filter(|line| {
                let taps = line.taps as i32;
                let mut next = line.by;
                next[DIMS - 1] += taps;
                line.width == width
                    && next == by
                    && line.offset + (line.taps * line.width) as i64 == offset
            });
            match goes_on {
                Some(line) => line.taps += 1,
                None => lines.push(Line {
                    first: at - block.start,
                    taps: 1,
                    width,
                    by,
                    offset,
                }),
            }
            at += width;
        }
        lines
    }

    /// Packs the terms of one position, with `rest` as padding; `base` is the offset of the position.
    pub(crate) fn row<E: PackElement>(
        &self,
        source: &[E],
        base: i64,
        position: usize,
        lines: &[Line],
        rest: E,
        to: &mut [E],
    ) {
        let place = &self.positions[position];
        let size = self.sizes[DIMS - 1];
        for line in lines {
            let to = &mut to[line.first..line.first + line.taps * line.width];
            let outside = |d: usize| !(0..self.sizes[d]).contains(&(place[d] + line.by[d]));
            if (0..DIMS - 1).any(outside) {
                to.fill(rest);
                continue;
            }
            let first = place[DIMS - 1] + line.by[DIMS - 1];
            let low = ((-first).max(0) as usize).min(line.taps);
            let high = ((size - first).max(0) as usize).clamp(low, line.taps);
            let at = base + line.offset + (low * line.width) as i64;
            to[..low * line.width].fill(rest);
            to[high * line.width..].fill(rest);
            let to = &mut to[low * line.width..high * line.width];
            if !to.is_empty() {
                to.copy_from_slice(&source[at as usize..at as usize + to.len()]);
            }
        }
    }

    #[inline]
    fn run<E: PackElement>(
        &self,
        source: &[E],
        run: &Run,
        by: &[i32; DIMS],
        offset: i64,
        (to, rest): (&mut [E], E),
    ) {
        let outside = |d: usize| !(0..self.sizes[d]).contains(&(run.place[d] + by[d]));
        if (0..DIMS - 1).any(outside) {
            return to.fill(rest);
        }
        let first = run.place[DIMS - 1] + by[DIMS - 1];
        let ends = (first, self.sizes[DIMS - 1]);
        copy_padded(source, offset, ends, (self.step, self.stride), (to, rest));
    }
}
