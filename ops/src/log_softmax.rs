//! `hbir.log_softmax`: the logarithm of [`Softmax`](crate::Softmax) (ONNX `LogSoftmax` of opset 13).

use crate::prelude::*;
use crate::softmax;

attributes! {
    /// The logarithm of softmax along an axis.
    pub struct LogSoftmax {
        /// The axis; negative ones count from the end.
        axis: i64 = -1,
    }
}

impl LogSoftmax {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The operand has no such dimension (`softmax-c2`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        softmax::along(op, self.axis)
    }
}

impl Operation for LogSoftmax {
    const NAME: &'static str = "hbir.log_softmax";
    const SUMMARY: &'static str = "the logarithm of softmax along an axis";
    const FAMILY: &'static str = "softmax";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = softmax::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        softmax::infer(op, self.axis)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let logarithm = |shifted: f64, sum: f64| shifted - sum.ln();
        softmax::along_lanes(call, self.axis, logarithm)
    }

    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        let (mut soft, shifted) = softmax::shifted(op, self.axis)?;
        let shifted = soft.each(shifted);
        let sum = soft.reduce(Combine::Add, shifted.clone().exp(), Expr::A.log());
        soft.each(shifted - sum);
        Some(soft)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        IterationDomain::broadcasting_along(op, &[softmax::along(op, self.axis)?])
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        axes.along(self.along(op).ok()?, |axis| LogSoftmax { axis }.write())
    }
}
