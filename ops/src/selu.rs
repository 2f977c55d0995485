//! `hbir.selu`: `gamma * elu(x, alpha)` (ONNX `Selu`).

use crate::unary::{self, infer_float};
use optc_ir::op::{Effect, Expr, Inferred, OpError, OpRef, Operation};
use optc_ir::{Code, attributes};

attributes! {
    /// `gamma * elu(x, alpha)`, element by element.
    pub struct Selu {
        /// The distance of the least value from 0, before the scale.
        alpha: f64 = 1.673_263_192_176_818_8,
        /// The scale.
        gamma: f64 = 1.050_700_902_938_842_8,
    }
}

impl Operation for Selu {
    const NAME: &'static str = "hbir.selu";
    const SUMMARY: &'static str = "gamma * elu(x, alpha)";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = unary::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer_float(op)
    }

    fn expression(&self) -> Option<Expr> {
        let low = self.alpha * Expr::A.expm1();
        Some(self.gamma * Expr::A.where_below_zero(low))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
