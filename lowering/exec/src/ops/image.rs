//! An operand that a kernel slides over, padded, and of bytes with four channels of a place together: what neighbouring positions read of any tap
//! lies one after another in it, and so no position brings its window by itself. What lies together is a cell.

use crate::kernels::product::{Byte, Quad, weave};
use crate::kernels::vectorized;
use crate::ops::slide::{DIMS, Run, strip};
use std::ops::Range;

/// Channels of a place that lie together.
pub(crate) const CHANNELS: usize = 4;
/// Cells that are copied at once, and so many behind the last place.
const AT_ONCE: usize = 16;

/// Cells of an image for each place of the operand, at most, if it has many.
const MOST_PADDED: usize = 4;
/// Cells that every image may have.
const LEAST: usize = 1 << 16;

/// How the channels of an operand become an image of cells.
#[derive(Debug)]
pub(crate) struct Image {
    /// Channels of a cell.
    together: usize,
    /// Where the channels begin.
    channels: Vec<i64>,
    /// From the offset of the first position to that of place 0.
    origin: i64,
    dims: [Dim; DIMS],
    /// Places from one position to the next along the last dimension, each of which is a phase, and places of a phase.
    step: usize,
    phase: usize,
    /// The first cells of the terms, in their order, and the last of these.
    taps: Vec<usize>,
    last: usize,
}

/// One dimension of an image.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Dim {
    /// The first place, and how many there are with padding.
    pub(crate) low: i32,
    pub(crate) extent: usize,
    /// Places of the operand.
    pub(crate) size: i32,
    /// Elements from one to the next.
    pub(crate) stride: i64,
}

impl Dim {
    /// One place, where there is no such dimension.
    pub(crate) const NONE: Dim = Dim {
        low: 0,
        extent: 1,
        size: 1,
        stride: 0,
    };
}

impl Image {
    /// The image of channels, so many of a cell, at taps that a kernel adds to a place, of each of which all channels are read; in terms a tap
    /// of all channels comes after another one if there are several in a cell, otherwise a channel at all taps.
    pub(crate) fn of(
        channels: Vec<i64>,
        together: usize,
        taps: &[[i32; DIMS]],
        dims: [Dim; DIMS],
        step: usize,
    ) -> Option<Image> {
        if !channels.len().is_multiple_of(together) || step == 0 {
            return None;
        }
        let [first, second, last] = dims;
        let origin = -dims
            .iter()
            .map(|dim| i64::from(dim.low) * dim.stride)
            .sum::<i64>();
        let mut image = Image {
            together,
            origin,
            dims,
            step,
            phase: last.extent.div_ceil(step),
            taps: Vec::new(),
            last: 0,
            channels,
        };
        let plane = image.row().checked_mul(second.extent)?;
        let plane = plane.checked_mul(first.extent)?;
        let groups = image.channels.len() / together;
        // Padding that windows only skip would be most of it.
        let places = dims.iter().map(|dim| dim.size as usize);
        let places = places.fold(groups, usize::saturating_mul);
        let most = places.saturating_mul(MOST_PADDED).max(LEAST);
        if most < plane.checked_mul(groups)?.checked_add(AT_ONCE)? {
            return None;
        }
        let taps: Vec<usize> = taps.iter().map(|by| image.tap(by)).collect();
        let planes = (0..groups).map(|group| group * plane);
        image.taps = match together {
            1 => planes
                .flat_map(|group| taps.iter().map(move |at| group + at))
                .collect(),
            _ => {
                let all = |at: &usize| planes.clone().map(|group| group + at).collect::<Vec<_>>();
                taps.iter().flat_map(all).collect()
            }
        };
        image.last = image.taps.iter().copied().max()?;
        Some(image)
    }

    /// The first cell of each term of one channel.
    pub(crate) fn taps(&self) -> Option<&[usize]> {
        (self.together == 1).then_some(&self.taps)
    }

    /// The place of the first vector of the positions of runs among the cells of a tap, and from there to the second one, if they are one or two
    /// vectors of so many cells that each lie in one run, or in what is behind it; all cells of all taps are there.
    pub(crate) fn vectors(&self, runs: &[Run], lanes: usize) -> Option<[usize; 2]> {
        let (mut begins, mut count) = ([0; 2], 0);
        for run in runs {
            let at = self.position(&run.place);
            for n in (0..run.count).step_by(lanes) {
                let inside = run.first + n == count * lanes && lanes <= AT_ONCE;
                let inside = inside && self.last + at + n + lanes <= self.cells();
                *begins.get_mut(count).filter(|_| inside)? = at + n;
                count += 1;
            }
        }
        match count {
            0 => None,
            1 => Some([begins[0], 0]),
            _ => Some([begins[0], begins[1].checked_sub(begins[0])?]),
        }
    }

    /// Cells of a row.
    fn row(&self) -> usize {
        self.step * self.phase
    }

    /// Cells of all channels, and of what is copied behind them.
    pub(crate) fn cells(&self) -> usize {
        let outer: usize = self.dims[..DIMS - 1].iter().map(|dim| dim.extent).product();
        self.channels.len() / self.together * outer * self.row() + AT_ONCE
    }

    /// Elements that making it needs besides.
    pub(crate) fn line(&self) -> usize {
        self.together * self.row()
    }

    /// Where a position lies among the cells of a tap.
    fn position(&self, place: &[i32; DIMS]) -> usize {
        let at = |d: usize| (place[d] - self.dims[d].low) as usize;
        self.rows(at) + at(DIMS - 1) / self.step
    }

    /// Where the cells of a tap begin.
    fn tap(&self, by: &[i32; DIMS]) -> usize {
        let at = |d: usize| by[d] as usize;
        let last = at(DIMS - 1);
        self.rows(at) + last % self.step * self.phase + last / self.step
    }

    /// Cells before a row.
    fn rows(&self, at: impl Fn(usize) -> usize) -> usize {
        (0..DIMS - 1).fold(0, |sum, d| sum * self.dims[d].extent + at(d)) * self.row()
    }

    /// Rows of the image one after another: the channels of their cells, and the offset of place 0 of the first position's, if there is one; `base`
    /// is the offset of the first position.
    fn rows_of<'a, C>(
        &'a self,
        base: i64,
        to: &'a mut [C],
    ) -> impl Iterator<Item = (&'a [i64], Option<i64>, &'a mut [C])> {
        let [first, second, _] = self.dims;
        let place = |at: usize, dim: Dim| {
            let place = at as i64 + i64::from(dim.low);
            let inside = (0..i64::from(dim.size)).contains(&place);
            inside.then_some(place * dim.stride)
        };
        let all = self.channels.chunks_exact(self.together);
        let all = all.flat_map(move |channels| {
            (0..first.extent * second.extent).map(move |n| {
                let (i, j) = (n / second.extent, n % second.extent);
                let at = place(i, first).zip(place(j, second));
                (channels, at.map(|(i, j)| base + self.origin + i + j))
            })
        });
        let rows = to.chunks_exact_mut(self.row());
        all.zip(rows).map(|((channels, at), to)| (channels, at, to))
    }

    /// The places of a row of one channel, phase by phase, `rest` where there is nothing; `at` is the offset of its place 0, if there is one.
    #[inline(always)]
    pub(crate) fn places<E: Copy>(&self, source: &[E], at: Option<i64>, rest: E, to: &mut [E]) {
        let Some(at) = at else {
            return to.fill(rest);
        };
        let last = self.dims[DIMS - 1];
        for (number, to) in to.chunks_exact_mut(self.phase).enumerate() {
            let first = last.low + number as i32;
            let at = at + i64::from(first) * last.stride;
            let steps = (self.step as i32, self.step as i64 * last.stride);
            strip(source, at, (first, last.size), steps, (to, rest));
        }
    }

    /// Makes the image of an operand whose cells are elements, row by row, of each of which `row` is told where [`Image::places`] finds it; `base` is
    /// the offset of the first position.
    pub(crate) fn of_elements<C>(
        &self,
        base: i64,
        to: &mut [C],
        mut row: impl FnMut(Option<i64>, &mut [C]),
    ) {
        vectorized(
            #[inline(always)]
            || {
                for (channels, at, to) in self.rows_of(base, to) {
                    let channel = channels.first();
                    row(at.zip(channel).map(|(at, channel)| at + channel), to);
                }
            },
        );
    }

    /// Makes that of bytes, four channels of which are a cell, `rest` where there is nothing; `lines` has room for as many rows.
    pub(crate) fn make<B: Byte>(
        &self,
        source: &[B],
        base: i64,
        rest: B,
        lines: &mut [B],
        to: &mut [Quad<B>],
    ) {
        let (row, last) = (self.row(), self.dims[DIMS - 1]);
        for (channels, at, to) in self.rows_of(base, to) {
            let Some(at) = at else {
                to.fill([rest; CHANNELS]);
                continue;
            };
            if self.step == 1 && last.stride == 1 {
                self.row_of(source, at, channels, rest, to);
                continue;
            }
            for (line, channel) in lines.chunks_exact_mut(row).zip(channels) {
                self.places(source, Some(at + channel), rest, line);
            }
            let mut four = lines.chunks_exact(row);
            weave(std::array::from_fn(|_| four.next().unwrap_or(&[])), to);
        }
    }

    /// Makes a row of channels whose places are neighbours; `at` is the offset of its place 0.
    fn row_of<B: Byte>(
        &self,
        source: &[B],
        at: i64,
        channels: &[i64],
        rest: B,
        to: &mut [Quad<B>],
    ) {
        let last = self.dims[DIMS - 1];
        let inside = |place: i32| place.clamp(0, last.size);
        let begin = inside(last.low);
        let count = (inside(last.low + to.len() as i32) - begin) as usize;
        let pad = (begin - last.low).clamp(0, to.len() as i32) as usize;
        let (low, to) = to.split_at_mut(pad);
        let (to, high) = to.split_at_mut(count);
        low.fill([rest; CHANNELS]);
        high.fill([rest; CHANNELS]);
        let line = |k: usize| {
            let at = (at + channels[k] + i64::from(begin)) as usize;
            &source[at..at + count]
        };
        if count != 0 {
            weave(std::array::from_fn(line), to);
        }
    }

    /// Brings the cells of some taps side by side for the positions of runs, `width` of each tap; what is behind the last position is anything.
    pub(crate) fn bring<Q: Copy>(
        &self,
        cells: &[Q],
        runs: &[Run],
        taps: Range<usize>,
        to: &mut [Q],
        width: usize,
    ) {
        let vectors: Vec<[usize; 2]> = runs
            .iter()
            .flat_map(|run| {
                let at = self.position(&run.place);
                let all = (0..run.count).step_by(AT_ONCE);
                all.map(move |n| [at + n, run.first + n])
            })
            .collect();
        for (number, tap) in self.taps[taps].iter().enumerate() {
            let (from, to) = (&cells[*tap..], &mut to[number * width..]);
            // What a run is copied too much of, the next one writes over, or the next tap.
            for &[at, place] in &vectors {
                to[place..place + AT_ONCE].copy_from_slice(&from[at..at + AT_ONCE]);
            }
        }
    }

    /// Cells that a panel has room for behind those of its last tap.
    pub(crate) const ROOM: usize = AT_ONCE;
}
