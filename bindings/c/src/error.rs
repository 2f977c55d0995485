//! Errors as values.

use crate::c_text;
use optc::Error;
use std::ffi::{CString, c_char};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr::null;

/// The reason why a call failed. The caller frees it.
#[derive(Debug)]
pub struct OptcError {
    code: CString,
    message: CString,
    file: CString,
    text: CString,
    place: Option<(usize, usize)>,
}

impl OptcError {
    fn new(error: &Error) -> Box<OptcError> {
        Box::new(OptcError {
            code: c_text(error.code()),
            message: c_text(error.message()),
            file: c_text(&*error.file),
            text: c_text(error.render()),
            place: error.place(),
        })
    }
}

/// Runs the body of an entry. A panic in it becomes an error.
pub(crate) fn enter(body: impl FnOnce() -> Result<(), Error>) -> Option<Box<OptcError>> {
    let body = || body().map_err(|error| OptcError::new(&error));
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(done) => done.err(),
        Err(panic) => Some(OptcError::new(&Error::of_panic(&*panic))),
    }
}

fn part(error: Option<&OptcError>, part: impl Fn(&OptcError) -> &CString) -> *const c_char {
    error.map_or(null(), |error| part(error).as_ptr())
}

/// The stable code, such as `unknown-target`. `docs/diagnostics.md` lists the codes.
#[unsafe(no_mangle)]
pub extern "C" fn optc_error_code(error: Option<&OptcError>) -> *const c_char {
    part(error, |e| &e.code)
}

/// The message of the first error, in one line.
#[unsafe(no_mangle)]
pub extern "C" fn optc_error_message(error: Option<&OptcError>) -> *const c_char {
    part(error, |e| &e.message)
}

/// The name of the input that the error is about.
#[unsafe(no_mangle)]
pub extern "C" fn optc_error_file(error: Option<&OptcError>) -> *const c_char {
    part(error, |e| &e.file)
}

/// All errors with their places and hints, as the command prints them.
#[unsafe(no_mangle)]
pub extern "C" fn optc_error_text(error: Option<&OptcError>) -> *const c_char {
    part(error, |e| &e.text)
}

/// The line of the place in the input, from 1; 0 if the error is about no place in a text.
#[unsafe(no_mangle)]
pub extern "C" fn optc_error_line(error: Option<&OptcError>) -> usize {
    error.and_then(|e| e.place).map_or(0, |(line, _)| line)
}

/// The column of the place in the input, in characters from 1; 0 if the error is about no place in a text.
#[unsafe(no_mangle)]
pub extern "C" fn optc_error_column(error: Option<&OptcError>) -> usize {
    error.and_then(|e| e.place).map_or(0, |(_, column)| column)
}

/// Frees an error; NULL is allowed.
#[unsafe(no_mangle)]
pub extern "C" fn optc_error_free(error: Option<Box<OptcError>>) {
    drop(error);
}
