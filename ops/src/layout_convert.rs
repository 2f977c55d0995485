//! `hbir.layout_convert`: the same value in the layout of the result type. Its declaration is a barrier; the passes
//! treat it specially, as the only operation that changes a layout.

use crate::prelude::*;

attributes! {
    /// The same value in another layout.
    pub struct LayoutConvert {}
}

impl Operation for LayoutConvert {
    const NAME: &'static str = "hbir.layout_convert";
    const SUMMARY: &'static str = "the same value in another layout";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const STRUCTURE: Structure = Structure::Convert;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        one(x.dims.clone(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        Ok(vec![call.input(0).clone()])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let mut domain = IterationDomain::whole(op);
        let ids = domain.over(&op.result(0)?.dims);
        domain.operands[0] = IndexExpr::each(&ids);
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }

    fn traffic(&self, _: &OpRef<'_>) -> Traffic {
        Traffic::Movement
    }
}
