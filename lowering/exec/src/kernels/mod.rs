//! Kernels: the loops that move bytes (runs, matrices and streams) for each instruction set, and the micro-kernels of
//! products, convolutions and softmax.
//!
//! Every kernel that moves bytes takes pointers to its first source and target byte, and moves the same bytes for all
//! instruction sets. The caller guarantees that all places are inside of the buffers and that nothing else writes the
//! target meanwhile.
#![expect(unsafe_code, reason = "kernels address memory by strides")]

#[cfg(target_arch = "x86_64")]
mod avx2;
#[cfg(target_arch = "x86_64")]
mod avx512;
#[cfg(target_arch = "x86_64")]
mod blocks;
pub(crate) mod channels;
pub(crate) mod gates;
mod matrix;
mod portable;
pub(crate) mod product;
mod runs;
pub(crate) mod softmax;
mod steps;
mod streams;
mod taps;
#[cfg(target_arch = "x86_64")]
mod unroll;

use crate::cache::Level;
use crate::isa::Isa;
use matrix::MatrixPart;
use runs::RunsPart;
use std::ops::Range;
use streams::StreamsPart;

pub(crate) use matrix::{Matrix, Offsets};
pub(crate) use runs::Runs;
pub(crate) use steps::{Loop, Repeats};
pub(crate) use streams::{Direction, Streams};
pub(crate) use taps::Taps;

/// The instruction set and memory level that a kernel is run for.
#[derive(Clone, Copy, Debug)]
pub(crate) struct How {
    pub(crate) isa: Isa,
    /// The memory that the buffers fit in; beyond the caches, the target is written by non-temporal stores.
    pub(crate) level: Level,
}

/// Copies runs `range` at repeats `repeats`.
///
/// # Safety
/// These runs are inside of both buffers. Their places in the target are disjoint, do not overlap the source, and nothing
/// else reads or writes them.
pub(crate) unsafe fn runs(
    how: How,
    runs: &Runs,
    range: Range<usize>,
    repeats: Range<usize>,
    from: *const u8,
    to: *mut u8,
) {
    let part = RunsPart {
        runs,
        range,
        repeats,
        from,
        to,
    };
    // SAFETY: the caller's promises; the machine has the instructions, as `How` is made of an available `Isa`.
    unsafe {
        match how.isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 => avx512::runs(&part, how.level),
            #[cfg(target_arch = "x86_64")]
            Isa::Avx2 => avx2::runs(&part, how.level),
            _ => portable::runs(&part),
        }
    }
}

/// Transposes a part of a matrix.
///
/// # Safety
/// As for [`runs`], of the elements of these rows and columns.
pub(crate) unsafe fn matrix(
    how: How,
    matrix: &Matrix,
    rows: Range<usize>,
    cols: Range<usize>,
    from: *const u8,
    to: *mut u8,
) {
    let part = MatrixPart {
        matrix,
        rows,
        cols,
        from,
        to,
    };
    // SAFETY: as in `runs`.
    unsafe {
        match how.isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if avx512::matrix(&part, how.level == Level::Memory) => {}
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx2 if avx2::matrix(&part, how.level == Level::Memory) => {}
            _ => portable::matrix(&part),
        }
    }
}

/// Interleaves or deinterleaves elements `range` of some streams at repeats `repeats`.
///
/// # Safety
/// As for [`runs`].
pub(crate) unsafe fn streams(
    how: How,
    streams: &Streams,
    range: Range<usize>,
    repeats: Range<usize>,
    from: *const u8,
    to: *mut u8,
) {
    let part = StreamsPart {
        streams,
        range,
        repeats,
        from,
        to,
    };
    // SAFETY: as in `runs`.
    unsafe {
        match how.isa {
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 if avx512::streams(&part, how.level == Level::Memory) => {}
            #[cfg(target_arch = "x86_64")]
            Isa::Avx512 | Isa::Avx2 if avx2::streams(&part) => {}
            _ => portable::streams(&part),
        }
    }
}

/// Makes non-temporal stores visible to other threads, before these are told that the work is done.
pub(crate) fn fence(how: How) {
    #[cfg(target_arch = "x86_64")]
    if how.level == Level::Memory && how.isa != Isa::Portable {
        // SAFETY: every x86-64 machine has the instruction.
        unsafe { std::arch::x86_64::_mm_sfence() };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = how;
}

/// Writes `len` zeros at places `range` of `repeats`. It is never inlined, as the portable kernels.
///
/// # Safety
/// These bytes are inside of the target, and nothing else reads or writes them.
#[inline(never)]
pub(crate) unsafe fn zero(len: usize, repeats: Repeats, range: Range<usize>, to: *mut u8) {
    for (_, to) in repeats.places(range, to, to) {
        // SAFETY: the caller's promises; the pieces of a run may overlap.
        unsafe {
            match len {
                16..=64 => {
                    let parts = (0..len - 16).step_by(16).chain([len - 16]);
                    parts.for_each(|at| to.add(at).cast::<[u8; 16]>().write([0; 16]));
                }
                _ => to.write_bytes(0, len),
            }
        }
    }
}

/// Bytes of a cache line.
pub(crate) const CACHE_LINE: usize = 64;

/// Prefetches the cache lines of `count` elements from one on.
#[inline(always)]
pub(crate) fn prefetch_run<E>(list: &[E], from: usize, count: usize) {
    for at in (0..count).step_by(CACHE_LINE / size_of::<E>()) {
        prefetch(list, from + at);
    }
}

/// Prefetches the cache line of an element; the index may be out of bounds.
#[inline(always)]
pub(crate) fn prefetch<E>(list: &[E], at: usize) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch reads nothing and does not fault; every x86-64 machine has the instruction.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(list.as_ptr().wrapping_add(at).cast()) };
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    let _ = (list, at);
}

/// Runs a function whose loops, if it is inlined, are compiled for AVX2 and FMA, unless the instruction set is
/// portable. Results are
/// bitwise the same without them, as products and sums are fused only by `mul_add`.
#[inline(always)]
pub(crate) fn vectorized<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[target_feature(enable = "avx2,fma")]
        fn wide<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        if Isa::Avx2 <= Isa::current() {
            // SAFETY: the machine has these features.
            return unsafe { wide(work) };
        }
    }
    work()
}

/// As [`vectorized`] with vectors of 64 bytes, for long loops: short ones end before the first unrolled iteration.
#[inline(always)]
pub(crate) fn vectorized_wide<R>(work: impl FnOnce() -> R) -> R {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        #[target_feature(enable = "avx2,fma,avx512f,avx512bw,avx512dq,avx512vl")]
        fn wide<R>(work: impl FnOnce() -> R) -> R {
            work()
        }
        if Isa::current() == Isa::Avx512 {
            // SAFETY: the machine has these features.
            return unsafe { wide(work) };
        }
    }
    vectorized(work)
}
