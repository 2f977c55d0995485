//! `optc run`: runs a program on inputs from an `.npz` file.

use crate::args::{Exec, RunArgs};
use crate::codes;
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::inputs::{self, Input};
use crate::streams::Streams;
use crate::terminal;
use indexmap::IndexMap;
use optc::exec::{ExecOptions, Executable};
use optc::interp::npz::{self, NpzError, Packing};
use optc::interp::{run_naive, run_reference, run_tiled};
use optc::memory::State;
use optc::{
    Attr, Bindings, Compiler, Diagnostic, Error, Func, Program, Tensor, read_file, write_aside,
};
use std::fs::File;
use std::io::{BufReader, Cursor};
use std::path::Path;

pub(crate) fn command(
    driver: &Main,
    args: &RunArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let compiler = inputs::compiler(driver, &args.compile)?;
    let stages = inputs::stages(&compiler, &args.compile, "")?;
    let input = Input::read(&args.input, streams)?;
    let mut program = input.program(&compiler, args.compile.from.as_deref())?;
    inputs::set_data(&mut program, args.compile.data.as_deref())?;
    inputs::check_bindings(&args.compile.bind, &[&program])?;
    let mut cx = inputs::context(&compiler, &program, &args.compile)?;
    terminal::doing(|| format!("{}: passes", program.name));
    compiler.run_passes(&mut program, &stages, &mut cx, &mut args.compile.hooks())?;
    let name = inputs::function(&program, args.func.as_deref())?;
    let values = read_values(&program, &name, args.inputs.as_deref(), &compiler.bindings)?;
    let run = match args.exec {
        Exec::Reference => run_reference,
        Exec::Naive => run_naive,
        Exec::Tiled => run_tiled,
        Exec::Physical => {
            let options = ExecOptions {
                memory_limit: args.memory_limit,
                threads: usize::from(args.threads),
                tiles: args.tiles,
                isa: args.instructions.isa,
                ..ExecOptions::default()
            };
            let executable = prepare(&compiler, &mut program, (&name, &values), &options, false)?;
            terminal::doing(|| format!("{}: running @{name}", program.name));
            let results = executable.run(&values);
            let results = results.map_err(|diag| program.error(vec![*diag]))?;
            write_values(&args.output, &results)?;
            return Ok(Status::Done);
        }
    };
    let data = inputs::weights(&program, false);
    let (module, registry) = (&program.module, compiler.registry());
    terminal::doing(|| format!("{}: running @{name}", program.name));
    let results = run(module, registry, &name, &values, &*data, &compiler.bindings)
        .map_err(|e| program.error(vec![e.to_diagnostic()]))?;
    write_values(&args.output, &results)?;
    Ok(Status::Done)
}

/// Decides the memory of a program, if that is not done yet, and prepares a function of it for inputs of these sizes.
/// Missing weights are made up on request.
pub(crate) fn prepare(
    compiler: &Compiler,
    program: &mut Program,
    (name, values): (&str, &IndexMap<String, Tensor>),
    options: &ExecOptions,
    invent: bool,
) -> Result<Executable, Failure> {
    if State::of(&program.module).is_none() {
        terminal::doing(|| format!("{}: memory", program.name));
        compiler.compile(program, "bufferize,plan-memory")?;
    }
    let data = inputs::weights(program, invent);
    let (module, bindings) = (&program.module, &compiler.bindings);
    terminal::doing(|| format!("{}: preparing @{name}", program.name));
    let made = Executable::new(
        module,
        compiler.registry(),
        name,
        values,
        &*data,
        bindings,
        options,
    );
    Ok(made.map_err(|diag| program.error(vec![*diag]))?)
}

/// The inputs of a function; empty without a file.
pub(crate) fn read_values(
    program: &Program,
    func: &str,
    path: Option<&Path>,
    bindings: &Bindings,
) -> Result<IndexMap<String, Tensor>, Failure> {
    let found: Option<&Func> = program.module.funcs.iter().find(|f| &*f.name == func);
    let Some(func) = found else {
        return Ok(IndexMap::new());
    };
    let mut values = match path {
        Some(path) => read_archive(func, path, bindings)?,
        None => IndexMap::new(),
    };
    defaults(program, func, &mut values)?;
    Ok(values)
}

/// Adds the defaults of arguments without an input.
fn defaults(
    program: &Program,
    func: &Func,
    values: &mut IndexMap<String, Tensor>,
) -> Result<(), Failure> {
    let data = inputs::weights(program, false);
    for (i, port) in func.arg_ports.iter().enumerate() {
        let (key, ty) = (func.arg_key(i), func.ty(func.args[i]));
        let (Some(default), Some(ty)) = (port.attrs.get("hbir.default"), ty.as_tensor()) else {
            continue;
        };
        if values.contains_key(&key) {
            continue;
        }
        let made = match default {
            Attr::Dense(dense) => optc::ops::dense_tensor(dense).map_err(|e| e.to_string()),
            Attr::External {
                file,
                offset,
                length,
            } => {
                let stated = port.attrs.ints("hbir.default_shape");
                let shape = stated.map(|dims| dims.iter().map(|d| d.unsigned_abs()).collect());
                let shape: Vec<u64> = shape.or_else(|| ty.shape()).unwrap_or_default();
                let shape = shape
                    .iter()
                    .map(|&d| usize::try_from(d).unwrap_or(usize::MAX));
                let bytes = data.read(file, *offset, *length, ty.dtype);
                let bytes = bytes.map_err(|e| e.to_string());
                bytes.and_then(|bytes| {
                    let made = Tensor::from_bytes(ty.dtype, shape.collect(), &bytes);
                    made.map_err(|e| e.to_string())
                })
            }
            _ => continue,
        };
        let made = made.map_err(|why| {
            let diag = optc::onnx::unread(&key, &why);
            Failure::from(program.error(vec![diag]))
        })?;
        values.insert(key, made);
    }
    Ok(())
}

fn read_archive(
    func: &Func,
    path: &Path,
    bindings: &Bindings,
) -> Result<IndexMap<String, Tensor>, Failure> {
    let refused = |e: NpzError| {
        let code = match &e {
            NpzError::Input(e) => e.code(),
            NpzError::Archive(_) | NpzError::Array { .. } | NpzError::Write(_) => {
                codes::NPZ_INPUT.into()
            }
        };
        let diag = Diagnostic::error(code, e.to_string());
        Failure::about(&path.display().to_string(), diag)
    };
    let file = File::open(path).map_err(|e| Error::io("read", path, &e))?;
    let is_file = file.metadata().is_ok_and(|meta| meta.is_file());
    // An archive is read from its end; a stream that cannot seek is read whole first.
    let read = match is_file {
        true => npz::read_inputs(BufReader::new(file), func, bindings),
        false => npz::read_inputs(Cursor::new(read_file(path)?), func, bindings),
    };
    read.map_err(refused)
}

fn write_values(path: &Path, results: &IndexMap<String, Tensor>) -> Result<(), Failure> {
    let mut bytes = Cursor::new(Vec::new());
    npz::write(&mut bytes, results, Packing::Stored).map_err(|e| {
        let diag = Diagnostic::error(optc::codes::shared::IO_WRITE, e.to_string());
        Failure::about(&path.display().to_string(), diag)
    })?;
    Ok(write_aside(path, &bytes.into_inner())?)
}
