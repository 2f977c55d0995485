//! Element-wise operations, one after another, each applied to a part of the elements at once.
//!
//! Elements are computed as `f32` or as `i32`, whatever their type is. The result of each operation is rounded to its type,
//! or wraps around.
//!
//! The chain `add(a, b)`, `relu` over 1000 elements runs `add` on the first 512 elements, `relu` on these 512 sums, then
//! both on the remaining 488.

use crate::element::{Element, Kind};
use crate::math::{erf, exp, greater, lesser, sigmoid, tanh};
use bytemuck::{cast_slice, cast_slice_mut};

/// Elements that an operation is applied to at once.
pub const PART: usize = 512;
/// Most operands of a chain.
pub const MOST_OPERANDS: usize = 7;
/// Most operations of a chain.
pub const MOST_CODES: usize = 24;

/// A part of the elements, as bits of `f32` or `i32`.
pub type Part = [u32; PART];

/// The function that an operation applies to elements.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Code {
    /// The operand.
    Same,
    /// Minus the operand.
    Neg,
    /// The absolute value.
    Abs,
    /// The exponential.
    Exp,
    /// The natural logarithm.
    Log,
    /// The square root.
    Sqrt,
    /// One divided by the square root.
    Rsqrt,
    /// One divided by the operand.
    Reciprocal,
    /// The error function.
    Erf,
    /// The hyperbolic tangent.
    Tanh,
    /// `1 / (1 + exp(-x))`.
    Sigmoid,
    /// `x * sigmoid(x)`.
    Silu,
    /// The greater of the operand and 0.
    Relu,
    /// The sine.
    Sin,
    /// The cosine.
    Cos,
    /// The greatest whole number that is not above the operand.
    Floor,
    /// The least whole number that is not below the operand.
    Ceil,
    /// `x * min(max(x + 3, 0), 6) / 6`.
    HardSwish,
    /// GELU by the error function.
    Gelu,
    /// GELU by the hyperbolic tangent.
    GeluTanh,
    /// Clamps to a least and a greatest value.
    Clamp(f32, f32),
    /// The operand, times a slope below 0.
    LeakyRelu(f32),
    /// The operand; below 0 `alpha * (exp(x) - 1)`.
    Elu(f32),
    /// `alpha * x + beta`, clamped to 0..=1.
    HardSigmoid(f32, f32),
    /// The sum.
    Add,
    /// The difference.
    Sub,
    /// The product.
    Mul,
    /// The quotient.
    Div,
    /// The first operand to the power of the second.
    Pow,
    /// The greater operand.
    Max,
    /// The lesser operand.
    Min,
    /// The first operand, times the second below 0.
    Prelu,
    /// Converts to another type.
    Cast,
    /// Multiplies an integer by a scale.
    Dequantize,
    /// Rounds to the nearest integer, ties to even, and clamps to the range of the type.
    Round,
    /// As `Round`; an integer is added before it clamps.
    RoundPlus,
    /// Rounds to the nearest whole number, ties to even.
    Even,
    /// 1 if the comparison holds, otherwise 0, as for the other tests.
    Compare(Comparison),
    /// 1 if the operand is not 0.
    Truth,
    /// 1 if the operand is NaN.
    IsNan,
    /// 1 if the operand is infinite.
    IsInf,
    /// Bits that both integers have.
    And,
    /// Bits that one operand has.
    Or,
    /// Bits that exactly one operand has.
    Xor,
    /// Bits that the operand lacks.
    Not,
    /// 1 minus an operand that is 0 or 1.
    Flip,
}

/// The relation that a comparison tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Comparison {
    /// Equal.
    Eq,
    /// Not equal.
    Ne,
    /// Less.
    Lt,
    /// Less or equal.
    Le,
    /// Greater.
    Gt,
    /// Greater or equal.
    Ge,
}

/// Source of the elements of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum From {
    /// An operand of the chain.
    Operand(usize),
    /// The result of an earlier operation.
    Code(usize),
}

/// An operation of a chain. A unary operation has its operand twice.
#[derive(Clone, Copy, Debug)]
pub struct ChainOp {
    /// The function.
    pub code: Code,
    /// The type of its result.
    pub kind: Kind,
    /// Its operands.
    pub from: [From; 2],
}

/// Evaluates an expression with the Rust type of the elements of a kind.
#[macro_export]
macro_rules! with_type {
    ($kind:expr, $element:ident => $work:expr) => {
        match $kind {
            $crate::element::Kind::F32 => $crate::with_type!(f32, $element, $work),
            $crate::element::Kind::F16 => $crate::with_type!($crate::element::f16, $element, $work),
            $crate::element::Kind::BF16 => {
                $crate::with_type!($crate::element::bf16, $element, $work)
            }
            $crate::element::Kind::I8 => $crate::with_type!(i8, $element, $work),
            $crate::element::Kind::U8 => $crate::with_type!(u8, $element, $work),
            $crate::element::Kind::I32 => $crate::with_type!(i32, $element, $work),
        }
    };
    ($own:ty, $element:ident, $work:expr) => {{
        type $element = $own;
        $work
    }};
}

/// Rounds numbers to values of their element type.
#[inline(always)]
pub fn narrowed<E: Element>(part: &mut [E::Number]) {
    if size_of::<E>() != size_of::<E::Number>() {
        part.iter_mut().for_each(|x| *x = E::of(*x).read());
    }
}

/// Computes one operation, from operand types to the type of the result.
#[inline(always)]
pub fn compute(link: &ChainOp, from: [Kind; 2], a: &[u32], b: &[u32], to: &mut [u32]) {
    match (link.code, from[0].is_float()) {
        (Code::Compare(direction), true) => {
            return compared::<f32, _>(direction, cast_slice(a), cast_slice(b), to);
        }
        (Code::Compare(direction), false) => {
            return compared::<i32, _>(direction, cast_slice(a), cast_slice(b), to);
        }
        (Code::Truth, true) => return one(cast_slice(a), to, |x: f32| u32::from(x != 0.0)),
        (Code::Truth, false) => return one(a, to, |x| u32::from(x != 0)),
        (Code::IsNan, _) => return one(cast_slice(a), to, |x: f32| u32::from(x.is_nan())),
        (Code::IsInf, _) => return one(cast_slice(a), to, |x: f32| u32::from(x.is_infinite())),
        _ => {}
    }
    match (from[0].is_float(), link.kind.is_float()) {
        (true, true) => apply(link.code, cast_slice(a), cast_slice(b), cast_slice_mut(to)),
        (false, false) => whole(link.code, cast_slice(a), cast_slice(b), cast_slice_mut(to)),
        (false, true) => {
            let (a, to): (&[i32], &mut [f32]) = (cast_slice(a), cast_slice_mut(to));
            if link.code == Code::Dequantize {
                dequantized(a, cast_slice(b), to);
            } else {
                to.iter_mut().zip(a).for_each(|(to, &a)| *to = a as f32);
            }
        }
        (true, false) => {
            let (a, to): (&[f32], &mut [i32]) = (cast_slice(a), cast_slice_mut(to));
            let (low, high) = match link.kind {
                Kind::U8 => (0.0, 255.0),
                _ => (-128.0, 127.0),
            };
            match (link.code, link.kind) {
                (Code::RoundPlus, _) => {
                    let pairs = a.iter().zip(cast_slice::<u32, i32>(b));
                    let all = to.iter_mut().zip(pairs);
                    all.for_each(|(to, (&a, &b))| {
                        *to = round_to_byte(nearest(a) + b as f32, low, high)
                    });
                }
                (Code::Round, _) => {
                    let all = to.iter_mut().zip(a);
                    // Clamping to whole numbers before rounding gives the same result.
                    all.for_each(|(to, &a)| *to = round_to_byte(a, low, high));
                }
                (_, Kind::I32) => to.iter_mut().zip(a).for_each(|(to, &a)| *to = a as i32),
                _ => {
                    let all = to.iter_mut().zip(a);
                    all.for_each(|(to, a)| *to = round_to_byte(a.trunc(), low, high));
                }
            }
        }
    }
}

/// Sets results to 1 for pairs in this relation, otherwise to 0.
#[inline(always)]
pub fn compared<N: Copy + PartialOrd, T: std::convert::From<bool>>(
    comparison: Comparison,
    a: &[N],
    b: &[N],
    to: &mut [T],
) {
    match comparison {
        Comparison::Eq => two(a, b, to, |a, b| (a == b).into()),
        Comparison::Ne => two(a, b, to, |a, b| (a != b).into()),
        Comparison::Lt => two(a, b, to, |a, b| (a < b).into()),
        Comparison::Le => two(a, b, to, |a, b| (a <= b).into()),
        Comparison::Gt => two(a, b, to, |a, b| (b < a).into()),
        Comparison::Ge => two(a, b, to, |a, b| (b <= a).into()),
    }
}

/// Integers times scales, rounded once. Integers that are exact in `f32` are multiplied as `f32`, the others as `f64`.
#[inline(always)]
fn dequantized(a: &[i32], b: &[f32], to: &mut [f32]) {
    let bits = a.iter().fold(0, |bits, &a| bits | a ^ (a >> 31));
    let all = to.iter_mut().zip(a.iter().zip(b));
    if bits < 1 << 24 {
        return all.for_each(|(to, (&a, b))| *to = a as f32 * b);
    }
    all.for_each(|(to, (&a, &b))| *to = (f64::from(a) * f64::from(b)) as f32);
}

/// Adding this rounds a number below 2^22 to the nearest whole number, ties to even, which is then in the lowest bits.
const ROUND: f32 = 12_582_912.0;

/// The nearest whole number, for numbers of few bits; 0 for NaN.
#[inline(always)]
pub(crate) fn nearest(x: f32) -> f32 {
    let x = if x.is_nan() { 0.0 } else { x };
    clamp(x, -2_097_152.0, 2_097_152.0) + ROUND - ROUND
}

/// The nearest integer in a range of 8 bits, ties to even; 0 for NaN.
#[inline(always)]
pub(crate) fn round_to_byte(x: f32, low: f32, high: f32) -> i32 {
    let x = if x.is_nan() { 0.0 } else { x };
    let bits = (clamp(x, low, high) + ROUND).to_bits();
    bits.cast_signed() - ROUND.to_bits().cast_signed()
}

/// Computes one operation on integers.
#[inline(always)]
fn whole(code: Code, a: &[i32], b: &[i32], to: &mut [i32]) {
    match code {
        Code::Neg => one(a, to, i32::wrapping_neg),
        Code::Abs => one(a, to, i32::wrapping_abs),
        Code::Relu => one(a, to, |x| x.max(0)),
        Code::Add => two(a, b, to, i32::wrapping_add),
        Code::Sub => two(a, b, to, i32::wrapping_sub),
        Code::Mul => two(a, b, to, i32::wrapping_mul),
        Code::Max => two(a, b, to, i32::max),
        Code::Min => two(a, b, to, i32::min),
        Code::And => two(a, b, to, |a, b| a & b),
        Code::Or => two(a, b, to, |a, b| a | b),
        Code::Xor => two(a, b, to, |a, b| a ^ b),
        Code::Not => one(a, to, |x: i32| !x),
        Code::Flip => one(a, to, |x: i32| x ^ 1),
        _ => to.copy_from_slice(a),
    }
}

/// Returns whether an operation is defined for integers.
pub fn of_integers(code: Code) -> bool {
    matches!(
        code,
        Code::Same
            | Code::Cast
            | Code::Neg
            | Code::Abs
            | Code::Relu
            | Code::Add
            | Code::Sub
            | Code::Mul
            | Code::Max
            | Code::Min
    ) || only_of_integers(code)
}

/// Returns whether an operation is defined for integers only.
pub fn only_of_integers(code: Code) -> bool {
    matches!(
        code,
        Code::And | Code::Or | Code::Xor | Code::Not | Code::Flip
    )
}

#[inline(always)]
fn one<N: Copy, T>(a: &[N], to: &mut [T], f: impl Fn(N) -> T) {
    for (to, &a) in to.iter_mut().zip(a) {
        *to = f(a);
    }
}

/// Computes a result of each pair.
#[inline(always)]
pub fn two<N: Copy, T>(a: &[N], b: &[N], to: &mut [T], f: impl Fn(N, N) -> T) {
    for (to, (&a, &b)) in to.iter_mut().zip(a.iter().zip(b)) {
        *to = f(a, b);
    }
}

/// Computes one operation on floats.
#[inline(always)]
fn apply(code: Code, a: &[f32], b: &[f32], to: &mut [f32]) {
    match code {
        Code::Same | Code::Cast | Code::Dequantize | Code::Round | Code::RoundPlus => {
            to.copy_from_slice(a);
        }
        Code::Compare(_) | Code::Truth | Code::IsNan | Code::IsInf => {}
        Code::And | Code::Or | Code::Xor | Code::Not | Code::Flip => {}
        Code::Even => one(a, to, f32::round_ties_even),
        Code::Neg => one(a, to, |x: f32| -x),
        Code::Abs => one(a, to, f32::abs),
        Code::Exp => one(a, to, exp),
        Code::Log => one(a, to, f32::ln),
        Code::Sqrt => one(a, to, f32::sqrt),
        Code::Rsqrt => one(a, to, |x: f32| 1.0 / x.sqrt()),
        Code::Reciprocal => one(a, to, |x: f32| 1.0 / x),
        Code::Erf => one(a, to, erf),
        Code::Tanh => one(a, to, tanh),
        Code::Sigmoid => one(a, to, sigmoid),
        Code::Silu => one(
            a,
            to,
            #[inline(always)]
            |x: f32| x * sigmoid(x),
        ),
        Code::Relu => one(a, to, |x: f32| if x < 0.0 { 0.0 } else { x }),
        Code::Sin => one(a, to, f32::sin),
        Code::Cos => one(a, to, f32::cos),
        Code::Floor => one(a, to, f32::floor),
        Code::Ceil => one(a, to, f32::ceil),
        Code::HardSwish => one(a, to, |x: f32| x * clamp(x / 6.0 + 0.5, 0.0, 1.0)),
        Code::Gelu => one(
            a,
            to,
            #[inline(always)]
            |x: f32| 0.5 * x * (1.0 + erf(x * std::f32::consts::FRAC_1_SQRT_2)),
        ),
        Code::GeluTanh => one(
            a,
            to,
            #[inline(always)]
            |x: f32| {
                let inner = 0.797_884_6 * (x + 0.044_715 * x * x * x);
                0.5 * x * (1.0 + tanh(inner))
            },
        ),
        Code::Clamp(low, high) => one(a, to, |x: f32| clamp(x, low, high)),
        Code::LeakyRelu(alpha) => one(a, to, |x: f32| if x < 0.0 { alpha * x } else { x }),
        Code::Elu(alpha) => one(
            a,
            to,
            #[inline(always)]
            |x: f32| if x < 0.0 { alpha * (exp(x) - 1.0) } else { x },
        ),
        Code::HardSigmoid(alpha, beta) => one(a, to, |x: f32| clamp(alpha * x + beta, 0.0, 1.0)),
        Code::Add => two(a, b, to, |a: f32, b: f32| a + b),
        Code::Sub => two(a, b, to, |a: f32, b: f32| a - b),
        Code::Mul => two(a, b, to, |a: f32, b: f32| a * b),
        Code::Div => two(a, b, to, |a: f32, b: f32| a / b),
        Code::Pow => {
            let all = |power: f32| b.iter().all(|&b| b == power);
            match () {
                () if all(2.0) => one(a, to, |x: f32| x * x),
                () if all(3.0) => one(a, to, |x: f32| x * x * x),
                () => two(a, b, to, f32::powf),
            }
        }
        Code::Max => two(a, b, to, greater),
        Code::Min => two(a, b, to, lesser),
        Code::Prelu => two(
            a,
            b,
            to,
            |x: f32, slope: f32| if x < 0.0 { slope * x } else { x },
        ),
    }
}

/// Clamps a number; NaN stays NaN.
#[inline(always)]
pub(crate) fn clamp(x: f32, low: f32, high: f32) -> f32 {
    let x = if x < low { low } else { x };
    if high < x { high } else { x }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scaled_integers_are_rounded_once() {
        let edge = 1 << 24;
        let near = |n: i32| [n - 1, n, n + 1, -n - 1, -n, 1 - n];
        let all = [0, i32::MAX, i32::MIN, 77].into_iter().chain(near(edge));
        let scales = [0.3, 1e-44, -1e30, f32::INFINITY, f32::NAN, 0.0];
        for a in all.chain((0..1000).map(|i| i * 16_763)) {
            for b in scales {
                let mut found = [0.0; 3];
                dequantized(&[a, 1, -1], &[b; 3], &mut found);
                for (found, a) in found.into_iter().zip([a, 1, -1]) {
                    let wanted = (f64::from(a) * f64::from(b)) as f32;
                    let same = found.to_bits() == wanted.to_bits();
                    assert!(same || found.is_nan() && wanted.is_nan(), "{a} {b}");
                }
            }
        }
    }

    #[test]
    fn numbers_are_rounded_to_integers_of_8_bits() {
        let halves = (-600..600).map(|i| i as f32 / 2.0);
        let near = halves.flat_map(|x| [x, x.next_up(), x.next_down()]);
        let ends = [f32::INFINITY, f32::NEG_INFINITY, 3e9, -1e-40, -0.0];
        for x in near.chain(ends) {
            for (low, high) in [(-128.0, 127.0), (0.0, 255.0)] {
                let wanted = x.round_ties_even().clamp(low, high) as i32;
                assert_eq!(round_to_byte(x, low, high), wanted, "{x}");
            }
        }
        assert_eq!(round_to_byte(f32::NAN, -128.0, 127.0), 0);
    }
}
