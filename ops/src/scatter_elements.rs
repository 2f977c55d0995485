//! `hbir.scatter_elements` (ONNX `ScatterElements`): `y[j] = updates[i]`, where `j` is `i` with the index along `axis`
//! replaced by `indices[i]`.

use crate::gather::indexed_axis;
use crate::gather_elements::element_places;
use crate::over_axes::exchanged;
use crate::prelude::*;
use crate::scatter::{ScatterReduction, traffic, write};

attributes! {
    /// A copy with elements replaced at positions along an axis.
    pub struct ScatterElements {
        /// The axis; negative ones count from the end.
        axis: i64 = 0,
        /// The combination of an element and its update.
        reduction: ScatterReduction [SCATTER_ELEMENTS_C5] = ScatterReduction::None,
    }
}

impl ScatterElements {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The first operand has no such dimension (`scatter-elements-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, SCATTER_ELEMENTS_C1, self.axis, op.operand(0)?.rank())
    }
}

impl Operation for ScatterElements {
    const NAME: &'static str = "hbir.scatter_elements";
    const SUMMARY: &'static str = "a copy with elements written at indices along an axis";
    const FAMILY: &'static str = "gather";
    const OPERANDS: (usize, usize) = (3, 3);
    const MOVES_ONLY: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: `axis` is an axis of the first operand. C2: the indices are integers. C3: equal ranks. C4: the updates have
    /// the shape of the indices and the element type of the first operand. C5: a known reduction.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let (x, indices, updates) = (op.operand(0)?, op.operand(1)?, op.operand(2)?);
        self.along(op)?;
        wants_index(op, SCATTER_ELEMENTS_C2, 1)?;
        wants_rank(op, SCATTER_ELEMENTS_C3, 1, x.rank())?;
        common_dtype(op, SCATTER_ELEMENTS_C4, [0, 2])?;
        if !compatible(&indices.dims, &updates.dims) {
            let message = format!(
                "hbir.scatter_elements has updates {} for indices {}, wanted equal shapes",
                show(&updates.dims),
                show(&indices.dims)
            );
            return Err(OpError::new(SCATTER_ELEMENTS_C4, message));
        }
        self.reduction.check(op, SCATTER_ELEMENTS_C5, x.dtype)?;
        one(x.dims.clone(), x.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let axis = self.along(call.op)?;
        for (d, &n) in call.input(1).shape.iter().enumerate() {
            if d != axis && x.shape[d] < n {
                let message = format!("{n} indices in dimension {d} of {} elements", x.shape[d]);
                return Err(EvalError::new(message));
            }
        }
        let places = element_places(&x.shape, call.input(1), axis)?;
        let places: Vec<Option<usize>> = places.into_iter().map(Some).collect();
        write(call, self.reduction, &places, 1)
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let axis = self.along(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&op.operand(0)?.dims);
        domain.along(ids[axis]);
        let mut updates = ids.clone();
        updates[axis] = domain.add_for(&op.operand(1)?.dims[axis], LoopKind::Whole);
        domain.operands.fill(IndexExpr::each(&updates));
        domain.operands[0] = IndexExpr::each(&ids);
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain.settled(op))
    }

    /// In the form, indices and updates have their own axis at the place where the operand has the axis.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let along = self.along(op).ok()?;
        let over = |axis| ScatterElements { axis, ..*self };
        let form = axes.along(along, |axis| over(axis).write())?;
        // The result has the axes of the first operand.
        exchanged(axes, form, along, &[0, axes.n_operands()])
    }

    fn updates(&self, _: &OpRef<'_>) -> Option<Update> {
        Some(Update { of: 0, by: 2 })
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        traffic(op)
    }

    fn indexed(&self, op: &OpRef<'_>) -> Option<(usize, Vec<Dim>)> {
        indexed_axis(op, SCATTER_ELEMENTS_C1, self.axis)
    }
}

codes! {
    const CODES;

    SCATTER_ELEMENTS_C1 = program(
        "`hbir.scatter_elements` names an axis that its first operand does not have",
        r#"%0 = "hbir.scatter_elements"(%x, %y, %z) <{axis = 1}> : (tensor<4xf32>, tensor<2xsi64>, tensor<2xf32>) -> tensor<4xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    SCATTER_ELEMENTS_C2 = program(
        "the indices of `hbir.scatter_elements` are no integers",
        r#"%0 = "hbir.scatter_elements"(%x, %y, %z) : (tensor<4xf32>, tensor<2xf32>, tensor<2xf32>) -> tensor<4xf32>"#,
        "cast the indices to `si64` or `si32`",
    );
    SCATTER_ELEMENTS_C3 = program(
        "indices and first operand of `hbir.scatter_elements` differ in rank",
        r#"%0 = "hbir.scatter_elements"(%x, %y, %z) : (tensor<4xf32>, tensor<2x1xsi64>, tensor<2xf32>) -> tensor<4xf32>"#,
        "give the indices one dimension for each of the first operand",
    );
    SCATTER_ELEMENTS_C4 = program(
        "the updates of `hbir.scatter_elements` differ from the indices in shape, or from the first operand in element type",
        r#"%0 = "hbir.scatter_elements"(%x, %y, %z) : (tensor<4xf32>, tensor<2xsi64>, tensor<3xf32>) -> tensor<4xf32>"#,
        "give one update for each index",
    );
    SCATTER_ELEMENTS_C5 = program(
        "`reduction` of `hbir.scatter_elements` is no known reduction",
        r#"%0 = "hbir.scatter_elements"(%x, %y, %z) <{reduction = "avg"}> : (tensor<4xf32>, tensor<2xsi64>, tensor<2xf32>) -> tensor<4xf32>"#,
        "use one of the words that the message lists",
    );
}
