//! Arithmetic on extents that may be unknown, and the checks that many shape rules share.

use crate::attr::Attr;
use crate::op::{Inferred, OpError, OpRef};
use crate::types::{DType, Dim, Type};
use std::sync::Arc;

/// Extents as messages show them: `[2, B, ?]`.
pub(crate) fn show(dims: &[Dim]) -> String {
    let parts: Vec<String> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", parts.join(", "))
}

/// One result.
pub(crate) fn one(dims: Vec<Dim>, dtype: DType) -> Result<Vec<Inferred>, OpError> {
    Ok(vec![Inferred { dims, dtype }])
}

/// The number of elements of a shape: a number times symbols times unknown extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// The product of the known extents; `None` above 2^64.
    coefficient: Option<u64>,
    symbols: Vec<Arc<str>>,
    unknowns: usize,
}

impl Volume {
    pub(crate) fn of(dims: &[Dim]) -> Volume {
        let mut volume = Volume {
            coefficient: Some(1),
            symbols: Vec::new(),
            unknowns: 0,
        };
        for dim in dims {
            match dim {
                Dim::Fixed(n) => {
                    volume.coefficient = volume.coefficient.and_then(|c| c.checked_mul(*n));
                }
                Dim::Symbol(s) => volume.symbols.push(s.clone()),
                Dim::Unknown => volume.unknowns += 1,
            }
        }
        volume.symbols.sort();
        volume
    }

    /// Whether the two can be the same number for some sizes, none of them 0, of what is unknown.
    pub(crate) fn may_equal(&self, other: &Volume) -> bool {
        let (Some(a), Some(b)) = (self.coefficient, other.coefficient) else {
            return self.coefficient == other.coefficient;
        };
        let comparable = self.unknowns == 0 && other.unknowns == 0 && self.symbols == other.symbols;
        !comparable || a == b
    }

    /// `self / part` as an extent, `None` when it provably is no whole number.
    fn quotient(&self, part: &Volume) -> Option<Dim> {
        let mut symbols = self.symbols.clone();
        let mut cancelled = true;
        for s in &part.symbols {
            match symbols.iter().position(|t| t == s) {
                Some(i) => drop(symbols.remove(i)),
                None => cancelled = false,
            }
        }
        let (a, b) = (self.coefficient?, part.coefficient?);
        let opaque = self.unknowns != 0 || part.unknowns != 0 || !cancelled;
        if !opaque && b != 0 && a % b == 0 {
            match (symbols.as_slice(), a / b) {
                ([], n) => return Some(Dim::Fixed(n)),
                ([s], 1) => return Some(Dim::Symbol(s.clone())),
                _ => {}
            }
        }
        let decided = !opaque && symbols.is_empty();
        (!decided).then_some(Dim::Unknown)
    }

    /// The one extent that is missing for this volume to be `elements`.
    pub(crate) fn missing_factor(&self, elements: u64) -> Option<u64> {
        let c = self.coefficient.filter(|&c| c != 0)?;
        (self.symbols.len() + self.unknowns == 1 && elements.is_multiple_of(c))
            .then(|| elements / c)
    }
}

/// The extent of two dimensions that must be equal; `None` when they provably differ.
pub(crate) fn unify(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Fixed(m), Dim::Fixed(n)) => (m == n).then(|| a.clone()),
        (Dim::Fixed(_), _) | (Dim::Symbol(_), Dim::Symbol(_) | Dim::Unknown) => Some(a.clone()),
        (Dim::Symbol(_) | Dim::Unknown, _) => Some(b.clone()),
    }
}

/// Whether two shapes may be equal.
pub(crate) fn compatible(a: &[Dim], b: &[Dim]) -> bool {
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| unify(a, b).is_some())
}

/// The extent that two dimensions broadcast to; `None` when they provably do not.
pub(crate) fn broadcast_dim(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Some(other.clone()),
        (Dim::Fixed(m), Dim::Fixed(n)) => (m == n).then(|| a.clone()),
        (Dim::Fixed(_), _) => Some(a.clone()),
        (_, Dim::Fixed(_)) => Some(b.clone()),
        (Dim::Symbol(s), Dim::Symbol(t)) if s == t => Some(a.clone()),
        (Dim::Symbol(_) | Dim::Unknown, Dim::Symbol(_) | Dim::Unknown) => Some(Dim::Unknown),
    }
}

/// The shape that several shapes broadcast to by numpy's rule.
pub(crate) fn broadcast(
    op: &OpRef<'_>,
    code: &'static str,
    shapes: &[&[Dim]],
) -> Result<Vec<Dim>, OpError> {
    let rank = shapes.iter().map(|s| s.len()).max().unwrap_or(0);
    let mut out = vec![Dim::Fixed(1); rank];
    for shape in shapes {
        let lead = rank - shape.len();
        for (slot, dim) in out[lead..].iter_mut().zip(*shape) {
            *slot = broadcast_dim(slot, dim).ok_or_else(|| {
                let shown: Vec<String> = shapes.iter().map(|s| show(s)).collect();
                let message = format!(
                    "{} of {} does not broadcast: found sizes {slot} and {dim} for one dimension, \
                     wanted equal sizes or 1",
                    op.name,
                    shown.join(" and ")
                );
                OpError::new(code, message)
            })?;
        }
    }
    Ok(out)
}

/// All tensor operands' extents.
pub(crate) fn operand_dims<'a>(op: &OpRef<'a>) -> Result<Vec<&'a [Dim]>, OpError> {
    (0..op.operands.len())
        .map(|i| Ok(op.operand(i)?.dims.as_slice()))
        .collect()
}

/// Refuses operands of different element types; gives the common one.
pub(crate) fn common_dtype(
    op: &OpRef<'_>,
    code: &'static str,
    operands: impl IntoIterator<Item = usize>,
) -> Result<DType, OpError> {
    let mut found: Option<(usize, DType)> = None;
    for i in operands {
        let dtype = op.operand(i)?.dtype;
        match found {
            None => found = Some((i, dtype)),
            Some((_, d)) if d == dtype => {}
            Some((j, d)) => {
                let message = format!(
                    "{} has operand {j} of {d} and operand {i} of {dtype}, wanted one element type",
                    op.name
                );
                return Err(OpError::new(code, message).hint("an hbir.cast makes them equal"));
            }
        }
    }
    found
        .map(|f| f.1)
        .ok_or_else(|| OpError::new("operand-count", "an operand is missing"))
}

/// Refuses an element type that is not a float.
pub(crate) fn wants_float(op: &OpRef<'_>, code: &'static str, i: usize) -> Result<DType, OpError> {
    let dtype = op.operand(i)?.dtype;
    if dtype.is_float() {
        return Ok(dtype);
    }
    let message = format!("{} of {dtype} in operand {i}, wanted a float type", op.name);
    Err(OpError::new(code, message))
}

/// Refuses an element type that is no integer type.
pub(crate) fn wants_index(op: &OpRef<'_>, code: &'static str, i: usize) -> Result<(), OpError> {
    let dtype = op.operand(i)?.dtype;
    if !dtype.is_float() && !dtype.is_bool() {
        return Ok(());
    }
    let message = format!(
        "{} has indices of {dtype} in operand {i}, wanted an integer",
        op.name
    );
    Err(OpError::new(code, message))
}

/// Refuses an operand of another rank.
pub(crate) fn wants_rank(
    op: &OpRef<'_>,
    code: &'static str,
    i: usize,
    rank: usize,
) -> Result<(), OpError> {
    let found = op.operand(i)?.rank();
    if found == rank {
        return Ok(());
    }
    Err(OpError::new(
        code,
        format!("{} has operand {i} of rank {found}, wanted {rank}", op.name),
    ))
}

/// An axis number as a dimension: negative ones count from the end.
pub(crate) fn as_axis(
    op: &OpRef<'_>,
    code: &'static str,
    axis: i64,
    rank: usize,
) -> Result<usize, OpError> {
    let n = i64::try_from(rank).unwrap_or(i64::MAX);
    let at = if axis < 0 {
        axis.saturating_add(n)
    } else {
        axis
    };
    usize::try_from(at)
        .ok()
        .filter(|&a| a < rank)
        .ok_or_else(|| {
            let message = format!(
                "{} has axis {axis}, wanted {} to {} for rank {rank}",
                op.name,
                -n,
                n - 1
            );
            OpError::new(code, message)
        })
}

/// The attribute `axis`, which must be there.
pub(crate) fn axis(op: &OpRef<'_>, code: &'static str, rank: usize) -> Result<usize, OpError> {
    as_axis(op, code, op.int("axis")?, rank)
}

/// The attribute `axis`, or a default.
pub(crate) fn axis_or(
    op: &OpRef<'_>,
    code: &'static str,
    rank: usize,
    default: i64,
) -> Result<usize, OpError> {
    as_axis(op, code, int_or(op, "axis", default)?, rank)
}

/// A list of distinct axes, in the order given.
pub(crate) fn axes(
    op: &OpRef<'_>,
    code: &'static str,
    name: &str,
    rank: usize,
) -> Result<Vec<usize>, OpError> {
    let mut out = Vec::new();
    for a in op.ints(name)? {
        let a = as_axis(op, code, a, rank)?;
        if out.contains(&a) {
            let message = format!("{} names axis {a} twice in `{name}`", op.name);
            return Err(OpError::new(code, message));
        }
        out.push(a);
    }
    Ok(out)
}

/// An integer attribute, or a default when it is absent.
pub(crate) fn int_or(op: &OpRef<'_>, name: &str, default: i64) -> Result<i64, OpError> {
    if op.props.get(name).is_some() {
        op.int(name)
    } else {
        Ok(default)
    }
}

/// A number attribute, or a default when it is absent.
pub(crate) fn float_or(op: &OpRef<'_>, name: &str, default: f64) -> Result<f64, OpError> {
    match op.props.get(name) {
        None => Ok(default),
        Some(a) => a.as_float().ok_or_else(|| wrong_kind(name, "a number")),
    }
}

/// A truth value attribute, or a default when it is absent; the integers 0 and 1 count.
pub(crate) fn flag_or(op: &OpRef<'_>, name: &str, default: bool) -> Result<bool, OpError> {
    match op.props.get(name) {
        None => Ok(default),
        Some(Attr::Unit) => Ok(true),
        Some(Attr::Bool(b)) => Ok(*b),
        Some(Attr::Int(n @ (0 | 1), _)) => Ok(*n == 1),
        Some(_) => Err(wrong_kind(name, "true or false")),
    }
}

/// A string attribute among a list of words, or a default when it is absent.
pub(crate) fn word<'a>(
    op: &OpRef<'a>,
    code: &'static str,
    name: &str,
    words: &[&'static str],
    default: &'static str,
) -> Result<&'static str, OpError> {
    let found = match op.props.get(name) {
        None => return Ok(default),
        Some(a) => a.as_str().ok_or_else(|| wrong_kind(name, "a string"))?,
    };
    words.iter().find(|w| **w == found).copied().ok_or_else(|| {
        let message = format!(
            "{} has {name} = \"{found}\", wanted one of {}",
            op.name,
            words.join(", ")
        );
        OpError::new(code, message)
    })
}

/// A list of integers of a given length, or a default in every place.
pub(crate) fn ints_or(
    op: &OpRef<'_>,
    code: &'static str,
    name: &str,
    len: usize,
    default: i64,
) -> Result<Vec<i64>, OpError> {
    if op.props.get(name).is_none() {
        return Ok(vec![default; len]);
    }
    let list = op.ints(name)?;
    if list.len() == len {
        return Ok(list);
    }
    let message = format!(
        "{} has {} entries in `{name}`, wanted {len}",
        op.name,
        list.len()
    );
    Err(OpError::new(code, message))
}

/// The element type attribute `name`, or a default when it is absent.
pub(crate) fn dtype_or(op: &OpRef<'_>, name: &str, default: DType) -> Result<DType, OpError> {
    match op.props.get(name) {
        None => Ok(default),
        Some(Attr::Type(Type::Scalar(d))) => Ok(*d),
        Some(_) => Err(wrong_kind(name, "an element type")),
    }
}

/// An attribute of the wrong kind.
pub(crate) fn wrong_kind(name: &str, wanted: &str) -> OpError {
    OpError::new("attribute-kind", format!("`{name}` wants {wanted}"))
}

/// The attribute `shape` as extents: a number, a symbol's name, or one -1 that follows from the
/// number of elements of `operand`. Without the attribute: the result type's extents.
///
/// # Errors
/// `codes[0]` for a malformed entry, `codes[1]` when the number of elements provably changes.
pub(crate) fn target_shape(
    op: &OpRef<'_>,
    codes: [&'static str; 2],
    operand: &[Dim],
) -> Result<Vec<Dim>, OpError> {
    let Some(attr) = op.props.get("shape") else {
        let dims = op.result(0)?.dims.clone();
        same_volume(op, codes[1], operand, &dims)?;
        return Ok(dims);
    };
    let entries = shape_entries(op, codes[0], attr)?;
    let known: Vec<Dim> = entries.iter().flatten().cloned().collect();
    if known.len() == entries.len() {
        same_volume(op, codes[1], operand, &known)?;
        return Ok(known);
    }
    let rest = Volume::of(operand)
        .quotient(&Volume::of(&known))
        .ok_or_else(|| {
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

/// The entries of a `shape` attribute; `None` is the -1.
fn shape_entries(
    op: &OpRef<'_>,
    code: &'static str,
    attr: &Attr,
) -> Result<Vec<Option<Dim>>, OpError> {
    let list = attr
        .as_array()
        .ok_or_else(|| wrong_kind("shape", "a list of sizes"))?;
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

/// One entry of a `shape` attribute; `None` is -1.
pub(crate) fn shape_entry(
    op: &OpRef<'_>,
    code: &'static str,
    entry: &Attr,
) -> Result<Option<Dim>, OpError> {
    match entry {
        Attr::Int(-1, _) => Ok(None),
        Attr::Int(n, _) if 0 <= *n => Ok(Some(Dim::Fixed(n.cast_unsigned()))),
        Attr::Str(s) => Ok(Some(Dim::Symbol(s.clone()))),
        other => {
            let found = other
                .as_int()
                .map_or_else(|| "no size".into(), |n| n.to_string());
            let message = format!(
                "{} has {found} in `shape`, wanted sizes, symbol names or -1",
                op.name
            );
            Err(OpError::new(code, message))
        }
    }
}

/// Refuses two shapes whose numbers of elements provably differ.
pub(crate) fn same_volume(
    op: &OpRef<'_>,
    code: &'static str,
    from: &[Dim],
    to: &[Dim],
) -> Result<(), OpError> {
    if Volume::of(from).may_equal(&Volume::of(to)) {
        return Ok(());
    }
    let count = |dims: &[Dim]| {
        let n = dims
            .iter()
            .map(Dim::fixed)
            .try_fold(1u64, |a, n| a.checked_mul(n?));
        n.map_or_else(|| show(dims), |n| n.to_string())
    };
    let message = format!(
        "{} of {} to {} changes the number of elements from {} to {}",
        op.name,
        show(from),
        show(to),
        count(from),
        count(to)
    );
    Err(OpError::new(code, message))
}

/// Whether a permutation with unit dimensions dropped is not the identity; unknown extents count
/// as longer than 1.
pub(crate) fn moves(dims: &[Dim], perm: &[usize]) -> bool {
    let long: Vec<usize> = perm
        .iter()
        .copied()
        .filter(|&a| !dims[a].is_one())
        .collect();
    long.windows(2).any(|w| w[1] < w[0])
}

/// The logical bytes of a type; an unknown extent counts as 1.
pub(crate) fn bytes(ty: &crate::types::TensorType) -> u64 {
    let n = ty
        .shape_with(&|_| 1)
        .iter()
        .fold(1u64, |a, &d| a.saturating_mul(d));
    n.saturating_mul(u64::from(ty.dtype.bits())).div_ceil(8)
}

/// The bytes of operand `i`, 0 when it is missing.
pub(crate) fn operand_bytes(op: &OpRef<'_>, i: usize) -> u64 {
    op.operand(i).map_or(0, bytes)
}

/// The bytes of all results.
pub(crate) fn result_bytes(op: &OpRef<'_>) -> u64 {
    op.results
        .iter()
        .filter_map(|t| t.as_tensor())
        .map(bytes)
        .fold(0, u64::saturating_add)
}
