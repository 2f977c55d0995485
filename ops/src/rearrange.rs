//! Shared code of operations that only rename elements: each has an equivalent view.

use crate::prelude::*;
use crate::shape::Volume;

/// Returns whether values of the two shapes may have the same number of elements; `false` if no values of the unknown
/// sizes make them equal.
#[must_use]
pub fn may_reshape(from: &[Dim], to: &[Dim]) -> bool {
    Volume::of(from).may_equal(&Volume::of(to))
}

/// The permutation in the attribute `perm`, which has one entry for each dimension.
///
/// # Errors
/// `codes[0]` for a wrong number of entries, `codes[1]` if they are no permutation.
pub(crate) fn permutation(
    op: &OpRef<'_>,
    codes: [Code; 2],
    found: &[i64],
    rank: usize,
) -> Result<Vec<usize>, OpError> {
    if found.len() != rank {
        let message = format!(
            "{} has {} entries in perm = {found:?}, wanted {rank}",
            op.name,
            found.len()
        );
        return Err(OpError::new(codes[0], message));
    }
    let mut perm: Vec<usize> = Vec::with_capacity(rank);
    for &p in found {
        let axis = usize::try_from(p)
            .ok()
            .filter(|&a| a < rank && !perm.contains(&a));
        perm.push(axis.ok_or_else(|| {
            let message = format!(
                "{} has perm = {found:?}, wanted each of 0 to {} once",
                op.name,
                rank - 1
            );
            OpError::new(codes[1], message)
        })?);
    }
    Ok(perm)
}
