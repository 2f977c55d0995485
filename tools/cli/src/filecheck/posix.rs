//! Extended regular expressions of POSIX, as FileCheck takes them, in the syntax of the crate `regex-syntax`.

use thiserror::Error;

/// The largest number in a bound, as LLVM has it.
const MAX_BOUND: u32 = 255;

/// Classes of characters, `[:alpha:]`.
const CLASSES: [&str; 12] = [
    "alnum", "alpha", "blank", "cntrl", "digit", "graph", "lower", "print", "punct", "space",
    "upper", "xdigit",
];

/// The reason why a text is no regular expression.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum PosixError {
    /// `a|` and the like.
    #[error("an alternative is empty")]
    Empty,
    /// `*` at the start or after another repetition.
    #[error("`{0}` repeats nothing")]
    Repeat(char),
    /// A parenthesis without its partner.
    #[error("a parenthesis is not balanced")]
    Parenthesis,
    /// `[` without `]`.
    #[error("`[` is not closed")]
    Bracket,
    /// A class of characters that does not exist.
    #[error("found no class of characters `[{0}]`")]
    Class(String),
    /// `[z-a]` or `[a-c-e]`.
    #[error("a range of characters is none")]
    Range,
    /// `{3,2}` or `{300}`.
    #[error("found the bound `{{{0}`, wanted numbers up to {MAX_BOUND}, the smaller one first")]
    Bound(String),
    /// A backslash at the end.
    #[error("the last `\\` escapes nothing")]
    Escape,
    /// `\1`.
    #[error("found `\\{0}`; a variable takes its place, `[[X:…]] [[X]]`")]
    Reference(char),
}

/// Translates a regular expression. `[^…]` does not match a line break.
pub(super) fn translate(posix: &str) -> Result<String, PosixError> {
    let mut reader = Reader {
        rest: posix,
        text: String::with_capacity(posix.len() + 8),
    };
    reader.alternatives(false)?;
    Ok(reader.text)
}

/// A text as a regular expression that matches it alone.
pub(super) fn literal(text: &str) -> String {
    regex_syntax::escape(text)
}

struct Reader<'a> {
    rest: &'a str,
    /// The translation so far.
    text: String,
}

impl Reader<'_> {
    fn peek(&self) -> Option<char> {
        self.rest.chars().next()
    }

    fn next(&mut self) -> Option<char> {
        let next = self.peek()?;
        self.rest = &self.rest[next.len_utf8()..];
        Some(next)
    }

    /// Reads a character if it is the next one.
    fn eat(&mut self, c: char) -> bool {
        let there = self.peek() == Some(c);
        if there {
            self.next();
        }
        there
    }

    /// Reads alternatives up to the end, or up to the parenthesis that closes them.
    fn alternatives(&mut self, inside: bool) -> Result<(), PosixError> {
        loop {
            let start = self.text.len();
            while let Some(c) = self.peek()
                && c != '|'
                && !(inside && c == ')')
            {
                self.piece()?;
            }
            if self.text.len() == start {
                return Err(PosixError::Empty);
            }
            if !self.eat('|') {
                return Ok(());
            }
            self.text.push('|');
        }
    }

    /// Reads an atom and its repetition.
    fn piece(&mut self) -> Result<(), PosixError> {
        let repetition = self.repetition();
        let Some(c) = self.next() else { return Ok(()) };
        match c {
            _ if repetition.is_some() => return Err(PosixError::Repeat(c)),
            '^' => {
                self.text.push(c);
                return self
                    .repetition()
                    .map_or(Ok(()), |c| Err(PosixError::Repeat(c)));
            }
            '.' | '$' => self.text.push(c),
            '(' => {
                self.text.push_str("(?:");
                if self.peek() != Some(')') {
                    self.alternatives(true)?;
                }
                if !self.eat(')') {
                    return Err(PosixError::Parenthesis);
                }
                self.text.push(')');
            }
            ')' => return Err(PosixError::Parenthesis),
            '[' => self.bracket()?,
            '\\' => match self.next() {
                None => return Err(PosixError::Escape),
                Some(digit @ '1'..='9') => return Err(PosixError::Reference(digit)),
                Some(c) => self.character(c),
            },
            c => self.character(c),
        }
        if self.repetition() == Some('{') {
            self.bound()?;
        } else if let Some(c) = self.repetition() {
            self.next();
            self.text.push(c);
        }
        self.repetition()
            .map_or(Ok(()), |c| Err(PosixError::Repeat(c)))
    }

    /// The sign of a repetition that comes next.
    fn repetition(&self) -> Option<char> {
        let mut chars = self.rest.chars();
        let sign = chars.next()?;
        let mut bound = || chars.next().is_some_and(|c| c.is_ascii_digit());
        (matches!(sign, '*' | '+' | '?') || sign == '{' && bound()).then_some(sign)
    }

    /// Reads `{2}`, `{2,}` or `{2,4}`.
    fn bound(&mut self) -> Result<(), PosixError> {
        let end = self.rest.find('}').map_or(self.rest.len(), |at| at + 1);
        let (bound, rest) = self.rest.split_at(end);
        let refused = || PosixError::Bound(bound.trim_start_matches('{').to_owned());
        let inner = bound.strip_prefix('{').and_then(|b| b.strip_suffix('}'));
        let inner = inner.ok_or_else(refused)?;
        let (low, high) = inner.split_once(',').unwrap_or((inner, inner));
        let number = |text: &str| text.parse::<u32>().ok().filter(|&n| n <= MAX_BOUND);
        let low = number(low).ok_or_else(refused)?;
        if !high.is_empty() && number(high).is_none_or(|high| high < low) {
            return Err(refused());
        }
        self.rest = rest;
        self.text.push_str(bound);
        Ok(())
    }

    /// Reads the rest of `[…]`.
    fn bracket(&mut self) -> Result<(), PosixError> {
        self.text.push('[');
        if self.eat('^') {
            self.text.push_str("^\\n");
        }
        if let Some(c) = self.peek()
            && (c == ']' || c == '-')
        {
            self.next();
            self.character(c);
        }
        while !self.rest.starts_with(']') && !self.rest.starts_with("-]") {
            self.member()?;
        }
        if self.eat('-') {
            self.character('-');
        }
        self.next();
        self.text.push(']');
        Ok(())
    }

    /// Reads a character, a range or a class between brackets.
    fn member(&mut self) -> Result<(), PosixError> {
        let first = match self.next() {
            None => return Err(PosixError::Bracket),
            Some('-') => return Err(PosixError::Range),
            Some('[') if self.rest.starts_with([':', '=', '.']) => return self.class(),
            Some(c) => c,
        };
        self.character(first);
        if !self.rest.starts_with('-') || self.rest.starts_with("-]") {
            return Ok(());
        }
        self.next();
        let last = self.next().ok_or(PosixError::Bracket)?;
        if last < first {
            return Err(PosixError::Range);
        }
        self.text.push('-');
        self.character(last);
        Ok(())
    }

    /// Reads the rest of `[:alpha:]`.
    fn class(&mut self) -> Result<(), PosixError> {
        let (name, rest) = self.rest.split_once(']').ok_or(PosixError::Bracket)?;
        let known = name.strip_prefix(':').and_then(|n| n.strip_suffix(':'));
        if !known.is_some_and(|known| CLASSES.contains(&known)) {
            return Err(PosixError::Class(name.to_owned()));
        }
        self.text.push_str(&format!("[{name}]"));
        self.rest = rest;
        Ok(())
    }

    /// Adds a character that stands for itself.
    fn character(&mut self, c: char) {
        self.text.push_str(&literal(c.encode_utf8(&mut [0; 4])));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_translated() {
        for (posix, wanted) in [
            ("a.b*", "a.b*"),
            ("(a|b)+c?", "(?:a|b)+c?"),
            ("a{2}b{2,}c{2,4}{", "a{2}b{2,}c{2,4}\\{"),
            ("^()$", "^(?:)$"),
            ("[^a-z_]", "[^\\na-z_]"),
            ("[]a][-b][c-]", "[\\]a][\\-b][c\\-]"),
            ("[[:alpha:]&&x]", "[[:alpha:]\\&\\&x]"),
            ("[\\d]\\d\\.", "[\\\\d]d\\."),
            ("é}]", "é\\}\\]"),
        ] {
            assert_eq!(translate(posix).as_deref(), Ok(wanted), "{posix}");
        }
    }

    #[test]
    fn faults_are_told() {
        use PosixError::{
            Bound, Bracket, Class, Empty, Escape, Parenthesis, Range, Reference, Repeat,
        };
        for (posix, wanted) in [
            ("", Empty),
            ("a|", Empty),
            ("(|a)", Empty),
            ("*a", Repeat('*')),
            ("a|+", Repeat('+')),
            ("a**", Repeat('*')),
            ("a+?", Repeat('?')),
            ("^*", Repeat('*')),
            ("(?:a)", Repeat('?')),
            ("{2}", Repeat('{')),
            ("(a", Parenthesis),
            ("a)", Parenthesis),
            ("[a", Bracket),
            ("[a-", Bracket),
            ("[", Bracket),
            ("[[:word:]]", Class(":word:".to_owned())),
            ("[[.a.]]", Class(".a.".to_owned())),
            ("[z-a]", Range),
            ("[a-c-e]", Range),
            ("a{3,2}", Bound("3,2}".to_owned())),
            ("a{256}", Bound("256}".to_owned())),
            ("a{2", Bound("2".to_owned())),
            ("a\\", Escape),
            ("(a)\\1", Reference('1')),
        ] {
            assert_eq!(translate(posix), Err(wanted), "{posix}");
        }
    }
}
