//! Arithmetic on extents that may be unknown, and the checks that many shape rules share.

use optc_ir::Code;
use optc_ir::attr::Attr;
use optc_ir::op::{Inferred, OpError, OpRef, compatible};
use optc_ir::size::Size;
use optc_ir::types::{DType, Dim, TensorType};

/// Extents as messages show them: `[2, B, ?]`.
pub(crate) fn show(dims: &[Dim]) -> String {
    let parts: Vec<String> = dims.iter().map(Dim::to_string).collect();
    format!("[{}]", parts.join(", "))
}

/// The inference of a single result.
pub(crate) fn one(dims: Vec<Dim>, dtype: DType) -> Result<Vec<Inferred>, OpError> {
    Ok(vec![Inferred { dims, dtype }])
}

/// The number of elements of a shape: a polynomial, times a number of unknown extents.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Volume {
    /// The product of the extents that are known or have a name; `None` if it is too large.
    size: Option<Size>,
    unknowns: usize,
}

impl Volume {
    pub(crate) fn of(dims: &[Dim]) -> Volume {
        let sizes: Vec<Size> = dims.iter().filter_map(Dim::size).collect();
        Volume {
            unknowns: dims.len() - sizes.len(),
            size: Size::product(&sizes),
        }
    }

    /// Returns whether the two volumes may be equal. Names count as at least 1, except that a volume of 0 may be equal
    /// to one with names. A volume with unknown extents may be equal to any other.
    pub(crate) fn may_equal(&self, other: &Volume) -> bool {
        let (Some(a), Some(b)) = (&self.size, &other.size) else {
            return self.size == other.size;
        };
        let empty = |a: &Size, b: &Size| a.as_constant() == Some(0) && b.as_constant().is_none();
        let comparable = self.unknowns == 0 && other.unknowns == 0 && !empty(a, b) && !empty(b, a);
        !comparable || a.minus(b).is_none_or(|difference| !difference.is_nonzero())
    }

    /// `self / part` as an extent; `None` if it provably is no whole number.
    pub(crate) fn quotient(&self, part: &Volume) -> Option<Dim> {
        if self.unknowns != 0 || part.unknowns != 0 {
            return Some(Dim::Unknown);
        }
        let (a, b) = (self.size.as_ref()?, part.size.as_ref()?);
        if let Some(exact) = a.exact_quotient(b) {
            return Some(Dim::of_size(&exact));
        }
        // If the quotient has no names left, the numbers decide: it is no whole number.
        let content = Size::constant(b.factors().0);
        let names = b.exact_quotient(&content);
        let ratio = names.and_then(|names| a.exact_quotient(&names));
        let decided = ratio.is_some_and(|ratio| ratio.as_constant().is_some());
        let rounded = || a.quotient(b).map_or(Dim::Unknown, |q| Dim::of_size(&q));
        (!decided).then(rounded)
    }
}

/// The extent that two dimensions broadcast to; `None` if they provably do not broadcast.
pub(crate) fn broadcast_dim(a: &Dim, b: &Dim) -> Option<Dim> {
    match (a, b) {
        (Dim::Fixed(1), other) | (other, Dim::Fixed(1)) => Some(other.clone()),
        (Dim::Fixed(m), Dim::Fixed(n)) => (m == n).then(|| a.clone()),
        (Dim::Fixed(_), _) => Some(a.clone()),
        (_, Dim::Fixed(_)) => Some(b.clone()),
        (Dim::Symbol(s), Dim::Symbol(t)) if s == t => Some(a.clone()),
        (Dim::Symbol(_), Dim::Symbol(_)) => Some(larger(a, b).unwrap_or(Dim::Unknown)),
        (Dim::Symbol(_) | Dim::Unknown, Dim::Symbol(_) | Dim::Unknown) => Some(Dim::Unknown),
    }
}

/// The extent that two named sizes broadcast to. It is one of them, if that size is never smaller than the other, or
/// never 1. Otherwise it is the larger one, provided that neither can be 0.
fn larger(a: &Dim, b: &Dim) -> Option<Dim> {
    let (x, y) = (a.size()?, b.size()?);
    let one = Size::constant(1);
    let wins = |x: &Size, y: &Size| {
        x.minus(&one).is_some_and(|less| less.is_nonzero())
            || x.maximum(y).as_ref() == Some(x)
            || x.minus(y)
                .is_some_and(|difference| difference.is_at_least(0))
    };
    match (wins(&x, &y), wins(&y, &x)) {
        (true, _) => Some(a.clone()),
        (false, true) => Some(b.clone()),
        (false, false) if x.is_at_least(1) && y.is_at_least(1) => {
            x.maximum(&y).map(|size| Dim::of_size(&size))
        }
        (false, false) => None,
    }
}

/// The extent that `f` computes from a known or named size.
pub(crate) fn computed(dim: &Dim, f: impl FnOnce(&Size) -> Option<Size>) -> Dim {
    let size = dim.size().and_then(|size| f(&size));
    size.map_or(Dim::Unknown, |size| Dim::of_size(&size))
}

/// The shape that several shapes broadcast to by numpy's rule.
pub(crate) fn broadcast(
    op: &OpRef<'_>,
    code: Code,
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

/// The extents of all operands, which must be tensors.
pub(crate) fn operand_dims<'a>(op: &OpRef<'a>) -> Result<Vec<&'a [Dim]>, OpError> {
    (0..op.operands.len())
        .map(|i| Ok(op.operand(i)?.dims.as_slice()))
        .collect()
}

/// Refuses operands of different element types; returns the common one.
pub(crate) fn common_dtype(
    op: &OpRef<'_>,
    code: Code,
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
    found.map(|f| f.1).ok_or_else(|| {
        OpError::new(
            optc_ir::shared_codes::OPERAND_COUNT,
            "an operand is missing",
        )
    })
}

/// Refuses an element type that is not a float.
pub(crate) fn wants_float(op: &OpRef<'_>, code: Code, i: usize) -> Result<DType, OpError> {
    let dtype = op.operand(i)?.dtype;
    if dtype.is_float() {
        return Ok(dtype);
    }
    let message = format!("{} of {dtype} in operand {i}, wanted a float type", op.name);
    Err(OpError::new(code, message))
}

/// Refuses an element type that is no integer type.
pub(crate) fn wants_index(op: &OpRef<'_>, code: Code, i: usize) -> Result<(), OpError> {
    let dtype = op.operand(i)?.dtype;
    if dtype.is_int() && !dtype.is_bool() {
        return Ok(());
    }
    let message = format!(
        "{} has indices of {dtype} in operand {i}, wanted an integer",
        op.name
    );
    Err(OpError::new(code, message))
}

/// Refuses an operand whose rank is not `rank`.
pub(crate) fn wants_rank(op: &OpRef<'_>, code: Code, i: usize, rank: usize) -> Result<(), OpError> {
    let found = op.operand(i)?.rank();
    if found == rank {
        return Ok(());
    }
    Err(OpError::new(
        code,
        format!("{} has operand {i} of rank {found}, wanted {rank}", op.name),
    ))
}

/// An axis number as a dimension; a negative one counts from the end.
pub(crate) fn as_axis(
    op: &OpRef<'_>,
    code: Code,
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

/// Replaces unknown extents that follow from `like`, a shape with the same number of elements. A single unknown extent
/// is the quotient of the volumes. Several are found if both shapes are equal apart from extents of 1.
pub(crate) fn completed(dims: Vec<Dim>, like: &[Dim]) -> Vec<Dim> {
    let is_open = |d: &&Dim| **d == Dim::Unknown;
    let n_open = dims.iter().filter(is_open).count();
    let fill = |size: &Dim| {
        let put = |d: &Dim| if *d == Dim::Unknown { size } else { d }.clone();
        dims.iter().map(put).collect()
    };
    if n_open == 1 {
        let known: Vec<Dim> = dims.iter().filter(|d| !is_open(d)).cloned().collect();
        let rest = Volume::of(like).quotient(&Volume::of(&known));
        if let Some(rest @ (Dim::Fixed(_) | Dim::Symbol(_))) = rest {
            return fill(&rest);
        }
    }
    let long =
        |dims: &[Dim]| -> Vec<Dim> { dims.iter().filter(|d| !d.is_one()).cloned().collect() };
    let (mine, theirs) = (long(&dims), long(like));
    if n_open == 0 || !compatible(&mine, &theirs) {
        return dims;
    }
    let mut theirs = theirs.into_iter();
    let next = |d: Dim| match d {
        d if d.is_one() => d,
        Dim::Unknown => theirs.next().unwrap_or(Dim::Unknown),
        d @ (Dim::Fixed(_) | Dim::Symbol(_)) => {
            theirs.next();
            d
        }
    };
    dims.into_iter().map(next).collect()
}

/// One entry of a `shape` attribute; `None` is -1.
pub(crate) fn shape_entry(
    op: &OpRef<'_>,
    code: Code,
    entry: &Attr,
) -> Result<Option<Dim>, OpError> {
    match entry {
        Attr::Int(-1, _) => Ok(None),
        Attr::Int(n, _) if 0 <= *n => Ok(Some(Dim::Fixed(n.cast_unsigned()))),
        Attr::Str(s) => Ok(Some(Dim::named(s))),
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
    code: Code,
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

/// Returns whether a permutation reorders dimensions of more than one element; unknown extents count as such.
pub(crate) fn moves(dims: &[Dim], perm: &[usize]) -> bool {
    let long: Vec<usize> = perm
        .iter()
        .copied()
        .filter(|&a| !dims[a].is_one())
        .collect();
    long.windows(2).any(|w| w[1] < w[0])
}

/// The bytes of operand `i`; 0 if it is missing.
pub(crate) fn operand_bytes(op: &OpRef<'_>, i: usize) -> Size {
    op.operand(i)
        .map_or_else(|_| Size::default(), TensorType::logical_bytes)
}

/// The bytes of all results.
pub(crate) fn result_bytes(op: &OpRef<'_>) -> Size {
    let mut types = op
        .results
        .iter()
        .filter_map(|t| t.as_tensor())
        .map(TensorType::logical_bytes);
    let sum = types.try_fold(Size::default(), |sum, size| sum.plus(&size));
    sum.unwrap_or_else(|| Size::constant(i128::MAX))
}
