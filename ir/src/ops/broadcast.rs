//! Repetition.
//!
//! - `hbir.broadcast`: numpy's broadcast of the operand and a `shape` (ONNX `Expand`); an entry is a number, a
//!   symbol's name or -1, which keeps the operand's dimension; without `shape` it is the result type's.
//! - `hbir.tile`: the operand `repeats[d]` times along each dimension (ONNX `Tile`).
//! - `hbir.one_hot`: for each index a new dimension of `depth` at `axis` that holds 1 at the index and 0
//!   elsewhere, or the two entries of a second operand `[off, on]` (ONNX `OneHot`); an index below 0
//!   counts from the end, one out of bounds marks nothing. The result's element type is the second operand's, else `to`, else f32.
//! - `hbir.trilu`: elements above (with `upper`) or below the k-th diagonal of the last two dimensions, the
//!   diagonal included, and zeros elsewhere (ONNX `Trilu`).

use crate::attr::Attr;
use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{broadcasting, broadcasting_along, marks, or_barrier};
use crate::ops::shape::{
    as_axis, broadcast, computed, dtype_or, flag_or, int_or, one, operand_bytes, result_bytes,
    shape_entry, show, wants_index, wrong_kind,
};
use crate::size::Size;
use crate::tensor::{EvalError, Offsets, Tensor};
use crate::types::{DType, Dim};

const BROADCAST: Decl = Decl::new(
    "hbir.broadcast",
    "broadcast",
    "repeated along dimensions of extent 1 and new leading ones",
    (1, 1),
    infer_broadcast,
    eval_broadcast,
)
.freedom(broadcasting)
.traffic(traffic);

const TILE: Decl = Decl::new(
    "hbir.tile",
    "broadcast",
    "repeated a number of times along each dimension",
    (1, 1),
    infer_tile,
    eval_tile,
)
.freedom(freedom_tile)
.traffic(traffic);

const ONE_HOT: Decl = Decl::new(
    "hbir.one_hot",
    "broadcast",
    "a new dimension that marks each index",
    (1, 2),
    infer_one_hot,
    eval_one_hot,
)
.freedom(freedom_one_hot);

const TRILU: Decl = Decl::new(
    "hbir.trilu",
    "elementwise",
    "the upper or lower triangle of the last two dimensions",
    (1, 1),
    infer_trilu,
    eval_trilu,
)
.freedom(freedom_trilu);

fn traffic(op: &OpRef<'_>) -> Traffic {
    // A broadcast never makes less of its operand.
    if operand_bytes(op, 0) != result_bytes(op) {
        Traffic::Expand
    } else {
        Traffic::None
    }
}

/// C1: well-formed entries. C2: the operand broadcasts with the shape.
pub(crate) fn infer_broadcast(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let shape = match op.props.get("shape") {
        None => op.result(0)?.dims.clone(),
        Some(attr) => {
            let list = attr
                .as_array()
                .ok_or_else(|| wrong_kind("shape", "a list of sizes"))?;
            let entry = |(d, entry): (usize, &Attr)| {
                let kept = (d + x.rank())
                    .checked_sub(list.len())
                    .and_then(|d| x.dims.get(d));
                Ok(shape_entry(op, "broadcast-c1", entry)?
                    .or_else(|| kept.cloned())
                    .unwrap_or(Dim::Fixed(1)))
            };
            list.iter()
                .enumerate()
                .map(entry)
                .collect::<Result<_, OpError>>()?
        }
    };
    one(broadcast(op, "broadcast-c2", &[&x.dims, &shape])?, x.dtype)
}

pub(crate) fn eval_broadcast(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, shape) = (call.input(0), call.shape());
    if broadcast_fits(&x.shape, &shape) {
        let mut offsets = Offsets::broadcast(&x.shape, &shape);
        return Ok(vec![x.gather(shape, |_| {
            offsets.next().expect("one offset an element")
        })]);
    }
    Err(EvalError::new(format!(
        "{:?} does not broadcast to {shape:?}",
        x.shape
    )))
}

/// Whether a symbol that was bound leaves a broadcast.
fn broadcast_fits(x: &[usize], shape: &[usize]) -> bool {
    let pairs = x.iter().rev().zip(shape.iter().rev());
    x.len() <= shape.len() && pairs.into_iter().all(|(a, b)| a == b || *a == 1)
}

/// C1: one repeat a dimension, none below 0. C2: the extents stay below 2^64.
fn infer_tile(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let found = op.ints("repeats")?;
    let repeats: Option<Vec<u64>> = found.iter().map(|&n| u64::try_from(n).ok()).collect();
    let repeats = repeats.filter(|r| r.len() == x.rank()).ok_or_else(|| {
        let message = format!(
            "hbir.tile of {} has repeats = {found:?}, wanted {} numbers of 0 or more",
            show(&x.dims),
            x.rank()
        );
        OpError::new("tile-c1", message)
    })?;
    let times = |(dim, &r): (&Dim, &u64)| match dim {
        Dim::Fixed(n) => n.checked_mul(r).map(Dim::Fixed),
        other => Some(computed(other, |n| n.times(&Size::from(r)))),
    };
    let dims: Option<Vec<Dim>> = x.dims.iter().zip(&repeats).map(times).collect();
    let dims = dims.ok_or_else(|| {
        OpError::new(
            "tile-c2",
            format!("hbir.tile of {} by {found:?} is too large", show(&x.dims)),
        )
    })?;
    one(dims, x.dtype)
}

fn eval_tile(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, shape) = (call.input(0), call.shape());
    let strides = x.strides();
    let mut walk = Offsets::new(&shape, vec![0; shape.len()], 0);
    let place = |index: &[usize]| -> usize {
        index
            .iter()
            .zip(&x.shape)
            .zip(&strides)
            .map(|((i, n), s)| i % n * s)
            .sum()
    };
    Ok(vec![x.gather(shape, |_| {
        let at = place(walk.index());
        walk.next();
        at
    })])
}

fn freedom_tile(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let labels = f.fresh_for(x.rank());
        for ((a, b), &label) in x.dims.iter().zip(&y.dims).zip(&labels) {
            if a != b {
                f.role(label, Role::Axis);
            }
        }
        f.broadcast(&x.dims, &y.dims, &labels);
        f.result(marks(&labels));
        Ok(())
    })
}

/// C1: the indices are integers. C2: an axis of the result. C3: a positive depth. C4: the second
/// operand is `[off, on]`.
fn infer_one_hot(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    wants_index(op, "one-hot-c1", 0)?;
    let axis = as_axis(op, "one-hot-c2", int_or(op, "axis", -1)?, x.rank() + 1)?;
    let depth = op.int("depth")?;
    let size = u64::try_from(depth)
        .ok()
        .filter(|&d| 0 < d)
        .ok_or_else(|| {
            OpError::new(
                "one-hot-c3",
                format!("hbir.one_hot has depth = {depth}, wanted 1 or more"),
            )
        })?;
    let mut dtype = dtype_or(op, "to", DType::F32)?;
    if 1 < op.operands.len() {
        let values = op.operand(1)?;
        if values.dims != [Dim::Fixed(2)] {
            let message = format!("hbir.one_hot has values {}, wanted [2]", show(&values.dims));
            return Err(OpError::new("one-hot-c4", message));
        }
        dtype = values.dtype;
    }
    let mut dims = x.dims.clone();
    dims.insert(axis, Dim::Fixed(size));
    one(dims, dtype)
}

fn eval_one_hot(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, shape) = (call.input(0), call.shape());
    let axis = int_or(call.op, "axis", -1)
        .and_then(|a| as_axis(call.op, "one-hot-c2", a, shape.len()))
        .map_err(|e| EvalError::new(e.message))?;
    let depth = shape[axis];
    let inner: usize = shape[axis + 1..].iter().product();
    let n = shape.iter().product::<usize>();
    let marked = |i: usize| {
        let index = x.i64_at(i / (depth * inner) * inner + i % inner);
        let index = if index < 0 {
            index.saturating_add(depth as i64)
        } else {
            index
        };
        index == (i / inner % depth) as i64
    };
    if let Some(values) = call.inputs.get(1) {
        return Ok(vec![values.gather(shape, |i| usize::from(marked(i)))]);
    }
    Ok(call.floats((0..n).map(|i| f64::from(u8::from(marked(i))))))
}

fn freedom_one_hot(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let rank = op.result(0)?.rank();
        let axis = as_axis(op, "one-hot-c2", int_or(op, "axis", -1)?, rank)?;
        let labels = f.fresh_for(rank);
        f.role(labels[axis], Role::Axis);
        let mut indices = labels.clone();
        indices.remove(axis);
        f.operand(marks(&indices));
        if 1 < op.operands.len() {
            let values = f.fresh(Role::Axis);
            f.operand(vec![Some(values)]);
        }
        f.result(marks(&labels));
        Ok(())
    })
}

/// C1: rank 2 or more.
fn infer_trilu(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    if x.rank() < 2 {
        let message = format!("hbir.trilu of {}, wanted rank 2 or more", show(&x.dims));
        return Err(OpError::new("trilu-c1", message));
    }
    int_or(op, "k", 0)?;
    flag_or(op, "upper", true)?;
    one(x.dims.clone(), x.dtype)
}

fn eval_trilu(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let message = |e: OpError| EvalError::new(e.message);
    let k = int_or(call.op, "k", 0).map_err(message)?;
    let upper = flag_or(call.op, "upper", true).map_err(message)?;
    let [.., rows, columns] = x.shape[..] else {
        return Err(EvalError::new("rank below 2"));
    };
    let keeps = |i: usize| {
        let (row, column) = ((i / columns % rows) as i64, (i % columns) as i64);
        let diagonal = row.saturating_add(k);
        if upper {
            diagonal <= column
        } else {
            column <= diagonal
        }
    };
    Ok(if x.dtype.is_float() {
        call.floats((0..x.len()).map(|i| if keeps(i) { x.f64_at(i) } else { 0.0 }))
    } else {
        call.integers((0..x.len()).map(|i| if keeps(i) { x.i128_at(i) } else { 0 }))
    })
}

fn freedom_trilu(op: &OpRef<'_>) -> Freedom {
    let rank = op.operand(0).map_or(0, |x| x.rank());
    broadcasting_along(op, &(rank.saturating_sub(2)..rank).collect::<Vec<_>>())
}

pub(super) fn register(registry: &mut Registry) {
    for op in [BROADCAST, TILE, ONE_HOT, TRILU] {
        registry.add(op);
    }
}
