//! `hbir.clamp`: `min(max(x, min), max)` (ONNX `Clip`, StableHLO `clamp` of numbers).

use crate::binary::Takes;
use crate::unary::{self, infer};
use optc_ir::op::{Effect, Expr, Inferred, OpError, OpRef, Operation};
use optc_ir::{Code, attributes};

attributes! {
    /// `min(max(x, min), max)`, element by element.
    pub struct Clamp {
        /// The least result; no bound when absent.
        min: Option<f64>,
        /// The greatest result; no bound when absent.
        max: Option<f64>,
    }
}

impl Operation for Clamp {
    const NAME: &'static str = "hbir.clamp";
    const SUMMARY: &'static str = "min(max(x, `min`), `max`); a bound may be absent";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = unary::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer(op, Takes::Numbers, &Expr::A)
    }

    fn expression(&self) -> Option<Expr> {
        let low = self.min.map_or(Expr::A, |low| Expr::A.max(low));
        Some(self.max.map_or(low.clone(), |high| low.min(high)))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
