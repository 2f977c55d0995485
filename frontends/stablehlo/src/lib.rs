//! The StableHLO front end: reads the output of `jax.jit(f).lower(…).as_text()` and `jax.export` as a program.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! The text is converted to the tree of the HLO front end, which converts it to the IR. An operation of StableHLO
//! becomes the equivalent instruction of HLO, and a region becomes a computation that gets the outer values that it
//! reads as operands. An operation without an equivalent instruction, or with regions that are not understood, becomes
//! an opaque operation with its own text.
//!
//! For example, `stablehlo.add` becomes HLO's `add`, and that becomes `hbir.add`.
//!
//! This crate reads no files.
//!
//! # Files
//! `parse.rs` and `pretty.rs` read operations, `translate.rs` converts them to instructions, and `regions.rs` to
//! computations. `verbatim.rs` keeps the text of operations without an instruction. `sizes.rs` names unknown sizes by
//! the integers that operations are given (`known.rs`). `grids.rs` tracks integers that grow evenly, and `signs.rs`
//! divisions of integers that may be negative. `dynamic.rs` converts operations with sizes as operands to the ordinary
//! ones. `shardings.rs` converts the shardings of Shardy,
//! `tile_shardings.rs` those of GSPMD.

mod attrs;
mod codes;
mod dynamic;
mod grids;
mod known;
mod names;
mod opcodes;
mod ports;
mod pretty;
mod products;
mod regions;
mod shardings;
mod signs;
mod sizes;
mod syntax;
mod tile_shardings;
mod translate;
mod types;

pub use codes::CODES;
pub use optc_hlo::Import;

use optc_ir::Diagnostic;
use optc_mlir_syntax::parse;

/// Reads the text of a module and converts it to the IR.
///
/// # Errors
/// The text is refused; the diagnostics point into it.
pub fn import(text: &str) -> Result<Import, Vec<Diagnostic>> {
    let (tree, aliases) = parse(text, &syntax::MLIR, pretty::read).map_err(|diag| vec![*diag])?;
    let open =
        |func: &optc_mlir_syntax::Func<'_>| known::is_open(&func.body, &|ty| aliases.is_open(ty));
    let names = names::Names::of(&tree, &open);
    let module = translate::module(&tree, &aliases, &names).map_err(|diag| vec![*diag])?;
    let mut import = optc_hlo::lower(&module)?;
    ports::attach(&mut import.module, &tree, &aliases, &names);
    shardings::attach(&mut import.module);
    tile_shardings::attach(&mut import.module);
    Ok(import)
}
