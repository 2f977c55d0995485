//! Micro-kernels for AVX2 and AVX-512.
//!
//! A tile is up to 6 rows of 8 lanes (AVX2) or 12 rows of 16 lanes (AVX-512), by one or two vectors of columns. For each
//! term, a vector of columns is loaded once, each row's factor is broadcast, and the product is added to the accumulators
//! of the row.

use super::MOST_COLUMNS;
use super::requantize::{Requantize, RequantizedRows, Scales};
use std::arch::x86_64::*;

/// Transposes 8x8 elements.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_8x8(row: [__m256; 8]) -> [__m256; 8] {
    let pairs: [__m256; 8] = std::array::from_fn(|j| {
        let (a, b) = (row[j / 2 * 2], row[j / 2 * 2 + 1]);
        match j % 2 {
            0 => _mm256_unpacklo_ps(a, b),
            _ => _mm256_unpackhi_ps(a, b),
        }
    });
    // From rows `0..4` and `4..8`: terms 0 and 4, 1 and 5, 2 and 6, 3 and 7.
    let fours: [__m256; 8] = std::array::from_fn(|j| {
        let (a, b) = (
            pairs[j / 4 * 4 + j % 4 / 2],
            pairs[j / 4 * 4 + 2 + j % 4 / 2],
        );
        match j % 2 {
            0 => _mm256_shuffle_ps::<0x44>(a, b),
            _ => _mm256_shuffle_ps::<0xEE>(a, b),
        }
    });
    std::array::from_fn(|i| match i / 4 {
        0 => _mm256_permute2f128_ps::<0x20>(fours[i], fours[4 + i]),
        _ => _mm256_permute2f128_ps::<0x31>(fours[i - 4], fours[i]),
    })
}

/// Transposes 8 rows of `count` elements, a multiple of 8: element `i` of row `j` goes to `i * width + j`.
///
/// # Safety
/// Each row has `count` elements; `to` has 8 elements at each of `count` multiples of `width`. The machine has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose(rows: [*const f32; 8], count: usize, to: *mut f32, width: usize) {
    for at in (0..count).step_by(8) {
        // SAFETY: the caller's promises: 8 elements from `at` on.
        unsafe {
            let row: [__m256; 8] = std::array::from_fn(|j| _mm256_loadu_ps(rows[j].add(at)));
            for (i, line) in transpose_8x8(row).into_iter().enumerate() {
                _mm256_storeu_ps(to.add((at + i) * width), line);
            }
        }
    }
}

/// Transposes 8 rows of `count` 16-bit elements, a multiple of 8, as [`transpose`] does, with SSE2.
///
/// # Safety
/// Each row has `count` elements; `to` has 8 elements at each of `count` multiples of `width`.
pub(super) unsafe fn transpose_16(rows: [*const u8; 8], count: usize, to: *mut u8, width: usize) {
    for at in (0..count).step_by(8) {
        // SAFETY: the caller's promises: 8 elements from `at` on.
        unsafe {
            let row: [__m128i; 8] =
                std::array::from_fn(|j| _mm_loadu_si128(rows[j].add(2 * at).cast()));
            let step = |row: [__m128i; 8]| -> [__m128i; 8] {
                std::array::from_fn(|j| match j % 2 {
                    0 => _mm_unpacklo_epi16(row[j / 2], row[j / 2 + 4]),
                    _ => _mm_unpackhi_epi16(row[j / 2], row[j / 2 + 4]),
                })
            };
            for (i, line) in step(step(step(row))).into_iter().enumerate() {
                _mm_storeu_si128(to.add(2 * (at + i) * width).cast(), line);
            }
        }
    }
}

/// As [`transpose_16`], for elements of 8 bits.
///
/// # Safety
/// As for [`transpose_16`].
pub(super) unsafe fn transpose_8(rows: [*const u8; 8], count: usize, to: *mut u8, width: usize) {
    for at in (0..count).step_by(8) {
        // SAFETY: the caller's promises: 8 elements from `at` on.
        unsafe {
            let row: [__m128i; 8] =
                std::array::from_fn(|j| _mm_loadl_epi64(rows[j].add(at).cast()));
            // Interleaves rows 0 and 4, 1 and 5, 2 and 6, 3 and 7; then all even and all odd rows; then all rows.
            let pair: [__m128i; 4] = std::array::from_fn(|j| _mm_unpacklo_epi8(row[j], row[j + 4]));
            let fours: [__m128i; 4] = std::array::from_fn(|j| match j % 2 {
                0 => _mm_unpacklo_epi8(pair[j / 2], pair[j / 2 + 2]),
                _ => _mm_unpackhi_epi8(pair[j / 2], pair[j / 2 + 2]),
            });
            let all: [__m128i; 4] = std::array::from_fn(|j| match j % 2 {
                0 => _mm_unpacklo_epi8(fours[j / 2], fours[j / 2 + 2]),
                _ => _mm_unpackhi_epi8(fours[j / 2], fours[j / 2 + 2]),
            });
            for (i, two) in all.into_iter().enumerate() {
                _mm_storel_epi64(to.add((at + 2 * i) * width).cast(), two);
                _mm_storel_epi64(
                    to.add((at + 2 * i + 1) * width).cast(),
                    _mm_unpackhi_epi64(two, two),
                );
            }
        }
    }
}

/// Interleaves 16 bytes of four lines into quads of one byte of each line, with SSE2.
///
/// # Safety
/// Each line has 16 bytes, and `to` has room for 64.
#[inline(always)]
pub(super) unsafe fn interleave(lines: [*const u8; 4], to: *mut u8) {
    // SAFETY: the caller's promises.
    unsafe {
        let [a, b, c, d] = lines.map(|line| _mm_loadu_si128(line.cast()));
        let (low, high) = (
            [_mm_unpacklo_epi8(a, b), _mm_unpacklo_epi8(c, d)],
            [_mm_unpackhi_epi8(a, b), _mm_unpackhi_epi8(c, d)],
        );
        for (i, [ab, cd]) in [low, high].into_iter().enumerate() {
            let to = to.add(32 * i).cast::<__m128i>();
            _mm_storeu_si128(to, _mm_unpacklo_epi16(ab, cd));
            _mm_storeu_si128(to.add(1), _mm_unpackhi_epi16(ab, cd));
        }
    }
}

/// Transposes 8 rows of 8 elements, `step` apart: element `i` of row `j` goes to `places[i] + first + j`, for each of the
/// places.
///
/// # Safety
/// All elements are readable, and 8 elements from `first` behind each place on are writable and not shared. The machine has
/// AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn transpose_out(
    from: *const f32,
    step: usize,
    places: &[*mut f32],
    first: usize,
) {
    // SAFETY: the caller's promises.
    unsafe {
        let row: [__m256; 8] = std::array::from_fn(|j| _mm256_loadu_ps(from.add(j * step)));
        for (line, place) in transpose_8x8(row).into_iter().zip(places) {
            _mm256_storeu_ps(place.add(first), line);
        }
    }
}

macro_rules! products {
    ($($name:ident: $features:literal, $vectors:ident, $rows:literal [$($rest:literal)*], $factor:ty, $bytes:literal, $multiplied:expr $(, $requantize:ident)?;)*) => {$(
        pub(super) mod $name {
            #[allow(unused_imports, reason = "some products alone have types of the crate or more functions")]
            use super::{super::{Factor, Initial, Panel, Quad}, *};
            use crate::simd::$vectors::*;

            /// True for bytes. The products of the zero point of the rows by the columns are then subtracted from the sums.
            const BYTES: bool = $bytes;

            /// # Safety
            /// As for `Factor::panel`, on a machine that has these instructions.
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn panel(panel: &Panel<'_, $factor>) {
                // SAFETY: the caller's promises, handed on.
                unsafe {
                    match (panel.half, panel.runs.len()) {
                        (true, 1) if !BYTES && panel.taps.is_some() => {
                            columns::<1, false, true>(panel);
                        }
                        (false, 1) if !BYTES && panel.taps.is_some() => {
                            columns::<2, false, true>(panel);
                        }
                        (true, 1) => columns::<1, false, false>(panel),
                        (false, 1) => columns::<2, false, false>(panel),
                        (true, _) => columns::<1, true, false>(panel),
                        (false, _) => columns::<2, true, false>(panel),
                    }
                }
            }

            /// Multiplies all rows by `C` vectors of columns. Without `RUNS` the terms of a row are a single run that
            /// begins with the row. With `TAPS` the columns of each term are at its tap.
            ///
            /// # Safety
            /// As for `panel`; the panel has `C` vectors of columns, and without `RUNS` one run that begins at 0.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn columns<const C: usize, const RUNS: bool, const TAPS: bool>(
                panel: &Panel<'_, $factor>,
            ) {
                let mut at = 0;
                let mut begin = [zero(); C];
                // SAFETY: the right panel has all terms, and rows `at..at + M` exist, by the length that was compared.
                unsafe {
                    if BYTES && panel.zero != 0
                        && let Some(row) = <$factor>::splat_byte(panel.zero)
                    {
                        let (mut right, row) = (panel.right, splat(bytemuck::cast(row)));
                        for _ in 0..panel.terms {
                            for c in 0..C {
                                let column = load(right.add(c * LANES).cast());
                                begin[c] = ($multiplied)(row, column, begin[c]);
                            }
                            right = right.wrapping_add(panel.right_step);
                        }
                        begin = begin.map(|sum| sub(zero(), sum));
                    }
                    while at + $rows <= panel.left.len() {
                        tile::<$rows, C, RUNS, TAPS>(panel, at, begin);
                        at += $rows;
                    }
                    match panel.left.len() - at {
                        $($rest => tile::<$rest, C, RUNS, TAPS>(panel, at, begin),)*
                        _ => {}
                    }
                }
            }

            /// Multiplies `M` rows from `first` on by `C` vectors of columns; accumulators are initialized with `begin`.
            ///
            /// # Safety
            /// As for `columns`; there are `M` rows from `first` on.
            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn tile<const M: usize, const C: usize, const RUNS: bool, const TAPS: bool>(
                panel: &Panel<'_, $factor>,
                first: usize,
                begin: [Vector; C],
            ) {
                // SAFETY: the caller has `M` rows from `first` on; the offsets are those that `Factor::panel` promises.
                unsafe {
                    let left: [*const $factor; M] =
                        std::array::from_fn(|i| *panel.left.get_unchecked(first + i));
                    let mut sums = match BYTES {
                        false => [[zero(); C]; M],
                        true => [begin; M],
                    };
                    if let Some(compensation) = panel.compensation.filter(|_| BYTES) {
                        for i in 0..M {
                            let compensation = [*compensation.get_unchecked(first + i); LANES];
                            for c in 0..C {
                                sums[i][c] = add(sums[i][c], load(compensation.as_ptr().cast()));
                            }
                        }
                    }
                    let mut right = panel.right;
                    let step = panel.left_step as isize;
                    // A single run begins with the row, so that there is no loop over runs.
                    let runs = if RUNS { panel.runs } else { &[0] };
                    let (taps, second) = match panel.taps {
                        Some((taps, second)) if TAPS => (taps, second),
                        _ => (&[][..], LANES),
                    };
                    for &run in runs {
                        let mut at = run;
                        for term in 0..panel.run {
                            if TAPS {
                                right = panel.right.wrapping_add(*taps.get_unchecked(term));
                            }
                            let columns: [Vector; C] =
                                std::array::from_fn(|c| load(right.add(c * second).cast()));
                            for i in 0..M {
                                let factor = splat(bytemuck::cast(*left[i].wrapping_offset(at)));
                                for c in 0..C {
                                    sums[i][c] = ($multiplied)(factor, columns[c], sums[i][c]);
                                }
                            }
                            at += step;
                            right = right.wrapping_add(panel.right_step);
                        }
                    }
                    let rows = panel.out.as_ptr().wrapping_add(first);
                    match panel.initial {
                        Initial::Zero => {}
                        Initial::InPlace => {
                            for i in 0..M {
                                for c in 0..C {
                                    let there = load((*rows.add(i)).add(c * LANES).cast());
                                    sums[i][c] = add(sums[i][c], there);
                                }
                            }
                        }
                        Initial::Rows(starts) => {
                            for i in 0..M {
                                let start = [*starts.get_unchecked(first + i); LANES];
                                for c in 0..C {
                                    sums[i][c] = add(sums[i][c], load(start.as_ptr().cast()));
                                }
                            }
                        }
                        Initial::Columns(starts) => {
                            for c in 0..C {
                                let start = load(starts.as_ptr().add(c * LANES).cast());
                                for i in 0..M {
                                    sums[i][c] = add(sums[i][c], start);
                                }
                            }
                        }
                    }
                    match panel.requantize {
                        $(Some(requantize) => {
                            // A copy: accumulators whose address is taken would be spilled from registers.
                            let made = sums;
                            $requantize(requantize, &made, first);
                        })?
                        _ => {
                            for i in 0..M {
                                for c in 0..C {
                                    store((*rows.add(i)).add(c * LANES).cast(), sums[i][c]);
                                }
                            }
                        }
                    }
                }
            }
        }
    )*};
}

products! {
    narrow: "avx2,fma", f32x8, 6 [1 2 3 4 5], f32, false, |a, b, sum| fused(a, b, sum);
    wide: "avx512f", f32x16, 12 [1 2 3 4 5 6 7 8 9 10 11], f32, false, |a, b, sum| fused(a, b, sum);
    narrow_whole: "avx2", i32x8, 6 [1 2 3 4 5], i32, false,
        |a, b, sum| add(sum, _mm256_mullo_epi32(a, b));
    wide_whole: "avx512f", i32x16, 12 [1 2 3 4 5 6 7 8 9 10 11], i32, false,
        |a, b, sum| add(sum, _mm512_mullo_epi32(a, b));
    narrow_signed: "avx2", i32x8, 4 [1 2 3], Quad<i8>, true,
        |a, b, sum| multiplied_halves(unsigned_halves(a), signed_halves(b), sum);
    narrow_unsigned: "avx2", i32x8, 4 [1 2 3], Quad<u8>, true,
        |a, b, sum| multiplied_halves(signed_halves(a), unsigned_halves(b), sum);
    dot_signed: "avx512f,avx512bw,avx512vnni", i32x16, 12 [1 2 3 4 5 6 7 8 9 10 11], Quad<i8>, true,
        |a, b, sum| _mm512_dpbusd_epi32(sum, a, b), requantize_sums;
    dot_unsigned: "avx512f,avx512bw,avx512vnni", i32x16, 12 [1 2 3 4 5 6 7 8 9 10 11], Quad<u8>, true,
        |a, b, sum| _mm512_dpbusd_epi32(sum, b, a), requantize_sums;
}

/// Constants of a requantization in vectors. No number is NaN.
#[derive(Debug)]
pub(crate) struct Bytes<'a> {
    of: &'a Requantize,
    lower_bound: __m512,
    by: __m512,
    ends: [__m512; 2],
}

impl Bytes<'_> {
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn of(of: &Requantize) -> Bytes<'_> {
        let all = |x: f32| _mm512_set1_ps(x);
        Bytes {
            of,
            lower_bound: all(of.lower_bound),
            by: all(of.by),
            ends: [all(of.low), all(of.high)],
        }
    }

    /// Scaled numbers, at least `lower_bound`.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn held(&self, scaled: __m512) -> __m512 {
        _mm512_max_ps(self.lower_bound, scaled)
    }

    /// Divides such numbers and rounds them to bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    pub(crate) fn rounded(&self, held: __m512) -> __m128i {
        let divided = match self.of.divides {
            true => _mm512_div_ps(held, self.by),
            false => _mm512_mul_ps(held, self.by),
        };
        self.narrowed(match self.of.zero_point {
            None => divided,
            Some(zero_point) => self.moved(divided, _mm512_set1_ps(zero_point)),
        })
    }

    /// Rounds quotients and adds the zero point.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn moved(&self, divided: __m512, zero_point: __m512) -> __m512 {
        // Quotients so large that adjacent floats differ by more than 1 saturate, whatever is added.
        const NEAREST: i32 = _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC;
        _mm512_add_ps(_mm512_roundscale_ps::<NEAREST>(divided), zero_point)
    }

    /// Clamps numbers to the range of the type and rounds them to bytes.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn narrowed(&self, whole: __m512) -> __m128i {
        let within = _mm512_min_ps(_mm512_max_ps(whole, self.ends[0]), self.ends[1]);
        _mm512_cvtepi32_epi8(_mm512_cvtps_epi32(within))
    }
}

/// Writes requantized sums from row `first` on.
///
/// # Safety
/// The destination has as many rows as `sums`, each with `columns` elements.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(crate) unsafe fn requantize_sums<const C: usize>(
    to: RequantizedRows<'_>,
    sums: &[[__m512i; C]],
    first: usize,
) {
    let of = to.by;
    // SAFETY: the caller's promises; there is a scale and a bias for each row, or for each column.
    unsafe {
        match to.scales {
            Some(Scales::Rows(list)) => written(&to, sums, first, |row, _, sums| {
                let [scale, bias] = list.get_unchecked(row).map(|x| _mm512_set1_ps(x));
                _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale), bias)
            }),
            Some(Scales::Columns(list)) => written(&to, sums, first, |_, c, sums| {
                let at = |x: &[f32; MOST_COLUMNS]| _mm512_loadu_ps(x.as_ptr().add(c * 16));
                let [scale, bias] = list.each_ref().map(at);
                _mm512_add_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale), bias)
            }),
            None => {
                let all = sums.as_flattened().iter();
                let bits = all.fold(_mm512_setzero_si512(), |bits, &sum| {
                    _mm512_or_si512(bits, _mm512_abs_epi32(sum))
                });
                let exact = _mm512_cmplt_epu32_mask(bits, _mm512_set1_epi32(1 << 24)) == u16::MAX;
                let scale = _mm512_set1_ps(of.scale);
                match exact {
                    true => written(&to, sums, first, |_, _, sums| {
                        _mm512_mul_ps(_mm512_cvtepi32_ps(sums), scale)
                    }),
                    false => written(&to, sums, first, |_, _, sums| {
                        let mut all = [0; 16];
                        _mm512_storeu_si512(all.as_mut_ptr().cast(), sums);
                        _mm512_loadu_ps(all.map(|sum| of.scaled_sum(sum)).as_ptr())
                    }),
                }
            }
        }
    }
}

/// Writes requantized numbers that `scaled` makes of sums; each form of the requantization has a loop of its own.
///
/// # Safety
/// As for [`requantize_sums`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn written<const C: usize>(
    to: &RequantizedRows<'_>,
    sums: &[[__m512i; C]],
    first: usize,
    scaled: impl Fn(usize, usize, __m512i) -> __m512,
) {
    let bytes = Bytes::of(to.by);
    let masks: [u16; C] = std::array::from_fn(|c| {
        let there = to.columns.saturating_sub(c * 16).min(16);
        ((1u32 << there) - 1) as u16
    });
    let held = |row: usize, c: usize, sums: __m512i| bytes.held(scaled(row, c, sums));
    // SAFETY: the caller's promises; the mask of the last vector has only the columns that exist.
    unsafe {
        let row = |i: usize| *to.rows.get_unchecked(first + i);
        if !to.by.rounds {
            for (i, sums) in sums.iter().enumerate() {
                for (c, &sums) in sums.iter().enumerate() {
                    let place = row(i).cast::<f32>().add(c * 16);
                    _mm512_mask_storeu_ps(place, masks[c], held(first + i, c, sums));
                }
            }
            return;
        }
        let put = |i: usize, c: usize, found: __m128i| {
            let place = row(i).add(c * 16);
            match masks[c] {
                u16::MAX => _mm_storeu_si128(place.cast(), found),
                mask => _mm_mask_storeu_epi8(place.cast(), mask, found),
            }
        };
        let by = bytes.by;
        match (to.by.divides, to.by.zero_point) {
            (true, Some(zero_point)) => {
                let zero_point = _mm512_set1_ps(zero_point);
                for (i, sums) in sums.iter().enumerate() {
                    for (c, &sums) in sums.iter().enumerate() {
                        let divided = _mm512_div_ps(held(first + i, c, sums), by);
                        put(i, c, bytes.narrowed(bytes.moved(divided, zero_point)));
                    }
                }
            }
            (true, None) => {
                for (i, sums) in sums.iter().enumerate() {
                    for (c, &sums) in sums.iter().enumerate() {
                        let divided = _mm512_div_ps(held(first + i, c, sums), by);
                        put(i, c, bytes.narrowed(divided));
                    }
                }
            }
            (false, _) => {
                for (i, sums) in sums.iter().enumerate() {
                    for (c, &sums) in sums.iter().enumerate() {
                        put(i, c, bytes.rounded(held(first + i, c, sums)));
                    }
                }
            }
        }
    }
}

/// The even and the odd bytes of each 16 bits, sign-extended to 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn signed_halves(x: __m256i) -> [__m256i; 2] {
    let even = _mm256_slli_epi16::<8>(x);
    [_mm256_srai_epi16::<8>(even), _mm256_srai_epi16::<8>(x)]
}

/// The even and the odd bytes of each 16 bits, zero-extended to 16 bits.
#[inline]
#[target_feature(enable = "avx2")]
fn unsigned_halves(x: __m256i) -> [__m256i; 2] {
    let even = _mm256_slli_epi16::<8>(x);
    [_mm256_srli_epi16::<8>(even), _mm256_srli_epi16::<8>(x)]
}

/// Adds the products of four terms to the sum.
#[inline]
#[target_feature(enable = "avx2")]
fn multiplied_halves(a: [__m256i; 2], b: [__m256i; 2], sum: __m256i) -> __m256i {
    let even = _mm256_add_epi32(sum, _mm256_madd_epi16(a[0], b[0]));
    _mm256_add_epi32(even, _mm256_madd_epi16(a[1], b[1]))
}

/// Sums along a line of quads: for each position, the initial value and the products of the taps by the quads behind it.
/// The result is the same on every machine.
pub(super) mod along {
    use super::super::{Byte, Quad, Requantize, RequantizedRows, Scales};
    use super::requantize_sums;
    use std::arch::x86_64::*;

    /// # Safety
    /// The length of `to` is a multiple of 16. For each of its positions, `line` has quads up to the greatest offset of
    /// `taps` behind it. The machine has these instructions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vnni")]
    pub(in super::super) unsafe fn dot_line<B: Byte>(
        line: &[Quad<B>],
        taps: &[(usize, Quad<B>)],
        to: &mut [i32],
        begin: i32,
    ) {
        let (vectors, _) = to.as_chunks_mut::<16>();
        for (number, to) in vectors.iter_mut().enumerate() {
            let mut sum = _mm512_set1_epi32(begin);
            for &(at, weights) in taps {
                // SAFETY: the caller's promise.
                let quads =
                    unsafe { _mm512_loadu_si512(line.as_ptr().add(number * 16 + at).cast()) };
                let weights = _mm512_set1_epi32(bytemuck::cast(weights));
                sum = match B::SIGNED {
                    true => _mm512_dpbusd_epi32(sum, quads, weights),
                    false => _mm512_dpbusd_epi32(sum, weights, quads),
                };
            }
            // SAFETY: there are 16 elements.
            unsafe { _mm512_storeu_si512(to.as_mut_ptr().cast(), sum) };
        }
    }

    /// Requantizes the sums of `count` positions.
    ///
    /// # Safety
    /// As for [`dot_line`], with `count` rounded up to a multiple of 16; `to` has `count` elements of the size of
    /// requantized sums.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(in super::super) unsafe fn requantized<B: Byte>(
        line: &[Quad<B>],
        taps: &[(usize, Quad<B>)],
        begin: i32,
        (to, count): (*mut u8, usize),
        requantize: (&Requantize, Option<[f32; 2]>),
    ) {
        let size = requantize.0.size();
        let mut at = 0;
        // SAFETY: the caller's promises; two vectors are read only where there are places of the second one.
        unsafe {
            while at < count {
                let to = (to.add(at * size), count - at);
                let from = line.as_ptr().add(at);
                if 16 < count - at {
                    some::<B, 2>(from, taps, begin, to, requantize);
                } else {
                    some::<B, 1>(from, taps, begin, to, requantize);
                }
                at += 32;
            }
        }
    }

    /// # Safety
    /// As for [`requantized`], for `C` vectors of positions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn some<B: Byte, const C: usize>(
        from: *const Quad<B>,
        taps: &[(usize, Quad<B>)],
        begin: i32,
        (to, columns): (*mut u8, usize),
        (by, scale): (&Requantize, Option<[f32; 2]>),
    ) {
        let mut sums = [[_mm512_set1_epi32(begin); C]];
        for &(at, weights) in taps {
            let weights = _mm512_set1_epi32(bytemuck::cast(weights));
            for (c, sum) in sums[0].iter_mut().enumerate() {
                // SAFETY: the caller's promise.
                let quads = unsafe { _mm512_loadu_si512(from.add(at + c * 16).cast()) };
                *sum = match B::SIGNED {
                    true => _mm512_dpbusd_epi32(*sum, quads, weights),
                    false => _mm512_dpbusd_epi32(*sum, weights, quads),
                };
            }
        }
        let (rows, scale) = ([to], scale.map(|scale| [scale]));
        let to = RequantizedRows {
            by,
            scales: scale.as_ref().map(|scale| Scales::Rows(scale)),
            rows: &rows,
            columns,
        };
        // SAFETY: there is a row with these columns.
        unsafe { requantize_sums(to, &sums, 0) };
    }
}
