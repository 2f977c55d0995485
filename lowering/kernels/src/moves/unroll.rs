//! Unrolled loops over the vectors of a block: the compiler keeps an array in registers only if all its indices are
//! constants.

/// Evaluates a body for each number below a constant that is at most 16.
macro_rules! each {
    ($n:expr, |$i:ident| $body:expr) => {
        each!(@ $n, $i, $body, 0 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15)
    };
    (@ $n:expr, $i:ident, $body:expr, $($k:literal)*) => {
        $(if $k < $n {
            let $i: usize = $k;
            $body;
        })*
    };
}

pub(super) use each;

/// The same number, opaque to the compiler, so that it adds steps one after another instead of keeping their sums in
/// registers, of which there are too few.
#[inline(always)]
pub(super) fn kept(number: isize) -> isize {
    let mut number = number;
    // SAFETY: there is no instruction.
    #[expect(
        unsafe_code,
        reason = "an empty instruction hides where a value is from"
    )]
    unsafe {
        std::arch::asm!("/* {0} */", inout(reg) number, options(nomem, nostack, preserves_flags));
    }
    number
}
