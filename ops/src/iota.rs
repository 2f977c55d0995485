//! `hbir.iota`: `y[i] = i[axis]`, the index along `axis` (StableHLO `iota`). The result type states shape and element
//! type.

use crate::prelude::*;

attributes! {
    /// The index along an axis.
    pub struct Iota {
        /// The axis; negative ones count from the end.
        axis: i64 = 0,
    }
}

impl Iota {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The result has no such dimension (`iota-c1`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        as_axis(op, IOTA_C1, self.axis, op.result(0)?.rank())
    }
}

impl Operation for Iota {
    const NAME: &'static str = "hbir.iota";
    const SUMMARY: &'static str = "the index along an axis";
    const FAMILY: &'static str = "source";
    const OPERANDS: (usize, usize) = (0, 0);
    const CODES: &'static [Code] = CODES;

    /// C1: `axis` is an axis of the result. C2: the result is of numbers.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let result = op.result(0)?;
        self.along(op)?;
        if result.dtype.is_bool() {
            return Err(OpError::new(
                IOTA_C2,
                "hbir.iota of i1, wanted a float or an integer type",
            ));
        }
        one(result.dims.clone(), result.dtype)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let shape = call.shape();
        let axis = self.along(call.op)?;
        let inner: usize = shape[axis + 1..].iter().product();
        let n: usize = shape.iter().product();
        Ok(call.integers((0..n).map(|i| (i / inner % shape[axis]) as i128)))
    }

    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        source(op)
    }
}

/// The results may be in any order; sources are not tiled.
pub(crate) fn source(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let mut domain = IterationDomain::new(op, FreedomClass::Source);
    for i in 0..op.results.len() {
        for (d, dim) in op.result(i)?.dims.iter().enumerate() {
            let extent = dim.fixed().unwrap_or(0);
            let id = domain.add_as(extent, LoopKind::Whole, Role::Parallel);
            domain.results[i][d] = IndexExpr::of(id);
        }
    }
    Ok(domain)
}

codes! {
    const CODES;

    IOTA_C1 = program(
        "`hbir.iota` names an axis that its result does not have",
        r#"%0 = "hbir.iota"() <{axis = 1}> : () -> tensor<3xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    IOTA_C2 = program(
        "`hbir.iota` of booleans, wanted numbers",
        r#"%0 = "hbir.iota"() <{axis = 0}> : () -> tensor<3xi1>"#,
        "count in an integer or float type",
    );
}
