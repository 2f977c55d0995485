//! Errors of operations that are not well formed.

use crate::diag::{CodeName, Diagnostic};
use crate::tensor::EvalError;
use thiserror::Error;

/// The reason for which an operation is not well formed.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct OpError {
    /// The stable kebab-case name of the diagnostic.
    pub code: CodeName,
    /// Found and wanted, in the user's terms.
    pub message: String,
    /// A remedy.
    pub hint: Option<String>,
}

impl OpError {
    /// An error without a hint.
    #[must_use]
    pub fn new(code: impl Into<CodeName>, message: impl Into<String>) -> Self {
        Self {
            code: code.into(),
            message: message.into(),
            hint: None,
        }
    }
    /// The same error with a hint.
    #[must_use]
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl From<OpError> for Diagnostic {
    fn from(error: OpError) -> Diagnostic {
        let diagnostic = Diagnostic::error(error.code, error.message);
        match error.hint {
            Some(hint) => diagnostic.hint(hint),
            None => diagnostic,
        }
    }
}

impl From<OpError> for EvalError {
    fn from(error: OpError) -> EvalError {
        EvalError::new(error.message)
    }
}
