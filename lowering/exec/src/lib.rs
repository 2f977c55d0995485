//! Runs bufferized programs in real buffers: strided, tiled and padded as their layouts say.
//!
//! An [`Executable`] is made once of a function whose memory is decided (`bufferize`, `plan-memory`): every operation
//! becomes a step with the places of its operands and results, and constants are prepared. Running it fills the arguments'
//! buffers, executes the steps and reads the results.
//!
//! An operation has a kernel of its own, or goes the way that is there for all: its operands are gathered to logical order,
//! it is evaluated by the semantics that it declares, and the results are scattered. What that moves is counted as
//! [`staged`](StepProfile::staged) bytes. No result depends on the number of threads: there is one.

mod access;
mod buffer;
mod codes;
mod compile;
mod memory;
mod nest;
mod ops;
mod profile;
mod run;

pub use codes::CODES;
pub use compile::{ExecOptions, Executable};
pub use profile::{Profile, StepProfile};
