//! A module of HLO text as it is written: nothing is interpreted that printing does not need.

use indexmap::IndexMap;
use optc_ir::Span;
use optc_layout::XlaShape;

/// A whole module.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct HloModule {
    /// Its name; without a header `module_` and the name of the entry.
    pub name: String,
    /// Attributes of the header in the order of the text.
    pub attrs: Attrs,
    /// The tables of file names and stack frames, as they stand in the text.
    pub tables: Vec<String>,
    /// The computations, callees before callers.
    pub computations: Vec<Computation>,
    /// Which computation is the entry.
    pub entry: usize,
}

/// One computation.
#[derive(Clone, Debug, PartialEq)]
pub struct Computation {
    /// Its name, without `%`.
    pub name: String,
    /// The instructions; operands come before their users.
    pub instructions: Vec<Instruction>,
    /// Which instruction is the result.
    pub root: usize,
    /// Attributes after the closing brace, `execution_thread="…"`.
    pub attrs: Attrs,
    /// Where it stands.
    pub span: Span,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// Its name, without `%`.
    pub name: String,
    /// The shape of its result; every array has a layout.
    pub shape: XlaShape,
    /// What it does.
    pub opcode: String,
    /// Operands: places in the computation's list.
    pub operands: Vec<usize>,
    /// What stands between the parentheses of `parameter(0)` and `constant({1, 2})`.
    pub payload: Option<String>,
    /// Attributes in the order of the text.
    pub attrs: Attrs,
    /// The computations that its attributes name, by attribute: places in the module's list.
    pub called: Vec<(String, Vec<usize>)>,
    /// Where it stands.
    pub span: Span,
}

/// Attributes: the text after each name and its `=`.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Attrs(pub(crate) IndexMap<String, String>);

impl Attrs {
    /// The text of an attribute.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<&str> {
        self.0.get(name).map(String::as_str)
    }

    /// Names and texts in the order of the text.
    pub fn iter(&self) -> impl Iterator<Item = (&str, &str)> {
        self.0.iter().map(|(k, v)| (k.as_str(), v.as_str()))
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
    let inner = text.trim().strip_prefix('{')?.strip_suffix('}')?;
    if inner.trim().is_empty() {
        return Some(Vec::new());
    }
    inner.split(',').map(|n| n.trim().parse().ok()).collect()
}

impl Computation {
    /// The result.
    #[must_use]
    pub fn root(&self) -> &Instruction {
        &self.instructions[self.root]
    }

    /// The parameters in the order of their numbers: places in the list of instructions.
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

impl Instruction {
    /// The number of a parameter.
    #[must_use]
    pub fn parameter(&self) -> Option<i64> {
        if self.opcode != "parameter" {
            return None;
        }
        self.payload.as_deref()?.trim().parse().ok()
    }

    /// The computations an attribute names.
    pub(crate) fn called(&self, attr: &str) -> Option<&[usize]> {
        let found = self.called.iter().find(|(name, _)| name == attr);
        found.map(|(_, list)| list.as_slice())
    }
}
