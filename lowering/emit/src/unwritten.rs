//! Operations that a format has no form of.
//!
//! The writer of an operation asks for facts: its attributes, an axis, known sizes. `known(sizes(ty))?` ends it if the
//! fact is missing, and the caller tries the next writer, or writes what the format has for any operation.

use optc_ir::{Diagnostic, OpError};

/// The result of writing an operation, or the reason for which it is not written.
pub(crate) type Form<T> = Result<T, Unwritten>;

/// The reason for which an operation is not written in a form of its own.
pub(crate) enum Unwritten {
    /// The format has no form of it.
    NoForm,
    /// The program cannot be written.
    Error(Box<Diagnostic>),
}

impl From<Box<Diagnostic>> for Unwritten {
    fn from(error: Box<Diagnostic>) -> Unwritten {
        Unwritten::Error(error)
    }
}

impl From<OpError> for Unwritten {
    fn from(_: OpError) -> Unwritten {
        Unwritten::NoForm
    }
}

/// A fact that an operation needs for its form.
pub(crate) fn known<T>(fact: Option<T>) -> Form<T> {
    fact.ok_or(Unwritten::NoForm)
}

/// The first form that there is of those that `write` makes of the items in turn.
pub(crate) fn first<T, R>(
    items: impl IntoIterator<Item = T>,
    mut write: impl FnMut(T) -> Form<R>,
) -> Form<R> {
    for item in items {
        match write(item) {
            Err(Unwritten::NoForm) => {}
            written => return written,
        }
    }
    Err(Unwritten::NoForm)
}
