//! `func.call`: MLIR's own call; its meaning is that of [`hbir.call`](crate::CallOp).

use crate::call::{self, Symbol};
use crate::opaque::declared_results;
use crate::prelude::*;

attributes! {
    /// The results of another function, as MLIR writes it.
    pub struct MlirCall {
        /// The name of the function.
        callee: Symbol [call::CALL_C1],
    }
}

impl Operation for MlirCall {
    const NAME: &'static str = "func.call";
    const SUMMARY: &'static str = "the results of another function, as MLIR writes it";
    const FAMILY: &'static str = "barrier";
    const OPERANDS: (usize, usize) = (0, usize::MAX);
    const MOVES_ONLY: bool = true;
    const STRUCTURE: Structure = Structure::Call;
    const OPEN: bool = true;
    const CODES: &'static [Code] = call::CODES;

    /// C1: `callee` names a function.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        declared_results(op)
    }

    fn eval(&self, _: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        Err(call::by_the_interpreter())
    }

    /// Any effect: the effect of a call is that of its function, which is known only with the module.
    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Write
    }
}
