//! Depthwise convolution of `f32`, along channels or rows: several positions of a result at once, in registers.
//!
//! Each element sums its taps in order, with fused multiply-add where the machine has it, and its initial value is added
//! last. The result does not depend on which positions and elements are computed together.
//!
//! Along channels, a position with taps at elements 0 and 64 and weights at 0 and 64 computes, for each channel `c`,
//! `x[c] * w[c] + x[64 + c] * w[64 + c]`.
#![expect(unsafe_code, reason = "vector instructions read and write by pointers")]

use crate::isa::Isa;

/// Some positions of a result.
#[derive(Debug)]
pub(crate) struct Taps<'a> {
    /// For each tap, the index of the first position's first element and of its first weight.
    pub(crate) taps: &'a [(usize, usize)],
    /// True if a tap has one weight for all elements and there is one initial value; false if each element has its own.
    pub(crate) broadcast_weights: bool,
    /// Number of positions, and their strides in the operand and in the result.
    pub(crate) positions: usize,
    pub(crate) read: usize,
    pub(crate) write: usize,
    /// Elements of a position.
    pub(crate) count: usize,
}

impl Taps<'_> {
    /// Writes the sums.
    ///
    /// # Panics
    /// An access is out of bounds, or positions overlap in the result.
    pub(crate) fn run(&self, isa: Isa, x: &[f32], w: &[f32], start: &[f32], out: &mut [f32]) {
        if self.positions == 0 || self.count == 0 {
            return;
        }
        let each = if self.broadcast_weights {
            1
        } else {
            self.count
        };
        let last = |step: usize| (self.positions - 1).saturating_mul(step);
        let ends = |first: usize, step: usize| first.saturating_add(last(step)) <= usize::MAX / 2;
        let inside = |&(from, weight): &(usize, usize)| {
            ends(from, self.read)
                && from + last(self.read) + self.count <= x.len()
                && weight.checked_add(each).is_some_and(|end| end <= w.len())
        };
        assert!(
            self.taps.iter().all(inside),
            "all elements and weights are there"
        );
        assert!(each <= start.len(), "there is what sums begin with");
        let apart = self.positions == 1 || self.count <= self.write;
        assert!(apart && ends(0, self.write), "positions lie apart");
        assert!(
            last(self.write) + self.count <= out.len(),
            "all sums have a place"
        );
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let (x, w, start) = (x.as_ptr(), w.as_ptr(), start.as_ptr());
            let own = out.as_mut_ptr();
            if isa == Isa::Avx512 {
                // SAFETY: all accesses were checked above, and the machine has the instructions, as `isa` is available.
                return unsafe { vectors::wide::all(self, x, w, start, own) };
            }
            if isa == Isa::Avx2 {
                // SAFETY: as above.
                return unsafe { vectors::narrow::all(self, x, w, start, own) };
            }
        }
        let _ = isa;
        self.portable(x, w, start, out);
    }

    fn portable(&self, x: &[f32], w: &[f32], start: &[f32], out: &mut [f32]) {
        const LANES: usize = 16;
        let pick = |list: &[f32], at: usize, i: usize| {
            list[if self.broadcast_weights { at } else { at + i }]
        };
        for position in 0..self.positions {
            let out = &mut out[position * self.write..][..self.count];
            for (block, out) in out.chunks_mut(LANES).enumerate() {
                let at = block * LANES;
                let mut sums = [0f32; LANES];
                for &(from, weight) in self.taps {
                    let from = &x[from + position * self.read + at..][..out.len()];
                    for (i, (sum, x)) in sums.iter_mut().zip(from).enumerate() {
                        *sum += pick(w, weight, at + i) * x;
                    }
                }
                for (i, (out, sum)) in out.iter_mut().zip(sums).enumerate() {
                    *out = sum + pick(start, 0, at + i);
                }
            }
        }
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    macro_rules! taps {
        ($name:ident, $features:literal, $vectors:ident, $mask:ty, $some:expr, $load_some:expr, $store_some:expr) => {
            pub(in super::super) mod $name {
                use super::super::Taps;
                use crate::simd::$vectors::*;
                use std::arch::x86_64::*;

                /// # Safety
                /// All that `taps` reads and writes is inside of the lists that these point to, on a machine that has these
                /// instructions.
                #[target_feature(enable = $features)]
                pub(in super::super) unsafe fn all(
                    taps: &Taps<'_>,
                    x: *const f32,
                    w: *const f32,
                    start: *const f32,
                    out: *mut f32,
                ) {
                    let lists = (x, w, start, out);
                    let mut at = 0;
                    // SAFETY: each call has its number of elements from `at` on, and the last one is masked; the rest is
                    // the caller's promise.
                    unsafe {
                        while at + 4 * LANES <= taps.count {
                            positions::<4, false>(taps, lists, at);
                            at += 4 * LANES;
                        }
                        if at + 2 * LANES <= taps.count {
                            positions::<2, false>(taps, lists, at);
                            at += 2 * LANES;
                        }
                        if at + LANES <= taps.count {
                            positions::<1, false>(taps, lists, at);
                            at += LANES;
                        }
                        if at < taps.count {
                            positions::<1, true>(taps, lists, at);
                        }
                    }
                }

                type Lists = (*const f32, *const f32, *const f32, *mut f32);

                /// Computes `V` vectors from element `at` on of every position; with `SOME` only the elements that exist.
                ///
                /// # Safety
                /// As for `all`; there are `V` vectors from `at` on, and with `SOME` at least one element and no whole
                /// vector.
                #[inline]
                #[target_feature(enable = $features)]
                unsafe fn positions<const V: usize, const SOME: bool>(
                    taps: &Taps<'_>,
                    lists: Lists,
                    at: usize,
                ) {
                    let mut position = 0;
                    // SAFETY: positions `position..position + P` exist.
                    unsafe {
                        while position < taps.positions {
                            position += match taps.positions - position {
                                8.. if V == 1 => tile::<V, 8, SOME>(taps, lists, at, position),
                                4.. => tile::<V, 4, SOME>(taps, lists, at, position),
                                2.. => tile::<V, 2, SOME>(taps, lists, at, position),
                                _ => tile::<V, 1, SOME>(taps, lists, at, position),
                            };
                        }
                    }
                }

                /// Computes `V` vectors of each of `P` positions; returns `P`.
                ///
                /// # Safety
                /// As for `positions`; there are `P` positions from `position` on.
                #[inline]
                #[target_feature(enable = $features)]
                unsafe fn tile<const V: usize, const P: usize, const SOME: bool>(
                    taps: &Taps<'_>,
                    (x, w, start, out): Lists,
                    at: usize,
                    position: usize,
                ) -> usize {
                    let some: $mask = ($some)(taps.count - at);
                    // SAFETY: the caller has these positions and elements, which are inside of the lists; with `SOME` loads
                    // and stores are masked.
                    unsafe {
                        let read = |from: *const f32| match SOME {
                            true => ($load_some)(from, some),
                            false => load(from),
                        };
                        let mut sums = [[zero(); V]; P];
                        let first = x.add(position * taps.read + at);
                        for &(from, weight) in taps.taps {
                            let from = first.add(from);
                            let weights: [Vector; V] = match taps.broadcast_weights {
                                true => [splat(*w.add(weight)); V],
                                false => {
                                    std::array::from_fn(|v| read(w.add(weight + at + v * LANES)))
                                }
                            };
                            for p in 0..P {
                                for v in 0..V {
                                    let x = read(from.add(p * taps.read + v * LANES));
                                    sums[p][v] = fused(weights[v], x, sums[p][v]);
                                }
                            }
                        }
                        for v in 0..V {
                            let start = match taps.broadcast_weights {
                                true => splat(*start),
                                false => read(start.add(at + v * LANES)),
                            };
                            for p in 0..P {
                                let to = out.add((position + p) * taps.write + at + v * LANES);
                                let sum = add(sums[p][v], start);
                                match SOME {
                                    true => ($store_some)(to, some, sum),
                                    false => store(to, sum),
                                }
                            }
                        }
                    }
                    P
                }
            }
        };
    }

    taps!(
        narrow,
        "avx2,fma",
        f32x8,
        __m256i,
        |count: usize| {
            let lanes = _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7);
            _mm256_cmpgt_epi32(_mm256_set1_epi32(count.min(8) as i32), lanes)
        },
        |from, some| _mm256_maskload_ps(from, some),
        |to, some, sum| _mm256_maskstore_ps(to, some, sum)
    );
    taps!(
        wide,
        "avx512f",
        f32x16,
        __mmask16,
        |count: usize| ((1u32 << count.min(16)) - 1) as u16,
        |from, some| _mm512_maskz_loadu_ps(some, from),
        |to, some, sum| _mm512_mask_storeu_ps(to, some, sum)
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers whose products and sums are exact.
    fn numbers(n: usize) -> Vec<f32> {
        (0..n).map(|i| (i * 37 % 19) as f32 - 9.0).collect()
    }

    #[test]
    fn all_instructions_sum_the_same() {
        let (x, w) = (numbers(6000), numbers(900));
        for isa in Isa::available() {
            for count in [1, 7, 8, 13, 16, 24, 31, 48, 64, 117] {
                for positions in [1, 2, 3, 6, 8, 13] {
                    for broadcast_weights in [false, true] {
                        let taps: Vec<(usize, usize)> =
                            (0..7).map(|t| (t * 130 + t % 3, t * 120)).collect();
                        let (read, write) = (count + 3, count + 5);
                        let all = Taps {
                            taps: &taps,
                            broadcast_weights,
                            positions,
                            read,
                            write,
                            count,
                        };
                        let start = numbers(count);
                        let mut out = vec![f32::NAN; write * positions];
                        all.run(isa, &x, &w, &start, &mut out);
                        for (p, line) in out.chunks(write).enumerate() {
                            for (i, found) in line.iter().enumerate() {
                                if count <= i {
                                    assert!(found.is_nan(), "nothing else is written");
                                    continue;
                                }
                                let at = |list: &[f32], from: usize| {
                                    list[if broadcast_weights { from } else { from + i }]
                                };
                                let sum: f32 = taps
                                    .iter()
                                    .map(|(from, weight)| x[from + p * read + i] * at(&w, *weight))
                                    .sum();
                                assert_eq!(
                                    *found,
                                    sum + at(&start, 0),
                                    "{isa:?} {count} {p} {i} {broadcast_weights}"
                                );
                            }
                        }
                    }
                }
            }
        }
    }
}
