//! Reading by index. An index below 0 counts from the end.
//!
//! - `hbir.gather` (ONNX `Gather`): along `axis` the elements that the indices name; the indices' dimensions
//!   take the axis's place: `y[i.., j.., k..] = x[i.., indices[j..], k..]`.
//! - `hbir.gather_elements` (ONNX `GatherElements`): `y[i] = x[i with its axis entry indices[i]]`.
//! - `hbir.gather_nd` (ONNX `GatherND`): the last dimension of the indices is a place in the dimensions
//!   after the first `batch_dims`, which both operands have.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{
    axis_or, compatible, int_or, one, result_bytes, show, wants_index, wants_rank,
};
use crate::tensor::{EvalError, Offsets, Tensor, row_major_strides};

const GATHER: Decl = Decl::new(
    "hbir.gather",
    "gather",
    "the elements along an axis that indices name",
    (2, 2),
    infer_gather,
    eval_gather,
)
.freedom(freedom_gather)
.traffic(traffic);

const GATHER_ELEMENTS: Decl = Decl::new(
    "hbir.gather_elements",
    "gather",
    "for each index the element it names along an axis",
    (2, 2),
    infer_elements,
    eval_elements,
)
.freedom(freedom_elements)
.traffic(traffic);

const GATHER_ND: Decl = Decl::new(
    "hbir.gather_nd",
    "gather",
    "the parts at places given by all their coordinates",
    (2, 2),
    infer_nd,
    eval_nd,
)
.freedom(freedom_nd)
.traffic(traffic);

fn traffic(op: &OpRef<'_>) -> Traffic {
    let w = result_bytes(op);
    Traffic::Copy(w.clone(), w)
}

/// An index as a position in an axis of `n` elements.
pub(crate) fn position(index: i64, n: usize) -> Result<usize, EvalError> {
    let at = if index < 0 {
        index.saturating_add(n as i64)
    } else {
        index
    };
    usize::try_from(at)
        .ok()
        .filter(|&at| at < n)
        .ok_or_else(|| EvalError::new(format!("index {index} is out of bounds of {n} elements")))
}

/// C1: an axis of the first operand. C2: the indices are integers.
fn infer_gather(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let (x, indices) = (op.operand(0)?, op.operand(1)?);
    let axis = axis_or(op, "gather-c1", x.rank(), 0)?;
    wants_index(op, "gather-c2", 1)?;
    one(
        [&x.dims[..axis], &indices.dims, &x.dims[axis + 1..]].concat(),
        x.dtype,
    )
}

fn eval_gather(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, indices) = (call.input(0), call.input(1));
    let axis =
        axis_or(call.op, "gather-c1", x.shape.len(), 0).map_err(|e| EvalError::new(e.message))?;
    let n = x.shape[axis];
    let places: Result<Vec<usize>, EvalError> = (0..indices.len())
        .map(|i| position(indices.i64_at(i), n))
        .collect();
    let (places, inner) = (places?, x.shape[axis + 1..].iter().product::<usize>());
    let row = places.len() * inner;
    Ok(vec![x.gather(call.shape(), |i| {
        (i / row * n + places[i % row / inner]) * inner + i % inner
    })])
}

fn freedom_gather(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let (x, indices) = (op.operand(0)?.rank(), op.operand(1)?.rank());
        let axis = axis_or(op, "gather-c1", x, 0)?;
        let labels = f.fresh_for(x - 1 + indices);
        let mut own = marks(&labels[..axis]);
        own.push(Some(f.fresh(Role::Axis)));
        own.extend(marks(&labels[axis + indices..]));
        f.operand(own);
        f.operand(marks(&labels[axis..axis + indices]));
        f.result(marks(&labels));
        Ok(())
    })
}

/// C1: an axis of the first operand. C2: the indices are integers. C3: equal ranks. C4: beside the
/// axis the indices are no longer than the operand.
fn infer_elements(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let (x, indices) = (op.operand(0)?, op.operand(1)?);
    let axis = axis_or(op, "gather-elements-c1", x.rank(), 0)?;
    wants_index(op, "gather-elements-c2", 1)?;
    wants_rank(op, "gather-elements-c3", 1, x.rank())?;
    for (d, (a, b)) in x.dims.iter().zip(&indices.dims).enumerate() {
        let longer = a.fixed().zip(b.fixed()).is_some_and(|(a, b)| a < b);
        if d != axis && longer {
            let message = format!(
                "hbir.gather_elements of {} by indices {}, wanted at most {a} in dimension {d}",
                show(&x.dims),
                show(&indices.dims)
            );
            return Err(OpError::new("gather-elements-c4", message));
        }
    }
    one(indices.dims.clone(), x.dtype)
}

fn eval_elements(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, indices) = (call.input(0), call.input(1));
    let axis = axis_or(call.op, "gather-elements-c1", x.shape.len(), 0)
        .map_err(|e| EvalError::new(e.message))?;
    let places = element_places(&x.shape, indices, axis)?;
    Ok(vec![x.gather(call.shape(), |i| places[i])])
}

/// For each index the element of a tensor of shape `x` that it names along `axis`.
pub(crate) fn element_places(
    x: &[usize],
    indices: &Tensor,
    axis: usize,
) -> Result<Vec<usize>, EvalError> {
    let strides = row_major_strides(x);
    let mut steps: Vec<isize> = strides.iter().map(|s| s.cast_signed()).collect();
    steps[axis] = 0;
    let others = Offsets::new(&indices.shape, steps, 0);
    let place = |(i, other)| Ok(other + position(indices.i64_at(i), x[axis])? * strides[axis]);
    others.enumerate().map(place).collect()
}

fn freedom_elements(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let rank = op.operand(0)?.rank();
        let axis = axis_or(op, "gather-elements-c1", rank, 0)?;
        let labels = f.fresh_for(rank);
        let mut own = marks(&labels);
        own[axis] = Some(f.fresh(Role::Axis));
        f.operand(own);
        f.operand(marks(&labels));
        f.result(marks(&labels));
        Ok(())
    })
}

/// C1: `batch_dims` leading dimensions that both have and that agree. C2: the indices are integers.
/// C3: their last dimension is known and no longer than the dimensions left.
fn infer_nd(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let (x, indices) = (op.operand(0)?, op.operand(1)?);
    let (batch, depth) = nd_extents(op)?;
    wants_index(op, "gather-nd-c2", 1)?;
    let lead = &indices.dims[..indices.rank() - 1];
    one([lead, &x.dims[batch + depth..]].concat(), x.dtype)
}

/// The number of batch dimensions and of coordinates.
fn nd_extents(op: &OpRef<'_>) -> Result<(usize, usize), OpError> {
    let (x, indices) = (op.operand(0)?, op.operand(1)?);
    let batch = int_or(op, "batch_dims", 0)?;
    let batch = usize::try_from(batch)
        .ok()
        .filter(|&b| b < x.rank() && b < indices.rank());
    let batch = batch
        .filter(|&b| compatible(&x.dims[..b], &indices.dims[..b]))
        .ok_or_else(|| {
            let message = format!(
                "{} of {} by indices {} has batch_dims that both do not have alike",
                op.name,
                show(&x.dims),
                show(&indices.dims)
            );
            OpError::new("gather-nd-c1", message)
        })?;
    let last = indices.dims.last().and_then(crate::types::Dim::fixed);
    let depth = last
        .and_then(|n| usize::try_from(n).ok())
        .filter(|&n| n <= x.rank() - batch);
    let depth = depth.ok_or_else(|| {
        let message = format!(
            "{} by indices {}, wanted a last dimension of at most {}",
            op.name,
            show(&indices.dims),
            x.rank() - batch
        );
        OpError::new("gather-nd-c3", message)
    })?;
    Ok((batch, depth))
}

/// For each vector of indices the first element of the part it names.
pub(crate) fn nd_places(
    x: &[usize],
    indices: &Tensor,
    batch: usize,
    depth: usize,
) -> Result<Vec<usize>, EvalError> {
    let strides = row_major_strides(x);
    let rows: usize = indices.shape[..indices.shape.len() - 1].iter().product();
    let per_batch = indices.shape[batch..indices.shape.len() - 1]
        .iter()
        .product::<usize>()
        .max(1);
    let sample: usize = x[batch..].iter().product();
    let row_place = |row: usize| {
        let mut at = row / per_batch * sample;
        for d in 0..depth {
            let index = indices.i64_at(row * depth + d);
            at += position(index, x[batch + d])? * strides[batch + d];
        }
        Ok(at)
    };
    (0..rows).map(row_place).collect()
}

fn eval_nd(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, indices) = (call.input(0), call.input(1));
    let (batch, depth) = nd_extents(call.op).map_err(|e| EvalError::new(e.message))?;
    let places = nd_places(&x.shape, indices, batch, depth)?;
    let part: usize = x.shape[batch + depth..].iter().product();
    Ok(vec![
        x.gather(call.shape(), |i| places[i / part] + i % part),
    ])
}

fn freedom_nd(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let (x, indices) = (op.operand(0)?.rank(), op.operand(1)?.rank());
        let (batch, depth) = nd_extents(op)?;
        let labels = f.fresh_for(indices - 1 + x - batch - depth);
        let mut own = marks(&labels[..batch]);
        own.extend((0..depth).map(|_| Some(f.fresh(Role::Axis))));
        own.extend(marks(&labels[indices - 1..]));
        let mut places = marks(&labels[..indices - 1]);
        let coordinate = f.fresh(Role::Axis);
        f.uncut(coordinate);
        places.push(Some(coordinate));
        f.operand(own);
        f.operand(places);
        f.result(marks(&labels));
        Ok(())
    })
}

pub(super) fn register(registry: &mut Registry) {
    for op in [GATHER, GATHER_ELEMENTS, GATHER_ND] {
        registry.add(op);
    }
}
