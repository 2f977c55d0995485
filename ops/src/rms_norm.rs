//! `hbir.rms_norm`: `y = x / sqrt(mean of squares + epsilon) * scale` (ONNX `RMSNormalization`). The mean is that of
//! the dimensions from `axis` on.

use crate::norm;
use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::op::{
    Attributes, Axes, Call, Composition, Effect, Inferred, OpError, OpRef, Operation, OverAxes,
};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes};

attributes! {
    /// Division by the root mean square over the dimensions from `axis` on, then a scale.
    pub struct RmsNorm {
        /// The first normalized dimension; negative numbers count from the end. All dimensions after it are normalized
        /// too.
        axis: i64 = -1,
        /// The number added to the mean of squares before the square root.
        epsilon: f64 = 1e-5,
    }
}

impl RmsNorm {
    /// The first normalized dimension. All dimensions after it are normalized too.
    ///
    /// # Errors
    /// The operand has no such dimension.
    pub fn first_axis(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        norm::first_axis(op, self.axis)
    }
}

impl Operation for RmsNorm {
    const NAME: &'static str = "hbir.rms_norm";
    const SUMMARY: &'static str =
        "divided by the root mean square over the dimensions from `axis` on, scaled";
    const FAMILY: &'static str = "norm";
    const OPERANDS: (usize, usize) = (2, 2);
    const CODES: &'static [Code] = norm::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        norm::infer_trailing(op, self.axis)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        norm::eval_trailing(call, self.axis, self.epsilon, false)
    }

    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        norm::over_trailing_dimensions(op, self.axis, self.epsilon, false)
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        norm::trailing(op, self.axis)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let first = self.first_axis(op).ok()?;
        norm::over_trailing(op, axes, first, |axis| RmsNorm { axis, ..*self }.write())
    }
}
