//! One node during its translation: inputs, attributes, and the operations that it becomes.

use crate::builder::{Builder, NewOp, Stop, Val};
use crate::codes;
use crate::entries::Entry;
use crate::entries::size_attr;
use crate::tensor::{self, File};
use indexmap::{IndexMap, IndexSet};
use optc_ir::op::Operation;
use optc_ir::{Attr, AttrDict, DType, Dim, Effect, Loc, Tensor, TensorType, Type};
use optc_onnx_proto::{AttributeProto, NodeProto};
use optc_ops::{
    Bounds, Broadcast, Cast, Compare, Direction, Einsum, Iota, Reduce, ReduceKind, Reshape, Slice,
    Unsqueeze, ints,
};
use std::sync::Arc;

/// The outcome of a translation.
pub(crate) type Done = Result<(), Stop>;

/// The node and its surroundings, as a translation sees them.
pub(crate) struct NodeCx<'a, 'r> {
    pub(crate) b: &'a mut Builder<'r>,
    pub(crate) node: &'a NodeProto,
    /// The version of the node's operator set.
    pub(crate) opset: i64,
    pub(crate) loc: Loc,
    /// For a call of a model function that is kept: the effect of the function.
    pub(crate) call: Option<Effect>,
    pub(crate) file: &'a File,
    /// The types that the file declares.
    pub(crate) declared: &'a IndexMap<String, Type>,
    /// Names that some node or the graph uses.
    pub(crate) used: &'a IndexSet<String>,
    /// Names that new sizes must not have; given if sizes that depend on elements get names.
    pub(crate) taken: Option<&'a mut IndexSet<Arc<str>>>,
    pub(crate) inputs: Vec<Option<Val>>,
    pub(crate) outputs: Vec<Option<Val>>,
}

impl NodeCx<'_, '_> {
    /// Input `i`, if the node has it.
    pub(crate) fn input(&self, i: usize) -> Option<Val> {
        self.inputs.get(i).copied().flatten()
    }

    /// Input `i`, which the operator requires.
    pub(crate) fn need(&self, i: usize) -> Result<Val, Stop> {
        let what = || format!("input {i} is missing");
        self.input(i)
            .ok_or_else(|| Stop::error(codes::MISSING_INPUT, what()))
    }

    /// All inputs, each of which must be present.
    pub(crate) fn all_inputs(&self) -> Result<Vec<Val>, Stop> {
        if self.inputs.is_empty() {
            self.need(0)?;
        }
        (0..self.inputs.len()).map(|i| self.need(i)).collect()
    }

    /// The tensor type of a value. A value without one keeps the operator opaque.
    pub(crate) fn ty(&self, val: Val) -> Result<TensorType, Stop> {
        let ty = self.b.ty(val).as_tensor();
        ty.cloned()
            .ok_or_else(|| Stop::opaque("an input has no tensor type"))
    }

    /// The number of dimensions of a value.
    pub(crate) fn rank(&self, val: Val) -> Result<usize, Stop> {
        Ok(self.ty(val)?.rank())
    }

    /// The extents of a value.
    pub(crate) fn dims(&self, val: Val) -> Result<Vec<Dim>, Stop> {
        Ok(self.ty(val)?.dims)
    }

    /// The element type of a value.
    pub(crate) fn dtype(&self, val: Val) -> Result<DType, Stop> {
        Ok(self.ty(val)?.dtype)
    }

    /// The attribute of this name.
    pub(crate) fn attr(&self, name: &str) -> Option<&AttributeProto> {
        self.node.attribute.iter().find(|a| a.name == name)
    }

    /// An integer attribute.
    pub(crate) fn int(&self, name: &str) -> Option<i64> {
        self.attr(name)?.i
    }

    /// An integer attribute used as a truth value.
    pub(crate) fn flag(&self, name: &str, default: bool) -> bool {
        self.int(name).map_or(default, |n| n != 0)
    }

    /// A float attribute; an integer counts as well.
    pub(crate) fn float(&self, name: &str, default: f64) -> f64 {
        let from_attr = |a: &AttributeProto| a.f.map(f64::from).or(a.i.map(|i| i as f64));
        self.attr(name).and_then(from_attr).unwrap_or(default)
    }

    /// A list of integers.
    pub(crate) fn ints(&self, name: &str) -> Option<Vec<i64>> {
        self.attr(name).map(|a| a.ints.clone())
    }

    /// A string attribute.
    pub(crate) fn string(&self, name: &str) -> Option<String> {
        let bytes = self.attr(name)?.s.as_ref()?;
        Some(String::from_utf8_lossy(bytes).into_owned())
    }

    /// The elements of a constant input.
    pub(crate) fn tensor(&self, i: usize) -> Option<Arc<Tensor>> {
        self.b.tensor(self.input(i)?)
    }

    /// The integers of a constant input.
    pub(crate) fn const_ints(&self, i: usize) -> Option<Vec<i64>> {
        let t = self.tensor(i)?;
        t.dtype
            .is_int()
            .then(|| (0..t.len()).map(|k| t.i64_at(k)).collect())
    }

    /// The integers of a constant input of floats: first versions of some operators took sizes in the element type of
    /// the data.
    fn whole_floats(&self, i: usize) -> Option<Vec<i64>> {
        let whole = |x: f64| (x.fract() == 0.0 && x.abs() < 1e15).then_some(x as i64);
        self.const_floats(i)?.into_iter().map(whole).collect()
    }

    /// The numbers of a constant input.
    pub(crate) fn const_floats(&self, i: usize) -> Option<Vec<f64>> {
        let t = self.tensor(i)?;
        Some((0..t.len()).map(|k| t.f64_at(k)).collect())
    }

    /// Returns whether the node is an old operator that trains by default and has no attribute against it.
    pub(crate) fn trains_unless_told(&self) -> bool {
        self.opset < 7 && !self.flag("is_test", false)
    }

    /// Input 1, aligned for a combination with input 0: before version 7 its dimensions started at an axis of input 0.
    pub(crate) fn combined(&mut self) -> Result<Val, Stop> {
        let (x, y) = (self.need(0)?, self.need(1)?);
        if 7 <= self.opset || !self.flag("broadcast", false) {
            return Ok(y);
        }
        let Some(axis) = self.int("axis") else {
            return Ok(y);
        };
        let (rank, own) = (self.rank(x)?, self.rank(y)?);
        let first = if own == 0 {
            rank
        } else {
            self.axis(axis, rank)?
        };
        let behind = rank.saturating_sub(first + own);
        let axes: Vec<usize> = (own..own + behind).collect();
        self.unsqueeze(y, &axes)
    }

    /// The integers of an attribute, or of the constant input that replaced it in a later version.
    ///
    /// `None` if the node has neither.
    pub(crate) fn ints_or_input(&self, name: &str, i: usize) -> Result<Option<Vec<i64>>, Stop> {
        if let Some(ints) = self.ints(name) {
            return Ok(Some(ints));
        }
        let numbers = self.const_ints(i).or_else(|| self.whole_floats(i));
        match (self.input(i), numbers) {
            (None, _) => Ok(None),
            (Some(_), Some(ints)) => Ok(Some(ints)),
            (Some(_), None) => Err(Stop::opaque(format!("its {name} are computed at run time"))),
        }
    }

    /// The sizes in a shape input.
    pub(crate) fn entries(&self, i: usize) -> Option<Vec<Entry>> {
        self.b.entries(self.input(i)?)
    }

    /// An axis counted from the front; for `rank + 1`, `rank` itself is allowed.
    pub(crate) fn axis(&self, axis: i64, rank: usize) -> Result<usize, Stop> {
        let n = i64::try_from(rank).unwrap_or(i64::MAX);
        let counted = if axis < 0 {
            axis.checked_add(n)
        } else {
            Some(axis)
        };
        let found = counted
            .filter(|&a| a < n)
            .and_then(|a| usize::try_from(a).ok());
        found.ok_or_else(|| {
            let message = format!("axis {axis} is out of range for {rank} dimensions");
            Stop::error(codes::AXIS_OUT_OF_RANGE, message)
        })
    }

    /// Axes counted from the front, sorted, without duplicates.
    pub(crate) fn axes(&self, axes: &[i64], rank: usize) -> Result<Vec<usize>, Stop> {
        let found: Result<Vec<usize>, Stop> = axes.iter().map(|&a| self.axis(a, rank)).collect();
        let mut found = found?;
        found.sort_unstable();
        let before = found.len();
        found.dedup();
        if found.len() < before {
            return Err(Stop::error(
                codes::AXIS_REPEATED,
                format!("the axes {axes:?} name one twice"),
            ));
        }
        Ok(found)
    }

    /// The tensor of a tensor attribute.
    pub(crate) fn tensor_attr(&self, name: &str) -> Result<Option<tensor::Blob>, Stop> {
        let Some(wire) = self.attr(name).and_then(|a| a.t.as_ref()) else {
            return Ok(None);
        };
        Ok(Some(tensor::load(self.file, wire, &self.label())?))
    }

    /// The node's name in messages.
    pub(crate) fn label(&self) -> String {
        label(self.node)
    }

    /// The type that the file declares for output `i`.
    pub(crate) fn declared_type(&self, i: usize) -> Option<Type> {
        self.declared.get(self.node.output.get(i)?).cloned()
    }

    /// Returns whether output `i` is used.
    pub(crate) fn is_used(&self, i: usize) -> bool {
        self.node
            .output
            .get(i)
            .is_some_and(|name| !name.is_empty() && self.used.contains(name))
    }

    /// Emits an operation of one result.
    pub(crate) fn emit<T: Operation>(&mut self, op: &T, operands: &[Val]) -> Result<Val, Stop> {
        self.emit_named(T::NAME, operands, op.write())
    }

    /// Emits an operation of one result by name, for attributes that the file gives in part, or in other words.
    pub(crate) fn emit_named(
        &mut self,
        name: &str,
        operands: &[Val],
        props: AttrDict,
    ) -> Result<Val, Stop> {
        only(name, self.add(name, operands, props, None)?)
    }

    /// Emits an operation of several results.
    pub(crate) fn emit_all<T: Operation>(
        &mut self,
        op: &T,
        operands: &[Val],
    ) -> Result<Vec<Val>, Stop> {
        self.add(T::NAME, operands, op.write(), None)
    }

    /// Emits an operation whose shape rule reads its result type.
    pub(crate) fn emit_typed<T: Operation>(
        &mut self,
        op: &T,
        operands: &[Val],
        ty: TensorType,
    ) -> Result<Val, Stop> {
        let declared = Some(vec![Type::from(ty)]);
        only(T::NAME, self.add(T::NAME, operands, op.write(), declared)?)
    }

    fn add(
        &mut self,
        name: &str,
        operands: &[Val],
        props: AttrDict,
        declared: Option<Vec<Type>>,
    ) -> Result<Vec<Val>, Stop> {
        let loc = self.loc.clone();
        self.b.emit(NewOp {
            name,
            operands,
            props,
            declared,
            loc,
        })
    }

    /// Emits an operation of one result that is output 0.
    pub(crate) fn finish<T: Operation>(&mut self, op: &T, operands: &[Val]) -> Done {
        self.finish_named(T::NAME, operands, op.write())
    }

    /// Emits an operation by name, as [`NodeCx::emit_named`], whose one result is output 0.
    pub(crate) fn finish_named(&mut self, name: &str, operands: &[Val], props: AttrDict) -> Done {
        let result = self.emit_named(name, operands, props)?;
        self.set(0, result);
        Ok(())
    }

    /// A rank-0 constant of the element type of `like`.
    pub(crate) fn scalar_like(&mut self, value: f64, like: Val) -> Result<Val, Stop> {
        let dtype = self.dtype(like)?;
        Ok(self.b.scalar(dtype, value, self.loc.clone()))
    }

    /// A conversion, or the value itself if the element type is the same.
    pub(crate) fn cast(&mut self, val: Val, to: DType) -> Result<Val, Stop> {
        if self.dtype(val)? == to {
            return Ok(val);
        }
        self.emit(&Cast { to }, &[val])
    }

    /// Writes a constant permutation matrix into the program, so that later passes recognise it.
    pub(crate) fn show_permutation(&mut self, val: Val) {
        if self
            .b
            .tensor(val)
            .is_some_and(|t| t.is_permutation_matrix())
        {
            self.b.inline(val);
        }
    }

    /// `val` reshaped to these extents, of which one may be -1.
    pub(crate) fn reshape(&mut self, val: Val, shape: &[i64]) -> Result<Val, Stop> {
        self.emit(&Reshape::to(shape), &[val])
    }

    /// `val` with dimensions of extent 1 at these places of the result, sorted.
    pub(crate) fn unsqueeze(&mut self, val: Val, axes: &[usize]) -> Result<Val, Stop> {
        if axes.is_empty() {
            return Ok(val);
        }
        let axes = ints(axes);
        self.emit(&Unsqueeze { axes }, &[val])
    }

    /// A sum of products over named indices.
    pub(crate) fn einsum(&mut self, equation: &str, operands: &[Val]) -> Result<Val, Stop> {
        let equation = Arc::from(equation);
        self.emit(&Einsum { equation, to: None }, operands)
    }

    /// The comparison of `a` with `b` in this direction.
    pub(crate) fn compare(&mut self, direction: Direction, a: Val, b: Val) -> Result<Val, Stop> {
        self.emit(&Compare { direction }, &[a, b])
    }

    /// `val` repeated to these extents.
    pub(crate) fn broadcast(&mut self, val: Val, shape: &[i64]) -> Result<Val, Stop> {
        self.emit(&Broadcast::to(shape), &[val])
    }

    /// `val` repeated to these extents, which may be named.
    pub(crate) fn broadcast_to(&mut self, val: Val, dims: &[Dim]) -> Result<Val, Stop> {
        if dims.contains(&Dim::Unknown) {
            return Err(Stop::opaque("an extent it needs is unknown"));
        }
        let shape = dims
            .iter()
            .map(|dim| size_attr(&Entry::from(dim)))
            .collect();
        self.emit(&Broadcast { shape: Some(shape) }, &[val])
    }

    /// `0, 1, …` along dimension `axis` of `rank`; all other dimensions have extent 1.
    pub(crate) fn iota(
        &mut self,
        n: &Dim,
        axis: usize,
        rank: usize,
        dtype: DType,
    ) -> Result<Val, Stop> {
        let mut dims = vec![Dim::Fixed(1); rank];
        dims[axis] = n.clone();
        let axis = axis as i64;
        self.emit_typed(&Iota { axis }, &[], TensorType::new(dims, dtype))
    }

    /// The part of `val` from `start` to `limit` along `axis`.
    pub(crate) fn cut(
        &mut self,
        val: Val,
        axis: usize,
        start: i64,
        limit: i64,
    ) -> Result<Val, Stop> {
        let dims = self.dims(val)?;
        if start == 0 && dims[axis].fixed() == u64::try_from(limit).ok() {
            return Ok(val);
        }
        let whole = |d: &Dim| d.fixed().and_then(|n| i64::try_from(n).ok());
        let mut limits: Vec<i64> = dims.iter().map(|d| whole(d).unwrap_or(i64::MAX)).collect();
        let mut starts = vec![0; dims.len()];
        (starts[axis], limits[axis]) = (start, limit);
        let slice = Slice {
            starts: Bounds::of_ints(&starts),
            limits: Bounds::of_ints(&limits),
            strides: Some(vec![1; dims.len()]),
        };
        self.emit(&slice, &[val])
    }

    /// An extent as an `si64` tensor of one element: a number, or a named size that is determined when the program
    /// runs.
    pub(crate) fn extent_value(&mut self, val: Val, axis: usize) -> Result<Val, Stop> {
        let size = Entry::from(&self.dims(val)?[axis]);
        let end = axis as i64 + 1;
        let op = NewOp {
            name: "hbir.opaque",
            operands: &[val],
            props: props([
                ("kind", Attr::str("Shape")),
                ("domain", Attr::str("")),
                ("effect", Attr::str(Effect::Pure.name())),
                ("onnx.start", Attr::int(axis as i64)),
                ("onnx.end", Attr::int(end)),
            ]),
            declared: None,
            loc: self.loc.clone(),
        };
        let ty = TensorType::fixed(&[1], DType::SI64);
        let value = self.b.defer(op, vec![Type::from(ty)])[0];
        self.b.set_entries(value, vec![size]);
        Ok(value)
    }

    /// A known extent.
    pub(crate) fn extent(&self, val: Val, axis: usize) -> Result<i64, Stop> {
        let dims = self.dims(val)?;
        let dim = dims.get(axis).and_then(|d| i64::try_from(d.fixed()?).ok());
        dim.ok_or_else(|| Stop::opaque("an extent it needs is unknown"))
    }

    /// Reduction along these axes.
    pub(crate) fn reduce(
        &mut self,
        kind: ReduceKind,
        val: Val,
        axes: &[usize],
        keepdims: bool,
    ) -> Result<Val, Stop> {
        let reduce = Reduce {
            kind,
            axes: Some(ints(axes)),
            keepdims,
        };
        self.emit(&reduce, &[val])
    }

    /// Makes `val` output `i`.
    pub(crate) fn set(&mut self, i: usize, val: Val) {
        if self.outputs.len() <= i {
            self.outputs.resize(i + 1, None);
        }
        self.outputs[i] = Some(val);
    }
}

/// The result of an operation with exactly one.
fn only(name: &str, results: Vec<Val>) -> Result<Val, Stop> {
    let first = results.into_iter().next();
    first.ok_or_else(|| Stop::opaque(format!("the operation {name} has no result")))
}

/// A node's name in messages.
pub(crate) fn label(node: &NodeProto) -> String {
    let output = node.output.iter().find(|o| !o.is_empty());
    let name = if node.name.is_empty() {
        output.unwrap_or(&node.name)
    } else {
        &node.name
    };
    format!("node `{name}` ({})", node.op_type)
}

/// Builds a dictionary of inherent attributes.
pub(crate) fn props<const N: usize>(items: [(&str, Attr); N]) -> AttrDict {
    items.into_iter().collect()
}
