//! Converts the tree to the IR.
//!
//! - The entry is the function `@main`. A computation that a fusion, a call, a loop or an opaque instruction names is a
//!   private function. Fusions stay functions, called with `hbir.call` and marked `hlo.fusion`: they state which
//!   operations share a pass over memory, and can be printed back.
//! - Tuples are split everywhere: a value of the IR is one array. An instruction with tuples as operands or result
//!   states this in `operand_shapes` and `result_shape`.
//! - Every type has the text's layout. A transpose, reshape, bitcast or copy that moves no element is a `view`; any
//!   other is a view and a `layout_convert`.
//! - An argument that shares its memory with a result (`input_output_alias`) names the result in `hbir.alias`.
//! - An instruction that is not tensor dataflow is an `hbir.opaque` with its attributes as text, and with its effect in
//!   `effect`.

mod alias;
mod context;
mod contract;
mod effect;
mod elementwise;
mod extreme;
mod func;
mod index;
mod known;
mod opaque;
mod rearrange;
pub(crate) mod types;
mod window;

use crate::module::HloModule;
use crate::parse::{entry_layout, parse};
use crate::strictness::Strictness;
use context::ModuleCx;
use func::FuncCx;
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Attr, AttrDict, Diagnostic, Loc, Module, Severity, TensorType};
use optc_layout::{XlaArray, XlaShape};
use std::sync::Arc;

/// An imported module.
#[derive(Clone, Debug)]
pub struct Import {
    /// The program: `@main` and the private functions of the other computations.
    pub module: Module,
    /// Warnings, and a remark `hlo-opaque` for each opcode that stays opaque.
    pub diags: Vec<Diagnostic>,
}

/// Reads HLO text and converts it to the IR.
///
/// # Errors
/// The text is refused; the diagnostics point into it.
pub fn import(text: &str) -> Result<Import, Vec<Diagnostic>> {
    let (module, mut diags) = parse(text, Strictness::KeepUnknown);
    if diags.iter().any(|d| d.severity == Severity::Error) {
        return Err(diags);
    }
    let import = lower(&module)?;
    diags.extend(import.diags);
    Ok(Import {
        module: import.module,
        diags,
    })
}

/// Converts a module of HLO text to the IR.
///
/// # Errors
/// The operands of a fusion or call do not fit the computation, or computations are recursive.
pub fn lower(hlo: &HloModule) -> Result<Import, Vec<Diagnostic>> {
    let registry = optc_ops::registry();
    let mut cx = ModuleCx {
        hlo,
        registry: &registry,
        names: IndexMap::new(),
        taken: IndexSet::new(),
        opaque: IndexMap::new(),
        elided: IndexSet::new(),
        known: known::parameters(hlo),
        effects: effect::Effects::new(hlo),
    };
    cx.function_name(hlo.entry);
    let mut module = Module {
        name: Some(Arc::from(&*hlo.name)),
        attrs: module_attrs(hlo),
        loc: Loc::Unknown,
        explicit: true,
        ..Module::default()
    };
    let mut errors = Vec::new();
    let mut next = 0;
    while let Some((&index, _)) = cx.names.get_index(next) {
        next += 1;
        match function(&mut cx, index) {
            Ok(mut func) => {
                if index == hlo.entry {
                    alias::mark(&mut func, hlo);
                }
                module.funcs.push(func);
            }
            Err(diag) => errors.push(*diag),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let diags = cx.remarks();
    Ok(Import { module, diags })
}

/// The type of an array in the IR; `None` if the IR lacks its element type or an extent is unknown.
#[must_use]
pub fn tensor_type(array: &XlaArray) -> Option<TensorType> {
    types::tensor(array)
}

/// The type in the memory space of another type. A bitcast names spaces and moves nothing.
#[must_use]
pub fn in_space_of(ty: &TensorType, other: &TensorType) -> TensorType {
    types::in_space(ty, types::space(other))
}

/// Header attributes and tables, kept as text.
fn module_attrs(hlo: &HloModule) -> AttrDict {
    let mut attrs = AttrDict::new();
    let text = |(key, value): (&str, &str)| (key.to_owned(), value.to_owned());
    let kept = hlo
        .attrs
        .iter()
        .filter(|(k, _)| *k != "entry_computation_layout");
    let kept: Vec<(String, String)> = kept.map(text).collect();
    if !kept.is_empty() {
        let dict = kept
            .iter()
            .map(|(k, v)| (k.as_str(), Attr::str(v)))
            .collect();
        attrs.set("hlo.attributes", Attr::Dict(dict));
    }
    if !hlo.tables.is_empty() {
        let tables = hlo.tables.iter().map(|t| Attr::str(t)).collect();
        attrs.set("hlo.tables", Attr::Array(tables));
    }
    attrs
}

fn function(cx: &mut ModuleCx<'_>, index: usize) -> Result<optc_ir::Func, Box<Diagnostic>> {
    let hlo = cx.hlo;
    let computation = &hlo.computations[index];
    let parameters = computation.parameters();
    let own: Vec<XlaShape> = parameters
        .iter()
        .map(|&p| (*computation.instructions[p].shape).clone())
        .collect();
    let root = (*computation.root().shape).clone();
    let text = hlo.attrs.get("entry_computation_layout");
    let text = text.filter(|_| index == hlo.entry);
    let (wanted, result) = text
        .and_then(entry_layout)
        .filter(|(params, result)| {
            params.len() == own.len()
                && params.iter().zip(&own).all(|(a, b)| a.compatible(b))
                && result.compatible(&root)
        })
        .unwrap_or((own, root));
    FuncCx::new(cx, index).build(&parameters, &wanted, &result)
}
