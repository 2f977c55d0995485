//! `hbir.top_k`: the `k` greatest (or, with `largest = false`, least) elements along `axis` and where they lie
//! (ONNX `TopK`). Results: the values, the si64 indices; greatest first, of equal ones the lower index
//! first, with `sorted = false` too. NaN counts as the greatest.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::reduce::{Lanes, element_order};
use crate::ops::shape::{axis_or, flag_or};
use crate::tensor::{EvalError, Tensor};
use crate::types::{DType, Dim};

const TOP_K: Decl = Decl::new(
    "hbir.top_k",
    "reduce",
    "the k greatest or least elements along an axis and their indices",
    (1, 1),
    infer,
    eval,
)
.freedom(freedom);

/// C1: an axis of the operand. C2: `k` lies between 0 and its extent.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let axis = axis_or(op, "top-k-c1", x.rank(), -1)?;
    flag_or(op, "largest", true)?;
    flag_or(op, "sorted", true)?;
    let k = op.int("k")?;
    let size = u64::try_from(k).ok();
    let size = size
        .filter(|&k| x.dims[axis].fixed().is_none_or(|n| k <= n))
        .ok_or_else(|| {
            let message = format!("hbir.top_k has k = {k}, wanted 0 to {}", x.dims[axis]);
            OpError::new("top-k-c2", message)
        })?;
    let mut dims = x.dims.clone();
    dims[axis] = Dim::Fixed(size);
    let values = Inferred {
        dims: dims.clone(),
        dtype: x.dtype,
    };
    Ok(vec![
        values,
        Inferred {
            dims,
            dtype: DType::SI64,
        },
    ])
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let message = |e: OpError| EvalError::new(e.message);
    let axis = axis_or(call.op, "top-k-c1", x.shape.len(), -1).map_err(message)?;
    let largest = flag_or(call.op, "largest", true).map_err(message)?;
    let shape = call.shape();
    let mut places = vec![0; shape.iter().product()];
    let mut indices = vec![0i64; places.len()];
    let (from, to) = (Lanes::new(&x.shape, axis), Lanes::new(&shape, axis));
    for ((start, step), (out, out_step)) in from.iter().zip(to.iter()) {
        let mut order: Vec<usize> = (0..from.n).collect();
        order.sort_by(|&i, &j| {
            let order = element_order(x, start + i * step, start + j * step);
            if largest { order.reverse() } else { order }
        });
        for (rank, &i) in order.iter().take(to.n).enumerate() {
            places[out + rank * out_step] = start + i * step;
            indices[out + rank * out_step] = i as i64;
        }
    }
    let values = x.gather(shape.clone(), |i| places[i]);
    Ok(vec![values, Tensor::from_i64(DType::SI64, shape, indices)])
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let rank = op.operand(0)?.rank();
        let axis = axis_or(op, "top-k-c1", rank, -1)?;
        let labels = f.fresh_for(rank);
        f.role(labels[axis], Role::Axis);
        let mut own = marks(&labels);
        own[axis] = Some(f.fresh(Role::Axis));
        f.operand(own);
        op.results.iter().for_each(|_| f.result(marks(&labels)));
        Ok(())
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(TOP_K);
}
