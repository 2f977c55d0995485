//! The generated pages under `docs/`, for the command that writes them and the tests that compare them.

pub mod code;
pub mod diagnostics;
pub mod docs;
mod error;

pub use error::ChoreError;
