//! Blocks of channels as blocks of pixels and back, on N C H W.
//!
//! `hbir.depth_to_space` (ONNX `DepthToSpace`): reshape to `[N, b, b, C/b², H, W]` (`mode = "DCR"`) or
//! `[N, C/b², b, b, H, W]` (`"CRD"`), transpose so that the blocks stand beside H and W, reshape to
//! `[N, C/b², H·b, W·b]`. `hbir.space_to_depth` (ONNX `SpaceToDepth`): reshape to `[N, C, H/b, b, W/b, b]`,
//! transpose by `[0, 3, 5, 1, 2, 4]`, reshape to `[N, C·b², H/b, W/b]`. `canonicalize` writes them so.

use crate::op::{Inferred, OpError, OpRef, Registry, Traffic};
use crate::ops::decl::{Call, Decl};
use crate::ops::shape::{computed, moves, one, show, word};
use crate::size::Size;
use crate::tensor::{EvalError, Tensor};
use crate::types::Dim;

const DEPTH_TO_SPACE: Decl = Decl::new(
    "hbir.depth_to_space",
    "barrier",
    "blocks of channels become blocks of pixels",
    (1, 1),
    infer,
    eval,
)
.traffic(traffic);

const SPACE_TO_DEPTH: Decl = Decl::new(
    "hbir.space_to_depth",
    "barrier",
    "blocks of pixels become blocks of channels",
    (1, 1),
    infer,
    eval,
)
.traffic(traffic);

/// A reshape, a transpose and a reshape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlockMap {
    /// The six dimensions between.
    pub shape: Vec<Dim>,
    /// The transpose: `perm[i]` is the input axis of output axis `i`.
    pub perm: Vec<usize>,
    /// The result's dimensions.
    pub result: Vec<Dim>,
}

/// The reshape, transpose and reshape that a `depth_to_space` or `space_to_depth` is.
///
/// # Errors
/// C1: rank 4. C2: a positive block size. C3: known extents are divided by the block. C4: a known
/// mode.
pub fn block_map(op: &OpRef<'_>) -> Result<BlockMap, OpError> {
    let x = op.operand(0)?;
    let [n, c, h, w] = x.dims.as_slice() else {
        let message = format!("{} of {}, wanted rank 4", op.name, show(&x.dims));
        return Err(OpError::new("depth-to-space-c1", message));
    };
    let size = op.int("blocksize")?;
    let b = u64::try_from(size)
        .ok()
        .filter(|&b| 0 < b && b < 1 << 16)
        .ok_or_else(|| {
            let message = format!("{} has blocksize = {size}, wanted 1 or more", op.name);
            OpError::new("depth-to-space-c2", message)
        })?;
    let block = Dim::Fixed(b);
    if op.name == "hbir.space_to_depth" {
        let (outer_h, outer_w) = (part(op, h, b)?, part(op, w, b)?);
        let result = vec![n.clone(), times(c, b * b), outer_h.clone(), outer_w.clone()];
        let shape = vec![n.clone(), c.clone(), outer_h, block.clone(), outer_w, block];
        return Ok(BlockMap {
            shape,
            perm: vec![0, 3, 5, 1, 2, 4],
            result,
        });
    }
    let depth = part(op, c, b * b)?;
    let result = vec![n.clone(), depth.clone(), times(h, b), times(w, b)];
    let mode = word(op, "depth-to-space-c4", "mode", &["DCR", "CRD"], "DCR")?;
    let (blocks, perm) = if mode == "DCR" {
        ([block.clone(), block, depth], vec![0, 3, 4, 1, 5, 2])
    } else {
        ([depth, block.clone(), block], vec![0, 1, 4, 2, 5, 3])
    };
    let shape = [vec![n.clone()], blocks.to_vec(), vec![h.clone(), w.clone()]].concat();
    Ok(BlockMap {
        shape,
        perm,
        result,
    })
}

fn times(dim: &Dim, by: u64) -> Dim {
    computed(dim, |n| n.times(&Size::from(by)))
}

/// `dim / by`, which must be a whole number.
fn part(op: &OpRef<'_>, dim: &Dim, by: u64) -> Result<Dim, OpError> {
    match dim {
        _ if by == 1 => Ok(dim.clone()),
        Dim::Fixed(n) if n % by == 0 => Ok(Dim::Fixed(n / by)),
        Dim::Symbol(_) | Dim::Unknown => Ok(computed(dim, |n| n.quotient(&Size::from(by)))),
        Dim::Fixed(n) => {
            let message = format!(
                "{} divides {n} elements by {by}, wanted a multiple",
                op.name
            );
            Err(OpError::new("depth-to-space-c3", message))
        }
    }
}

fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    one(block_map(op)?.result, op.operand(0)?.dtype)
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let map = block_map(call.op).map_err(|e| EvalError::new(e.message))?;
    let extent = |d: &Dim| d.fixed().and_then(|n| usize::try_from(n).ok());
    let shape: Option<Vec<usize>> = map.shape.iter().map(extent).collect();
    let shape = shape.ok_or_else(|| EvalError::new("an extent is unknown"))?;
    let out = call.input(0).reshaped(shape).transposed(&map.perm);
    Ok(vec![out.reshaped(call.shape())])
}

fn traffic(op: &OpRef<'_>) -> Traffic {
    match block_map(op) {
        Ok(map) if !moves(&map.shape, &map.perm) => Traffic::None,
        _ => Traffic::Movement,
    }
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(DEPTH_TO_SPACE);
    registry.add(SPACE_TO_DEPTH);
}
