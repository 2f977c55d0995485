//! `hbir.group_norm`: `y = (x - mean) / sqrt(variance + epsilon) * scale + bias` (ONNX `GroupNormalization` of opset
//! 21).
//!
//! The channels (dimension 1) form `num_groups` groups. Mean and variance are those of all channels of a group and all
//! spatial dimensions. Scale and bias have one number for each channel.

use crate::norm;
use crate::prelude::*;

attributes! {
    /// Normalization over groups of channels and the spatial dimensions.
    pub struct GroupNorm {
        /// The number of groups, at least 1; it divides the number of channels.
        num_groups: i64,
        /// The number added to the variance before the square root.
        epsilon: f64 = 1e-5,
    }
}

impl GroupNorm {
    /// The number of groups.
    ///
    /// # Errors
    /// The attribute is less than 1 (`norm-c6`).
    pub fn groups(&self) -> Result<u64, OpError> {
        let found = self.num_groups;
        u64::try_from(found).ok().filter(|&g| 0 < g).ok_or_else(|| {
            let message = format!("hbir.group_norm has num_groups = {found}, wanted 1 or more");
            OpError::new(norm::NORM_C6, message)
        })
    }
}

impl Operation for GroupNorm {
    const NAME: &'static str = "hbir.group_norm";
    const SUMMARY: &'static str = "normalized over groups of channels and the spatial dimensions";
    const FAMILY: &'static str = "norm";
    const OPERANDS: (usize, usize) = (3, 3);
    const CODES: &'static [Code] = norm::CODES;

    /// C1, C4, C5: see `norm::infer_channels`. C6: the groups divide the channels.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let inferred = norm::infer_channels(op)?;
        let groups = self.groups()?;
        let channels = &op.operand(0)?.dims[1];
        if channels.fixed().is_some_and(|c| c % groups != 0) {
            let message = format!(
                "{} of {channels} channels has num_groups = {groups}, wanted a divisor",
                op.name
            );
            return Err(OpError::new(norm::NORM_C6, message));
        }
        Ok(inferred)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let groups = usize::try_from(self.groups()?).unwrap_or(usize::MAX);
        Ok(norm::eval_groups(call, groups, self.epsilon))
    }

    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        norm::over_spatial_dimensions(op, Some(self.groups().ok()?), self.epsilon)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let channels = op.operand(0)?.dims.get(1).and_then(Dim::fixed);
        let size = channels.map_or(1, |c| c / self.groups().unwrap_or(1));
        let mut domain = norm::channels_along_spatial(op)?;
        domain.along(1);
        domain.cut(1, size);
        Ok(domain)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        norm::over_images(op, axes)
    }
}
