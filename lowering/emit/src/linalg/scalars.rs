//! Element-wise operations, as numbers of one element.

use super::body::{Body, Idx, Rel, Scalar};
use super::sizes::Sizes;
use super::types::is_unsigned;
use optc_ir::DType;
use optc_ir::op::{OpRef, Operation};
use optc_ops::{
    Abs, Acos, Acosh, Add, And, Approximate, Asin, Asinh, Atan, Atan2, Atanh, BatchNorm, BitAnd,
    BitOr, BitXor, BitcastConvert, Broadcast, Cast, Cbrt, Ceil, Celu, Clamp, Compare, Cos, Cosh,
    Dequantize, Direction, Div, Elu, Erf, Erfc, Exp, Expm1, Floor, Gelu, HardSigmoid, HardSwish,
    Identity, IsInf, IsNan, LeakyRelu, Log, Log1p, Max, Min, Mish, Mod, Mul, Neg, Not, Or, Pow,
    Prelu, Quantize, Reciprocal, Relu, Round, Rsqrt, Select, Selu, ShiftLeft, ShiftRight, Sigmoid,
    Sign, Silu, Sin, Sinh, Softplus, Softsign, Sqrt, Sub, Subview, Tan, Tanh, ThresholdedRelu, Xor,
};

/// Functions of one float that MLIR has by name.
const NAMED: &[(&str, &str)] = &[
    (Acos::NAME, "math.acos"),
    (Acosh::NAME, "math.acosh"),
    (Asin::NAME, "math.asin"),
    (Asinh::NAME, "math.asinh"),
    (Atan::NAME, "math.atan"),
    (Atanh::NAME, "math.atanh"),
    (Cbrt::NAME, "math.cbrt"),
    (Ceil::NAME, "math.ceil"),
    (Cos::NAME, "math.cos"),
    (Cosh::NAME, "math.cosh"),
    (Erf::NAME, "math.erf"),
    (Exp::NAME, "math.exp"),
    (Expm1::NAME, "math.expm1"),
    (Floor::NAME, "math.floor"),
    (Log::NAME, "math.log"),
    (Log1p::NAME, "math.log1p"),
    (Round::NAME, "math.roundeven"),
    (Sin::NAME, "math.sin"),
    (Sinh::NAME, "math.sinh"),
    (Sqrt::NAME, "math.sqrt"),
    (Tan::NAME, "math.tan"),
    (Tanh::NAME, "math.tanh"),
];

/// One element of the result of an operation, of one element of each operand; nothing where the operation is not
/// element-wise or has no such form.
pub(super) fn apply(op: &OpRef<'_>, b: &mut Body, xs: &[Scalar], to: DType) -> Option<Scalar> {
    match xs {
        [x] => unary(op, b, x, to),
        [x, y] => binary(op, b, (x, y), to),
        _ => several(op, b, xs, to),
    }
}

/// Whether [`apply`] has a form of an operation.
pub(super) fn knows(op: &OpRef<'_>) -> bool {
    let scalar = |i: usize| {
        let ty = super::types::wide(op.operand(i).ok()?.dtype);
        let name = String::new();
        Some(Scalar { name, ty })
    };
    let xs: Option<Vec<Scalar>> = (0..op.operands.len()).map(scalar).collect();
    let (Some(xs), Ok(to)) = (xs, op.result(0)) else {
        return false;
    };
    apply(op, &mut Body::new(0, &Sizes::default()), &xs, to.dtype).is_some()
}

fn typed<T: Operation>(op: &OpRef<'_>) -> Option<T> {
    T::of(op).ok()
}

fn unary(op: &OpRef<'_>, b: &mut Body, x: &Scalar, to: DType) -> Option<Scalar> {
    let name = op.name;
    if let Some((_, opcode)) = NAMED.iter().find(|(n, _)| *n == name) {
        return x.ty.is_float().then(|| b.op(opcode, &[x]));
    }
    if let Some(y) = activation(name, b, x) {
        return Some(y);
    }
    let moves = matches!(name, Identity::NAME | Broadcast::NAME | Subview::NAME);
    if moves {
        return Some(x.clone());
    }
    match name {
        Cast::NAME if x.ty.computes() && to.computes() => return Some(b.cast(x, to)),
        BitcastConvert::NAME => return bits(op, b, x, to),
        _ => {}
    }
    parametric(op, b, x)
}

/// The bits of an element in a type of as many.
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

/// Functions of one number without parameters.
fn activation(name: &str, b: &mut Body, x: &Scalar) -> Option<Scalar> {
    Some(match name {
        Neg::NAME => b.neg(x),
        Abs::NAME => b.abs(x),
        Sign::NAME => sign(b, x),
        Not::NAME => {
            let all = b.literal(if x.ty.is_bool() { "true" } else { "-1" }, x.ty);
            b.op("arith.xori", &[x, &all])
        }
        Relu::NAME => {
            let zero = b.number(0.0, x.ty);
            let below = b.compare(Rel::Lt, x, &zero);
            b.select(&below, &zero, x)
        }
        Rsqrt::NAME => {
            let (one, root) = (b.number(1.0, x.ty), b.sqrt(x));
            b.div(&one, &root)
        }
        Reciprocal::NAME => {
            let one = b.number(1.0, x.ty);
            b.div(&one, x)
        }
        Sigmoid::NAME => sigmoid(b, x),
        IsNan::NAME => b.is_nan(x),
        IsInf::NAME => {
            let (size, most) = (b.abs(x), b.number(f64::INFINITY, x.ty));
            b.compare(Rel::Eq, &size, &most)
        }
        Silu::NAME => {
            let gate = sigmoid(b, x);
            b.mul(x, &gate)
        }
        Erfc::NAME => {
            let erf = b.op("math.erf", &[x]);
            let one = b.number(1.0, x.ty);
            b.sub(&one, &erf)
        }
        Softplus::NAME => softplus(b, x),
        Mish::NAME => {
            let soft = softplus(b, x);
            let gate = b.op("math.tanh", &[&soft]);
            b.mul(x, &gate)
        }
        Softsign::NAME => {
            let (one, size) = (b.number(1.0, x.ty), b.abs(x));
            let below = b.add(&one, &size);
            b.div(x, &below)
        }
        HardSwish::NAME => {
            let gate = gate(b, x, 1.0 / 6.0, 0.5);
            b.mul(x, &gate)
        }
        _ => return None,
    })
}

/// Functions of one number whose parameters are attributes.
fn parametric(op: &OpRef<'_>, b: &mut Body, x: &Scalar) -> Option<Scalar> {
    if let Some(Clamp { min, max, .. }) = typed(op) {
        let mut y = x.clone();
        if let Some(min) = min {
            let min = b.number(min, x.ty);
            y = b.max(&y, &min);
        }
        if let Some(max) = max {
            let max = b.number(max, x.ty);
            y = b.min(&y, &max);
        }
        return Some(y);
    }
    Some(if let Some(Gelu { approximate }) = typed(op) {
        gelu(b, x, approximate == Approximate::Tanh)
    } else if let Some(LeakyRelu { alpha }) = typed(op) {
        let alpha = b.number(alpha, x.ty);
        let low = b.mul(&alpha, x);
        below_zero(b, x, &low)
    } else if let Some(Elu { alpha }) = typed(op) {
        let low = exponential(b, x, 1.0, alpha);
        below_zero(b, x, &low)
    } else if let Some(Celu { alpha }) = typed(op) {
        let low = exponential(b, x, alpha, alpha);
        below_zero(b, x, &low)
    } else if let Some(Selu { alpha, gamma }) = typed(op) {
        let low = exponential(b, x, 1.0, alpha);
        let y = below_zero(b, x, &low);
        let gamma = b.number(gamma, x.ty);
        b.mul(&gamma, &y)
    } else if let Some(ThresholdedRelu { alpha }) = typed(op) {
        let (alpha, zero) = (b.number(alpha, x.ty), b.number(0.0, x.ty));
        let below = b.compare(Rel::Le, x, &alpha);
        b.select(&below, &zero, x)
    } else if let Some(HardSigmoid { alpha, beta }) = typed(op) {
        gate(b, x, alpha, beta)
    } else {
        return None;
    })
}

fn binary(op: &OpRef<'_>, b: &mut Body, (x, y): (&Scalar, &Scalar), to: DType) -> Option<Scalar> {
    Some(match op.name {
        Add::NAME => b.add(x, y),
        Sub::NAME => b.sub(x, y),
        Mul::NAME => b.mul(x, y),
        Div::NAME => b.div(x, y),
        Max::NAME => b.max(x, y),
        Min::NAME => b.min(x, y),
        Pow::NAME if x.ty.is_float() => b.op("math.powf", &[x, y]),
        Pow::NAME => int_pow(b, x, y),
        Atan2::NAME => b.op("math.atan2", &[x, y]),
        And::NAME | BitAnd::NAME => b.op("arith.andi", &[x, y]),
        Or::NAME | BitOr::NAME => b.op("arith.ori", &[x, y]),
        Xor::NAME | BitXor::NAME => b.op("arith.xori", &[x, y]),
        ShiftLeft::NAME => shifted(b, x, y, "arith.shli"),
        ShiftRight::NAME if is_unsigned(x.ty) => shifted(b, x, y, "arith.shrui"),
        ShiftRight::NAME => shifted(b, x, y, "arith.shrsi"),
        Compare::NAME => {
            let Compare { direction } = typed(op)?;
            let rel = match direction {
                Direction::Eq => Rel::Eq,
                Direction::Ne => Rel::Ne,
                Direction::Lt => Rel::Lt,
                Direction::Le => Rel::Le,
                Direction::Gt => Rel::Gt,
                Direction::Ge => Rel::Ge,
            };
            b.compare(rel, x, y)
        }
        Prelu::NAME => {
            let low = b.mul(y, x);
            below_zero(b, x, &low)
        }
        Mod::NAME => {
            let Mod { fmod } = typed(op)?;
            modulo(b, x, y, fmod)
        }
        Quantize::NAME | Dequantize::NAME => quantized(op, b, x, y, None, to),
        _ => return None,
    })
}

fn several(op: &OpRef<'_>, b: &mut Body, xs: &[Scalar], to: DType) -> Option<Scalar> {
    match (op.name, xs) {
        (Select::NAME, [cond, x, y]) => Some(b.select(cond, x, y)),
        (Quantize::NAME | Dequantize::NAME, [x, scale, zero]) => {
            Some(quantized(op, b, x, scale, Some(zero), to))
        }
        (BatchNorm::NAME, [x, scale, bias, mean, variance]) => {
            let norm = typed::<BatchNorm>(op)?;
            let epsilon = b.number(norm.epsilon, x.ty);
            let sum = b.add(variance, &epsilon);
            let root = b.sqrt(&sum);
            let off = b.sub(x, mean);
            let unit = b.div(&off, &root);
            let scaled = b.mul(&unit, scale);
            Some(b.add(&scaled, bias))
        }
        _ => None,
    }
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

/// What a number below 0 becomes; every other stays.
fn below_zero(b: &mut Body, x: &Scalar, low: &Scalar) -> Scalar {
    let zero = b.number(0.0, x.ty);
    let below = b.compare(Rel::Lt, x, &zero);
    b.select(&below, low, x)
}

/// -1, 0 or 1; NaN stays.
fn sign(b: &mut Body, x: &Scalar) -> Scalar {
    let (zero, one) = (b.number(0.0, x.ty), b.number(1.0, x.ty));
    let above = b.compare(Rel::Gt, x, &zero);
    let mut y = b.select(&above, &one, x);
    if !is_unsigned(x.ty) {
        let minus = b.number(-1.0, x.ty);
        let below = b.compare(Rel::Lt, x, &zero);
        y = b.select(&below, &minus, &y);
    }
    y
}

/// `1 / (1 + e^-x)`.
fn sigmoid(b: &mut Body, x: &Scalar) -> Scalar {
    let (one, minus) = (b.number(1.0, x.ty), b.neg(x));
    let power = b.op("math.exp", &[&minus]);
    let below = b.add(&one, &power);
    b.div(&one, &below)
}

/// `max(x, 0) + log(1 + e^-|x|)`.
fn softplus(b: &mut Body, x: &Scalar) -> Scalar {
    let zero = b.number(0.0, x.ty);
    let (high, size) = (b.max(x, &zero), b.abs(x));
    let size = b.neg(&size);
    let low = b.op("math.exp", &[&size]);
    let low = b.op("math.log1p", &[&low]);
    b.add(&high, &low)
}

/// `max(0, min(1, alpha * x + beta))`.
fn gate(b: &mut Body, x: &Scalar, alpha: f64, beta: f64) -> Scalar {
    let (alpha, beta) = (b.number(alpha, x.ty), b.number(beta, x.ty));
    let (zero, one) = (b.number(0.0, x.ty), b.number(1.0, x.ty));
    let y = b.mul(&alpha, x);
    let y = b.add(&y, &beta);
    let y = b.min(&y, &one);
    b.max(&y, &zero)
}

/// `scale * (e^(x / width) - 1)`.
fn exponential(b: &mut Body, x: &Scalar, width: f64, scale: f64) -> Scalar {
    let (width, scale) = (b.number(width, x.ty), b.number(scale, x.ty));
    let x = b.div(x, &width);
    let y = b.op("math.expm1", &[&x]);
    b.mul(&scale, &y)
}

fn gelu(b: &mut Body, x: &Scalar, tanh: bool) -> Scalar {
    let inner = if tanh {
        let scale = b.number((2.0 / std::f64::consts::PI).sqrt(), x.ty);
        let cubic = b.number(0.044_715, x.ty);
        let square = b.mul(x, x);
        let cube = b.mul(&square, x);
        let cube = b.mul(&cubic, &cube);
        let sum = b.add(x, &cube);
        let sum = b.mul(&scale, &sum);
        b.op("math.tanh", &[&sum])
    } else {
        let root = b.number(std::f64::consts::SQRT_2, x.ty);
        let ratio = b.div(x, &root);
        b.op("math.erf", &[&ratio])
    };
    let (one, half) = (b.number(1.0, x.ty), b.number(0.5, x.ty));
    let gate = b.add(&one, &inner);
    let scaled = b.mul(&half, x);
    b.mul(&scaled, &gate)
}

/// The remainder with the sign of the divisor, or with `fmod` of the dividend.
fn modulo(b: &mut Body, x: &Scalar, y: &Scalar, fmod: bool) -> Scalar {
    let rest = b.rem(x, y);
    if fmod || is_unsigned(x.ty) {
        return rest;
    }
    let zero = b.number(0.0, x.ty);
    let left = b.compare(Rel::Lt, &rest, &zero);
    let right = b.compare(Rel::Lt, y, &zero);
    let some = b.compare(Rel::Ne, &rest, &zero);
    let differ = b.op("arith.xori", &[&left, &right]);
    let differ = b.op("arith.andi", &[&differ, &some]);
    let moved = b.add(&rest, y);
    b.select(&differ, &moved, &rest)
}

/// Repeated squaring; a power below 0 is truncated.
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
    let odd = b.compare(Rel::Eq, &bit, &one);
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
    // Of 1 and -1 every power is one of them, by its last bit.
    let size = b.abs(x);
    let large = b.compare(Rel::Ne, &size, &one);
    let below = b.compare(Rel::Lt, y, &zero);
    let none = b.op("arith.andi", &[&large, &below]);
    b.select(&none, &zero, &made)
}

/// A shift that is defined by every number: by none of the bits, to the left 0, to the right the sign.
fn shifted(b: &mut Body, x: &Scalar, by: &Scalar, opcode: &str) -> Scalar {
    let bits = f64::from(x.ty.bits());
    let (zero, width, last) = (
        b.number(0.0, x.ty),
        b.number(bits, x.ty),
        b.number(bits - 1.0, x.ty),
    );
    // Below 0 a distance is a large number without a sign.
    let plain = Scalar {
        name: by.name.clone(),
        ty: unsigned(by.ty),
    };
    let limit = Scalar {
        name: width.name,
        ty: plain.ty,
    };
    let far = b.compare(Rel::Ge, &plain, &limit);
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
