//! `hbir.cumprod`: `y[i] = x[0] * … * x[i]` along `axis` (ONNX `CumProd`); `exclusive` leaves out `x[i]`,
//! `reverse` starts at the end. Integers wrap.

use crate::lanes::{Direction, Lanes};
use crate::shape::{as_axis, one};
use optc_ir::op::iteration_domain::IterationDomain;
use optc_ir::op::{Attributes, Axes, Call, Effect, Inferred, OpError, OpRef, Operation, OverAxes};
use optc_ir::tensor::{EvalError, Tensor};
use optc_ir::{Code, attributes, codes};

attributes! {
    /// Running products along an axis.
    pub struct Cumprod {
        /// The axis; negative ones count from the end.
        axis: i64,
        /// True if each product leaves out its own element.
        exclusive: bool = false,
        /// True if the products start at the end.
        reverse: bool = false,
    }
}

impl Operation for Cumprod {
    const NAME: &'static str = "hbir.cumprod";
    const SUMMARY: &'static str = "running products along an axis";
    const FAMILY: &'static str = "reduce";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = CODES;

    /// C1: `axis` is an axis of the operand. C2: the operand is of numbers.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        self.along(op)?;
        if x.dtype.is_bool() {
            return Err(OpError::new(
                CUMPROD_C2,
                "hbir.cumprod of i1, wanted a float or an integer type",
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
            let products = lanes.running(&x.to_f64(), 1.0, direction, |a, b| a * b);
            return Ok(call.floats(products));
        }
        let values: Vec<i128> = (0..x.len()).map(|i| x.i128_at(i)).collect();
        Ok(call.integers(lanes.running(&values, 1, direction, i128::wrapping_mul)))
    }

    fn effect(&self, _: &OpRef<'_>) -> Effect {
        Effect::Pure
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        IterationDomain::broadcasting_along(op, &[self.along(op)?])
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        axes.along(self.along(op).ok()?, |axis| {
            Cumprod { axis, ..*self }.write()
        })
    }
}

impl Cumprod {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The operand has no such dimension (`cumprod-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, CUMPROD_C1, self.axis, op.operand(0)?.rank())
    }
}

codes! {
    const CODES;

    CUMPROD_C1 = Code::program(
        "cumprod-c1",
        "`hbir.cumprod` names an axis that its operand does not have",
        r#"%0 = "hbir.cumprod"(%x) <{axis = 1}> : (tensor<3xf32>) -> tensor<3xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    CUMPROD_C2 = Code::program(
        "cumprod-c2",
        "`hbir.cumprod` of booleans, wanted numbers",
        r#"%0 = "hbir.cumprod"(%x) <{axis = 0}> : (tensor<3xi1>) -> tensor<3xi1>"#,
        "cast the operand to an integer type",
    );
}
