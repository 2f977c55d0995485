//! Element by element.

use super::attrs::{float, int, text};
use super::shapes::{cast, compared, exact, expanded, reshaped};
use super::turned;
use super::writer::{Outcome, Writer};
use optc_ir::op::{Binary, Direction, Expr, ExprBuilder, Operation, Unary};
use optc_ir::{DType, Diagnostic, Dim, OpData, Tensor};
use optc_onnx_proto::code;
use optc_ops::{
    Add, Approximate, BitcastConvert, Cast, Celu, Clamp, Dequantize, Elu, Gelu, HardSigmoid,
    HardSwish, Identity, IsInf, IsNan, LeakyRelu, Max, Min, Mish, Mod, Prelu, Quantize, Relu,
    Select, Selu, Silu, Softsign, ThresholdedRelu, Trilu,
};
use std::f64::consts::{PI, SQRT_2};

/// Operations that are one operator of the same operands, without attributes, and no function of an expression.
const WHOLE: &[(&str, &str)] = &[
    (HardSwish::NAME, "HardSwish"),
    (Identity::NAME, "Identity"),
    (IsInf::NAME, "IsInf"),
    (IsNan::NAME, "IsNaN"),
    (Mish::NAME, "Mish"),
    (Prelu::NAME, "PRelu"),
    (Relu::NAME, "Relu"),
    (Softsign::NAME, "Softsign"),
];

/// The numbers of floats of 8 bits.
const FLOATS_OF_8_BITS: std::ops::RangeInclusive<i32> = 17..=20;

/// The name of the result; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let whole = WHOLE.iter().find(|(name, ..)| *name == &*data.name);
    if let Some((_, op_type)) = whole
        && w.has(op_type)
    {
        let (dtype, to) = (
            w.tensor(data.operands[0])?.dtype,
            w.tensor(data.results[0])?.dtype,
        );
        let given = w.operands(data)?;
        return operator(w, op_type, &given, (dtype, to)).map(Some);
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
        Silu::NAME
            if w.module.attrs.flag("hbir.onnx_swish")
                && w.takes("Swish", w.tensor(data.operands[0])?.dtype) =>
        {
            ("Swish", vec![])
        }
        Cast::NAME => {
            let to = w.tensor(data.results[0])?.dtype;
            let number = code(to);
            let number = number.ok_or_else(|| w.without_form(data, &format!("it has no {to}")))?;
            let mut attrs = vec![int("to", number)];
            // A number that rounds beyond a float of 8 bits is an infinity or NaN, as the operation says.
            if FLOATS_OF_8_BITS.contains(&number) && w.has_attribute("Cast", "saturate") {
                attrs.push(int("saturate", 0));
            }
            ("Cast", attrs)
        }
        BitcastConvert::NAME => {
            let number = code(w.tensor(data.results[0])?.dtype);
            match number.filter(|_| w.has("BitCast")) {
                Some(number) => ("BitCast", vec![int("to", number)]),
                None => return Err(w.without_form(data, "BitCast came with version 26")),
            }
        }
        _ => return several(w, data),
    };
    let given = w.operands(data)?;
    Ok(Some(w.node(attrs.0, &given, attrs.1)))
}

/// Operations with forms of their own, and those that are written by their expressions.
fn several(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let Some(&first) = data.operands.first() else {
        return Ok(None);
    };
    let dtype = w.tensor(first)?.dtype;
    let own = match &*data.name {
        Add::NAME => {
            let mut name = turned::rejoined(w, data)?;
            if name.is_none() {
                name = turned::biased(w, data)?;
            }
            if name.is_none() {
                name = turned::biased_first(w, data)?;
            }
            name
        }
        // Nothing was broadcast before version 8.
        Max::NAME | Min::NAME if w.opset < 8 => {
            let given = alike(w, data)?;
            let op_type = if &*data.name == Max::NAME {
                "Max"
            } else {
                "Min"
            };
            Some(extreme(w, op_type, [&given[0], &given[1]], dtype)?)
        }
        Clamp::NAME => Some(clamp(w, data, dtype)?),
        Select::NAME if !w.has("Where") => Some(selected(w, data)?),
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
            Some(w.node("Trilu", &[&x, &k], vec![upper]))
        }
        Quantize::NAME | Dequantize::NAME => Some(quantized(w, data)?),
        HardSwish::NAME => {
            let x = w.name(first)?;
            let attrs = vec![float("alpha", 1.0 / 6.0), float("beta", 0.5)];
            let gate = w.node("HardSigmoid", &[&x], attrs);
            Some(w.node("Mul", &[&x, &gate], vec![]))
        }
        _ => None,
    };
    if own.is_some() {
        return Ok(own);
    }
    let expr = older(w, data)?;
    let Some(expr) = expr.or_else(|| w.registry.expression(&w.op_ref(data))) else {
        return Ok(None);
    };
    let mut operands = Vec::with_capacity(data.operands.len());
    for (&value, name) in data.operands.iter().zip(w.operands(data)?) {
        operands.push((name, w.tensor(value)?.dtype));
    }
    expr.build(&operands, w)
}

/// Forms that runtimes recognise of operations that the version has no operator for, if they are not the expression.
fn older(w: &Writer<'_>, data: &OpData) -> Outcome<Option<Expr>> {
    const X: Expr = Expr::A;
    Ok(match &*data.name {
        Gelu::NAME => Some(match w.typed::<Gelu>(data)?.approximate {
            Approximate::None => X * ((X / SQRT_2).erf() + 1.0) * 0.5,
            Approximate::Tanh => {
                let cube = Binary::Pow.of(X, 3.0) * 0.044_715;
                X * 0.5 * (((X + cube) * (2.0 / PI).sqrt()).tanh() + 1.0)
            }
        }),
        // There may be no `Where`.
        Celu::NAME => {
            let alpha = w.typed::<Celu>(data)?.alpha;
            let low = alpha * ((X / alpha).exp() - 1.0);
            Some(X.max(0.0) + low.min(0.0))
        }
        _ => None,
    })
}

type Made = Outcome<Option<String>>;

impl ExprBuilder for Writer<'_> {
    type Value = String;
    type Error = Box<Diagnostic>;

    fn number(&mut self, x: f64, dtype: DType) -> Made {
        Writer::number(self, x, dtype).map(Some)
    }

    fn unary(&mut self, function: Unary, x: &String, dtype: DType) -> Made {
        let op_type = match function {
            Unary::Not if !dtype.is_bool() => "BitwiseNot",
            Unary::Not => "Not",
            _ => function.name(),
        };
        // Without another form it is refused as what is missing.
        match self.has(op_type) || function.definition().is_none() {
            true => operator(self, op_type, &[x], (dtype, dtype)).map(Some),
            false => Ok(None),
        }
    }

    fn binary(&mut self, function: Binary, [a, b]: [&String; 2], dtype: DType) -> Made {
        let truth = dtype.is_bool();
        let op_type = match function {
            Binary::Add | Binary::Or if truth => "Or",
            Binary::Mul | Binary::And if truth => "And",
            Binary::Xor if truth => "Xor",
            Binary::Add => "Add",
            Binary::Sub => "Sub",
            Binary::Mul => "Mul",
            Binary::Div => "Div",
            Binary::Pow => return Ok(Some(self.node("Pow", &[a, b], vec![]))),
            Binary::And => "BitwiseAnd",
            Binary::Or => "BitwiseOr",
            Binary::Xor => "BitwiseXor",
            Binary::Max => return extreme(self, "Max", [a, b], dtype).map(Some),
            Binary::Min => return extreme(self, "Min", [a, b], dtype).map(Some),
            Binary::Rem => {
                let attrs = vec![int("fmod", true)];
                return Ok(Some(self.node("Mod", &[a, b], attrs)));
            }
            Binary::Mod => return Ok(Some(self.node("Mod", &[a, b], vec![]))),
            Binary::ShiftLeft => return shift(self, [a, b], dtype, "Mul").map(Some),
            Binary::ShiftRight if !dtype.is_signed() || self.takes("BitShift", dtype) => {
                return shift(self, [a, b], dtype, "Div").map(Some);
            }
            Binary::ShiftRight | Binary::Atan2 => return Ok(None),
        };
        operator(self, op_type, &[a, b], (dtype, dtype)).map(Some)
    }

    fn compare(&mut self, direction: Direction, [a, b]: [&String; 2], dtype: DType) -> Made {
        compare(self, direction, [a, b], dtype).map(Some)
    }

    fn select(&mut self, [cond, a, b]: [&String; 3], _: DType) -> Made {
        let has = self.has("Where");
        Ok(has.then(|| self.node("Where", &[cond, a, b], vec![])))
    }

    fn cast(&mut self, x: &String, dtype: DType, to: DType) -> Made {
        cast(self, x, dtype, to).map(Some)
    }
}

/// An operator of elements of one type, in a wider type where the version has it of none of these; its result has the type `to`.
fn operator(
    w: &mut Writer<'_>,
    op_type: &str,
    given: &[impl AsRef<str>],
    (dtype, to): (DType, DType),
) -> Outcome<String> {
    match exact(w, op_type, dtype).filter(|_| !dtype.is_bool()) {
        Some(wide) => within(w, op_type, given, (dtype, wide, to)),
        None => Ok(w.node(op_type, given, vec![])),
    }
}

/// A shift of unsigned numbers, or a product with or quotient by a power of two.
fn shift(w: &mut Writer<'_>, [x, by]: [&str; 2], dtype: DType, op_type: &str) -> Outcome<String> {
    if w.takes("BitShift", dtype) {
        let left = if op_type == "Mul" { "LEFT" } else { "RIGHT" };
        return Ok(w.node("BitShift", &[x, by], vec![text("direction", left)]));
    }
    let base = w.number(2.0, dtype)?;
    let power = w.node("Pow", &[&base, by], vec![]);
    Ok(w.node(op_type, &[x, &power], vec![]))
}

fn two(w: &mut Writer<'_>, data: &OpData) -> Outcome<[String; 2]> {
    let given = w.operands(data)?;
    <[String; 2]>::try_from(given).map_err(|_| w.refused("wanted two operands".to_owned()))
}

/// An operator in a wider type, and its result in the type `to`.
fn within(
    w: &mut Writer<'_>,
    op_type: &str,
    given: &[impl AsRef<str>],
    (dtype, wide, to): (DType, DType, DType),
) -> Outcome<String> {
    let given: Vec<String> = given
        .iter()
        .map(|name| cast(w, name.as_ref(), dtype, wide))
        .collect::<Outcome<_>>()?;
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

fn compare(
    w: &mut Writer<'_>,
    direction: Direction,
    [a, b]: [&str; 2],
    dtype: DType,
) -> Outcome<String> {
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

/// Equality of two values, which NaN has with nothing; before version 11 no floats were compared so.
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

/// The test for NaN of a float: neither below 0 nor above, and not 0.
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
    let attrs = if scaled == 1 {
        vec![int("axis", along)]
    } else {
        vec![]
    };
    Ok(w.node(op_type, &given, attrs))
}
