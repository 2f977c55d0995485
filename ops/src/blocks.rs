//! Blocks of channels as blocks of pixels and back, on N C H W: a reshape to six dimensions, a transpose and a reshape.
//! `canonicalize` replaces both operations by these three.

use crate::prelude::*;
use crate::shape::moves;

/// A reshape, a transpose and a reshape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// The six dimensions between the first reshape and the transpose.
    pub shape: Vec<Dim>,
    /// The transpose: `perm[i]` is the input axis of output axis `i`.
    pub perm: Vec<usize>,
    /// The result's dimensions.
    pub result: Vec<Dim>,
}

impl BlockMap {
    /// The equivalent view.
    #[must_use]
    pub fn view(self) -> ViewDims {
        ViewDims {
            shape: self.shape,
            perm: self.perm,
        }
    }

    pub(crate) fn infer(self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        one(self.result, op.operand(0)?.dtype)
    }

    pub(crate) fn traffic(&self) -> Traffic {
        if moves(&self.shape, &self.perm) {
            Traffic::Movement
        } else {
            Traffic::None
        }
    }
}

/// The operand's dimensions, and the block size.
///
/// # Errors
/// C1: rank 4. C2: a positive block size.
pub(crate) fn cut<'a>(op: &OpRef<'a>, size: i64) -> Result<([&'a Dim; 4], u64), OpError> {
    let x = op.operand(0)?;
    let [n, c, h, w] = x.dims.as_slice() else {
        let message = format!("{} of {}, wanted rank 4", op.name, show(&x.dims));
        return Err(OpError::new(DEPTH_TO_SPACE_C1, message));
    };
    let b = u64::try_from(size)
        .ok()
        .filter(|&b| 0 < b && b < 1 << 16)
        .ok_or_else(|| {
            let message = format!("{} has blocksize = {size}, wanted 1 or more", op.name);
            OpError::new(DEPTH_TO_SPACE_C2, message)
        })?;
    Ok(([n, c, h, w], b))
}

pub(crate) fn times(dim: &Dim, by: u64) -> Dim {
    computed(dim, |n| n.times(&Size::from(by)))
}

/// `dim / by`, which must be a whole number (C3).
pub(crate) fn part(op: &OpRef<'_>, dim: &Dim, by: u64) -> Result<Dim, OpError> {
    match dim {
        _ if by == 1 => Ok(dim.clone()),
        Dim::Fixed(n) if n % by == 0 => Ok(Dim::Fixed(n / by)),
        Dim::Symbol(_) | Dim::Unknown => Ok(computed(dim, |n| n.quotient(&Size::from(by)))),
        Dim::Fixed(n) => {
            let message = format!(
                "{} divides {n} elements by {by}, wanted a multiple",
                op.name
            );
            Err(OpError::new(DEPTH_TO_SPACE_C3, message))
        }
    }
}

codes! {
    pub(crate) const CODES;

    DEPTH_TO_SPACE_C1 = program(
        "the operand of `hbir.depth_to_space` or `hbir.space_to_depth` is not of rank 4",
        r#"%0 = "hbir.depth_to_space"(%x) <{blocksize = 2}> : (tensor<4x1x2xf32>) -> tensor<1x2x4xf32>"#,
        "give an operand [N, C, H, W]",
    );
    DEPTH_TO_SPACE_C2 = program(
        "`blocksize` is not above 0",
        r#"%0 = "hbir.depth_to_space"(%x) <{blocksize = 0}> : (tensor<1x4x1x2xf32>) -> tensor<1x4x1x2xf32>"#,
        "give a block size from 1 on",
    );
    DEPTH_TO_SPACE_C3 = program(
        "the block size does not divide what it cuts: the channels by its square for `hbir.depth_to_space`, height and width for `hbir.space_to_depth`",
        r#"%0 = "hbir.depth_to_space"(%x) <{blocksize = 3}> : (tensor<1x4x1x2xf32>) -> tensor<1x1x3x6xf32>"#,
        "choose a block size that divides, or pad the operand",
    );
    DEPTH_TO_SPACE_C4 = program(
        r#"`mode` of `hbir.depth_to_space` is neither "DCR" nor "CRD""#,
        r#"%0 = "hbir.depth_to_space"(%x) <{blocksize = 2, mode = "RCD"}> : (tensor<1x4x1x2xf32>) -> tensor<1x1x2x4xf32>"#,
        r#"write one of the two; without `mode` it is "DCR""#,
    );
}
