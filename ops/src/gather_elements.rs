//! `hbir.gather_elements` (ONNX `GatherElements`): `y[i] = x[j]`, where `j` is `i` with the index along `axis` replaced
//! by `indices[i]`. An index below 0 counts from the end.

use crate::gather::{indexed_axis, position, traffic};
use crate::over_axes::exchanged;
use crate::prelude::*;
use optc_ir::tensor::row_major_strides;

attributes! {
    /// For each index, the element at that position along an axis.
    pub struct GatherElements {
        /// The axis; negative ones count from the end.
        axis: i64 = 0,
    }
}

impl GatherElements {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The first operand has no such dimension (`gather-elements-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, GATHER_ELEMENTS_C1, self.axis, op.operand(0)?.rank())
    }
}

impl Operation for GatherElements {
    const NAME: &'static str = "hbir.gather_elements";
    const SUMMARY: &'static str = "for each index the element at that index along an axis";
    const FAMILY: &'static str = "gather";
    const OPERANDS: (usize, usize) = (2, 2);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: `axis` is an axis of the first operand. C2: the indices are integers. C3: equal ranks. C4: the indices are
    /// not longer than the operand in any dimension other than the axis.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, indices) = (op.operand(0)?, op.operand(1)?);
        let axis = self.along(op)?;
        wants_index(op, GATHER_ELEMENTS_C2, 1)?;
        wants_rank(op, GATHER_ELEMENTS_C3, 1, x.rank())?;
        for (d, (a, b)) in x.dims.iter().zip(&indices.dims).enumerate() {
            let longer = a.fixed().zip(b.fixed()).is_some_and(|(a, b)| a < b);
            if d != axis && longer {
                let message = format!(
                    "hbir.gather_elements of {} by indices {}, wanted at most {a} in dimension {d}",
                    show(&x.dims),
                    show(&indices.dims)
                );
                return Err(OpError::new(GATHER_ELEMENTS_C4, message));
            }
        }
        one(indices.dims.clone(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, indices) = (call.input(0), call.input(1));
        let axis = self.along(call.op)?;
        let places = element_places(&x.shape, indices, axis)?;
        Ok(vec![x.gather(call.shape(), |i| places[i])])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let axis = self.along(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&op.result(0)?.dims);
        domain.operands.fill(IndexExpr::each(&ids));
        domain.results[0] = IndexExpr::each(&ids);
        let gathered = domain.add_for(&op.operand(0)?.dims[axis], LoopKind::Whole);
        domain.operands[0][axis] = IndexExpr::of(gathered);
        Ok(domain.settled(op))
    }

    /// In the form, indices and result have their own axis at the place where the operand has the gathered axis.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let along = self.along(op).ok()?;
        let form = axes.along(along, |axis| GatherElements { axis }.write())?;
        exchanged(axes, form, along, &[0])
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        traffic(op)
    }

    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        indexed_axis(op, GATHER_ELEMENTS_C1, self.axis)
    }
}

/// For each index, the element number in a tensor of shape `x`; the index is a position along `axis`.
pub(crate) fn element_places(
    x: &[usize],
    indices: &Tensor,
    axis: usize,
) -> Result<Vec<usize>, EvalError> {
    let strides = row_major_strides(x);
    let mut steps: Vec<isize> = strides.iter().map(|s| s.cast_signed()).collect();
    steps[axis] = 0;
    let others = Offsets::new(&indices.shape, steps, 0);
    let place = |(i, other)| Ok(other + position(indices.i64_at(i), x[axis])? * strides[axis]);
    others.enumerate().map(place).collect()
}

codes! {
    const CODES;

    GATHER_ELEMENTS_C1 = program(
        "`hbir.gather_elements` names an axis that its first operand does not have",
        r#"%0 = "hbir.gather_elements"(%x, %y) <{axis = 2}> : (tensor<2x3xf32>, tensor<2x2xsi64>) -> tensor<2x2xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    GATHER_ELEMENTS_C2 = program(
        "the indices of `hbir.gather_elements` are no integers",
        r#"%0 = "hbir.gather_elements"(%x, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>"#,
        "cast the indices to `si64` or `si32`",
    );
    GATHER_ELEMENTS_C3 = program(
        "indices and first operand of `hbir.gather_elements` differ in rank",
        r#"%0 = "hbir.gather_elements"(%x, %y) : (tensor<2x3xf32>, tensor<2xsi64>) -> tensor<2xf32>"#,
        "give the indices one dimension for each of the first operand",
    );
    GATHER_ELEMENTS_C4 = program(
        "beside the axis the indices of `hbir.gather_elements` are longer than the first operand",
        r#"%0 = "hbir.gather_elements"(%x, %y) : (tensor<2x3xf32>, tensor<2x4xsi64>) -> tensor<2x4xf32>"#,
        "cut the indices to the extents of the first operand",
    );
}
