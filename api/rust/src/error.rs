//! The error type of the façade: diagnostics, and the source to which they point.

use crate::codes;
use optc_ir::diag::Lines;
use optc_ir::{Diagnostic, OpError, Severity};
use std::any::Any;
use std::fmt;
use std::path::Path;
use std::sync::Arc;

/// The most diagnostics of one error that are rendered. Finding the place of each takes time proportional to the size
/// of the source, and no one reads thousands.
const MOST_SHOWN: usize = 100;

/// The reason why an input was refused or a step failed.
///
/// `Display` renders every diagnostic with file, line, column and a caret.
///
/// ```
/// use optc::{CodeName, Compiler, Severity};
///
/// let error = Compiler::new().parse("example.ir", "%0 = ").expect_err("half a line");
/// let first = &error.diagnostics[0];
/// assert_eq!((first.severity, first.labels.len()), (Severity::Error, 1));
/// let code: CodeName = first.code;
/// assert_eq!((error.code(), error.message(), error.place()), (code.as_str(), &*first.message, Some((1, 5))));
/// println!("{error}");
/// ```
#[derive(Clone, Debug)]
pub struct Error {
    /// The diagnostics; never empty, at least one is an error.
    pub diagnostics: Vec<Diagnostic>,
    /// The name of the input: a path, `<stdin>`, or the option that gave the text.
    pub file: String,
    /// The text to which the diagnostics' labels point; empty if there is none.
    pub source: Arc<str>,
}

impl From<OpError> for Error {
    /// The error of an operation that is built.
    fn from(error: OpError) -> Error {
        Error::about("<built>", error.into())
    }
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
            "write" => (codes::IO_WRITE, "write"),
            _ => (codes::IO_READ, "read"),
        };
        Error::about(
            &file,
            Diagnostic::error(code, format!("cannot {verb} `{file}`: {error}")),
        )
    }

    /// The errors as text, each with its place and hints, one after another. Of more than 100 only the first 100 are
    /// shown, with the number of the others.
    #[must_use]
    pub fn render(&self) -> String {
        let (shown, left_out) = match self.diagnostics.split_at_checked(MOST_SHOWN) {
            Some(parts) => parts,
            None => (&self.diagnostics[..], &[][..]),
        };
        let mut text = render_all(shown, &self.file, &self.source);
        if !left_out.is_empty() {
            text.push_str(&format!("{}: and {} more\n", self.file, left_out.len()));
        }
        text
    }

    /// The error of a panic that was caught around the compiler.
    #[must_use]
    pub fn of_panic(panic: &(dyn Any + Send)) -> Error {
        Error::about("optc", internal_error("optc", panic))
    }

    /// The first error.
    fn first(&self) -> Option<&Diagnostic> {
        let mut errors = self.diagnostics.iter();
        let error = errors.find(|d| d.severity == Severity::Error);
        error.or(self.diagnostics.first())
    }

    /// The code of the first error.
    #[must_use]
    pub fn code(&self) -> &'static str {
        self.first()
            .map_or(codes::INTERNAL_ERROR.name, |d| d.code.as_str())
    }

    /// The message of the first error, without its place and notes.
    #[must_use]
    pub fn message(&self) -> &str {
        self.first().map_or("", |d| &d.message)
    }

    /// The line and the column, in characters, of the first error in [`Error::source`]; both count from 1. `None` if it
    /// is about no place in a text.
    #[must_use]
    pub fn place(&self) -> Option<(usize, usize)> {
        let (span, _) = self.first()?.labels.first()?;
        let at = Lines::new(&self.source).position(span.start);
        (!self.source.is_empty()).then_some((at.line, at.column))
    }
}

/// The diagnostic of a panic that was caught in the program of this name.
///
/// ```
/// let panic = std::panic::catch_unwind(|| { let none: Option<u8> = None; none.unwrap() }).unwrap_err();
/// assert_eq!(optc::internal_error("optc", &*panic).code, "internal-error");
/// ```
#[must_use]
pub fn internal_error(program: &str, panic: &(dyn Any + Send)) -> Diagnostic {
    let text = panic.downcast_ref::<String>().map(String::as_str);
    let text = text
        .or_else(|| panic.downcast_ref::<&str>().copied())
        .unwrap_or("unknown");
    Diagnostic::error(
        codes::INTERNAL_ERROR,
        format!("the compiler failed: {text}"),
    )
    .note(format!(
        "this is a defect of {program}, not of the input; please report it"
    ))
}

/// Renders diagnostics one after another, each ending with a line break.
pub(crate) fn render_all(diagnostics: &[Diagnostic], file: &str, source: &str) -> String {
    let mut out = String::new();
    let lines = Lines::new(source);
    for diag in diagnostics {
        out.push_str(optc_ir::render_in(diag, file, &lines).trim_end());
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

#[cfg(test)]
mod tests {
    use super::*;
    use optc_ir::Code;

    const A_CODE: Code = Code::input("a-code", "a word", "a word", "try");

    #[test]
    fn of_very_many_errors_some_are_shown() {
        let one = Diagnostic::error(A_CODE, "found it");
        let error = |n: usize| Error {
            diagnostics: vec![one.clone(); n],
            ..Error::about("f", one.clone())
        };
        let lines = |n: usize| error(n).render().lines().count();
        assert_eq!((lines(1), lines(100), lines(101)), (1, 100, 101));
        assert!(error(250).render().ends_with("f: and 150 more\n"));
    }
}
