//! `hbir.unsqueeze`: adds dimensions of extent 1, which are at `axes` of the result (ONNX `Unsqueeze`).

use crate::lists::distinct_axes;
use crate::prelude::*;

attributes! {
    /// The operand with more dimensions of extent 1.
    pub struct Unsqueeze {
        /// The positions of the new dimensions in the result; negative ones count from the end.
        axes: Vec<i64>,
    }
}

impl Operation for Unsqueeze {
    const NAME: &'static str = "hbir.unsqueeze";
    const SUMMARY: &'static str = "with more dimensions of extent 1";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: each axis is an axis of the result and occurs once.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let rank = x.rank() + self.axes.len();
        let new = distinct_axes(op, UNSQUEEZE_C1, "axes", &self.axes, rank)?;
        let mut old = x.dims.iter().cloned();
        let dim = |d| {
            if new.contains(&d) {
                Some(Dim::Fixed(1))
            } else {
                old.next()
            }
        };
        one((0..rank).filter_map(dim).collect(), x.dtype)
    }

    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Ok(ViewDims::reshape(&op.operand(0)?.dims))
    }
}

codes! {
    const CODES;

    UNSQUEEZE_C1 = program(
    "`axes` of `hbir.unsqueeze` names an axis twice, or one that the result does not have",
    r#"%0 = "hbir.unsqueeze"(%x) <{axes = [3]}> : (tensor<2x3xf32>) -> tensor<2x3x1xf32>"#,
    "the axes are those of the result, whose rank is that of the operand plus the number of axes",
);
}
