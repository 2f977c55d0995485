//! `hbir.thresholded_relu`: `x` above `alpha`, else 0 (ONNX `ThresholdedRelu`).

use crate::unary::{self, infer_float};
use optc_ir::op::{Direction, Effect, Expr, Inferred, OpError, OpRef, Operation};
use optc_ir::{Code, attributes};

attributes! {
    /// `x above alpha, else 0`, element by element.
    pub struct ThresholdedRelu {
        /// The threshold; elements that are not above it become 0.
        alpha: f64 = 1.0,
    }
}

impl Operation for ThresholdedRelu {
    const NAME: &'static str = "hbir.thresholded_relu";
    const SUMMARY: &'static str = "x above alpha, else 0";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = unary::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer_float(op)
    }

    fn expression(&self) -> Option<Expr> {
        Some(Direction::Le.of(Expr::A, self.alpha).select(0.0, Expr::A))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
