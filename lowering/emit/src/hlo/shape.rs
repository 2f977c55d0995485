//! Types of the IR as HLO shapes.

use crate::codes;
use optc_ir::{DType, Diagnostic, Dim, Sign, TensorType, Type};
use optc_layout::{Notation, NotationKind};

/// The element type in XLA's spelling.
pub(super) fn dtype_name(dtype: DType) -> String {
    match dtype {
        DType::F64 => "f64".to_owned(),
        DType::F32 => "f32".to_owned(),
        DType::F16 => "f16".to_owned(),
        DType::BF16 => "bf16".to_owned(),
        DType::Mini(float) => float.name().to_lowercase(),
        DType::Complex64 => "c64".to_owned(),
        DType::Complex128 => "c128".to_owned(),
        DType::Int {
            bits: 1,
            sign: Sign::Signless,
        } => "pred".to_owned(),
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => format!("u{bits}"),
        DType::Int { bits, .. } => format!("s{bits}"),
    }
}

/// Returns whether a word is an element type, and therefore no name.
pub(super) fn is_dtype(word: &str) -> bool {
    let digits = |text: &str| {
        let number = text
            .find(|c: char| !c.is_ascii_digit())
            .map_or(text, |i| &text[..i]);
        !number.is_empty()
    };
    matches!(word, "pred" | "token" | "opaque" | "bf16")
        || (word.starts_with(['s', 'u', 'f', 'c']) && digits(&word[1..]))
}

/// The extents in brackets.
pub(super) fn dims_text(dims: &[Dim]) -> String {
    let text = |d: &Dim| match d {
        Dim::Fixed(n) => n.to_string(),
        Dim::Symbol(_) | Dim::Unknown => "?".to_owned(),
    };
    format!("[{}]", dims.iter().map(text).collect::<Vec<_>>().join(","))
}

/// The shape of a type.
///
/// XLA's notation cannot express its layout.
pub(super) fn shape_text(ty: &Type) -> Result<String, Box<Diagnostic>> {
    match ty {
        Type::Tensor(ty) => tensor_text(ty),
        Type::Scalar(dtype) => Ok(format!("{}[]", dtype_name(*dtype))),
        Type::Other(text) => {
            let kept = text
                .strip_prefix("!hlo.shape<\"")
                .and_then(|t| t.strip_suffix("\">"));
            Ok(kept.unwrap_or("opaque[]").to_owned())
        }
    }
}

/// The shape of a tensor type.
pub(super) fn tensor_text(ty: &TensorType) -> Result<String, Box<Diagnostic>> {
    let layout = layout_text(ty)?;
    let braces = if layout.is_empty() {
        String::new()
    } else {
        format!("{{{layout}}}")
    };
    Ok(format!(
        "{}{}{braces}",
        dtype_name(ty.dtype),
        dims_text(&ty.dims)
    ))
}

fn layout_text(ty: &TensorType) -> Result<String, Box<Diagnostic>> {
    let rank = ty.rank();
    let plain = || {
        let order: Vec<String> = (0..rank).rev().map(|d| d.to_string()).collect();
        order.join(",")
    };
    let mut text = match &ty.notation {
        Notation::RowMajor => plain(),
        Notation::Xla(layout) => layout.to_string(),
        _ => {
            let layout = ty.layout().and_then(Result::ok);
            let Some(layout) = layout else {
                return Err(refuse(ty, "its sizes are not known"));
            };
            if layout.is_row_major() {
                plain()
            } else {
                let converted = layout
                    .convert(NotationKind::Xla)
                    .map_err(|e| refuse(ty, &e.to_string()))?;
                converted
                    .notation()
                    .to_string()
                    .trim_start_matches("xla = ")
                    .trim_matches('"')
                    .to_owned()
            }
        }
    };
    // Elements take whole bytes unless `E` says otherwise, including those of less than 8 bits.
    let bits = ty.notation.element_bits(ty.dtype.bits());
    let usual = ty.dtype.bits().next_multiple_of(8) == bits;
    let stated = text.find("E(");
    if usual && let Some(at) = stated {
        let end = text[at..].find(')').map_or(text.len(), |n| at + n + 1);
        text.replace_range(at..end, "");
        text = text.trim_end_matches(':').to_owned();
    } else if !usual && stated.is_none() {
        let at = text.find(['S', 'M']).unwrap_or(text.len());
        let colon = if text.contains(':') { "" } else { ":" };
        text.insert_str(at, &format!("{colon}E({bits})"));
    }
    Ok(text)
}

fn refuse(ty: &TensorType, why: &str) -> Box<Diagnostic> {
    let text = optc_ir::text::print_type(&Type::from(ty.clone()));
    let message = format!("the layout of {text} cannot be written in HLO text: {why}");
    let diag = Diagnostic::error(codes::HLO_LAYOUT_INEXPRESSIBLE, message);
    Box::new(diag.hint("a target that lays values out in XLA's tiles, or --pass= (none)"))
}

/// The extents, if all are known.
pub(super) fn sizes(ty: &TensorType) -> Option<Vec<u64>> {
    ty.shape()
}

/// A row-major type with the same element type and these extents.
pub(super) fn shaped(ty: &TensorType, shape: &[u64]) -> TensorType {
    TensorType::new(shape.iter().map(|&n| Dim::Fixed(n)).collect(), ty.dtype)
}
