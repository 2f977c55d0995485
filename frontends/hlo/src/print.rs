//! Prints a module in XLA's own text.
//!
//! Names are made unique over the whole module. Attributes are in XLA's order, without those that have their default.
//! Comments are dropped. Printing the printed text again gives the same text.

use crate::module::{Computation, HloModule, Instruction};
use crate::opcode::{COMMON, Opcode};
use indexmap::{IndexMap, IndexSet};
use optc_layout::{XlaArray, XlaShape, XlaType};
use std::fmt::Write;

/// Makes names unique: `x`, then `x.1`.
#[derive(Default)]
struct Names(IndexMap<String, (IndexSet<u64>, u64)>);

impl Names {
    fn unique(&mut self, name: &str) -> String {
        let split = name
            .rsplit_once('.')
            .and_then(|(root, n)| Some((root, n.parse::<u64>().ok()?)))
            .filter(|(root, _)| !root.is_empty());
        let (root, number) = split.unwrap_or((name, 0));
        let (used, next) = self.0.entry(root.to_owned()).or_default();
        let mut given = number;
        if !used.insert(number) {
            while !used.insert(*next) {
                *next += 1;
            }
            given = *next;
            *next += 1;
        }
        match given {
            0 if split.is_none() => root.to_owned(),
            _ => format!("{root}.{given}"),
        }
    }
}

/// An instruction as XLA prints it, without its operands' shapes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedInstruction {
    /// The unique name.
    pub name: String,
    /// True if it is the computation's result.
    pub root: bool,
    /// The shape.
    pub shape: String,
    /// The opcode; an asynchronous call of a single instruction has that instruction's name.
    pub opcode: String,
    /// The operands' names.
    pub operands: Vec<String>,
    /// The text between the parentheses instead of operands.
    pub payload: Option<String>,
    /// The attributes in order, with their texts.
    pub attrs: Vec<(String, String)>,
}

/// A computation as XLA prints it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PrintedComputation {
    /// The unique name.
    pub name: String,
    /// True if it is the entry.
    pub entry: bool,
    /// The instructions.
    pub instructions: Vec<PrintedInstruction>,
    /// Names and shapes of the parameters.
    pub parameters: Vec<(String, String)>,
    /// The result's shape without layouts.
    pub result: String,
    /// The attributes after the closing brace.
    pub attrs: Vec<(String, String)>,
}

/// The module's computations as XLA prints them.
#[must_use]
pub fn printed(module: &HloModule) -> Vec<PrintedComputation> {
    let mut names = (Names::default(), Names::default());
    let mut computations: Vec<String> = Vec::new();
    let mut instructions: Vec<Vec<String>> = Vec::new();
    for computation in &module.computations {
        computations.push(names.0.unique(computation.name));
        let list = computation.instructions.iter();
        instructions.push(list.map(|i| names.1.unique(&i.name)).collect());
    }
    let printer = Printer {
        module,
        computations,
        instructions,
    };
    let sugared = printer.sugared();
    let kept = (0..module.computations.len()).filter(|i| !sugared.contains(i));
    kept.map(|i| printer.computation(i)).collect()
}

struct Printer<'a> {
    module: &'a HloModule<'a>,
    computations: Vec<String>,
    instructions: Vec<Vec<String>>,
}

impl Printer<'_> {
    /// Computations that are printed as a part of the instruction that starts them.
    fn sugared(&self) -> IndexSet<usize> {
        let all = self
            .module
            .computations
            .iter()
            .flat_map(|c| &c.instructions);
        let started = all.filter(|i| i.opcode == "async-start");
        started.filter_map(|i| self.wrapped(i)).collect()
    }

    /// The computation of an `async-start`, if it is a single instruction on its parameters.
    fn wrapped(&self, start: &Instruction) -> Option<usize> {
        let &index = start.called("calls")?.first()?;
        let computation = self.module.computations.get(index)?;
        let others = computation.instructions.iter().enumerate();
        let single = others
            .filter(|(i, _)| *i != computation.root)
            .all(|(_, i)| i.opcode == "parameter");
        let in_order = computation.root().operands == computation.parameters();
        (single && in_order && computation.root().opcode != "parameter").then_some(index)
    }

    fn computation(&self, index: usize) -> PrintedComputation {
        let computation = &self.module.computations[index];
        let names = &self.instructions[index];
        let parameter = |i: usize| {
            let shape = &computation.instructions[i].shape;
            (names[i].clone(), shape.text_without_layouts())
        };
        let attr = |(k, v): (&str, &str)| (k.to_owned(), v.to_owned());
        PrintedComputation {
            name: self.computations[index].clone(),
            entry: index == self.module.entry,
            instructions: (0..computation.instructions.len())
                .map(|i| self.instruction(computation, names, i))
                .collect(),
            parameters: computation
                .parameters()
                .into_iter()
                .map(parameter)
                .collect(),
            result: computation.root().shape.text_without_layouts(),
            attrs: computation.attrs.iter().map(attr).collect(),
        }
    }

    fn instruction(
        &self,
        computation: &Computation,
        names: &[String],
        index: usize,
    ) -> PrintedInstruction {
        let made = &computation.instructions[index];
        let (opcode, inner) = self.spelled(computation, made);
        let mut attrs = self.attributes(inner.unwrap_or(made), computation);
        if inner.is_some() {
            let common = self.attributes(made, computation);
            attrs.retain(|(name, _)| !COMMON.contains(&name.as_str()));
            let outer = common.into_iter().filter(|(name, _)| {
                COMMON.contains(&name.as_str()) || name == "async_execution_thread"
            });
            attrs.extend(outer);
        }
        if opcode.ends_with("-done") || opcode.ends_with("-update") {
            attrs.retain(|(name, _)| name != "calls");
        }
        PrintedInstruction {
            name: names[index].clone(),
            root: index == computation.root,
            shape: printed_shape(made),
            opcode,
            operands: made.operands.iter().map(|&o| names[o].clone()).collect(),
            payload: made.payload.as_deref().map(str::to_owned),
            attrs,
        }
    }

    /// The printed opcode, and the instruction that an asynchronous start wraps.
    fn spelled<'a>(
        &'a self,
        computation: &'a Computation<'a>,
        made: &'a Instruction<'a>,
    ) -> (String, Option<&'a Instruction<'a>>) {
        let Some(part) = made.opcode.strip_prefix("async-") else {
            return (made.opcode.to_owned(), None);
        };
        let mut start = made;
        while start.opcode != "async-start" {
            match start.operands.first() {
                Some(&o) if start.opcode.starts_with("async-") => {
                    start = &computation.instructions[o];
                }
                _ => return (made.opcode.to_owned(), None),
            }
        }
        match self.wrapped(start) {
            Some(index) => {
                let inner = self.module.computations[index].root();
                let own = (part == "start").then_some(inner);
                (format!("{}-{part}", inner.opcode), own)
            }
            None => (made.opcode.to_owned(), None),
        }
    }

    /// Attributes in XLA's order, without those that have their default.
    fn attributes(&self, made: &Instruction, computation: &Computation) -> Vec<(String, String)> {
        let order = Opcode::find(made.opcode);
        let own = order.iter().flat_map(Opcode::own).map(|(name, _)| name);
        let known: Vec<&str> = own.chain(COMMON.iter().copied()).collect();
        let (common, before): (Vec<&str>, Vec<&str>) =
            known.into_iter().partition(|name| COMMON.contains(name));
        let given: Vec<&str> = made.attrs.iter().map(|(name, _)| name).collect();
        let other = given
            .iter()
            .copied()
            .filter(|name| !before.contains(name) && !common.contains(name));
        let all: Vec<&str> = before
            .iter()
            .copied()
            .chain(other)
            .chain(common.iter().copied())
            .collect();
        let mut out = Vec::new();
        for name in all {
            let Some(text) = made.attrs.get(name) else {
                continue;
            };
            if says_nothing(made, computation, name, text) {
                continue;
            }
            out.push(match made.called(name) {
                Some(list) => self.called(made, name, list),
                None => (name.to_owned(), text.to_owned()),
            });
        }
        let pair = self.branches(made, computation);
        pair.map_or(out.clone(), |pair| {
            out.retain(|(name, _)| name != "branch_computations");
            [pair, out].concat()
        })
    }

    fn called(&self, made: &Instruction, name: &str, list: &[usize]) -> (String, String) {
        let names: Vec<String> = list
            .iter()
            .map(|&i| format!("%{}", self.computations[i]))
            .collect();
        let braced = matches!(name, "branch_computations" | "called_computations")
            || (name == "calls" && made.opcode == "custom-call");
        let text = if braced {
            format!("{{{}}}", names.join(", "))
        } else {
            names.join(", ")
        };
        (name.to_owned(), text)
    }

    /// Prints the branches of a conditional on a truth value as two attributes.
    fn branches(
        &self,
        made: &Instruction,
        computation: &Computation,
    ) -> Option<Vec<(String, String)>> {
        if made.opcode != "conditional" {
            return None;
        }
        let index = &computation.instructions[*made.operands.first()?];
        let [yes, no] = made.called("branch_computations")? else {
            return None;
        };
        if index.shape.as_array()?.element != XlaType::Pred {
            return None;
        }
        let name = |i: &usize| format!("%{}", self.computations[*i]);
        Some(vec![
            ("true_computation".to_owned(), name(yes)),
            ("false_computation".to_owned(), name(no)),
        ])
    }
}

/// The shape. XLA does not print the bits of an element for the literal of a constant.
fn printed_shape(made: &Instruction) -> String {
    if made.opcode == "constant"
        && let XlaShape::Array(array) = &*made.shape
        && let Some(notation) = &array.notation
    {
        let notation = Some(notation.with_element_bits(0));
        let array = array.clone();
        return XlaArray { notation, ..array }.to_string();
    }
    made.shape.to_string()
}

/// Returns whether an attribute has its default.
fn says_nothing(made: &Instruction, computation: &Computation, name: &str, text: &str) -> bool {
    let text = text.trim();
    match name {
        "feature_group_count" | "batch_group_count" => text == "1",
        "is_stable"
        | "indices_are_sorted"
        | "unique_indices"
        | "use_global_device_ids"
        | "constrain_layout"
        | "custom_call_has_side_effect"
        | "lower"
        | "is_host_transfer" => {
            matches!(text, "false" | "0")
        }
        "inferred_dimension" => text == "-1",
        "lhs_batch_dims"
        | "rhs_batch_dims"
        | "operand_batching_dims"
        | "start_indices_batching_dims"
        | "input_batching_dims"
        | "scatter_indices_batching_dims" => inside(text).is_empty(),
        "metadata" | "frontend_attributes" | "control-predecessors" | "statistics" | "window" => {
            inside(text).is_empty()
        }
        "operand_precision" => inside(text).split(',').all(|p| p.trim() == "default"),
        "backend_config" => text == "\"\"",
        "schedule" => text == "SCHEDULE_NONE",
        "api_version" => text == "API_VERSION_ORIGINAL",
        "async_execution_thread" => text == "\"main\"",
        "type" if made.opcode == "compare" => {
            let operand = made
                .operands
                .first()
                .map(|&o| &*computation.instructions[o].shape);
            let element = operand
                .and_then(XlaShape::as_array)
                .map(|a| a.element.name());
            let usual = match element.and_then(|name| name.bytes().next()) {
                Some(b's') => "SIGNED",
                Some(b'u' | b'p') => "UNSIGNED",
                _ => "FLOAT",
            };
            text == usual
        }
        _ => false,
    }
}

fn inside(text: &str) -> &str {
    let inner = text.strip_prefix('{').and_then(|t| t.strip_suffix('}'));
    inner.unwrap_or(text).trim()
}

/// A module in XLA's own text.
#[must_use]
pub fn print(module: &HloModule) -> String {
    let mut out = format!("HloModule {}", module.name);
    for (key, value) in module.attrs.iter() {
        let _ = write!(out, ", {key}={value}");
    }
    out.push('\n');
    for table in &module.tables {
        let _ = write!(out, "\n{table}\n");
    }
    for computation in printed(module) {
        out.push('\n');
        print_computation(&mut out, &computation);
    }
    out
}

fn print_computation(out: &mut String, computation: &PrintedComputation) {
    let entry = if computation.entry { "ENTRY " } else { "" };
    let parameter = |(name, shape): &(String, String)| format!("{name}: {shape}");
    let parameters: Vec<String> = computation.parameters.iter().map(parameter).collect();
    let _ = writeln!(
        out,
        "{entry}%{} ({}) -> {} {{",
        computation.name,
        parameters.join(", "),
        computation.result
    );
    for instruction in &computation.instructions {
        let _ = writeln!(out, "  {}", line(instruction));
    }
    out.push('}');
    for (key, value) in &computation.attrs {
        let _ = write!(out, ", {key}={value}");
    }
    out.push('\n');
}

fn line(instruction: &PrintedInstruction) -> String {
    let root = if instruction.root { "ROOT " } else { "" };
    let mut out = format!(
        "{root}%{} = {} {}(",
        instruction.name, instruction.shape, instruction.opcode
    );
    match &instruction.payload {
        Some(payload) => out.push_str(payload),
        None => {
            for (i, operand) in instruction.operands.iter().enumerate() {
                out.push_str(if i == 0 { "" } else { ", " });
                if 0 < i && i % 5 == 0 {
                    let _ = write!(out, "/*index={i}*/");
                }
                let _ = write!(out, "%{operand}");
            }
        }
    }
    out.push(')');
    for (key, value) in &instruction.attrs {
        let _ = write!(out, ", {key}={value}");
    }
    out
}
