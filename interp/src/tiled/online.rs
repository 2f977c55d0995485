//! An online softmax, whose axis is cut. With the greatest element and the sum of the elements read so far, each step
//! gives numbers that are right up to a factor. The operation that sums these numbers up rescales its sum when the
//! greatest element changes, and divides by the sum of exponentials at the last step.
//!
//! For example, let a row be `1 2 | 4` in two steps. After the first step the greatest element is 2 and the sum is
//! `e^-1 + 1`. After the second step the greatest is 4, the factor is `e^-2`, and the sum is `(e^-1 + 1) e^-2 + 1`.

use super::error::TileFault;
use super::fragment::{Fragment, Region, extents, for_each, intersection, offset, whole};
use super::poison::{Poison, poisoned};
use optc_ir::{DType, Tensor};

/// The running state of each row after some steps.
pub(super) struct Online {
    /// The rows: the region of the result, one element along the axis.
    rows: Region,
    axis: usize,
    greatest: Vec<f64>,
    sum: Vec<f64>,
    /// The factor by which numbers of the steps before are to be multiplied.
    factor: Vec<f64>,
}

/// The place of an online softmax's rows in the result of the operation that accumulates them.
pub(super) struct Rows<'a> {
    pub(super) online: &'a Online,
    /// The dimension of the result for each dimension of the softmax; `None` along the axis and for dimensions of one
    /// element.
    pub(super) kept: &'a [Option<usize>],
}

impl Online {
    /// Runs one more step: returns the numbers of a region of the result and the new state.
    ///
    /// A step whose rows are not those of the step before is refused, since the state would belong to other rows. The
    /// old sum is corrected by the same factor as the old numbers, in `f64`, so that the order of the steps changes
    /// only the rounding.
    pub(super) fn step(
        before: Option<Online>,
        x: &Fragment,
        region: &Region,
        (shape, dtype): &(Vec<usize>, DType),
        axis: usize,
        program: &[i64],
    ) -> Result<(Tensor, Online), TileFault> {
        let mut now = Online::begun(before, region, axis, program)?;
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

    /// The state before a step: that of the step before, or that of rows of which nothing is read.
    fn begun(
        before: Option<Online>,
        region: &Region,
        axis: usize,
        program: &[i64],
    ) -> Result<Online, TileFault> {
        let mut rows = region.clone();
        rows[axis] = 0..1;
        let count: usize = extents(&rows).iter().product();
        let blank = |x: f64| vec![x; count];
        match before {
            Some(before) if before.rows == rows => Ok(before),
            Some(before) => {
                let starts = |r: &Region| r.iter().map(|r| r.start).collect();
                Err(TileFault::Moves {
                    program: program.to_vec(),
                    result: 0,
                    from: starts(&before.rows),
                    to: starts(&rows),
                })
            }
            None => Ok(Online {
                rows,
                axis,
                greatest: blank(f64::NEG_INFINITY),
                sum: blank(0.0),
                factor: blank(1.0),
            }),
        }
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
    /// Maps each element of a tensor of this region together with the number of its row.
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

    /// The sum so far, rescaled to the greatest element known now.
    pub(super) fn scaled(&self, tensor: &Tensor, region: &Region) -> Tensor {
        self.map(tensor, region, |x, row| x * self.online.factor[row])
    }

    /// The final sum, divided by the sum of exponentials.
    pub(super) fn divided(&self, tensor: &Tensor, region: &Region) -> Tensor {
        self.map(tensor, region, |x, row| x / self.online.sum[row])
    }
}
