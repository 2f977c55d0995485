//! The digits of types in memory, with numbers in place of unknown sizes.

use optc_ir::{Dim, StandIns, TensorType};
use optc_layout::{Digit, Layout};

/// The extents of a type, with numbers in place of unknown sizes.
pub(super) fn shape(ty: &TensorType, numbers: &mut StandIns) -> Option<Vec<u64>> {
    ty.dims.iter().map(|d| numbers.number(d)).collect()
}

/// The digits of a type in memory, major to minor, by dimension. `None` where some positions hold no element, or the
/// layout is no order of digits.
pub(super) fn of_type(ty: &TensorType, numbers: &mut StandIns) -> Option<Vec<Digit>> {
    let shape = shape(ty, numbers)?;
    let layout = Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).ok()?;
    Digit::all(&shape, &layout)
}

/// Returns whether the digits are in the order of the dimensions, each dimension whole.
pub(super) fn is_row_major(digits: &[Digit]) -> bool {
    let mut last: Option<(usize, u64)> = None;
    digits.iter().all(|d| {
        let after = last.is_none_or(|(of, div)| {
            (of, std::cmp::Reverse(div)) < (d.of, std::cmp::Reverse(d.div))
        });
        last = Some(d.key());
        after
    })
}

/// The sizes that these numbers stand for.
pub(super) fn dims(extents: impl IntoIterator<Item = u64>, numbers: &StandIns) -> Vec<Dim> {
    extents.into_iter().map(|n| numbers.dim(n)).collect()
}
