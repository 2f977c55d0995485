//! A plan as it runs: what follows from its tiles, resolved once for all who read it.

use crate::plan::Axis;
use crate::region::Steps;
use crate::span::{Span, Tile};
use crate::units::Unit;
use optc_ir::entity::EntityId;
use optc_ir::module::{Op, Value};
use optc_ir::op::Partial;

/// A plan that holds, and everything that follows from it: the order of what runs, and of each part of each
/// operation its steps, the tiles that it reads and their sources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// The units, each after what it needs.
    pub units: Vec<Unit>,
    /// The groups, by number.
    pub groups: Vec<GroupSchedule>,
    /// The values that something outside of their own group uses, by number.
    pub(crate) live_outs: Vec<bool>,
}

/// The programs of one group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct GroupSchedule {
    /// The axes of the grid, the last one fastest.
    pub axes: Vec<Axis>,
    /// The operations, in execution order. Constants are units of their own and never among them.
    pub ops: Vec<OpSchedule>,
}

/// One operation in the programs of its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpSchedule {
    /// The operation.
    pub op: Op,
    /// What it makes, by the number of the part; none while its tile is still to be found.
    pub parts: Vec<PartSchedule>,
    /// The part of each reduced loop that a program runs; empty where none is cut.
    pub reduce: Vec<Span>,
    /// The steps of each loop that `reduce` may cut.
    pub reduced: Vec<u64>,
    /// The axes of the grid along which the reduced loops are cut, ascending; they are sequential. Without
    /// one every program has all of each sum.
    pub sequential: Vec<usize>,
    /// The combination of partial results, of an operation that accumulates along `sequential`; none of
    /// one whose parts do not combine.
    pub combine: Option<Partial>,
    /// The dimension of the first result along which it is computed online: each program has one more
    /// part of it, right up to a factor a row.
    pub online: Option<usize>,
    /// The operands that are computed online, whose factors its partial results take.
    pub rescales: Vec<Rescale>,
    /// The operands that are added once, as a bias is, where it accumulates.
    pub epilogue: Vec<usize>,
    /// The completion axes of its operands, ascending: it runs at the last step of these alone.
    pub starts_after: Vec<usize>,
    /// The completion axes of its results, ascending: these are whole at the last step of these alone.
    pub completes_after: Vec<usize>,
}

/// One part of what an operation makes in a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartSchedule {
    /// The tile of each result.
    pub results: Vec<Tile>,
    /// Of each result whether no program has any element of it.
    pub outside: Vec<bool>,
    /// The steps of each loop that make the tiles.
    pub steps: Steps,
    /// The operands, as it reads them.
    pub operands: Vec<OperandSchedule>,
}

/// An operand as one part of an operation reads it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OperandSchedule {
    /// The value.
    pub value: Value,
    /// The box that the steps need; none of a value whose sizes are not known.
    pub tile: Option<Tile>,
    /// The block that is fetched from memory, where the plan states another one than the tile.
    pub fetched: Option<Tile>,
    /// The place from which it is read.
    pub source: Source,
}

/// The place from which an operand is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Memory: it is an argument, a constant, or made outside of the group.
    Memory,
    /// The same program of the group.
    Made {
        /// The operation that makes it.
        op: Op,
        /// The number of the result.
        result: usize,
        /// The number of the part.
        part: usize,
    },
}

/// An operand that is right up to a factor a row, as an operation accumulates it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rescale {
    /// The operation that makes it.
    pub op: Op,
    /// The value.
    pub value: Value,
    /// Of each dimension of it its place in the result that accumulates
    /// ([`kept`](optc_ir::op::iteration_domain::IterationDomain::kept)).
    pub kept: Vec<Option<usize>>,
}

impl Schedule {
    /// Whether something outside of the group of a value uses it: what leaves the function and what is in
    /// no group count as outside.
    #[must_use]
    pub fn is_live_out(&self, value: Value) -> bool {
        self.live_outs.get(value.index()) == Some(&true)
    }
}

impl GroupSchedule {
    /// The extents of the axes.
    #[must_use]
    pub fn grid(&self) -> Vec<u64> {
        self.axes.iter().map(|a| a.extent).collect()
    }

    /// The number of programs.
    #[must_use]
    pub fn programs(&self) -> u64 {
        let extents = self.axes.iter().map(|a| a.extent);
        extents.fold(1, u64::saturating_mul)
    }
}
