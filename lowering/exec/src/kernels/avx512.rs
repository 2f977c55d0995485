//! Kernels of 64-byte vectors.

use super::matrix::MatrixPart;
use super::portable::{place, runs_of};
use super::runs::Runs;
use super::streams::{Direction, StreamsPart};
use super::unroll::each;
use std::arch::x86_64::*;
use std::ops::Range;

/// Bytes of a vector.
const V: usize = 64;

/// Runs from which on lines go past the cache, in bytes.
const STREAMED: usize = 256;

/// # Safety
/// As for `kernels::runs`, on a machine that has these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn runs(
    runs: &Runs,
    range: Range<usize>,
    from: *const u8,
    to: *mut u8,
    streaming: bool,
) {
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
            _ if streaming && STREAMED <= runs.len => {
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

/// Runs of `K` vectors and at most one more, which overlaps the one before it.
///
/// # Safety
/// As for [`runs`]; the length is in `K * V + 1 ..= (K + 1) * V`.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn vectors<const K: usize>(runs: &Runs, range: Range<usize>, from: *const u8, to: *mut u8) {
    let tail = runs.len - V;
    for i in range {
        // SAFETY: all vectors lie inside of the run.
        unsafe {
            let (from, to) = place(runs, i, from, to);
            let mut head = [_mm512_setzero_si512(); K];
            for (j, vector) in head.iter_mut().enumerate() {
                *vector = _mm512_loadu_si512(from.add(j * V).cast());
            }
            let last = _mm512_loadu_si512(from.add(tail).cast());
            for (j, vector) in head.into_iter().enumerate() {
                _mm512_storeu_si512(to.add(j * V).cast(), vector);
            }
            _mm512_storeu_si512(to.add(tail).cast(), last);
        }
    }
}

/// Copies a run past the cache.
///
/// # Safety
/// As for [`runs`]; the run has at least a vector.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn streamed(from: *const u8, to: *mut u8, len: usize) {
    // SAFETY: all vectors lie inside of the run.
    unsafe {
        let last = len - V;
        _mm512_storeu_si512(to.cast(), _mm512_loadu_si512(from.cast()));
        let mut at = V - to.addr() % V;
        while at <= last {
            _mm512_stream_si512(to.add(at).cast(), _mm512_loadu_si512(from.add(at).cast()));
            at += V;
        }
        _mm512_storeu_si512(
            to.add(last).cast(),
            _mm512_loadu_si512(from.add(last).cast()),
        );
    }
}

/// Whether it was done: the part must have a block of some form.
///
/// # Safety
/// As for `kernels::matrix`, on a machine that has these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
pub(super) unsafe fn matrix(part: &MatrixPart<'_>, streaming: bool) -> bool {
    // SAFETY: the caller's promises.
    unsafe {
        match part.matrix.unit {
            1 => matrix_of::<1, 16>(part, streaming),
            2 => matrix_of::<2, 8>(part, streaming),
            4 => matrix_of::<4, 4>(part, streaming),
            8 => matrix_of::<8, 2>(part, streaming),
            _ => matrix_of::<16, 1>(part, streaming),
        }
    }
}

/// # Safety
/// As for [`matrix`], with elements of `E` bytes, `N` of which are 16 bytes.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn matrix_of<const E: usize, const N: usize>(
    part: &MatrixPart<'_>,
    streaming: bool,
) -> bool {
    let (rows, cols) = (part.rows.len() * E, part.cols.len() * E);
    // SAFETY: the part has a block of the rows and columns that each form moves.
    unsafe {
        if 64 <= rows && 16 <= cols {
            blocks::<E, N, 4>(part, streaming);
        } else if 32 <= rows && 32 <= cols {
            blocks::<E, N, 2>(part, false);
        } else if 16 <= rows && 64 <= cols {
            blocks::<E, N, 1>(part, false);
        } else {
            return false;
        }
    }
    true
}

/// Moves blocks of `R * N` rows and `4 / R * N` columns, the last ones overlapping those before them.
///
/// # Safety
/// As for [`matrix_of`]; the part has at least one block.
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn blocks<const E: usize, const N: usize, const R: usize>(
    part: &MatrixPart<'_>,
    streaming: bool,
) {
    let (n_rows, n_cols) = (R * N, 4 / R * N);
    let (rows, cols) = (&part.rows, &part.cols);
    let mut from = [part.from; 64];
    let mut row = rows.start;
    loop {
        for (i, from) in from.iter_mut().enumerate().take(n_rows) {
            // SAFETY: the row is one of the part.
            *from = unsafe { part.from.offset(part.matrix.rows.at(row + i)) };
        }
        let mut col = cols.start;
        loop {
            let mut block = [_mm512_setzero_si512(); N];
            each!(N, |i| {
                // SAFETY: the block's columns are columns of the part, `col * E` bytes into its rows.
                block[i] = unsafe { load::<N, R>(&from, i, col * E) };
            });
            let block = transpose::<E, N>(block);
            each!(N, |i| {
                each!(4 / R, |place| {
                    let column = part.matrix.cols.at(col + place * N + i);
                    // SAFETY: the block's rows are rows of the part.
                    unsafe {
                        let to = part.to.offset(column).add(row * E);
                        store::<R>(to, block[i], place, streaming);
                    }
                });
            });
            if col + n_cols == cols.end {
                break;
            }
            col = (col + n_cols).min(cols.end - n_cols);
        }
        if row + n_rows == rows.end {
            break;
        }
        row = (row + n_rows).min(rows.end - n_rows);
    }
}

/// The vector of 16 bytes of four rows `N` apart, of two rows at two places, or of one row at four.
///
/// # Safety
/// These bytes are inside of the source.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn load<const N: usize, const R: usize>(
    from: &[*const u8; 64],
    i: usize,
    at: usize,
) -> __m512i {
    // SAFETY: the caller's promise.
    unsafe {
        if R == 1 {
            return _mm512_loadu_si512(from[i].add(at).cast());
        }
        let lane = |lane: usize| {
            let (row, place) = (lane % R, lane / R);
            _mm_loadu_si128(from[i + row * N].add(at + place * 16).cast())
        };
        let vector = _mm512_castsi128_si512(lane(0));
        let vector = _mm512_inserti32x4::<1>(vector, lane(1));
        let vector = _mm512_inserti32x4::<2>(vector, lane(2));
        _mm512_inserti32x4::<3>(vector, lane(3))
    }
}

/// Stores the `16 * R` bytes of a column that a vector has at one of its places.
///
/// # Safety
/// These bytes are inside of the target.
#[inline]
#[target_feature(enable = "avx512f,avx512bw,avx512vl")]
unsafe fn store<const R: usize>(to: *mut u8, vector: __m512i, place: usize, streaming: bool) {
    // SAFETY: the caller's promise; a vector that is streamed lies at a multiple of its size.
    unsafe {
        match (R, place) {
            (4, _) if streaming && to.addr().is_multiple_of(V) => {
                _mm512_stream_si512(to.cast(), vector);
            }
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

/// Transposes the `N` by `N` elements of `E` bytes in each 16 bytes of `N` vectors.
///
/// A stage takes the top bit of an element's vector to the bottom of its place and moves all bits between up by
/// one; after as many stages as `N` has bits, vector and place have changed roles.
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

/// Whether it was done: streams must have a vector.
///
/// # Safety
/// As for `kernels::streams`, on a machine that has these vectors.
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
pub(super) unsafe fn streams(part: &StreamsPart<'_>) -> bool {
    if part.range.len() * part.streams.unit < V {
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
#[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vbmi")]
unsafe fn streams_of<const K: usize>(part: &StreamsPart<'_>) {
    let unit = part.streams.unit;
    let (mut at, end) = (part.range.start * unit, part.range.end * unit);
    let picks = &part.streams.wide[..K * K];
    let offsets: &[isize; K] = part.streams.offsets[..]
        .try_into()
        .expect("there are K streams");
    loop {
        let mut read = [_mm512_setzero_si512(); K];
        for (k, vector) in read.iter_mut().enumerate() {
            // SAFETY: `at` leaves a vector of each stream before its end.
            *vector = unsafe {
                let from = match part.streams.direction {
                    Direction::Weave => part.from.offset(offsets[k]).add(at),
                    Direction::Part => part.from.add(at * K + k * V),
                };
                _mm512_loadu_si512(from.cast())
            };
        }
        for k in 0..K {
            let mut vector = _mm512_setzero_si512();
            for (i, &read) in read.iter().enumerate() {
                let pick = &picks[k * K + i];
                // SAFETY: the bytes of a pick are a vector.
                let bytes = unsafe { _mm512_loadu_si512(pick.bytes.as_ptr().cast()) };
                vector = _mm512_mask_permutexvar_epi8(vector, pick.mask, bytes, read);
            }
            // SAFETY: as for what is read.
            unsafe {
                let to = match part.streams.direction {
                    Direction::Weave => part.to.add(at * K + k * V),
                    Direction::Part => part.to.offset(offsets[k]).add(at),
                };
                _mm512_storeu_si512(to.cast(), vector);
            }
        }
        if at + V == end {
            break;
        }
        at = (at + V).min(end - V);
    }
}
