//! The size that a tensor may have.

use crate::error::OpFailure;

/// The most elements one tensor may have; a program that declares more is refused before anything
/// is allocated.
pub const MAX_ELEMENTS: u64 = 1 << 31;

/// The number of elements of a shape.
pub(crate) fn elements_within_limit(shape: &[usize]) -> Result<u64, OpFailure> {
    if shape.contains(&0) {
        return Ok(0);
    }
    let count = shape.iter().try_fold(1u64, |a, &n| a.checked_mul(n as u64));
    count
        .filter(|&n| n <= MAX_ELEMENTS)
        .ok_or_else(|| OpFailure::TooLarge {
            shape: shape_text(shape),
            limit: MAX_ELEMENTS,
        })
}

/// `2x3x5`; `scalar` for rank 0.
pub(crate) fn shape_text(shape: &[usize]) -> String {
    let parts: Vec<String> = shape.iter().map(usize::to_string).collect();
    if parts.is_empty() {
        "scalar".to_owned()
    } else {
        parts.join("x")
    }
}
