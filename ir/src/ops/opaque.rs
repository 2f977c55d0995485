//! `hbir.opaque`: an operation that the dialect does not know. `kind` is its name in the format it came
//! from, `domain` that name's namespace; other attributes are kept. It has no semantics here: it cannot be
//! evaluated, and no pass looks inside.

use crate::op::{Inferred, OpError, OpRef, Registry};
use crate::ops::decl::{Call, Decl};
use crate::tensor::{EvalError, Tensor};

const OPAQUE: Decl = Decl::new(
    "hbir.opaque",
    "barrier",
    "an operation of another format, unknown here",
    (0, usize::MAX),
    infer,
    eval,
);

/// C1: `kind` is a name.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    if op.attr("kind")?.as_str().is_none_or(str::is_empty) {
        return Err(OpError::new(
            "opaque-c1",
            "hbir.opaque wants `kind` = the name of an operation",
        ));
    }
    declared_results(op)
}

/// The results as the types say.
pub(crate) fn declared_results(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let result = |i| {
        let ty = op.result(i)?;
        Ok(Inferred {
            dims: ty.dims.clone(),
            dtype: ty.dtype,
        })
    };
    (0..op.results.len()).map(result).collect()
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let kind = call.op.props.str("kind").unwrap_or("?");
    Err(EvalError::new(format!(
        "the operation {kind} has no meaning here"
    )))
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(OPAQUE);
}
