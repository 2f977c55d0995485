//! The schedule of a plan: everything that follows from its tiles, resolved once for all readers.

use crate::plan::Group;
use crate::region::Steps;
use crate::span::{Span, Tile};
use crate::units::Unit;
use optc_ir::entity::EntityId;
use optc_ir::module::{Op, Value};
use optc_ir::op::Partial;

/// A valid plan and everything that follows from it: the order of the units, and for each part of each operation its
/// steps, the tiles that it reads and their sources.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Schedule {
    /// The units, each after those whose results it reads.
    pub units: Vec<Unit>,
    /// The groups, by number.
    pub groups: Vec<GroupSchedule>,
    /// For each value, by number: true if something outside its own group uses it.
    pub(crate) live_outs: Vec<bool>,
}

/// The programs of one group. Constants are units of their own and never among its operations.
pub type GroupSchedule = Group<OpSchedule>;

/// One operation in the programs of its group.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpSchedule {
    /// The operation.
    pub op: Op,
    /// Its parts, by number; empty if its tile is not decided yet.
    pub parts: Vec<PartSchedule>,
    /// The part of each reduction loop that a program runs; empty if none is cut.
    pub reduce: Vec<Span>,
    /// The number of steps of each loop that `reduce` may cut.
    pub reduced: Vec<u64>,
    /// The axes of the grid along which the reduction loops are cut, ascending; they are sequential. If empty, every
    /// program computes whole sums.
    pub sequential: Vec<usize>,
    /// The combination of partial results of an operation that accumulates along `sequential`; `None` if its parts do
    /// not combine.
    pub combine: Option<Partial>,
    /// The dimension of the first result along which it is computed online: each program computes one more part of it,
    /// right up to a factor for each row.
    pub online: Option<usize>,
    /// The operands that are computed online; the partial results are rescaled by their factors.
    pub rescales: Vec<Rescale>,
    /// The operands that are added once, as a bias is, if the operation accumulates.
    pub epilogue: Vec<usize>,
    /// The completion axes of its operands, ascending; it runs only at the last step of these.
    pub starts_after: Vec<usize>,
    /// The completion axes of its results, ascending; they are complete only at the last step of these.
    pub completes_after: Vec<usize>,
}

/// One part that an operation computes in a program.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct PartSchedule {
    /// The tile of each result.
    pub results: Vec<Tile>,
    /// For each result: true if no program has an element of it.
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
    /// The box that the steps need; `None` for a value whose sizes are unknown.
    pub tile: Option<Tile>,
    /// The block that is fetched from memory, if the plan states another one than the tile.
    pub fetched: Option<Tile>,
    /// The place from which it is read.
    pub source: Source,
}

/// The place from which an operand is read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Source {
    /// Memory: the operand is an argument, a constant, or computed outside the group.
    Memory,
    /// The same program of the group.
    Made {
        /// The operation that computes it.
        op: Op,
        /// The number of the result.
        result: usize,
        /// The number of the part.
        part: usize,
    },
}

/// A value that is computed online, right up to a factor for each row, as an operation accumulates it or a value that is
/// proportional to it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Rescale {
    /// The operation that computes it.
    pub op: Op,
    /// The dimension of the accumulated result for each dimension of that operation's result; `None` for the axis and for
    /// extents of 1 ([`kept`](optc_ir::op::iteration_domain::IterationDomain::kept)).
    pub kept: Vec<Option<usize>>,
}

impl Schedule {
    /// Returns whether something outside the group of a value uses it. The function's return and operations in no group
    /// count as outside.
    #[must_use]
    pub fn is_live_out(&self, value: Value) -> bool {
        self.live_outs.get(value.index()) == Some(&true)
    }
}
