//! `hbir.dot_general`: the contraction of StableHLO's `dot_general`.
//!
//! `lhs_batch[i]` runs with `rhs_batch[i]`, `lhs_contract[i]` with `rhs_contract[i]`; the result's
//! dimensions are the batch ones, then the other ones of the left operand, then of the right. An
//! attribute `to` names another element type for the result.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role};
use crate::ops::contract::{Extents, products};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{axes, common_dtype, dtype_or, one, unify};
use crate::tensor::{EvalError, Tensor};
use crate::types::DType;

const DOT_GENERAL: Decl = Decl::new(
    "hbir.dot_general",
    "matmul",
    "a contraction over lists of batch and contracted dimensions",
    (2, 2),
    infer,
    eval,
)
.freedom(freedom);

/// Which dimensions of the two operands run together.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pairing {
    pub(crate) lhs_batch: Vec<usize>,
    pub(crate) rhs_batch: Vec<usize>,
    pub(crate) lhs_contract: Vec<usize>,
    pub(crate) rhs_contract: Vec<usize>,
}

impl Pairing {
    fn lhs_free(&self, rank: usize) -> Vec<usize> {
        free(rank, &self.lhs_batch, &self.lhs_contract)
    }
    fn rhs_free(&self, rank: usize) -> Vec<usize> {
        free(rank, &self.rhs_batch, &self.rhs_contract)
    }
}

fn free(rank: usize, batch: &[usize], contract: &[usize]) -> Vec<usize> {
    (0..rank)
        .filter(|d| !batch.contains(d) && !contract.contains(d))
        .collect()
}

/// C2: the lists name dimensions, each at most once, and have equal lengths.
fn pairing(op: &OpRef<'_>) -> Result<Pairing, OpError> {
    let code = "dot-general-c2";
    let (a, b) = (op.operand(0)?.rank(), op.operand(1)?.rank());
    let list = |name: &str, rank| {
        if op.props.get(name).is_none() {
            Ok(Vec::new())
        } else {
            axes(op, code, name, rank)
        }
    };
    let p = Pairing {
        lhs_batch: list("lhs_batch", a)?,
        rhs_batch: list("rhs_batch", b)?,
        lhs_contract: list("lhs_contract", a)?,
        rhs_contract: list("rhs_contract", b)?,
    };
    let overlap = |batch: &[usize], contract: &[usize]| batch.iter().any(|d| contract.contains(d));
    if p.lhs_batch.len() != p.rhs_batch.len() || p.lhs_contract.len() != p.rhs_contract.len() {
        let message = "hbir.dot_general has lists of different lengths for its two operands";
        return Err(OpError::new(code, message));
    }
    if overlap(&p.lhs_batch, &p.lhs_contract) || overlap(&p.rhs_batch, &p.rhs_contract) {
        let message = "hbir.dot_general both batches and contracts one dimension";
        return Err(OpError::new(code, message));
    }
    Ok(p)
}

/// C1: one element type. C2: see [`pairing`]. C3: paired extents agree.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let dtype = common_dtype(op, "dot-general-c1", 0..2)?;
    let p = pairing(op)?;
    let (a, b) = (op.operand(0)?, op.operand(1)?);
    let mut batch = Vec::new();
    let lhs = p.lhs_batch.iter().chain(&p.lhs_contract);
    let rhs = p.rhs_batch.iter().chain(&p.rhs_contract);
    for (&i, &j) in lhs.zip(rhs) {
        let dim = unify(&a.dims[i], &b.dims[j]).ok_or_else(|| {
            let message = format!(
                "hbir.dot_general pairs dimension {i} of size {} with dimension {j} of size {}, \
                 wanted equal sizes",
                a.dims[i], b.dims[j]
            );
            OpError::new("dot-general-c3", message)
        })?;
        batch.push(dim);
    }
    batch.truncate(p.lhs_batch.len());
    batch.extend(p.lhs_free(a.rank()).into_iter().map(|d| a.dims[d].clone()));
    batch.extend(p.rhs_free(b.rank()).into_iter().map(|d| b.dims[d].clone()));
    one(batch, dtype_or(op, "to", dtype)?)
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let p = pairing(call.op).map_err(|e| EvalError::new(e.message))?;
    Ok(vec![contract(
        call.input(0),
        call.input(1),
        &p,
        call.dtype(),
        call.shape(),
    )])
}

/// The contraction as a batch of matrix products on transposed copies.
pub(crate) fn contract(
    a: &Tensor,
    b: &Tensor,
    p: &Pairing,
    dtype: DType,
    shape: Vec<usize>,
) -> Tensor {
    let (lhs_free, rhs_free) = (p.lhs_free(a.shape.len()), p.rhs_free(b.shape.len()));
    let volume = |t: &Tensor, dims: &[usize]| dims.iter().map(|&d| t.shape[d]).product::<usize>();
    let (m, k) = (volume(a, &lhs_free), volume(a, &p.lhs_contract));
    let n = volume(b, &rhs_free);
    let a_copy = a.transposed(&[&p.lhs_batch[..], &lhs_free, &p.lhs_contract].concat());
    let b_copy = b.transposed(&[&p.rhs_batch[..], &p.rhs_contract, &rhs_free].concat());
    let batch = volume(a, &p.lhs_batch);
    let pairs: Vec<(usize, usize)> = (0..batch).map(|i| (i * m * k, i * k * n)).collect();
    products(&a_copy, &b_copy, &pairs, Extents { m, k, n }).into_tensor(dtype, shape)
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Contract, |f| {
        let p = pairing(op)?;
        let (a, b) = (op.operand(0)?.rank(), op.operand(1)?.rank());
        let labels = f.fresh_for(op.result(0)?.rank());
        let mut next = labels.iter().copied();
        let (mut lhs, mut rhs) = (vec![None; a], vec![None; b]);
        for (&i, &j) in p.lhs_batch.iter().zip(&p.rhs_batch) {
            lhs[i] = next.next();
            rhs[j] = lhs[i];
        }
        p.lhs_free(a).into_iter().for_each(|d| lhs[d] = next.next());
        p.rhs_free(b).into_iter().for_each(|d| rhs[d] = next.next());
        for (&i, &j) in p.lhs_contract.iter().zip(&p.rhs_contract) {
            lhs[i] = Some(f.fresh(Role::Parallel));
            rhs[j] = lhs[i];
        }
        f.operand(lhs);
        f.operand(rhs);
        f.result(marks(&labels));
        Ok(())
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(DOT_GENERAL);
}
