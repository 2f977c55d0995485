//! Parts of a tensor.
//!
//! `hbir.slice`: `y[i] = x[start + i * stride]` in every dimension (StableHLO `slice`, ONNX `Slice` with
//! its bounds resolved). One entry a dimension in `starts`, `limits` and `strides` (1 when absent). A
//! limit is exclusive; with a negative stride the walk goes down from the start and -1 is the limit
//! below element 0. Of a dimension of unknown size the greatest `i64` names the end: as a limit, or,
//! with a negative stride, as the start at the last element. A bound may be a size as text, `"S"`, `"P+S"`.
//!
//! `hbir.subview`: the same part, or with `broadcast` the numpy broadcast to the result's shape, as a
//! read-only window into a live parent: it moves nothing.

use crate::attr::Attr;
use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role, Traffic};
use crate::ops::broadcast::{eval_broadcast, infer_broadcast};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{Labels, broadcasting, marks, or_barrier};
use crate::ops::shape::{flag_or, ints_or, one, operand_bytes, result_bytes, wrong_kind};
use crate::size::Size;
use crate::tensor::{EvalError, Offsets, Tensor, row_major_strides};
use crate::tile::{Access, Index, LoopKind};
use crate::types::{Dim, TensorType};

const SLICE: Decl = Decl::new(
    "hbir.slice",
    "slice",
    "a part by starts, limits and strides",
    (1, 1),
    infer,
    eval,
)
.freedom(freedom)
.access(access)
.traffic(traffic);

const SUBVIEW: Decl = Decl::new(
    "hbir.subview",
    "slice",
    "a part or a repetition of a live parent, moving nothing",
    (1, 1),
    infer_subview,
    eval_subview,
)
.freedom(freedom_subview)
.access(access_subview);

/// Names the end of a dimension.
const END: i64 = i64::MAX;

/// The part of one dimension.
#[derive(Clone, Debug)]
struct Part {
    start: Size,
    stride: i64,
    size: Dim,
}

impl Part {
    fn is_whole(&self, dim: &Dim) -> bool {
        self.start == Size::default() && self.stride == 1 && self.size.same(dim)
    }
}

/// One entry of `starts` or `limits`.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Bound {
    /// The end of the dimension.
    End,
    At(Size),
}

/// The parts of all dimensions.
///
/// C1: one entry a dimension in each list. C2: no stride is 0. C3: the bounds lie within the
/// dimension.
fn parts(op: &OpRef<'_>, x: &TensorType) -> Result<Vec<Part>, OpError> {
    let starts = bounds(op, "starts", &x.dims)?;
    let limits = bounds(op, "limits", &x.dims)?;
    let strides = ints_or(op, "slice-c1", "strides", x.rank(), 1)?;
    (0..x.rank())
        .map(|d| part(op, d, &x.dims[d], [&starts[d], &limits[d]], strides[d]))
        .collect()
}

/// A list of bounds.
fn bounds(op: &OpRef<'_>, name: &str, dims: &[Dim]) -> Result<Vec<Bound>, OpError> {
    let list = op
        .attr(name)?
        .as_array()
        .ok_or_else(|| wrong_kind(name, "a list of bounds"))?;
    if list.len() != dims.len() {
        let message = format!(
            "{} has {} entries in `{name}`, wanted {}",
            op.name,
            list.len(),
            dims.len()
        );
        return Err(OpError::new("slice-c1", message));
    }
    let bound = |entry: &Attr| match entry {
        Attr::Str(text) => Some(Bound::At(Size::of_text(text))),
        other => other.as_int().map(|n| match n {
            END => Bound::End,
            n => Bound::At(Size::constant(i128::from(n))),
        }),
    };
    list.iter()
        .map(bound)
        .collect::<Option<_>>()
        .ok_or_else(|| wrong_kind(name, "a list of integers and sizes"))
}

fn part(
    op: &OpRef<'_>,
    d: usize,
    dim: &Dim,
    bounds: [&Bound; 2],
    stride: i64,
) -> Result<Part, OpError> {
    if stride == 0 {
        let message = format!(
            "{} has stride 0 in dimension {d}, wanted 1 or more or below 0",
            op.name
        );
        return Err(OpError::new("slice-c2", message));
    }
    let one = Size::constant(1);
    let n = dim.size();
    let at = |bound: &Bound, end: Option<Size>| match bound {
        Bound::End => end,
        Bound::At(size) => Some(size.clone()),
    };
    // With a negative stride the walk starts at the last element, else it ends behind it.
    let last = n.as_ref().and_then(|n| n.minus(&one));
    let [start, limit] = match (stride < 0, bounds[0], bounds[1]) {
        (true, Bound::End, Bound::End) | (false, Bound::End, _) | (true, _, Bound::End) => {
            return Err(outside(op, d, dim, bounds, stride));
        }
        (true, start, limit) => [at(start, last), at(limit, None)],
        (false, start, limit) => [at(start, None), at(limit, n.clone())],
    };
    if !may_fit(n.as_ref(), start.as_ref(), limit.as_ref(), stride) {
        return Err(outside(op, d, dim, bounds, stride));
    }
    let steps = || {
        let (start, limit) = (start.as_ref()?, limit.as_ref()?);
        let (from, to) = if stride < 0 {
            (limit, start)
        } else {
            (start, limit)
        };
        to.minus(from)?
            .quotient_up(&Size::from(stride.unsigned_abs()))
    };
    let size = steps().map_or(Dim::Unknown, |size| Dim::of_size(&size));
    let whole = stride < 0 && start.is_none() && limit == Some(Size::constant(-1)) && stride == -1
        || stride == 1 && limit.is_none() && start == Some(Size::default());
    let size = if whole { dim.clone() } else { size };
    let start = start.unwrap_or_default();
    Ok(Part {
        start,
        stride,
        size,
    })
}

/// Whether `0 <= start <= limit <= n`, for a negative stride `-1 <= limit <= start < n`, is possible
/// as far as the sizes are known.
fn may_fit(n: Option<&Size>, start: Option<&Size>, limit: Option<&Size>, stride: i64) -> bool {
    // `a <= b + gap`, unless that is provably wrong.
    let at_most = |a: Option<&Size>, b: Option<&Size>, gap: i128| {
        let over = || a?.minus(b?)?.minus(&Size::constant(gap));
        over().is_none_or(|over| !over.is_at_least(1))
    };
    let (zero, below) = (Size::default(), Size::constant(-1));
    if stride < 0 {
        let empty = n.is_some_and(|n| n.as_constant() == Some(0))
            && start == Some(&below)
            && limit == Some(&below);
        let fits = at_most(Some(&below), limit, 0) && at_most(limit, start, 0);
        return empty || (fits && at_most(start, n, -1) && at_most(Some(&zero), start, 0));
    }
    at_most(Some(&zero), start, 0) && at_most(start, limit, 0) && at_most(limit, n, 0)
}

/// C3 does not hold.
fn outside(op: &OpRef<'_>, d: usize, dim: &Dim, bounds: [&Bound; 2], stride: i64) -> OpError {
    let show = |bound: &Bound| match bound {
        Bound::End => "the end".to_owned(),
        Bound::At(size) => size.to_string(),
    };
    let wanted = if stride < 0 {
        "-1 <= limit <= start < size"
    } else {
        "0 <= start <= limit <= size"
    };
    let message = format!(
        "{} takes {} to {} by {stride} of dimension {d} of size {dim}, wanted {wanted}",
        op.name,
        show(bounds[0]),
        show(bounds[1])
    );
    OpError::new("slice-c3", message)
}

fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let parts = parts(op, x)?;
    one(parts.into_iter().map(|p| p.size).collect(), x.dtype)
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let ty = call.op.operand(0).map_err(|e| EvalError::new(e.message))?;
    let parts = parts(call.op, ty).map_err(|e| EvalError::new(e.message))?;
    let strides = row_major_strides(&x.shape);
    let step = |(p, &s): (&Part, &usize)| (p.stride as isize).wrapping_mul(s.cast_signed());
    let steps = parts.iter().zip(&strides).map(step).collect();
    let mut start = 0isize;
    for (d, (part, &stride)) in parts.iter().zip(&strides).enumerate() {
        let first = call.number(&part.start)?;
        let count = call.shape()[d] as i64;
        let last = part
            .stride
            .checked_mul(count - 1)
            .and_then(|n| n.checked_add(first));
        let inside = |at: i64| 0 <= at && at < x.shape[d] as i64;
        if 0 < count && !(inside(first) && last.is_some_and(inside)) {
            return Err(EvalError::new(format!(
                "the part of dimension {d} lies outside its {} elements",
                x.shape[d]
            )));
        }
        start = start.wrapping_add((first as isize).wrapping_mul(stride.cast_signed()));
    }
    let mut offsets = Offsets::new(&call.shape(), steps, start);
    let out = x.gather(call.shape(), |_| {
        offsets.next().expect("one offset an element")
    });
    Ok(vec![out])
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let x = op.operand(0)?;
        let labels = f.fresh_for(x.rank());
        for ((part, dim), &label) in parts(op, x)?.iter().zip(&x.dims).zip(&labels) {
            cut_part(f, part, dim, label);
        }
        f.operand(marks(&labels));
        f.result(marks(&labels));
        Ok(())
    })
}

fn cut_part(f: &mut Labels, part: &Part, dim: &Dim, label: usize) {
    if part.is_whole(dim) {
        return;
    }
    f.role(label, Role::Axis);
    if part.stride == 1 {
        // A start that is not known lies anywhere.
        f.cut(label, part.start.as_extent().unwrap_or(1));
    } else {
        f.uncut(label);
    }
}

/// Element p of the result is start + p * stride of the operand.
fn access(op: &OpRef<'_>) -> Result<Access, OpError> {
    let x = op.operand(0)?;
    let mut access = Access::whole(op);
    for (d, (part, dim)) in parts(op, x)?.iter().zip(&x.dims).enumerate() {
        let start = match (part.start.as_constant(), part.is_whole(dim)) {
            (_, true) => Some(0),
            (Some(n), false) => i64::try_from(n).ok(),
            (None, false) => None,
        };
        // The last element of a dimension without a number.
        let down = part.stride < 0 && part.start == Size::default();
        let Some(start) = start.filter(|_| !down) else {
            continue;
        };
        let extent = op.result(0)?.dims[d].fixed().unwrap_or(0);
        let id = access.add(extent, LoopKind::Parallel);
        access.results[0][d] = Index::of(id);
        access.operands[0][d] = Index::shifted(id, part.stride, start);
    }
    Ok(access)
}

fn access_subview(op: &OpRef<'_>) -> Result<Access, OpError> {
    if op.props.flag("broadcast") {
        Ok(Access::of_freedom(op, &broadcasting(op)))
    } else {
        access(op)
    }
}

fn traffic(op: &OpRef<'_>) -> Traffic {
    let w = result_bytes(op);
    let down = op
        .props
        .ints("strides")
        .is_some_and(|s| s.iter().any(|&s| s < 0));
    if w == operand_bytes(op, 0) && !down {
        Traffic::None
    } else {
        Traffic::Copy(w.clone(), w)
    }
}

/// C1 to C3 of the slice, or, with `broadcast`, that the operand broadcasts to the result (C4).
fn infer_subview(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    if flag_or(op, "broadcast", false)? {
        infer_broadcast(op)
    } else {
        infer(op)
    }
}

fn eval_subview(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    if call.op.props.flag("broadcast") {
        eval_broadcast(call)
    } else {
        eval(call)
    }
}

fn freedom_subview(op: &OpRef<'_>) -> Freedom {
    if op.props.flag("broadcast") {
        broadcasting(op)
    } else {
        freedom(op)
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(SLICE);
    registry.add(SUBVIEW);
}
