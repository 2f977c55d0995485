//! Numbers and element types in Triton and in torch.

use optc_ir::{DType, Sign};

/// The type of an element in a kernel; `None` if kernels have no such elements.
pub(super) fn block_type(dtype: DType) -> Option<String> {
    Some(match dtype {
        DType::F64 => "tl.float64".to_owned(),
        DType::F32 => "tl.float32".to_owned(),
        DType::F16 => "tl.float16".to_owned(),
        DType::BF16 => "tl.bfloat16".to_owned(),
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => return None,
        _ if dtype.is_bool() => "tl.int1".to_owned(),
        DType::Int { bits, .. } if bits < 8 => return None,
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => format!("tl.uint{bits}"),
        DType::Int { bits, .. } => format!("tl.int{bits}"),
    })
}

/// The type of a pointer in the signature of a kernel.
pub(super) fn pointer_type(dtype: DType) -> Option<String> {
    Some(match dtype {
        DType::F64 => "*fp64".to_owned(),
        DType::F32 => "*fp32".to_owned(),
        DType::F16 => "*fp16".to_owned(),
        DType::BF16 => "*bf16".to_owned(),
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => return None,
        _ if dtype.is_bool() => "*i1".to_owned(),
        DType::Int { bits, .. } if bits < 8 => return None,
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => format!("*u{bits}"),
        DType::Int { bits, .. } => format!("*i{bits}"),
    })
}

/// The type of an element in torch; `None` if torch has none.
pub(super) fn torch_type(dtype: DType) -> Option<String> {
    Some(match dtype {
        DType::F64 => "torch.float64".to_owned(),
        DType::F32 => "torch.float32".to_owned(),
        DType::F16 => "torch.float16".to_owned(),
        DType::BF16 => "torch.bfloat16".to_owned(),
        DType::Complex64 => "torch.complex64".to_owned(),
        DType::Complex128 => "torch.complex128".to_owned(),
        DType::Mini(_) => return None,
        _ if dtype.is_bool() => "torch.bool".to_owned(),
        DType::Int { bits, .. } if bits < 8 => return None,
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => format!("torch.uint{bits}"),
        DType::Int { bits, .. } => format!("torch.int{bits}"),
    })
}

/// The type in which a kernel computes with elements of a type.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// A float in Python.
pub(super) fn float(x: f64) -> String {
    if x.is_nan() {
        "float(\"nan\")".to_owned()
    } else if x.is_infinite() {
        if x < 0.0 {
            "float(\"-inf\")"
        } else {
            "float(\"inf\")"
        }
        .to_owned()
    } else {
        format!("{x:?}")
    }
}

/// A number beside values of a type.
pub(super) fn literal(x: f64, dtype: DType) -> String {
    if dtype.is_float() {
        float(x)
    } else if dtype.is_bool() {
        if x == 0.0 { "False" } else { "True" }.to_owned()
    } else {
        format!("{x:.0}")
    }
}

/// A tensor without dimensions.
pub(super) fn full(x: f64, dtype: DType) -> Option<String> {
    let number = match dtype.is_bool() {
        true => format!("{}", u8::from(x != 0.0)),
        false => literal(x, dtype),
    };
    Some(format!("tl.full((), {number}, {})", block_type(dtype)?))
}

/// The number that stands for absent elements.
pub(super) fn zero(dtype: DType) -> &'static str {
    if dtype.is_float() { "0.0" } else { "0" }
}

/// The least number of a type, below which no element is.
pub(super) fn least(dtype: DType) -> String {
    match dtype {
        DType::Int {
            sign: Sign::Unsigned,
            ..
        } => "0".to_owned(),
        _ if dtype.is_bool() => "0".to_owned(),
        DType::Int { bits, .. } => format!("{}", -(1i128 << (bits - 1))),
        _ => "float(\"-inf\")".to_owned(),
    }
}

/// The greatest number of a type.
pub(super) fn greatest(dtype: DType) -> String {
    match dtype {
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => format!("{}", (1i128 << bits) - 1),
        _ if dtype.is_bool() => "1".to_owned(),
        DType::Int { bits, .. } => format!("{}", (1i128 << (bits - 1)) - 1),
        _ => "float(\"inf\")".to_owned(),
    }
}
