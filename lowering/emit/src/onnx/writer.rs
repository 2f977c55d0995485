//! The writer of one graph.
//!
//! Example: an `hbir.add` of an argument and a constant is a node `Add`. The constant is written at its first use. A
//! transpose of a constant is no node: it is folded into the constant's elements.

use super::attrs;
use super::dense::{external, tensor_proto, transposed};
use crate::{ReadData, codes};
use indexmap::{IndexMap, IndexSet};
use optc_ir::entity::SideTable;
use optc_ir::op::{OpRef, Operation};
use optc_ir::size::Factor;
use optc_ir::tensor::storage_bytes;
use optc_ir::{
    Attr, DType, Diagnostic, Dim, Func, Loc, Module, OpData, Port, Registry, Size, StandIns,
    Tensor, TensorType, Value,
};
use optc_onnx_proto::prost::Message;
use optc_onnx_proto::prost::bytes::Bytes;
use optc_onnx_proto::{
    AttributeProto, GraphProto, NodeProto, Schema, TensorProto, per_byte, schema,
};
use optc_ops::Constant;
use std::sync::Arc;

pub(super) type Outcome<T> = Result<T, Box<Diagnostic>>;

/// The operators that a model may use.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// True if operators of onnxruntime's own domain may be used.
    pub fused: bool,
    /// True if a rearrangement that amounts to a `DepthToSpace` is written as one.
    pub pixel_shuffles: bool,
}

/// A splat constant of at most this many elements is written as a tensor with all of them.
const MOST_SPLAT: u64 = 1 << 14;

/// A splat constant of at most this many elements is expanded when its elements are inspected.
const MOST_REPEATED: usize = 1 << 24;

/// The largest nesting depth of graphs.
pub(super) const MAX_GRAPHS: usize = 16;

/// A rearrangement that is folded into a constant.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
enum FoldedStep {
    Reshape,
    /// The dimensions before the transpose, and the permutation.
    Transpose(Vec<u64>, Vec<usize>),
}

/// A constant that is not written yet, with the rearrangements folded into it.
#[derive(Clone, Debug)]
struct Lazy {
    constant: Value,
    steps: Vec<FoldedStep>,
    /// The dequantization of the constant by one scale: its scale, and the zero point if it has one.
    scaled: Option<(Value, Option<Value>)>,
}

/// Names by which the subgraphs of a node refer to outer values.
pub(super) struct Captures {
    pub(super) node: usize,
    pub(super) names: Vec<(String, Value)>,
}

/// State shared by all graphs of a model. A graph inside of a node sees all graphs around it, so constants are in the
/// outermost one.
#[derive(Default)]
pub(super) struct Shared {
    pub(super) initializers: Vec<Bytes>,
    /// The domains in use, except the standard one, with their versions.
    pub(super) domains: IndexMap<String, i64>,
    /// Files that still hold elements of constants.
    pub(super) files: IndexSet<String>,
    /// Used names, and the number of names that were derived from each.
    taken: IndexMap<String, usize>,
    /// Names that kept graphs inside of nodes define.
    inner: IndexSet<String>,
    node_names: IndexMap<String, usize>,
    /// The nodes by their names.
    pub(super) nodes: IndexMap<String, Written>,
    /// Constants written so far, by element type, dimensions and bytes.
    numbers: IndexMap<(DType, Vec<u64>, Vec<u8>), String>,
    /// Constants in files written so far.
    constants: IndexMap<Stored, String>,
}

/// A written node.
pub(super) struct Written {
    /// The location of its operation.
    pub(super) loc: Loc,
    /// True if it is an operator kept from the original model.
    pub(super) kept: bool,
    /// The attributes whose graphs were written anew.
    pub(super) graphs: Vec<String>,
}

/// A constant in a file: its type, the location of its elements, and the rearrangements folded into it.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Stored {
    dtype: DType,
    dims: Vec<u64>,
    file: Arc<str>,
    place: (u64, u64),
    steps: Vec<FoldedStep>,
}

/// The state of a graph that is being written.
pub(super) struct Writer<'a> {
    pub(super) module: &'a Module,
    pub(super) func: &'a Func,
    pub(super) registry: &'a Registry,
    /// Numbers in place of the sizes of the function that are not known, once they are asked for.
    numbers: Option<StandIns>,
    /// The opset: the version of the standard operators.
    pub(super) opset: i64,
    /// The operators that may be used.
    pub(super) options: Options,
    pub(super) data: &'a ReadData<'a>,
    pub(super) nodes: Vec<NodeProto>,
    /// The nodes of large constants, which precede all others.
    pub(super) constants: Vec<NodeProto>,
    /// The results of these nodes that are values of the program.
    fixed: IndexSet<Value>,
    pub(super) captures: Vec<Captures>,
    /// State shared by all graphs of the model.
    pub(super) model: Shared,
    /// The graph around this one, which is suspended.
    outer: Option<Box<Writer<'a>>>,
    /// The nodes of `Gemm`s made from products with transposed operands, by their results.
    pub(super) gemms: IndexMap<Value, usize>,
    pub(super) matrices: IndexMap<usize, [u64; 2]>,
    /// The nodes of products of two matrices that could be a `Gemm` too.
    pub(super) matmuls: IndexMap<Value, usize>,
    /// Computed sizes as tensors of one element, lists of sizes, and shapes of values and their parts.
    sizes: IndexMap<Size, String>,
    lists: IndexMap<Vec<Dim>, String>,
    shapes: IndexMap<(Value, Option<usize>), String>,
    /// Dimensions of written values, by their sizes; only sizes that are no sums or products of names.
    extents: IndexMap<Size, (Value, usize)>,
    /// The number of uses of each value.
    read: SideTable<Value, usize>,
    /// Types of node results that are no values of the program.
    pub(super) made: IndexMap<String, TensorType>,
    names: SideTable<Value, Option<String>>,
    lazy: IndexMap<Value, Lazy>,
    /// The label for nodes and values of the current operation.
    label: String,
    span: optc_ir::Span,
    loc: Loc,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        module: &'a Module,
        func: &'a Func,
        (opset, registry): (i64, &'a Registry),
        data: &'a ReadData<'a>,
    ) -> Writer<'a> {
        let mut read = SideTable::new(0);
        let operands = func.body.iter().flat_map(|&op| &func.ops[op].operands);
        for &value in operands.chain(&func.results) {
            read[value] += 1;
        }
        Writer {
            module,
            func,
            registry,
            numbers: None,
            model: Shared::default(),
            outer: None,
            gemms: IndexMap::new(),
            matrices: IndexMap::new(),
            matmuls: IndexMap::new(),
            sizes: IndexMap::new(),
            lists: IndexMap::new(),
            shapes: IndexMap::new(),
            extents: IndexMap::new(),
            read,
            opset,
            options: Options::default(),
            data,
            nodes: Vec::new(),
            constants: Vec::new(),
            fixed: IndexSet::new(),
            captures: Vec::new(),
            made: IndexMap::new(),
            names: SideTable::new(None),
            lazy: IndexMap::new(),
            label: String::new(),
            span: optc_ir::Span::default(),
            loc: Loc::Unknown,
        }
    }

    /// Begins a graph inside of a node that is yet to be written.
    pub(super) fn enter(&mut self, func: &'a Func) {
        let mut inner = Writer::new(self.module, func, (self.opset, self.registry), self.data);
        (inner.options, inner.span) = (self.options, self.span);
        inner.loc.clone_from(&self.loc);
        std::mem::swap(&mut inner.model, &mut self.model);
        let outer = std::mem::replace(self, inner);
        self.outer = Some(Box::new(outer));
    }

    /// Ends the current graph and continues with the graph around it; returns the ended one.
    pub(super) fn leave(&mut self) -> Option<Writer<'a>> {
        let mut outer = self.outer.take()?;
        std::mem::swap(&mut outer.model, &mut self.model);
        Some(std::mem::replace(self, *outer))
    }

    /// The number of graphs around this one.
    pub(super) fn depth(&self) -> usize {
        std::iter::successors(self.outer.as_deref(), |w| w.outer.as_deref()).count()
    }

    /// The schema of a standard operator in the model's opset; `None` if the opset does not have it.
    pub(super) fn schema(&self, op_type: &str) -> Option<&'static Schema> {
        schema("", op_type, self.opset)
    }

    /// Returns whether the opset has a standard operator.
    pub(super) fn has(&self, op_type: &str) -> bool {
        self.schema(op_type).is_some()
    }

    /// Returns whether the opset has a standard operator with this attribute.
    pub(super) fn has_attribute(&self, op_type: &str, name: &str) -> bool {
        self.schema(op_type)
            .is_some_and(|schema| schema.has_attribute(name))
    }

    /// Returns whether the opset has a standard operator that requires at most `count` inputs.
    pub(super) fn needs_no_more(&self, op_type: &str, count: usize) -> bool {
        self.schema(op_type)
            .is_some_and(|schema| schema.inputs.0 <= count)
    }

    /// Returns whether the opset has a standard operator that accepts this element type as its first input.
    pub(super) fn takes(&self, op_type: &str, dtype: DType) -> bool {
        self.schema(op_type)
            .is_some_and(|schema| schema.takes(0, dtype))
    }

    /// Begins an operation: nodes that follow belong to it.
    pub(super) fn begin(&mut self, data: &OpData) {
        let short = data.name.rsplit('.').next().unwrap_or_default();
        self.label = name_of(&data.loc).unwrap_or_else(|| short.to_owned());
        self.span = data.span;
        self.loc.clone_from(&data.loc);
    }

    /// An unused name for a value.
    pub(super) fn fresh(&mut self, base: &str) -> String {
        loop {
            let name = fresh(&mut self.model.taken, base);
            if !self.model.inner.contains(&name) {
                return name;
            }
        }
    }

    /// Reserves a name; false if a value or a kept graph has it already.
    pub(super) fn take(&mut self, name: &str) -> bool {
        let free = !self.model.taken.contains_key(name) && !self.model.inner.contains(name);
        if free {
            self.model.taken.insert(name.to_owned(), 0);
        }
        free
    }

    /// Registers a name that a kept graph defines. Returns a new name for it if an outer value has this one.
    pub(super) fn inner(&mut self, name: &str) -> Option<String> {
        if self.model.taken.contains_key(name) {
            return Some(self.fresh(name));
        }
        self.model.inner.insert(name.to_owned());
        None
    }

    /// Sets the name of a value.
    pub(super) fn set(&mut self, value: Value, name: String) {
        self.names[value] = Some(name);
        let ty = self.func.ty(value).as_tensor();
        for (at, dim) in ty.iter().flat_map(|ty| ty.dims.iter().enumerate()) {
            let size = dim
                .size()
                .filter(|size| dim.fixed().is_none() && size.as_linear().is_none());
            if let Some(size) = size {
                let held = self.extents.entry(size).or_insert((value, at));
                // A second reader would keep a runtime from fusing the only one with the value.
                if self.read[held.0] == 1 && 1 < self.read[value] {
                    *held = (value, at);
                }
            }
        }
    }

    /// The number of uses of a value.
    pub(super) fn uses(&self, value: Value) -> usize {
        self.read[value]
    }

    /// The rows and columns of a `Gemm`'s result.
    pub(super) fn matrix(&self, node: usize) -> Option<[u64; 2]> {
        self.matrices.get(&node).copied()
    }

    /// A constant in another shape, which precedes all nodes and is no value of the program; `None` if the value is no
    /// constant.
    pub(super) fn reshaped_constant(
        &mut self,
        value: Value,
        dims: &[Dim],
    ) -> Outcome<Option<String>> {
        let ty = self.tensor(value)?;
        let constant = self.is_lazy(value) || self.fixed.contains(&value);
        if constant && ty.dims == dims {
            return self.name(value).map(Some);
        }
        let Some(mut lazy) = self.lazy.get(&value).cloned() else {
            return Ok(None);
        };
        let ty = TensorType::new(dims.to_vec(), ty.dtype);
        lazy.steps.push(FoldedStep::Reshape);
        self.initializer(&ty, &lazy).map(Some)
    }

    /// The name of a value; `None` if nothing has used it.
    pub(super) fn known(&self, value: Value) -> Option<&str> {
        self.names[value].as_deref()
    }

    pub(super) fn refused(&self, message: String) -> Box<Diagnostic> {
        let diag = Diagnostic::error(codes::ONNX_OP, message);
        Box::new(diag.at(self.span, "this operation").of(self.loc.names()))
    }

    /// The error that an operation has no form in the model's opset.
    pub(super) fn without_form(&self, data: &OpData, why: &str) -> Box<Diagnostic> {
        let message = format!(
            "{} cannot be written with ONNX operators of version {}: {why}",
            data.name, self.opset
        );
        self.refused(message)
    }

    pub(super) fn op_ref<'b>(&self, data: &'b OpData) -> OpRef<'b>
    where
        'a: 'b,
    {
        self.func.op_ref_of(data)
    }

    /// The typed attributes of an operation.
    pub(super) fn typed<T: Operation>(&self, data: &OpData) -> Outcome<T> {
        let made = T::of(&self.op_ref(data));
        made.map_err(|e| self.refused(e.message))
    }

    pub(super) fn tensor(&self, value: Value) -> Outcome<&'a TensorType> {
        let func: &'a Func = self.func;
        let ty = func.ty(value).as_tensor();
        ty.ok_or_else(|| self.refused("found a value that is no tensor".to_owned()))
    }

    /// The extents of a value, with stand-in numbers for named sizes; `None` if a size has no name.
    pub(super) fn extents(&mut self, value: Value) -> Outcome<Option<Vec<u64>>> {
        let ty = self.tensor(value)?;
        Ok(self.numbers(&ty.dims))
    }

    fn numbers(&mut self, dims: &[Dim]) -> Option<Vec<u64>> {
        if dims.contains(&Dim::Unknown) {
            return None;
        }
        let fixed: Option<Vec<u64>> = dims.iter().map(Dim::fixed).collect();
        if fixed.is_some() {
            return fixed;
        }
        if self.numbers.is_none() {
            self.numbers = StandIns::for_func(self.func, self.registry);
        }
        let numbers = self.numbers.as_mut()?;
        dims.iter().map(|d| numbers.number(d)).collect()
    }

    /// The dimensions for extents from [`Writer::extents`].
    pub(super) fn dims(&self, extents: &[u64]) -> Vec<Dim> {
        let dim = |&n: &u64| match &self.numbers {
            Some(numbers) => numbers.dim(n),
            None => Dim::Fixed(n),
        };
        extents.iter().map(dim).collect()
    }

    /// The names of an operation's operands.
    pub(super) fn operands(&mut self, data: &OpData) -> Outcome<Vec<String>> {
        data.operands.iter().map(|&v| self.name(v)).collect()
    }

    /// The name of a value; a constant that is not written yet is written now.
    pub(super) fn name(&mut self, value: Value) -> Outcome<String> {
        if let Some(name) = &self.names[value] {
            return Ok(name.clone());
        }
        let Some(lazy) = self.lazy.get(&value).cloned() else {
            return Err(self.refused("an operand is used before it is made".to_owned()));
        };
        let name = self.materialized(value, &lazy)?;
        self.names[value] = Some(name.clone());
        Ok(name)
    }

    /// Registers a constant, which is written at its first use.
    pub(super) fn constant(&mut self, value: Value) {
        let lazy = Lazy {
            constant: value,
            steps: Vec::new(),
            scaled: None,
        };
        self.lazy.insert(value, lazy);
    }

    /// Registers a constant that is dequantized by one scale, which is written at its first use. Rearrangements are
    /// folded into the integers. Returns `false` if the operands are no such constants.
    pub(super) fn scaled_constant(&mut self, data: &OpData) -> Outcome<bool> {
        let (from, scale) = (data.operands[0], data.operands[1]);
        let (ints, own) = (self.tensor(from)?.dtype, self.tensor(scale)?);
        let zero = data.operands.get(2).copied();
        let written = self
            .schema("DequantizeLinear")
            .is_some_and(|schema| schema.takes(0, ints) && schema.takes(1, own.dtype));
        let alike = self.tensor(data.results[0])?.dtype == own.dtype;
        if own.rank() != 0 || !alike || !written || !self.are_lazy(&data.operands) {
            return Ok(false);
        }
        let lazy = self.lazy.get(&from).filter(|lazy| lazy.scaled.is_none());
        let Some(mut lazy) = lazy.cloned() else {
            return Ok(false);
        };
        lazy.scaled = Some((scale, zero));
        self.lazy.insert(data.results[0], lazy);
        Ok(true)
    }

    /// Moves the nodes from `before` on, which read nothing but constants, before all others.
    pub(super) fn first(&mut self, before: usize, value: Value) {
        self.constants.extend(self.nodes.drain(before..));
        self.fixed.insert(value);
    }

    /// Returns whether all values are constants.
    pub(super) fn are_lazy(&self, values: &[Value]) -> bool {
        values.iter().all(|&value| self.is_lazy(value))
    }

    /// Returns whether a value is a constant that is not written yet, so that rearrangements can be folded into it.
    pub(super) fn is_lazy(&self, value: Value) -> bool {
        self.lazy.contains_key(&value)
    }

    /// Folds a reshape into a constant.
    pub(super) fn reshape_constant(&mut self, from: Value, to: Value) {
        self.step(from, to, FoldedStep::Reshape);
    }

    /// Folds a transpose into a constant of dimensions `dims`.
    pub(super) fn transpose_constant(
        &mut self,
        from: Value,
        to: Value,
        dims: &[u64],
        perm: &[usize],
    ) {
        self.step(
            from,
            to,
            FoldedStep::Transpose(dims.to_vec(), perm.to_vec()),
        );
    }

    fn step(&mut self, from: Value, to: Value, step: FoldedStep) {
        if let Some(mut lazy) = self.lazy.get(&from).cloned() {
            lazy.steps.push(step);
            self.lazy.insert(to, lazy);
        }
    }

    /// The initializer of a constant with its dimensions permuted, which is no value of the program.
    pub(super) fn transposed_constant(
        &mut self,
        value: Value,
        dims: &[u64],
        perm: &[usize],
    ) -> Outcome<Option<String>> {
        let Some(mut lazy) = self.lazy.get(&value).cloned() else {
            return Ok(None);
        };
        let ty = self.tensor(value)?;
        let shape: Vec<Dim> = perm.iter().map(|&p| Dim::Fixed(dims[p])).collect();
        let ty = TensorType::new(shape, ty.dtype);
        lazy.steps
            .push(FoldedStep::Transpose(dims.to_vec(), perm.to_vec()));
        self.initializer(&ty, &lazy).map(Some)
    }

    fn materialized(&mut self, value: Value, lazy: &Lazy) -> Outcome<String> {
        let ty = self.tensor(value)?;
        self.initializer(ty, lazy)
    }

    fn initializer(&mut self, ty: &TensorType, lazy: &Lazy) -> Outcome<String> {
        if let Some((scale, zero)) = lazy.scaled {
            let ints = TensorType::new(ty.dims.clone(), self.tensor(lazy.constant)?.dtype);
            let own = Lazy {
                scaled: None,
                ..lazy.clone()
            };
            let mut given = vec![self.initializer(&ints, &own)?, self.name(scale)?];
            if let Some(zero) = zero {
                given.push(self.name(zero)?);
            }
            let name = self.fresh(&given[0]);
            let node = self.node_proto("DequantizeLinear", &given, vec![]);
            self.constants.push(NodeProto {
                output: vec![name.clone()],
                ..node
            });
            return Ok(name);
        }
        let Some(op) = self.func.def_op(lazy.constant) else {
            return Err(self.refused("a constant that no operation makes".to_owned()));
        };
        let data = &self.func.ops[op];
        let made = self.typed::<Constant>(data)?;
        let base = name_of(&data.loc).unwrap_or_else(|| "constant".to_owned());
        let dims = ty
            .shape()
            .ok_or_else(|| self.refused("a constant has a size that is not known".to_owned()))?;
        let stored = match &made.data {
            Some(Attr::External {
                file,
                offset,
                length,
            }) => Some(Stored {
                dtype: ty.dtype,
                dims: dims.clone(),
                file: file.clone(),
                place: (*offset, *length),
                steps: lazy.steps.clone(),
            }),
            _ => None,
        };
        // Functions that were one graph on import each have their own copy of shared constants; these are written once.
        let known = stored.as_ref().and_then(|s| self.model.constants.get(s));
        if let Some(known) = known.filter(|_| self.outer.is_some()) {
            return Ok(known.clone());
        }
        let name = self.fresh(&base);
        let elements = made.value.as_ref().or(made.data.as_ref());
        if let Some(Attr::Dense(dense)) = elements
            && dense.splat
            && self.has("ConstantOfShape")
            && MOST_SPLAT < dims.iter().copied().fold(1, u64::saturating_mul)
        {
            return self.filled(ty.dtype, &dense.bytes, &dims, name);
        }
        let proto = self.tensor_of(&name, (ty.dtype, &dims), elements, &lazy.steps)?;
        self.model.initializers.push(proto.encode_to_vec().into());
        if let Some(stored) = stored {
            self.model.constants.insert(stored, name.clone());
        }
        Ok(name)
    }

    /// A tensor of these elements, rearranged by these steps.
    fn tensor_of(
        &mut self,
        name: &str,
        (dtype, dims): (DType, &[u64]),
        elements: Option<&Attr>,
        steps: &[FoldedStep],
    ) -> Outcome<TensorProto> {
        let proto = match elements {
            Some(Attr::Dense(dense)) if dense.splat => {
                let count = dims.iter().copied().fold(1, u64::saturating_mul);
                let n = usize::try_from(count).unwrap_or(0);
                tensor_proto(name, dims, dtype, &dense.bytes.repeat(n))
            }
            Some(Attr::Dense(dense)) => {
                let bytes = moved(&dense.bytes, dtype, steps);
                tensor_proto(name, dims, dtype, &bytes)
            }
            Some(Attr::External {
                file,
                offset,
                length,
            }) => {
                let turned = steps.iter().any(|s| matches!(s, FoldedStep::Transpose(..)));
                // Elements in the original model file itself are copied, since the new model replaces it.
                if turned || is_model(file) || per_byte(dtype).is_some() {
                    let read = (self.data)(file, *offset, *length, dtype);
                    let bytes = read.map_err(|problem| self.unread(file, &problem))?;
                    tensor_proto(name, dims, dtype, &moved(&bytes, dtype, steps))
                } else {
                    if !stays_inside(file) {
                        let problem = format!("`{file}` is outside of the model's folder");
                        return Err(self.unread(file, &problem));
                    }
                    self.model.files.insert(file.to_string());
                    external(name, dims, dtype, (file, *offset, *length))
                }
            }
            _ => return Err(self.refused("a constant has neither a value nor data".to_owned())),
        };
        proto.ok_or_else(|| self.refused(format!("ONNX has no elements of the type {dtype}")))
    }

    /// Writes the default value of an argument, under the argument's name.
    pub(super) fn default(&mut self, arg: Value, port: &Port, name: &str) -> Outcome<()> {
        let Some(default) = port.attrs.get("hbir.default") else {
            return Ok(());
        };
        let wire = match (self.func.ty(arg).as_tensor(), default) {
            (Some(ty), _) => {
                let stated = port.attrs.ints("hbir.default_shape");
                let stated = stated.map(|dims| dims.iter().map(|d| d.unsigned_abs()).collect());
                let dims: Vec<u64> = stated.or_else(|| ty.shape()).ok_or_else(|| {
                    self.refused(format!(
                        "`{name}` has a value, and a size that is not known"
                    ))
                })?;
                let proto = self.tensor_of(name, (ty.dtype, &dims), Some(default), &[])?;
                proto.encode_to_vec().into()
            }
            // A value of a foreign type is the original message.
            (
                None,
                Attr::External {
                    file,
                    offset,
                    length,
                },
            ) => {
                let read = (self.data)(file, *offset, *length, DType::UI8);
                Bytes::from(read.map_err(|problem| self.unread(file, &problem))?)
            }
            (None, _) => return Err(self.refused(format!("`{name}` is no tensor"))),
        };
        self.model.initializers.push(wire);
        Ok(())
    }

    /// The elements of an unwritten constant, with the folded rearrangements; `None` for any other value.
    pub(super) fn elements(&self, value: Value) -> Outcome<Option<Tensor>> {
        let Some(lazy) = self.lazy.get(&value) else {
            return Ok(None);
        };
        let Some(op) = self.func.def_op(lazy.constant) else {
            return Ok(None);
        };
        let made = self.typed::<Constant>(&self.func.ops[op])?;
        let ty = self.tensor(value)?;
        let shape: Option<Vec<usize>> = ty
            .shape()
            .and_then(|dims| dims.iter().map(|&n| usize::try_from(n).ok()).collect());
        let Some(shape) = shape else { return Ok(None) };
        let bytes = match (&made.value, &made.data) {
            (Some(Attr::Dense(dense)), _) if dense.splat => {
                let count = shape.iter().copied().fold(1, usize::saturating_mul);
                if MOST_REPEATED < count {
                    return Ok(None);
                }
                dense.bytes.repeat(count)
            }
            (Some(Attr::Dense(dense)), _) => moved(&dense.bytes, ty.dtype, &lazy.steps),
            (
                _,
                Some(Attr::External {
                    file,
                    offset,
                    length,
                }),
            ) => {
                let read = (self.data)(file, *offset, *length, ty.dtype);
                let bytes = read.map_err(|problem| self.unread(file, &problem))?;
                moved(&bytes, ty.dtype, &lazy.steps)
            }
            _ => return Ok(None),
        };
        Ok(Tensor::from_bytes(ty.dtype, shape, &bytes).ok())
    }

    fn unread(&self, file: &str, problem: &str) -> Box<Diagnostic> {
        Box::new(unread(file, problem).at(self.span, "this operation"))
    }

    /// A constant in which every element is the same number.
    fn filled(&mut self, dtype: DType, one: &[u8], dims: &[u64], name: String) -> Outcome<String> {
        let element = Tensor::from_bytes(dtype, vec![1], one);
        let element = element.map_err(|e| self.refused(e.to_string()))?;
        let attr = attrs::tensor("value", &element);
        let attr =
            attr.ok_or_else(|| self.refused(format!("ONNX has no elements of the type {dtype}")))?;
        let shape = self.sizes_of(dims)?;
        let node = self.node_proto("ConstantOfShape", &[&shape], vec![attr]);
        self.constants.push(NodeProto {
            output: vec![name.clone()],
            ..node
        });
        Ok(name)
    }

    /// A vector of 64-bit integers.
    pub(super) fn list(&mut self, numbers: &[i64]) -> Outcome<String> {
        let tensor = Tensor::from_i64(DType::SI64, vec![numbers.len()], numbers.iter().copied());
        self.literal(&tensor)
    }

    fn sizes_of(&mut self, dims: &[u64]) -> Outcome<String> {
        let sizes: Option<Vec<i64>> = dims.iter().map(|&d| i64::try_from(d).ok()).collect();
        let sizes = sizes.ok_or_else(|| self.refused("a size of 2^63 or more".to_owned()))?;
        self.list(&sizes)
    }

    /// A scalar of an element type.
    pub(super) fn number(&mut self, x: f64, dtype: DType) -> Outcome<String> {
        let tensor = Tensor::from_f64(dtype, vec![], [x]);
        self.literal(&tensor)
    }

    /// A constant with known elements; equal ones are written once.
    pub(super) fn literal(&mut self, tensor: &Tensor) -> Outcome<String> {
        let dims: Vec<u64> = tensor.shape.iter().map(|&d| d as u64).collect();
        let key = (tensor.dtype, dims.clone(), tensor.to_bytes());
        if let Some(known) = self.model.numbers.get(&key) {
            return Ok(known.clone());
        }
        let base = format!("{}_constant", self.label);
        let name = self.fresh(&base);
        let proto = tensor_proto(&name, &dims, tensor.dtype, &key.2);
        let proto = proto.ok_or_else(|| {
            self.refused(format!("ONNX has no elements of the type {}", tensor.dtype))
        })?;
        self.model.initializers.push(proto.encode_to_vec().into());
        self.model.numbers.insert(key, name.clone());
        Ok(name)
    }

    fn node_proto(
        &mut self,
        op_type: &str,
        inputs: &[impl AsRef<str>],
        attribute: Vec<AttributeProto>,
    ) -> NodeProto {
        let mut input: Vec<String> = inputs.iter().map(|i| i.as_ref().to_owned()).collect();
        while input.last().is_some_and(String::is_empty) {
            input.pop();
        }
        let name = self.node_name(false, Vec::new());
        NodeProto {
            input,
            name,
            op_type: op_type.to_owned(),
            attribute,
            ..NodeProto::default()
        }
    }

    /// A standard node with one result.
    pub(super) fn node(
        &mut self,
        op_type: &str,
        inputs: &[impl AsRef<str>],
        attrs: Vec<AttributeProto>,
    ) -> String {
        self.several(op_type, inputs, attrs, 1).remove(0)
    }

    /// A standard node with several results.
    pub(super) fn several(
        &mut self,
        op_type: &str,
        inputs: &[impl AsRef<str>],
        attrs: Vec<AttributeProto>,
        results: usize,
    ) -> Vec<String> {
        let node = self.node_proto(op_type, inputs, attrs);
        self.push(node, results)
    }

    /// A node with an operator of onnxruntime's own domain and one result.
    pub(super) fn microsoft(
        &mut self,
        op_type: &str,
        inputs: &[impl AsRef<str>],
        attrs: Vec<AttributeProto>,
    ) -> String {
        const DOMAIN: &str = "com.microsoft";
        self.model.domains.entry(DOMAIN.to_owned()).or_insert(1);
        let mut node = self.node_proto(op_type, inputs, attrs);
        DOMAIN.clone_into(&mut node.domain);
        self.push(node, 1).remove(0)
    }

    /// Removes dead transposes and reshapes.
    pub(super) fn drop_unused(&mut self, results: &[String]) {
        let mut read: IndexMap<String, usize> = IndexMap::new();
        let outer = self.nodes.iter().flat_map(|n| &n.input).chain(results);
        for name in outer {
            *read.entry(name.clone()).or_default() += 1;
        }
        // Graphs inside of nodes use the outer names that they mention.
        let inside = self.nodes.iter().flat_map(|n| &n.attribute);
        let mut graphs = inside.flat_map(|a| a.g.iter().chain(&a.graphs));
        if !graphs.all(|graph| read_inside(graph, 0, &mut read)) {
            return;
        }
        let mut kept = vec![true; self.nodes.len()];
        for (at, node) in self.nodes.iter().enumerate().rev() {
            let moves = matches!(&*node.op_type, "Transpose" | "Reshape") && node.domain.is_empty();
            let used = |name: &String| read.get(name).is_some_and(|&n| 0 < n);
            if moves && !node.output.iter().any(used) {
                kept[at] = false;
                for name in &node.input {
                    if let Some(n) = read.get_mut(name) {
                        *n -= 1;
                    }
                }
            }
        }
        let mut keep = kept.into_iter();
        self.nodes.retain(|_| keep.next().unwrap_or(true));
    }

    /// An unused node name for the current operation.
    fn node_name(&mut self, kept: bool, graphs: Vec<String>) -> String {
        let name = fresh(&mut self.model.node_names, &self.label);
        let written = Written {
            loc: self.loc.clone(),
            kept,
            graphs,
        };
        self.model.nodes.insert(name.clone(), written);
        name
    }

    /// Adds a node under an unused name.
    pub(super) fn add(&mut self, mut node: NodeProto, results: usize) -> Vec<String> {
        node.name = self.node_name(false, Vec::new());
        self.push(node, results)
    }

    /// Adds an operator kept from the original model, except for the graphs of these attributes, under an unused name.
    pub(super) fn keep(
        &mut self,
        mut node: NodeProto,
        graphs: Vec<String>,
        results: usize,
    ) -> Vec<String> {
        node.name = self.node_name(true, graphs);
        self.push(node, results)
    }

    fn push(&mut self, mut node: NodeProto, results: usize) -> Vec<String> {
        let label = self.label.clone();
        node.output = (0..results).map(|_| self.fresh(&label)).collect();
        let names = node.output.clone();
        self.nodes.push(node);
        names
    }

    /// A vector of sizes: constants, and values computed from the program's inputs. With `open`, at most one of them is
    /// -1.
    pub(super) fn shape(&mut self, dims: &[Dim], open: bool) -> Outcome<String> {
        let fixed: Option<Vec<i64>> = dims
            .iter()
            .map(|d| i64::try_from(d.fixed()?).ok())
            .collect();
        if let Some(fixed) = fixed {
            return self.list(&fixed);
        }
        let unknown = dims.iter().filter(|d| d.fixed().is_none()).count();
        let empty = dims.iter().any(|d| d.fixed() == Some(0));
        if open && unknown == 1 && !empty {
            let size = |d: &Dim| d.fixed().map_or(-1, |n| i64::try_from(n).unwrap_or(-1));
            return self.list(&dims.iter().map(size).collect::<Vec<i64>>());
        }
        // A single size without a name is inferred from the others.
        let nameless = dims.iter().filter(|d| d.size().is_none()).count();
        if let Some(known) = self.lists.get(dims) {
            return Ok(known.clone());
        }
        let mut parts = Vec::with_capacity(dims.len());
        for dim in dims {
            parts.push(match dim.fixed().map(i64::try_from) {
                Some(Ok(n)) => self.list(&[n])?,
                _ if open && nameless == 1 && !empty && dim.size().is_none() => self.list(&[-1])?,
                _ => self.size(dim)?,
            });
        }
        let made = self.joined(parts);
        if nameless == 0 {
            self.lists.insert(dims.to_vec(), made.clone());
        }
        Ok(made)
    }

    /// A vector made of parts.
    pub(super) fn joined(&mut self, mut parts: Vec<String>) -> String {
        match parts.len() {
            1 => parts.swap_remove(0),
            _ => self.node("Concat", &parts, vec![attrs::int("axis", 0)]),
        }
    }

    /// A size that is computed from the shapes of the program's inputs, as a tensor of one element.
    pub(super) fn size(&mut self, dim: &Dim) -> Outcome<String> {
        let size = dim.size().ok_or_else(|| {
            self.refused("a size that has no name would have to be computed".to_owned())
        })?;
        self.polynomial(&size)
    }

    /// The tensor of a size; each size is computed once.
    fn polynomial(&mut self, size: &Size) -> Outcome<String> {
        if let Some(n) = size.as_constant() {
            let n = i64::try_from(n).unwrap_or(i64::MAX);
            return self.list(&[n]);
        }
        if let Some(known) = self.sizes.get(size) {
            return Ok(known.clone());
        }
        let made = self.computed(size)?;
        self.sizes.insert(size.clone(), made.clone());
        Ok(made)
    }

    fn computed(&mut self, size: &Size) -> Outcome<String> {
        let args = self.func.args.iter().copied();
        if let Some((value, at)) = self.extent(args, |found| found == size) {
            return self.extent_of(value, at);
        }
        // Reading an extent takes fewer nodes than computing a quotient or a bound.
        if let Some(&(value, at)) = self.extents.get(size) {
            return self.extent_of(value, at);
        }
        let (count, factors) = size.factors();
        if 1 < factors.len() || (count != 1 && factors.len() == 1) {
            let mut product = self.list(&[i64::try_from(count).unwrap_or(i64::MAX)])?;
            for factor in factors {
                let factor = self.polynomial(&factor)?;
                product = self.node("Mul", &[&product, &factor], vec![]);
            }
            return Ok(product);
        }
        let terms: Vec<(i128, Vec<Factor<'_>>)> = size.terms().collect();
        if let [(1, factors)] = &terms[..]
            && let [factor] = factors[..]
        {
            return self.factor(size, factor);
        }
        if let Some((of, by)) = as_one_quotient(&terms) {
            return self.factor(size, Factor::Quotient(&of, &by));
        }
        let mut sum: Option<String> = None;
        for (count, factors) in terms {
            let mut product = match (count, &factors[..]) {
                (1, [_, ..]) => None,
                _ => Some(self.list(&[i64::try_from(count).unwrap_or(i64::MAX)])?),
            };
            for factor in factors {
                // A quotient or a bound may be an extent, or be computed already.
                let factor = match size_of(factor) {
                    Some(own) => self.polynomial(&own)?,
                    None => self.factor(size, factor)?,
                };
                product = Some(match product {
                    Some(product) => self.node("Mul", &[&product, &factor], vec![]),
                    None => factor,
                });
            }
            sum = match (sum, product) {
                (Some(sum), Some(term)) => Some(self.node("Add", &[&sum, &term], vec![])),
                (sum, term) => sum.or(term),
            };
        }
        sum.map_or_else(|| self.list(&[0]), Ok)
    }

    /// One factor of a term of a size.
    fn factor(&mut self, size: &Size, factor: Factor<'_>) -> Outcome<String> {
        let (op_type, [a, b]) = match factor {
            Factor::Name(name) => return self.named(size, name),
            Factor::Quotient(a, b) => ("Div", [a, b]),
            Factor::Min(a, b) => ("Min", [a, b]),
            Factor::Max(a, b) => ("Max", [a, b]),
        };
        let mut names = [self.polynomial(a)?, self.polynomial(b)?];
        let floors = op_type == "Div" && !a.is_at_least(0);
        let known = match floors {
            true => self.has("Mod"),
            false if op_type == "Div" => true,
            false => self.has("Where"),
        };
        if !known {
            let message = format!(
                "the size {size} cannot be computed with version {}",
                self.opset
            );
            return Err(self.refused(message));
        }
        if floors {
            // `Div` rounds towards zero; the result of `Mod` has the sign of the divisor.
            let rest = self.node("Mod", &[&names[0], &names[1]], vec![]);
            names[0] = self.node("Sub", &[&names[0], &rest], vec![]);
        }
        if !self.takes(op_type, DType::SI64) {
            let compare = if op_type == "Max" { "Greater" } else { "Less" };
            let first = self.node(compare, &[&names[0], &names[1]], vec![]);
            return Ok(self.node("Where", &[&first, &names[0], &names[1]], vec![]));
        }
        Ok(self.node(op_type, &[&names[0], &names[1]], vec![]))
    }

    /// A named size: an extent of an input; or solved from an extent that is linear in the name; or an extent of a
    /// value written before.
    fn named(&mut self, size: &Size, name: &Arc<str>) -> Outcome<String> {
        let own = Size::name(name);
        let args = || self.func.args.iter().copied();
        if let Some((value, at)) = self.extent(args(), |found| *found == own) {
            return self.extent_of(value, at);
        }
        let linear = |found: &Size| found.as_linear().is_some_and(|(n, _, _)| n == name);
        if let Some((value, at)) = self.extent(args(), linear) {
            let found = self.tensor(value)?.dims[at].size();
            let (factor, more) = match found.as_ref().and_then(Size::as_linear) {
                Some((_, factor, more)) => (factor, more),
                None => (1, 0),
            };
            let mut made = self.extent_of(value, at)?;
            for (op_type, by, nothing) in [("Sub", more, 0), ("Div", factor, 1)] {
                if by != nothing {
                    let by = self.list(&[i64::try_from(by).unwrap_or(i64::MAX)])?;
                    made = self.node(op_type, &[&made, &by], vec![]);
                }
            }
            return Ok(made);
        }
        if let Some(mut outer) = self.outer.take() {
            std::mem::swap(&mut outer.model, &mut self.model);
            let found = outer.polynomial(&own);
            std::mem::swap(&mut outer.model, &mut self.model);
            self.outer = Some(outer);
            if found.is_ok() {
                return found;
            }
        }
        let written = |value: &Value| self.known(*value).is_some();
        let written = self.func.values.ids().filter(written);
        match self.extent(written, |found| *found == own) {
            Some((value, at)) => self.extent_of(value, at),
            None => Err(self.refused(format!(
                "the size {size} is that of no input, so it cannot be computed"
            ))),
        }
    }

    /// The first dimension of one of these values whose size satisfies `is`.
    fn extent(
        &self,
        values: impl IntoIterator<Item = Value>,
        is: impl Fn(&Size) -> bool,
    ) -> Option<(Value, usize)> {
        values.into_iter().find_map(|value| {
            let ty = self.func.ty(value).as_tensor()?;
            let has = |dim: &Dim| dim.size().is_some_and(|size| is(&size));
            Some((value, ty.dims.iter().position(has)?))
        })
    }

    /// An extent of a value, as a tensor of one element: a part of the shape if the opset has such, otherwise an element of it.
    fn extent_of(&mut self, value: Value, at: usize) -> Outcome<String> {
        if let Some(known) = self.shapes.get(&(value, Some(at))) {
            return Ok(known.clone());
        }
        let from = i64::try_from(at).unwrap_or(0);
        let made = if self.has_attribute("Shape", "start") {
            let of = self.name(value)?;
            let part = vec![attrs::int("start", from), attrs::int("end", from + 1)];
            self.node("Shape", &[&of], part)
        } else {
            let shape = self.shape_of(value)?;
            let at = self.list(&[from])?;
            self.node("Gather", &[&shape, &at], vec![attrs::int("axis", 0)])
        };
        self.shapes.insert((value, Some(at)), made.clone());
        Ok(made)
    }

    /// The shape of a value.
    fn shape_of(&mut self, value: Value) -> Outcome<String> {
        if let Some(known) = self.shapes.get(&(value, None)) {
            return Ok(known.clone());
        }
        let of = self.name(value)?;
        let made = self.node("Shape", &[&of], vec![]);
        self.shapes.insert((value, None), made.clone());
        Ok(made)
    }
}

/// A quotient or a bound as a size.
fn size_of(factor: Factor<'_>) -> Option<Size> {
    match factor {
        Factor::Name(_) => None,
        Factor::Quotient(a, b) => a.quotient(b),
        Factor::Min(a, b) => a.minimum(b),
        Factor::Max(a, b) => a.maximum(b),
    }
}

/// The dividend and the divisor of a sum of names and one quotient, if each name is in the dividend too: n + (n + 1) // 2 is
/// (3 * n + 1) // 2, which takes an operator less.
fn as_one_quotient(terms: &[(i128, Vec<Factor<'_>>)]) -> Option<(Size, Size)> {
    let quotient = |(count, factors): &(i128, Vec<Factor<'_>>)| match factors[..] {
        [Factor::Quotient(of, by)] if *count == 1 => Some((of.clone(), by.clone())),
        _ => None,
    };
    let (of, by) = terms.iter().find_map(quotient)?;
    let divisor = by.as_constant()?;
    let has = |name: &Arc<str>| {
        let mut own = of.terms();
        own.any(|(_, factors)| matches!(factors[..], [Factor::Name(found)] if found == name))
    };
    let mut whole = of.clone();
    for term in terms.iter().filter(|term| quotient(term).is_none()) {
        let part = match term.1[..] {
            [Factor::Name(name)] if has(name) => Size::name(name),
            _ => return None,
        };
        let times = Size::constant(term.0.checked_mul(divisor)?);
        whole = whole.plus(&part.times(&times)?)?;
    }
    let one = terms.iter().filter_map(quotient).count() == 1;
    (one && 1 < terms.len() && whole.is_at_least(0)).then_some((whole, by))
}

/// Counts the outer names that a graph inside of a node uses; false if graphs nest too deep.
fn read_inside(graph: &Bytes, depth: usize, read: &mut IndexMap<String, usize>) -> bool {
    let Ok(graph) = GraphProto::decode(graph.clone()) else {
        return false;
    };
    let inputs = graph.node.iter().flat_map(|n| &n.input);
    for name in inputs.chain(graph.output.iter().map(|o| &o.name)) {
        *read.entry(name.clone()).or_default() += 1;
    }
    let attributes = graph.node.iter().flat_map(|n| &n.attribute);
    let mut inner = attributes.flat_map(|a| a.g.iter().chain(&a.graphs));
    inner.all(|graph| depth < MAX_GRAPHS && read_inside(graph, depth + 1, read))
}

/// The error for a file of constant data that cannot be read.
#[must_use]
pub fn unread(file: &str, problem: &str) -> Diagnostic {
    let message = format!("the data of a constant cannot be read: {problem}");
    let hint =
        format!("put `{file}` where the program looks for it, or name its folder with --data");
    Diagnostic::error(codes::ONNX_CONSTANT_DATA, message).hint(hint)
}

/// The bytes of elements after these rearrangements.
fn moved(bytes: &[u8], dtype: DType, steps: &[FoldedStep]) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for step in steps {
        if let FoldedStep::Transpose(dims, perm) = step {
            out = transposed(&out, dims, perm, storage_bytes(dtype));
        }
    }
    out
}

/// Returns whether a relative path stays inside of its folder.
fn stays_inside(file: &str) -> bool {
    let mut parts = std::path::Path::new(file).components();
    parts.all(|part| matches!(part, std::path::Component::Normal(_)))
}

/// Returns whether a file is a model, which contains its own tensors.
pub(super) fn is_model(file: &str) -> bool {
    std::path::Path::new(file)
        .extension()
        .is_some_and(|e| e.eq_ignore_ascii_case("onnx"))
}

/// The last name of a location.
pub(super) fn name_of(loc: &Loc) -> Option<String> {
    match loc {
        Loc::Unknown | Loc::File(..) => None,
        Loc::Name(name) => Some(name.to_string()),
        Loc::Fused(parts) => parts.iter().rev().find_map(name_of),
    }
}

fn fresh(taken: &mut IndexMap<String, usize>, base: &str) -> String {
    let base = if base.is_empty() { "value" } else { base };
    let Some(n) = taken.get(base).copied() else {
        taken.insert(base.to_owned(), 0);
        return base.to_owned();
    };
    let free = (n + 1..).find(|n| !taken.contains_key(&format!("{base}_{n}")));
    let n = free.unwrap_or(n);
    taken.insert(base.to_owned(), n);
    let name = format!("{base}_{n}");
    taken.insert(name.clone(), 0);
    name
}
