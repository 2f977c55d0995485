//! `hbir.top_k`: the `k` greatest (with `largest = false`, the least) elements along `axis`, and their indices (ONNX
//! `TopK`).
//!
//! The results are the values and the si64 indices. The greatest (the least) element comes first, even with
//! `sorted = false`. Of equal elements the one with the lower index comes first. NaN counts as the greatest.

use crate::arg::element_order;
use crate::lanes::Lanes;
use crate::over_axes::exchanged;
use crate::prelude::*;

attributes! {
    /// The k greatest or least elements along an axis and their indices.
    pub struct TopK {
        /// The number of elements; the greatest `i64` means all elements.
        k: i64,
        /// The axis; negative ones count from the end.
        axis: i64 = -1,
        /// True for the greatest elements, false for the least.
        largest: bool = true,
        /// True if the order of the results matters; they are sorted in any case.
        sorted: bool = true,
    }
}

impl TopK {
    /// The value of `k` that means all elements along the axis.
    pub const ALL: i64 = i64::MAX;

    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The operand has no such dimension (`top-k-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, TOP_K_C1, self.axis, op.operand(0)?.rank())
    }
}

impl Operation for TopK {
    const NAME: &'static str = "hbir.top_k";
    const SUMMARY: &'static str =
        "the k greatest or least elements along an axis and their indices";
    const FAMILY: &'static str = "reduce";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = CODES;

    /// C1: `axis` is an axis of the operand. C2: `k` is between 0 and the extent of the axis.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let axis = self.along(op)?;
        let k = self.k;
        let mut dims = x.dims.clone();
        if k != TopK::ALL {
            let size = u64::try_from(k).ok();
            let size = size.filter(|&k| x.dims[axis].fixed().is_none_or(|n| k <= n));
            dims[axis] = Dim::Fixed(size.ok_or_else(|| {
                let message = format!("hbir.top_k has k = {k}, wanted 0 to {}", x.dims[axis]);
                OpError::new(TOP_K_C2, message)
            })?);
        }
        let values = Inferred {
            dims: dims.clone(),
            dtype: x.dtype,
        };
        Ok(vec![
            values,
            Inferred {
                dims,
                dtype: DType::SI64,
            },
        ])
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let axis = self.along(call.op)?;
        let shape = call.shape();
        let mut places = vec![0; shape.iter().product()];
        let mut indices = vec![0i64; places.len()];
        let (from, to) = (Lanes::new(&x.shape, axis), Lanes::new(&shape, axis));
        for ((start, step), (out, out_step)) in from.iter().zip(to.iter()) {
            let mut order: Vec<usize> = (0..from.n).collect();
            order.sort_by(|&i, &j| {
                let order = element_order(x, start + i * step, start + j * step);
                if self.largest { order.reverse() } else { order }
            });
            for (rank, &i) in order.iter().take(to.n).enumerate() {
                places[out + rank * out_step] = start + i * step;
                indices[out + rank * out_step] = i as i64;
            }
        }
        let values = x.gather(shape.clone(), |i| places[i]);
        Ok(vec![values, Tensor::from_i64(DType::SI64, shape, indices)])
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let axis = self.along(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&op.result(0)?.dims);
        domain.along(ids[axis]);
        let mut own = ids.clone();
        own[axis] = domain.add_for(&op.operand(0)?.dims[axis], LoopKind::Whole);
        domain.operands[0] = IndexExpr::each(&own);
        domain.results.fill(IndexExpr::each(&ids));
        Ok(domain)
    }

    /// In the form, the results have their own axis at the place where the operand has the axis.
    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let along = self.along(op).ok()?;
        let form = axes.along(along, |axis| TopK { axis, ..*self }.write())?;
        exchanged(axes, form, along, &[0])
    }
}

codes! {
    const CODES;

    TOP_K_C1 = program(
        "`hbir.top_k` names an axis that its operand does not have",
        r#"%0:2 = "hbir.top_k"(%x) <{axis = 1, k = 1}> : (tensor<3xf32>) -> (tensor<1xf32>, tensor<1xsi64>)"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    TOP_K_C2 = program(
        "`k` of `hbir.top_k` does not lie between 0 and the size of the axis",
        r#"%0:2 = "hbir.top_k"(%x) <{k = 4}> : (tensor<3xf32>) -> (tensor<4xf32>, tensor<4xsi64>)"#,
        "ask for at most as many elements as there are",
    );
}
