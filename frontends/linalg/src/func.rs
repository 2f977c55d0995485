//! The conversion of one function: its values, and the dispatch over operations.

use crate::codes;
use crate::types::{Ty, tensor, ty};
use indexmap::IndexMap;
use optc_ir::{
    Attr, DType, Dense, Func, FuncBuilder, Loc, NewOp, Operation, Registry, Type, Value,
};
use optc_mlir_syntax::{Aliases, Elements, Op, Parsed, Tree, Use, elements, ints, width, wrong};
use optc_ops::{
    Broadcast, Concat, Constant, DynamicUpdateSlice, MlirCall, Reshape, Symbol, Transpose,
};
use std::sync::Arc;

/// A value of the text.
#[derive(Clone, Debug)]
pub(crate) enum Val<'a> {
    /// A tensor of the IR.
    Tensor(Value),
    /// A tensor of one number.
    Splat(Splat),
    /// A tensor whose elements are not set.
    Empty(Vec<u64>, DType),
    /// An empty tensor with parts written into it.
    Parts(Parts),
    /// A known number.
    Number(Splat, &'a Op<'a>),
    /// A number that each reader computes by this operation of the text.
    Computed(&'a Op<'a>),
}

/// One element, and the tensor that is full of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Splat {
    pub(crate) shape: Vec<u64>,
    pub(crate) dtype: DType,
    /// The little-endian bytes of the element.
    pub(crate) bytes: Vec<u8>,
}

/// An empty tensor with parts written into it.
#[derive(Clone, Debug)]
pub(crate) struct Parts {
    pub(crate) shape: Vec<u64>,
    pub(crate) dtype: DType,
    /// The parts in the order of the writes: the value, its first index and its extents.
    pub(crate) parts: Vec<(Value, Vec<u64>, Vec<u64>)>,
}

impl Splat {
    /// The element as an integer; `None` for a float.
    pub(crate) fn int(&self) -> Option<i64> {
        self.dtype.is_int().then(|| self.element().i64_at(0))
    }

    /// The element, as a tensor of rank 0.
    pub(crate) fn element(&self) -> optc_ir::Tensor {
        let made = optc_ir::Tensor::from_bytes(self.dtype, Vec::new(), &self.bytes);
        made.unwrap_or_else(|_| optc_ir::Tensor::from_i64(self.dtype, Vec::new(), [0]))
    }
}

/// A function under conversion.
pub(crate) struct FuncCx<'a, 'm> {
    pub(crate) b: FuncBuilder<'m>,
    pub(crate) aliases: &'m Aliases<'a>,
    tree: &'m Tree<'a>,
    values: IndexMap<&'a str, Vec<Val<'a>>>,
    pub(crate) opaque: &'m mut IndexMap<String, usize>,
}

impl<'a, 'm> FuncCx<'a, 'm>
where
    'm: 'a,
{
    pub(crate) fn new(
        name: &str,
        registry: &'m Registry,
        aliases: &'m Aliases<'a>,
        tree: &'m Tree<'a>,
        opaque: &'m mut IndexMap<String, usize>,
    ) -> Self {
        FuncCx {
            b: FuncBuilder::named(name, registry),
            aliases,
            tree,
            values: IndexMap::new(),
            opaque,
        }
    }

    /// The function in the IR.
    pub(crate) fn function(mut self, func: &'m optc_mlir_syntax::Func<'a>) -> Parsed<Func> {
        self.b.func.span = func.span;
        for (name, text) in &func.body.args {
            let Ty::Tensor(shape, dtype) = self.ty(text) else {
                let message = format!(
                    "`@{}` takes {text}, wanted a tensor of known sizes",
                    func.name
                );
                return Err(wrong(codes::LINALG_TYPE, message, func.span));
            };
            let value = self.b.arg(name, tensor(&shape, dtype));
            self.values.insert(name, vec![Val::Tensor(value)]);
        }
        for op in &func.body.ops {
            let name = op
                .loc
                .and_then(|loc| self.aliases.location_name(loc, &crate::syntax::MLIR));
            self.b.loc = name.map_or(Loc::Unknown, Loc::name);
            if matches!(op.name, "func.return" | "return") {
                for used in &op.operands {
                    let value = self.tensor(used)?;
                    let Some(value) = value else {
                        let message = format!(
                            "`@{}` returns a number, wanted tensors of known sizes",
                            func.name
                        );
                        return Err(wrong(codes::LINALG_TYPE, message, op.span));
                    };
                    self.b.func.add_result(value, None);
                }
                continue;
            }
            let made = self.operation(op)?;
            let mut at = 0;
            for &(name, count) in &op.results {
                let own = made.get(at..at + count).unwrap_or_default().to_vec();
                self.values.insert(name, own);
                at += count;
            }
        }
        Ok(self.b.func)
    }

    /// The results of an operation: understood, a number, or opaque.
    fn operation(&mut self, op: &'m Op<'a>) -> Parsed<Vec<Val<'a>>> {
        for used in op
            .operands
            .iter()
            .chain(op.regions.iter().flat_map(|r| &r.free))
        {
            self.val(used)?;
        }
        if op.name == "arith.constant" {
            return self.constant(op);
        }
        let (body, results) = (self.b.func.body.len(), op.result_types.len());
        if let Some(made) = self.understood(op)?
            && made.len() == results
            && made
                .iter()
                .zip(&op.result_types)
                .all(|(val, text)| self.is_of(val, text))
        {
            return Ok(made);
        }
        // Operations that were made for a form that is refused later.
        self.b.func.body.truncate(body);
        self.kept(op)
    }

    /// Returns whether a value has the type of this text.
    fn is_of(&self, val: &Val<'a>, text: &'a str) -> bool {
        let (shape, dtype) = match val {
            Val::Tensor(value) => match self.b.tensor(*value) {
                Some(ty) => (ty.shape().unwrap_or_default(), ty.dtype),
                None => return false,
            },
            Val::Splat(Splat { shape, dtype, .. })
            | Val::Empty(shape, dtype)
            | Val::Parts(Parts { shape, dtype, .. }) => (shape.clone(), *dtype),
            Val::Number(..) | Val::Computed(_) => return true,
        };
        self.ty(text) == Ty::Tensor(shape, dtype)
    }

    /// The results of an operation whose meaning is known; `None` for any other.
    fn understood(&mut self, op: &'m Op<'a>) -> Parsed<Option<Vec<Val<'a>>>> {
        match op.name.split_once('.') {
            Some(("tensor", _)) => self.tensor_op(op),
            Some(("linalg", _)) => self.structured(op),
            Some(("arith" | "math", _)) => self.elementwise(op),
            Some(("func", "call")) => self.call(op),
            _ => Ok(None),
        }
    }

    /// An operation on the elements of whole tensors.
    fn elementwise(&mut self, op: &'m Op<'a>) -> Parsed<Option<Vec<Val<'a>>>> {
        let [result] = op.result_types[..] else {
            return Ok(None);
        };
        let Ty::Tensor(_, dtype) = self.ty(result) else {
            return Ok(None);
        };
        let mut operands = Vec::with_capacity(op.operands.len());
        for used in &op.operands {
            match self.tensor(used)? {
                Some(value) => operands.push(value),
                None => return Ok(None),
            }
        }
        Ok(self
            .element(op, &operands, dtype)
            .map(|v| vec![Val::Tensor(v)]))
    }

    /// A call of a function of the module that is converted too.
    fn call(&mut self, op: &'m Op<'a>) -> Parsed<Option<Vec<Val<'a>>>> {
        let callee = op.attr("callee").map(optc_mlir_syntax::symbol);
        let known = |name: &&str| {
            self.tree
                .funcs
                .iter()
                .any(|f| f.name == *name && !f.body.ops.is_empty())
        };
        let Some(callee) = callee.filter(known) else {
            return Ok(None);
        };
        let mut operands = Vec::new();
        for used in &op.operands {
            match self.tensor(used)? {
                Some(value) => operands.push(value),
                None => return Ok(None),
            }
        }
        let Some(types) = self.tensor_types(op) else {
            return Ok(None);
        };
        let call = MlirCall {
            callee: Symbol(Arc::from(callee)),
        };
        let made = self.b.add(NewOp::of(&call, &operands).typed(types));
        Ok(made
            .ok()
            .map(|all| all.into_iter().map(Val::Tensor).collect()))
    }

    /// The types of all results, if all are tensors of known sizes.
    pub(crate) fn tensor_types(&self, op: &Op<'a>) -> Option<Vec<Type>> {
        let tensor = |text: &&'a str| match self.ty(text) {
            Ty::Tensor(shape, dtype) => Some(Type::from(tensor(&shape, dtype))),
            Ty::Scalar(_) | Ty::Other => None,
        };
        op.result_types.iter().map(tensor).collect()
    }

    /// A constant: a tensor or a number.
    pub(crate) fn constant(&mut self, op: &'m Op<'a>) -> Parsed<Vec<Val<'a>>> {
        let text = op.attr("value").unwrap_or("");
        let text = self.aliases.resolve(text);
        let value = text.rsplit_once(" : ").map_or(text, |(value, _)| value);
        let wanted = op
            .result_types
            .first()
            .map_or(Ty::Other, |text| self.ty(text));
        let (shape, dtype) = match &wanted {
            Ty::Tensor(shape, dtype) => (shape.clone(), *dtype),
            Ty::Scalar(dtype) => (Vec::new(), *dtype),
            Ty::Other => return self.kept(op),
        };
        let count = shape.iter().product();
        let dense = match wanted {
            Ty::Scalar(_) => format!("dense<{value}>"),
            _ => value.to_owned(),
        };
        let found = elements(
            &dense,
            dtype,
            count,
            self.aliases,
            op.span,
            &crate::syntax::MLIR,
        )?;
        let bytes = match found {
            Some(Elements::Splat(bytes) | Elements::All(bytes)) => bytes,
            Some(Elements::Elided(name)) => {
                let message = format!("the elements of the constant `{name}` are not in the text");
                return Err(wrong(codes::LINALG_CONSTANT, message, op.span));
            }
            None => return self.kept(op),
        };
        if wanted == Ty::Scalar(dtype) {
            return Ok(vec![Val::Number(
                Splat {
                    shape,
                    dtype,
                    bytes,
                },
                op,
            )]);
        }
        if bytes.len() == width(dtype) {
            return Ok(vec![Val::Splat(Splat {
                shape,
                dtype,
                bytes,
            })]);
        }
        let ty = Type::tensor(&shape, dtype);
        let made = Constant::dense(Dense {
            ty,
            bytes,
            splat: false,
        });
        match self.one(&made, &[]) {
            Some(value) => Ok(vec![Val::Tensor(value)]),
            None => self.kept(op),
        }
    }

    /// The type of a text; aliases are followed.
    pub(crate) fn ty(&self, text: &'a str) -> Ty {
        ty(self.aliases.resolve(text))
    }

    /// The value that a use names.
    pub(crate) fn val(&self, used: &Use<'a>) -> Parsed<&Val<'a>> {
        let found = self
            .values
            .get(used.name)
            .and_then(|all| all.get(used.part));
        found.ok_or_else(|| {
            let message = format!("nothing before defines `%{}`", used.name);
            wrong(codes::LINALG_VALUE, message, used.span)
        })
    }

    /// A use as a tensor of the IR, a known number as one of rank 0; `None` for a number that is computed.
    pub(crate) fn tensor(&mut self, used: &Use<'a>) -> Parsed<Option<Value>> {
        let val = self.val(used)?.clone();
        let value = self.settled(&val);
        // The next reader finds the operation that was made.
        if let (Some(value), Val::Parts(_)) = (value, &val)
            && let Some(own) = self
                .values
                .get_mut(used.name)
                .and_then(|all| all.get_mut(used.part))
        {
            *own = Val::Tensor(value);
        }
        Ok(value)
    }

    /// A value as a tensor of the IR. Elements that are not set become 0.
    pub(crate) fn settled(&mut self, val: &Val<'a>) -> Option<Value> {
        match val {
            Val::Tensor(value) => Some(*value),
            Val::Splat(splat) | Val::Number(splat, _) => self.splat(splat),
            Val::Empty(shape, dtype) => self.zeros(shape, *dtype),
            Val::Parts(parts) => self.joined(parts),
            Val::Computed(_) => None,
        }
    }

    /// A constant of one number.
    pub(crate) fn splat(&mut self, splat: &Splat) -> Option<Value> {
        let ty = Type::tensor(&splat.shape, splat.dtype);
        let one = splat.shape.iter().product::<u64>() == 1;
        let dense = Dense {
            ty,
            bytes: splat.bytes.clone(),
            splat: !one,
        };
        self.one(&Constant::dense(dense), &[])
    }

    fn zeros(&mut self, shape: &[u64], dtype: DType) -> Option<Value> {
        self.splat(&Splat {
            shape: shape.to_vec(),
            dtype,
            bytes: vec![0; width(dtype)],
        })
    }

    /// Parts as a tensor: a concatenation if they fill it along one dimension, else writes into zeros.
    fn joined(&mut self, parts: &Parts) -> Option<Value> {
        if let Some(value) = self.concatenated(parts) {
            return Some(value);
        }
        let mut value = self.zeros(&parts.shape, parts.dtype)?;
        for (part, start, _) in &parts.parts {
            value = self.written(value, *part, start)?;
        }
        Some(value)
    }

    fn concatenated(&mut self, parts: &Parts) -> Option<Value> {
        let (shape, mut order) = (&parts.shape, parts.parts.clone());
        if let [(only, _, extents)] = &order[..] {
            return (extents == shape).then_some(*only);
        }
        let whole = |d: usize| {
            order
                .iter()
                .all(|(_, start, extents)| start[d] == 0 && extents[d] == shape[d])
        };
        let mut along = (0..shape.len()).filter(|&d| !whole(d));
        let (Some(axis), None) = (along.next(), along.next()) else {
            return None;
        };
        order.sort_by_key(|(_, start, _)| start[axis]);
        let mut next = 0;
        for (_, start, extents) in &order {
            if start[axis] != next {
                return None;
            }
            next += extents[axis];
        }
        if next != shape[axis] {
            return None;
        }
        let values: Vec<Value> = order.iter().map(|(value, ..)| *value).collect();
        let axis = i64::try_from(axis).ok()?;
        self.one(&Concat { axis }, &values)
    }

    /// A tensor with a part replaced.
    pub(crate) fn written(&mut self, into: Value, part: Value, start: &[u64]) -> Option<Value> {
        let mut operands = vec![into, part];
        for &n in start {
            operands.push(self.splat(&Splat {
                shape: Vec::new(),
                dtype: DType::SI64,
                bytes: i64::try_from(n).ok()?.to_le_bytes().to_vec(),
            })?);
        }
        self.one(&DynamicUpdateSlice {}, &operands)
    }

    /// Adds an operation of one result; `None` if its shape rule refuses it.
    pub(crate) fn one<T: Operation>(&mut self, op: &T, operands: &[Value]) -> Option<Value> {
        self.b.one(op, operands).ok()
    }

    /// The extents of a tensor.
    pub(crate) fn shape(&self, value: Value) -> Vec<u64> {
        self.b
            .tensor(value)
            .and_then(|ty| ty.shape())
            .unwrap_or_default()
    }

    /// The element type of a tensor.
    pub(crate) fn dtype(&self, value: Value) -> DType {
        self.b.tensor(value).map_or(DType::BOOL, |ty| ty.dtype)
    }

    pub(crate) fn reshaped(&mut self, x: Value, shape: &[u64]) -> Option<Value> {
        match self.shape(x) == shape {
            true => Some(x),
            false => self.one(&Reshape::to(shape), &[x]),
        }
    }

    pub(crate) fn transposed(&mut self, x: Value, perm: &[usize]) -> Option<Value> {
        if perm.iter().enumerate().all(|(i, &p)| i == p) {
            return Some(x);
        }
        let perm = optc_ops::ints(perm);
        self.one(&Transpose { perm }, &[x])
    }

    pub(crate) fn broadcast(&mut self, x: Value, shape: &[u64]) -> Option<Value> {
        match self.shape(x) == shape {
            true => Some(x),
            false => self.one(&Broadcast::to(shape), &[x]),
        }
    }

    /// The numbers of an attribute that is a list.
    pub(crate) fn ints(&self, op: &Op<'a>, name: &str) -> Option<Vec<i64>> {
        ints(self.aliases.resolve(op.attr(name)?))
    }

    /// The numbers of an attribute that is a list of indices.
    pub(crate) fn indices(&self, op: &Op<'a>, name: &str) -> Option<Vec<usize>> {
        let index = |n: i64| usize::try_from(n).ok();
        self.ints(op, name)?.into_iter().map(index).collect()
    }
}

/// The attribute that an opaque operation keeps as text.
pub(crate) fn text(text: &str) -> Attr {
    Attr::str(text)
}
