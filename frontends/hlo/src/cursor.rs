//! A position in the text: reads tokens, comments and balanced pieces.

use crate::codes;
use crate::error::{HloError, span};
use optc_ir::Span;

/// The deepest nesting of brackets, tuples and operands.
pub(crate) const MAX_DEPTH: usize = 128;

/// Reads a text from its start to its end, once.
#[derive(Clone, Debug)]
pub(crate) struct Cursor<'a> {
    text: &'a str,
    at: usize,
}

pub(crate) type Parsed<T> = Result<T, HloError>;

fn starts_name(c: u8) -> bool {
    c.is_ascii_alphabetic() || c == b'_'
}

/// The kinds of each byte.
const KINDS: [u8; 256] = kinds();
const IN_NAME: u8 = 1;
/// The byte ends a run of characters in a value, or opens or closes something there.
const MARKS: u8 = 2;

const fn kinds() -> [u8; 256] {
    let mut kinds = [0; 256];
    let mut c = 0u8;
    while c < 128 {
        if c.is_ascii_alphanumeric() || matches!(c, b'_' | b'.' | b'-') {
            kinds[c as usize] |= IN_NAME;
        }
        let opens = matches!(c, b'"' | b'\'' | b'/' | b'{' | b'(' | b'[');
        if opens || matches!(c, b'}' | b')' | b']' | b',') || c.is_ascii_whitespace() {
            kinds[c as usize] |= MARKS;
        }
        c += 1;
    }
    kinds
}

fn is(c: u8, kind: u8) -> bool {
    KINDS[usize::from(c)] & kind != 0
}

impl<'a> Cursor<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    pub(crate) fn text(&self) -> &'a str {
        self.text
    }

    pub(crate) fn position(&self) -> usize {
        self.at
    }

    /// Continues at a byte that an earlier [`Cursor::position`] returned.
    pub(crate) fn rewind(&mut self, at: usize) {
        self.at = at;
    }

    fn bytes(&self) -> &'a [u8] {
        self.text.as_bytes()
    }

    #[inline]
    fn byte(&self, ahead: usize) -> Option<u8> {
        self.bytes().get(self.at + ahead).copied()
    }

    /// The text from `start` up to here.
    pub(crate) fn since(&self, start: usize) -> &'a str {
        self.text.get(start..self.at).unwrap_or("")
    }

    pub(crate) fn span_from(&self, start: usize) -> Span {
        span(start, self.at)
    }

    /// Skips white space and comments.
    #[inline]
    pub(crate) fn skip(&mut self) -> Parsed<()> {
        if self.byte(0) == Some(b' ') {
            self.at += 1;
        }
        match self.byte(0) {
            Some(c) if c.is_ascii_whitespace() || c == b'/' => self.skip_more(),
            _ => Ok(()),
        }
    }

    fn skip_more(&mut self) -> Parsed<()> {
        loop {
            match (self.byte(0), self.byte(1)) {
                (Some(c), _) if c.is_ascii_whitespace() => self.at += 1,
                (Some(b'/'), Some(b'/')) => {
                    let rest = &self.bytes()[self.at..];
                    self.at += rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
                }
                (Some(b'/'), Some(b'*')) => {
                    let rest = self.text.get(self.at + 2..).unwrap_or("");
                    let Some(end) = rest.find("*/") else {
                        let here = span(self.at, self.at + 2);
                        let message = "found a comment that is not closed, wanted `*/`";
                        return Err(HloError::new(codes::HLO_SYNTAX, message, here));
                    };
                    self.at += end + 4;
                }
                _ => return Ok(()),
            }
        }
    }

    /// The next byte after white space and comments.
    #[inline]
    pub(crate) fn peek(&mut self) -> Parsed<Option<u8>> {
        self.skip()?;
        Ok(self.byte(0))
    }

    pub(crate) fn at_end(&mut self) -> Parsed<bool> {
        Ok(self.peek()?.is_none())
    }

    /// Consumes this text if it comes next.
    #[inline]
    pub(crate) fn eat(&mut self, wanted: &str) -> Parsed<bool> {
        self.skip()?;
        let found = self.bytes()[self.at..].starts_with(wanted.as_bytes());
        if found {
            self.at += wanted.len();
        }
        Ok(found)
    }

    /// Consumes this word if it comes next as a whole word.
    pub(crate) fn eat_word(&mut self, wanted: &str) -> Parsed<bool> {
        let start = {
            self.skip()?;
            self.at
        };
        if self.word() == Some(wanted) {
            return Ok(true);
        }
        self.at = start;
        Ok(false)
    }

    #[inline]
    pub(crate) fn expect(&mut self, wanted: &str) -> Parsed<()> {
        if self.eat(wanted)? {
            return Ok(());
        }
        Err(self.wanted(&format!("`{wanted}`")))
    }

    /// An error here: the wanted and the found text.
    pub(crate) fn wanted(&mut self, what: &str) -> HloError {
        if let Err(error) = self.skip() {
            return error;
        }
        let start = self.at;
        let mut look = self.clone();
        let len = match look.word() {
            Some(word) => word.len(),
            None => self
                .text
                .get(start..)
                .and_then(|t| t.chars().next())
                .map_or(0, char::len_utf8),
        };
        let found = self.text.get(start..start + len).unwrap_or("");
        let found = if found.is_empty() {
            "the end of the text".to_owned()
        } else {
            format!("`{found}`")
        };
        let message = format!("found {found}, wanted {what}");
        HloError::new(codes::HLO_SYNTAX, message, span(start, start + len.max(1)))
    }

    /// A word at this byte: `[A-Za-z_][A-Za-z0-9_.-]*`.
    pub(crate) fn word(&mut self) -> Option<&'a str> {
        let start = self.at;
        if !self.byte(0).is_some_and(starts_name) {
            return None;
        }
        self.at = self.name_end(start);
        // `->` ends a word.
        if self.byte(0) == Some(b'>') && self.since(start).ends_with('-') {
            self.at -= 1;
        }
        Some(self.since(start))
    }

    /// The bytes of a kind from here on, which are consumed.
    pub(crate) fn take_while(&mut self, kind: impl Fn(u8) -> bool) -> &'a str {
        let start = self.at;
        while self.byte(0).is_some_and(&kind) {
            self.at += 1;
        }
        self.since(start)
    }

    /// `%name` or a bare name: its text without the percent sign, and a flag for the sign.
    pub(crate) fn name(&mut self) -> Parsed<Option<(&'a str, bool)>> {
        self.skip()?;
        let start = self.at;
        if self.byte(0) == Some(b'%') {
            self.at += 1;
            let from = self.at;
            self.at = self.name_end(from);
            if from < self.at {
                return Ok(Some((self.since(from), true)));
            }
            self.at = start;
            return Ok(None);
        }
        Ok(self.word().map(|w| (w, false)))
    }

    /// The end of a name whose characters begin at `start`.
    #[inline]
    fn name_end(&self, start: usize) -> usize {
        let rest = &self.bytes()[start..];
        start
            + rest
                .iter()
                .position(|&c| !is(c, IN_NAME))
                .unwrap_or(rest.len())
    }

    /// A decimal number with an optional sign.
    pub(crate) fn integer(&mut self) -> Parsed<i64> {
        self.skip()?;
        let start = self.at;
        if self.byte(0) == Some(b'-') {
            self.at += 1;
        }
        while self.byte(0).is_some_and(|c| c.is_ascii_digit()) {
            self.at += 1;
        }
        let text = self.since(start);
        match text.parse() {
            Ok(n) => Ok(n),
            Err(_) if text.len() > 1 => Err(HloError::new(
                codes::HLO_NUMBER,
                format!("found the number {text}, wanted one of 64 bits"),
                span(start, self.at),
            )),
            Err(_) => {
                self.at = start;
                Err(self.wanted("a number"))
            }
        }
    }

    /// A balanced piece that starts here with a bracket or a quote, or a run of other characters up to a comma, a
    /// closing bracket or white space at depth 0.
    pub(crate) fn piece(&mut self) -> Parsed<&'a str> {
        self.skip()?;
        let start = self.at;
        let mut open = Open::default();
        loop {
            let rest = &self.bytes()[self.at..];
            self.at += rest
                .iter()
                .position(|&c| is(c, MARKS))
                .unwrap_or(rest.len());
            let Some(c) = self.byte(0) else { break };
            match c {
                b'"' | b'\'' if c == b'"' || self.quote_closes() => self.string(c)?,
                b'/' if self.byte(1) == Some(b'*') && !open.is_empty() => self.skip()?,
                b'{' | b'(' | b'[' => {
                    open.push(c);
                    self.at += 1;
                }
                b'}' | b')' | b']' => {
                    let Some(last) = open.last() else { break };
                    if !pairs(last, c) {
                        return Err(self.wanted(&format!("`{}`", closing(last) as char)));
                    }
                    open.pop();
                    self.at += 1;
                    if open.is_empty() && !self.goes_on() {
                        break;
                    }
                }
                b',' if open.is_empty() => break,
                c if open.is_empty() && c.is_ascii_whitespace() => break,
                _ => self.at += 1,
            }
        }
        if let Some(last) = open.last() {
            return Err(self.wanted(&format!("`{}`", closing(last) as char)));
        }
        if start == self.at {
            return Err(self.wanted("a value"));
        }
        Ok(self.since(start))
    }

    /// Returns whether a value continues after a closing bracket: `[2,4]<=[4,2]T(1,0)`, `f32[2]{0}`.
    fn goes_on(&self) -> bool {
        matches!(self.byte(0), Some(b'<' | b'T' | b'[' | b'-' | b'{'))
    }

    /// Returns whether a single quote is closed on the same line.
    fn quote_closes(&self) -> bool {
        let rest = &self.bytes()[self.at + 1..];
        let line = rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
        rest[..line].contains(&b'\'')
    }

    /// A quoted string with escapes, here.
    pub(crate) fn string(&mut self, quote: u8) -> Parsed<()> {
        let start = self.at;
        self.at += 1;
        loop {
            let rest = &self.bytes()[self.at..];
            let ends = |&c: &u8| c == quote || c == b'\\';
            let Some(len) = rest.iter().position(ends) else {
                break;
            };
            self.at += len + 1;
            if rest[len] == quote {
                return Ok(());
            }
            self.at += usize::from(self.byte(0).is_some());
        }
        self.at = self.text.len();
        let message = "found a string that is not closed";
        Err(HloError::new(
            codes::HLO_SYNTAX,
            message,
            span(start, start + 1),
        ))
    }

    /// The rest of the line, which is consumed.
    pub(crate) fn line(&mut self) -> &'a str {
        let start = self.at;
        let rest = &self.bytes()[self.at..];
        self.at += rest.iter().position(|&c| c == b'\n').unwrap_or(rest.len());
        self.since(start)
    }
}

/// The open brackets, outermost first; a few of them need no allocation.
#[derive(Default)]
struct Open {
    depth: usize,
    few: [u8; 16],
    more: Vec<u8>,
}

impl Open {
    fn push(&mut self, bracket: u8) {
        match self.few.get_mut(self.depth) {
            Some(place) => *place = bracket,
            None => self.more.push(bracket),
        }
        self.depth += 1;
    }

    fn pop(&mut self) {
        self.more.pop();
        self.depth = self.depth.saturating_sub(1);
    }

    fn last(&self) -> Option<u8> {
        let inner = self.depth.checked_sub(1)?;
        self.few.get(inner).or(self.more.last()).copied()
    }

    fn is_empty(&self) -> bool {
        self.depth == 0
    }
}

fn closing(open: u8) -> u8 {
    match open {
        b'{' => b'}',
        b'(' => b')',
        _ => b']',
    }
}

fn pairs(open: u8, close: u8) -> bool {
    closing(open) == close
}
