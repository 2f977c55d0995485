//! `hbir.cast`: the same numbers in another element type (ONNX `Cast`, StableHLO `convert`).
//!
//! A float becomes an integer by truncation towards zero; what lies outside the integer's range
//! saturates and NaN is 0 (ONNX leaves both open). Anything becomes `i1` by `x != 0`. An integer
//! becomes a narrower one by wrapping, and a float by rounding to the nearest, ties to even. What rounds
//! beyond a float of 8 bits is an infinity there, or NaN where it has none (XLA's `convert`).

use crate::shape::one;
use optc_ir::op::{Call, Effect, Inferred, OpError, OpRef, Operation};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::types::{DType, Sign};
use optc_ir::{Code, attributes, codes};

attributes! {
    /// The same numbers in another element type.
    pub struct Cast {
        /// The element type of the result.
        to: DType,
    }
}

impl Operation for Cast {
    const NAME: &'static str = "hbir.cast";
    const SUMMARY: &'static str = "x in the element type `to`";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: complex numbers become nothing else and nothing else becomes them.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, to) = (op.operand(0)?, self.to);
        if x.dtype != to && (x.dtype.complex_part().is_some() || to.complex_part().is_some()) {
            let message = format!("hbir.cast of {} to {to}, wanted no complex type", x.dtype);
            return Err(OpError::new(CAST_C1, message));
        }
        one(x.dims.clone(), to)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, to) = (call.input(0), call.dtype());
        let n = x.len();
        Ok(if x.dtype == to {
            vec![x.clone()]
        } else if to.is_bool() {
            call.integers((0..n).map(|i| i128::from(x.f64_at(i) != 0.0)))
        } else if x.dtype.is_int() {
            call.integers((0..n).map(|i| x.i128_at(i)))
        } else if to.is_int() {
            call.integers((0..n).map(|i| saturate(x.f64_at(i), to)))
        } else {
            call.floats(x.to_f64())
        })
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }

    fn passes_on(&self) -> bool {
        true
    }
}

/// The least and the greatest number of an integer type.
pub(crate) fn int_range(dtype: DType) -> (i128, i128) {
    match dtype {
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => (0, (1i128 << bits) - 1),
        DType::Int {
            bits: 1,
            sign: Sign::Signless,
        } => (0, 1),
        DType::Int { bits, .. } => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => (i128::MIN, i128::MAX),
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => (i128::MIN, i128::MAX),
    }
}

/// A float as an integer of this type: truncated, saturated, NaN is 0.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` truncates and saturates"
)]
pub(crate) fn saturate(x: f64, dtype: DType) -> i128 {
    let (low, high) = int_range(dtype);
    (x as i128).clamp(low, high)
}

codes! {
    const CODES;

    CAST_C1 = Code::program(
    "cast-c1",
    "`hbir.cast` makes a complex number of something else, or something else of a complex number",
    r#"%0 = "hbir.cast"(%x) <{to = f32}> : (tensor<2xcomplex<f32>>) -> tensor<2xf32>"#,
    "complex numbers are stored and moved only: take the parts in an operation of the format, kept as `hbir.opaque`",
);
}
