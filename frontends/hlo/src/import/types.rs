//! Shapes of HLO text as types of the IR, and back.

use crate::shape::{ArrayShape, Shape};
use optc_ir::{DType, Dim, Sign, TensorType, Type};
use optc_layout::{Spelling, XlaSpelling};
use std::sync::Arc;

/// The element type, if the IR has it.
pub(crate) fn dtype(name: &str) -> Option<DType> {
    let int = |digits: &str, sign| {
        let bits = digits.parse().ok()?;
        Some(DType::Int { bits, sign })
    };
    match name {
        "pred" => Some(DType::BOOL),
        "f64" => Some(DType::F64),
        "f32" => Some(DType::F32),
        "f16" => Some(DType::F16),
        "bf16" => Some(DType::BF16),
        _ => match name.split_at(1) {
            ("s", digits) => int(digits, Sign::Signed),
            ("u", digits) => int(digits, Sign::Unsigned),
            _ => None,
        },
    }
}

/// The type of an array, if the IR has its element type and all extents are known.
pub(crate) fn tensor(array: &ArrayShape) -> Option<TensorType> {
    let dtype = dtype(array.dtype)?;
    let dims: Vec<Dim> = array.fixed()?.into_iter().map(Dim::Fixed).collect();
    let spelling = spelling(array, dtype)?;
    let ty = TensorType {
        dims,
        dtype,
        spelling,
    };
    ty.layout()?.ok()?;
    Some(ty)
}

/// The layout; the default one is not written.
fn spelling(array: &ArrayShape, dtype: DType) -> Option<Spelling> {
    let rank = array.dims.len();
    let mut text = array.layout_text();
    // Without `E` an element of less than a byte lies in one.
    let small = dtype.bits() < 8;
    if small && !text.contains("E(") {
        let colon = if text.contains(':') { "" } else { ":" };
        let at = text.find("S(").unwrap_or(text.len());
        text.insert_str(at, &format!("{colon}E(8)"));
    }
    let layout = XlaSpelling::parse(&text, rank).ok()?;
    let plain = layout.to_string()
        == (0..rank)
            .rev()
            .map(|d| d.to_string())
            .collect::<Vec<_>>()
            .join(",");
    Some(if plain {
        Spelling::RowMajor
    } else {
        Spelling::Xla(layout)
    })
}

/// The type of a shape that is no tuple: what the IR has no type for keeps its text.
pub(crate) fn value_type(shape: &Shape) -> Type {
    let known = shape.array().and_then(tensor);
    match known {
        Some(ty) => ty.into(),
        None => Type::Other(Arc::from(format!("!hlo.shape<\"{shape}\">"))),
    }
}

/// The memory space of a type's layout.
pub(crate) fn space(ty: &TensorType) -> u32 {
    match &ty.spelling {
        Spelling::Xla(layout) => layout.memory_space(),
        _ => 0,
    }
}

/// The same type in another memory space.
pub(crate) fn in_space(ty: &TensorType, space: u32) -> TensorType {
    let layout = match &ty.spelling {
        Spelling::Xla(layout) => layout.in_space(space),
        Spelling::RowMajor if space != 0 => {
            let order: Vec<String> = (0..ty.rank()).rev().map(|d| d.to_string()).collect();
            let text = format!("{}:S({space})", order.join(","));
            match XlaSpelling::parse(&text, ty.rank()) {
                Ok(layout) => layout,
                Err(_) => return ty.clone(),
            }
        }
        _ => return ty.clone(),
    };
    ty.with_spelling(Spelling::Xla(layout))
}
