//! The `optc` command as a library: it takes the same arguments and runs in this process with the caller's streams.
//! File tests run their `RUN:` lines in this way.
//!
//! `transform.rs` runs passes. `model.rs` writes models and reads them back; `fallback.rs` keeps nodes that cannot be
//! written, or the original. `terminal.rs` shows progress and colours on a terminal. Only `main` starts it, so commands
//! run in a test write the same bytes everywhere.

mod args;
mod bench;
mod boundary;
mod certificate;
mod codes;
mod compare;
mod condition;
mod dump;
mod estimate;
pub mod explain;
mod failure;
mod fallback;
pub mod filetest;
mod inputs;
mod layout;
mod lists;
pub mod logging;
mod manual;
mod model;
mod part;
mod rewrite;
mod run;
pub mod signals;
mod spec;
mod stats;
mod streams;
mod targets;
pub mod terminal;
mod test;
mod transform;
mod usage;
mod verify;
mod verify_diagnostics;

use args::{Cli, Command};
use failure::Failure;
use optc::Error;
use std::ffi::OsString;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use streams::Watched;

pub use codes::CODES;
pub use failure::Status;
pub use manual::manual;
pub use streams::Streams;

/// Runs the command with these arguments, the program's name first, and returns its exit status: 0 done, 1 the input
/// was refused or a check failed, 2 wrong usage.
///
/// The output is flushed. A failed write to it is `io-write`, status 1. A reader that closed its end of a pipe is not a
/// failure: the rest of the output is dropped and the status is unchanged.
///
/// No panic leaves this function: a defect of the compiler is reported as `internal-error`, status 1.
pub fn run_command<I, T>(args: I, streams: &mut Streams<'_>) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let mut output = Watched::new(&mut *streams.output);
    let mut watched = Streams {
        input: &mut *streams.input,
        output: &mut output,
        errors: &mut *streams.errors,
    };
    let status = answer(args, &mut watched);
    match output.finish() {
        Ok(()) => status,
        Err(error) => {
            let error = Error::io("write", Path::new("<stdout>"), &error);
            streams.error_text(&error.render());
            status.max(Status::Refused.code())
        }
    }
}

/// Reads the arguments and executes them.
fn answer<I, T>(args: I, streams: &mut Streams<'_>) -> u8
where
    I: IntoIterator<Item = T>,
    T: Into<OsString> + Clone,
{
    let cli = match Cli::read(args) {
        Ok(cli) => cli,
        Err(error) => return explain_usage(&error, streams),
    };
    let done = catch_unwind(AssertUnwindSafe(|| dispatch(&cli, streams)));
    let done = done.unwrap_or_else(|panic| Err(Failure::internal(&*panic)));
    match done {
        Ok(status) => status.code(),
        Err(failure) => {
            streams.error_text(&failure.text);
            failure.status.code()
        }
    }
}

fn dispatch(cli: &Cli, streams: &mut Streams<'_>) -> Result<Status, Failure> {
    match &cli.command {
        None => rewrite::command(&cli.rewrite, streams),
        Some(Command::Stats(args)) => match &args.compare {
            Some(paths) => compare::command(paths, args, streams),
            None => stats::command(args, streams),
        },
        Some(Command::Layout(args)) => layout::command(args, streams),
        Some(Command::Run(args)) => run::command(args, streams),
        Some(Command::Verify(args)) => verify::command(args, streams),
        Some(Command::Test(args)) => test::command(args, streams),
        Some(Command::Spec(args)) => spec::command(args, streams),
        Some(Command::Targets(args)) => targets::command(args, streams),
        Some(Command::Explain(args)) => explain::command(args, streams),
        Some(Command::Bench(args)) => bench::command(args, streams),
        Some(Command::Completions(args)) => {
            streams.print(&manual::completions(args.shell));
            Ok(Status::Done)
        }
    }
}

/// Prints help and version to the output, which is not an error; everything else is wrong usage.
fn explain_usage(error: &clap::Error, streams: &mut Streams<'_>) -> u8 {
    let text = error.render().to_string();
    if error.use_stderr() {
        streams.error_text(&text);
        Status::Usage.code()
    } else {
        streams.print(&text);
        Status::Done.code()
    }
}
