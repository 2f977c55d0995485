//! A pass's statement about a fold: the place of each live value of the original in the folded program.
//!
//! For example, these lines state that operation 3 became operation 5, and that the result of operation 4 is that of
//! operation 7, a view of the result of operation 5:
//!
//! ```text
//! op 3 = 5
//! 3.0 = 5.0 : {order = [1, 0]} of 5.0
//! 4.0 = 7.0 : row-major of 5.0 by [4, 8] perm [1, 0] to [8, 4]
//! ```

use crate::codes;
use crate::stats::leaves_space;
use crate::target::{encoding, ports, same_layout};
use optc_ir::entity::SideTable;
use optc_ir::{
    Diagnostic, Dim, FreedomClass, Func, Module, Op, Registry, Structure, Value, ValueDef,
};
use std::fmt;
use std::fmt::Write as _;

/// A value named by its place. Names and numbers of values are no part of what a program computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValuePosition {
    /// An argument of the function, counted from 0.
    Arg(usize),
    /// A result of an operation: the position of the operation in the body, and the number of the result.
    Result(usize, usize),
}

impl fmt::Display for ValuePosition {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ValuePosition::Arg(i) => write!(f, "a{i}"),
            ValuePosition::Result(op, i) => write!(f, "{op}.{i}"),
        }
    }
}

impl ValuePosition {
    fn parse(text: &str) -> Option<ValuePosition> {
        if let Some(arg) = text.strip_prefix('a') {
            return Some(ValuePosition::Arg(arg.parse().ok()?));
        }
        let (op, result) = text.split_once('.')?;
        Some(ValuePosition::Result(
            op.parse().ok()?,
            result.parse().ok()?,
        ))
    }

    /// The value at this place; `None` if the function has none.
    #[must_use]
    pub fn value(self, func: &Func) -> Option<Value> {
        match self {
            ValuePosition::Arg(i) => func.args.get(i).copied(),
            ValuePosition::Result(op, i) => {
                let &op = func.body.get(op)?;
                func.ops[op].results.get(i).copied()
            }
        }
    }
}

/// The places of the values of one function.
pub(crate) struct Places {
    position: SideTable<Op, usize>,
}

impl Places {
    pub(crate) fn new(func: &Func) -> Places {
        let mut position = SideTable::new(usize::MAX);
        for (i, &op) in func.body.iter().enumerate() {
            position[op] = i;
        }
        Places { position }
    }

    /// The place of a value; `None` if its operation is not in the body.
    pub(crate) fn of(&self, func: &Func, value: Value) -> Option<ValuePosition> {
        match func.values[value].def {
            ValueDef::Arg(i) => Some(ValuePosition::Arg(i)),
            ValueDef::Result(op, i) => {
                let at = self.position[op];
                (at != usize::MAX).then_some(ValuePosition::Result(at, i))
            }
        }
    }

    pub(crate) fn position(&self, op: Op) -> usize {
        self.position[op]
    }
}

/// A value of the original and a value of the folded program that has the same elements at the same indices.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The value of the original.
    pub value: ValuePosition,
    /// The value that holds it.
    pub by: ValuePosition,
    /// The layout of `by`, as text.
    pub layout: String,
    /// The source of the elements: an argument, a constant or the result of an operation that computes.
    pub root: ValuePosition,
    /// The rearrangements from `root` to `by`, as text; empty if `by` is `root` or a conversion of it.
    pub map: Vec<String>,
}

/// An argument or a result of a function, counted from 0.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum End {
    /// An argument.
    Arg(usize),
    /// A result.
    Result(usize),
}

impl fmt::Display for End {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            End::Arg(i) => write!(f, "a{i}"),
            End::Result(i) => write!(f, "r{i}"),
        }
    }
}

impl End {
    fn parse(text: &str) -> Option<End> {
        match text.strip_prefix('a') {
            Some(i) => Some(End::Arg(i.parse().ok()?)),
            None => Some(End::Result(text.strip_prefix('r')?.parse().ok()?)),
        }
    }

    /// The value that a function takes or returns at this end.
    #[must_use]
    pub fn value(self, func: &Func) -> Option<Value> {
        match self {
            End::Arg(i) => func.args.get(i).copied(),
            End::Result(i) => func.results.get(i).copied(),
        }
    }
}

/// A pass's statement about one function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FuncWitness {
    /// The name of the function, special characters escaped.
    pub name: String,
    /// The arguments and results that need not keep the layouts that the original declares: `None` for a free one, else
    /// the layout that was asked for, as text.
    pub boundary: Vec<(End, Option<String>)>,
    /// Operations that compute, by their positions: in the original, in the folded function.
    pub operations: Vec<(usize, usize)>,
    /// The live values: operands and results of operations that compute, and the values that the function returns.
    pub values: Vec<Holder>,
}

/// A pass's statement about a fold, function by function.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Witness {
    /// In the order of the module.
    pub funcs: Vec<FuncWitness>,
}

/// The kinds of operations that a proof about places distinguishes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// It writes the same elements in another layout of the same memory space.
    Convert,
    /// Its result has the elements of its operand at other indices.
    Rearrange,
    /// It has no operands and gives the same result each time.
    Constant,
    /// Anything else, moves into another memory space included.
    Compute,
}

fn kind(func: &Func, op: Op, registry: &Registry) -> Kind {
    let data = &func.ops[op];
    let Some(decl) = registry.get(&data.name) else {
        return Kind::Compute;
    };
    if registry.structure(&data.name) == Structure::Convert && !leaves_space(func, op) {
        return Kind::Convert;
    }
    match decl.freedom(&func.op_ref(op)).class {
        FreedomClass::Rearrange => Kind::Rearrange,
        FreedomClass::Source if data.operands.is_empty() => Kind::Constant,
        _ => Kind::Compute,
    }
}

/// The kind of each operation of one function. Each is determined once: a split into many parts is looked up for every
/// part.
pub(crate) struct Kinds<'a> {
    func: &'a Func,
    registry: &'a Registry,
    of: SideTable<Op, Kind>,
}

impl<'a> Kinds<'a> {
    pub(crate) fn new(func: &'a Func, registry: &'a Registry) -> Kinds<'a> {
        let mut of = SideTable::new(Kind::Compute);
        for &op in &func.body {
            of[op] = kind(func, op, registry);
        }
        Kinds { func, registry, of }
    }

    pub(crate) fn of(&self, op: Op) -> Kind {
        self.of[op]
    }

    /// The source of a value's elements, and the rearrangements from the source to the value.
    pub(crate) fn origin(&self, value: Value) -> (Value, Vec<String>) {
        let func = self.func;
        let (mut at, mut steps) = (value, Vec::new());
        while let Some(op) = func.def_op(at) {
            match self.of(op) {
                Kind::Convert => {}
                Kind::Rearrange => steps.push(step(func, op, self.registry)),
                Kind::Constant | Kind::Compute => break,
            }
            let Some(&operand) = func.ops[op].operands.first() else {
                break;
            };
            at = operand;
        }
        steps.reverse();
        (at, steps)
    }
}

fn step(func: &Func, op: Op, registry: &Registry) -> String {
    let dims = |dims: &[Dim]| {
        let all: Vec<String> = dims.iter().map(ToString::to_string).collect();
        format!("[{}]", all.join(", "))
    };
    let result = func.ops[op].results.first();
    let result = result
        .and_then(|&v| func.ty(v).as_tensor())
        .map_or(&[][..], |ty| &ty.dims);
    match registry.rearrangement(&func.op_ref(op)) {
        Ok(view) => format!(
            "{} perm {:?} to {}",
            dims(&view.shape),
            view.perm,
            dims(result)
        ),
        Err(_) => format!("to {}", dims(result)),
    }
}

impl FuncWitness {
    /// The witness for pairs of operations and of values, in any order. Of the operations only those that compute are
    /// stated.
    #[must_use]
    pub fn of(
        original: &Func,
        folded: &Func,
        registry: &Registry,
        operations: &[(Op, Op)],
        values: &[(Value, Value)],
    ) -> FuncWitness {
        let (left, right) = (Places::new(original), Places::new(folded));
        let computes = [Kinds::new(original, registry), Kinds::new(folded, registry)];
        let named = |&&(a, b): &&(Op, Op)| {
            let both = [computes[0].of(a), computes[1].of(b)];
            both == [Kind::Compute; 2]
        };
        let mut pairs: Vec<(usize, usize)> = operations
            .iter()
            .filter(named)
            .map(|&(a, b)| (left.position(a), right.position(b)))
            .filter(|&(a, b)| a != usize::MAX && b != usize::MAX)
            .collect();
        pairs.sort_unstable();
        let mut held: Vec<(ValuePosition, ValuePosition, Value)> = values
            .iter()
            .filter_map(|&(a, b)| Some((left.of(original, a)?, right.of(folded, b)?, b)))
            .collect();
        held.sort_by_key(|&(a, b, _)| (a, b));
        held.dedup();
        let [_, kinds] = computes;
        let holder = |(value, by, at): (ValuePosition, ValuePosition, Value)| {
            let (root, map) = kinds.origin(at);
            Some(Holder {
                value,
                by,
                layout: encoding(folded, at),
                root: right.of(folded, root)?,
                map,
            })
        };
        FuncWitness {
            name: original.name.escape_default().to_string(),
            boundary: Vec::new(),
            operations: pairs,
            values: held.into_iter().filter_map(holder).collect(),
        }
    }

    /// Adds statements about arguments and results, each with whether it is free. An end that is not free keeps its
    /// layout, or has the layout that was asked for.
    #[must_use]
    pub fn with_boundary(mut self, original: &Func, folded: &Func, ends: &[(End, bool)]) -> Self {
        let state = |&(end, free): &(End, bool)| {
            let (a, b) = (end.value(original)?, end.value(folded)?);
            match free {
                true => Some((end, None)),
                false if same_layout(original, a, folded, b) => None,
                false => Some((end, Some(encoding(folded, b)))),
            }
        };
        self.boundary = ends.iter().filter_map(state).collect();
        self.boundary.sort();
        self
    }

    /// The witness of two functions whose operations that compute are the same in the same order, as after a fold that
    /// leaves them in place.
    #[must_use]
    pub fn in_step(original: &Func, folded: &Func, registry: &Registry) -> FuncWitness {
        let computing = |func: &Func| -> Vec<Op> {
            let kinds = Kinds::new(func, registry);
            let computes = |&op: &Op| kinds.of(op) == Kind::Compute;
            func.body.iter().copied().filter(computes).collect()
        };
        let pairs: Vec<(Op, Op)> = computing(original)
            .into_iter()
            .zip(computing(folded))
            .collect();
        let mut values: Vec<(Value, Value)> = Vec::new();
        let boundary = |f: &Func| f.args.iter().chain(&f.results).copied().collect::<Vec<_>>();
        values.extend(boundary(original).into_iter().zip(boundary(folded)));
        for &(a, b) in &pairs {
            values.extend(ports(original, a).into_iter().zip(ports(folded, b)));
        }
        FuncWitness::of(original, folded, registry, &pairs, &values)
    }

    fn write(&self, text: &mut String) {
        let _ = writeln!(text, "func @{}", self.name);
        for (end, layout) in &self.boundary {
            let layout = layout.as_deref().unwrap_or(FREE);
            let _ = writeln!(text, "boundary {end} = {layout}");
        }
        for (a, b) in &self.operations {
            let _ = writeln!(text, "op {a} = {b}");
        }
        for held in &self.values {
            let _ = write!(
                text,
                "{} = {} : {} of {}",
                held.value, held.by, held.layout, held.root
            );
            for step in &held.map {
                let _ = write!(text, " by {step}");
            }
            text.push('\n');
        }
    }

    /// Reads one line of the text of a function.
    fn line(&mut self, line: &str) -> Option<()> {
        let (left, right) = line.split_once(" = ")?;
        if let Some(end) = left.strip_prefix("boundary ") {
            let layout = Some(right.to_owned()).filter(|layout| layout != FREE);
            self.boundary.push((End::parse(end)?, layout));
            return Some(());
        }
        if let Some(op) = left.strip_prefix("op ") {
            self.operations
                .push((op.parse().ok()?, right.parse().ok()?));
            return Some(());
        }
        let value = ValuePosition::parse(left)?;
        let (by, rest) = right.split_once(" : ")?;
        let mut parts = rest.split(" by ");
        let (layout, root) = parts.next()?.rsplit_once(" of ")?;
        self.values.push(Holder {
            value,
            by: ValuePosition::parse(by)?,
            layout: layout.to_owned(),
            root: ValuePosition::parse(root)?,
            map: parts.map(str::to_owned).collect(),
        });
        Some(())
    }
}

/// The word in place of a layout for an argument or result that may have any layout.
const FREE: &str = "free";

impl Witness {
    /// The witness of two modules, function by function, see [`FuncWitness::in_step`].
    #[must_use]
    pub fn in_step(original: &Module, folded: &Module, registry: &Registry) -> Witness {
        let both = original.funcs.iter().zip(&folded.funcs);
        Witness {
            funcs: both
                .map(|(a, b)| FuncWitness::in_step(a, b, registry))
                .collect(),
        }
    }

    /// Prints the lines of a certificate.
    #[must_use]
    pub fn to_text(&self) -> String {
        let mut text = String::new();
        self.funcs.iter().for_each(|func| func.write(&mut text));
        text
    }

    /// Reads the lines of a certificate.
    ///
    /// # Errors
    /// A line is not a line of a witness.
    pub fn from_text<'t>(lines: impl Iterator<Item = &'t str>) -> Result<Witness, Box<Diagnostic>> {
        let mut witness = Witness::default();
        for line in lines {
            let read = match (line.strip_prefix("func @"), witness.funcs.last_mut()) {
                (Some(name), _) => {
                    witness.funcs.push(FuncWitness {
                        name: name.to_owned(),
                        ..FuncWitness::default()
                    });
                    Some(())
                }
                (None, Some(func)) => func.line(line),
                (None, None) => None,
            };
            if read.is_none() {
                let message = format!(
                    "found `{line}`, wanted `func @NAME`, `op N = N` or `VALUE = VALUE : LAYOUT of VALUE`"
                );
                return Err(Box::new(Diagnostic::error(
                    codes::CERTIFICATE_SYNTAX,
                    message,
                )));
            }
        }
        Ok(witness)
    }
}
