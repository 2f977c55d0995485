//! Converts one computation to a function.

use super::context::ModuleCx;
use super::types::{tensor, value_type};
use crate::codes;
use crate::module::{Computation, Instruction};
use indexmap::{IndexMap, IndexSet};
use optc_ir::op::Operation;
use optc_ir::{
    Attr, AttrDict, Diagnostic, Dim, Func, FuncBuilder, Loc, NewOp, TensorType, Type, Value,
};
use optc_layout::XlaShape;
use optc_layout::{Layout, Notation, NotationKind, ViewMap, is_view, propagate};
use optc_ops::{LayoutConvert, Reshape, Transpose, View, ints, sizes};
use std::sync::Arc;

/// A function that is being built.
pub(super) struct FuncCx<'m, 'a> {
    pub(super) cx: &'m mut ModuleCx<'a>,
    pub(super) computation: &'a Computation<'a>,
    pub(super) index: usize,
    /// The function so far.
    pub(super) b: FuncBuilder<'m>,
    /// The values of each instruction, one for each leaf of its shape. A leaf without a counterpart in the IR (the
    /// context of an asynchronous copy) has none.
    pub(super) values: Vec<Vec<Option<Value>>>,
    /// The users of each instruction; the root has one more.
    pub(super) users: Vec<Vec<usize>>,
    /// Arguments with a known number as their value.
    numbers: IndexMap<Value, f64>,
    /// The names of the arguments.
    arg_names: IndexSet<String>,
    /// For each tuple that was split, the number of leaves before each of its elements.
    starts: IndexMap<usize, Vec<usize>>,
}

/// The values of an instruction's operands, split into leaves.
pub(super) type Operands = Vec<Vec<Option<Value>>>;

impl<'m, 'a> FuncCx<'m, 'a> {
    pub(super) fn new(cx: &'m mut ModuleCx<'a>, index: usize) -> Self {
        let computation = &cx.hlo.computations[index];
        let name = cx.function_name(index);
        let registry = cx.registry;
        let mut users = vec![Vec::new(); computation.instructions.len()];
        for (i, instruction) in computation.instructions.iter().enumerate() {
            for &operand in &instruction.operands {
                users[operand].push(i);
            }
        }
        Self {
            cx,
            computation,
            index,
            b: FuncBuilder::named(&name, registry),
            values: Vec::new(),
            users,
            numbers: IndexMap::new(),
            arg_names: IndexSet::new(),
            starts: IndexMap::new(),
        }
    }

    /// Builds the function whose parameters and result have these shapes.
    pub(super) fn build(
        mut self,
        parameters: &[usize],
        wanted: &[XlaShape],
        result: &XlaShape,
    ) -> Result<Func, Box<Diagnostic>> {
        self.b.func.span = self.computation.span;
        let entry = self.index == self.cx.hlo.entry;
        if !entry {
            self.b
                .func
                .attrs
                .set("sym_visibility", Attr::str("private"));
        }
        if *self.computation.name != *self.b.func.name {
            let name = Attr::str(self.computation.name);
            self.b.func.attrs.set("hlo.name", name);
        }
        for (key, value) in self.computation.attrs.iter() {
            self.b
                .func
                .attrs
                .set(&format!("hlo.{key}"), Attr::str(value));
        }
        self.values = vec![Vec::new(); self.computation.instructions.len()];
        for (number, (&parameter, shape)) in parameters.iter().zip(wanted).enumerate() {
            self.parameter(parameter, shape);
            let known = self.cx.known[self.index].get(number).copied().flatten();
            if let (Some(known), [Some(value)]) = (known, &self.values[parameter][..]) {
                self.numbers.insert(*value, known);
            }
        }
        let tuples = wanted.iter().any(|s| matches!(s, XlaShape::Tuple(_)));
        if tuples {
            let texts = wanted.iter().map(|s| Attr::str(&s.to_string())).collect();
            self.b
                .func
                .attrs
                .set("hlo.operand_shapes", Attr::Array(texts));
        }
        if matches!(result, XlaShape::Tuple(_)) {
            self.b
                .func
                .attrs
                .set("hlo.result_shape", Attr::str(&result.to_string()));
        }
        for (i, instruction) in self.computation.instructions.iter().enumerate() {
            if instruction.opcode != "parameter" {
                self.b.loc = location(instruction);
                self.values[i] = self.instruction(i, instruction)?;
            }
        }
        let root = self.computation.root;
        let leaves: Vec<Type> = result.parts().into_iter().map(value_type).collect();
        for (value, ty) in self.values[root].clone().into_iter().zip(leaves) {
            let Some(value) = value else {
                return Err(self.refuse("the result is the context of an asynchronous copy"));
            };
            let value = self.coerce(value, &ty)?;
            self.b.func.add_result(value, None);
        }
        Ok(self.b.func)
    }

    fn parameter(&mut self, index: usize, shape: &XlaShape) {
        let instruction = &self.computation.instructions[index];
        let leaves = shape.parts();
        let tuple = matches!(shape, XlaShape::Tuple(_));
        let own: Vec<Type> = instruction
            .shape
            .parts()
            .into_iter()
            .map(value_type)
            .collect();
        let mut values = Vec::with_capacity(leaves.len());
        for (i, leaf) in leaves.into_iter().enumerate() {
            let mut name = instruction.name.to_string();
            if tuple {
                name = format!("{name}.{i}");
            }
            while !self.arg_names.insert(name.clone()) {
                name.push('_');
            }
            let value = self.b.func.add_arg(value_type(leaf), Some(&name));
            if i == 0 {
                self.parameter_attrs(instruction);
            }
            values.push((value, own.get(i).cloned()));
        }
        self.values[index] = values
            .into_iter()
            .map(|(value, own)| {
                let same = own.and_then(|own| self.coerce(value, &own).ok());
                Some(same.unwrap_or(value))
            })
            .collect();
    }

    fn parameter_attrs(&mut self, instruction: &Instruction) {
        let Some(port) = self.b.func.arg_ports.last_mut() else {
            return;
        };
        for (key, value) in instruction.attrs.iter() {
            port.attrs.set(&format!("hlo.{key}"), Attr::str(value));
        }
    }

    pub(super) fn refuse(&self, message: &str) -> Box<Diagnostic> {
        let text = format!("`{}`: {message}", self.computation.name);
        let diag = Diagnostic::error(codes::HLO_IMPORT, text);
        Box::new(diag.at(self.computation.span, "this computation"))
    }

    /// The values of one instruction, one for each leaf.
    fn instruction(
        &mut self,
        index: usize,
        made: &'a Instruction<'a>,
    ) -> Result<Vec<Option<Value>>, Box<Diagnostic>> {
        if made.opcode == "get-tuple-element" {
            return Ok(self.element(made));
        }
        let operands: Operands = made
            .operands
            .iter()
            .map(|&o| self.values[o].clone())
            .collect();
        match made.opcode {
            "tuple" => return Ok(operands.concat()),
            "copy" if matches!(*made.shape, XlaShape::Tuple(_)) => {
                return self.copied(made, &operands);
            }
            "copy-done" if operands[0].len() == 3 && self.starts(made, "copy-start") => {
                return Ok(operands[0][..1].to_vec());
            }
            _ => {}
        }
        if let Some(values) = self.asynchronous(index, made, &operands)? {
            return Ok(values);
        }
        if let Some(values) = self.calls(made, &operands)? {
            return Ok(values);
        }
        let before = self.b.func.body.len();
        if let Some(value) = self.native(made, &operands) {
            self.mark(before, made);
            return Ok(vec![Some(value)]);
        }
        self.b.func.body.truncate(before);
        if let Some(values) = self.extreme(made, &operands) {
            self.mark(before, made);
            return Ok(values);
        }
        self.b.func.body.truncate(before);
        self.opaque(index, made, &operands)
    }

    /// A copy of a tuple: a copy of each of its parts.
    fn copied(
        &mut self,
        made: &Instruction,
        operands: &Operands,
    ) -> Result<Vec<Option<Value>>, Box<Diagnostic>> {
        let types = made.shape.parts().into_iter().map(value_type);
        let mut values = Vec::new();
        for (value, ty) in operands.concat().into_iter().zip(types) {
            let value = value.map(|value| self.coerce(value, &ty));
            values.push(value.transpose()?);
        }
        Ok(values)
    }

    /// One element of a tuple. Each tuple's leaves are counted once, for all readers.
    fn element(&mut self, made: &Instruction) -> Vec<Option<Value>> {
        let tuple = made.operands[0];
        let XlaShape::Tuple(parts) = &*self.computation.instructions[tuple].shape else {
            return Vec::new();
        };
        let starts = self.starts.entry(tuple).or_insert_with(|| {
            let leaves = parts.iter().map(|part| part.parts().len());
            let ends = leaves.scan(0, |end, n| {
                *end += n;
                Some(*end)
            });
            std::iter::once(0).chain(ends).collect()
        });
        let index = made
            .attrs
            .int("index")
            .and_then(|i| usize::try_from(i).ok());
        let ends = index.and_then(|i| Some(*starts.get(i)?..*starts.get(i + 1)?));
        let found = ends.and_then(|range| self.values[tuple].get(range));
        found.unwrap_or_default().to_vec()
    }

    /// Returns whether the operand is an instruction of this kind that only `-done` reads.
    fn starts(&self, done: &Instruction, opcode: &str) -> bool {
        let start = done.operands[0];
        self.computation.instructions[start].opcode == opcode && self.is_simple_start(start)
    }

    /// Returns whether the instruction that ends an asynchronous start is its only reader.
    fn is_simple_start(&self, start: usize) -> bool {
        let [only] = self.users[start][..] else {
            return false;
        };
        let done = &self.computation.instructions[only].opcode;
        start != self.computation.root && done.ends_with("-done")
    }

    /// An asynchronous start that only starts its instruction, which is done later: it becomes the instruction itself,
    /// with a mark.
    fn asynchronous(
        &mut self,
        index: usize,
        made: &'a Instruction<'a>,
        operands: &Operands,
    ) -> Result<Option<Vec<Option<Value>>>, Box<Diagnostic>> {
        let (base, part) = match made.opcode {
            "copy-start" => ("copy", "-start"),
            opcode => match crate::opcode::split_async(opcode) {
                Some((base, part)) => (base, part),
                None => return Ok(None),
            },
        };
        if part == "-done" && self.starts(made, &format!("{base}-start")) && operands[0].len() == 1
        {
            return Ok(Some(operands[0].clone()));
        }
        if part != "-start" || !self.is_simple_start(index) {
            return Ok(None);
        }
        let shape = match &*made.shape {
            XlaShape::Tuple(parts) if base == "copy" => parts.first(),
            XlaShape::Tuple(parts) => parts.get(1),
            _ => None,
        };
        let Some(shape) = shape else {
            return Ok(None);
        };
        let mut plain = made.clone();
        plain.opcode = base;
        plain.shape = Arc::new(shape.clone());
        let before = self.b.func.body.len();
        let Some(value) = self.native(&plain, operands) else {
            self.b.func.body.truncate(before);
            return Ok(None);
        };
        self.mark(before, made);
        if let Some(&last) = self.b.func.body[before..].last() {
            self.b.func.ops[last]
                .attrs
                .set("hlo.async", Attr::str(base));
        }
        let mut values = vec![Some(value)];
        if base == "copy" {
            values.extend([operands[0].first().copied().flatten(), None]);
        }
        Ok(Some(values))
    }

    /// Writes the attributes that every instruction may have to the last operation that it became.
    fn mark(&mut self, before: usize, made: &Instruction) {
        let Some(&last) = self.b.func.body.get(before..).and_then(<[_]>::last) else {
            return;
        };
        let attrs = &mut self.b.func.ops[last].attrs;
        for (key, value) in kept_attrs(made) {
            attrs.set(&format!("hlo.{key}"), Attr::str(value));
        }
    }

    // ---- helpers of the rules ----

    pub(super) fn tensor_of(&self, value: Value) -> Option<TensorType> {
        self.b.func.ty(value).as_tensor().cloned()
    }

    pub(super) fn layout_of(&self, value: Value) -> Option<Layout> {
        self.tensor_of(value)?.layout()?.ok()
    }

    /// The operation, if it is well formed and its result has type `ty`.
    pub(super) fn emit<T: Operation>(
        &mut self,
        op: &T,
        operands: &[Value],
        ty: TensorType,
    ) -> Option<Value> {
        self.emit_named(T::NAME, operands, op.write(), ty)
    }

    /// Emits an operation by name, for attributes that the text gives in part, or in other words.
    pub(super) fn emit_named(
        &mut self,
        name: &str,
        operands: &[Value],
        props: AttrDict,
        ty: TensorType,
    ) -> Option<Value> {
        let op = NewOp::new(name, operands, props).typed(vec![Type::from(ty.clone())]);
        let inferred = self.b.inferred(&op).ok()?;
        let [Type::Tensor(found)] = &inferred[..] else {
            return None;
        };
        if found.dims != ty.dims || found.dtype != ty.dtype {
            return None;
        }
        Some(self.b.push(op, vec![ty.into()])[0])
    }

    /// The operation with a row-major result of the shape that its rule gives.
    pub(super) fn emit_inferred<T: Operation>(
        &mut self,
        op: &T,
        operands: &[Value],
    ) -> Option<Value> {
        self.b.one(op, operands).ok()
    }

    /// Emits an operation by name, without attributes, as [`FuncCx::emit_inferred`].
    pub(super) fn emit_inferred_named(&mut self, name: &str, operands: &[Value]) -> Option<Value> {
        let op = NewOp::new(name, operands, AttrDict::new());
        self.b.add_one(op).ok()
    }

    /// A value converted to another type: the same elements in another layout or memory space.
    pub(super) fn coerce(&mut self, value: Value, wanted: &Type) -> Result<Value, Box<Diagnostic>> {
        if self.b.func.ty(value) == wanted {
            return Ok(value);
        }
        let converted = match wanted {
            Type::Tensor(wanted) => self.relaid(value, wanted),
            Type::Scalar(_) | Type::Other(_) => None,
        };
        converted.ok_or_else(|| self.refuse("shapes of operands and computations do not agree"))
    }

    /// The value in the layout of `wanted`: a view if no element moves.
    pub(super) fn relaid(&mut self, value: Value, wanted: &TensorType) -> Option<Value> {
        let from = self.tensor_of(value)?;
        if from == *wanted {
            return Some(value);
        }
        let (a, b) = (from.layout()?.ok()?, wanted.layout()?.ok()?);
        let map = ViewMap {
            shape: None,
            perm: None,
            result: b.shape().to_vec(),
        };
        if a.shape() == b.shape() && from.dtype == wanted.dtype && is_view(&a, &map, &b).is_ok() {
            return self.emit(
                &View {
                    shape: None,
                    perm: None,
                },
                &[value],
                wanted.clone(),
            );
        }
        self.emit(&LayoutConvert {}, &[value], wanted.clone())
    }

    /// A view through this map, in the layout that follows from it.
    pub(super) fn view(&mut self, value: Value, map: &ViewMap) -> Option<Value> {
        let from = self.tensor_of(value)?;
        let layout = propagate(&from.layout()?.ok()?, map).ok()?;
        // A layout that needs digits is longer in tiles.
        let layout = match layout.notation() {
            Notation::Digits(_) => layout,
            _ => layout.convert(NotationKind::Xla).unwrap_or(layout),
        };
        let dims = map.result.iter().map(|&n| Dim::Fixed(n)).collect();
        let notation = if layout.is_row_major() {
            Notation::RowMajor
        } else {
            layout.notation().clone()
        };
        let ty = TensorType {
            dims,
            dtype: from.dtype,
            notation,
        };
        self.emit(&view_of(map), &[value], ty)
    }

    /// A rearrangement into a type with a layout of its own: a view if no element moves, else a view and a conversion,
    /// else the rearrangement itself.
    pub(super) fn rearranged(
        &mut self,
        value: Value,
        map: &ViewMap,
        wanted: &TensorType,
    ) -> Option<Value> {
        let (a, b) = (self.layout_of(value)?, wanted.layout()?.ok()?);
        map.check(a.shape()).ok()?;
        if is_view(&a, map, &b).is_ok() {
            return self.emit(&view_of(map), &[value], wanted.clone());
        }
        let before = self.b.func.body.len();
        if let Some(view) = self.view(value, map)
            && let Some(value) = self.relaid(view, wanted)
        {
            return Some(value);
        }
        self.b.func.body.truncate(before);
        let dtype = wanted.dtype;
        let mut at = value;
        if let Some(shape) = &map.shape {
            at = self.reshape(at, TensorType::fixed(shape, dtype))?;
        }
        if let Some(perm) = &map.perm {
            let shape = self.tensor_of(at)?.shape()?;
            let permuted: Vec<u64> = perm.iter().map(|&p| shape[p]).collect();
            let perm = ints(perm);
            let permuted = TensorType::fixed(&permuted, dtype);
            at = self.emit(&Transpose { perm }, &[at], permuted)?;
        }
        if self.tensor_of(at)?.dims != wanted.dims {
            at = self.reshape(at, TensorType::new(wanted.dims.clone(), dtype))?;
        }
        self.relaid(at, wanted)
    }

    fn reshape(&mut self, value: Value, ty: TensorType) -> Option<Value> {
        self.emit(&Reshape::to(&ty.shape()?), &[value], ty)
    }

    /// A view that permutes, or the value itself.
    pub(super) fn permuted(&mut self, value: Value, perm: &[usize]) -> Option<Value> {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return Some(value);
        }
        let from = self.tensor_of(value)?;
        let Some(shape) = from.shape() else {
            return self.transposed(value, &from, perm);
        };
        let map = ViewMap::transpose(&shape, perm).ok()?;
        self.view(value, &map)
    }

    /// A transpose of a value of unknown sizes, whose layout is ignored.
    fn transposed(&mut self, value: Value, from: &TensorType, perm: &[usize]) -> Option<Value> {
        let dims = perm.iter().map(|&p| from.dims.get(p).cloned());
        let ty = TensorType::new(dims.collect::<Option<_>>()?, from.dtype);
        self.emit(&Transpose { perm: ints(perm) }, &[value], ty)
    }

    /// Returns whether a size of the value is unknown.
    pub(super) fn is_open(&self, value: Value) -> bool {
        let ty = self.b.func.ty(value).as_tensor();
        ty.is_some_and(|ty| ty.shape().is_none())
    }

    /// A reshape as in [`FuncCx::reshaped`], to extents that may have names.
    pub(super) fn reshaped_to(&mut self, value: Value, dims: &[Dim]) -> Option<Value> {
        let from = self.tensor_of(value)?;
        if from.dims == dims {
            return Some(value);
        }
        let fixed: Option<Vec<u64>> = dims.iter().map(Dim::fixed).collect();
        match fixed {
            Some(shape) if !self.is_open(value) => self.reshaped(value, &shape),
            _ => {
                let ty = TensorType::new(dims.to_vec(), from.dtype);
                self.emit(&Reshape::of_dims(dims), &[value], ty)
            }
        }
    }

    /// A view that reshapes, or a reshape if the layout has no such view.
    pub(super) fn reshaped(&mut self, value: Value, shape: &[u64]) -> Option<Value> {
        let from = self.tensor_of(value)?;
        if from.shape()? == shape {
            return Some(value);
        }
        if let Some(view) = self.view(value, &ViewMap::reshape(shape)) {
            return Some(view);
        }
        self.reshape(value, TensorType::fixed(shape, from.dtype))
    }

    /// The known scalar value of a value, through conversions and broadcasts, and for all calls.
    pub(super) fn known_scalar(&self, value: Value) -> Option<f64> {
        if let Some(&number) = self.numbers.get(&value) {
            return Some(number);
        }
        let op = self.b.func.def_op(value)?;
        let data = &self.b.func.ops[op];
        match &*data.name {
            "hbir.constant" => {
                let Some(Attr::Dense(dense)) = data.props.get("value") else {
                    return None;
                };
                let tensor = optc_ops::dense_tensor(dense).ok()?;
                (tensor.len() == 1).then(|| tensor.f64_at(0))
            }
            "hbir.cast" | "hbir.view" | "hbir.broadcast" | "hbir.layout_convert" => {
                self.known_scalar(data.operands[0])
            }
            _ => None,
        }
    }

    /// The type of an instruction that gives one array.
    pub(super) fn result_type(made: &Instruction) -> Option<TensorType> {
        tensor(made.shape.as_array()?)
    }
}

/// The view through a map.
pub(super) fn view_of(map: &ViewMap) -> View {
    View {
        shape: map.shape.as_deref().map(sizes),
        perm: map.perm.as_deref().map(ints),
    }
}

/// Attributes of an instruction that do not affect the dataflow and are kept as text.
pub(super) fn kept_attrs<'i>(
    made: &'i Instruction<'_>,
) -> impl Iterator<Item = (&'i str, &'i str)> {
    let kept = [
        "sharding",
        "frontend_attributes",
        "statistics",
        "origin",
        "original_value",
        "metadata",
        "backend_config",
        "cross_program_prefetch_index",
        "operand_precision",
        "algorithm",
    ];
    made.attrs.iter().filter(move |(key, value)| {
        kept.contains(key) && !(*key == "metadata" && only_name(value).is_some())
    })
}

/// The name in `{op_name="…"}` if it is the only entry.
fn only_name(metadata: &str) -> Option<&str> {
    let inner = metadata.trim().strip_prefix('{')?.strip_suffix('}')?.trim();
    let name = inner.strip_prefix("op_name=\"")?.strip_suffix('"')?;
    (!name.contains('"') && !name.contains('\\')).then_some(name)
}

/// The origin of an instruction: the name in its metadata.
fn location(made: &Instruction) -> Loc {
    let metadata = made.attrs.get("metadata").unwrap_or("");
    let name = metadata.split_once("op_name=\"").and_then(|(_, rest)| {
        let mut escaped = false;
        let end = rest.find(|c: char| {
            let ends = c == '"' && !escaped;
            escaped = c == '\\' && !escaped;
            ends
        })?;
        Some(rest[..end].replace("\\'", "'").replace("\\\"", "\""))
    });
    name.map_or(Loc::Unknown, |name| Loc::name(&name))
}
