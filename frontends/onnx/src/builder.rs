//! Emits operations. Result types come from shape rules. Constants, and values computed only from constants, are
//! emitted only if something uses them.
//!
//! For example, in `Reshape(x, Concat(Gather(Shape(x), 0), [768]))` the shape operand is computed at import, as the
//! sizes `B, 768`. Only the reshape is emitted.

use crate::entries::{self, Entry};
use crate::tensor::{self, Blob, File, INLINE_BYTES, Storage, usize_shape};
use indexmap::IndexSet;
use optc_ir::entity::Table;
use optc_ir::op::Operation;
use optc_ir::{
    Attr, AttrDict, Bindings, Code, DType, Dense, Diagnostic, Dim, EvalContext, FuncBuilder, Loc,
    OpDecl, OpError, OpRef, Registry, Size, Tensor, TensorType, Type, Value,
};
use optc_ops::{Bound, Bounds, Concat, Constant, Dequantize, Iota, Reshape, Slice};
use std::sync::Arc;

/// The most floats that are treated as the description of a shape.
const MAX_FLOATS: usize = 64;

/// The families of operations that are computed at import. Their work is proportional to the size of their operands and
/// results.
const FOLDED: &[&str] = &[
    "broadcast",
    "concat",
    "elementwise",
    "gather",
    "rearrange",
    "reduce",
    "slice",
    "softmax",
    "source",
];

/// The families of operations that only move elements. The entries of size tensors are tracked through them.
const MOVES: &[&str] = &["broadcast", "concat", "gather", "rearrange", "slice"];

/// The most elements of a tensor that describes a shape.
pub(crate) const MAX_SIZES: usize = 64;

/// The stand-in for the first moved size; actual numbers are far below.
const TOKENS: i64 = i64::MAX - (1 << 20);

optc_ir::entity_id! {
    /// A value that depends only on constants and shapes, and is emitted on first use.
    LazyId, "lazy"
}
optc_ir::entity_id! {
    /// An operation with lazy results.
    RecipeId, "recipe"
}

/// A value during import.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Val {
    /// A value of the program.
    Ssa(Value),
    /// A value that is not emitted yet.
    Lazy(LazyId),
}

/// The reason why an operator is not translated.
#[derive(Debug)]
pub(crate) enum Stop {
    /// The operator stays opaque; the reason in words.
    Opaque(String),
    /// The model is wrong.
    Refused(Box<Diagnostic>),
}

impl Stop {
    /// The stop for an operator that stays opaque.
    pub(crate) fn opaque(reason: impl Into<String>) -> Stop {
        Stop::Opaque(reason.into())
    }
    /// The stop for an error of the model.
    pub(crate) fn error(code: Code, message: impl Into<String>) -> Stop {
        Stop::Refused(Box::new(Diagnostic::error(code, message)))
    }
}

impl From<Diagnostic> for Stop {
    /// An element type that the IR does not have keeps the operator opaque.
    fn from(diag: Diagnostic) -> Stop {
        if diag.code == tensor::UNSUPPORTED.name {
            return Stop::Opaque(diag.message);
        }
        Stop::Refused(Box::new(diag))
    }
}

#[derive(Clone, Debug)]
struct Lazy {
    ty: Type,
    loc: Loc,
    source: Origin,
    /// The elements, if they are few and known.
    tensor: Option<Arc<Tensor>>,
    /// The sizes in a shape tensor, if some of them are not numbers.
    entries: Option<Vec<Entry>>,
    emitted: Option<Value>,
    /// True if known elements are written into the program regardless of their number.
    inline: bool,
}

#[derive(Clone, Debug)]
enum Origin {
    Constant(Storage),
    Recipe(RecipeId),
    /// An argument of the function whose entries, sizes, are known by the caller.
    Argument,
}

#[derive(Clone, Debug)]
struct Recipe {
    name: Arc<str>,
    operands: Vec<Val>,
    props: AttrDict,
    results: Vec<LazyId>,
    loc: Loc,
}

/// An operation to emit.
#[derive(Debug)]
pub(crate) struct NewOp<'a> {
    pub(crate) name: &'a str,
    pub(crate) operands: &'a [Val],
    pub(crate) props: AttrDict,
    /// The result types, if the shape rule reads them.
    pub(crate) declared: Option<Vec<Type>>,
    pub(crate) loc: Loc,
}

/// Builds one function.
#[derive(Clone, Debug)]
pub(crate) struct Builder<'r> {
    /// The function so far.
    pub(crate) out: FuncBuilder<'r>,
    file: &'r File,
    lazies: Table<LazyId, Lazy>,
    recipes: Table<RecipeId, Recipe>,
}

impl<'r> Builder<'r> {
    /// An empty function.
    pub(crate) fn new(registry: &'r Registry, file: &'r File, name: &str) -> Builder<'r> {
        Builder {
            out: FuncBuilder::named(name, registry),
            file,
            lazies: Table::new(),
            recipes: Table::new(),
        }
    }

    /// The type of a value.
    pub(crate) fn ty(&self, val: Val) -> &Type {
        match val {
            Val::Ssa(v) => self.out.func.ty(v),
            Val::Lazy(id) => &self.lazies[id].ty,
        }
    }

    /// The element of a constant that has the same element everywhere: it is stored as a splat, or is a broadcast.
    pub(crate) fn splat_of(&self, val: Val) -> Option<Tensor> {
        let Val::Lazy(id) = val else { return None };
        match &self.lazies[id].source {
            Origin::Constant(Storage::Splat(one)) => Some(one.clone()),
            Origin::Constant(_) | Origin::Argument => None,
            Origin::Recipe(recipe) => {
                let recipe = &self.recipes[*recipe];
                let [only] = recipe.operands[..] else {
                    return None;
                };
                let one = self.tensor(only).filter(|t| t.len() == 1)?;
                (&*recipe.name == "hbir.broadcast").then(|| (*one).clone().reshaped(Vec::new()))
            }
        }
    }

    /// The elements, if they are few and known.
    pub(crate) fn tensor(&self, val: Val) -> Option<Arc<Tensor>> {
        match val {
            Val::Ssa(_) => None,
            Val::Lazy(id) => self.lazies[id].tensor.clone(),
        }
    }

    /// Writes a constant of known elements into the program, regardless of their number.
    pub(crate) fn inline(&mut self, val: Val) {
        if let Val::Lazy(id) = val {
            self.lazies[id].inline = true;
        }
    }

    /// Returns whether a value depends only on constants.
    pub(crate) fn is_constant(&self, val: Val) -> bool {
        let Val::Lazy(id) = val else { return false };
        match &self.lazies[id].source {
            Origin::Constant(_) => true,
            Origin::Argument => false,
            Origin::Recipe(recipe) => {
                let operands = &self.recipes[*recipe].operands;
                operands.iter().all(|v| matches!(v, Val::Lazy(_)))
            }
        }
    }

    /// The sizes in an integer tensor, if anything is known about them.
    pub(crate) fn entries(&self, val: Val) -> Option<Vec<Entry>> {
        let Val::Lazy(id) = val else { return None };
        let lazy = &self.lazies[id];
        match &lazy.tensor {
            Some(t) if !t.dtype.is_int() && MAX_FLOATS < t.len() => None,
            Some(t) => Some(entries::of_tensor(t)),
            None => lazy.entries.clone(),
        }
    }

    /// Sets the sizes in a lazy shape tensor; if all are numbers, it becomes a constant.
    pub(crate) fn set_entries(&mut self, val: Val, sizes: Vec<Entry>) {
        let Val::Lazy(id) = val else { return };
        let lazy = &mut self.lazies[id];
        let Some(ty) = lazy
            .ty
            .as_tensor()
            .filter(|t| t.elements() == Some(sizes.len() as u64))
        else {
            return;
        };
        let whole = ty.dtype.is_int();
        let known = entries::ints(&sizes).zip(usize_shape(ty)).filter(|_| whole);
        lazy.tensor = known.map(|(n, shape)| Arc::new(Tensor::from_i64(ty.dtype, shape, n)));
        lazy.entries = Some(sizes);
    }

    /// A constant of the file.
    pub(crate) fn constant(&mut self, blob: Blob, loc: Loc) -> Val {
        let tensor = blob.tensor(self.file).map(Arc::new);
        let (ty, source) = (blob.ty.into(), Origin::Constant(blob.storage));
        Val::Lazy(self.lazies.push(Lazy {
            ty,
            loc,
            source,
            tensor,
            entries: None,
            emitted: None,
            inline: false,
        }))
    }

    /// A value of the outer function: a new constant, or a new argument of this name. The flag is false for a constant,
    /// which is not passed.
    pub(crate) fn capture(&mut self, outer: &Builder<'_>, val: Val, name: &str) -> (Val, bool) {
        let ty = outer.ty(val).clone();
        let known = match val {
            Val::Ssa(_) => None,
            Val::Lazy(id) => Some(&outer.lazies[id]),
        };
        let storage = known.and_then(|lazy| match (&lazy.source, &lazy.tensor) {
            (Origin::Constant(storage), _) => Some(storage.clone()),
            (_, Some(tensor)) => Some(Storage::Here((**tensor).clone())),
            (_, None) => None,
        });
        let mut argument = |ty: &Type| self.out.func.add_arg(ty.clone(), Some(name));
        let Some(lazy) = known.filter(|lazy| storage.is_some() || lazy.entries.is_some()) else {
            return (Val::Ssa(argument(&ty)), true);
        };
        let handed = storage.is_none();
        let lazy = Lazy {
            loc: lazy.loc.clone(),
            emitted: handed.then(|| argument(&ty)),
            source: storage.map_or(Origin::Argument, Origin::Constant),
            tensor: lazy.tensor.clone(),
            entries: lazy.entries.clone(),
            inline: lazy.inline,
            ty,
        };
        (Val::Lazy(self.lazies.push(lazy)), handed)
    }

    /// An argument of the function with these sizes as entries.
    pub(crate) fn argument(&mut self, value: Value, sizes: Vec<Entry>) -> Val {
        let val = Val::Lazy(self.lazies.push(Lazy {
            ty: self.out.func.ty(value).clone(),
            loc: Loc::Unknown,
            source: Origin::Argument,
            tensor: None,
            entries: None,
            emitted: Some(value),
            inline: false,
        }));
        self.set_entries(val, sizes);
        val
    }

    /// A constant with these elements.
    pub(crate) fn literal(&mut self, tensor: Tensor, loc: Loc) -> Val {
        let dims: Vec<u64> = tensor.shape.iter().map(|&d| d as u64).collect();
        let ty = TensorType::fixed(&dims, tensor.dtype);
        self.constant(
            Blob {
                name: String::new(),
                ty,
                storage: Storage::Here(tensor),
            },
            loc,
        )
    }

    /// A rank-0 constant of this element type.
    pub(crate) fn scalar(&mut self, dtype: DType, value: f64, loc: Loc) -> Val {
        self.literal(Tensor::from_f64(dtype, Vec::new(), [value]), loc)
    }

    /// A constant whose elements are all the single element of `one`.
    pub(crate) fn splat(&mut self, ty: TensorType, one: Tensor, loc: Loc) -> Val {
        self.constant(
            Blob {
                name: String::new(),
                ty,
                storage: Storage::Splat(one),
            },
            loc,
        )
    }

    /// Emits an operation.
    ///
    /// If all operands are constants, the operation is emitted only if something uses it; a small one is computed now.
    pub(crate) fn emit(&mut self, op: NewOp<'_>) -> Result<Vec<Val>, Stop> {
        let types = self.infer(&op)?;
        if op.operands.iter().any(|v| matches!(v, Val::Ssa(_))) {
            return Ok(self.emit_now(op, types));
        }
        let tensors = self.fold(&op, &types);
        let moved = match tensors {
            Some(_) => None,
            None => self.moved(&op, &types),
        };
        let results = self.recipe(op, types, tensors);
        for (&result, sizes) in results.iter().zip(moved.into_iter().flatten()) {
            self.set_entries(result, sizes);
        }
        Ok(results)
    }

    /// Emits an operation without a shape rule, with these result types. As in [`Builder::emit`], it is emitted only on
    /// use if its operands are constants.
    pub(crate) fn emit_declared(&mut self, op: NewOp<'_>, types: Vec<Type>) -> Vec<Val> {
        if op.operands.iter().any(|v| matches!(v, Val::Ssa(_))) {
            return self.emit_now(op, types);
        }
        self.defer(op, types)
    }

    /// Defers an operation until something uses its results.
    pub(crate) fn defer(&mut self, op: NewOp<'_>, types: Vec<Type>) -> Vec<Val> {
        self.recipe(op, types, None)
    }

    fn emit_now(&mut self, op: NewOp<'_>, types: Vec<Type>) -> Vec<Val> {
        let operands = op.operands.iter().map(|&v| self.value(v)).collect();
        let results = self.write(op.name, operands, op.props, types, op.loc);
        results.into_iter().map(Val::Ssa).collect()
    }

    fn recipe(
        &mut self,
        op: NewOp<'_>,
        types: Vec<Type>,
        tensors: Option<Vec<Tensor>>,
    ) -> Vec<Val> {
        let mut tensors = tensors.unwrap_or_default().into_iter();
        let recipe = self.recipes.push(Recipe {
            name: Arc::from(op.name),
            operands: op.operands.to_vec(),
            props: op.props,
            results: Vec::new(),
            loc: op.loc.clone(),
        });
        let lazy = |ty: Type| Lazy {
            ty,
            loc: op.loc.clone(),
            source: Origin::Recipe(recipe),
            tensor: tensors.next().map(Arc::new),
            entries: None,
            emitted: None,
            inline: false,
        };
        let made: Vec<Lazy> = types.into_iter().map(lazy).collect();
        let results: Vec<LazyId> = made.into_iter().map(|l| self.lazies.push(l)).collect();
        self.recipes[recipe].results.clone_from(&results);
        results.into_iter().map(Val::Lazy).collect()
    }

    fn infer(&self, op: &NewOp<'_>) -> Result<Vec<Type>, Stop> {
        let Some(decl) = self.out.registry().get(op.name) else {
            return Err(Stop::opaque(format!(
                "the operation {} is not declared",
                op.name
            )));
        };
        let operands: Vec<&Type> = op.operands.iter().map(|&v| self.ty(v)).collect();
        if operands.iter().any(|ty| ty.as_tensor().is_none()) {
            return Err(Stop::opaque("an input has no tensor type"));
        }
        let results = op.declared.iter().flatten().collect();
        let op_ref = OpRef {
            name: op.name,
            operands,
            results,
            props: &op.props,
        };
        let types = self.out.registry().result_types(&op_ref);
        types.map_err(|e| refusal(decl, &op_ref, e))
    }

    /// The results of an operation whose operands are all known and small.
    fn fold(&self, op: &NewOp<'_>, types: &[Type]) -> Option<Vec<Tensor>> {
        let decl = self.out.registry().get(op.name)?;
        let elements = types.iter().map(|t| t.as_tensor()?.elements());
        let total = elements
            .into_iter()
            .try_fold(0u64, |sum, n| sum.checked_add(n?))?;
        let inputs: Option<Vec<Arc<Tensor>>> =
            op.operands.iter().map(|&v| self.tensor(v)).collect();
        let inputs = inputs?;
        // Runtimes multiply by integers, and files hold them in a quarter of the bytes.
        let stays = op.name == Dequantize::NAME && 1 < total;
        if stays || !FOLDED.contains(&decl.family()) || !self.file.spend(total) {
            return None;
        }
        let inputs: Vec<&Tensor> = inputs.iter().map(|t| &**t).collect();
        let operands = op.operands.iter().map(|&v| self.ty(v)).collect();
        let results = types.iter().collect();
        let op_ref = OpRef {
            name: op.name,
            operands,
            results,
            props: &op.props,
        };
        let bindings = Bindings::default();
        let out = decl
            .eval(
                &op_ref,
                &inputs,
                &EvalContext {
                    bindings: &bindings,
                },
            )
            .ok()?;
        (out.len() == types.len()).then_some(out)
    }

    /// The sizes in the results of an operation that only moves elements. It is computed on stand-ins for these sizes.
    fn moved(&self, op: &NewOp<'_>, types: &[Type]) -> Option<Vec<Vec<Entry>>> {
        let decl = self.out.registry().get(op.name)?;
        let reduces = op
            .props
            .get("reduction")
            .is_some_and(|r| r.as_str() != Some("none"));
        if !MOVES.contains(&decl.family()) || reduces {
            return None;
        }
        let as_ints = |ty: &Type| Some(TensorType::new(ty.as_tensor()?.dims.clone(), DType::SI64));
        let small = |ty: &TensorType| ty.elements().is_some_and(|n| n <= MAX_SIZES as u64);
        let mut sizes: Vec<Entry> = Vec::new();
        let mut given: Vec<Tensor> = Vec::new();
        let mut own: Vec<Type> = Vec::new();
        for (i, &val) in op.operands.iter().enumerate() {
            let is_place = decl.family() == "gather" && i == 1;
            let ty = as_ints(self.ty(val)).filter(small)?;
            let numbers: Vec<i64> = if is_place {
                let places = self.tensor(val)?;
                (0..places.len()).map(|k| places.i64_at(k)).collect()
            } else {
                let entries = self.entries(val)?;
                let first = TOKENS + sizes.len() as i64;
                sizes.extend(entries);
                (first..TOKENS + sizes.len() as i64).collect()
            };
            given.push(Tensor::from_i64(DType::SI64, usize_shape(&ty)?, numbers));
            own.push(ty.into());
        }
        let open = |e: &Entry| e.int().is_none();
        if !sizes.iter().any(open) {
            return None;
        }
        let results: Option<Vec<TensorType>> = types.iter().map(as_ints).collect();
        let results = results.filter(|all| all.iter().all(small))?;
        let results: Vec<Type> = results.into_iter().map(Type::from).collect();
        let op_ref = OpRef {
            name: op.name,
            operands: own.iter().collect(),
            results: results.iter().collect(),
            props: &op.props,
        };
        let bindings = Bindings::default();
        let context = EvalContext {
            bindings: &bindings,
        };
        let out = decl.eval(&op_ref, &given.iter().collect::<Vec<_>>(), &context);
        let meant = |n: i64| {
            let at = n
                .checked_sub(TOKENS)
                .and_then(|at| usize::try_from(at).ok());
            at.and_then(|at| sizes.get(at))
                .cloned()
                .unwrap_or(Entry::Int(n))
        };
        let entries = |t: &Tensor| (0..t.len()).map(|k| meant(t.i64_at(k))).collect();
        Some(out.ok()?.iter().map(entries).collect())
    }

    /// The size that is every element of a value: of a single element, or of a repeated one. `None` if elements differ.
    pub(crate) fn one_size(&self, val: Val) -> Option<Size> {
        if let Some(entries) = self.entries(val) {
            let size = entries.first()?.size()?;
            return entries
                .iter()
                .all(|e| e.size().as_ref() == Some(&size))
                .then_some(size);
        }
        let Val::Lazy(id) = val else { return None };
        let Origin::Recipe(recipe) = &self.lazies[id].source else {
            return None;
        };
        let recipe = &self.recipes[*recipe];
        let family = self.out.registry().get(&recipe.name)?.family();
        match recipe.operands[..] {
            [only] if matches!(family, "broadcast" | "rearrange") => self.one_size(only),
            _ => None,
        }
    }

    /// The value in the program, emitted now if it was not before.
    pub(crate) fn value(&mut self, val: Val) -> Value {
        let id = match val {
            Val::Ssa(v) => return v,
            Val::Lazy(id) => id,
        };
        let mut pending = vec![id];
        while let Some(&top) = pending.last() {
            if self.lazies[top].emitted.is_some() {
                pending.pop();
                continue;
            }
            if self.write_sizes(top) {
                continue;
            }
            let recipe = match (&self.lazies[top].source, self.dense(top)) {
                (_, Some(props)) => {
                    self.write_constant(top, props);
                    continue;
                }
                (Origin::Constant(storage), None) => {
                    let props = constant_props(&self.lazies[top].ty, storage);
                    self.write_constant(top, props);
                    continue;
                }
                (&Origin::Recipe(recipe), None) => recipe,
                (Origin::Argument, None) => {
                    unreachable!("an argument is written from the start")
                }
            };
            let missing: Vec<LazyId> = self.unwritten(recipe);
            if missing.is_empty() {
                self.write_recipe(recipe);
            } else {
                pending.extend(missing);
            }
        }
        self.lazies[id]
            .emitted
            .expect("the loop ends when the value is written")
    }

    /// Emits a tensor of sizes with names: each is the last element of an iota that is one longer.
    fn write_sizes(&mut self, id: LazyId) -> bool {
        let lazy = &self.lazies[id];
        if lazy.tensor.is_some() {
            return false;
        }
        let (ty, loc) = (lazy.ty.clone(), lazy.loc.clone());
        let sizes: Option<Vec<Size>> = lazy.entries.iter().flatten().map(Entry::size).collect();
        let (Some(sizes), Some(tensor)) = (sizes, ty.as_tensor()) else {
            return false;
        };
        if sizes.is_empty() || tensor.dtype.is_bool() || !sizes.iter().all(|n| n.is_at_least(0)) {
            return false;
        }
        let Some::<Vec<Size>>(counts) = sizes.iter().map(|n| n.plus(&Size::constant(1))).collect()
        else {
            return false;
        };
        let value = self.push_sizes(&sizes, &counts, tensor, &loc);
        self.lazies[id].emitted = Some(value);
        true
    }

    fn push_sizes(&mut self, sizes: &[Size], counts: &[Size], ty: &TensorType, loc: &Loc) -> Value {
        let list = |dims: Vec<Dim>| Type::from(TensorType::new(dims, ty.dtype));
        let one = || vec![Dim::Fixed(1)];
        let at = |size: &Size| Bounds(vec![Bound::At(size.clone())]);
        let mut parts = Vec::with_capacity(sizes.len());
        for (size, count) in sizes.iter().zip(counts) {
            let all = list(vec![Dim::of_size(count)]);
            let all = self.push(&Iota { axis: 0 }, Vec::new(), all, loc);
            let last = Slice {
                starts: at(size),
                limits: at(count),
                strides: None,
            };
            parts.push(self.push(&last, vec![all], list(one()), loc));
        }
        let n = parts.len() as u64;
        let joined = match parts[..] {
            [only] => only,
            _ => self.push(&Concat { axis: 0 }, parts, list(vec![Dim::Fixed(n)]), loc),
        };
        if ty.rank() == 1 {
            return joined;
        }
        let shape: Vec<i64> = ty
            .dims
            .iter()
            .filter_map(Dim::fixed)
            .map(|n| n as i64)
            .collect();
        let ty = list(ty.dims.clone());
        self.push(&Reshape::to(&shape), vec![joined], ty, loc)
    }

    fn push<T: Operation>(&mut self, op: &T, operands: Vec<Value>, ty: Type, loc: &Loc) -> Value {
        let props = op.write();
        self.write(T::NAME, operands, props, vec![ty], loc.clone())[0]
    }

    /// Adds an operation with results of these types to the program.
    fn write(
        &mut self,
        name: &str,
        operands: Vec<Value>,
        props: AttrDict,
        types: Vec<Type>,
        loc: Loc,
    ) -> Vec<Value> {
        let op = optc_ir::NewOp {
            operands,
            loc,
            ..optc_ir::NewOp::new(name, &[], props)
        };
        self.out.push(op, types)
    }

    fn unwritten(&self, recipe: RecipeId) -> Vec<LazyId> {
        let lazy = |&v: &Val| match v {
            Val::Lazy(id) if self.lazies[id].emitted.is_none() => Some(id),
            Val::Lazy(_) | Val::Ssa(_) => None,
        };
        self.recipes[recipe]
            .operands
            .iter()
            .filter_map(lazy)
            .collect()
    }

    fn write_recipe(&mut self, id: RecipeId) {
        let recipe = &self.recipes[id];
        let emitted = |&v: &Val| match v {
            Val::Ssa(v) => v,
            Val::Lazy(id) => self.lazies[id]
                .emitted
                .expect("operands are written before"),
        };
        let operands = recipe.operands.iter().map(emitted).collect();
        let types = recipe
            .results
            .iter()
            .map(|&r| self.lazies[r].ty.clone())
            .collect();
        let (name, props) = (recipe.name.clone(), recipe.props.clone());
        let loc = recipe.loc.clone();
        let values = self.write(&name, operands, props, types, loc);
        for (&lazy, value) in self.recipes[id].results.iter().zip(values) {
            self.lazies[lazy].emitted.get_or_insert(value);
        }
    }

    fn write_constant(&mut self, id: LazyId, props: AttrDict) {
        let lazy = &self.lazies[id];
        let (ty, loc) = (lazy.ty.clone(), lazy.loc.clone());
        let values = self.write(Constant::NAME, Vec::new(), props, vec![ty], loc);
        self.lazies[id].emitted = values.first().copied();
    }

    /// The `value` attribute of a known tensor that is small or a splat.
    fn dense(&self, id: LazyId) -> Option<AttrDict> {
        let lazy = &self.lazies[id];
        let tensor = lazy.tensor.as_deref()?;
        let bytes = tensor.to_bytes();
        let width = bytes.len().checked_div(tensor.len()).unwrap_or(0);
        let splat = 1 < tensor.len() && bytes.chunks_exact(width).all(|c| *c == bytes[..width]);
        if !splat && !lazy.inline && INLINE_BYTES < bytes.len() {
            return None;
        }
        let bytes = if splat {
            bytes[..width].to_vec()
        } else {
            bytes
        };
        Some(dense_props(lazy.ty.clone(), bytes, splat))
    }

    /// Removes the operations that an abandoned translation has emitted since `start`. Constants that were emitted
    /// before stay.
    pub(crate) fn abandon(&mut self, start: usize) {
        if self.out.func.body.len() <= start {
            return;
        }
        let dropped: IndexSet<Value> = self.out.func.body[start..]
            .iter()
            .flat_map(|&op| self.out.func.ops[op].results.iter().copied())
            .collect();
        self.out.func.body.truncate(start);
        for id in self.lazies.ids() {
            let emitted = &mut self.lazies[id].emitted;
            if emitted.is_some_and(|v| dropped.contains(&v)) {
                *emitted = None;
            }
        }
    }

    /// Replaces unknown extents of a value by those that the file declares, if these are numbers or expressions of
    /// these names; other names are ignored. Arguments keep their type.
    pub(crate) fn refine(&mut self, val: Val, declared: &TensorType, sizes: &IndexSet<Arc<str>>) {
        let Some(found) = self.ty(val).as_tensor() else {
            return;
        };
        let argument = matches!(val, Val::Ssa(v) if self.out.func.def_op(v).is_none());
        if argument || found.rank() != declared.rank() || !found.dims.contains(&Dim::Unknown) {
            return;
        }
        let is_known = |size: Size| size.names().iter().all(|name| sizes.contains(name));
        let pick = |(a, b): (&Dim, &Dim)| match b.size().is_some_and(is_known) {
            true => entries::known_or(a.clone(), b),
            false => a.clone(),
        };
        let dims = found.dims.iter().zip(&declared.dims).map(pick).collect();
        let ty = Type::from(TensorType::new(dims, found.dtype));
        match val {
            Val::Ssa(v) => self.out.func.values[v].ty = ty,
            Val::Lazy(id) => self.lazies[id].ty = ty,
        }
    }
}

/// Converts a shape rule's refusal. Unknown extents, and an element type on which the operation does not compute, keep
/// the operator opaque; anything else is an error of the model.
fn refusal(decl: &dyn OpDecl, op: &OpRef<'_>, error: OpError) -> Stop {
    let tensors = op.operands.iter().map(|ty| ty.as_tensor());
    if tensors.clone().flatten().any(|t| t.shape().is_none()) {
        return Stop::opaque(error.message);
    }
    let to = match op.props.get("to") {
        Some(Attr::Type(Type::Scalar(to))) => Some(*to),
        _ => None,
    };
    let types = tensors.clone().flatten().map(|t| t.dtype);
    if types.chain(to).any(|dtype| !dtype.computes()) {
        return Stop::opaque(error.message);
    }
    let dtypes: IndexSet<DType> = tensors.clone().flatten().map(|t| t.dtype).collect();
    if dtypes.len() == 1 && !dtypes.contains(&DType::F32) {
        let as_f32 = |t: &TensorType| Type::from(TensorType::new(t.dims.clone(), DType::F32));
        let types: Vec<Type> = tensors.flatten().map(as_f32).collect();
        if decl
            .infer(&OpRef {
                operands: types.iter().collect(),
                ..op.clone()
            })
            .is_ok()
        {
            return Stop::opaque(error.message);
        }
    }
    // With default words it would be valid, so one of the words is unknown.
    let words = |attr: &Attr| matches!(attr, Attr::Str(_));
    if op.props.iter().any(|(_, attr)| words(attr)) {
        let plain = op.props.iter().filter(|(_, attr)| !words(attr));
        let props = plain.map(|(key, attr)| (key, attr.clone())).collect();
        let plain = OpRef {
            props: &props,
            ..op.clone()
        };
        if decl.infer(&plain).is_ok() {
            return Stop::opaque(error.message);
        }
    }
    let diag = Diagnostic::error(error.code, error.message);
    Stop::from(error.hint.into_iter().fold(diag, Diagnostic::note))
}

fn dense_props(ty: Type, bytes: Vec<u8>, splat: bool) -> AttrDict {
    let dense = Attr::Dense(Arc::new(Dense { ty, bytes, splat }));
    AttrDict::new().with("value", dense)
}

/// The attributes of a constant that is large or whose elements are not known here.
fn constant_props(ty: &Type, storage: &Storage) -> AttrDict {
    match storage {
        Storage::File {
            file,
            offset,
            length,
            ..
        } => {
            let data = Attr::External {
                file: file.clone(),
                offset: *offset,
                length: *length,
            };
            AttrDict::new().with("data", data)
        }
        Storage::Here(tensor) => dense_props(ty.clone(), tensor.to_bytes(), false),
        Storage::Splat(one) => dense_props(ty.clone(), one.to_bytes(), true),
    }
}
