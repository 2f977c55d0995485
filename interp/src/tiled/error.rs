//! Why a plan cannot be executed.

use thiserror::Error;

/// What is illegal or missing in a plan.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum TileFault {
    /// The plan does not hold, whatever the numbers are.
    #[error("{0}")]
    Plan(String),
    /// The operation has no tile of its own yet.
    #[error("the operation is in group {group} and has no tile yet")]
    Unplanned {
        /// The group.
        group: usize,
    },
    /// A tile without elements.
    #[error(
        "program {program:?}: the tile [{start}, {stop}) of dimension {dim} of result {result} holds no element of {size}"
    )]
    Empty {
        /// The program.
        program: Vec<i64>,
        /// Which result.
        result: usize,
        /// The dimension.
        dim: usize,
        /// Where the tile starts.
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
        /// Which operand.
        operand: usize,
        /// The dimension.
        dim: usize,
        /// The first element that is needed.
        start: i64,
        /// One past the last that is needed.
        stop: i64,
        /// The first element that is there.
        from: i64,
        /// One past the last that is there.
        to: i64,
    },
    /// A result depends on what no tile of its operands holds.
    #[error(
        "program {program:?}: element {element:?} of result {result} needs more than the tiles of its operands hold"
    )]
    Depends {
        /// The program.
        program: Vec<i64>,
        /// Which result.
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
        /// Which result.
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
        /// Which result.
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
        /// Which result.
        result: usize,
        /// Where it started.
        from: Vec<i64>,
        /// Where it is now.
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
