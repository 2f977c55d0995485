//! Kernels that move bytes in vectors of 64 bytes.
//!
//! A matrix is transposed in blocks: vectors of several rows are loaded, transposed in registers by stages of `unpack`, and
//! stored to several columns.

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
const V: usize = 64;

/// # Safety
/// As for [`runs`].
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn runs_at(runs: &Runs, range: Range<usize>, from: *const u8, to: *mut u8, level: Level) {
    // SAFETY: the caller's promises; each arm copies runs of the length that it is for.
    unsafe {
        match runs.len {
            1 => runs_of::<1>(runs, range, from, to),
            2 => runs_of::<2>(runs, range, from, to),
            4 => runs_of::<4>(runs, range, from, to),
            8 => runs_of::<8>(runs, range, from, to),
            16 => runs_of::<16>(runs, range, from, to),
            len @ 1..16 => super::avx2::short(runs, len, range, from, to),
            17..=32 => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    let tail = runs.len - 16;
                    let head = _mm_loadu_si128(from.cast());
                    let last = _mm_loadu_si128(from.add(tail).cast());
                    _mm_storeu_si128(to.cast(), head);
                    _mm_storeu_si128(to.add(tail).cast(), last);
                }
            }
            33..=64 => {
                let tail = runs.len - 32;
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    let head = _mm256_loadu_si256(from.cast());
                    let last = _mm256_loadu_si256(from.add(tail).cast());
                    _mm256_storeu_si256(to.cast(), head);
                    _mm256_storeu_si256(to.add(tail).cast(), last);
                }
            }
            65..=128 => vectors::<1>(runs, range, from, to),
            129..=192 => vectors::<2>(runs, range, from, to),
            193..=256 if level != Level::Memory => vectors::<3>(runs, range, from, to),
            _ if level == Level::Memory && STREAMED <= runs.len => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    streamed(from, to, runs.len);
                }
            }
            len => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    long(from, to, len);
                }
            }
        }
    }
}

/// Copies a run; the last vector overlaps the one before it.
///
/// # Safety
/// As for [`runs`]; the run has at least a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn long(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: all vectors are inside of the run.
    unsafe {
        let last = len - V;
        let tail = _mm512_loadu_si512(from.add(last).cast());
        let mut at = 0;
        while at + 4 * V <= len {
            let mut four = [_mm512_setzero_si512(); 4];
            each!(4, |i| four[i] =
                _mm512_loadu_si512(from.add(at + i * V).cast()));
            each!(4, |i| _mm512_storeu_si512(
                to.add(at + i * V).cast(),
                four[i]
            ));
            at += 4 * V;
        }
        while at < last {
            _mm512_storeu_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
            at += V;
        }
        if at < len {
            _mm512_storeu_si512(to.add(last).cast(), tail);
        }
    }
}

kernels!("avx512f,avx512bw,avx512vl", i32x16);
blocks!("avx512f,avx512bw,avx512vl", 4, _mm512_setzero_si512);

/// # Safety
/// As for [`matrix_of`]; `at_row` and `at_col` are the offsets of the part.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn placed<const E: usize, const N: usize, A: Places, B: Places>(
    part: &MatrixPart<'_>,
    at_row: A,
    at_col: B,
    streaming: bool,
) -> bool {
    let (rows, cols) = (part.rows.len() * E, part.cols.len() * E);
    let whole = |place: usize| part.to.wrapping_add(place * E).addr().is_multiple_of(V);
    let streaming = streaming && whole(part.rows.start) && part.matrix.cols.all(|to| to % 64 == 0);
    // SAFETY: the part has at least as many rows and columns as the chosen block. With streaming, each row of blocks but
    // the last one begins at a multiple of a vector in each column.
    unsafe {
        if 64 <= rows && 16 <= cols {
            if streaming {
                blocks::<E, N, 4, true, A, B>(part, at_row, at_col);
            } else {
                blocks::<E, N, 4, false, A, B>(part, at_row, at_col);
            }
        } else if 32 <= rows && 32 <= cols {
            blocks::<E, N, 2, false, A, B>(part, at_row, at_col);
        } else if 16 <= rows && 64 <= cols {
            blocks::<E, N, 1, false, A, B>(part, at_row, at_col);
        } else {
            return false;
        }
    }
    true
}

/// Loads 16 bytes of a row of each of four groups, 32 bytes of each of two, or 64 bytes of one.
///
/// # Safety
/// These bytes are inside of the source.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn load<const R: usize>(row: impl Fn(usize) -> *const u8) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        if R == 1 {
            return _mm512_loadu_si512(row(0).cast());
        }
        let lane = |lane: usize| _mm_loadu_si128(row(lane % R).add(lane / R * 16).cast());
        let vector = _mm512_castsi128_si512(lane(0));
        let vector = _mm512_inserti32x4::<1>(vector, lane(1));
        let vector = _mm512_inserti32x4::<2>(vector, lane(2));
        _mm512_inserti32x4::<3>(vector, lane(3))
    }
}

/// Stores the `16 * R` bytes of a column that are at index `place` of a vector.
///
/// # Safety
/// These bytes are inside of the target; a streamed vector is aligned.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn store<const R: usize, const S: bool>(to: *mut u8, vector: __m512i, place: usize) {
    // SAFETY: the caller's promise.
    unsafe {
        match (R, place) {
            (4, _) if S => _mm512_stream_si512(to.cast(), vector),
            (4, _) => _mm512_storeu_si512(to.cast(), vector),
            (2, 0) => _mm256_storeu_si256(to.cast(), _mm512_castsi512_si256(vector)),
            (2, _) => _mm256_storeu_si256(to.cast(), _mm512_extracti64x4_epi64::<1>(vector)),
            (_, 0) => _mm_storeu_si128(to.cast(), _mm512_castsi512_si128(vector)),
            (_, 1) => _mm_storeu_si128(to.cast(), _mm512_extracti32x4_epi32::<1>(vector)),
            (_, 2) => _mm_storeu_si128(to.cast(), _mm512_extracti32x4_epi32::<2>(vector)),
            _ => _mm_storeu_si128(to.cast(), _mm512_extracti32x4_epi32::<3>(vector)),
        }
    }
}

/// Regroups four vectors: all first, all second, all third and all fourth 16 bytes.
///
/// It picks even and odd pieces twice rather than halves: halves of vectors that come from memory would be loaded one by
/// one and inserted, which is slower than any shuffle.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn exchange([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
    const EVEN: i32 = 0b10_00_10_00;
    const ODD: i32 = 0b11_01_11_01;
    let even_ab = _mm512_shuffle_i32x4::<EVEN>(a, b);
    let even_cd = _mm512_shuffle_i32x4::<EVEN>(c, d);
    let odd_ab = _mm512_shuffle_i32x4::<ODD>(a, b);
    let odd_cd = _mm512_shuffle_i32x4::<ODD>(c, d);
    [
        _mm512_shuffle_i32x4::<EVEN>(even_ab, even_cd),
        _mm512_shuffle_i32x4::<EVEN>(odd_ab, odd_cd),
        _mm512_shuffle_i32x4::<ODD>(even_ab, even_cd),
        _mm512_shuffle_i32x4::<ODD>(odd_ab, odd_cd),
    ]
}

/// Transposes the `N` by `N` elements of `E` bytes in each 16 bytes of `N` vectors.
///
/// Number an element by the bits of its vector, then of its position. Each stage rotates these bits: the top bit of the
/// vector number becomes the lowest bit of the position, and all bits in between move up by one. After as many stages as
/// `N` has bits, vector and position are exchanged.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn transpose<const E: usize, const N: usize>(mut block: [__m512i; N]) -> [__m512i; N] {
    each!(N.ilog2(), |_stage| {
        let before = block;
        each!(N / 2, |i| {
            (block[2 * i], block[2 * i + 1]) = unpack::<E>(before[i], before[i + N / 2]);
        });
    });
    block
}

#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
fn unpack<const E: usize>(a: __m512i, b: __m512i) -> (__m512i, __m512i) {
    match E {
        1 => (_mm512_unpacklo_epi8(a, b), _mm512_unpackhi_epi8(a, b)),
        2 => (_mm512_unpacklo_epi16(a, b), _mm512_unpackhi_epi16(a, b)),
        4 => (_mm512_unpacklo_epi32(a, b), _mm512_unpackhi_epi32(a, b)),
        _ => (_mm512_unpacklo_epi64(a, b), _mm512_unpackhi_epi64(a, b)),
    }
}

/// Moves a part of some streams. Returns false if a stream has less than a vector there, or there is no kernel for the
/// number of streams.
///
/// # Safety
/// As for `kernels::streams`, on a machine that has these instructions.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) unsafe fn streams(part: &StreamsPart<'_>, streaming: bool) -> bool {
    if part.range.len() * part.streams.unit < V {
        return false;
    }
    // SAFETY: the caller's promises; each arm is for its number of streams.
    unsafe {
        match part.streams.offsets.len() {
            2 => of_power::<2>(part, streaming),
            3 => of_any::<3>(part),
            4 => of_power::<4>(part, streaming),
            5 => of_any::<5>(part),
            6 => of_any::<6>(part),
            7 => of_any::<7>(part),
            8 => of_power::<8>(part, streaming),
            _ => return false,
        }
    }
    true
}

/// # Safety
/// As for [`streams`]; there are `K` streams, a power of two.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn of_power<const K: usize>(part: &StreamsPart<'_>, streaming: bool) {
    // SAFETY: the caller's promises; each arm is for its size of elements.
    unsafe {
        match part.streams.unit {
            1 => of_elements::<K, 1>(part, streaming),
            2 => of_elements::<K, 2>(part, streaming),
            4 => of_elements::<K, 4>(part, streaming),
            8 => of_elements::<K, 8>(part, streaming),
            _ => of_elements::<K, 16>(part, streaming),
        }
    }
}

/// # Safety
/// As for [`of_power`], with elements of `E` bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn of_elements<const K: usize, const E: usize>(part: &StreamsPart<'_>, streaming: bool) {
    let start = part.range.start * E * K;
    let whole = |to: *mut u8| to.wrapping_add(start).addr().is_multiple_of(V);
    // SAFETY: the caller's promises; stores are non-temporal only if all places are aligned.
    unsafe {
        match part.streams.direction {
            Direction::Interleave if streaming && part.places().all(|(_, to)| whole(to)) => {
                streams_of::<K, E, true, true>(part);
            }
            Direction::Interleave => streams_of::<K, E, true, false>(part),
            Direction::Deinterleave => streams_of::<K, E, false, false>(part),
        }
    }
}

/// # Safety
/// As for [`streams`]; there are `K` streams.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn of_any<const K: usize>(part: &StreamsPart<'_>) {
    // SAFETY: the caller's promises.
    unsafe {
        match part.streams.direction {
            Direction::Interleave => streams_of::<K, 0, true, false>(part),
            Direction::Deinterleave => streams_of::<K, 0, false, false>(part),
        }
    }
}

/// Loads `K` vectors, interleaves (`W`) or deinterleaves them, and stores them, with `S` by non-temporal stores. Elements
/// of `E` bytes are permuted in stages of pairs of vectors, which needs a power of two of streams. If `E` is 0, each stored
/// vector is picked from all loaded ones.
///
/// # Safety
/// As for [`streams`]; with `S`, all starts in the target are multiples of a vector.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn streams_of<const K: usize, const E: usize, const W: bool, const S: bool>(
    part: &StreamsPart<'_>,
) {
    let unit = part.streams.unit;
    let (start, end) = (part.range.start * unit, part.range.end * unit);
    let offsets: &[isize; K] = part.streams.offsets[..]
        .try_into()
        .expect("there are K streams");
    // SAFETY: the tables have the size of a vector.
    let pair = unsafe {
        let vector = |table: &[u8; V]| _mm512_loadu_si512(table.as_ptr().cast());
        let tables = const { [of_pair::<E>(W, 0), of_pair::<E>(W, 1)] };
        [vector(&tables[0]), vector(&tables[1])]
    };
    let mut picks = [[(0, _mm512_setzero_si512()); K]; K];
    if E == 0 {
        for (written, list) in picks.iter_mut().zip(part.streams.wide.chunks_exact(K)) {
            for (place, pick) in written.iter_mut().zip(list) {
                // SAFETY: the table of a pick has the size of a vector.
                let bytes = unsafe { _mm512_loadu_si512(pick.bytes.as_ptr().cast()) };
                *place = (pick.mask, bytes);
            }
        }
    }
    for (from, to) in part.places() {
        let mut at = start;
        loop {
            let mut block = [_mm512_setzero_si512(); K];
            each!(K, |k| {
                let from = match W {
                    true => from.wrapping_offset(offsets[k]).wrapping_add(at),
                    false => from.wrapping_add(at * K + k * V),
                };
                // SAFETY: `at` leaves a vector of each stream before its end.
                block[k] = unsafe { _mm512_loadu_si512(from.cast()) };
            });
            let block = match E {
                0 => picked::<K>(block, &picks),
                _ => in_pairs::<K, E, W>(block, pair),
            };
            each!(K, |k| {
                let to = match W {
                    true => to.wrapping_add(at * K + k * V),
                    false => to.wrapping_offset(offsets[k]).wrapping_add(at),
                };
                // SAFETY: as for the loads; the last vectors may overlap others and be unaligned.
                unsafe {
                    if S && (at - start).is_multiple_of(V) {
                        _mm512_stream_si512(to.cast(), block[k]);
                    } else {
                        _mm512_storeu_si512(to.cast(), block[k]);
                    }
                }
            });
            if at + V == end {
                break;
            }
            at = (at + V).min(end - V);
        }
    }
}

/// Picks the bytes of each vector from all loaded vectors, one after another.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn picked<const K: usize>(read: [__m512i; K], picks: &[[(u64, __m512i); K]; K]) -> [__m512i; K] {
    let mut block = [_mm512_setzero_si512(); K];
    each!(K, |k| {
        each!(K, |i| {
            let (mask, bytes) = picks[k][i];
            block[k] = match i {
                0 => _mm512_permutexvar_epi8(bytes, read[0]),
                _ => _mm512_mask_permutexvar_epi8(block[k], mask, bytes, read[i]),
            };
        });
    });
    block
}

/// Permutes pairs of vectors in stages: each pair becomes two vectors that alternate the elements of both (`W`), or that
/// have the even and the odd elements of both.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn in_pairs<const K: usize, const E: usize, const W: bool>(
    mut block: [__m512i; K],
    [first, second]: [__m512i; 2],
) -> [__m512i; K] {
    each!(K.ilog2(), |_stage| {
        let before = block;
        each!(K / 2, |i| {
            let (near, far) = ([2 * i, 2 * i + 1], [i, i + K / 2]);
            let (from, to) = if W { (far, near) } else { (near, far) };
            let (a, b) = (before[from[0]], before[from[1]]);
            block[to[0]] = of_two::<E>(a, first, b);
            block[to[1]] = of_two::<E>(a, second, b);
        });
    });
    block
}

/// A permutation of the parts of two vectors; a part is an element, at most 4 bytes.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
fn of_two<const E: usize>(a: __m512i, parts: __m512i, b: __m512i) -> __m512i {
    match E {
        1 => _mm512_permutex2var_epi8(a, parts, b),
        2 => _mm512_permutex2var_epi16(a, parts, b),
        _ => _mm512_permutex2var_epi32(a, parts, b),
    }
}

/// The parts that [`of_two`] takes for the first or the second result: with `interleave` alternating elements of both
/// vectors, otherwise the even or the odd elements of both.
const fn of_pair<const E: usize>(interleave: bool, vector: usize) -> [u8; V] {
    let part = if E == 0 || 4 < E { 4 } else { E };
    let unit = if E == 0 { 4 } else { E };
    let (elements, each) = (V / unit, unit / part);
    let mut table = [0; V];
    let mut i = 0;
    while i < V / part {
        let element = i / each;
        let taken = if interleave {
            let turn = vector * elements + element;
            turn % 2 * elements + turn / 2
        } else {
            2 * element + vector
        };
        // Part numbers are less than 256, so that the first byte of each part holds them.
        table[i * part] = (taken * each + i % each) as u8;
        i += 1;
    }
    table
}
