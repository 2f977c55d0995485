//! A position in XLA's text, which consists of tokens, white space and comments.

use crate::error::LayoutError;

/// The reason why reading stops.
#[derive(Debug)]
pub(crate) enum Mistake {
    /// Other text was wanted at this byte. A flag states whether the byte is inside a layout.
    Syntax {
        offset: usize,
        wanted: String,
        in_layout: bool,
    },
    /// Shapes nest too deeply at this byte.
    Depth { offset: usize, wanted: String },
    /// The text of the layout that begins at this byte can be read, but a rule of layouts refuses it.
    Layout {
        offset: usize,
        error: Box<LayoutError>,
    },
}

impl Mistake {
    /// The mistake, marked as inside a layout.
    pub(crate) fn in_layout(self) -> Mistake {
        match self {
            Mistake::Syntax { offset, wanted, .. } => Mistake::Syntax {
                offset,
                wanted,
                in_layout: true,
            },
            other => other,
        }
    }
}

pub(crate) type Parsed<T> = Result<T, Mistake>;

/// Reads a text from some byte on.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Cursor<'a> {
    /// Begins at byte `at`, which must be the first byte of a character.
    pub(crate) fn new(text: &'a str, at: usize) -> Self {
        Self { text, at }
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    pub(crate) fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    fn byte(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Skips white space and comments.
    pub(crate) fn skip(&mut self) -> Parsed<()> {
        loop {
            match self.byte() {
                Some(c) if c.is_ascii_whitespace() => self.at += 1,
                Some(b'/') => {
                    let rest = &self.text[self.at..];
                    if let Some(comment) = rest.strip_prefix("//") {
                        let len = comment.find('\n').map_or(comment.len(), |len| len + 1);
                        self.at += 2 + len;
                    } else if let Some(comment) = rest.strip_prefix("/*") {
                        let Some(len) = comment.find("*/") else {
                            return Err(self.wanted("a comment that ends with `*/`"));
                        };
                        self.at += len + 4;
                    } else {
                        return Ok(());
                    }
                }
                _ => return Ok(()),
            }
        }
    }

    /// The next byte after white space and comments.
    pub(crate) fn peek(&mut self) -> Parsed<Option<u8>> {
        self.skip()?;
        Ok(self.byte())
    }

    pub(crate) fn eat(&mut self, wanted: u8) -> Parsed<bool> {
        let found = self.peek()? == Some(wanted);
        self.at += usize::from(found);
        Ok(found)
    }

    /// Consumes this ASCII text if it comes next.
    pub(crate) fn eat_text(&mut self, wanted: &str) -> Parsed<bool> {
        self.skip()?;
        let found = self.text[self.at..].starts_with(wanted);
        self.at += if found { wanted.len() } else { 0 };
        Ok(found)
    }

    pub(crate) fn expect(&mut self, wanted: u8) -> Parsed<()> {
        if self.eat(wanted)? {
            return Ok(());
        }
        Err(self.wanted(&format!("`{}`", char::from(wanted))))
    }

    /// Items with commas between them, up to the closing byte.
    pub(crate) fn list<T>(
        &mut self,
        close: u8,
        mut item: impl FnMut(&mut Self) -> Parsed<T>,
    ) -> Parsed<Vec<T>> {
        let mut items = Vec::new();
        if self.eat(close)? {
            return Ok(items);
        }
        loop {
            items.push(item(self)?);
            if !self.eat(b',')? {
                self.expect(close)?;
                return Ok(items);
            }
        }
    }

    /// A word; empty if there is none.
    pub(crate) fn word(&mut self) -> Parsed<&'a str> {
        self.skip()?;
        let start = self.at;
        let inside = |c: u8| c.is_ascii_alphanumeric() || c == b'_';
        while self.byte().is_some_and(inside) {
            self.at += 1;
        }
        Ok(&self.text[start..self.at])
    }

    /// A number below 2^63 without a sign; `wanted` is the message if there is none.
    pub(crate) fn number(&mut self, wanted: &str) -> Parsed<u64> {
        self.skip()?;
        let start = self.at;
        let mut value = Some(0u64);
        while let Some(digit) = self.byte().filter(u8::is_ascii_digit) {
            let tens = value.and_then(|value| value.checked_mul(10));
            value = tens.and_then(|tens| tens.checked_add(u64::from(digit - b'0')));
            self.at += 1;
        }
        let fits = value.filter(|&value| start < self.at && i64::try_from(value).is_ok());
        let Some(value) = fits else {
            self.at = start;
            return Err(self.wanted(wanted));
        };
        let inside = |c: u8| c.is_ascii_alphabetic() || c == b'.' || c == b'_';
        if self.byte().is_some_and(inside) {
            return Err(self.wanted("the end of the number"));
        }
        Ok(value)
    }

    /// A mistake here.
    pub(crate) fn wanted(&self, wanted: &str) -> Mistake {
        wanted_at(self.at, wanted)
    }
}

/// A mistake at this byte.
pub(crate) fn wanted_at(offset: usize, wanted: &str) -> Mistake {
    Mistake::Syntax {
        offset,
        wanted: wanted.to_owned(),
        in_layout: false,
    }
}
