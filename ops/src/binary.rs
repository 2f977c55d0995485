//! Element-wise operations of two operands and no attributes: `y[i] = f(a[i'], b[i''])` with numpy's
//! broadcasting.
//!
//! Names and meanings follow ONNX and, where ONNX has none, StableHLO. Floats are computed in `f64` and rounded
//! once to the element type; integers wrap, an integer divided by 0 is 0, and a shift by the width or more, or
//! by less than 0, leaves the sign alone.

use crate::shape::{broadcast, common_dtype, one, operand_dims};
use Takes::{Any, Floats, Integers, IntegersAndBool, Numbers};
use optc_ir::op::{Call, Effect, Inferred, OpError, OpRef, Operation};
use optc_ir::tensor::{EvalError, Offsets, Tensor};
use optc_ir::types::{DType, Dim};
use optc_ir::{Code, attributes, codes};

/// Which element types an operation takes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Takes {
    Any,
    Numbers,
    Floats,
    Integers,
    IntegersAndBool,
}

impl Takes {
    fn accepts(self, dtype: DType) -> bool {
        match self {
            Any => dtype.computes(),
            Numbers => dtype.computes() && !dtype.is_bool(),
            Floats => dtype.is_float(),
            Integers => dtype.is_int() && !dtype.is_bool(),
            IntegersAndBool => dtype.is_int(),
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Any | Numbers => "a float or an integer type",
            Floats => "a float type",
            Integers => "an integer type",
            IntegersAndBool => "i1 or an integer type",
        }
    }
}

/// C1: one element type. C2: it suits the operation. C3: the shapes broadcast. Gives the result's extents
/// and element type.
pub(crate) fn operands(op: &OpRef<'_>, takes: Takes) -> Result<(Vec<Dim>, DType), OpError> {
    let dtype = common_dtype(op, BINARY_C1, 0..2)?;
    if !takes.accepts(dtype) {
        let message = format!("{} of {dtype}, wanted {}", op.name, takes.wanted());
        return Err(OpError::new(BINARY_C2, message));
    }
    Ok((broadcast(op, BINARY_C3, &operand_dims(op)?)?, dtype))
}

pub(crate) fn infer(op: &OpRef<'_>, takes: Takes) -> Result<Vec<Inferred>, OpError> {
    let (dims, dtype) = operands(op, takes)?;
    one(dims, dtype)
}

/// `float` or `integer` of every pair of elements.
pub(crate) fn compute(
    call: &Call<'_>,
    float: impl Fn(f64, f64) -> f64,
    integer: impl Fn(i128, i128) -> i128,
) -> Vec<Tensor> {
    let (a, b, shape) = (call.input(0), call.input(1), call.shape());
    if a.dtype.is_float() {
        let (a, b) = (broadcast_floats(a, &shape), broadcast_floats(b, &shape));
        return call.floats(a.into_iter().zip(b).map(|(a, b)| float(a, b)));
    }
    let at = Offsets::broadcast(&a.shape, &shape).zip(Offsets::broadcast(&b.shape, &shape));
    call.integers(at.map(|(i, j)| integer(a.i128_at(i), b.i128_at(j))))
}

/// The elements of a tensor that broadcasts to `shape`, as floats.
pub(crate) fn broadcast_floats(x: &Tensor, shape: &[usize]) -> Vec<f64> {
    match x.shape == shape {
        true => x.to_f64(),
        false => Offsets::broadcast(&x.shape, shape).picked(&x.to_f64()),
    }
}

/// Operations of two operands: struct, name, summary, element types, functions of floats and of integers.
macro_rules! binary {
    ($($op:ident $name:literal $summary:literal $takes:expr, $float:expr, $integer:expr;)*) => {$(
        attributes! {
            #[doc = concat!("`", $name, "`: ", $summary, ".")]
            pub struct $op {}
        }

        impl Operation for $op {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const FAMILY: &'static str = "elementwise";
            const OPERANDS: (usize, usize) = (2, 2);
            const CODES: &'static [Code] = CODES;

            fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
                infer(op, $takes)
            }
            fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
                Ok(compute(call, $float, $integer))
            }
            fn effect(&self, _: &OpRef<'_>) -> Effect {
                Effect::Pure
            }
        }
    )*

        /// Adds these operations.
        pub(crate) fn register(registry: &mut optc_ir::Registry) {
            $(registry.add::<$op>();)*
        }
    };
}

#[rustfmt::skip]
binary! {
    Add "hbir.add" "a + b; or on i1" Any, |a, b| a + b, |a, b| a + b;
    Sub "hbir.sub" "a - b" Numbers, |a, b| a - b, |a, b| a - b;
    Mul "hbir.mul" "a * b; and on i1" Any, |a, b| a * b, i128::wrapping_mul;
    Div "hbir.div" "a / b; integers truncate" Numbers, |a, b| a / b, |a, b| a.checked_div(b).unwrap_or(0);
    Pow "hbir.pow" "a^b" Numbers, f64::powf, int_pow;
    Atan2 "hbir.atan2" "the angle of the point (b, a), -pi to pi" Floats, f64::atan2, no_integer;
    Max "hbir.max" "the greater; NaN wins" Any, max_nan, i128::max;
    Min "hbir.min" "the lesser; NaN wins" Any, min_nan, i128::min;
    And "hbir.and" "a and b; on integers every bit" IntegersAndBool, no_float, |a, b| a & b;
    Or "hbir.or" "a or b; on integers every bit" IntegersAndBool, no_float, |a, b| a | b;
    Xor "hbir.xor" "either a or b; on integers every bit" IntegersAndBool, no_float, |a, b| a ^ b;
    ShiftLeft "hbir.shift_left" "a * 2^b" Integers, no_float, shift_left;
    ShiftRight "hbir.shift_right" "a / 2^b, rounded down" Integers, no_float, shift_right;
    BitAnd "hbir.bit_and" "the bits in both" Integers, no_float, |a, b| a & b;
    BitOr "hbir.bit_or" "the bits in either" Integers, no_float, |a, b| a | b;
    BitXor "hbir.bit_xor" "the bits in one only" Integers, no_float, |a, b| a ^ b;
}

/// Repeated squaring modulo 2^128; a negative exponent truncates towards 0.
fn int_pow(base: i128, exponent: i128) -> i128 {
    if exponent < 0 {
        return match base {
            1 => 1,
            -1 if exponent % 2 == 0 => 1,
            -1 => -1,
            _ => 0,
        };
    }
    let (mut result, mut square, mut left) = (1i128, base, exponent);
    while 0 < left {
        if left % 2 == 1 {
            result = result.wrapping_mul(square);
        }
        square = square.wrapping_mul(square);
        left /= 2;
    }
    result
}
fn max_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || b < a { a } else { b }
}
fn min_nan(a: f64, b: f64) -> f64 {
    if a.is_nan() || a < b { a } else { b }
}
fn shift_left(a: i128, by: i128) -> i128 {
    if (0..64).contains(&by) { a << by } else { 0 }
}
fn shift_right(a: i128, by: i128) -> i128 {
    a >> if by < 0 { 127 } else { by.min(127) }
}
fn no_float(_: f64, _: f64) -> f64 {
    f64::NAN
}
fn no_integer(_: i128, _: i128) -> i128 {
    0
}

codes! {
    pub(crate) const CODES;

    BINARY_C1 = Code::program(
        "binary-c1",
        "the two operands of an element-wise operation have different element types",
        r#"%0 = "hbir.add"(%x, %y) : (tensor<2xf32>, tensor<2xsi32>) -> tensor<2xf32>"#,
        "convert one of them with `hbir.cast`",
    );
    BINARY_C2 = Code::program(
        "binary-c2",
        "an element-wise operation of two operands is not defined for their element type: arithmetic wants numbers, `and`, `or`, `xor` want `i1`, the `bit_` forms want integers",
        r#"%0 = "hbir.sub"(%x, %y) : (tensor<2xi1>, tensor<2xi1>) -> tensor<2xi1>"#,
        "use the operation for this type (`hbir.xor` for booleans, `hbir.bit_and` for integers), or cast first",
    );
    BINARY_C3 = Code::program(
        "binary-c3",
        "the shapes of the two operands do not broadcast: in some dimension, counted from the last, the sizes differ and none is 1",
        r#"%0 = "hbir.mul"(%x, %y) : (tensor<2xf32>, tensor<3xf32>) -> tensor<2xf32>"#,
        "insert unit dimensions with `hbir.reshape` so that the dimensions that belong together line up from the right",
    );
    BINARY_C4 = Code::program(
        "binary-c4",
        "the slope of `hbir.prelu` would enlarge the result: it must broadcast to the shape of the first operand",
        r#"%0 = "hbir.prelu"(%x, %y) : (tensor<2xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>"#,
        "give the slope the shape of the first operand, or one that broadcasts to it",
    );
}
