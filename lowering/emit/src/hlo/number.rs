//! Numbers in HLO text.

use optc_ir::{DType, Data, Sign, Tensor};

/// One element in HLO text, exactly.
pub(super) fn element_text(tensor: &Tensor, i: usize) -> String {
    match (tensor.dtype, &tensor.data) {
        (d, _) if d.is_bool() => (tensor.i64_at(i) != 0).to_string(),
        (DType::Int { .. }, _) => tensor.i128_at(i).to_string(),
        (dtype @ (DType::Complex64 | DType::Complex128), Data::Bits(bits)) => {
            complex_text(bits[i], dtype)
        }
        (dtype, _) => float_text(tensor.f64_at(i), dtype),
    }
}

/// A complex number in HLO text.
#[expect(clippy::cast_possible_truncation, reason = "the parts of the bits")]
fn complex_text(bits: u128, dtype: DType) -> String {
    let (real, imaginary, part) = if dtype == DType::Complex64 {
        let part = |bits: u128| f64::from(f32::from_bits(bits as u32));
        (part(bits), part(bits >> 32), DType::F32)
    } else {
        let part = |bits: u128| f64::from_bits(bits as u64);
        (part(bits), part(bits >> 64), DType::F64)
    };
    format!(
        "({}, {})",
        float_text(real, part),
        float_text(imaginary, part)
    )
}

/// Returns whether an element type is unsigned.
pub(super) fn is_unsigned(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Int {
            sign: Sign::Unsigned,
            ..
        }
    )
}

/// A number as HLO text writes it in this element type.
pub(super) fn number_text(x: f64, dtype: DType) -> String {
    match dtype {
        d if d.is_bool() => (x != 0.0).to_string(),
        DType::Int { .. } => format!("{x:.0}"),
        DType::Complex64 | DType::Complex128 => {
            let part = dtype.complex_part().unwrap_or(dtype);
            format!("({}, 0)", float_text(x, part))
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 | DType::Mini(_) => float_text(x, dtype),
    }
}

/// The text of a float that reads back as the same number.
pub(crate) fn float_text(x: f64, dtype: DType) -> String {
    if x.is_nan() {
        return if x.is_sign_negative() { "-nan" } else { "nan" }.to_owned();
    }
    if x.is_infinite() {
        return if x < 0.0 { "-inf" } else { "inf" }.to_owned();
    }
    #[expect(
        clippy::cast_possible_truncation,
        reason = "the number is one of this type"
    )]
    let text = if dtype == DType::F64 {
        format!("{x:e}")
    } else {
        format!("{:e}", x as f32)
    };
    text.strip_suffix("e0").map_or(text.clone(), str::to_owned)
}

/// The least and the greatest number of an element type, in text form.
pub(super) fn limits(dtype: DType) -> (String, String) {
    match dtype {
        DType::Int {
            bits: 1,
            sign: Sign::Signless,
        } => ("false".into(), "true".into()),
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => ("0".into(), ((1u128 << bits) - 1).to_string()),
        DType::Int { bits, .. } => {
            let half = 1i128 << (bits - 1);
            ((-half).to_string(), (half - 1).to_string())
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => ("-inf".into(), "inf".into()),
        // Unused: no operation computes with these types.
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => ("-inf".into(), "inf".into()),
    }
}

/// The literal of a tensor in HLO text.
pub(super) fn literal(tensor: &Tensor) -> String {
    let mut text = String::new();
    nested(tensor, &tensor.shape, &mut 0, &mut text);
    text
}

fn nested(tensor: &Tensor, shape: &[usize], at: &mut usize, out: &mut String) {
    let Some((&n, rest)) = shape.split_first() else {
        out.push_str(&element_text(tensor, *at));
        *at += 1;
        return;
    };
    if tensor.is_empty() && rest.is_empty() {
        out.push_str("{}");
        return;
    }
    out.push_str(if rest.is_empty() { "{" } else { "{ " });
    for i in 0..n {
        out.push_str(if i == 0 { "" } else { ", " });
        nested(tensor, rest, at, out);
    }
    out.push_str(if rest.is_empty() { "}" } else { " }" });
}
