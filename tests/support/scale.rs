//! Large programs of different shapes, each with about the requested number of operations. Time and memory must grow
//! linearly with each of them.

use crate::generate::{Profile, program_of};
use crate::must::Must;
use crate::transformer::Transformer;
use optc_ir::op::Operation;
use optc_ir::{DType, FuncBuilder, Module, Registry, TensorType, Value};
use optc_ops::{
    Add, Approximate, Bounds, Concat, Gelu, LayerNorm, Matmul, Neg, Reduce, ReduceKind, Relu,
    Reshape, Slice, Softmax, Split, Tanh, Transpose, ints,
};

/// A kind of large program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Identical layers of a GPT-2-like transformer.
    Transformer,
    /// Blocks of shifted-window attention: window partition, roll, heads, and back.
    Windows,
    /// Programs of the random generator, in one function.
    Random,
    /// One value and its transpose, read by all operations.
    Readers,
    /// As many arguments and results as operations, all rearranged.
    Ports,
    /// One concat with half as many operands as there are operations.
    Concat,
    /// Small functions in one module.
    Functions,
    /// A straight line of reshapes and transposes, each result used only by the next.
    Line,
    /// As `Line`, with another reader for every value.
    Rungs,
    /// A deep chain of residual branches on the transposed value.
    Residual,
    /// Dense blocks: a layer reads all previous values of its block, up to [`DENSE`] of them.
    Dense,
    /// One value of three dimensions, read by all operations in five orders.
    Orders,
    /// A line of transposes with twenty dimensions.
    Rank,
}

impl Scale {
    /// Every kind.
    pub const ALL: [Scale; 13] = [
        Scale::Transformer,
        Scale::Windows,
        Scale::Random,
        Scale::Readers,
        Scale::Ports,
        Scale::Concat,
        Scale::Functions,
        Scale::Line,
        Scale::Rungs,
        Scale::Residual,
        Scale::Dense,
        Scale::Orders,
        Scale::Rank,
    ];

    /// The name on a command line.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Scale::Transformer => "transformer",
            Scale::Windows => "windows",
            Scale::Random => "random",
            Scale::Readers => "readers",
            Scale::Ports => "ports",
            Scale::Concat => "concat",
            Scale::Functions => "functions",
            Scale::Line => "line",
            Scale::Rungs => "rungs",
            Scale::Residual => "residual",
            Scale::Dense => "dense",
            Scale::Orders => "orders",
            Scale::Rank => "rank20",
        }
    }

    /// The kind with this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Scale> {
        Scale::ALL.into_iter().find(|s| s.name() == name)
    }

    /// A program of about `n_ops` operations.
    #[must_use]
    pub fn module(self, n_ops: usize, registry: &Registry) -> Module {
        match self {
            Scale::Transformer => Transformer::with_ops(n_ops).module(registry),
            Scale::Windows => windows(n_ops, registry),
            Scale::Random => program_of(7, Profile::Mixed, n_ops, registry),
            Scale::Readers => readers(n_ops, registry),
            Scale::Ports => ports(n_ops, registry),
            Scale::Concat => concat(n_ops, registry),
            Scale::Functions => functions(n_ops, registry),
            Scale::Line => line(n_ops, registry, false),
            Scale::Rungs => line(n_ops, registry, true),
            Scale::Residual => residual(n_ops, registry),
            Scale::Dense => dense(n_ops, registry),
            Scale::Orders => orders(n_ops, registry),
            Scale::Rank => rank(n_ops, registry),
        }
    }

    /// The text of a program of about `n_ops` operations.
    #[must_use]
    pub fn text(self, n_ops: usize, registry: &Registry) -> String {
        optc_ir::text::print(&self.module(n_ops, registry))
    }
}

fn f32s(shape: &[u64]) -> TensorType {
    TensorType::fixed(shape, DType::F32)
}

fn reshape(b: &mut FuncBuilder<'_>, x: Value, shape: &[u64]) -> Value {
    b.must(&Reshape::to(shape), &[x])
}

fn transpose(b: &mut FuncBuilder<'_>, x: Value, perm: &[usize]) -> Value {
    let perm = ints(perm);
    b.must(&Transpose { perm }, &[x])
}

fn readers(n_ops: usize, registry: &Registry) -> Module {
    let mut b = FuncBuilder::new(registry);
    let x = b.arg("x", f32s(&[6, 6]));
    let x = b.must(&Relu {}, &[x]);
    let y = transpose(&mut b, x, &[1, 0]);
    let (mut sums, mut k) = ([x, y], 0);
    while b.n_ops() < n_ops {
        let read = [x, y][k];
        sums[k] = b.must(&Add {}, &[sums[k], read]);
        k = 1 - k;
    }
    b.finish(&sums)
}

fn ports(n_ops: usize, registry: &Registry) -> Module {
    let mut b = FuncBuilder::new(registry);
    let mut results = Vec::new();
    while b.n_ops() < n_ops {
        let x = b.arg(&format!("x{}", results.len()), f32s(&[2, 15]));
        let y = reshape(&mut b, x, &[6, 5]);
        let y = transpose(&mut b, y, &[1, 0]);
        let y = b.must(&Relu {}, &[y]);
        results.push(transpose(&mut b, y, &[1, 0]));
    }
    b.finish(&results)
}

fn concat(n_ops: usize, registry: &Registry) -> Module {
    let mut b = FuncBuilder::new(registry);
    let x = b.arg("x", f32s(&[2, 3, 5]));
    let mut parts = Vec::new();
    for part in 0..n_ops / 2 {
        let weight = b.external("made-up.weights", 120 * part as u64, &[2, 3, 5], DType::F32);
        let part = b.must(&Add {}, &[x, weight]);
        parts.push(transpose(&mut b, part, &[1, 0, 2]));
    }
    let y = b.must(&Concat { axis: 1 }, &parts);
    b.finish(&[y])
}

fn functions(n_ops: usize, registry: &Registry) -> Module {
    let mut module = Module::default();
    let mut ops = 0;
    while ops < n_ops {
        let n = module.funcs.len();
        let mut b = FuncBuilder::new(registry);
        let x = b.arg("x", f32s(&[2, 3, 5]));
        let y = reshape(&mut b, x, &[6, 5]);
        let y = transpose(&mut b, y, &[1, 0]);
        let y = b.plain([Relu::NAME, Neg::NAME][n % 2], &[y]);
        ops += b.n_ops();
        let mut one = b.finish(&[y]);
        for func in &mut one.funcs {
            func.name = format!("f{n}").into();
        }
        module.funcs.append(&mut one.funcs);
    }
    module
}

fn line(n_ops: usize, registry: &Registry, read: bool) -> Module {
    let mut b = FuncBuilder::new(registry);
    let mut x = b.arg("x", f32s(&[2, 3, 5, 7]));
    let mut results = Vec::new();
    let steps = [
        (&[6u64, 35][..], &[1usize, 0][..]),
        (&[5, 7, 2, 3], &[2, 1, 3, 0]),
        (&[14, 15], &[1, 0]),
        (&[3, 5, 2, 7], &[2, 0, 1, 3]),
    ];
    let mut at = 0;
    while b.n_ops() < n_ops {
        let (shape, perm) = steps[at % steps.len()];
        x = reshape(&mut b, x, shape);
        x = transpose(&mut b, x, perm);
        if read {
            let sum = Reduce {
                kind: ReduceKind::Sum,
                axes: Some(vec![0]),
                keepdims: false,
            };
            results.push(b.must(&sum, &[x]));
        }
        at += 1;
    }
    results.push(x);
    b.finish(&results)
}

fn residual(n_ops: usize, registry: &Registry) -> Module {
    let mut b = FuncBuilder::new(registry);
    let first = b.arg("x", f32s(&[2, 7, 15]));
    let w = b.external("made-up.weights", 0, &[7, 7], DType::F32);
    let mut x = first;
    while b.n_ops() < n_ops {
        let y = transpose(&mut b, x, &[0, 2, 1]);
        let y = b.must(&Matmul { to: None }, &[y, w]);
        let y = b.must(&Tanh {}, &[y]);
        let y = transpose(&mut b, y, &[0, 2, 1]);
        x = b.must(&Add {}, &[x, y]);
    }
    let x = b.must(&Add {}, &[x, first]);
    b.finish(&[x])
}

/// The number of values that the last layer of a dense block reads.
pub const DENSE: u64 = 24;
const SIZE: u64 = 4;

/// Layers that concatenate all values of the block, apply a nonlinearity, and add an argument in another order.
fn dense(n_ops: usize, registry: &Registry) -> Module {
    let mut b = FuncBuilder::new(registry);
    let perms = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1]];
    let mut x = b.arg("x", f32s(&[SIZE; 3]));
    let mut args = 0;
    while b.n_ops() < n_ops {
        let mut values = vec![x];
        for n in 1..=DENSE {
            let all = b.must(&Concat { axis: 1 }, &values);
            let all = b.must(&Tanh {}, &[all]);
            let last = Slice {
                starts: Bounds::of_ints(&ints(&[0, SIZE * (n - 1), 0])),
                limits: Bounds::of_ints(&ints(&[SIZE, SIZE * n, SIZE])),
                strides: None,
            };
            let last = b.must(&last, &[all]);
            args += 1;
            let other = b.arg(&format!("a{args}"), f32s(&[SIZE; 3]));
            let other = transpose(&mut b, other, &perms[args % perms.len()]);
            values.push(b.must(&Add {}, &[last, other]));
        }
        x = values.pop().expect("a block has layers");
    }
    b.finish(&[x])
}

fn orders(n_ops: usize, registry: &Registry) -> Module {
    let mut b = FuncBuilder::new(registry);
    let x = b.arg("x", f32s(&[4, 4, 4]));
    let x = b.must(&Relu {}, &[x]);
    let perms = [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1]];
    let mut read = vec![x];
    read.extend(perms.iter().map(|perm| transpose(&mut b, x, perm)));
    let (mut sums, mut k) = (read.clone(), 0);
    while b.n_ops() < n_ops {
        sums[k] = b.must(&Add {}, &[sums[k], read[k]]);
        k = (k + 1) % read.len();
    }
    b.finish(&sums)
}

const RANK: usize = 20;

fn rank(n_ops: usize, registry: &Registry) -> Module {
    let mut b = FuncBuilder::new(registry);
    let mut x = b.arg("x", f32s(&[2; RANK]));
    let mut at = 0;
    while b.n_ops() < n_ops {
        let step = [3, 7, 9][at % 3];
        let perm: Vec<usize> = (0..RANK).map(|d| (d * step + at % 5) % RANK).collect();
        let y = transpose(&mut b, x, &perm);
        x = b.must(&Tanh {}, &[y]);
        if at % 7 == 6 {
            x = b.must(&Add {}, &[x, y]);
        }
        at += 1;
    }
    b.finish(&[x])
}

const BATCH: u64 = 2;
const SIDE: u64 = 8;
const WINDOW: u64 = 4;
const HEADS: u64 = 3;
const HEAD: u64 = 5;

fn windows(n_ops: usize, registry: &Registry) -> Module {
    let features = HEADS * HEAD;
    let mut blocks = Blocks {
        b: FuncBuilder::new(registry),
        offset: 0,
    };
    let ty = f32s(&[BATCH, SIDE, SIDE, features]);
    let mut x = blocks.b.arg("x", ty);
    let mut shifted = false;
    while blocks.b.n_ops() < n_ops {
        x = blocks.block(x, shifted);
        shifted = !shifted;
    }
    let x = blocks.norm(x);
    blocks.b.finish(&[x])
}

struct Blocks<'a> {
    b: FuncBuilder<'a>,
    offset: u64,
}

impl Blocks<'_> {
    fn block(&mut self, x: Value, shifted: bool) -> Value {
        let features = HEADS * HEAD;
        let mut y = self.norm(x);
        if shifted {
            y = self.roll(y, 1, WINDOW / 2);
            y = self.roll(y, 2, WINDOW / 2);
        }
        y = self.attention(y);
        if shifted {
            y = self.roll(y, 1, SIDE - WINDOW / 2);
            y = self.roll(y, 2, SIDE - WINDOW / 2);
        }
        let x = self.b.must(&Add {}, &[x, y]);
        let y = self.norm(x);
        let y = self.linear(y, features, 4 * features);
        let y = self.b.must(
            &Gelu {
                approximate: Approximate::None,
            },
            &[y],
        );
        let y = self.linear(y, 4 * features, features);
        self.b.must(&Add {}, &[x, y])
    }

    /// Attention inside of windows of [`WINDOW`] by [`WINDOW`] positions.
    fn attention(&mut self, x: Value) -> Value {
        let (across, features) = (SIDE / WINDOW, HEADS * HEAD);
        let (windows, positions) = (BATCH * across * across, WINDOW * WINDOW);
        let b = &mut self.b;
        let y = reshape(b, x, &[BATCH, across, WINDOW, across, WINDOW, features]);
        let y = transpose(b, y, &[0, 1, 3, 2, 4, 5]);
        let y = reshape(b, y, &[windows, positions, features]);
        let y = self.linear(y, features, 3 * features);
        let b = &mut self.b;
        let y = reshape(b, y, &[windows, positions, 3, HEADS, HEAD]);
        let y = transpose(b, y, &[2, 0, 3, 1, 4]);
        let (axis, sizes) = (0, vec![1, 1, 1]);
        let parts = b.op(&Split { axis, sizes }, &[y]);
        let parts = parts.expect("the first axis has three elements");
        let mut heads = parts
            .into_iter()
            .map(|part| reshape(b, part, &[windows, HEADS, positions, HEAD]));
        let (q, k, v) = (heads.next(), heads.next(), heads.next());
        drop(heads);
        let (q, k, v) = q
            .zip(k)
            .zip(v)
            .map(|((q, k), v)| (q, k, v))
            .expect("there are three parts");
        let k = transpose(b, k, &[0, 1, 3, 2]);
        let scores = b.must(&Matmul { to: None }, &[q, k]);
        let bias = self.weight(&[HEADS, positions, positions]);
        let b = &mut self.b;
        let scores = b.must(&Add {}, &[scores, bias]);
        let weights = b.must(&Softmax { axis: 3 }, &[scores]);
        let mixed = b.must(&Matmul { to: None }, &[weights, v]);
        let mixed = transpose(b, mixed, &[0, 2, 1, 3]);
        let mixed = reshape(b, mixed, &[windows, positions, features]);
        let y = self.linear(mixed, features, features);
        let b = &mut self.b;
        let y = reshape(b, y, &[BATCH, across, across, WINDOW, WINDOW, features]);
        let y = transpose(b, y, &[0, 1, 3, 2, 4, 5]);
        reshape(b, y, &[BATCH, SIDE, SIDE, features])
    }

    /// The elements of an axis, moved cyclically towards the front by `by`.
    fn roll(&mut self, x: Value, axis: usize, by: u64) -> Value {
        let tail = self.slice(x, axis, by, SIDE);
        let head = self.slice(x, axis, 0, by);
        let axis = i64::try_from(axis).expect("axes are small");
        self.b.must(&Concat { axis }, &[tail, head])
    }

    fn slice(&mut self, x: Value, axis: usize, start: u64, limit: u64) -> Value {
        let mut limits = self.b.shape(x);
        let mut starts = vec![0; limits.len()];
        (starts[axis], limits[axis]) = (start, limit);
        let slice = Slice {
            starts: Bounds::of_ints(&ints(&starts)),
            limits: Bounds::of_ints(&ints(&limits)),
            strides: Some(vec![1; limits.len()]),
        };
        self.b.must(&slice, &[x])
    }

    fn linear(&mut self, x: Value, inputs: u64, outputs: u64) -> Value {
        let (weight, bias) = (self.weight(&[inputs, outputs]), self.weight(&[outputs]));
        let y = self.b.must(&Matmul { to: None }, &[x, weight]);
        self.b.must(&Add {}, &[y, bias])
    }

    fn norm(&mut self, x: Value) -> Value {
        let (scale, bias) = (self.weight(&[HEADS * HEAD]), self.weight(&[HEADS * HEAD]));
        let axis = self.b.shape(x).len() - 1;
        let axis = i64::try_from(axis).expect("axes are small");
        let epsilon = 1e-5;
        self.b.must(&LayerNorm { axis, epsilon }, &[x, scale, bias])
    }

    fn weight(&mut self, shape: &[u64]) -> Value {
        let value = self
            .b
            .external("model.weights", self.offset, shape, DType::F32);
        self.offset += 4 * shape.iter().product::<u64>();
        value
    }
}
