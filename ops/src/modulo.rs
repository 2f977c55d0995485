//! `hbir.mod`: the remainder of a division (ONNX `Mod`).

use crate::binary::{self, Takes};
use optc_ir::op::{Binary, Effect, Expr, Inferred, OpError, OpRef, Operation};
use optc_ir::{Code, attributes};

attributes! {
    /// The remainder of `a / b`, element by element; 0 if an integer is divided by 0.
    pub struct Mod {
        /// True if the result has the sign of `a`, as C's `fmod`; otherwise it has the sign of `b`.
        fmod: bool = false,
    }
}

impl Operation for Mod {
    const NAME: &'static str = "hbir.mod";
    const SUMMARY: &'static str = "the remainder with b's sign, with `fmod` a's";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (2, 2);
    const CODES: &'static [Code] = binary::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        binary::infer(op, Takes::Numbers)
    }

    fn expression(&self) -> Option<Expr> {
        let function = if self.fmod { Binary::Rem } else { Binary::Mod };
        Some(function.of(Expr::A, Expr::B))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
