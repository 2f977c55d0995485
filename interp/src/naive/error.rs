//! Errors of layout texts without an index formula.

use thiserror::Error;

/// The reason why a layout's text gives no index formula.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum IndexError {
    /// The text is not of the form `key = value, …`.
    #[error("cannot read the layout `{layout}`: wanted {wanted} at byte {at}")]
    Text {
        /// The whole text.
        layout: String,
        /// The byte at which reading stopped.
        at: usize,
        /// The text wanted there.
        wanted: String,
    },
    /// The text can be read, but does not describe a layout of this shape.
    #[error("the layout `{layout}` does not fit: {problem}")]
    Meaning {
        /// The whole text.
        layout: String,
        /// The mismatch.
        problem: String,
    },
}
