//! Emitters: one for each format.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! For example, `%0 = "hbir.exp"(%x)` of a `tensor<4xf32>` is a node `Exp` in an ONNX model, `exponential` in HLO text,
//! a `linalg.generic` around `math.exp` in MLIR, `jnp.exp(x)` in a Pallas module, and `tl.exp(x)` in a
//! Triton kernel.
//!
//! # Folders
//! - `onnx` writes a model, with one file for each family of operators. `writer.rs` is the graph with its names and
//!   weights. `opaque.rs` writes operators that the program kept unchanged, `turned.rs` products that read transposed
//!   operands, and `bytes.rs` integers with a zero point. `valid.rs` checks every model before it is written. The table
//!   in `formats/onnx` has the versions of operators; facts that it lacks are stated at the code that needs them.
//! - `hlo` writes instructions (`line.rs`) as HLO text. `stablehlo` writes the same instructions as MLIR operations,
//!   with computations as regions. `numbers.rs` replaces transposes by dimension numbers.
//! - `linalg` writes MLIR. A dense value is a tensor whose dimensions are its digits (`digits.rs`); a value with
//!   padding is a tensor of all its positions (`stored.rs`, `packing.rs`). An operation is a loop nest over the digits
//!   of its ports (`nest.rs`) around a block (`body.rs`, `scalars.rs`). Only a conversion becomes a transpose, pack or
//!   unpack, except for operations that have no loops over positions. Padding never reaches a result.
//! - `pallas` writes a Python module. `ops.rs` names each operation's form in `jnp`. `group.rs` is the kernel of a
//!   group; its operations read operands by `member.rs`.
//! - `jax.rs` writes the same module without kernels where there is no plan. `pallas/part.rs` is the program of one device of
//!   a mesh, with the collectives of `moves.rs`.
//! - `triton` writes a Python module for graphics processors. `kernel.rs` computes values at indices, `group.rs` chooses
//!   the axes and blocks of a kernel, and `torch.rs` has the operations that no kernel computes.
//! - `write_op.rs`: writers of single operations, which users of the library add. `written.rs` puts what they make in
//!   the place of their operations, before a format sees the module.
//! - `unwritten.rs`: a writer of an operation ends where a fact is missing, and the next one is tried.

mod codes;
#[cfg(feature = "hlo")]
#[cfg_attr(
    not(feature = "stablehlo"),
    allow(
        dead_code,
        unused_imports,
        reason = "StableHLO is written from more of what an instruction knows"
    )
)]
pub mod hlo;
#[cfg(feature = "jax")]
pub mod jax;
#[cfg(feature = "linalg")]
pub mod linalg;
#[cfg(feature = "onnx")]
pub mod onnx;
#[cfg(feature = "pallas")]
pub mod pallas;
#[cfg(any(feature = "pallas", feature = "triton"))]
mod python;
#[cfg(feature = "stablehlo")]
pub mod stablehlo;
#[cfg(feature = "triton")]
pub mod triton;
#[cfg(any(feature = "hlo", feature = "linalg"))]
mod unwritten;
mod write_op;
#[cfg(any(feature = "onnx", feature = "hlo"))]
mod written;

pub use codes::CODES;
pub use write_op::{OutputFormat, WriteOp, write_in};

use optc_ir::DType;

/// A reader of constant data: file, offset and length in bytes, and element type, as in
/// `#hbir.external<"file", offset, length>`. The text of a failure names the file.
pub type ReadData<'a> = dyn Fn(&str, u64, u64, DType) -> Result<Vec<u8>, String> + 'a;

/// The function at which a module starts: `@main`, else the first one.
#[cfg(any(
    feature = "onnx",
    feature = "hlo",
    feature = "linalg",
    feature = "pallas",
    feature = "triton"
))]
fn entry(module: &optc_ir::Module) -> Result<usize, Box<optc_ir::Diagnostic>> {
    let none = || optc_ir::Diagnostic::error(codes::FUNCTION_MISSING, "found no function to emit");
    module.entry().ok_or_else(|| Box::new(none()))
}
