//! A parser's state: the text and the cursor in it, aliases, errors. The grammar is in the files beside.

use crate::attr::Attr;
use crate::codes;
use crate::diag::{Code, Diagnostic};
use crate::module::Loc;
use crate::span::Span;
use crate::types::Type;
use indexmap::IndexMap;
use std::sync::Arc;

/// How many errors one parse reports.
const MAX_ERRORS: usize = 50;

/// How much aliases may expand to in all, beside a multiple of the text: attributes, locations and
/// bytes of text.
const MAX_EXPANSION: u64 = 1 << 20;

/// Why reading stops here.
#[derive(Debug)]
pub(super) enum Fail {
    /// With an error.
    Diag(Box<Diagnostic>),
    /// Because of an error that is already told.
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

    /// The same with a hint.
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

/// Reads one program.
#[derive(Debug)]
pub(super) struct Parser<'s> {
    pub(super) src: &'s str,
    pub(super) pos: usize,
    pub(super) depth: u32,
    /// Attributes and locations read so far, those of aliases counted at every use.
    pub(super) nodes: u64,
    /// Whether the operation being read is of another dialect.
    pub(super) foreign: bool,
    pub(super) types: IndexMap<&'s str, Type>,
    pub(super) aliases: IndexMap<&'s str, Alias>,
    names: IndexMap<&'s str, Arc<str>>,
    expanded: u64,
    pub(super) diags: Vec<Diagnostic>,
    /// Whether the last error leaves no place to go on from.
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
        // An error in an alias comes again at every use.
        if let Fail::Diag(d) = fail
            && !self.diags.contains(&d)
        {
            self.diags.push(*d);
        }
    }

    /// Reports an error and goes on at the next operation, unless there were too many.
    pub(super) fn report_and_recover(&mut self, fail: Fail, start: usize) -> PResult<()> {
        self.report(fail);
        if self.fatal || self.diags.len() >= MAX_ERRORS {
            return Err(Fail::Silent);
        }
        self.depth = 0;
        self.recover(start);
        Ok(())
    }

    /// Counts what an alias expands to.
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

/// An alias: where its value stands, and what it was when it was first used.
#[derive(Debug)]
pub(super) struct Alias {
    pub(super) at: usize,
    pub(super) attr: Option<(Attr, u64)>,
    pub(super) ty: Option<(Type, u64)>,
    pub(super) loc: Option<(Loc, u64)>,
    pub(super) text: Option<Arc<str>>,
}
