//! The syntax of MLIR text: modules, functions, regions, operations in generic form, aliases, resources and the elements
//! of constants.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! For example, `%1 = "arith.addf"(%0, %0) : (f32, f32) -> f32` becomes an [`Op`] with the name, the uses of `%0`, and
//! the texts of the types. A front end gives the parser its codes ([`Codes`]) and a reader of the custom forms of its
//! dialects ([`Custom`]).
//!
//! # Files
//! `cursor.rs` reads words and brackets, `parse.rs` operations, `aliases.rs` the definitions beside them, `dense.rs`
//! elements, `numbers.rs` attributes that are numbers. `tree.rs` has the types of the result. `verbatim.rs` gives the
//! text of an operation without the names of its values.

mod aliases;
mod cursor;
mod dense;
mod numbers;
mod parse;
mod tree;
mod verbatim;

pub use aliases::Aliases;
pub use cursor::{Codes, Cursor, MAX_DEPTH, Parsed, shortened, span, wrong};
pub use dense::{Elements, elements, width};
pub use numbers::{int, ints, last_word, symbol};
pub use parse::{Custom, Parser, parse};
pub use tree::{Func, Op, Region, Tree, Use};
pub use verbatim::{Verbatim, verbatim};
