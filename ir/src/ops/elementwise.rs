//! Element-wise operations of one and of two operands.
//!
//! `y[i] = f(x[i])` and `y[i] = f(a[i'], b[i''])` with numpy's broadcasting. Names and meanings
//! follow ONNX (`Neg`, `Erf`, `HardSwish`, `PRelu`, …) and, where ONNX has none, StableHLO
//! (`rsqrt`, `clamp`). Floats are computed in `f64` and rounded once to the element type; integers
//! wrap, an integer divided by 0 is 0, and a shift by the width or more, or by less than 0, leaves the
//! sign alone.

use crate::attr::AttrDict;
use crate::op::{EvalContext, Freedom, Inferred, OpDecl, OpError, OpRef, Registry};
use crate::ops::decl::{Call, evaluate, operand_count};
use crate::ops::labels::broadcasting;
use crate::ops::shape::{
    broadcast, common_dtype, compatible, flag_or, float_or, one, operand_dims, show, word,
};
use crate::tensor::{EvalError, Offsets, Tensor};
use crate::types::DType;

/// Which element types an operation takes and what it does with them.
#[derive(Clone, Copy)]
enum UnaryFn {
    /// Floats only.
    Float(fn(f64) -> f64),
    /// Floats and integers, no truth values.
    Number(fn(f64) -> f64, fn(i128) -> i128),
    /// Floats only, with up to two named numbers and their defaults.
    With([(&'static str, f64); 2], fn(f64, [f64; 2]) -> f64),
    /// Floats to truth values.
    Test(fn(f64) -> bool),
    /// The error function or its tanh approximation.
    Gelu,
    /// `min(max(x, min), max)`; each bound may be absent.
    Clamp,
    /// Logical on truth values, of every bit on integers.
    Not,
    /// The operand itself, of any type.
    Identity,
}

/// An operation of one operand.
#[derive(Clone, Copy)]
struct Unary {
    name: &'static str,
    summary: &'static str,
    apply: UnaryFn,
}

impl Unary {
    fn accepts(&self, dtype: DType) -> bool {
        match self.apply {
            UnaryFn::Float(_) | UnaryFn::With(..) | UnaryFn::Test(_) | UnaryFn::Gelu => {
                dtype.is_float()
            }
            UnaryFn::Number(..) | UnaryFn::Clamp => !dtype.is_bool(),
            UnaryFn::Not => !dtype.is_float(),
            UnaryFn::Identity => true,
        }
    }

    fn compute(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let is_float = x.dtype.is_float();
        let floats = |f: &dyn Fn(f64) -> f64| call.floats((0..x.len()).map(|i| f(x.f64_at(i))));
        let integers =
            |f: &dyn Fn(i128) -> i128| call.integers((0..x.len()).map(|i| f(x.i128_at(i))));
        Ok(match self.apply {
            UnaryFn::Float(f) => floats(&f),
            UnaryFn::Number(f, _) if is_float => floats(&f),
            UnaryFn::Number(_, f) => integers(&f),
            UnaryFn::With(names, f) => {
                let params = numbers(call.op.props, names);
                floats(&|x| f(x, params))
            }
            UnaryFn::Test(f) => call.floats((0..x.len()).map(|i| f64::from(f(x.f64_at(i))))),
            UnaryFn::Gelu if call.op.props.str("approximate") == Some("tanh") => floats(&gelu_tanh),
            UnaryFn::Gelu => floats(&gelu),
            UnaryFn::Clamp if is_float => {
                let (low, high) = (call.op.props.float("min"), call.op.props.float("max"));
                floats(&|x| clamp(x, low, high))
            }
            UnaryFn::Clamp => {
                let bound = |name| call.op.props.float(name).map(saturating_i128);
                let (low, high) = (bound("min"), bound("max"));
                integers(&|x| {
                    let x = low.map_or(x, |low| x.max(low));
                    high.map_or(x, |high| x.min(high))
                })
            }
            UnaryFn::Not if x.dtype.is_bool() => integers(&|x| i128::from(x == 0)),
            UnaryFn::Not => integers(&|x| !x),
            UnaryFn::Identity => vec![x.clone()],
        })
    }
}

fn numbers(props: &AttrDict, names: [(&'static str, f64); 2]) -> [f64; 2] {
    names.map(|(name, default)| props.float(name).unwrap_or(default))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "a bound beyond the range saturates"
)]
fn saturating_i128(x: f64) -> i128 {
    x as i128
}

/// Refuses attributes of the wrong kind.
fn check_attributes(op: &OpRef<'_>, apply: UnaryFn) -> Result<(), OpError> {
    match apply {
        UnaryFn::With(names, _) => {
            for (name, default) in names.into_iter().filter(|n| !n.0.is_empty()) {
                float_or(op, name, default)?;
            }
        }
        UnaryFn::Clamp => {
            float_or(op, "min", 0.0)?;
            float_or(op, "max", 0.0)?;
        }
        UnaryFn::Gelu => {
            word(op, "unary-c2", "approximate", &["none", "tanh"], "none")?;
        }
        UnaryFn::Float(_) | UnaryFn::Number(..) | UnaryFn::Test(_) => {}
        UnaryFn::Not | UnaryFn::Identity => {}
    }
    Ok(())
}

impl OpDecl for Unary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn summary(&self) -> &'static str {
        self.summary
    }
    fn family(&self) -> &'static str {
        "elementwise"
    }
    /// Constraints: `unary-c1` the element type suits the operation, `unary-c2` the attribute
    /// `approximate` is `none` or `tanh`.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        operand_count(op, (1, 1))?;
        let x = op.operand(0)?;
        if !self.accepts(x.dtype) {
            let wanted = match self.apply {
                UnaryFn::Number(..) | UnaryFn::Clamp => "a float or an integer type",
                UnaryFn::Not => "i1 or an integer type",
                _ => "a float type",
            };
            let message = format!("{} of {}, wanted {wanted}", op.name, x.dtype);
            return Err(OpError::new("unary-c1", message));
        }
        check_attributes(op, self.apply)?;
        let test = matches!(self.apply, UnaryFn::Test(_));
        one(x.dims.clone(), if test { DType::BOOL } else { x.dtype })
    }
    fn eval(
        &self,
        op: &OpRef<'_>,
        inputs: &[&Tensor],
        cx: &EvalContext<'_>,
    ) -> Result<Vec<Tensor>, EvalError> {
        evaluate(self, op, inputs, cx, |call| self.compute(call))
    }
    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        broadcasting(op)
    }
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
    let scale = (-a * a).exp() / std::f64::consts::PI.sqrt();
    if a < 3.0 {
        let (mut term, mut sum, mut n) = (a, a, 1.0);
        while 1e-17 * sum < term {
            term *= 2.0 * a * a / (2.0 * n + 1.0);
            sum += term;
            n += 1.0;
        }
        return (2.0 * scale * sum).copysign(x);
    }
    let fraction = (1..60)
        .rev()
        .fold(a, |tail, k| a + f64::from(k) / 2.0 / tail);
    (1.0 - scale / fraction).copysign(x)
}

fn gelu(x: f64) -> f64 {
    0.5 * x * (1.0 + erf(x / std::f64::consts::SQRT_2))
}
fn gelu_tanh(x: f64) -> f64 {
    let inner = (2.0 / std::f64::consts::PI).sqrt() * (x + 0.044_715 * x * x * x);
    0.5 * x * (1.0 + inner.tanh())
}
fn sigmoid(x: f64) -> f64 {
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
fn hard_sigmoid(x: f64, [alpha, beta]: [f64; 2]) -> f64 {
    (alpha * x + beta).clamp(0.0, 1.0)
}
fn clamp(x: f64, low: Option<f64>, high: Option<f64>) -> f64 {
    let x = low.map_or(x, |low| if x < low { low } else { x });
    high.map_or(x, |high| if high < x { high } else { x })
}
/// `low` below 0, `x` elsewhere; NaN stays.
fn below(x: f64, low: impl Fn(f64) -> f64) -> f64 {
    if x < 0.0 { low(x) } else { x }
}

const NONE: (&str, f64) = ("", 0.0);

#[rustfmt::skip]
const UNARY: &[Unary] = &{
    use UnaryFn::{Clamp, Float, Gelu, Identity, Not, Number, Test, With};
    const fn op(name: &'static str, summary: &'static str, apply: UnaryFn) -> Unary {
        Unary { name, summary, apply }
    }
    [
        op("hbir.neg", "-x", Number(|x| -x, |x| -x)),
        op("hbir.abs", "the absolute value", Number(f64::abs, i128::abs)),
        op("hbir.sign", "-1, 0 or 1", Number(sign, i128::signum)),
        op("hbir.exp", "e^x", Float(f64::exp)),
        op("hbir.expm1", "e^x - 1, exact near 0", Float(f64::exp_m1)),
        op("hbir.log", "the natural logarithm", Float(f64::ln)),
        op("hbir.log1p", "log(1 + x), exact near 0", Float(f64::ln_1p)),
        op("hbir.sqrt", "the square root", Float(f64::sqrt)),
        op("hbir.cbrt", "the cube root", Float(f64::cbrt)),
        op("hbir.rsqrt", "1 / sqrt(x)", Float(|x| 1.0 / x.sqrt())),
        op("hbir.reciprocal", "1 / x", Float(|x| 1.0 / x)),
        op("hbir.erf", "the error function", Float(erf)),
        op("hbir.tanh", "the hyperbolic tangent", Float(f64::tanh)),
        op("hbir.sigmoid", "1 / (1 + e^-x)", Float(sigmoid)),
        op("hbir.relu", "max(x, 0)", Number(relu, |x| x.max(0))),
        op("hbir.sin", "the sine", Float(f64::sin)),
        op("hbir.cos", "the cosine", Float(f64::cos)),
        op("hbir.tan", "the tangent", Float(f64::tan)),
        op("hbir.asin", "the inverse sine", Float(f64::asin)),
        op("hbir.acos", "the inverse cosine", Float(f64::acos)),
        op("hbir.atan", "the inverse tangent", Float(f64::atan)),
        op("hbir.sinh", "the hyperbolic sine", Float(f64::sinh)),
        op("hbir.cosh", "the hyperbolic cosine", Float(f64::cosh)),
        op("hbir.asinh", "the inverse hyperbolic sine", Float(f64::asinh)),
        op("hbir.acosh", "the inverse hyperbolic cosine", Float(f64::acosh)),
        op("hbir.atanh", "the inverse hyperbolic tangent", Float(f64::atanh)),
        op("hbir.floor", "the greatest integer not above x", Float(f64::floor)),
        op("hbir.ceil", "the least integer not below x", Float(f64::ceil)),
        op("hbir.round", "the nearest integer, ties to even", Float(f64::round_ties_even)),
        op("hbir.not", "not x; on integers every bit", Not),
        op("hbir.is_nan", "whether x is no number", Test(f64::is_nan)),
        op("hbir.is_inf", "whether x is infinite", Test(f64::is_infinite)),
        op("hbir.gelu", "x * Phi(x); `approximate` = none or tanh", Gelu),
        op("hbir.silu", "x * sigmoid(x)", Float(|x| x * sigmoid(x))),
        op("hbir.softplus", "log(1 + e^x)", Float(softplus)),
        op("hbir.softsign", "x / (1 + |x|)", Float(|x| x / (1.0 + x.abs()))),
        op("hbir.hard_swish", "x * max(0, min(1, x / 6 + 0.5))",
           Float(|x| x * (x / 6.0 + 0.5).clamp(0.0, 1.0))),
        op("hbir.hard_sigmoid", "max(0, min(1, alpha * x + beta))",
           With([("alpha", 0.2), ("beta", 0.5)], hard_sigmoid)),
        op("hbir.leaky_relu", "alpha * x below 0, else x",
           With([("alpha", 0.01), NONE], |x, [a, _]| below(x, |x| a * x))),
        op("hbir.elu", "alpha * (e^x - 1) below 0, else x",
           With([("alpha", 1.0), NONE], |x, [a, _]| below(x, |x| a * x.exp_m1()))),
        op("hbir.selu", "gamma * elu(x, alpha)",
           With([("alpha", 1.673_263_192_176_818_8), ("gamma", 1.050_700_902_938_842_8)],
                |x, [a, g]| g * below(x, |x| a * x.exp_m1()))),
        op("hbir.celu", "alpha * (e^(x / alpha) - 1) below 0, else x",
           With([("alpha", 1.0), NONE], |x, [a, _]| below(x, |x| a * (x / a).exp_m1()))),
        op("hbir.thresholded_relu", "x above alpha, else 0",
           With([("alpha", 1.0), NONE], |x, [a, _]| if x <= a { 0.0 } else { x })),
        op("hbir.mish", "x * tanh(softplus(x))", Float(|x| x * softplus(x).tanh())),
        op("hbir.clamp", "min(max(x, `min`), `max`); a bound may be absent", Clamp),
        op("hbir.identity", "x", Identity),
    ]
};

/// Which element types a binary operation takes.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Takes {
    Any,
    Numbers,
    Floats,
    Integers,
    IntegersAndBool,
}

/// An operation of two operands with numpy's broadcasting.
#[derive(Clone, Copy)]
struct Binary {
    name: &'static str,
    summary: &'static str,
    takes: Takes,
    float: fn(f64, f64) -> f64,
    integer: fn(i128, i128) -> i128,
    /// Whether the second operand must broadcast to the first.
    one_way: bool,
}

impl Binary {
    fn accepts(&self, dtype: DType) -> bool {
        match self.takes {
            Takes::Any => true,
            Takes::Numbers => !dtype.is_bool(),
            Takes::Floats => dtype.is_float(),
            Takes::Integers => !dtype.is_bool() && !dtype.is_float(),
            Takes::IntegersAndBool => !dtype.is_float(),
        }
    }

    fn compute(&self, call: &Call<'_>) -> Vec<Tensor> {
        let fmod = self.name == "hbir.mod" && flag_or(call.op, "fmod", false) == Ok(true);
        let (a, b, shape) = (call.input(0), call.input(1), call.shape());
        let at = Offsets::broadcast(&a.shape, &shape).zip(Offsets::broadcast(&b.shape, &shape));
        if a.dtype.is_float() {
            let f = if fmod {
                |x: f64, y: f64| x % y
            } else {
                self.float
            };
            call.floats(at.map(|(i, j)| f(a.f64_at(i), b.f64_at(j))))
        } else {
            let f = if fmod { truncated_rem } else { self.integer };
            call.integers(at.map(|(i, j)| f(a.i128_at(i), b.i128_at(j))))
        }
    }
}

impl OpDecl for Binary {
    fn name(&self) -> &'static str {
        self.name
    }
    fn summary(&self) -> &'static str {
        self.summary
    }
    fn family(&self) -> &'static str {
        "elementwise"
    }
    /// Constraints: `binary-c1` one element type, `binary-c2` it suits the operation, `binary-c3`
    /// the shapes broadcast, `binary-c4` (prelu) the slope broadcasts to the first operand.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        operand_count(op, (2, 2))?;
        let dtype = common_dtype(op, "binary-c1", 0..2)?;
        if !self.accepts(dtype) {
            let wanted = match self.takes {
                Takes::Any | Takes::Numbers => "a float or an integer type",
                Takes::Floats => "a float type",
                Takes::Integers => "an integer type",
                Takes::IntegersAndBool => "i1 or an integer type",
            };
            let message = format!("{} of {dtype}, wanted {wanted}", op.name);
            return Err(OpError::new("binary-c2", message));
        }
        flag_or(op, "fmod", false)?;
        let shapes = operand_dims(op)?;
        let dims = broadcast(op, "binary-c3", &shapes)?;
        if self.one_way && !compatible(&dims, shapes[0]) {
            let (x, slope) = (show(shapes[0]), show(shapes[1]));
            let message = format!(
                "{} of {x} has a slope of {slope}, wanted one that broadcasts to it",
                op.name
            );
            return Err(OpError::new("binary-c4", message));
        }
        one(dims, dtype)
    }
    fn eval(
        &self,
        op: &OpRef<'_>,
        inputs: &[&Tensor],
        cx: &EvalContext<'_>,
    ) -> Result<Vec<Tensor>, EvalError> {
        evaluate(self, op, inputs, cx, |call| Ok(self.compute(call)))
    }
    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        broadcasting(op)
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

#[rustfmt::skip]
const BINARY: &[Binary] = &{
    use Takes::{Any, Floats, Integers, IntegersAndBool, Numbers};
    const fn op(
        name: &'static str,
        summary: &'static str,
        takes: Takes,
        float: fn(f64, f64) -> f64,
        integer: fn(i128, i128) -> i128,
    ) -> Binary {
        Binary { name, summary, takes, float, integer, one_way: false }
    }
    [
        op("hbir.add", "a + b; or on i1", Any, |a, b| a + b, |a, b| a + b),
        op("hbir.sub", "a - b", Numbers, |a, b| a - b, |a, b| a - b),
        op("hbir.mul", "a * b; and on i1", Any, |a, b| a * b, i128::wrapping_mul),
        op("hbir.div", "a / b; integers truncate", Numbers, |a, b| a / b,
           |a, b| a.checked_div(b).unwrap_or(0)),
        op("hbir.pow", "a^b", Numbers, f64::powf, int_pow),
        op("hbir.atan2", "the angle of the point (b, a), -pi to pi", Floats, f64::atan2, no_integer),
        op("hbir.max", "the greater; NaN wins", Any, max_nan, i128::max),
        op("hbir.min", "the lesser; NaN wins", Any, min_nan, i128::min),
        op("hbir.mod", "the remainder with b's sign, with `fmod` a's", Numbers,
           floored_rem_f64, floored_rem),
        op("hbir.and", "a and b; on integers every bit", IntegersAndBool, no_float, |a, b| a & b),
        op("hbir.or", "a or b; on integers every bit", IntegersAndBool, no_float, |a, b| a | b),
        op("hbir.xor", "either a or b; on integers every bit", IntegersAndBool, no_float,
           |a, b| a ^ b),
        op("hbir.shift_left", "a * 2^b", Integers, no_float, shift_left),
        op("hbir.shift_right", "a / 2^b, rounded down", Integers, no_float, shift_right),
        op("hbir.bit_and", "the bits in both", Integers, no_float, |a, b| a & b),
        op("hbir.bit_or", "the bits in either", Integers, no_float, |a, b| a | b),
        op("hbir.bit_xor", "the bits in one only", Integers, no_float, |a, b| a ^ b),
        Binary { one_way: true, ..op("hbir.prelu", "slope * x below 0, else x", Numbers,
           |x, slope| if x < 0.0 { slope * x } else { x },
           |x, slope| if x < 0 { slope * x } else { x }) },
    ]
};

pub(super) fn register(registry: &mut Registry) {
    for &op in UNARY {
        registry.add(op);
    }
    for &op in BINARY {
        registry.add(op);
    }
}
