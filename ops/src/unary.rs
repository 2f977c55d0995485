//! Element-wise operations of one operand and no attributes: `y[i] = f(x[i])`.
//!
//! Names and meanings follow ONNX (`Neg`, `Erf`, `HardSwish`, …) and, where ONNX has none, StableHLO (`rsqrt`).
//! Floats are computed in `f64` and rounded once to the element type; integers wrap.

use crate::shape::one;
use UnaryFn::{Float, Identity as Same, Not as Invert, Number, Test};
use optc_ir::op::{Call, Effect, Inferred, OpError, OpRef, Operation};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::types::DType;
use optc_ir::{Code, attributes, codes};

/// Which element types an operation takes and what it does with them.
#[derive(Clone, Copy)]
pub(crate) enum UnaryFn {
    /// Floats only.
    Float(fn(f64) -> f64),
    /// Floats and integers, no truth values.
    Number(fn(f64) -> f64, fn(i128) -> i128),
    /// Floats to truth values.
    Test(fn(f64) -> bool),
    /// Logical on truth values, of every bit on integers.
    Not,
    /// The operand itself, of any type.
    Identity,
}

impl UnaryFn {
    fn accepts(self, dtype: DType) -> bool {
        match self {
            Float(_) | Test(_) => dtype.is_float(),
            Number(..) => dtype.computes() && !dtype.is_bool(),
            Invert => dtype.is_int(),
            Same => true,
        }
    }

    fn wanted(self) -> &'static str {
        match self {
            Number(..) => "a float or an integer type",
            Invert => "i1 or an integer type",
            Float(_) | Test(_) | Same => "a float type",
        }
    }

    /// C1: the element type suits the operation.
    fn infer(self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        if !self.accepts(x.dtype) {
            return Err(unsuited(op, x.dtype, self.wanted()));
        }
        let test = matches!(self, Test(_));
        one(x.dims.clone(), if test { DType::BOOL } else { x.dtype })
    }

    fn compute(self, call: &Call<'_>) -> Vec<Tensor> {
        let x = call.input(0);
        match self {
            Float(f) => floats(call, f),
            Number(f, _) if x.dtype.is_float() => floats(call, f),
            Number(_, f) => integers(call, f),
            Test(f) => floats(call, |x| f64::from(f(x))),
            Invert if x.dtype.is_bool() => integers(call, |x| i128::from(x == 0)),
            Invert => integers(call, |x| !x),
            Same => vec![x.clone()],
        }
    }
}

/// The first operand, of floats: C1.
pub(crate) fn infer_float(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    Float(f64::abs).infer(op)
}

/// The first operand, of numbers: C1.
pub(crate) fn infer_number(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    Number(f64::abs, i128::abs).infer(op)
}

fn unsuited(op: &OpRef<'_>, found: DType, wanted: &str) -> OpError {
    OpError::new(UNARY_C1, format!("{} of {found}, wanted {wanted}", op.name))
}

/// `f` of every element of the first operand.
pub(crate) fn floats(call: &Call<'_>, f: impl Fn(f64) -> f64) -> Vec<Tensor> {
    let x = call.input(0);
    call.floats(x.to_f64().into_iter().map(f))
}

/// `f` of every element of the first operand.
pub(crate) fn integers(call: &Call<'_>, f: impl Fn(i128) -> i128) -> Vec<Tensor> {
    let x = call.input(0);
    call.integers((0..x.len()).map(|i| f(x.i128_at(i))))
}

/// Operations of one operand: struct, name, summary, function.
macro_rules! unary {
    ($($op:ident $name:literal $summary:literal $apply:expr;)*) => {$(
        attributes! {
            #[doc = concat!("`", $name, "`: ", $summary, ".")]
            pub struct $op {}
        }

        impl Operation for $op {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const FAMILY: &'static str = "elementwise";
            const OPERANDS: (usize, usize) = (1, 1);
            const MOVES_ONLY: bool = matches!($apply, Same);
            const CODES: &'static [Code] = CODES;

            fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
                $apply.infer(op)
            }
            fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
                Ok($apply.compute(call))
            }
            fn effect(&self, _: &OpRef<'_>) -> Effect {
                Effect::Pure
            }
            fn passes_on(&self) -> bool {
                matches!($apply, Same)
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
unary! {
    Neg "hbir.neg" "-x" Number(|x| -x, |x| -x);
    Abs "hbir.abs" "the absolute value" Number(f64::abs, i128::abs);
    Sign "hbir.sign" "-1, 0 or 1" Number(sign, i128::signum);
    Exp "hbir.exp" "e^x" Float(f64::exp);
    Expm1 "hbir.expm1" "e^x - 1, exact near 0" Float(f64::exp_m1);
    Log "hbir.log" "the natural logarithm" Float(f64::ln);
    Log1p "hbir.log1p" "log(1 + x), exact near 0" Float(f64::ln_1p);
    Sqrt "hbir.sqrt" "the square root" Float(f64::sqrt);
    Cbrt "hbir.cbrt" "the cube root" Float(f64::cbrt);
    Rsqrt "hbir.rsqrt" "1 / sqrt(x)" Float(|x| 1.0 / x.sqrt());
    Reciprocal "hbir.reciprocal" "1 / x" Float(|x| 1.0 / x);
    Erf "hbir.erf" "the error function" Float(erf);
    Erfc "hbir.erfc" "1 - erf(x), exact where that is near 0" Float(erfc);
    Tanh "hbir.tanh" "the hyperbolic tangent" Float(f64::tanh);
    Sigmoid "hbir.sigmoid" "1 / (1 + e^-x)" Float(sigmoid);
    Relu "hbir.relu" "max(x, 0)" Number(relu, |x| x.max(0));
    Sin "hbir.sin" "the sine" Float(f64::sin);
    Cos "hbir.cos" "the cosine" Float(f64::cos);
    Tan "hbir.tan" "the tangent" Float(f64::tan);
    Asin "hbir.asin" "the inverse sine" Float(f64::asin);
    Acos "hbir.acos" "the inverse cosine" Float(f64::acos);
    Atan "hbir.atan" "the inverse tangent" Float(f64::atan);
    Sinh "hbir.sinh" "the hyperbolic sine" Float(f64::sinh);
    Cosh "hbir.cosh" "the hyperbolic cosine" Float(f64::cosh);
    Asinh "hbir.asinh" "the inverse hyperbolic sine" Float(f64::asinh);
    Acosh "hbir.acosh" "the inverse hyperbolic cosine" Float(f64::acosh);
    Atanh "hbir.atanh" "the inverse hyperbolic tangent" Float(f64::atanh);
    Floor "hbir.floor" "the greatest integer not above x" Float(f64::floor);
    Ceil "hbir.ceil" "the least integer not below x" Float(f64::ceil);
    Round "hbir.round" "the nearest integer, ties to even" Float(f64::round_ties_even);
    Not "hbir.not" "not x; on integers every bit" Invert;
    IsNan "hbir.is_nan" "whether x is no number" Test(f64::is_nan);
    IsInf "hbir.is_inf" "whether x is infinite" Test(f64::is_infinite);
    Silu "hbir.silu" "x * sigmoid(x)" Float(|x| x * sigmoid(x));
    Softplus "hbir.softplus" "log(1 + e^x)" Float(softplus);
    Softsign "hbir.softsign" "x / (1 + |x|)" Float(|x| x / (1.0 + x.abs()));
    HardSwish "hbir.hard_swish" "x * max(0, min(1, x / 6 + 0.5))" Float(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0));
    Mish "hbir.mish" "x * tanh(softplus(x))" Float(|x| x * softplus(x).tanh());
    Identity "hbir.identity" "x" Same;
}

/// The error function, to about 1e-15.
///
/// Below 3 the series `2/sqrt(pi) * exp(-x^2) * sum 2^n x^(2n+1) / (2n+1)!!`, whose terms are all
/// positive; above, the continued fraction of its complement.
#[must_use]
pub fn erf(x: f64) -> f64 {
    let a = x.abs();
    if x.is_nan() || a == 0.0 {
        return x;
    }
    if 6.0 <= a {
        return x.signum();
    }
    if a < 3.0 {
        let scale = (-a * a).exp() / std::f64::consts::PI.sqrt();
        let (mut term, mut sum, mut n) = (a, a, 1.0);
        while 1e-17 * sum < term {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        return (2.0 * scale * sum).copysign(x);
    }
    (1.0 - erfc_above(a)).copysign(x)
}

/// What [`erf`] lacks to 1.
fn erfc(x: f64) -> f64 {
    if 1.5 <= x {
        erfc_above(x)
    } else {
        1.0 - erf(x)
    }
}

/// The same by its continued fraction, which converges fast for numbers that are not small.
fn erfc_above(x: f64) -> f64 {
    let scale = (-x * x).exp() / std::f64::consts::PI.sqrt();
    let fraction = (1..120)
        .rev()
        .fold(x, |tail, k| x + f64::from(k) / 2.0 / tail);
    scale / fraction
}

pub(crate) fn sigmoid(x: f64) -> f64 {
    if x < 0.0 {
        x.exp() / (1.0 + x.exp())
    } else {
        1.0 / (1.0 + (-x).exp())
    }
}
fn softplus(x: f64) -> f64 {
    x.max(0.0) + (-x.abs()).exp().ln_1p()
}
fn sign(x: f64) -> f64 {
    if x.is_nan() || x == 0.0 {
        x
    } else {
        x.signum()
    }
}
fn relu(x: f64) -> f64 {
    if x < 0.0 { 0.0 } else { x }
}
/// `low` below 0, `x` elsewhere; NaN stays.
pub(crate) fn below(x: f64, low: impl Fn(f64) -> f64) -> f64 {
    if x < 0.0 { low(x) } else { x }
}

codes! {
    pub(crate) const CODES;

    UNARY_C1 = Code::program(
        "unary-c1",
        "an element-wise operation of one operand is not defined for its element type",
        r#"%0 = "hbir.exp"(%x) : (tensor<2xsi32>) -> tensor<2xsi32>"#,
        "cast the operand: functions such as `hbir.exp` take floats, `hbir.not` takes `i1` and integers",
    );
    UNARY_C2 = Code::program(
        "unary-c2",
        r#"`approximate` of `hbir.gelu` is neither "none" nor "tanh""#,
        r#"%0 = "hbir.gelu"(%x) <{approximate = "fast"}> : (tensor<2xf32>) -> tensor<2xf32>"#,
        r#"write one of the two; without the attribute it is "none""#,
    );
}
