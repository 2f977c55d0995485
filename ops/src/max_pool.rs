//! `hbir.max_pool`: the greatest element of each window over an N C spatial… operand; padding does not count (ONNX
//! `MaxPool`).

use crate::pool::{self, each_window, pool_attributes};
use crate::prelude::*;
use optc_ir::tensor::int_range;

pool_attributes! {
    /// The greatest element of each window.
    pub struct MaxPool {}
}

impl Operation for MaxPool {
    const NAME: &'static str = "hbir.max_pool";
    const SUMMARY: &'static str = "the greatest element of each window";
    const FAMILY: &'static str = "pool";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = pool::CODES;

    /// C1 to C3: see [`MaxPool::slides`] and `pool::infer`. C5: the operand is of numbers.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        pool::numbers(op)?;
        pool::infer(op, &self.slides(op)?, self.ceil_mode)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let slides = self.slides(call.op)?;
        if x.dtype.is_float() {
            let mut out = Vec::new();
            each_window(call, &slides, |window, _| {
                let greatest = |a: f64, b: f64| if a.is_nan() || b < a { a } else { b };
                out.push(
                    window
                        .iter()
                        .map(|&i| x.f64_at(i))
                        .fold(f64::NEG_INFINITY, greatest),
                );
            });
            return Ok(call.floats(out));
        }
        let (low, _) = int_range(x.dtype);
        let mut out = Vec::new();
        each_window(call, &slides, |window, _| {
            out.push(window.iter().map(|&i| x.i128_at(i)).fold(low, i128::max));
        });
        Ok(call.integers(out))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        pool::iteration_domain(op, &self.slides(op)?)
    }
}
