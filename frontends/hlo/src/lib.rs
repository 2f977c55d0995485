//! The HLO text front end: XLA's textual modules in, [`HloModule`]s and programs out.
//!
//! [`parse`] reads the text of a whole module, as XLA prints it for any backend, optimized or not.
//! [`print()`] writes it in XLA's canonical form, [`import`] brings it into the IR with the text's
//! layouts.
//! Nothing here reads a file.

mod agree;
mod codes;
mod cursor;
mod error;
mod import;
mod infer;
mod literal;
mod module;
mod opcode;
mod parse;
mod print;
mod shape;
mod strictness;
mod values;

pub use codes::CODES;
pub use error::HloError;
pub use import::{Import, import, in_space_of, lower, tensor_type};
pub use infer::{infer, size};
pub use module::{Attrs, Computation, HloModule, Instruction};
pub use parse::parse;
pub use print::{PrintedComputation, PrintedInstruction, print, printed};
pub use strictness::Strictness;
