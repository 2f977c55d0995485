//! The text form: MLIR's generic form, with sugar on input and one canonical form on output.
//!
//! What [`print()`] writes, [`parse`] reads back, and printing that again gives the same text.
//! `mlir-opt --allow-unregistered-dialect` accepts it, and what `mlir-opt` prints parses here.
//!
//! # Beyond the generic form, on input alone
//! - A layout without braces, `tensor<4x8xsi8, block = "2W2H", order = [1, 0]>`; with the word
//!   `layout`, `tensor<4x8xsi8, layout = {block = 2W2H, order = [1, 0]}>`; blocks without quotes.
//! - One operand type without parentheses.
//! - A text of operations without a function is the function `@main`: values that nothing defines
//!   are its arguments, in the order of their first use; values that nothing uses are its results.
//!
//! # Names
//! Arguments keep their names, `%x`; results are numbered from `%0` in the order of the text. What
//! an argument or result is called outside of the program ([`Func::arg_key`],
//! [`Func::result_key`]) survives as the attribute `hbir.name` where the SSA name does not say it.
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

/// What could be read of a text, and what was wrong with it.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The functions that are well formed.
    pub module: Module,
    /// Errors in the order of the text; at least one if something was left out.
    pub diags: Vec<Diagnostic>,
}

/// Reads one module.
///
/// # Errors
/// The text does not follow the grammar, a value is undefined or used as another type, or a layout
/// does not fit its shape. All errors found, in the order of the text.
pub fn parse(source: &str) -> Result<Module, Vec<Diagnostic>> {
    let parsed = parse_partial(source);
    if parsed.diags.iter().any(|d| d.severity == Severity::Error) {
        return Err(parsed.diags);
    }
    Ok(parsed.module)
}

/// Reads what can be read of one module; a function with an error in it is left out or lacks the
/// operation.
#[must_use]
pub fn parse_partial(source: &str) -> Parsed {
    parser::Parser::new(source).run()
}

/// The modules of a file, separated by lines that start with `// -----`: each with the byte offset
/// at which it starts. Always at least one.
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
