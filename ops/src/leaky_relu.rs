//! `hbir.leaky_relu`: `alpha * x below 0, else x` (ONNX `LeakyRelu`).

use crate::unary::{self, infer_float};
use optc_ir::op::{Effect, Expr, Inferred, OpError, OpRef, Operation};
use optc_ir::{Code, attributes};

attributes! {
    /// `alpha * x below 0, else x`, element by element.
    pub struct LeakyRelu {
        /// The slope below 0.
        alpha: f64 = 0.01,
    }
}

impl Operation for LeakyRelu {
    const NAME: &'static str = "hbir.leaky_relu";
    const SUMMARY: &'static str = "alpha * x below 0, else x";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = unary::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer_float(op)
    }

    fn expression(&self) -> Option<Expr> {
        Some(Expr::A.where_below_zero(self.alpha * Expr::A))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
