//! Attributes that are lists, as numbers, axes and extents.

use crate::prelude::*;
use crate::shape::{Volume, completed, same_volume, shape_entry};

/// A list with one integer for each dimension; if it is absent, the default for each.
pub(crate) fn per_axis(
    op: &OpRef<'_>,
    code: Code,
    name: &str,
    list: Option<&[i64]>,
    rank: usize,
    default: i64,
) -> Result<Vec<i64>, OpError> {
    match list {
        None => Ok(vec![default; rank]),
        Some(list) if list.len() == rank => Ok(list.to_vec()),
        Some(list) => {
            let found = list.len();
            let message = format!("{} has {found} entries in `{name}`, wanted {rank}", op.name);
            Err(OpError::new(code, message))
        }
    }
}

/// The distinct axes in the attribute `name`, in the order given.
pub(crate) fn distinct_axes(
    op: &OpRef<'_>,
    code: Code,
    name: &str,
    list: &[i64],
    rank: usize,
) -> Result<Vec<usize>, OpError> {
    let mut out = Vec::with_capacity(list.len());
    for &axis in list {
        let axis = as_axis(op, code, axis, rank)?;
        if out.contains(&axis) {
            let message = format!("{} names axis {axis} twice in `{name}`", op.name);
            return Err(OpError::new(code, message));
        }
        out.push(axis);
    }
    Ok(out)
}

/// Integers as an attribute holds them; a number that is too large becomes the largest.
pub fn ints<T: Copy + TryInto<i64>>(items: &[T]) -> Vec<i64> {
    let int = |&n: &T| n.try_into().unwrap_or(i64::MAX);
    items.iter().map(int).collect()
}

/// Numbers as the entries of an attribute `shape`.
pub fn sizes<T: Copy + TryInto<i64>>(items: &[T]) -> Vec<Attr> {
    ints(items).into_iter().map(Attr::int).collect()
}

/// Extents as the entries of an attribute `shape`: a number, a symbol's name, or -1 for an unknown extent.
pub(crate) fn shape_attrs(dims: &[Dim]) -> Vec<Attr> {
    let entry = |dim: &Dim| match dim {
        Dim::Fixed(n) => Attr::int(i64::try_from(*n).unwrap_or(i64::MAX)),
        Dim::Symbol(name) => Attr::Str(name.clone()),
        Dim::Unknown => Attr::int(-1),
    };
    dims.iter().map(entry).collect()
}

/// The attribute `shape` as extents. An entry is a number, a symbol's name, or -1 (at most once), which follows from
/// the number of elements of `operand`. Without the attribute: the extents of the result type.
///
/// # Errors
/// `codes[0]` for a malformed entry, `codes[1]` when the number of elements provably changes.
pub(crate) fn target_shape(
    op: &OpRef<'_>,
    codes: [Code; 2],
    shape: Option<&[Attr]>,
    operand: &[Dim],
) -> Result<Vec<Dim>, OpError> {
    let Some(shape) = shape else {
        let dims = op.result(0)?.dims.clone();
        same_volume(op, codes[1], operand, &dims)?;
        return Ok(completed(dims, operand));
    };
    let entries = shape_entries(op, codes[0], shape)?;
    let known: Vec<Dim> = entries.iter().flatten().cloned().collect();
    if known.len() == entries.len() {
        same_volume(op, codes[1], operand, &known)?;
        return Ok(known);
    }
    let rest = Volume::of(operand).quotient(&Volume::of(&known));
    let rest = rest.ok_or_else(|| {
        let message = format!(
            "{} of {} has no whole number for the -1 beside {}",
            op.name,
            show(operand),
            show(&known)
        );
        OpError::new(codes[1], message)
    })?;
    Ok(entries
        .into_iter()
        .map(|e| e.unwrap_or_else(|| rest.clone()))
        .collect())
}

/// The entries of an attribute `shape`; `None` stands for -1.
fn shape_entries(op: &OpRef<'_>, code: Code, list: &[Attr]) -> Result<Vec<Option<Dim>>, OpError> {
    let mut out = Vec::with_capacity(list.len());
    for entry in list {
        let entry = shape_entry(op, code, entry)?;
        if entry.is_none() && out.contains(&None) {
            let message = format!("{} has two -1 in `shape`, wanted at most one", op.name);
            return Err(OpError::new(code, message));
        }
        out.push(entry);
    }
    Ok(out)
}
