//! Runs the commands of a driver.

use crate::args::{Cli, Command};
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::filetest::{self, Outcome};
use crate::streams::{Streams, Watched};
use crate::{
    bench, command_line, compare, explain, layout, logging, manual, reduce, report, rewrite, run,
    signals, spec, stats, targets, terminal, test, verify,
};
use optc::Error;
use std::ffi::OsString;
use std::io::{BufWriter, stderr, stdin, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;
use std::process::ExitCode;

impl Main {
    /// Runs the command with the arguments and the standard streams of the process, as its `main` function. Logging,
    /// progress on a terminal and the removal of half-written files at a signal are started.
    #[must_use]
    pub fn run(&self) -> ExitCode {
        ExitCode::from(self.run_with(std::env::args_os().collect()))
    }

    /// Runs the command as [`Main::run`] does with other arguments, the program's name first, and returns its exit
    /// status.
    #[must_use]
    pub fn run_with(&self, args: Vec<OsString>) -> u8 {
        // Options are valid text; a path need not be.
        let texts = || args.iter().map(|arg| arg.to_string_lossy().into_owned());
        logging::start(texts());
        terminal::start(texts());
        signals::start();
        let mut input = stdin().lock();
        let mut output = BufWriter::new(stdout().lock());
        let mut errors = stderr();
        let mut streams = Streams {
            input: &mut input,
            output: &mut output,
            errors: &mut errors,
        };
        let status = self.call(args.iter().cloned(), &mut streams);
        terminal::finish();
        status
    }

    /// Runs the command in this process with these arguments, the program's name first, and returns its exit status: 0
    /// done, 1 the input was refused or a check failed, 2 wrong usage.
    ///
    /// The output is flushed. A failed write to it is `io-write`, status 1. A reader that closed its end of a pipe is
    /// not a failure: the rest of the output is dropped and the status is unchanged.
    ///
    /// No panic leaves this function: a defect of the compiler is reported as `internal-error`, status 1.
    pub fn call<I, T>(&self, args: I, streams: &mut Streams<'_>) -> u8
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
        let status = self.answer(args, &mut watched);
        match output.finish() {
            Ok(()) => status,
            Err(error) => {
                let error = Error::io("write", Path::new("<stdout>"), &error);
                streams.error_text(&error.render());
                status.max(Status::Refused.code())
            }
        }
    }

    /// Runs one file test in this process, as the subcommand `test` does.
    #[must_use]
    pub fn test(&self, path: &Path) -> Outcome {
        filetest::run(self, path)
    }

    /// The help of every command as a page.
    #[must_use]
    pub fn manual(&self) -> String {
        manual::manual(self)
    }

    /// Reads the arguments and executes them.
    fn answer<I, T>(&self, args: I, streams: &mut Streams<'_>) -> u8
    where
        I: IntoIterator<Item = T>,
        T: Into<OsString> + Clone,
    {
        let cli = match command_line::read(self, args) {
            Ok(cli) => cli,
            Err(error) => return explain_usage(&error, streams),
        };
        let done = catch_unwind(AssertUnwindSafe(|| self.dispatch(&cli, streams)));
        let done = done.unwrap_or_else(|panic| Err(Failure::internal(self.name, &*panic)));
        match done {
            Ok(status) => status.code(),
            Err(failure) => {
                streams.error_text(&failure.text);
                failure.status.code()
            }
        }
    }

    fn dispatch(&self, cli: &Cli, streams: &mut Streams<'_>) -> Result<Status, Failure> {
        match &cli.command {
            None => rewrite::command(self, &cli.rewrite, streams),
            Some(Command::Stats(args)) => match &args.compare {
                Some(paths) => compare::command(self, paths, args, streams),
                None => stats::command(self, args, streams),
            },
            Some(Command::Report(args)) => report::command(self, args, streams),
            Some(Command::Layout(args)) => layout::command(args, streams),
            Some(Command::Run(args)) => run::command(self, args, streams),
            Some(Command::Verify(args)) => verify::command(self, args, streams),
            Some(Command::Test(args)) => test::command(self, args, streams),
            Some(Command::Spec(args)) => spec::command(args, streams),
            Some(Command::Targets(args)) => targets::command(self, args, streams),
            Some(Command::Explain(args)) => explain::command(self, args, streams),
            Some(Command::Bench(args)) => bench::command(self, args, streams),
            Some(Command::Reduce(args)) => reduce::command(self, args, streams),
            Some(Command::Completions(args)) => {
                streams.print(&manual::completions(self, args.shell));
                Ok(Status::Done)
            }
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
