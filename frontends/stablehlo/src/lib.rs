//! The StableHLO front end: what `jax.jit(f).lower(…).as_text()` and `jax.export` print, as a program.
//!
//! The text becomes the tree of the HLO front end, which brings it into the IR: an operation of StableHLO is the instruction
//! of HLO that does the same, a region is a computation, and what a region reads from outside is handed to it. What has no
//! instruction, or has regions that are not understood, is an opaque operation with its own text.
//!
//! Nothing here reads a file.
//!
//! # Files
//! `parse.rs` and `pretty.rs` read operations, `translate.rs` makes instructions of them, `regions.rs` computations; `verbatim.rs` keeps the text of
//! what has no instruction. `sizes.rs` names unknown sizes by the integers that operations are handed (`known.rs`); `grids.rs` follows those that grow
//! evenly, `signs.rs` divisions of what may be negative; `dynamic.rs` makes the ordinary operation of one that is handed sizes.

mod aliases;
mod attrs;
mod codes;
mod cursor;
mod dense;
mod dynamic;
mod grids;
mod known;
mod names;
mod opcodes;
mod parse;
mod ports;
mod pretty;
mod products;
mod regions;
mod signs;
mod sizes;
mod translate;
mod tree;
mod types;
mod verbatim;

pub use codes::CODES;
pub use optc_hlo::Import;

use optc_ir::Diagnostic;

/// Reads the text of a module and brings it into the IR.
///
/// # Errors
/// The text is refused; the diagnostics point into it.
pub fn import(text: &str) -> Result<Import, Vec<Diagnostic>> {
    let (tree, aliases) = parse::parse(text).map_err(|diag| vec![*diag])?;
    let open = |func: &tree::Func<'_>| known::is_open(&func.body, &|ty| aliases.is_open(ty));
    let names = names::Names::of(&tree, &open);
    let module = translate::module(&tree, &aliases, &names).map_err(|diag| vec![*diag])?;
    let mut import = optc_hlo::lower(&module)?;
    ports::attach(&mut import.module, &tree, &aliases, &names);
    Ok(import)
}
