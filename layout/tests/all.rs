//! The tests of this crate, one binary: each file by itself would be linked with everything again.

mod brute_force;
mod causes;
mod cute;
mod draw;
mod explain;
mod never_panics;
mod notations;
mod support;
mod vectors;
