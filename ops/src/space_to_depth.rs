//! `hbir.space_to_depth` (ONNX `SpaceToDepth`): reshape to `[N, C, H/b, b, W/b, b]`, transpose by
//! `[0, 3, 5, 1, 2, 4]`, reshape to `[N, C·b², H/b, W/b]`.

use crate::blocks::{self, BlockMap, part, times};
use crate::prelude::*;

attributes! {
    /// Blocks of pixels become blocks of channels.
    pub struct SpaceToDepth {
        /// The height and width of a block.
        blocksize: i64,
    }
}

impl SpaceToDepth {
    /// The reshape, transpose and reshape that compute the same.
    ///
    /// # Errors
    /// C1: rank 4. C2: a positive block size. C3: the block size divides the known extents.
    pub fn block_map(&self, op: &OpRef<'_>) -> Result<BlockMap, OpError> {
        let ([n, c, h, w], b) = blocks::cut(op, self.blocksize)?;
        let block = Dim::Fixed(b);
        let (outer_h, outer_w) = (part(op, h, b)?, part(op, w, b)?);
        let result = vec![n.clone(), times(c, b * b), outer_h.clone(), outer_w.clone()];
        let shape = vec![n.clone(), c.clone(), outer_h, block.clone(), outer_w, block];
        Ok(BlockMap {
            shape,
            perm: vec![0, 3, 5, 1, 2, 4],
            result,
        })
    }
}

impl Operation for SpaceToDepth {
    const NAME: &'static str = "hbir.space_to_depth";
    const SUMMARY: &'static str = "blocks of pixels become blocks of channels";
    const FAMILY: &'static str = "barrier";
    const OPERANDS: (usize, usize) = (1, 1);
    const MOVES_ONLY: bool = true;
    const CODES: &'static [Code] = blocks::CODES;

    fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
        self.block_map(op)?.infer(op)
    }

    fn traffic(&self, op: &OpRef<'_>) -> Traffic {
        self.block_map(op)
            .map_or(Traffic::Movement, |map| map.traffic())
    }

    /// A barrier: `canonicalize` writes it as reshapes and a transpose.
    fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
        Ok(IterationDomain::whole(op))
    }

    fn rearrangement(&self, op: &OpRef<'_>) -> Result<ViewDims, OpError> {
        Ok(self.block_map(op)?.view())
    }
}
