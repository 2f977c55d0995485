//! A normalization, which no format has: HLO, StableHLO and linalg write the stages of its composition.

use crate::codes;
use optc::expression::{Combine, Composition, Expr};
use optc::tile::IterationDomain;
use optc::{Inferred, OpError, OpRef, Operation, attributes};

attributes! {
    /// `acme.unit(x) = x / sqrt(sum of x² + epsilon)` along the last dimension.
    pub struct Unit {
        /// Added to the sum before the root is taken.
        epsilon: f64 = 1e-12,
    }
}

impl Operation for Unit {
    const NAME: &'static str = "acme.unit";
    const SUMMARY: &'static str = "vectors of length 1 along the last dimension";
    const FAMILY: &'static str = "norm";
    const OPERANDS: (usize, usize) = (1, 1);

    /// Constraint `unit-c1`: floats of rank 1 or more.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        if !x.dtype.is_float() || x.rank() == 0 {
            let message = format!("acme.unit of {} of rank {}", x.dtype, x.rank());
            return Err(
                OpError::new(codes::UNIT_C1, message).hint("wanted floats of rank 1 or more")
            );
        }
        Ok(vec![Inferred {
            dims: x.dims.clone(),
            dtype: x.dtype,
        }])
    }

    /// The reference semantics evaluate it too.
    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        let last = op.operand(0).ok()?.rank().checked_sub(1)?;
        let mut unit = Composition::new(1, vec![last]);
        let root = (Expr::A + self.epsilon).rsqrt();
        let factor = unit.reduce(Combine::Add, Expr::A * Expr::A, root);
        unit.each(Expr::A * factor);
        Some(unit)
    }

    /// A loop for each dimension; the operation works along the last one.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let last = op.operand(0)?.rank().saturating_sub(1);
        IterationDomain::broadcasting_along(op, &[last])
    }
}
