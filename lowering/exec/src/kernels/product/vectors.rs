//! Products with vectors of 32 and 64 bytes.

use std::arch::x86_64::*;

/// Eight rows of eight elements, turned.
#[inline]
#[target_feature(enable = "avx2")]
fn square(row: [__m256; 8]) -> [__m256; 8] {
    let pairs: [__m256; 8] = std::array::from_fn(|j| {
        let (a, b) = (row[j / 2 * 2], row[j / 2 * 2 + 1]);
        match j % 2 {
            0 => _mm256_unpacklo_ps(a, b),
            _ => _mm256_unpackhi_ps(a, b),
        }
    });
    // Of rows `0..4` and `4..8`, terms 0 and 4, 1 and 5, 2 and 6, 3 and 7.
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

/// Turns 8 rows of as many elements as `count`, a multiple of 8: element `i` of row `j` goes to `i * width + j`.
///
/// # Safety
/// The rows have so many elements; `to` has 8 elements each `width` for each of them, on a machine that has these vectors.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn turn(rows: [*const f32; 8], count: usize, to: *mut f32, width: usize) {
    for at in (0..count).step_by(8) {
        // SAFETY: the caller's promises: 8 elements from `at` on.
        unsafe {
            let row: [__m256; 8] = std::array::from_fn(|j| _mm256_loadu_ps(rows[j].add(at)));
            for (i, line) in square(row).into_iter().enumerate() {
                _mm256_storeu_ps(to.add((at + i) * width), line);
            }
        }
    }
}

/// Turns 8 rows of as many elements of 16 bits as `count`, a multiple of 8, as [`turn`] does; every machine has these vectors.
///
/// # Safety
/// The rows have so many elements; `to` has 8 elements each `width` for each of them.
pub(super) unsafe fn turn_16(rows: [*const u8; 8], count: usize, to: *mut u8, width: usize) {
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

/// The same for elements of 8 bits.
///
/// # Safety
/// As for [`turn_16`].
pub(super) unsafe fn turn_8(rows: [*const u8; 8], count: usize, to: *mut u8, width: usize) {
    for at in (0..count).step_by(8) {
        // SAFETY: the caller's promises: 8 elements from `at` on.
        unsafe {
            let row: [__m128i; 8] =
                std::array::from_fn(|j| _mm_loadl_epi64(rows[j].add(at).cast()));
            // Rows 0 and 4, 1 and 5, 2 and 6, 3 and 7, element by element; then all even and all odd rows; then all.
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

/// Turns 8 rows of 8 elements, `step` apart: element `i` of row `j` goes to `places[i] + first + j`, of as many as there are places.
///
/// # Safety
/// All elements are there, and 8 from `first` places behind each place on, which nobody else has, on a machine that has these vectors.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn turn_out(from: *const f32, step: usize, places: &[*mut f32], first: usize) {
    // SAFETY: the caller's promises.
    unsafe {
        let row: [__m256; 8] = std::array::from_fn(|j| _mm256_loadu_ps(from.add(j * step)));
        for (line, place) in square(row).into_iter().zip(places) {
            _mm256_storeu_ps(place.add(first), line);
        }
    }
}

macro_rules! products {
    ($name:ident, $features:literal, $rows:literal, $lanes:literal, $factor:ident, $sum:ident, $vector:ident, $zero:ident, $load:ident, $store:ident, $splat:expr, $multiplied:expr, $add:ident, [$($rest:literal),*]) => {
        pub(super) mod $name {
            #[allow(unused_imports, reason = "pairs alone are a type of the crate")]
            use super::super::{Pair, Panel};
            use std::arch::x86_64::*;

            /// # Safety
            /// As for `Factor::panel`, on a machine that has these vectors.
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn panel(panel: &Panel<'_, $factor>) {
                // SAFETY: the caller's promises, handed on.
                unsafe {
                    match panel.half {
                        true => columns::<1>(panel),
                        false => columns::<2>(panel),
                    }
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn columns<const C: usize>(panel: &Panel<'_, $factor>) {
                let mut at = 0;
                // SAFETY: rows `at..at + M` are there, by the length that was compared.
                unsafe {
                    while at + $rows <= panel.left.len() {
                        tile::<$rows, C>(panel, at);
                        at += $rows;
                    }
                    match panel.left.len() - at {
                        $($rest => tile::<$rest, C>(panel, at),)*
                        _ => {}
                    }
                }
            }

            #[inline]
            #[target_feature(enable = $features)]
            unsafe fn tile<const M: usize, const C: usize>(panel: &Panel<'_, $factor>, first: usize) {
                // SAFETY: the caller has `M` rows from `first` on; the offsets are those that `product::panel` promises.
                unsafe {
                    let left: [*const $factor; M] =
                        std::array::from_fn(|i| *panel.left.get_unchecked(first + i));
                    let mut sums = [[$zero(); C]; M];
                    let mut right = panel.right;
                    let mut at = 0;
                    for _ in 0..panel.terms {
                        let columns: [$vector; C] =
                            std::array::from_fn(|c| $load(right.add(c * $lanes).cast()));
                        for i in 0..M {
                            let factor = ($splat)(*left[i].add(at));
                            for c in 0..C {
                                sums[i][c] = ($multiplied)(factor, columns[c], sums[i][c]);
                            }
                        }
                        at += panel.left_step;
                        right = right.wrapping_add(panel.right_step);
                    }
                    for i in 0..M {
                        let out = *panel.out.get_unchecked(first + i);
                        for c in 0..C {
                            let to = out.add(c * $lanes);
                            let sum = match panel.adds {
                                true => $add(sums[i][c], $load(to.cast())),
                                false => sums[i][c],
                            };
                            $store(to.cast(), sum);
                        }
                    }
                }
            }
        }
    };
}

products!(
    narrow,
    "avx2,fma",
    6,
    8,
    f32,
    f32,
    __m256,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    |x| _mm256_set1_ps(x),
    |a, b, sum| _mm256_fmadd_ps(a, b, sum),
    _mm256_add_ps,
    [1, 2, 3, 4, 5]
);
products!(
    wide,
    "avx512f",
    12,
    16,
    f32,
    f32,
    __m512,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    |x| _mm512_set1_ps(x),
    |a, b, sum| _mm512_fmadd_ps(a, b, sum),
    _mm512_add_ps,
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
);
products!(
    narrow_pairs,
    "avx2",
    6,
    8,
    Pair,
    i32,
    __m256i,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    |x: Pair| _mm256_set1_epi32(bytemuck::cast(x)),
    |a, b, sum| _mm256_add_epi32(sum, _mm256_madd_epi16(a, b)),
    _mm256_add_epi32,
    [1, 2, 3, 4, 5]
);
products!(
    wide_pairs,
    "avx512f,avx512bw",
    12,
    16,
    Pair,
    i32,
    __m512i,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    |x: Pair| _mm512_set1_epi32(bytemuck::cast(x)),
    |a, b, sum| _mm512_add_epi32(sum, _mm512_madd_epi16(a, b)),
    _mm512_add_epi32,
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
);
products!(
    narrow_whole,
    "avx2",
    6,
    8,
    i32,
    i32,
    __m256i,
    _mm256_setzero_si256,
    _mm256_loadu_si256,
    _mm256_storeu_si256,
    |x| _mm256_set1_epi32(x),
    |a, b, sum| _mm256_add_epi32(sum, _mm256_mullo_epi32(a, b)),
    _mm256_add_epi32,
    [1, 2, 3, 4, 5]
);
products!(
    wide_whole,
    "avx512f",
    12,
    16,
    i32,
    i32,
    __m512i,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    |x| _mm512_set1_epi32(x),
    |a, b, sum| _mm512_add_epi32(sum, _mm512_mullo_epi32(a, b)),
    _mm512_add_epi32,
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
);
products!(
    dot_pairs,
    "avx512f,avx512bw,avx512vnni",
    12,
    16,
    Pair,
    i32,
    __m512i,
    _mm512_setzero_si512,
    _mm512_loadu_si512,
    _mm512_storeu_si512,
    |x: Pair| _mm512_set1_epi32(bytemuck::cast(x)),
    |a, b, sum| _mm512_dpwssd_epi32(sum, a, b),
    _mm512_add_epi32,
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
);

/// Pairs, multiplied and added at once where the machine can; both give the same.
pub(super) mod any_pairs {
    use super::super::{Pair, Panel};

    /// # Safety
    /// As for `Factor::panel`, on a machine that has vectors of 64 bytes and their products of 16 bits.
    #[inline]
    pub(in super::super) unsafe fn panel(panel: &Panel<'_, Pair>) {
        // SAFETY: the caller's promises; the other instructions were looked for.
        unsafe {
            match is_x86_feature_detected!("avx512vnni") {
                true => super::dot_pairs::panel(panel),
                false => super::wide_pairs::panel(panel),
            }
        }
    }
}
