//! The linalg front end: reads MLIR text in the dialects `func`, `tensor`, `linalg`, `arith` and `math`.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! The generic form is read (`mlir-opt --mlir-print-op-generic`), and the printed form of operations that are understood
//! (`custom.rs`). For example, a `linalg.generic` of
//! `arith.addf` with the maps `(d0, d1) -> (d1, d0)`, `(d0, d1) -> (d1)` and `(d0, d1) -> (d0, d1)` becomes a transpose
//! of the first operand and an `hbir.add`.
//!
//! - A structured operation is read by its maps and its body, named operations included: element-wise ones, reductions,
//!   contractions, convolutions and pools. Operands come in the order of the loops, and the result is transposed from it.
//! - `tensor.empty` and constants of one number are values without an operation until something reads their elements.
//! - Inserts into a `tensor.empty` that fill it along one dimension are a concatenation.
//! - A number (`f32`, `index`) is no value of the IR. A constant becomes an attribute or a tensor of rank 0. Any other is
//!   computed inside of the operations that read it.
//! - An operation that is not understood is an `hbir.opaque` of the domain `mlir`, with its text (`opaque.rs`).
//!
//! # Files
//! `custom.rs` reads printed forms, and `bodies.rs` makes the bodies that they leave out. `func.rs` has the values and the dispatch, `structured.rs` the operations with maps, `named.rs` the maps of named
//! operations, `maps.rs` affine maps, `products.rs` contractions, `windows.rs` convolutions and pools, `scalars.rs` the
//! operations on elements, `tensors.rs` those of the dialect `tensor`, `packs.rs` packs and unpacks.

mod bodies;
mod codes;
mod custom;
mod func;
mod maps;
mod named;
mod opaque;
mod packs;
mod products;
mod scalars;
mod structured;
mod syntax;
mod tensors;
mod types;
mod windows;

pub use codes::CODES;

use func::FuncCx;
use indexmap::IndexMap;
use optc_ir::{Diagnostic, Module};
use optc_mlir_syntax::{Parsed, parse};
use std::sync::Arc;

/// An imported module.
#[derive(Clone, Debug)]
pub struct Import {
    /// The functions of the text that have a body.
    pub module: Module,
    /// A remark `linalg-opaque` for each kind of operation that stays as text.
    pub diags: Vec<Diagnostic>,
}

/// Reads the text of a module and converts it to the IR.
///
/// # Errors
/// The text is refused; the diagnostics point into it.
pub fn import(text: &str) -> Result<Import, Vec<Diagnostic>> {
    let read = || -> Parsed<Import> {
        let (tree, aliases) = parse(text, &syntax::MLIR, custom::read)?;
        let registry = optc_ops::registry();
        let mut module = Module {
            name: tree.name.map(Arc::from),
            explicit: true,
            ..Module::default()
        };
        let mut opaque = IndexMap::new();
        let bodies = tree.funcs.iter().filter(|f| !f.body.ops.is_empty());
        for func in bodies {
            let cx = FuncCx::new(func.name, &registry, &aliases, &tree, &mut opaque);
            module.funcs.push(cx.function(func)?);
        }
        if module.funcs.is_empty() {
            let message = "found no function with a body";
            let diag = Diagnostic::error(codes::LINALG_FUNCTION, message);
            return Err(Box::new(diag));
        }
        Ok(Import {
            module,
            diags: remarks(&opaque),
        })
    };
    read().map_err(|diag| vec![*diag])
}

/// One remark for each kind of operation that stays as text, with their number.
fn remarks(opaque: &IndexMap<String, usize>) -> Vec<Diagnostic> {
    let remark = |(kind, count): (&String, &usize)| {
        let message = format!("`{kind}` is not understood and stays as it is, {count} times");
        Diagnostic::remark(codes::LINALG_OPAQUE, message)
    };
    opaque.iter().map(remark).collect()
}
