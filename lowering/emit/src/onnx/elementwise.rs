//! Element by element.

use super::attrs::{float, int, text};
use super::shapes::{cast, compared, exact, expanded, reshaped};
use super::turned;
use super::writer::{Outcome, Writer};
use optc_ir::op::Operation;
use optc_ir::{DType, Dim, OpData, Tensor, Value};
use optc_onnx_proto::code;
use optc_ops::{
    Abs, Acos, Acosh, Add, And, Approximate, Asin, Asinh, Atan, Atanh, BitAnd, BitOr, BitXor, Cast,
    Cbrt, Ceil, Celu, Clamp, Compare, Cos, Cosh, Dequantize, Direction, Div, Elu, Erf, Erfc, Exp,
    Expm1, Floor, Gelu, HardSigmoid, HardSwish, Identity, IsInf, IsNan, LeakyRelu, Log, Log1p, Max,
    Min, Mish, Mod, Mul, Neg, Not, Or, Pow, Prelu, Quantize, Reciprocal, Relu, Round, Rsqrt,
    Select, Selu, ShiftLeft, ShiftRight, Sigmoid, Sign, Silu, Sin, Sinh, Softplus, Softsign, Sqrt,
    Sub, Tan, Tanh, ThresholdedRelu, Trilu, Xor,
};

/// Operations that are one operator of the same operands, without attributes.
const PLAIN: &[(&str, &str)] = &[
    (Abs::NAME, "Abs"),
    (Acos::NAME, "Acos"),
    (Acosh::NAME, "Acosh"),
    (Asin::NAME, "Asin"),
    (Asinh::NAME, "Asinh"),
    (Atan::NAME, "Atan"),
    (Atanh::NAME, "Atanh"),
    (BitAnd::NAME, "BitwiseAnd"),
    (BitOr::NAME, "BitwiseOr"),
    (BitXor::NAME, "BitwiseXor"),
    (Ceil::NAME, "Ceil"),
    (Cos::NAME, "Cos"),
    (Cosh::NAME, "Cosh"),
    (Div::NAME, "Div"),
    (Erf::NAME, "Erf"),
    (Exp::NAME, "Exp"),
    (Floor::NAME, "Floor"),
    (HardSwish::NAME, "HardSwish"),
    (Identity::NAME, "Identity"),
    (IsInf::NAME, "IsInf"),
    (IsNan::NAME, "IsNaN"),
    (Log::NAME, "Log"),
    (Max::NAME, "Max"),
    (Min::NAME, "Min"),
    (Mish::NAME, "Mish"),
    (Neg::NAME, "Neg"),
    (Pow::NAME, "Pow"),
    (Prelu::NAME, "PRelu"),
    (Reciprocal::NAME, "Reciprocal"),
    (Relu::NAME, "Relu"),
    (Round::NAME, "Round"),
    (Select::NAME, "Where"),
    (Sigmoid::NAME, "Sigmoid"),
    (Sign::NAME, "Sign"),
    (Sin::NAME, "Sin"),
    (Sinh::NAME, "Sinh"),
    (Softplus::NAME, "Softplus"),
    (Softsign::NAME, "Softsign"),
    (Sqrt::NAME, "Sqrt"),
    (Sub::NAME, "Sub"),
    (Tan::NAME, "Tan"),
    (Tanh::NAME, "Tanh"),
];

/// Operations of which a result of integers is the same in a type that holds more of them.
const EXACT: &[&str] = &[
    Abs::NAME,
    Div::NAME,
    Max::NAME,
    Min::NAME,
    Neg::NAME,
    Relu::NAME,
    Sign::NAME,
    Sub::NAME,
];

/// The numbers of floats of 8 bits.
const FLOATS_OF_8_BITS: std::ops::RangeInclusive<i32> = 17..=20;

/// The name of the result; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let plain = PLAIN.iter().find(|(name, ..)| *name == &*data.name);
    if let Some((name, op_type)) = plain
        && w.has(op_type)
    {
        let (dtype, to) = (
            w.tensor(data.operands[0])?.dtype,
            w.tensor(data.results[0])?.dtype,
        );
        let given = w.operands(data)?;
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        if [Max::NAME, Min::NAME].contains(name) {
            // Nothing was broadcast before version 8.
            if w.opset < 8 {
                let given = alike(w, data)?;
                return Ok(Some(extreme(w, op_type, [&given[0], &given[1]], dtype)?));
            }
            return Ok(Some(extreme(w, op_type, [given[0], given[1]], dtype)?));
        }
        let widens = dtype.is_float() || EXACT.contains(name);
        return match exact(w, op_type, dtype).filter(|_| widens) {
            Some(wide) => within(w, op_type, &given, (dtype, wide, to)).map(Some),
            None => Ok(Some(w.node(op_type, &given, vec![]))),
        };
    }
    let attrs = match &*data.name {
        Elu::NAME => ("Elu", vec![float("alpha", w.typed::<Elu>(data)?.alpha)]),
        Celu::NAME if w.takes("Celu", w.tensor(data.operands[0])?.dtype) => {
            ("Celu", vec![float("alpha", w.typed::<Celu>(data)?.alpha)])
        }
        LeakyRelu::NAME => (
            "LeakyRelu",
            vec![float("alpha", w.typed::<LeakyRelu>(data)?.alpha)],
        ),
        ThresholdedRelu::NAME => (
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
        Mod::NAME => {
            let fmod = w.typed::<Mod>(data)?.fmod;
            let floats = w.tensor(data.operands[0])?.dtype.is_float();
            // The sign of a remainder is not in the table.
            if floats && !fmod && w.opset < 28 {
                return Err(w.without_form(data, "Mod of floats has the sign of the dividend"));
            }
            let attr = int("fmod", fmod);
            ("Mod", if fmod { vec![attr] } else { vec![] })
        }
        Gelu::NAME if w.has("Gelu") => match w.typed::<Gelu>(data)?.approximate {
            Approximate::None => ("Gelu", vec![]),
            Approximate::Tanh => ("Gelu", vec![text("approximate", "tanh")]),
        },
        Cast::NAME => {
            let to = w.tensor(data.results[0])?.dtype;
            let number = code(to);
            let number = number.ok_or_else(|| w.without_form(data, &format!("it has no {to}")))?;
            let mut attrs = vec![int("to", number)];
            // What rounds beyond a float of 8 bits is an infinity or NaN, as the operation has it.
            if FLOATS_OF_8_BITS.contains(&number) && w.has_attribute("Cast", "saturate") {
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
            let mut name = turned::rejoined(w, data)?;
            if name.is_none() {
                name = turned::biased(w, data)?;
            }
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
        Select::NAME => selected(w, data)?,
        Trilu::NAME => {
            let made = w.typed::<Trilu>(data)?;
            let x = w.name(first)?;
            let upper = int("upper", made.upper);
            let k = match made.k {
                0 => String::new(),
                k => {
                    let k = Tensor::from_i64(DType::SI64, vec![], [k]);
                    w.literal(&k)?
                }
            };
            w.node("Trilu", &[&x, &k], vec![upper])
        }
        Quantize::NAME | Dequantize::NAME => quantized(w, data)?,
        ShiftLeft::NAME => shift(w, data, "Mul")?,
        ShiftRight::NAME if !dtype.is_signed() || w.takes("BitShift", dtype) => {
            shift(w, data, "Div")?
        }
        _ => return composed(w, data, first, dtype),
    }))
}

/// A shift of unsigned numbers, or a product with or quotient by a power of two.
fn shift(w: &mut Writer<'_>, data: &OpData, op_type: &str) -> Outcome<String> {
    let [x, by] = two(w, data)?;
    let dtype = w.tensor(data.operands[0])?.dtype;
    if w.takes("BitShift", dtype) {
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
    let dtype = w.tensor(data.operands[0])?.dtype;
    match exact(w, numbers, dtype).filter(|_| !is_bool) {
        Some(wide) => within(w, numbers, &[&a, &b], (dtype, wide, dtype)),
        None => Ok(w.node(if is_bool { truths } else { numbers }, &[&a, &b], vec![])),
    }
}

/// An operator in a wider type, and its result in the type `to`.
fn within(
    w: &mut Writer<'_>,
    op_type: &str,
    given: &[&str],
    (dtype, wide, to): (DType, DType, DType),
) -> Outcome<String> {
    let given: Vec<String> = given
        .iter()
        .map(|name| cast(w, name, dtype, wide))
        .collect::<Outcome<_>>()?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    let name = w.node(op_type, &given, vec![]);
    if to != dtype {
        return Ok(name);
    }
    cast(w, &name, wide, to)
}

/// Both operands in the dimensions of the result.
fn alike(w: &mut Writer<'_>, data: &OpData) -> Outcome<[String; 2]> {
    let mut given = two(w, data)?;
    let to = w.tensor(data.results[0])?.dims.clone();
    for (name, &value) in given.iter_mut().zip(&data.operands) {
        let from = w.tensor(value)?.dims.clone();
        if from != to {
            *name = expanded(w, data, name, &from, &to)?;
        }
    }
    Ok(given)
}

/// The greater or the less one of two; by a comparison where the version has them of no type that holds these numbers.
fn extreme(w: &mut Writer<'_>, op_type: &str, given: [&str; 2], dtype: DType) -> Outcome<String> {
    if w.takes(op_type, dtype) {
        return Ok(w.node(op_type, &given, vec![]));
    }
    if let Some(wide) = exact(w, op_type, dtype) {
        return within(w, op_type, &given, (dtype, wide, dtype));
    }
    let [a, b] = given;
    let compare = if op_type == "Max" { "Greater" } else { "Less" };
    let first = w.node(compare, &[a, b], vec![]);
    Ok(w.node("Where", &[&first, a, b], vec![]))
}

/// The elements of the second operand where the first is true, else of the third; without `Where` those of both stand
/// one behind the other and are picked by their places.
fn selected(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let to = w.tensor(data.results[0])?.dims.clone();
    let shape = w.tensor(data.results[0])?.shape();
    let elements = shape.map(|dims| dims.iter().product::<u64>());
    let Some(n) = elements.and_then(|n| i64::try_from(n).ok()) else {
        return Err(w.without_form(data, "there is no Where"));
    };
    let flat = [Dim::Fixed(n.unsigned_abs())];
    let mut parts = Vec::with_capacity(3);
    for &value in &data.operands {
        let name = w.name(value)?;
        let from = w.tensor(value)?.dims.clone();
        let name = match from == to {
            true => name,
            false => expanded(w, data, &name, &from, &to)?,
        };
        parts.push(reshaped(w, &name, &to, &flat)?);
    }
    let all = w.node("Concat", &[&parts[2], &parts[1]], vec![int("axis", 0)]);
    let taken = w.node("Cast", &[&parts[0]], vec![int("to", 7)]);
    let count = w.list(&[n])?;
    let starts = w.node("Mul", &[&taken, &count], vec![]);
    let own = w.list(&(0..n).collect::<Vec<i64>>())?;
    let places = w.node("Add", &[&starts, &own], vec![]);
    let picked = w.node("Gather", &[&all, &places], vec![int("axis", 0)]);
    reshaped(w, &picked, &flat, &to)
}

fn logic(w: &mut Writer<'_>, data: &OpData, [truths, bits]: [&str; 2]) -> Outcome<String> {
    let is_bool = w.tensor(data.operands[0])?.dtype.is_bool();
    let given = w.operands(data)?;
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    Ok(w.node(if is_bool { truths } else { bits }, &given, vec![]))
}

fn clamp(w: &mut Writer<'_>, data: &OpData, dtype: DType) -> Outcome<String> {
    let made = w.typed::<Clamp>(data)?;
    let mut x = w.name(data.operands[0])?;
    let wide = exact(w, "Clip", dtype).unwrap_or(dtype);
    if !w.takes("Clip", wide) {
        for (op_type, bound) in [("Max", made.min), ("Min", made.max)] {
            if let Some(bound) = bound {
                let bound = w.number(bound, dtype)?;
                x = extreme(w, op_type, [&x, &bound], dtype)?;
            }
        }
        return Ok(x);
    }
    x = cast(w, &x, dtype, wide)?;
    if w.has_attribute("Clip", "min") {
        let low = made.min.map(|n| float("min", n));
        let high = made.max.map(|n| float("max", n));
        x = w.node("Clip", &[&x], low.into_iter().chain(high).collect());
    } else {
        let mut bound = |n: Option<f64>| n.map_or(Ok(String::new()), |n| w.number(n, wide));
        let (low, high) = (bound(made.min)?, bound(made.max)?);
        x = w.node("Clip", &[&x, &low, &high], vec![]);
    }
    cast(w, &x, wide, dtype)
}

fn compare(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let given = two(w, data)?;
    let [a, b] = [&*given[0], &*given[1]];
    let dtype = w.tensor(data.operands[0])?.dtype;
    let direction = w.typed::<Compare>(data)?.direction;
    let op_type = match direction {
        Direction::Eq => return equal(w, a, b, dtype),
        Direction::Ne => {
            let equal = equal(w, a, b, dtype)?;
            return Ok(w.node("Not", &[&equal], vec![]));
        }
        Direction::Lt => "Less",
        Direction::Gt => "Greater",
        Direction::Le => "LessOrEqual",
        Direction::Ge => "GreaterOrEqual",
    };
    if w.has(op_type) {
        return compared(w, op_type, a, b, dtype);
    }
    let strict = compared(w, op_type.trim_end_matches("OrEqual"), a, b, dtype)?;
    let equal = equal(w, a, b, dtype)?;
    Ok(w.node("Or", &[&strict, &equal], vec![]))
}

/// Whether two are equal, which NaN is to nothing; before version 11 no floats were compared so.
fn equal(w: &mut Writer<'_>, a: &str, b: &str, dtype: DType) -> Outcome<String> {
    let known = w.takes("Equal", dtype) || exact(w, "Equal", dtype).is_some();
    if known || !dtype.is_float() {
        return compared(w, "Equal", a, b, dtype);
    }
    let mut other = w.node("Less", &[a, b], vec![]);
    let above = w.node("Greater", &[a, b], vec![]);
    other = w.node("Or", &[&other, &above], vec![]);
    for x in [a, b] {
        let none = is_nan(w, x, dtype)?;
        other = w.node("Or", &[&other, &none], vec![]);
    }
    Ok(w.node("Not", &[&other], vec![]))
}

/// Whether a float is NaN: neither below 0 nor above, and not 0.
fn is_nan(w: &mut Writer<'_>, x: &str, dtype: DType) -> Outcome<String> {
    if w.takes("IsNaN", dtype) {
        return Ok(w.node("IsNaN", &[x], vec![]));
    }
    let zero = w.number(0.0, dtype)?;
    let below = w.node("Less", &[x, &zero], vec![]);
    let above = w.node("Greater", &[x, &zero], vec![]);
    let ordered = w.node("Or", &[&below, &above], vec![]);
    let ordered = w.node("Not", &[&ordered], vec![]);
    let some = w.node("Cast", &[x], vec![int("to", 9)]);
    Ok(w.node("And", &[&ordered, &some], vec![]))
}

/// Scaled integers: an axis where the scale has one.
fn quantized(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let quantizes = &*data.name == Quantize::NAME;
    let (op_type, along) = match quantizes {
        true => ("QuantizeLinear", w.typed::<Quantize>(data)?.axis),
        false => ("DequantizeLinear", w.typed::<Dequantize>(data)?.axis),
    };
    let scaled = w.tensor(data.operands[1])?.rank();
    if 1 < scaled || (scaled == 1 && !w.has_attribute(op_type, "axis")) || !w.has(op_type) {
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
        given.push(w.literal(&Tensor::from_i64(to, shape, zeros))?);
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
    if !known.contains(&&*data.name) {
        return Ok(None);
    }
    let x = w.name(first)?;
    Ok(Some(match &*data.name {
        Rsqrt::NAME => {
            let root = w.node("Sqrt", &[&x], vec![]);
            w.node("Reciprocal", &[&root], vec![])
        }
        Silu::NAME if w.takes("Swish", dtype) => w.node("Swish", &[&x], vec![]),
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
