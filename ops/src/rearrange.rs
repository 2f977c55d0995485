//! Shared code of operations that only rename elements: each has an equivalent view.

use crate::shape::Volume;
use optc_ir::Code;
use optc_ir::op::{Call, OpError, OpRef, ViewDims};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::types::Dim;

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

/// Evaluates an operation as its equivalent view.
pub(crate) fn eval(call: &Call<'_>, view: &ViewDims) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    if view.is_reshape() {
        return Ok(vec![x.reshaped(call.shape())]);
    }
    let shape = call.bind(&view.shape)?;
    Ok(vec![
        x.reshaped(shape)
            .transposed(&view.perm)
            .reshaped(call.shape()),
    ])
}
