//! `hbir.cast`: the same numbers in another element type (ONNX `Cast`, StableHLO `convert`).
//!
//! A float becomes an integer by truncation towards zero; what lies outside the integer's range
//! saturates and NaN is 0 (ONNX leaves both open). Anything becomes `i1` by `x != 0`. An integer
//! becomes a narrower one by wrapping, and a float by rounding to the nearest, ties to even.

use crate::op::{Inferred, OpError, OpRef, Registry};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::broadcasting;
use crate::ops::shape::{dtype_or, one};
use crate::tensor::{EvalError, Tensor};
use crate::types::{DType, Sign};

const CAST: Decl = Decl::new(
    "hbir.cast",
    "elementwise",
    "x in the element type `to`",
    (1, 1),
    infer,
    eval,
)
.freedom(broadcasting);

fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    op.attr("to")?;
    one(x.dims.clone(), dtype_or(op, "to", x.dtype)?)
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

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, to) = (call.input(0), call.dtype());
    let n = x.len();
    Ok(if to.is_bool() {
        call.integers((0..n).map(|i| i128::from(x.f64_at(i) != 0.0)))
    } else if to.is_float() {
        call.floats((0..n).map(|i| x.f64_at(i)))
    } else if x.dtype.is_float() {
        call.integers((0..n).map(|i| saturate(x.f64_at(i), to)))
    } else {
        call.integers((0..n).map(|i| x.i128_at(i)))
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(CAST);
}
