//! Shared code of operations that write by index. The result is a copy of the first operand, in which the elements at
//! the positions in the indices are replaced by the updates, or combined with them by a `reduction`.
//!
//! Operands: the tensor, the indices, the updates. An index below 0 counts from the end. Without a reduction, the last
//! of several updates of one element (in row-major order) wins.

use crate::prelude::*;
use crate::shape::{operand_bytes, result_bytes};

words! {
    /// The combination of an element and its update.
    pub enum ScatterReduction {
        /// The update.
        None = "none",
        /// The sum.
        Add = "add",
        /// The product.
        Mul = "mul",
        /// The greater one.
        Max = "max",
        /// The lesser one.
        Min = "min",
    }
}

impl ScatterReduction {
    fn float(self, old: f64, new: f64) -> f64 {
        match self {
            ScatterReduction::Add => old + new,
            ScatterReduction::Mul => old * new,
            ScatterReduction::Max => {
                if old.is_nan() || new < old {
                    old
                } else {
                    new
                }
            }
            ScatterReduction::Min => {
                if old.is_nan() || old < new {
                    old
                } else {
                    new
                }
            }
            ScatterReduction::None => new,
        }
    }

    fn integer(self, old: i128, new: i128) -> i128 {
        match self {
            ScatterReduction::Add => old.wrapping_add(new),
            ScatterReduction::Mul => old.wrapping_mul(new),
            ScatterReduction::Max => old.max(new),
            ScatterReduction::Min => old.min(new),
            ScatterReduction::None => new,
        }
    }
}

/// The bytes read are those of the first operand, the bytes written those of the result.
pub(crate) fn traffic(op: &OpRef<'_>) -> Traffic {
    Traffic::Copy(operand_bytes(op, 0), result_bytes(op))
}

impl ScatterReduction {
    /// Refuses a reduction of an element type that no operation computes with.
    pub(crate) fn check(self, op: &OpRef<'_>, code: Code, dtype: DType) -> Result<(), OpError> {
        if self == ScatterReduction::None || dtype.computes() {
            return Ok(());
        }
        let message = format!(
            "{} of {dtype} has reduction = \"{}\", wanted none",
            op.name,
            self.word()
        );
        Err(OpError::new(code, message))
    }
}

/// Writes update `i` to `places[i / part] + i % part`, unless the place is `None`.
pub(crate) fn write(
    call: &Call<'_>,
    reduction: ScatterReduction,
    places: &[Option<usize>],
    part: usize,
) -> Result<Vec<Tensor>, EvalError> {
    let (x, updates) = (call.input(0), call.input(2));
    let target = |i: usize| Some((i, places[i / part]? + i % part));
    let targets = (0..updates.len()).filter_map(target);
    if reduction == ScatterReduction::None {
        return Ok(vec![x.overwritten(updates, targets)?]);
    }
    if x.dtype.is_float() {
        let mut out = x.to_f64();
        for (i, at) in targets {
            out[at] = reduction.float(out[at], updates.f64_at(i));
        }
        return Ok(call.floats(out));
    }
    let mut out: Vec<i128> = (0..x.len()).map(|i| x.i128_at(i)).collect();
    for (i, at) in targets {
        out[at] = reduction.integer(out[at], updates.i128_at(i));
    }
    Ok(call.integers(out))
}
