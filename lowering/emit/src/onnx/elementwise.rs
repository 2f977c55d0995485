//! Element by element.

use super::attrs::{float, int, text};
use super::turned;
use super::writer::{Outcome, Writer};
use optc_ir::op::Operation;
use optc_ir::{DType, OpData, Sign as Signedness, Value};
use optc_onnx_proto::code;
use optc_ops::{
    Abs, Acos, Acosh, Add, And, Approximate, Asin, Asinh, Atan, Atanh, BitAnd, BitOr, BitXor, Cast,
    Cbrt, Ceil, Celu, Clamp, Compare, Cos, Cosh, Dequantize, Direction, Div, Elu, Erf, Erfc, Exp,
    Expm1, Floor, Gelu, HardSigmoid, HardSwish, Identity, IsInf, IsNan, LeakyRelu, Log, Log1p, Max,
    Min, Mish, Mod, Mul, Neg, Not, Or, Pow, Prelu, Quantize, Reciprocal, Relu, Round, Rsqrt,
    Select, Selu, ShiftLeft, ShiftRight, Sigmoid, Sign, Silu, Sin, Sinh, Softplus, Softsign, Sqrt,
    Sub, Tan, Tanh, ThresholdedRelu, Trilu, Xor,
};

/// Operations that are one operator of the same operands, without attributes, and the version that it came with.
const PLAIN: &[(&str, &str, i64)] = &[
    (Abs::NAME, "Abs", 6),
    (Acos::NAME, "Acos", 7),
    (Acosh::NAME, "Acosh", 9),
    (Asin::NAME, "Asin", 7),
    (Asinh::NAME, "Asinh", 9),
    (Atan::NAME, "Atan", 7),
    (Atanh::NAME, "Atanh", 9),
    (BitAnd::NAME, "BitwiseAnd", 18),
    (BitOr::NAME, "BitwiseOr", 18),
    (BitXor::NAME, "BitwiseXor", 18),
    (Ceil::NAME, "Ceil", 6),
    (Cos::NAME, "Cos", 7),
    (Cosh::NAME, "Cosh", 9),
    (Div::NAME, "Div", 7),
    (Erf::NAME, "Erf", 9),
    (Exp::NAME, "Exp", 6),
    (Floor::NAME, "Floor", 6),
    (HardSwish::NAME, "HardSwish", 14),
    (Identity::NAME, "Identity", 1),
    (IsInf::NAME, "IsInf", 10),
    (IsNan::NAME, "IsNaN", 9),
    (Log::NAME, "Log", 6),
    (Max::NAME, "Max", 8),
    (Min::NAME, "Min", 8),
    (Mish::NAME, "Mish", 18),
    (Neg::NAME, "Neg", 6),
    (Pow::NAME, "Pow", 7),
    (Prelu::NAME, "PRelu", 7),
    (Reciprocal::NAME, "Reciprocal", 6),
    (Relu::NAME, "Relu", 6),
    (Round::NAME, "Round", 11),
    (Select::NAME, "Where", 9),
    (Sigmoid::NAME, "Sigmoid", 6),
    (Sign::NAME, "Sign", 9),
    (Sin::NAME, "Sin", 7),
    (Sinh::NAME, "Sinh", 9),
    (Softplus::NAME, "Softplus", 1),
    (Softsign::NAME, "Softsign", 1),
    (Sqrt::NAME, "Sqrt", 6),
    (Sub::NAME, "Sub", 7),
    (Tan::NAME, "Tan", 7),
    (Tanh::NAME, "Tanh", 6),
];

/// The numbers of floats of 8 bits.
const FLOATS_OF_8_BITS: std::ops::RangeInclusive<i32> = 17..=20;

/// The name of the result; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let plain = PLAIN.iter().find(|(name, ..)| *name == &*data.name);
    if let Some((_, op_type, since)) = plain
        && *since <= w.opset
    {
        let given = w.operands(data)?;
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        return Ok(Some(w.node(op_type, &given, vec![])));
    }
    let attrs = match &*data.name {
        Elu::NAME => ("Elu", vec![float("alpha", w.typed::<Elu>(data)?.alpha)]),
        Celu::NAME if 12 <= w.opset => ("Celu", vec![float("alpha", w.typed::<Celu>(data)?.alpha)]),
        LeakyRelu::NAME => (
            "LeakyRelu",
            vec![float("alpha", w.typed::<LeakyRelu>(data)?.alpha)],
        ),
        ThresholdedRelu::NAME if 10 <= w.opset => (
            "ThresholdedRelu",
            vec![float("alpha", w.typed::<ThresholdedRelu>(data)?.alpha)],
        ),
        Selu::NAME => {
            let made = w.typed::<Selu>(data)?;
            let attrs = vec![float("alpha", made.alpha), float("gamma", made.gamma)];
            ("Selu", attrs)
        }
        HardSigmoid::NAME => {
            let made = w.typed::<HardSigmoid>(data)?;
            let attrs = vec![float("alpha", made.alpha), float("beta", made.beta)];
            ("HardSigmoid", attrs)
        }
        Mod::NAME if 10 <= w.opset => {
            let fmod = w.typed::<Mod>(data)?.fmod;
            let floats = w.tensor(data.operands[0])?.dtype.is_float();
            if floats && !fmod && w.opset < 28 {
                return Err(w.without_form(data, "Mod of floats has the sign of the dividend"));
            }
            let attr = int("fmod", fmod);
            ("Mod", if fmod { vec![attr] } else { vec![] })
        }
        Gelu::NAME if 20 <= w.opset => match w.typed::<Gelu>(data)?.approximate {
            Approximate::None => ("Gelu", vec![]),
            Approximate::Tanh => ("Gelu", vec![text("approximate", "tanh")]),
        },
        Cast::NAME => {
            let to = w.tensor(data.results[0])?.dtype;
            let number = code(to);
            let number = number.ok_or_else(|| w.without_form(data, &format!("it has no {to}")))?;
            let mut attrs = vec![int("to", number)];
            // What rounds beyond a float of 8 bits is an infinity or NaN, as the operation has it.
            if FLOATS_OF_8_BITS.contains(&number) && 19 <= w.opset {
                attrs.push(int("saturate", 0));
            }
            ("Cast", attrs)
        }
        _ => return several(w, data),
    };
    let given = w.operands(data)?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    Ok(Some(w.node(attrs.0, &given, attrs.1)))
}

/// Operations with forms of their own.
fn several(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let Some(&first) = data.operands.first() else {
        return Ok(None);
    };
    let dtype = w.tensor(first)?.dtype;
    Ok(Some(match &*data.name {
        Add::NAME => {
            let mut name = turned::biased(w, data)?;
            if name.is_none() {
                name = turned::biased_first(w, data)?;
            }
            match name {
                Some(name) => name,
                None => of_numbers(w, data, "Add", "Or")?,
            }
        }
        Mul::NAME => of_numbers(w, data, "Mul", "And")?,
        And::NAME => logic(w, data, ["And", "BitwiseAnd"])?,
        Or::NAME => logic(w, data, ["Or", "BitwiseOr"])?,
        Xor::NAME => logic(w, data, ["Xor", "BitwiseXor"])?,
        Not::NAME => logic(w, data, ["Not", "BitwiseNot"])?,
        Clamp::NAME => clamp(w, data, dtype)?,
        Compare::NAME => compare(w, data)?,
        Trilu::NAME if 14 <= w.opset => {
            let made = w.typed::<Trilu>(data)?;
            let x = w.name(first)?;
            let upper = int("upper", made.upper);
            let k = match made.k {
                0 => String::new(),
                k => {
                    let k = optc_ir::Tensor::from_i64(DType::SI64, vec![], [k]);
                    w.literal(&k)?
                }
            };
            w.node("Trilu", &[&x, &k], vec![upper])
        }
        Quantize::NAME | Dequantize::NAME => quantized(w, data)?,
        ShiftLeft::NAME => shift(w, data, "Mul")?,
        ShiftRight::NAME if !dtype.is_signed() || 28 <= w.opset => shift(w, data, "Div")?,
        _ => return composed(w, data, first, dtype),
    }))
}

fn unsigned(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Int {
            sign: Signedness::Unsigned,
            ..
        }
    )
}

/// A shift of unsigned numbers, or a product with or quotient by a power of two.
fn shift(w: &mut Writer<'_>, data: &OpData, op_type: &str) -> Outcome<String> {
    let [x, by] = two(w, data)?;
    let dtype = w.tensor(data.operands[0])?.dtype;
    let known = if unsigned(dtype) { 11 } else { 28 };
    if known <= w.opset {
        let left = if op_type == "Mul" { "LEFT" } else { "RIGHT" };
        return Ok(w.node("BitShift", &[&x, &by], vec![text("direction", left)]));
    }
    let base = w.number(2.0, dtype)?;
    let power = w.node("Pow", &[&base, &by], vec![]);
    Ok(w.node(op_type, &[&x, &power], vec![]))
}

fn two(w: &mut Writer<'_>, data: &OpData) -> Outcome<[String; 2]> {
    let given = w.operands(data)?;
    <[String; 2]>::try_from(given).map_err(|_| w.refused("wanted two operands".to_owned()))
}

/// An operator of numbers, and of truth values another one.
fn of_numbers(w: &mut Writer<'_>, data: &OpData, numbers: &str, truths: &str) -> Outcome<String> {
    let is_bool = w.tensor(data.operands[0])?.dtype.is_bool();
    let [a, b] = two(w, data)?;
    Ok(w.node(if is_bool { truths } else { numbers }, &[&a, &b], vec![]))
}

fn logic(w: &mut Writer<'_>, data: &OpData, [truths, bits]: [&str; 2]) -> Outcome<String> {
    let is_bool = w.tensor(data.operands[0])?.dtype.is_bool();
    if !is_bool && w.opset < 18 {
        return Err(w.without_form(data, "operators on bits came with version 18"));
    }
    let given = w.operands(data)?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    Ok(w.node(if is_bool { truths } else { bits }, &given, vec![]))
}

fn clamp(w: &mut Writer<'_>, data: &OpData, dtype: DType) -> Outcome<String> {
    let made = w.typed::<Clamp>(data)?;
    let x = w.name(data.operands[0])?;
    if w.opset < 11 {
        let low = made.min.map(|n| float("min", n));
        let high = made.max.map(|n| float("max", n));
        return Ok(w.node("Clip", &[&x], low.into_iter().chain(high).collect()));
    }
    let mut bound = |n: Option<f64>| n.map_or(Ok(String::new()), |n| w.number(n, dtype));
    let (low, high) = (bound(made.min)?, bound(made.max)?);
    Ok(w.node("Clip", &[&x, &low, &high], vec![]))
}

fn compare(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let [a, b] = two(w, data)?;
    let newer = 16 <= w.opset;
    Ok(match w.typed::<Compare>(data)?.direction {
        Direction::Eq => w.node("Equal", &[&a, &b], vec![]),
        Direction::Ne => {
            let equal = w.node("Equal", &[&a, &b], vec![]);
            w.node("Not", &[&equal], vec![])
        }
        Direction::Lt => w.node("Less", &[&a, &b], vec![]),
        Direction::Gt => w.node("Greater", &[&a, &b], vec![]),
        Direction::Le if newer || 12 <= w.opset => w.node("LessOrEqual", &[&a, &b], vec![]),
        Direction::Ge if newer || 12 <= w.opset => w.node("GreaterOrEqual", &[&a, &b], vec![]),
        direction => {
            let strict = if direction == Direction::Le {
                "Less"
            } else {
                "Greater"
            };
            let strict = w.node(strict, &[&a, &b], vec![]);
            let equal = w.node("Equal", &[&a, &b], vec![]);
            w.node("Or", &[&strict, &equal], vec![])
        }
    })
}

/// Scaled integers: an axis where the scale has one.
fn quantized(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let quantizes = &*data.name == Quantize::NAME;
    let (op_type, along) = match quantizes {
        true => ("QuantizeLinear", w.typed::<Quantize>(data)?.axis),
        false => ("DequantizeLinear", w.typed::<Dequantize>(data)?.axis),
    };
    let scaled = w.tensor(data.operands[1])?.rank();
    if 1 < scaled || (scaled == 1 && w.opset < 13) || w.opset < 10 {
        return Err(w.without_form(data, "scales of this shape came with a later version"));
    }
    let mut given = w.operands(data)?;
    let to = w.tensor(data.results[0])?.dtype;
    // Without a zero point the result is of ui8.
    if quantizes && given.len() == 2 && to != DType::UI8 {
        let shape = w.tensor(data.operands[1])?.shape().unwrap_or_default();
        let count = shape.iter().product::<u64>();
        let shape = shape
            .iter()
            .map(|&n| usize::try_from(n).unwrap_or(0))
            .collect();
        let zeros = (0..count).map(|_| 0i64);
        given.push(w.literal(&optc_ir::Tensor::from_i64(to, shape, zeros))?);
    }
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let attrs = if scaled == 1 {
        vec![int("axis", along)]
    } else {
        vec![]
    };
    Ok(w.node(op_type, &given, attrs))
}

/// Operations that older versions, or ONNX altogether, have no operator for.
fn composed(
    w: &mut Writer<'_>,
    data: &OpData,
    first: Value,
    dtype: DType,
) -> Outcome<Option<String>> {
    let known = [
        Cbrt::NAME,
        Celu::NAME,
        Erfc::NAME,
        Expm1::NAME,
        Gelu::NAME,
        HardSwish::NAME,
        Log1p::NAME,
        Mish::NAME,
        Rsqrt::NAME,
        Silu::NAME,
    ];
    if !known.contains(&&*data.name) || *data.name == *Erfc::NAME && w.opset < 9 {
        return Ok(None);
    }
    let x = w.name(first)?;
    Ok(Some(match &*data.name {
        Rsqrt::NAME => {
            let root = w.node("Sqrt", &[&x], vec![]);
            w.node("Reciprocal", &[&root], vec![])
        }
        Silu::NAME if 24 <= w.opset => w.node("Swish", &[&x], vec![]),
        Silu::NAME => {
            let sigmoid = w.node("Sigmoid", &[&x], vec![]);
            w.node("Mul", &[&x, &sigmoid], vec![])
        }
        HardSwish::NAME => {
            let attrs = vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)];
            let sigmoid = w.node("HardSigmoid", &[&x], attrs);
            w.node("Mul", &[&x, &sigmoid], vec![])
        }
        Mish::NAME => {
            let soft = w.node("Softplus", &[&x], vec![]);
            let tanh = w.node("Tanh", &[&soft], vec![]);
            w.node("Mul", &[&x, &tanh], vec![])
        }
        Log1p::NAME => {
            let one = w.number(1.0, dtype)?;
            let more = w.node("Add", &[&x, &one], vec![]);
            w.node("Log", &[&more], vec![])
        }
        Erfc::NAME => {
            let one = w.number(1.0, dtype)?;
            let erf = w.node("Erf", &[&x], vec![]);
            w.node("Sub", &[&one, &erf], vec![])
        }
        Expm1::NAME => {
            let one = w.number(1.0, dtype)?;
            let power = w.node("Exp", &[&x], vec![]);
            w.node("Sub", &[&power, &one], vec![])
        }
        Cbrt::NAME => {
            let third = w.number(1.0 / 3.0, dtype)?;
            let size = w.node("Abs", &[&x], vec![]);
            let root = w.node("Pow", &[&size, &third], vec![]);
            let sign = w.node("Sign", &[&x], vec![]);
            w.node("Mul", &[&sign, &root], vec![])
        }
        Celu::NAME => {
            // max(x, 0) + min(0, alpha * (e^(x / alpha) - 1))
            let alpha = w.number(w_alpha(w, data)?, dtype)?;
            let (zero, one) = (w.number(0.0, dtype)?, w.number(1.0, dtype)?);
            let scaled = w.node("Div", &[&x, &alpha], vec![]);
            let power = w.node("Exp", &[&scaled], vec![]);
            let less = w.node("Sub", &[&power, &one], vec![]);
            let low = w.node("Mul", &[&alpha, &less], vec![]);
            let low = w.node("Min", &[&low, &zero], vec![]);
            let high = w.node("Max", &[&x, &zero], vec![]);
            w.node("Add", &[&high, &low], vec![])
        }
        _ => match w.typed::<Gelu>(data)?.approximate {
            Approximate::None => {
                let root = w.number(std::f64::consts::SQRT_2, dtype)?;
                let (one, half) = (w.number(1.0, dtype)?, w.number(0.5, dtype)?);
                let scaled = w.node("Div", &[&x, &root], vec![]);
                let erf = w.node("Erf", &[&scaled], vec![]);
                let more = w.node("Add", &[&erf, &one], vec![]);
                let product = w.node("Mul", &[&x, &more], vec![]);
                w.node("Mul", &[&product, &half], vec![])
            }
            Approximate::Tanh => {
                let (one, half) = (w.number(1.0, dtype)?, w.number(0.5, dtype)?);
                let (three, cubic) = (w.number(3.0, dtype)?, w.number(0.044_715, dtype)?);
                let scale = w.number((2.0 / std::f64::consts::PI).sqrt(), dtype)?;
                let cube = w.node("Pow", &[&x, &three], vec![]);
                let cube = w.node("Mul", &[&cube, &cubic], vec![]);
                let sum = w.node("Add", &[&x, &cube], vec![]);
                let scaled = w.node("Mul", &[&sum, &scale], vec![]);
                let tanh = w.node("Tanh", &[&scaled], vec![]);
                let more = w.node("Add", &[&tanh, &one], vec![]);
                let product = w.node("Mul", &[&x, &more], vec![]);
                w.node("Mul", &[&product, &half], vec![])
            }
        },
    }))
}

fn w_alpha(w: &Writer<'_>, data: &OpData) -> Outcome<f64> {
    Ok(w.typed::<Celu>(data)?.alpha)
}
