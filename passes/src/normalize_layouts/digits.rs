//! The digits of values in memory, and which of them run together.

use optc_ir::{Dim, StandIns, TensorType};
use optc_layout::Layout;

/// One digit of a value in memory, of a dimension or of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digit {
    /// The dimension or label.
    pub(super) of: usize,
    /// How many indices share a value of the digit.
    pub(super) div: u64,
    /// How many values it takes.
    pub(super) extent: u64,
}

/// The name of a digit at every value that has it: dimension or label, and divisor.
pub(super) type Key = (usize, u64);

impl Digit {
    pub(super) fn key(&self) -> Key {
        (self.of, self.div)
    }
}

/// The extents of a type, numbers in place of unknown sizes.
pub(super) fn shape(ty: &TensorType, numbers: &mut StandIns) -> Option<Vec<u64>> {
    ty.dims.iter().map(|d| numbers.number(d)).collect()
}

/// The digits of a type in memory, major to minor, by dimension; nothing where positions hold no element, or the layout
/// is no order of digits.
pub(super) fn of_type(ty: &TensorType, numbers: &mut StandIns) -> Option<Vec<Digit>> {
    let shape = shape(ty, numbers)?;
    let layout = Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).ok()?;
    let modes = layout.modes()?;
    let digit = |m: &optc_layout::Mode| {
        (m.extent == m.count).then_some(Digit {
            of: m.dim,
            div: m.div,
            extent: m.extent,
        })
    };
    let digits: Option<Vec<Digit>> = modes.iter().filter(|m| m.extent != 1).map(digit).collect();
    let digits = digits?;
    let held = digits.iter().map(|d| d.extent);
    let held = held.fold(1u128, |a, n| a.saturating_mul(u128::from(n)));
    let wanted = shape.iter();
    let wanted = wanted.fold(1u128, |a, &n| a.saturating_mul(u128::from(n)));
    (held == wanted).then_some(digits)
}

/// Whether the digits are those of the dimensions in their order, each whole.
pub(super) fn is_row_major(digits: &[Digit]) -> bool {
    let mut last: Option<Key> = None;
    digits.iter().all(|d| {
        let after = last.is_none_or(|(of, div)| {
            (of, std::cmp::Reverse(div)) < (d.of, std::cmp::Reverse(d.div))
        });
        last = Some(d.key());
        after
    })
}

/// Where digits are cut, by dimension or label: the divisors at which one begins at some value.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts(Vec<Vec<u64>>);

impl Cuts {
    pub(super) fn add(&mut self, digits: &[Digit]) {
        for digit in digits {
            if self.0.len() <= digit.of {
                self.0.resize(digit.of + 1, Vec::new());
            }
            let cuts = &mut self.0[digit.of];
            if let Err(at) = cuts.binary_search(&digit.div) {
                cuts.insert(at, digit.div);
            }
        }
    }

    /// Digits cut wherever those of any value are; nothing where cuts do not divide one another.
    pub(super) fn refine(&self, digits: &[Digit]) -> Option<Vec<Digit>> {
        let mut out = Vec::with_capacity(digits.len());
        for digit in digits {
            let end = digit.div.checked_mul(digit.extent)?;
            let cuts = self.0.get(digit.of).map_or(&[][..], Vec::as_slice);
            let inside = cuts.iter().copied().filter(|c| digit.div < *c && *c < end);
            let mut bounds: Vec<u64> = std::iter::once(digit.div).chain(inside).collect();
            bounds.push(end);
            for pair in bounds.windows(2).rev() {
                if !pair[1].is_multiple_of(pair[0]) {
                    return None;
                }
                out.push(Digit {
                    of: digit.of,
                    div: pair[0],
                    extent: pair[1] / pair[0],
                });
            }
        }
        Some(out)
    }
}

/// Runs of `order` that follow one another at the other value too: `place[i]` is where the digit `order[i]` stands
/// there.
pub(super) fn runs(place: &[usize]) -> Vec<std::ops::Range<usize>> {
    let mut runs: Vec<std::ops::Range<usize>> = Vec::new();
    for at in 0..place.len() {
        match runs.last_mut() {
            Some(run) if place[at - 1].checked_add(1) == Some(place[at]) => run.end = at + 1,
            _ => runs.push(at..at + 1),
        }
    }
    runs
}

/// The sizes that numbers stand for.
pub(super) fn dims(extents: impl IntoIterator<Item = u64>, numbers: &StandIns) -> Vec<Dim> {
    extents.into_iter().map(|n| numbers.dim(n)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn digit(of: usize, div: u64, extent: u64) -> Digit {
        Digit { of, div, extent }
    }

    #[test]
    fn digits_are_cut_where_any_value_cuts_them() {
        let mut cuts = Cuts::default();
        let whole = [digit(0, 1, 24), digit(1, 1, 5)];
        let parts = [digit(0, 4, 6), digit(1, 1, 5), digit(0, 1, 4)];
        cuts.add(&whole);
        cuts.add(&parts);
        let wanted = vec![digit(0, 4, 6), digit(0, 1, 4), digit(1, 1, 5)];
        assert_eq!(cuts.refine(&whole), Some(wanted));
        cuts.add(&[digit(0, 3, 8)]);
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
