//! `hbir.avg_pool`: the mean of each window over an N C spatial… operand (ONNX `AveragePool`).
//!
//! With `count_include_pad` the mean includes the padding as zeros; otherwise it is the mean of the other elements.

use crate::pool::{self, each_window, pool_attributes};
use crate::prelude::*;

pool_attributes! {
    /// The mean of each window.
    pub struct AvgPool {
        /// True if padding counts as zeros; otherwise the mean leaves it out.
        count_include_pad: bool = false,
    }
}

impl Operation for AvgPool {
    const NAME: &'static str = "hbir.avg_pool";
    const SUMMARY: &'static str = "the mean of each window";
    const FAMILY: &'static str = "pool";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = pool::CODES;

    /// C1 to C3: see [`AvgPool::slides`] and `pool::infer`. C4: the operand is of floats.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        wants_float(op, pool::POOL_C4, 0)?;
        pool::infer(op, &self.slides(op)?, self.ceil_mode)
    }

    #[expect(clippy::cast_precision_loss, reason = "a window has few elements")]
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let mut out = Vec::new();
        each_window(call, &self.slides(call.op)?, |window, declared| {
            let sum: f64 = window.iter().map(|&i| x.f64_at(i)).sum();
            let count = if self.count_include_pad {
                declared
            } else {
                window.len()
            };
            out.push(sum / count as f64);
        });
        Ok(call.floats(out))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        pool::iteration_domain(op, &self.slides(op)?)
    }
}
