//! Functions of numbers without branches, so that loops of them become vectors. What is multiplied and added is rounded once, on
//! machines without such an instruction too. All are within a few units of the last place of
//! the largest result near them.

use crate::softmax::exp::{FACTORS, LEAST, LN_2, ROUND};

/// `e^x`; 0 where it is below `2^-125`.
#[inline(always)]
pub(crate) fn exp(x: f32) -> f32 {
    let held = if x < -100.0 { -100.0 } else { x };
    let held = if 100.0 < held { 100.0 } else { held };
    let (near, shifted) = near(held);
    // Half of the power of two, so that the greatest has an exponent.
    let half = f32::from_bits((shifted.to_bits() << 23).wrapping_add(126 << 23));
    let found = near * half * 2.0;
    let found = if x < LEAST { 0.0 } else { found };
    if 88.722_84 < x { f32::INFINITY } else { found }
}

/// [`exp`] of a number that is not above 0, bit for bit.
#[inline(always)]
pub(crate) fn power(x: f32) -> f32 {
    let (near, shifted) = near(x);
    // The least that is not 0 is above `2^-125`.
    let whole = f32::from_bits((shifted.to_bits() << 23).wrapping_add(127 << 23));
    if x < LEAST { 0.0 } else { near * whole }
}

/// `e` to what is left of a number when the whole powers of two are taken out, and the number of these in the lowest bits of another one.
#[inline(always)]
fn near(x: f32) -> (f32, f32) {
    let shifted = x.mul_add(std::f32::consts::LOG2_E, ROUND);
    let whole = shifted - ROUND;
    let rest = whole.mul_add(LN_2[1], whole.mul_add(LN_2[0], x));
    let mut sum = FACTORS[0];
    for factor in &FACTORS[1..] {
        sum = sum.mul_add(rest, *factor);
    }
    (sum.mul_add(rest * rest, rest) + 1.0, shifted)
}

/// The least number whose error function is 1, rounded, and the least whose hyperbolic tangent is.
const ERF_ONE: f32 = 3.919_206;
const TANH_ONE: f32 = 9.010_914;
/// The greatest number below 1.
const BELOW_ONE: f32 = 0.999_999_94;

/// The error function, as a quotient of polynomials.
#[inline(always)]
pub(crate) fn erf(x: f32) -> f32 {
    let square = x * x;
    let mut above: f32 = -2.726_142e-10;
    for factor in [
        2.770_681_4e-8,
        -2.101_024e-6,
        -5.692_506_4e-5,
        -7.349_906e-4,
        -2.954_6e-3,
        -1.609_603_3e-2,
    ] {
        above = above.mul_add(square, factor);
    }
    let mut below: f32 = -1.456_607_2e-5;
    for factor in [
        -2.133_740_5e-4,
        -1.682_827e-3,
        -7.373_329e-3,
        -1.426_473_9e-2,
    ] {
        below = below.mul_add(square, factor);
    }
    ended(x, x * (above / below), ERF_ONE)
}

/// The hyperbolic tangent, as a quotient of polynomials.
#[inline(always)]
pub fn tanh(x: f32) -> f32 {
    let square = x * x;
    let mut above: f32 = -2.760_768_5e-16;
    for factor in [
        2.000_188e-13,
        -8.604_672e-11,
        5.122_297e-8,
        1.485_722_4e-5,
        6.372_619_3e-4,
        4.893_524_6e-3,
    ] {
        above = above.mul_add(square, factor);
    }
    let mut below: f32 = 1.198_258_4e-6;
    for factor in [1.185_347e-4, 2.268_434_6e-3, 4.893_525e-3] {
        below = below.mul_add(square, factor);
    }
    ended(x, x * (above / below), TANH_ONE)
}

/// The values of an odd function that goes to 1: near 0, below 1, and 1 from a number on.
#[inline(always)]
fn ended(x: f32, near: f32, one: f32) -> f32 {
    let near = if near < -BELOW_ONE { -BELOW_ONE } else { near };
    let near = if BELOW_ONE < near { BELOW_ONE } else { near };
    let end = 1f32.copysign(x);
    if one <= x.abs() { end } else { near }
}

/// `1 / (1 + e^-x)`.
#[inline(always)]
pub fn sigmoid(x: f32) -> f32 {
    1.0 / (1.0 + exp(-x))
}

/// The greater of two; a number that is none wins.
#[inline(always)]
pub fn greater(a: f32, b: f32) -> f32 {
    if a.is_nan() || b < a { a } else { b }
}

/// The lesser of two; a number that is none wins.
#[inline(always)]
pub(crate) fn lesser(a: f32, b: f32) -> f32 {
    if a.is_nan() || a < b { a } else { b }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn worst(from: f32, to: f32, f: impl Fn(f32) -> f32, wanted: impl Fn(f64) -> f64) -> f64 {
        let mut worst = 0f64;
        for i in 0..=200_000u32 {
            let x = from + (to - from) * (i as f32 / 200_000.0);
            let wanted = wanted(f64::from(x));
            let off = (f64::from(f(x)) - wanted).abs() / wanted.abs().max(1e-3);
            worst = worst.max(off);
        }
        worst
    }

    #[test]
    fn functions_are_as_exact_as_their_type() {
        assert!(worst(-80.0, 88.0, exp, f64::exp) < 3e-7 * 1e3);
        assert!(worst(-1.0, 88.0, exp, f64::exp) < 3e-7);
        assert!(worst(-6.0, 6.0, erf, libm::erf) < 1e-6);
        assert!(worst(-12.0, 12.0, tanh, f64::tanh) < 1e-6);
        assert!(worst(-30.0, 30.0, sigmoid, |x| 1.0 / (1.0 + (-x).exp())) < 1e-6);
    }

    #[test]
    fn powers_are_what_exp_gives() {
        let all = (0..2_000_000).map(|i| i as f32 * -1e-4);
        let near = [-86.6f32, -86.64, -87.3, -103.9, -0.0, 0.0, -1e-45];
        let near = near.into_iter().flat_map(|x| [x, x.next_down()]);
        let ends = [f32::NEG_INFINITY, f32::MIN, -1e6, -3e9];
        for x in all.chain(near.filter(|x| *x <= 0.0)).chain(ends) {
            assert_eq!(power(x).to_bits(), exp(x).to_bits(), "{x:e}");
        }
        assert!(power(f32::NAN).is_nan());
    }

    #[test]
    fn ends_are_reached() {
        assert_eq!([exp(f32::NEG_INFINITY), exp(0.0)], [0.0, 1.0]);
        assert_eq!(exp(-100.0), 0.0);
        assert_eq!(exp(f32::INFINITY), f32::INFINITY);
        assert!(exp(88.7).is_finite() && exp(88.8).is_infinite());
        assert!(
            [exp, erf, tanh, sigmoid]
                .iter()
                .all(|f| f(f32::NAN).is_nan())
        );
        assert_eq!([sigmoid(-200.0), sigmoid(200.0)], [0.0, 1.0]);
        type Pair = (fn(f32) -> f32, fn(f64) -> f64);
        let wanted: [Pair; 2] = [(erf, libm::erf), (tanh, f64::tanh)];
        for (found, wanted) in wanted {
            let ends = [f32::INFINITY, f32::MAX, 1e20, 1e10, 20.0, 9.1];
            let near = (0..=20_000u16).map(|i| 3.0 + f32::from(i) * 4e-4);
            for x in ends.into_iter().chain(near).flat_map(|x| [x, -x]) {
                let wanted = wanted(f64::from(x)) as f32;
                assert_eq!(found(x).abs() == 1.0, wanted.abs() == 1.0, "{x}");
            }
            for x in [0.0, -0.0, 1e-45, -1e-40, 1e-38] {
                let wanted = wanted(f64::from(x)) as f32;
                assert!(
                    (found(x) - wanted).abs() <= 2e-45 + wanted.abs() * 1e-6,
                    "{x}"
                );
                assert_eq!(found(x).is_sign_negative(), wanted.is_sign_negative());
            }
        }
    }
}
