//! Diagnostics: one form for every error, warning and remark.
//!
//! A note that starts with `hint: ` suggests a remedy; every other note is a further fact.

use crate::span::Span;
use std::fmt;
use std::sync::Arc;

/// A code and its entry in the reference of diagnostics.
///
/// The texts start in lower case and have no final period, as messages do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Code {
    /// The stable kebab-case name.
    pub name: &'static str,
    /// The error, as found and wanted.
    pub says: &'static str,
    /// A small input that causes it.
    pub example: Example,
    /// A remedy.
    pub help: &'static str,
}

/// A small input for which a code is reported.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Example {
    /// A program, in the language of the part that reports the code. Reading it reports this code and no other.
    Program(&'static str),
    /// Commands on files.
    Command {
        /// Names and texts of the files.
        files: &'static [(&'static str, &'static str)],
        /// The commands, one a line; the last one reports the code.
        run: &'static str,
    },
    /// A description, in words, of an input that is not text.
    Input(&'static str),
}

/// Declares codes: one constant for each code, used to report it, and the list of all codes. The constant spells the name
/// of its code: `REDUCE_C1` is `reduce-c1`. The arguments are those of the constructor of [`Code`](crate::Code) after the
/// name.
///
/// ```
/// use optc_ir::{Diagnostic, codes};
///
/// codes! {
///     /// Every code of this crate, sorted.
///     pub const CODES;
///
///     ODD = input("a number is odd", "the number 3", "halve an even one");
/// }
/// assert_eq!(Diagnostic::error(ODD, "found 3").code, "odd");
/// assert_eq!(CODES, [ODD]);
/// ```
#[macro_export]
macro_rules! codes {
    ($(#[$doc:meta])* $vis:vis const $list:ident;
        $($name:ident = $kind:ident($($text:expr),* $(,)?);)*) => {
        $(pub(crate) const $name: $crate::Code = {
            const NAME: [u8; stringify!($name).len()] = $crate::diag::kebab(stringify!($name));
            $crate::Code::$kind($crate::diag::ascii(&NAME), $($text),*)
        };)*
        $(#[$doc])*
        $vis const $list: &[$crate::Code] = &[$($name),*];
    };
}

/// The letters of a constant's name in lower case, with hyphens; used by [`codes!`](crate::codes).
#[must_use]
pub const fn kebab<const N: usize>(constant: &str) -> [u8; N] {
    let mut name = [0; N];
    let mut at = 0;
    while at < N {
        name[at] = match constant.as_bytes()[at] {
            b'_' => b'-',
            letter => letter.to_ascii_lowercase(),
        };
        at += 1;
    }
    name
}

/// The text of ASCII letters; used by [`codes!`](crate::codes).
#[must_use]
pub const fn ascii(letters: &[u8]) -> &str {
    match std::str::from_utf8(letters) {
        Ok(text) => text,
        Err(_) => "",
    }
}

/// The name of a declared code. Only a [`Code`] converts into it, so every reported code is declared.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct CodeName(&'static str);

impl CodeName {
    /// The stable kebab-case name.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        self.0
    }
}

impl From<Code> for CodeName {
    fn from(code: Code) -> CodeName {
        CodeName(code.name)
    }
}

impl PartialEq<Code> for CodeName {
    fn eq(&self, other: &Code) -> bool {
        self.0 == other.name
    }
}

impl PartialEq<str> for CodeName {
    fn eq(&self, other: &str) -> bool {
        self.0 == other
    }
}

impl PartialEq<&str> for CodeName {
    fn eq(&self, other: &&str) -> bool {
        self.0 == *other
    }
}

impl fmt::Display for CodeName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0)
    }
}

impl Code {
    /// A code whose example is a program.
    #[must_use]
    pub const fn program(
        name: &'static str,
        says: &'static str,
        text: &'static str,
        help: &'static str,
    ) -> Code {
        let example = Example::Program(text);
        Code {
            name,
            says,
            example,
            help,
        }
    }

    /// A code whose example is a list of commands on files.
    #[must_use]
    pub const fn command(
        name: &'static str,
        says: &'static str,
        files: &'static [(&'static str, &'static str)],
        run: &'static str,
        help: &'static str,
    ) -> Code {
        let example = Example::Command { files, run };
        Code {
            name,
            says,
            example,
            help,
        }
    }

    /// A code whose example is an input that is not text.
    #[must_use]
    pub const fn input(
        name: &'static str,
        says: &'static str,
        what: &'static str,
        help: &'static str,
    ) -> Code {
        let example = Example::Input(what);
        Code {
            name,
            says,
            example,
            help,
        }
    }
}

/// The largest number of names that [`Diagnostic::parts`] lists.
const SHOWN: usize = 3;

/// The severity of a diagnostic.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub enum Severity {
    /// The input is refused.
    Error,
    /// The input is suspicious, but accepted.
    Warning,
    /// A report of something that a pass did or could not do.
    Remark,
}

impl Severity {
    /// The word in a rendered diagnostic.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Remark => "remark",
        }
    }
}

/// One message about the program.
#[derive(Clone, PartialEq, Debug)]
pub struct Diagnostic {
    /// A stable kebab-case name.
    pub code: CodeName,
    /// The severity.
    pub severity: Severity,
    /// Found and wanted, lower-case, no final period.
    pub message: String,
    /// Places in the source with a short text each; the first is the main one.
    pub labels: Vec<(Span, String)>,
    /// Hints and further facts.
    pub notes: Vec<String>,
    /// Names of the parts of the input that the message is about, from the `loc` of an operation.
    pub origin: Vec<Arc<str>>,
}

impl Diagnostic {
    /// An error with this code.
    #[must_use]
    pub fn error(code: impl Into<CodeName>, message: impl Into<String>) -> Diagnostic {
        Self::new(Severity::Error, code.into(), message)
    }
    /// A warning.
    #[must_use]
    pub fn warning(code: impl Into<CodeName>, message: impl Into<String>) -> Diagnostic {
        Self::new(Severity::Warning, code.into(), message)
    }
    /// A remark.
    #[must_use]
    pub fn remark(code: impl Into<CodeName>, message: impl Into<String>) -> Diagnostic {
        Self::new(Severity::Remark, code.into(), message)
    }
    fn new(severity: Severity, code: CodeName, message: impl Into<String>) -> Diagnostic {
        Diagnostic {
            code,
            severity,
            message: message.into(),
            labels: Vec::new(),
            notes: Vec::new(),
            origin: Vec::new(),
        }
    }
    /// Adds a place in the source.
    #[must_use]
    pub fn at(mut self, span: Span, text: impl Into<String>) -> Diagnostic {
        self.labels.push((span, text.into()));
        self
    }
    /// Sets the parts of the input that the message is about, by the names of a location.
    #[must_use]
    pub fn of<'a>(mut self, names: impl IntoIterator<Item = &'a Arc<str>>) -> Diagnostic {
        self.origin = names.into_iter().cloned().collect();
        self
    }
    /// The parts of the input that the message is about: the first few names, then an ellipsis; `None` if there are
    /// none.
    #[must_use]
    pub fn parts(&self) -> Option<String> {
        let named: Vec<String> = self.origin.iter().map(|name| format!("`{name}`")).collect();
        let (shown, rest) = named.split_at(named.len().min(SHOWN));
        let more = if rest.is_empty() { "" } else { ", …" };
        (!shown.is_empty()).then(|| shown.join(", ") + more)
    }
    /// Adds a note.
    #[must_use]
    pub fn note(mut self, note: impl Into<String>) -> Diagnostic {
        self.notes.push(note.into());
        self
    }
    /// Adds a note with a remedy.
    #[must_use]
    pub fn hint(self, hint: impl std::fmt::Display) -> Diagnostic {
        self.note(format!("hint: {hint}"))
    }
    /// Adds the known name nearest to `name` as a hint, if one is near; `sigil` is printed before it.
    #[must_use]
    pub fn suggest<'a>(
        self,
        sigil: &str,
        name: &str,
        known: impl IntoIterator<Item = &'a str>,
    ) -> Diagnostic {
        match nearest(name, known) {
            Some(near) => self.hint(format!("did you mean {sigil}{near}?")),
            None => self,
        }
    }
}

/// A position in the source text. Line and column count from 1; columns are in characters.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Position<'s> {
    /// The number of the line.
    pub line: usize,
    /// The column.
    pub column: usize,
    /// The text of the line without its break.
    pub text: &'s str,
    /// The byte of the source at which the line starts.
    pub start: usize,
}

/// A source text with the starts of its lines, so that many positions are found quickly.
#[derive(Clone, Debug)]
pub struct Lines<'s> {
    /// The text.
    pub source: &'s str,
    starts: Vec<usize>,
}

impl<'s> Lines<'s> {
    /// Finds the lines of a text.
    #[must_use]
    pub fn new(source: &'s str) -> Lines<'s> {
        let breaks = source.bytes().enumerate().filter(|&(_, b)| b == b'\n');
        let starts = std::iter::once(0).chain(breaks.map(|(at, _)| at + 1));
        Lines {
            source,
            starts: starts.collect(),
        }
    }

    /// The position of a byte; a byte past the end gives the position of the end.
    #[must_use]
    pub fn position(&self, byte: u32) -> Position<'s> {
        let mut byte = (byte as usize).min(self.source.len());
        while !self.source.is_char_boundary(byte) {
            byte -= 1;
        }
        let line = self.starts.partition_point(|&start| start <= byte);
        let start = line.checked_sub(1).map_or(0, |at| self.starts[at]);
        let next = self.starts.get(line).map(|&next| next - 1);
        let end = next.unwrap_or(self.source.len());
        let text = self.source.get(start..end).unwrap_or_default();
        let before = self.source.get(start..byte).unwrap_or_default();
        Position {
            line,
            column: before.chars().count() + 1,
            text: text.strip_suffix('\r').unwrap_or(text),
            start,
        }
    }
}

/// The length in characters of the longest name that suggestions are searched for: the time is quadratic in it.
const LONGEST_NAME: usize = 128;

/// The known name nearest to `name`, if one is near: at most a third of the characters of `name` are inserted, deleted,
/// changed or swapped with an adjacent one. Of equally near names the first is taken.
#[must_use]
pub fn nearest<'a>(name: &str, known: impl IntoIterator<Item = &'a str>) -> Option<&'a str> {
    let length = name.chars().count();
    let limit = length / 3;
    if LONGEST_NAME < length {
        return None;
    }
    let near = |other: &&str| other.chars().count().abs_diff(length) <= limit;
    let known = known.into_iter().filter(near);
    let distances = known.map(|other| (strsim::osa_distance(name, other), other));
    let best = distances.min_by_key(|&(distance, _)| distance);
    best.filter(|&(distance, _)| distance <= limit)
        .map(|(_, other)| other)
}
