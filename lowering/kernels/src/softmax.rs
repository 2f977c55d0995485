//! Softmax of contiguous rows of `f32` with AVX-512: several rows at once, because the polynomial of the exponential is a
//! chain of a dozen dependent operations.
//!
//! Every bit is that of the loops over 8 numbers in `ops/lanes.rs`: exponentials are computed as in `ops/math.rs`, of the
//! same numbers, and summed in `f64` in the same order, with every eighth element of a row in one lane.
#![expect(unsafe_code, reason = "vector instructions read and write by pointers")]

use crate::isa::Isa;
use crate::product::Requantize;

/// Elements of a vector; lines of exponentials are padded to a multiple of it.
pub const WIDE: usize = 16;

/// Constants of the exponential.
pub(crate) mod exp {
    /// Adding it rounds to a whole number, which is then in the lowest bits.
    pub(crate) const ROUND: f32 = 12_582_912.0;
    /// Minus the logarithm of 2, in two parts: most of it, with few bits, and the rest.
    pub(crate) const LN_2: [f32; 2] = [-0.693_359_4, 2.121_944_4e-4];
    /// Coefficients of the polynomial, highest degree first.
    pub(crate) const FACTORS: [f32; 6] = [
        1.987_569_1e-4,
        1.398_199_9e-3,
        8.333_452e-3,
        4.166_579_6e-2,
        1.666_666_6e-1,
        0.5,
    ];
    /// Below this the exponential is 0.
    pub(crate) const LEAST: f32 = -86.6;
}

/// Destination of rows.
#[derive(Debug)]
pub(crate) enum Rows<'a> {
    Floats(&'a mut [f32]),
    /// Requantized to bytes with scale 1; NaN becomes 0 before it is rounded.
    Bytes(&'a mut [u8], Requantize),
}

impl Rows<'_> {
    fn len(&self) -> usize {
        match self {
            Rows::Floats(to) => to.len(),
            Rows::Bytes(to, _) => to.len(),
        }
    }
}

/// Returns whether rows are computed with AVX-512.
pub fn is_wide() -> bool {
    Isa::current() == Isa::Avx512
}

/// Writes the softmax of rows of `n` elements, with AVX-512; returns false with a lesser instruction set. `begins` has the index
/// of each row in the result and in the source. `lines` has room for `n` elements of each row, rounded up to whole vectors.
///
/// # Panics
/// A row is out of bounds, or `lines` is too short.
pub(crate) fn softmaxes<const R: usize>(
    source: &[f32],
    to: &mut Rows<'_>,
    begins: [[usize; 2]; R],
    n: usize,
    lines: &mut [f32],
) -> bool {
    let inside = |begin: usize, len: usize| n <= len && begin <= len - n;
    let all = begins.iter();
    let mut fits = all.map(|&[at, from]| inside(at, to.len()) && inside(from, source.len()));
    assert!(fits.all(|fits| fits), "rows lie inside of their buffers");
    let room = lines.len() / R.max(1);
    let whole = n.checked_next_multiple_of(WIDE);
    assert!(
        whole.is_some_and(|width| width <= room),
        "there is a line for each row"
    );
    if !is_wide() {
        return false;
    }
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: rows and lines were checked above, and the machine has the instructions.
    unsafe {
        vectors::softmaxes(source, to, begins, n, lines);
    }
    true
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    use super::{Rows, WIDE};
    use crate::product::Bytes;
    use std::arch::x86_64::*;
    use std::array::from_fn;

    /// # Safety
    /// All rows are inside of their buffers, and `lines` has whole vectors for each of them. The machine has AVX-512.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl")]
    pub(super) unsafe fn softmaxes<const R: usize>(
        source: &[f32],
        to: &mut Rows<'_>,
        begins: [[usize; 2]; R],
        n: usize,
        lines: &mut [f32],
    ) {
        let (parts, width) = (n / WIDE, n.next_multiple_of(WIDE));
        let rest = ((1u32 << (n % WIDE)) - 1) as u16;
        // SAFETY: the caller's promises.
        unsafe {
            let from = begins.map(|begin| source.as_ptr().add(begin[1]));
            let lines: [*mut f32; R] = from_fn(|r| lines.as_mut_ptr().add(r * width));
            let wholes = exps(from, (parts, rest), lines);
            for r in 0..R {
                let whole = _mm512_set1_ps(wholes[r]);
                let part = |k: usize| _mm512_mul_ps(_mm512_loadu_ps(lines[r].add(k * WIDE)), whole);
                match to {
                    Rows::Floats(to) => {
                        let to = to.as_mut_ptr().add(begins[r][0]);
                        for k in 0..parts {
                            _mm512_storeu_ps(to.add(k * WIDE), part(k));
                        }
                        if rest != 0 {
                            _mm512_mask_storeu_ps(to.add(parts * WIDE), rest, part(parts));
                        }
                    }
                    Rows::Bytes(to, requantize) => {
                        let to: *mut i8 = to.as_mut_ptr().add(begins[r][0]).cast();
                        let bytes = Bytes::of(requantize);
                        let part = |k: usize| bytes.rounded(numbers(bytes.held(part(k))));
                        for k in 0..parts {
                            _mm_storeu_si128(to.add(k * WIDE).cast(), part(k));
                        }
                        if rest != 0 {
                            _mm_mask_storeu_epi8(to.add(parts * WIDE), rest, part(parts));
                        }
                    }
                }
            }
        }
    }

    /// The numbers, with NaN replaced by 0.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn numbers(x: __m512) -> __m512 {
        _mm512_maskz_mov_ps(_mm512_cmp_ps_mask::<_CMP_ORD_Q>(x, x), x)
    }

    /// Sets lines to the exponentials of rows minus their greatest elements, and 0 beyond their ends. Returns the factor of
    /// each row, the reciprocal of its sum.
    ///
    /// # Safety
    /// The rows have `parts` vectors and the elements of `rest`; the lines have room for vectors of all of them.
    #[inline]
    #[target_feature(enable = "avx512f")]
    unsafe fn exps<const R: usize>(
        from: [*const f32; R],
        (parts, rest): (usize, u16),
        lines: [*mut f32; R],
    ) -> [f32; R] {
        let lowest = _mm512_set1_ps(f32::NEG_INFINITY);
        // SAFETY: the caller's promises; the last vector is loaded with a mask.
        unsafe {
            let part =
                |k: usize| -> [__m512; R] { from_fn(|r| _mm512_loadu_ps(from[r].add(k * WIDE))) };
            let last = || -> [__m512; R] {
                from_fn(|r| _mm512_mask_loadu_ps(lowest, rest, from[r].add(parts * WIDE)))
            };
            let mut mosts = [lowest; R];
            let mut seen = |x: [__m512; R]| mosts = from_fn(|r| _mm512_max_ps(x[r], mosts[r]));
            for k in 0..parts {
                seen(part(k));
            }
            if rest != 0 {
                seen(last());
            }
            let greatest: [__m512; R] = from_fn(|r| greatest(mosts[r]));
            let mut sums = [_mm512_setzero_pd(); R];
            let mut raised = |x: [__m512; R], k: usize| {
                let found: [__m512; R] = power(from_fn(|r| _mm512_sub_ps(x[r], greatest[r])));
                for r in 0..R {
                    _mm512_storeu_ps(lines[r].add(k * WIDE), found[r]);
                    let high = _mm512_extractf64x4_pd::<1>(_mm512_castps_pd(found[r]));
                    let low = _mm512_cvtps_pd(_mm512_castps512_ps256(found[r]));
                    let high = _mm512_cvtps_pd(_mm256_castpd_ps(high));
                    sums[r] = _mm512_add_pd(_mm512_add_pd(sums[r], low), high);
                }
            };
            for k in 0..parts {
                raised(part(k), k);
            }
            if rest != 0 {
                raised(last(), parts);
            }
            from_fn(|r| (1.0 / sum(sums[r])) as f32)
        }
    }

    /// The maximum of all elements, in each lane; NaN is skipped.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn greatest(x: __m512) -> __m512 {
        let x = _mm512_max_ps(x, _mm512_shuffle_f32x4::<0b01_00_11_10>(x, x));
        let x = _mm512_max_ps(x, _mm512_shuffle_f32x4::<0b10_11_00_01>(x, x));
        let x = _mm512_max_ps(x, _mm512_permute_ps::<0b01_00_11_10>(x));
        _mm512_max_ps(x, _mm512_permute_ps::<0b10_11_00_01>(x))
    }

    /// The sum of all lanes, in the order of `lanes::sum`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn sum(x: __m512d) -> f64 {
        let fours = _mm256_add_pd(_mm512_castpd512_pd256(x), _mm512_extractf64x4_pd::<1>(x));
        let (low, high) = (
            _mm256_castpd256_pd128(fours),
            _mm256_extractf128_pd::<1>(fours),
        );
        let twos = _mm_hadd_pd(low, high);
        _mm_cvtsd_f64(_mm_add_sd(twos, _mm_unpackhi_pd(twos, twos)))
    }

    /// The exponential of each element, as `math::power`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn power<const R: usize>(x: [__m512; R]) -> [__m512; R] {
        use super::exp::*;
        let all = |x: f32| _mm512_set1_ps(x);
        let shifted: [__m512; R] =
            from_fn(|r| _mm512_fmadd_ps(x[r], all(std::f32::consts::LOG2_E), all(ROUND)));
        let whole: [__m512; R] = from_fn(|r| _mm512_sub_ps(shifted[r], all(ROUND)));
        let rest: [__m512; R] = from_fn(|r| _mm512_fmadd_ps(whole[r], all(LN_2[0]), x[r]));
        let rest: [__m512; R] = from_fn(|r| _mm512_fmadd_ps(whole[r], all(LN_2[1]), rest[r]));
        let mut sums = [all(FACTORS[0]); R];
        for &factor in &FACTORS[1..] {
            for r in 0..R {
                sums[r] = _mm512_fmadd_ps(sums[r], rest[r], all(factor));
            }
        }
        from_fn(|r| {
            let near = _mm512_fmadd_ps(sums[r], _mm512_mul_ps(rest[r], rest[r]), rest[r]);
            let near = _mm512_add_ps(near, all(1.0));
            let bits = _mm512_slli_epi32::<23>(_mm512_castps_si512(shifted[r]));
            let whole = _mm512_castsi512_ps(_mm512_add_epi32(bits, _mm512_set1_epi32(127 << 23)));
            let not_least = _mm512_cmp_ps_mask::<_CMP_NLT_UQ>(x[r], all(LEAST));
            _mm512_maskz_mul_ps(not_least, near, whole)
        })
    }
}
