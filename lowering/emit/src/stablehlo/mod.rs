//! StableHLO text, as JAX's MLIR parses and verifies it.
//!
//! The instructions are those of the HLO emitter, in which a view is the reshape and the transpose that it is; each is written
//! as the operation of StableHLO or CHLO that does the same, in MLIR's generic form. Tuples are taken apart, and what the HLO
//! front end has as a computation of an instruction is a region. Every value is row-major: a module with another layout is
//! refused (`stablehlo-layout`), and one without an operation for an instruction too (`stablehlo-op`).
//!
//! What the StableHLO front end kept comes back: attributes of the module and of ports, operations with a text of their own.

mod attrs;
mod literal;
mod ops;
mod regions;
mod types;
mod windows;
mod writer;

use crate::codes;
use crate::entry;
use crate::hlo::{Computations, Emitted, ReadData, Written, computations};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Attr, Diagnostic, Module, TensorType, Type};
use optc_target::Target;
use std::fmt::Write;
use writer::Writer;

/// The module as StableHLO text.
///
/// # Errors
/// A value that is not row-major, an instruction without an operation in StableHLO, the data of a constant cannot be read, no
/// function, or functions that call each other in a circle.
pub fn emit(
    module: &Module,
    target: Option<&Target>,
    data: &ReadData<'_>,
) -> Result<Emitted, Box<Diagnostic>> {
    row_major(module)?;
    let made = computations(module, target, data, true)?;
    let by_name: IndexMap<&str, &Written> = made
        .computations
        .iter()
        .map(|c| (c.name.as_str(), c))
        .collect();
    let entry = &module.funcs[entry(module)?];
    let functions = functions(&made);
    let names = symbols(&made, &functions);
    let mut out = header(module);
    let last = functions.iter().rev();
    for name in last {
        let computation = by_name[name];
        let func = module.funcs.iter().find(|f| made.names[&*f.name] == *name);
        out.push_str(&Writer::new(&by_name, &names).function(
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

/// All values row-major, as StableHLO has no layouts.
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

/// The computations that are functions: the entry, and those that are called; callees first. The others are regions.
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

/// The symbol of each function: `main` is the entry's.
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

fn header(module: &Module) -> String {
    let mut out = "module".to_owned();
    if let Some(name) = &module.name {
        let _ = write!(out, " @{}", types::symbol(name));
    }
    if let Some(attrs) = module.attrs.str("stablehlo.attributes") {
        let _ = write!(out, " attributes {attrs}");
    }
    out.push_str(" {\n");
    let others = module
        .attrs
        .get("stablehlo.others")
        .and_then(Attr::as_array);
    for other in others.unwrap_or_default().iter().filter_map(Attr::as_str) {
        let _ = writeln!(out, "  {other}");
    }
    out
}
