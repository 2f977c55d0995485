//! Errors of texts, with their places.

use optc_ir::{Code, CodeName, Diagnostic, Span};
use thiserror::Error;

/// The reason why a text is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct HloError {
    /// The stable kebab-case name of the diagnostic.
    pub code: CodeName,
    /// The found and the wanted text.
    pub message: String,
    /// The place in the text, in bytes.
    pub span: Span,
    /// A suggestion.
    pub hint: Option<String>,
}

impl HloError {
    pub(crate) fn new(code: Code, message: impl Into<String>, span: Span) -> HloError {
        HloError {
            code: code.into(),
            message: message.into(),
            span,
            hint: None,
        }
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> HloError {
        self.hint = Some(hint.into());
        self
    }

    /// The error as a diagnostic with a caret.
    #[must_use]
    pub fn diagnostic(&self) -> Diagnostic {
        let diag = Diagnostic::error(self.code, self.message.clone()).at(self.span, "here");
        match &self.hint {
            Some(hint) => diag.hint(hint),
            None => diag,
        }
    }
}

/// A span of bytes; positions beyond 4 GiB are cut off.
pub(crate) fn span(start: usize, end: usize) -> Span {
    let at = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Span {
        start: at(start),
        end: at(end),
    }
}
