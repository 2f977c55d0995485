//! Reads the text of an encoding, which is a list of `key = value` pairs.

use super::error::IndexError;

/// The value of one key.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Item {
    Int(i64),
    Str(String),
    List(Vec<Item>),
}

/// The deepest nesting of lists.
const MAX_DEPTH: usize = 4;

/// The pairs of `block = "2W2H", order = [1, 0]`.
pub(super) fn pairs(text: &str) -> Result<Vec<(String, Item)>, IndexError> {
    let mut reader = Reader {
        rest: text.trim(),
        all: text,
    };
    let mut out = Vec::new();
    while !reader.rest.is_empty() {
        if !out.is_empty() {
            reader.expect(',')?;
        }
        let key = reader.word()?;
        reader.expect('=')?;
        out.push((key, reader.item(0)?));
        reader.space();
    }
    Ok(out)
}

struct Reader<'a> {
    rest: &'a str,
    all: &'a str,
}

impl Reader<'_> {
    fn error(&self, wanted: &str) -> IndexError {
        let at = self.all.len() - self.rest.len();
        IndexError::Text {
            layout: self.all.to_owned(),
            at,
            wanted: wanted.to_owned(),
        }
    }

    fn space(&mut self) {
        self.rest = self.rest.trim_start();
    }

    fn expect(&mut self, wanted: char) -> Result<(), IndexError> {
        self.space();
        match self.rest.strip_prefix(wanted) {
            Some(rest) => {
                self.rest = rest;
                Ok(())
            }
            None => Err(self.error(&format!("`{wanted}`"))),
        }
    }

    fn take(&mut self, belongs: impl Fn(char) -> bool) -> String {
        self.space();
        let end = self.rest.find(|c| !belongs(c)).unwrap_or(self.rest.len());
        let (word, rest) = self.rest.split_at(end);
        self.rest = rest;
        word.to_owned()
    }

    fn word(&mut self) -> Result<String, IndexError> {
        let word = self.take(|c| c.is_ascii_alphanumeric() || c == '_');
        if word.is_empty() {
            Err(self.error("a key"))
        } else {
            Ok(word)
        }
    }

    fn item(&mut self, depth: usize) -> Result<Item, IndexError> {
        self.space();
        match self.rest.chars().next() {
            Some('"') => self.string(),
            Some('[') if depth < MAX_DEPTH => self.list(depth),
            _ => {
                let word = self.take(|c| c.is_ascii_digit() || c == '-');
                word.parse()
                    .map(Item::Int)
                    .map_err(|_| self.error("a number, a string or a list"))
            }
        }
    }

    fn string(&mut self) -> Result<Item, IndexError> {
        let mut out = String::new();
        let mut chars = self.rest.char_indices().skip(1);
        while let Some((i, c)) = chars.next() {
            match c {
                '"' => {
                    self.rest = &self.rest[i + 1..];
                    return Ok(Item::Str(out));
                }
                '\\' => out.extend(chars.next().map(|(_, c)| c)),
                _ => out.push(c),
            }
        }
        Err(self.error("a closing quote"))
    }

    fn list(&mut self, depth: usize) -> Result<Item, IndexError> {
        self.expect('[')?;
        let mut out = Vec::new();
        loop {
            self.space();
            if let Some(rest) = self.rest.strip_prefix(']') {
                self.rest = rest;
                return Ok(Item::List(out));
            }
            if !out.is_empty() {
                self.expect(',')?;
            }
            out.push(self.item(depth + 1)?);
        }
    }
}
