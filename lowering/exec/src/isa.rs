//! The vector instruction sets that kernels use.

/// Instruction sets, each of which includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// No vector instructions: runs on every machine.
    Portable,
    /// 32-byte vectors of x86-64 (AVX2).
    Avx2,
    /// 64-byte vectors of x86-64 (AVX-512 F, BW, VL and VBMI).
    Avx512,
}

impl Isa {
    /// The greatest instruction set of this machine.
    #[must_use]
    pub fn detect() -> Isa {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if !is_x86_feature_detected!("avx2") {
                return Isa::Portable;
            }
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi");
            if wide { Isa::Avx512 } else { Isa::Avx2 }
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        Isa::Portable
    }

    /// All instruction sets of this machine, least first.
    #[must_use]
    pub fn available() -> Vec<Isa> {
        let most = Isa::detect();
        let all = [Isa::Portable, Isa::Avx2, Isa::Avx512];
        all.into_iter().filter(|isa| *isa <= most).collect()
    }
}
