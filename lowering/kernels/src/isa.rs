//! The vector instruction sets that kernels use, and the choice between them.
//!
//! A machine with AVX2 runs `Isa::Portable` and `Isa::Avx2`. The executor uses the greatest set of the machine, unless its
//! options or the environment variable `OPTC_ISA` name another one. This file alone asks the machine for its instructions.

use std::cell::Cell;
use std::fmt;
use std::str::FromStr;
use thiserror::Error;

/// The environment variable that names the instruction set where no option does.
pub const VARIABLE: &str = "OPTC_ISA";

/// Instruction sets, each of which includes those before it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Isa {
    /// No vector instructions: runs on every machine.
    Portable,
    /// 32-byte vectors of x86-64 (AVX2 and FMA).
    Avx2,
    /// 64-byte vectors of x86-64 (AVX-512 F, BW, DQ, VL, VBMI and VNNI).
    Avx512,
}

/// A refused choice of an instruction set.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum IsaError {
    /// No instruction set has this name.
    #[error("found the instruction set `{found}`, wanted {}", listed(&Isa::ALL))]
    Unknown {
        /// The name.
        found: String,
    },
    /// The machine lacks the instruction set.
    #[error("found the instruction set {found}, wanted one that this machine has: {}", listed(&Isa::available()))]
    Unavailable {
        /// The set that was asked for.
        found: Isa,
    },
}

/// Names of instruction sets, as in "portable, avx2 or avx512".
fn listed(all: &[Isa]) -> String {
    let names: Vec<&str> = all.iter().map(|isa| isa.name()).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

thread_local! {
    /// The instruction set that kernels use on this thread; `None` outside of [`Isa::scope`].
    static CURRENT: Cell<Option<Isa>> = const { Cell::new(None) };
}

impl Isa {
    /// All instruction sets, least first.
    pub const ALL: [Isa; 3] = [Isa::Portable, Isa::Avx2, Isa::Avx512];

    /// The name in options and in the environment variable.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Isa::Portable => "portable",
            Isa::Avx2 => "avx2",
            Isa::Avx512 => "avx512",
        }
    }

    /// The greatest instruction set of this machine.
    #[must_use]
    pub fn detect() -> Isa {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            if !(is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")) {
                return Isa::Portable;
            }
            let wide = is_x86_feature_detected!("avx512f")
                && is_x86_feature_detected!("avx512bw")
                && is_x86_feature_detected!("avx512dq")
                && is_x86_feature_detected!("avx512vl")
                && is_x86_feature_detected!("avx512vbmi")
                && is_x86_feature_detected!("avx512vnni");
            if wide { Isa::Avx512 } else { Isa::Avx2 }
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        Isa::Portable
    }

    /// All instruction sets of this machine, least first.
    #[must_use]
    pub fn available() -> Vec<Isa> {
        let most = Isa::detect();
        Isa::ALL.into_iter().filter(|isa| *isa <= most).collect()
    }

    /// The instruction set `wanted`. Without one: that of the running executor, else the one that `OPTC_ISA` names, else the
    /// greatest of the machine. An empty variable counts as none.
    ///
    /// # Errors
    /// The variable has no name of an instruction set, or the machine lacks the set.
    pub fn choose(wanted: Option<Isa>) -> Result<Isa, IsaError> {
        let named = std::env::var_os(VARIABLE).unwrap_or_default();
        Isa::chosen(wanted.or_else(|| CURRENT.get()), &named.to_string_lossy())
    }

    fn chosen(wanted: Option<Isa>, named: &str) -> Result<Isa, IsaError> {
        let found = match wanted {
            Some(isa) => isa,
            None if named.is_empty() => Isa::detect(),
            None => named.parse()?,
        };
        match found <= Isa::detect() {
            true => Ok(found),
            false => Err(IsaError::Unavailable { found }),
        }
    }

    /// The instruction set of kernels on this thread: that of [`scope`](Isa::scope), else the greatest of the machine. The
    /// machine has it.
    #[inline]
    pub fn current() -> Isa {
        CURRENT.get().unwrap_or_else(Isa::detect)
    }

    /// Runs `work`, whose kernels on this thread use this set, or the greatest lesser one that the machine has.
    pub fn scope<R>(self, work: impl FnOnce() -> R) -> R {
        /// Restores the outer set when the scope ends, by a panic too.
        struct Outer(Option<Isa>);
        impl Drop for Outer {
            fn drop(&mut self) {
                CURRENT.set(self.0);
            }
        }
        let _outer = Outer(CURRENT.get());
        self.set();
        work()
    }

    /// Sets the instruction set of this thread, as [`scope`](Isa::scope) does.
    pub(crate) fn set(self) {
        CURRENT.set(Some(self.min(Isa::detect())));
    }
}

impl fmt::Display for Isa {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for Isa {
    type Err = IsaError;

    fn from_str(name: &str) -> Result<Isa, IsaError> {
        let found = Isa::ALL.into_iter().find(|isa| isa.name() == name);
        found.ok_or_else(|| IsaError::Unknown {
            found: name.to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_read_and_a_scope_ends() {
        for isa in Isa::ALL {
            assert_eq!(isa.name().parse(), Ok(isa));
        }
        let error = "sse".parse::<Isa>().expect_err("no such set").to_string();
        assert_eq!(
            error,
            "found the instruction set `sse`, wanted portable, avx2 or avx512"
        );
        assert_eq!(Isa::chosen(None, ""), Ok(Isa::detect()));
        assert_eq!(Isa::chosen(None, "portable"), Ok(Isa::Portable));
        assert_eq!(Isa::chosen(Some(Isa::Portable), "sse"), Ok(Isa::Portable));
        assert!(Isa::chosen(None, "sse").is_err());
        for isa in Isa::ALL {
            assert_eq!(Isa::chosen(None, isa.name()).is_ok(), isa <= Isa::detect());
        }
        let before = Isa::current();
        for isa in Isa::available() {
            isa.scope(|| {
                assert_eq!((Isa::current(), Isa::choose(None)), (isa, Ok(isa)));
                Isa::Portable.scope(|| assert_eq!(Isa::current(), Isa::Portable));
                assert_eq!(Isa::current(), isa);
            });
        }
        assert_eq!(Isa::current(), before);
        // A set that the machine lacks is never used.
        assert!(Isa::Avx512.scope(Isa::current) <= Isa::detect());
    }
}
