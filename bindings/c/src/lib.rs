//! The C interface of optc: `include/optc.h` is made from this crate.
//!
//! A call returns an error or NULL. Its results are written through pointers, and only if it succeeds. Each entry
//! catches panics, which become the error `internal-error`. Handles are opaque and do not change after they are made,
//! except [`OptcOptions`], so threads may share them.
//!
//! # Files
//! - `error.rs` is the error that a call returns, `argument.rs` reads the arguments of a call.
//! - `layout.rs` has layouts, `program.rs` programs, `options.rs` targets and options, and `answer.rs` the fold.

#![allow(
    unsafe_code,
    reason = "names are exported without mangling; `argument.rs` alone follows pointers"
)]
#![allow(
    clippy::not_unsafe_ptr_arg_deref,
    reason = "C passes pointers; the header states what they point to"
)]

mod answer;
mod argument;
mod error;
mod layout;
mod options;
mod program;

use std::ffi::{CString, c_char};

pub use answer::{
    OptcAnswer, OptcConversion, OptcFate, OptcHolder, OptcView, optc_answer_conversion,
    optc_answer_conversion_count, optc_answer_fate, optc_answer_free, optc_answer_holder,
    optc_answer_holder_count, optc_answer_offset, optc_answer_proof, optc_answer_stat,
    optc_answer_view, optc_answer_write, optc_fold,
};
pub use argument::{OptcBytes, optc_bytes_free};
pub use error::{
    OptcError, optc_error_code, optc_error_column, optc_error_file, optc_error_free,
    optc_error_line, optc_error_message, optc_error_text,
};
pub use layout::{
    OptcDecision, OptcLayout, OptcMap, optc_decision_free, optc_decision_is_view,
    optc_decision_map, optc_decision_map_count, optc_decision_reason, optc_layout_bytes,
    optc_layout_convert, optc_layout_deduce, optc_layout_free, optc_layout_index,
    optc_layout_is_view, optc_layout_parse, optc_layout_rank, optc_layout_shape, optc_layout_text,
    optc_layout_written_as,
};
pub use options::{
    OptcOptions, OptcTarget, optc_options_alias, optc_options_bind, optc_options_free,
    optc_options_free_boundary, optc_options_new, optc_options_pin, optc_options_pipeline,
    optc_options_target, optc_target_find, optc_target_free, optc_target_name, optc_target_parse,
};
pub use program::{
    OptcProgram, optc_program_find, optc_program_free, optc_program_load, optc_program_read,
    optc_program_value_count, optc_program_value_name,
};

/// The version of the library.
#[unsafe(no_mangle)]
pub extern "C" fn optc_version() -> *const c_char {
    concat!(env!("CARGO_PKG_VERSION"), "\0").as_ptr().cast()
}

/// A text for C, up to its first NUL.
fn c_text(text: impl Into<Vec<u8>>) -> CString {
    let mut bytes = text.into();
    if let Some(end) = bytes.iter().position(|&b| b == 0) {
        bytes.truncate(end);
    }
    CString::new(bytes).unwrap_or_default()
}
