//! The operators of ONNX models that stay whole, in what is written and in what is counted.

use crate::args::Emit;
use optc::onnx::Whole;
use optc::{Compiler, Stage};

/// The operators that stay whole: all if no pass runs, so that the model is unchanged.
pub(crate) fn whole(emit: Emit, stages: &[Stage]) -> Whole {
    match (emit, stages.is_empty()) {
        (Emit::Onnx, true) => Whole::All,
        (Emit::Onnx, false) => Whole::Large,
        _ => Whole::None,
    }
}

/// The compiler that reads a model for counting: the operators stay whole that do when it is written. A runtime has
/// kernels for them, so it makes none of the moves of their operations.
pub(crate) fn reader(compiler: &Compiler, pass: Option<&str>) -> Compiler {
    let mut reader = compiler.clone();
    reader.held_nodes.clear();
    reader.whole_operators = match pass {
        Some("") => Whole::All,
        _ => Whole::Large,
    };
    reader
}

/// The targets that run the operators of ONNX.
const RUNTIMES: [&str; 2] = ["onnx", "onnxruntime"];

/// The compiler that reads a model for its statistics: as [`reader`] if the target runs operators, else with operations
/// in place of all operators.
pub(crate) fn counter(compiler: &Compiler, pass: Option<&str>) -> Compiler {
    let target = compiler.target.as_ref();
    match target.is_none_or(|target| RUNTIMES.contains(&&*target.name)) {
        true => reader(compiler, pass),
        false => compiler.clone(),
    }
}
