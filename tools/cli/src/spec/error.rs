//! Why a conformance vector cannot be run or does not hold.

use optc::layout::{LayoutError, ViewMapError};
use optc::tile::block::BlockError;
use std::fmt::Display;
use thiserror::Error;

/// A vector that cannot be run, or whose result is another one.
#[derive(Clone, Debug, Error)]
pub(super) enum VectorError {
    /// A key is missing.
    #[error("the vector has no `{0}`")]
    NoKey(&'static str),
    /// A key is missing, or its value is no text.
    #[error("the vector has no text `{0}`")]
    NoText(&'static str),
    /// The value of a key is of another kind.
    #[error("`{key}` is no {wanted}")]
    Kind {
        key: &'static str,
        wanted: &'static str,
    },
    /// The result, or a part of the vector, is another one.
    #[error("expected {wanted}, found {found}")]
    Expected { wanted: String, found: String },
    /// The shape of a vector is not that of an array.
    #[error("expected an array")]
    NoArray,
    /// The parentheses of a kernel are nested too deeply.
    #[error("expected at most {0} levels of parentheses")]
    Depth(usize),
    /// An array is too large to be filled.
    #[error("the array has too many cells")]
    Cells,
    /// A program sees no block.
    #[error("program {program:?}: {source}")]
    Program {
        program: Vec<i64>,
        source: BlockError,
    },
    /// Blocks or a grid are wrong.
    #[error(transparent)]
    Block(#[from] BlockError),
    /// A layout is wrong.
    #[error(transparent)]
    Layout(#[from] LayoutError),
    /// A map is not one of the operand.
    #[error(transparent)]
    Map(#[from] ViewMapError),
    /// The text of a module that was printed is refused.
    #[error("what is printed is refused: {0}")]
    PrintedRefused(String),
    /// The text of a module that was printed has other contents.
    #[error("what is printed says something else")]
    PrintedOther,
}

/// The error of something else than what was expected.
pub(super) fn expected(wanted: impl Display, found: impl Display) -> VectorError {
    VectorError::Expected {
        wanted: wanted.to_string(),
        found: found.to_string(),
    }
}
