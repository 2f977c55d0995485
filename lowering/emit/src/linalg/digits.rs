//! Digits of values in memory: these are the dimensions of tensors in the MLIR text.

use optc_layout::Digit;

/// The extents of digits.
pub(super) fn extents(digits: &[Digit]) -> Vec<u64> {
    digits.iter().map(|d| d.extent).collect()
}

/// The number of elements of these extents.
pub(super) fn volume(extents: &[u64]) -> u64 {
    extents.iter().fold(1, |a, &n| a.saturating_mul(n))
}

/// The row-major digits of a tensor: its dimensions, except those of extent 1.
pub(super) fn row_major(shape: &[u64]) -> Vec<Digit> {
    let all = shape.iter().enumerate().filter(|(_, n)| **n != 1);
    all.map(|(d, &n)| Digit::new(d, 1, n)).collect()
}

/// The digits in terms of loops; `None` if a dimension has no loop.
pub(super) fn labelled(digits: &[Digit], labels: &[Option<usize>]) -> Option<Vec<Digit>> {
    let digit = |d: &Digit| Some(Digit::new((*labels.get(d.of)?)?, d.div, d.extent));
    digits.iter().map(digit).collect()
}

/// Groups the dimensions of two shapes of equal volume such that each group has equal volume on both sides. Example:
/// (6, 5) and (2, 3, 5) give (6) with (2, 3), and (5) with (5).
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
    // The remaining dimensions have extent 1.
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
