//! Transformers of any depth, as exporters write them: heads are split and merged by reshapes and
//! transposes.

use crate::build::{Builder, props};
use optc_ir::{Attr, AttrDict, DType, Dim, Module, Registry, Value};
use std::sync::Arc;

/// The sizes of a GPT-2-like model.
#[derive(Clone, Debug)]
pub struct Transformer {
    /// The number of layers; each is about thirty-five operations.
    pub layers: usize,
    /// The batch: a number, or a symbol.
    pub batch: Dim,
    /// The number of positions.
    pub positions: u64,
    /// The number of heads.
    pub heads: u64,
    /// The features of one head.
    pub head: u64,
}

/// Operations of one layer, constants left out; [`Transformer::with_ops`] counts with it.
pub const LAYER_OPS: usize = 35;

impl Default for Transformer {
    fn default() -> Self {
        Transformer {
            layers: 1,
            batch: Dim::Fixed(2),
            positions: 7,
            heads: 3,
            head: 5,
        }
    }
}

impl Transformer {
    /// A model of about so many operations.
    #[must_use]
    pub fn with_ops(n_ops: usize) -> Transformer {
        Transformer {
            layers: n_ops.div_ceil(LAYER_OPS).max(1),
            ..Transformer::default()
        }
    }

    /// The program.
    #[must_use]
    pub fn module(&self, registry: &Registry) -> Module {
        let mut layer = Layer {
            b: Builder::new(registry),
            sizes: self,
            offset: 0,
        };
        let features = self.heads * self.head;
        let dims = [
            self.batch.clone(),
            Dim::Fixed(self.positions),
            Dim::Fixed(features),
        ];
        let mut x = layer.b.arg("x", &dims, DType::F32);
        let square = [Dim::Fixed(self.positions), Dim::Fixed(self.positions)];
        let mask = layer.b.arg("mask", &square, DType::F32);
        for _ in 0..self.layers {
            x = layer.block(x, mask);
        }
        let x = layer.norm(x);
        layer.b.finish(&[x])
    }

    /// The program as text.
    #[must_use]
    pub fn text(&self, registry: &Registry) -> String {
        optc_ir::text::print(&self.module(registry))
    }
}

struct Layer<'a> {
    b: Builder<'a>,
    sizes: &'a Transformer,
    offset: u64,
}

impl Layer<'_> {
    fn block(&mut self, x: Value, mask: Value) -> Value {
        let features = self.sizes.heads * self.sizes.head;
        let y = self.norm(x);
        let y = self.linear(y, features, 3 * features);
        let sizes = Attr::ints(&[features, features, features]);
        let split = props([("axis", Attr::int(2)), ("sizes", sizes)]);
        let parts = self.b.try_op("hbir.split", &[y], split);
        let parts = parts.expect("three equal parts are what the projection made");
        let y = self.attention(&parts, mask);
        let y = self.linear(y, features, features);
        let x = self.b.op("hbir.add", &[x, y], AttrDict::new());
        let y = self.norm(x);
        let y = self.linear(y, features, 4 * features);
        let y = self.gelu(y);
        let y = self.linear(y, 4 * features, features);
        self.b.op("hbir.add", &[x, y], AttrDict::new())
    }

    fn attention(&mut self, parts: &[Value], mask: Value) -> Value {
        let q = self.split_heads(parts[0], &[0, 2, 1, 3]);
        let k = self.split_heads(parts[1], &[0, 2, 1, 3]);
        let k = self.transpose(k, &[0, 1, 3, 2]);
        let v = self.split_heads(parts[2], &[0, 2, 1, 3]);
        let scores = self.b.op("hbir.matmul", &[q, k], AttrDict::new());
        let scale = self.b.floats(&[], &[0.447_213_6]);
        let scores = self.b.op("hbir.mul", &[scores, scale], AttrDict::new());
        let scores = self.b.op("hbir.add", &[scores, mask], AttrDict::new());
        let weights = self
            .b
            .op("hbir.softmax", &[scores], props([("axis", Attr::int(3))]));
        let mixed = self.b.op("hbir.matmul", &[weights, v], AttrDict::new());
        let mixed = self.transpose(mixed, &[0, 2, 1, 3]);
        self.reshape(mixed, &[self.sizes.heads * self.sizes.head])
    }

    fn split_heads(&mut self, x: Value, perm: &[usize]) -> Value {
        let x = self.reshape(x, &[self.sizes.heads, self.sizes.head]);
        self.transpose(x, perm)
    }

    /// Reshapes to batch, positions and these dimensions.
    fn reshape(&mut self, x: Value, inner: &[u64]) -> Value {
        let entry = |dim: &Dim| match dim {
            Dim::Fixed(n) => size(*n),
            Dim::Symbol(name) => Attr::str(name),
            Dim::Unknown => Attr::int(-1),
        };
        let mut shape = vec![entry(&self.sizes.batch), size(self.sizes.positions)];
        shape.extend(inner.iter().map(|&n| size(n)));
        self.b
            .op("hbir.reshape", &[x], props([("shape", Attr::Array(shape))]))
    }

    fn transpose(&mut self, x: Value, perm: &[usize]) -> Value {
        self.b
            .op("hbir.transpose", &[x], props([("perm", Attr::ints(perm))]))
    }

    fn linear(&mut self, x: Value, inputs: u64, outputs: u64) -> Value {
        let weight = self.weight(&[inputs, outputs]);
        let bias = self.weight(&[outputs]);
        let y = self.b.op("hbir.matmul", &[x, weight], AttrDict::new());
        self.b.op("hbir.add", &[y, bias], AttrDict::new())
    }

    fn norm(&mut self, x: Value) -> Value {
        let features = self.sizes.heads * self.sizes.head;
        let (scale, bias) = (self.weight(&[features]), self.weight(&[features]));
        let attrs = props([("axis", Attr::int(2)), ("epsilon", Attr::float(1e-5))]);
        self.b.op("hbir.layer_norm", &[x, scale, bias], attrs)
    }

    /// `0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))`, operation by operation as GPT-2 exports it.
    fn gelu(&mut self, x: Value) -> Value {
        let b = &mut self.b;
        let [three, cubic, outer, one, half] =
            [3.0, 0.044_715, 0.797_884_6, 1.0, 0.5].map(|c| b.floats(&[], &[c]));
        let y = b.op("hbir.pow", &[x, three], AttrDict::new());
        let y = b.op("hbir.mul", &[y, cubic], AttrDict::new());
        let y = b.op("hbir.add", &[x, y], AttrDict::new());
        let y = b.op("hbir.mul", &[y, outer], AttrDict::new());
        let y = b.op("hbir.tanh", &[y], AttrDict::new());
        let y = b.op("hbir.add", &[y, one], AttrDict::new());
        let x = b.op("hbir.mul", &[x, half], AttrDict::new());
        b.op("hbir.mul", &[x, y], AttrDict::new())
    }

    fn weight(&mut self, shape: &[u64]) -> Value {
        let value = self
            .b
            .external("model.weights", self.offset, shape, DType::F32);
        self.offset += 4 * shape.iter().product::<u64>();
        value
    }
}

fn size(n: u64) -> Attr {
    Attr::int(i64::try_from(n).expect("sizes are small"))
}

/// A batch of unknown size.
#[must_use]
pub fn symbolic_batch() -> Dim {
    Dim::Symbol(Arc::from("B"))
}
