//! A Python module: one `pl.pallas_call` for each group of the plan, plain `jnp` for all other operations.
//!
//! Example: a group of an `hbir.add` and an `hbir.relu` on 16x4 elements, in tiles of 8 rows, is one kernel with a line
//! for each operation. It is called with a grid of 2 programs, and each operand has a `pl.BlockSpec` of 8x4.
//!
//! - A kernel has one line for each operation, on the tile that the plan gives it; values keep their names.
//! - Each value that a group reads or writes has a `pl.BlockSpec` for the part that a program needs. If a tile is no
//!   block in some dimension, all dimensions use element offsets.
//! - A reduction that is cut accumulates in scratch memory. The accumulator is initialized at the first step; lines
//!   that need the final value run under the condition of the last step.
//! - A group without a kernel is written operation by operation, below a comment with the reason.
//! - Constants are in the module, or are read from their files, which are beside the module.

mod accumulate;
mod cx;
mod elementwise;
mod expression;
mod form;
mod group;
mod helpers;
mod index;
mod member;
mod movement;
mod moves;
mod ops;
mod part;
mod products;
mod rearrange;
mod reductions;
mod shards;
mod store;
mod whole;
mod words;
mod writer;

use crate::entry;
use crate::python::{definition, function_names, plan_of, signature, value_names};
use cx::Cx;
use group::{Kernel, kernel};
use helpers::HELPERS;
use optc_check::mesh::Links;
use optc_ir::entity::EntityId;
use optc_ir::shard;
use optc_ir::{DType, Diagnostic, Func, Module, Op, Operation, Registry, Structure, Value};
use optc_ops::{DequantizeBlocks, GridSample, MaxPoolIndices, Opaque, Recurrent};
use optc_target::Target;
use optc_tile::{Schedule, Unit};
use shards::{Shards, constraint};
use std::collections::BTreeMap;
use std::fmt::Write;
use std::rc::Rc;
pub(crate) use whole::Style;
use whole::{Function, Parts, targets};
use words::{Names, boxed, quoted, tuple};
use writer::is_narrow;

/// The operations that neither a kernel nor the module around it can have, sorted by name; each refuses the program.
pub const WITHOUT_FORM: &[&str] = &[
    DequantizeBlocks::NAME,
    GridSample::NAME,
    MaxPoolIndices::NAME,
    Opaque::NAME,
    Recurrent::NAME,
];

/// The module as Python; `main`, or the first function, becomes `main`.
///
/// # Errors
/// No function; an operation without a form in `jnp`; or a target whose kernels are not compiled by the TPU backend. A
/// kernel states TPU parameters: its scratch memory and the order of its grid.
pub fn emit(
    module: &Module,
    registry: &Registry,
    target: &Target,
) -> Result<String, Box<Diagnostic>> {
    python(module, registry, Style::of_kernels(target)?, None)
}

/// The module as Python, in this style.
///
/// With `links` it has the program of one device of the mesh, if every value states its sharding.
pub(crate) fn python(
    module: &Module,
    registry: &Registry,
    style: Style,
    links: Option<&Links>,
) -> Result<String, Box<Diagnostic>> {
    let entry = entry(module)?;
    let mut names = Names::default();
    let functions = function_names(module, entry, &mut names);
    let shards = match style.shards {
        true => Shards::of(module)?.map(Rc::new),
        false => None,
    };
    let mut parts = Parts {
        functions: Rc::new(names.clone()),
        names,
        shards,
        links: links.cloned(),
        style,
        ..Parts::default()
    };
    let whole = &module.funcs[entry];
    let mut texts = Vec::with_capacity(module.funcs.len());
    for func in &module.funcs {
        if func.attrs.get(shard::PART_OF).is_none() {
            let writer = Function::new(func, registry, &functions, &parts);
            let name = &functions[&*func.name];
            texts.push(writer.written(name, &mut parts, None)?);
        }
    }
    if parts.shards.is_some() && links.is_some() {
        let why = whole.attrs.str(shard::NO_PART);
        parts.part = why.map(|why| Err(why.to_owned()));
        if let Some(func) = shard::part(module, whole) {
            let writer = Function::new(func, registry, &functions, &parts);
            let text = writer.written("part", &mut parts, Some(whole))?;
            parts.part = Some(Ok(text));
        }
    }
    Ok(parts.text(whole, &texts))
}

impl Parts {
    fn text(&self, entry: &Func, functions: &[String]) -> String {
        let first = match self.style.kernels {
            true => "a kernel for each group of operations, and a function that calls them",
            false => "a function on arrays of JAX",
        };
        let mut out = format!("\"\"\"Written by optc: {first}.\"\"\"\n\n");
        let from_files = !self.weights.is_empty();
        let merges = ["_dot", "_matmul"];
        if merges.iter().any(|name| self.helpers.contains(name)) {
            out.push_str("import math\n");
        }
        if from_files {
            out.push_str("import os\n");
        }
        if out.ends_with("math\n") || from_files {
            out.push('\n');
        }
        out.push_str(
            "import jax\nimport jax.numpy as jnp\nimport numpy as np\nfrom jax import lax\n",
        );
        if self.shards.is_some() {
            out.push_str("from jax.sharding import NamedSharding, PartitionSpec as P\n");
        }
        if self.style.kernels {
            out.push_str("from jax.experimental import pallas as pl\nfrom jax.experimental.pallas import tpu as pltpu\n");
        }
        if self.wide {
            out.push_str("\njax.config.update(\"jax_enable_x64\", True)\n");
        }
        out.push_str(&signature(entry));
        if let Some(shards) = &self.shards {
            let splits = self.style.weights.then_some(&self.splits[..]);
            out.push_str(&shards.text(entry, splits, matches!(self.part, Some(Ok(_)))));
        }
        if from_files {
            out.push_str(WEIGHTS);
        }
        if self.style.weights {
            out.push_str(
                "\n\ndef load():\n    \"\"\"The option `weights` of main.\"\"\"\n    return {\n",
            );
            for (key, text) in &self.weights {
                let _ = writeln!(out, "        {}: {text},", quoted(key));
            }
            out.push_str("    }\n");
        }
        for (name, text) in HELPERS.iter().chain(moves::HELPERS) {
            if self.helpers.contains(name) {
                let _ = write!(out, "\n\n{text}");
            }
        }
        let part = self.part.iter().flatten();
        for text in self.kernels.iter().chain(functions).chain(part) {
            let _ = write!(out, "\n\n{}\n", text.trim_end());
        }
        if let Some(Err(why)) = &self.part {
            let _ = writeln!(out, "\n# There is no program of one device: {why}.");
        }
        out
    }
}

/// A helper that reads a constant from its file.
const WEIGHTS: &str = r#"

def _weights(name, offset, length, dtype, shape):
    """Elements of a file beside this module."""
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), name)
    with open(path, "rb") as file:
        file.seek(offset)
        data = file.read(length)
    return jnp.asarray(np.frombuffer(data, dtype=np.dtype(dtype)).reshape(shape))
"#;

impl<'a> Function<'a> {
    fn new(
        func: &'a Func,
        registry: &'a Registry,
        functions: &'a BTreeMap<&'a str, String>,
        parts: &Parts,
    ) -> Function<'a> {
        Function {
            func,
            registry,
            functions,
            names: value_names(func, &parts.functions),
            lines: Vec::new(),
        }
    }

    /// The function of this name. `whole` is the function of which it is the program of one device.
    fn written(
        mut self,
        name: &str,
        parts: &mut Parts,
        whole: Option<&Func>,
    ) -> Result<String, Box<Diagnostic>> {
        let func = self.func;
        for value in func.values.ids() {
            let wide = |d: DType| d.complex_part().unwrap_or(d).bits() == 64;
            parts.wide |= func.ty(value).as_tensor().is_some_and(|t| wide(t.dtype));
        }
        let schedule = plan_of(func, self.registry)?;
        if let Some(whole) = whole {
            self.arguments(whole, parts)?;
        }
        self.body(schedule.as_ref(), parts)?;
        let results = match whole {
            Some(whole) => self.results(whole, parts)?,
            None => func
                .results
                .iter()
                .map(|&v| self.name(v).to_owned())
                .collect(),
        };
        let args: Vec<&str> = func.args.iter().map(|&v| self.name(v)).collect();
        let results: Vec<&str> = results.iter().map(String::as_str).collect();
        let given = |option: &str| match option {
            "interpret" => "interpret=jax.default_backend() == \"cpu\"".to_owned(),
            other => other.to_owned(),
        };
        let options: Vec<String> = parts.style.options().into_iter().map(given).collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        Ok(definition(name, &args, &options, &self.lines, &results))
    }

    /// Writes operations and groups in topological order.
    fn body(
        &mut self,
        schedule: Option<&Schedule>,
        parts: &mut Parts,
    ) -> Result<(), Box<Diagnostic>> {
        let func = self.func;
        let Some(schedule) = schedule else {
            return func
                .body
                .iter()
                .try_for_each(|&op| self.operation(op, parts));
        };
        let kernels = self.kernels(schedule, parts);
        for &unit in &schedule.units {
            let group = match unit {
                Unit::Op(op) => {
                    self.operation(op, parts)?;
                    continue;
                }
                Unit::Group(group) => group,
            };
            match kernels.get(&group) {
                Some(Ok(kernel)) => self.call_kernel(kernel),
                Some(Err(why)) => {
                    let line = format!("# group {group} has no kernel: {why}");
                    self.lines.push(line);
                    for op in &schedule.groups[group].ops {
                        self.operation(op.op, parts)?;
                    }
                }
                None => {}
            }
        }
        for kernel in kernels.into_values().flatten() {
            parts.helpers.extend(&kernel.helpers);
            parts.kernels.push(kernel.text);
        }
        Ok(())
    }

    /// The kernel of each group, or the reason why it has none.
    fn kernels(
        &self,
        schedule: &Schedule,
        parts: &mut Parts,
    ) -> BTreeMap<usize, Result<Kernel, String>> {
        let cx = Cx {
            func: self.func,
            registry: self.registry,
            schedule,
            name: &|v| self.names[v.index()].clone(),
            memory: parts.style.memory,
            precision: parts.style.precision,
        };
        let groups = schedule.groups.iter().enumerate();
        let groups = groups.filter(|(_, group)| !group.ops.is_empty());
        let kernel = |(number, _)| {
            let name = parts.names.fresh(&format!("group_{number}"));
            (number, kernel(&cx, number, &name))
        };
        groups.map(kernel).collect()
    }

    fn call_kernel(&mut self, kernel: &Kernel) {
        let results = tuple(kernel.outputs.iter().map(|&v| self.name(v)));
        let tensor = |v: Value| self.func.ty(v).as_tensor();
        let shape = |v: Value| tensor(v).and_then(|t| t.shape());
        let flat = |v: Value| shape(v).filter(|shape| shape.len() < 2);
        let truth = |v: Value| tensor(v).is_some_and(|t| t.dtype.is_bool());
        let arg = |&v: &Value| {
            let mut text = self.name(v).to_owned();
            if truth(v) {
                text.push_str(".astype(jnp.int32)");
            }
            if let Some(shape) = flat(v) {
                if shape.is_empty() && tensor(v).is_some_and(|t| is_narrow(t.dtype)) {
                    text.push_str(".astype(jnp.float32)");
                }
                let _ = write!(text, ".reshape{}", tuple(boxed(&shape)));
            }
            text
        };
        let args: Vec<String> = kernel.inputs.iter().map(arg).collect();
        let line = format!("{results} = {}({})", kernel.call, args.join(", "));
        self.lines.push(line);
        for &v in &kernel.outputs {
            let name = &self.names[v.index()];
            let mut text = name.clone();
            if let Some(shape) = flat(v) {
                let _ = write!(text, ".reshape{}", tuple(shape));
            }
            if truth(v) {
                text.push_str(" != 0");
            }
            if text != *name {
                let line = format!("{name} = {text}");
                self.lines.push(line);
            }
        }
    }

    /// Writes one operation on whole values.
    fn operation(&mut self, op: Op, parts: &mut Parts) -> Result<(), Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let name = |&v: &Value| self.name(v).to_owned();
        let args: Vec<String> = data.operands.iter().map(name).collect();
        let results: Vec<String> = data.results.iter().map(name).collect();
        let stated = parts.shards.as_ref().zip(constraint(self.func, op));
        if let Some((shards, splits)) = stated {
            let args = [args, shards.split(&splits)].concat().join(", ");
            self.lines.push(format!("{} = _shard({args})", results[0]));
            return Ok(());
        }
        if let Some(text) = self.collective(op, &args, parts)? {
            self.lines.push(format!("{} = {text}", results[0]));
            return Ok(());
        }
        let texts = self.texts(op, &args, parts)?;
        if self.structure(op) == Structure::Call {
            let line = format!("{} = {}", targets(&results), texts.join(", "));
            self.lines.push(line);
            return Ok(());
        }
        for (name, text) in results.iter().zip(texts) {
            self.lines.push(format!("{name} = {text}"));
        }
        Ok(())
    }
}
