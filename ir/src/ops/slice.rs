//! Parts of a tensor.
//!
//! `hbir.slice`: `y[i] = x[start + i * stride]` in every dimension (StableHLO `slice`, ONNX `Slice` with
//! its bounds resolved). One entry a dimension in `starts`, `limits` and `strides` (1 when absent). A
//! limit is exclusive; with a negative stride the walk goes down from the start and -1 is the limit
//! below element 0. Of a dimension of unknown size the greatest `i64` names the end: as a limit, or,
//! with a negative stride, as the start at the last element; a symbol's name names it too.
//!
//! `hbir.subview`: the same part, or with `broadcast` the numpy broadcast to the result's shape, as a
//! read-only window into a live parent: it moves nothing.

use crate::attr::Attr;
use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role, Traffic};
use crate::ops::broadcast::{eval_broadcast, infer_broadcast};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{Labels, broadcasting, marks, or_barrier};
use crate::ops::shape::{flag_or, ints_or, one, operand_bytes, result_bytes, wrong_kind};
use crate::tensor::{EvalError, Offsets, Tensor, row_major_strides};
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
.traffic(traffic);

const SUBVIEW: Decl = Decl::new(
    "hbir.subview",
    "slice",
    "a part or a repetition of a live parent, moving nothing",
    (1, 1),
    infer_subview,
    eval_subview,
)
.freedom(freedom_subview);

/// Names the end of a dimension.
const END: i64 = i64::MAX;

/// The part of one dimension.
#[derive(Clone, Debug)]
struct Part {
    start: i64,
    stride: i64,
    size: Dim,
}

impl Part {
    fn is_whole(&self, dim: &Dim) -> bool {
        self.start == 0 && self.stride == 1 && self.size.same(dim)
    }
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
        .map(|d| part(op, d, &x.dims[d], [starts[d], limits[d], strides[d]]))
        .collect()
}

/// A list of bounds, in which a symbol's name is the end of the dimension that has it.
fn bounds(op: &OpRef<'_>, name: &str, dims: &[Dim]) -> Result<Vec<i64>, OpError> {
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
        Attr::Str(_) => Some(END),
        other => other.as_int(),
    };
    list.iter()
        .map(bound)
        .collect::<Option<_>>()
        .ok_or_else(|| wrong_kind(name, "a list of integers and symbol names"))
}

fn part(op: &OpRef<'_>, d: usize, dim: &Dim, bounds: [i64; 3]) -> Result<Part, OpError> {
    let [start, limit, stride] = bounds;
    if stride == 0 {
        let message = format!(
            "{} has stride 0 in dimension {d}, wanted 1 or more or below 0",
            op.name
        );
        return Err(OpError::new("slice-c2", message));
    }
    let Some(n) = dim.fixed() else {
        return unknown_part(op, d, dim, bounds);
    };
    let n = i64::try_from(n).unwrap_or(i64::MAX);
    let (start, limit) = match (stride < 0, start, limit) {
        (true, END, _) => (n - 1, limit),
        (false, _, END) => (start, n),
        _ => (start, limit),
    };
    let fits = if stride < 0 {
        -1 <= limit && limit <= start && start < n.max(0) || (n == 0 && start == -1 && limit == -1)
    } else {
        0 <= start && start <= limit && limit <= n
    };
    if !fits {
        let wanted = if stride < 0 {
            "-1 <= limit <= start < size"
        } else {
            "0 <= start <= limit <= size"
        };
        let message = format!(
            "{} takes {start} to {limit} by {stride} of dimension {d} of size {n}, wanted {wanted}",
            op.name
        );
        return Err(OpError::new("slice-c3", message));
    }
    let size = start.abs_diff(limit).div_ceil(stride.unsigned_abs());
    Ok(Part {
        start,
        stride,
        size: Dim::Fixed(size),
    })
}

/// A part of a dimension whose size is not known: of what lies beyond it nothing is said.
fn unknown_part(op: &OpRef<'_>, d: usize, dim: &Dim, bounds: [i64; 3]) -> Result<Part, OpError> {
    let [start, limit, stride] = bounds;
    let whole = bounds == [0, END, 1] || bounds == [END, -1, -1];
    let size = if whole {
        dim.clone()
    } else if start == END || limit == END {
        Dim::Unknown
    } else {
        Dim::Fixed(start.abs_diff(limit).div_ceil(stride.unsigned_abs()))
    };
    let ordered = if stride < 0 {
        -1 <= limit && limit <= start
    } else {
        0 <= start && start <= limit
    };
    if !ordered {
        let message = format!(
            "{} takes {start} to {limit} by {stride} of dimension {d} of size {dim}",
            op.name
        );
        return Err(OpError::new("slice-c3", message));
    }
    Ok(Part {
        start,
        stride,
        size,
    })
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
    let begin = |(p, &s): (&Part, &usize)| (p.start as isize).wrapping_mul(s.cast_signed());
    let start = parts
        .iter()
        .zip(&strides)
        .map(begin)
        .fold(0isize, isize::wrapping_add);
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
        f.cut(label, part.start.unsigned_abs());
    } else {
        f.uncut(label);
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
        Traffic::Copy(w, w)
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
