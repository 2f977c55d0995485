//! `hbir.dynamic_update_slice` (StableHLO `dynamic_update_slice`): a copy of the first operand in which the second
//! operand replaces a box. The other operands are scalars: the start of the box along each dimension. If the box would
//! reach beyond the operand, its start is moved to the nearest one that fits.

use crate::prelude::*;
use crate::shape::{operand_bytes, result_bytes};

attributes! {
    /// A copy with a box replaced; its start is computed.
    pub struct DynamicUpdateSlice {}
}

impl Operation for DynamicUpdateSlice {
    const NAME: &'static str = "hbir.dynamic_update_slice";
    const SUMMARY: &'static str = "a copy with a box replaced; the start of the box is computed";
    const FAMILY: &'static str = "gather";
    const OPERANDS: (usize, usize) = (2, usize::MAX);
    const MOVES_ONLY: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: one start for each dimension. C2: starts are scalar integers. C3: the update has the rank of the first
    /// operand and is not longer in any dimension. C4: one element type.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, update) = (op.operand(0)?, op.operand(1)?);
        let starts = op.operands.len() - 2;
        if starts != x.rank() {
            let message = format!("{} has {starts} starts, wanted {}", op.name, x.rank());
            return Err(OpError::new(DYNAMIC_UPDATE_SLICE_C1, message));
        }
        for i in 2..op.operands.len() {
            wants_index(op, DYNAMIC_UPDATE_SLICE_C2, i)?;
            wants_rank(op, DYNAMIC_UPDATE_SLICE_C2, i, 0)?;
        }
        wants_rank(op, DYNAMIC_UPDATE_SLICE_C3, 1, x.rank())?;
        let longer = |(n, k): (&Dim, &Dim)| n.fixed().zip(k.fixed()).is_some_and(|(n, k)| n < k);
        if x.dims.iter().zip(&update.dims).any(longer) {
            let message = format!(
                "{} writes {} into {}, wanted a box that fits",
                op.name,
                show(&update.dims),
                show(&x.dims)
            );
            return Err(OpError::new(DYNAMIC_UPDATE_SLICE_C3, message));
        }
        common_dtype(op, DYNAMIC_UPDATE_SLICE_C4, [0, 1])?;
        one(x.dims.clone(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, update) = (call.input(0), call.input(1));
        let strides = x.strides();
        let mut first = 0;
        for (d, (&n, &k)) in x.shape.iter().zip(&update.shape).enumerate() {
            let last = n.checked_sub(k).ok_or_else(|| {
                EvalError::new(format!("{k} elements are written to dimension {d} of {n}"))
            })?;
            let start = call.input(2 + d).i64_at(0).max(0);
            first += usize::try_from(start).unwrap_or(usize::MAX).min(last) * strides[d];
        }
        let steps = strides.iter().map(|s| s.cast_signed()).collect();
        let places = Offsets::new(&update.shape, steps, first.cast_signed()).enumerate();
        Ok(vec![x.overwritten(update, places)?])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let (x, update) = (op.operand(0)?, op.operand(1)?);
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&x.dims);
        let mut own = ids.clone();
        for (d, (n, k)) in x.dims.iter().zip(&update.dims).enumerate() {
            if n != k || *n == Dim::Unknown {
                domain.along(ids[d]);
                own[d] = domain.add_for(k, LoopKind::Whole);
            }
        }
        domain.operands[0] = IndexExpr::each(&ids);
        domain.operands[1] = IndexExpr::each(&own);
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }

    /// Each axis of the form gets the start of its dimension. A dimension without an axis has extent 1: its start is
    /// always 0 and is left out.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let rank = op.operand(0).ok()?.rank();
        let (mut own, mut update, mut starts) = (Vec::new(), Vec::new(), Vec::new());
        for run in axes.own(0) {
            let dim = (0..rank).find(|&d| {
                let label = axes.label(0, d);
                label.is_some_and(|label| axes.whole(label).as_ref() == Some(&run))
            })?;
            update.push(axes.whole(axes.label(1, dim)?)?);
            starts.push((2 + dim, Vec::new()));
            own.push(run);
        }
        let mut over = OverAxes::new(self.write(), vec![own.clone(), update], vec![own]);
        over.operands.extend(starts);
        Some(over)
    }

    fn updates(&self, _: &OpRef<'_>) -> Option<Update> {
        Some(Update { of: 0, by: 1 })
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        Traffic::Copy(operand_bytes(op, 0), result_bytes(op))
    }
}

codes! {
    const CODES;

    DYNAMIC_UPDATE_SLICE_C1 = program(
        "`hbir.dynamic_update_slice` does not have one start for each dimension of its first operand",
        r#"%0 = "hbir.dynamic_update_slice"(%x, %y, %i) : (tensor<4x5xf32>, tensor<2x5xf32>, tensor<si32>) -> tensor<4x5xf32>"#,
        "give a start for every dimension, 0 where the update is as long as the first operand",
    );
    DYNAMIC_UPDATE_SLICE_C2 = program(
        "a start of `hbir.dynamic_update_slice` is no integer, or has dimensions",
        r#"%0 = "hbir.dynamic_update_slice"(%x, %y, %i) : (tensor<4xf32>, tensor<2xf32>, tensor<1xsi32>) -> tensor<4xf32>"#,
        "reshape the start to `tensor<si32>`, or cast it",
    );
    DYNAMIC_UPDATE_SLICE_C3 = program(
        "the update of `hbir.dynamic_update_slice` has another rank than the first operand, or is longer in some dimension",
        r#"%0 = "hbir.dynamic_update_slice"(%x, %y, %i) : (tensor<4xf32>, tensor<5xf32>, tensor<si32>) -> tensor<4xf32>"#,
        "slice the update first",
    );
    DYNAMIC_UPDATE_SLICE_C4 = program(
        "the operand and the update of `hbir.dynamic_update_slice` have different element types",
        r#"%0 = "hbir.dynamic_update_slice"(%x, %y, %i) : (tensor<4xf32>, tensor<2xsi8>, tensor<si32>) -> tensor<4xf32>"#,
        "convert one of them with `hbir.cast`",
    );
}
