//! Element-wise operators: unary, binary with broadcasting, comparison, selection, conversion.

use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx, props};
use crate::tensor::dtype;
use optc_ir::{Attr, AttrDict, DType, MiniFloat};

/// The rules of this family.
#[rustfmt::skip]
pub(super) static RULES: &[Rule] = &[
    native("Abs", |cx| unary(cx, "hbir.abs")),
    native("Acos", |cx| unary(cx, "hbir.acos")),
    native("Acosh", |cx| unary(cx, "hbir.acosh")),
    native("Add", |cx| binary(cx, "hbir.add")),
    native("And", |cx| binary(cx, "hbir.and")),
    native("Asin", |cx| unary(cx, "hbir.asin")),
    native("Asinh", |cx| unary(cx, "hbir.asinh")),
    native("Atan", |cx| unary(cx, "hbir.atan")),
    native("Atanh", |cx| unary(cx, "hbir.atanh")),
    native("BitShift", bit_shift),
    native("BitwiseAnd", |cx| binary(cx, "hbir.bit_and")),
    decomposed("BitwiseNot", bitwise_not),
    native("BitwiseOr", |cx| binary(cx, "hbir.bit_or")),
    native("BitwiseXor", |cx| binary(cx, "hbir.bit_xor")),
    native("Cast", cast),
    native("CastLike", cast_like),
    native("Ceil", |cx| unary(cx, "hbir.ceil")),
    native("Celu", |cx| with_floats(cx, "hbir.celu", &[("alpha", 1.0)])),
    native("Clip", clip),
    native("Cos", |cx| unary(cx, "hbir.cos")),
    native("Cosh", |cx| unary(cx, "hbir.cosh")),
    native("Div", |cx| binary(cx, "hbir.div")),
    native("Elu", |cx| with_floats(cx, "hbir.elu", &[("alpha", 1.0)])),
    native("Equal", |cx| compare(cx, "eq")),
    native("Erf", |cx| unary(cx, "hbir.erf")),
    native("Exp", |cx| unary(cx, "hbir.exp")),
    native("Floor", |cx| unary(cx, "hbir.floor")),
    native("Gelu", gelu),
    native("Greater", |cx| compare(cx, "gt")),
    native("GreaterOrEqual", |cx| compare(cx, "ge")),
    native("HardSigmoid", |cx| with_floats(cx, "hbir.hard_sigmoid", &[("alpha", f64::from(0.2f32)), ("beta", 0.5)])),
    native("HardSwish", |cx| unary(cx, "hbir.hard_swish")),
    native("IsInf", is_inf),
    native("IsNaN", |cx| unary(cx, "hbir.is_nan")),
    native("LeakyRelu", |cx| with_floats(cx, "hbir.leaky_relu", &[("alpha", f64::from(0.01f32))])),
    native("Less", |cx| compare(cx, "lt")),
    native("LessOrEqual", |cx| compare(cx, "le")),
    native("Log", |cx| unary(cx, "hbir.log")),
    native("Max", |cx| variadic(cx, "hbir.max")),
    decomposed("Mean", mean),
    native("Min", |cx| variadic(cx, "hbir.min")),
    native("Mish", |cx| unary(cx, "hbir.mish")),
    native("Mod", modulo),
    native("Mul", |cx| binary(cx, "hbir.mul")),
    native("Neg", |cx| unary(cx, "hbir.neg")),
    native("Not", |cx| unary(cx, "hbir.not")),
    native("Or", |cx| binary(cx, "hbir.or")),
    native("PRelu", |cx| binary(cx, "hbir.prelu")),
    native("Pow", pow),
    native("Reciprocal", |cx| unary(cx, "hbir.reciprocal")),
    native("Relu", |cx| unary(cx, "hbir.relu")),
    native("Round", |cx| unary(cx, "hbir.round")),
    native("Selu", |cx| with_floats(cx, "hbir.selu", &[("alpha", f64::from(1.673_263_2_f32)), ("gamma", f64::from(1.050_701_f32))])),
    decomposed("Shrink", shrink),
    native("Sigmoid", |cx| unary(cx, "hbir.sigmoid")),
    native("Sign", |cx| unary(cx, "hbir.sign")),
    native("Sin", |cx| unary(cx, "hbir.sin")),
    native("Sinh", |cx| unary(cx, "hbir.sinh")),
    native("Softplus", |cx| unary(cx, "hbir.softplus")),
    native("Softsign", |cx| unary(cx, "hbir.softsign")),
    native("Sqrt", |cx| unary(cx, "hbir.sqrt")),
    native("Sub", |cx| binary(cx, "hbir.sub")),
    native("Sum", |cx| variadic(cx, "hbir.add")),
    decomposed("SwiGLU", swiglu),
    native("Swish", |cx| swish(cx, 1.0)),
    native("Tan", |cx| unary(cx, "hbir.tan")),
    native("Tanh", |cx| unary(cx, "hbir.tanh")),
    native("ThresholdedRelu", |cx| with_floats(cx, "hbir.thresholded_relu", &[("alpha", 1.0)])),
    native("Where", select),
    native("Xor", |cx| binary(cx, "hbir.xor")),
];

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[
    decomposed("BiasGelu", |cx| bias_gelu(cx, "none")),
    native("FastGelu", |cx| bias_gelu(cx, "tanh")),
    native("Gelu", |cx| gelu_of(cx, "none")),
    native("QuickGelu", |cx| swish(cx, f64::from(1.702_f32))),
];

fn unary(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    let x = cx.need(0)?;
    cx.finish(name, &[x], AttrDict::new())
}

fn binary(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    cx.finish(name, &operands, AttrDict::new())
}

fn variadic(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    let result = chain(cx, name)?;
    cx.set(0, result);
    Ok(())
}

/// The left-to-right combination of all inputs.
fn chain(cx: &mut NodeCx<'_, '_>, name: &str) -> Result<Val, Stop> {
    let inputs = cx.all_inputs()?;
    let mut result = inputs[0];
    for &next in &inputs[1..] {
        result = cx.emit(name, &[result, next], AttrDict::new())?;
    }
    Ok(result)
}

fn mean(cx: &mut NodeCx<'_, '_>) -> Done {
    let sum = chain(cx, "hbir.add")?;
    let count = cx.scalar_like(cx.inputs.len() as f64, sum)?;
    cx.finish("hbir.div", &[sum, count], AttrDict::new())
}

/// A unary operator whose float attributes have these names and defaults.
fn with_floats(cx: &mut NodeCx<'_, '_>, name: &str, attrs: &[(&str, f64)]) -> Done {
    let x = cx.need(0)?;
    let attr = |&(key, default): &_| (key, Attr::float(cx.float(key, default)));
    let dict: AttrDict = attrs.iter().map(attr).collect();
    cx.finish(name, &[x], dict)
}

fn compare(cx: &mut NodeCx<'_, '_>, direction: &str) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    cx.finish(
        "hbir.compare",
        &operands,
        props([("direction", Attr::str(direction))]),
    )
}

fn select(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    cx.finish("hbir.select", &operands, AttrDict::new())
}

fn cast(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let code = cx
        .int("to")
        .ok_or_else(|| Stop::error("attribute-missing", "`to` is missing"))?;
    let to = dtype(i32::try_from(code).unwrap_or(-1))
        .map_err(|found| Stop::opaque(format!("it converts to {found}")))?;
    let result = cast_to(cx, x, to)?;
    cx.set(0, result);
    Ok(())
}

/// A conversion as `Cast` makes it: to a small float what lies beyond its greatest number becomes that
/// one, unless `saturate` is 0.
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
    let bounds = AttrDict::new()
        .with("min", Attr::float(-greatest))
        .with("max", Attr::float(greatest));
    let within = cx.emit("hbir.clamp", &[wide], bounds)?;
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
    let mut dict = AttrDict::new();
    let mut value = x;
    for (i, key, name) in [(1, "min", "hbir.max"), (2, "max", "hbir.min")] {
        let constant = cx.const_floats(i).and_then(|v| v.first().copied());
        let attr = cx.attr(key).and_then(|a| a.f).map(f64::from);
        match (attr.or(constant), cx.input(i)) {
            (Some(bound), _) => dict.set(key, Attr::float(bound)),
            (None, Some(bound)) => value = cx.emit(name, &[value, bound], AttrDict::new())?,
            (None, None) => {}
        }
    }
    if !dict.is_empty() {
        value = cx.emit("hbir.clamp", &[value], dict)?;
    }
    cx.set(0, value);
    Ok(())
}

/// `Pow`: the exponent takes the element type of the base.
fn pow(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, y) = (cx.need(0)?, cx.need(1)?);
    let (base, exponent) = (cx.dtype(x)?, cx.dtype(y)?);
    if !base.is_float() && exponent.is_float() {
        return integer_pow(cx, x, y, base, exponent);
    }
    let y = cx.cast(y, base)?;
    cx.finish("hbir.pow", &[x, y], AttrDict::new())
}

/// An integer to a float power is computed in floats.
fn integer_pow(cx: &mut NodeCx<'_, '_>, x: Val, y: Val, base: DType, exponent: DType) -> Done {
    let x = cx.cast(x, exponent)?;
    let power = cx.emit("hbir.pow", &[x, y], AttrDict::new())?;
    let result = cx.cast(power, base)?;
    cx.set(0, result);
    Ok(())
}

fn modulo(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    let fmod = cx.flag("fmod", false);
    cx.finish("hbir.mod", &operands, props([("fmod", Attr::Bool(fmod))]))
}

fn bit_shift(cx: &mut NodeCx<'_, '_>) -> Done {
    match cx.string("direction").as_deref() {
        Some("LEFT") => binary(cx, "hbir.shift_left"),
        Some("RIGHT") => binary(cx, "hbir.shift_right"),
        found => {
            let found = found.unwrap_or_default();
            Err(Stop::error(
                "attribute-value",
                format!("`direction` is `{found}`, wanted LEFT or RIGHT"),
            ))
        }
    }
}

fn bitwise_not(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let ones = cx.scalar_like(-1.0, x)?;
    cx.finish("hbir.bit_xor", &[x, ones], AttrDict::new())
}

fn is_inf(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let signs = (
        cx.flag("detect_negative", true),
        cx.flag("detect_positive", true),
    );
    let bound = match signs {
        (true, true) => return unary(cx, "hbir.is_inf"),
        (true, false) => f64::NEG_INFINITY,
        (false, true) => f64::INFINITY,
        (false, false) => {
            let never = cx.compare("lt", x, x)?;
            cx.set(0, never);
            return Ok(());
        }
    };
    let bound = cx.scalar_like(bound, x)?;
    let result = cx.compare("eq", x, bound)?;
    cx.set(0, result);
    Ok(())
}

/// The gelu of `x + bias`; the bias may be absent.
fn bias_gelu(cx: &mut NodeCx<'_, '_>, approximate: &str) -> Done {
    let mut x = cx.need(0)?;
    if let Some(bias) = cx.input(1) {
        x = cx.plain("hbir.add", &[x, bias])?;
    }
    let kind = Attr::str(approximate);
    cx.finish("hbir.gelu", &[x], props([("approximate", kind)]))
}

/// `swish(A) * B`
fn swiglu(cx: &mut NodeCx<'_, '_>) -> Done {
    let gate = swish_value(cx, 1.0)?;
    let linear = cx.need(1)?;
    cx.finish("hbir.mul", &[gate, linear], AttrDict::new())
}

fn gelu(cx: &mut NodeCx<'_, '_>) -> Done {
    let kind = cx.string("approximate").unwrap_or_else(|| "none".into());
    gelu_of(cx, &kind)
}

fn gelu_of(cx: &mut NodeCx<'_, '_>, approximate: &str) -> Done {
    let x = cx.need(0)?;
    cx.finish(
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
        return cx.plain("hbir.silu", &[x]);
    }
    let factor = cx.scalar_like(alpha, x)?;
    let scaled = cx.plain("hbir.mul", &[x, factor])?;
    let gate = cx.plain("hbir.sigmoid", &[scaled])?;
    cx.plain("hbir.mul", &[x, gate])
}

/// `x + bias` below `-lambd`, `x - bias` above `lambd`, else 0.
fn shrink(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let (lambd, bias) = (cx.float("lambd", 0.5), cx.float("bias", 0.0));
    let [low, high, bias, zero] = [-lambd, lambd, bias, 0.0].map(|v| cx.scalar_like(v, x));
    let (low, high, bias, zero) = (low?, high?, bias?, zero?);
    let direction = |d: &str| props([("direction", Attr::str(d))]);
    let below = cx.emit("hbir.compare", &[x, low], direction("lt"))?;
    let above = cx.emit("hbir.compare", &[x, high], direction("gt"))?;
    let up = cx.emit("hbir.add", &[x, bias], AttrDict::new())?;
    let down = cx.emit("hbir.sub", &[x, bias], AttrDict::new())?;
    let upper = cx.emit("hbir.select", &[above, down, zero], AttrDict::new())?;
    cx.finish("hbir.select", &[below, up, upper], AttrDict::new())
}
