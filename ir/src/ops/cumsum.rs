//! `hbir.cumsum`: `y[i] = x[0] + … + x[i]` along `axis` (ONNX `CumSum`); `exclusive` leaves out `x[i]`,
//! `reverse` starts at the end. Integers wrap.

use crate::op::{Freedom, Inferred, OpError, OpRef, Registry};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::broadcasting_along;
use crate::ops::reduce::Lanes;
use crate::ops::shape::{axis, flag_or, one};
use crate::tensor::{EvalError, Tensor};

const CUMSUM: Decl = Decl::new(
    "hbir.cumsum",
    "reduce",
    "running sums along an axis",
    (1, 1),
    infer,
    eval,
)
.freedom(freedom);

/// C1: an axis of the operand. C2: of numbers.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    axis(op, "cumsum-c1", x.rank())?;
    if x.dtype.is_bool() {
        return Err(OpError::new(
            "cumsum-c2",
            "hbir.cumsum of i1, wanted a float or an integer type",
        ));
    }
    flag_or(op, "exclusive", false)?;
    flag_or(op, "reverse", false)?;
    one(x.dims.clone(), x.dtype)
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    if x.dtype.is_float() {
        let out = sums(call, &x.to_f64(), |a, b| a + b)?;
        return Ok(call.floats(out));
    }
    let values: Vec<i128> = (0..x.len()).map(|i| x.i128_at(i)).collect();
    let out = sums(call, &values, i128::wrapping_add)?;
    Ok(call.integers(out))
}

fn sums<T: Copy + Default>(
    call: &Call<'_>,
    x: &[T],
    add: impl Fn(T, T) -> T,
) -> Result<Vec<T>, EvalError> {
    let shape = &call.input(0).shape;
    let message = |e: OpError| EvalError::new(e.message);
    let axis = axis(call.op, "cumsum-c1", shape.len()).map_err(message)?;
    let exclusive = flag_or(call.op, "exclusive", false).map_err(message)?;
    let reverse = flag_or(call.op, "reverse", false).map_err(message)?;
    let mut out = vec![T::default(); x.len()];
    let lanes = Lanes::new(shape, axis);
    for (start, step) in lanes.iter() {
        let mut sum = T::default();
        for i in 0..lanes.n {
            let at = start + step * if reverse { lanes.n - 1 - i } else { i };
            let next = add(sum, x[at]);
            out[at] = if exclusive { sum } else { next };
            sum = next;
        }
    }
    Ok(out)
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    match op.operand(0).and_then(|x| axis(op, "cumsum-c1", x.rank())) {
        Ok(axis) => broadcasting_along(op, &[axis]),
        Err(_) => Freedom::barrier(op),
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(CUMSUM);
}
