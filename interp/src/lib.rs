//! The two oracles of optc. They run programs slowly and plainly, so that the output of passes can be checked against
//! them.
//!
//! [`run_reference`] computes on logical tensors. [`run_naive`] keeps every value in a flat, poisoned buffer of its
//! layout's size and addresses it by an index formula of its own. An illegal view therefore shows as a wrong result or
//! as a read of poison. [`equivalent`] runs two programs on the same seeded inputs with both. Neither shares code with
//! the layout algebra.
//!
//! `tiled` runs a plan program by program on parts of values, with poison around them. It takes only the form of a
//! schedule for granted, so a wrong schedule gives wrong numbers.
//!
//! For example, a `hbir.view` states that the column-major buffer of a 4x8 matrix is the row-major buffer of its
//! transpose. [`run_naive`] forwards the buffer without a check. If the statement is wrong, the next operation reads
//! wrong elements or poison.
//!
//! # Files
//! - `equivalent.rs` compares two programs: `sizes.rs` finds sizes that they run with, `random.rs` makes inputs,
//!   `same.rs` finds the functions that compute the same, `uninterpreted.rs` defines the functions that stand for
//!   opaque operations, and `memo.rs` keeps costly results for the other program.

mod codes;
mod compare;
mod constant;
mod control;
mod data;
mod dimension_numbers;
mod equivalent;
mod error;
mod frame;
mod limit;
mod matching;
mod memo;
pub mod naive;
pub mod npz;
mod places;
mod ports;
mod random;
mod reference;
mod same;
mod scope;
mod sharing;
mod sizes;
mod tiled;
mod uninterpreted;
mod walk;

pub use codes::CODES;
pub use compare::{Mismatch, MismatchKind, compare, compare_exact, tolerance};
pub use constant::constant;
pub use control::{RunsFunctions, Values, empty, ranks, run_control};
pub use data::{DataError, DataSource, FallbackSource, FolderSource, MemorySource, NoData};
pub use equivalent::{EquivalenceOptions, Execution, NotEquivalent, equivalent};
pub use error::{InputError, OpFailure, RunError};
pub use frame::Schedules;
pub use limit::{MAX_BYTES, MAX_ELEMENTS, MAX_STEPS};
pub use matching::check_boundary;
pub use naive::run_naive;
pub use ports::{argument_keys, result_keys};
pub use random::{DEFAULT_SIZE, Fill, RandomSource, SplitMix64, random_inputs, random_tensor};
pub use reference::run_reference;
pub use scope::check_inputs;
pub use sizes::MAX_CHOSEN_ELEMENTS;
pub use tiled::{TileFault, run_scheduled, run_tiled};
pub use walk::MAX_CALL_DEPTH;
