//! The tests of this crate in one binary, so that everything is linked once.

mod element_types;
mod graphs;
mod hostile;
mod models;
mod nameless;
mod support;
