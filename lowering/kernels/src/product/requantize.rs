//! Requantization of integer sums before they are stored: scaled to `f32`, or scaled, divided and rounded to bytes.

use super::MOST_COLUMNS;

/// A requantization: the sum times a scale, at least `lower_bound`. For bytes it is then divided, rounded to the nearest
/// whole number (ties to even), added to a zero point and clamped to the range of the type. All numbers are finite, so that
/// no result is NaN.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Requantize {
    /// True if the result is rounded to a byte.
    pub(super) rounds: bool,
    pub(super) scale: f32,
    pub(super) lower_bound: f32,
    /// The divisor, or its reciprocal if multiplying by it is exact.
    pub(super) by: f32,
    pub(super) divides: bool,
    pub(super) zero_point: Option<f32>,
    pub(super) low: f32,
    pub(super) high: f32,
}

/// Bounds of quotients before the zero point is added; quotients beyond them saturate.
#[cfg(test)]
const ROUNDED: f32 = 2_097_152.0;

/// The reciprocal of a divisor if multiplying by it equals dividing for every number, as for powers of two.
pub(crate) fn inverse(divisor: f32) -> Option<f32> {
    let inverse = 1.0 / divisor;
    let power = |x: f32| x.is_normal() && x.to_bits() << 9 == 0;
    (power(divisor) && power(inverse)).then_some(inverse)
}

impl Requantize {
    pub fn of(
        scale: f32,
        lower_bound: f32,
        divisor: f32,
        zero_point: Option<f32>,
        [low, high]: [f32; 2],
    ) -> Option<Requantize> {
        let numbers = scale.is_finite() && divisor.is_finite() && divisor != 0.0;
        let inverse = inverse(divisor);
        numbers.then_some(Requantize {
            rounds: true,
            scale,
            lower_bound,
            by: inverse.unwrap_or(divisor),
            divides: inverse.is_none(),
            zero_point,
            low,
            high,
        })
    }

    /// A requantization that only scales.
    pub(crate) fn scaled(scale: f32, lower_bound: f32) -> Option<Requantize> {
        let made = Requantize::of(scale, lower_bound, 1.0, None, [0.0; 2])?;
        Some(Requantize {
            rounds: false,
            ..made
        })
    }

    /// Bytes of a result.
    pub fn size(&self) -> usize {
        if self.rounds { 1 } else { size_of::<f32>() }
    }

    /// The sum, scaled and at least `lower_bound`.
    pub(crate) fn scaled_sum(&self, sum: i32) -> f32 {
        // For sums that are exact in `f32` this equals the product in `f32`.
        let scaled = (f64::from(sum) * f64::from(self.scale)) as f32;
        if scaled < self.lower_bound {
            self.lower_bound
        } else {
            scaled
        }
    }

    /// The byte that a sum is requantized to.
    #[cfg(test)]
    pub(crate) fn of_sum(&self, sum: i32) -> u8 {
        let scaled = self.scaled_sum(sum);
        let divided = match self.divides {
            true => scaled / self.by,
            false => scaled * self.by,
        };
        let whole = match self.zero_point {
            None => divided,
            Some(zero_point) => divided.clamp(-ROUNDED, ROUNDED).round_ties_even() + zero_point,
        };
        whole.clamp(self.low, self.high).round_ties_even() as i32 as u8
    }
}

/// Scales and biases of sums as `f32`, each step rounded.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scales<'a> {
    /// A scale and a bias for each row.
    Rows(&'a [[f32; 2]]),
    /// The scales and the biases of all columns.
    Columns(&'a [[f32; MOST_COLUMNS]; 2]),
}

/// Destination of a panel whose sums are requantized.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RequantizedRows<'a> {
    pub(crate) by: &'a Requantize,
    /// Scales and biases that replace the scale of `by`.
    pub(crate) scales: Option<Scales<'a>>,
    /// Start of each row.
    pub(crate) rows: &'a [*mut u8],
    /// Number of columns that are stored; further columns are computed only.
    pub(crate) columns: usize,
}
