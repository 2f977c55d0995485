//! Numbers, names and counts of dimensions.

use smallvec::SmallVec;

/// The dimension of a number, which counts from the last one if it is negative: -1 is the last dimension.
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

/// XLA's letters for the logical dimensions: `x`, `yx`, `zyx`, `pzyx`; `None` above rank 4.
#[must_use]
pub fn xla_letters(rank: usize) -> Option<&'static str> {
    ["", "x", "yx", "zyx", "pzyx"].get(rank).copied()
}

/// The product of sizes, saturated.
pub(crate) fn product(sizes: &[u64]) -> u64 {
    sizes
        .iter()
        .fold(1, |product: u64, &size| product.saturating_mul(size))
}

/// The index of an element from its row-major number.
pub(crate) fn unravel(mut k: u64, shape: &[u64]) -> Vec<u64> {
    let mut e = vec![0; shape.len()];
    for (index, &size) in e.iter_mut().zip(shape).rev() {
        *index = k % size.max(1);
        k /= size.max(1);
    }
    e
}

/// Sizes of factors. Few are expected.
pub(crate) type Sizes = SmallVec<[u64; 8]>;

/// Numbers of dimensions or factors. Few are expected.
pub(crate) type Dims = SmallVec<[usize; 8]>;

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
}
