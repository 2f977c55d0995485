//! Diagnostics: one form for every error, warning and remark.

use crate::module::Span;

/// How serious a diagnostic is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The input is refused.
    Error,
    /// Suspicious, but done.
    Warning,
    /// What a pass did or could not do.
    Remark,
}

/// What is said about the program.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// A stable kebab-case name.
    pub code: &'static str,
    /// How serious it is.
    pub severity: Severity,
    /// Found and wanted, lower-case, no final period.
    pub message: String,
    /// Places in the source with a word each; the first is the main one.
    pub labels: Vec<(Span, String)>,
    /// Hints and further facts.
    pub notes: Vec<String>,
}

impl Diagnostic {
    /// An error.
    #[must_use]
    pub fn error(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Self::new(Severity::Error, code, message)
    }
    /// A warning.
    #[must_use]
    pub fn warning(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Self::new(Severity::Warning, code, message)
    }
    /// A remark.
    #[must_use]
    pub fn remark(code: &'static str, message: impl Into<String>) -> Diagnostic {
        Self::new(Severity::Remark, code, message)
    }
    fn new(severity: Severity, code: &'static str, message: impl Into<String>) -> Diagnostic {
        Diagnostic { code, severity, message: message.into(), labels: Vec::new(), notes: Vec::new() }
    }
    /// Adds a place in the source.
    #[must_use]
    pub fn at(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push((span, text.into()));
        self
    }
    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }
}
