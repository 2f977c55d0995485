//! Products with vectors of 32 and 64 bytes.

use super::Panel;
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

/// Turns 8 rows of 8 elements, `step` apart: element `i` of row `j` goes to `places[i] + j`.
///
/// # Safety
/// All elements are there, and 8 from each place on, which nobody else has, on a machine that has these vectors.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn turn_out(from: *const f32, step: usize, places: [*mut f32; 8]) {
    // SAFETY: the caller's promises.
    unsafe {
        let row: [__m256; 8] = std::array::from_fn(|j| _mm256_loadu_ps(from.add(j * step)));
        for (line, place) in square(row).into_iter().zip(places) {
            _mm256_storeu_ps(place, line);
        }
    }
}

macro_rules! products {
    ($name:ident, $features:literal, $rows:literal, $lanes:literal, $vector:ident, $zero:ident, $load:ident, $store:ident, $splat:ident, $fma:ident, $add:ident, [$($rest:literal),*]) => {
        pub(super) mod $name {
            use super::Panel;
            use std::arch::x86_64::*;

            /// # Safety
            /// As for `product::panel`, on a machine that has these vectors.
            #[target_feature(enable = $features)]
            pub(in super::super) unsafe fn panel(panel: &Panel<'_>) {
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
            unsafe fn columns<const C: usize>(panel: &Panel<'_>) {
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
            unsafe fn tile<const M: usize, const C: usize>(panel: &Panel<'_>, first: usize) {
                // SAFETY: the caller has `M` rows from `first` on; the offsets are those that `product::panel` promises.
                unsafe {
                    let left: [*const f32; M] =
                        std::array::from_fn(|i| *panel.left.get_unchecked(first + i));
                    let mut sums = [[$zero(); C]; M];
                    let mut right = panel.right;
                    let mut at = 0;
                    for _ in 0..panel.terms {
                        let columns: [$vector; C] =
                            std::array::from_fn(|c| $load(right.add(c * $lanes)));
                        for i in 0..M {
                            let factor = $splat(*left[i].add(at));
                            for c in 0..C {
                                sums[i][c] = $fma(factor, columns[c], sums[i][c]);
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
                                true => $add(sums[i][c], $load(to)),
                                false => sums[i][c],
                            };
                            $store(to, sum);
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
    __m256,
    _mm256_setzero_ps,
    _mm256_loadu_ps,
    _mm256_storeu_ps,
    _mm256_set1_ps,
    _mm256_fmadd_ps,
    _mm256_add_ps,
    [1, 2, 3, 4, 5]
);
products!(
    wide,
    "avx512f",
    12,
    16,
    __m512,
    _mm512_setzero_ps,
    _mm512_loadu_ps,
    _mm512_storeu_ps,
    _mm512_set1_ps,
    _mm512_fmadd_ps,
    _mm512_add_ps,
    [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11]
);
