//! StableHLO text in MLIR's generic form, which JAX's MLIR parses and verifies.
//!
//! The instructions are those of the HLO emitter; a view is written as a reshape and a transpose. Each instruction
//! becomes the equivalent operation of StableHLO or CHLO. Example: `negate(x)` becomes `"stablehlo.negate"(%x)`. Tuples
//! are flattened, and a computation that belongs to an instruction becomes a region.
//!
//! Every value must be row-major (`stablehlo-layout`), and every instruction must have an operation (`stablehlo-op`).
//!
//! Everything that the StableHLO front end kept is written again: attributes of the module and of ports, operations
//! kept as text.

mod attrs;
mod literal;
mod ops;
mod regions;
mod shardings;
mod types;
mod windows;
mod writer;

use crate::codes;
use crate::entry;
use crate::hlo::{Computations, Emitted, ReadData, Written, computations};
use crate::write_op::OutputFormat;
use crate::written::written;
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Diagnostic, Module, Registry, TensorType, Type};
use optc_target::Target;
use shardings::Named;
use std::fmt::Write;
use writer::Writer;

/// The module as StableHLO text; `registry` has the operations.
///
/// # Errors
/// A value that is not row-major, an instruction without an operation in StableHLO, an operation whose writer fails, data of a constant that cannot be
/// read, no function, or functions that call each other in a cycle.
pub fn emit(
    module: &Module,
    registry: &Registry,
    target: Option<&Target>,
    data: &ReadData<'_>,
) -> Result<Emitted, Box<Diagnostic>> {
    row_major(module)?;
    let module = &*written(module, registry, OutputFormat::StableHlo)?;
    let made = computations(module, (registry, target), data, true)?;
    let by_name: IndexMap<&str, &Written> = made
        .computations
        .iter()
        .map(|c| (c.name.as_str(), c))
        .collect();
    let entry = &module.funcs[entry(module)?];
    let functions = functions(&made);
    let names = symbols(&made, &functions);
    let mesh = shardings::named(module);
    let mut out = header(module, mesh.as_ref());
    let last = functions.iter().rev();
    for name in last {
        let computation = by_name[name];
        let func = module.funcs.iter().find(|f| made.names[&*f.name] == *name);
        out.push_str(&Writer::new(&by_name, &names, mesh.as_ref()).function(
            computation,
            func,
            func.is_some_and(|f| f.name == entry.name),
        )?);
    }
    out.push_str("}\n");
    Ok(Emitted {
        text: out,
        warnings: made.warnings,
    })
}

/// Checks that all values are row-major, since StableHLO has no layouts.
fn row_major(module: &Module) -> Result<(), Box<Diagnostic>> {
    for func in &module.funcs {
        let results = func.body.iter().flat_map(|&op| &func.ops[op].results);
        for &value in func.args.iter().chain(results) {
            let Type::Tensor(ty) = func.ty(value) else {
                continue;
            };
            if !plain(ty) {
                let text = optc_ir::text::print_type(func.ty(value));
                let message =
                    format!("found {text}, wanted a row-major value: StableHLO has no layouts");
                let diag = Diagnostic::error(codes::STABLEHLO_LAYOUT, message);
                return Err(Box::new(
                    diag.hint("end the pipeline with `normalize-layouts`"),
                ));
            }
        }
    }
    Ok(())
}

fn plain(ty: &TensorType) -> bool {
    match ty.layout() {
        Some(Ok(layout)) => layout.is_row_major(),
        Some(Err(_)) => false,
        None => ty.notation == optc_layout::Notation::RowMajor,
    }
}

/// The computations that become functions: the entry and all called ones, callees first. All other computations become
/// regions.
fn functions(made: &Computations) -> IndexSet<&str> {
    let mut called: IndexSet<&str> = IndexSet::new();
    for computation in &made.computations {
        if computation.entry {
            called.insert(&computation.name);
        }
        for line in &computation.lines {
            called.extend(writer::callees(line));
        }
    }
    let all = made.computations.iter().map(|c| c.name.as_str());
    all.filter(|name| called.contains(name)).collect()
}

/// The symbol of each function; the entry is `main`.
fn symbols(made: &Computations, functions: &IndexSet<&str>) -> IndexMap<String, String> {
    let mut names = IndexMap::new();
    for computation in &made.computations {
        if functions.contains(&*computation.name) {
            let mut symbol = computation.name.clone();
            if computation.entry {
                symbol = "main".to_owned();
            } else if symbol == "main" {
                symbol = "main_".to_owned();
            }
            names.insert(computation.name.clone(), symbol);
        }
    }
    names
}

fn header(module: &Module, mesh: Option<&Named>) -> String {
    let mut out = "module".to_owned();
    if let Some(name) = &module.name {
        let _ = write!(out, " @{}", types::symbol(name));
    }
    if let Some(attrs) = module.attrs.str("stablehlo.attributes") {
        let _ = write!(out, " attributes {attrs}");
    }
    out.push_str(" {\n");
    let line = mesh.and_then(|mesh| shardings::line(module, mesh));
    // A mesh that was read and is another one now is replaced.
    let stays = |other: &&str| line.is_none() || !other.starts_with("sdy.mesh @");
    for other in line
        .as_deref()
        .into_iter()
        .chain(shardings::others(module).filter(stays))
    {
        let _ = writeln!(out, "  {other}");
    }
    out
}
