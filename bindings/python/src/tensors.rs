//! The elements of arrays: little-endian bytes in row-major order.

use indexmap::IndexMap;
use optc::exec::{ExecOptions, Executable};
use optc::interp::{argument_keys, result_keys};
use optc::memory::State;
use optc::{Bindings, Compiler, DType, Diagnostic, Dim, Error, Func, Program, Tensor, Value};
use pyo3::prelude::*;
use pyo3::pybacked::PyBackedBytes;
use pyo3::types::PyBytes;

/// An array that Python gives: its name, shape and bytes.
pub(crate) type Given = (String, Vec<usize>, PyBackedBytes);
/// An array for Python: its name, element type, shape and bytes.
pub(crate) type Made<'py> = (String, String, Vec<usize>, Bound<'py, PyBytes>);
/// An argument or result: its name, element type, and sizes.
pub(crate) type Port = (String, String, Vec<Size>);

/// A size or stride: a number, or a polynomial of names.
#[derive(IntoPyObject)]
pub(crate) enum Size {
    Number(u64),
    Named(String),
}

impl From<&Dim> for Size {
    fn from(dim: &Dim) -> Size {
        let named = || Size::Named(dim.to_string());
        dim.fixed().map_or_else(named, Size::Number)
    }
}

/// The arguments or results of a function that are tensors.
pub(crate) fn ports(func: &Func, names: Vec<String>, values: &[Value]) -> Vec<Port> {
    let port = |(name, &value): (String, &Value)| {
        let ty = func.ty(value).as_tensor()?;
        Some((
            name,
            ty.dtype.to_string(),
            ty.dims.iter().map(Size::from).collect(),
        ))
    };
    names.into_iter().zip(values).filter_map(port).collect()
}

/// The arguments of the default function.
pub(crate) fn arguments(program: &Program) -> Vec<Port> {
    let of = |func: &Func| ports(func, argument_keys(func), &func.args);
    program.entry().map(of).unwrap_or_default()
}

/// The results of the default function.
pub(crate) fn results(program: &Program) -> Vec<Port> {
    let of = |func: &Func| ports(func, result_keys(func), &func.results);
    program.entry().map(of).unwrap_or_default()
}

/// The arrays as tensors, with the element types of the arguments of their names.
pub(crate) fn tensors(
    program: &Program,
    given: Vec<Given>,
) -> Result<IndexMap<String, Tensor>, Error> {
    let types: IndexMap<String, DType> = program.entry().map_or_else(IndexMap::new, |func| {
        let keys = argument_keys(func).into_iter().zip(&func.args);
        let typed = keys.filter_map(|(key, &v)| Some((key, func.ty(v).as_tensor()?.dtype)));
        typed.collect()
    });
    let mut tensors = IndexMap::new();
    for (name, shape, bytes) in given {
        let refused = |message: String| {
            let diag = Diagnostic::error(optc::codes::shared::UNKNOWN_PORT, message);
            Error::about(&program.name, diag)
        };
        let ty = types.get(&name).ok_or_else(|| {
            let known: Vec<&str> = types.keys().map(String::as_str).collect();
            refused(format!(
                "found the input `{name}`, wanted {}",
                known.join(", ")
            ))
        })?;
        let made = Tensor::from_bytes(*ty, shape, &bytes);
        let made = made.map_err(|e| refused(format!("the input `{name}`: {e}")))?;
        tensors.insert(name, made);
    }
    Ok(tensors)
}

/// The tensors as arrays.
pub(crate) fn arrays<'py>(py: Python<'py>, tensors: &IndexMap<String, Tensor>) -> Vec<Made<'py>> {
    let array = |(name, tensor): (&String, &Tensor)| {
        let bytes = PyBytes::new(py, &tensor.to_bytes());
        (
            name.clone(),
            tensor.dtype.to_string(),
            tensor.shape.clone(),
            bytes,
        )
    };
    tensors.iter().map(array).collect()
}

/// Runs the default function of a program by the physical executor.
pub(crate) fn execute(
    compiler: &Compiler,
    program: &Program,
    inputs: &IndexMap<String, Tensor>,
) -> Result<IndexMap<String, Tensor>, Error> {
    let mut program = program.clone();
    if State::of(&program.module).is_none() {
        compiler.compile(&mut program, "bufferize,plan-memory")?;
    }
    let entry = program
        .entry()
        .map_or_else(|| "main".to_owned(), |f| f.name.to_string());
    let options = ExecOptions {
        threads: std::thread::available_parallelism().map_or(1, usize::from),
        ..ExecOptions::default()
    };
    let made = Executable::new(
        &program.module,
        compiler.registry(),
        &entry,
        inputs,
        &program.data(),
        &Bindings::default(),
        &options,
    );
    let run = made.and_then(|executable| executable.run(inputs));
    run.map_err(|diag| program.error(vec![*diag]))
}
