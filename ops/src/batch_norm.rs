//! `hbir.batch_norm`: `y = (x - mean) / sqrt(variance + epsilon) * scale + bias` (ONNX `BatchNormalization` at
//! inference).
//!
//! The operands are x, scale, bias, mean and variance. All but x have one number for each channel, dimension 1 of x.

use crate::norm;
use crate::prelude::*;

attributes! {
    /// Normalization by given means and variances, one of each for every channel.
    pub struct BatchNorm {
        /// The number added to the variance before the square root.
        epsilon: f64 = 1e-5,
    }
}

impl Operation for BatchNorm {
    const NAME: &'static str = "hbir.batch_norm";
    const SUMMARY: &'static str = "normalized by given means and variances, one a channel";
    const FAMILY: &'static str = "norm";
    const OPERANDS: (usize, usize) = (5, 5);
    const CODES: &'static [Code] = norm::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        norm::infer_channels(op)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let mut values = call.input(0).to_f64();
        norm::per_channel(&call.input(0).shape, &mut values, |c| {
            let [scale, bias, mean, variance] = [1, 2, 3, 4].map(|i| call.input(i).f64_at(c));
            let deviation = (variance + self.epsilon).sqrt();
            move |x| (x - mean) / deviation * scale + bias
        });
        Ok(call.floats(values))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        norm::channels(op)
    }

    /// The form merges all axes before the channels into one batch dimension.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let channel = axes.whole(axes.label(0, 1)?)?;
        let own = axes.own(0);
        let at = own.iter().position(|run| *run == channel);
        let (before, after) = match at {
            Some(at) => (&own[..at], &own[at + 1..]),
            None => (&own[..], &[][..]),
        };
        norm::over_channels(op, axes, vec![before.concat()], after.to_vec())
    }
}
