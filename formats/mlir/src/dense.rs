//! The elements of constants: `dense<…>` with numbers, with a splat or with hexadecimal digits, or a resource.

use crate::aliases::Aliases;
use crate::cursor::{Codes, Cursor, Parsed, shortened, wrong};
use optc_ir::short_float::{bf16_bits, f16_bits};
use optc_ir::{DType, Span};

/// The elements of a constant, row-major, little-endian, each in whole bytes.
#[derive(Clone, Debug, PartialEq)]
pub enum Elements {
    /// One element for all positions.
    Splat(Vec<u8>),
    /// Every element.
    All(Vec<u8>),
    /// The text omits the elements of the constant with this name.
    Elided(String),
}

/// Reads the text before the type: `dense<…>` or `dense_resource<…>`. `None` for another kind of attribute.
pub fn elements(
    text: &str,
    dtype: DType,
    count: u64,
    aliases: &Aliases<'_>,
    place: Span,
    codes: &'static Codes,
) -> Parsed<Option<Elements>> {
    let text = text.trim();
    let bad = |why: String| wrong(codes.constant, why, place);
    if let Some(name) = text.strip_prefix("dense_resource<") {
        let name = name.trim_end_matches('>').trim().trim_matches('"');
        let Some(digits) = aliases.resource(name) else {
            return Ok(Some(Elements::Elided(name.to_owned())));
        };
        let bytes = hexadecimal(digits)
            .ok_or_else(|| bad("found a resource of other digits than hexadecimal ones".into()))?;
        // The first four bytes state the alignment of the others.
        let bytes = bytes.get(4..).unwrap_or_default().to_vec();
        return sized(bytes, dtype, count).map(Some).map_err(bad);
    }
    let Some(inner) = text
        .strip_prefix("dense<")
        .and_then(|t| t.strip_suffix('>'))
    else {
        return Ok(None);
    };
    let inner = inner.trim();
    if let Some(digits) = inner.strip_prefix("\"0x").and_then(|t| t.strip_suffix('"')) {
        let bytes = hexadecimal(digits)
            .ok_or_else(|| bad("found other digits than hexadecimal ones".into()))?;
        return sized(bytes, dtype, count).map(Some).map_err(bad);
    }
    if matches!(inner, "__elided__" | "\"__elided__\"") {
        return Ok(Some(Elements::Elided("__elided__".to_owned())));
    }
    let mut cursor = Cursor::new(inner, codes);
    let mut bytes = Vec::new();
    let list = cursor.peek() == b'[';
    let mut found = 0u64;
    loop {
        match cursor.peek() {
            0 => break,
            b'[' | b']' | b',' => cursor.at += 1,
            _ => {
                let start = cursor.at;
                element(&mut cursor, dtype, &mut bytes).ok_or_else(|| {
                    let end = (cursor.at.max(start + 1)).min(inner.len());
                    let found = shortened(inner.get(start..end).unwrap_or("?"));
                    bad(format!("found `{found}`, wanted an element of {dtype}"))
                })?;
                found += 1;
            }
        }
    }
    match (list, found) {
        (false, 1) if count != 1 => Ok(Some(Elements::Splat(bytes))),
        (_, n) if n == count => Ok(Some(Elements::All(bytes))),
        (_, n) => Err(bad(format!("found {n} elements, wanted {count}"))),
    }
}

/// The bytes of one element.
pub fn width(dtype: DType) -> usize {
    dtype.bits().div_ceil(8) as usize
}

/// Interprets bytes as elements: one, or all. Truth values may be packed.
fn sized(bytes: Vec<u8>, dtype: DType, count: u64) -> Result<Elements, String> {
    let one = width(dtype);
    let wanted = count.checked_mul(one as u64);
    if dtype.is_bool() && bytes.len() as u64 == count.div_ceil(8) && 1 < count {
        if bytes.len() == 1 && matches!(bytes[0], 0 | 0xff) {
            return Ok(Elements::Splat(vec![bytes[0] & 1]));
        }
        let count = usize::try_from(count).map_err(|e| e.to_string())?;
        let bit = |i: usize| (bytes[i / 8] >> (i % 8)) & 1;
        return Ok(Elements::All((0..count).map(bit).collect()));
    }
    if Some(bytes.len() as u64) == wanted {
        return Ok(Elements::All(bytes));
    }
    if bytes.len() == one && count != 1 {
        return Ok(Elements::Splat(bytes));
    }
    Err(format!(
        "found {} bytes, wanted {count} elements of {dtype}",
        bytes.len()
    ))
}

fn hexadecimal(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.strip_prefix("0x").unwrap_or(digits).as_bytes();
    let digit = |b: u8| {
        char::from(b)
            .to_digit(16)
            .and_then(|d| u8::try_from(d).ok())
    };
    if !digits.len().is_multiple_of(2) {
        return None;
    }
    let pair = |two: &[u8]| Some(16 * digit(two[0])? + digit(two[1])?);
    digits.chunks_exact(2).map(pair).collect()
}

/// Reads one element.
fn element(cursor: &mut Cursor<'_>, dtype: DType, out: &mut Vec<u8>) -> Option<()> {
    if let Some(part) = dtype.complex_part() {
        if !cursor.eat("(") {
            return None;
        }
        element(cursor, part, out)?;
        if !cursor.eat(",") {
            return None;
        }
        element(cursor, part, out)?;
        return cursor.eat(")").then_some(());
    }
    cursor.skip();
    let start = cursor.at;
    let stop = |b: &u8| matches!(b, b',' | b']' | b'[' | b')' | b'(') || b.is_ascii_whitespace();
    let rest = cursor.rest();
    cursor.at += rest.iter().position(stop).unwrap_or(rest.len());
    let text = cursor.text.get(start..cursor.at)?;
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let hex = digits
        .strip_prefix("0x")
        .map(|d| u128::from_str_radix(d, 16));
    if dtype.is_int() {
        return integer(text, digits, negative, dtype, out);
    }
    match hex {
        // The bits of a float.
        Some(bits) => {
            let bits = bits.ok().filter(|_| !negative)?;
            let fits = dtype.bits() >= 128 || bits >> dtype.bits() == 0;
            out.extend_from_slice(&bits.to_le_bytes()[..width(dtype)]);
            fits.then_some(())
        }
        None => float(text, dtype, out),
    }
}

fn integer(
    text: &str,
    digits: &str,
    negative: bool,
    dtype: DType,
    out: &mut Vec<u8>,
) -> Option<()> {
    let bits = dtype.bits();
    let number = match (text, digits.strip_prefix("0x")) {
        ("true", _) => 1i128,
        ("false", _) => 0,
        (_, Some(hex)) => i128::from_str_radix(hex, 16).ok()? * if negative { -1 } else { 1 },
        _ => text.parse().ok()?,
    };
    // A number of either sign is accepted if its bits fit.
    let (low, high) = (-(1i128 << (bits - 1)), (1i128 << bits) - 1);
    if number < low || high < number {
        return None;
    }
    let number = if dtype.is_bool() { number & 1 } else { number };
    out.extend_from_slice(&number.to_le_bytes()[..width(dtype)]);
    Some(())
}

fn float(text: &str, dtype: DType, out: &mut Vec<u8>) -> Option<()> {
    if !text.starts_with(|c: char| c.is_ascii_digit() || matches!(c, '-' | '+' | '.')) {
        return None;
    }
    let x: f64 = text.parse().ok()?;
    match dtype {
        DType::F64 => out.extend_from_slice(&x.to_le_bytes()),
        // Parsed as a single directly; double rounding may be off by a bit.
        DType::F32 => out.extend_from_slice(&text.parse::<f32>().ok()?.to_le_bytes()),
        DType::F16 => out.extend_from_slice(&f16_bits(x).to_le_bytes()),
        DType::BF16 => out.extend_from_slice(&bf16_bits(x).to_le_bytes()),
        DType::Mini(small) => out.push(small.encode(x)),
        DType::Int { .. } | DType::Complex64 | DType::Complex128 => return None,
    }
    Some(())
}
