//! `hbir.view`: reshape to `shape` (default: the operand's), transpose by `perm` (default: identity), row-major reshape
//! to the result's shape. It moves nothing; the verifier checks that the layouts agree.

use crate::lists::{shape_attrs, target_shape};
use crate::prelude::*;
use crate::rearrange::permutation;
use crate::shape::{completed, same_volume};

attributes! {
    /// A reshape, a transpose and a reshape that move nothing.
    pub struct View {
        /// The shape that is transposed: numbers, names of symbols, and at most one -1, which follows from the number
        /// of elements. That of the operand when absent.
        shape: Option<Vec<Attr>>,
        /// The permutation of the dimensions of `shape`; the identity when absent.
        perm: Option<Vec<i64>>,
    }
}

impl View {
    /// The view with these dimensions, of which at most one is unknown. If nothing is transposed, it has neither
    /// `shape` nor `perm`, since the result type states the shape.
    #[must_use]
    pub fn of_dims(view: &ViewDims) -> View {
        let stated = (!view.is_reshape()).then_some(view);
        View {
            shape: stated.map(|view| shape_attrs(&view.shape)),
            perm: stated.map(|view| view.perm.iter().map(|&p| p as i64).collect()),
        }
    }
}

impl Operation for View {
    const NAME: &'static str = "hbir.view";
    const SUMMARY: &'static str = "a reshape, a transpose and a reshape that move nothing";
    const FAMILY: &'static str = "rearrange";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const PASSES_ON: bool = true;
    const STRUCTURE: Structure = Structure::View;
    const CODES: &'static [Code] = CODES;

    /// C1: well-formed entries of `shape`. C2, C3: `perm` is a permutation of its dimensions. C4: the number of
    /// elements stays.
    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        let x = op.operand(0)?;
        let view = self.rearrangement(op)?;
        let result = op.result(0)?;
        same_volume(op, VIEW_C4, &view.shape, &result.dims)?;
        let dims = completed(result.dims.clone(), &view.transposed());
        one(dims, x.dtype)
    }

    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        let x = op.operand(0)?;
        let shape = match &self.shape {
            Some(shape) => target_shape(op, [VIEW_C1, VIEW_C4], Some(shape), &x.dims)?,
            None => x.dims.clone(),
        };
        let perm = match &self.perm {
            Some(perm) => permutation(op, [VIEW_C2, VIEW_C3], perm, shape.len())?,
            None => (0..shape.len()).collect(),
        };
        Ok(ViewDims { shape, perm })
    }
}

codes! {
    const CODES;

    VIEW_C1 = program(
        "an entry of `shape` of `hbir.view` is neither a size, nor the name of a symbol, nor -1, or two are -1",
        r#"%0 = "hbir.view"(%x) <{shape = [-3]}> : (tensor<2x3xf32>) -> tensor<6xf32>"#,
        "write sizes from 0 on, names in quotation marks, and at most one -1",
    );
    VIEW_C2 = program(
        "`perm` of `hbir.view` has another number of entries than `shape`",
        r#"%0 = "hbir.view"(%x) <{perm = [0]}> : (tensor<2x3xf32>) -> tensor<6xf32>"#,
        "`perm` permutes the dimensions of `shape`, or those of the operand when `shape` is left out",
    );
    VIEW_C3 = program(
        "`perm` of `hbir.view` is no permutation",
        r#"%0 = "hbir.view"(%x) <{perm = [0, 2]}> : (tensor<2x3xf32>) -> tensor<6xf32>"#,
        "name each axis of `shape` once",
    );
    VIEW_C4 = program(
        "`hbir.view` changes the number of elements",
        r#"%0 = "hbir.view"(%x) : (tensor<2x3xf32>) -> tensor<5xf32>"#,
        "operand, `shape` and result must have one number of elements; `hbir.subview` takes a part",
    );
}
