//! Literals of constants in MLIR.

use optc_ir::short_float::{bf16_bits, f16_bits};
use optc_ir::{DType, Data, Tensor};
use optc_layout::XlaType;
use std::fmt::Write;

/// The largest number of elements written as numbers; more are written as hex digits.
const FEW: usize = 16;

/// A `dense<…>` literal.
pub(super) fn elements(tensor: &Tensor, element: XlaType) -> String {
    let bytes = bytes(tensor);
    if tensor.is_empty() {
        return "dense<>".to_owned();
    }
    if tensor.dtype.is_bool() {
        let mut flat = Vec::with_capacity(tensor.len());
        for i in 0..tensor.len() {
            flat.push((tensor.i64_at(i) != 0).to_string());
        }
        return format!("dense<{}>", nested(&flat, &tensor.shape, &mut 0));
    }
    if tensor.len() <= FEW && tensor.dtype.computes() {
        let text = |i: usize| match tensor.dtype {
            DType::Int { .. } => tensor.i128_at(i).to_string(),
            dtype => number(&crate::hlo::float_text(tensor.f64_at(i), dtype), element),
        };
        let flat: Vec<String> = (0..tensor.len()).map(text).collect();
        return format!("dense<{}>", nested(&flat, &tensor.shape, &mut 0));
    }
    let mut out = "dense<\"0x".to_owned();
    for byte in bytes {
        let _ = write!(out, "{byte:02X}");
    }
    out.push_str("\">");
    out
}

fn nested(flat: &[String], shape: &[usize], at: &mut usize) -> String {
    let Some((&n, rest)) = shape.split_first() else {
        *at += 1;
        return flat[*at - 1].clone();
    };
    let parts: Vec<String> = (0..n).map(|_| nested(flat, rest, at)).collect();
    format!("[{}]", parts.join(", "))
}

/// Little-endian bytes of all elements.
fn bytes(tensor: &Tensor) -> Vec<u8> {
    let width = tensor.dtype.bits().div_ceil(8) as usize;
    let mut out = Vec::with_capacity(width * tensor.len());
    for i in 0..tensor.len() {
        match (&tensor.data, tensor.dtype) {
            (_, DType::F64) => out.extend_from_slice(&tensor.f64_at(i).to_le_bytes()),
            (_, DType::F32) => out.extend_from_slice(&single(tensor.f64_at(i)).to_le_bytes()),
            (_, DType::F16) => out.extend_from_slice(&f16_bits(tensor.f64_at(i)).to_le_bytes()),
            (_, DType::BF16) => out.extend_from_slice(&bf16_bits(tensor.f64_at(i)).to_le_bytes()),
            (_, DType::Mini(small)) => out.push(small.encode(tensor.f64_at(i))),
            (Data::Bits(bits), _) => out.extend_from_slice(&bits[i].to_le_bytes()[..width]),
            (_, _) => out.extend_from_slice(&tensor.i128_at(i).to_le_bytes()[..width]),
        }
    }
    out
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the number is one of this type"
)]
fn single(x: f64) -> f32 {
    x as f32
}

/// Converts a literal of HLO text to MLIR's syntax.
pub(super) fn converted(text: &str, element: XlaType) -> String {
    let mut out = String::new();
    let mut word = String::new();
    for c in text.chars().chain([' ']) {
        if !matches!(c, '{' | '}' | '(' | ')' | ',' | ' ') {
            word.push(c);
            continue;
        }
        if !word.is_empty() {
            out.push_str(&number(&word, element));
            word.clear();
        }
        out.push(match c {
            '{' => '[',
            '}' => ']',
            other => other,
        });
    }
    format!("dense<{}>", out.trim())
}

/// Converts a number of HLO text to MLIR's syntax: floats have a point, NaN and infinities are their bits.
fn number(text: &str, element: XlaType) -> String {
    let name = element.name();
    if name.starts_with(['s', 'u']) || name == "pred" {
        return text.to_owned();
    }
    let part = match element {
        XlaType::C64 => XlaType::F32,
        XlaType::C128 => XlaType::F64,
        other => other,
    };
    let word = text.trim_start_matches('-');
    if word.starts_with("inf") || word.starts_with("nan") {
        return special(text.starts_with('-'), word.starts_with("inf"), part);
    }
    let (digits, exponent) = text.split_once('e').unwrap_or((text, "0"));
    let point = if digits.contains('.') { "" } else { ".0" };
    let sign = if exponent.starts_with('-') { "" } else { "+" };
    format!("{digits}{point}e{sign}{exponent}")
}

/// The bits of an infinity or a NaN.
fn special(negative: bool, infinite: bool, element: XlaType) -> String {
    let small = optc_ir::MiniFloat::ALL
        .into_iter()
        .find(|m| m.name().eq_ignore_ascii_case(element.name()));
    let x = match (negative, infinite) {
        (false, true) => f64::INFINITY,
        (true, true) => f64::NEG_INFINITY,
        _ => f64::NAN,
    };
    let sign = |bits: u64, top: u32| {
        if negative && !infinite {
            bits | 1 << top
        } else {
            bits
        }
    };
    match (small, element) {
        (Some(small), _) => format!("0x{:02X}", small.encode(x)),
        (_, XlaType::F64) => format!(
            "0x{:016X}",
            sign(x.abs().to_bits(), 63) | (x.to_bits() & (u64::from(infinite && negative) << 63))
        ),
        (_, XlaType::F16) => format!("0x{:04X}", sign(f16_bits(x).into(), 15)),
        (_, XlaType::Bf16) => format!("0x{:04X}", sign(bf16_bits(x).into(), 15)),
        _ => format!("0x{:08X}", sign(single(x).to_bits().into(), 31)),
    }
}
