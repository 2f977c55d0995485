//! The greatest element or the mean of each window, for each channel, in any order.

use crate::element::{Kind, elements, elements_mut};
use crate::kernels::vectorized;
use crate::memory::In;
use crate::ops::depthwise::Float;
use crate::ops::kernel::{Kernel, Scratch, Site, within};
use crate::ops::math::greater;
use crate::ops::slide::{reach, step};
use crate::team::Context;
use half::{bf16, f16};
use indexmap::{IndexMap, IndexSet};
use optc_ir::Operation;
use optc_ops::Slide;
use optc_ops::{AvgPool, MaxPool};
use std::ops::Range;

/// Channels that are worked on side by side, if they are neighbours.
const CHANNELS: usize = 16;

/// Positions that are worked on side by side.
const LINE: usize = 16;

/// Windows over lines that are neighbours along the last dimension: lines are combined first, and then their elements.
#[derive(Debug)]
struct Crossed {
    rows: Vec<Position>,
    /// Where lines begin in the operand.
    reads: Vec<i64>,
    /// Elements of a line, and of one of the result.
    input: usize,
    output: usize,
    /// Padding before a line; elements of a padded line that windows read.
    low: usize,
    span: usize,
    stride: usize,
    /// What a window reads from where it begins.
    taps: Vec<i64>,
    /// What sums of each number of lines are multiplied by.
    factors: IndexMap<usize, Vec<f32>>,
}

/// A position of the result, or a line of it, and what it is made of.
#[derive(Debug)]
struct Position {
    to: i64,
    /// Of the elements or lines that are read.
    reads: Range<usize>,
    /// How many count.
    count: usize,
}

/// What a sum of so many is multiplied by.
fn factor(count: usize) -> f32 {
    (1.0 / count as f64) as f32
}

impl Crossed {
    /// Of the windows of a result at `yb`, if lines are neighbours.
    fn of(slides: &[Slide], [xt, yt]: [&[Vec<i64>]; 2], yb: i64, padding: bool) -> Option<Crossed> {
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
            let counts = counts.iter();
            counts.map(|&n| factor(lines * n)).collect()
        };
        let factors = rows.iter().map(|row| row.count);
        let factors: IndexSet<usize> = factors.collect();
        Some(Crossed {
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
            taps: (0..slide.kernel)
                .map(|k| (k * slide.dilation) as i64)
                .collect(),
        })
    }

    /// Elements of a line with room for the last vector.
    fn room(&self) -> usize {
        self.span + LINE * (self.stride + 1)
    }

    /// The windows of one channel.
    #[inline(always)]
    fn run<E: Float>(
        &self,
        [to, from]: [i64; 2],
        out: &mut [E],
        x: &[E],
        line: &mut [f32],
        (combine, start, mean): (impl Fn(f32, f32) -> f32, f32, bool),
    ) {
        let count = self.input.min(self.span.saturating_sub(self.low));
        for row in &self.rows {
            let own = &mut line[self.low.min(self.span)..][..count];
            own.fill(start);
            for read in &self.reads[row.reads.clone()] {
                let at = (from + read) as usize;
                for (own, x) in own.iter_mut().zip(&x[at..at + count]) {
                    *own = combine(*own, x.float());
                }
            }
            let to = (to + row.to) as usize;
            let out = &mut out[to..to + self.output];
            let factors = self.factors.get(&row.count).filter(|_| mean);
            for (i, out) in out.chunks_mut(LINE).enumerate() {
                let first = i * LINE;
                let mut all = [start; LINE];
                let at = (first * self.stride) as i64;
                match self.stride {
                    1 => windows::<_, 1>(&mut all, line, at, &self.taps, &combine),
                    2 => windows::<_, 2>(&mut all, line, at, &self.taps, &combine),
                    stride => {
                        for tap in &self.taps {
                            let line = line[(at + tap) as usize..].iter().step_by(stride);
                            all.iter_mut()
                                .zip(line)
                                .for_each(|(all, x)| *all = combine(*all, *x));
                        }
                    }
                }
                if let Some(factors) = factors {
                    let factors = &factors[first..];
                    all.iter_mut()
                        .zip(factors)
                        .for_each(|(x, factor)| *x *= factor);
                }
                out.iter_mut()
                    .zip(all)
                    .for_each(|(out, x)| *out = E::with(x, E::zeroed()));
            }
        }
    }
}

/// Positions of the result over the first spatial dimensions, and what they read.
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
    /// Where the elements of each image and of each channel begin, in the result and in the operand.
    images: Vec<[i64; 2]>,
    channels: Vec<[i64; 2]>,
    /// Whether channels are neighbours in both.
    neighbours: bool,
    by_lines: Option<Crossed>,
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
            Crossed::of(&slides, [&xt, &yt], yb, padding)
        };
        // Lines need no list of all positions.
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
    fn all<E: Float>(&self, out: &mut [E], x: &[E], combine: impl Fn(f32, f32) -> f32, start: f32) {
        if let Some(lines) = &self.by_lines {
            let mut line = vec![start; lines.room()];
            for image in &self.images {
                for channel in &self.channels {
                    let places = [image[0] + channel[0], image[1] + channel[1]];
                    let how = (&combine, start, !self.greatest);
                    lines.run(places, out, x, &mut line, how);
                }
            }
            return;
        }
        let side = if self.neighbours {
            self.channels.len() / CHANNELS * CHANNELS
        } else {
            0
        };
        for image in &self.images {
            for position in &self.positions {
                let reads = &self.reads[position.reads.clone()];
                let factor = if self.greatest {
                    1.0
                } else {
                    factor(position.count)
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

/// Combines the elements of windows that are `STEP` apart, of which `reads` are those of the first.
#[inline(always)]
fn windows<E: Float, const STEP: usize>(
    all: &mut [f32; LINE],
    x: &[E],
    from: i64,
    reads: &[i64],
    combine: impl Fn(f32, f32) -> f32,
) {
    for read in reads {
        let at = (from + read) as usize;
        // As if there were one more, so that vectors are read, of which some elements are picked.
        match x.get(at..).and_then(|x| x.first_chunk::<{ 2 * LINE }>()) {
            Some(x) => {
                for i in 0..LINE {
                    all[i] = combine(all[i], x[i * STEP].float());
                }
            }
            None => {
                for (all, x) in all.iter_mut().zip(x[at..].iter().step_by(STEP)) {
                    *all = combine(*all, x.float());
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
        let room = self.by_lines.as_ref().map_or(0, Crossed::room);
        [0, 0, 0, room * size_of::<f32>()]
    }

    fn run(
        &self,
        _: usize,
        ins: &[In<'_>],
        out: &mut [u8],
        _: &mut Context<'_>,
    ) -> Result<(), String> {
        let [In::Bytes(x)] = ins else {
            return Err("an operand is written over".to_owned());
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
    fn typed<E: Float>(&self, out: &mut [u8], x: &[u8]) -> Result<(), String> {
        let (out, x) = (elements_mut::<E>(out)?, elements::<E>(x)?);
        within(self.reach, [out.len(), x.len()])?;
        vectorized(
            #[inline(always)]
            || match self.greatest {
                true => self.all(out, x, greater, f32::NEG_INFINITY),
                false => self.all(out, x, |a, b| a + b, 0.0),
            },
        );
        Ok(())
    }
}
