//! `hbir.clamp`: `min(max(x, min), max)` (ONNX `Clip`, StableHLO `clamp` of numbers).

use crate::unary::{self, floats, infer_number, integers};
use optc_ir::op::{Call, Effect, Inferred, OpError, OpRef, Operation};
use optc_ir::tensor::{EvalError, Tensor};
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
        infer_number(op)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        if call.input(0).dtype.is_float() {
            return Ok(floats(call, |x| clamp(x, self.min, self.max)));
        }
        let (low, high) = (self.min.map(saturating), self.max.map(saturating));
        Ok(integers(call, |x| {
            let x = low.map_or(x, |low| x.max(low));
            high.map_or(x, |high| x.min(high))
        }))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }
}

fn clamp(x: f64, low: Option<f64>, high: Option<f64>) -> f64 {
    let x = low.map_or(x, |low| if x < low { low } else { x });
    high.map_or(x, |high| if high < x { high } else { x })
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a bound beyond the range saturates"
)]
fn saturating(x: f64) -> i128 {
    x as i128
}
