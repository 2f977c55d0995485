//! Operations whose ports take tiles by roles: which digits may stand in lanes and rows, and which ports agree.
//!
//! A *part* is the set of digits in the tile of one port, in terms of labels. Two ports agree if the digits of the
//! labels that both have are the same in their parts: the same run of M at the left operand and the result of a
//! contraction, the same run of K at both operands. Which of the two stands in the lanes, and in which order the
//! others number tiles, is each port's own.

mod build;
mod join;
mod least;
mod parts;
mod takes;

use super::signature::{LabelDigit, Signature};
pub(crate) use build::{cheapest, default, transfers, uncut};
pub(crate) use join::{PortParts, join};
pub(crate) use least::{least_crossing_run, least_line_padding, least_padded_run, least_padding};
pub(crate) use parts::{agree, parts};
pub(crate) use takes::{
    accepts, along_role, is_taken_by, lists, lists_lanes, may_end_in, rules_of,
};

/// What fills one place of a tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartRun {
    /// Major to minor; a whole label has the extent 0, since a window's differ from port to port.
    digits: Vec<LabelDigit>,
    /// Positions of the place: digits that fill whole tiles may be cut there.
    tile: u64,
}

/// What stands in the tile of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    /// The runs, the one with the lower label first.
    runs: Vec<PartRun>,
    /// The alternatives that take it there, as a set.
    pub(crate) rules: u64,
}

/// Alternatives of a row that are told apart.
pub(crate) const MOST_RULES: usize = 64;

fn size_of(sig: &Signature, port: usize, label: usize) -> u64 {
    let dim = sig.labels(port).iter().position(|l| *l == Some(label));
    dim.map_or(1, |dim| sig.shapes[port][dim])
}
