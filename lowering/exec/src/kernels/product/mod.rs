//! Sums of products in registers: some rows of the left operand by a panel of columns of the right one.
//!
//! A panel has as many columns as a kernel keeps in two vectors; its terms lie one after another, each with all its columns,
//! or a step apart. Rows of the left operand lie anywhere. What a result is added up from, and in which order, depends on the
//! instructions and on nothing else; of integers it is exact, but that it wraps around.
//!
//! Floats are multiplied as `f32`. Integers of 8 bits are multiplied two terms at once: a pair of `i16` is one factor. Integers of 32
//! bits are multiplied as they are.

mod pack;
mod portable;
#[cfg(target_arch = "x86_64")]
mod vectors;

use crate::element::Number;
use crate::isa::Isa;
use bytemuck::Pod;
use std::fmt::Debug;

pub(crate) use pack::{Cell, copy_line, pack, pack_groups, turn_in};

/// The most columns of a panel.
pub(crate) const MOST_COLUMNS: usize = 32;

/// The vectors that products are made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Micro {
    isa: Isa,
    /// The columns of a panel.
    pub(crate) columns: usize,
    /// The rows that are kept in registers at once.
    pub(crate) rows: usize,
}

impl Micro {
    /// The kernels of these instructions, or of less where products need more than the machine has.
    pub(crate) fn of(isa: Isa) -> Micro {
        let (isa, columns, rows) = match isa {
            Isa::Avx512 => (isa, 32, 12),
            Isa::Avx2 if fused() => (isa, 16, 6),
            Isa::Avx2 | Isa::Portable => (Isa::Portable, 8, 4),
        };
        Micro { isa, columns, rows }
    }
}

/// Whether vectors of 32 bytes are multiplied and added at once.
fn fused() -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        is_x86_feature_detected!("fma")
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    false
}

/// Two terms of a row or of a column.
pub(crate) type Pair = [i16; 2];

/// The sum of the products of both terms.
#[inline(always)]
fn product(a: Pair, b: Pair) -> i32 {
    let [x, y] = [0, 1].map(|i| i32::from(a[i]) * i32::from(b[i]));
    x.wrapping_add(y)
}

/// What is multiplied.
pub(crate) trait Factor: Pod + Debug + Send + Sync {
    /// What products are summed to.
    type Sum: Number;

    /// The sum and a product.
    fn multiplied(self, other: Self, sum: Self::Sum) -> Self::Sum;

    /// Computes a panel.
    ///
    /// # Safety
    /// There are as many rows in `left` as in `out`. Each row of `left` has `terms` factors `left_step` apart that can be read;
    /// `right` has `terms` times all columns of `micro`, or half of them, `right_step` apart; each row of `out` has as many that can be
    /// written, which overlap neither one another nor what is read.
    unsafe fn panel(micro: Micro, panel: &Panel<'_, Self>);
}

/// Rows of the left operand by a panel of the right one.
#[derive(Debug)]
pub(crate) struct Panel<'a, F: Factor> {
    /// Where each row of the left operand begins.
    pub(crate) left: &'a [*const F],
    /// From one term of a row to the next.
    pub(crate) left_step: usize,
    /// The columns of the first term.
    pub(crate) right: *const F,
    /// From one term of the columns to the next.
    pub(crate) right_step: usize,
    pub(crate) terms: usize,
    /// Where each row of the result begins; its columns lie one after another.
    pub(crate) out: &'a [*mut F::Sum],
    /// Whether what is there is added to.
    pub(crate) adds: bool,
    /// Whether only the first half of the columns is computed.
    pub(crate) half: bool,
}

macro_rules! factors {
    ($($factor:ty: $sum:ty, $narrow:ident, $wide:ident, $multiplied:expr;)*) => {$(
        impl Factor for $factor {
            type Sum = $sum;

            #[inline(always)]
            fn multiplied(self, other: $factor, sum: $sum) -> $sum {
                $multiplied(self, other, sum)
            }

            unsafe fn panel(micro: Micro, panel: &Panel<'_, $factor>) {
                // SAFETY: the caller's promises; vectors are those that the machine has, as `Micro` is made of a detected `Isa`.
                unsafe {
                    match micro.isa {
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx512 => vectors::$wide::panel(panel),
                        #[cfg(target_arch = "x86_64")]
                        Isa::Avx2 => vectors::$narrow::panel(panel),
                        _ => portable::panel(panel),
                    }
                }
            }
        }
    )*};
}

factors! {
    f32: f32, narrow, wide, |a: f32, b: f32, sum: f32| sum + a * b;
    i32: i32, narrow_whole, wide_whole, |a: i32, b: i32, sum: i32| sum.wrapping_add(a.wrapping_mul(b));
    Pair: i32, narrow_pairs, any_pairs, |a: Pair, b: Pair, sum: i32| sum.wrapping_add(product(a, b));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::element::Element;
    use bytemuck::Zeroable;

    /// A panel of some rows with all instructions, against sums one by one.
    fn check<F: Factor>(number: impl Fn(usize) -> F, same: impl Fn(F::Sum, F::Sum) -> bool) {
        for isa in Isa::available() {
            let micro = Micro::of(isa);
            let terms = 37;
            for (rows, half) in [(1, true), (2, false), (13, false), (29, true)] {
                let columns = if half {
                    micro.columns / 2
                } else {
                    micro.columns
                };
                let left: Vec<F> = (0..rows * terms).map(&number).collect();
                let right: Vec<F> = (0..terms * micro.columns).map(|i| number(i + 5)).collect();
                let mut out = vec![F::Sum::zeroed(); rows * micro.columns];
                let starts: Vec<*const F> = left.chunks(terms).map(<[F]>::as_ptr).collect();
                let places = out.chunks_mut(micro.columns).map(<[F::Sum]>::as_mut_ptr);
                let places: Vec<*mut F::Sum> = places.collect();
                for adds in [false, true] {
                    let panel = Panel {
                        left: &starts,
                        left_step: 1,
                        right: right.as_ptr(),
                        right_step: micro.columns,
                        terms,
                        out: &places,
                        adds,
                        half,
                    };
                    // SAFETY: all rows, terms and columns are in the lists above.
                    unsafe { F::panel(micro, &panel) };
                }
                for row in 0..rows {
                    for column in 0..columns {
                        let sum = (0..terms).fold(F::Sum::zeroed(), |sum, t| {
                            left[row * terms + t].multiplied(right[t * micro.columns + column], sum)
                        });
                        let found = out[row * micro.columns + column];
                        assert!(
                            same(found, sum.plus(sum)),
                            "{isa:?} {rows} {half}: {found:?}"
                        );
                    }
                }
            }
        }
    }

    #[test]
    fn all_instructions_give_the_same_sums() {
        let byte = |i: usize| (i * 73 % 511) as i16 - 255;
        check(|i| [byte(i), byte(i + 1)], |a: i32, b| a == b);
        check(|i| i32::from(byte(i)), |a: i32, b| a == b);
        check(
            |i| (i as i32).wrapping_mul(1_640_531_527),
            |a: i32, b| a == b,
        );
        check(
            |i| f32::from(byte(i)) / 64.0,
            |a: f32, b| (a.read() - b).abs() <= 1e-3,
        );
    }
}
