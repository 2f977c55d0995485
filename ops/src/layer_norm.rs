//! `hbir.layer_norm`: `y = (x - mean) / sqrt(variance + epsilon) * scale + bias` (ONNX `LayerNormalization`). Mean and
//! variance are those of the dimensions from `axis` on. The bias may be left out.

use crate::norm;
use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::op::{
    Attributes, Axes, Call, Composition, Effect, Inferred, OpError, OpRef, Operation, OverAxes,
};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes};

attributes! {
    /// Normalization over the dimensions from `axis` on, then scale and bias.
    pub struct LayerNorm {
        /// The first normalized dimension; negative numbers count from the end. All dimensions after it are normalized
        /// too.
        axis: i64 = -1,
        /// The number added to the variance before the square root.
        epsilon: f64 = 1e-5,
    }
}

impl LayerNorm {
    /// The first normalized dimension. All dimensions after it are normalized too.
    ///
    /// # Errors
    /// The operand has no such dimension.
    pub fn first_axis(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        norm::first_axis(op, self.axis)
    }
}

impl Operation for LayerNorm {
    const NAME: &'static str = "hbir.layer_norm";
    const SUMMARY: &'static str =
        "normalized over the dimensions from `axis` on, scaled and shifted";
    const FAMILY: &'static str = "norm";
    const OPERANDS: (usize, usize) = (2, 3);
    const CODES: &'static [Code] = norm::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        norm::infer_trailing(op, self.axis)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        norm::eval_trailing(call, self.axis, self.epsilon, true)
    }

    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        norm::over_trailing_dimensions(op, self.axis, self.epsilon, true)
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        norm::trailing(op, self.axis)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let first = self.first_axis(op).ok()?;
        norm::over_trailing(op, axes, first, |axis| LayerNorm { axis, ..*self }.write())
    }
}
