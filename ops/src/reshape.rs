//! `hbir.reshape`: the row-major elements in another `shape` (ONNX `Reshape`, StableHLO `reshape`). An entry is a
//! number, a symbol's name or -1 (at most once). Without `shape` the result type states the shape.

use crate::lists::{shape_attrs, sizes, target_shape};
use crate::prelude::*;

attributes! {
    /// The row-major elements in another shape.
    pub struct Reshape {
        /// The shape: numbers, names of symbols, and at most one -1, which follows from the number of elements. That of
        /// the result type when absent.
        shape: Option<Vec<Attr>>,
    }
}

impl Reshape {
    /// The reshape to these extents; -1 follows from the number of elements.
    #[must_use]
    pub fn to<T: Copy + TryInto<i64>>(shape: &[T]) -> Reshape {
        Reshape {
            shape: Some(sizes(shape)),
        }
    }

    /// The reshape to these extents, of which at most one is unknown.
    #[must_use]
    pub fn of_dims(dims: &[Dim]) -> Reshape {
        Reshape {
            shape: Some(shape_attrs(dims)),
        }
    }
}

impl Operation for Reshape {
    const NAME: &'static str = "hbir.reshape";
    const SUMMARY: &'static str = "the row-major elements in another shape";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const CODES: &'static [Code] = CODES;

    /// C1: well-formed entries. C2: the number of elements stays.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let codes = [RESHAPE_C1, RESHAPE_VOLUME_MISMATCH];
        one(
            target_shape(op, codes, self.shape.as_deref(), &x.dims)?,
            x.dtype,
        )
    }

    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Ok(ViewDims::reshape(&op.operand(0)?.dims))
    }
}

codes! {
    const CODES;

    RESHAPE_C1 = program(
        "`shape` has an entry that is neither a size, nor the name of a symbol, nor -1, or has two -1",
        r#"%0 = "hbir.reshape"(%x) <{shape = [-1, -1]}> : (tensor<2x3xf32>) -> tensor<2x3xf32>"#,
        "write sizes from 0 on, names in quotation marks, and at most one -1 for what is left",
    );
    RESHAPE_VOLUME_MISMATCH = program(
        "a reshape changes the number of elements, or its -1 has no whole number",
        r#"%0 = "hbir.reshape"(%x) <{shape = [4, 5]}> : (tensor<2x3xf32>) -> tensor<4x5xf32>"#,
        "the sizes must multiply to the number of elements of the operand",
    );
}
