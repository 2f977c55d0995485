//! The operation for each instruction: element-wise ones, reductions, constants.

use super::func::{FuncCx, Operands};
use super::types::dtype;
use crate::cursor::Cursor;
use crate::literal::{Literal, literal};
use crate::module::{Computation, Instruction};
use optc_ir::{Attr, AttrDict, DType, Dense, Dim, Sign, TensorType, Value};
use optc_layout::Notation;
use optc_ops::{
    BitcastConvert, Broadcast, Cast, Constant, Identity, Iota, IsInf, IsNan, Max, Min, Not, Or,
    Select,
};

/// Instructions of one operand that have an operation of the same meaning.
const UNARY: &[(&str, &str)] = &[
    ("abs", "hbir.abs"),
    ("acos", "hbir.acos"),
    ("acosh", "hbir.acosh"),
    ("asin", "hbir.asin"),
    ("asinh", "hbir.asinh"),
    ("atanh", "hbir.atanh"),
    ("cbrt", "hbir.cbrt"),
    ("ceil", "hbir.ceil"),
    ("cosh", "hbir.cosh"),
    ("cosine", "hbir.cos"),
    ("erf", "hbir.erf"),
    ("erfc", "hbir.erfc"),
    ("exponential", "hbir.exp"),
    ("exponential-minus-one", "hbir.expm1"),
    ("floor", "hbir.floor"),
    ("log", "hbir.log"),
    ("log-plus-one", "hbir.log1p"),
    ("logistic", "hbir.sigmoid"),
    ("negate", "hbir.neg"),
    ("not", "hbir.not"),
    ("round-nearest-even", "hbir.round"),
    ("rsqrt", "hbir.rsqrt"),
    ("sign", "hbir.sign"),
    ("sine", "hbir.sin"),
    ("sinh", "hbir.sinh"),
    ("sqrt", "hbir.sqrt"),
    ("tan", "hbir.tan"),
    ("tanh", "hbir.tanh"),
];

/// Instructions of two operands that have an operation of the same meaning.
const BINARY: &[(&str, &str)] = &[
    ("add", "hbir.add"),
    ("and", "hbir.and"),
    ("atan2", "hbir.atan2"),
    ("divide", "hbir.div"),
    ("maximum", "hbir.max"),
    ("minimum", "hbir.min"),
    ("multiply", "hbir.mul"),
    ("or", "hbir.or"),
    ("power", "hbir.pow"),
    ("remainder", "hbir.mod"),
    ("shift-left", "hbir.shift_left"),
    ("shift-right-arithmetic", "hbir.shift_right"),
    ("shift-right-logical", "hbir.shift_right"),
    ("subtract", "hbir.sub"),
    ("xor", "hbir.xor"),
];

fn named(table: &[(&str, &'static str)], opcode: &str) -> Option<&'static str> {
    table
        .iter()
        .find(|(name, _)| *name == opcode)
        .map(|(_, op)| *op)
}

impl FuncCx<'_, '_> {
    /// The value of an instruction as equivalent operations; `None` if there are none.
    pub(super) fn native(&mut self, made: &Instruction, operands: &Operands) -> Option<Value> {
        let ty = Self::result_type(made)?;
        let mut args = Vec::with_capacity(operands.len());
        for operand in operands {
            let [Some(value)] = operand[..] else {
                return None;
            };
            self.tensor_of(value)?;
            args.push(value);
        }
        // The StableHLO front end keeps operands that give sizes.
        match (made.opcode, &args[..]) {
            ("constant", []) => self.constant(made, &ty),
            ("iota", []) => self.iota(made, &ty),
            ("convert", &[x]) => self.cast(x, &ty),
            ("is-finite", &[x]) => self.is_finite(x, &ty),
            ("compare", &[a, b]) => self.compare(made, a, b, &ty),
            ("select", &[cond, a, b]) => self.select(cond, a, b, &ty),
            ("clamp", &[low, x, high]) => self.clamp(low, x, high, &ty),
            ("reduce", &[x, init]) => self.reduce(made, x, init, &ty),
            ("broadcast", &[x]) => self.broadcast(made, x, &ty),
            ("bitcast", &[x]) => self.bitcast(x, &ty),
            ("bitcast-convert", &[x]) => self.reinterpreted(x, &ty),
            ("copy", &[x]) => self.copy(x, &ty),
            ("transpose", &[x]) => self.transpose(made, x, &ty),
            ("reshape", &[x]) => self.reshape_to(x, &ty),
            ("dot", &[a, b]) => self.dot(made, a, b, &ty),
            ("convolution", &[x, w] | &[x, w, _]) => self.convolution(made, x, w, &ty),
            ("reduce-window", &[x, init] | &[x, init, _, _, _, _, _]) => {
                self.reduce_window(made, x, init, &ty)
            }
            ("slice", &[x] | &[x, _, _, _]) => self.slice(made, x, &ty),
            ("reverse", &[x]) => self.reverse(made, x, &ty),
            ("pad", &[x, value] | &[x, value, _, _, _]) => self.pad(made, x, value, &ty),
            ("concatenate", parts) => self.concatenate(made, parts, &ty),
            ("gather", &[x, indices] | &[x, indices, _]) => self.gather(made, x, indices, &ty),
            ("scatter", &[x, indices, updates]) => self.scatter(made, [x, indices, updates], &ty),
            ("custom-call", parts) => self.custom_call(made, parts, &ty),
            ("dynamic-update-slice", &[_, _, ..]) => self.update_slice(&args, &ty),
            ("dynamic-slice", &[x, ..]) => self.dynamic_slice(made, x, &args[1..], &ty),
            ("square", &[x]) => self.binary("multiply", x, x, &ty),
            (opcode, &[x]) => self.unary(named(UNARY, opcode)?, x, &ty),
            (opcode, &[a, b]) => self.binary(opcode, a, b, &ty),
            _ => None,
        }
    }

    /// A value in another element type, in the layout of `like`.
    pub(super) fn cast(&mut self, x: Value, like: &TensorType) -> Option<Value> {
        let from = self.tensor_of(x)?;
        if from.dtype == like.dtype {
            return self.placed(x, like);
        }
        let to = like.dtype;
        self.emit(&Cast { to }, &[x], like.clone())
    }

    /// The bits of the elements as elements of another type of the same width.
    pub(super) fn reinterpreted(&mut self, x: Value, ty: &TensorType) -> Option<Value> {
        if self.tensor_of(x)?.dtype == ty.dtype {
            return self.placed(x, ty);
        }
        let to = ty.dtype;
        self.emit(&BitcastConvert { to }, &[x], ty.clone())
    }

    /// A copy; inside a fusion it may change the element type, too.
    fn copy(&mut self, x: Value, ty: &TensorType) -> Option<Value> {
        let own = retyped(ty, self.tensor_of(x)?.dtype);
        let value = self.relaid(x, &own)?;
        self.cast(value, ty)
    }

    /// A value in the layout of `like`. Element-wise operations can write any layout.
    fn placed(&mut self, x: Value, like: &TensorType) -> Option<Value> {
        if self.tensor_of(x)? == *like {
            return Some(x);
        }
        self.emit(&Identity {}, &[x], like.clone())
    }

    /// An element-wise operation in the operands' element type, converted to the result's.
    fn computed(
        &mut self,
        name: &str,
        args: &[Value],
        props: AttrDict,
        ty: &TensorType,
    ) -> Option<Value> {
        let dtype = self.tensor_of(*args.first()?)?.dtype;
        if dtype == ty.dtype {
            return self.emit_named(name, args, props, ty.clone());
        }
        let own = retyped(ty, dtype);
        let value = self.emit_named(name, args, props, own)?;
        self.cast(value, ty)
    }

    fn unary(&mut self, name: &str, x: Value, ty: &TensorType) -> Option<Value> {
        self.computed(name, &[x], AttrDict::new(), ty)
    }

    fn binary(&mut self, opcode: &str, a: Value, b: Value, ty: &TensorType) -> Option<Value> {
        let name = named(BINARY, opcode)?;
        let (a, b) = self.common(a, b)?;
        let dtype = self.tensor_of(a)?.dtype;
        let mut props = AttrDict::new();
        if opcode == "remainder" {
            props.set("fmod", Attr::Bool(true));
        }
        let DType::Int { bits, sign } = dtype else {
            return self.computed(name, &[a, b], props, ty);
        };
        let other = match opcode {
            "shift-right-logical" if sign == Sign::Signed => Sign::Unsigned,
            "shift-right-arithmetic" if sign == Sign::Unsigned => Sign::Signed,
            _ => return self.computed(name, &[a, b], props, ty),
        };
        let changed = DType::Int { bits, sign: other };
        let mut operands = Vec::new();
        for x in [a, b] {
            let like = retyped(&self.tensor_of(x)?, changed);
            operands.push(self.cast(x, &like)?);
        }
        let shifted = self.emit_named(name, &operands, props, retyped(ty, changed))?;
        self.cast(shifted, ty)
    }

    /// Two operands in one element type, the wider one.
    fn common(&mut self, a: Value, b: Value) -> Option<(Value, Value)> {
        let (x, y) = (self.tensor_of(a)?, self.tensor_of(b)?);
        if x.dtype == y.dtype {
            return Some((a, b));
        }
        if x.dtype.bits() < y.dtype.bits() {
            let wide = self.cast(a, &retyped(&x, y.dtype))?;
            return Some((wide, b));
        }
        let wide = self.cast(b, &retyped(&y, x.dtype))?;
        Some((a, wide))
    }

    fn is_finite(&mut self, x: Value, ty: &TensorType) -> Option<Value> {
        let nan = self.emit(&IsNan {}, &[x], ty.clone())?;
        let infinite = self.emit(&IsInf {}, &[x], ty.clone())?;
        let either = self.emit(&Or {}, &[nan, infinite], ty.clone())?;
        self.emit(&Not {}, &[either], ty.clone())
    }

    fn compare(
        &mut self,
        made: &Instruction,
        a: Value,
        b: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        if made.attrs.get("type") == Some("TOTALORDER") {
            return None;
        }
        let (a, b) = self.common(a, b)?;
        let direction = made.attrs.get("direction")?.to_ascii_lowercase();
        let props = AttrDict::new().with("direction", Attr::str(&direction));
        self.emit_named("hbir.compare", &[a, b], props, ty.clone())
    }

    fn select(&mut self, cond: Value, a: Value, b: Value, ty: &TensorType) -> Option<Value> {
        let (a, b) = self.common(a, b)?;
        let own = retyped(ty, self.tensor_of(a)?.dtype);
        let value = self.emit(&Select {}, &[cond, a, b], own)?;
        self.cast(value, ty)
    }

    fn clamp(&mut self, low: Value, x: Value, high: Value, ty: &TensorType) -> Option<Value> {
        let own = retyped(ty, self.tensor_of(x)?.dtype);
        let above = self.emit(&Max {}, &[x, low], own.clone())?;
        let within = self.emit(&Min {}, &[above, high], own)?;
        self.cast(within, ty)
    }

    fn constant(&mut self, made: &Instruction, ty: &TensorType) -> Option<Value> {
        if let Some(dense) = &made.dense {
            return self.emit(&Constant::dense((**dense).clone()), &[], ty.clone());
        }
        let mut cursor = Cursor::new(made.payload.as_deref()?);
        let Literal::Bytes(bytes) = literal(&mut cursor, &made.shape, 0).ok()? else {
            return None;
        };
        let dense = Dense {
            ty: ty.without_layout().into(),
            bytes,
            splat: false,
        };
        self.emit(&Constant::dense(dense), &[], ty.clone())
    }

    fn iota(&mut self, made: &Instruction, ty: &TensorType) -> Option<Value> {
        let axis = made.attrs.int("iota_dimension")?;
        self.emit(&Iota { axis }, &[], ty.clone())
    }

    fn reduce(
        &mut self,
        made: &Instruction,
        x: Value,
        init: Value,
        ty: &TensorType,
    ) -> Option<Value> {
        let kind = self.reducer(made)?;
        let axes = made.attrs.ints("dimensions")?;
        self.reduced(kind, x, init, &axes, ty)
    }

    /// A reduction of elements along `axes`, including the start value.
    pub(super) fn reduced(
        &mut self,
        kind: Reducer,
        x: Value,
        init: Value,
        axes: &[i64],
        ty: &TensorType,
    ) -> Option<Value> {
        let dtype = self.tensor_of(x)?.dtype;
        let name = kind.of(dtype)?;
        let props = AttrDict::new()
            .with("axes", Attr::ints(axes))
            .with("kind", Attr::str(name));
        let own = retyped(ty, dtype);
        let start = self.known_scalar(init);
        if start.is_some_and(|start| kind.starts_from(start, dtype)) {
            let value = self.emit_named("hbir.reduce", &[x], props, own)?;
            return self.cast(value, ty);
        }
        if self.tensor_of(init)?.dtype != dtype {
            return None;
        }
        let value = self.emit_named("hbir.reduce", &[x], props, own.clone())?;
        let value = self.emit_named(kind.binary(), &[value, init], AttrDict::new(), own)?;
        self.cast(value, ty)
    }

    /// The reduction of an instruction, if its computation is one operation on its two parameters.
    pub(super) fn reducer(&self, made: &Instruction) -> Option<Reducer> {
        let &[index] = made.called("to_apply")? else {
            return None;
        };
        Reducer::find(&self.cx.hlo.computations[index])
    }

    /// Returns whether the computation of an instruction gives its second parameter. `None` if it has none.
    pub(super) fn is_second(&self, made: &Instruction) -> Option<bool> {
        let &[index] = made.called("to_apply")? else {
            return None;
        };
        let computation = &self.cx.hlo.computations[index];
        let parameters = computation.parameters();
        Some(parameters.len() == 2 && parameters[1] == computation.root)
    }

    fn broadcast(&mut self, made: &Instruction, x: Value, ty: &TensorType) -> Option<Value> {
        let dims = made.attrs.ints("dimensions")?;
        let dims: Vec<usize> = dims
            .into_iter()
            .map(|d| usize::try_from(d).ok())
            .collect::<Option<_>>()?;
        let mut order: Vec<usize> = (0..dims.len()).collect();
        order.sort_by_key(|&i| dims[i]);
        let x = self.permuted(x, &order)?;
        let from = self.tensor_of(x)?.dims;
        if from.len() != dims.len() || dims.iter().any(|&d| ty.rank() <= d) {
            return None;
        }
        let first = order.first().map_or(ty.rank(), |&i| dims[i]);
        let mut spread = vec![Dim::Fixed(1); ty.rank() - first];
        for (n, &i) in from.into_iter().zip(&order) {
            spread[dims[i] - first] = n;
        }
        let x = self.reshaped_to(x, &spread)?;
        let own = retyped(ty, self.tensor_of(x)?.dtype);
        let value = self.emit(&Broadcast::of_dims(&ty.dims), &[x], own)?;
        self.cast(value, ty)
    }
}

/// The type with another element type and, if possible, the same layout.
pub(super) fn retyped(ty: &TensorType, dtype: DType) -> TensorType {
    let own = TensorType {
        dtype,
        ..ty.clone()
    };
    match own.layout() {
        Some(Ok(_)) => own,
        _ => own.with_notation(Notation::RowMajor),
    }
}

/// The combination of two numbers in a reduction.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Reducer {
    Sum,
    Product,
    Max,
    Min,
    And,
    Or,
}

impl Reducer {
    /// The combination that a computation of two parameters does. Conversions to a wider type and back around it belong
    /// to it.
    fn find(computation: &Computation) -> Option<Reducer> {
        let parameters = computation.parameters();
        let [a, b] = parameters[..] else { return None };
        let through = |mut at: usize| loop {
            let instruction = &computation.instructions[at];
            match instruction.opcode {
                "convert" | "copy" | "bitcast" => at = *instruction.operands.first()?,
                _ => return Some(at),
            }
        };
        let root = &computation.instructions[through(computation.root)?];
        let [x, y] = root.operands[..] else {
            return None;
        };
        let (x, y) = (through(x)?, through(y)?);
        let float = computation
            .root()
            .shape
            .as_array()
            .and_then(|s| dtype(s.element))?
            .is_float();
        let same = computation.root == through(computation.root)?;
        if !((x, y) == (a, b) || (x, y) == (b, a)) || !(same || float) {
            return None;
        }
        match root.opcode {
            "add" => Some(Reducer::Sum),
            "multiply" => Some(Reducer::Product),
            "maximum" => Some(Reducer::Max),
            "minimum" => Some(Reducer::Min),
            "and" => Some(Reducer::And),
            "or" => Some(Reducer::Or),
            _ => None,
        }
    }

    /// The kind of `hbir.reduce`; a sum of truth values is an or, a product is an and.
    fn of(self, dtype: DType) -> Option<&'static str> {
        match (self, dtype.is_bool()) {
            (Reducer::Sum, false) => Some("sum"),
            (Reducer::Product, false) => Some("prod"),
            (Reducer::Max, _) | (Reducer::Or | Reducer::Sum, true) => Some("max"),
            (Reducer::Min, _) | (Reducer::And | Reducer::Product, true) => Some("min"),
            (Reducer::And, false) => dtype.is_int().then_some("and"),
            (Reducer::Or, false) => dtype.is_int().then_some("or"),
        }
    }

    pub(super) fn binary(self) -> &'static str {
        match self {
            Reducer::Sum => "hbir.add",
            Reducer::Product => "hbir.mul",
            Reducer::Max => "hbir.max",
            Reducer::Min => "hbir.min",
            Reducer::And => "hbir.and",
            Reducer::Or => "hbir.or",
        }
    }

    /// Returns whether `start` is the neutral element of the reduction.
    pub(super) fn starts_from(self, start: f64, dtype: DType) -> bool {
        let (least, greatest) = match dtype {
            _ if dtype.is_float() => (f64::NEG_INFINITY, f64::INFINITY),
            DType::Int { bits: 1, .. } => (0.0, 1.0),
            DType::Int {
                bits,
                sign: Sign::Unsigned,
            } => (0.0, 2f64.powi(i32::from(bits)) - 1.0),
            DType::Int { bits, .. } => {
                let half = 2f64.powi(i32::from(bits) - 1);
                (-half, half - 1.0)
            }
            DType::F64 | DType::F32 | DType::F16 | DType::BF16 => (0.0, 0.0),
            DType::Mini(_) | DType::Complex64 | DType::Complex128 => return false,
        };
        match self {
            Reducer::Sum | Reducer::Or => start == 0.0,
            Reducer::Product => start == 1.0,
            // All bits are set.
            Reducer::And if least < 0.0 => start == -1.0,
            Reducer::And => start == greatest,
            Reducer::Max => start <= least,
            Reducer::Min => greatest <= start,
        }
    }
}

/// Extents as dimensions.
pub(super) fn fixed(shape: &[u64]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Fixed(n)).collect()
}
