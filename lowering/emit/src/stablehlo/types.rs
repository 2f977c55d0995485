//! HLO shapes as MLIR types.

use optc_layout::{XlaArray, XlaDim, XlaShape, XlaType};
use std::fmt::Write;

/// The element type in StableHLO: signed integers are written as signless ones.
pub(super) fn element(element: XlaType) -> String {
    let name = element.mlir_name();
    match name.strip_prefix("si") {
        Some(bits) => format!("i{bits}"),
        None => name,
    }
}

/// The type for a shape that is no tuple.
pub(super) fn ty(shape: &XlaShape) -> String {
    match shape {
        XlaShape::Array(array) | XlaShape::Buffer(array) => tensor(array),
        XlaShape::Token => "!stablehlo.token".to_owned(),
        XlaShape::Tuple(_) | XlaShape::Opaque => "none".to_owned(),
    }
}

/// The type of an array.
pub(super) fn tensor(array: &XlaArray) -> String {
    let mut out = "tensor<".to_owned();
    for dim in &array.dims {
        let _ = match dim {
            XlaDim::Size(size) => write!(out, "{size}x"),
            XlaDim::Bounded(_) | XlaDim::Unbounded | XlaDim::Named(_) => write!(out, "?x"),
        };
    }
    out.push_str(&element(array.element));
    let bounded = |dim: &XlaDim| matches!(dim, XlaDim::Bounded(_));
    if array.dims.iter().any(bounded) {
        let bounds: Vec<String> = array
            .dims
            .iter()
            .map(|dim| match dim {
                XlaDim::Bounded(size) => size.to_string(),
                XlaDim::Size(_) | XlaDim::Unbounded | XlaDim::Named(_) => "?".to_owned(),
            })
            .collect();
        let _ = write!(out, ", #stablehlo.bounds<{}>", bounds.join(", "));
    }
    out.push('>');
    out
}

/// The name of a symbol, in quotes if it is not a plain word.
pub(super) fn symbol(name: &str) -> String {
    let word = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.');
    let starts = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
    if starts && name.chars().all(word) {
        return name.to_owned();
    }
    format!("\"{}\"", crate::hlo::escaped(name))
}
