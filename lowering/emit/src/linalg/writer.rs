//! The writer of one function: its values as tensors in the shape of their memory.

use super::body::{Body, Idx, Scalar};
use super::digits::{extents, groups, row_major, volume};
use super::mem::{Mem, Outcome, Port};
use super::nest::Nest;
use super::resources::Resources;
use super::sizes::Sizes;
use super::stored::Stored;
use super::types::{dtype_name, wide};
use crate::codes;
use indexmap::{IndexMap, IndexSet};
use optc_ir::entity::SideTable;
use optc_ir::op::{OpRef, Operation};
use optc_ir::{DType, Diagnostic, Dim, Func, OpData, Registry, Size, StandIns, TensorType, Value};
use optc_layout::{Cuts, Digit, Layout, runs};
use std::fmt::Write as _;

/// The initial contents of a result.
pub(super) enum Init {
    /// Unspecified: every element is written once.
    Empty,
    /// A number in every element, in text form.
    Fill(String),
    /// A tensor with the digits of the result.
    Tensor(Mem),
}

/// The memory in which the operands and results of an operation are accessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// All digits of the memory, including those beyond the extent of ragged dimensions.
    Padded,
    /// The order of the memory; values with ragged dimensions in row-major order.
    Lies,
    /// Row-major order.
    Plain,
}

impl How {
    pub(super) const ALL: [How; 3] = [How::Padded, How::Lies, How::Plain];
}

/// The state of a function that is being written.
pub(super) struct Writer<'a> {
    pub(super) func: &'a Func,
    pub(super) registry: &'a Registry,
    pub(super) shared: &'a mut Resources,
    pub(super) text: String,
    /// The current operation.
    pub(super) now: Option<&'a OpData>,
    pub(super) sizes: Sizes,
    /// The extents of values with unknown sizes.
    shapes: SideTable<Value, Option<Vec<u64>>>,
    pub(super) mems: SideTable<Value, Option<Mem>>,
    /// Deferred constants, which are written when something reads them.
    pub(super) waiting: SideTable<Value, Option<&'a OpData>>,
    /// The elements and digits of views whose own memory is no order of digits, and of deferred constants.
    pub(super) seen: SideTable<Value, Option<(Mem, Vec<Digit>)>>,
    /// The tensor that a tensor was reshaped from.
    sources: IndexMap<String, Mem>,
    reshaped: IndexMap<(String, Vec<u64>), Mem>,
    /// Slices of tensors, by the tensor's name and the slice.
    pub(super) opened: IndexMap<(String, Vec<u64>), Mem>,
    /// The row-major elements of memory in tiles, by its name.
    pub(super) unpacked: IndexMap<(String, Stored), Mem>,
    /// Tensors that are slices of memory with padding.
    pub(super) gaps: IndexSet<String>,
    next: usize,
}

impl<'a> Writer<'a> {
    pub(super) fn new(
        func: &'a Func,
        registry: &'a Registry,
        shared: &'a mut Resources,
    ) -> Writer<'a> {
        let (sizes, shapes) = numbered(func, registry);
        Writer {
            sizes,
            shapes,
            func,
            registry,
            shared,
            text: String::new(),
            now: None,
            mems: SideTable::new(None),
            waiting: SideTable::new(None),
            seen: SideTable::new(None),
            sources: IndexMap::new(),
            reshaped: IndexMap::new(),
            opened: IndexMap::new(),
            unpacked: IndexMap::new(),
            gaps: IndexSet::new(),
            next: 0,
        }
    }

    /// The error that refuses the current operation.
    pub(super) fn refuse(&self, problem: &str) -> Box<Diagnostic> {
        let name = self.now.map_or("a function", |op| &*op.name);
        let message = format!("{name} cannot be written as linalg: {problem}");
        let diag = Diagnostic::error(codes::LINALG_OP, message);
        let span = self.now.map_or(self.func.span, |op| op.span);
        Box::new(diag.at(span, "here"))
    }

    /// The typed attributes of an operation, if it is of this kind.
    pub(super) fn typed<T: Operation>(&self, data: &OpData) -> Option<T> {
        T::of(&self.op_ref(data)).ok()
    }

    pub(super) fn op_ref<'d>(&self, data: &'d OpData) -> OpRef<'d>
    where
        'a: 'd,
    {
        self.func.op_ref_of(data)
    }

    /// The type of a value, which must be a tensor whose sizes are known or determined by arguments.
    pub(super) fn tensor(&self, value: Value) -> Outcome<&'a TensorType> {
        let ty = self.func.ty(value).as_tensor();
        let ty = ty.ok_or_else(|| self.refuse("a value is no tensor"))?;
        for dim in &ty.dims {
            self.given(dim, ty)?;
        }
        if ty.shape().is_none() && self.shapes[value].is_none() {
            return Err(self.unsized_("sizes that are too many and too large to tell apart", ty));
        }
        if dtype_name(ty.dtype).is_none() {
            return Err(self.refuse(&format!("MLIR has no type {}", ty.dtype)));
        }
        Ok(ty)
    }

    /// Checks that a size of a type is known or determined by the dimensions of the arguments.
    fn given(&self, dim: &Dim, ty: &TensorType) -> Outcome<()> {
        let Some(size) = dim.size() else {
            return Err(self.unsized_("a size that is not known", ty));
        };
        match self.sizes.missing(&size) {
            None => Ok(()),
            Some(name) => {
                let problem = format!("the size `{name}`, which no argument gives");
                Err(self.unsized_(&problem, ty))
            }
        }
    }

    fn unsized_(&self, problem: &str, ty: &TensorType) -> Box<Diagnostic> {
        let text = optc_ir::text::print_type(&ty.clone().into());
        let message = format!("a tensor has {problem}: {text}");
        let diag = Diagnostic::error(codes::LINALG_SIZE, message);
        let span = self.now.map_or(self.func.span, |op| op.span);
        Box::new(diag.at(span, "here"))
    }

    /// The number for a size; an error if the dimensions of the arguments do not determine it.
    pub(super) fn number(&self, size: &Size) -> Outcome<u64> {
        if let Some(name) = self.sizes.missing(size) {
            return Err(self.refuse(&format!("no argument gives the size `{name}`")));
        }
        let number = self.sizes.number(&Dim::of_size(size));
        number.ok_or_else(|| self.refuse("a size is not known"))
    }

    /// The extents of a value.
    pub(super) fn shape(&self, value: Value) -> Outcome<Vec<u64>> {
        let ty = self.tensor(value)?;
        let shape = ty.shape().or_else(|| self.shapes[value].clone());
        Ok(shape.unwrap_or_default())
    }

    /// The layout of a value.
    pub(super) fn layout(&self, value: Value) -> Outcome<Option<Layout>> {
        let (ty, shape) = (self.tensor(value)?, self.shape(value)?);
        Ok(Layout::new(ty.notation.clone(), &shape, ty.dtype.bits()).ok())
    }

    /// The memory of a value.
    pub(super) fn stored(&self, value: Value) -> Outcome<Stored> {
        let (ty, shape) = (self.tensor(value)?, self.shape(value)?);
        let layout = self.layout(value)?;
        let found = layout.and_then(|l| Stored::of(&shape, &l, |n| self.sizes.stands(n)));
        found.ok_or_else(|| {
            let text = optc_ir::text::print_type(&ty.clone().into());
            let message = format!("MLIR cannot say how {text} lies in memory");
            let diag = Diagnostic::error(codes::LINALG_LAYOUT, message);
            let span = self.now.map_or(self.func.span, |op| op.span);
            let hint = "strides are to be above 0 and apart, and known where a size is cut or padded; fold for another \
                        target, or convert the value to another layout";
            Box::new(diag.at(span, "here").hint(hint))
        })
    }

    /// The digits of a value for reading: those of its memory, or row-major ones if a dimension is ragged.
    pub(super) fn digits(&self, value: Value) -> Outcome<Vec<Digit>> {
        match &self.seen[value] {
            Some((_, digits)) => Ok(digits.clone()),
            None => Ok(self.stored(value)?.dense()),
        }
    }

    /// Sets the memory of a value, padding included.
    pub(super) fn set(&mut self, value: Value, mem: Mem) {
        self.mems[value] = Some(mem);
    }

    /// The memory of a value, padding included.
    pub(super) fn storage(&mut self, value: Value) -> Outcome<Mem> {
        self.place_constant(value)?;
        let found = self.mems[value].clone();
        found.ok_or_else(|| self.refuse("an operand is not written"))
    }

    /// The elements of a value in the order of its digits, without padding.
    pub(super) fn mem(&mut self, value: Value) -> Outcome<Mem> {
        self.see_constant(value)?;
        if let Some((mem, _)) = &self.seen[value] {
            return Ok(mem.clone());
        }
        let (mem, stored) = (self.storage(value)?, self.stored(value)?);
        if stored.is_exact() {
            return Ok(mem);
        }
        Ok(self.dense(&mem, &stored))
    }

    /// Returns whether a tensor is a slice, perhaps reshaped, of memory with padding.
    pub(super) fn has_gaps(&self, mem: &Mem) -> bool {
        let source = self.sources.get(&mem.name).unwrap_or(mem);
        self.gaps.contains(&source.name)
    }

    /// An unused name.
    pub(super) fn fresh(&mut self) -> String {
        let name = format!("%{}", self.next);
        self.next += 1;
        name
    }

    pub(super) fn line(&mut self, text: &str) {
        let _ = writeln!(self.text, "    {text}");
    }

    /// Writes a line that defines a tensor.
    pub(super) fn put(&mut self, text: &str, shape: &[u64], dtype: DType) -> Mem {
        let name = self.fresh();
        self.line(&format!("{name} = {text}"));
        Mem {
            name,
            shape: shape.to_vec(),
            dtype,
        }
    }

    /// An uninitialized tensor.
    pub(super) fn empty(&mut self, shape: &[u64], dtype: DType) -> Mem {
        let ty = self.sizes.tensor(shape, dtype);
        let open = self.sizes.open(shape).join(", ");
        let text = format!("tensor.empty({open}) : {ty}");
        self.put(&text, shape, dtype)
    }

    /// A tensor in which every element is the number.
    pub(super) fn filled(&mut self, number: &str, shape: &[u64], dtype: DType) -> Mem {
        let name = self.fresh();
        let typed = match dtype.is_bool() {
            true => format!("{name} = arith.constant {number}"),
            false => format!(
                "{name} = arith.constant {number} : {}",
                dtype_name(dtype).unwrap_or_default()
            ),
        };
        self.line(&typed);
        let out = self.empty(shape, dtype);
        let element = dtype_name(dtype).unwrap_or_default();
        let text = format!(
            "linalg.fill ins({name} : {element}) outs({} : {}) -> {}",
            out.name,
            self.sizes.ty(&out),
            self.sizes.ty(&out)
        );
        self.put(&text, shape, dtype)
    }

    /// The same memory in another shape: nothing moves.
    pub(super) fn reshape(&mut self, mem: &Mem, shape: &[u64]) -> Mem {
        if mem.shape == shape {
            return mem.clone();
        }
        let source = self.sources.get(&mem.name).unwrap_or(mem).clone();
        if source.shape == shape {
            return source;
        }
        let key = (source.name.clone(), shape.to_vec());
        if let Some(known) = self.reshaped.get(&key) {
            return known.clone();
        }
        let made = match shape.contains(&0) {
            true => self.empty(shape, mem.dtype),
            false => self.reshaped(&source, shape),
        };
        self.sources.insert(made.name.clone(), source);
        self.reshaped.insert(key, made.clone());
        made
    }

    fn reshaped(&mut self, mem: &Mem, shape: &[u64]) -> Mem {
        let groups = groups(&mem.shape, shape);
        let open = |to: &[usize]| to.iter().filter(|&&d| self.sizes.stands(shape[d])).count();
        if groups.iter().any(|(_, to)| 1 < to.len() && 1 < open(to)) {
            return self.restated(mem, shape);
        }
        let joins = groups.iter().all(|(_, to)| to.len() == 1) && !mem.shape.is_empty();
        if joins || shape.is_empty() {
            let parts = groups.iter().map(|(from, _)| from.clone());
            return self.collapsed(mem, shape, parts.collect());
        }
        if groups.iter().all(|(from, _)| from.len() == 1) || mem.shape.is_empty() {
            let parts: Vec<Vec<usize>> = groups.into_iter().map(|(_, to)| to).collect();
            return self.expanded(mem, shape, &parts);
        }
        let (from, to): (Vec<_>, Vec<_>) = groups.into_iter().unzip();
        let own =
            |part: &Vec<usize>| volume(&part.iter().map(|&d| mem.shape[d]).collect::<Vec<_>>());
        let middle: Vec<u64> = from.iter().map(own).collect();
        let made = self.collapsed(mem, &middle, from);
        self.expanded(&made, shape, &to)
    }

    fn collapsed(&mut self, mem: &Mem, shape: &[u64], parts: Vec<Vec<usize>>) -> Mem {
        let parts = if shape.is_empty() { Vec::new() } else { parts };
        let text = format!(
            "tensor.collapse_shape {} {} : {} into {}",
            mem.name,
            lists(&parts),
            self.sizes.ty(mem),
            self.sizes.tensor(shape, mem.dtype)
        );
        self.put(&text, shape, mem.dtype)
    }

    fn expanded(&mut self, mem: &Mem, shape: &[u64], parts: &[Vec<usize>]) -> Mem {
        let parts = if mem.shape.is_empty() { &[] } else { parts };
        let text = format!(
            "tensor.expand_shape {} {} output_shape {} : {} into {}",
            mem.name,
            lists(parts),
            self.sizes.list(shape),
            self.sizes.ty(mem),
            self.sizes.tensor(shape, mem.dtype)
        );
        self.put(&text, shape, mem.dtype)
    }

    /// A reshape that expands one dimension into several unknown ones, by `tensor.reshape`: MLIR's `expand_shape`
    /// infers only one.
    fn restated(&mut self, mem: &Mem, shape: &[u64]) -> Mem {
        let of = |&n: &u64| self.sizes.written(&self.sizes.size(n));
        let extents: Vec<String> = shape.iter().map(of).collect();
        let (name, rank) = (self.fresh(), shape.len());
        let extents = extents.join(", ");
        self.line(&format!(
            "{name} = tensor.from_elements {extents} : tensor<{rank}xindex>"
        ));
        let text = format!(
            "tensor.reshape {}({name}) : ({}, tensor<{rank}xindex>) -> {}",
            mem.name,
            self.sizes.ty(mem),
            self.sizes.tensor(shape, mem.dtype)
        );
        self.put(&text, shape, mem.dtype)
    }

    /// Reorders the elements of a tensor from digits `from` to digits `to`: nothing if the order is the same, one
    /// transpose if the digits have the same cuts, else a copy element by element.
    pub(super) fn arrange(&mut self, mem: &Mem, from: &[Digit], to: &[Digit]) -> Mem {
        let cuts = Cuts::of(&[from, to]);
        let (Some(own), Some(wanted)) = (cuts.refine(from), cuts.refine(to)) else {
            return self.copied(mem, from, to);
        };
        if own == wanted || mem.shape.contains(&0) {
            return mem.clone();
        }
        let place = |digit: &Digit| wanted.iter().position(|d| d == digit);
        let places: Option<Vec<usize>> = own.iter().map(place).collect();
        let Some(places) = places else {
            return self.copied(mem, from, to);
        };
        // Dimensions of memory with padding are not merged.
        let runs = match self.has_gaps(mem) {
            true => (0..places.len()).map(|i| i..i + 1).collect(),
            false => runs(&places),
        };
        let shape: Vec<u64> = runs
            .iter()
            .map(|run| volume(&extents(&own[run.clone()])))
            .collect();
        let mut perm: Vec<usize> = (0..runs.len()).collect();
        perm.sort_by_key(|&i| places[runs[i].start]);
        let split = self.reshape(mem, &shape);
        self.transposed(&split, &perm)
    }

    /// Permutes the dimensions of a tensor.
    pub(super) fn transposed(&mut self, mem: &Mem, perm: &[usize]) -> Mem {
        let target: Vec<u64> = perm.iter().map(|&i| mem.shape[i]).collect();
        let out = self.empty(&target, mem.dtype);
        let text = format!(
            "linalg.transpose ins({} : {}) outs({} : {}) permutation = {perm:?}",
            mem.name,
            self.sizes.ty(mem),
            out.name,
            self.sizes.ty(&out)
        );
        self.put(&text, &target, mem.dtype)
    }

    /// As [`Writer::arrange`], element by element.
    fn copied(&mut self, mem: &Mem, from: &[Digit], to: &[Digit]) -> Mem {
        let mem = self.reshape(mem, &extents(from));
        let rank = from.iter().chain(to).map(|d| d.of + 1).max().unwrap_or(0);
        let nest = Nest::plain(to);
        self.generic(&nest, &[], (to, mem.dtype), Init::Empty, |b, nest, _, _| {
            let index: Vec<Idx> = (0..rank).map(|d| nest.index(b, d)).collect();
            b.read(&mem, from, &index)
        })
    }

    /// The memory of a value in the row-major order of its dimensions.
    pub(super) fn logical(&mut self, value: Value) -> Outcome<Mem> {
        let (mem, digits) = (self.mem(value)?, self.digits(value)?);
        let wanted = row_major(&self.shape(value)?);
        Ok(self.arrange(&mem, &digits, &wanted))
    }

    /// The elements of a value for reading by index. Ragged dimensions are read in place, since no valid index refers
    /// to padding.
    pub(super) fn indexed(&mut self, value: Value) -> Outcome<Port> {
        let stored = self.stored(value)?;
        let lies = stored.is_ragged() && stored.is_digital() && self.waiting[value].is_none();
        let port = match lies {
            true => {
                let mem = self.storage(value)?;
                let mem = self.held(&mem, &stored);
                let digits = stored.digits();
                Port { mem, digits }
            }
            false => self.operand(value, false)?,
        };
        let mem = self.reshape(&port.mem, &extents(&port.digits));
        Ok(Port { mem, ..port })
    }

    /// The elements and digits of an operand: in the order of its memory, or row-major.
    pub(super) fn operand(&mut self, value: Value, plain: bool) -> Outcome<Port> {
        match plain {
            true => Ok(Port {
                mem: self.logical(value)?,
                digits: row_major(&self.shape(value)?),
            }),
            false => Ok(Port {
                mem: self.mem(value)?,
                digits: self.digits(value)?,
            }),
        }
    }

    /// The digits in which a result is computed: those of its memory, or row-major ones.
    pub(super) fn wanted(&self, value: Value, plain: bool) -> Outcome<Vec<Digit>> {
        match plain {
            true => Ok(row_major(&self.shape(value)?)),
            false => self.digits(value),
        }
    }

    /// Puts a result that was computed in the order `digits` into its memory. The digits are of the value's own shape,
    /// or of the shape that its memory fills.
    pub(super) fn settle(&mut self, value: Value, mem: &Mem, digits: &[Digit]) -> Outcome<()> {
        let stored = self.stored(value)?;
        let mem = self.placed(mem, digits, &stored);
        self.set(value, mem);
        Ok(())
    }

    /// A `linalg.generic` with a result of digits `out`. Loops over these digits are parallel; over all others `body`
    /// combines each element with the previous value of the result.
    pub(super) fn generic(
        &mut self,
        nest: &Nest,
        ins: &[Port],
        (out, dtype): (&[Digit], DType),
        init: Init,
        body: impl FnOnce(&mut Body, &Nest, &[Scalar], &Scalar) -> Scalar,
    ) -> Mem {
        let out = nest.refined(out);
        let shape = extents(&out);
        let into = match init {
            Init::Empty => self.empty(&shape, dtype),
            Init::Fill(number) => self.filled(&number, &shape, dtype),
            Init::Tensor(mem) => self.reshape(&mem, &shape),
        };
        let mut operands = Vec::with_capacity(ins.len());
        let mut maps = Vec::with_capacity(ins.len() + 1);
        for port in ins {
            let digits = nest.refined(&port.digits);
            operands.push(self.reshape(&port.mem, &extents(&digits)));
            maps.push(nest.map(&digits));
        }
        maps.push(nest.map(&out));
        let kinds = nest.kinds(&out);
        self.loops(&maps, &kinds, &operands, &into, |b, xs, acc| {
            let made = body(b, nest, xs, acc);
            nest.without_padding(b, &out, made, acc)
        })
    }

    /// A `linalg.generic`.
    pub(super) fn loops(
        &mut self,
        maps: &[String],
        kinds: &[&str],
        ins: &[Mem],
        into: &Mem,
        body: impl FnOnce(&mut Body, &[Scalar], &Scalar) -> Scalar,
    ) -> Mem {
        let name = self.fresh();
        let args: Vec<&str> = ins.iter().map(|m| &*m.name).collect();
        let types: Vec<String> = ins.iter().map(|m| self.sizes.ty(m)).collect();
        let read = match ins.is_empty() {
            true => String::new(),
            false => format!(" ins({} : {})", args.join(", "), types.join(", ")),
        };
        let kinds: Vec<String> = kinds.iter().map(|k| format!("\"{k}\"")).collect();
        self.line(&format!(
            "{name} = linalg.generic {{indexing_maps = [{}], iterator_types = [{}]}}{read} outs({} : {}) {{",
            maps.join(", "),
            kinds.join(", "),
            into.name,
            self.sizes.ty(into)
        ));
        let element = |dtype: DType| dtype_name(dtype).unwrap_or_default();
        let mut params: Vec<String> = ins
            .iter()
            .enumerate()
            .map(|(i, m)| format!("%in_{i}: {}", element(m.dtype)))
            .collect();
        params.push(format!("%in_out: {}", element(into.dtype)));
        self.line(&format!("^bb0({}):", params.join(", ")));
        let mut b = Body::new(6, &self.sizes);
        let xs: Vec<Scalar> = ins
            .iter()
            .enumerate()
            .map(|(i, m)| b.widened(&format!("%in_{i}"), m.dtype))
            .collect();
        let acc = Scalar {
            name: "%in_out".to_owned(),
            ty: into.dtype,
        };
        let made = body(&mut b, &xs, &acc);
        let made = b.stored(&made, into.dtype);
        b.line(&format!(
            "linalg.yield {} : {}",
            made.name,
            element(into.dtype)
        ));
        self.text.push_str(&b.text);
        self.line(&format!("}} -> {}", self.sizes.ty(into)));
        Mem {
            name,
            shape: into.shape.clone(),
            dtype: into.dtype,
        }
    }

    /// Rounds wide sums to the narrower floats of a result.
    pub(super) fn narrowed(&mut self, mem: &Mem, dtype: DType) -> Mem {
        if mem.dtype == dtype {
            return mem.clone();
        }
        let digits: Vec<Digit> = mem
            .shape
            .iter()
            .enumerate()
            .map(|(d, &n)| Digit::new(d, 1, n))
            .collect();
        let nest = Nest::plain(&digits);
        let port = Port {
            mem: mem.clone(),
            digits: digits.clone(),
        };
        let ins = [port];
        self.generic(&nest, &ins, (&digits, dtype), Init::Empty, |_, _, xs, _| {
            xs[0].clone()
        })
    }

    /// The accumulator type for sums of this type.
    pub(super) fn sum_type(dtype: DType) -> DType {
        wide(dtype)
    }
}

/// Stand-in numbers for the sizes of a function, and the extents of its values with unknown sizes.
fn numbered(func: &Func, registry: &Registry) -> (Sizes, SideTable<Value, Option<Vec<u64>>>) {
    let mut shapes = SideTable::new(None);
    let open = |&v: &Value| func.ty(v).as_tensor().is_some_and(|t| t.shape().is_none());
    let open: Vec<Value> = func.values.ids().filter(open).collect();
    if open.is_empty() {
        return (Sizes::default(), shapes);
    }
    let sizes = Sizes::new(StandIns::for_func(func, registry));
    for value in open {
        let dims = func.ty(value).as_tensor().map_or(&[][..], |ty| &ty.dims);
        let numbers = dims.iter().map(|dim| sizes.number(dim));
        shapes[value] = numbers.collect();
    }
    (sizes, shapes)
}

/// Lists of dimensions in the syntax of reshapes.
fn lists(parts: &[Vec<usize>]) -> String {
    let texts: Vec<String> = parts.iter().map(|p| format!("{p:?}")).collect();
    format!("[{}]", texts.join(", "))
}
