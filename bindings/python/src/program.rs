//! Programs.

use crate::task;
use crate::tensors::{Given, Made, Port, arguments, arrays, execute, results, tensors};
use optc::interp::{Fill, random_inputs};
use optc::{Bindings, Compiler, Diagnostic, Format};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use std::path::PathBuf;
use std::sync::Arc;

/// A program that was read and verified.
#[pyclass(frozen)]
pub(crate) struct Program {
    pub(crate) program: Arc<optc::Program>,
}

fn named(format: Option<&str>) -> PyResult<Option<Format>> {
    let Some(name) = format else { return Ok(None) };
    let known = Format::NAMES.join(", ");
    let unknown =
        || PyValueError::new_err(format!("found the format {name:?}, wanted one of {known}"));
    Format::named(name).map(Some).ok_or_else(unknown)
}

impl Program {
    fn new(mut program: optc::Program) -> Program {
        Compiler::new().name_sizes(&mut program);
        Program {
            program: Arc::new(program),
        }
    }
}

#[pymethods]
impl Program {
    /// Reads a file.
    #[staticmethod]
    fn load(py: Python<'_>, path: PathBuf, format: Option<&str>) -> PyResult<Program> {
        let format = named(format)?;
        task::run(py, move || {
            Ok(Program::new(Compiler::new().load(&path, format)?))
        })
    }

    /// Reads bytes; `name` is their name in messages.
    #[staticmethod]
    fn read(
        py: Python<'_>,
        bytes: PyBackedBytes,
        name: String,
        format: Option<&str>,
    ) -> PyResult<Program> {
        let format = named(format)?;
        task::run(py, move || {
            let read = Compiler::new().read_memory(&name, Arc::from(&*bytes), format)?;
            Ok(Program::new(read))
        })
    }

    /// The text of the program.
    fn text(&self) -> String {
        self.program.text()
    }

    /// The names of the values of the default function.
    fn names(&self) -> Vec<String> {
        let values = self.program.values().into_iter();
        values.map(|(_, name)| name).collect()
    }

    /// The arguments of the default function.
    fn arguments(&self) -> Vec<Port> {
        arguments(&self.program)
    }

    /// The results of the default function.
    fn results(&self) -> Vec<Port> {
        results(&self.program)
    }

    /// Random inputs; a size that has only a name is 2, or the bound one.
    fn random_inputs<'py>(
        &self,
        py: Python<'py>,
        seed: u64,
        bind: Vec<(String, u64)>,
    ) -> PyResult<Vec<Made<'py>>> {
        let program = self.program.clone();
        let made = task::run(py, move || {
            let sizes = bind.into_iter().map(|(name, n)| (Arc::from(name), n));
            let sizes = Bindings(sizes.collect());
            let entry = program.entry().map_or("main", |func| &*func.name);
            let compiler = Compiler::new();
            let (module, registry) = (&program.module, compiler.registry());
            let made = random_inputs(module, entry, Fill::Normal, seed, &sizes, registry);
            made.map_err(|e| program.error(vec![Diagnostic::error(e.code(), e.to_string())]))
        })?;
        Ok(arrays(py, &made))
    }

    /// Runs the default function by the physical executor.
    fn run<'py>(&self, py: Python<'py>, inputs: Vec<Given>) -> PyResult<Vec<Made<'py>>> {
        let program = self.program.clone();
        let made = task::run(py, move || {
            let inputs = tensors(&program, inputs)?;
            execute(&Compiler::new(), &program, &inputs)
        })?;
        Ok(arrays(py, &made))
    }
}
