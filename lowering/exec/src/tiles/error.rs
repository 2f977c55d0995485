//! Reasons why a group of operations runs untiled.

use optc_ir::Value;
use optc_ir::op::OpError;
use std::num::TryFromIntError;
use thiserror::Error;

/// A reason why a group cannot run tile by tile.
#[derive(Clone, Debug, PartialEq, Error)]
pub(super) enum TileError {
    #[error("its results have no places")]
    NoPlaces,
    #[error("an operand is missing")]
    OperandMissing,
    #[error("its operands stay in pieces")]
    Pieces,
    #[error("some of its results have no element in a program")]
    NoElement,
    #[error("nothing declares it")]
    Undeclared,
    #[error("its parts are no parts of its operand")]
    NoPartOfOperand,
    #[error("its operands do not fill its tile")]
    Unfilled,
    #[error("its operands are no parts of its result")]
    NoPartOfResult,
    #[error("the sizes of an operand are not known")]
    OperandSizes,
    #[error("a tile has no element")]
    EmptyTile,
    #[error("its elements are no whole bytes")]
    NoBytes,
    #[error("a size is not known")]
    UnknownSize,
    #[error("it takes its elements apart")]
    Apart,
    #[error("its tiles have other extents than it gives them")]
    Extents,
    #[error("its tiles are not those of common dimensions")]
    Dimensions,
    #[error("its results are cut in several ways")]
    Cuts,
    #[error("it is cut along what it works on")]
    CutAlong,
    #[error("it reads other parts of its operands than it writes")]
    OtherParts,
    #[error("it is no tensor")]
    NoTensor,
    #[error("an argument lies in nothing")]
    Argument,
    #[error("it is a transposed convolution")]
    Transposed,
    #[error("its result has no channels")]
    NoChannels,
    #[error("its tile has parts of several groups of channels")]
    Groups,
    #[error("a tile of its result reads padding alone")]
    PaddingAlone,
    #[error("its tile needs more of its operands than it reads")]
    MoreThanRead,
    #[error("nothing in it is run")]
    Empty,
    #[error("a result lies in the bytes of what it reads")]
    ResultInOperand,
    #[error("its results lie in one another")]
    ResultsOverlap,
    #[error("its products would be summed in another order")]
    ProductOrder,
    #[error("a tile lies nowhere")]
    TileNowhere,
    #[error("a product outside would begin with other values")]
    ProductOutside,
    #[error("{0} is not made before it is read")]
    Order(Value),
    #[error("{0} has no element in a program")]
    Nowhere(Value),
    #[error("{0} lies in pieces")]
    InPieces(Value),
    #[error("{0} lies nowhere")]
    NoSlot(Value),
    #[error("the sizes of {0} are not known")]
    Sizes(Value),
    #[error("{value} does not lie in {root}")]
    NotIn { value: Value, root: Value },
    #[error("{0} gives no part of its operand")]
    NoPart(Value),
    #[error("it has {found} programs, at most {most} are run")]
    Programs { found: u64, most: u64 },
    #[error("its programs have more than {0} forms")]
    Forms(usize),
    /// An operation by its name, and its fault in words.
    #[error("{name} {what}")]
    Member { name: String, what: &'static str },
    /// An operation, and its fault.
    #[error("{name}: {error}")]
    Operation { name: String, error: Box<TileError> },
    #[error("there is no kernel for its tiles")]
    NoKernel,
    #[error("its tiles would be summed in another order")]
    TileOrder,
    #[error("{0}")]
    Refused(String),
    #[error(transparent)]
    Offset(#[from] TryFromIntError),
}

impl TileError {
    /// The error of the operation `name`.
    pub(super) fn of(self, name: &str) -> TileError {
        TileError::Operation {
            name: name.to_owned(),
            error: Box::new(self),
        }
    }

    pub(super) fn member(name: &str, what: &'static str) -> TileError {
        TileError::Member {
            name: name.to_owned(),
            what,
        }
    }
}

impl From<OpError> for TileError {
    fn from(error: OpError) -> TileError {
        TileError::Refused(error.to_string())
    }
}
