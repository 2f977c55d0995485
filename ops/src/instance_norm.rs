//! `hbir.instance_norm`: `y = (x - mean) / sqrt(variance + epsilon) * scale + bias` (ONNX `InstanceNormalization`).
//!
//! Mean and variance are those of the spatial dimensions of each channel. Scale and bias have one number for each
//! channel, dimension 1.

use crate::norm;
use crate::prelude::*;

attributes! {
    /// Normalization over the spatial dimensions of each channel.
    pub struct InstanceNorm {
        /// The number added to the variance before the square root.
        epsilon: f64 = 1e-5,
    }
}

impl Operation for InstanceNorm {
    const NAME: &'static str = "hbir.instance_norm";
    const SUMMARY: &'static str = "normalized over the spatial dimensions of each channel";
    const FAMILY: &'static str = "norm";
    const OPERANDS: (usize, usize) = (3, 3);
    const CODES: &'static [Code] = norm::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        norm::infer_channels(op)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let groups = call.input(0).shape[1].max(1);
        Ok(norm::eval_groups(call, groups, self.epsilon))
    }

    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        norm::over_spatial_dimensions(op, None, self.epsilon)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        norm::channels_along_spatial(op)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        norm::over_images(op, axes)
    }
}
