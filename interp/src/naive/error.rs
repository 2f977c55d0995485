//! Why a layout's text gives no index formula.

use thiserror::Error;

/// Why a layout's text gives no index formula.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IndexError {
    /// The text is not of the form `key = value, …`.
    #[error("cannot read the layout `{layout}`: wanted {wanted} at byte {at}")]
    Text {
        /// The whole text.
        layout: String,
        /// Where reading stopped.
        at: usize,
        /// What was wanted there.
        wanted: String,
    },
    /// The text can be read, but does not describe a layout of this shape.
    #[error("the layout `{layout}` does not fit: {problem}")]
    Meaning {
        /// The whole text.
        layout: String,
        /// What does not fit.
        problem: String,
    },
}
