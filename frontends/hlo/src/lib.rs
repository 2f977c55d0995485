//! The HLO text front end: reads XLA's textual modules as [`HloModule`]s and programs.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! [`parse`] reads the text of a whole module, as XLA prints it for any backend, optimized or not. [`print()`] writes
//! it in XLA's canonical form, and [`import`] converts it to the IR with the text's layouts. This crate reads no files.
//!
//! For example, `%t = f32[3,2]{0,1} transpose(f32[2,3]{1,0} %x), dimensions={1,0}` moves no element and becomes an
//! `hbir.view`.

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
