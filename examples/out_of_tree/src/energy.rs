//! A reduction: tiles may cut what it adds up, and the parts are added.

use crate::codes;
use optc::tile::{Combine, IndexExpr, IterationDomain, LoopKind};
use optc::{
    Axes, Call, EvalError, FreedomClass, Inferred, OpError, OpRef, Operation, OverAxes, Tensor,
    attributes,
};

attributes! {
    /// `acme.energy(x) = sum of x²` along the last dimension.
    pub struct Energy {}
}

impl Operation for Energy {
    const NAME: &'static str = "acme.energy";
    const SUMMARY: &'static str = "the sum of squares along the last dimension";
    const FAMILY: &'static str = "reduce";
    const OPERANDS: (usize, usize) = (1, 1);

    /// Constraint `energy-c1`: floats of rank 1 or more.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        match x.dims.split_last() {
            Some((_, kept)) if x.dtype.is_float() => Ok(vec![Inferred {
                dims: kept.to_vec(),
                dtype: x.dtype,
            }]),
            _ => {
                let message = format!("acme.energy of {} of rank {}", x.dtype, x.rank());
                Err(OpError::new(codes::ENERGY_C1, message).hint("wanted floats of rank 1 or more"))
            }
        }
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let n = x.shape.last().copied().unwrap_or(0);
        let rows = call.shape().iter().product::<usize>();
        let energy = |r: usize| (r * n..(r + 1) * n).map(|i| x.f64_at(i).powi(2)).sum();
        Ok(call.floats((0..rows).map(energy)))
    }

    /// Summed dimensions are last, in whatever order it lies; the rest stays in the order of the axes.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let last = op.operand(0).ok()?.rank().checked_sub(1)?;
        let summed = axes.all(axes.label(0, last)?);
        let kept = axes.own(1);
        let all = [&kept[..], &[summed]].concat();
        Some(OverAxes::new(op.props.clone(), vec![all], vec![kept]))
    }

    /// A loop a dimension; the last one adds up. The layouts that it takes and how parts become one follow from that.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let x = op.operand(0)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        for (d, dim) in x.dims.iter().enumerate() {
            let adds_up = d + 1 == x.rank();
            let kind = if adds_up {
                LoopKind::Reduce(Combine::Add)
            } else {
                LoopKind::Parallel
            };
            let id = domain.add_for(dim, kind);
            domain.operands[0][d] = IndexExpr::of(id);
            if !adds_up {
                domain.results[0][d] = IndexExpr::of(id);
            }
        }
        Ok(domain)
    }
}
