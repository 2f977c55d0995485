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
mod matrix;
mod portable;
mod runs;
mod steps;
mod streams;
#[cfg(target_arch = "x86_64")]
mod unroll;

use crate::cache::Level;
use crate::isa::Isa;
use matrix::MatrixPart;
use runs::RunsPart;
use std::ops::Range;
use streams::StreamsPart;

pub use matrix::{Matrix, Offsets};
pub use runs::Runs;
pub use steps::{Loop, Repeats};
pub use streams::{Direction, Streams};

/// The instruction set and memory level that a kernel is run for.
#[derive(Clone, Copy, Debug)]
pub struct How {
    /// The instruction set; the machine has it.
    pub isa: Isa,
    /// The memory that the buffers fit in; beyond the caches, the target is written by non-temporal stores.
    pub level: Level,
}

/// Copies runs `range` at repeats `repeats`.
///
/// # Safety
/// These runs are inside of both buffers. Their places in the target are disjoint, do not overlap the source, and nothing
/// else reads or writes them.
pub unsafe fn runs(
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
pub unsafe fn matrix(
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
pub unsafe fn streams(
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
pub fn fence(how: How) {
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
pub unsafe fn zero(len: usize, repeats: Repeats, range: Range<usize>, to: *mut u8) {
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
