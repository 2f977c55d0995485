//! Instructions and computations in a form that is independent of the text syntax.

use super::attrs::attr;
use indexmap::{IndexMap, IndexSet};
use optc_ir::Tensor;
use optc_layout::XlaShape;
use optc_target::Precision;
use std::fmt;

/// The contents of the parentheses of an instruction.
pub(crate) enum Inside {
    /// The names of operands.
    Operands(Vec<String>),
    /// The number of a parameter, or the literal of a constant.
    Payload(String),
    /// The elements of a constant, for a syntax that has its own form of literals.
    Elements(Tensor),
    /// The text of an operation that is kept unchanged, its operands, and the computations that it names.
    Verbatim {
        text: String,
        operands: Vec<String>,
        computations: Vec<String>,
    },
}

/// Parses the text of a shape.
pub(crate) fn parsed(text: &str) -> XlaShape {
    XlaShape::parse(text).unwrap_or(XlaShape::Opaque)
}

/// One instruction.
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) shape: String,
    pub(crate) opcode: String,
    pub(crate) inside: Inside,
    /// `, key=value, …`
    pub(crate) attrs: String,
}

/// One computation.
pub(crate) struct Written {
    pub(crate) name: String,
    pub(crate) entry: bool,
    /// Names and shapes.
    pub(crate) parameters: Vec<(String, String)>,
    pub(crate) result: String,
    pub(crate) lines: Vec<Line>,
    /// The name of the result.
    pub(crate) root: String,
    /// The execution thread.
    pub(crate) thread: Option<String>,
}

impl Written {
    /// States the precision of products of f32; what they state beyond XLA's default stays.
    pub(crate) fn state_precision(&mut self, precision: Precision) {
        let made = self.lines.iter().map(|line| (&line.name, &line.shape));
        let given = self.parameters.iter().map(|(name, shape)| (name, shape));
        let is_f32 = |(name, shape): (&String, &String)| -> Option<String> {
            shape.starts_with("f32[").then(|| name.clone())
        };
        let singles: IndexSet<String> = given.chain(made).filter_map(is_f32).collect();
        for line in &mut self.lines {
            let Inside::Operands(operands) = &line.inside else {
                continue;
            };
            let product = matches!(&*line.opcode, "dot" | "convolution");
            if !product || !operands.iter().all(|name| singles.contains(name)) {
                continue;
            }
            let word = precision.xla();
            let wanted = format!(", operand_precision={{{word},{word}}}");
            match attr(&line.attrs, "operand_precision") {
                None => line.attrs.push_str(&wanted),
                Some(stated) if stated.contains("high") => {}
                Some(stated) => {
                    let stated = format!(", operand_precision={stated}");
                    line.attrs = line.attrs.replacen(&stated, &wanted, 1);
                }
            }
        }
    }
}

impl Line {
    fn operands_mut(&mut self) -> &mut [String] {
        match &mut self.inside {
            Inside::Operands(names)
            | Inside::Verbatim {
                operands: names, ..
            } => names,
            Inside::Payload(_) | Inside::Elements(_) => &mut [],
        }
    }
}

/// Returns whether attributes say nothing but the place in the source.
fn is_metadata(attrs: &str) -> bool {
    attrs.is_empty() || attrs.starts_with(", metadata=")
}

impl Written {
    /// The computation without each `convert` to the type that its operand has already. An operand that has no metadata
    /// takes those of the `convert`.
    pub(crate) fn without_idle_converts(mut self) -> Written {
        let mut at: IndexMap<String, usize> = IndexMap::new();
        let mut same: IndexMap<String, String> = IndexMap::new();
        let mut kept: Vec<Line> = Vec::with_capacity(self.lines.len());
        for mut line in self.lines {
            for name in line.operands_mut() {
                if let Some(other) = same.get(name) {
                    name.clone_from(other);
                }
            }
            if line.opcode == "convert"
                && let [operand] = line.operands_mut()
                && let Some(&of) = at.get(operand)
                && kept[of].shape == line.shape
                && (kept[of].attrs.is_empty() || is_metadata(&line.attrs))
            {
                if kept[of].attrs.is_empty() {
                    kept[of].attrs = line.attrs;
                }
                same.insert(line.name, kept[of].name.clone());
                continue;
            }
            at.insert(line.name.clone(), kept.len());
            kept.push(line);
        }
        if let Some(other) = same.get(&self.root) {
            self.root.clone_from(other);
        }
        self.lines = kept;
        self
    }
}

impl fmt::Display for Line {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Line {
            name,
            shape,
            opcode,
            attrs,
            ..
        } = self;
        write!(f, "%{name} = {shape} {opcode}(")?;
        match &self.inside {
            Inside::Operands(names)
            | Inside::Verbatim {
                operands: names, ..
            } => {
                for (i, operand) in names.iter().enumerate() {
                    let comma = if i == 0 { "" } else { ", " };
                    write!(f, "{comma}%{operand}")?;
                }
            }
            Inside::Payload(text) => f.write_str(text)?,
            Inside::Elements(tensor) => f.write_str(&super::number::literal(tensor))?,
        }
        write!(f, "){attrs}")
    }
}

impl fmt::Display for Written {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let entry = if self.entry { "ENTRY " } else { "" };
        write!(f, "{entry}%{} (", self.name)?;
        for (i, (name, shape)) in self.parameters.iter().enumerate() {
            let comma = if i == 0 { "" } else { ", " };
            write!(f, "{comma}{name}: {}", plain(shape))?;
        }
        writeln!(f, ") -> {} {{", plain(&self.result))?;
        for line in &self.lines {
            let root = if line.name == self.root { "ROOT " } else { "" };
            writeln!(f, "  {root}{line}")?;
        }
        f.write_str("}")?;
        if let Some(thread) = &self.thread {
            write!(f, ", execution_thread={thread}")?;
        }
        f.write_str("\n")
    }
}

/// A shape without its layouts.
fn plain(shape: &str) -> String {
    let mut depth = 0usize;
    let mut out = String::with_capacity(shape.len());
    for c in shape.chars() {
        match c {
            '{' => depth += 1,
            '}' => depth = depth.saturating_sub(1),
            c if depth == 0 => out.push(c),
            _ => {}
        }
    }
    out
}
