//! Chores of the repository.
//!
//! - `cargo run --release -p optc-xtask -- answers MODEL.onnx…` checks for several targets that each value of the models is
//!   held where the answer says, with these elements in the executor.
//! - `cargo run -p optc-xtask -- docs [--check]` writes (or compares) the generated pages under
//!   `docs/`.
//! - `cargo run -p optc-xtask -- code` counts lines of code of each crate and lists functions of more than 80 lines.
//! - `cargo run --release -p optc-xtask -- results MODEL.onnx… [--out docs/results.md]` folds the models and writes the
//!   table of results. `--scale FILE` inserts the output of `cargo bench -p optc-bench --bench scaling` from FILE;
//!   without it that section is kept. Without models the rest of the page is kept. `--svg FILE` draws the chart
//!   `docs/results.svg`.
#![expect(clippy::print_stdout, reason = "a command prints")]

mod answers;
mod chart;
mod results;

use optc_xtask::{ChoreError, code, docs};
use std::process::ExitCode;

fn main() -> ExitCode {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let outcome = match args.first().map(String::as_str) {
        Some("answers") => answers::run(&args[1..]),
        Some("docs") => docs::run(&args[1..]),
        Some("code") => code::table().map(|text| print!("{text}")),
        Some("results") => results::run(&args[1..]),
        _ => Err(ChoreError::Usage),
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            println!("error: {error}");
            ExitCode::FAILURE
        }
    }
}
