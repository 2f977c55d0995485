//! `hbir.split`: consecutive parts along `axis`, result i with `sizes[i]` elements (ONNX `Split`).

use crate::prelude::*;
use crate::shape::{operand_bytes, result_bytes};

attributes! {
    /// Consecutive parts along an axis.
    pub struct Split {
        /// The axis; negative ones count from the end.
        axis: i64,
        /// The extent of each part along the axis.
        sizes: Vec<i64>,
    }
}

impl Operation for Split {
    const NAME: &'static str = "hbir.split";
    const SUMMARY: &'static str = "consecutive parts along an axis";
    const FAMILY: &'static str = "slice";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: `axis` is an axis of the operand. C2: sizes are not negative. C3: their sum is the extent of the axis.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let axis = self.along(op)?;
        let sizes = self.extents()?;
        let sum = sizes.iter().try_fold(0u64, |a, &n| a.checked_add(n));
        if x.dims[axis].fixed().is_some_and(|n| sum != Some(n)) {
            let message = format!(
                "hbir.split of {} along axis {axis} into {sizes:?}, wanted sizes that add up to {}",
                show(&x.dims),
                x.dims[axis]
            );
            return Err(OpError::new(SPLIT_C3, message));
        }
        let result = |&n: &u64| {
            let mut dims = x.dims.clone();
            dims[axis] = Dim::Fixed(n);
            Inferred {
                dims,
                dtype: x.dtype,
            }
        };
        Ok(sizes.iter().map(result).collect())
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let x = call.input(0);
        let axis = self.along(call.op)?;
        let strides = x.strides();
        let mut at = 0;
        let mut out = Vec::with_capacity(call.results.len());
        for target in &call.results {
            let steps = strides.iter().map(|s| s.cast_signed()).collect();
            let start = (at * strides[axis]).cast_signed();
            let mut offsets = Offsets::new(&target.shape, steps, start);
            out.push(x.gather(target.shape.clone(), |_| {
                offsets.next().expect("one an element")
            }));
            at += target.shape[axis];
        }
        Ok(out)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        let label = axes.label(0, self.along(op).ok()?)?;
        let at = axes.first(label).filter(|&at| axes.has_equal_parts(at))?;
        let low = i64::try_from(axes.list()[at].low).ok()?;
        if self.sizes.iter().any(|n| n % low != 0) {
            return None;
        }
        let axis = axes.own(0).iter().position(|run| *run == [at])? as i64;
        let sizes = self.sizes.iter().map(|n| n / low).collect();
        Some(axes.each_own(Split { axis, sizes }.write()))
    }

    /// One loop runs along the axis; each result is addressed from its own start on.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let x = op.operand(0)?;
        let axis = self.along(op)?;
        let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
        let ids = domain.over(&x.dims);
        domain.loops[axis].role = Role::Axis;
        domain.operands[0] = IndexExpr::each(&ids);
        domain.results.fill(IndexExpr::each(&ids));
        let mut before = 0i64;
        for (result, size) in domain.results.iter_mut().zip(self.extents()?) {
            result[axis] = IndexExpr::shifted(axis, 1, -before);
            before = before.saturating_add_unsigned(size);
        }
        Ok(domain)
    }

    /// Result i is a part of the operand, which starts at the sum of the sizes before it.
    fn parts(&self, op: &OpRef<'_>, _: &Known<'_>) -> Vec<Part> {
        let (Ok(axis), Ok(sizes), Ok(x)) = (self.along(op), self.extents(), op.operand(0)) else {
            return Vec::new();
        };
        let mut before = 0u64;
        let part = |(i, size): (usize, u64)| {
            let start = before;
            before = before.saturating_add(size);
            let along = |d: usize| match d == axis {
                true => Along::from(d, Size::from(start)),
                false => Along::whole(d),
            };
            Part {
                part: Port::Result(i),
                whole: Port::Operand(0),
                dims: (0..x.rank()).map(along).collect(),
            }
        };
        sizes.into_iter().enumerate().map(part).collect()
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        if op.results.len() == 1 {
            return Traffic::None;
        }
        Traffic::Copy(operand_bytes(op, 0), result_bytes(op))
    }
}

impl Split {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The operand has no such dimension (`split-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, SPLIT_C1, self.axis, op.operand(0)?.rank())
    }

    /// The parts' extents.
    fn extents(&self) -> Result<Vec<u64>, OpError> {
        let found = &self.sizes;
        let sizes: Option<Vec<u64>> = found.iter().map(|&n| u64::try_from(n).ok()).collect();
        sizes.ok_or_else(|| {
            OpError::new(
                SPLIT_C2,
                format!("hbir.split has sizes = {found:?}, wanted 0 or more each"),
            )
        })
    }
}

codes! {
    const CODES;

    SPLIT_C1 = program(
        "`hbir.split` names an axis that its operand does not have",
        r#"%0 = "hbir.split"(%x) <{axis = 1, sizes = [4]}> : (tensor<4xf32>) -> tensor<4xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    SPLIT_C2 = program(
        "a size of `hbir.split` is negative",
        r#"%0:2 = "hbir.split"(%x) <{axis = 0, sizes = [5, -1]}> : (tensor<4xf32>) -> (tensor<5xf32>, tensor<1xf32>)"#,
        "give sizes from 0 on",
    );
    SPLIT_C3 = program(
        "the sizes of `hbir.split` do not add up to the size of the axis",
        r#"%0:2 = "hbir.split"(%x) <{axis = 0, sizes = [2, 1]}> : (tensor<4xf32>) -> (tensor<2xf32>, tensor<1xf32>)"#,
        "cover the whole axis; use `hbir.slice` for a part",
    );
}
