//! `hbir.prelu`: `slope * x` below 0, else `x` (ONNX `PRelu`).

use crate::binary::{self, Takes};
use crate::prelude::*;
use crate::shape::operand_dims;

attributes! {
    /// `slope * x` below 0, else `x`; the slope broadcasts to `x`.
    pub struct Prelu {}
}

impl Operation for Prelu {
    const NAME: &'static str = "hbir.prelu";
    const SUMMARY: &'static str = "slope * x below 0, else x";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (2, 2);
    const CODES: &'static [Code] = binary::CODES;

    /// C1 to C3: see `binary::operands`. C4: the slope broadcasts to the first operand.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (dims, dtype) = binary::operands(op, Takes::Numbers)?;
        let shapes = operand_dims(op)?;
        if !compatible(&dims, shapes[0]) {
            let (x, slope) = (show(shapes[0]), show(shapes[1]));
            let message = format!(
                "{} of {x} has a slope of {slope}, wanted one that broadcasts to it",
                op.name
            );
            return Err(OpError::new(binary::BINARY_C4, message));
        }
        one(dims, dtype)
    }

    fn expression(&self) -> Option<Expr> {
        Some(Expr::A.where_below_zero(Expr::B * Expr::A))
    }
}
