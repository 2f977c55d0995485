//! Folds of programs, with their options.

use crate::answer::Answer;
use crate::program::Program;
use crate::task;
use optc::{Compiler, Error};
use pyo3::prelude::*;
use std::sync::Arc;

/// The options of a fold, as a dictionary of Python.
#[derive(FromPyObject)]
#[pyo3(from_item_all)]
pub(crate) struct Options {
    target: Option<String>,
    pins: Vec<(String, String)>,
    free: Vec<String>,
    free_all: bool,
    alias: Vec<(String, String)>,
    bind: Vec<(String, u64)>,
    passes: String,
}

/// Folds a program.
#[pyfunction]
pub(crate) fn fold(py: Python<'_>, program: &Program, options: Options) -> PyResult<Answer> {
    let program = program.program.clone();
    task::run(py, move || {
        let compiler = compiler(&program, &options)?;
        Answer::new(compiler, program, &options.passes)
    })
}

fn compiler(program: &optc::Program, options: &Options) -> Result<Compiler, Error> {
    let mut compiler = Compiler::new();
    if let Some(name) = &options.target {
        compiler.target = Some(Arc::new(compiler.find_target(name)?));
    }
    for (name, layout) in &options.pins {
        let layout = program.port_layout(name, layout)?;
        compiler.boundary.pins.insert(name.clone(), layout);
    }
    compiler.boundary.free.clone_from(&options.free);
    compiler.boundary.free_all = options.free_all;
    for (argument, result) in &options.alias {
        compiler.alias(argument, result);
    }
    for (name, size) in &options.bind {
        compiler.bindings.0.insert(Arc::from(&**name), *size);
    }
    compiler.explain_remarks = true;
    Ok(compiler)
}
