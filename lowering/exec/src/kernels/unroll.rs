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
