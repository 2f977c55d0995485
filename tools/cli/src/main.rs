//! The `optc` command: passes the arguments and the standard streams to the library.

use optc_cli::{Streams, run_command};
use std::io::{BufWriter, stderr, stdin, stdout};
use std::process::ExitCode;

/// The allocator: a fold allocates and frees many short lists on two threads.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    // Options are valid text; a path need not be.
    let args = || std::env::args_os().map(|arg| arg.to_string_lossy().into_owned());
    optc_cli::logging::start(args());
    optc_cli::terminal::start(args());
    optc_cli::signals::start();
    let mut input = stdin().lock();
    let mut output = BufWriter::new(stdout().lock());
    let mut errors = stderr();
    let mut streams = Streams {
        input: &mut input,
        output: &mut output,
        errors: &mut errors,
    };
    let status = run_command(std::env::args_os(), &mut streams);
    optc_cli::terminal::finish();
    ExitCode::from(status)
}
