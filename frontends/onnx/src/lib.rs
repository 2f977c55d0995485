//! The ONNX front end: converts the bytes of a model to a module and remarks.
//!
//! An internal part of `optc`; only the crate `optc` has a stable interface.
//!
//! The import is literal: each node becomes the corresponding operation, or a few operations, or an
//! `hbir.opaque` that keeps its attributes. Small constants are written into the program; larger ones refer to the
//! bytes of the model or of its external data, which may be absent. Values that depend only on constants and shapes are
//! written only if something uses them. This crate reads no files.
//!
//! For example, `Relu` becomes `hbir.relu`, `Gemm` becomes a product and a sum, and a `Shape` whose sizes only a `Reshape`
//! uses becomes the `shape` attribute of an `hbir.reshape`.
//!
//! # Files
//! `functions.rs` inlines functions, `graph.rs` walks the nodes, `rules` has one file per family of operators, and
//! `catalogue.rs` has the list of all operators. `nameless.rs` makes graphs of kept operators
//! comparable. Graphs of `If`, `Loop` and `Scan` become functions, with the types that `bodies.rs` derives for them.

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
mod nameless;
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
pub use nameless::{Read, nameless};
pub use rules::{State, operators};

/// The caller's knowledge of the model beyond its bytes.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The name of the model's file, relative to its folder. Constants inside the model refer to it. The default is
    /// `model.onnx`.
    pub name: Option<String>,
    /// The operators that stay whole although operations could replace them.
    pub whole: Whole,
    /// The nodes that stay unchanged, by the `loc` names that their operations would have.
    pub held: BTreeSet<Arc<str>>,
}

/// The operators that stay whole, as `hbir.opaque`, although operations could replace them. A program that is written
/// as a model again then has them in the form that the runtime knows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Whole {
    /// None.
    #[default]
    None,
    /// Operators that become more than three operations, or more than one that works along dimensions.
    Large,
    /// Operators that become more than one operation.
    All,
}

/// An imported model.
#[derive(Clone, Debug)]
pub struct Import {
    /// The program: `@main`, with arguments and results in the order of the graph, and a private function for each
    /// graph inside an `If`, a `Loop` or a `Scan`.
    pub module: Module,
    /// Remarks (`opaque-op`, one for each kind of operator) and warnings.
    pub diags: Vec<Diagnostic>,
}

/// Imports an ONNX model from the bytes of its file.
///
/// External data is only referred to and may be absent.
///
/// # Errors
/// The bytes are not an ONNX model, or the model contradicts itself; the diagnostics name the nodes.
pub fn import(bytes: &[u8], options: &Options) -> Result<Import, Vec<Diagnostic>> {
    graph::import(bytes, options)
}
