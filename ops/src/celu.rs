//! `hbir.celu`: `alpha * (e^(x / alpha) - 1) below 0, else x` (ONNX `Celu`).

use crate::unary::{self, below, floats, infer_float};
use optc_ir::op::{Call, Effect, Inferred, OpError, OpRef, Operation};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes};

attributes! {
    /// `alpha * (e^(x / alpha) - 1) below 0, else x`, element by element.
    pub struct Celu {
        /// How far below 0 the curve bends.
        alpha: f64 = 1.0,
    }
}

impl Operation for Celu {
    const NAME: &'static str = "hbir.celu";
    const SUMMARY: &'static str = "alpha * (e^(x / alpha) - 1) below 0, else x";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = unary::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer_float(op)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let f = |x: f64| below(x, |x| self.alpha * (x / self.alpha).exp_m1());
        Ok(floats(call, f))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
