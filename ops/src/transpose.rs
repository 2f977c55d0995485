//! `hbir.transpose`: `perm[i]` is the input axis of output axis `i` (ONNX and StableHLO).

use crate::prelude::*;
use crate::rearrange::permutation;
use crate::shape::moves;

attributes! {
    /// The axes in another order.
    pub struct Transpose {
        /// The input axis of each output axis.
        perm: Vec<i64>,
    }
}

impl Transpose {
    /// The transpose whose output axis `i` is the input axis `perm[i]`.
    #[must_use]
    pub fn of_perm(perm: &[usize]) -> Transpose {
        Transpose {
            perm: perm.iter().map(|&p| p as i64).collect(),
        }
    }

    /// The input axis of each output axis.
    ///
    /// # Errors
    /// C1: one entry for each dimension. C2: a permutation.
    pub fn permutation(&self, op: &OpRef<'_>) -> Result<Vec<usize>, OpError> {
        let rank = op.operand(0)?.rank();
        permutation(op, [TRANSPOSE_C1, TRANSPOSE_C2], &self.perm, rank)
    }
}

impl Operation for Transpose {
    const NAME: &'static str = "hbir.transpose";
    const SUMMARY: &'static str = "the axes in another order";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: one entry for each dimension. C2: a permutation.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let perm = self.permutation(op)?;
        one(perm.iter().map(|&p| x.dims[p].clone()).collect(), x.dtype)
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        match op.operand(0).and_then(|x| Ok((x, self.permutation(op)?))) {
            Ok((x, perm)) if !moves(&x.dims, &perm) => Traffic::None,
            _ => Traffic::Movement,
        }
    }

    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Ok(ViewDims {
            shape: op.operand(0)?.dims.clone(),
            perm: self.permutation(op)?,
        })
    }
}

codes! {
    const CODES;

    TRANSPOSE_C1 = program(
        "`perm` has another number of entries than the operand has dimensions",
        r#"%0 = "hbir.transpose"(%x) <{perm = [1, 0, 2]}> : (tensor<2x3xf32>) -> tensor<3x2x1xf32>"#,
        "`perm[i]` is the input axis of output axis i: one entry a dimension",
    );
    TRANSPOSE_C2 = program(
        "`perm` is no permutation: it names an axis twice, or one that does not exist",
        r#"%0 = "hbir.transpose"(%x) <{perm = [1, 1]}> : (tensor<2x3xf32>) -> tensor<3x3xf32>"#,
        "name each axis from 0 to the rank less 1 once",
    );
}
