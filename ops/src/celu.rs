//! `hbir.celu`: `alpha * (e^(x / alpha) - 1) below 0, else x` (ONNX `Celu`).

use crate::unary::{self, infer_float};
use optc_ir::op::{Effect, Expr, Inferred, OpError, OpRef, Operation};
use optc_ir::{Code, attributes};

attributes! {
    /// `alpha * (e^(x / alpha) - 1) below 0, else x`, element by element.
    pub struct Celu {
        /// The distance of the least value from 0.
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

    fn expression(&self) -> Option<Expr> {
        Some(Expr::A.where_below_zero(self.alpha * (Expr::A / self.alpha).expm1()))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
