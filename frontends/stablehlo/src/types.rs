//! Converts types of MLIR text to shapes.

use crate::codes;
use optc_ir::Span;
use optc_layout::{XlaArray, XlaDim, XlaShape, XlaType};
use optc_mlir_syntax::{Parsed, shortened, wrong};

/// The shape of a type; `None` if XLA has no shape for it.
///
/// # Errors
/// A tensor type that is not well formed.
pub(crate) fn shape(text: &str, place: Span) -> Parsed<Option<XlaShape>> {
    let text = text.trim();
    if matches!(text, "!stablehlo.token" | "!mhlo.token") {
        return Ok(Some(XlaShape::Token));
    }
    let Some(inner) = text
        .strip_prefix("tensor<")
        .and_then(|t| t.strip_suffix('>'))
    else {
        return Ok(element(text).map(|element| XlaShape::Array(XlaArray::new(element, &[]))));
    };
    let bad = |why: &str| {
        let message = format!("found `{}`: {why}", shortened(text));
        wrong(codes::STABLEHLO_TYPE, message, place)
    };
    // The text after a comma outside `<…>` is the encoding.
    let mut depth = 0usize;
    let comma = inner.char_indices().find(|(_, c)| {
        match c {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            ',' => return depth == 0,
            _ => {}
        }
        false
    });
    let (mut rest, encoding) = match comma {
        Some((at, _)) => (&inner[..at], inner[at + 1..].trim()),
        None => (inner, ""),
    };
    let mut dims = Vec::new();
    while let Some((first, after)) = rest.split_once('x') {
        let first = first.trim();
        if first == "?" {
            dims.push(XlaDim::Unbounded);
        } else if first.starts_with(|c: char| c.is_ascii_digit()) {
            let size = first
                .parse()
                .map_err(|_| bad("a size that is no number below 2^64"))?;
            dims.push(XlaDim::Size(size));
        } else {
            break;
        }
        rest = after;
    }
    let Some(element) = element(rest.trim()) else {
        if rest.trim().starts_with('!') || rest.trim() == "index" {
            return Ok(None);
        }
        return Err(bad("an element type that XLA does not have"));
    };
    bounded(&mut dims, encoding);
    if 64 < dims.len() {
        return Err(bad("more than 64 dimensions"));
    }
    Ok(Some(XlaShape::Array(XlaArray {
        element,
        dims,
        notation: None,
    })))
}

/// Bounds in `#stablehlo.bounds<4, ?>`.
fn bounded(dims: &mut [XlaDim], encoding: &str) {
    let bounds = ["#stablehlo.bounds<", "#mhlo.type_extensions<bounds = ["];
    let Some(inner) = bounds.iter().find_map(|b| encoding.strip_prefix(b)) else {
        return;
    };
    let inner = inner.trim_end_matches(['>', ']', ' ']);
    for (dim, bound) in dims.iter_mut().zip(inner.split(',')) {
        if *dim == XlaDim::Unbounded
            && let Ok(bound) = bound.trim().parse()
        {
            *dim = XlaDim::Bounded(bound);
        }
    }
}

/// The element type with this MLIR name; integers without a sign are signed.
fn element(name: &str) -> Option<XlaType> {
    match name {
        "i1" => return Some(XlaType::Pred),
        "complex<f32>" => return Some(XlaType::C64),
        "complex<f64>" => return Some(XlaType::C128),
        _ => {}
    }
    if let Some(bits) = name.strip_prefix("ui") {
        return XlaType::from_name(&format!("u{bits}"));
    }
    if let Some(bits) = name.strip_prefix("si").or(name.strip_prefix('i')) {
        return XlaType::from_name(&format!("s{bits}"));
    }
    let float = name.starts_with(['f', 'b']);
    XlaType::from_name(&name.to_lowercase()).filter(|_| float)
}
