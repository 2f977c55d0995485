//! Large programs of different shapes, each of about as many operations as asked for: what takes
//! time or memory must grow linearly with every one of them.

use crate::build::{Builder, props};
use crate::generate::{Profile, program_of};
use crate::transformer::Transformer;
use optc_ir::{Attr, AttrDict, DType, Dim, Module, Registry, Value};

/// A kind of large program.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// Identical layers of a GPT-2-like transformer.
    Transformer,
    /// Blocks of shifted-window attention: window partition, roll, heads, and back.
    Windows,
    /// What the random generator draws, in one function.
    Random,
    /// One value, and its transpose, read by all operations.
    Readers,
    /// As many arguments and results as operations, all rearranged.
    Ports,
    /// One concatenation of half as many operands as there are operations.
    Concat,
    /// Small functions in one module.
    Functions,
    /// A straight line of reshapes and transposes, each result used only by the next.
    Line,
    /// The same line with every value read by something else, too.
    Rungs,
    /// A deep chain of residual branches that work on the transposed value.
    Residual,
}

impl Scale {
    /// Every kind.
    pub const ALL: [Scale; 10] = [
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
        }
    }

    /// The kind of this name.
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
        }
    }

    /// The text of a program of about `n_ops` operations.
    #[must_use]
    pub fn text(self, n_ops: usize, registry: &Registry) -> String {
        optc_ir::text::print(&self.module(n_ops, registry))
    }
}

fn fixed(shape: &[u64]) -> Vec<Dim> {
    shape.iter().map(|&n| Dim::Fixed(n)).collect()
}

fn reshape(b: &mut Builder<'_>, x: Value, shape: &[u64]) -> Value {
    b.op("hbir.reshape", &[x], props([("shape", Attr::ints(shape))]))
}

fn transpose(b: &mut Builder<'_>, x: Value, perm: &[usize]) -> Value {
    b.op("hbir.transpose", &[x], props([("perm", Attr::ints(perm))]))
}

fn plain(b: &mut Builder<'_>, name: &str, operands: &[Value]) -> Value {
    b.op(name, operands, AttrDict::new())
}

fn readers(n_ops: usize, registry: &Registry) -> Module {
    let mut b = Builder::new(registry);
    let x = b.arg("x", &fixed(&[6, 6]), DType::F32);
    let x = plain(&mut b, "hbir.relu", &[x]);
    let y = transpose(&mut b, x, &[1, 0]);
    let (mut sums, mut k) = ([x, y], 0);
    while b.len() < n_ops {
        let read = [x, y][k];
        sums[k] = plain(&mut b, "hbir.add", &[sums[k], read]);
        k = 1 - k;
    }
    b.finish(&sums)
}

fn ports(n_ops: usize, registry: &Registry) -> Module {
    let mut b = Builder::new(registry);
    let mut results = Vec::new();
    while b.len() < n_ops {
        let x = b.arg(&format!("x{}", results.len()), &fixed(&[2, 15]), DType::F32);
        let y = reshape(&mut b, x, &[6, 5]);
        let y = transpose(&mut b, y, &[1, 0]);
        let y = plain(&mut b, "hbir.relu", &[y]);
        results.push(transpose(&mut b, y, &[1, 0]));
    }
    b.finish(&results)
}

fn concat(n_ops: usize, registry: &Registry) -> Module {
    let mut b = Builder::new(registry);
    let x = b.arg("x", &fixed(&[2, 3, 5]), DType::F32);
    let mut parts = Vec::new();
    for part in 0..n_ops / 2 {
        let weight = b.external("made-up.weights", 120 * part as u64, &[2, 3, 5], DType::F32);
        let part = plain(&mut b, "hbir.add", &[x, weight]);
        parts.push(transpose(&mut b, part, &[1, 0, 2]));
    }
    let y = b.op("hbir.concat", &parts, props([("axis", Attr::int(1))]));
    b.finish(&[y])
}

fn functions(n_ops: usize, registry: &Registry) -> Module {
    let mut module = Module::default();
    let mut ops = 0;
    while ops < n_ops {
        let n = module.funcs.len();
        let mut b = Builder::new(registry);
        let x = b.arg("x", &fixed(&[2, 3, 5]), DType::F32);
        let y = reshape(&mut b, x, &[6, 5]);
        let y = transpose(&mut b, y, &[1, 0]);
        let y = plain(&mut b, ["hbir.relu", "hbir.neg"][n % 2], &[y]);
        ops += b.len();
        let mut one = b.finish(&[y]);
        for func in &mut one.funcs {
            func.name = format!("f{n}").into();
        }
        module.funcs.append(&mut one.funcs);
    }
    module
}

fn line(n_ops: usize, registry: &Registry, read: bool) -> Module {
    let mut b = Builder::new(registry);
    let mut x = b.arg("x", &fixed(&[2, 3, 5, 7]), DType::F32);
    let mut results = Vec::new();
    let steps = [
        (&[6u64, 35][..], &[1usize, 0][..]),
        (&[5, 7, 2, 3], &[2, 1, 3, 0]),
        (&[14, 15], &[1, 0]),
        (&[3, 5, 2, 7], &[2, 0, 1, 3]),
    ];
    let mut at = 0;
    while b.len() < n_ops {
        let (shape, perm) = steps[at % steps.len()];
        x = reshape(&mut b, x, shape);
        x = transpose(&mut b, x, perm);
        if read {
            let kind = props([
                ("axes", Attr::ints(&[0])),
                ("keepdims", Attr::Bool(false)),
                ("kind", Attr::str("sum")),
            ]);
            results.push(b.op("hbir.reduce", &[x], kind));
        }
        at += 1;
    }
    results.push(x);
    b.finish(&results)
}

fn residual(n_ops: usize, registry: &Registry) -> Module {
    let mut b = Builder::new(registry);
    let first = b.arg("x", &fixed(&[2, 7, 15]), DType::F32);
    let w = b.external("made-up.weights", 0, &[7, 7], DType::F32);
    let mut x = first;
    while b.len() < n_ops {
        let y = transpose(&mut b, x, &[0, 2, 1]);
        let y = plain(&mut b, "hbir.matmul", &[y, w]);
        let y = plain(&mut b, "hbir.tanh", &[y]);
        let y = transpose(&mut b, y, &[0, 2, 1]);
        x = plain(&mut b, "hbir.add", &[x, y]);
    }
    let x = plain(&mut b, "hbir.add", &[x, first]);
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
        b: Builder::new(registry),
        offset: 0,
    };
    let dims = fixed(&[BATCH, SIDE, SIDE, features]);
    let mut x = blocks.b.arg("x", &dims, DType::F32);
    let mut shifted = false;
    while blocks.b.len() < n_ops {
        x = blocks.block(x, shifted);
        shifted = !shifted;
    }
    let x = blocks.norm(x);
    blocks.b.finish(&[x])
}

struct Blocks<'a> {
    b: Builder<'a>,
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
        let x = plain(&mut self.b, "hbir.add", &[x, y]);
        let y = self.norm(x);
        let y = self.linear(y, features, 4 * features);
        let y = plain(&mut self.b, "hbir.gelu", &[y]);
        let y = self.linear(y, 4 * features, features);
        plain(&mut self.b, "hbir.add", &[x, y])
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
        let split = props([("axis", Attr::int(0)), ("sizes", Attr::ints(&[1, 1, 1]))]);
        let parts = b.try_op("hbir.split", &[y], split);
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
        let scores = plain(b, "hbir.matmul", &[q, k]);
        let bias = self.weight(&[HEADS, positions, positions]);
        let b = &mut self.b;
        let scores = plain(b, "hbir.add", &[scores, bias]);
        let weights = b.op("hbir.softmax", &[scores], props([("axis", Attr::int(3))]));
        let mixed = plain(b, "hbir.matmul", &[weights, v]);
        let mixed = transpose(b, mixed, &[0, 2, 1, 3]);
        let mixed = reshape(b, mixed, &[windows, positions, features]);
        let y = self.linear(mixed, features, features);
        let b = &mut self.b;
        let y = reshape(b, y, &[BATCH, across, across, WINDOW, WINDOW, features]);
        let y = transpose(b, y, &[0, 1, 3, 2, 4, 5]);
        reshape(b, y, &[BATCH, SIDE, SIDE, features])
    }

    /// The elements of an axis moved to the front by `by`, cyclically.
    fn roll(&mut self, x: Value, axis: usize, by: u64) -> Value {
        let tail = self.slice(x, axis, by, SIDE);
        let head = self.slice(x, axis, 0, by);
        let axis = Attr::int(i64::try_from(axis).expect("axes are small"));
        self.b
            .op("hbir.concat", &[tail, head], props([("axis", axis)]))
    }

    fn slice(&mut self, x: Value, axis: usize, start: u64, limit: u64) -> Value {
        let mut limits = self.b.shape(x);
        let mut starts = vec![0; limits.len()];
        (starts[axis], limits[axis]) = (start, limit);
        let attrs = props([
            ("starts", Attr::ints(&starts)),
            ("limits", Attr::ints(&limits)),
            ("strides", Attr::ints(&vec![1u64; limits.len()])),
        ]);
        self.b.op("hbir.slice", &[x], attrs)
    }

    fn linear(&mut self, x: Value, inputs: u64, outputs: u64) -> Value {
        let (weight, bias) = (self.weight(&[inputs, outputs]), self.weight(&[outputs]));
        let y = plain(&mut self.b, "hbir.matmul", &[x, weight]);
        plain(&mut self.b, "hbir.add", &[y, bias])
    }

    fn norm(&mut self, x: Value) -> Value {
        let (scale, bias) = (self.weight(&[HEADS * HEAD]), self.weight(&[HEADS * HEAD]));
        let axis = self.b.shape(x).len() - 1;
        let axis = Attr::int(i64::try_from(axis).expect("axes are small"));
        let attrs = props([("axis", axis), ("epsilon", Attr::float(1e-5))]);
        self.b.op("hbir.layer_norm", &[x, scale, bias], attrs)
    }

    fn weight(&mut self, shape: &[u64]) -> Value {
        let value = self
            .b
            .external("model.weights", self.offset, shape, DType::F32);
        self.offset += 4 * shape.iter().product::<u64>();
        value
    }
}
