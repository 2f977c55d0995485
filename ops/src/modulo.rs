//! `hbir.mod`: the remainder of a division (ONNX `Mod`).

use crate::binary::{self, Takes};
use optc_ir::op::{Call, Effect, Inferred, OpError, OpRef, Operation};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes};

attributes! {
    /// The remainder of `a / b`, element by element; 0 of an integer divided by 0.
    pub struct Mod {
        /// Whether it has the sign of `a`, as C's `fmod`, and not of `b`.
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

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        Ok(if self.fmod {
            binary::compute(call, |a, b| a % b, truncated_rem)
        } else {
            binary::compute(call, floored_rem_f64, floored_rem)
        })
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}

fn truncated_rem(a: i128, b: i128) -> i128 {
    a.checked_rem(b).unwrap_or(0)
}
fn floored_rem(a: i128, b: i128) -> i128 {
    let r = truncated_rem(a, b);
    if r != 0 && (r < 0) != (b < 0) {
        r + b
    } else {
        r
    }
}
fn floored_rem_f64(a: f64, b: f64) -> f64 {
    let r = a % b;
    if r != 0.0 && (r < 0.0) != (b < 0.0) {
        r + b
    } else {
        r
    }
}
