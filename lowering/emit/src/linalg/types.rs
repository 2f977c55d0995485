//! Types and numbers in MLIR's syntax.

use optc_ir::{DType, Sign};

/// The element type; `None` if upstream MLIR does not have it.
pub(super) fn dtype_name(dtype: DType) -> Option<String> {
    Some(match dtype {
        DType::Int { bits, .. } => format!("i{bits}"),
        DType::Mini(float) if float.bits() < 8 => return None,
        other => other.to_string(),
    })
}

/// The type of a tensor; `None` stands for an unknown extent.
pub(super) fn tensor_text(shape: impl Iterator<Item = Option<u64>>, dtype: DType) -> String {
    let mut text = "tensor<".to_owned();
    for n in shape {
        match n {
            Some(n) => text.push_str(&n.to_string()),
            None => text.push('?'),
        }
        text.push('x');
    }
    text.push_str(&dtype_name(dtype).unwrap_or_default());
    text.push('>');
    text
}

/// The type in which numbers of a type are computed: `f32` for narrow floats.
pub(super) fn wide(dtype: DType) -> DType {
    match dtype {
        DType::F16 | DType::BF16 => DType::F32,
        other => other,
    }
}

/// Returns whether a type is an unsigned integer type.
pub(super) fn is_unsigned(dtype: DType) -> bool {
    matches!(
        dtype,
        DType::Int {
            sign: Sign::Unsigned,
            ..
        }
    ) || dtype.is_bool()
}

/// A float of this type in MLIR's syntax.
pub(super) fn float_text(x: f64, dtype: DType) -> String {
    if x.is_finite() {
        let text = format!("{x:e}");
        return match text.split_once('e') {
            Some((digits, power)) if !digits.contains('.') => format!("{digits}.0e{power}"),
            _ => text,
        };
    }
    let bits = |infinity: u64, quiet: u64| match x.is_nan() {
        true => infinity | quiet,
        false => infinity,
    };
    match dtype {
        DType::F64 => format!("0x{:X}", bits(0x7ff0 << 48, 0x0008 << 48) | sign(x, 63)),
        DType::F16 => format!("0x{:04X}", bits(0x7c00, 0x0200) | sign(x, 15)),
        DType::BF16 => format!("0x{:04X}", bits(0x7f80, 0x0040) | sign(x, 15)),
        _ => format!("0x{:08X}", bits(0x7f80_0000, 0x0040_0000) | sign(x, 31)),
    }
}

fn sign(x: f64, at: u32) -> u64 {
    u64::from(x.is_infinite() && x < 0.0) << at
}

/// A number of this type in MLIR's syntax; a number outside of an integer type's range is clamped.
#[expect(
    clippy::cast_possible_truncation,
    reason = "an integer's fraction is cut off"
)]
pub(super) fn number_text(x: f64, dtype: DType) -> String {
    match dtype {
        d if d.is_bool() => (x != 0.0).to_string(),
        DType::Int { bits, sign } => {
            let (low, high) = match sign {
                Sign::Unsigned => (0, (1i128 << bits) - 1),
                _ => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
            };
            (x as i128).clamp(low, high).to_string()
        }
        _ => float_text(x, dtype),
    }
}

/// The minimum of a type or, with `greatest`, its maximum.
pub(super) fn limit_text(dtype: DType, greatest: bool) -> String {
    match dtype {
        d if d.is_bool() => greatest.to_string(),
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => match greatest {
            true => ((1u128 << bits) - 1).to_string(),
            false => "0".to_owned(),
        },
        DType::Int { bits, .. } => {
            let half = 1i128 << (bits - 1);
            (if greatest { half - 1 } else { -half }).to_string()
        }
        _ => float_text(
            if greatest {
                f64::INFINITY
            } else {
                f64::NEG_INFINITY
            },
            dtype,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn floats_have_a_point_and_infinities_their_bits() {
        assert_eq!(float_text(1.0, DType::F32), "1.0e0");
        assert_eq!(float_text(-1.5e-7, DType::F32), "-1.5e-7");
        assert_eq!(float_text(f64::INFINITY, DType::F32), "0x7F800000");
        assert_eq!(float_text(f64::NEG_INFINITY, DType::F32), "0xFF800000");
        assert_eq!(float_text(f64::NEG_INFINITY, DType::F16), "0xFC00");
        assert_eq!(float_text(f64::NAN, DType::BF16), "0x7FC0");
        assert_eq!(
            float_text(f64::NEG_INFINITY, DType::F64),
            "0xFFF0000000000000"
        );
    }
}
