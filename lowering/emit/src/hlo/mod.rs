//! HLO text with layouts, in the syntax of XLA's own parser.
//!
//! Example: an `hbir.neg` of a column-major `tensor<2x3xf32>` is written as `neg = f32[2,3]{0,1} negate(x)`.
//!
//! - Every value has its layout. A layout that XLA's notation cannot express refuses the program
//!   (`hlo-layout-inexpressible`).
//! - A `view` is a `bitcast`. If XLA is still to assign layouts (a target without tiles), it is an equivalent `reshape`
//!   and `transpose`, in layouts in which they move nothing.
//! - A `layout_convert` is a `copy`. `hbir.call` is a fusion if it was one on import.
//! - An operation that reads a `subview` becomes a call of a computation with the slice and the operation.
//! - Everything that the HLO front end kept is written again: header attributes, `hlo.*` attributes, tuples, loops.
//! - Constants are written with all their elements. If the program does not have the elements, since the HLO text
//!   elided them, they stay elided, with a warning (`hlo-constant-elided`).
//! - An operation without an HLO instruction becomes several (a softmax, a norm). If that is not implemented, it
//!   becomes a `custom-call` with its name, and its attributes as the configuration.

mod attrs;
mod compose;
mod composition;
mod constant;
mod custom;
mod elementwise;
mod files;
mod func;
mod index;
mod line;
mod norms;
mod number;
mod numbers;
mod ops;
mod parts;
mod places;
mod scaled;
mod shape;
mod shared;
mod sizes;
mod tuple;
mod windows;

pub use crate::ReadData;
use crate::entry;
use crate::write_op::OutputFormat;
use crate::written::written;
pub(crate) use attrs::{attr, ints};
use files::Files;
use func::Writer;
pub(crate) use func::escaped;
use indexmap::{IndexMap, IndexSet};
pub(crate) use line::{Inside, Line, Written, parsed};
pub(crate) use number::float_text;
use optc_ir::{Attr, Diagnostic, Func, Module, Operation, Registry};
use optc_ops::{DequantizeBlocks, GridSample, MaxPoolIndices, Recurrent};
use optc_target::Target;
use shared::{Shared, sanitized};
use std::fmt::Write;

/// The operations that HLO text has no instructions for, sorted by name; each is a custom call. So are some uses of others: padding
/// in another mode than `constant`, a transposed convolution of groups.
pub const WITHOUT_FORM: &[&str] = &[
    DequantizeBlocks::NAME,
    GridSample::NAME,
    MaxPoolIndices::NAME,
    Recurrent::NAME,
];

/// HLO text, and what is to be known about it.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The module.
    pub text: String,
    /// A warning for each constant whose elements are missing.
    pub warnings: Vec<Diagnostic>,
}

/// The module as HLO text; the entry is `@main`, else the first function. `registry` has the operations, `target` is what the
/// layouts are for and says the precision of products, and `data` reads the files of constants.
///
/// # Errors
/// A layout that XLA's notation cannot express, an operation whose writer fails, data of a constant that cannot be read,
/// no function, or functions that call each other in a cycle.
pub fn emit(
    module: &Module,
    registry: &Registry,
    target: Option<&Target>,
    data: &ReadData<'_>,
) -> Result<Emitted, Box<Diagnostic>> {
    let module = &*written(module, registry, OutputFormat::Hlo)?;
    let found = computations(module, (registry, target), data, false)?;
    let module = found.module.as_ref().unwrap_or(module);
    let mut text = header(module, &module.funcs[entry(module)?])?;
    for computation in &found.computations {
        let _ = write!(text, "\n{computation}");
    }
    Ok(Emitted {
        text,
        warnings: found.warnings,
    })
}

/// The computations of a module, before they become text.
pub(crate) struct Computations {
    /// The module that was written, if it differs from the given one.
    pub(crate) module: Option<Module>,
    /// Callees first.
    pub(crate) computations: Vec<Written>,
    /// The name of the computation for each function.
    pub(crate) names: IndexMap<String, String>,
    pub(crate) warnings: Vec<Diagnostic>,
}

/// Writes the functions that the entry needs; with `mlir` for text of MLIR.
pub(crate) fn computations(
    module: &Module,
    (registry, target): (&Registry, Option<&Target>),
    data: &ReadData<'_>,
    mlir: bool,
) -> Result<Computations, Box<Diagnostic>> {
    let called = if mlir {
        None
    } else {
        parts::called(module, registry)
    };
    let module = called.as_ref().unwrap_or(module);
    let entry = entry(module)?;
    let names = names(module);
    let order = order(module, entry)?;
    let tiled = target.is_none_or(Target::is_tiled);
    let mut shared = Shared {
        registry: registry.clone(),
        logical: mlir || !tiled && !is_scheduled(module),
        names,
        reducers: IndexMap::new(),
        mlir,
        files: Files::read(module, &order, data)?,
        warnings: Vec::new(),
    };
    let mut texts = Vec::new();
    for index in order {
        let func = &module.funcs[index];
        let writer = Writer::new(func, &mut shared, index == entry, ops::write);
        texts.push(writer.text()?);
    }
    let mut computations: Vec<Written> = shared.reducers.into_values().collect();
    computations.extend(texts);
    if shared.logical {
        computations.iter_mut().for_each(numbers::absorb);
    }
    if let Some(precision) = target.and_then(|target| target.precision) {
        let state = |computation: &mut Written| computation.state_precision(precision);
        computations.iter_mut().for_each(state);
    }
    Ok(Computations {
        module: called,
        computations,
        names: shared.names,
        warnings: shared.warnings,
    })
}

/// Returns whether a module is scheduled. XLA schedules only after layout assignment.
fn is_scheduled(module: &Module) -> bool {
    match module.attrs.get("hlo.attributes") {
        Some(Attr::Dict(attrs)) => attrs.str("is_scheduled") == Some("true"),
        _ => false,
    }
}

/// Unique names of the computations, from the HLO text that they came from.
fn names(module: &Module) -> IndexMap<String, String> {
    let mut taken = IndexSet::new();
    let mut names = IndexMap::new();
    for func in &module.funcs {
        let wanted = func.attrs.str("hlo.name").unwrap_or(&func.name);
        let base = sanitized(wanted);
        let mut name = base.clone();
        let mut n = 0;
        while !taken.insert(name.clone()) {
            n += 1;
            name = format!("{base}.{n}");
        }
        names.insert(func.name.to_string(), name);
    }
    names
}

/// The functions that the entry needs, callees first.
fn order(module: &Module, entry: usize) -> Result<Vec<usize>, Box<Diagnostic>> {
    let index: IndexMap<&str, usize> = module
        .funcs
        .iter()
        .enumerate()
        .map(|(i, f)| (&*f.name, i))
        .collect();
    let mut done = IndexSet::new();
    let mut open = IndexSet::new();
    // A function, and whether its callees are done.
    let mut stack = vec![(entry, false)];
    while let Some((at, ready)) = stack.pop() {
        if ready {
            open.shift_remove(&at);
            done.insert(at);
            continue;
        }
        if done.contains(&at) {
            continue;
        }
        if !open.insert(at) {
            let message = format!("@{} calls itself", module.funcs[at].name);
            return Err(Box::new(Diagnostic::error(
                optc_ir::shared_codes::CALL_TARGET_RECURSIVE,
                message,
            )));
        }
        stack.push((at, true));
        let called = callees(&module.funcs[at]);
        for name in called.iter().rev() {
            if let Some(&callee) = index.get(name.as_str())
                && !done.contains(&callee)
            {
                if open.contains(&callee) {
                    let message = format!("@{name} calls itself");
                    return Err(Box::new(Diagnostic::error(
                        optc_ir::shared_codes::CALL_TARGET_RECURSIVE,
                        message,
                    )));
                }
                stack.push((callee, false));
            }
        }
    }
    Ok(done.into_iter().collect())
}

/// The functions named by attributes of a function's operations.
fn callees(func: &Func) -> IndexSet<String> {
    let mut found = IndexSet::new();
    for &op in &func.body {
        for (_, attr) in func.ops[op].props.iter() {
            let list = match attr {
                Attr::Array(list) => list.as_slice(),
                single => std::slice::from_ref(single),
            };
            for item in list {
                if let Attr::Symbol(name) = item {
                    found.insert(name.to_string());
                }
            }
        }
    }
    found
}

fn header(module: &Module, entry: &Func) -> Result<String, Box<Diagnostic>> {
    let name = module.name.as_deref().unwrap_or("optc");
    let mut out = format!("HloModule {}", sanitized(name));
    let (params, result) = tuple::boundary(entry)?;
    if let Some(Attr::Dict(attrs)) = module.attrs.get("hlo.attributes") {
        let text = |key: &str| attrs.str(key).map(|value| format!(", {key}={value}"));
        for key in [
            "is_scheduled",
            "input_output_alias",
            "buffer_donor",
            "alias_passthrough_params",
        ] {
            out.push_str(&text(key).unwrap_or_default());
        }
    }
    let _ = write!(
        out,
        ", entry_computation_layout={{({})->{result}}}",
        params.join(", ")
    );
    if let Some(Attr::Dict(attrs)) = module.attrs.get("hlo.attributes") {
        let first = [
            "is_scheduled",
            "input_output_alias",
            "buffer_donor",
            "alias_passthrough_params",
        ];
        for (key, value) in attrs.iter().filter(|(key, _)| !first.contains(key)) {
            if let Some(value) = value.as_str() {
                let _ = write!(out, ", {key}={value}");
            }
        }
    }
    out.push('\n');
    for table in module
        .attrs
        .get("hlo.tables")
        .and_then(Attr::as_array)
        .unwrap_or_default()
    {
        if let Some(table) = table.as_str() {
            let _ = write!(out, "\n{table}\n");
        }
    }
    Ok(out)
}
