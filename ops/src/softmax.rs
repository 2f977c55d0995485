//! `hbir.softmax`: `y = exp(x - m) / sum exp(x - m)` along `axis`, where m is the greatest element (ONNX `Softmax` of
//! opset 13).

use crate::lanes::Lanes;
use crate::prelude::*;

attributes! {
    /// Exponentials that sum to 1 along an axis.
    pub struct Softmax {
        /// The axis; negative ones count from the end.
        axis: i64 = -1,
    }
}

impl Softmax {
    /// The dimension that `axis` names.
    ///
    /// # Errors
    /// The operand has no such dimension (`softmax-c2`).
    pub fn along(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
        along(op, self.axis)
    }
}

impl Operation for Softmax {
    const NAME: &'static str = "hbir.softmax";
    const SUMMARY: &'static str = "exponentials that sum to 1 along an axis";
    const FAMILY: &'static str = "softmax";
    const OPERANDS: (usize, usize) = (1, 1);
    const CODES: &'static [Code] = CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        infer(op, self.axis)
    }

    fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
        let exponentials = |shifted: f64, sum: f64| shifted.exp() / sum;
        along_lanes(call, self.axis, exponentials)
    }

    fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
        let (mut soft, shifted) = shifted(op, self.axis)?;
        let powers = soft.each(shifted.exp());
        let sum = soft.reduce(Combine::Add, powers.clone(), Expr::A);
        soft.each(powers / sum);
        Some(soft)
    }

    fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
        axes.along(self.along(op).ok()?, |axis| Softmax { axis }.write())
    }

    /// One loop for each dimension. The loop along the axis may be computed online, with a running maximum and sum.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        let axis = self.along(op)?;
        let mut domain = IterationDomain::broadcasting_along(op, &[axis])?;
        domain.loops[axis].kind = LoopKind::Online;
        Ok(domain)
    }
}

/// C2: an axis of the operand.
pub(crate) fn along(op: &OpRef<'_>, axis: i64) -> Result<usize, OpError> {
    as_axis(op, SOFTMAX_C2, axis, op.operand(0)?.rank())
}

/// C1: the operand is of floats. C2: `axis` is an axis of the operand.
pub(crate) fn infer(op: &OpRef<'_>, axis: i64) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    let dtype = wants_float(op, SOFTMAX_C1, 0)?;
    along(op, axis)?;
    one(x.dims.clone(), dtype)
}

/// A composition that begins with the maximum along the axis, and the difference of each element from it.
pub(crate) fn shifted(op: &OpRef<'_>, axis: i64) -> Option<(Composition, Expr)> {
    let mut soft = Composition::new(1, vec![along(op, axis).ok()?]);
    let greatest = soft.reduce(Combine::Max, Expr::A, Expr::A);
    Some((soft, Expr::A - greatest))
}

/// Replaces every element x by `f(x - m, sum)`, where m is the greatest element of its line and `sum` is the sum of
/// `exp(x - m)` over the line.
pub(crate) fn along_lanes(
    call: &Call<'_>,
    axis: i64,
    f: impl Fn(f64, f64) -> f64,
) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let axis = along(call.op, axis)?;
    let mut values = x.to_f64();
    let lanes = Lanes::new(&x.shape, axis);
    for (start, step) in lanes.iter() {
        let places = (0..lanes.n).map(|i| start + i * step);
        let top = places
            .clone()
            .map(|p| values[p])
            .fold(f64::NEG_INFINITY, f64::max);
        let sum: f64 = places.clone().map(|p| (values[p] - top).exp()).sum();
        for p in places {
            values[p] = f(values[p] - top, sum);
        }
    }
    Ok(call.floats(values))
}

codes! {
    pub(crate) const CODES;

    SOFTMAX_C1 = program(
        "`hbir.softmax` or `hbir.log_softmax` of something else than floats",
        r#"%0 = "hbir.softmax"(%x) : (tensor<2xsi8>) -> tensor<2xsi8>"#,
        "cast the operand to a float type",
    );
    SOFTMAX_C2 = program(
        "`hbir.softmax` or `hbir.log_softmax` names an axis that its operand does not have",
        r#"%0 = "hbir.log_softmax"(%x) <{axis = 1}> : (tensor<2xf32>) -> tensor<2xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
}
