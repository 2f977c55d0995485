//! Arithmetic on extents that may be unknown.

use crate::types::Dim;

/// The value of the only unknown extent of `dims` for which their product is `elements`.
#[must_use]
pub fn missing_extent(dims: &[Dim], elements: u64) -> Option<u64> {
    let known = dims.iter().filter_map(Dim::fixed);
    let product = known.clone().try_fold(1u64, u64::checked_mul)?;
    let open = dims.len() - known.count();
    (open == 1 && product != 0 && elements.is_multiple_of(product)).then(|| elements / product)
}

/// The common extent of two dimensions that must be equal; `None` if they provably differ.
#[must_use]
pub fn unify(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Fixed(m), Dim::Fixed(n)) => (m == n).then(|| a.clone()),
        _ if a.differs(b) => None,
        (Dim::Fixed(_), _) | (Dim::Symbol(_), Dim::Symbol(_) | Dim::Unknown) => Some(a.clone()),
        (Dim::Symbol(_) | Dim::Unknown, _) => Some(b.clone()),
    }
}

/// Returns whether two shapes may be equal.
#[must_use]
pub fn compatible(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| unify(a, b).is_some())
}
