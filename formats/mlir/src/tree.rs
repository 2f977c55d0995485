//! A module as it is written: operations with their names, texts of attributes, regions and types.

use optc_ir::Span;

/// An operation.
#[derive(Clone, Debug, Default)]
pub struct Op<'a> {
    /// Its name with the dialect, `stablehlo.add`.
    pub name: &'a str,
    /// The names of its results, each with its number of values.
    pub results: Vec<(&'a str, usize)>,
    /// The values that it reads.
    pub operands: Vec<Use<'a>>,
    /// Attributes by name, as text.
    pub attrs: Vec<(&'a str, &'a str)>,
    /// Its regions.
    pub regions: Vec<Region<'a>>,
    /// The types of its operands if they are written separately from those of the results.
    pub operand_types: Vec<&'a str>,
    /// The types of its results.
    pub result_types: Vec<&'a str>,
    /// The text of its origin, `loc(…)`.
    pub loc: Option<&'a str>,
    /// The whole text, without the names of the results.
    pub text: &'a str,
    /// The place of its name.
    pub span: Span,
}

/// The use of a value: the name, and the number of the value among those of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Use<'a> {
    /// The name without the percent sign.
    pub name: &'a str,
    /// The number of the value among those of its name.
    pub part: usize,
    /// The place of its text.
    pub span: Span,
}

/// The body of a function or of an operation: one block.
#[derive(Clone, Debug, Default)]
pub struct Region<'a> {
    /// Its arguments: name and type.
    pub args: Vec<(&'a str, &'a str)>,
    /// Its operations, in order.
    pub ops: Vec<Op<'a>>,
    /// The values that it reads and does not define, each once.
    pub free: Vec<Use<'a>>,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub struct Func<'a> {
    /// Its name.
    pub name: &'a str,
    /// Its body.
    pub body: Region<'a>,
    /// The types of its results.
    pub result_types: Vec<&'a str>,
    /// The dictionaries of its arguments and results; empty texts if there are none.
    pub arg_attrs: Vec<&'a str>,
    /// The dictionaries of its results.
    pub result_attrs: Vec<&'a str>,
    /// The dictionary of its own attributes.
    pub attrs: &'a str,
    /// True if no other module sees it.
    pub private: bool,
    /// The place of its text.
    pub span: Span,
}

/// A module.
#[derive(Clone, Debug, Default)]
pub struct Tree<'a> {
    /// Its name.
    pub name: Option<&'a str>,
    /// The dictionary of its attributes.
    pub attrs: &'a str,
    /// Its functions.
    pub funcs: Vec<Func<'a>>,
    /// Operations beside the functions, as text.
    pub others: Vec<&'a str>,
}

impl<'a> Op<'a> {
    /// The text of an attribute.
    #[must_use]
    pub fn attr(&self, name: &str) -> Option<&'a str> {
        let found = self.attrs.iter().find(|(key, _)| *key == name);
        found.map(|(_, text)| *text)
    }

    /// The number of its results.
    #[must_use]
    pub fn count(&self) -> usize {
        self.results.iter().map(|(_, n)| n).sum()
    }
}
