//! The limits of a target for tiles: memory on chip, and rules for blocks of values in memory.

use crate::tile_propagate::local::Shape;
use crate::tile_propagate::stored::{Stored, bytes_on_chip};
use optc_check::roofline::seconds;
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
    /// Programs that run at the same time, if they share nothing on chip.
    cores: Option<u64>,
    /// The most work of a group, as a multiple of the work of its operations apart.
    pub(crate) max_work: f64,
    /// The most bytes that a single program moves.
    alone: Option<u64>,
    /// Seconds to start a kernel, and a program of its grid.
    pub(crate) launch: f64,
    pub(crate) step: f64,
    /// Bytes a second of the outermost memory, and of the memory of a program.
    pub(crate) outer: Option<f64>,
    pub(crate) inner: Option<f64>,
    /// The bytes of the cache that all programs share, and its bytes a second.
    pub(crate) cache: Option<(u64, f64)>,
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
            cores: target
                .cores
                .filter(|_| target.programs == Programs::Concurrent),
            max_work: target.max_work,
            alone: target.alone,
            launch: target.launch,
            step: target.step,
            outer: target.memory.first().map(|level| level.bandwidth),
            inner: target.memory.last().map(|level| level.bandwidth),
            cache: target
                .cache()
                .map(|level| (level.bytes.unwrap_or(u64::MAX), level.bandwidth)),
            target: target.clone(),
        }
    }

    /// True if this many programs may move these bytes: a single one moves only so many.
    pub(crate) fn shares_out(&self, programs: u64, bytes: u64) -> bool {
        programs != 1 || self.alone.is_none_or(|most| bytes <= most)
    }

    /// The time of a plan as far as it decides: 0 for a target that does not state what a step of a grid takes. Without
    /// that, cuts into very small steps would seem to cost nothing; there bytes decide.
    pub(crate) fn deciding(&self, time: u64) -> u64 {
        if self.is_timed() { time } else { 0 }
    }

    /// Returns whether time decides between plans.
    pub(crate) fn is_timed(&self) -> bool {
        0.0 < self.step
    }

    /// The share of a machine that this many programs at a time keep busy. In the last turn some cores may be idle.
    pub(crate) fn share(&self, parallel: u64) -> f64 {
        self.cores.map_or(1.0, |cores| {
            let places = parallel.max(1).div_ceil(cores).saturating_mul(cores);
            seconds(parallel.max(1), seconds(places, 1.0))
        })
    }

    /// Returns whether data on chip may be kept for the next step along an axis. Programs that run at the same time
    /// share nothing. The steps of a sum are one program.
    pub(crate) fn shares(&self, axis: &Axis) -> bool {
        !self.concurrent || axis.order == Order::Arbitrary
    }

    pub(crate) fn target(&self) -> &Target {
        &self.target
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

    /// Returns whether kernels read and write boxes of row-major values alone, whatever the layouts are.
    pub(crate) fn reads_row_major(&self) -> bool {
        matches!(self.backend, Some(Backend::Tpu(_)))
    }

    /// Returns whether a program can read this part of a larger block. A TPU reads lanes and rows at places that depend on
    /// the program only from whole vectors on, but for single rows.
    pub(crate) fn reads(&self, part: &Tile) -> bool {
        let (rows, lanes) = self.padding;
        let whole = |span: &Span, unit: u64| {
            let (step, least) = span.start.steps();
            let unit = i64::try_from(unit).unwrap_or(i64::MAX);
            step == 0 || (step % unit == 0 && least % unit == 0)
        };
        let (last, lead) = match part.0.as_slice() {
            [lead @ .., last] => (last, lead),
            [] => return true,
        };
        let row = lead.last();
        !self.reads_row_major()
            || (whole(last, lanes) && row.is_none_or(|row| row.extent == 1 || whole(row, rows)))
    }

    /// The bytes of a tile of a value on chip, in elements of this width, with the target's padding: in the value's
    /// order, and as a kernel is written. A kernel for a TPU has its blocks in the order of the dimensions, and one of
    /// Triton has blocks of a power of two, whatever the layout is.
    pub(crate) fn bytes(&self, shape: &Shape, tile: &Tile, bits: u32, grid: &[u64]) -> u64 {
        let bytes = |stored, tile| bytes_on_chip(&self.target, stored, tile, bits, grid);
        match self.backend {
            Some(Backend::Tpu(_)) if !shape.stored.is_plain() => {
                let written = Stored::plain(shape.dims.len());
                bytes(&shape.stored, tile).max(bytes(&written, tile))
            }
            Some(Backend::Triton) => {
                let mut blocks = tile.clone();
                for span in &mut blocks.0 {
                    span.extent = self.rounded(span.extent);
                }
                bytes(&shape.stored, &blocks)
            }
            _ => bytes(&shape.stored, tile),
        }
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
