//! The command around a compiler as a library: [`Main`] is the command `optc` for a compiler of one's own, as a program
//! or in this process with the caller's streams. File tests run their `RUN:` lines in the second way.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! `command_line.rs` reads the options that `args.rs` declares, and `dispatch.rs` runs a command. `filetest` runs file tests
//! and `filecheck` compares their output. `transform.rs` runs passes. `model.rs` writes models and reads them back; `fallback.rs` keeps nodes that cannot be
//! written, or the original. `terminal.rs` shows progress and colours on a terminal. Only [`Main::run`] starts it, so commands
//! run in a test write the same bytes everywhere.

mod args;
mod bench;
mod boundary;
mod certificate;
mod codes;
mod command_line;
mod compare;
mod condition;
mod dispatch;
mod driver;
mod dump;
mod estimate;
pub mod explain;
mod failure;
mod fallback;
mod filecheck;
pub mod filetest;
mod inputs;
mod layout;
mod lists;
mod logging;
mod manual;
mod mesh;
mod model;
mod part;
mod reduce;
mod report;
mod rewrite;
mod run;
mod signals;
mod spec;
mod stats;
mod streams;
mod targets;
mod terminal;
mod test;
mod transform;
mod usage;
mod verify;
mod verify_diagnostics;
mod whole;

pub use codes::CODES;
pub use driver::Main;
pub use failure::Status;
pub use streams::Streams;
