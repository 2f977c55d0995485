//! The operation: shape rule, meaning, layout freedom.

use crate::GATE;
use optc::{
    EvalContext, EvalError, Freedom, FreedomClass, Inferred, Label, OpDecl, OpError, OpRef, Role,
    Tensor,
};

/// `acme.gate(x, g) = x · sigmoid(g)`.
#[derive(Clone, Copy, Debug)]
pub struct Gate;

impl OpDecl for Gate {
    fn name(&self) -> &'static str {
        GATE
    }

    fn summary(&self) -> &'static str {
        "x · sigmoid(g), element by element"
    }

    /// Targets treat it like any other element-wise operation.
    fn family(&self) -> &'static str {
        "elementwise"
    }

    /// Constraints: `gate-c1` two operands, `gate-c2` of the same shape and element type, a float.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        if op.operands.len() != 2 {
            let message = format!("acme.gate has {} operands, wanted 2", op.operands.len());
            return Err(OpError::new("gate-c1", message));
        }
        let (x, g) = (op.operand(0)?, op.operand(1)?);
        if x.dims != g.dims || x.dtype != g.dtype || !x.dtype.is_float() {
            let message = "the operands of acme.gate differ, wanted two of the same float type";
            return Err(OpError::new("gate-c2", message));
        }
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }

    fn eval(
        &self,
        _: &OpRef<'_>,
        inputs: &[&Tensor],
        _: &EvalContext<'_>,
    ) -> Result<Vec<Tensor>, EvalError> {
        let [x, g] = inputs else {
            return Err(EvalError::new("acme.gate wants two inputs"));
        };
        let sigmoid = |g: f64| 1.0 / (1.0 + (-g).exp());
        let values = (0..x.len()).map(|i| x.f64_at(i) * sigmoid(g.f64_at(i)));
        Ok(vec![Tensor::from_f64(x.dtype, x.shape.clone(), values)])
    }

    /// Any order of dimensions, as long as the operands and the result share it.
    fn freedom(&self, op: &OpRef<'_>) -> Freedom {
        let rank = op
            .operands
            .first()
            .and_then(|t| t.as_tensor())
            .map_or(0, |t| t.rank());
        let all: Vec<Option<usize>> = (0..rank).map(Some).collect();
        Freedom {
            class: FreedomClass::Ordered,
            labels: vec![
                Label {
                    role: Role::Parallel,
                    granule: 0
                };
                rank
            ],
            operands: vec![all.clone(), all.clone()],
            results: vec![all],
        }
    }
}
