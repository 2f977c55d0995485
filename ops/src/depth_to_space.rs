//! `hbir.depth_to_space` (ONNX `DepthToSpace`): reshape to `[N, b, b, C/b², H, W]` (`mode = "DCR"`) or
//! `[N, C/b², b, b, H, W]` (`"CRD"`), transpose such that each block dimension follows H or W, reshape to
//! `[N, C/b², H·b, W·b]`.

use crate::blocks::{self, BlockMap, part, times};
use crate::prelude::*;

words! {
    /// The order of pixels and channels in the operand's channel dimension.
    pub enum DepthMode {
        /// The pixel in the block comes before the channel.
        Dcr = "DCR",
        /// The channel comes before the pixel in the block.
        Crd = "CRD",
    }
}

attributes! {
    /// Blocks of channels become blocks of pixels.
    pub struct DepthToSpace {
        /// The height and width of a block.
        blocksize: i64,
        /// The order of pixels and channels in the operand's channel dimension.
        mode: DepthMode [blocks::DEPTH_TO_SPACE_C4] = DepthMode::Dcr,
    }
}

impl DepthToSpace {
    /// The reshape, transpose and reshape that compute the same.
    ///
    /// # Errors
    /// C1: rank 4. C2: a positive block size. C3: the block size divides the known extents.
    pub fn block_map(&self, op: &OpRef<'_>) -> Result<BlockMap, OpError> {
        let ([n, c, h, w], b) = blocks::cut(op, self.blocksize)?;
        let block = Dim::Fixed(b);
        let depth = part(op, c, b * b)?;
        let result = vec![n.clone(), depth.clone(), times(h, b), times(w, b)];
        let (blocks, perm) = match self.mode {
            DepthMode::Dcr => ([block.clone(), block, depth], vec![0, 3, 4, 1, 5, 2]),
            DepthMode::Crd => ([depth, block.clone(), block], vec![0, 1, 4, 2, 5, 3]),
        };
        let shape = [vec![n.clone()], blocks.to_vec(), vec![h.clone(), w.clone()]].concat();
        Ok(BlockMap {
            shape,
            perm,
            result,
        })
    }
}

impl Operation for DepthToSpace {
    const NAME: &'static str = "hbir.depth_to_space";
    const SUMMARY: &'static str = "blocks of channels become blocks of pixels";
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
