//! Matrix products.
//!
//! `hbir.matmul` is numpy's: `y[.., i, j] = sum_k a[.., i, k] * b[.., k, j]`, batch dimensions
//! broadcast, an operand of rank 1 is a row on the left and a column on the right whose dimension
//! of 1 the result drops (ONNX `MatMul`). `hbir.linear` is `y[.., n] = sum_k x[.., k] * w[n, k] +
//! bias[n]` (torch `nn.Linear`). An attribute `to` names another element type for the result, as
//! ONNX `MatMulInteger` has; without it the result has the operands'.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role};
use crate::ops::contract::{Extents, products};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{broadcast, common_dtype, dtype_or, one, show, unify, wants_rank};
use crate::tensor::{EvalError, Offsets, Tensor};
use crate::tile::Access;
use crate::types::{DType, Dim, TensorType};

const MATMUL: Decl = Decl::new(
    "hbir.matmul",
    "matmul",
    "numpy's matrix product, batch dimensions broadcast",
    (2, 2),
    infer_matmul,
    eval_matmul,
)
.freedom(freedom_matmul);

const LINEAR: Decl = Decl::new(
    "hbir.linear",
    "matmul",
    "x times the transpose of the weights [N, K], plus a bias [N]",
    (2, 3),
    infer_linear,
    eval_linear,
)
.freedom(freedom_linear)
.access(access_linear);

/// The dimensions of a matrix product's operand: batch, rows, columns.
struct Side<'a> {
    batch: &'a [Dim],
    row: Option<&'a Dim>,
    column: Option<&'a Dim>,
}

fn left(a: &TensorType) -> Option<Side<'_>> {
    match a.dims.as_slice() {
        [] => None,
        [k] => Some(Side {
            batch: &[],
            row: None,
            column: Some(k),
        }),
        [batch @ .., m, k] => Some(Side {
            batch,
            row: Some(m),
            column: Some(k),
        }),
    }
}

fn right(b: &TensorType) -> Option<Side<'_>> {
    match b.dims.as_slice() {
        [] => None,
        [k] => Some(Side {
            batch: &[],
            row: Some(k),
            column: None,
        }),
        [batch @ .., k, n] => Some(Side {
            batch,
            row: Some(k),
            column: Some(n),
        }),
    }
}

/// C1: one element type. C2: neither operand is a scalar. C3: the contracted extents agree.
/// C4: the batch dimensions broadcast.
fn infer_matmul(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let dtype = common_dtype(op, "matmul-c1", 0..2)?;
    let (a, b) = (op.operand(0)?, op.operand(1)?);
    let (Some(l), Some(r)) = (left(a), right(b)) else {
        return Err(OpError::new(
            "matmul-c2",
            "hbir.matmul of a scalar, wanted rank 1 or more",
        ));
    };
    let (Some(k), Some(k2)) = (l.column, r.row) else {
        return Err(OpError::new(
            "matmul-c2",
            "hbir.matmul of a scalar, wanted rank 1 or more",
        ));
    };
    if unify(k, k2).is_none() {
        let message = format!(
            "hbir.matmul of {} and {} contracts {k} with {k2}, wanted equal sizes",
            show(&a.dims),
            show(&b.dims)
        );
        return Err(OpError::new("matmul-c3", message));
    }
    let mut dims = broadcast(op, "matmul-c4", &[l.batch, r.batch])?;
    dims.extend(l.row.cloned());
    dims.extend(r.column.cloned());
    one(dims, dtype_or(op, "to", dtype)?)
}

fn eval_matmul(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (a, b) = (call.input(0), call.input(1));
    let (m, a_batch) = match a.shape.as_slice() {
        [batch @ .., m, _] => (Some(*m), batch),
        _ => (None, &[][..]),
    };
    let (n, b_batch) = match b.shape.as_slice() {
        [batch @ .., _, n] => (Some(*n), batch),
        _ => (None, &[][..]),
    };
    let k = a.shape[a.shape.len() - 1];
    let extents = Extents {
        m: m.unwrap_or(1),
        k,
        n: n.unwrap_or(1),
    };
    let shape = call.shape();
    let batch = &shape[..shape.len() - usize::from(m.is_some()) - usize::from(n.is_some())];
    let starts = |of: &[usize], step: usize| Offsets::broadcast(of, batch).map(move |i| i * step);
    let pairs: Vec<(usize, usize)> = starts(a_batch, extents.m * k)
        .zip(starts(b_batch, k * extents.n))
        .collect();
    Ok(vec![
        products(a, b, &pairs, extents).into_tensor(call.dtype(), shape),
    ])
}

fn freedom_matmul(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Contract, |f| {
        let (a, b, y) = (op.operand(0)?, op.operand(1)?, op.result(0)?);
        let (m, n) = (1 < a.rank(), 1 < b.rank());
        let labels = f.fresh_for(y.rank());
        let batch = y.rank() - usize::from(m) - usize::from(n);
        let k = f.fresh(Role::Parallel);
        let side = |t: &TensorType| batch_labels(&t.dims, &y.dims[..batch], &labels[..batch]);
        let mut a_labels = side(a);
        a_labels.extend(m.then(|| Some(labels[batch])));
        a_labels.push(Some(k));
        let mut b_labels = side(b);
        b_labels.push(Some(k));
        b_labels.extend(n.then(|| Some(labels[y.rank() - 1])));
        f.operand(a_labels);
        f.operand(b_labels);
        f.result(marks(&labels));
        Ok(())
    })
}

/// The labels of an operand's batch dimensions: all but its last two, aligned at the last.
fn batch_labels(dims: &[Dim], batch: &[Dim], labels: &[usize]) -> Vec<Option<usize>> {
    let own = &dims[..dims.len().saturating_sub(2)];
    let lead = batch.len().saturating_sub(own.len());
    let label = |(d, dim): (usize, &Dim)| {
        (!dim.is_one() || batch[lead + d].is_one()).then(|| labels[lead + d])
    };
    own.iter().enumerate().map(label).collect()
}

/// C1: one element type. C2: the input has rank 1 or more. C3: the weights have rank 2. C4: the
/// contracted extents agree. C5: the bias has the weights' N elements.
fn infer_linear(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let dtype = common_dtype(op, "linear-c1", 0..2)?;
    let (x, w) = (op.operand(0)?, op.operand(1)?);
    let Some((k, lead)) = x.dims.split_last() else {
        return Err(OpError::new(
            "linear-c2",
            "hbir.linear of a scalar, wanted rank 1 or more",
        ));
    };
    wants_rank(op, "linear-c3", 1, 2)?;
    let (n, k2) = (&w.dims[0], &w.dims[1]);
    if unify(k, k2).is_none() {
        let message = format!(
            "hbir.linear of {} with weights {} contracts {k} with {k2}, wanted equal sizes",
            show(&x.dims),
            show(&w.dims)
        );
        return Err(OpError::new("linear-c4", message).hint("the weights are [N, K]"));
    }
    let to = dtype_or(op, "to", dtype)?;
    if 2 < op.operands.len() {
        check_bias(op, n, to)?;
    }
    one([lead, std::slice::from_ref(n)].concat(), to)
}

fn check_bias(op: &OpRef<'_>, n: &Dim, dtype: DType) -> Result<(), OpError> {
    let bias = op.operand(2)?;
    let fits = bias.rank() == 1 && unify(&bias.dims[0], n).is_some() && bias.dtype == dtype;
    if fits {
        return Ok(());
    }
    let message = format!(
        "hbir.linear has a bias of {} {}, wanted [{n}] {dtype}",
        show(&bias.dims),
        bias.dtype
    );
    Err(OpError::new("linear-c5", message))
}

fn eval_linear(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let (x, w) = (call.input(0), call.input(1).transposed(&[1, 0]));
    let (k, n) = (w.shape[0], w.shape[1]);
    let shape = call.shape();
    let m = x.shape[..x.shape.len() - 1].iter().product();
    let mut sums = products(x, &w, &[(0, 0)], Extents { m, k, n });
    if let Some(bias) = call.inputs.get(2) {
        sums.add_rows(bias);
    }
    Ok(vec![sums.into_tensor(call.dtype(), shape)])
}

fn freedom_linear(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Contract, |f| {
        let labels = f.fresh_for(op.result(0)?.rank());
        let k = f.fresh(Role::Parallel);
        let (&n, lead) = labels
            .split_last()
            .ok_or_else(|| OpError::new("linear-c2", "hbir.linear of a scalar"))?;
        let mut x = marks(lead);
        x.push(Some(k));
        f.operand(x);
        f.operand(vec![Some(n), Some(k)]);
        if 2 < op.operands.len() {
            f.operand(vec![Some(n)]);
        }
        f.result(marks(&labels));
        Ok(())
    })
}

/// The bias counts once.
fn access_linear(op: &OpRef<'_>) -> Result<Access, OpError> {
    let mut access = Access::of_freedom(op, &freedom_linear(op));
    access.first_only = (2..op.operands.len()).collect();
    Ok(access)
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(MATMUL);
    registry.add(LINEAR);
}
