//! What sums of integers are before they are written, as `f32` or as bytes: scaled, and divided and rounded.

use super::MOST_COLUMNS;

/// A sum times a scale, at least `least`, and, of bytes, divided and rounded to the nearest whole number, ties to even, plus a whole number, at
/// least and at most as much as its type has. All are finite, so that none is no number.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Narrow {
    /// Whether it is rounded to a byte.
    pub(super) rounds: bool,
    pub(super) scale: f32,
    pub(super) least: f32,
    /// What is divided by, or multiplied with where that is the same.
    pub(super) by: f32,
    pub(super) divides: bool,
    pub(super) plus: Option<f32>,
    pub(super) low: f32,
    pub(super) high: f32,
}

/// The numbers that are rounded before something is added to them: what is beyond becomes an end.
#[cfg(test)]
const ROUNDED: f32 = 2_097_152.0;

/// What a number times it is that number divided by another one, whatever it is: that is so of powers of two.
pub(crate) fn inverse(divisor: f32) -> Option<f32> {
    let inverse = 1.0 / divisor;
    let power = |x: f32| x.is_normal() && x.to_bits() << 9 == 0;
    (power(divisor) && power(inverse)).then_some(inverse)
}

impl Narrow {
    pub(crate) fn of(
        scale: f32,
        least: f32,
        divisor: f32,
        plus: Option<f32>,
        [low, high]: [f32; 2],
    ) -> Option<Narrow> {
        let numbers = scale.is_finite() && divisor.is_finite() && divisor != 0.0;
        let inverse = inverse(divisor);
        numbers.then_some(Narrow {
            rounds: true,
            scale,
            least,
            by: inverse.unwrap_or(divisor),
            divides: inverse.is_none(),
            plus,
            low,
            high,
        })
    }

    /// A sum that is scaled alone.
    pub(crate) fn scaled(scale: f32, least: f32) -> Option<Narrow> {
        let made = Narrow::of(scale, least, 1.0, None, [0.0; 2])?;
        Some(Narrow {
            rounds: false,
            ..made
        })
    }

    /// Bytes of what a sum becomes.
    pub(crate) fn size(&self) -> usize {
        if self.rounds { 1 } else { size_of::<f32>() }
    }

    /// A sum, scaled.
    pub(crate) fn scaled_sum(&self, sum: i32) -> f32 {
        // Of sums that `f32` has, products are the same.
        let scaled = (f64::from(sum) * f64::from(self.scale)) as f32;
        if scaled < self.least {
            self.least
        } else {
            scaled
        }
    }

    /// The byte that a sum becomes.
    #[cfg(test)]
    pub(crate) fn of_sum(&self, sum: i32) -> u8 {
        let scaled = self.scaled_sum(sum);
        let divided = match self.divides {
            true => scaled / self.by,
            false => scaled * self.by,
        };
        let whole = match self.plus {
            None => divided,
            Some(plus) => divided.clamp(-ROUNDED, ROUNDED).round_ties_even() + plus,
        };
        whole.clamp(self.low, self.high).round_ties_even() as i32 as u8
    }
}

/// What sums, as `f32`, are multiplied by and then added to before anything else, each of both rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scales<'a> {
    /// Of each row a factor and a term.
    Rows(&'a [[f32; 2]]),
    /// The factors and the terms of all columns.
    Columns(&'a [[f32; MOST_COLUMNS]; 2]),
}

/// Where what sums of a panel become is written.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Narrowed<'a> {
    pub(crate) by: &'a Narrow,
    /// What sums are scaled by in its place.
    pub(crate) scales: Option<Scales<'a>>,
    /// Where each row begins.
    pub(crate) rows: &'a [*mut u8],
    /// The columns that there are; what the others become is not written.
    pub(crate) columns: usize,
}
