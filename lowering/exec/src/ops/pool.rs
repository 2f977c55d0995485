//! Max and average pooling, for values in any layout.
//!
//! If columns are contiguous, the rows of a window are combined first, in vectors, and then the columns. A 2x2 max pool of
//! the rows `1 5 2 0` and `3 4 9 1` takes the maximum of both rows, `3 5 9 1`, and then of pairs of columns, `5 9`. If
//! channels are contiguous, each position combines vectors of channels.

use crate::error::StepError;
use crate::memory::In;
use crate::ops::kernel::{Call, Kernel, Site};
use half::{bf16, f16};
use indexmap::{IndexMap, IndexSet};
use optc_ir::Operation;
use optc_kernels::element::Float;
use optc_kernels::element::{Kind, elements, elements_mut};
use optc_kernels::gemm::{Scratch, within};
use optc_kernels::geometry::{reach, step};
use optc_kernels::math::greater;
use optc_kernels::vectorized::vectorized_wide;
use optc_ops::Slide;
use optc_ops::{AvgPool, MaxPool};
use std::ops::Range;

/// Contiguous channels that are combined at once.
const CHANNELS: usize = 16;

/// Positions that are computed at once.
const LINE: usize = 16;

/// Windows over rows whose columns are contiguous: rows are combined first, and then columns.
#[derive(Debug)]
struct RowWindows {
    rows: Vec<Position>,
    /// Offsets of rows in the operand.
    reads: Vec<i64>,
    /// Columns of the operand and of the result.
    input: usize,
    output: usize,
    /// Padding before a row, and columns of a padded row that windows read.
    low: usize,
    span: usize,
    stride: usize,
    /// Offsets of a window's columns.
    taps: Vec<usize>,
    /// Reciprocals for averages by number of rows, padded to whole [`LINE`]s.
    factors: IndexMap<usize, Vec<f32>>,
}

/// A position or row of the result.
#[derive(Debug)]
struct Position {
    to: i64,
    /// Range of the offsets that it reads.
    reads: Range<usize>,
    /// Number of elements or rows that count for an average.
    count: usize,
}

/// The factor of an average over `count` elements.
fn factor(count: usize) -> f32 {
    (1.0 / count as f64) as f32
}

impl RowWindows {
    /// The windows of a result with base offset `yb`; `None` if columns are not contiguous.
    fn of(
        slides: &[Slide],
        [xt, yt]: [&[Vec<i64>]; 2],
        yb: i64,
        padding: bool,
    ) -> Option<RowWindows> {
        let (slide, outer) = slides.split_last()?;
        let (x, y) = (xt.last()?, yt.last()?);
        let (input, output) = (x.len(), y.len());
        let most = (input + output).checked_mul(16)?;
        let last = (output - 1).checked_mul(slide.stride)?;
        let span = last.checked_add((slide.kernel - 1).checked_mul(slide.dilation)? + 1)?;
        if step(x) != Some(1) || step(y) != Some(1) || most < span || most < slide.kernel {
            return None;
        }
        let (rows, reads) = positions(outer, [xt, yt], yb, padding);
        let end = slide.low + input + slide.high;
        let counts = (0..output).map(|at| {
            let places = (0..slide.kernel).map(|k| at * slide.stride + k * slide.dilation);
            match padding {
                true => places.filter(|&p| p < end).count(),
                false => places
                    .filter(|p| (slide.low..slide.low + input).contains(p))
                    .count(),
            }
        });
        let counts: Vec<usize> = counts.collect();
        let of = |lines: usize| {
            let factors = counts.iter().map(|&n| factor(lines * n));
            let rest = output.next_multiple_of(LINE) - output;
            factors.chain(std::iter::repeat_n(0.0, rest)).collect()
        };
        let factors = rows.iter().map(|row| row.count);
        let factors: IndexSet<usize> = factors.collect();
        Some(RowWindows {
            factors: factors
                .into_iter()
                .map(|lines| (lines, of(lines)))
                .collect(),
            rows,
            reads,
            input,
            output,
            low: slide.low,
            span,
            stride: slide.stride,
            taps: (0..slide.kernel).map(|k| k * slide.dilation).collect(),
        })
    }

    /// Elements of a padded row with room for the last vector.
    fn room(&self) -> usize {
        self.span + LINE * (self.stride + 1)
    }

    /// Computes the windows of one channel.
    #[inline(always)]
    fn run<E: Float, const MEAN: bool>(
        &self,
        [to, from]: [i64; 2],
        out: &mut [E],
        x: &[E],
        line: &mut [f32],
    ) {
        let count = self.input.min(self.span.saturating_sub(self.low));
        for row in &self.rows {
            let reads = &self.reads[row.reads.clone()];
            let own = &mut line[self.low.min(self.span)..][..count];
            let lines = reads
                .iter()
                .map(|read| &x[(from + read) as usize..][..count]);
            combined::<_, MEAN>(own, lines);
            let to = (to + row.to) as usize;
            let out = &mut out[to..to + self.output];
            let factors = self.factors.get(&row.count).filter(|_| MEAN);
            // The loop that propagates NaN is slower, so it runs only if the row has one.
            if !MEAN && own.iter().fold(false, |none, x| none | x.is_nan()) {
                self.cross::<_, MEAN>(line, out, factors, combine::<MEAN>);
            } else {
                self.cross::<_, MEAN>(line, out, factors, numbers::<MEAN>);
            }
        }
    }

    /// Combines the columns of a row's windows.
    #[inline(always)]
    fn cross<E: Float, const MEAN: bool>(
        &self,
        line: &[f32],
        out: &mut [E],
        factors: Option<&Vec<f32>>,
        combine: impl Fn(f32, f32) -> f32,
    ) {
        for (i, out) in out.chunks_mut(LINE).enumerate() {
            let first = i * LINE;
            let from = &line[first * self.stride..];
            let start = start::<MEAN>();
            let mut all = match self.stride {
                1 => windows::<LINE, 1>(from, &self.taps, start, &combine),
                2 => windows::<{ 2 * LINE }, 2>(from, &self.taps, start, &combine),
                stride => {
                    let mut all = [start; LINE];
                    for &tap in &self.taps {
                        let line = from[tap..].iter().step_by(stride);
                        all.iter_mut()
                            .zip(line)
                            .for_each(|(all, x)| *all = combine(*all, *x));
                    }
                    all
                }
            };
            if let Some(factors) = factors.and_then(|list| list[first..].first_chunk::<LINE>()) {
                for i in 0..LINE {
                    all[i] *= factors[i];
                }
            }
            if let Some(out) = out.first_chunk_mut::<LINE>() {
                for i in 0..LINE {
                    out[i] = E::with(all[i], E::zeroed());
                }
            } else {
                out.iter_mut()
                    .zip(all)
                    .for_each(|(out, x)| *out = E::with(x, E::zeroed()));
            }
        }
    }
}

/// The neutral element of the combination: of the maximum, or with `MEAN` of the sum.
const fn start<const MEAN: bool>() -> f32 {
    if MEAN { 0.0 } else { f32::NEG_INFINITY }
}

/// Combines two numbers; NaN propagates.
#[inline(always)]
fn combine<const MEAN: bool>(a: f32, b: f32) -> f32 {
    if MEAN { a + b } else { greater(a, b) }
}

/// Combines two numbers that are not NaN.
#[inline(always)]
fn numbers<const MEAN: bool>(a: f32, b: f32) -> f32 {
    match MEAN {
        true => a + b,
        false if b < a => a,
        false => b,
    }
}

/// Combines rows in vectors; the last vector overlaps the previous one.
#[inline(always)]
fn combined<'a, E: Float, const MEAN: bool>(
    own: &mut [f32],
    lines: impl Iterator<Item = &'a [E]> + Clone,
) {
    let Some(last) = own.len().checked_sub(LINE) else {
        own.fill(start::<MEAN>());
        for line in lines {
            for (own, x) in own.iter_mut().zip(line) {
                *own = combine::<MEAN>(*own, x.float());
            }
        }
        return;
    };
    for at in (0..last).step_by(LINE).chain([last]) {
        let mut all = [start::<MEAN>(); LINE];
        for line in lines.clone() {
            let line = line[at..].first_chunk::<LINE>();
            let line = line.expect("lines are as long as the one that they become");
            for i in 0..LINE {
                all[i] = combine::<MEAN>(all[i], line[i].float());
            }
        }
        own[at..at + LINE].copy_from_slice(&all);
    }
}

/// Combines the columns `taps` of windows that are `STEP` apart, reading `N` elements for each tap.
#[inline(always)]
fn windows<const N: usize, const STEP: usize>(
    line: &[f32],
    taps: &[usize],
    start: f32,
    combine: impl Fn(f32, f32) -> f32,
) -> [f32; LINE] {
    let mut all = [start; LINE];
    for &tap in taps {
        // Reads one element more than needed, so that whole vectors are loaded and every `STEP`-th element picked.
        let x = line[tap..].first_chunk::<N>();
        let x = x.expect("lines have room for the last vector");
        for i in 0..LINE {
            all[i] = combine(all[i], x[i * STEP]);
        }
    }
    all
}

/// Positions of the result over all spatial dimensions in `slides`, and the offsets that they read.
fn positions(
    slides: &[Slide],
    [xt, yt]: [&[Vec<i64>]; 2],
    yb: i64,
    padding: bool,
) -> (Vec<Position>, Vec<i64>) {
    let mut positions = vec![(yb, vec![0i64], 1usize)];
    for (d, slide) in slides.iter().enumerate() {
        let (x, y) = (&xt[2 + d], &yt[2 + d]);
        let end = slide.low + x.len() + slide.high;
        let mut next = Vec::with_capacity(positions.len() * y.len());
        for (to, reads, declared) in &positions {
            for (at, offset) in y.iter().enumerate() {
                let places = (0..slide.kernel).map(|k| at * slide.stride + k * slide.dilation);
                let inside = places
                    .clone()
                    .filter_map(|p| x.get(p.checked_sub(slide.low)?));
                let inside: Vec<i64> = inside.copied().collect();
                let all = reads.iter().flat_map(|r| inside.iter().map(move |i| r + i));
                let count = places.filter(|&p| p < end).count();
                next.push((to + offset, all.collect(), declared * count));
            }
        }
        positions = next;
    }
    let mut reads = Vec::new();
    let positions = positions.into_iter().map(|(to, own, declared)| {
        let count = if padding { declared } else { own.len() };
        let from = reads.len();
        reads.extend(own);
        Position {
            to,
            reads: from..reads.len(),
            count,
        }
    });
    (positions.collect(), reads)
}

/// Windows over spatial dimensions.
#[derive(Debug)]
pub(crate) struct Pool {
    kind: Kind,
    greatest: bool,
    /// Offsets of images and of channels, in the result and in the operand.
    images: Vec<[i64; 2]>,
    channels: Vec<[i64; 2]>,
    /// True if channels are contiguous in both.
    neighbours: bool,
    by_lines: Option<RowWindows>,
    positions: Vec<Position>,
    reads: Vec<i64>,
    reach: [(i64, i64); 2],
}

impl Pool {
    pub(crate) fn of(site: &Site<'_>) -> Option<Pool> {
        let all = site.all()?;
        let [x, y] = all[..] else { return None };
        if x.kind() != y.kind() {
            return None;
        }
        let of = site.func.op_ref(site.op);
        let (greatest, slides, padding) = match &*site.data().name {
            MaxPool::NAME => (true, MaxPool::of(&of).ok()?.slides(&of).ok()?, false),
            AvgPool::NAME => {
                let pool = AvgPool::of(&of).ok()?;
                (false, pool.slides(&of).ok()?, pool.count_include_pad)
            }
            _ => return None,
        };
        let kind = x.kind()?;
        if kind == Kind::I32 || !greatest && !kind.is_float() {
            return None;
        }
        let (xb, xt) = (*x.access).clone().into_sum()?;
        let (yb, yt) = (*y.access).clone().into_sum()?;
        if xt.iter().chain(&yt).any(Vec::is_empty) || xt.len() != slides.len() + 2 {
            return None;
        }
        let neighbours = step(&xt[1]) == Some(1) && step(&yt[1]) == Some(1);
        let by_lines = if neighbours {
            None
        } else {
            RowWindows::of(&slides, [&xt, &yt], yb, padding)
        };
        // By rows, no list of all positions is needed.
        let (positions, reads) = match &by_lines {
            Some(_) => Default::default(),
            None => positions(&slides, [&xt, &yt], yb, padding),
        };
        let pairs = |d: usize| yt[d].iter().zip(&xt[d]).map(|(&y, &x)| [y, x]).collect();
        let mut images: Vec<[i64; 2]> = pairs(0);
        images.iter_mut().for_each(|image| image[1] += xb);
        Some(Pool {
            kind,
            greatest,
            images,
            channels: pairs(1),
            neighbours,
            by_lines,
            positions,
            reads,
            reach: [reach(yb, &yt), reach(xb, &xt)],
        })
    }

    #[inline(always)]
    fn all<E: Float, const MEAN: bool>(&self, out: &mut [E], x: &[E]) {
        if let Some(lines) = &self.by_lines {
            let mut line = vec![start::<MEAN>(); lines.room()];
            for image in &self.images {
                for channel in &self.channels {
                    let places = [image[0] + channel[0], image[1] + channel[1]];
                    lines.run::<_, MEAN>(places, out, x, &mut line);
                }
            }
            return;
        }
        let (start, combine) = (start::<MEAN>(), combine::<MEAN>);
        let side = if self.neighbours {
            self.channels.len() / CHANNELS * CHANNELS
        } else {
            0
        };
        for image in &self.images {
            for position in &self.positions {
                let reads = &self.reads[position.reads.clone()];
                let factor = match MEAN {
                    true => factor(position.count),
                    false => 1.0,
                };
                for first in (0..side).step_by(CHANNELS) {
                    let [to, from] = self.channels[first];
                    let mut all = [start; CHANNELS];
                    for read in reads {
                        let at = (image[1] + from + read) as usize;
                        let x = &x[at..at + CHANNELS];
                        for (all, x) in all.iter_mut().zip(x) {
                            *all = combine(*all, x.float());
                        }
                    }
                    let at = (image[0] + to + position.to) as usize;
                    let out = &mut out[at..at + CHANNELS];
                    out.iter_mut()
                        .zip(all)
                        .for_each(|(out, x)| *out = E::with(x * factor, E::zeroed()));
                }
                for [to, from] in &self.channels[side..] {
                    let from = image[1] + from;
                    let elements = reads.iter().map(|r| x[(from + r) as usize].float());
                    let found = elements.fold(start, &combine) * factor;
                    out[(image[0] + to + position.to) as usize] = E::with(found, E::zeroed());
                }
            }
        }
    }
}

impl Kernel for Pool {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn scratch(&self) -> Scratch {
        let room = self.by_lines.as_ref().map_or(0, RowWindows::room);
        [0, 0, 0, room * size_of::<f32>()]
    }

    fn run(&self, Call { ins, out, .. }: Call<'_>) -> Result<(), StepError> {
        let [In::Bytes(x)] = ins else {
            return Err(StepError::OperandWrittenOver);
        };
        match self.kind {
            Kind::F16 => self.typed::<f16>(out, x),
            Kind::BF16 => self.typed::<bf16>(out, x),
            Kind::I8 => self.typed::<i8>(out, x),
            Kind::U8 => self.typed::<u8>(out, x),
            Kind::F32 | Kind::I32 => self.typed::<f32>(out, x),
        }
    }
}

impl Pool {
    fn typed<E: Float>(&self, out: &mut [u8], x: &[u8]) -> Result<(), StepError> {
        let (out, x) = (elements_mut::<E>(out)?, elements::<E>(x)?);
        within(self.reach, [out.len(), x.len()])?;
        vectorized_wide(
            #[inline(always)]
            || match self.greatest {
                true => self.all::<_, false>(out, x),
                false => self.all::<_, true>(out, x),
            },
        );
        Ok(())
    }
}
