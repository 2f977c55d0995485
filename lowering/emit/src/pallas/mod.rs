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
mod ops;
mod products;
mod rearrange;
mod reductions;
mod shards;
mod store;
mod words;
mod writer;

use crate::codes;
use crate::entry;
use crate::python::{call, definition, function_names, plan_of, signature, value_names};
use cx::Cx;
use form::Site;
use group::{Kernel, kernel};
use helpers::HELPERS;
use ops::write;
use optc_ir::entity::EntityId;
use optc_ir::{
    Attr, DType, Diagnostic, Func, Module, Op, OpRef, Operation, Registry, Structure, Tensor, Type,
    Value,
};
use optc_ops::{Constant, DequantizeBlocks, GridSample, MaxPoolIndices, Opaque, Recurrent};
use optc_target::{Blocks, Precision, Target};
use optc_tile::{Schedule, Unit};
use rearrange::rearrangement;
use shards::{Shards, constraint};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::rc::Rc;
use words::{Names, boxed, dtype, element, quoted, tuple};
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
    python(module, registry, Style::of_kernels(target)?)
}

/// The form of a module.
#[derive(Default)]
pub(crate) struct Style {
    /// The bytes of the memory that blocks are in, which a kernel states to its compiler.
    memory: Option<u64>,
    /// True if functions have the option `interpret` for kernels.
    kernels: bool,
    /// The precision of products of f32 that state none of their own.
    pub(crate) precision: Option<Precision>,
    /// True if functions take what is read from files as the option `weights`.
    pub(crate) weights: bool,
    /// True if splits over a mesh are written.
    pub(crate) shards: bool,
}

impl Style {
    /// The form of a module with kernels for this target.
    pub(crate) fn of_kernels(target: &Target) -> Result<Style, Box<Diagnostic>> {
        if let Some(backend @ (Blocks::Triton | Blocks::MosaicGpu)) = target.blocks {
            let backend = match backend {
                Blocks::Triton => "Triton",
                Blocks::MosaicGpu | Blocks::Tpu => "Mosaic GPU",
            };
            let message = format!(
                "kernels for `{}` are compiled by {backend}, found kernels with parameters of a TPU (scratch memory, the order of a grid), which it does not take",
                target.name
            );
            let diag = Diagnostic::error(codes::PALLAS_TARGET, message);
            return Err(Box::new(diag.note(
                "write them for `--target=tpu` or `--target=cpu`, where they run in interpret mode",
            )));
        }
        let memory = target.memory.iter().rev().find_map(|level| level.bytes);
        Ok(Style {
            memory: memory.filter(|_| target.blocks == Some(Blocks::Tpu)),
            kernels: true,
            precision: target.precision,
            ..Style::default()
        })
    }

    /// The options of each function that are handed on to the functions that it calls.
    fn options(&self) -> Vec<&'static str> {
        let all = [(self.weights, "weights"), (self.kernels, "interpret")];
        let on = all.into_iter().filter(|(on, _)| *on);
        on.map(|(_, name)| name).collect()
    }
}

/// The module as Python, in this style.
pub(crate) fn python(
    module: &Module,
    registry: &Registry,
    style: Style,
) -> Result<String, Box<Diagnostic>> {
    let entry = entry(module)?;
    let mut names = Names::default();
    let functions = function_names(module, entry, &mut names);
    let shards = match style.shards {
        true => Shards::of(module)?,
        false => None,
    };
    let mut parts = Parts {
        functions: Rc::new(names.clone()),
        names,
        shards,
        style,
        ..Parts::default()
    };
    let mut texts = Vec::with_capacity(module.funcs.len());
    for func in &module.funcs {
        texts.push(function(func, registry, &functions, &mut parts)?);
    }
    Ok(parts.text(&module.funcs[entry], &texts))
}

/// State shared by the functions.
#[derive(Default)]
struct Parts {
    style: Style,
    /// The names of functions; no value gets one of these.
    functions: Rc<Names>,
    /// All names of the module: functions and kernels.
    names: Names,
    helpers: BTreeSet<&'static str>,
    kernels: Vec<String>,
    wide: bool,
    /// The constants that are read from files and the texts that read them, by their keys among `weights`.
    weights: Vec<(String, String)>,
    /// The keys of `weights`.
    keys: Names,
    /// The mesh, if splits over one are written.
    shards: Option<Shards>,
    /// The splits of weights by their keys.
    splits: Vec<(String, String)>,
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
            out.push_str(&shards.text(entry, splits));
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
        for (name, text) in HELPERS {
            if self.helpers.contains(name) {
                let _ = write!(out, "\n\n{text}");
            }
        }
        for text in self.kernels.iter().chain(functions) {
            let _ = write!(out, "\n\n{}\n", text.trim_end());
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

/// The largest number of elements of a constant that is written as a list.
const MAX_LISTED: usize = 1 << 16;

/// The state of a function that is being written.
struct Function<'a> {
    func: &'a Func,
    registry: &'a Registry,
    functions: &'a BTreeMap<&'a str, String>,
    names: Vec<String>,
    lines: Vec<String>,
}

fn function(
    func: &Func,
    registry: &Registry,
    functions: &BTreeMap<&str, String>,
    parts: &mut Parts,
) -> Result<String, Box<Diagnostic>> {
    for value in func.values.ids() {
        let wide = |d: DType| d.complex_part().unwrap_or(d).bits() == 64;
        parts.wide |= func.ty(value).as_tensor().is_some_and(|t| wide(t.dtype));
    }
    let schedule = plan_of(func, registry)?;
    let names = value_names(func, &parts.functions);
    let mut writer = Function {
        func,
        registry,
        functions,
        names,
        lines: Vec::new(),
    };
    writer.body(schedule.as_ref(), parts)?;
    let name = &functions[&*func.name];
    let args: Vec<&str> = func.args.iter().map(|&v| writer.name(v)).collect();
    let results: Vec<&str> = func.results.iter().map(|&v| writer.name(v)).collect();
    let given = |option: &str| match option {
        "interpret" => "interpret=jax.default_backend() == \"cpu\"".to_owned(),
        other => other.to_owned(),
    };
    let options: Vec<String> = parts.style.options().into_iter().map(given).collect();
    let options: Vec<&str> = options.iter().map(String::as_str).collect();
    Ok(definition(name, &args, &options, &writer.lines, &results))
}

impl Function<'_> {
    fn name(&self, value: Value) -> &str {
        &self.names[value.index()]
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

    fn structure(&self, op: Op) -> Structure {
        self.registry.structure(&self.func.ops[op].name)
    }

    /// Writes one operation on whole values.
    fn operation(&mut self, op: Op, parts: &mut Parts) -> Result<(), Box<Diagnostic>> {
        let data = &self.func.ops[op];
        let refuse = |why: &str| {
            let message = format!("{} has no form in jnp: {why}", data.name);
            let diag = Diagnostic::error(codes::PALLAS_OP, message).at(data.span, "this operation");
            Box::new(diag.hint("docs/pallas.md lists the operations that are written"))
        };
        let name = |&v: &Value| self.name(v).to_owned();
        let args: Vec<String> = data.operands.iter().map(name).collect();
        let results: Vec<String> = data.results.iter().map(name).collect();
        let op_ref = self.func.op_ref(op);
        let stated = parts.shards.as_ref().zip(constraint(self.func, op));
        if let Some((shards, splits)) = stated {
            let args = [args, shards.split(&splits)].concat().join(", ");
            self.lines.push(format!("{} = _shard({args})", results[0]));
            return Ok(());
        }
        let texts = match self.structure(op) {
            Structure::Constant => {
                let shards = parts.shards.as_ref();
                let split = shards.and_then(|shards| shards.entry(self.func, data.results[0]));
                let text = constant(&op_ref, &results, split, parts);
                vec![text.ok_or_else(|| refuse("its data is not read"))?]
            }
            Structure::Call => {
                let call = call(self.functions, &op_ref, &args, &parts.style.options());
                let call = call.ok_or_else(|| refuse("the function is not there"))?;
                self.lines.push(format!("{} = {call}", targets(&results)));
                return Ok(());
            }
            Structure::View => {
                let text = view(self.registry, &op_ref, &args[0]);
                vec![text.ok_or_else(|| refuse("a size is not a number"))?]
            }
            Structure::Plain | Structure::Convert | Structure::Opaque => {
                let stated = data.attrs.str(Precision::STATED);
                let precision = Precision::of_product(stated, parts.style.precision);
                let site = site(&op_ref, self.registry, precision)
                    .ok_or_else(|| refuse("a size is not a number"))?;
                let written = write(&site, &args).ok_or_else(|| refuse("it is not written yet"))?;
                parts.helpers.extend(&written.helpers);
                written.results
            }
        };
        for (name, text) in results.iter().zip(texts) {
            self.lines.push(format!("{name} = {text}"));
        }
        Ok(())
    }
}

/// The left side of an assignment.
fn targets(results: &[String]) -> String {
    match results {
        [one] => one.clone(),
        all => tuple(all),
    }
}

/// An operation on whole values; `None` where a size is not a number.
fn site<'a>(op: &'a OpRef<'a>, registry: &'a Registry, precision: Precision) -> Option<Site<'a>> {
    let extents = |types: &[&Type]| -> Option<Vec<Vec<u64>>> {
        types.iter().map(|ty| ty.as_tensor()?.shape()).collect()
    };
    Some(Site {
        op,
        registry,
        operands: extents(&op.operands)?,
        results: extents(&op.results)?,
        tile: false,
        precision,
        pads: None,
    })
}

/// A view of a whole value.
fn view(registry: &Registry, op: &OpRef<'_>, x: &str) -> Option<String> {
    let view = registry.rearrangement(op).ok()?;
    let shape: Option<Vec<u64>> = view.shape.iter().map(optc_ir::Dim::fixed).collect();
    let (from, to) = (op.operand(0).ok()?.shape()?, op.result(0).ok()?.shape()?);
    Some(rearrangement(x, &from, &shape?, &view.perm, &to))
}

/// A constant, either in the module or read from its file.
fn constant(
    op: &OpRef<'_>,
    results: &[String],
    split: Option<String>,
    parts: &mut Parts,
) -> Option<String> {
    let ty = op.result(0).ok()?;
    let (shape, name) = (tuple(ty.shape()?), dtype(ty.dtype));
    let Constant { value, data } = Constant::of(op).ok()?;
    if let Some(Attr::External {
        file,
        offset,
        length,
    }) = data
    {
        let file = quoted(&file);
        let text = format!("_weights({file}, {offset}, {length}, {name}, {shape})");
        let key = parts.keys.fresh(results.first()?);
        let read = match parts.style.weights {
            true => format!("weights[{}]", quoted(&key)),
            false => text.clone(),
        };
        parts.splits.extend(split.map(|split| (key.clone(), split)));
        parts.weights.push((key, text));
        return Some(read);
    }
    let Some(Attr::Dense(dense)) = value else {
        return None;
    };
    // A splat constant is one number, whatever its shape.
    if dense.splat {
        let one = Tensor::from_bytes(ty.dtype, vec![1], &dense.bytes).ok()?;
        return Some(format!("jnp.full({shape}, {}, {name})", element(&one, 0)?));
    }
    let tensor = optc_ops::dense_tensor(&dense).ok()?;
    let n = tensor.len();
    let same = (0 < n).then(|| element(&tensor, 0)).flatten();
    let same = same.filter(|first| (1..n).all(|i| element(&tensor, i).as_ref() == Some(first)));
    if let Some(same) = same {
        return Some(format!("jnp.full({shape}, {same}, {name})"));
    }
    if MAX_LISTED < n {
        return None;
    }
    let all: Option<Vec<String>> = (0..n).map(|i| element(&tensor, i)).collect();
    let all = all?;
    Some(format!(
        "jnp.array([{}], {name}).reshape{shape}",
        all.join(", ")
    ))
}
