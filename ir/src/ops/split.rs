//! `hbir.split`: consecutive parts along `axis`, result i with `sizes[i]` elements (ONNX `Split`).

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{axis, operand_bytes, result_bytes, show};
use crate::tensor::{EvalError, Offsets, Tensor};
use crate::tile::{Access, Index, LoopKind};
use crate::types::Dim;

const SPLIT: Decl = Decl::new(
    "hbir.split",
    "slice",
    "consecutive parts along an axis",
    (1, 1),
    infer,
    eval,
)
.freedom(freedom)
.access(access)
.traffic(traffic);

/// C1: an axis of the operand. C2: sizes are not negative. C3: they add up to the axis.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let axis = axis(op, "split-c1", x.rank())?;
    let sizes = sizes(op)?;
    let sum = sizes.iter().try_fold(0u64, |a, &n| a.checked_add(n));
    if x.dims[axis].fixed().is_some_and(|n| sum != Some(n)) {
        let message = format!(
            "hbir.split of {} along axis {axis} into {sizes:?}, wanted sizes that add up to {}",
            show(&x.dims),
            x.dims[axis]
        );
        return Err(OpError::new("split-c3", message));
    }
    let result = |&n: &u64| {
        let mut dims = x.dims.clone();
        dims[axis] = Dim::Fixed(n);
        Inferred {
            dims,
            dtype: x.dtype,
        }
    };
    Ok(sizes.iter().map(result).collect())
}

fn sizes(op: &OpRef<'_>) -> Result<Vec<u64>, OpError> {
    let found = op.ints("sizes")?;
    let sizes: Option<Vec<u64>> = found.iter().map(|&n| u64::try_from(n).ok()).collect();
    sizes.ok_or_else(|| {
        OpError::new(
            "split-c2",
            format!("hbir.split has sizes = {found:?}, wanted 0 or more each"),
        )
    })
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let axis = axis(call.op, "split-c1", x.shape.len()).map_err(|e| EvalError::new(e.message))?;
    let strides = x.strides();
    let mut at = 0;
    let mut out = Vec::with_capacity(call.results.len());
    for target in &call.results {
        let steps = strides.iter().map(|s| s.cast_signed()).collect();
        let start = (at * strides[axis]).cast_signed();
        let mut offsets = Offsets::new(&target.shape, steps, start);
        out.push(x.gather(target.shape.clone(), |_| {
            offsets.next().expect("one an element")
        }));
        at += target.shape[axis];
    }
    Ok(out)
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let x = op.operand(0)?;
        let labels = f.fresh_for(x.rank());
        f.role(labels[axis(op, "split-c1", x.rank())?], Role::Axis);
        f.operand(marks(&labels));
        op.results.iter().for_each(|_| f.result(marks(&labels)));
        Ok(())
    })
}

/// One loop runs along the axis; each result is its part of it.
fn access(op: &OpRef<'_>) -> Result<Access, OpError> {
    let x = op.operand(0)?;
    let axis = axis(op, "split-c1", x.rank())?;
    let mut access = Access::whole(op);
    for (d, dim) in x.dims.iter().enumerate() {
        let id = access.add(dim.fixed().unwrap_or(0), LoopKind::Parallel);
        access.operands[0][d] = Index::of(id);
        access
            .results
            .iter_mut()
            .for_each(|dims| dims[d] = Index::of(id));
    }
    let mut before = 0i64;
    for (result, size) in access.results.iter_mut().zip(sizes(op)?) {
        result[axis] = Index::shifted(axis, 1, -before);
        before = before.saturating_add_unsigned(size);
    }
    Ok(access)
}

fn traffic(op: &OpRef<'_>) -> Traffic {
    if op.results.len() == 1 {
        return Traffic::None;
    }
    Traffic::Copy(operand_bytes(op, 0), result_bytes(op))
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(SPLIT);
}
