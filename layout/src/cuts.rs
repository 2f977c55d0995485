//! Digits of values in memory, cut until several values have the same digits.

use crate::{Layout, Mode};
use std::ops::Range;

/// One digit of a value in memory: of a dimension, a loop or a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Digit {
    /// The dimension, loop or label.
    pub of: usize,
    /// The number of indices that share a value of the digit.
    pub div: u64,
    /// The number of values.
    pub extent: u64,
}

impl Digit {
    /// The digit with these parameters.
    #[must_use]
    pub fn new(of: usize, div: u64, extent: u64) -> Digit {
        Digit { of, div, extent }
    }

    /// The name of the digit in every value that has it: its dimension, loop or label, and the divisor.
    #[must_use]
    pub fn key(&self) -> (usize, u64) {
        (self.of, self.div)
    }

    /// The digits of a layout of this shape in memory, major to minor, by dimension. `None` if some positions hold no
    /// element, or if the layout is not an order of digits.
    #[must_use]
    pub fn all(shape: &[u64], layout: &Layout) -> Option<Vec<Digit>> {
        let modes = layout.modes()?;
        let digit = |m: &Mode| (m.extent == m.count).then_some(Digit::new(m.dim, m.div, m.extent));
        let digits: Option<Vec<Digit>> =
            modes.iter().filter(|m| m.extent != 1).map(digit).collect();
        let digits = digits?;
        let held = volume(digits.iter().map(|d| d.extent));
        (held == volume(shape.iter().copied())).then_some(digits)
    }
}

fn volume(extents: impl Iterator<Item = u64>) -> u128 {
    extents.fold(1, |a, n| a.saturating_mul(u128::from(n)))
}

/// The cuts of digits by dimension, loop or label: the divisors at which a digit begins in some value.
#[derive(Clone, Debug, Default)]
pub struct Cuts(Vec<Vec<u64>>);

impl Cuts {
    /// The cuts of all of these.
    #[must_use]
    pub fn of(all: &[&[Digit]]) -> Cuts {
        let mut cuts = Cuts::default();
        all.iter().for_each(|digits| cuts.add(digits));
        cuts
    }

    /// Adds the cuts of one more value.
    pub fn add(&mut self, digits: &[Digit]) {
        digits.iter().for_each(|d| self.cut(d.of, d.div));
    }

    /// Adds a cut of a dimension, loop or label; indices below it share a value.
    pub fn cut(&mut self, of: usize, div: u64) {
        if self.0.len() <= of {
            self.0.resize(of + 1, Vec::new());
        }
        let cuts = &mut self.0[of];
        if let Err(at) = cuts.binary_search(&div) {
            cuts.insert(at, div);
        }
    }

    /// The digits cut at all cuts of all values; `None` if cuts do not divide one another.
    #[must_use]
    pub fn refine(&self, digits: &[Digit]) -> Option<Vec<Digit>> {
        let mut out = Vec::with_capacity(digits.len());
        for digit in digits {
            let end = digit.div.checked_mul(digit.extent)?;
            let cuts = self.0.get(digit.of).map_or(&[][..], Vec::as_slice);
            let inside = cuts.iter().copied().filter(|c| digit.div < *c && *c < end);
            let mut bounds: Vec<u64> = std::iter::once(digit.div).chain(inside).collect();
            bounds.push(end);
            for pair in bounds.windows(2).rev() {
                if digit.extent != 0 && !pair[1].is_multiple_of(pair[0]) {
                    return None;
                }
                let extent = pair[1].checked_div(pair[0])?;
                out.push(Digit::new(digit.of, pair[0], extent));
            }
        }
        Some(out)
    }
}

/// Runs of positions that follow one another in the other value, too. `place[i]` is the place there of the digit at
/// position `i`.
#[must_use]
pub fn runs(place: &[usize]) -> Vec<Range<usize>> {
    let mut runs: Vec<Range<usize>> = Vec::new();
    for at in 0..place.len() {
        match runs.last_mut() {
            Some(run) if place[at - 1].checked_add(1) == Some(place[at]) => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digits_are_cut_where_any_value_cuts_them() {
        let whole = [Digit::new(0, 1, 24), Digit::new(1, 1, 5)];
        let parts = [
            Digit::new(0, 4, 6),
            Digit::new(1, 1, 5),
            Digit::new(0, 1, 4),
        ];
        let mut cuts = Cuts::of(&[&whole, &parts]);
        let wanted = vec![
            Digit::new(0, 4, 6),
            Digit::new(0, 1, 4),
            Digit::new(1, 1, 5),
        ];
        assert_eq!(cuts.refine(&whole), Some(wanted));
        cuts.cut(0, 3);
        assert_eq!(
            cuts.refine(&whole),
            None,
            "3 and 4 do not divide one another"
        );
    }

    #[test]
    fn runs_stay_together() {
        assert_eq!(runs(&[2, 3, 0, 1, 4]), [0..2, 2..4, 4..5]);
        assert_eq!(runs(&[]), []);
    }
}
