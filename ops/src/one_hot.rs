//! `hbir.one_hot`: for each index a new dimension of extent `depth` at `axis`, which holds 1 at the index and 0
//! elsewhere (ONNX `OneHot`). A second operand `[off, on]` gives other values than 0 and 1. An index below 0 counts
//! from the end; an index out of bounds gives no 1. The result has the element type of the second operand, else `to`.

use crate::prelude::*;

attributes! {
    /// A new dimension that marks each index.
    pub struct OneHot {
        /// The extent of the new dimension.
        depth: i64,
        /// The position of the new dimension in the result; negative ones count from the end.
        axis: i64 = -1,
        /// The element type of the result if there is no second operand.
        to: DType = DType::F32,
    }
}

impl OneHot {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The result has no such dimension (`one-hot-c2`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, ONE_HOT_C2, self.axis, op.operand(0)?.rank() + 1)
    }
}

impl Operation for OneHot {
    const NAME: &'static str = "hbir.one_hot";
    const SUMMARY: &'static str = "a new dimension that marks each index";
    const FAMILY: &'static str = "broadcast";
    const OPERANDS: (usize, usize) = (1, 2);
    const MOVES_ONLY: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: the indices are integers. C2: `axis` is an axis of the result. C3: a positive depth. C4: the second operand
    /// is `[off, on]`.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        wants_index(op, ONE_HOT_C1, 0)?;
        let axis = self.along(op)?;
        let depth = self.depth;
        let size = u64::try_from(depth)
            .ok()
            .filter(|&d| 0 < d)
            .ok_or_else(|| {
                OpError::new(
                    ONE_HOT_C3,
                    format!("hbir.one_hot has depth = {depth}, wanted 1 or more"),
                )
            })?;
        let mut dtype = self.to;
        if 1 < op.operands.len() {
            let values = op.operand(1)?;
            if values.dims != [Dim::Fixed(2)] {
                let message = format!("hbir.one_hot has values {}, wanted [2]", show(&values.dims));
                return Err(OpError::new(ONE_HOT_C4, message));
            }
            dtype = values.dtype;
        }
        let mut dims = x.dims.clone();
        dims.insert(axis, Dim::Fixed(size));
        one(dims, dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let (x, shape) = (call.input(0), call.shape());
        let axis = self.along(call.op)?;
        let depth = shape[axis];
        let inner: usize = shape[axis + 1..].iter().product();
        let n = shape.iter().product::<usize>();
        let marked = |i: usize| {
            let index = x.i64_at(i / (depth * inner) * inner + i % inner);
            let index = if index < 0 {
                index.saturating_add(depth as i64)
            } else {
                index
            };
            index == (i / inner % depth) as i64
        };
        if let Some(values) = call.inputs.get(1) {
            return Ok(vec![values.gather(shape, |i| usize::from(marked(i)))]);
        }
        Ok(call.floats((0..n).map(|i| f64::from(u8::from(marked(i))))))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let axis = self.along(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&op.result(0)?.dims);
        domain.along(ids[axis]);
        let mut indices = ids.clone();
        indices.remove(axis);
        domain.operands[0] = IndexExpr::each(&indices);
        if 1 < op.operands.len() {
            let values = domain.add(2, LoopKind::Whole);
            domain.operands[1] = IndexExpr::each(&[values]);
        }
        domain.results[0] = IndexExpr::each(&ids);
        Ok(domain)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let result = axes.n_operands();
        let marked = axes.whole(axes.label(result, self.along(op).ok()?)?)?;
        let own = axes.own(result);
        let axis = own.iter().position(|run| *run == marked)? as i64;
        Some(axes.each_own(OneHot { axis, ..*self }.write()))
    }
}

codes! {
    const CODES;

    ONE_HOT_C1 = program(
        "the indices of `hbir.one_hot` are no integers",
        r#"%0 = "hbir.one_hot"(%x) <{depth = 3}> : (tensor<3xf32>) -> tensor<3x3xf32>"#,
        "cast the indices to `si64` or `si32`",
    );
    ONE_HOT_C2 = program(
        "`hbir.one_hot` names an axis that its result does not have",
        r#"%0 = "hbir.one_hot"(%x) <{depth = 3, axis = 2}> : (tensor<3xsi64>) -> tensor<3x3xf32>"#,
        "the result has one dimension more than the indices; -1 appends it",
    );
    ONE_HOT_C3 = program(
        "`depth` of `hbir.one_hot` is not above 0",
        r#"%0 = "hbir.one_hot"(%x) <{depth = 0}> : (tensor<3xsi64>) -> tensor<3x0xf32>"#,
        "the depth is the number of classes, at least 1",
    );
    ONE_HOT_C4 = program(
        "the second operand of `hbir.one_hot` is not a vector of two elements",
        r#"%0 = "hbir.one_hot"(%x, %y) <{depth = 3}> : (tensor<3xsi64>, tensor<3xf32>) -> tensor<3x3xf32>"#,
        "give `[off, on]`, or leave it out for 0 and 1",
    );
}
