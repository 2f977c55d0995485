//! Numbers and element types in `jnp`.

pub(super) use crate::python::{Names, quoted, tuple};
use optc_ir::{DType, Data, MiniFloat, Sign, Tensor};

/// The element type of an array of a kernel, which has no truth values.
pub(super) fn in_memory(element: DType) -> String {
    match element.is_bool() {
        true => "jnp.int32".to_owned(),
        false => dtype(element).to_string(),
    }
}

/// The extents of an array of a kernel, which has two dimensions at least.
pub(super) fn boxed(shape: &[u64]) -> Vec<u64> {
    let units = 2usize.saturating_sub(shape.len());
    [vec![1; units], shape.to_vec()].concat()
}

/// A float.
pub(super) fn float(x: f64) -> String {
    if x.is_nan() {
        "jnp.nan".to_owned()
    } else if x.is_infinite() {
        if x < 0.0 { "-jnp.inf" } else { "jnp.inf" }.to_owned()
    } else {
        format!("{x:?}")
    }
}

/// One element of a tensor; `None` for a NaN of a type that has several and that nothing computes with.
pub(super) fn element(tensor: &Tensor, i: usize) -> Option<String> {
    match &tensor.data {
        Data::F32(_) | Data::F64(_) => Some(float(tensor.f64_at(i))),
        Data::I64(_) => Some(tensor.i128_at(i).to_string()),
        Data::Bits(bits) => stored(bits[i], tensor.dtype),
    }
}

/// A number of a type that nothing computes with; `None` for a NaN of a type that has several.
#[expect(clippy::cast_possible_truncation, reason = "the parts of the bits")]
fn stored(bits: u128, dtype: DType) -> Option<String> {
    let plain = |x: f64| (!x.is_nan()).then(|| float(x));
    let complex = |re: f64, im: f64| Some(format!("complex({}, {})", plain(re)?, plain(im)?));
    match dtype {
        DType::Mini(small) => plain(small.decode(bits as u8)),
        DType::Complex64 => {
            let part = |bits: u128| f64::from(f32::from_bits(bits as u32));
            complex(part(bits), part(bits >> 32))
        }
        DType::Complex128 => {
            let part = |bits: u128| f64::from_bits(bits as u64);
            complex(part(bits), part(bits >> 64))
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 | DType::Int { .. } => None,
    }
}

/// The element type in `jnp`.
pub(super) fn dtype(dtype: DType) -> String {
    match dtype {
        DType::F64 => "jnp.float64".to_owned(),
        DType::F32 => "jnp.float32".to_owned(),
        DType::F16 => "jnp.float16".to_owned(),
        DType::BF16 => "jnp.bfloat16".to_owned(),
        DType::Mini(float) => format!("jnp.{}", mini_name(float)),
        DType::Complex64 => "jnp.complex64".to_owned(),
        DType::Complex128 => "jnp.complex128".to_owned(),
        DType::Int {
            bits: 1,
            sign: Sign::Signless,
        } => "jnp.bool_".to_owned(),
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => format!("jnp.uint{bits}"),
        DType::Int { bits, .. } => format!("jnp.int{bits}"),
    }
}

/// The name of a small float in `ml_dtypes`.
fn mini_name(float: MiniFloat) -> &'static str {
    match float {
        MiniFloat::E2M1FN => "float4_e2m1fn",
        MiniFloat::E3M4 => "float8_e3m4",
        MiniFloat::E4M3 => "float8_e4m3",
        MiniFloat::E4M3FN => "float8_e4m3fn",
        MiniFloat::E4M3FNUZ => "float8_e4m3fnuz",
        MiniFloat::E4M3B11FNUZ => "float8_e4m3b11fnuz",
        MiniFloat::E5M2 => "float8_e5m2",
        MiniFloat::E5M2FNUZ => "float8_e5m2fnuz",
        MiniFloat::E8M0FNU => "float8_e8m0fnu",
    }
}

/// The accumulator type for sums of this element type.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}
