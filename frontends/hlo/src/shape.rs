//! Shapes inside a module's text: finds their starts, and reports errors in the terms of modules.

use crate::codes;
use crate::cursor::{Cursor, Parsed};
use crate::error::{HloError, span};
use indexmap::IndexMap;
use optc_layout::notation::{TextError, TextPart};
use optc_layout::{XlaShape, XlaType};
use rustc_hash::FxBuildHasher;
use std::sync::{Arc, LazyLock};

/// The shapes of a module. Each spelling is parsed once and shared.
#[derive(Default)]
pub(crate) struct Shapes<'a> {
    known: IndexMap<&'a str, Arc<XlaShape>, FxBuildHasher>,
}

enum Look<'a> {
    Known(Arc<XlaShape>),
    Spelled(Option<&'a str>),
}

impl<'a> Shapes<'a> {
    /// The shape of an instruction that has none yet.
    pub(crate) fn token(&self) -> Arc<XlaShape> {
        static TOKEN: LazyLock<Arc<XlaShape>> = LazyLock::new(|| Arc::new(XlaShape::Token));
        TOKEN.clone()
    }

    /// Reads one shape; arrays without a layout get the default one.
    pub(crate) fn read(&mut self, cursor: &mut Cursor<'a>) -> Parsed<Arc<XlaShape>> {
        let spelled = match self.look(cursor)? {
            Look::Known(shape) => return Ok(shape),
            Look::Spelled(spelled) => spelled,
        };
        self.read_new(cursor, spelled)
    }

    /// Reads a shape if one starts here.
    pub(crate) fn read_if_there(
        &mut self,
        cursor: &mut Cursor<'a>,
    ) -> Parsed<Option<Arc<XlaShape>>> {
        match cursor.peek()? {
            Some(c) if c == b'(' || c.is_ascii_alphabetic() => {}
            _ => return Ok(None),
        }
        let spelled = match self.look(cursor)? {
            Look::Known(shape) => return Ok(Some(shape)),
            Look::Spelled(spelled) => spelled,
        };
        if !starts_shape(cursor)? {
            return Ok(None);
        }
        self.read_new(cursor, spelled).map(Some)
    }

    /// A shape that was read before, which is consumed; or the text that it may have.
    fn look(&self, cursor: &mut Cursor<'a>) -> Parsed<Look<'a>> {
        cursor.skip()?;
        let start = cursor.position();
        let spelled = spelling(cursor.text(), start);
        if let Some(spelled) = spelled
            && let Some(known) = self.known.get(spelled)
        {
            cursor.rewind(start + spelled.len());
            return Ok(Look::Known(known.clone()));
        }
        Ok(Look::Spelled(spelled))
    }

    fn read_new(
        &mut self,
        cursor: &mut Cursor<'a>,
        spelled: Option<&'a str>,
    ) -> Parsed<Arc<XlaShape>> {
        let start = cursor.position();
        let mut read = shape(cursor)?;
        read.complete();
        let read = Arc::new(read);
        if let Some(spelled) = spelled.filter(|spelled| *spelled == cursor.since(start)) {
            self.known.insert(spelled, read.clone());
        }
        Ok(read)
    }
}

/// The text of the shape that starts here, by its brackets only. `None` if it has spaces or comments where XLA prints
/// none.
///
/// Equal texts are equal shapes at every place: the text after an array without a layout is examined here, and all
/// other shapes end with their last bracket.
fn spelling(text: &str, start: usize) -> Option<&str> {
    let rest = text.as_bytes().get(start..)?;
    let len = match rest.first()? {
        b'(' => tuple_len(rest)?,
        _ => array_len(rest)?,
    };
    text.get(start..start + len)
}

fn tuple_len(rest: &[u8]) -> Option<usize> {
    let mut depth = 0usize;
    let mut at = 0;
    loop {
        match rest.get(at)? {
            b'(' => depth += 1,
            b')' if depth == 1 => return Some(at + 1),
            b')' => depth -= 1,
            b'/' if rest.get(at + 1) == Some(&b'*') => {
                let comment = rest.get(at + 2..)?;
                at += 3 + comment.windows(2).position(|two| two == b"*/")?;
            }
            b'/' | b'\n' => return None,
            _ => {}
        }
        at += 1;
    }
}

fn array_len(rest: &[u8]) -> Option<usize> {
    let run = |from: usize, within: fn(&u8) -> bool| {
        let rest = rest.get(from..)?;
        Some(from + rest.iter().position(|c| !within(c))?)
    };
    let open = run(0, u8::is_ascii_alphanumeric)?;
    if rest[open] != b'[' {
        return None;
    }
    let close = run(open + 1, |&c| c.is_ascii_digit() || b",<=?".contains(&c))?;
    if rest[close] != b']' {
        return None;
    }
    match rest.get(close + 1..)? {
        [b'{', c, ..] if c.is_ascii_digit() || matches!(c, b':' | b'-') => {
            let end = run(close + 1, |&c| !matches!(c, b'}' | b'/' | b'\n'))?;
            (rest[end] == b'}').then_some(end + 1)
        }
        [b' ', c, ..] if !c.is_ascii_whitespace() && !matches!(c, b'{' | b'/') => Some(close + 1),
        [b',' | b')' | b'}', ..] => Some(close + 1),
        _ => None,
    }
}

/// Returns whether a shape starts here. The name of a type alone may be a name.
fn starts_shape(cursor: &mut Cursor<'_>) -> Parsed<bool> {
    if cursor.peek()? == Some(b'(') {
        return Ok(true);
    }
    let mut look = cursor.clone();
    let Some(word) = look.word() else {
        return Ok(false);
    };
    let opening = if word == "b" { b'(' } else { b'[' };
    Ok((word == "b" || is_type(word)) && look.peek()? == Some(opening))
}

/// Returns whether a word is the name of an element type.
pub(crate) fn is_type(word: &str) -> bool {
    XlaType::from_name(word).is_some() || matches!(word, "token" | "opaque")
}

/// Reads one shape.
pub(crate) fn shape(cursor: &mut Cursor<'_>) -> Parsed<XlaShape> {
    let read = XlaShape::parse_prefix(cursor.text(), cursor.position());
    let (shape, end) = read.map_err(refused)?;
    cursor.rewind(end);
    Ok(shape)
}

fn refused(error: TextError) -> HloError {
    let len = error.found.trim_matches('`').len().max(1);
    let place = span(error.offset, error.offset + len);
    let code = match error.part {
        TextPart::Type => codes::HLO_SHAPE,
        TextPart::Layout => codes::HLO_LAYOUT,
        TextPart::Depth => codes::HLO_TOO_DEEP,
    };
    let message = match &error.layout {
        Some(layout) => format!("the layout does not fit: {layout}"),
        None => format!("found {}, wanted {}", error.found, error.wanted),
    };
    let refused = HloError::new(code, message, place);
    match error.hint {
        Some(hint) => refused.hint(hint),
        None => refused,
    }
}
