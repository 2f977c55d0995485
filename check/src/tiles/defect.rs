//! Why layouts are not those that a row of a target with tiles takes.

use optc_target::PortRole;
use std::fmt;
use thiserror::Error;

/// A part of a tile.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Part {
    Lanes,
    Rows,
}

impl Part {
    /// Both parts, in the order of [`super::port::Port::places`].
    pub(super) const BOTH: [Part; 2] = [Part::Lanes, Part::Rows];
}

impl fmt::Display for Part {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Part::Lanes => "lanes",
            Part::Rows => "rows",
        })
    }
}

/// The defect of a layout, or of two layouts beside each other. A number is that of a port: operands first, then
/// results.
#[derive(Clone, PartialEq, Eq, Debug, Error)]
pub(crate) enum Defect {
    #[error("no alternative of the row is for it")]
    NoAlternative,
    #[error("port {0} lies in no tile of the target")]
    NoTile(usize),
    #[error("port {port} lies in no lines of {lanes}")]
    NoLines { port: usize, lanes: u64 },
    #[error("port {0} is not row-major")]
    NotRowMajor(usize),
    #[error("port {0} has `{role}` in the {2}", role = .1.name())]
    Role(usize, PortRole, Part),
    #[error("port {0} has `{role}` in lanes and rows", role = .1.name())]
    RoleTwice(usize, PortRole),
    #[error("port {0} has a dimension without a role in the {1}")]
    NoRole(usize, Part),
    #[error("port {0} has dimensions of two roles in the {1}")]
    TwoRoles(usize, Part),
    #[error("port {0} has several dimensions in the {1}, and a window slides along one of them")]
    TwoDimensions(usize, Part),
    #[error("port {0} has one role in its tile and could have two")]
    OneRole(usize),
    #[error("port {port} has no innermost run of {run} elements of one dimension")]
    NoRun { port: usize, run: u64 },
    #[error("{found}, which is refused: {why}")]
    Refused { found: Box<Defect>, why: String },
    #[error("ports {0} and {1} have different dimensions in the {2}")]
    Dimensions(usize, usize, Part),
    #[error("ports {0} and {1} have different elements in the {2}")]
    Elements(usize, usize, Part),
    #[error("ports {0} and {1} number their tiles differently")]
    Numbering(usize, usize),
    #[error("ports {0} and {1} have different orders")]
    Orders(usize, usize),
    #[error("ports {0} and {1} order their dimensions differently")]
    Order(usize, usize),
    #[error("ports {0} and {1} are padded differently")]
    Padding(usize, usize),
    #[error("ports {0} and {1} have different digits in their lanes")]
    LaneDigits(usize, usize),
    #[error("ports {0} and {1} have different digits in their tiles")]
    TileDigits(usize, usize),
}
