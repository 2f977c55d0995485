//! A module as it is written: operations with their names, texts of attributes, regions and types.

use optc_ir::Span;

/// An operation.
#[derive(Clone, Debug, Default)]
pub(crate) struct Op<'a> {
    /// Its name with the dialect, `stablehlo.add`.
    pub(crate) name: &'a str,
    /// The names of its results, each with its number of values.
    pub(crate) results: Vec<(&'a str, usize)>,
    /// The values that it reads.
    pub(crate) operands: Vec<Use<'a>>,
    /// Attributes by name, as text.
    pub(crate) attrs: Vec<(&'a str, &'a str)>,
    pub(crate) regions: Vec<Region<'a>>,
    /// The types of its operands if they are written separately from those of the results.
    pub(crate) operand_types: Vec<&'a str>,
    pub(crate) result_types: Vec<&'a str>,
    /// The text of its origin, `loc(…)`.
    pub(crate) loc: Option<&'a str>,
    /// The whole text, without the names of the results.
    pub(crate) text: &'a str,
    /// The place of its name.
    pub(crate) span: Span,
}

/// The use of a value: the name, and the number of the value among those of that name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Use<'a> {
    pub(crate) name: &'a str,
    pub(crate) part: usize,
    pub(crate) span: Span,
}

/// The body of a function or of an operation: one block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Region<'a> {
    /// Its arguments: name and type.
    pub(crate) args: Vec<(&'a str, &'a str)>,
    pub(crate) ops: Vec<Op<'a>>,
    /// The values that it reads and does not define, each once.
    pub(crate) free: Vec<Use<'a>>,
}

/// A function.
#[derive(Clone, Debug, Default)]
pub(crate) struct Func<'a> {
    pub(crate) name: &'a str,
    pub(crate) body: Region<'a>,
    pub(crate) result_types: Vec<&'a str>,
    /// The dictionaries of its arguments and results; empty texts if there are none.
    pub(crate) arg_attrs: Vec<&'a str>,
    pub(crate) result_attrs: Vec<&'a str>,
    /// The dictionary of its own attributes.
    pub(crate) attrs: &'a str,
    pub(crate) private: bool,
    pub(crate) span: Span,
}

/// A module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Tree<'a> {
    pub(crate) name: Option<&'a str>,
    /// The dictionary of its attributes.
    pub(crate) attrs: &'a str,
    pub(crate) funcs: Vec<Func<'a>>,
    /// Operations beside the functions, as text.
    pub(crate) others: Vec<&'a str>,
}

impl<'a> Op<'a> {
    /// The text of an attribute.
    pub(crate) fn attr(&self, name: &str) -> Option<&'a str> {
        let found = self.attrs.iter().find(|(key, _)| *key == name);
        found.map(|(_, text)| *text)
    }

    /// The number of its results.
    pub(crate) fn count(&self) -> usize {
        self.results.iter().map(|(_, n)| n).sum()
    }
}
