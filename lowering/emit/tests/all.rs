//! The tests of this crate in one binary, so that everything is linked once.

mod defaults;
mod forms;
mod meshes;
#[path = "../../../ops/tests/ops_support/mod.rs"]
mod ops_support;
mod opsets;
