//! The writer of one function as a computation.

use super::line::{Inside, Line, Written};
use super::shape::{dtype_name, shape_text, tensor_text};
use super::shared::{Shared, sanitized};
use super::tuple::{Tree, boundary, parameters, result};
use indexmap::{IndexMap, IndexSet};
use optc_ir::entity::SideTable;
use optc_ir::op::{OpError, OpRef, Operation, Structure, ViewDims};
use optc_ir::{AttrDict, DType, Diagnostic, Dim, Func, Loc, Op, OpData, Size, TensorType, Value};
use std::fmt::Write;

pub(super) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// A function that writes one operation and names its results.
pub(super) type WriteOp = fn(&mut Writer<'_>, Op) -> Outcome<()>;

/// The state of a computation that is being written.
pub(super) struct Writer<'a> {
    pub(super) func: &'a Func,
    pub(super) shared: &'a mut Shared,
    entry: bool,
    lines: Vec<Line>,
    /// The names of the values written so far.
    names: SideTable<Value, Option<String>>,
    /// Values that are written at their first use.
    later: IndexMap<Value, Later>,
    /// For each operation, the tuple instruction from which its results were extracted.
    tuples: IndexMap<Op, (Tree, String)>,
    taken: IndexSet<String>,
    /// Unknown sizes that are written so far, with the names of their instructions.
    pub(super) sizes: IndexMap<Size, String>,
    /// The current operation. Its last instruction gets the operation's attributes.
    op: Option<Op>,
    /// Writes an operation: at its place, or at the first use of its result.
    write_op: WriteOp,
}

enum Later {
    /// A view or a constant, which is written only if something uses it. The number is the length of the chain of
    /// unwritten operations that ends with this operation.
    Op(Op, u32),
    /// The done instruction of an asynchronous instruction.
    Done(Line),
}

/// The largest length of a chain of unwritten views.
const MAX_RUN: u32 = 64;

impl<'a> Writer<'a> {
    pub(super) fn new(
        func: &'a Func,
        shared: &'a mut Shared,
        entry: bool,
        write_op: WriteOp,
    ) -> Self {
        Self {
            func,
            shared,
            entry,
            lines: Vec::new(),
            names: SideTable::new(None),
            later: IndexMap::new(),
            tuples: IndexMap::new(),
            taken: IndexSet::new(),
            sizes: IndexMap::new(),
            op: None,
            write_op,
        }
    }

    /// Writes the computation.
    pub(super) fn text(mut self) -> Outcome<Written> {
        let params = self.parameters()?;
        for &op in &self.func.body {
            self.operation(op)?;
        }
        self.op = None;
        let mut leaves = Vec::with_capacity(self.func.results.len());
        for &value in &self.func.results {
            leaves.push(self.name(value)?);
        }
        let types: Vec<String> = self
            .func
            .results
            .iter()
            .map(|&v| shape_text(self.func.ty(v)))
            .collect::<Outcome<_>>()?;
        let tree = result(self.func);
        let root = self
            .packed(&tree, &mut leaves.into_iter(), &mut types.into_iter())
            .0;
        let (_, shape) = boundary(self.func)?;
        let name = self.shared.names[&*self.func.name].clone();
        let thread = self.func.attrs.str("hlo.execution_thread");
        let written = Written {
            name,
            entry: self.entry,
            parameters: params,
            result: shape,
            lines: self.lines,
            root,
            thread: thread.map(str::to_owned),
        };
        Ok(written.without_idle_converts())
    }

    /// Writes the parameters and returns their names and shapes for the signature.
    fn parameters(&mut self) -> Outcome<Vec<(String, String)>> {
        let (shapes, _) = boundary(self.func)?;
        let mut signature = Vec::with_capacity(shapes.len());
        let mut at = 0;
        for (number, (tree, shape)) in parameters(self.func).into_iter().zip(shapes).enumerate() {
            let args = self.func.args[at..at + tree.leaves()].to_vec();
            let key = match tree {
                Tree::Leaf => self.func.arg_key(at),
                Tree::Tuple(_) => {
                    let first = self.func.arg_key(at);
                    first
                        .strip_suffix(".0")
                        .map_or(format!("p{number}"), str::to_owned)
                }
            };
            let name = self.fresh(&key);
            let mut attrs = String::new();
            if let Some(port) = self.func.arg_ports.get(at) {
                attrs = kept(&port.attrs, "parameter", 0);
            }
            signature.push((name.clone(), shape.clone()));
            self.lines.push(Line {
                name: name.clone(),
                shape,
                opcode: "parameter".to_owned(),
                inside: Inside::Payload(number.to_string()),
                attrs,
            });
            self.unpack(&tree, &name, &args)?;
            at += tree.leaves();
        }
        Ok(signature)
    }

    /// Writes the `get-tuple-element` instructions of a tuple, and names `values` after them. A leaf is named `name`.
    fn unpack(&mut self, tree: &Tree, name: &str, values: &[Value]) -> Outcome<()> {
        let parts = match tree {
            Tree::Leaf => {
                self.names[values[0]] = Some(name.to_owned());
                return Ok(());
            }
            Tree::Tuple(parts) => parts,
        };
        let mut at = 0;
        for (i, part) in parts.iter().enumerate() {
            let own = &values[at..at + part.leaves()];
            let mut shapes = Vec::with_capacity(own.len());
            for &value in own {
                shapes.push(shape_text(self.func.ty(value))?);
            }
            let shape = part.shape(&mut shapes.into_iter());
            let element = self.raw(
                &shape,
                "get-tuple-element",
                &[name.to_owned()],
                &format!(", index={i}"),
            );
            self.unpack(part, &element, own)?;
            at += part.leaves();
        }
        Ok(())
    }

    /// Writes the `tuple` instructions that combine values; returns the name and the shape of the outermost one.
    pub(super) fn packed(
        &mut self,
        tree: &Tree,
        leaves: &mut impl Iterator<Item = String>,
        shapes: &mut impl Iterator<Item = String>,
    ) -> (String, String) {
        match tree {
            Tree::Leaf => (
                leaves.next().unwrap_or_default(),
                shapes.next().unwrap_or_default(),
            ),
            Tree::Tuple(parts) => {
                let mut names = Vec::new();
                let mut texts = Vec::new();
                for part in parts {
                    let (name, text) = self.packed(part, leaves, shapes);
                    names.push(name);
                    texts.push(text);
                }
                let shape = format!("({})", texts.join(", "));
                (self.raw(&shape, "tuple", &names, ""), shape)
            }
        }
    }

    /// The name of a tuple of these values. If they are all results of one operation, that operation's own tuple is
    /// reused.
    pub(super) fn tuple(&mut self, tree: &Tree, values: &[Value]) -> Outcome<String> {
        if let Some(op) = values.first().and_then(|&v| self.func.def_op(v))
            && self.func.ops[op].results == values
            && let Some((known, name)) = self.tuples.get(&op)
            && known == tree
        {
            return Ok(name.clone());
        }
        let mut names = Vec::with_capacity(values.len());
        let mut shapes = Vec::with_capacity(values.len());
        for &value in values {
            names.push(self.name(value)?);
            shapes.push(shape_text(self.func.ty(value))?);
        }
        Ok(self
            .packed(tree, &mut names.into_iter(), &mut shapes.into_iter())
            .0)
    }

    /// Names the results of an operation that became one instruction with this tuple structure.
    pub(super) fn results(&mut self, op: Op, tree: Tree, name: &str) -> Outcome<()> {
        let results = self.func.ops[op].results.clone();
        if tree != Tree::Leaf {
            self.tuples.insert(op, (tree.clone(), name.to_owned()));
        }
        self.unpack(&tree, name, &results)
    }

    fn operation(&mut self, op: Op) -> Outcome<()> {
        let data = &self.func.ops[op];
        if data.results.len() == 1 && self.may_wait(data) {
            self.postpone(op)?;
            return Ok(());
        }
        self.write(op)
    }

    /// Returns whether an operation may be written later, only if something uses it. It must be a constant, or keep the
    /// order of its operand's elements.
    fn may_wait(&self, data: &OpData) -> bool {
        match self.structure(data) {
            Structure::View | Structure::Constant => true,
            Structure::Plain => self.is_reshape(data),
            Structure::Convert | Structure::Call | Structure::Opaque => false,
        }
    }

    /// Leaves an operation unwritten until its result is used. Its operand is written first, except in a short chain of
    /// views: if HLO text cannot express the layout of the operand, a later view of the chain may have one that it can.
    fn postpone(&mut self, op: Op) -> Outcome<()> {
        let data = &self.func.ops[op];
        let mut run = 0;
        if let Some(&operand) = data.operands.first() {
            let view = self.structure(data) == Structure::View;
            if view {
                let root = self.root(operand);
                if self.waits(root) {
                    self.name(root)?;
                }
            }
            run = self.later_run(operand);
            let written_here = self.expressible(operand) || !view;
            if self.waits(operand) && (written_here || MAX_RUN < run) {
                self.name(operand)?;
                run = 0;
            }
        }
        self.later.insert(data.results[0], Later::Op(op, run + 1));
        Ok(())
    }

    fn later_run(&self, value: Value) -> u32 {
        match self.later.get(&value) {
            Some(Later::Op(_, run)) => *run,
            Some(Later::Done(_)) | None => 0,
        }
    }

    /// Returns whether a value is an unwritten view or other rearrangement.
    fn waits(&self, value: Value) -> bool {
        let constant = |op: Op| self.structure(&self.func.ops[op]) == Structure::Constant;
        matches!(self.later.get(&value), Some(Later::Op(op, _)) if !constant(*op))
    }

    /// Returns whether the layout of a value can be expressed in HLO text.
    pub(super) fn expressible(&self, value: Value) -> bool {
        shape_text(self.func.ty(value)).is_ok()
    }

    /// The value whose bytes a view has. Views whose layouts HLO text cannot express are looked through.
    pub(super) fn root(&self, mut value: Value) -> Value {
        while !self.expressible(value)
            && let Some(data) = self.defining(value)
            && self.structure(data) == Structure::View
        {
            value = data.operands[0];
        }
        value
    }

    fn write(&mut self, op: Op) -> Outcome<()> {
        let outer = self.op.replace(op);
        let before = self.lines.len();
        let done = (self.write_op)(self, op);
        self.op = outer;
        done?;
        self.mark(before, op);
        Ok(())
    }

    /// Adds an operation's attributes to its last instruction. Extractions from its tuple do not count.
    fn mark(&mut self, before: usize, op: Op) {
        let data = &self.func.ops[op];
        let mut at = self.lines.len();
        while before < at && self.lines[at - 1].opcode == "get-tuple-element" {
            at -= 1;
        }
        if at <= before {
            return;
        }
        let line = &self.lines[at - 1];
        let operands = match &line.inside {
            Inside::Operands(operands) => operands.len(),
            Inside::Payload(_) | Inside::Elements(_) | Inside::Verbatim { .. } => 0,
        };
        let mut attrs = kept(&data.attrs, &line.opcode, operands);
        if !line.attrs.contains(" metadata=")
            && !attrs.contains(" metadata=")
            && let Some(name) = first_name(&data.loc)
        {
            let _ = write!(attrs, ", metadata={{op_name=\"{}\"}}", escaped(name));
        }
        self.lines[at - 1].attrs.push_str(&attrs);
    }

    /// The name of a value; writes it first if it is unwritten.
    pub(super) fn name(&mut self, value: Value) -> Outcome<String> {
        match self.later.swap_remove(&value) {
            Some(Later::Op(op, _)) => self.write(op)?,
            Some(Later::Done(line)) => self.lines.push(line),
            None => {}
        }
        Ok(self.names[value]
            .clone()
            .unwrap_or_else(|| "undefined".to_owned()))
    }

    /// Returns whether a value has been written.
    pub(super) fn is_written(&self, value: Value) -> bool {
        self.names[value].is_some()
    }

    /// The operation that defines a value.
    pub(super) fn defining(&self, value: Value) -> Option<&'a OpData> {
        let func = self.func;
        func.def_op(value).map(|op| &func.ops[op])
    }

    /// Returns whether a value has one element.
    pub(super) fn is_one(&self, value: Value) -> bool {
        let ty = self.tensor(value);
        ty.is_ok_and(|ty| ty.dims.iter().all(Dim::is_one))
    }

    /// An operation as an [`OpRef`], with the types of its operands and results.
    pub(super) fn op_ref<'b>(&self, data: &'b OpData) -> OpRef<'b>
    where
        'a: 'b,
    {
        self.func.op_ref_of(data)
    }

    /// The typed attributes of an operation.
    ///
    /// # Errors
    /// It is another operation, or its attributes are invalid.
    pub(super) fn typed<T: Operation>(&self, data: &OpData) -> Result<T, OpError> {
        T::of(&self.op_ref(data))
    }

    /// The structure of an operation.
    pub(super) fn structure(&self, data: &OpData) -> Structure {
        self.shared.registry.structure(&data.name)
    }

    /// The view that is equivalent to an operation.
    pub(super) fn rearrangement(&self, data: &OpData) -> Option<ViewDims> {
        let view = self.shared.registry.rearrangement(&self.op_ref(data));
        view.ok()
    }

    /// Returns whether a view is written as a reshape and a transpose rather than as a bitcast.
    pub(super) fn is_logical(&self) -> bool {
        self.shared.logical
    }

    /// Returns whether an operation is a view that keeps the order of its operand's elements.
    fn is_reshape(&self, data: &OpData) -> bool {
        let view = self.rearrangement(data);
        view.is_some_and(|view| view.is_reshape())
    }

    /// Sets the name of a value.
    pub(super) fn called(&mut self, value: Value, name: String) {
        self.names[value] = Some(name);
    }

    /// Defers the done instruction of an asynchronous instruction to the first use of its result. `start` is the name of
    /// the start instruction.
    pub(super) fn started(&mut self, value: Value, start: String, base: &str, shape: &str) {
        let name = self.fresh(&format!("{base}-done"));
        let line = Line {
            name: name.clone(),
            shape: shape.to_owned(),
            opcode: format!("{base}-done"),
            inside: Inside::Operands(vec![start]),
            attrs: String::new(),
        };
        self.names[value] = Some(name);
        self.later.insert(value, Later::Done(line));
    }

    /// An unused name.
    fn fresh(&mut self, wanted: &str) -> String {
        let base = sanitized(wanted);
        if self.taken.insert(base.clone()) {
            return base;
        }
        let stem = match base.rsplit_once('.') {
            Some((stem, n)) if !n.is_empty() && n.bytes().all(|c| c.is_ascii_digit()) => stem,
            _ => &base,
        };
        let mut n = self.taken.len();
        loop {
            let name = format!("{stem}.{n}");
            if self.taken.insert(name.clone()) {
                return name;
            }
            n += 1;
        }
    }

    /// Writes an instruction and returns its name.
    pub(super) fn raw(
        &mut self,
        shape: &str,
        opcode: &str,
        operands: &[String],
        attrs: &str,
    ) -> String {
        self.line(shape, opcode, Inside::Operands(operands.to_vec()), attrs)
    }

    /// Writes an instruction that has a text in place of operands in its parentheses.
    pub(super) fn payload(
        &mut self,
        shape: &str,
        opcode: &str,
        payload: &str,
        attrs: &str,
    ) -> String {
        self.line(shape, opcode, Inside::Payload(payload.to_owned()), attrs)
    }

    /// Writes an instruction with `inside` in its parentheses.
    pub(super) fn line(
        &mut self,
        shape: &str,
        opcode: &str,
        inside: Inside,
        attrs: &str,
    ) -> String {
        self.named(opcode, shape, opcode, inside, attrs)
    }

    /// As [`Writer::line`], with the name `wanted` if it is unused.
    pub(super) fn named(
        &mut self,
        wanted: &str,
        shape: &str,
        opcode: &str,
        inside: Inside,
        attrs: &str,
    ) -> String {
        let name = self.fresh(wanted);
        self.lines.push(Line {
            name: name.clone(),
            shape: shape.to_owned(),
            opcode: opcode.to_owned(),
            inside,
            attrs: attrs.to_owned(),
        });
        name
    }

    /// Writes an instruction whose result has this type.
    pub(super) fn put(
        &mut self,
        ty: &TensorType,
        opcode: &str,
        operands: &[String],
        attrs: &str,
    ) -> Outcome<String> {
        let shape = tensor_text(ty)?;
        if matches!(opcode, "broadcast" | "iota" | "reshape")
            && let Some(extents) = self.extents(ty)?
        {
            let operands = [operands, &[extents]].concat();
            return Ok(self.raw(&shape, opcode, &operands, attrs));
        }
        Ok(self.raw(&shape, opcode, operands, attrs))
    }

    /// Writes an instruction with one operand.
    pub(super) fn one(
        &mut self,
        opcode: &str,
        x: Value,
        ty: &TensorType,
        attrs: &str,
    ) -> Outcome<String> {
        let name = self.name(x)?;
        self.put(ty, opcode, &[name], attrs)
    }

    /// A scalar constant.
    pub(super) fn scalar(&mut self, text: &str, dtype: DType) -> String {
        self.payload(&format!("{}[]", dtype_name(dtype)), "constant", text, "")
    }

    /// A tensor of this type whose elements are all the number `text`.
    pub(super) fn filled(&mut self, text: &str, ty: &TensorType) -> Outcome<String> {
        let scalar = self.scalar(text, ty.dtype);
        self.put(ty, "broadcast", &[scalar], ", dimensions={}")
    }

    /// The tensor type of a value.
    pub(super) fn tensor(&self, value: Value) -> Outcome<&'a TensorType> {
        let func = self.func;
        func.ty(value).as_tensor().ok_or_else(|| {
            let diag = Diagnostic::error(
                optc_ir::shared_codes::OPERAND_KIND,
                "found a value that is no tensor",
            );
            Box::new(diag)
        })
    }

    /// A value broadcast by numpy's rule to the extents of `to`, in the value's own element type.
    pub(super) fn spread(&mut self, value: Value, to: &TensorType) -> Outcome<String> {
        let lead = to.rank().saturating_sub(self.tensor(value)?.rank());
        self.spread_at(value, to, lead)
    }

    /// A value broadcast to the extents of `to`, in the value's own element type. Its first dimension is dimension
    /// `lead` of `to`.
    pub(super) fn spread_at(
        &mut self,
        value: Value,
        to: &TensorType,
        lead: usize,
    ) -> Outcome<String> {
        let from = self.tensor(value)?;
        let to = TensorType {
            dtype: from.dtype,
            ..to.clone()
        };
        if from.dims == to.dims {
            return self.name(value);
        }
        let stays = |d: &usize| !from.dims[*d].is_one() || to.dims[lead + d].is_one();
        let kept: Vec<usize> = (0..from.rank()).filter(stays).collect();
        let name = self.without_units(value, &kept)?;
        let dims: Vec<String> = kept.iter().map(|d| (d + lead).to_string()).collect();
        let attrs = format!(", dimensions={{{}}}", dims.join(","));
        self.put(&to, "broadcast", &[name], &attrs)
    }

    /// A value without the dimensions that are not in `kept`, which have extent 1. If the value is a view that only inserted
    /// these dimensions, the operand of the view is used.
    fn without_units(&mut self, value: Value, kept: &[usize]) -> Outcome<String> {
        let from = self.tensor(value)?;
        if kept.len() == from.rank() {
            return self.name(value);
        }
        let dims: Vec<Dim> = kept.iter().map(|&d| from.dims[d].clone()).collect();
        if let Some(data) = self.defining(value)
            && self.is_reshape(data)
            && self.tensor(data.operands[0])?.dims == dims
        {
            return self.name(data.operands[0]);
        }
        let name = self.name(value)?;
        self.put(&TensorType::new(dims, from.dtype), "reshape", &[name], "")
    }
}

/// The HLO attributes of an operation, as far as an instruction with this opcode and number of operands can have them.
fn kept(attrs: &AttrDict, opcode: &str, operands: usize) -> String {
    let mut out = String::new();
    let order = [
        "operand_precision",
        "algorithm",
        "cross_program_prefetch_index",
        "sharding",
        "frontend_attributes",
        "statistics",
        "origin",
        "metadata",
        "backend_config",
    ];
    for key in order {
        let fits = match key {
            "operand_precision" => matches!(opcode, "dot" | "convolution") && operands == 2,
            "algorithm" => opcode == "dot",
            "cross_program_prefetch_index" => opcode == "copy-start",
            _ => true,
        };
        if let Some(text) = attrs.str(&format!("hlo.{key}")).filter(|_| fits) {
            let _ = write!(out, ", {key}={text}");
        }
    }
    out
}

fn first_name(loc: &Loc) -> Option<&str> {
    match loc {
        Loc::Name(name) => Some(name),
        Loc::Fused(parts) => parts.iter().find_map(first_name),
        Loc::Unknown | Loc::File(..) => None,
    }
}

/// Escapes a text for a quoted string.
pub(crate) fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '"' | '\\' => {
                out.push('\\');
                out.push(c);
            }
            '\n' => out.push_str("\\n"),
            c if c.is_control() => out.push(' '),
            c => out.push(c),
        }
    }
    out
}

/// The text of a list in an attribute, `{1,2}`.
pub(super) fn list<T: ToString>(items: &[T]) -> String {
    let texts: Vec<String> = items.iter().map(T::to_string).collect();
    format!("{{{}}}", texts.join(","))
}
