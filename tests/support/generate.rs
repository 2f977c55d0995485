//! Random programs: the same seed gives the same program on every machine.
//!
//! Sizes are small and mostly primes, so that a swapped axis is detected. Values are shared, there are several results,
//! and rearrangements are as frequent as computations.

use crate::must::Must;
use indexmap::IndexMap;
use optc_compare::SplitMix64;
use optc_ir::analysis::Uses;
use optc_ir::op::Operation;
use optc_ir::op::in_place::ALIAS;
use optc_ir::tensor::Tensor;
use optc_ir::{
    Attr, AttrDict, DType, Func, FuncBuilder, Module, NewOp, Registry, TensorType, Value,
};
use optc_ops::{
    Abs, Add, Bounds, Broadcast, Compare, Concat, Constant, Conv, DepthMode, DepthToSpace,
    Direction, DynamicUpdateSlice, Einsum, Gather, LayerNorm, Linear, Matmul, Max, MaxPool, Mul,
    Neg, Pad, PadMode, PadValue, Reduce, ReduceKind, Relu, Reshape, ScatterElements, ScatterNd,
    ScatterReduction, Select, Sigmoid, Slice, Softmax, SpaceToDepth, Split, Squeeze, Sub, Tanh,
    Transpose, Unsqueeze, ints, tensor_dense,
};
use std::sync::Arc;

/// The kind of a random program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Profile {
    /// Every kind of operation.
    Mixed,
    /// Reshapes, transposes and element-wise operations.
    Moves,
    /// A few reshapes, transposes and element-wise operations on a handful of elements, so that all
    /// layouts can be tried.
    Tiny,
    /// As `Tiny`, with parts: concat, slice without strides, pad.
    TinyParts,
    /// As `TinyParts`, with all operations that copy or repeat, and with products, reductions and softmax.
    TinyCopies,
    /// Copies, and updates of values and arguments. Some arguments share their memory with a result.
    Updates,
}

impl Profile {
    fn is_tiny(self) -> bool {
        matches!(
            self,
            Profile::Tiny | Profile::TinyParts | Profile::TinyCopies
        )
    }
}

/// A random program of 1 to 30 operations (1 to 5 or 2 to 6 for the tiny profiles, and a few more).
#[must_use]
pub fn program(seed: u64, profile: Profile, registry: &Registry) -> Module {
    let mut rng = SplitMix64::new(seed);
    let (max_ops, dtype) = match profile {
        Profile::Tiny | Profile::TinyParts => (5, DType::SI32),
        Profile::TinyCopies => (5, DType::F32),
        Profile::Updates => (12, DType::F32),
        Profile::Mixed | Profile::Moves => (30, dtype(&mut rng)),
    };
    let least = if profile == Profile::TinyCopies { 2 } else { 1 };
    let n_ops = least + below(&mut rng, max_ops);
    generate(rng, profile, dtype, n_ops, registry)
}

/// A random program of `f32` numbers with at least this many operations.
#[must_use]
pub fn program_of(seed: u64, profile: Profile, n_ops: usize, registry: &Registry) -> Module {
    generate(SplitMix64::new(seed), profile, DType::F32, n_ops, registry)
}

fn generate(
    rng: SplitMix64,
    profile: Profile,
    dtype: DType,
    n_ops: usize,
    registry: &Registry,
) -> Module {
    let b = FuncBuilder::new(registry);
    let mut g = Generator {
        b,
        rng,
        profile,
        dtype,
        pool: Vec::new(),
        by_shape: IndexMap::new(),
        args: 0,
    };
    while g.b.n_ops() < n_ops {
        g.step();
    }
    let results = g.results();
    if profile == Profile::Updates {
        g.share(&results);
    }
    g.b.finish(&results)
}

/// The program with a free boundary, as if it came from a file of bare operations.
#[must_use]
pub fn bare(mut module: Module) -> Module {
    let free = |func: &mut Func| func.bare = true;
    module.funcs.iter_mut().for_each(free);
    module
}

fn dtype(rng: &mut SplitMix64) -> DType {
    let types = [
        DType::F32,
        DType::F32,
        DType::F32,
        DType::SI32,
        DType::F16,
        DType::SI8,
    ];
    types[below(rng, types.len())]
}

fn below(rng: &mut SplitMix64, n: usize) -> usize {
    usize::try_from(rng.below(n as u64)).expect("below a usize")
}

struct Generator<'a> {
    b: FuncBuilder<'a>,
    rng: SplitMix64,
    profile: Profile,
    dtype: DType,
    /// Values of type `dtype` that operations may read.
    pool: Vec<Value>,
    /// The same values by extents, in the order of the pool.
    by_shape: IndexMap<Vec<u64>, Vec<Value>>,
    args: usize,
}

/// The unused results, in order.
fn unused(func: &Func) -> Vec<Value> {
    let uses = Uses::of(func);
    let results = func.body.iter().flat_map(|&op| &func.ops[op].results);
    results.copied().filter(|&v| !uses.is_used(v)).collect()
}

/// The largest number of elements of a value.
const MAX_ELEMENTS: u64 = 1500;
const MAX_ELEMENTS_TINY: u64 = 12;

impl Generator<'_> {
    fn below(&mut self, n: usize) -> usize {
        below(&mut self.rng, n)
    }

    fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    fn max_elements(&self) -> u64 {
        if self.profile.is_tiny() {
            MAX_ELEMENTS_TINY
        } else {
            MAX_ELEMENTS
        }
    }

    /// Adds one operation, or nothing if the drawn one does not fit.
    fn step(&mut self) {
        let moves: &[fn(&mut Self)] = &[
            Self::reshape,
            Self::reshape,
            Self::transpose,
            Self::transpose,
            Self::unary,
            Self::binary,
            Self::binary,
        ];
        let more: &[fn(&mut Self)] = &[
            Self::matmul,
            Self::softmax,
            Self::reduce,
            Self::layer_norm,
            Self::concat,
            Self::slice,
            Self::split,
            Self::pad,
            Self::broadcast,
            Self::gather,
            Self::select,
            Self::conv,
            Self::pool_image,
            Self::unit_axes,
            Self::depth_to_space,
            Self::einsum,
        ];
        let parts: &[fn(&mut Self)] = &[Self::concat, Self::concat, Self::slice, Self::pad];
        let copies: &[fn(&mut Self)] = &[
            Self::concat,
            Self::concat,
            Self::slice,
            Self::slice,
            Self::split,
            Self::pad,
            Self::broadcast,
            Self::gather_run,
            Self::roll,
            Self::matmul,
            Self::reduce,
            Self::softmax,
        ];
        let updates: &[fn(&mut Self)] = &[
            Self::update,
            Self::update,
            Self::update,
            Self::update,
            Self::concat,
            Self::concat,
            Self::slice,
            Self::roll,
            Self::matmul,
            Self::reduce,
        ];
        let more = match self.profile {
            Profile::Moves | Profile::Tiny => &[],
            Profile::TinyParts => parts,
            Profile::TinyCopies => copies,
            Profile::Updates => updates,
            Profile::Mixed => more,
        };
        let n = moves.len() + more.len();
        let k = self.below(n);
        match moves.get(k) {
            Some(make) => make(self),
            None => more[k - moves.len()](self),
        }
    }

    fn results(&mut self) -> Vec<Value> {
        let mut results = unused(&self.b.func);
        if self.chance(20) {
            let value = self.pick();
            if !results.contains(&value) {
                results.push(value);
            }
        }
        results
    }

    /// Lets arguments share their memory with results that are at most one dimension longer.
    fn share(&mut self, results: &[Value]) {
        let mut free: Vec<usize> = (0..results.len()).collect();
        for number in 0..self.b.func.args.len() {
            let own = self.b.shape(self.b.func.args[number]);
            let fits = |&at: &usize| {
                let shape = self.b.shape(results[at]);
                let differs = own.iter().zip(&shape).filter(|(a, b)| a != b).count();
                own.len() == shape.len() && differs <= 1
            };
            let Some(at) = free.iter().position(fits).filter(|_| self.chance(80)) else {
                continue;
            };
            let port = &mut self.b.func.arg_ports[number];
            port.attrs.set(ALIAS, Attr::ints(&[free.remove(at)]));
        }
    }

    /// A copy in which a box, rows or elements are replaced, at places that are computed.
    fn update(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let shape = self.b.shape(x);
        let (axis, rows) = (self.axis_of(x), 1 + self.below(2) as u64);
        if shape[axis] < rows || shape.contains(&0) {
            return;
        }
        let mut part = shape.clone();
        match self.below(3) {
            0 => {
                part[axis] = rows;
                let update = self.operand(&part);
                let starts = shape.iter().map(|_| self.side_arg(&[], DType::SI64));
                let starts: Vec<Value> = starts.collect();
                let all = [&[x, update], &starts[..]].concat();
                self.push(&DynamicUpdateSlice {}, &all);
            }
            1 => {
                part[0] = rows.min(shape[0]);
                let indices = self.side_arg(&[part[0], 1], DType::SI64);
                let update = self.operand(&part);
                let reduction = ScatterReduction::None;
                let drop_outside = self.chance(50);
                let op = ScatterNd {
                    reduction,
                    drop_outside,
                };
                self.push(&op, &[x, indices, update]);
            }
            _ => {
                part[axis] = rows;
                let indices = self.side_arg(&part, DType::SI64);
                let update = self.operand(&part);
                let sums = self.chance(30);
                let reduction = match sums {
                    true => ScatterReduction::Add,
                    false => ScatterReduction::None,
                };
                let axis = int(axis);
                self.push(&ScatterElements { axis, reduction }, &[x, indices, update]);
            }
        }
    }

    fn push<T: Operation>(&mut self, op: &T, operands: &[Value]) {
        self.add(NewOp::of(op, operands));
    }

    /// Adds an operation that has no attributes.
    fn plain(&mut self, name: &str, operands: &[Value]) {
        self.add(NewOp::new(name, operands, AttrDict::new()));
    }

    fn add(&mut self, op: NewOp<'_>) {
        if let Ok(results) = self.b.add(op) {
            for value in results {
                if self.usable(value) {
                    self.keep(value);
                }
            }
        }
    }

    /// Adds a value to the pool.
    fn keep(&mut self, value: Value) {
        self.pool.push(value);
        let shape = self.b.shape(value);
        self.by_shape.entry(shape).or_default().push(value);
    }

    fn usable(&self, value: Value) -> bool {
        self.b.tensor(value).is_some_and(|t| t.dtype == self.dtype)
            && self.elements(value) <= self.max_elements()
    }

    fn elements(&self, value: Value) -> u64 {
        self.b.shape(value).iter().product()
    }

    /// A value to read: a recent one, any one, or a new argument.
    fn pick(&mut self) -> Value {
        let n = self.pool.len();
        if n == 0 || self.chance(10) {
            let shape = self.any_shape();
            return self.new_arg(&shape);
        }
        let recent = n.min(3);
        let at = if self.chance(70) {
            n - 1 - self.below(recent)
        } else {
            self.below(n)
        };
        self.pool[at]
    }

    fn pick_of_rank(&mut self, rank: usize) -> Option<Value> {
        for _ in 0..4 {
            let x = self.pick();
            if self.b.shape(x).len() >= rank {
                return Some(x);
            }
        }
        None
    }

    fn any_shape(&mut self) -> Vec<u64> {
        let sizes: &[u64] = match self.profile {
            Profile::Tiny | Profile::TinyParts | Profile::TinyCopies => &[2, 3],
            Profile::Updates => &[2, 3, 4],
            Profile::Mixed | Profile::Moves => &[2, 3, 5, 7, 4, 6, 1, 8],
        };
        let max_rank = if self.profile.is_tiny() { 2 } else { 4 };
        let rank = 1 + self.below(max_rank);
        (0..rank).map(|_| sizes[self.below(sizes.len())]).collect()
    }

    fn new_arg(&mut self, shape: &[u64]) -> Value {
        let value = self.side_arg(shape, self.dtype);
        self.keep(value);
        value
    }

    fn side_arg(&mut self, shape: &[u64], dtype: DType) -> Value {
        let name = format!("x{}", self.args);
        self.args += 1;
        self.b.arg(&name, TensorType::fixed(shape, dtype))
    }

    /// An operand of this shape: a value of the pool, a weight or an argument.
    fn operand(&mut self, shape: &[u64]) -> Value {
        let n_same = self.by_shape.get(shape).map_or(0, Vec::len);
        if n_same != 0 && self.chance(75) {
            let at = self.below(n_same);
            return self.by_shape[shape][at];
        }
        if !self.profile.is_tiny() && self.chance(40) {
            return self.weight(shape);
        }
        self.new_arg(shape)
    }

    fn weight(&mut self, shape: &[u64]) -> Value {
        if self.dtype == DType::F32 && shape.iter().product::<u64>() < 8 {
            let n = usize::try_from(shape.iter().product::<u64>()).unwrap_or(0);
            let values: Vec<f32> = (0..n).map(|i| [0.5, -1.25, 2.0, 0.75][i % 4]).collect();
            return self.b.floats(shape, &values);
        }
        let offset = 64 * self.b.n_ops() as u64 * 1024;
        self.b
            .external("made-up.weights", offset, shape, self.dtype)
    }

    fn unary(&mut self) {
        let x = self.pick();
        let names: &[&str] = if self.dtype.is_float() {
            &[Relu::NAME, Neg::NAME, Tanh::NAME, Sigmoid::NAME, Abs::NAME]
        } else {
            &[Relu::NAME, Neg::NAME, Abs::NAME]
        };
        let name = names[self.below(names.len())];
        self.plain(name, &[x]);
    }

    fn binary(&mut self) {
        let x = self.pick();
        let mut shape = self.b.shape(x);
        if self.chance(40) {
            let drop = self.below(shape.len() + 1);
            shape.drain(..drop);
            for n in &mut shape {
                if below(&mut self.rng, 3) == 0 {
                    *n = 1;
                }
            }
        }
        let y = self.operand(&shape);
        let names = [Add::NAME, Mul::NAME, Sub::NAME, Max::NAME];
        let name = names[self.below(names.len())];
        let operands = if self.chance(80) { [x, y] } else { [y, x] };
        self.plain(name, &operands);
    }

    fn reshape(&mut self) {
        let x = self.pick();
        let shape = self.b.shape(x);
        let new = self.regroup(shape);
        self.push(&Reshape::to(&new), &[x]);
    }

    /// Another factorization: adjacent dimensions merged, dimensions cut, or a new factorization.
    fn regroup(&mut self, mut shape: Vec<u64>) -> Vec<u64> {
        if self.chance(15) {
            shape = vec![shape.iter().product()];
        }
        for _ in 0..1 + self.below(2) {
            let at = self.below(shape.len().max(1));
            if shape.len() >= 2 && self.chance(50) {
                let at = at.min(shape.len() - 2);
                let merged = shape[at] * shape[at + 1];
                shape.splice(at..at + 2, [merged]);
            } else if let Some(&n) = shape.get(at) {
                let divisors: Vec<u64> = (2..n.max(2)).filter(|d| n.is_multiple_of(*d)).collect();
                if shape.len() < 6 && !divisors.is_empty() {
                    let d = divisors[self.below(divisors.len())];
                    shape.splice(at..=at, [n / d, d]);
                }
            }
        }
        shape
    }

    fn transpose(&mut self) {
        let Some(x) = self.pick_of_rank(2) else {
            return;
        };
        let mut perm: Vec<usize> = (0..self.b.shape(x).len()).collect();
        for i in (1..perm.len()).rev() {
            let j = self.below(i + 1);
            perm.swap(i, j);
        }
        let perm = ints(&perm);
        self.push(&Transpose { perm }, &[x]);
    }

    fn matmul(&mut self) {
        let Some(x) = self.pick_of_rank(2) else {
            return;
        };
        let shape = self.b.shape(x);
        let (rank, k) = (shape.len(), shape[shape.len() - 1]);
        let n = [2, 3, 5][self.below(3)];
        match self.below(3) {
            0 => {
                let w = self.operand(&[n, k]);
                self.push(&Linear { to: None }, &[x, w]);
            }
            1 => {
                let w = self.operand(&[k, n]);
                self.push(&Matmul { to: None }, &[x, w]);
            }
            _ => {
                let mut other = shape;
                other[rank - 2] = k;
                other[rank - 1] = n;
                let y = self.operand(&other);
                self.push(&Matmul { to: None }, &[x, y]);
            }
        }
    }

    fn axis_of(&mut self, x: Value) -> usize {
        let rank = self.b.shape(x).len();
        self.below(rank.max(1))
    }

    fn softmax(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        if self.dtype.is_float() {
            let axis = self.axis_of(x);
            let axis = int(axis);
            self.push(&Softmax { axis }, &[x]);
        }
    }

    fn reduce(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let axis = self.axis_of(x);
        let reduce = Reduce {
            kind: [ReduceKind::Sum, ReduceKind::Max, ReduceKind::Min][self.below(3)],
            axes: Some(ints(&[axis])),
            keepdims: self.chance(50),
        };
        self.push(&reduce, &[x]);
    }

    fn layer_norm(&mut self) {
        let Some(x) = self.pick_of_rank(2) else {
            return;
        };
        if !self.dtype.is_float() {
            return;
        }
        let shape = self.b.shape(x);
        let axis = shape.len() - 1;
        let (scale, bias) = (self.operand(&shape[axis..]), self.operand(&shape[axis..]));
        let (axis, epsilon) = (int(axis), 1e-3);
        self.push(&LayerNorm { axis, epsilon }, &[x, scale, bias]);
    }

    fn concat(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let axis = self.axis_of(x);
        let mut shape = self.b.shape(x);
        shape[axis] = [shape[axis], 2, 3][self.below(3)];
        let y = self.operand(&shape);
        let axis = int(axis);
        self.push(&Concat { axis }, &[x, y]);
    }

    fn slice(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let (axis, shape) = (self.axis_of(x), self.b.shape(x));
        let size = i64::try_from(shape[axis]).unwrap_or(1);
        let mut starts = vec![0; shape.len()];
        let mut limits: Vec<i64> = shape
            .iter()
            .map(|&n| i64::try_from(n).unwrap_or(1))
            .collect();
        let mut strides = vec![1; shape.len()];
        let start = i64::try_from(self.below(shape[axis].max(1) as usize)).unwrap_or(0);
        let kind = self.below(4) + 2 * usize::from(self.profile == Profile::TinyParts);
        (starts[axis], limits[axis], strides[axis]) = match kind {
            0 => (size - 1, -1, -1),
            1 => (0, size, 2),
            _ => (start, size, 1),
        };
        let slice = Slice {
            starts: Bounds::of_ints(&starts),
            limits: Bounds::of_ints(&limits),
            strides: Some(strides),
        };
        self.push(&slice, &[x]);
    }

    fn split(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let (axis, shape) = (self.axis_of(x), self.b.shape(x));
        let n = shape[axis];
        if n < 2 {
            return;
        }
        let even = n.is_multiple_of(2) && self.chance(50);
        let first = if even {
            n / 2
        } else {
            1 + self.rng.below(n - 1)
        };
        let (axis, sizes) = (int(axis), ints(&[first, n - first]));
        self.push(&Split { axis, sizes }, &[x]);
    }

    fn pad(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let (axis, rank) = (self.axis_of(x), self.b.shape(x).len());
        let (mut low, mut high) = (vec![0u64; rank], vec![0u64; rank]);
        (low[axis], high[axis]) = (self.rng.below(3), self.rng.below(3));
        let pad = Pad {
            low: Some(ints(&low)),
            high: Some(ints(&high)),
            mode: PadMode::Constant,
            value: if self.dtype.is_float() {
                PadValue::Float(0.0)
            } else {
                PadValue::Int(0)
            },
        };
        self.push(&pad, &[x]);
    }

    fn broadcast(&mut self) {
        let x = self.pick();
        let mut shape = self.b.shape(x);
        for n in &mut shape {
            if *n == 1 {
                *n = [1, 2, 3][below(&mut self.rng, 3)];
            }
        }
        if shape.len() < 4 && self.chance(50) {
            shape.insert(0, 2);
        }
        if shape.iter().product::<u64>() <= self.max_elements() {
            self.push(&Broadcast::to(&shape), &[x]);
        }
    }

    fn gather(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let (axis, shape) = (self.axis_of(x), self.b.shape(x));
        if shape[axis] == 0 {
            return;
        }
        let rank = if shape.len() < 4 {
            1 + self.below(2)
        } else {
            1
        };
        let dims: Vec<u64> = (0..rank).map(|_| 1 + self.below(3) as u64).collect();
        let indices = self.side_arg(&dims, DType::SI64);
        let axis = int(axis);
        self.push(&Gather { axis }, &[x, indices]);
    }

    /// A gather of one index, or of several evenly spaced ones.
    fn gather_run(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let (at, shape) = (self.axis_of(x), self.b.shape(x));
        let size = i64::try_from(shape[at]).unwrap_or(0);
        let first = self.rng.below(shape[at].max(1)).cast_signed();
        let step = [1, 1, 2, -1][self.below(4)];
        let most = 1 + self.below(3);
        let run = (0i64..).map(|i| first + i * step);
        let run: Vec<i64> = run
            .take(most)
            .take_while(|i| (0..size).contains(i))
            .collect();
        let one = run.len() == 1 && self.chance(50);
        let dims = if one { vec![] } else { vec![run.len()] };
        let axis = int(at);
        let indices = Tensor::from_i64(DType::SI64, dims, run);
        let indices = self.b.must(&Constant::dense(tensor_dense(&indices)), &[]);
        self.push(&Gather { axis }, &[x, indices]);
    }

    /// A value cut in two, with the halves concatenated in reverse order.
    fn roll(&mut self) {
        let Some(x) = self.pick_of_rank(1) else {
            return;
        };
        let (at, shape) = (self.axis_of(x), self.b.shape(x));
        let n = shape[at];
        if n < 2 {
            return;
        }
        let first = 1 + self.rng.below(n - 1);
        let (axis, sizes) = (int(at), ints(&[first, n - first]));
        let Ok(parts) = self.b.op(&Split { axis, sizes }, &[x]) else {
            return;
        };
        let mut turned: Vec<Value> = parts.into_iter().rev().collect();
        if self.chance(20) {
            turned.swap(0, 1);
        }
        self.push(&Concat { axis }, &turned);
    }

    fn select(&mut self) {
        let x = self.pick();
        let shape = self.b.shape(x);
        let y = self.operand(&shape);
        let direction = Direction::Lt;
        let Ok(condition) = self.b.one(&Compare { direction }, &[x, y]) else {
            return;
        };
        let z = self.operand(&shape);
        self.push(&Select {}, &[condition, x, z]);
    }

    fn image(&mut self) -> Option<(Value, Vec<u64>)> {
        for _ in 0..4 {
            let x = self.pick();
            let shape = self.b.shape(x);
            if shape.len() == 4 {
                return Some((x, shape));
            }
        }
        if self.chance(30) {
            let shape = [1, [2, 4, 3][self.below(3)], 5, 4];
            return Some((self.new_arg(&shape), shape.to_vec()));
        }
        None
    }

    fn conv(&mut self) {
        let Some((x, shape)) = self.image() else {
            return;
        };
        if !self.dtype.is_float() {
            return;
        }
        let kernel = if shape[2] < 3 || shape[3] < 3 || self.chance(40) {
            1
        } else {
            3
        };
        let outputs = [2u64, 3, 6][self.below(3)];
        let paired = shape[1].is_multiple_of(2) && outputs.is_multiple_of(2);
        let groups = if paired && self.chance(50) { 2 } else { 1 };
        let w = self.operand(&[outputs, shape[1] / groups, kernel, kernel]);
        let pad = if kernel == 3 { 1 } else { 0 };
        let conv = Conv {
            strides: Some(vec![1, 1]),
            pads: Some(vec![pad; 4]),
            dilations: Some(vec![1, 1]),
            group: i64::try_from(groups).unwrap_or(1),
            transposed: false,
            output_padding: None,
            to: None,
        };
        self.push(&conv, &[x, w]);
    }

    fn pool_image(&mut self) {
        let Some((x, shape)) = self.image() else {
            return;
        };
        if shape[2] < 2 || shape[3] < 2 || !self.dtype.is_float() {
            return;
        }
        let pool = MaxPool {
            kernel: vec![2, 2],
            strides: Some(vec![1, 1]),
            dilations: None,
            pads: Some(vec![0; 4]),
            ceil_mode: false,
        };
        self.push(&pool, &[x]);
    }

    fn unit_axes(&mut self) {
        let x = self.pick();
        let shape = self.b.shape(x);
        if let Some(axis) = shape.iter().position(|&n| n == 1) {
            let axes = Some(ints(&[axis]));
            self.push(&Squeeze { axes }, &[x]);
        } else if shape.len() < 5 {
            let axis = self.below(shape.len() + 1);
            let axes = ints(&[axis]);
            self.push(&Unsqueeze { axes }, &[x]);
        }
    }

    fn depth_to_space(&mut self) {
        let Some((x, shape)) = self.image() else {
            return;
        };
        if shape[1].is_multiple_of(4) {
            let mode = [DepthMode::Dcr, DepthMode::Crd][self.below(2)];
            let blocksize = 2;
            self.push(&DepthToSpace { blocksize, mode }, &[x]);
        } else if shape[2].is_multiple_of(2) && shape[3].is_multiple_of(2) {
            self.push(&SpaceToDepth { blocksize: 2 }, &[x]);
        }
    }

    fn einsum(&mut self) {
        let Some(x) = self.pick_of_rank(2) else {
            return;
        };
        let shape = self.b.shape(x);
        if shape.len() != 2 {
            return;
        }
        let n = [2, 3][self.below(2)];
        let y = self.operand(&[n, shape[1]]);
        let equation = ["ij,kj->ki", "ij,kj->ik", "ij,kj->ikj"][self.below(3)];
        let equation = Arc::from(equation);
        self.push(&Einsum { equation, to: None }, &[x, y]);
    }
}

fn int(n: usize) -> i64 {
    i64::try_from(n).expect("axes are small")
}

/// The number of elements of the largest value of a program.
#[must_use]
pub fn largest(module: &Module) -> u64 {
    let values = module
        .funcs
        .iter()
        .flat_map(|f| f.values.iter().map(|(_, v)| &v.ty));
    let elements = |t: &TensorType| t.elements().unwrap_or(0);
    values
        .filter_map(|t| t.as_tensor().map(elements))
        .max()
        .unwrap_or(0)
}
