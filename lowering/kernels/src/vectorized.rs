//! Loops that the compiler vectorizes for the instruction set of the thread, and prefetches.
#![expect(
    unsafe_code,
    reason = "functions are compiled for instructions that the machine may lack"
)]

use crate::isa::Isa;

/// Bytes of a cache line.
pub const CACHE_LINE: usize = 64;

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

/// Runs a function whose loops, if it is inlined, are compiled for AVX2 and FMA, unless the instruction set is portable.
/// Results are bitwise the same without them, as products and sums are fused only by `mul_add`.
#[inline(always)]
pub fn vectorized<R>(work: impl FnOnce() -> R) -> R {
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
pub fn vectorized_wide<R>(work: impl FnOnce() -> R) -> R {
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
