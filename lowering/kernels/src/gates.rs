//! Matrix products of few rows, for the steps of recurrent networks: weights are packed, and their bandwidth is the limit.
#![expect(unsafe_code, reason = "vector instructions read and write by pointers")]

use crate::isa::Isa;

/// Columns of a vector of 64 bytes.
pub(crate) const LANES: usize = 16;
/// Most vectors of columns that are summed at once, such that all accumulators and a line of weights stay in registers.
const VECTORS: usize = 4;
/// Most rows that are summed at once. Fewer rows are summed in another order, so threads share groups of this size.
pub const ROWS: usize = 6;

/// A packed panel of columns; columns beyond the last one are 0.
#[derive(Debug)]
pub struct PackedColumns {
    isa: Isa,
    terms: usize,
    /// Number of columns.
    pub count: usize,
    vectors: usize,
    factors: Vec<[f32; LANES]>,
}

impl PackedColumns {
    /// Packs the first rows of a matrix of weights, of `terms` each, as columns; as many as are summed at once.
    pub fn of(weights: &[f32], terms: usize) -> PackedColumns {
        PackedColumns::with(Isa::current(), weights, terms)
    }

    fn with(isa: Isa, weights: &[f32], terms: usize) -> PackedColumns {
        let all = weights.len() / terms.max(1);
        let mut vectors = match isa {
            Isa::Avx512 => VECTORS,
            Isa::Avx2 | Isa::Portable => 1,
        };
        while all.div_ceil(LANES) < vectors {
            vectors /= 2;
        }
        let vectors = vectors.max(1);
        let count = all.min(vectors * LANES);
        let mut factors = vec![[0.0; LANES]; terms * vectors];
        for column in 0..count {
            let row = &weights[column * terms..(column + 1) * terms];
            let own = factors.iter_mut().skip(column / LANES).step_by(vectors);
            for (line, weight) in own.zip(row) {
                line[column % LANES] = *weight;
            }
        }
        PackedColumns {
            isa,
            terms,
            count,
            vectors,
            factors,
        }
    }

    /// Bytes of the packed weights.
    pub fn bytes(&self) -> usize {
        size_of_val(&self.factors[..])
    }

    /// Adds the products of contiguous rows by the columns to rows of `width` numbers, from `at` on in each.
    ///
    /// # Panics
    /// `out` has too few or too short rows.
    pub fn add(&self, rows: &[f32], out: &mut [f32], width: usize, at: usize) {
        let terms = self.terms.max(1);
        let (mut rows, mut out) = (rows, out);
        while terms <= rows.len() {
            let n = match rows.len() / terms {
                ROWS.. => ROWS,
                4.. => 4,
                2.. => 2,
                _ => 1,
            };
            let mut sums = [0f32; ROWS * VECTORS * LANES];
            self.sums(n, &rows[..n * terms], &mut sums);
            let lines = sums.chunks_exact(self.vectors * LANES);
            for (line, row) in lines.zip(out.chunks_exact_mut(width).take(n)) {
                let to = &mut row[at..at + self.count];
                to.iter_mut().zip(line).for_each(|(to, sum)| *to += sum);
            }
            (rows, out) = (&rows[n * terms..], &mut out[n * width..]);
        }
    }

    /// Computes the sums of `n` rows, each with all vectors of columns.
    fn sums(&self, n: usize, rows: &[f32], to: &mut [f32; ROWS * VECTORS * LANES]) {
        let factors = self.factors.as_flattened();
        let fits = n <= ROWS && self.vectors <= VECTORS;
        let whole = factors.len() == self.terms * self.vectors * LANES;
        assert!(
            fits && whole && rows.len() == n * self.terms,
            "all terms are there"
        );
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.isa == Isa::Avx512 {
            // SAFETY: rows and weights have all terms, as was checked above, `to` has room for the sums, and the machine
            // has the instructions.
            unsafe {
                match (n, self.vectors) {
                    (6, 4) => wide::sums::<6, 1, 4>(rows, factors, to),
                    (4, 4) => wide::sums::<4, 1, 4>(rows, factors, to),
                    (2, 4) => wide::sums::<2, 2, 4>(rows, factors, to),
                    (1, 4) => wide::sums::<1, 4, 4>(rows, factors, to),
                    (6, 2) => wide::sums::<6, 1, 2>(rows, factors, to),
                    (4, 2) => wide::sums::<4, 1, 2>(rows, factors, to),
                    (2, 2) => wide::sums::<2, 2, 2>(rows, factors, to),
                    (1, 2) => wide::sums::<1, 4, 2>(rows, factors, to),
                    (6, 1) => wide::sums::<6, 1, 1>(rows, factors, to),
                    (4, 1) => wide::sums::<4, 1, 1>(rows, factors, to),
                    (2, 1) => wide::sums::<2, 2, 1>(rows, factors, to),
                    (1, 1) => wide::sums::<1, 4, 1>(rows, factors, to),
                    _ => plain(self.vectors, self.terms, rows, factors, to),
                }
            }
            return;
        }
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.isa == Isa::Avx2 {
            // SAFETY: as above.
            unsafe {
                match (n, self.vectors) {
                    (6, 1) => narrow::sums::<6, 1, 2>(rows, factors, to),
                    (4, 1) => narrow::sums::<4, 1, 2>(rows, factors, to),
                    (2, 1) => narrow::sums::<2, 2, 2>(rows, factors, to),
                    (1, 1) => narrow::sums::<1, 4, 2>(rows, factors, to),
                    _ => plain(self.vectors, self.terms, rows, factors, to),
                }
            }
            return;
        }
        plain(self.vectors, self.terms, rows, factors, to);
    }
}

/// Computes the sums of rows term by term, without vector instructions.
fn plain(vectors: usize, terms: usize, rows: &[f32], factors: &[f32], to: &mut [f32]) {
    let width = vectors * LANES;
    to.fill(0.0);
    for (row, to) in rows
        .chunks_exact(terms.max(1))
        .zip(to.chunks_exact_mut(width))
    {
        for (term, line) in row.iter().zip(factors.chunks_exact(width)) {
            let all = to.iter_mut().zip(line);
            all.for_each(|(sum, factor)| *sum += term * factor);
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
macro_rules! sums {
    ($name:ident, $features:literal, $vectors:ident) => {
        mod $name {
            use crate::simd::$vectors::*;

            /// Computes the sums of `R` rows and `C` vectors of columns. Each has `T` accumulators, which are added at the
            /// end, so that independent additions hide the latency.
            ///
            /// # Safety
            /// Rows are contiguous and have as many terms as there are lines of weights, `to` has room for all sums, and
            /// the machine has these instructions.
            #[target_feature(enable = $features)]
            pub(super) unsafe fn sums<const R: usize, const T: usize, const C: usize>(
                rows: &[f32],
                factors: &[f32],
                to: &mut [f32],
            ) {
                let terms = rows.len() / R;
                let (row, mut line) = (rows.as_ptr(), factors.as_ptr());
                let mut sums = [[[zero(); C]; R]; T];
                let whole = terms / T * T;
                let mut at = 0;
                // SAFETY: the caller's promises: each term of each row, and its line of weights.
                unsafe {
                    while at < whole {
                        for t in 0..T {
                            let own: [Vector; C] =
                                std::array::from_fn(|c| load(line.add(c * LANES)));
                            for r in 0..R {
                                let term = splat(*row.add(r * terms + at + t));
                                for c in 0..C {
                                    sums[t][r][c] = fused(term, own[c], sums[t][r][c]);
                                }
                            }
                            line = line.add(C * LANES);
                        }
                        at += T;
                    }
                    while at < terms {
                        for r in 0..R {
                            let term = splat(*row.add(r * terms + at));
                            for c in 0..C {
                                let own = load(line.add(c * LANES));
                                sums[0][r][c] = fused(term, own, sums[0][r][c]);
                            }
                        }
                        line = line.add(C * LANES);
                        at += 1;
                    }
                    for r in 0..R {
                        for c in 0..C {
                            let mut sum = sums[0][r][c];
                            for t in 1..T {
                                sum = add(sum, sums[t][r][c]);
                            }
                            store(to.as_mut_ptr().add((r * C + c) * LANES), sum);
                        }
                    }
                }
            }
        }
    };
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
sums!(wide, "avx512f", f32x16);
#[cfg(all(target_arch = "x86_64", not(miri)))]
sums!(narrow, "avx2,fma", f32x8);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_instructions_add_the_same_products() {
        let number = |i: usize| (i * 37 % 101) as f32 / 64.0 - 0.75;
        for isa in Isa::available() {
            for (terms, columns) in [(1, 1), (7, 16), (9, 17), (33, 40), (12, 64), (5, 90)] {
                let weights: Vec<f32> = (0..terms * columns).map(number).collect();
                let made = PackedColumns::with(isa, &weights, terms);
                for n in [1, 2, 3, 4, 5, 6, 7, 11, 13] {
                    let rows: Vec<f32> = (0..n * terms).map(|i| number(i + 5)).collect();
                    let width = columns + 3;
                    let mut out = vec![1.0; n * width];
                    made.add(&rows, &mut out, width, 2);
                    for (i, found) in out.iter().enumerate() {
                        let (row, column) = (i / width, i % width);
                        let own = column.checked_sub(2).filter(|&c| c < made.count);
                        let sum = own.map_or(0.0, |column| {
                            let product =
                                |t: usize| rows[row * terms + t] * weights[column * terms + t];
                            (0..terms).map(product).sum::<f32>()
                        });
                        assert!((found - 1.0 - sum).abs() <= 1e-4, "{isa:?} {n} {terms} {i}");
                    }
                }
            }
        }
    }
}
