//! The ONNX front end: model bytes in, a module and remarks out.
//!
//! Import says what the file says: each node becomes the operation that stands for it, or a few, or
//! an `hbir.opaque` that keeps its attributes. Constants that are small are written into the
//! program; larger ones refer to the bytes of the model or of its external data, which need not be
//! there. What hangs on constants and shapes alone is only written where something uses it.
//! Nothing here reads a file.
//!
//! # Files
//! `functions.rs` puts functions in place, `graph.rs` walks the nodes, `rules` has one file a family of operators, `catalogue.rs` the list of all.
//! Graphs of `If`, `Loop` and `Scan` become functions, of the types that `bodies.rs` finds for them.

mod bodies;
mod builder;
mod catalogue;
mod codes;
mod declared;
mod effect;
mod entries;
mod functions;
mod graph;
mod inferred;
mod node;
mod opaque;
mod open_sizes;
mod order;
mod quantized_lstm;
mod rules;
mod tensor;

use optc_ir::{Diagnostic, Module};
use std::collections::BTreeSet;
use std::sync::Arc;

pub use catalogue::{Operator, Version, catalogue, source};
pub use codes::CODES;
pub use rules::{State, operators};

/// What the caller knows of the model beyond its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The name of the model's file, relative to its folder: constants that lie in the model itself
    /// refer to it. `model.onnx` when left out.
    pub name: Option<String>,
    /// Which operators stay as they are although operations stand for them.
    pub whole: Whole,
    /// The nodes that stay as they are, by the names that their operations would have as `loc`.
    pub held: BTreeSet<Arc<str>>,
}

/// Which operators stay as they are, as `hbir.opaque`, although operations stand for them: a program that is written
/// as a model again has them as the runtime knows them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whole {
    /// None.
    #[default]
    None,
    /// Those that become more than three operations, or more than one that works along dimensions.
    Large,
    /// Those that become more than one operation.
    All,
}

/// An imported model.
#[derive(Clone, Debug)]
pub struct Import {
    /// The program: `@main`, its arguments and results in the order of the graph, and a private function for each graph
    /// inside of an `If`, a `Loop` or a `Scan`.
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
