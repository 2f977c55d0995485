//! Generated pages under `docs/`, for the command that writes them and the tests that compare them, and counts of the code.

pub mod code;
pub mod diagnostics;
pub mod docs;
