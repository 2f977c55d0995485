//! The state of the parser: the text, the cursor, aliases and errors. The grammar is in the other files.

use crate::attr::Attr;
use crate::codes;
use crate::diag::{Code, Diagnostic};
use crate::module::Loc;
use crate::span::Span;
use crate::types::Type;
use indexmap::IndexMap;
use std::sync::Arc;

/// The largest number of errors that one parse reports.
const MAX_ERRORS: usize = 50;

/// The largest total expansion of aliases, in addition to a multiple of the text's length. Attributes, locations and
/// bytes of text count.
const MAX_EXPANSION: u64 = 1 << 20;

/// A failure to read on.
#[derive(Debug)]
pub(super) enum Fail {
    /// A failure with an error to report.
    Diag(Box<Diagnostic>),
    /// A failure because of an error that was already reported.
    Silent,
}

impl Fail {
    /// An error with one place.
    pub(super) fn at(
        code: Code,
        message: impl Into<String>,
        span: Span,
        label: impl Into<String>,
    ) -> Fail {
        Fail::Diag(Box::new(Diagnostic::error(code, message).at(span, label)))
    }

    /// The same failure with a hint.
    pub(super) fn hint(self, hint: impl std::fmt::Display) -> Fail {
        match self {
            Fail::Diag(d) => Fail::Diag(Box::new(d.hint(hint))),
            Fail::Silent => Fail::Silent,
        }
    }

    /// Adds a second place.
    pub(super) fn label(self, span: Span, text: &str) -> Fail {
        match self {
            Fail::Diag(d) => Fail::Diag(Box::new(d.at(span, text))),
            Fail::Silent => Fail::Silent,
        }
    }

    /// Gives the error another code.
    pub(super) fn recode(&mut self, code: Code) {
        if let Fail::Diag(d) = self {
            d.code = code.into();
        }
    }
}

pub(super) type PResult<T> = Result<T, Fail>;

/// The parser of one program.
#[derive(Debug)]
pub(super) struct Parser<'s> {
    pub(super) src: &'s str,
    pub(super) pos: usize,
    pub(super) depth: u32,
    /// The number of attributes and locations read so far; those of an alias count at every use.
    pub(super) nodes: u64,
    /// True if the current operation is of another dialect.
    pub(super) foreign: bool,
    pub(super) types: IndexMap<&'s str, Type>,
    pub(super) aliases: IndexMap<&'s str, Alias>,
    names: IndexMap<&'s str, Arc<str>>,
    expanded: u64,
    pub(super) diags: Vec<Diagnostic>,
    /// True if there is no place to continue after the last error.
    pub(super) fatal: bool,
}

impl<'s> Parser<'s> {
    pub(super) fn new(src: &'s str) -> Self {
        Parser {
            src,
            pos: 0,
            depth: 0,
            nodes: 0,
            foreign: false,
            types: IndexMap::new(),
            aliases: IndexMap::new(),
            names: IndexMap::new(),
            expanded: 0,
            diags: Vec::new(),
            fatal: false,
        }
    }

    pub(super) fn report(&mut self, fail: Fail) {
        // An error in an alias repeats at every use.
        if let Fail::Diag(d) = fail
            && !self.diags.contains(&d)
        {
            self.diags.push(*d);
        }
    }

    /// Reports an error and continues at the next operation, unless there were too many.
    pub(super) fn report_and_recover(&mut self, fail: Fail, start: usize) -> PResult<()> {
        self.report(fail);
        if self.fatal || self.diags.len() >= MAX_ERRORS {
            return Err(Fail::Silent);
        }
        self.depth = 0;
        self.recover(start);
        Ok(())
    }

    /// Counts the expansion of an alias.
    pub(super) fn spend(&mut self, amount: u64) -> PResult<()> {
        self.expanded = self.expanded.saturating_add(amount);
        if self.expanded <= MAX_EXPANSION.saturating_add(16 * self.src.len() as u64) {
            return Ok(());
        }
        let span = self.span(self.pos, self.pos);
        Err(Fail::at(
            codes::ALIAS_TOO_LARGE,
            "the aliases expand to too much text",
            span,
            "while reading this",
        ))
    }

    /// An interned copy of a name.
    pub(super) fn intern(&mut self, text: &'s str) -> Arc<str> {
        self.names
            .entry(text)
            .or_insert_with(|| Arc::from(text))
            .clone()
    }
}

/// An alias: the position of its value, and the value after its first use.
#[derive(Debug)]
pub(super) struct Alias {
    pub(super) at: usize,
    pub(super) attr: Option<(Attr, u64)>,
    pub(super) ty: Option<(Type, u64)>,
    pub(super) loc: Option<(Loc, u64)>,
    pub(super) text: Option<Arc<str>>,
}
