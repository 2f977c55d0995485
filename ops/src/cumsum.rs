//! `hbir.cumsum`: `y[i] = x[0] + … + x[i]` along `axis` (ONNX `CumSum`); `exclusive` leaves out `x[i]`,
//! `reverse` starts at the end. Integers wrap.

use crate::lanes::{Direction, Lanes};
use crate::shape::{as_axis, one};
use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::op::{Attributes, Axes, Call, Effect, Inferred, OpError, OpRef, Operation, OverAxes};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes, codes};

attributes! {
    /// Running sums along an axis.
    pub struct Cumsum {
        /// The axis; negative ones count from the end.
        axis: i64,
        /// True if each sum leaves out its own element.
        exclusive: bool = false,
        /// True if the sums start at the end.
        reverse: bool = false,
    }
}

impl Operation for Cumsum {
    const NAME: &'static str = "hbir.cumsum";
    const SUMMARY: &'static str = "running sums along an axis";
    const FAMILY: &'static str = "reduce";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = CODES;

    /// C1: `axis` is an axis of the operand. C2: the operand is of numbers.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        self.along(op)?;
        if x.dtype.is_bool() {
            return Err(OpError::new(
                CUMSUM_C2,
                "hbir.cumsum of i1, wanted a float or an integer type",
            ));
        }
        one(x.dims.clone(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let lanes = Lanes::new(&x.shape, self.along(call.op)?);
        let direction = Direction {
            exclusive: self.exclusive,
            reverse: self.reverse,
        };
        if x.dtype.is_float() {
            let sums = lanes.running(&x.to_f64(), 0.0, direction, |a, b| a + b);
            return Ok(call.floats(sums));
        }
        let values: Vec<i128> = (0..x.len()).map(|i| x.i128_at(i)).collect();
        Ok(call.integers(lanes.running(&values, 0, direction, i128::wrapping_add)))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        IterationDomain::broadcasting_along(op, &[self.along(op)?])
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        axes.along(self.along(op).ok()?, |axis| {
            Cumsum { axis, ..*self }.write()
        })
    }
}

impl Cumsum {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The operand has no such dimension (`cumsum-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, CUMSUM_C1, self.axis, op.operand(0)?.rank())
    }
}

codes! {
    const CODES;

    CUMSUM_C1 = Code::program(
        "cumsum-c1",
        "`hbir.cumsum` names an axis that its operand does not have",
        r#"%0 = "hbir.cumsum"(%x) <{axis = 1}> : (tensor<3xf32>) -> tensor<3xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    CUMSUM_C2 = Code::program(
        "cumsum-c2",
        "`hbir.cumsum` of booleans, wanted numbers",
        r#"%0 = "hbir.cumsum"(%x) <{axis = 0}> : (tensor<3xi1>) -> tensor<3xi1>"#,
        "cast the operand to an integer type",
    );
}
