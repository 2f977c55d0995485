//! Reproducible inputs and weights: the same seed gives the same bits on every machine.

use crate::tensors::tolerance;
use indexmap::{IndexMap, IndexSet};
use optc_interp::{
    Budget, DataError, DataSource, MAX_ELEMENTS, RunError, argument_keys, find_func, held_type,
    shape_or_default,
};
use optc_ir::tensor::{bits_of_float, storage_bytes, wrap_int};
use optc_ir::{Bindings, Control, DType, Func, Module, Op, OpData, Registry, Sign, Tensor, Value};

/// The size of an unbound symbol and of an unknown dimension in made-up inputs.
pub const DEFAULT_SIZE: u64 = 128;

/// The generator SplitMix64 (Steele, Lea and Flood 2014).
#[derive(Clone, Debug)]
pub struct SplitMix64(u64);

impl SplitMix64 {
    /// A generator that starts from `seed`.
    #[must_use]
    pub fn new(seed: u64) -> SplitMix64 {
        SplitMix64(seed)
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        mix(self.0)
    }

    /// A number below `n`; 0 if `n` is 0.
    pub fn below(&mut self, n: u64) -> u64 {
        u64::try_from((u128::from(self.bits()) * u128::from(n)) >> 64).unwrap_or(0)
    }

    /// A number with mean 0 and variance 1, nearly normal, between -6 and 6.
    ///
    /// It is a sum of twelve uniform numbers of 16 bits, so it needs no function whose last bit depends on the machine.
    pub fn normal(&mut self) -> f64 {
        let mut sum = 0u32;
        for _ in 0..3 {
            let bits = self.bits();
            for shift in [0, 16, 32, 48] {
                sum += u32::from(u16::try_from((bits >> shift) & 0xFFFF).unwrap_or(0));
            }
        }
        f64::from(sum) / 65535.0 - 6.0
    }
}

fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// The contents of made-up inputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Fill {
    /// Floats near normal, integers from -8 to 7 (from 0 for unsigned ones), random truth values.
    Normal,
    /// Normal, mixed with 0, -0, denormal numbers, 1, -1 and larger powers of two.
    Edge,
    /// Normal, with a NaN and both infinities in a few places.
    NonFinite,
    /// A different number in every element of an input, as far as its type can count: the row-major number of the
    /// element, or, if that is too large for the type, this digit of it. Two programs that only move data agree if they
    /// agree on all digits.
    Unique(u32),
}

/// Inputs for a function, keyed by [`argument_keys`](optc_interp::argument_keys).
///
/// Symbols get their sizes from `bindings`; unbound ones get [`DEFAULT_SIZE`]. An integer that is used as an index,
/// directly or through casts and rearrangements, stays in the range of the axis that it indexes. An integer that is
/// cast to a float or a truth value is a mask, 0 or 1. The same function, seed and bindings give the same inputs.
///
/// # Errors
/// There is no such function, or an argument is too large.
pub fn random_inputs(
    module: &Module,
    func: &str,
    fill: Fill,
    seed: u64,
    bindings: &Bindings,
    registry: &Registry,
) -> Result<IndexMap<String, Tensor>, RunError> {
    let func = find_func(module, func)?;
    let (mut inputs, budget) = (IndexMap::new(), Budget::new());
    let mut known = IndexMap::new();
    for (i, (name, &value)) in argument_keys(func).into_iter().zip(&func.args).enumerate() {
        let ty = &*held_type(func.ty(value));
        let shape = shape_or_default(&name, ty, bindings, DEFAULT_SIZE)?;
        let room = budget.hold(ty.dtype, &shape);
        room.map_err(|source| RunError::Boundary {
            func: func.name.to_string(),
            what: format!("argument `{name}`"),
            source: Box::new(source),
        })?;
        let mut rng = SplitMix64::new(mix(seed ^ mix(i as u64 + 1)));
        let bound = value_bound((module, func), value, (bindings, registry), &mut known);
        let tensor = match bound {
            Some(n) if ty.dtype.is_int() => {
                let count: usize = shape.iter().product();
                let below = |_| i64::try_from(rng.below(n)).unwrap_or(0);
                Tensor::from_i64(ty.dtype, shape, (0..count).map(below))
            }
            _ => random_tensor(ty.dtype, shape, fill, &mut rng),
        };
        inputs.insert(name, tensor);
    }
    Ok(inputs)
}

/// A tensor of made-up elements.
///
/// # Panics
/// `shape` has more elements than can be allocated.
#[must_use]
pub fn random_tensor(dtype: DType, shape: Vec<usize>, fill: Fill, rng: &mut SplitMix64) -> Tensor {
    let count: usize = shape.iter().product();
    if let Fill::Unique(digit) = fill {
        return unique(dtype, shape, digit);
    }
    match dtype {
        DType::Int { .. } => {
            let values = (0..count).map(|_| small_int(dtype, fill, rng));
            Tensor::from_i64(dtype, shape, values)
        }
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => {
            let values = (0..count).map(|_| stored_bits(dtype, fill, rng));
            Tensor::from_bits(dtype, shape, values)
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => {
            let mut values: Vec<f64> = (0..count).map(|_| float(dtype, fill, rng)).collect();
            if fill == Fill::NonFinite && count > 0 {
                for x in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
                    let at = usize::try_from(rng.below(count as u64)).unwrap_or(0);
                    values[at] = x;
                }
            }
            Tensor::from_f64(dtype, shape, values)
        }
    }
}

/// The bits of an element of a type without arithmetic; any bits for fills with edge values.
fn stored_bits(dtype: DType, fill: Fill, rng: &mut SplitMix64) -> u128 {
    let any = fill != Fill::Normal && rng.below(2) == 0;
    let Some(part) = dtype.complex_part() else {
        let x = rng.normal();
        let bits = u128::from(rng.bits());
        return if any { bits } else { bits_of_float(x, dtype) };
    };
    let (real, imaginary) = (rng.normal(), rng.normal());
    let wide = (u128::from(rng.bits()) << 64) | u128::from(rng.bits());
    if any {
        return wide;
    }
    bits_of_float(real, dtype) | (bits_of_float(imaginary, dtype) << part.bits())
}

fn float(dtype: DType, fill: Fill, rng: &mut SplitMix64) -> f64 {
    if fill != Fill::Edge || rng.below(2) == 0 {
        return rng.normal();
    }
    let denormal = match dtype {
        DType::F16 => 2f64.powi(-20),
        DType::F64 => f64::from_bits(0x0000_1234_5678_9ABC),
        DType::F32 | DType::BF16 | DType::Int { .. } => 2f64.powi(-130),
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => 2f64.powi(-130),
    };
    let edges = [
        0.0,
        -0.0,
        1.0,
        -1.0,
        denormal,
        -denormal,
        64.0,
        -128.0,
        0.5,
        1.0 / 1024.0,
    ];
    let at = usize::try_from(rng.below(edges.len() as u64)).unwrap_or(0);
    edges[at]
}

fn small_int(dtype: DType, fill: Fill, rng: &mut SplitMix64) -> i64 {
    let small = i64::try_from(rng.below(16)).unwrap_or(0);
    let (low, high, narrow) = match dtype {
        DType::Int { bits: 1, .. } => return wrap_int(small & 1, dtype),
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => (0, wrap_int(-1, dtype), (8..=16).contains(&bits)),
        DType::Int { bits, .. } => {
            let high = (1i64 << (u32::from(bits) - 1).min(62)) - 1;
            (-high - 1, high, (8..=16).contains(&bits))
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => (0, 0, false),
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => (0, 0, false),
    };
    let signed = if low < 0 { small - 8 } else { small };
    if fill == Fill::Edge && narrow && rng.below(8) == 0 {
        return if rng.below(2) == 0 { low } else { high };
    }
    wrap_int(signed, dtype)
}

/// The inputs with their floats changed by less than the rounding errors of a program.
#[must_use]
pub fn nearby(inputs: &IndexMap<String, Tensor>, seed: u64) -> IndexMap<String, Tensor> {
    let mut rng = SplitMix64::new(mix(seed ^ 0x6E65_6172));
    let near = |(key, tensor): (&String, &Tensor)| {
        if !tensor.dtype.is_float() {
            return (key.clone(), tensor.clone());
        }
        let off = tolerance(tensor.dtype) / 64.0;
        let values = tensor.to_f64().into_iter();
        let values = values.map(|x| x + off * x.abs().max(1.0) * (rng.normal() / 6.0));
        let near = Tensor::from_f64(tensor.dtype, tensor.shape.clone(), values);
        (key.clone(), near)
    };
    inputs.iter().map(near).collect()
}

/// Returns whether the number of some element has this digit, so that not all digits are 0.
pub(crate) fn has_digit(inputs: &IndexMap<String, Tensor>, digit: u32) -> bool {
    inputs.values().any(|tensor| {
        let step = base(tensor.dtype).checked_pow(digit);
        step.is_some_and(|step| step < tensor.len() as u64)
    })
}

/// The number of values that a type can count.
fn base(dtype: DType) -> u64 {
    match dtype {
        DType::F64 => 1 << 52,
        DType::F32 => 1 << 24,
        DType::F16 => 1 << 11,
        DType::BF16 => 1 << 8,
        DType::Int { bits, .. } => 1 << u32::from(bits).min(62),
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => 1 << dtype.bits().min(62),
    }
}

/// Digit `digit` of the row-major number of each element. The base is the number of values that the type can count.
fn unique(dtype: DType, shape: Vec<usize>, digit: u32) -> Tensor {
    let base = base(dtype);
    let count: usize = shape.iter().product();
    let step = base.checked_pow(digit);
    let value = |i: usize| step.map_or(0, |step| i as u64 / step % base);
    if !dtype.computes() {
        return Tensor::from_bits(dtype, shape, (0..count).map(|i| u128::from(value(i))));
    }
    let values = (0..count).map(|i| i64::try_from(value(i)).unwrap_or(0));
    Tensor::from_i64(dtype, shape, values)
}

/// The most arguments of functions that are visited for their bounds; this limits the depth of the recursion.
const MOST_ASKED: usize = 1024;

/// The bound below which an integer argument must stay, if its uses need one.
///
/// It is the smallest size that the argument indexes, directly or through operations that only forward values, also in
/// functions that are called or run. The bound is 2 (values 0 and 1) if a value computed from the argument is an index,
/// and if the argument becomes a float or a truth value, as a mask does. `known` memoizes the bounds of arguments, so
/// that each is computed once.
fn value_bound<'m>(
    (module, func): (&'m Module, &'m Func),
    arg: Value,
    (bindings, registry): (&Bindings, &Registry),
    known: &mut IndexMap<(&'m str, Value), Option<u64>>,
) -> Option<u64> {
    if MOST_ASKED < known.len() {
        return None;
    }
    if let Some(&known) = known.get(&(&*func.name, arg)) {
        return known;
    }
    known.insert((&*func.name, arg), None);
    let mut carriers: IndexSet<Value> = IndexSet::from([arg]);
    let mut computed: IndexSet<Value> = IndexSet::new();
    let mut bound: Option<u64> = None;
    for &op in &func.body {
        let data = &func.ops[op];
        let index = indexed(func, op, bindings, registry);
        let moved = || {
            let index = index.map(|(v, _)| v);
            data.operands.iter().filter(move |&&v| Some(v) != index)
        };
        let carried = moved().any(|v| carriers.contains(v));
        let derived = moved().any(|v| computed.contains(v));
        let passed = registry
            .get(&data.name)
            .is_some_and(|d| d.passes_on(&func.op_ref(op)));
        let limit = match index {
            Some((v, size)) if carriers.contains(&v) => Some(size),
            Some((v, size)) if computed.contains(&v) => Some(size.min(MASK)),
            None if (carried || derived) && passed && becomes_mask(func, data) => Some(MASK),
            Some(_) | None => None,
        };
        bound = bound.into_iter().chain(limit).min();
        if carried || derived {
            for (inner, operand, argument) in runs(module, func, op, registry) {
                let given = data.operands.get(operand..).unwrap_or_default();
                let taken = inner.args.get(argument..).unwrap_or_default();
                for (value, &arg) in given.iter().zip(taken) {
                    let most = match (carriers.contains(value), computed.contains(value)) {
                        (true, _) => u64::MAX,
                        (false, true) => MASK,
                        (false, false) => continue,
                    };
                    let inside = (module, inner);
                    let limit = value_bound(inside, arg, (bindings, registry), known);
                    bound = bound.into_iter().chain(limit.map(|n| n.min(most))).min();
                }
            }
        }
        if derived {
            computed.extend(&data.results);
        } else if carried {
            let set = if passed { &mut carriers } else { &mut computed };
            set.extend(&data.results);
        }
    }
    known.insert((&*func.name, arg), bound);
    bound
}

/// The functions that an operation runs. Each comes with the first operand that is passed on and the argument that this
/// operand becomes; the operands and arguments after these correspond in order.
fn runs<'m>(
    module: &'m Module,
    func: &Func,
    op: Op,
    registry: &Registry,
) -> Vec<(&'m Func, usize, usize)> {
    let find = |name: &str| find_func(module, name).ok();
    let handed = |name: &str, operand, argument| Some((find(name)?, operand, argument));
    if let Some(callee) = func.callee(op) {
        return handed(callee, 0, 0).into_iter().collect();
    }
    let op = func.op_ref(op);
    let control = registry.get(op.name).and_then(|decl| decl.control(&op));
    match control {
        None => Vec::new(),
        Some(Control::Loop { condition, body }) => {
            let both = [handed(&condition, 0, 0), handed(&body, 0, 0)];
            both.into_iter().flatten().collect()
        }
        Some(Control::Branch(names)) => {
            let mut found = Vec::new();
            let mut operand = 1;
            for inner in names.iter().filter_map(|name| find(name)) {
                found.push((inner, operand, 0));
                operand += inner.args.len();
            }
            found
        }
        Some(Control::Rounds {
            body,
            limit,
            condition,
            ..
        }) => {
            let first = usize::from(limit) + usize::from(condition);
            handed(&body, first, 2).into_iter().collect()
        }
        Some(Control::Scan { body, .. }) => handed(&body, 0, 0).into_iter().collect(),
    }
}

/// Masks are 0 or 1.
const MASK: u64 = 2;

/// Returns whether an operation that forwards its operand turns wide integers into floats or truth values.
fn becomes_mask(func: &Func, data: &OpData) -> bool {
    let dtype = |v: Option<&Value>| Some(func.ty(*v?).as_tensor()?.dtype);
    let wide = matches!(
        dtype(data.operands.first()),
        Some(DType::Int { bits: 32.., .. })
    );
    let to = dtype(data.results.first());
    wide && to.is_some_and(|t| t.is_float() || t.is_bool())
}

/// The operand that an operation uses as indices, and the size that they index.
fn indexed(func: &Func, op: Op, bindings: &Bindings, registry: &Registry) -> Option<(Value, u64)> {
    let data = &func.ops[op];
    let (at, sizes) = registry.get(&data.name)?.indexed(&func.op_ref(op))?;
    let sizes = sizes
        .iter()
        .map(|size| bindings.size(size).unwrap_or(DEFAULT_SIZE));
    Some((*data.operands.get(at)?, sizes.min()?.max(1)))
}

/// Made-up weights for programs whose files are absent.
///
/// The bytes depend only on the file's name, the position in it and the element type, so two programs that refer to the
/// same bytes get the same numbers. Floats are 0.02 times a nearly normal number. Short pieces (biases, scales,
/// variances) get absolute values, so that no variance is negative. Integers of 32 and 64 bits and truth values are 0
/// or 1, others -8 to 7.
#[derive(Clone, Copy, Debug, Default)]
pub struct RandomSource;

/// The most elements of a short piece, whose floats are not negative.
const SHORT_PIECE: u64 = 4096;

impl DataSource for RandomSource {
    fn read(
        &self,
        file: &str,
        offset: u64,
        length: u64,
        dtype: DType,
    ) -> Result<Vec<u8>, DataError> {
        let width = storage_bytes(dtype) as u64;
        let count = length / width;
        if !length.is_multiple_of(width) || count > MAX_ELEMENTS {
            let problem = format!("{length} bytes are no number of elements of {dtype}");
            return Err(DataError::Io {
                file: file.to_owned(),
                problem,
            });
        }
        let name = file.bytes().fold(0xCBF2_9CE4_8422_2325u64, |h, b| {
            (h ^ u64::from(b)).wrapping_mul(0x0000_0100_0000_01B3)
        });
        let at = |i: u64| SplitMix64::new(mix(name ^ mix(offset.wrapping_add(i * width))));
        let shape = vec![usize::try_from(count).unwrap_or(0)];
        let tensor = if dtype.is_float() {
            let weight = |i| {
                let x = 0.02 * at(i).normal();
                if count <= SHORT_PIECE { x.abs() } else { x }
            };
            Tensor::from_f64(dtype, shape, (0..count).map(weight))
        } else if !dtype.computes() {
            let value = |i| stored_bits(dtype, Fill::Normal, &mut at(i));
            Tensor::from_bits(dtype, shape, (0..count).map(value))
        } else {
            let wide = dtype.bits() >= 32;
            let value = |i| {
                let mut rng = at(i);
                if wide {
                    i64::from(rng.below(2) == 1)
                } else {
                    small_int(dtype, Fill::Normal, &mut rng)
                }
            };
            Tensor::from_i64(dtype, shape, (0..count).map(value))
        };
        Ok(tensor.to_bytes())
    }
}
