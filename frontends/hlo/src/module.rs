//! A module of HLO text as it is written. Only what printing needs is interpreted.
//!
//! Names and texts are slices of the text that was read; equal shapes are shared.

use optc_ir::{Dense, Span};
use optc_layout::XlaShape;
use std::borrow::Cow;
use std::sync::Arc;

/// A whole module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HloModule<'a> {
    /// Its name; without a header `module_` and the name of the entry.
    pub name: Cow<'a, str>,
    /// Attributes of the header in the order of the text.
    pub attrs: Attrs<'a>,
    /// The tables of file names and stack frames, as text.
    pub tables: Vec<String>,
    /// The computations, callees before callers.
    pub computations: Vec<Computation<'a>>,
    /// The index of the entry in `computations`.
    pub entry: usize,
}

/// One computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation<'a> {
    /// Its name, without `%`.
    pub name: &'a str,
    /// The instructions; operands come before their users.
    pub instructions: Vec<Instruction<'a>>,
    /// The index of the result in `instructions`.
    pub root: usize,
    /// Attributes after the closing brace, `execution_thread="…"`.
    pub attrs: Attrs<'a>,
    /// The place in the text.
    pub span: Span,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction<'a> {
    /// Its name, without `%`.
    pub name: Cow<'a, str>,
    /// The shape of its result; every array has a layout.
    pub shape: Arc<XlaShape>,
    /// Its opcode.
    pub opcode: &'a str,
    /// The operands, as indices into the computation's list.
    pub operands: Vec<usize>,
    /// The text between the parentheses of `parameter(0)` and `constant({1, 2})`.
    pub payload: Option<Cow<'a, str>>,
    /// The elements of a constant that is not read from text.
    pub dense: Option<Arc<Dense>>,
    /// Attributes in the order of the text.
    pub attrs: Attrs<'a>,
    /// The computations that its attributes name, by attribute, as indices into the module's list.
    pub called: Vec<(&'a str, Vec<usize>)>,
    /// The place in the text.
    pub span: Span,
}

/// Attributes: the text after each name and its `=`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs<'a>(pub(crate) Vec<(&'a str, Cow<'a, str>)>);

impl<'a> Attrs<'a> {
    /// Attributes of these names and texts.
    #[must_use]
    pub fn new(texts: Vec<(&'a str, Cow<'a, str>)>) -> Self {
        Attrs(texts)
    }
}

impl Attrs<'_> {
    /// The text of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        let found = self.0.iter().find(|(key, _)| *key == name);
        found.map(|(_, text)| &**text)
    }

    /// Names and texts in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(key, text)| (*key, &**text))
    }

    /// A list of numbers, `{1,0}`.
    pub(crate) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        ints(self.get(name)?)
    }

    /// A number.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.get(name)?.trim().parse().ok()
    }
}

/// Numbers between braces.
pub(crate) fn ints(text: &str) -> Option<Vec<i64>> {
    each_int(between_braces(text)?).collect()
}

fn between_braces(text: &str) -> Option<&str> {
    text.trim().strip_prefix('{')?.strip_suffix('}')
}

fn each_int(inner: &str) -> impl Iterator<Item = Option<i64>> {
    let empty = inner.trim().is_empty();
    let parts = inner.split(',').filter(move |_| !empty);
    parts.map(|n| n.trim().parse().ok())
}

impl<'a> Computation<'a> {
    /// The result.
    #[must_use]
    pub fn root(&self) -> &Instruction<'a> {
        &self.instructions[self.root]
    }

    /// The parameters in the order of their numbers, as indices into the list of instructions.
    #[must_use]
    pub fn parameters(&self) -> Vec<usize> {
        let mut found: Vec<(i64, usize)> = Vec::new();
        for (i, instruction) in self.instructions.iter().enumerate() {
            if let Some(number) = instruction.parameter() {
                found.push((number, i));
            }
        }
        found.sort_unstable();
        found.into_iter().map(|(_, i)| i).collect()
    }
}

impl Instruction<'_> {
    /// The number of a parameter.
    #[must_use]
    pub fn parameter(&self) -> Option<i64> {
        if self.opcode != "parameter" {
            return None;
        }
        self.payload.as_deref()?.trim().parse().ok()
    }

    /// The computations that an attribute names.
    pub(crate) fn called(&self, attr: &str) -> Option<&[usize]> {
        let found = self.called.iter().find(|(name, _)| *name == attr);
        found.map(|(_, list)| list.as_slice())
    }
}
