//! Numbers that are scaled, divided and rounded to integers of 8 bits, integers that are scaled alone, or numbers that are at least 0: the operations
//! that do so, in one loop that gives what they do one after another.

use crate::element::{Element, Kind};
use crate::kernels::product::{Narrow, inverse};
use crate::ops::links::{Code, From, Link, few, nearest};

/// Integers of which `f32` has all.
const EXACT: u32 = 1 << 24;

/// A number, a whole one if it has a scale, times its scale, at least `least`, and rounded if that is done.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Rescale {
    scale: Option<f32>,
    least: f32,
    round: Option<Round>,
}

/// A number that is divided and rounded, plus a whole number, at least and at most as much as its type has.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Round {
    divisor: f32,
    /// What is multiplied with instead, where that is the same.
    inverse: Option<f32>,
    plus: Option<f32>,
    low: f32,
    high: f32,
}

impl Rescale {
    /// What operations do, if it is that, with the operand whose numbers it is done to; `kind` are the types of operands, and `number`
    /// the numbers of those of which all elements are one.
    pub(crate) fn of(
        links: &[Link],
        kind: impl Fn(usize) -> Kind,
        number: impl Fn(usize) -> Option<u32>,
    ) -> Option<(usize, Rescale)> {
        let one = |from: From, wanted: Kind| match from {
            From::Operand(k) if kind(k) == wanted => number(k),
            _ => None,
        };
        let (mut at, mut last) = (0, links.first()?.from[0]);
        let From::Operand(operand) = last else {
            return None;
        };
        // The next operation, if it is one of those and does its work on what was made before.
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
            let plus = match rounded.code {
                Code::RoundPlus => {
                    let whole = one(rounded.from[1], rounded.kind)?;
                    Some(whole.cast_signed() as f32)
                }
                _ => None,
            };
            round = Some(Round {
                divisor,
                inverse: inverse(divisor),
                plus,
                low,
                high,
            });
        }
        if at != links.len() {
            return None;
        }
        let rescale = Rescale {
            scale,
            least: relu.map_or(f32::NEG_INFINITY, |_| 0.0),
            round,
        };
        Some((operand, rescale))
    }

    /// Whether numbers are scaled or divided, and not only held above the least.
    pub(crate) fn scales(&self) -> bool {
        self.scale.is_some() || self.round.is_some()
    }

    /// The same of sums before they are written, where that can be done.
    pub(crate) fn narrow(&self) -> Option<Narrow> {
        let Some(round) = self.round else {
            return Narrow::scaled(self.scale?, self.least);
        };
        let ends = [round.low, round.high];
        Narrow::of(self.scale?, self.least, round.divisor, round.plus, ends)
    }

    /// The same of floats that sums are scaled to.
    pub(crate) fn narrow_scaled(&self) -> Option<Narrow> {
        match self.round {
            None if self.scale.is_none() => Narrow::scaled(1.0, self.least),
            _ => self.narrow_floats(),
        }
    }

    /// The same of floats, where they are rounded.
    pub(crate) fn narrow_floats(&self) -> Option<Narrow> {
        let round = self.round.filter(|_| self.scale.is_none())?;
        let ends = [round.low, round.high];
        Narrow::of(1.0, self.least, round.divisor, round.plus, ends)
    }

    /// Sets numbers, `i32` if they have a scale and `f32` if not, to what is made of them, here or elsewhere.
    #[inline(always)]
    pub(crate) fn run(&self, numbers: impl Numbers) {
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
        let least = self.least;
        let scaled = |x: u32| {
            let x = scaled(x);
            if x < least { least } else { x }
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
        match self.plus {
            None => numbers.each(|x| few(divided(x), low, high).cast_unsigned()),
            Some(plus) => {
                numbers.each(|x| few(nearest(divided(x)) + plus, low, high).cast_unsigned());
            }
        }
    }
}

/// Numbers from which others are made.
pub(crate) trait Numbers {
    fn all(&self) -> &[u32];

    /// Makes one of each.
    fn each(self, f: impl Fn(u32) -> u32);
}

/// Where they are.
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

/// Integers as elements elsewhere.
impl<E: Element<Number = i32>> Numbers for (&[u32], &mut [E]) {
    #[inline(always)]
    fn all(&self) -> &[u32] {
        self.0
    }

    #[inline(always)]
    fn each(self, f: impl Fn(u32) -> u32) {
        // A loop, as a function that is called for all has other vectors.
        for (to, &x) in self.1.iter_mut().zip(self.0) {
            *to = E::of(f(x).cast_signed());
        }
    }
}
