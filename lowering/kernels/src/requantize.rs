//! Requantization as one loop. It dequantizes, applies a relu, divides and rounds to bytes, and may leave out some of these
//! steps. The results are bitwise those of the operations one after another.
//!
//! `dequantize(x, 0.5)`, `relu`, `div(.., 3.0)` and `round` to `si8` become one loop over `round(max(x * 0.5, 0) / 3.0)`,
//! clamped to -128..=127.

use crate::element::{Element, Kind};
use crate::links::{ChainOp, Code, From, nearest, round_to_byte};
use crate::product::{Requantize, inverse};

/// Integers below this are exact in `f32`.
const EXACT: u32 = 1 << 24;

/// A number, times a scale if it is an integer, at least `lower_bound`, and rounded to a byte if `round` is given.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct RequantizeLoop {
    scale: Option<f32>,
    lower_bound: f32,
    round: Option<Round>,
}

/// Division, rounding, addition of a zero point and clamping to the range of the type.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    divisor: f32,
    /// The divisor's reciprocal, if multiplying by it is exact.
    inverse: Option<f32>,
    zero_point: Option<f32>,
    low: f32,
    high: f32,
}

impl RequantizeLoop {
    /// The requantization that operations are, and the operand that they requantize; `None` if they are none. `kind` gives
    /// the types of operands, and `number` the value of operands whose elements are all equal.
    pub fn of(
        links: &[ChainOp],
        kind: impl Fn(usize) -> Kind,
        number: impl Fn(usize) -> Option<u32>,
    ) -> Option<(usize, RequantizeLoop)> {
        let one = |from: From, wanted: Kind| match from {
            From::Operand(k) if kind(k) == wanted => number(k),
            _ => None,
        };
        let (mut at, mut last) = (0, links.first()?.from[0]);
        let From::Operand(operand) = last else {
            return None;
        };
        // Takes the next operation if it satisfies `is` and its operand is the previous result.
        let next = |at: &mut usize, last: &mut From, is: &dyn Fn(Code) -> bool| {
            let found = links
                .get(*at)
                .filter(|l| is(l.code) && l.from[0] == *last)?;
            *last = From::Code(*at);
            *at += 1;
            Some(*found)
        };
        let scaled = next(&mut at, &mut last, &|code| code == Code::Dequantize);
        let scale = match (scaled, kind(operand)) {
            (Some(link), Kind::I32 | Kind::I8 | Kind::U8) if link.kind == Kind::F32 => {
                Some(f32::from_bits(one(link.from[1], Kind::F32)?))
            }
            (None, Kind::F32) => None,
            _ => return None,
        };
        let relu = next(&mut at, &mut last, &|code| code == Code::Relu);
        if relu.is_some_and(|link| link.kind != Kind::F32) {
            return None;
        }
        let mut round = None;
        if let Some(divided) = next(&mut at, &mut last, &|code| code == Code::Div) {
            let rounds = |code: Code| matches!(code, Code::Round | Code::RoundPlus);
            let rounded = next(&mut at, &mut last, &rounds)?;
            let (low, high) = match (divided.kind, rounded.kind) {
                (Kind::F32, Kind::I8) => (-128.0, 127.0),
                (Kind::F32, Kind::U8) => (0.0, 255.0),
                _ => return None,
            };
            let divisor = f32::from_bits(one(divided.from[1], Kind::F32)?);
            let zero_point = match rounded.code {
                Code::RoundPlus => {
                    let whole = one(rounded.from[1], rounded.kind)?;
                    Some(whole.cast_signed() as f32)
                }
                _ => None,
            };
            round = Some(Round {
                divisor,
                inverse: inverse(divisor),
                zero_point,
                low,
                high,
            });
        }
        if at != links.len() {
            return None;
        }
        let one_loop = RequantizeLoop {
            scale,
            lower_bound: relu.map_or(f32::NEG_INFINITY, |_| 0.0),
            round,
        };
        Some((operand, one_loop))
    }

    /// Returns whether numbers are scaled or rounded, and not only clamped from below.
    pub fn scales(&self) -> bool {
        self.scale.is_some() || self.round.is_some()
    }

    /// The requantization of `i32` sums in registers, if it is one.
    pub(crate) fn requantize(&self) -> Option<Requantize> {
        let Some(round) = self.round else {
            return Requantize::scaled(self.scale?, self.lower_bound);
        };
        let ends = [round.low, round.high];
        Requantize::of(
            self.scale?,
            self.lower_bound,
            round.divisor,
            round.zero_point,
            ends,
        )
    }

    /// The requantization of dequantized sums in registers, if it is one.
    pub(crate) fn requantize_scaled(&self) -> Option<Requantize> {
        match self.round {
            None if self.scale.is_none() => Requantize::scaled(1.0, self.lower_bound),
            _ => self.requantize_floats(),
        }
    }

    /// The requantization of `f32` numbers in registers, if they are rounded.
    pub(crate) fn requantize_floats(&self) -> Option<Requantize> {
        let round = self.round.filter(|_| self.scale.is_none())?;
        let ends = [round.low, round.high];
        Requantize::of(1.0, self.lower_bound, round.divisor, round.zero_point, ends)
    }

    /// Requantizes numbers, `i32` with a scale and `f32` without, in place or into other elements.
    #[inline(always)]
    pub fn run(&self, numbers: impl Numbers) {
        match self.scale {
            None => self.divided(numbers, f32::from_bits),
            Some(scale) => {
                let whole = |x: u32| x.cast_signed();
                let all = numbers.all().iter();
                let bits = all.fold(0, |bits, &x| bits | x ^ (whole(x) >> 31).cast_unsigned());
                if bits < EXACT {
                    self.divided(numbers, |x| whole(x) as f32 * scale);
                } else {
                    let scale = f64::from(scale);
                    self.divided(numbers, |x| (f64::from(whole(x)) * scale) as f32);
                }
            }
        }
    }

    #[inline(always)]
    fn divided(&self, numbers: impl Numbers, scaled: impl Fn(u32) -> f32) {
        let lower_bound = self.lower_bound;
        let scaled = |x: u32| {
            let x = scaled(x);
            if x < lower_bound { lower_bound } else { x }
        };
        let Some(round) = self.round else {
            return numbers.each(|x| scaled(x).to_bits());
        };
        let divisor = round.divisor;
        match round.inverse {
            Some(inverse) => round.run(numbers, |x| scaled(x) * inverse),
            None => round.run(numbers, |x| scaled(x) / divisor),
        }
    }
}

impl Round {
    #[inline(always)]
    fn run(&self, numbers: impl Numbers, divided: impl Fn(u32) -> f32) {
        let Round { low, high, .. } = *self;
        match self.zero_point {
            None => numbers.each(|x| round_to_byte(divided(x), low, high).cast_unsigned()),
            Some(zero_point) => {
                numbers.each(|x| {
                    round_to_byte(nearest(divided(x)) + zero_point, low, high).cast_unsigned()
                });
            }
        }
    }
}

/// Numbers and the destination of the numbers that are made of them.
pub trait Numbers {
    /// The numbers.
    fn all(&self) -> &[u32];

    /// Makes one number of each.
    fn each(self, f: impl Fn(u32) -> u32);
}

/// In place.
impl Numbers for &mut [u32] {
    #[inline(always)]
    fn all(&self) -> &[u32] {
        self
    }

    #[inline(always)]
    fn each(self, f: impl Fn(u32) -> u32) {
        self.iter_mut().for_each(|x| *x = f(*x));
    }
}

/// Integers whose results are stored as other elements.
impl<E: Element<Number = i32>> Numbers for (&[u32], &mut [E]) {
    #[inline(always)]
    fn all(&self) -> &[u32] {
        self.0
    }

    #[inline(always)]
    fn each(self, f: impl Fn(u32) -> u32) {
        // A loop, because the closure of `for_each` would not be compiled for the caller's vectors.
        for (to, &x) in self.1.iter_mut().zip(self.0) {
            *to = E::of(f(x).cast_signed());
        }
    }
}
