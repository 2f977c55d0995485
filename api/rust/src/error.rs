//! The one error type of the façade: diagnostics and the source they point into.

use optc_ir::{Diagnostic, Severity};
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// Why an input was refused or a step failed.
///
/// `Display` renders every diagnostic with file, line, column and a caret.
#[derive(Clone, Debug)]
pub struct Error {
    /// What is wrong; never empty, at least one is an error.
    pub diagnostics: Vec<Diagnostic>,
    /// How the input is called: a path, `<stdin>`, or the option that gave the text.
    pub file: String,
    /// The text that the diagnostics' labels point into; empty when there is none.
    pub source: Arc<str>,
}

impl Error {
    /// An error about `file` as a whole.
    #[must_use]
    pub fn about(file: &str, diagnostic: Diagnostic) -> Error {
        Error {
            diagnostics: vec![diagnostic],
            file: file.to_owned(),
            source: Arc::from(""),
        }
    }

    /// A failure of the file system.
    #[must_use]
    pub fn io(what: &'static str, path: &Path, error: &std::io::Error) -> Error {
        let file = path.display().to_string();
        let (code, verb) = match what {
            "write" => ("io-write", "write"),
            _ => ("io-read", "read"),
        };
        Error::about(
            &file,
            Diagnostic::error(code, format!("cannot {verb} `{file}`: {error}")),
        )
    }

    /// The errors as text, each with its place and hints, one after another.
    #[must_use]
    pub fn render(&self) -> String {
        render_all(&self.diagnostics, &self.file, &self.source)
    }

    /// The code of the first error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        let error = self
            .diagnostics
            .iter()
            .find(|d| d.severity == Severity::Error);
        error
            .or(self.diagnostics.first())
            .map_or("internal-error", |d| d.code)
    }
}

/// Renders diagnostics one after another, each ending with a line break.
pub(crate) fn render_all(diagnostics: &[Diagnostic], file: &str, source: &str) -> String {
    let mut out = String::new();
    for diag in diagnostics {
        out.push_str(optc_ir::diag::render(diag, file, source).trim_end());
        out.push('\n');
    }
    out
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.render().trim_end())
    }
}

impl std::error::Error for Error {}
