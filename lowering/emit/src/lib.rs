//! Emitters: one a format.

mod build;
mod codes;
pub mod dot;
mod graph;
pub mod hlo;
pub mod linalg;
pub mod onnx;
pub mod pallas;
pub mod picture;
mod repeat;
mod scope;
mod spelling;
pub mod stablehlo;
pub mod svg;
mod words;

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
