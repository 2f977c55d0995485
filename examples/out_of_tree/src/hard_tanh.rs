//! An element-wise operation with an attribute, which no format has: all write its expression.

use crate::codes;
use optc::{Expr, Inferred, OpError, OpRef, Operation, attributes};

attributes! {
    /// `acme.hard_tanh(x) = slope · tanh(x)` below 0, `min(x, 1)` elsewhere.
    pub struct HardTanh {
        /// The slope below 0.
        slope: f64 = 1.0,
    }
}

impl Operation for HardTanh {
    const NAME: &'static str = "acme.hard_tanh";
    const SUMMARY: &'static str = "slope · tanh(x) below 0, min(x, 1) elsewhere";
    const FAMILY: &'static str = "elementwise";
    const OPERANDS: (usize, usize) = (1, 1);

    /// Constraint `hard-tanh-c1`: floats.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        if !x.dtype.is_float() {
            let message = format!("acme.hard_tanh of {}, wanted floats", x.dtype);
            return Err(OpError::new(codes::HARD_TANH_C1, message));
        }
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }

    fn expression(&self) -> Option<Expr> {
        let low = self.slope * Expr::A.tanh();
        Some(Expr::A.where_below_zero(low).min(1.0))
    }
}
