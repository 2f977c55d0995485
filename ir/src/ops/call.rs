//! `hbir.call`: the results of the function `callee` on the operands (MLIR `func.call`). Shape and element
//! types are the result types; the verifier compares them with the function. Interpreters run the function
//! themselves.

use crate::attr::Attr;
use crate::op::{Inferred, OpError, OpRef, Registry};
use crate::ops::decl::{Call, Decl};
use crate::ops::opaque::declared_results;
use crate::tensor::{EvalError, Tensor};

const CALL: Decl = Decl::new(
    "hbir.call",
    "barrier",
    "the results of another function",
    (0, usize::MAX),
    infer,
    eval,
);

/// C1: `callee` names a function.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    match op.attr("callee")? {
        Attr::Symbol(_) => declared_results(op),
        _ => Err(OpError::new("call-c1", "hbir.call wants `callee` = @name")),
    }
}

fn eval(_: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    Err(EvalError::new(
        "a call is run by the interpreter, not by itself",
    ))
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(CALL);
}
