//! `hbir.squeeze`: drops the dimensions of extent 1 at `axes`, or all of them when `axes` is absent (ONNX `Squeeze`).

use crate::lists::distinct_axes;
use crate::prelude::*;

attributes! {
    /// The operand without dimensions of extent 1.
    pub struct Squeeze {
        /// The axes to drop; negative ones count from the end. All axes of extent 1 when absent.
        axes: Option<Vec<i64>>,
    }
}

impl Operation for Squeeze {
    const NAME: &'static str = "hbir.squeeze";
    const SUMMARY: &'static str = "without dimensions of extent 1";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: each axis is an axis of the operand and occurs once. C2: no extent is known to differ from 1.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let dropped = match &self.axes {
            Some(axes) => distinct_axes(op, SQUEEZE_C1, "axes", axes, x.rank())?,
            None => (0..x.rank()).filter(|&d| x.dims[d].is_one()).collect(),
        };
        if let Some(&d) = dropped
            .iter()
            .find(|&&d| x.dims[d].fixed().is_some_and(|n| n != 1))
        {
            let message = format!(
                "hbir.squeeze of {} drops axis {d} of size {}, wanted 1",
                show(&x.dims),
                x.dims[d]
            );
            return Err(OpError::new(SQUEEZE_C2, message));
        }
        let kept = (0..x.rank()).filter(|d| !dropped.contains(d));
        one(kept.map(|d| x.dims[d].clone()).collect(), x.dtype)
    }

    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Ok(ViewDims::reshape(&op.operand(0)?.dims))
    }
}

codes! {
    const CODES;

    SQUEEZE_C1 = program(
        "`axes` of `hbir.squeeze` names an axis twice, or one that the operand does not have",
        r#"%0 = "hbir.squeeze"(%x) <{axes = [2]}> : (tensor<2x3xf32>) -> tensor<2x3xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    SQUEEZE_C2 = program(
        "`hbir.squeeze` drops a dimension whose size is not 1",
        r#"%0 = "hbir.squeeze"(%x) <{axes = [1]}> : (tensor<2x3xf32>) -> tensor<2xf32>"#,
        "drop only dimensions of size 1; merge others with `hbir.reshape`",
    );
}
