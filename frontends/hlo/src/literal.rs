//! Literals: the numbers of constants.

use crate::codes;
use crate::cursor::{Cursor, MAX_DEPTH, Parsed};
use crate::error::HloError;
use crate::import::types::dtype;
use optc_ir::short_float::{bf16_bits, f16_bits};
use optc_ir::{DType, MiniFloat};
use optc_layout::{XlaArray, XlaShape, XlaType};

/// The elements of a literal.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Literal {
    /// Little-endian bytes of all elements, row-major, one element in whole bytes.
    Bytes(Vec<u8>),
    /// The text omits the elements: `{...}`.
    Elided,
    /// Elements of a type without bytes here, or of a tuple: they are only counted and checked.
    Other,
}

/// Reads a literal of this shape.
pub(crate) fn literal(cursor: &mut Cursor<'_>, shape: &XlaShape, depth: usize) -> Parsed<Literal> {
    if MAX_DEPTH < depth {
        let mut error = cursor.wanted("a literal that nests less deeply");
        error.code = codes::HLO_TOO_DEEP.into();
        return Err(error);
    }
    match shape {
        XlaShape::Tuple(parts) => {
            cursor.expect("(")?;
            for (i, part) in parts.iter().enumerate() {
                if 0 < i {
                    cursor.expect(",")?;
                }
                literal(cursor, part, depth + 1)?;
            }
            cursor.expect(")")?;
            Ok(Literal::Other)
        }
        XlaShape::Array(array) => array_literal(cursor, array),
        XlaShape::Token | XlaShape::Opaque | XlaShape::Buffer(_) => {
            Err(cursor.wanted("a shape that has literals"))
        }
    }
}

fn array_literal(cursor: &mut Cursor<'_>, array: &XlaArray) -> Parsed<Literal> {
    if elided(cursor)? {
        return Ok(Literal::Elided);
    }
    let Some(shape) = array.sizes() else {
        return Err(cursor.wanted("a constant of known size"));
    };
    let mut reader = Reader {
        cursor,
        element: array.element,
        bytes: Some(Vec::new()),
    };
    if shape.contains(&0) {
        reader.empty(shape.len())?;
    } else {
        reader.elements(&shape, 0)?;
    }
    Ok(reader.bytes.map_or(Literal::Other, Literal::Bytes))
}

/// `{...}`, at any depth.
fn elided(cursor: &mut Cursor<'_>) -> Parsed<bool> {
    cursor.skip()?;
    let start = cursor.position();
    let mut depth = 0;
    while cursor.eat("{")? {
        depth += 1;
    }
    if depth == 0 || !cursor.eat("...")? {
        cursor.rewind(start);
        return Ok(false);
    }
    for _ in 0..depth {
        cursor.expect("}")?;
    }
    Ok(true)
}

struct Reader<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    element: XlaType,
    /// The bytes; `None` for element types without bytes here.
    bytes: Option<Vec<u8>>,
}

impl Reader<'_, '_> {
    /// Nested braces around no elements; every size is accepted.
    fn empty(&mut self, rank: usize) -> Parsed<()> {
        let mut open = 0usize;
        loop {
            if self.cursor.eat("{")? {
                open += 1;
                if rank < open {
                    return Err(self.cursor.wanted("no more braces than dimensions"));
                }
            } else if 0 < open && self.cursor.eat("}")? {
                open -= 1;
            } else if open == 0 || !self.cursor.eat(",")? {
                break;
            }
            if open == 0 {
                return Ok(());
            }
        }
        Err(self.cursor.wanted("braces around no elements"))
    }

    /// One level of braces for each dimension, each with as many parts as the extent.
    fn elements(&mut self, shape: &[u64], depth: usize) -> Parsed<()> {
        let Some((&n, rest)) = shape.split_first() else {
            return self.element();
        };
        if MAX_DEPTH < depth {
            let mut error = self.cursor.wanted("a literal that nests less deeply");
            error.code = codes::HLO_TOO_DEEP.into();
            return Err(error);
        }
        self.cursor.expect("{")?;
        let start = self.cursor.position();
        for i in 0..n {
            if 0 < i && !self.cursor.eat(",")? {
                let message = format!("found {i} elements, wanted {n}");
                let place = self.cursor.span_from(start);
                return Err(HloError::new(codes::HLO_LITERAL, message, place));
            }
            self.elements(rest, depth + 1)?;
        }
        if self.cursor.eat("}")? {
            return Ok(());
        }
        let message = format!("found more than {n} elements, wanted {n}");
        let place = self.cursor.span_from(start);
        Err(HloError::new(codes::HLO_LITERAL, message, place))
    }

    fn element(&mut self) -> Parsed<()> {
        self.cursor.skip()?;
        let start = self.cursor.position();
        if matches!(self.element, XlaType::C64 | XlaType::C128) {
            return self.complex(start);
        }
        let text = self.number(start)?;
        let element = self.element;
        let bad = |cursor: &Cursor<'_>| {
            let message = format!("found `{text}`, wanted an element of {element}");
            HloError::new(codes::HLO_LITERAL, message, cursor.span_from(start))
        };
        let bytes = match element {
            XlaType::Pred => match text.as_str() {
                "true" => Some(vec![1]),
                "false" => Some(vec![0]),
                number => number.parse::<i64>().ok().map(|n| vec![u8::from(n != 0)]),
            },
            _ if element.name().starts_with('s') => integer(&text, element, true),
            _ if element.name().starts_with('u') => integer(&text, element, false),
            _ => float(&text, element),
        };
        let bytes = bytes.ok_or_else(|| bad(self.cursor))?;
        if bytes.is_empty() {
            self.bytes = None;
        }
        if let Some(all) = &mut self.bytes {
            all.extend(bytes);
        }
        Ok(())
    }

    /// `(1, 2)`, or a real number.
    fn complex(&mut self, start: usize) -> Parsed<()> {
        let part = if self.element == XlaType::C64 {
            XlaType::F32
        } else {
            XlaType::F64
        };
        let pair = self.cursor.eat("(")?;
        let real = self.number(start)?;
        let mut imaginary = "0".to_owned();
        if pair {
            self.cursor.expect(",")?;
            imaginary = self.number(start)?;
            self.cursor.expect(")")?;
        }
        for text in [real, imaginary] {
            let bytes = float(&text, part).ok_or_else(|| {
                let message = format!("found `{text}`, wanted a part of {}", self.element);
                HloError::new(codes::HLO_LITERAL, message, self.cursor.span_from(start))
            })?;
            if let Some(all) = &mut self.bytes {
                all.extend(bytes);
            }
        }
        Ok(())
    }

    /// The text of one number or word.
    fn number(&mut self, start: usize) -> Parsed<String> {
        let text = self.cursor.piece()?.to_owned();
        let word = text.trim_start_matches('-');
        let nan = word.strip_prefix("nan").is_some();
        let known = nan || matches!(word, "inf" | "true" | "false") || word.parse::<f64>().is_ok();
        let letters = word.starts_with(|c: char| c.is_ascii_digit() || c == '.');
        if known && (letters || nan || matches!(word, "inf" | "true" | "false")) {
            return Ok(text);
        }
        let message = format!("found `{text}`, wanted a number");
        let place = self.cursor.span_from(start);
        Err(HloError::new(codes::HLO_LITERAL, message, place))
    }
}

fn integer(text: &str, element: XlaType, signed: bool) -> Option<Vec<u8>> {
    let bits = element.bits();
    let n: i128 = match text {
        "true" => 1,
        "false" => 0,
        _ => text.parse().ok()?,
    };
    let (low, high) = if signed {
        (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
    } else {
        (0, (1i128 << bits) - 1)
    };
    if n < low || high < n {
        return None;
    }
    let width = bits.div_ceil(8) as usize;
    Some(n.to_le_bytes()[..width].to_vec())
}

/// The bytes of a float; empty for types without bytes here.
fn float(text: &str, element: XlaType) -> Option<Vec<u8>> {
    let x: f64 = if text.trim_start_matches('-').starts_with("nan") {
        let nan = f64::NAN;
        if text.starts_with('-') { -nan } else { nan }
    } else {
        text.parse().ok()?
    };
    let fits = |limit: f64| !x.is_finite() || x.abs() <= limit;
    Some(match element {
        XlaType::F64 => x.to_le_bytes().to_vec(),
        // The decimal text of a single must be read as one; double rounding may be off by a bit.
        XlaType::F32 => single(text, x)
            .filter(|y| y.is_finite() || !x.is_finite())?
            .to_le_bytes()
            .to_vec(),
        XlaType::F16 if fits(65519.99) => f16_bits(x).to_le_bytes().to_vec(),
        XlaType::Bf16 if fits(3.396e38) => bf16_bits(x).to_le_bytes().to_vec(),
        XlaType::F16 | XlaType::Bf16 => return None,
        _ => match dtype(element) {
            Some(DType::Mini(small)) => vec![mini(x, small)?],
            _ => Vec::new(),
        },
    })
}

/// The bits of a small float; `None` if it cannot represent the number.
fn mini(x: f64, small: MiniFloat) -> Option<u8> {
    let bits = small.encode(x);
    let back = small.decode(bits);
    let kept = if x.is_nan() {
        back.is_nan()
    } else {
        back.is_finite() == x.is_finite()
    };
    kept.then_some(bits)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "NaN and infinity are the same in both"
)]
fn single(text: &str, x: f64) -> Option<f32> {
    if x.is_nan() {
        return Some(x as f32);
    }
    text.parse().ok()
}
