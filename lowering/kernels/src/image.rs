//! Padded copy of an operand that a convolution's window slides over, from which im2col panels are copied in whole vectors.
//!
//! A cell holds the elements that lie together: one channel, or four channels of bytes (as in oneDNN's `nChw4c`). For a row
//! of the operand `a b c d` with padding 1 on each side, one channel and stride 1, the row of the image is `0 a b c d 0`.
//! With stride 2 it is cut into phases, `0 b d` and `a c 0`. Either way the elements that consecutive positions of the
//! result read at one tap are contiguous.

use crate::geometry::{DIMS, Run, copy_padded};
use crate::product::{Byte, Quad, interleave};
use crate::vectorized::vectorized;
use std::ops::Range;

/// Channels of a cell of bytes.
pub const CHANNELS: usize = 4;
/// Cells that are copied at once, and cells of room behind the last place.
const AT_ONCE: usize = 16;

/// Most cells of a large image for each place of the operand.
const MOST_PADDED: usize = 4;
/// Cells that every image may have.
const LEAST: usize = 1 << 16;

/// The copy of an operand's channels to an image of cells.
#[derive(Debug)]
pub struct Image {
    /// Channels of a cell.
    channels_per_cell: usize,
    /// Offset of each channel.
    channels: Vec<i64>,
    /// Offset of place 0 relative to the offset of the first position.
    origin: i64,
    dims: [Dim; DIMS],
    /// Stride of the convolution along the last dimension, which is the number of phases, and places of one phase.
    step: usize,
    phase: usize,
    /// The first cell of each term, in the order of the terms, and the greatest of them.
    taps: Vec<usize>,
    last: usize,
}

/// One dimension of an image.
#[derive(Clone, Copy, Debug)]
pub struct Dim {
    /// The first place, negative with padding.
    pub low: i32,
    /// The number of places with padding.
    pub extent: usize,
    /// Places of the operand.
    pub size: i32,
    /// Stride in elements.
    pub stride: i64,
}

impl Dim {
    /// A dimension of extent 1, for those that do not exist.
    pub const NONE: Dim = Dim {
        low: 0,
        extent: 1,
        size: 1,
        stride: 0,
    };
}

impl Image {
    /// The image of channels, `channels_per_cell` of them in a cell. `taps` are the offsets in places that the kernel adds
    /// to a position; each tap reads all channels. Terms are ordered by tap, then channel, if a cell has several channels;
    /// otherwise by channel, then tap. `None` if the channels do not fill whole cells or most of the image would be
    /// padding.
    pub fn of(
        channels: Vec<i64>,
        channels_per_cell: usize,
        taps: &[[i32; DIMS]],
        dims: [Dim; DIMS],
        step: usize,
    ) -> Option<Image> {
        if !channels.len().is_multiple_of(channels_per_cell) || step == 0 {
            return None;
        }
        let [first, second, last] = dims;
        let origin = -dims
            .iter()
            .map(|dim| i64::from(dim.low) * dim.stride)
            .sum::<i64>();
        let mut image = Image {
            channels_per_cell,
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
        let groups = image.channels.len() / channels_per_cell;
        // Most of the image would be padding that windows skip.
        let places = dims.iter().map(|dim| dim.size as usize);
        let places = places.fold(groups, usize::saturating_mul);
        let most = places.saturating_mul(MOST_PADDED).max(LEAST);
        if most < plane.checked_mul(groups)?.checked_add(AT_ONCE)? {
            return None;
        }
        let taps: Vec<usize> = taps.iter().map(|by| image.tap(by)).collect();
        let planes = (0..groups).map(|group| group * plane);
        image.taps = match channels_per_cell {
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

    /// The first cell of each term, if a cell has one channel.
    pub(crate) fn taps(&self) -> Option<&[usize]> {
        (self.channels_per_cell == 1).then_some(&self.taps)
    }

    /// Offset of the first vector of some positions among the cells of a tap, and the distance from it to the second one.
    /// The positions have to be one or two vectors of `lanes` cells, each inside of one run or of the cells behind it, and
    /// the image has to contain these cells at every tap; otherwise `None`.
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

    /// Cells of all channels, and of the room behind them.
    pub(crate) fn cells(&self) -> usize {
        let outer: usize = self.dims[..DIMS - 1].iter().map(|dim| dim.extent).product();
        self.channels.len() / self.channels_per_cell * outer * self.row() + AT_ONCE
    }

    /// Elements of scratch memory that making the image needs.
    pub(crate) fn line(&self) -> usize {
        self.channels_per_cell * self.row()
    }

    /// Offset of a position among the cells of a tap.
    fn position(&self, place: &[i32; DIMS]) -> usize {
        let at = |d: usize| (place[d] - self.dims[d].low) as usize;
        self.rows(at) + at(DIMS - 1) / self.step
    }

    /// The first cell of a tap.
    fn tap(&self, by: &[i32; DIMS]) -> usize {
        let at = |d: usize| by[d] as usize;
        let last = at(DIMS - 1);
        self.rows(at) + last % self.step * self.phase + last / self.step
    }

    /// Cells before a row.
    fn rows(&self, at: impl Fn(usize) -> usize) -> usize {
        (0..DIMS - 1).fold(0, |sum, d| sum * self.dims[d].extent + at(d)) * self.row()
    }

    /// Rows of the image in order: the channels of their cells and the offset of place 0, `None` if the whole row is
    /// padding. `base` is the offset of the first position.
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
        let all = self.channels.chunks_exact(self.channels_per_cell);
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

    /// Copies a row of one channel, phase by phase, with `rest` as padding. `at` is the offset of place 0, `None` if the
    /// whole row is padding.
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
            copy_padded(source, at, (first, last.size), steps, (to, rest));
        }
    }

    /// Makes the image of an operand whose cells are elements. `row` is called for each row with the offset that
    /// [`Image::places`] takes; `base` is the offset of the first position.
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

    /// Makes the image of bytes, four channels of which are a cell, with `rest` as padding. `lines` has room for a row of
    /// each of the four channels.
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
            interleave(std::array::from_fn(|_| four.next().unwrap_or(&[])), to);
        }
    }

    /// Makes a row of channels whose places are contiguous; `at` is the offset of place 0.
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
            interleave(std::array::from_fn(line), to);
        }
    }

    /// Packs the cells of some taps for the positions of runs, `width` cells of each tap; cells behind the last position
    /// are unspecified.
    pub(crate) fn pack<Q: Copy>(
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
            // Cells that are copied beyond a run are overwritten by the next run or the next tap.
            for &[at, place] in &vectors {
                to[place..place + AT_ONCE].copy_from_slice(&from[at..at + AT_ONCE]);
            }
        }
    }

    /// Room in cells that a panel needs behind its last tap.
    pub(crate) const ROOM: usize = AT_ONCE;
}
