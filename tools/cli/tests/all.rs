//! The tests of this crate in one binary, so that everything is linked once.

mod bench;
mod door;
mod equivalence;
mod estimate;
mod filetest;
mod hlo;
mod layout;
mod pictures;
mod programs;
mod reduce;
mod rewrite;
mod stats;
mod support;
mod tiles;
mod usage;
