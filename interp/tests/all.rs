//! The tests of this crate in one binary, so that everything is linked once.

mod codes;
mod index_vectors;
mod physical;
mod run;
mod tiled;
