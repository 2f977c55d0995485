//! `hbir.matmul`: numpy's matrix product (ONNX `MatMul`).
//!
//! `y[.., i, j] = sum_k a[.., i, k] * b[.., k, j]`; batch dimensions broadcast. A left operand of rank 1 is a row, a
//! right operand of rank 1 is a column; the result drops that dimension of 1. An attribute `to` names another element
//! type for the result, for ONNX `MatMulInteger`; without it the result has that of the operands.

use crate::contract::{Extents, permuted, products};
use crate::prelude::*;
use crate::shape::broadcast;

attributes! {
    /// numpy's matrix product, batch dimensions broadcast.
    pub struct Matmul {
        /// The element type of the result; that of the operands when absent.
        to: Option<DType>,
    }
}

impl Operation for Matmul {
    const NAME: &'static str = "hbir.matmul";
    const SUMMARY: &'static str = "numpy's matrix product, batch dimensions broadcast";
    const FAMILY: &'static str = "matmul";
    const OPERANDS: (usize, usize) = (2, 2);
    const CODES: &'static [Code] = CODES;

    /// C1: one element type. C2: neither operand is a scalar. C3: the contracted extents agree.
    /// C4: the batch dimensions broadcast.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let dtype = common_dtype(op, MATMUL_C1, 0..2)?;
        let (a, b) = (op.operand(0)?, op.operand(1)?);
        let (Some(l), Some(r)) = (left(a), right(b)) else {
            return Err(OpError::new(
                MATMUL_C2,
                "hbir.matmul of a scalar, wanted rank 1 or more",
            ));
        };
        let (Some(k), Some(k2)) = (l.column, r.row) else {
            return Err(OpError::new(
                MATMUL_C2,
                "hbir.matmul of a scalar, wanted rank 1 or more",
            ));
        };
        if unify(k, k2).is_none() {
            let message = format!(
                "hbir.matmul of {} and {} contracts {k} with {k2}, wanted equal sizes",
                show(&a.dims),
                show(&b.dims)
            );
            return Err(OpError::new(MATMUL_C3, message));
        }
        let mut dims = broadcast(op, MATMUL_C4, &[l.batch, r.batch])?;
        dims.extend(l.row.cloned());
        dims.extend(r.column.cloned());
        one(dims, self.to.unwrap_or(dtype))
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
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
        let starts =
            |of: &[usize], step: usize| Offsets::broadcast(of, batch).map(move |i| i * step);
        let pairs: Vec<(usize, usize)> = starts(a_batch, extents.m * k)
            .zip(starts(b_batch, k * extents.n))
            .collect();
        Ok(vec![
            products(a, b, &pairs, extents).into_tensor(call.dtype(), shape),
        ])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let mut domain = IterationDomain::new(op, FreedomClass::Contract);
        let (a, b, y) = (op.operand(0)?, op.operand(1)?, op.result(0)?);
        let (m, n) = (1 < a.rank(), 1 < b.rank());
        let ids = domain.over(&y.dims);
        let batch = y.rank() - usize::from(m) - usize::from(n);
        let summed = a.dims.last().unwrap_or(&Dim::Unknown);
        let k = domain.add_for(summed, LoopKind::Reduce(Combine::Add));
        let side = |t: &TensorType| batch_indices(&t.dims, &y.dims[..batch], &ids[..batch]);
        let mut left = side(a);
        left.extend(m.then(|| IndexExpr::of(ids[batch])));
        left.push(IndexExpr::of(k));
        let mut right = side(b);
        right.push(IndexExpr::of(k));
        right.extend(n.then(|| IndexExpr::of(ids[y.rank() - 1])));
        domain.operands = vec![left, right];
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }

    fn permutes(&self, op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
        permuted(op, known)
    }
}

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

/// The indexing map of an operand's batch dimensions (all but its last two), which are aligned at the last one.
fn batch_indices(dims: &[Dim], batch: &[Dim], ids: &[usize]) -> Vec<IndexExpr> {
    let own = &dims[..dims.len().saturating_sub(2)];
    let lead = batch.len().saturating_sub(own.len());
    let index = |(d, dim): (usize, &Dim)| match dim.is_one() && !batch[lead + d].is_one() {
        true => IndexExpr::zero(),
        false => IndexExpr::of(ids[lead + d]),
    };
    own.iter().enumerate().map(index).collect()
}

codes! {
    const CODES;

    MATMUL_C1 = program(
        "the operands of `hbir.matmul` have different element types",
        r#"%0 = "hbir.matmul"(%x, %y) : (tensor<2x3xf32>, tensor<3x2xf16>) -> tensor<2x2xf32>"#,
        "convert one of them with `hbir.cast`",
    );
    MATMUL_C2 = program(
        "an operand of `hbir.matmul` is a scalar, wanted rank 1 or more",
        r#"%0 = "hbir.matmul"(%x, %y) : (tensor<f32>, tensor<3x2xf32>) -> tensor<3x2xf32>"#,
        "use `hbir.mul` to scale",
    );
    MATMUL_C3 = program(
        "the sizes that `hbir.matmul` contracts differ: the last of the left operand, the last but one of the right",
        r#"%0 = "hbir.matmul"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x2xf32>"#,
        "transpose one operand, or use `hbir.linear` for weights [N, K]",
    );
    MATMUL_C4 = program(
        "the batch dimensions of the operands of `hbir.matmul` do not broadcast",
        r#"%0 = "hbir.matmul"(%x, %y) : (tensor<4x2x3xf32>, tensor<5x3x2xf32>) -> tensor<4x2x2xf32>"#,
        "all dimensions before the last two must have equal sizes or 1",
    );
}
