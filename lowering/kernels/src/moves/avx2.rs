//! Kernels that move bytes in vectors of 32 bytes, and of 16 bytes for short runs.
//!
//! A run of 70 bytes is copied as vectors at 0 and 32 and a last one at 38, which overlaps the one before it.

use super::blocks::{Even, Places, STREAMED, blocks, kernels};
use super::matrix::{MatrixPart, Offsets};
use super::portable::{place, runs_of};
use super::runs::{Runs, RunsPart};
use super::streams::{Direction, StreamsPart};
use super::unroll::each;
use crate::cache::Level;
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes of a vector.
const V: usize = 32;

/// # Safety
/// As for [`runs`].
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn runs_at(runs: &Runs, range: Range<usize>, from: *const u8, to: *mut u8, level: Level) {
    // SAFETY: the caller's promises; each arm copies runs of the length that it is for.
    unsafe {
        match runs.len {
            1 => runs_of::<1>(runs, range, from, to),
            2 => runs_of::<2>(runs, range, from, to),
            4 => runs_of::<4>(runs, range, from, to),
            8 => runs_of::<8>(runs, range, from, to),
            16 => runs_of::<16>(runs, range, from, to),
            len @ 1..16 => short(runs, len, range, from, to),
            17..=32 => {
                let tail = runs.len - 16;
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    let head = _mm_loadu_si128(from.cast());
                    let last = _mm_loadu_si128(from.add(tail).cast());
                    _mm_storeu_si128(to.cast(), head);
                    _mm_storeu_si128(to.add(tail).cast(), last);
                }
            }
            33..=64 => vectors::<1>(runs, range, from, to),
            65..=96 => vectors::<2>(runs, range, from, to),
            97..=128 => vectors::<3>(runs, range, from, to),
            129..=160 => vectors::<4>(runs, range, from, to),
            161..=192 => vectors::<5>(runs, range, from, to),
            193..=224 if level != Level::Memory => vectors::<6>(runs, range, from, to),
            225..=256 if level != Level::Memory => vectors::<7>(runs, range, from, to),
            _ if level == Level::Memory && STREAMED <= runs.len => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    streamed(from, to, runs.len);
                }
            }
            len => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    from.copy_to_nonoverlapping(to, len);
                }
            }
        }
    }
}

/// Copies runs of less than 16 bytes, each as two numbers that overlap.
///
/// # Safety
/// As for `kernels::runs`, with runs of `len` bytes.
#[inline]
pub(super) unsafe fn short(
    runs: &Runs,
    len: usize,
    range: Range<usize>,
    from: *const u8,
    to: *mut u8,
) {
    // SAFETY: both numbers are inside of the run.
    unsafe {
        match len {
            3 => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    let (head, last) = (from.cast::<u16>().read_unaligned(), from.add(2).read());
                    to.cast::<u16>().write_unaligned(head);
                    to.add(2).write(last);
                }
            }
            5..8 => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    let head = from.cast::<u32>().read_unaligned();
                    let last = from.add(len - 4).cast::<u32>().read_unaligned();
                    to.cast::<u32>().write_unaligned(head);
                    to.add(len - 4).cast::<u32>().write_unaligned(last);
                }
            }
            _ => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    let head = from.cast::<u64>().read_unaligned();
                    let last = from.add(len - 8).cast::<u64>().read_unaligned();
                    to.cast::<u64>().write_unaligned(head);
                    to.add(len - 8).cast::<u64>().write_unaligned(last);
                }
            }
        }
    }
}

kernels!("avx2", i32x8);
blocks!("avx2", 2, _mm256_setzero_si256);

/// # Safety
/// As for [`matrix_of`]; `at_row` and `at_col` are the offsets of the part.
#[target_feature(enable = "avx2")]
unsafe fn placed<const E: usize, const N: usize, A: Places, B: Places>(
    part: &MatrixPart<'_>,
    at_row: A,
    at_col: B,
    streaming: bool,
) -> bool {
    let (rows, cols) = (part.rows.len() * E, part.cols.len() * E);
    let whole = |place: usize| part.to.wrapping_add(place * E).addr().is_multiple_of(V);
    let streaming = streaming && whole(part.rows.start) && part.matrix.cols.all(|to| to % 32 == 0);
    // SAFETY: the part has at least as many rows and columns as the chosen block. With streaming, each row of blocks but
    // the last one begins at a multiple of a vector in each column.
    unsafe {
        if 32 <= rows && 16 <= cols {
            if streaming {
                blocks::<E, N, 2, true, A, B>(part, at_row, at_col);
            } else {
                blocks::<E, N, 2, false, A, B>(part, at_row, at_col);
            }
        } else if 16 <= rows && 32 <= cols {
            blocks::<E, N, 1, false, A, B>(part, at_row, at_col);
        } else if 16 <= rows && 16 <= cols {
            small_blocks::<E, N>(part);
        } else {
            return false;
        }
    }
    true
}

/// Loads 16 bytes of a row of each of two groups, or 32 bytes of one.
///
/// # Safety
/// These bytes are inside of the source.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn load<const R: usize>(row: impl Fn(usize) -> *const u8) -> __m256i {
    // SAFETY: the caller's promise.
    unsafe {
        if R == 1 {
            return _mm256_loadu_si256(row(0).cast());
        }
        let low = _mm_loadu_si128(row(0).cast());
        let high = _mm_loadu_si128(row(1).cast());
        _mm256_inserti128_si256::<1>(_mm256_castsi128_si256(low), high)
    }
}

/// Stores the `16 * R` bytes of a column that are at index `place` of a vector.
///
/// # Safety
/// These bytes are inside of the target; a streamed vector is aligned.
#[inline]
#[target_feature(enable = "avx2")]
unsafe fn store<const R: usize, const S: bool>(to: *mut u8, vector: __m256i, place: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (R, place) {
            (2, _) if S => _mm256_stream_si256(to.cast(), vector),
            (2, _) => _mm256_storeu_si256(to.cast(), vector),
            (_, 0) => _mm_storeu_si128(to.cast(), _mm256_castsi256_si128(vector)),
            _ => _mm_storeu_si128(to.cast(), _mm256_extracti128_si256::<1>(vector)),
        }
    }
}

/// Regroups two vectors: the first 16 bytes of both, and the second 16 bytes of both.
#[inline]
#[target_feature(enable = "avx2")]
fn exchange([a, b]: [__m256i; 2]) -> [__m256i; 2] {
    [
        _mm256_permute2x128_si256::<0x20>(a, b),
        _mm256_permute2x128_si256::<0x31>(a, b),
    ]
}

/// Transposes the `N` by `N` elements of `E` bytes in each 16 bytes of `N` vectors, in the stages of the AVX-512 kernel.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose<const E: usize, const N: usize>(mut block: [__m256i; N]) -> [__m256i; N] {
    each!(N.ilog2(), |_stage| {
        let before = block;
        each!(N / 2, |i| {
            let (a, b) = (before[i], before[i + N / 2]);
            (block[2 * i], block[2 * i + 1]) = match E {
                1 => (_mm256_unpacklo_epi8(a, b), _mm256_unpackhi_epi8(a, b)),
                2 => (_mm256_unpacklo_epi16(a, b), _mm256_unpackhi_epi16(a, b)),
                4 => (_mm256_unpacklo_epi32(a, b), _mm256_unpackhi_epi32(a, b)),
                _ => (_mm256_unpacklo_epi64(a, b), _mm256_unpackhi_epi64(a, b)),
            };
        });
    });
    block
}

/// Moves blocks of `N` rows and `N` columns; the last ones overlap those before them.
///
/// # Safety
/// As for [`matrix_of`]; the part has at least one block.
#[target_feature(enable = "avx2")]
unsafe fn small_blocks<const E: usize, const N: usize>(part: &MatrixPart<'_>) {
    let (rows, cols) = (&part.rows, &part.cols);
    let mut row = rows.start;
    loop {
        let mut col = cols.start;
        loop {
            let mut block = [_mm_setzero_si128(); N];
            each!(N, |i| {
                // SAFETY: the rows and columns of the block are in the part.
                block[i] = unsafe {
                    let from = part.from.offset(part.matrix.rows.at(row + i));
                    _mm_loadu_si128(from.add(col * E).cast())
                };
            });
            let block = transpose_small::<E, N>(block);
            each!(N, |i| {
                // SAFETY: as for the loads.
                unsafe {
                    let to = part.to.offset(part.matrix.cols.at(col + i));
                    _mm_storeu_si128(to.add(row * E).cast(), block[i]);
                }
            });
            if col + N == cols.end {
                break;
            }
            col = (col + N).min(cols.end - N);
        }
        if row + N == rows.end {
            break;
        }
        row = (row + N).min(rows.end - N);
    }
}

/// Transposes as [`transpose`], in vectors of 16 bytes.
#[inline]
#[target_feature(enable = "avx2")]
fn transpose_small<const E: usize, const N: usize>(mut block: [__m128i; N]) -> [__m128i; N] {
    each!(N.ilog2(), |_stage| {
        let before = block;
        each!(N / 2, |i| {
            let (a, b) = (before[i], before[i + N / 2]);
            (block[2 * i], block[2 * i + 1]) = match E {
                1 => (_mm_unpacklo_epi8(a, b), _mm_unpackhi_epi8(a, b)),
                2 => (_mm_unpacklo_epi16(a, b), _mm_unpackhi_epi16(a, b)),
                4 => (_mm_unpacklo_epi32(a, b), _mm_unpackhi_epi32(a, b)),
                _ => (_mm_unpacklo_epi64(a, b), _mm_unpackhi_epi64(a, b)),
            };
        });
    });
    block
}

/// Moves a part of some streams. Returns false if a stream has less than 16 bytes there, or there is no kernel for the
/// number of streams.
///
/// # Safety
/// As for `kernels::streams`, on a machine that has AVX2.
#[target_feature(enable = "avx2")]
pub(super) unsafe fn streams(part: &StreamsPart<'_>) -> bool {
    if part.range.len() * part.streams.unit < 16 {
        return false;
    }
    // SAFETY: the caller's promises; each arm is for its number of streams.
    unsafe {
        match part.streams.offsets.len() {
            2 => streams_of::<2>(part),
            3 => streams_of::<3>(part),
            4 => streams_of::<4>(part),
            5 => streams_of::<5>(part),
            6 => streams_of::<6>(part),
            7 => streams_of::<7>(part),
            8 => streams_of::<8>(part),
            _ => return false,
        }
    }
    true
}

/// # Safety
/// As for [`streams`]; there are `K` streams.
#[target_feature(enable = "avx2")]
unsafe fn streams_of<const K: usize>(part: &StreamsPart<'_>) {
    let unit = part.streams.unit;
    let (start, end) = (part.range.start * unit, part.range.end * unit);
    let picks = &part.streams.narrow[..K * K];
    let offsets: &[isize; K] = part.streams.offsets[..]
        .try_into()
        .expect("there are K streams");
    for (from, to) in part.places() {
        let mut at = start;
        loop {
            let mut read = [_mm_setzero_si128(); K];
            for (k, vector) in read.iter_mut().enumerate() {
                // SAFETY: `at` leaves 16 bytes of each stream before its end.
                *vector = unsafe {
                    let from = match part.streams.direction {
                        Direction::Interleave => from.offset(offsets[k]).add(at),
                        Direction::Deinterleave => from.add(at * K + k * 16),
                    };
                    _mm_loadu_si128(from.cast())
                };
            }
            for k in 0..K {
                let mut vector = _mm_setzero_si128();
                for (i, &read) in read.iter().enumerate() {
                    // SAFETY: the table of a pick has 16 bytes.
                    let bytes = unsafe { _mm_loadu_si128(picks[k * K + i].bytes.as_ptr().cast()) };
                    vector = _mm_or_si128(vector, _mm_shuffle_epi8(read, bytes));
                }
                // SAFETY: as for the loads.
                unsafe {
                    let to = match part.streams.direction {
                        Direction::Interleave => to.add(at * K + k * 16),
                        Direction::Deinterleave => to.offset(offsets[k]).add(at),
                    };
                    _mm_storeu_si128(to.cast(), vector);
                }
            }
            if at + 16 == end {
                break;
            }
            at = (at + 16).min(end - 16);
        }
    }
}
