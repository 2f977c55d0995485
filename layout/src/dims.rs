//! How dimensions are numbered and named.

use crate::error::LayoutError;
use crate::xla::XlaSpelling;

/// The dimension that a number means: one below 0 counts from the last, -1 is the last itself.
///
/// ```
/// assert_eq!(optc_layout::dimension(-1, 3), Some(2));
/// assert_eq!(optc_layout::dimension(3, 3), None);
/// ```
#[must_use]
pub fn dimension(number: i64, rank: usize) -> Option<usize> {
    let rank = i64::try_from(rank).ok()?;
    let dim = if number < 0 { rank + number } else { number };
    let known = (0..rank).contains(&dim);
    usize::try_from(dim).ok().filter(|_| known)
}

/// The number of dimensions that are longer than 1.
#[must_use]
pub fn true_rank(shape: &[u64]) -> usize {
    shape.iter().filter(|&&size| 1 < size).count()
}

/// XLA's letters for the logical dimensions: `x`, `yx`, `zyx`, `pzyx`; none above rank 4.
#[must_use]
pub fn xla_letters(rank: usize) -> Option<&'static str> {
    ["", "x", "yx", "zyx", "pzyx"].get(rank).copied()
}

impl XlaSpelling {
    /// The logical dimension at physical place `n` from the most minor one.
    #[must_use]
    pub fn minor(&self, n: usize) -> Option<usize> {
        self.minor_to_major().get(n).copied()
    }

    /// The logical dimension at physical place `n` from the most major one.
    #[must_use]
    pub fn major(&self, n: usize) -> Option<usize> {
        self.minor_to_major().iter().rev().nth(n).copied()
    }

    /// The untiled layout whose dimensions descend, `{rank-1,...,0}`.
    #[must_use]
    pub fn descending(rank: usize) -> Self {
        Self::untiled((0..rank).rev().collect())
    }

    /// An untiled layout.
    ///
    /// # Errors
    /// The list is no permutation of the dimensions.
    pub fn from_minor_to_major(minor_to_major: &[usize]) -> Result<Self, LayoutError> {
        let list: Vec<i64> = minor_to_major
            .iter()
            .map(|&dim| i64::try_from(dim).unwrap_or(i64::MAX))
            .collect();
        let rank = list.len();
        crate::spelling::permutation("xla", &list, rank).map(Self::untiled)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_and_letters() {
        let found: Vec<_> = (-4..4).map(|number| dimension(number, 3)).collect();
        let wanted = [
            None,
            Some(0),
            Some(1),
            Some(2),
            Some(0),
            Some(1),
            Some(2),
            None,
        ];
        assert_eq!(found, wanted);
        assert_eq!(dimension(0, 0), None);
        assert_eq!(dimension(i64::MIN, 2), None);
        assert_eq!(true_rank(&[1, 3, 1, 0, 5]), 2);
        assert_eq!(xla_letters(3), Some("zyx"));
        assert_eq!(xla_letters(5), None);
    }

    #[test]
    fn physical_places() {
        let xla = XlaSpelling::from_minor_to_major(&[1, 2, 0]).expect("a permutation");
        assert_eq!(
            [xla.minor(0), xla.minor(2), xla.minor(3)],
            [Some(1), Some(0), None]
        );
        assert_eq!(
            [xla.major(0), xla.major(2), xla.major(3)],
            [Some(0), Some(1), None]
        );
        assert_eq!(XlaSpelling::descending(3).to_string(), "2,1,0");
        assert!(XlaSpelling::from_minor_to_major(&[1, 1]).is_err());
    }
}
