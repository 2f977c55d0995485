//! The limits of a target for tiles: memory on chip, and rules for blocks of values in memory.

use crate::tile_propagate::local::Shape;
use crate::tile_propagate::stored::bytes_on_chip;
use optc_target::{Blocks, Programs, Target};
use optc_tile::block::{Backend, BlockDim, BlockError, BlockSpec, RankOne};
use optc_tile::{Axis, Order, Span, Tile};
use std::sync::Arc;

/// The limits of a target for tiles.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes on chip.
    pub(crate) memory: u64,
    /// The rules for blocks, if the target has some.
    pub(crate) backend: Option<Backend>,
    /// The rows and lanes of a large tile on chip. Block sizes are multiples of them.
    pub(crate) padding: (u64, u64),
    /// True if programs run at the same time and share nothing on chip.
    pub(crate) concurrent: bool,
    /// A number of parallel programs above which more are no better.
    pub(crate) enough: u64,
    target: Arc<Target>,
}

/// Bytes on chip, for a target that does not state them.
const DEFAULT_MEMORY: u64 = 1 << 20;

/// Parallel programs, for a target that does not state its cores.
pub(crate) const ENOUGH_PARALLEL: u64 = 256;

impl Limits {
    /// `documented` selects the documented rule for vectors instead of the current one.
    pub(crate) fn of(target: &Arc<Target>, documented: bool) -> Limits {
        let memory = target.memory.iter().rev().find_map(|m| m.bytes);
        let rank_one = if documented {
            RankOne::Documented
        } else {
            RankOne::Current
        };
        let backend = target.blocks.map(|blocks| match blocks {
            Blocks::Tpu => Backend::Tpu(rank_one),
            Blocks::MosaicGpu => Backend::MosaicGpu,
            Blocks::Triton => Backend::Triton,
        });
        let tiles = target.full_tiles(32);
        let padding = match tiles.first().map(Vec::as_slice) {
            Some(&[.., rows, lanes]) => (rows, lanes),
            _ => (1, 1),
        };
        Limits {
            memory: memory.unwrap_or(DEFAULT_MEMORY),
            backend,
            padding,
            concurrent: target.programs == Programs::Concurrent,
            enough: target.cores.unwrap_or(ENOUGH_PARALLEL),
            target: target.clone(),
        }
    }

    /// Returns whether data on chip may be kept for the next step along an axis. Programs that run at the same time
    /// share nothing. The steps of a sum are one program.
    pub(crate) fn shares(&self, axis: &Axis) -> bool {
        !self.concurrent || axis.order == Order::Arbitrary
    }

    /// The extent of a block that holds this many elements along a dimension. Some targets only have blocks of a power
    /// of two, which may reach over the end.
    pub(crate) fn rounded(&self, extent: u64) -> u64 {
        match self.backend {
            Some(Backend::Triton) => extent.checked_next_power_of_two().unwrap_or(extent),
            _ => extent,
        }
    }

    /// The block that holds all of a value.
    pub(crate) fn whole(&self, shape: &[u64]) -> Tile {
        let span = |&n: &u64| Span::whole(self.rounded(n));
        Tile(shape.iter().map(span).collect())
    }

    /// The bytes of a tile of a value on chip, in elements of this width, in the value's order and with the target's
    /// padding.
    pub(crate) fn bytes(&self, shape: &Shape, tile: &Tile, bits: u32, grid: &[u64]) -> u64 {
        bytes_on_chip(&self.target, &shape.stored, tile, bits, grid)
    }

    /// Checks that a block of a value in memory keeps the target's rules.
    pub(crate) fn legal(&self, tile: &Tile, shape: &[u64], bits: u32) -> Result<(), BlockError> {
        let Some(backend) = self.backend else {
            return Ok(());
        };
        if shape.is_empty() {
            return Ok(());
        }
        let whole = tile.0.iter().zip(shape).all(|(s, &n)| s.is_whole(n));
        let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        let array: Vec<i64> = shape.iter().map(|&n| number(n)).collect();
        let aligned = |s: &Span| {
            let (step, least) = s.start.steps();
            step % number(s.extent) == 0 && least % number(s.extent) == 0
        };
        let blocked = tile.0.iter().all(aligned);
        let dim = |s: &Span| {
            let size = number(s.extent);
            if blocked {
                BlockDim::Blocked(size)
            } else {
                let lo = s.start.range(&[]).0.min(0).saturating_neg();
                BlockDim::Element { size, lo, hi: 0 }
            }
        };
        if whole && backend != Backend::MosaicGpu && backend != Backend::Triton {
            return Ok(());
        }
        let spec = BlockSpec::new(tile.0.iter().map(dim).collect())?;
        backend.check(&array, &spec, bits.max(8))
    }
}
