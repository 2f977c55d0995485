//! The text form: MLIR's generic form, with shorthand on input and one canonical form on output.
//!
//! [`parse`] reads the output of [`print()`]; printing the result again gives the same text.
//! `mlir-opt --allow-unregistered-dialect` accepts that output, and [`parse`] reads what `mlir-opt` prints.
//!
//! # Beyond the generic form, on input only
//! - A layout without braces, `tensor<4x8xsi8, block = "2W2H", order = [1, 0]>`; with the word
//!   `layout`, `tensor<4x8xsi8, layout = {block = 2W2H, order = [1, 0]}>`; blocks without quotes.
//! - A single operand type without parentheses.
//! - A text of operations without a function is the function `@main`. Undefined values are its arguments, in the order
//!   of their first use; unused values are its results.
//!
//! # Names
//! Arguments keep their names, `%x`; results are numbered from `%0` in the order of the text. The external name of an
//! argument or result ([`Func::arg_key`], [`Func::result_key`]) is kept as the attribute `hbir.name` where it differs
//! from the SSA name.
//!
//! # Limits
//! One block a function, no regions, no functions without a body.
//!
//! [`Func::arg_key`]: crate::Func::arg_key
//! [`Func::result_key`]: crate::Func::result_key

mod alias;
mod attr;
mod func;
mod lexer;
mod loc;
mod module;
mod number;
mod op;
mod parser;
mod print;
mod scope;
mod types;

pub use print::{print, print_attr, print_func, print_loc, print_type, value_names};
pub(crate) use types::same_type;

use crate::diag::{Diagnostic, Severity};
use crate::module::Module;

/// A module read from a text with errors, and the errors.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The well-formed functions.
    pub module: Module,
    /// Errors in the order of the text; at least one if something was left out.
    pub diags: Vec<Diagnostic>,
}

/// Reads one module.
///
/// # Errors
/// All errors, in the order of the text: the text does not follow the grammar, a value is undefined or used with
/// another type, or a layout does not fit its shape.
pub fn parse(source: &str) -> Result<Module, Vec<Diagnostic>> {
    let parsed = parse_partial(source);
    if parsed.diags.iter().any(|d| d.severity == Severity::Error) {
        return Err(parsed.diags);
    }
    Ok(parsed.module)
}

/// Reads the well-formed functions of a module. A function with an error is left out, or lacks the wrong operation.
#[must_use]
pub fn parse_partial(source: &str) -> Parsed {
    parser::Parser::new(source).run()
}

/// The modules of a file, separated by lines that start with `// -----`, each with its byte offset. There is always at
/// least one.
#[must_use]
pub fn split(source: &str) -> Vec<(usize, &str)> {
    let mut parts = Vec::new();
    let mut start = 0;
    let mut at = 0;
    for line in source.split_inclusive('\n') {
        if line.starts_with("// -----") {
            parts.push((start, source.get(start..at).unwrap_or_default()));
            start = at + line.len();
        }
        at += line.len();
    }
    parts.push((start, source.get(start..).unwrap_or_default()));
    parts
}
