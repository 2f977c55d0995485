//! Writing by index: a copy of the first operand in which the places named by the indices hold the
//! updates, or their `reduction` (none, add, mul, max, min) with what was there. Operands: the tensor, the
//! indices, the updates. An index below 0 counts from the end; of several updates of one place without a
//! reduction the last in row-major order stays.
//!
//! `hbir.scatter_elements` (ONNX `ScatterElements`) writes `y[i with its axis entry indices[i]]`;
//! `hbir.scatter_nd` (ONNX `ScatterND`) the part at the coordinates in the last dimension of the indices.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::ops::gather::{element_places, nd_places};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{
    axis_or, common_dtype, compatible, one, operand_bytes, result_bytes, show, wants_index,
    wants_rank, word,
};
use crate::tensor::{EvalError, Tensor};
use crate::types::Dim;

const SCATTER_ELEMENTS: Decl = Decl::new(
    "hbir.scatter_elements",
    "gather",
    "a copy with elements written at indices along an axis",
    (3, 3),
    infer_elements,
    eval_elements,
)
.freedom(freedom_elements)
.traffic(traffic);

const SCATTER_ND: Decl = Decl::new(
    "hbir.scatter_nd",
    "gather",
    "a copy with parts written at coordinates",
    (3, 3),
    infer_nd,
    eval_nd,
)
.freedom(freedom_nd)
.traffic(traffic);

const REDUCTIONS: [&str; 5] = ["none", "add", "mul", "max", "min"];

fn traffic(op: &OpRef<'_>) -> Traffic {
    Traffic::Copy(operand_bytes(op, 0), result_bytes(op))
}

/// C1: an axis of the first operand. C2: the indices are integers. C3: equal ranks. C4: the updates
/// have the indices' shape and the first operand's element type. C5: a known reduction.
fn infer_elements(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let (x, indices, updates) = (op.operand(0)?, op.operand(1)?, op.operand(2)?);
    axis_or(op, "scatter-elements-c1", x.rank(), 0)?;
    wants_index(op, "scatter-elements-c2", 1)?;
    wants_rank(op, "scatter-elements-c3", 1, x.rank())?;
    common_dtype(op, "scatter-elements-c4", [0, 2])?;
    if !compatible(&indices.dims, &updates.dims) {
        let message = format!(
            "hbir.scatter_elements has updates {} for indices {}, wanted equal shapes",
            show(&updates.dims),
            show(&indices.dims)
        );
        return Err(OpError::new("scatter-elements-c4", message));
    }
    word(op, "scatter-elements-c5", "reduction", &REDUCTIONS, "none")?;
    one(x.dims.clone(), x.dtype)
}

fn eval_elements(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let axis = axis_or(call.op, "scatter-elements-c1", x.shape.len(), 0)
        .map_err(|e| EvalError::new(e.message))?;
    for (d, &n) in call.input(1).shape.iter().enumerate() {
        if d != axis && x.shape[d] < n {
            let message = format!("{n} indices in dimension {d} of {} elements", x.shape[d]);
            return Err(EvalError::new(message));
        }
    }
    write(call, &element_places(&x.shape, call.input(1), axis)?, 1)
}

/// Writes update `i` to `places[i / part] + i % part`.
fn write(call: &Call<'_>, places: &[usize], part: usize) -> Result<Vec<Tensor>, EvalError> {
    let (x, updates) = (call.input(0), call.input(2));
    let reduction = call.op.props.str("reduction").unwrap_or("none");
    let targets = (0..updates.len()).map(|i| (i, places[i / part] + i % part));
    if x.dtype.is_float() {
        let mut out = x.to_f64();
        for (i, at) in targets {
            out[at] = reduce_float(reduction, out[at], updates.f64_at(i));
        }
        return Ok(call.floats(out));
    }
    let mut out: Vec<i128> = (0..x.len()).map(|i| x.i128_at(i)).collect();
    for (i, at) in targets {
        out[at] = reduce_integer(reduction, out[at], updates.i128_at(i));
    }
    Ok(call.integers(out))
}

fn reduce_float(reduction: &str, old: f64, new: f64) -> f64 {
    match reduction {
        "add" => old + new,
        "mul" => old * new,
        "max" => {
            if old.is_nan() || new < old {
                old
            } else {
                new
            }
        }
        "min" => {
            if old.is_nan() || old < new {
                old
            } else {
                new
            }
        }
        _ => new,
    }
}

fn reduce_integer(reduction: &str, old: i128, new: i128) -> i128 {
    match reduction {
        "add" => old.wrapping_add(new),
        "mul" => old.wrapping_mul(new),
        "max" => old.max(new),
        "min" => old.min(new),
        _ => new,
    }
}

fn freedom_elements(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let rank = op.operand(0)?.rank();
        let axis = axis_or(op, "scatter-elements-c1", rank, 0)?;
        let labels = f.fresh_for(rank);
        f.role(labels[axis], Role::Axis);
        let mut updates = marks(&labels);
        updates[axis] = Some(f.fresh(Role::Axis));
        f.operand(marks(&labels));
        f.operand(updates.clone());
        f.operand(updates);
        f.result(marks(&labels));
        Ok(())
    })
}

/// C1: the indices are integers. C2: their last dimension is known and at most the rank. C3: the
/// updates have the indices' leading dimensions, then the dimensions left. C4: one element type.
/// C5: a known reduction.
fn infer_nd(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let (x, indices, updates) = (op.operand(0)?, op.operand(1)?, op.operand(2)?);
    wants_index(op, "scatter-nd-c1", 1)?;
    let depth = depth(op)?;
    let wanted = [&indices.dims[..indices.rank() - 1], &x.dims[depth..]].concat();
    if !compatible(&wanted, &updates.dims) {
        let message = format!(
            "hbir.scatter_nd has updates {}, wanted {}",
            show(&updates.dims),
            show(&wanted)
        );
        return Err(OpError::new("scatter-nd-c3", message));
    }
    common_dtype(op, "scatter-nd-c4", [0, 2])?;
    word(op, "scatter-nd-c5", "reduction", &REDUCTIONS, "none")?;
    one(x.dims.clone(), x.dtype)
}

/// The number of coordinates.
fn depth(op: &OpRef<'_>) -> Result<usize, OpError> {
    let (x, indices) = (op.operand(0)?, op.operand(1)?);
    let last = indices
        .dims
        .last()
        .and_then(Dim::fixed)
        .and_then(|n| usize::try_from(n).ok());
    last.filter(|&n| n <= x.rank()).ok_or_else(|| {
        let message = format!(
            "hbir.scatter_nd by indices {}, wanted a last dimension of at most {}",
            show(&indices.dims),
            x.rank()
        );
        OpError::new("scatter-nd-c2", message)
    })
}

fn eval_nd(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let depth = depth(call.op).map_err(|e| EvalError::new(e.message))?;
    let part = x.shape[depth..].iter().product::<usize>();
    write(call, &nd_places(&x.shape, call.input(1), 0, depth)?, part)
}

fn freedom_nd(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let (x, indices) = (op.operand(0)?.rank(), op.operand(1)?.rank());
        let depth = depth(op)?;
        let labels = f.fresh_for(x);
        labels[..depth].iter().for_each(|&l| f.role(l, Role::Axis));
        let rows = f.fresh_for(indices - 1);
        let coordinate = f.fresh(Role::Axis);
        f.uncut(coordinate);
        f.operand(marks(&labels));
        f.operand([marks(&rows), vec![Some(coordinate)]].concat());
        f.operand([marks(&rows), marks(&labels[depth..])].concat());
        f.result(marks(&labels));
        Ok(())
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(SCATTER_ELEMENTS);
    registry.add(SCATTER_ND);
}
