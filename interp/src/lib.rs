//! The two oracles of optc. They run programs slowly and plainly, so that the output of passes can be checked against
//! them.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! [`run_reference`] computes on logical tensors. [`run_naive`] keeps every value in a flat, poisoned buffer of its
//! layout's size and addresses it by an index formula of its own. An illegal view therefore shows as a wrong result or
//! as a read of poison. Neither shares code with the layout algebra.
//!
//! `tiled` runs a plan program by program on parts of values, with poison around them. It takes only the form of a
//! schedule for granted, so a wrong schedule gives wrong numbers.
//!
//! For example, a `hbir.view` states that the column-major buffer of a 4x8 matrix is the row-major buffer of its
//! transpose. [`run_naive`] forwards the buffer without a check. If the statement is wrong, the next operation reads
//! wrong elements or poison.
//!
//! # Files
//! - `walk.rs` runs a function, `frame.rs` is one call, and a `Memory` decides how values are held: `reference.rs` as
//!   tensors, `naive` as buffers.
//! - `beside.rs` runs a program that is compared with another one: `uninterpreted.rs` defines the functions that stand
//!   for opaque operations, `contents.rs` reads graphs that they keep, and `memo.rs` keeps costly results for the other program.
//!
//! The crate `optc-compare` makes inputs and compares results.

mod beside;
mod codes;
mod constant;
mod contents;
mod control;
mod data;
mod dimension_numbers;
mod error;
mod frame;
mod limit;
mod memo;
pub mod naive;
mod places;
mod ports;
mod reference;
mod scope;
mod sharing;
mod tiled;
mod uninterpreted;
mod walk;

pub use beside::Beside;
pub use codes::CODES;
pub use constant::constant;
pub use contents::{Contents, Messages};
pub use control::{RunsFunctions, Values, empty, ranks, run_control};
pub use data::{DataError, DataSource, FallbackSource, FolderSource, MemorySource, NoData};
pub use error::{InputError, OpFailure, RunError};
pub use frame::Schedules;
pub use limit::{
    Budget, MAX_BYTES, MAX_ELEMENTS, MAX_STEPS, elements_within_limit, index_text, shape_text,
};
pub use memo::Memo;
pub use naive::run_naive;
pub use ports::{argument_keys, result_keys};
pub use reference::run_reference;
pub use scope::{
    Malformed, Scope, check_inputs, find_func, shape_or_default, type_text, well_formed,
};
pub use tiled::{TileFault, run_scheduled, run_tiled};
pub use uninterpreted::{Opaque, held_type, named_functions};
pub use walk::{MAX_CALL_DEPTH, reachable};
