//! `hbir.gelu`: `x * Phi(x)`, where Phi is computed with the error function or approximated by tanh (ONNX `Gelu`).

use crate::unary::{self, infer_float};
use optc_ir::op::{Effect, Expr, Inferred, OpError, OpRef, Operation};
use optc_ir::{Code, attributes, words};
use std::f64::consts::{PI, SQRT_2};

words! {
    /// The computation of the distribution function in a [`Gelu`].
    pub enum Approximate {
        /// By the error function.
        None = "none",
        /// By the hyperbolic tangent of a cubic polynomial.
        Tanh = "tanh",
    }
}

attributes! {
    /// `x * Phi(x)`, element by element.
    pub struct Gelu {
        /// The computation of the distribution function.
        approximate: Approximate [unary::UNARY_C2] = Approximate::None,
    }
}

impl Operation for Gelu {
    const NAME: &'static str = "hbir.gelu";
    const SUMMARY: &'static str = "x * Phi(x); `approximate` = none or tanh";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = unary::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer_float(op)
    }

    fn expression(&self) -> Option<Expr> {
        const X: Expr = Expr::A;
        let gate = match self.approximate {
            Approximate::None => (X / SQRT_2).erf(),
            Approximate::Tanh => ((2.0 / PI).sqrt() * (X + 0.044_715 * X * X * X)).tanh(),
        };
        Some(0.5 * X * (1.0 + gate))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}
