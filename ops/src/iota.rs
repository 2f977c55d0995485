//! `hbir.iota`: `y[i] = i[axis]`, the index along `axis` (StableHLO `iota`). Shape and element type are the result
//! type's.

use crate::labels::{marks, or_barrier};
use crate::shape::{as_axis, one};
use optc_ir::op::{Call, Effect, Freedom, FreedomClass, Inferred, OpError, OpRef, Operation};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes, codes};

attributes! {
    /// The index along an axis.
    pub struct Iota {
        /// The axis; negative ones count from the end.
        axis: i64 = 0,
    }
}

impl Iota {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The result has no such dimension (`iota-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, IOTA_C1, self.axis, op.result(0)?.rank())
    }
}

impl Operation for Iota {
    const NAME: &'static str = "hbir.iota";
    const SUMMARY: &'static str = "the index along an axis";
    const FAMILY: &'static str = "source";
    const OPERANDS: (usize, usize) = (0, 0);
    const CODES: &'static [Code] = CODES;

    /// C1: an axis of the result. C2: of numbers.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let result = op.result(0)?;
        self.along(op)?;
        if result.dtype.is_bool() {
            return Err(OpError::new(
                IOTA_C2,
                "hbir.iota of i1, wanted a float or an integer type",
            ));
        }
        one(result.dims.clone(), result.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let shape = call.shape();
        let axis = self.along(call.op)?;
        let inner: usize = shape[axis + 1..].iter().product();
        let n: usize = shape.iter().product();
        Ok(call.integers((0..n).map(|i| (i / inner % shape[axis]) as i128)))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }

    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        source(op)
    }
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

codes! {
    const CODES;

    IOTA_C1 = Code::program(
        "iota-c1",
        "`hbir.iota` names an axis that its result does not have",
        r#"%0 = "hbir.iota"() <{axis = 1}> : () -> tensor<3xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    IOTA_C2 = Code::program(
        "iota-c2",
        "`hbir.iota` of booleans, wanted numbers",
        r#"%0 = "hbir.iota"() <{axis = 0}> : () -> tensor<3xi1>"#,
        "count in an integer or float type",
    );
}
