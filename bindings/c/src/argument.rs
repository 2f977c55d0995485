//! Arguments of calls, and bytes that a call returns.

use optc::codes::shared::FOREIGN_ARGUMENT;
use optc::{Diagnostic, Error};
use std::ffi::{CStr, c_char};
use std::ptr::null_mut;

/// Bytes that a call returns. The caller frees them with `optc_bytes_free`.
#[repr(C)]
#[derive(Debug)]
pub struct OptcBytes {
    /// The first byte.
    pub data: *mut u8,
    /// The number of bytes.
    pub len: usize,
}

impl From<Vec<u8>> for OptcBytes {
    fn from(bytes: Vec<u8>) -> OptcBytes {
        let len = bytes.len();
        let data = Box::into_raw(bytes.into_boxed_slice()).cast();
        OptcBytes { data, len }
    }
}

/// Frees bytes, and makes them empty; NULL and empty bytes are allowed.
#[unsafe(no_mangle)]
pub extern "C" fn optc_bytes_free(bytes: Option<&mut OptcBytes>) {
    let Some(bytes) = bytes.filter(|bytes| !bytes.data.is_null()) else {
        return;
    };
    let slice = std::ptr::slice_from_raw_parts_mut(bytes.data, bytes.len);
    // SAFETY: a call of this library made `data` and `len` from a boxed slice, and they are freed once, since `data`
    // is null after that.
    drop(unsafe { Box::from_raw(slice) });
    (bytes.data, bytes.len) = (null_mut(), 0);
}

/// The error of a wrong argument.
pub(crate) fn wrong(message: impl Into<String>) -> Error {
    Error::about(
        "<call>",
        Diagnostic::error(FOREIGN_ARGUMENT, message.into()),
    )
}

/// An argument that must not be NULL.
pub(crate) fn given<T>(argument: Option<T>, name: &str) -> Result<T, Error> {
    argument.ok_or_else(|| wrong(format!("found NULL as `{name}`, wanted a pointer")))
}

/// A text of a caller, which may be NULL.
pub(crate) fn optional_text<'a>(text: *const c_char, name: &str) -> Result<Option<&'a str>, Error> {
    if text.is_null() {
        return Ok(None);
    }
    // SAFETY: the header demands a text that ends with NUL and stays unchanged during the call.
    let text = unsafe { CStr::from_ptr(text) };
    let read = text.to_str().map(Some);
    read.map_err(|e| wrong(format!("`{name}` is not UTF-8: {e}")))
}

/// A text of a caller.
pub(crate) fn text<'a>(argument: *const c_char, name: &str) -> Result<&'a str, Error> {
    given(optional_text(argument, name)?, name)
}

/// An array of a caller, which may be NULL.
pub(crate) fn optional_list<'a, T>(items: *const T, len: usize) -> Option<&'a [T]> {
    // SAFETY: the header demands `len` items at the pointer, which stay unchanged during the call.
    (!items.is_null()).then(|| unsafe { std::slice::from_raw_parts(items, len) })
}

/// An array of a caller; NULL is an empty one.
pub(crate) fn list<'a, T>(items: *const T, len: usize, name: &str) -> Result<&'a [T], Error> {
    match optional_list(items, len) {
        None if len != 0 => Err(wrong(format!("found NULL as `{name}`, wanted {len} items"))),
        items => Ok(items.unwrap_or(&[])),
    }
}

/// A buffer of a caller that is written; NULL is an empty one.
pub(crate) fn buffer<'a>(bytes: *mut u8, len: usize, name: &str) -> Result<&'a mut [u8], Error> {
    if bytes.is_null() {
        return match len {
            0 => Ok(&mut []),
            _ => Err(wrong(format!("found NULL as `{name}`, wanted {len} bytes"))),
        };
    }
    // SAFETY: the header demands `len` bytes at the pointer, which nothing else reads or writes during the call.
    Ok(unsafe { std::slice::from_raw_parts_mut(bytes, len) })
}
