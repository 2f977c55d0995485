//! `hbir.concat`: the operands one after another along `axis` (ONNX `Concat`, StableHLO `concatenate`).

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{axis, common_dtype, computed, one, result_bytes, show, unify};
use crate::tensor::{Data, EvalError, Tensor};
use crate::tile::{Access, Index, LoopKind};
use crate::types::Dim;

const CONCAT: Decl = Decl::new(
    "hbir.concat",
    "concat",
    "the operands one after another along an axis",
    (1, usize::MAX),
    infer,
    eval,
)
.freedom(freedom)
.access(access)
.traffic(traffic);

/// C1: one element type. C2: an axis of the operands. C3: equal ranks and, beside the axis, equal
/// extents.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let dtype = common_dtype(op, "concat-c1", 0..op.operands.len())?;
    let first = op.operand(0)?;
    let axis = axis(op, "concat-c2", first.rank())?;
    let mut dims = first.dims.clone();
    for i in 1..op.operands.len() {
        let next = op.operand(i)?;
        let joined = join(&dims, &next.dims, axis).ok_or_else(|| {
            let message = format!(
                "hbir.concat of {} and {} along axis {axis}, wanted equal sizes beside the axis",
                show(&first.dims),
                show(&next.dims)
            );
            OpError::new("concat-c3", message)
        })?;
        dims = joined;
    }
    one(dims, dtype)
}

fn join(a: &[Dim], b: &[Dim], axis: usize) -> Option<Vec<Dim>> {
    if a.len() != b.len() {
        return None;
    }
    let sum = |a: &Dim, b: &Dim| match (a.fixed(), b.fixed()) {
        (Some(m), Some(n)) => m.checked_add(n).map(Dim::Fixed),
        _ => Some(computed(a, |m| m.plus(&b.size()?))),
    };
    let pairs = a.iter().zip(b).enumerate();
    pairs
        .map(|(d, (a, b))| if d == axis { sum(a, b) } else { unify(a, b) })
        .collect()
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let axis = axis(call.op, "concat-c2", call.input(0).shape.len())
        .map_err(|e| EvalError::new(e.message))?;
    let shape = call.shape();
    let outer: usize = shape[..axis].iter().product();
    let runs = || {
        (0..outer).flat_map(move |o| {
            call.inputs.iter().map(move |t| {
                let run: usize = t.shape[axis..].iter().product();
                (t, o * run..(o + 1) * run)
            })
        })
    };
    let mut data = match call.input(0).data {
        Data::F32(_) => Data::F32(Vec::new()),
        Data::F64(_) => Data::F64(Vec::new()),
        Data::I64(_) => Data::I64(Vec::new()),
    };
    for (tensor, run) in runs() {
        match (&mut data, &tensor.data) {
            (Data::F32(out), Data::F32(v)) => out.extend_from_slice(&v[run]),
            (Data::F64(out), Data::F64(v)) => out.extend_from_slice(&v[run]),
            (Data::I64(out), Data::I64(v)) => out.extend_from_slice(&v[run]),
            _ => return Err(EvalError::new("the operands hold different kinds of data")),
        }
    }
    Ok(vec![Tensor {
        dtype: call.dtype(),
        shape,
        data,
    }])
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let result = op.result(0)?;
        let labels = f.fresh_for(result.rank());
        f.role(labels[axis(op, "concat-c2", result.rank())?], Role::Axis);
        (0..op.operands.len()).for_each(|_| f.operand(marks(&labels)));
        f.result(marks(&labels));
        Ok(())
    })
}

/// Operand i lies in the result from the sum of the extents before it on.
fn access(op: &OpRef<'_>) -> Result<Access, OpError> {
    let result = op.result(0)?;
    let axis = axis(op, "concat-c2", result.rank())?;
    let mut access = Access::whole(op);
    for (d, dim) in result.dims.iter().enumerate() {
        let id = access.add(dim.fixed().unwrap_or(0), LoopKind::Parallel);
        access.results[0][d] = Index::of(id);
        access
            .operands
            .iter_mut()
            .for_each(|dims| dims[d] = Index::of(id));
    }
    let mut before = 0i64;
    for i in 0..op.operands.len() {
        access.operands[i][axis] = Index::shifted(axis, 1, -before);
        let extent = op.operand(i)?.dims[axis].fixed().unwrap_or(0);
        before = before.saturating_add_unsigned(extent);
    }
    Ok(access)
}

fn traffic(op: &OpRef<'_>) -> Traffic {
    if op.operands.len() == 1 {
        return Traffic::None;
    }
    let w = result_bytes(op);
    Traffic::Copy(w.clone(), w)
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(CONCAT);
}
