//! What softmax, norms and reductions do with a row, or with rows side by side. Sums are made in `f64`, in an order that is the same
//! on every machine.

use crate::ops::math::{exp, greater, lesser};
use optc_ops::ReduceKind;

/// Rows that are worked on side by side: a line of the cache.
pub(crate) const LANES: usize = 16;

/// Rows that are worked on where they lie, if so many lie side by side: some lines of the cache, one after another.
pub(crate) const WIDE: usize = 64;

/// Numbers that are summed side by side.
const SUMS: usize = 8;

/// What is done along the dimensions.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Work {
    Softmax,
    /// Minus the mean, if it is centred, and divided by the root of the mean of squares.
    Norm {
        epsilon: f64,
        centred: bool,
    },
    Reduce(ReduceKind),
}

/// What is done, with the scale and the bias of each element of a row.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Along<'a> {
    pub(crate) work: Work,
    pub(crate) scale: Option<&'a [f32]>,
    pub(crate) bias: Option<&'a [f32]>,
}

#[inline(always)]
fn sum(row: &[f32], f: impl Fn(f64) -> f64) -> f64 {
    let mut sums = [0f64; SUMS];
    let (parts, rest) = row.as_chunks::<SUMS>();
    for part in parts {
        for (sum, &x) in sums.iter_mut().zip(part) {
            *sum += f(f64::from(x));
        }
    }
    for (sum, &x) in sums.iter_mut().zip(rest) {
        *sum += f(f64::from(x));
    }
    let [a, b, c, d, e, g, h, i] = sums;
    ((a + e) + (b + g)) + ((c + h) + (d + i))
}

#[inline(always)]
fn most(row: &[f32], start: f32, f: impl Fn(f32, f32) -> f32) -> f32 {
    let mut all = [start; LANES];
    let (parts, rest) = row.as_chunks::<LANES>();
    for part in parts {
        for (most, &x) in all.iter_mut().zip(part) {
            *most = f(*most, x);
        }
    }
    for (most, &x) in all.iter_mut().zip(rest) {
        *most = f(*most, x);
    }
    let mut n = LANES / 2;
    while 0 < n {
        let (low, high) = all.split_at_mut(n);
        for (most, &x) in low.iter_mut().zip(&*high) {
            *most = f(*most, x);
        }
        n /= 2;
    }
    all[0]
}

/// The powers of all numbers less the greatest; the last ones as a line that is full, since one alone is as slow as that.
#[inline(always)]
fn powers(row: &mut [f32], most: f32) {
    let (lines, rest) = row.as_chunks_mut::<LANES>();
    for x in lines.as_flattened_mut() {
        *x = exp(*x - most);
    }
    if !rest.is_empty() {
        let mut line = [most; LANES];
        line[..rest.len()].copy_from_slice(rest);
        for x in &mut line {
            *x = exp(*x - most);
        }
        rest.copy_from_slice(&line[..rest.len()]);
    }
}

/// Works on a row; gives the result of a reduction.
#[inline(always)]
pub(crate) fn row(row: &mut [f32], with: &Along<'_>) -> f32 {
    let n = row.len() as f64;
    match with.work {
        Work::Softmax => {
            let most = most(row, f32::NEG_INFINITY, greater);
            powers(row, most);
            let whole = (1.0 / sum(row, |x| x)) as f32;
            row.iter_mut().for_each(|x| *x *= whole);
            0.0
        }
        Work::Norm { epsilon, centred } => {
            let mean = if centred { sum(row, |x| x) / n } else { 0.0 };
            let squares = sum(row, |x| (x - mean) * (x - mean));
            let factor = 1.0 / (squares / n + epsilon).sqrt();
            let normal = |x: f32| ((f64::from(x) - mean) * factor) as f32;
            match (with.scale, with.bias) {
                (Some(scale), Some(bias)) => {
                    let with = scale.iter().zip(bias);
                    let all = row.iter_mut().zip(with);
                    all.for_each(|(x, (scale, bias))| *x = normal(*x) * scale + bias);
                }
                (Some(scale), None) => {
                    let all = row.iter_mut().zip(scale);
                    all.for_each(|(x, scale)| *x = normal(*x) * scale);
                }
                _ => row.iter_mut().for_each(|x| *x = normal(*x)),
            }
            0.0
        }
        Work::Reduce(ReduceKind::Max) => most(row, f32::NEG_INFINITY, greater),
        Work::Reduce(ReduceKind::Min) => most(row, f32::INFINITY, lesser),
        Work::Reduce(ReduceKind::Mean) => (sum(row, |x| x) / n) as f32,
        Work::Reduce(ReduceKind::L1) => sum(row, f64::abs) as f32,
        Work::Reduce(ReduceKind::L2) => sum(row, |x| x * x).sqrt() as f32,
        Work::Reduce(ReduceKind::SumSquare) => sum(row, |x| x * x) as f32,
        Work::Reduce(_) => sum(row, |x| x) as f32,
    }
}

/// Where [`WIDE`] rows lie: the first element of the first one, what it is written to, and what each element adds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Places<'a> {
    pub(crate) from: i64,
    pub(crate) to: i64,
    pub(crate) reads: &'a [i64],
    pub(crate) writes: &'a [i64],
}

impl Places<'_> {
    /// One element of each row, from the first on.
    #[inline(always)]
    fn lines<'a>(&self, source: &'a [f32]) -> impl Iterator<Item = &'a [f32; WIDE]> {
        let from = self.from;
        self.reads
            .iter()
            .filter_map(move |read| source.get((from + read) as usize..)?.first_chunk())
    }

    /// Where one element of each row is written.
    #[inline(always)]
    fn line<'a>(&self, out: &'a mut [f32], element: usize) -> Option<&'a mut [f32; WIDE]> {
        let at = (self.to + self.writes[element]) as usize;
        out.get_mut(at..)?.first_chunk_mut()
    }
}

#[inline(always)]
fn wide_sums(source: &[f32], at: &Places<'_>, f: impl Fn(usize, f64) -> f64) -> [f64; WIDE] {
    let mut sums = [0f64; WIDE];
    for line in at.lines(source) {
        for (i, (sum, &x)) in sums.iter_mut().zip(line).enumerate() {
            *sum += f(i, f64::from(x));
        }
    }
    sums
}

#[inline(always)]
fn wide_mosts(
    source: &[f32],
    at: &Places<'_>,
    start: f32,
    f: impl Fn(f32, f32) -> f32,
) -> [f32; WIDE] {
    let mut all = [start; WIDE];
    for line in at.lines(source) {
        for (most, &x) in all.iter_mut().zip(line) {
            *most = f(*most, x);
        }
    }
    all
}

/// Works on rows that lie side by side, where they lie, in the order in which [`side_by_side`] does.
#[inline(always)]
pub(crate) fn wide(source: &[f32], out: &mut [f32], at: &Places<'_>, with: &Along<'_>) {
    let n = at.reads.len() as f64;
    let reduced = match with.work {
        Work::Softmax => {
            let most = wide_mosts(source, at, f32::NEG_INFINITY, greater);
            let mut sums = [0f64; WIDE];
            for (j, line) in at.lines(source).enumerate() {
                let Some(to) = at.line(out, j) else { continue };
                let mut powers = [0f32; WIDE];
                for i in 0..WIDE {
                    powers[i] = exp(line[i] - most[i]);
                }
                // In one loop: a copy alone would wait for what was just written.
                for ((to, sum), &power) in to.iter_mut().zip(&mut sums).zip(&powers) {
                    *to = power;
                    *sum += f64::from(power);
                }
            }
            let whole = sums.map(|sum| (1.0 / sum) as f32);
            for j in 0..at.reads.len() {
                let Some(to) = at.line(out, j) else { continue };
                for i in 0..WIDE {
                    to[i] *= whole[i];
                }
            }
            return;
        }
        Work::Norm { epsilon, centred } => {
            let mean = match centred {
                true => wide_sums(source, at, |_, x| x).map(|sum| sum / n),
                false => [0.0; WIDE],
            };
            let squares = wide_sums(source, at, |i, x| (x - mean[i]) * (x - mean[i]));
            let factor = squares.map(|sum| 1.0 / (sum / n + epsilon).sqrt());
            let of = |list: Option<&[f32]>, j: usize, other: f32| list.map_or(other, |l| l[j]);
            for (j, line) in at.lines(source).enumerate() {
                let (scale, bias) = (of(with.scale, j, 1.0), of(with.bias, j, 0.0));
                let Some(to) = at.line(out, j) else { continue };
                for i in 0..WIDE {
                    let normal = ((f64::from(line[i]) - mean[i]) * factor[i]) as f32;
                    to[i] = normal * scale + bias;
                }
            }
            return;
        }
        Work::Reduce(kind) => match kind {
            ReduceKind::Max => wide_mosts(source, at, f32::NEG_INFINITY, greater),
            ReduceKind::Min => wide_mosts(source, at, f32::INFINITY, lesser),
            ReduceKind::Mean => wide_sums(source, at, |_, x| x).map(|sum| (sum / n) as f32),
            ReduceKind::L1 => wide_sums(source, at, |_, x| x.abs()).map(|sum| sum as f32),
            ReduceKind::L2 => wide_sums(source, at, |_, x| x * x).map(|sum| sum.sqrt() as f32),
            ReduceKind::SumSquare => wide_sums(source, at, |_, x| x * x).map(|sum| sum as f32),
            _ => wide_sums(source, at, |_, x| x).map(|sum| sum as f32),
        },
    };
    if let Some(to) = at.line(out, 0) {
        *to = reduced;
    }
}

#[inline(always)]
fn sums(tile: &[[f32; LANES]], f: impl Fn(usize, f64) -> f64) -> [f64; LANES] {
    let mut sums = [0f64; LANES];
    for lanes in tile {
        for (i, (sum, &x)) in sums.iter_mut().zip(lanes).enumerate() {
            *sum += f(i, f64::from(x));
        }
    }
    sums
}

#[inline(always)]
fn mosts(tile: &[[f32; LANES]], start: f32, f: impl Fn(f32, f32) -> f32) -> [f32; LANES] {
    let mut all = [start; LANES];
    for lanes in tile {
        for (most, &x) in all.iter_mut().zip(lanes) {
            *most = f(*most, x);
        }
    }
    all
}

/// Works on rows whose elements lie side by side; gives the results of a reduction.
#[inline(always)]
pub(crate) fn side_by_side(tile: &mut [[f32; LANES]], with: &Along<'_>) -> [f32; LANES] {
    let n = tile.len() as f64;
    match with.work {
        Work::Softmax => {
            let most = mosts(tile, f32::NEG_INFINITY, greater);
            for lanes in tile.iter_mut() {
                for (x, most) in lanes.iter_mut().zip(most) {
                    *x = exp(*x - most);
                }
            }
            let whole = sums(tile, |_, x| x).map(|sum| (1.0 / sum) as f32);
            for lanes in tile.iter_mut() {
                for (x, whole) in lanes.iter_mut().zip(whole) {
                    *x *= whole;
                }
            }
            [0.0; LANES]
        }
        Work::Norm { epsilon, centred } => {
            let mean = match centred {
                true => sums(tile, |_, x| x).map(|sum| sum / n),
                false => [0.0; LANES],
            };
            let squares = sums(tile, |i, x| (x - mean[i]) * (x - mean[i]));
            let factor = squares.map(|sum| 1.0 / (sum / n + epsilon).sqrt());
            let at = |list: Option<&[f32]>, j: usize, other: f32| list.map_or(other, |l| l[j]);
            for (j, lanes) in tile.iter_mut().enumerate() {
                let (scale, bias) = (at(with.scale, j, 1.0), at(with.bias, j, 0.0));
                for i in 0..LANES {
                    let normal = ((f64::from(lanes[i]) - mean[i]) * factor[i]) as f32;
                    lanes[i] = normal * scale + bias;
                }
            }
            [0.0; LANES]
        }
        Work::Reduce(kind) => match kind {
            ReduceKind::Max => mosts(tile, f32::NEG_INFINITY, greater),
            ReduceKind::Min => mosts(tile, f32::INFINITY, lesser),
            ReduceKind::Mean => sums(tile, |_, x| x).map(|sum| (sum / n) as f32),
            ReduceKind::L1 => sums(tile, |_, x| x.abs()).map(|sum| sum as f32),
            ReduceKind::L2 => sums(tile, |_, x| x * x).map(|sum| sum.sqrt() as f32),
            ReduceKind::SumSquare => sums(tile, |_, x| x * x).map(|sum| sum as f32),
            _ => sums(tile, |_, x| x).map(|sum| sum as f32),
        },
    }
}
