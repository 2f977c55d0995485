//! The tests of this crate, one binary: each file by itself would be linked with everything again.

mod element_types;
mod graphs;
mod hostile;
mod models;
mod support;
