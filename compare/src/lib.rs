//! Comparison of programs and of what they compute: the inputs, the results, and the tolerance between them.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! For example, let a program be folded. [`equivalent()`] makes inputs from a seed, runs both programs on them by the
//! oracles of `optc-interp`, and compares each result of the second with that of the first.
//!
//! # Files
//! - `inputs.rs` makes inputs and weights from a seed, and `npz` reads and writes them as files of NumPy.
//! - `tensors.rs` compares two tensors.
//! - `equivalent.rs` compares two programs: `matching.rs` pairs their arguments, results and names of sizes, `sizes.rs`
//!   finds sizes that they run with, and `same.rs` finds the functions that compute the same.

mod equivalent;
mod inputs;
mod matching;
pub mod npz;
mod same;
mod sizes;
mod tensors;

pub use equivalent::{EquivalenceOptions, Execution, NotEquivalent, equivalent};
pub use inputs::{
    DEFAULT_SIZE, Fill, RandomSource, SplitMix64, nearby, random_inputs, random_tensor,
};
pub use matching::{BoundaryError, check_boundary};
pub use sizes::MAX_CHOSEN_ELEMENTS;
pub use tensors::{Mismatch, MismatchKind, compare, compare_exact, tolerance};
