//! `hbir.hard_sigmoid`: `max(0, min(1, alpha * x + beta))` (ONNX `HardSigmoid`).

use crate::unary::{self, infer_float};
use optc_ir::op::{Effect, Expr, Inferred, OpError, OpRef, Operation};
use optc_ir::{Code, attributes};

attributes! {
    /// `max(0, min(1, alpha * x + beta))`, element by element.
    pub struct HardSigmoid {
        /// The slope between 0 and 1.
        alpha: f64 = 0.2,
        /// The value at 0.
        beta: f64 = 0.5,
    }
}

impl Operation for HardSigmoid {
    const NAME: &'static str = "hbir.hard_sigmoid";
    const SUMMARY: &'static str = "max(0, min(1, alpha * x + beta))";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = unary::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer_float(op)
    }

    fn expression(&self) -> Option<Expr> {
        Some((self.alpha * Expr::A + self.beta).max(0.0).min(1.0))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
