//! Calls on threads of their own, and errors as exceptions.

use optc::Error;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The time between two looks for signals, such as that of Ctrl-C.
const STEP: Duration = Duration::from_millis(20);

/// Runs a call without the interpreter lock. A signal whose handler raises an exception ends the wait; the call then
/// ends by itself, and its result is dropped.
pub(crate) fn run<T: Send + 'static>(
    py: Python<'_>,
    call: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> PyResult<T> {
    let (sender, mut receiver) = channel();
    thread::Builder::new()
        .name("optc".to_owned())
        .spawn(move || {
            let done = catch_unwind(AssertUnwindSafe(call));
            // A caller that was interrupted no longer receives.
            let _ = sender.send(done.unwrap_or_else(|panic| Err(Error::of_panic(&*panic))));
        })?;
    loop {
        let waited = py.detach(move || {
            let waited = receiver.recv_timeout(STEP);
            (receiver, waited)
        });
        receiver = waited.0;
        match waited.1 {
            Ok(done) => return done.map_err(|error| raised(py, &error)),
            Err(RecvTimeoutError::Timeout) => py.check_signals()?,
            Err(RecvTimeoutError::Disconnected) => {
                return Err(PyRuntimeError::new_err("the call ended without a result"));
            }
        }
    }
}

/// The exception `optc.Error` of an error.
pub(crate) fn raised(py: Python<'_>, error: &Error) -> PyErr {
    let (line, column) = error.place().unzip();
    let parts = (
        error.code(),
        error.message(),
        &*error.file,
        line,
        column,
        error.render(),
    );
    let made = py
        .import("optc._error")
        .and_then(|module| module.getattr("Error")?.call1(parts));
    made.map_or_else(|failed| failed, PyErr::from_value)
}
