//! Transformers of any depth in the form of exporters: heads are split and merged by reshapes and transposes.

use crate::must::Must;
use optc_ir::{DType, Dim, FuncBuilder, Module, Registry, TensorType, Value};
use optc_ops::{Add, LayerNorm, Matmul, Mul, Pow, Reshape, Softmax, Split, Tanh, Transpose, ints};
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

/// The number of operations of one layer without constants, used by [`Transformer::with_ops`].
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
    /// A model with about this number of operations.
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
            b: FuncBuilder::new(registry),
            sizes: self,
            offset: 0,
        };
        let features = self.heads * self.head;
        let dims = [
            self.batch.clone(),
            Dim::Fixed(self.positions),
            Dim::Fixed(features),
        ];
        let ty = TensorType::new(dims.to_vec(), DType::F32);
        let mut x = layer.b.arg("x", ty);
        let square = TensorType::fixed(&[self.positions; 2], DType::F32);
        let mask = layer.b.arg("mask", square);
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
    b: FuncBuilder<'a>,
    sizes: &'a Transformer,
    offset: u64,
}

impl Layer<'_> {
    fn block(&mut self, x: Value, mask: Value) -> Value {
        let features = self.sizes.heads * self.sizes.head;
        let y = self.norm(x);
        let y = self.linear(y, features, 3 * features);
        let (axis, sizes) = (2, ints(&[features; 3]));
        let parts = self.b.op(&Split { axis, sizes }, &[y]);
        let parts = parts.expect("three equal parts are what the projection made");
        let y = self.attention(&parts, mask);
        let y = self.linear(y, features, features);
        let x = self.b.must(&Add {}, &[x, y]);
        let y = self.norm(x);
        let y = self.linear(y, features, 4 * features);
        let y = self.gelu(y);
        let y = self.linear(y, 4 * features, features);
        self.b.must(&Add {}, &[x, y])
    }

    fn attention(&mut self, parts: &[Value], mask: Value) -> Value {
        let q = self.split_heads(parts[0], &[0, 2, 1, 3]);
        let k = self.split_heads(parts[1], &[0, 2, 1, 3]);
        let k = self.transpose(k, &[0, 1, 3, 2]);
        let v = self.split_heads(parts[2], &[0, 2, 1, 3]);
        let scores = self.b.must(&Matmul { to: None }, &[q, k]);
        let scale = self.b.floats(&[], &[0.447_213_6]);
        let scores = self.b.must(&Mul {}, &[scores, scale]);
        let scores = self.b.must(&Add {}, &[scores, mask]);
        let weights = self.b.must(&Softmax { axis: 3 }, &[scores]);
        let mixed = self.b.must(&Matmul { to: None }, &[weights, v]);
        let mixed = self.transpose(mixed, &[0, 2, 1, 3]);
        self.reshape(mixed, &[self.sizes.heads * self.sizes.head])
    }

    fn split_heads(&mut self, x: Value, perm: &[usize]) -> Value {
        let x = self.reshape(x, &[self.sizes.heads, self.sizes.head]);
        self.transpose(x, perm)
    }

    /// Reshapes to batch, positions and these dimensions.
    fn reshape(&mut self, x: Value, inner: &[u64]) -> Value {
        let mut dims = vec![self.sizes.batch.clone(), Dim::Fixed(self.sizes.positions)];
        dims.extend(inner.iter().map(|&n| Dim::Fixed(n)));
        self.b.must(&Reshape::of_dims(&dims), &[x])
    }

    fn transpose(&mut self, x: Value, perm: &[usize]) -> Value {
        let perm = ints(perm);
        self.b.must(&Transpose { perm }, &[x])
    }

    fn linear(&mut self, x: Value, inputs: u64, outputs: u64) -> Value {
        let weight = self.weight(&[inputs, outputs]);
        let bias = self.weight(&[outputs]);
        let y = self.b.must(&Matmul { to: None }, &[x, weight]);
        self.b.must(&Add {}, &[y, bias])
    }

    fn norm(&mut self, x: Value) -> Value {
        let features = self.sizes.heads * self.sizes.head;
        let (scale, bias) = (self.weight(&[features]), self.weight(&[features]));
        let norm = LayerNorm {
            axis: 2,
            epsilon: 1e-5,
        };
        self.b.must(&norm, &[x, scale, bias])
    }

    /// `0.5 x (1 + tanh(sqrt(2/π) (x + 0.044715 x³)))`, operation by operation as in GPT-2's export.
    fn gelu(&mut self, x: Value) -> Value {
        let b = &mut self.b;
        let [three, cubic, outer, one, half] =
            [3.0, 0.044_715, 0.797_884_6, 1.0, 0.5].map(|c| b.floats(&[], &[c]));
        let y = b.must(&Pow {}, &[x, three]);
        let y = b.must(&Mul {}, &[y, cubic]);
        let y = b.must(&Add {}, &[x, y]);
        let y = b.must(&Mul {}, &[y, outer]);
        let y = b.must(&Tanh {}, &[y]);
        let y = b.must(&Add {}, &[y, one]);
        let x = b.must(&Mul {}, &[x, half]);
        b.must(&Mul {}, &[x, y])
    }

    fn weight(&mut self, shape: &[u64]) -> Value {
        let value = self
            .b
            .external("model.weights", self.offset, shape, DType::F32);
        self.offset += 4 * shape.iter().product::<u64>();
        value
    }
}

/// A batch of unknown size.
#[must_use]
pub fn symbolic_batch() -> Dim {
    Dim::Symbol(Arc::from("B"))
}
