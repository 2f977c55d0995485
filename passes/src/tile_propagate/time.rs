//! The modelled time of a plan: the arithmetic of its operations, the bytes that it moves, launches and steps.
//!
//! Example: on a machine with 800 GB/s and 100 TFLOP/s, four programs that move 8 MB and compute 500 MFLOP together take
//! 10 µs for the bytes, and 5 / 4 = 1.25 µs for the arithmetic of the one program that overlaps with no transfer.

use crate::tile_propagate::carry::Carried;
use crate::tile_propagate::limits::Limits;
use crate::tile_propagate::local::{Kind, Local, LocalOp};
use optc_check::roofline::seconds;
use optc_ir::op::iteration_domain::Loop;
use optc_tile::{Span, Steps};

/// Times in picoseconds.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    /// The modelled time: the engine that takes longest, the part of the others in the one program with which nothing
    /// overlaps, the launch and the steps of the grid.
    pub(crate) total: u64,
    /// The larger of arithmetic, one unit after the other, and of each level's bytes, and the launch.
    pub(crate) roofline: u64,
    /// The arithmetic of all units.
    pub(crate) compute: u64,
    /// The bytes of the outermost memory, or those of the shared cache, whichever takes longer.
    pub(crate) memory: u64,
    /// The bytes that operations move on chip.
    pub(crate) on_chip: u64,
    /// The engine that takes longest: a unit, or memory.
    longest: u64,
}

impl Time {
    /// The least time of this many programs: everything overlaps.
    pub(crate) fn overlapped(&self, limits: &Limits, programs: u64) -> u64 {
        let steps = limits.step * seconds(programs.max(1) - 1, 1.0);
        self.longest
            .saturating_add(picoseconds(limits.launch + steps))
    }
}

/// The amounts of a plan that take time.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Amounts {
    /// Arithmetic operations, without those that rounding up to the blocks of units adds.
    pub(crate) operations: u64,
    /// Seconds of each unit of the target, by its number.
    pub(crate) units: Vec<f64>,
    /// Bytes that operations without arithmetic read and write on chip.
    pub(crate) on_chip: u64,
    /// Bytes between the programs and the next level.
    pub(crate) bytes: u64,
    /// Bytes of the outermost memory.
    pub(crate) outer: u64,
    /// Programs of the grid.
    pub(crate) programs: u64,
    /// Programs that may run at the same time.
    pub(crate) parallel: u64,
}

impl Amounts {
    /// Adds an operation whose pieces take these steps in each of `programs` programs.
    pub(crate) fn add(&mut self, kind: &Kind, pieces: &[Steps], work: u64, programs: u64) {
        let Some(arithmetic) = &kind.arithmetic else {
            if !kind.free {
                let values = kind.operands.iter().chain(&kind.results);
                let bytes = values.fold(0u64, |sum, shape| sum.saturating_add(shape.bytes()));
                let bytes = in_proportion(bytes, work, steps_of(&kind.domain.loops));
                self.on_chip = self.on_chip.saturating_add(bytes);
            }
            return;
        };
        let blocks = pieces.iter().map(|steps| {
            let extents: Vec<u64> = steps.spans.iter().map(|s| s.extent).collect();
            Some(arithmetic.operations_of(&extents)?.saturating_mul(programs))
        });
        let blocks: Option<Vec<u64>> = blocks.collect();
        let count = match blocks {
            Some(blocks) => blocks.into_iter().fold(0, u64::saturating_add),
            None => {
                let all = arithmetic.operations();
                in_proportion(all, work, steps_of(&kind.domain.loops))
            }
        };
        let least = in_proportion(kind.operations, work, steps_of(&kind.domain.loops));
        self.operations = self.operations.saturating_add(least);
        if let (Some(unit), Some(rate)) = (kind.unit, arithmetic.rate) {
            if self.units.len() <= unit {
                self.units.resize(unit + 1, 0.0);
            }
            self.units[unit] += seconds(count, rate);
        }
    }

    /// Adds an operation in one piece.
    fn add_whole(&mut self, kind: &Kind) {
        let loops = &kind.domain.loops;
        let whole = Steps {
            spans: loops.iter().map(|l| Span::whole(l.extent)).collect(),
            exact: true,
        };
        self.add(kind, &[whole], steps_of(loops), 1);
    }

    /// The time on a target.
    pub(crate) fn time(&self, limits: &Limits) -> Time {
        let share = limits.share(self.parallel);
        let compute: f64 = self.units.iter().sum::<f64>() / share;
        let on_chip = limits
            .inner
            .map_or(0.0, |rate| seconds(self.on_chip, rate) / share);
        let outer = limits.outer.map_or(0.0, |rate| seconds(self.outer, rate));
        let cache = limits
            .cache
            .map_or(0.0, |(_, rate)| seconds(self.bytes, rate) / share);
        let memory = outer.max(cache);
        let engines = self.units.iter().map(|time| time / share);
        let engines = engines.chain([on_chip, memory]);
        let (longest, sum) = engines.fold((0.0f64, 0.0f64), |(most, sum), time| {
            (most.max(time), sum + time)
        });
        let programs = self.programs.max(1);
        let alone = (sum - longest) / seconds(programs, 1.0);
        let steps = limits.step * seconds(programs - 1, 1.0);
        Time {
            total: picoseconds(limits.launch + steps + longest + alone),
            roofline: picoseconds(limits.launch + compute.max(memory).max(on_chip)),
            compute: picoseconds(compute),
            memory: picoseconds(memory),
            on_chip: picoseconds(on_chip),
            longest: picoseconds(longest),
        }
    }
}

/// The amounts of a group in which nothing is computed twice, with these bytes.
pub(crate) fn untiled(local: &Local, bytes: u64) -> Amounts {
    let mut amounts = Amounts {
        bytes,
        outer: bytes,
        programs: 1,
        parallel: 1,
        ..Amounts::default()
    };
    local.ops.iter().for_each(|op| amounts.add_whole(&op.kind));
    amounts
}

/// The modelled time of operations one after the other, in picoseconds: each reads its operands and writes its results
/// once, and its bytes and its arithmetic overlap.
pub(crate) fn apart(local: &Local, limits: &Limits) -> u64 {
    let times = local.ops.iter().filter(|op| !op.kind.free).map(|op| {
        let values = op.kind.operands.iter().chain(&op.kind.results);
        let bytes = values.fold(0u64, |sum, shape| sum.saturating_add(shape.bytes()));
        alone(&op.kind, bytes, limits)
    });
    times.fold(0, u64::saturating_add)
}

/// The modelled time of an operation that moves these bytes, in picoseconds.
pub(crate) fn alone(kind: &Kind, bytes: u64, limits: &Limits) -> u64 {
    let mut amounts = Amounts {
        bytes,
        outer: bytes,
        programs: 1,
        parallel: limits.enough,
        ..Amounts::default()
    };
    amounts.add_whole(kind);
    amounts.time(limits).roofline
}

/// The steps of all loops.
pub(crate) fn steps_of(loops: &[Loop]) -> u64 {
    loops.iter().fold(1, |n, l| n.saturating_mul(l.extent))
}

/// `count * part / whole`, saturated.
fn in_proportion(count: u64, part: u64, whole: u64) -> u64 {
    let scaled = u128::from(count) * u128::from(part) / u128::from(whole.max(1));
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

/// Seconds in whole picoseconds.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "rounded before; what is too large becomes the largest number"
)]
fn picoseconds(seconds: f64) -> u64 {
    (seconds * 1e12).round() as u64
}

/// A time of which only the first digits count, so that differences of less than a thirtieth are none.
pub(crate) fn about(time: u64) -> u64 {
    let low = (u64::BITS - time.leading_zeros()).saturating_sub(DIGITS);
    time >> low << low
}

/// The binary digits of a time that count in comparisons of plans.
const DIGITS: u32 = 6;

/// Returns whether a plan does more than the target's limit of work.
pub(crate) fn is_wasteful(
    local: &Local,
    (work, operations): (u64, u64),
    apart: (u64, u64),
    limits: &Limits,
) -> bool {
    let above =
        |found: u64, wanted: u64| limits.max_work * seconds(wanted, 1.0) < seconds(found, 1.0);
    1 < local.ops.len() && (above(work, apart.0) || above(operations, apart.1))
}

/// Carried steps of each operation, with the number of programs that run it: those in which the sums that it reads are
/// complete.
pub(crate) fn runs<'a>(
    local: &'a Local,
    carried: &'a Carried,
    ends: &'a [Vec<usize>],
    grid: &'a [u64],
) -> impl Iterator<Item = (&'a LocalOp, &'a [Steps], Vec<u64>)> + 'a {
    local.ops.iter().enumerate().map(move |(at, op)| {
        let mut grid = grid.to_vec();
        for &axis in ends.get(at).into_iter().flatten() {
            grid[axis] = 1;
        }
        (op, carried.steps[at].as_slice(), grid)
    })
}
