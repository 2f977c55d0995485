//! The digits of values in memory: the dimensions that a tensor of the text has.

use optc_layout::Digit;

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

/// Digits by the loops that dimensions run over; nothing where a dimension of more than one element has none.
pub(super) fn labelled(digits: &[Digit], labels: &[Option<usize>]) -> Option<Vec<Digit>> {
    let digit = |d: &Digit| Some(Digit::new((*labels.get(d.of)?)?, d.div, d.extent));
    digits.iter().map(digit).collect()
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
