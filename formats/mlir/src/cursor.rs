//! Characters, words, strings and balanced pieces of MLIR text; white space and comments are skipped.

use optc_ir::{Code, Diagnostic, Span};

/// The deepest nesting of brackets, regions and types.
pub const MAX_DEPTH: usize = 96;

/// A result of reading, or the reason why the text is refused.
pub type Parsed<T> = Result<T, Box<Diagnostic>>;

/// The codes of the front end that reads a text.
#[derive(Clone, Copy, Debug)]
pub struct Codes {
    /// The text has another form than MLIR prints.
    pub syntax: Code,
    /// Brackets or regions nest too deeply.
    pub too_deep: Code,
    /// The elements of a constant are not those of its type.
    pub constant: Code,
}

/// A position in a text.
#[derive(Clone, Copy, Debug)]
pub struct Cursor<'a> {
    /// The whole text.
    pub text: &'a str,
    /// The next byte.
    pub at: usize,
    /// The codes of errors.
    pub codes: &'static Codes,
}

/// A span of bytes; positions beyond 4 GiB are cut off.
pub fn span(start: usize, end: usize) -> Span {
    let at = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
    Span {
        start: at(start),
        end: at(end),
    }
}

/// An error about a part of the text.
pub fn wrong(code: Code, message: impl Into<String>, place: Span) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(code, message).at(place, "here"))
}

/// Returns whether a byte belongs to a word: letters, digits, `_`, `$` and `.`.
fn is_word(b: u8) -> bool {
    b.is_ascii_alphanumeric() || matches!(b, b'_' | b'$' | b'.')
}

/// Returns whether a byte belongs to the name of a value.
fn is_value(b: u8) -> bool {
    is_word(b) || b == b'-'
}

impl<'a> Cursor<'a> {
    /// The start of a text.
    #[must_use]
    pub fn new(text: &'a str, codes: &'static Codes) -> Self {
        Self { text, at: 0, codes }
    }

    /// The bytes from here on.
    pub fn rest(&self) -> &'a [u8] {
        self.text.as_bytes().get(self.at..).unwrap_or_default()
    }

    /// Skips white space and comments.
    pub fn skip(&mut self) {
        loop {
            let rest = self.rest();
            let blank = rest.iter().take_while(|b| b.is_ascii_whitespace()).count();
            self.at += blank;
            let rest = &rest[blank..];
            if !rest.starts_with(b"//") {
                return;
            }
            self.at += rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
        }
    }

    /// The next byte after white space; 0 at the end.
    pub fn peek(&mut self) -> u8 {
        self.skip();
        self.rest().first().copied().unwrap_or(0)
    }

    /// Returns whether this text comes next.
    pub fn sees(&mut self, text: &str) -> bool {
        self.skip();
        self.rest().starts_with(text.as_bytes())
    }

    /// Consumes this text if it comes next.
    pub fn eat(&mut self, text: &str) -> bool {
        let found = self.sees(text);
        if found {
            self.at += text.len();
        }
        found
    }

    /// Consumes this word if it comes next.
    pub fn eat_word(&mut self, word: &str) -> bool {
        let mut look = *self;
        let found = look.word() == Some(word);
        if found {
            *self = look;
        }
        found
    }

    /// Consumes this text; an error if it does not come next.
    pub fn expect(&mut self, text: &str) -> Parsed<()> {
        if self.eat(text) {
            return Ok(());
        }
        Err(self.wanted(&format!("`{text}`")))
    }

    /// The span from `start` to here.
    pub fn since(&self, start: usize) -> Span {
        span(start, self.at)
    }

    /// An error about the text that comes next.
    pub fn wanted(&mut self, what: &str) -> Box<Diagnostic> {
        self.skip();
        let rest = self.text.get(self.at..).unwrap_or("");
        let mut len = rest.bytes().take_while(|&b| is_value(b)).count();
        if len == 0 {
            len = rest.chars().next().map_or(0, char::len_utf8);
        }
        let found = match rest.get(..len) {
            Some("") | None => "the end of the text".to_owned(),
            Some(found) => format!("`{}`", found.chars().take(40).collect::<String>()),
        };
        let place = span(self.at, self.at + len.max(1));
        let message = format!("found {found}, wanted {what}");
        wrong(self.codes.syntax, message, place)
    }

    /// A word: a name of an operation, a keyword, a number without sign.
    pub fn word(&mut self) -> Option<&'a str> {
        self.skip();
        self.run(is_word)
    }

    fn run(&mut self, within: fn(u8) -> bool) -> Option<&'a str> {
        let len = self.rest().iter().take_while(|&&b| within(b)).count();
        let found = self.text.get(self.at..self.at + len)?;
        self.at += len;
        (len != 0).then_some(found)
    }

    /// `%name`, without the percent sign.
    pub fn value(&mut self) -> Parsed<&'a str> {
        self.expect("%")?;
        match self.run(is_value) {
            Some(name) => Ok(name),
            None => Err(self.wanted("the name of a value")),
        }
    }

    /// `@name` or `@"name"`, without `@` and quotes.
    pub fn symbol(&mut self) -> Parsed<&'a str> {
        self.expect("@")?;
        if self.rest().first() == Some(&b'"') {
            let text = self.string()?;
            return Ok(&text[1..text.len() - 1]);
        }
        match self.run(is_value) {
            Some(name) => Ok(name),
            None => Err(self.wanted("the name of a function")),
        }
    }

    /// A string with its quotes.
    pub fn string(&mut self) -> Parsed<&'a str> {
        self.skip();
        let start = self.at;
        self.expect("\"")?;
        loop {
            let rest = self.rest();
            let Some(stop) = rest.iter().position(|b| matches!(b, b'"' | b'\\')) else {
                let message = "found the end of the text, wanted the closing quote of a string";
                return Err(wrong(self.codes.syntax, message, span(start, start + 1)));
            };
            self.at += stop + 1;
            if rest[stop] == b'"' {
                return Ok(self.text.get(start..self.at).unwrap_or("\"\""));
            }
            // An escaped character may have several bytes.
            let rest = self.text.get(self.at..).unwrap_or("");
            self.at += rest.chars().next().map_or(0, char::len_utf8);
        }
    }

    /// The bracketed text that starts here, with its brackets.
    pub fn balanced(&mut self) -> Parsed<&'a str> {
        self.skip();
        let start = self.at;
        let mut open: Vec<u8> = Vec::new();
        loop {
            self.skip();
            let rest = self.rest();
            let Some(&b) = rest.first() else {
                let message = "found the end of the text, wanted a closing bracket";
                return Err(wrong(self.codes.syntax, message, span(start, start + 1)));
            };
            match b {
                b'"' => {
                    self.string()?;
                    continue;
                }
                b'-' if rest.get(1) == Some(&b'>') => self.at += 1,
                b'(' | b'[' | b'{' | b'<' => {
                    open.push(b);
                    if MAX_DEPTH < open.len() {
                        let place = span(start, self.at);
                        let message = "brackets nest too deeply";
                        return Err(wrong(self.codes.too_deep, message, place));
                    }
                }
                b')' | b']' | b'}' | b'>' => {
                    let matching = match b {
                        b')' => b'(',
                        b']' => b'[',
                        b'}' => b'{',
                        _ => b'<',
                    };
                    if open.last() == Some(&matching) {
                        open.pop();
                    } else if b != b'>' {
                        return Err(self.wanted("a bracket that was opened"));
                    }
                }
                _ => {}
            }
            let rest = self.text.get(self.at..).unwrap_or("");
            self.at += rest.chars().next().map_or(1, char::len_utf8);
            if open.is_empty() {
                return Ok(self.text.get(start..self.at).unwrap_or(""));
            }
        }
    }
}

/// The start of a long text.
#[must_use]
pub fn shortened(text: &str) -> String {
    let mut short: String = text.chars().take(60).collect();
    if short.len() < text.len() {
        short.push('…');
    }
    short
}
