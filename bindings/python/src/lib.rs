//! The native part of the Python package `optc`; `python/optc` is the interface around it.
//!
//! Every call that compiles or runs does so on a thread of its own, without the interpreter lock, while the calling
//! thread looks for signals: Ctrl-C raises `KeyboardInterrupt` at once.
//!
//! # Files
//! - `task.rs` runs a call on its thread, and turns errors into exceptions.
//! - `program.rs` has programs, `fold.rs` folds them, `answer.rs` has the answer, and `tensors.rs` the elements of arrays.

mod answer;
mod fold;
mod program;
mod task;
mod tensors;

use pyo3::prelude::*;
use std::io;

/// Runs the command `optc` with the streams of the process; returns its exit status.
#[pyfunction]
fn main(py: Python<'_>, args: Vec<String>) -> u8 {
    py.detach(|| optc_cli::Main::default().run_with(args.into_iter().map(Into::into).collect()))
}

/// Runs the command `optc`; returns its exit status, its output and its messages.
#[pyfunction]
fn call(py: Python<'_>, args: Vec<String>) -> PyResult<(u8, String, String)> {
    task::run(py, move || {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut streams = optc_cli::Streams {
            input: &mut io::empty(),
            output: &mut output,
            errors: &mut errors,
        };
        let status = optc_cli::Main::default().call(args, &mut streams);
        let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
        Ok((status, text(output), text(errors)))
    })
}

#[pymodule]
fn _optc(module: &Bound<'_, PyModule>) -> PyResult<()> {
    module.add("__version__", env!("CARGO_PKG_VERSION"))?;
    module.add_class::<program::Program>()?;
    module.add_class::<answer::Answer>()?;
    module.add_function(wrap_pyfunction!(fold::fold, module)?)?;
    module.add_function(wrap_pyfunction!(main, module)?)?;
    module.add_function(wrap_pyfunction!(call, module)?)
}
