//! Element-wise operations, written as scalar operations on one element of each operand.
//!
//! Example: an `add` of floats becomes an `arith.addf` of two elements.

use super::body::{Body, Idx, Scalar};
use super::sizes::Sizes;
use super::types::is_unsigned;
use optc_ir::op::{Binary, Direction, ExprBuilder, OpRef, Operation, Unary};
use optc_ir::{DType, Registry};
use optc_ops::{BatchNorm, BitcastConvert, Broadcast, Dequantize, Quantize, Subview};
use std::convert::Infallible;

/// Computes one element of an operation's result from one element of each operand. `None` if the operation is not
/// element-wise, or if MLIR has no scalar operation for it.
pub(super) fn apply(
    registry: &Registry,
    op: &OpRef<'_>,
    b: &mut Body,
    xs: &[Scalar],
    to: DType,
) -> Option<Scalar> {
    match (op.name, xs) {
        (Broadcast::NAME | Subview::NAME, [x]) => return Some(x.clone()),
        (BitcastConvert::NAME, [x]) => return bits(op, b, x, to),
        (Quantize::NAME | Dequantize::NAME, [x, scale, zero @ ..]) => {
            return Some(quantized(op, b, x, scale, zero.first(), to));
        }
        (BatchNorm::NAME, [x, scale, bias, mean, variance]) => {
            let norm = BatchNorm::of(op).ok()?;
            let epsilon = b.number(norm.epsilon, x.ty);
            let sum = b.add(variance, &epsilon);
            let root = b.sqrt(&sum);
            let off = b.sub(x, mean);
            let unit = b.div(&off, &root);
            let scaled = b.mul(&unit, scale);
            return Some(b.add(&scaled, bias));
        }
        _ => {}
    }
    let operands: Vec<(Scalar, DType)> = xs.iter().map(|x| (x.clone(), x.ty)).collect();
    let Ok(made) = registry.expression(op)?.build(&operands, b);
    made
}

/// Returns whether [`apply`] can write an operation.
pub(super) fn knows(registry: &Registry, op: &OpRef<'_>) -> bool {
    let scalar = |i: usize| {
        let ty = super::types::wide(op.operand(i).ok()?.dtype);
        let name = String::new();
        Some(Scalar { name, ty })
    };
    let xs: Option<Vec<Scalar>> = (0..op.operands.len()).map(scalar).collect();
    let (Some(xs), Ok(to)) = (xs, op.result(0)) else {
        return false;
    };
    let mut body = Body::new(0, &Sizes::default());
    apply(registry, op, &mut body, &xs, to.dtype).is_some()
}

type Made = Result<Option<Scalar>, Infallible>;

impl ExprBuilder for Body {
    type Value = Scalar;
    type Error = Infallible;

    fn number(&mut self, x: f64, dtype: DType) -> Made {
        Ok(Some(Body::number(self, x, dtype)))
    }

    fn unary(&mut self, function: Unary, x: &Scalar, _: DType) -> Made {
        Ok(match function {
            Unary::Neg => Some(self.neg(x)),
            Unary::Abs => Some(self.abs(x)),
            Unary::Not => {
                let all = self.literal(if x.ty.is_bool() { "true" } else { "-1" }, x.ty);
                Some(self.op("arith.xori", &[x, &all]))
            }
            _ => named(function).map(|opcode| self.op(opcode, &[x])),
        })
    }

    fn binary(&mut self, function: Binary, [x, y]: [&Scalar; 2], _: DType) -> Made {
        Ok(Some(match function {
            Binary::Add => self.add(x, y),
            Binary::Sub => self.sub(x, y),
            Binary::Mul => self.mul(x, y),
            Binary::Div => self.div(x, y),
            Binary::Rem => self.rem(x, y),
            Binary::Mod if is_unsigned(x.ty) => self.rem(x, y),
            Binary::Mod => return Ok(None),
            Binary::Max => self.max(x, y),
            Binary::Min => self.min(x, y),
            Binary::Pow if x.ty.is_float() => self.op("math.powf", &[x, y]),
            Binary::Pow => int_pow(self, x, y),
            Binary::Atan2 => self.op("math.atan2", &[x, y]),
            Binary::And => self.op("arith.andi", &[x, y]),
            Binary::Or => self.op("arith.ori", &[x, y]),
            Binary::Xor => self.op("arith.xori", &[x, y]),
            Binary::ShiftLeft => shifted(self, x, y, "arith.shli"),
            Binary::ShiftRight if is_unsigned(x.ty) => shifted(self, x, y, "arith.shrui"),
            Binary::ShiftRight => shifted(self, x, y, "arith.shrsi"),
        }))
    }

    fn compare(&mut self, direction: Direction, [x, y]: [&Scalar; 2], _: DType) -> Made {
        Ok(Some(Body::compare(self, direction, x, y)))
    }

    fn select(&mut self, [cond, x, y]: [&Scalar; 3], _: DType) -> Made {
        Ok(Some(Body::select(self, cond, x, y)))
    }

    fn cast(&mut self, x: &Scalar, _: DType, to: DType) -> Made {
        let computed = x.ty.computes() && to.computes();
        Ok(computed.then(|| Body::cast(self, x, to)))
    }
}

/// The MLIR operation for a function of one float.
fn named(function: Unary) -> Option<&'static str> {
    Some(match function {
        Unary::Acos => "math.acos",
        Unary::Acosh => "math.acosh",
        Unary::Asin => "math.asin",
        Unary::Asinh => "math.asinh",
        Unary::Atan => "math.atan",
        Unary::Atanh => "math.atanh",
        Unary::Cbrt => "math.cbrt",
        Unary::Ceil => "math.ceil",
        Unary::Cos => "math.cos",
        Unary::Cosh => "math.cosh",
        Unary::Erf => "math.erf",
        Unary::Exp => "math.exp",
        Unary::Expm1 => "math.expm1",
        Unary::Floor => "math.floor",
        Unary::Log => "math.log",
        Unary::Log1p => "math.log1p",
        Unary::Round => "math.roundeven",
        Unary::Sin => "math.sin",
        Unary::Sinh => "math.sinh",
        Unary::Sqrt => "math.sqrt",
        Unary::Tan => "math.tan",
        Unary::Tanh => "math.tanh",
        _ => return None,
    })
}

/// Reinterprets the bits of an element as another type of the same width.
fn bits(op: &OpRef<'_>, b: &mut Body, x: &Scalar, to: DType) -> Option<Scalar> {
    let from = op.operand(0).ok()?.dtype;
    let alike = from.bits() == to.bits() && !from.is_bool() && !to.is_bool();
    if !alike || from.complex_part().is_some() || to.complex_part().is_some() {
        return None;
    }
    let narrow = b.stored(x, from);
    let made = b.bitcast(&narrow, to);
    Some(b.widened(&made.name, to))
}

fn quantized(
    op: &OpRef<'_>,
    b: &mut Body,
    x: &Scalar,
    scale: &Scalar,
    zero: Option<&Scalar>,
    to: DType,
) -> Scalar {
    if op.name == Dequantize::NAME {
        // The difference of two integers of 32 bits or less is exact in doubles.
        let mut wide = b.cast(x, DType::F64);
        if let Some(zero) = zero {
            let zero = b.cast(zero, DType::F64);
            wide = b.sub(&wide, &zero);
        }
        let scale = b.cast(scale, DType::F64);
        let made = b.mul(&wide, &scale);
        return b.cast(&made, super::types::wide(to));
    }
    let ratio = b.div(x, scale);
    let mut made = b.op("math.roundeven", &[&ratio]);
    made = b.cast(&made, DType::F64);
    if let Some(zero) = zero {
        let zero = b.cast(zero, DType::F64);
        made = b.add(&made, &zero);
    }
    b.cast(&made, to)
}

/// An integer power by repeated squaring. A negative exponent gives the power truncated to an integer.
fn int_pow(b: &mut Body, x: &Scalar, y: &Scalar) -> Scalar {
    let (zero, one) = (b.number(0.0, x.ty), b.number(1.0, x.ty));
    let bits = i64::from(x.ty.bits());
    let ends = [0, bits, 1].map(|n| b.index(&Idx::Const(n)));
    let ty = super::types::dtype_name(x.ty).unwrap_or_default();
    let names: [String; 5] = std::array::from_fn(|_| b.fresh());
    let [made, step, power, square, left] = &names;
    b.line(&format!(
        "{made}:3 = scf.for {step} = {} to {} step {} iter_args({power} = {}, {square} = {}, {left} = {}) -> ({ty}, {ty}, {ty}) {{",
        ends[0], ends[1], ends[2], one.name, x.name, y.name
    ));
    let [power, square, left] = [power, square, left].map(|name| Scalar {
        name: name.clone(),
        ty: x.ty,
    });
    let bit = b.op("arith.andi", &[&left, &one]);
    let odd = b.compare(Direction::Eq, &bit, &one);
    let more = b.mul(&power, &square);
    let more = b.select(&odd, &more, &power);
    let twice = b.mul(&square, &square);
    let half = b.op("arith.shrui", &[&left, &one]);
    let yielded = [&more, &twice, &half].map(|s| &*s.name).join(", ");
    b.line(&format!("scf.yield {yielded} : {ty}, {ty}, {ty}"));
    b.line("}");
    let name = format!("{made}#0");
    let made = Scalar { name, ty: x.ty };
    if is_unsigned(x.ty) {
        return made;
    }
    // A power with a negative exponent is 0, except that of 1 and -1: these follow from the last bit of the exponent.
    let size = b.abs(x);
    let large = b.compare(Direction::Ne, &size, &one);
    let below = b.compare(Direction::Lt, y, &zero);
    let none = b.op("arith.andi", &[&large, &below]);
    b.select(&none, &zero, &made)
}

/// A shift that is defined for every distance. If the distance is negative, or the width or more, the result is 0; for an
/// arithmetic shift to the right it is copies of the sign.
fn shifted(b: &mut Body, x: &Scalar, by: &Scalar, opcode: &str) -> Scalar {
    let bits = f64::from(x.ty.bits());
    let (zero, width, last) = (
        b.number(0.0, x.ty),
        b.number(bits, x.ty),
        b.number(bits - 1.0, x.ty),
    );
    // As an unsigned number, a negative distance is larger than the width.
    let plain = Scalar {
        name: by.name.clone(),
        ty: unsigned(by.ty),
    };
    let limit = Scalar {
        name: width.name,
        ty: plain.ty,
    };
    let far = b.compare(Direction::Ge, &plain, &limit);
    let near = b.select(&far, &last, by);
    let made = b.op(opcode, &[x, &near]);
    match opcode {
        "arith.shrsi" => made,
        _ => b.select(&far, &zero, &made),
    }
}

fn unsigned(ty: DType) -> DType {
    match ty {
        DType::Int { bits, .. } => DType::Int {
            bits,
            sign: optc_ir::Sign::Unsigned,
        },
        other => other,
    }
}
