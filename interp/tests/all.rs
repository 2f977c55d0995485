//! The tests of this crate, one binary: each file by itself would be linked with everything again.

mod codes;
mod index_vectors;
mod npz;
mod physical;
mod run;
mod tiled;
