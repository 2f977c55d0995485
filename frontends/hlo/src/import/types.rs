//! Converts shapes of HLO text to types of the IR, and back.

use optc_ir::{DType, Dim, MiniFloat, Sign, TensorType, Type};
use optc_layout::{Notation, XlaArray, XlaDim, XlaNotation, XlaShape, XlaType};
use std::sync::Arc;

/// The element type, if the IR has it.
pub(crate) fn dtype(element: XlaType) -> Option<DType> {
    let int = |digits: &str, sign| {
        let bits = digits.parse().ok()?;
        Some(DType::Int { bits, sign })
    };
    match element {
        XlaType::Pred => Some(DType::BOOL),
        XlaType::F64 => Some(DType::F64),
        XlaType::F32 => Some(DType::F32),
        XlaType::F16 => Some(DType::F16),
        XlaType::Bf16 => Some(DType::BF16),
        XlaType::C64 => Some(DType::Complex64),
        XlaType::C128 => Some(DType::Complex128),
        _ => match element.name().split_at(1) {
            ("s", digits) => int(digits, Sign::Signed),
            ("u", digits) => int(digits, Sign::Unsigned),
            // Only floats of 6 bits remain.
            _ => MiniFloat::ALL
                .into_iter()
                .find(|m| m.name().eq_ignore_ascii_case(element.name()))
                .map(DType::Mini),
        },
    }
}

/// The type of an array, if the IR has its element type and each extent is known or has a name.
pub(crate) fn tensor(array: &XlaArray) -> Option<TensorType> {
    let dtype = dtype(array.element)?;
    let dim = |dim: &XlaDim| match dim {
        XlaDim::Size(size) => Some(Dim::Fixed(*size)),
        XlaDim::Named(text) => Some(Dim::named(text)),
        XlaDim::Bounded(_) | XlaDim::Unbounded => None,
    };
    let dims: Vec<Dim> = array.dims.iter().map(dim).collect::<Option<_>>()?;
    let notation = notation(array, dtype);
    let ty = TensorType {
        dims,
        dtype,
        notation,
    };
    match ty.layout() {
        Some(layout) => layout.is_ok().then_some(ty),
        None => (ty.notation == Notation::RowMajor).then_some(ty),
    }
}

/// The layout; the default one is omitted.
fn notation(array: &XlaArray, dtype: DType) -> Notation {
    let mut layout = array.notation_or_default();
    // Without `E` an element of less than a byte takes a whole byte.
    if dtype.bits() < 8 && layout.element_bits() == 0 {
        layout = layout.with_element_bits(8);
    }
    if layout == XlaNotation::row_major(array.dims.len()) {
        Notation::RowMajor
    } else {
        Notation::Xla(layout)
    }
}

/// The type of a shape that is not a tuple; a shape without a type in the IR is kept as text.
pub(crate) fn value_type(shape: &XlaShape) -> Type {
    let known = shape.as_array().and_then(tensor);
    match known {
        Some(ty) => ty.into(),
        None => Type::Other(Arc::from(format!("!hlo.shape<\"{shape}\">"))),
    }
}

/// The memory space of a type's layout.
pub(crate) fn space(ty: &TensorType) -> u32 {
    match &ty.notation {
        Notation::Xla(layout) => layout.memory_space(),
        _ => 0,
    }
}

/// The type in another memory space.
pub(crate) fn in_space(ty: &TensorType, space: u32) -> TensorType {
    let layout = match &ty.notation {
        Notation::Xla(layout) => layout.in_space(space),
        Notation::RowMajor if space != 0 => XlaNotation::row_major(ty.rank()).in_space(space),
        _ => return ty.clone(),
    };
    ty.with_notation(Notation::Xla(layout))
}
