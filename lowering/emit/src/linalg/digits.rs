//! The digits of values in memory: the dimensions that a tensor of the text has.

use optc_ir::TensorType;
use optc_layout::{Layout, Mode};

/// One digit of a value in memory, of a dimension or of a loop.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Digit {
    /// The dimension or loop.
    pub(super) of: usize,
    /// How many indices share a value of the digit.
    pub(super) div: u64,
    /// How many values it takes.
    pub(super) extent: u64,
}

impl Digit {
    pub(super) fn new(of: usize, div: u64, extent: u64) -> Digit {
        Digit { of, div, extent }
    }

    /// Its name wherever it stands.
    pub(super) fn key(&self) -> (usize, u64) {
        (self.of, self.div)
    }
}

/// The extents of digits.
pub(super) fn extents(digits: &[Digit]) -> Vec<u64> {
    digits.iter().map(|d| d.extent).collect()
}

/// The number of elements of these extents.
pub(super) fn volume(extents: &[u64]) -> u64 {
    extents.iter().fold(1, |a, &n| a.saturating_mul(n))
}

/// The digits of a tensor in row-major order: its dimensions, but for those of one element.
pub(super) fn row_major(shape: &[u64]) -> Vec<Digit> {
    let all = shape.iter().enumerate().filter(|(_, n)| **n != 1);
    all.map(|(d, &n)| Digit::new(d, 1, n)).collect()
}

/// The digits of a type in memory, major to minor, by dimension; nothing where positions hold no element, or the
/// layout is no order of digits.
pub(super) fn of_type(ty: &TensorType) -> Option<Vec<Digit>> {
    let shape = ty.shape()?;
    let layout = Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).ok()?;
    of_layout(&shape, &layout)
}

/// As [`of_type`], of a layout of this shape.
pub(super) fn of_layout(shape: &[u64], layout: &Layout) -> Option<Vec<Digit>> {
    if shape.contains(&0) {
        return Some(row_major(shape));
    }
    let modes = layout.modes()?;
    let digit = |m: &Mode| (m.extent == m.count).then_some(Digit::new(m.dim, m.div, m.extent));
    let digits: Option<Vec<Digit>> = modes.iter().filter(|m| m.extent != 1).map(digit).collect();
    let digits = digits?;
    (volume(&extents(&digits)) == volume(shape)).then_some(digits)
}

/// Digits by the loops that dimensions run over; nothing where a dimension of more than one element has none.
pub(super) fn labelled(digits: &[Digit], labels: &[Option<usize>]) -> Option<Vec<Digit>> {
    let digit = |d: &Digit| Some(Digit::new((*labels.get(d.of)?)?, d.div, d.extent));
    digits.iter().map(digit).collect()
}

/// Where digits are cut, by dimension or loop: the divisors at which one begins at some value.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts(Vec<Vec<u64>>);

impl Cuts {
    pub(super) fn of(all: &[&[Digit]]) -> Cuts {
        let mut cuts = Cuts::default();
        all.iter().for_each(|digits| cuts.add(digits));
        cuts
    }

    pub(super) fn add(&mut self, digits: &[Digit]) {
        digits.iter().for_each(|d| self.cut(d.of, d.div));
    }

    /// A cut of a dimension or loop below which indices share a value.
    pub(super) fn cut(&mut self, of: usize, div: u64) {
        if self.0.len() <= of {
            self.0.resize(of + 1, Vec::new());
        }
        let cuts = &mut self.0[of];
        if let Err(at) = cuts.binary_search(&div) {
            cuts.insert(at, div);
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

/// Runs of positions that follow one another at the other value too: `place[i]` is where the digit `i` stands there.
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

/// How the dimensions of two shapes of as many elements run together: for each group those of the one, and those of
/// the other.
pub(super) fn groups(a: &[u64], b: &[u64]) -> Vec<(Vec<usize>, Vec<usize>)> {
    let mut out: Vec<(Vec<usize>, Vec<usize>)> = Vec::new();
    let (mut i, mut j) = (0, 0);
    while i < a.len() && j < b.len() {
        let (mut left, mut right) = (a[i], b[j]);
        let (mut own, mut other) = (vec![i], vec![j]);
        (i, j) = (i + 1, j + 1);
        while left != right {
            if left < right && i < a.len() {
                left = left.saturating_mul(a[i]);
                own.push(i);
                i += 1;
            } else if j < b.len() {
                right = right.saturating_mul(b[j]);
                other.push(j);
                j += 1;
            } else {
                return vec![((0..a.len()).collect(), (0..b.len()).collect())];
            }
        }
        out.push((own, other));
    }
    // What is left has one element.
    match out.last_mut() {
        Some((own, other)) => {
            own.extend(i..a.len());
            other.extend(j..b.len());
        }
        None => out.push(((0..a.len()).collect(), (0..b.len()).collect())),
    }
    out
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
    fn dimensions_run_together() {
        assert_eq!(
            groups(&[2, 6], &[2, 2, 3]),
            [(vec![0], vec![0]), (vec![1], vec![1, 2])]
        );
        assert_eq!(groups(&[1, 4, 1], &[4]), [(vec![0, 1, 2], vec![0])]);
        assert_eq!(groups(&[3, 4], &[4, 3]), [(vec![0, 1], vec![0, 1])]);
        assert_eq!(groups(&[1, 1], &[]), [(vec![0, 1], vec![])]);
    }
}
