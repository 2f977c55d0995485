//! The kernel below every contraction: `c[m, n] = sum over k of a[m, k] * b[k, n]`.
//!
//! Floats accumulate in `f64` with k ascending, integers in wrapping `i64`.

use crate::tensor::{Data, Tensor};
use crate::types::DType;

/// Rows of `a` that share one pass over `b`, so that large weights stream from memory less often.
const ROW_BLOCK: usize = 8;

/// Extents of one matrix product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// A number that contractions accumulate.
trait Number: Copy {
    const ZERO: Self;
    fn read(from: &Tensor, start: usize, into: &mut [Self]);
    fn add_product(self, a: Self, b: Self) -> Self;
}

impl Number for f64 {
    const ZERO: f64 = 0.0;
    fn read(from: &Tensor, start: usize, into: &mut [f64]) {
        from.read_f64(start, into);
    }
    fn add_product(self, a: f64, b: f64) -> f64 {
        self + a * b
    }
}

impl Number for i64 {
    const ZERO: i64 = 0;
    fn read(from: &Tensor, start: usize, into: &mut [i64]) {
        for (i, slot) in into.iter_mut().enumerate() {
            *slot = from.i64_at(start + i);
        }
    }
    fn add_product(self, a: i64, b: i64) -> i64 {
        self.wrapping_add(a.wrapping_mul(b))
    }
}

/// Sums before the rounding to the result's element type.
#[derive(Clone, Debug)]
pub(crate) enum Sums {
    Float(Vec<f64>),
    Integer(Vec<i64>),
}

impl Sums {
    /// The sums rounded, or wrapped, to `dtype`.
    pub(crate) fn into_tensor(self, dtype: DType, shape: Vec<usize>) -> Tensor {
        match self {
            Sums::Float(v) => Tensor::from_f64(dtype, shape, v),
            Sums::Integer(v) => Tensor::from_i64(dtype, shape, v),
        }
    }

    /// Adds element `i % bias.len()` of the bias to sum `i`.
    pub(crate) fn add_rows(&mut self, bias: &Tensor) {
        let n = bias.len().max(1);
        match self {
            Sums::Float(v) => v
                .iter_mut()
                .enumerate()
                .for_each(|(i, x)| *x += bias.f64_at(i % n)),
            Sums::Integer(v) => {
                let sum = |(i, x): (usize, &mut i64)| *x = x.wrapping_add(bias.i64_at(i % n));
                v.iter_mut().enumerate().for_each(sum);
            }
        }
    }
}

/// One matrix product for every pair of starts in `pairs`: `a` holds row-major `[m, k]` matrices, `b`
/// row-major `[k, n]` ones. The results follow one another.
pub(crate) fn products(a: &Tensor, b: &Tensor, pairs: &[(usize, usize)], extents: Extents) -> Sums {
    match (&a.data, &b.data) {
        (Data::I64(_), Data::I64(_)) => Sums::Integer(all(a, b, pairs, extents)),
        _ => Sums::Float(all(a, b, pairs, extents)),
    }
}

fn all<T: Number>(a: &Tensor, b: &Tensor, pairs: &[(usize, usize)], x: Extents) -> Vec<T> {
    let mut out = vec![T::ZERO; pairs.len() * x.m * x.n];
    if x.m * x.n == 0 {
        return out;
    }
    for (matrix, &(a_at, b_at)) in out.chunks_exact_mut(x.m * x.n).zip(pairs) {
        for (block, rows) in matrix.chunks_mut(ROW_BLOCK * x.n).enumerate() {
            row_block(a, a_at + block * ROW_BLOCK * x.k, b, b_at, x, rows);
        }
    }
    out
}

/// A few rows of one product.
fn row_block<T: Number>(
    a: &Tensor,
    a_at: usize,
    b: &Tensor,
    b_at: usize,
    x: Extents,
    out: &mut [T],
) {
    let mut a_rows = vec![T::ZERO; out.len() / x.n * x.k];
    T::read(a, a_at, &mut a_rows);
    let mut b_row = vec![T::ZERO; x.n];
    for k in 0..x.k {
        T::read(b, b_at + k * x.n, &mut b_row);
        for (row, out_row) in out.chunks_exact_mut(x.n).enumerate() {
            let factor = a_rows[row * x.k + k];
            for (slot, &value) in out_row.iter_mut().zip(&b_row) {
                *slot = slot.add_product(factor, value);
            }
        }
    }
}
