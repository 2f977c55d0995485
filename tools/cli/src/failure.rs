//! Failures of a command and its exit status.

use optc::text::nearest;
use optc::{Diagnostic, Error, internal_error};
use std::any::Any;

/// The exit status of a command.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Status {
    /// Everything was done.
    Done,
    /// The input was refused, or a check failed.
    Refused,
    /// The command was called in a wrong way.
    Usage,
}

impl Status {
    /// The number with which the process ends.
    #[must_use]
    pub fn code(self) -> u8 {
        match self {
            Status::Done => 0,
            Status::Refused => 1,
            Status::Usage => 2,
        }
    }
}

/// A status other than done, and the text for the error stream.
#[derive(Debug)]
pub(crate) struct Failure {
    pub(crate) status: Status,
    pub(crate) text: String,
}

impl Failure {
    /// A wrong usage that the argument parser cannot detect.
    pub(crate) fn usage(text: impl Into<String>) -> Failure {
        Failure {
            status: Status::Usage,
            text: format!("error: {}\n", text.into()),
        }
    }

    /// An option with a name that does not exist; `advice` lists the existing names.
    pub(crate) fn unknown<'a>(
        option: &str,
        what: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
        advice: &str,
    ) -> Failure {
        let near = nearest(name, known).map(|near| format!("  hint: did you mean {near}?\n"));
        Failure {
            status: Status::Usage,
            text: format!(
                "error: {option}: found no {what} `{name}`: {advice}\n{}",
                near.unwrap_or_default()
            ),
        }
    }

    /// A failed check, whose findings are already written; `text` follows them.
    pub(crate) fn check(text: impl Into<String>) -> Failure {
        Failure {
            status: Status::Refused,
            text: text.into(),
        }
    }

    /// A refusal about a file that is not a program.
    pub(crate) fn about(file: &str, diag: Diagnostic) -> Failure {
        Error::about(file, diag).into()
    }

    /// A defect of the compiler.
    pub(crate) fn internal(program: &str, panic: &(dyn Any + Send)) -> Failure {
        Failure::about(program, internal_error(program, panic))
    }
}

/// The option that a diagnostic is about; `None` if it is about the program.
fn option_of(diag: &Diagnostic) -> Option<&'static str> {
    match diag.code.as_str() {
        "option-value" => Some("--pass"),
        "unknown-rule" => Some("--rules"),
        "pin-layout" => Some("--pin"),
        _ => None,
    }
}

/// Returns whether an error of a pass is about an option and not about the program.
pub(crate) fn blames_option(error: &Error) -> bool {
    error
        .diagnostics
        .iter()
        .any(|diag| option_of(diag).is_some())
}

impl From<Error> for Failure {
    fn from(mut error: Error) -> Failure {
        let option = error
            .diagnostics
            .iter()
            .find_map(|d| Some((option_of(d)?, d.clone())));
        if let Some((option, diag)) = option {
            error = Error::about(option, diag);
        }
        // An error about an option (a pass, a pin, a target) is about the command, not about the input.
        let usage = error.file.starts_with("--");
        let status = if usage {
            Status::Usage
        } else {
            Status::Refused
        };
        Failure {
            status,
            text: error.render(),
        }
    }
}
