//! Loops over the vectors of a block, written out: an array is kept in registers only where all its places are constants.

/// Runs a body for each number below a constant that is at most 16.
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

/// The same number, of which the compiler knows nothing: steps are added one after another, and no sum of them is kept in a
/// register of its own, of which there are too few.
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
