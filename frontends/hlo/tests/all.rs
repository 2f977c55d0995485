//! The tests of this crate in one binary, so that everything is linked once.

mod import;
mod numbers;
mod text;
