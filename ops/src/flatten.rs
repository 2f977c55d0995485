//! `hbir.flatten`: the operand as a matrix. The dimensions before `axis` are merged into one, and so are the others
//! (ONNX `Flatten`).

use crate::prelude::*;

attributes! {
    /// The operand as a matrix: the dimensions before an axis are merged into one, and so are the others.
    pub struct Flatten {
        /// The axis, or the rank; negative ones count from the end.
        axis: i64 = 1,
    }
}

impl Operation for Flatten {
    const NAME: &'static str = "hbir.flatten";
    const SUMMARY: &'static str =
        "a matrix: the dimensions before an axis, and those from the axis on";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: an axis of the operand, or its rank.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let axis = self.axis;
        let rank = x.rank() as i64;
        let at = if axis < 0 {
            axis.saturating_add(rank)
        } else {
            axis
        };
        let at = usize::try_from(at)
            .ok()
            .filter(|&a| a <= x.rank())
            .ok_or_else(|| {
                let message = format!("hbir.flatten has axis {axis}, wanted {} to {rank}", -rank);
                OpError::new(FLATTEN_C1, message)
            })?;
        one(vec![merged(&x.dims[..at]), merged(&x.dims[at..])], x.dtype)
    }

    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Ok(ViewDims::reshape(&op.operand(0)?.dims))
    }
}

/// The product of several extents.
fn merged(dims: &[Dim]) -> Dim {
    let long: Vec<&Dim> = dims.iter().filter(|d| !d.is_one()).collect();
    match long.as_slice() {
        [] => Dim::Fixed(1),
        [one] => (*one).clone(),
        many => {
            let sizes: Option<Vec<Size>> = many.iter().map(|d| d.size()).collect();
            let product = sizes.and_then(|sizes| Size::product(&sizes));
            product.map_or(Dim::Unknown, |size| Dim::of_size(&size))
        }
    }
}

codes! {
    const CODES;

    FLATTEN_C1 = program(
    "`axis` of `hbir.flatten` lies outside 0 to the rank",
    r#"%0 = "hbir.flatten"(%x) <{axis = 3}> : (tensor<2x3xf32>) -> tensor<6x1xf32>"#,
    "the axis is where the dimensions are parted: 0 to the rank, negative numbers from the end",
);
}
