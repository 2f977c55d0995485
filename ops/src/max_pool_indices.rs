//! `hbir.max_pool_indices`: the number of the greatest element of each window of `hbir.max_pool` (the second result of
//! ONNX `MaxPool`).
//!
//! The number counts the elements of the whole operand in row-major order. With `storage_order = 1` it counts within
//! each channel with the first spatial dimension fastest and the last one slowest. The first of several equal elements
//! is taken, and NaN before all numbers; a window without elements gives -1.
//!
//! The operation is not tiled: a part of the operand does not tell the numbers of its elements in the whole operand.

use crate::pool::{self, each_window, pool_attributes};
use crate::prelude::*;

pool_attributes! {
    /// The number of the greatest element of each window in the whole operand.
    pub struct MaxPoolIndices {
        /// The order of counting: 0 is row-major, 1 counts the first spatial dimension fastest.
        storage_order: i64 = 0,
    }
}

impl Operation for MaxPoolIndices {
    const NAME: &'static str = "hbir.max_pool_indices";
    const SUMMARY: &'static str =
        "the number of the greatest element of each window in the whole operand";
    const FAMILY: &'static str = "pool";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = pool::CODES;

    /// The constraints of `hbir.max_pool`, and C6: `storage_order` is 0 or 1.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        pool::numbers(op)?;
        let values = pool::infer(op, &self.slides(op)?, self.ceil_mode)?;
        if !(0..=1).contains(&self.storage_order) {
            let message = format!(
                "{} has storage_order = {}, wanted 0 or 1",
                op.name, self.storage_order
            );
            return Err(OpError::new(pool::POOL_C6, message));
        }
        let dims = values.into_iter().next().map(|v| v.dims);
        one(dims.unwrap_or_default(), DType::SI64)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let columns = self.storage_order == 1;
        let mut out = Vec::new();
        each_window(call, &self.slides(call.op)?, |window, _| {
            let greatest = window
                .iter()
                .copied()
                .reduce(|a, b| if greater(x, b, a) { b } else { a });
            out.push(match greatest {
                None => -1,
                Some(at) if columns => column_number(at, &x.shape[2..]) as i128,
                Some(at) => at as i128,
            });
        });
        Ok(call.integers(out))
    }

    /// The roles are those of `hbir.max_pool`, but every dimension is needed whole, since the numbers count elements of
    /// all of them.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let y = op.result(0)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Window);
        for (d, dim) in y.dims.iter().enumerate() {
            let role = pool::role(d);
            let id = domain.add_as(dim.fixed().unwrap_or(0), LoopKind::Whole, role);
            domain.uncut(id);
            domain.operands[0][d] = IndexExpr::of(id);
            domain.results[0][d] = IndexExpr::of(id);
        }
        Ok(domain)
    }
}

/// Returns whether element `a` is greater than element `b`; NaN is greater than every number.
fn greater(x: &Tensor, a: usize, b: usize) -> bool {
    if x.dtype.is_float() {
        let (a, b) = (x.f64_at(a), x.f64_at(b));
        !b.is_nan() && (a.is_nan() || b < a)
    } else {
        x.i128_at(b) < x.i128_at(a)
    }
}

/// The number of element `at` (row-major) if the first spatial dimension counts fastest.
fn column_number(at: usize, spatial: &[usize]) -> usize {
    let plane: usize = spatial.iter().product();
    let mut rest = at % plane;
    let mut step = plane;
    let mut number = at - rest;
    for &n in spatial.iter().rev() {
        step /= n;
        number += rest % n * step;
        rest /= n;
    }
    number
}
