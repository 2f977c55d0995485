//! The tests of this crate in one binary, so that everything is linked once.

mod conversion;
mod support;
