//! Vector instructions under common names, for kernels that are compiled for AVX2 and for AVX-512.

/// 8 floats, with AVX2 and FMA.
pub(crate) mod f32x8 {
    pub(crate) use std::arch::x86_64::{
        __m256 as Vector, _mm256_add_ps as add, _mm256_fmadd_ps as fused, _mm256_loadu_ps as load,
        _mm256_set1_ps as splat, _mm256_setzero_ps as zero, _mm256_storeu_ps as store,
        _mm256_sub_ps as sub,
    };
    pub(crate) const LANES: usize = 8;
}

/// 16 floats, with AVX-512.
pub(crate) mod f32x16 {
    pub(crate) use std::arch::x86_64::{
        __m512 as Vector, _mm512_add_ps as add, _mm512_fmadd_ps as fused, _mm512_loadu_ps as load,
        _mm512_set1_ps as splat, _mm512_setzero_ps as zero, _mm512_storeu_ps as store,
        _mm512_sub_ps as sub,
    };
    pub(crate) const LANES: usize = 16;
}

/// 8 integers, with AVX2.
pub(crate) mod i32x8 {
    pub(crate) use std::arch::x86_64::{
        __m256i as Vector, _mm256_add_epi32 as add, _mm256_loadu_si256 as load,
        _mm256_set1_epi32 as splat, _mm256_setzero_si256 as zero, _mm256_storeu_si256 as store,
        _mm256_stream_si256 as stream, _mm256_sub_epi32 as sub,
    };
    pub(crate) const LANES: usize = 8;
}

/// 16 integers, with AVX-512.
pub(crate) mod i32x16 {
    pub(crate) use std::arch::x86_64::{
        __m512i as Vector, _mm512_add_epi32 as add, _mm512_loadu_si512 as load,
        _mm512_set1_epi32 as splat, _mm512_setzero_si512 as zero, _mm512_storeu_si512 as store,
        _mm512_stream_si512 as stream, _mm512_sub_epi32 as sub,
    };
    pub(crate) const LANES: usize = 16;
}
