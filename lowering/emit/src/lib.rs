//! Emitters: one a format.
//!
//! # Folders
//! - `onnx` writes a model: a file a family of operators. `writer.rs` is the graph with its names and weights, `opaque.rs` operators as they
//!   came, `turned.rs` products that read transposed operands, `bytes.rs` integers with a zero point, `valid.rs` what holds of every model before
//!   it is bytes. Versions of operators are asked of the table in `formats/onnx`; what that table does not say stands beside the code that needs it.
//! - `hlo` writes instructions (`line.rs`), as HLO text or, in `stablehlo`, as MLIR operations. `numbers.rs` takes transposes into dimension numbers,
//!   `regions.rs` writes computations.
//! - `linalg` writes MLIR. A value is a tensor of its digits (`digits.rs`) or, with padding, of all its positions (`stored.rs`, `packing.rs`); an
//!   operation is the loops over the digits of its ports (`nest.rs`) around a block (`body.rs`, `scalars.rs`). Only a conversion becomes a
//!   transpose, pack or unpack, except where an operation has no loops over positions. Padding never reaches a result.
//! - `pallas` writes a Python module. `ops.rs` names each operation's form in `jnp`; `group.rs` is the kernel of a group, of its operands
//!   (`member.rs`), accumulation and stores.

mod codes;
pub mod hlo;
pub mod linalg;
pub mod onnx;
pub mod pallas;
pub mod stablehlo;

pub use codes::CODES;

use optc_ir::{Diagnostic, Module};

/// The function that a module starts with: `@main`, else the first one.
fn entry(module: &Module) -> Result<usize, Box<Diagnostic>> {
    if module.funcs.is_empty() {
        let diag = Diagnostic::error(codes::FUNCTION_MISSING, "found no function to emit");
        return Err(Box::new(diag));
    }
    let main = module.funcs.iter().position(|f| &*f.name == "main");
    Ok(main.unwrap_or(0))
}
