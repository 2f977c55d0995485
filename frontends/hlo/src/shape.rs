//! Shapes inside a module's text: where they start, and what is wrong with them in its words.

use crate::cursor::{Cursor, Step};
use crate::error::{HloError, span};
use optc_layout::notation::{TextError, TextPart};
use optc_layout::{XlaShape, XlaType};

/// Whether a shape starts here: a type's name alone may be a name.
pub(crate) fn starts_shape(cursor: &mut Cursor<'_>) -> Step<bool> {
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

/// Whether a word is the name of an element type.
pub(crate) fn is_type(word: &str) -> bool {
    XlaType::from_name(word).is_some() || matches!(word, "token" | "opaque")
}

/// Reads one shape.
pub(crate) fn shape(cursor: &mut Cursor<'_>) -> Step<XlaShape> {
    let read = XlaShape::parse_prefix(cursor.text(), cursor.position());
    let (shape, end) = read.map_err(refused)?;
    cursor.rewind(end);
    Ok(shape)
}

fn refused(error: TextError) -> HloError {
    let len = error.found.trim_matches('`').len().max(1);
    let place = span(error.offset, error.offset + len);
    let code = match error.part {
        TextPart::Type => "hlo-shape",
        TextPart::Layout => "hlo-layout",
        TextPart::Depth => "hlo-too-deep",
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
