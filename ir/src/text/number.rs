//! Conversions of numbers between text, bits and values.

use crate::short_float::{bf16_bits, bf16_number, f16_bits, f16_number};
use crate::tensor::{round_float, wrap_int};
use crate::types::{DType, Sign};
use std::fmt::Write;

/// A number in the text.
#[derive(Clone, Copy, Debug)]
pub(super) struct NumberText<'s> {
    /// The text with its sign.
    pub(super) text: &'s str,
    /// True if the number has a fraction or an exponent.
    pub(super) float: bool,
    /// True if the number starts with `0x`.
    pub(super) hex: bool,
}

/// An integer of this type, as the `i64` that represents it; `None` if it is out of range or a float.
pub(super) fn integer(number: NumberText<'_>, dtype: DType) -> Option<i64> {
    let DType::Int { bits, sign } = dtype else {
        return None;
    };
    let value = whole(number)?;
    let bits = u32::from(bits);
    let low = match sign {
        Sign::Unsigned => 0,
        Sign::Signed | Sign::Signless => -(1i128 << (bits - 1)),
    };
    let high = match sign {
        Sign::Signed => (1i128 << (bits - 1)) - 1,
        Sign::Unsigned | Sign::Signless => (1i128 << bits) - 1,
    };
    // There is no spelling of a signless i64 beyond the signed range that means the same everywhere.
    let high = if bits == 64 && sign == Sign::Signless && !number.hex {
        i128::from(i64::MAX)
    } else {
        high
    };
    if value < low || value > high {
        return None;
    }
    let wrapped = i64::try_from(value).unwrap_or_else(|_| truncate(value));
    Some(wrap_int(wrapped, dtype))
}

/// The low 64 bits of a value.
#[expect(
    clippy::cast_possible_truncation,
    reason = "keeping the low bits is the purpose"
)]
fn truncate(value: i128) -> i64 {
    value as i64
}

/// A number from 0 to 2^64 - 1.
pub(super) fn unsigned(number: NumberText<'_>) -> Option<u64> {
    u64::try_from(whole(number)?).ok()
}

fn whole(number: NumberText<'_>) -> Option<i128> {
    if number.float {
        return None;
    }
    let (negative, digits) = match number.text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, number.text),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => i128::from_str_radix(hex, 16).ok()?,
        None => digits.parse::<i128>().ok()?,
    };
    Some(if negative { -value } else { value })
}

/// The bits of a float of this type; `0x…` gives them directly. `None` if they do not fit the width.
pub(super) fn float_bits(number: NumberText<'_>, dtype: DType) -> Option<u64> {
    if number.hex {
        let bits = unsigned(number)?;
        let width = dtype.bits();
        return (width == 64 || bits >> width == 0).then_some(bits);
    }
    number.text.parse::<f64>().ok().map(|x| bits_of(x, dtype))
}

/// The bits of `x`, rounded to this float type.
pub(super) fn bits_of(x: f64, dtype: DType) -> u64 {
    match dtype {
        DType::F16 => u64::from(f16_bits(x)),
        DType::BF16 => u64::from(bf16_bits(x)),
        DType::F32 => u64::from(round_float(x, DType::F32).to_bits()),
        DType::Mini(float) => u64::from(float.encode(x)),
        DType::F64 | DType::Int { .. } | DType::Complex64 | DType::Complex128 => x.to_bits(),
    }
}

/// The value of the bits of a float of this type.
pub(super) fn float_from_bits(bits: u64, dtype: DType) -> f64 {
    match dtype {
        DType::F16 => f16_number(low16(bits)).into(),
        DType::BF16 => bf16_number(low16(bits)).into(),
        DType::F32 => f64::from(f32::from_bits(low32(bits))),
        DType::Mini(float) => float.decode(low8(bits)),
        DType::F64 | DType::Int { .. } | DType::Complex64 | DType::Complex128 => {
            f64::from_bits(bits)
        }
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "keeping the low bits is the purpose"
)]
fn low8(bits: u64) -> u8 {
    bits as u8
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "keeping the low bits is the purpose"
)]
fn low16(bits: u64) -> u16 {
    bits as u16
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "keeping the low bits is the purpose"
)]
fn low32(bits: u64) -> u32 {
    bits as u32
}

/// Writes the shortest decimal that reads back as the same bits, or else the bits in hex.
pub(super) fn write_float(out: &mut String, bits: u64, dtype: DType) {
    let start = out.len();
    let value = float_from_bits(bits, dtype);
    if value.is_finite() {
        write_decimal(out, value, dtype);
        let read = out.get(start..).and_then(|t| t.parse::<f64>().ok());
        if read.map(|x| bits_of(x, dtype)) == Some(bits) {
            return;
        }
        out.truncate(start);
    }
    let digits = dtype.bits() as usize / 4;
    let _ = write!(out, "0x{bits:0digits$X}");
}

/// Writes a finite value with a decimal point, which MLIR requires of a float.
#[expect(
    clippy::cast_possible_truncation,
    reason = "the value is one of the narrow type"
)]
fn write_decimal(out: &mut String, value: f64, dtype: DType) {
    let start = out.len();
    let narrow = dtype != DType::F64;
    let size = value.abs();
    if size == 0.0 || (1e-4..1e16).contains(&size) {
        let _ = if narrow {
            write!(out, "{}", value as f32)
        } else {
            write!(out, "{value}")
        };
        if !out.get(start..).is_some_and(|t| t.contains('.')) {
            out.push_str(".0");
        }
        return;
    }
    let text = if narrow {
        format!("{:e}", value as f32)
    } else {
        format!("{value:e}")
    };
    let (mantissa, exponent) = text.split_once('e').unwrap_or((&text, "0"));
    out.push_str(mantissa);
    if !mantissa.contains('.') {
        out.push_str(".0");
    }
    let (sign, digits) = match exponent.strip_prefix('-') {
        Some(digits) => ('-', digits),
        None => ('+', exponent),
    };
    let _ = write!(out, "e{sign}{digits:0>2}");
}

/// Appends one element of a hex string; an integer of fewer than 8 bits is wrapped into the range of its type.
pub(super) fn push_wrapped(chunk: &[u8], dtype: DType, out: &mut Vec<u8>) {
    match (dtype, chunk) {
        (DType::Int { bits: ..8, .. }, &[byte]) => {
            out.extend(wrap_int(i64::from(byte), dtype).to_le_bytes().first());
        }
        (DType::Mini(float), &[byte]) => out.push(byte & (u8::MAX >> (8 - float.bits()))),
        (_, chunk) => out.extend_from_slice(chunk),
    }
}

/// Unpacks booleans, eight to a byte, lowest bit first. Returns true if one byte stands for all of them, and `None` if
/// the number of bytes is wrong.
pub(super) fn unpack_bits(data: &[u8], len: u64, out: &mut Vec<u8>) -> Option<bool> {
    if (len > 8 || len == 1)
        && let [byte @ (0x00 | 0xFF)] = data
    {
        out.push(u8::from(*byte != 0));
        return Some(true);
    }
    if data.len() as u64 != len.div_ceil(8) {
        return None;
    }
    for i in 0..len {
        let at = usize::try_from(i / 8).ok()?;
        out.push(data.get(at)? >> (i % 8) & 1);
    }
    Some(false)
}

/// The integer encoded by little-endian bytes, interpreted by its type.
pub(super) fn read_int(chunk: &[u8], dtype: DType) -> i64 {
    let bits = read_bits(chunk);
    wrap_int(bits.cast_signed(), dtype)
}

/// The bits in little-endian bytes.
pub(super) fn read_bits(chunk: &[u8]) -> u64 {
    chunk.iter().rev().fold(0, |a, &b| (a << 8) | u64::from(b))
}

/// Returns whether all elements of `width` bytes are equal; false if there are none.
pub(super) fn all_equal(bytes: &[u8], width: usize) -> bool {
    let mut chunks = bytes.chunks_exact(width);
    chunks
        .next()
        .is_some_and(|first| chunks.all(|c| c == first))
}
