//! A softmax whose axis is cut: with the greatest element and the sum of what was read so far, each
//! step gives numbers that are right up to a factor. What adds them up is scaled when the greatest
//! changes, and divided by the sum at the last step.

use super::error::TileFault;
use super::fragment::{Fragment, Region, extents, for_each, intersection, offset, whole};
use super::poison::{Poison, poisoned};
use optc_ir::{DType, Tensor};

/// What is known of each row after some steps.
pub(super) struct Online {
    /// The rows: the region of the result, one element along the axis.
    rows: Region,
    axis: usize,
    greatest: Vec<f64>,
    sum: Vec<f64>,
    /// What numbers of the steps before are to be multiplied with.
    factor: Vec<f64>,
}

/// How the rows of an online softmax lie in the result of what accumulates them.
pub(super) struct Rows<'a> {
    pub(super) online: &'a Online,
    /// Of each dimension of the softmax its place in the result; none along the axis and where
    /// there is one element.
    pub(super) kept: &'a [Option<usize>],
}

impl Online {
    /// One more step: the numbers of a region of the result, and what is known then.
    ///
    /// A step whose rows are not those of the step before is refused: what is carried would be another row's.
    /// The greatest element so far and the sum of what came before are put right by the same factor, in `f64`,
    /// so that the order of the steps changes nothing but rounding.
    pub(super) fn step(
        before: Option<Online>,
        x: &Fragment,
        region: &Region,
        (shape, dtype): &(Vec<usize>, DType),
        axis: usize,
        program: &[i64],
    ) -> Result<(Tensor, Online), TileFault> {
        let mut rows = region.clone();
        rows[axis] = 0..1;
        let count: usize = extents(&rows).iter().product();
        let blank = |x: f64| vec![x; count];
        let mut now = match before {
            Some(before) if before.rows == rows => before,
            Some(before) => {
                let starts = |r: &Region| r.iter().map(|r| r.start).collect();
                return Err(TileFault::Moves {
                    program: program.to_vec(),
                    result: 0,
                    from: starts(&before.rows),
                    to: starts(&rows),
                });
            }
            None => Online {
                rows,
                axis,
                greatest: blank(f64::NEG_INFINITY),
                sum: blank(0.0),
                factor: blank(1.0),
            },
        };
        let inside = intersection(region, &whole(shape));
        let have = intersection(&inside, &x.region);
        if let Some(dim) = (0..inside.len()).find(|&d| have[d] != inside[d]) {
            return Err(TileFault::Missing {
                program: program.to_vec(),
                operand: 0,
                dim,
                start: inside[dim].start,
                stop: inside[dim].end,
                from: x.region[dim].start,
                to: x.region[dim].end,
            });
        }
        let values = x.tensor.to_f64();
        let from = x.tensor.strides();
        let mut greatest = now.greatest.clone();
        for_each(&inside, |at| {
            let (row, value) = (now.row(at), values[offset(at, &x.region, &from)]);
            let known = greatest[row];
            greatest[row] = if known.is_nan() || value.is_nan() {
                f64::NAN
            } else {
                known.max(value)
            };
        });
        for (row, &top) in greatest.iter().enumerate() {
            // Before the first number there is nothing to scale.
            let start = now.greatest[row] == f64::NEG_INFINITY;
            now.factor[row] = if start {
                0.0
            } else {
                (now.greatest[row] - top).exp()
            };
            now.sum[row] *= now.factor[row];
        }
        now.greatest = greatest;
        let all = poisoned(DType::F64, &extents(region), Poison::Nan);
        let (to, mut out) = (all.strides(), all.to_f64());
        for_each(&inside, |at| {
            let row = now.row(at);
            let top = now.greatest[row];
            let value = values[offset(at, &x.region, &from)];
            let shifted = if top == f64::NEG_INFINITY {
                0.0
            } else {
                (value - top).exp()
            };
            now.sum[row] += shifted;
            out[offset(at, region, &to)] = shifted;
        });
        Ok((Tensor::from_f64(*dtype, extents(region), out), now))
    }

    /// The number of the row of an element of the result.
    fn row(&self, at: &[i64]) -> usize {
        let mut row = 0;
        for (d, (i, range)) in at.iter().zip(&self.rows).enumerate() {
            let extent = usize::try_from(range.end - range.start).unwrap_or(0);
            let i = if d == self.axis {
                0
            } else {
                usize::try_from(i - range.start).unwrap_or(0)
            };
            row = row * extent + i.min(extent.saturating_sub(1));
        }
        row
    }
}

impl Rows<'_> {
    /// Each element of a tensor of this region with a number of its row.
    fn map(&self, tensor: &Tensor, region: &Region, with: impl Fn(f64, usize) -> f64) -> Tensor {
        let strides = tensor.strides();
        let mut values = tensor.to_f64();
        for_each(region, |at| {
            let place = self.kept.iter().zip(&self.online.rows);
            let place: Vec<i64> = place.map(|(d, r)| d.map_or(r.start, |d| at[d])).collect();
            let i = offset(at, region, &strides);
            values[i] = with(values[i], self.online.row(&place));
        });
        Tensor::from_f64(tensor.dtype, tensor.shape.clone(), values)
    }

    /// What was added up before, under the greatest that is known now.
    pub(super) fn scaled(&self, tensor: &Tensor, region: &Region) -> Tensor {
        self.map(tensor, region, |x, row| x * self.online.factor[row])
    }

    /// What is added up, under the sum of all.
    pub(super) fn divided(&self, tensor: &Tensor, region: &Region) -> Tensor {
        self.map(tensor, region, |x, row| x / self.online.sum[row])
    }
}
