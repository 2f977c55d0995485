//! `hbir.dot_general`: the contraction of StableHLO's `dot_general`.
//!
//! `lhs_batch[i]` and `rhs_batch[i]` are one batch dimension, `lhs_contract[i]` and `rhs_contract[i]` one contracted
//! dimension. The dimensions of the result are the batch dimensions, then the free ones of the left operand, then those
//! of the right operand. An attribute `to` names another element type for the result.

use crate::contract::{Pairing, contract};
use crate::lists::distinct_axes;
use crate::prelude::*;

attributes! {
    /// A contraction over lists of batch and contracted dimensions.
    pub struct DotGeneral {
        /// The batch dimensions of the left operand.
        lhs_batch: Vec<i64> = Vec::new(),
        /// The batch dimensions of the right operand, in the order of `lhs_batch`.
        rhs_batch: Vec<i64> = Vec::new(),
        /// The contracted dimensions of the left operand.
        lhs_contract: Vec<i64> = Vec::new(),
        /// The contracted dimensions of the right operand, in the order of `lhs_contract`.
        rhs_contract: Vec<i64> = Vec::new(),
        /// The element type of the result; that of the operands when absent.
        to: Option<DType>,
    }
}

impl DotGeneral {
    /// The pairs of batch dimensions and of contracted dimensions.
    ///
    /// # Errors
    /// C2: the lists name dimensions, each at most once, and have equal lengths.
    pub fn pairing(&self, op: &OpRef<'_>) -> Result<Pairing, OpError> {
        let code = DOT_GENERAL_C2;
        let (a, b) = (op.operand(0)?.rank(), op.operand(1)?.rank());
        let list = |name: &str, list: &[i64], rank| distinct_axes(op, code, name, list, rank);
        let p = Pairing {
            lhs_batch: list("lhs_batch", &self.lhs_batch, a)?,
            rhs_batch: list("rhs_batch", &self.rhs_batch, b)?,
            lhs_contract: list("lhs_contract", &self.lhs_contract, a)?,
            rhs_contract: list("rhs_contract", &self.rhs_contract, b)?,
        };
        let overlap =
            |batch: &[usize], contract: &[usize]| batch.iter().any(|d| contract.contains(d));
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
}

impl Operation for DotGeneral {
    const NAME: &'static str = "hbir.dot_general";
    const SUMMARY: &'static str = "a contraction over lists of batch and contracted dimensions";
    const FAMILY: &'static str = "matmul";
    const OPERANDS: (usize, usize) = (2, 2);
    const CODES: &'static [Code] = CODES;

    /// C1: one element type. C2: see [`DotGeneral::pairing`]. C3: paired extents agree.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let dtype = common_dtype(op, DOT_GENERAL_C1, 0..2)?;
        let p = self.pairing(op)?;
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
                OpError::new(DOT_GENERAL_C3, message)
            })?;
            batch.push(dim);
        }
        batch.truncate(p.lhs_batch.len());
        batch.extend(p.lhs_free(a.rank()).into_iter().map(|d| a.dims[d].clone()));
        batch.extend(p.rhs_free(b.rank()).into_iter().map(|d| b.dims[d].clone()));
        one(batch, self.to.unwrap_or(dtype))
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let p = self.pairing(call.op)?;
        Ok(vec![contract(
            call.input(0),
            call.input(1),
            &p,
            call.dtype(),
            call.shape(),
        )])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let mut domain = IterationDomain::new(op, FreedomClass::Contract);
        let p = self.pairing(op)?;
        let (a, b) = (op.operand(0)?, op.operand(1)?);
        let ids = domain.over(&op.result(0)?.dims);
        let mut next = ids.iter().map(|&id| IndexExpr::of(id));
        let mut set = |domain: &mut IterationDomain, sides: &[(usize, usize)]| {
            if let Some(index) = next.next() {
                for &(side, d) in sides {
                    domain.operands[side][d] = index.clone();
                }
            }
        };
        for (&i, &j) in p.lhs_batch.iter().zip(&p.rhs_batch) {
            set(&mut domain, &[(0, i), (1, j)]);
        }
        for d in p.lhs_free(a.rank()) {
            set(&mut domain, &[(0, d)]);
        }
        for d in p.rhs_free(b.rank()) {
            set(&mut domain, &[(1, d)]);
        }
        for (&i, &j) in p.lhs_contract.iter().zip(&p.rhs_contract) {
            let id = domain.add_for(&a.dims[i], LoopKind::Reduce(Combine::Add));
            domain.operands[0][i] = IndexExpr::of(id);
            domain.operands[1][j] = IndexExpr::of(id);
        }
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }
}

codes! {
    const CODES;

    DOT_GENERAL_C1 = program(
        "the operands of `hbir.dot_general` have different element types",
        r#"%0 = "hbir.dot_general"(%x, %y) : (tensor<2x3xf32>, tensor<3x2xsi8>) -> tensor<2x3x3x2xf32>"#,
        "convert one of them with `hbir.cast`",
    );
    DOT_GENERAL_C2 = program(
        "the lists of dimensions of `hbir.dot_general` name one that does not exist or is named before, or differ in length",
        r#"%0 = "hbir.dot_general"(%x, %y) <{lhs_contract = [2], rhs_contract = [0]}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<2x2xf32>"#,
        "`lhs_batch` pairs with `rhs_batch` and `lhs_contract` with `rhs_contract`, entry by entry; each dimension stands in one list at most",
    );
    DOT_GENERAL_C3 = program(
        "two dimensions that `hbir.dot_general` pairs have different sizes",
        r#"%0 = "hbir.dot_general"(%x, %y) <{lhs_contract = [0], rhs_contract = [0]}> : (tensor<2x3xf32>, tensor<3x2xf32>) -> tensor<3x2xf32>"#,
        "pair dimensions of one size; transpose an operand if its dimensions stand in another order",
    );
}
