//! The axes of a kernel: the indices that its programs, blocks and loops run over.

use optc_tile::Expr;
use std::collections::BTreeMap;

/// The number of an axis, the one that an [`Expr`] names.
pub(super) type AxisId = usize;

/// The source of an axis's index.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A block of it in each program.
    Program,
    /// A block of it in each step of a loop.
    Loop,
    /// All of it at once.
    Whole,
}

/// An axis.
#[derive(Clone, Debug)]
pub(super) struct Axis {
    /// The number of indices.
    pub(super) extent: u64,
    /// The number of indices at a time, a power of two. An axis of one index at a time is a number, any other a vector.
    pub(super) block: u64,
    pub(super) kind: Kind,
    /// The scope that defines the index.
    pub(super) level: usize,
    /// The variable of the index.
    pub(super) name: String,
    /// The variable that tells which indices exist, if a block may exceed the axis.
    pub(super) mask: Option<String>,
}

impl Axis {
    /// The number of blocks.
    pub(super) fn count(&self) -> u64 {
        self.extent.div_ceil(self.block)
    }

    /// Returns whether blocks of the axis are a dimension of tensors.
    pub(super) fn is_vector(&self) -> bool {
        1 < self.block
    }
}

/// The axes that an expression names, ascending.
pub(super) fn axes_of(expr: &Expr) -> Vec<AxisId> {
    let mut found = Vec::new();
    expr.axes(&mut |axis| found.push(axis));
    found.sort_unstable();
    found.dedup();
    found
}

/// The axes that expressions name, ascending.
pub(super) fn axes_of_all<'a>(exprs: impl IntoIterator<Item = &'a Expr>) -> Vec<AxisId> {
    let mut found: Vec<AxisId> = exprs.into_iter().flat_map(axes_of).collect();
    found.sort_unstable();
    found.dedup();
    found
}

/// The axes of both lists, ascending.
pub(super) fn union(a: &[AxisId], b: &[AxisId]) -> Vec<AxisId> {
    let mut all = [a, b].concat();
    all.sort_unstable();
    all.dedup();
    all
}

/// The subscript that adds a dimension for each axis of `to` that `from` lacks; both are ascending.
pub(super) fn subscript(from: &[AxisId], to: &[AxisId]) -> String {
    if from.is_empty() || from == to {
        return String::new();
    }
    let dims = to.iter().map(|a| match from.contains(a) {
        true => ":",
        false => "None",
    });
    format!("[{}]", dims.collect::<Vec<_>>().join(", "))
}

/// An expression over indices in Python, each index written by `index`.
pub(super) fn python(expr: &Expr, index: &dyn Fn(AxisId) -> String) -> String {
    let text = expr.to_string();
    let mut out = String::with_capacity(text.len());
    let mut rest = text.as_str();
    while let Some(at) = rest.find('g') {
        let (before, tail) = rest.split_at(at);
        out.push_str(before);
        let digits: String = tail[1..].chars().take_while(char::is_ascii_digit).collect();
        match digits.parse() {
            Ok(axis) => out.push_str(&index(axis)),
            Err(_) => out.push_str(&tail[..=digits.len()]),
        }
        rest = &tail[1 + digits.len()..];
    }
    out.push_str(rest);
    out.replace("floordiv", "//").replace(" mod ", " % ")
}

/// Divisors at which the axes of a kernel's result are split, so that no index of a block is divided.
#[derive(Clone, Debug, Default)]
pub(super) struct Cuts(pub(super) BTreeMap<AxisId, u64>);

impl Cuts {
    /// Keeps the smallest proper divisor of each axis.
    pub(super) fn see(&mut self, expr: &Expr, extents: &[u64]) {
        expr.cuts(&mut |axis, by| {
            let Some(&extent) = extents.get(axis) else {
                return;
            };
            if 1 < by && by < extent && extent % by == 0 {
                let known = self.0.entry(axis).or_insert(by);
                *known = (*known).min(by);
            }
        });
    }
}
