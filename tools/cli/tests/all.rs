//! The tests of this crate, one binary: each file by itself would be linked with everything again.

mod bench;
mod door;
mod equivalence;
mod estimate;
mod filetest;
mod hlo;
mod layout;
mod pictures;
mod programs;
mod rewrite;
mod stats;
mod support;
mod tiles;
mod usage;
