//! Reads a short text from left to right.

/// A text and the position that is read next.
pub(crate) struct Scan<'a> {
    pub(crate) text: &'a str,
    pub(crate) at: usize,
}

impl<'a> Scan<'a> {
    pub(crate) fn new(text: &'a str) -> Self {
        Self { text, at: 0 }
    }

    /// The text from the position on.
    pub(crate) fn rest(&self) -> &'a str {
        &self.text[self.at..]
    }

    pub(crate) fn peek(&self) -> Option<char> {
        self.rest().chars().next()
    }

    /// Steps over spaces.
    pub(crate) fn skip_spaces(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start_matches(' ').len();
    }

    /// Steps over all white space.
    pub(crate) fn skip_blank(&mut self) {
        self.at += self.rest().len() - self.rest().trim_start().len();
    }

    /// Steps over a character, if it comes next.
    pub(crate) fn eat(&mut self, wanted: char) -> bool {
        let found = self.rest().starts_with(wanted);
        self.at += if found { wanted.len_utf8() } else { 0 };
        found
    }

    /// A number below 2^63. The position stays if there is none.
    pub(crate) fn number(&mut self) -> Option<u64> {
        let rest = self.rest();
        let other = |c: char| !c.is_ascii_digit();
        let len = rest.find(other).unwrap_or(rest.len());
        let value = rest[..len].parse::<i64>().ok()?;
        self.at += len;
        Some(value.unsigned_abs())
    }
}
