//! An element-wise operation: shape rule, and its meaning as an expression.

use crate::codes;
use optc::{Expr, Inferred, OpError, OpRef, Operation, attributes};

attributes! {
    /// `acme.gate(x, g) = x · sigmoid(g)`, element by element.
    pub struct Gate {}
}

impl Operation for Gate {
    const NAME: &'static str = "acme.gate";
    const SUMMARY: &'static str = "x · sigmoid(g), element by element";
    /// Targets treat it like any other element-wise operation, and it takes any order of dimensions that operands and result
    /// share.
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (2, 2);

    /// Constraints: `gate-c1` two operands of the same shape and element type, a float.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, g) = (op.operand(0)?, op.operand(1)?);
        if x.dims != g.dims || x.dtype != g.dtype || !x.dtype.is_float() {
            let message = "the operands of acme.gate differ, wanted two of the same float type";
            return Err(OpError::new(codes::GATE_C1, message));
        }
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }

    /// The expression that the interpreter evaluates and every format writes.
    fn expression(&self) -> Option<Expr> {
        Some(Expr::A * Expr::B.sigmoid())
    }
}
