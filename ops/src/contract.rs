//! What contractions share, and the kernel below them all: `c[m, n] = sum over k of a[m, k] * b[k, n]`.
//!
//! Floats accumulate in `f64` with k ascending, integers in wrapping `i64`.

use optc_ir::op::{Freedom, FreedomClass, Known, OpRef, Partial};
use optc_ir::tensor::{Data, Tensor};
use optc_ir::types::DType;

/// How partial results of what has this freedom become one: a contraction adds up.
pub(crate) fn partial(freedom: &Freedom) -> Option<Partial> {
    (freedom.class == FreedomClass::Contract).then_some(Partial::Add)
}

/// The other operand of a product or convolution with a constant permutation matrix, which only
/// rearranges.
pub(crate) fn permuted(op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
    if op.operands.len() < 2 {
        return None;
    }
    let permutes = |matrix: usize| known(matrix).is_some_and(|t| t.is_permutation_matrix());
    (0..2).find(|&i| permutes(i)).map(|matrix| 1 - matrix)
}

/// Which dimensions of the two operands run together.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// Dimensions of the left operand that stay, in the order of the result.
    pub lhs_batch: Vec<usize>,
    /// For each of `lhs_batch` the dimension of the right operand.
    pub rhs_batch: Vec<usize>,
    /// Dimensions of the left operand that are summed over.
    pub lhs_contract: Vec<usize>,
    /// For each of `lhs_contract` the dimension of the right operand.
    pub rhs_contract: Vec<usize>,
}

impl Pairing {
    /// The other dimensions of a left operand of this rank.
    #[must_use]
    pub fn lhs_free(&self, rank: usize) -> Vec<usize> {
        free(rank, &self.lhs_batch, &self.lhs_contract)
    }
    /// The other dimensions of a right operand of this rank.
    #[must_use]
    pub fn rhs_free(&self, rank: usize) -> Vec<usize> {
        free(rank, &self.rhs_batch, &self.rhs_contract)
    }
}

fn free(rank: usize, batch: &[usize], contract: &[usize]) -> Vec<usize> {
    (0..rank)
        .filter(|d| !batch.contains(d) && !contract.contains(d))
        .collect()
}

/// The contraction as a batch of matrix products on transposed copies.
pub(crate) fn contract(
    a: &Tensor,
    b: &Tensor,
    p: &Pairing,
    dtype: DType,
    shape: Vec<usize>,
) -> Tensor {
    let (lhs_free, rhs_free) = (p.lhs_free(a.shape.len()), p.rhs_free(b.shape.len()));
    let volume = |t: &Tensor, dims: &[usize]| dims.iter().map(|&d| t.shape[d]).product::<usize>();
    let (m, k) = (volume(a, &lhs_free), volume(a, &p.lhs_contract));
    let n = volume(b, &rhs_free);
    let a_copy = a.transposed(&[&p.lhs_batch[..], &lhs_free, &p.lhs_contract].concat());
    let b_copy = b.transposed(&[&p.rhs_batch[..], &p.rhs_contract, &rhs_free].concat());
    let batch = volume(a, &p.lhs_batch);
    let pairs: Vec<(usize, usize)> = (0..batch).map(|i| (i * m * k, i * k * n)).collect();
    products(&a_copy, &b_copy, &pairs, Extents { m, k, n }).into_tensor(dtype, shape)
}

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
