//! `hbir.iota`: `y[i] = i[axis]`, the index along `axis` (StableHLO `iota`). Shape and element type are the result
//! type's.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::shape::{axis_or, one};
use crate::tensor::{EvalError, Tensor};

const IOTA: Decl = Decl::new(
    "hbir.iota",
    "source",
    "the index along an axis",
    (0, 0),
    infer,
    eval,
)
.freedom(source);

/// C1: an axis of the result. C2: of numbers.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let result = op.result(0)?;
    axis_or(op, "iota-c1", result.rank(), 0)?;
    if result.dtype.is_bool() {
        return Err(OpError::new(
            "iota-c2",
            "hbir.iota of i1, wanted a float or an integer type",
        ));
    }
    one(result.dims.clone(), result.dtype)
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let shape = call.shape();
    let axis =
        axis_or(call.op, "iota-c1", shape.len(), 0).map_err(|e| EvalError::new(e.message))?;
    let inner: usize = shape[axis + 1..].iter().product();
    let n: usize = shape.iter().product();
    Ok(call.integers((0..n).map(|i| (i / inner % shape[axis]) as i128)))
}

/// Any order of the results.
pub(crate) fn source(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Source, |f| {
        for i in 0..op.results.len() {
            let labels = f.fresh_for(op.result(i)?.rank());
            f.result(marks(&labels));
        }
        Ok(())
    })
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(IOTA);
}
