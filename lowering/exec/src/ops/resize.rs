//! Interpolation along some dimensions, for values in any layout. One dimension gives rows, if possible one that is
//! contiguous in the result. Rows are interpolated over the other dimensions first, and then along themselves.

use crate::error::StepError;
use crate::memory::In;
use crate::ops::kernel::{Call, Kernel, Site, same_float};
use half::{bf16, f16};
use optc_ir::Operation;
use optc_kernels::element::{Element, Kind, elements, elements_mut};
use optc_kernels::gemm::{Scratch, within};
use optc_kernels::geometry::{reach, step};
use optc_kernels::vectorized::vectorized;
use optc_ops::Interpolation;

/// An interpolated dimension other than that of rows.
#[derive(Debug)]
struct Outer {
    /// Number of positions of the interpolated dimensions inside of it.
    stride: usize,
    writes: Vec<i64>,
    /// For each position, offsets in the operand and their weights.
    taps: Vec<Vec<(i64, f64)>>,
}

/// Taps of each element along a row of the result.
#[derive(Debug)]
struct Along {
    /// Start of each element's taps, and the end of the last one's.
    begins: Vec<usize>,
    taps: Vec<(usize, f32)>,
}

impl Along {
    fn of(list: &[Vec<(usize, f64)>]) -> Along {
        let mut begins = vec![0];
        let mut taps = Vec::new();
        for of in list {
            taps.extend(of.iter().map(|&(i, weight)| (i, weight as f32)));
            begins.push(taps.len());
        }
        Along { begins, taps }
    }
}

/// Interpolation without cropping.
#[derive(Debug)]
pub(crate) struct Resize {
    kind: Kind,
    /// Offsets of the dimensions that are not interpolated, in the result and in the operand.
    plain: Vec<[i64; 2]>,
    outer: Vec<Outer>,
    /// Number of positions of all dimensions of [`Resize::outer`].
    positions: usize,
    /// Offsets along a row, in the operand and in the result.
    reads: Vec<i64>,
    writes: Vec<i64>,
    /// Taps along rows, if these are interpolated.
    along: Option<Along>,
    reach: [(i64, i64); 2],
}

/// All sums of a base and one offset of each table.
fn sums(pairs: &[(&Vec<i64>, &Vec<i64>)], base: [i64; 2]) -> Vec<[i64; 2]> {
    pairs.iter().fold(vec![base], |all, (ys, xs)| {
        let next = all.iter().flat_map(|&[to, from]| {
            let both = ys.iter().zip(*xs);
            both.map(move |(y, x)| [to + y, from + x])
        });
        next.collect()
    })
}

impl Resize {
    pub(crate) fn of(site: &Site<'_>) -> Option<Resize> {
        let all = site.all()?;
        let [x, y] = all[..] else { return None };
        if !same_float(&all) {
            return None;
        }
        let of = site.func.op_ref(site.op);
        let mut by_axis: Vec<Option<Interpolation>> = vec![None; x.access.shape().len()];
        for found in optc_ops::Resize::of(&of).ok()?.interpolations(&of)? {
            let axis = found.axis;
            by_axis[axis] = Some(found);
        }
        let (xb, xt) = (*x.access).clone().into_sum()?;
        let (yb, yt) = (*y.access).clone().into_sum()?;
        if xt.iter().chain(&yt).any(Vec::is_empty) || xt.len() != yt.len() {
            return None;
        }
        // A dimension that is contiguous in the result; otherwise the longest.
        let neighbours = |&d: &usize| 1 < yt[d].len() && step(&yt[d]) == Some(1);
        let longest = || (0..yt.len()).max_by_key(|&d| (yt[d].len(), d));
        let row = (0..yt.len()).find(neighbours).or_else(longest);
        let whole = |d: &usize| Some(*d) != row && by_axis[*d].is_none();
        let plain: Vec<_> = (0..yt.len())
            .filter(whole)
            .map(|d| (&yt[d], &xt[d]))
            .collect();
        let (mut outer, mut positions) = (Vec::new(), 1);
        for (d, found) in by_axis.iter().enumerate().rev() {
            let Some(found) = found.as_ref().filter(|_| Some(d) != row) else {
                continue;
            };
            let tap = |&(i, weight): &(usize, f64)| Some((*xt[d].get(i)?, weight));
            let of = |taps: &Vec<(usize, f64)>| taps.iter().map(tap).collect();
            outer.push(Outer {
                stride: positions,
                writes: yt[d].clone(),
                taps: found.taps.iter().map(of).collect::<Option<_>>()?,
            });
            positions *= yt[d].len();
        }
        outer.reverse();
        let of_row = |tables: &[Vec<i64>]| row.map_or(vec![0], |d| tables[d].clone());
        let (reads, along) = (of_row(&xt), row.and_then(|d| by_axis[d].as_ref()));
        let along = along.map(|found| Along::of(&found.taps));
        let inside = |a: &Along| a.taps.iter().all(|&(i, _)| i < reads.len());
        if !along.as_ref().is_none_or(inside) {
            return None;
        }
        Some(Resize {
            kind: x.kind()?,
            plain: sums(&plain, [yb, xb]),
            outer,
            positions,
            writes: of_row(&yt),
            reads,
            along,
            reach: [reach(yb, &yt), reach(xb, &xt)],
        })
    }

    #[inline(always)]
    fn all<E: Element<Number = f32>>(&self, out: &mut [E], x: &[E]) {
        let n = self.reads.len();
        let (reads, writes) = (step(&self.reads) == Some(1), step(&self.writes) == Some(1));
        let mut row = vec![0f32; n];
        let mut made = vec![0f32; self.writes.len()];
        let (mut taps, mut last, mut next) = (Vec::new(), Vec::new(), Vec::new());
        for &[out_base, from] in &self.plain {
            last.clear();
            for position in 0..self.positions {
                let mut to = out_base;
                taps.clear();
                taps.push((from, 1f64));
                for axis in &self.outer {
                    let at = position / axis.stride % axis.writes.len();
                    to += axis.writes[at];
                    next.clear();
                    for (from, weight) in &taps {
                        let own = axis.taps[at].iter();
                        next.extend(own.map(|(by, more)| (from + by, weight * more)));
                    }
                    std::mem::swap(&mut taps, &mut next);
                }
                // Consecutive positions may have the same taps.
                if taps != last {
                    // Starting from -0.0 keeps an element of weight one as it is, even a negative zero.
                    row.fill(-0.0);
                    for &(at, weight) in &taps {
                        let weight = weight as f32;
                        if reads {
                            let at = at as usize;
                            let line = row.iter_mut().zip(&x[at..at + n]);
                            line.for_each(|(sum, x)| *sum += weight * x.read());
                        } else {
                            let line = row.iter_mut().zip(&self.reads);
                            line.for_each(|(sum, r)| *sum += weight * x[(at + r) as usize].read());
                        }
                    }
                    std::mem::swap(&mut taps, &mut last);
                }
                let results = match &self.along {
                    None => &row,
                    Some(along) => {
                        for (sum, ends) in made.iter_mut().zip(along.begins.windows(2)) {
                            let taps = &along.taps[ends[0]..ends[1]];
                            *sum = taps.iter().fold(-0.0, |sum, &(i, w)| sum + w * row[i]);
                        }
                        &made
                    }
                };
                if writes {
                    let at = to as usize;
                    let line = out[at..at + results.len()].iter_mut().zip(results);
                    line.for_each(|(out, &x)| *out = E::of(x));
                } else {
                    for (write, &x) in self.writes.iter().zip(results) {
                        out[(to + write) as usize] = E::of(x);
                    }
                }
            }
        }
    }

    fn typed<E: Element<Number = f32>>(&self, out: &mut [u8], x: &[u8]) -> Result<(), StepError> {
        let (out, x) = (elements_mut::<E>(out)?, elements::<E>(x)?);
        within(self.reach, [out.len(), x.len()])?;
        vectorized(
            #[inline(always)]
            || self.all(out, x),
        );
        Ok(())
    }
}

impl Kernel for Resize {
    fn name(&self) -> &'static str {
        "resize"
    }

    fn scratch(&self) -> Scratch {
        let numbers = self.reads.len() + self.writes.len();
        [0, 0, 0, numbers * size_of::<f32>()]
    }

    fn run(&self, Call { ins, out, .. }: Call<'_>) -> Result<(), StepError> {
        let [In::Bytes(x)] = ins else {
            return Err(StepError::OperandWrittenOver);
        };
        match self.kind {
            Kind::F16 => self.typed::<f16>(out, x),
            Kind::BF16 => self.typed::<bf16>(out, x),
            _ => self.typed::<f32>(out, x),
        }
    }
}
