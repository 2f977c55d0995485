//! Operations that accumulate along an axis: `hbir.cumsum`, `y[i] = x[0] + … + x[i]` (ONNX `CumSum`), and `hbir.cumprod`,
//! `y[i] = x[0] * … * x[i]` (ONNX `CumProd`). `exclusive` leaves out `x[i]`, `reverse` starts at the end. Integers wrap.

use crate::lanes::{Direction, Lanes};
use crate::prelude::*;

/// Operations that accumulate: struct, name, what they compute, codes, the value before the first element, functions of
/// floats and of integers.
macro_rules! running {
    ($($op:ident $name:literal $what:literal [$axis:ident, $numbers:ident]
        $first:literal, $floats:expr, $integers:expr;)*) => {$(
        attributes! {
            #[doc = concat!("Running ", $what, " along an axis.")]
            pub struct $op {
                /// The axis; negative ones count from the end.
                axis: i64,
                /// True if each element leaves itself out.
                exclusive: bool = false,
                /// True if the first element is the one at the end.
                reverse: bool = false,
            }
        }

        impl Operation for $op {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = concat!("running ", $what, " along an axis");
            const FAMILY: &'static str = "reduce";
            const OPERANDS: (usize, usize) = (1, 1);
            const CODES: &'static [Code] = CODES;

            /// C1: `axis` is an axis of the operand. C2: the operand is of numbers.
            fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
                let x = op.operand(0)?;
                self.along(op)?;
                if x.dtype.is_bool() {
                    let message = concat!($name, " of i1, wanted a float or an integer type");
                    return Err(OpError::new($numbers, message));
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
                    let first = f64::from($first);
                    return Ok(call.floats(lanes.running(&x.to_f64(), first, direction, $floats)));
                }
                let values: Vec<i128> = (0..x.len()).map(|i| x.i128_at(i)).collect();
                Ok(call.integers(lanes.running(&values, $first, direction, $integers)))
            }

            fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
                IterationDomain::broadcasting_along(op, &[self.along(op)?])
            }

            fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
                axes.along(self.along(op).ok()?, |axis| $op { axis, ..*self }.write())
            }
        }

        impl $op {
            /// The dimension that `axis` names.
            ///
            /// # Errors
            #[doc = concat!("The operand of `", $name, "` has no such dimension.")]
            pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
                as_axis(op, $axis, self.axis, op.operand(0)?.rank())
            }
        }
    )*};
}

running! {
    Cumsum "hbir.cumsum" "sums" [CUMSUM_C1, CUMSUM_C2] 0, |a, b| a + b, i128::wrapping_add;
    Cumprod "hbir.cumprod" "products" [CUMPROD_C1, CUMPROD_C2] 1, |a, b| a * b, i128::wrapping_mul;
}

codes! {
    const CODES;

    CUMPROD_C1 = program(
        "`hbir.cumprod` names an axis that its operand does not have",
        r#"%0 = "hbir.cumprod"(%x) <{axis = 1}> : (tensor<3xf32>) -> tensor<3xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    CUMPROD_C2 = program(
        "`hbir.cumprod` of booleans, wanted numbers",
        r#"%0 = "hbir.cumprod"(%x) <{axis = 0}> : (tensor<3xi1>) -> tensor<3xi1>"#,
        "cast the operand to an integer type",
    );
    CUMSUM_C1 = program(
        "`hbir.cumsum` names an axis that its operand does not have",
        r#"%0 = "hbir.cumsum"(%x) <{axis = 1}> : (tensor<3xf32>) -> tensor<3xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    CUMSUM_C2 = program(
        "`hbir.cumsum` of booleans, wanted numbers",
        r#"%0 = "hbir.cumsum"(%x) <{axis = 0}> : (tensor<3xi1>) -> tensor<3xi1>"#,
        "cast the operand to an integer type",
    );
}
