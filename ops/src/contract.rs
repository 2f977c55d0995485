//! Shared code of contractions, and their common kernel: `c[m, n] = sum over k of a[m, k] * b[k, n]`.
//!
//! Floats accumulate in `f64` with k ascending, integers in wrapping `i64`.

use crate::prelude::*;
use optc_ir::tensor::Data;

/// The operand that a product or convolution only rearranges: the other one is a constant permutation matrix. `None` if
/// neither is.
pub(crate) fn permuted(op: &OpRef<'_>, known: &Known<'_>) -> Option<usize> {
    if op.operands.len() < 2 {
        return None;
    }
    let permutes = |matrix: usize| known(matrix).is_some_and(|t| t.is_permutation_matrix());
    (0..2).find(|&i| permutes(i)).map(|matrix| 1 - matrix)
}

/// The pairs of dimensions of the two operands that are batch or contracted dimensions.
#[derive(Clone, Debug, Default)]
pub struct Pairing {
    /// Batch dimensions of the left operand, in the order of the result.
    pub lhs_batch: Vec<usize>,
    /// The batch dimension of the right operand that belongs to each entry of `lhs_batch`.
    pub rhs_batch: Vec<usize>,
    /// Contracted dimensions of the left operand.
    pub lhs_contract: Vec<usize>,
    /// The contracted dimension of the right operand that belongs to each entry of `lhs_contract`.
    pub rhs_contract: Vec<usize>,
}

impl Pairing {
    /// The free dimensions of a left operand of this rank: neither batch nor contracted.
    #[must_use]
    pub fn lhs_free(&self, rank: usize) -> Vec<usize> {
        free(rank, &self.lhs_batch, &self.lhs_contract)
    }
    /// The free dimensions of a right operand of this rank: neither batch nor contracted.
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

/// Extents of one matrix product.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Extents {
    pub(crate) m: usize,
    pub(crate) k: usize,
    pub(crate) n: usize,
}

/// A type of numbers in which contractions accumulate.
pub(crate) trait Number: Copy {
    const ZERO: Self;
    /// Reads elements of a tensor from element `start` on.
    fn read(from: &Tensor, start: usize, into: &mut [Self]);
    fn add_product(self, a: Self, b: Self) -> Self;
    /// Returns whether the product of the number with 0 is 0.
    fn is_finite(self) -> bool;
    fn sums(all: Vec<Self>) -> Sums;
}

impl Number for f64 {
    const ZERO: f64 = 0.0;
    fn read(from: &Tensor, start: usize, into: &mut [f64]) {
        from.read_f64(start, into);
    }
    fn add_product(self, a: f64, b: f64) -> f64 {
        self + a * b
    }
    fn is_finite(self) -> bool {
        self.is_finite()
    }
    fn sums(all: Vec<f64>) -> Sums {
        Sums::Float(all)
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
    fn is_finite(self) -> bool {
        true
    }
    fn sums(all: Vec<i64>) -> Sums {
        Sums::Integer(all)
    }
}

/// All elements of a tensor.
pub(crate) fn read_all<T: Number>(from: &Tensor) -> Vec<T> {
    let mut all = vec![T::ZERO; from.len()];
    T::read(from, 0, &mut all);
    all
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

    /// The sums of a row-major matrix of `rows` rows and `columns` columns, in column-major order.
    pub(crate) fn transposed(self, rows: usize, columns: usize) -> Sums {
        match self {
            Sums::Float(v) => Sums::Float(by_column(&v, rows, columns)),
            Sums::Integer(v) => Sums::Integer(by_column(&v, rows, columns)),
        }
    }

    /// Adds the bias: each of its elements to `run` successive sums. After its last element the bias starts again.
    pub(crate) fn add_bias(&mut self, bias: &Tensor, run: usize) {
        match self {
            Sums::Float(v) => add_runs(v, &bias.to_f64(), run, |x, b| x + b),
            Sums::Integer(v) => add_runs(v, &read_all::<i64>(bias), run, i64::wrapping_add),
        }
    }
}

fn by_column<T: Copy>(matrix: &[T], rows: usize, columns: usize) -> Vec<T> {
    let column = |c: usize| (0..rows).map(move |r| matrix[r * columns + c]);
    (0..columns).flat_map(column).collect()
}

fn add_runs<T: Copy>(sums: &mut [T], bias: &[T], run: usize, add: impl Fn(T, T) -> T) {
    let runs = sums.chunks_mut(run.max(1));
    for (sums, &term) in runs.zip(bias.iter().cycle()) {
        sums.iter_mut().for_each(|x| *x = add(*x, term));
    }
}

/// One matrix product for every pair of start elements in `pairs`. `a` holds row-major `[m, k]` matrices, `b` row-major
/// `[k, n]` matrices. The results are stored one after another.
pub(crate) fn products(a: &Tensor, b: &Tensor, pairs: &[(usize, usize)], extents: Extents) -> Sums {
    match (&a.data, &b.data) {
        (Data::I64(_), Data::I64(_)) => all::<i64>(a, b, pairs, extents),
        _ => all::<f64>(a, b, pairs, extents),
    }
}

fn all<T: Number>(a: &Tensor, b: &Tensor, pairs: &[(usize, usize)], x: Extents) -> Sums {
    let mut out = vec![T::ZERO; pairs.len() * x.m * x.n];
    if x.m * x.n != 0 {
        for (matrix, &(a_at, b_at)) in out.chunks_exact_mut(x.m * x.n).zip(pairs) {
            let a = |at, into: &mut [T]| T::read(a, a_at + at, into);
            let b = |at, into: &mut [T]| T::read(b, b_at + at, into);
            add_product(a, b, x, matrix);
        }
    }
    T::sums(out)
}

/// The rows and columns of the block of sums that is accumulated at once.
const ROWS: usize = 4;
const COLUMNS: usize = 4;

/// The rows (k) and columns of the part of `b` that is packed and multiplied by all rows of `a` before the next part.
const PART: (usize, usize) = (256, 128);

/// Adds the product of two matrices to `out`, a row-major matrix. The functions `a` and `b` read runs of elements of
/// row-major matrices, from an element number on. Each sum accumulates with k ascending.
pub(crate) fn add_product<T: Number>(
    a: impl Fn(usize, &mut [T]),
    b: impl Fn(usize, &mut [T]),
    x: Extents,
    out: &mut [T],
) {
    if x.m < ROWS {
        return add_rows(a, b, x, out);
    }
    let mut row = vec![T::ZERO; PART.0.max(PART.1)];
    let mut a_part = vec![[T::ZERO; ROWS]; PART.0];
    let mut b_part = vec![[T::ZERO; COLUMNS]; PART.0 * PART.1.div_ceil(COLUMNS)];
    for first in (0..x.n).step_by(PART.1) {
        let columns = PART.1.min(x.n - first);
        for low in (0..x.k).step_by(PART.0) {
            let depth = PART.0.min(x.k - low);
            for k in 0..depth {
                b((low + k) * x.n + first, &mut row[..columns]);
                for (panel, four) in row[..columns].chunks(COLUMNS).enumerate() {
                    b_part[panel * depth + k][..four.len()].copy_from_slice(four);
                }
            }
            for top in (0..x.m).step_by(ROWS) {
                let rows = ROWS.min(x.m - top);
                for r in 0..rows {
                    a((top + r) * x.k + low, &mut row[..depth]);
                    let slots = a_part.iter_mut().zip(&row[..depth]);
                    slots.for_each(|(slot, &value)| slot[r] = value);
                }
                for (panel, b) in b_part.chunks(depth).enumerate() {
                    let left = first + panel * COLUMNS;
                    if first + columns <= left {
                        break;
                    }
                    let width = COLUMNS.min(x.n - left);
                    let mut sums = [[T::ZERO; COLUMNS]; ROWS];
                    let place = |r: usize| (top + r) * x.n + left;
                    for (r, sums) in sums.iter_mut().enumerate().take(rows) {
                        sums[..width].copy_from_slice(&out[place(r)..][..width]);
                    }
                    add_block(&a_part[..depth], b, &mut sums);
                    for (r, sums) in sums.iter().enumerate().take(rows) {
                        out[place(r)..][..width].copy_from_slice(&sums[..width]);
                    }
                }
            }
        }
    }
}

/// Adds the products of four rows of `a` and four columns of `b` to their sums.
fn add_block<T: Number>(a: &[[T; ROWS]], b: &[[T; COLUMNS]], sums: &mut [[T; COLUMNS]; ROWS]) {
    let mut block = *sums;
    for (a, b) in a.iter().zip(b) {
        for (sums, &factor) in block.iter_mut().zip(a) {
            for (sum, &value) in sums.iter_mut().zip(b) {
                *sum = sum.add_product(factor, value);
            }
        }
    }
    *sums = block;
}

/// As [`add_product`], for fewer rows than a block has: each row of `b` is read once, without packing.
fn add_rows<T: Number>(
    a: impl Fn(usize, &mut [T]),
    b: impl Fn(usize, &mut [T]),
    x: Extents,
    out: &mut [T],
) {
    let mut a_all = vec![T::ZERO; x.m * x.k];
    a(0, &mut a_all);
    let mut b_row = vec![T::ZERO; x.n];
    for k in 0..x.k {
        b(k * x.n, &mut b_row);
        for (row, sums) in out.chunks_exact_mut(x.n.max(1)).enumerate() {
            let factor = a_all[row * x.k + k];
            for (sum, &value) in sums.iter_mut().zip(&b_row) {
                *sum = sum.add_product(factor, value);
            }
        }
    }
}
