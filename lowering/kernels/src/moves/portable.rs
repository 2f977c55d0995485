//! Kernels without vector instructions. They are never inlined: the caller would compute at each call what their loops
//! need.

use super::matrix::MatrixPart;
use super::runs::{Runs, RunsPart};
use super::streams::{Direction, StreamsPart};
use std::ops::Range;

/// Rows of a matrix that are moved together, so that a cache line of the target is written at once.
const ROWS: usize = 16;

/// # Safety
/// As for `kernels::runs`.
#[inline(never)]
pub(super) unsafe fn runs(part: &RunsPart<'_>) {
    for (from, to) in part.places() {
        // SAFETY: the caller's promises.
        unsafe { runs_at(part.runs, part.range.clone(), from, to) };
    }
}

/// # Safety
/// As for `kernels::runs`.
#[inline]
unsafe fn runs_at(runs: &Runs, range: Range<usize>, from: *const u8, to: *mut u8) {
    // SAFETY: the caller's promises, the same with a constant length.
    unsafe {
        match runs.len {
            1 => runs_of::<1>(runs, range, from, to),
            2 => runs_of::<2>(runs, range, from, to),
            4 => runs_of::<4>(runs, range, from, to),
            8 => runs_of::<8>(runs, range, from, to),
            16 => runs_of::<16>(runs, range, from, to),
            len => {
                for i in range {
                    let (from, to) = place(runs, i, from, to);
                    from.copy_to_nonoverlapping(to, len);
                }
            }
        }
    }
}

/// The start of run `i` in both buffers.
///
/// # Safety
/// It is inside of both buffers.
#[inline(always)]
pub(super) unsafe fn place(
    runs: &Runs,
    i: usize,
    from: *const u8,
    to: *mut u8,
) -> (*const u8, *mut u8) {
    // SAFETY: the caller's promise.
    unsafe {
        (
            from.offset(runs.from * i as isize),
            to.offset(runs.to * i as isize),
        )
    }
}

/// # Safety
/// As for `kernels::runs`, with runs of `N` bytes.
#[inline(always)]
pub(super) unsafe fn runs_of<const N: usize>(
    runs: &Runs,
    range: Range<usize>,
    from: *const u8,
    to: *mut u8,
) {
    for i in range {
        // SAFETY: run `i` has `N` bytes in both buffers.
        unsafe {
            let (from, to) = place(runs, i, from, to);
            to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read());
        }
    }
}

/// # Safety
/// As for `kernels::matrix`.
#[inline(never)]
pub(super) unsafe fn matrix(part: &MatrixPart<'_>) {
    // SAFETY: the caller's promises.
    unsafe {
        match part.matrix.unit {
            1 => matrix_of::<1>(part),
            2 => matrix_of::<2>(part),
            4 => matrix_of::<4>(part),
            8 => matrix_of::<8>(part),
            _ => matrix_of::<16>(part),
        }
    }
}

/// # Safety
/// As for `kernels::matrix`, with elements of `N` bytes.
unsafe fn matrix_of<const N: usize>(part: &MatrixPart<'_>) {
    let (rows, cols) = (&part.matrix.rows, &part.matrix.cols);
    for first in part.rows.clone().step_by(ROWS) {
        let last = part.rows.end.min(first + ROWS);
        for c in part.cols.clone() {
            for r in first..last {
                // SAFETY: rows and columns are in the part, whose elements are inside of the buffers.
                unsafe {
                    let from = part.from.offset(rows.at(r)).add(c * N);
                    let to = part.to.offset(cols.at(c)).add(r * N);
                    to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read());
                }
            }
        }
    }
}

/// # Safety
/// As for `kernels::streams`.
#[inline(never)]
pub(super) unsafe fn streams(part: &StreamsPart<'_>) {
    // SAFETY: the caller's promises.
    unsafe {
        match part.streams.unit {
            1 => streams_of::<1>(part),
            2 => streams_of::<2>(part),
            4 => streams_of::<4>(part),
            8 => streams_of::<8>(part),
            _ => streams_of::<16>(part),
        }
    }
}

/// # Safety
/// As for `kernels::streams`, with elements of `N` bytes.
unsafe fn streams_of<const N: usize>(part: &StreamsPart<'_>) {
    let offsets = &part.streams.offsets;
    let k = offsets.len();
    for (from, to) in part.places() {
        for i in part.range.clone() {
            for (stream, &offset) in offsets.iter().enumerate() {
                let interleaved = (i * k + stream) * N;
                // SAFETY: element `i` of every stream is inside of the buffers.
                unsafe {
                    let (from, to) = match part.streams.direction {
                        Direction::Interleave => {
                            (from.offset(offset).add(i * N), to.add(interleaved))
                        }
                        Direction::Deinterleave => {
                            (from.add(interleaved), to.offset(offset).add(i * N))
                        }
                    };
                    to.cast::<[u8; N]>().write(from.cast::<[u8; N]>().read());
                }
            }
        }
    }
}
