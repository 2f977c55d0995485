//! Errors of executing a plan.

use thiserror::Error;

/// The defect of a plan.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TileFault {
    /// The plan is invalid for all sizes.
    #[error("{0}")]
    Plan(String),
    /// The operation has no tile of its own yet.
    #[error("the operation is in group {group} and has no tile yet")]
    Unplanned {
        /// The group.
        group: usize,
    },
    /// The tile has no element.
    #[error(
        "program {program:?}: the tile [{start}, {stop}) of dimension {dim} of result {result} holds no element of {size}"
    )]
    Empty {
        /// The program.
        program: Vec<i64>,
        /// The number of the result.
        result: usize,
        /// The dimension.
        dim: usize,
        /// The first element of the tile.
        start: i64,
        /// One past its end.
        stop: i64,
        /// The extent of the dimension.
        size: i64,
    },
    /// An operand's tile lacks elements that are needed.
    #[error(
        "program {program:?}: needs [{start}, {stop}) of dimension {dim} of operand {operand}, whose tile in the group has [{from}, {to})"
    )]
    Missing {
        /// The program.
        program: Vec<i64>,
        /// The number of the operand.
        operand: usize,
        /// The dimension.
        dim: usize,
        /// The first element needed.
        start: i64,
        /// One past the last element needed.
        stop: i64,
        /// The first element available.
        from: i64,
        /// One past the last element available.
        to: i64,
    },
    /// A result depends on elements that no tile of its operands holds.
    #[error(
        "program {program:?}: element {element:?} of result {result} needs more than the tiles of its operands hold"
    )]
    Depends {
        /// The program.
        program: Vec<i64>,
        /// The number of the result.
        result: usize,
        /// The element of the value.
        element: Vec<i64>,
    },
    /// No program writes an element.
    #[error(
        "element {element:?} of result {result} is used outside of group {group}, and no program writes it"
    )]
    Unwritten {
        /// The group.
        group: usize,
        /// The number of the result.
        result: usize,
        /// The first such element.
        element: Vec<i64>,
    },
    /// Two programs write different numbers.
    #[error(
        "program {program:?}: writes another number to element {element:?} of result {result} than a program before it"
    )]
    Rewritten {
        /// The program.
        program: Vec<i64>,
        /// The number of the result.
        result: usize,
        /// The element.
        element: Vec<i64>,
    },
    /// A reduction that cannot be cut.
    #[error("its reduction cannot be cut: {0}")]
    Reduction(String),
    /// The tile moves while partial results add up.
    #[error(
        "program {program:?}: the tile of result {result} moves from {from:?} to {to:?} while it adds up"
    )]
    Moves {
        /// The program.
        program: Vec<i64>,
        /// The number of the result.
        result: usize,
        /// The place at which it started.
        from: Vec<i64>,
        /// The place at which it is now.
        to: Vec<i64>,
    },
    /// Too many programs to run one after the other.
    #[error("group {group} has {count} programs, more than {limit}")]
    Programs {
        /// The group.
        group: usize,
        /// Its programs.
        count: u64,
        /// The limit.
        limit: u64,
    },
}
