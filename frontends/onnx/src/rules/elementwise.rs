//! Element-wise operators: unary, binary with broadcasting, comparison, selection, conversion.

use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::codes;
use crate::node::{Done, NodeCx, props};
use optc_ir::op::Operation;
use optc_ir::{Attr, DType, MiniFloat};
use optc_onnx_proto::dtype;
use optc_ops::{
    Abs, Acos, Acosh, Add, And, Asin, Asinh, Atan, Atanh, BitAnd, BitOr, BitXor, BitcastConvert,
    Ceil, Celu, Clamp, Compare, Cos, Cosh, Direction, Div, Elu, Erf, Exp, Floor, HardSigmoid,
    HardSwish, IsInf, IsNan, LeakyRelu, Log, Max, Min, Mish, Mod, Mul, Neg, Not, Or, Pow, Prelu,
    Reciprocal, Relu, Round, Select, Selu, ShiftLeft, ShiftRight, Sigmoid, Sign, Silu, Sin, Sinh,
    Softplus, Softsign, Sqrt, Sub, Tan, Tanh, ThresholdedRelu, Xor,
};

/// The rules of this family.
#[rustfmt::skip]
pub(super) static RULES: &[Rule] = &[
    native("Abs", |cx| unary(cx, &Abs {})),
    native("Acos", |cx| unary(cx, &Acos {})),
    native("Acosh", |cx| unary(cx, &Acosh {})),
    native("Add", |cx| binary(cx, &Add {})),
    native("And", |cx| binary(cx, &And {})),
    native("Asin", |cx| unary(cx, &Asin {})),
    native("Asinh", |cx| unary(cx, &Asinh {})),
    native("Atan", |cx| unary(cx, &Atan {})),
    native("Atanh", |cx| unary(cx, &Atanh {})),
    native("BitCast", bit_cast),
    native("BitShift", bit_shift),
    native("BitwiseAnd", |cx| binary(cx, &BitAnd {})),
    decomposed("BitwiseNot", bitwise_not),
    native("BitwiseOr", |cx| binary(cx, &BitOr {})),
    native("BitwiseXor", |cx| binary(cx, &BitXor {})),
    native("Cast", cast),
    native("CastLike", cast_like),
    native("Ceil", |cx| unary(cx, &Ceil {})),
    native("Celu", |cx| with(cx, |cx| Celu { alpha: cx.float("alpha", 1.0) })),
    native("Clip", clip),
    native("Cos", |cx| unary(cx, &Cos {})),
    native("Cosh", |cx| unary(cx, &Cosh {})),
    native("Div", |cx| binary(cx, &Div {})),
    native("Elu", |cx| with(cx, |cx| Elu { alpha: cx.float("alpha", 1.0) })),
    native("Equal", |cx| compare(cx, Direction::Eq)),
    native("Erf", |cx| unary(cx, &Erf {})),
    native("Exp", |cx| unary(cx, &Exp {})),
    native("Floor", |cx| unary(cx, &Floor {})),
    native("Gelu", gelu),
    native("Greater", |cx| compare(cx, Direction::Gt)),
    native("GreaterOrEqual", |cx| compare(cx, Direction::Ge)),
    native("HardSigmoid", |cx| with(cx, |cx| HardSigmoid { alpha: cx.float("alpha", f64::from(0.2f32)), beta: cx.float("beta", 0.5) })),
    native("HardSwish", |cx| unary(cx, &HardSwish {})),
    native("IsInf", is_inf),
    native("IsNaN", |cx| unary(cx, &IsNan {})),
    native("LeakyRelu", |cx| with(cx, |cx| LeakyRelu { alpha: cx.float("alpha", f64::from(0.01f32)) })),
    native("Less", |cx| compare(cx, Direction::Lt)),
    native("LessOrEqual", |cx| compare(cx, Direction::Le)),
    native("Log", |cx| unary(cx, &Log {})),
    native("Max", |cx| variadic(cx, &Max {})),
    decomposed("Mean", mean),
    native("Min", |cx| variadic(cx, &Min {})),
    native("Mish", |cx| unary(cx, &Mish {})),
    native("Mod", modulo),
    native("Mul", |cx| binary(cx, &Mul {})),
    native("Neg", |cx| unary(cx, &Neg {})),
    native("Not", |cx| unary(cx, &Not {})),
    native("Or", |cx| binary(cx, &Or {})),
    native("PRelu", prelu),
    native("Pow", pow),
    native("Reciprocal", |cx| unary(cx, &Reciprocal {})),
    native("Relu", |cx| unary(cx, &Relu {})),
    native("Round", |cx| unary(cx, &Round {})),
    native("Selu", |cx| with(cx, selu)),
    decomposed("Shrink", shrink),
    native("Sigmoid", |cx| unary(cx, &Sigmoid {})),
    native("Sign", |cx| unary(cx, &Sign {})),
    native("Sin", |cx| unary(cx, &Sin {})),
    native("Sinh", |cx| unary(cx, &Sinh {})),
    native("Softplus", |cx| unary(cx, &Softplus {})),
    native("Softsign", |cx| unary(cx, &Softsign {})),
    native("Sqrt", |cx| unary(cx, &Sqrt {})),
    native("Sub", |cx| binary(cx, &Sub {})),
    native("Sum", |cx| variadic(cx, &Add {})),
    decomposed("SwiGLU", swiglu),
    native("Swish", |cx| swish(cx, 1.0)),
    native("Tan", |cx| unary(cx, &Tan {})),
    native("Tanh", |cx| unary(cx, &Tanh {})),
    native("ThresholdedRelu", |cx| with(cx, |cx| ThresholdedRelu { alpha: cx.float("alpha", 1.0) })),
    native("Where", select),
    native("Xor", |cx| binary(cx, &Xor {})),
];

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[
    decomposed("BiasGelu", |cx| bias_gelu(cx, "none")),
    native("FastGelu", |cx| bias_gelu(cx, "tanh")),
    native("Gelu", |cx| gelu_of(cx, "none")),
    native("QuickGelu", |cx| swish(cx, f64::from(1.702_f32))),
];

fn unary<T: Operation>(cx: &mut NodeCx<'_, '_>, op: &T) -> Done {
    let x = cx.need(0)?;
    cx.finish(op, &[x])
}

fn binary<T: Operation>(cx: &mut NodeCx<'_, '_>, op: &T) -> Done {
    let operands = [cx.need(0)?, cx.combined()?];
    cx.finish(op, &operands)
}

/// `PRelu`; before version 7 the slope has one element for each channel, or one for all elements.
fn prelu(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, mut slope) = (cx.need(0)?, cx.need(1)?);
    if cx.opset < 7 && cx.rank(slope)? == 1 && !cx.dims(slope)?[0].is_one() {
        let behind = cx.rank(x)?.saturating_sub(2);
        let axes: Vec<usize> = (1..=behind).collect();
        slope = cx.unsqueeze(slope, &axes)?;
    }
    cx.finish(&Prelu {}, &[x, slope])
}

fn variadic<T: Operation>(cx: &mut NodeCx<'_, '_>, op: &T) -> Done {
    let result = chain(cx, op)?;
    cx.set(0, result);
    Ok(())
}

/// The combination of all inputs, from left to right.
fn chain<T: Operation>(cx: &mut NodeCx<'_, '_>, op: &T) -> Result<Val, Stop> {
    let inputs = cx.all_inputs()?;
    let mut result = inputs[0];
    for &next in &inputs[1..] {
        result = cx.emit(op, &[result, next])?;
    }
    Ok(result)
}

fn mean(cx: &mut NodeCx<'_, '_>) -> Done {
    let sum = chain(cx, &Add {})?;
    let count = cx.scalar_like(cx.inputs.len() as f64, sum)?;
    cx.finish(&Div {}, &[sum, count])
}

fn selu(cx: &NodeCx<'_, '_>) -> Selu {
    let (alpha, gamma) = match cx.opset < 6 {
        true => (1.6732_f32, 1.0507_f32),
        false => (1.673_263_2, 1.050_701),
    };
    Selu {
        alpha: cx.float("alpha", f64::from(alpha)),
        gamma: cx.float("gamma", f64::from(gamma)),
    }
}

/// A unary operator with the attributes of the node.
fn with<T: Operation>(cx: &mut NodeCx<'_, '_>, op: fn(&NodeCx<'_, '_>) -> T) -> Done {
    let op = op(cx);
    unary(cx, &op)
}

fn compare(cx: &mut NodeCx<'_, '_>, direction: Direction) -> Done {
    let operands = [cx.need(0)?, cx.combined()?];
    cx.finish(&Compare { direction }, &operands)
}

fn select(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    cx.finish(&Select {}, &operands)
}

fn cast(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let named = cx.string("to").map(|name| named_dtype(&name));
    let code = named.unwrap_or_else(|| cx.int("to"));
    let code = match (code, cx.attr("to")) {
        (Some(code), _) => code,
        (None, Some(_)) => return Err(Stop::opaque("it converts to a type that is not known")),
        (None, None) => return Err(Stop::error(codes::ATTRIBUTE_MISSING, "`to` is missing")),
    };
    let result = cast_to(cx, x, element_type(code)?)?;
    cx.set(0, result);
    Ok(())
}

fn element_type(code: i64) -> Result<DType, Stop> {
    let found = dtype(i32::try_from(code).unwrap_or(-1));
    found.map_err(|found| Stop::opaque(format!("it converts to {found}")))
}

/// The same bits as another type. A bool is a byte that is 0 or 1.
fn bit_cast(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let missing = || Stop::error(codes::ATTRIBUTE_MISSING, "`to` is missing");
    let to = element_type(cx.int("to").ok_or_else(missing)?)?;
    let from = cx.dtype(x)?;
    if to.is_bool() && !from.is_bool() {
        return Err(Stop::opaque("it reads bytes as bools"));
    }
    let x = match from.is_bool() && !to.is_bool() {
        true => cx.cast(x, DType::UI8)?,
        false => x,
    };
    if cx.dtype(x)? == to {
        cx.set(0, x);
        return Ok(());
    }
    cx.finish(&BitcastConvert { to }, &[x])
}

/// The number of the element type whose name version 1 of `Cast` has.
fn named_dtype(name: &str) -> Option<i64> {
    const NAMES: [&str; 13] = [
        "FLOAT", "UINT8", "INT8", "UINT16", "INT16", "INT32", "INT64", "STRING", "BOOL", "FLOAT16",
        "DOUBLE", "UINT32", "UINT64",
    ];
    let found = NAMES.iter().position(|n| n.eq_ignore_ascii_case(name));
    found.and_then(|at| i64::try_from(at + 1).ok())
}

/// A conversion as `Cast` defines it. To a small float it saturates at the greatest number, unless `saturate` is 0.
pub(super) fn cast_to(cx: &mut NodeCx<'_, '_>, x: Val, to: DType) -> Result<Val, Stop> {
    let DType::Mini(small) = to else {
        return cx.cast(x, to);
    };
    if small == MiniFloat::E8M0FNU {
        return Err(Stop::opaque(
            "it rounds to powers of two in a mode of its own",
        ));
    }
    if cx.dtype(x)? == to || !cx.flag("saturate", true) {
        return cx.cast(x, to);
    }
    let wide = if cx.dtype(x)?.is_float() {
        x
    } else {
        cx.cast(x, DType::F32)?
    };
    let greatest = small.greatest();
    let (min, max) = (Some(-greatest), Some(greatest));
    let within = cx.emit(&Clamp { min, max }, &[wide])?;
    cx.cast(within, to)
}

fn cast_like(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, like) = (cx.need(0)?, cx.need(1)?);
    let to = cx.dtype(like)?;
    let result = cast_to(cx, x, to)?;
    cx.set(0, result);
    Ok(())
}

/// `Clip`: constant bounds become attributes of `clamp`, others `max` and `min`.
fn clip(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let mut bounds = [None, None];
    let mut value = x;
    for (i, key) in [(1, "min"), (2, "max")] {
        let constant = cx.const_floats(i).and_then(|v| v.first().copied());
        let attr = cx.attr(key).and_then(|a| a.f).map(f64::from);
        let known = attr.or(constant);
        bounds[i - 1] = known;
        let Some(bound) = cx.input(i).filter(|_| known.is_none()) else {
            continue;
        };
        let operands = [value, bound];
        value = match key {
            "min" => cx.emit(&Max {}, &operands)?,
            _ => cx.emit(&Min {}, &operands)?,
        };
    }
    let [min, max] = bounds;
    if min.is_some() || max.is_some() {
        value = cx.emit(&Clamp { min, max }, &[value])?;
    }
    cx.set(0, value);
    Ok(())
}

/// `Pow`: the exponent takes the element type of the base.
fn pow(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, y) = (cx.need(0)?, cx.combined()?);
    let (base, exponent) = (cx.dtype(x)?, cx.dtype(y)?);
    if !base.is_float() && exponent.is_float() {
        return integer_pow(cx, x, y, base, exponent);
    }
    let y = cx.cast(y, base)?;
    cx.finish(&Pow {}, &[x, y])
}

/// An integer to the power of a float is computed in floats.
fn integer_pow(cx: &mut NodeCx<'_, '_>, x: Val, y: Val, base: DType, exponent: DType) -> Done {
    let x = cx.cast(x, exponent)?;
    let power = cx.emit(&Pow {}, &[x, y])?;
    let result = cx.cast(power, base)?;
    cx.set(0, result);
    Ok(())
}

fn modulo(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    let fmod = cx.flag("fmod", false);
    cx.finish(&Mod { fmod }, &operands)
}

fn bit_shift(cx: &mut NodeCx<'_, '_>) -> Done {
    match cx.string("direction").as_deref() {
        Some("LEFT") => binary(cx, &ShiftLeft {}),
        Some("RIGHT") => binary(cx, &ShiftRight {}),
        found => {
            let found = found.unwrap_or_default();
            Err(Stop::opaque(format!("its `direction` is `{found}`")))
        }
    }
}

fn bitwise_not(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let ones = cx.scalar_like(-1.0, x)?;
    cx.finish(&BitXor {}, &[x, ones])
}

fn is_inf(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let signs = (
        cx.flag("detect_negative", true),
        cx.flag("detect_positive", true),
    );
    let bound = match signs {
        (true, true) => return unary(cx, &IsInf {}),
        (true, false) => f64::NEG_INFINITY,
        (false, true) => f64::INFINITY,
        (false, false) => {
            let never = cx.compare(Direction::Lt, x, x)?;
            cx.set(0, never);
            return Ok(());
        }
    };
    let bound = cx.scalar_like(bound, x)?;
    let result = cx.compare(Direction::Eq, x, bound)?;
    cx.set(0, result);
    Ok(())
}

/// The gelu of `x + bias`; the bias may be absent.
fn bias_gelu(cx: &mut NodeCx<'_, '_>, approximate: &str) -> Done {
    let mut x = cx.need(0)?;
    if let Some(bias) = cx.input(1) {
        x = cx.emit(&Add {}, &[x, bias])?;
    }
    let kind = Attr::str(approximate);
    cx.finish_named("hbir.gelu", &[x], props([("approximate", kind)]))
}

/// `swish(A) * B`
fn swiglu(cx: &mut NodeCx<'_, '_>) -> Done {
    let gate = swish_value(cx, 1.0)?;
    let linear = cx.need(1)?;
    cx.finish(&Mul {}, &[gate, linear])
}

fn gelu(cx: &mut NodeCx<'_, '_>) -> Done {
    let kind = cx.string("approximate").unwrap_or_else(|| "none".into());
    gelu_of(cx, &kind)
}

fn gelu_of(cx: &mut NodeCx<'_, '_>, approximate: &str) -> Done {
    let x = cx.need(0)?;
    cx.finish_named(
        "hbir.gelu",
        &[x],
        props([("approximate", Attr::str(approximate))]),
    )
}

/// `x * sigmoid(alpha * x)`
fn swish(cx: &mut NodeCx<'_, '_>, default: f64) -> Done {
    let result = swish_value(cx, default)?;
    cx.set(0, result);
    Ok(())
}

fn swish_value(cx: &mut NodeCx<'_, '_>, default: f64) -> Result<Val, Stop> {
    let x = cx.need(0)?;
    let alpha = cx.float("alpha", default);
    if alpha == 1.0 {
        return cx.emit(&Silu {}, &[x]);
    }
    let factor = cx.scalar_like(alpha, x)?;
    let scaled = cx.emit(&Mul {}, &[x, factor])?;
    let gate = cx.emit(&Sigmoid {}, &[scaled])?;
    cx.emit(&Mul {}, &[x, gate])
}

/// `x + bias` below `-lambd`, `x - bias` above `lambd`, else 0.
fn shrink(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let (lambd, bias) = (cx.float("lambd", 0.5), cx.float("bias", 0.0));
    let [low, high, bias, zero] = [-lambd, lambd, bias, 0.0].map(|v| cx.scalar_like(v, x));
    let (low, high, bias, zero) = (low?, high?, bias?, zero?);
    let below = cx.compare(Direction::Lt, x, low)?;
    let above = cx.compare(Direction::Gt, x, high)?;
    let up = cx.emit(&Add {}, &[x, bias])?;
    let down = cx.emit(&Sub {}, &[x, bias])?;
    let upper = cx.emit(&Select {}, &[above, down, zero])?;
    cx.finish(&Select {}, &[below, up, upper])
}
