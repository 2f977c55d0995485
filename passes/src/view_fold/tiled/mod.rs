//! Operations whose ports take tiles by roles: the digits that may stand in lanes and rows, and the agreement of ports.
//!
//! A *part* is the set of digits in the tile of one port, in terms of labels. Two ports agree if their parts have the
//! same digits of the labels that both have. In a contraction, the left operand and the result have the same run of M,
//! and both operands have the same run of K. Each port decides for itself which of its two runs is in the lanes, and in
//! which order its other digits number tiles.

mod build;
mod join;
mod least;
mod parts;
mod takes;

use super::signature::{LabelDigit, Signature};
pub(crate) use build::{cheapest, default, transfers, uncut};
pub(crate) use join::{PortParts, join};
pub(crate) use least::{
    InLanes, least_crossing_run, least_line_padding, least_padded_run, least_padding,
    may_lack_lanes,
};
pub(crate) use parts::{agree, parts};
pub(crate) use takes::{
    accepts, along_role, is_taken_by, lists, lists_lanes, may_end_in, rules_of,
};

/// The digits that fill one place of a tile.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct PartRun {
    /// Major to minor. A whole label has the extent 0, because the extents of a window's labels differ from port to
    /// port.
    digits: Vec<LabelDigit>,
    /// Positions of the place. Digits that fill whole tiles may be cut there.
    tile: u64,
}

/// The digits in the tile of a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Part {
    /// The runs, the one with the lower label first.
    runs: Vec<PartRun>,
    /// The alternatives that take the part at the port, as a set.
    pub(crate) rules: u64,
}

/// The most alternatives of a row that are distinguished: a set of them is the bits of a `u64`.
pub(crate) const MOST_RULES: usize = 64;

fn size_of(sig: &Signature, port: usize, label: usize) -> u64 {
    sig.extent(port, label).unwrap_or(1)
}
