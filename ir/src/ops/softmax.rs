//! `hbir.softmax`: `y = exp(x - m) / sum exp(x - m)` along `axis`, with m the greatest element;
//! `hbir.log_softmax`: its logarithm (ONNX `Softmax`, `LogSoftmax` of opset 13). The axis is the last one
//! when it is not given.

use crate::op::{Freedom, Inferred, OpError, OpRef, Registry};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::broadcasting_along;
use crate::ops::reduce::Lanes;
use crate::ops::shape::{axis_or, one, wants_float};
use crate::tensor::{EvalError, Tensor};
use crate::tile::{Access, Index, LoopKind};

const SOFTMAX: Decl = Decl::new(
    "hbir.softmax",
    "softmax",
    "exponentials that sum to 1 along an axis",
    (1, 1),
    infer,
    eval,
)
.freedom(freedom)
.access(access);

const LOG_SOFTMAX: Decl = Decl::new(
    "hbir.log_softmax",
    "softmax",
    "the logarithm of softmax along an axis",
    (1, 1),
    infer,
    eval,
)
.freedom(freedom);

/// C1: of floats. C2: an axis of the operand.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let dtype = wants_float(op, "softmax-c1", 0)?;
    axis_or(op, "softmax-c2", x.rank(), -1)?;
    one(x.dims.clone(), dtype)
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let axis =
        axis_or(call.op, "softmax-c2", x.shape.len(), -1).map_err(|e| EvalError::new(e.message))?;
    let log = call.op.name == "hbir.log_softmax";
    let mut values = x.to_f64();
    let lanes = Lanes::new(&x.shape, axis);
    for (start, step) in lanes.iter() {
        let places = (0..lanes.n).map(|i| start + i * step);
        let top = places
            .clone()
            .map(|p| values[p])
            .fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = places.clone().map(|p| (values[p] - top).exp()).sum();
        for p in places {
            let shifted = values[p] - top;
            values[p] = if log {
                shifted - sum.ln()
            } else {
                shifted.exp() / sum
            };
        }
    }
    Ok(call.floats(values))
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    match op
        .operand(0)
        .and_then(|x| axis_or(op, "softmax-c2", x.rank(), -1))
    {
        Ok(axis) => broadcasting_along(op, &[axis]),
        Err(_) => Freedom::barrier(op),
    }
}

/// A loop a dimension; the one along the axis runs on with the sum of what was read so far.
fn access(op: &OpRef<'_>) -> Result<Access, OpError> {
    let x = op.operand(0)?;
    let axis = axis_or(op, "softmax-c2", x.rank(), -1)?;
    let mut access = Access::whole(op);
    for (d, dim) in x.dims.iter().enumerate() {
        let kind = if d == axis {
            LoopKind::Running
        } else {
            LoopKind::Parallel
        };
        let id = access.add(dim.fixed().unwrap_or(0), kind);
        access.operands[0][d] = Index::of(id);
        access.results[0][d] = Index::of(id);
    }
    Ok(access)
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(SOFTMAX);
    registry.add(LOG_SOFTMAX);
}
