//! `hbir.gelu`: `x * Phi(x)`, with the error function or its approximation by tanh (ONNX `Gelu`).

use crate::unary::{self, erf, floats, infer_float};
use optc_ir::op::{Call, Effect, Inferred, OpError, OpRef, Operation};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes, words};

words! {
    /// How the distribution function of [`Gelu`] is computed.
    pub enum Approximate {
        /// By the error function.
        None = "none",
        /// By the hyperbolic tangent of a cubic.
        Tanh = "tanh",
    }
}

attributes! {
    /// `x * Phi(x)`, element by element.
    pub struct Gelu {
        /// How the distribution function is computed.
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

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        Ok(match self.approximate {
            Approximate::None => floats(call, gelu),
            Approximate::Tanh => floats(call, gelu_tanh),
        })
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))
}

fn gelu_tanh(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}
