//! Lexing: characters, words, numbers and strings; white space and comments are skipped.
//!
//! There is no token list: the grammar decides at each point which tokens may follow.

use super::number::NumberText;
use super::parser::{Fail, PResult, Parser};
use crate::codes;
use crate::span::Span;
use std::borrow::Cow;

/// The largest nesting depth of brackets, types and locations.
const MAX_DEPTH: u32 = 96;

/// The number of characters of a word that a message shows.
const SHOWN: usize = 24;

pub(super) fn is_word_start(b: u8) -> bool {
    b.is_ascii_alphabetic() || b == b'_'
}

pub(super) fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.')
}

fn is_value_punct(b: u8) -> bool {
    matches!(b, b'_' | b'$' | b'.' | b'-')
}

/// The length of a name after its sigil (value, block or symbol): digits, or letters, digits and `$._-`.
pub(super) fn value_name_len(bytes: &[u8]) -> usize {
    match bytes.first() {
        Some(b) if b.is_ascii_digit() => bytes.iter().take_while(|b| b.is_ascii_digit()).count(),
        Some(&b) if b.is_ascii_alphabetic() || is_value_punct(b) => bytes
            .iter()
            .take_while(|&&b| b.is_ascii_alphanumeric() || is_value_punct(b))
            .count(),
        _ => 0,
    }
}

impl<'s> Parser<'s> {
    /// The byte at the cursor.
    pub(super) fn byte(&self) -> Option<u8> {
        self.src.as_bytes().get(self.pos).copied()
    }

    /// The bytes from the cursor on.
    pub(super) fn rest(&self) -> &'s [u8] {
        self.src.as_bytes().get(self.pos..).unwrap_or_default()
    }

    /// Moves over white space and comments.
    pub(super) fn skip(&mut self) {
        let bytes = self.src.as_bytes();
        while let Some(&b) = bytes.get(self.pos) {
            if b.is_ascii_whitespace() {
                self.pos += 1;
            } else if b == b'/' && bytes.get(self.pos + 1) == Some(&b'/') {
                self.pos = line_end(bytes, self.pos);
            } else {
                break;
            }
        }
    }

    /// The next byte after white space.
    pub(super) fn peek(&mut self) -> Option<u8> {
        self.skip();
        self.byte()
    }

    /// Returns whether `text` follows.
    pub(super) fn at(&mut self, text: &str) -> bool {
        self.skip();
        self.rest().starts_with(text.as_bytes())
    }

    /// Consumes `text` if it follows.
    pub(super) fn eat(&mut self, text: &str) -> bool {
        let found = self.at(text);
        if found {
            self.pos += text.len();
        }
        found
    }

    /// Consumes `word` if it follows as a whole word.
    pub(super) fn eat_word(&mut self, word: &str) -> bool {
        let found = self.at_word(word);
        if found {
            self.pos += word.len();
        }
        found
    }

    /// Returns whether `word` follows as a whole word.
    pub(super) fn at_word(&mut self, word: &str) -> bool {
        self.at(word) && !self.rest().get(word.len()).is_some_and(|&b| is_word(b))
    }

    /// Consumes `text`, or fails with an error about what was found instead.
    pub(super) fn expect(&mut self, text: &str, place: &str) -> PResult<()> {
        if self.eat(text) {
            Ok(())
        } else {
            Err(self.wanted(&format!("`{text}`"), place))
        }
    }

    /// Consumes a word: a letter or `_`, then letters, digits and `_$.`.
    pub(super) fn word(&mut self) -> Option<&'s str> {
        self.skip();
        self.word_here()
    }

    /// Consumes a word that starts exactly at the cursor.
    pub(super) fn word_here(&mut self) -> Option<&'s str> {
        let rest = self.rest();
        if !rest.first().is_some_and(|&b| is_word_start(b)) {
            return None;
        }
        let n = rest.iter().take_while(|&&b| is_word(b)).count();
        Some(self.take(n))
    }

    /// Consumes the name of a value, block or symbol after its sigil.
    pub(super) fn value_name(&mut self, place: &str) -> PResult<&'s str> {
        match value_name_len(self.rest()) {
            0 => Err(self.wanted("a name", place)),
            n => Ok(self.take(n)),
        }
    }

    /// Consumes `n` bytes that are known to be ASCII.
    pub(super) fn take(&mut self, n: usize) -> &'s str {
        let start = self.pos;
        self.pos += n;
        self.src.get(start..self.pos).unwrap_or_default()
    }

    /// Consumes digits, if there are any.
    pub(super) fn digits(&mut self) -> &'s str {
        let n = self
            .rest()
            .iter()
            .take_while(|b| b.is_ascii_digit())
            .count();
        self.take(n)
    }

    /// Consumes a number: decimal, `0x…`, with a fraction or an exponent.
    pub(super) fn number(&mut self) -> Option<NumberText<'s>> {
        self.skip();
        let rest = self.rest();
        let sign = usize::from(matches!(rest.first(), Some(b'-')));
        let body = rest.get(sign..)?;
        if !body.first()?.is_ascii_digit() {
            return None;
        }
        let hex_digits = hex_digits(body);
        if hex_digits > 0 {
            return Some(NumberText {
                text: self.take(sign + 2 + hex_digits),
                float: false,
                hex: true,
            });
        }
        let (n, float) = decimal_len(body);
        Some(NumberText {
            text: self.take(sign + n),
            float,
            hex: false,
        })
    }

    /// Consumes a string in quotes and returns its bytes, with escapes resolved.
    pub(super) fn string_bytes(&mut self) -> PResult<Cow<'s, [u8]>> {
        let start = self.pos;
        let bytes = self.src.as_bytes();
        let mut end = start + 1;
        let mut plain = true;
        loop {
            match bytes.get(end) {
                Some(b'"') => break,
                Some(b'\\') => {
                    plain = false;
                    end += 2;
                }
                Some(b'\n') | None => {
                    let span = self.span(start, end.min(bytes.len()));
                    return Err(Fail::at(
                        codes::STRING_UNTERMINATED,
                        "the string is not closed",
                        span,
                        "opened here",
                    ));
                }
                Some(_) => end += 1,
            }
        }
        self.pos = end + 1;
        let inside = bytes.get(start + 1..end).unwrap_or_default();
        if plain {
            Ok(Cow::Borrowed(inside))
        } else {
            self.unescape(inside, start + 1).map(Cow::Owned)
        }
    }

    fn unescape(&self, text: &[u8], at: usize) -> PResult<Vec<u8>> {
        let mut out = Vec::with_capacity(text.len());
        let mut i = 0;
        while let Some(&b) = text.get(i) {
            if b != b'\\' {
                out.push(b);
                i += 1;
                continue;
            }
            let next = text.get(i + 1).copied();
            let pair = next
                .and_then(hex_value)
                .zip(text.get(i + 2).copied().and_then(hex_value));
            let (byte, len) = match (next, pair) {
                (Some(b @ (b'"' | b'\\')), _) => (b, 2),
                (Some(b'n'), _) => (b'\n', 2),
                (Some(b't'), _) => (b'\t', 2),
                (_, Some((high, low))) => (high * 16 + low, 3),
                _ => {
                    let span = self.span(at + i, at + i + 2);
                    let message = "unknown escape in a string";
                    return Err(Fail::at(
                        codes::STRING_ESCAPE,
                        message,
                        span,
                        "wanted \\\\, \\\", \\n, \\t or two hex digits",
                    ));
                }
            };
            out.push(byte);
            i += len;
        }
        Ok(out)
    }

    /// Consumes a string in quotes that is valid UTF-8.
    pub(super) fn string(&mut self, place: &str) -> PResult<Cow<'s, str>> {
        if self.peek() != Some(b'"') {
            return Err(self.wanted("a string", place));
        }
        let start = self.pos;
        let text = match self.string_bytes()? {
            Cow::Borrowed(b) => std::str::from_utf8(b).ok().map(Cow::Borrowed),
            Cow::Owned(b) => String::from_utf8(b).ok().map(Cow::Owned),
        };
        text.ok_or_else(|| {
            let span = self.span(start, self.pos);
            Fail::at(
                codes::STRING_NOT_UTF8,
                "the string is not valid UTF-8",
                span,
                "found other bytes",
            )
        })
    }

    /// Consumes `name` or `"name"` after an `@`.
    pub(super) fn symbol_name(&mut self) -> PResult<Cow<'s, str>> {
        if self.byte() == Some(b'"') {
            return self.string("after `@`");
        }
        self.value_name("after `@`").map(Cow::Borrowed)
    }

    /// The span from `start` to `end`.
    #[expect(clippy::unused_self, reason = "reads as a question to the parser")]
    pub(super) fn span(&self, start: usize, end: usize) -> Span {
        let clamp = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        Span {
            start: clamp(start),
            end: clamp(end.max(start)),
        }
    }

    /// The next word, number, string or sign in the form that a message shows, and its length.
    fn found(&mut self) -> (String, usize) {
        self.skip();
        let rest = self.rest();
        let Some(&first) = rest.first() else {
            return ("the end of the text".to_owned(), 0);
        };
        let run = |f: fn(u8) -> bool| rest.iter().skip(1).take_while(|&&b| f(b)).count() + 1;
        let len = match first {
            b'%' | b'#' | b'!' | b'@' | b'^' => run(is_word),
            b'"' => run(|b| b != b'"' && b != b'\n') + 1,
            b if is_word(b) => run(is_word),
            b'-' if rest.get(1) == Some(&b'>') => 2,
            _ => 1,
        };
        let tail = self.src.get(self.pos..).unwrap_or_default();
        let shown: String = tail
            .chars()
            .take(len.min(SHOWN))
            .take_while(|&c| c != '\n')
            .collect();
        let bytes = shown.len().max(1);
        let dots = if len > SHOWN { "…" } else { "" };
        (
            format!(
                "`{}{dots}`",
                shown.escape_debug().to_string().replace("\\\"", "\"")
            ),
            bytes,
        )
    }

    /// The error that `what` was expected at the cursor and something else was found.
    pub(super) fn wanted(&mut self, what: &str, place: &str) -> Fail {
        let (found, len) = self.found();
        let space = if place.is_empty() { "" } else { " " };
        let message = format!("found {found}, wanted {what}{space}{place}");
        let span = match len {
            0 => {
                let end = self.src.trim_end().len();
                self.span(end, end)
            }
            _ => self.span(self.pos, (self.pos + len).min(self.src.len())),
        };
        Fail::at(codes::SYNTAX, message, span, format!("wanted {what}"))
    }

    /// Runs `f` one nesting level deeper, or fails if the text nests too deep.
    pub(super) fn deeper<T>(&mut self, f: impl FnOnce(&mut Self) -> PResult<T>) -> PResult<T> {
        if self.depth >= MAX_DEPTH {
            let span = self.span(self.pos, self.pos + 1);
            let message = format!("brackets and aliases nest deeper than {MAX_DEPTH}");
            return Err(Fail::at(codes::NESTING_TOO_DEEP, message, span, "here"));
        }
        self.depth += 1;
        let out = f(self);
        self.depth -= 1;
        out
    }

    /// Skips one bracketed group, including strings and nested groups.
    pub(super) fn group(&mut self) -> PResult<()> {
        let start = self.pos;
        let mut stack: Vec<u8> = Vec::new();
        while let Some(b) = self.byte() {
            match b {
                b'"' => {
                    self.string_bytes()?;
                    continue;
                }
                b'(' => stack.push(b')'),
                b'[' => stack.push(b']'),
                b'{' => stack.push(b'}'),
                b'<' => stack.push(b'>'),
                b'-' if self.rest().starts_with(b"->") => self.pos += 1,
                b'>' if stack.last() != Some(&b'>') => {}
                b')' | b']' | b'}' | b'>' if stack.pop() != Some(b) => {
                    return Err(self.wanted("a matching bracket", ""));
                }
                b'/' if self.rest().starts_with(b"//") => {
                    self.skip();
                    continue;
                }
                _ => {}
            }
            self.pos += 1;
            if stack.is_empty() {
                return Ok(());
            }
        }
        let span = self.span(start, start + 1);
        Err(Fail::at(
            codes::SYNTAX,
            "found the end of the text, wanted a closing bracket",
            span,
            "opened here",
        ))
    }

    /// The source from `start` to the cursor. Runs of white space become one space, comments are dropped, and aliases
    /// are replaced by their values.
    pub(super) fn raw_since(&mut self, start: usize) -> PResult<String> {
        let end = self.pos;
        let mut out = String::new();
        self.pos = start;
        while self.pos < end {
            let Some(b) = self.byte() else { break };
            let from = self.pos;
            if b == b'"' {
                self.string_bytes()?;
            } else if b.is_ascii_whitespace() || self.rest().starts_with(b"//") {
                self.skip();
                out.push(' ');
                continue;
            } else if matches!(b, b'#' | b'!') {
                let n = 1 + self
                    .rest()
                    .iter()
                    .skip(1)
                    .take_while(|&&b| is_word(b))
                    .count();
                let name = self.take(n);
                if let Some(text) = self.alias_text(name)? {
                    self.spend(text.len() as u64)?;
                    out.push_str(&text);
                    continue;
                }
            } else {
                let tail = self.src.get(self.pos..).unwrap_or_default();
                self.pos += tail.chars().next().map_or(1, char::len_utf8);
            }
            out.push_str(self.src.get(from..self.pos).unwrap_or_default());
        }
        self.pos = end;
        let trimmed = out.trim();
        Ok(if trimmed.len() == out.len() {
            out
        } else {
            trimmed.to_owned()
        })
    }

    /// Moves to the start of the next line that looks like an operation, a function or a brace.
    pub(super) fn recover(&mut self, op_start: usize) {
        self.pos = self.pos.max(op_start);
        let bytes = self.src.as_bytes();
        self.skip();
        if self.pos > op_start && self.starts_line() && self.starts_item() {
            return;
        }
        loop {
            self.pos = line_end(bytes, self.pos);
            if self.pos >= bytes.len() {
                return;
            }
            self.skip();
            if self.byte().is_none() || self.starts_item() {
                return;
            }
        }
    }

    /// Returns whether only white space precedes the cursor on its line.
    fn starts_line(&self) -> bool {
        let before = self.src.as_bytes().get(..self.pos).unwrap_or_default();
        let mut blank = before.iter().rev().take_while(|&&b| b != b'\n');
        blank.all(|b| b.is_ascii_whitespace())
    }

    /// Returns whether an operation, a function or a closing brace may start at the cursor.
    fn starts_item(&mut self) -> bool {
        const WORDS: [&str; 4] = ["return", "func.return", "func.func", "module"];
        matches!(self.byte(), Some(b'%' | b'"' | b'}' | b'#' | b'!'))
            || WORDS.iter().any(|word| self.at_word(word))
    }
}

/// The position of the line break at or after `from`, or the end.
pub(super) fn line_end(bytes: &[u8], from: usize) -> usize {
    let rest = bytes.get(from..).unwrap_or_default();
    rest.iter()
        .position(|&b| b == b'\n')
        .map_or(bytes.len(), |n| from + n)
}

pub(super) fn hex_value(b: u8) -> Option<u8> {
    char::from(b)
        .to_digit(16)
        .and_then(|d| u8::try_from(d).ok())
}

/// The number of hex digits after `0x`.
fn hex_digits(body: &[u8]) -> usize {
    match body.strip_prefix(b"0x") {
        Some(digits) => digits.iter().take_while(|b| b.is_ascii_hexdigit()).count(),
        None => 0,
    }
}

/// The length of an unsigned decimal number, and whether it is a float.
fn decimal_len(body: &[u8]) -> (usize, bool) {
    let digits = |from: usize| {
        body.iter()
            .skip(from)
            .take_while(|b| b.is_ascii_digit())
            .count()
    };
    let mut n = digits(0);
    let mut float = false;
    if body.get(n) == Some(&b'.') {
        float = true;
        n += 1 + digits(n + 1);
    }
    if matches!(body.get(n), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(body.get(n + 1), Some(b'+' | b'-')));
        let exponent = digits(n + 1 + sign);
        if exponent > 0 {
            float = true;
            n += 1 + sign + exponent;
        }
    }
    (n, float)
}
