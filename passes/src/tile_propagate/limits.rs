//! What a target says about tiles: memory on chip, and the rules for blocks of values in memory.

use crate::tile_propagate::local::Shape;
use crate::tile_propagate::stored::bytes_on_chip;
use optc_target::{Blocks, Programs, Target};
use optc_tile::block::{Backend, BlockDim, BlockSpec, RankOne};
use optc_tile::{Axis, Order, Span, Tile};
use std::sync::Arc;

/// What a target says about tiles.
#[derive(Clone, Debug)]
pub(crate) struct Limits {
    /// Bytes on chip.
    pub(crate) memory: u64,
    /// The rules for blocks, if it has some.
    pub(crate) backend: Option<Backend>,
    /// The rows and lanes of a large tile on chip: block sizes are multiples of them.
    pub(crate) padding: (u64, u64),
    /// Whether programs run at the same time and share nothing on chip.
    pub(crate) concurrent: bool,
    /// More programs at the same time than this are no better.
    pub(crate) enough: u64,
    target: Arc<Target>,
}

/// Bytes on chip of a target that does not say.
const DEFAULT_MEMORY: u64 = 1 << 20;

/// Programs that run at the same time of a target that does not say.
pub(crate) const ENOUGH_PARALLEL: u64 = 256;

impl Limits {
    /// `rank_one`: whether the documented rule for vectors holds in place of the present one.
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

    /// Whether what one program has on chip may be there for the next step along an axis: programs
    /// that run at the same time share nothing, the steps of a sum are one program.
    pub(crate) fn shares(&self, axis: &Axis) -> bool {
        !self.concurrent || axis.order == Order::Arbitrary
    }

    /// The extent of a block that holds so many elements along a dimension: some targets have blocks of
    /// a power of two alone, which reach over the end.
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

    /// The bytes of a tile of a value on chip, in elements of this width: as the value is stored, padded as
    /// the target pads.
    pub(crate) fn bytes(&self, shape: &Shape, tile: &Tile, bits: u32, grid: &[u64]) -> u64 {
        bytes_on_chip(&self.target, &shape.stored, tile, bits, grid)
    }

    /// Whether a block of a value in memory keeps the target's rules; the reason if not.
    pub(crate) fn legal(&self, tile: &Tile, shape: &[u64], bits: u32) -> Result<(), String> {
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
        let spec = BlockSpec::new(tile.0.iter().map(dim).collect()).map_err(|e| e.to_string())?;
        backend
            .check(&array, &spec, bits.max(8))
            .map_err(|e| e.to_string())
    }
}
