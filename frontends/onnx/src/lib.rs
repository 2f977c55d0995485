//! The ONNX front end: model bytes in, a module and remarks out.
//!
//! Import says what the file says: each node becomes the operation that stands for it, or a few, or
//! an `hbir.opaque` that keeps its attributes. Constants that are small are written into the
//! program; larger ones refer to the bytes of the model or of its external data, which need not be
//! there. What hangs on constants and shapes alone is only written where something uses it.
//! Nothing here reads a file.

mod builder;
mod entries;
mod functions;
mod graph;
mod node;
mod opaque;
mod order;
mod proto;
mod rules;
mod tensor;

use optc_ir::{Diagnostic, Module};

pub use rules::{State, operators};

/// What the caller knows of the model beyond its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The name of the model's file, relative to its folder: constants that lie in the model itself
    /// refer to it. `model.onnx` when left out.
    pub name: Option<String>,
}

/// An imported model.
#[derive(Clone, Debug)]
pub struct Import {
    /// The program: one function `@main`, its arguments and results in the order of the graph.
    pub module: Module,
    /// Remarks (`opaque-op`, one a kind of operator) and warnings.
    pub diags: Vec<Diagnostic>,
}

/// Imports an ONNX model from the bytes of its file.
///
/// External data is only referred to; it may be absent.
///
/// # Errors
/// The bytes are no ONNX model, or the model contradicts itself: the diagnostics name the nodes.
pub fn import(bytes: &[u8], options: &Options) -> Result<Import, Vec<Diagnostic>> {
    graph::import(bytes, options)
}

/// The codes of the diagnostics of this crate, each with a line that explains it.
pub const CODES: &[(&str, &str)] = &[
    (
        "attribute-missing",
        "a node lacks an attribute that its operator requires",
    ),
    (
        "attribute-value",
        "an attribute has a value that its operator does not have",
    ),
    ("axis-out-of-range", "an axis is not below the rank"),
    ("axis-repeated", "a list of axes names one twice"),
    ("constant-shape", "a constant is to have a negative extent"),
    (
        "declared-type-differs",
        "the file declares another type than the shape rules give",
    ),
    ("duplicate-name", "two things of a graph have one name"),
    (
        "external-path-escapes",
        "external data lies outside the folder of the model",
    ),
    (
        "function-expansion",
        "functions call each other without end, or grow too large",
    ),
    ("gemm-rank", "an operand of Gemm is no matrix"),
    ("graph-cycle", "nodes need each other's results"),
    (
        "group-norm-groups",
        "the channels do not divide into the groups",
    ),
    ("malformed-protobuf", "the bytes are no ONNX model"),
    (
        "missing-input",
        "a node lacks an input that its operator requires",
    ),
    ("onnx-no-graph", "the model has no graph"),
    (
        "onnx-node",
        "a node names no operator, or cannot be kept as it is",
    ),
    (
        "opaque-op",
        "an operator has no equivalent and stays opaque",
    ),
    (
        "opset-missing",
        "the model names no version of the standard operators",
    ),
    (
        "opset-untested",
        "the version of the standard operators is not one that import knows",
    ),
    ("pad-count", "the number of pads does not fit the axes"),
    ("range-bounds", "a range has no finite length"),
    (
        "reshape-copies-missing-extent",
        "a 0 in a shape copies an extent that the input does not have",
    ),
    (
        "resize-count",
        "the number of scales or sizes does not fit the axes",
    ),
    ("shape-unknown", "an input of the graph has no rank"),
    ("slice-lists", "the bounds of a slice differ in number"),
    ("slice-step", "the step of a slice is 0"),
    (
        "split-outputs",
        "the sizes of a split do not fit its outputs",
    ),
    (
        "tensor-size-mismatch",
        "a tensor has more or less data than its dimensions need",
    ),
    (
        "undefined-value",
        "a node or an output uses a name that nothing defines",
    ),
    (
        "unsupported-dtype",
        "a tensor has an element type that the IR does not have",
    ),
    (
        "window-list",
        "a list of a window operator does not fit its dimensions",
    ),
];
