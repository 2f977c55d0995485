//! The tests of this crate, one binary: each file by itself would be linked with everything again.

mod import;
mod numbers;
mod text;
