//! Explains why a chain is not a view.

use crate::cause::Cause;
use crate::error::LayoutError;
use crate::map::ViewMapError;

/// The reason why a chain is not a view, or no layout makes it one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NotView {
    /// The difference.
    pub reason: Box<NotViewReason>,
    /// The dimension that causes it.
    pub cause: Option<Cause>,
    /// A guess at the intended notation.
    pub hint: Option<String>,
}

/// The property that keeps a chain from being a view.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotViewReason {
    /// The map does not fit the operand.
    #[error(transparent)]
    Map(#[from] ViewMapError),
    /// The result's shape is not that of the map.
    #[error("the map gives shape {wanted:?}, the result has {found:?}")]
    Shape {
        /// The map's result.
        wanted: Vec<u64>,
        /// The output layout's shape.
        found: Vec<u64>,
    },
    /// Elements of different widths.
    #[error("elements of {input} bits are read as {output} bits")]
    Bits {
        /// Width in the operand.
        input: u32,
        /// Width in the result.
        output: u32,
    },
    /// Buffers in different memory spaces.
    #[error("the operand is in memory space {input}, the result in {output}")]
    Space {
        /// The operand's.
        input: u32,
        /// The result's.
        output: u32,
    },
    /// Buffers of different sizes.
    #[error("the operand's buffer has {input} bytes, the result's {output}")]
    Bytes {
        /// The operand's, padding included.
        input: u64,
        /// The result's, padding included.
        output: u64,
    },
    /// An element that would have to move.
    #[error("element {element:?} of the result lies at offset {found}, its layout wants {wanted}")]
    Position {
        /// Logical index in the result.
        element: Vec<u64>,
        /// Offset in the operand's buffer, in elements.
        found: u64,
        /// Offset that the result's layout gives it, in elements.
        wanted: u64,
    },
    /// Buffers that begin at different offsets.
    #[error("element 0 lies at offset {input} in the operand and {output} in the result")]
    Offset {
        /// The operand's, in elements.
        input: u64,
        /// The result's, in elements.
        output: u64,
    },
    /// The innermost parts of operand and result have different steps.
    #[error(
        "the innermost remaining parts step by {input} elements in the operand and by {output} in the result"
    )]
    Steps {
        /// The operand's, in elements.
        input: i64,
        /// The result's, in elements.
        output: i64,
    },
    /// Two runs have no common cut and do not continue.
    #[error(
        "a run of {input} elements in the operand meets a run of {output} in the result, and neither is cut there"
    )]
    Runs {
        /// The operand's, in elements.
        input: u64,
        /// The result's, in elements.
        output: u64,
    },
    /// The tensors are split over memories at different elements.
    #[error("the tensors are split over memories at different elements")]
    Split,
    /// The functions have too many pieces to be compared.
    #[error("the layouts fall into too many pieces to be compared")]
    Undecided,
    /// The functions differ; no single differing element was searched.
    #[error("the layouts put elements at different offsets")]
    Positions,
    /// The transpose separates dimensions that the layout has in one run or tile.
    #[error("the transpose takes apart dimensions {sizes:?}, which the layout cuts across")]
    CutAcross {
        /// Sizes of the dimensions before the transpose, 1s dropped, neighbours merged.
        sizes: Vec<u64>,
    },
    /// The layout exists but no notation writes it.
    #[error("the result's layout cannot be written: {0}")]
    Unwritable(#[source] LayoutError),
}

impl std::fmt::Display for NotView {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.reason)?;
        if let Some(cause) = &self.cause {
            write!(f, "; {cause}")?;
        }
        match &self.hint {
            None => Ok(()),
            Some(hint) => write!(f, "; {hint}"),
        }
    }
}

impl std::error::Error for NotView {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        Some(&*self.reason)
    }
}

impl From<NotViewReason> for NotView {
    fn from(reason: NotViewReason) -> Self {
        Self {
            reason: Box::new(reason),
            cause: None,
            hint: None,
        }
    }
}
