//! The error of meshes and shardings.

use crate::diag::{Code, Diagnostic};

/// The reason why a mesh, a split or an attribute is refused.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[error("{message}")]
pub struct ShardError {
    /// The code; boxed, as an error is small.
    pub code: Box<Code>,
    /// Found and wanted.
    pub message: String,
    /// The correction, if one is known.
    pub hint: Option<String>,
}

impl ShardError {
    /// An error with this code.
    #[must_use]
    pub fn new(code: Code, message: impl Into<String>) -> ShardError {
        ShardError {
            code: Box::new(code),
            message: message.into(),
            hint: None,
        }
    }

    /// Adds a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> ShardError {
        self.hint = Some(hint.into());
        self
    }
}

impl From<ShardError> for Diagnostic {
    fn from(error: ShardError) -> Diagnostic {
        let diag = Diagnostic::error(*error.code, error.message);
        error.hint.into_iter().fold(diag, Diagnostic::hint)
    }
}
