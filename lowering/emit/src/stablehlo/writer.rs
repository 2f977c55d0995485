//! The writer of a computation, as a function or as the body of a region.

use super::literal;
use super::shardings::Named;
use super::types::{symbol, ty};
use super::windows::HANDED_WINDOWS;
use crate::codes;
use crate::hlo::{Inside, Line, Written, attr, parsed};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Diagnostic, Func};
use optc_layout::XlaShape;
use std::fmt::Write;

pub(super) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// A value: its name in MLIR and its shape.
#[derive(Clone)]
pub(super) struct Leaf {
    pub(super) name: String,
    pub(super) shape: XlaShape,
}

/// The state of the functions that are being written.
pub(super) struct Writer<'a> {
    pub(super) computations: &'a IndexMap<&'a str, &'a Written>,
    symbols: &'a IndexMap<String, String>,
    /// The mesh of the module.
    pub(super) mesh: Option<&'a Named>,
    /// The next number for a value name.
    next: usize,
    /// The names of arguments.
    taken: IndexSet<String>,
    /// Scalar constants that are not written yet, with their elements. They are written at their use.
    waiting: IndexMap<String, String>,
    /// The shapes of tuple instructions in the current computation, by name.
    pub(super) shapes: IndexMap<String, XlaShape>,
    depth: usize,
    pub(super) out: String,
}

/// The values of a computation by the names of its instructions.
pub(super) type Names = IndexMap<String, Vec<Leaf>>;

/// The computations that an instruction calls as functions.
pub(super) fn callees(line: &Line) -> Vec<&str> {
    match &line.inside {
        Inside::Verbatim { computations, .. } => computations.iter().map(String::as_str).collect(),
        Inside::Operands(operands)
            if line.opcode == "reduce-window" && operands.len() == HANDED_WINDOWS =>
        {
            let applied = attr(&line.attrs, "to_apply").map(|name| name.trim_start_matches('%'));
            applied.into_iter().collect()
        }
        _ if matches!(&*line.opcode, "call" | "fusion") => {
            let called = attr(&line.attrs, "to_apply").or_else(|| attr(&line.attrs, "calls"));
            called
                .map(|name| name.trim_start_matches('%'))
                .into_iter()
                .collect()
        }
        _ => Vec::new(),
    }
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        computations: &'a IndexMap<&'a str, &'a Written>,
        symbols: &'a IndexMap<String, String>,
        mesh: Option<&'a Named>,
    ) -> Self {
        Writer {
            computations,
            symbols,
            mesh,
            next: 0,
            taken: IndexSet::new(),
            waiting: IndexMap::new(),
            shapes: IndexMap::new(),
            depth: 2,
            out: String::new(),
        }
    }

    /// The symbol of a computation that is a function.
    pub(super) fn symbol(&self, name: &str) -> String {
        let name = name.trim_start_matches('%');
        symbol(self.symbols.get(name).map_or(name, String::as_str))
    }

    pub(super) fn function(
        mut self,
        made: &Written,
        func: Option<&Func>,
        entry: bool,
    ) -> Outcome<String> {
        let mut names = Names::new();
        let mut args = Vec::new();
        for (name, shape) in &made.parameters {
            let shape = parsed(shape);
            let parts = shape.parts();
            let mut leaves = Vec::with_capacity(parts.len());
            for part in &parts {
                let text = self.argument(name, args.len());
                let attrs = self.port(func, args.len(), false);
                args.push(format!("{text}: {}{attrs}", self.boundary(part)?));
                leaves.push(Leaf {
                    name: text,
                    shape: (*part).clone(),
                });
            }
            names.insert(name.clone(), leaves);
        }
        let result = parsed(&made.result);
        let mut results = Vec::new();
        for (number, part) in result.parts().into_iter().enumerate() {
            let attrs = self.port(func, number, true);
            results.push(format!("{}{attrs}", self.boundary(part)?));
        }
        let visibility = if entry { "public" } else { "private" };
        let symbol = self.symbol(&made.name);
        self.lines(made, &mut names)?;
        let leaves = self.leaves(&names, &made.root)?;
        let body = std::mem::take(&mut self.out);
        let given: Vec<&str> = leaves.iter().map(|leaf| leaf.name.as_str()).collect();
        let types: Vec<String> = leaves.iter().map(|leaf| ty(&leaf.shape)).collect();
        let mut out = format!("  func.func {visibility} @{symbol}({})", args.join(", "));
        if !results.is_empty() {
            let _ = write!(out, " -> ({})", results.join(", "));
        }
        let _ = write!(out, " {{\n{body}    return");
        if !given.is_empty() {
            let _ = write!(out, " {} : {}", given.join(", "), types.join(", "));
        }
        out.push_str("\n  }\n");
        Ok(out)
    }

    /// The type of an argument or result of a function.
    fn boundary(&self, shape: &XlaShape) -> Outcome<String> {
        match shape {
            XlaShape::Opaque | XlaShape::Tuple(_) => Err(refuse("a value without a type in MLIR")),
            XlaShape::Array(_) | XlaShape::Buffer(_) | XlaShape::Token => Ok(ty(shape)),
        }
    }

    /// The name of an argument: its own name if that is valid in MLIR and no number.
    fn argument(&mut self, wanted: &str, number: usize) -> String {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '$' | '.' | '-');
        let starts = wanted.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_');
        let mut name = format!("%arg{number}");
        if starts && wanted.chars().all(fits) {
            name = format!("%{wanted}");
        }
        while !self.taken.insert(name.clone()) {
            name.push('_');
        }
        name
    }

    /// A name for a new value.
    pub(super) fn fresh(&mut self) -> String {
        self.next += 1;
        format!("%{}", self.next - 1)
    }

    pub(super) fn number(&self) -> usize {
        self.next
    }

    /// The indentation of a line.
    pub(super) fn indent(&self) -> String {
        "  ".repeat(self.depth)
    }

    /// The values of an instruction; scalar constants among them are written first.
    pub(super) fn leaves(&mut self, names: &Names, name: &str) -> Outcome<Vec<Leaf>> {
        let Some(leaves) = names.get(name) else {
            return Err(refuse(&format!("`{name}` is used where it is not known")));
        };
        let leaves = leaves.clone();
        for leaf in &leaves {
            if let Some(value) = self.waiting.shift_remove(&leaf.name) {
                let indent = self.indent();
                let _ = writeln!(
                    self.out,
                    "{indent}{} = stablehlo.constant {value} : {}",
                    leaf.name,
                    ty(&leaf.shape)
                );
            }
        }
        Ok(leaves)
    }

    /// Writes the instructions of a computation.
    pub(super) fn lines(&mut self, made: &Written, names: &mut Names) -> Outcome<()> {
        let outer = std::mem::take(&mut self.shapes);
        for line in &made.lines {
            if line.shape.starts_with('(') {
                self.shapes.insert(line.name.clone(), parsed(&line.shape));
            }
            if line.opcode == "parameter" {
                continue;
            }
            let leaves = self.line(line, names)?;
            names.insert(line.name.clone(), leaves);
        }
        self.shapes = outer;
        Ok(())
    }

    /// The body of a region. Its parameters are the values `given`, or become block arguments.
    pub(super) fn region(&mut self, name: &str, given: Option<&[Vec<Leaf>]>) -> Outcome<String> {
        self.region_of(name, given, &[], false)
    }

    /// A region of a loop. The values `fixed` are captured; with `drop` they are removed from the results.
    pub(super) fn turn(
        &mut self,
        name: &str,
        fixed: &[Option<Leaf>],
        drop: bool,
    ) -> Outcome<String> {
        self.region_of(name, None, fixed, drop)
    }

    fn region_of(
        &mut self,
        name: &str,
        given: Option<&[Vec<Leaf>]>,
        fixed: &[Option<Leaf>],
        drop: bool,
    ) -> Outcome<String> {
        let name = name.trim_start_matches('%');
        let Some(&made) = self.computations.get(name) else {
            return Err(refuse(&format!("the computation `{name}` is missing")));
        };
        if 64 < self.depth {
            return Err(refuse("regions that nest more deeply than 32 levels"));
        }
        let mut names = Names::new();
        let mut args = Vec::new();
        for (number, (parameter, shape)) in made.parameters.iter().enumerate() {
            let leaves = match given {
                Some(given) => given.get(number).cloned().unwrap_or_default(),
                None => {
                    let shape = parsed(shape);
                    let parts = shape.parts().into_iter().enumerate();
                    parts
                        .map(|(i, part)| {
                            if let Some(Some(leaf)) = fixed.get(i) {
                                return leaf.clone();
                            }
                            let name = self.fresh();
                            args.push(format!("{name}: {}", ty(part)));
                            Leaf {
                                name,
                                shape: part.clone(),
                            }
                        })
                        .collect()
                }
            };
            names.insert(parameter.clone(), leaves);
        }
        let outer = std::mem::take(&mut self.out);
        // Deferred constants of the outer scope must not be written inside of the region.
        let waiting = std::mem::take(&mut self.waiting);
        self.depth += 1;
        self.lines(made, &mut names)?;
        let mut leaves = self.leaves(&names, &made.root)?;
        if drop {
            let mut stays = fixed.iter().map(Option::is_none);
            leaves.retain(|_| stays.next().unwrap_or(true));
        }
        let given: Vec<&str> = leaves.iter().map(|leaf| leaf.name.as_str()).collect();
        let types: Vec<String> = leaves.iter().map(|leaf| ty(&leaf.shape)).collect();
        let indent = self.indent();
        self.depth -= 1;
        let label = if args.is_empty() {
            String::new()
        } else {
            format!("{}^bb0({}):\n", self.indent(), args.join(", "))
        };
        let body = std::mem::replace(&mut self.out, outer);
        self.waiting = waiting;
        let end = if given.is_empty() {
            "stablehlo.return".to_owned()
        } else {
            format!(
                "stablehlo.return {} : {}",
                given.join(", "),
                types.join(", ")
            )
        };
        Ok(format!(
            "{{\n{label}{body}{indent}{end}\n{}}}",
            self.indent()
        ))
    }

    /// Writes a constant. A scalar is deferred until its use, which may become a splat constant.
    pub(super) fn constant(&mut self, line: &Line) -> Outcome<Vec<Leaf>> {
        let shape = parsed(&line.shape);
        let Some(array) = shape.as_array() else {
            return Err(refuse("a constant that is no array"));
        };
        let text = match &line.inside {
            Inside::Elements(tensor) => literal::elements(tensor, array.element),
            Inside::Payload(text) if text.contains("...") => {
                format!("dense_resource<{}>", symbol(&line.name))
            }
            Inside::Payload(text) => literal::converted(text, array.element),
            Inside::Operands(_) | Inside::Verbatim { .. } => {
                return Err(refuse("a constant without elements"));
            }
        };
        let name = self.fresh();
        if array.dims.is_empty() {
            self.waiting.insert(name.clone(), text);
        } else {
            let indent = self.indent();
            let _ = writeln!(
                self.out,
                "{indent}{name} = stablehlo.constant {text} : {}",
                ty(&shape)
            );
        }
        Ok(vec![Leaf { name, shape }])
    }

    /// A splat constant, if the operand of a broadcast is a deferred constant.
    pub(super) fn filled(
        &mut self,
        operand: &Leaf,
        shape: &XlaShape,
        known: &[Leaf],
    ) -> Option<Leaf> {
        let value = self
            .waiting
            .get(&known.first()?.name)
            .filter(|_| known.len() == 1)?;
        let text = format!("stablehlo.constant {value} : {}", ty(shape));
        debug_assert_eq!(operand.name, known[0].name);
        let name = self.fresh();
        let indent = self.indent();
        let _ = writeln!(self.out, "{indent}{name} = {text}");
        Some(Leaf {
            name,
            shape: shape.clone(),
        })
    }

    /// The attribute dictionary of a port, preceded by a space.
    fn port(&self, func: Option<&Func>, number: usize, result: bool) -> String {
        let kept = kept(func, number, result).unwrap_or_default();
        let split = func
            .zip(self.mesh)
            .filter(|_| !kept.contains("sdy.sharding"));
        let split = split.and_then(|(func, mesh)| mesh.port(func, number, result));
        let Some(split) = split else {
            return if kept.is_empty() {
                String::new()
            } else {
                format!(" {kept}")
            };
        };
        let inside = kept.trim_start_matches('{').trim_end_matches('}');
        let comma = if inside.is_empty() { "" } else { ", " };
        format!(" {{{inside}{comma}sdy.sharding = {split}}}")
    }
}

/// The error that StableHLO cannot express something.
pub(super) fn refuse(what: &str) -> Box<Diagnostic> {
    let message = format!("StableHLO cannot write {what}");
    Box::new(Diagnostic::error(codes::STABLEHLO_OP, message))
}

/// The attributes of a port that were kept as text.
fn kept(func: Option<&Func>, number: usize, result: bool) -> Option<&str> {
    let ports = func.map(|f| {
        if result {
            &f.result_ports
        } else {
            &f.arg_ports
        }
    });
    let port = ports.and_then(|ports| ports.get(number));
    port?.attrs.str("stablehlo.attrs")
}
