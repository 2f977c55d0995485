//! `hbir.cast`: the same numbers in another element type (ONNX `Cast`, StableHLO `convert`).
//!
//! A float becomes an integer by truncation towards zero. A number outside of the integer's range saturates, and NaN
//! becomes 0 (ONNX leaves both open). Anything becomes `i1` by `x != 0`. An integer becomes a narrower one by wrapping,
//! and a float by rounding to the nearest, ties to even. A number that rounds beyond the range of a float of 8 bits
//! becomes infinity, or NaN if the type has no infinity (XLA's `convert`).

use crate::prelude::*;

attributes! {
    /// The same numbers in another element type.
    pub struct Cast {
        /// The element type of the result.
        to: DType,
    }
}

impl Operation for Cast {
    const NAME: &'static str = "hbir.cast";
    const SUMMARY: &'static str = "x in the element type `to`";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: a complex type is converted only into itself, and no other type into it.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, to) = (op.operand(0)?, self.to);
        if x.dtype != to && (x.dtype.complex_part().is_some() || to.complex_part().is_some()) {
            let message = format!("hbir.cast of {} to {to}, wanted no complex type", x.dtype);
            return Err(OpError::new(CAST_C1, message));
        }
        one(x.dims.clone(), to)
    }

    fn expression(&self) -> Option<Expr> {
        Some(Expr::A.cast(self.to))
    }

    /// Converts elements of all types, including those that no operation computes with.
    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        Ok(vec![call.input(0).converted(call.dtype())])
    }
}

codes! {
    const CODES;

    CAST_C1 = program(
    "`hbir.cast` makes a complex number of something else, or something else of a complex number",
    r#"%0 = "hbir.cast"(%x) <{to = f32}> : (tensor<2xcomplex<f32>>) -> tensor<2xf32>"#,
    "complex numbers are stored and moved only: take the parts in an operation of the format, kept as `hbir.opaque`",
);
}
