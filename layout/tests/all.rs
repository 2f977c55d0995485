//! The tests of this crate in one binary, so that everything is linked once.

mod brute_force;
mod causes;
mod cute;
mod draw;
mod explain;
mod gallery;
mod never_panics;
mod notations;
mod support;
mod vectors;
