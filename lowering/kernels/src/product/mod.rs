//! Micro-kernels of matrix products: some rows of the left operand by a packed panel of columns of the right one, with the
//! accumulators in registers.
//!
//! A panel has the columns of two vectors. Its terms are a step apart, each with all columns. Rows of the left operand may
//! be at any address. The order in which the terms of a result are summed depends on the instructions alone. Sums of
//! integers are exact, except that they wrap around.
//!
//! Floats are multiplied as `f32`, and `i32` as they are. Of 8-bit integers, four terms are one factor, a quad. Quads are
//! multiplied as bytes by VNNI with AVX-512, and as `i16` with lesser sets. For example, the quads
//! `[1, 2, 3, 4]` and `[5, 6, 7, 8]` add 5 + 12 + 21 + 32 = 70 to an `i32` accumulator.
#![expect(unsafe_code, reason = "vector instructions read and write by pointers")]

mod pack;
mod portable;
mod requantize;
mod row_conv;
#[cfg(target_arch = "x86_64")]
mod vectors;

use crate::element::Number;
use crate::isa::Isa;
use bytemuck::Pod;
use std::fmt::Debug;

pub use pack::{PackElement, copy_line, transpose_in};
pub(crate) use pack::{
    consecutive, interleave, interleave_quads, pack, pack_groups, transpose_quads, transpose8,
};
pub(crate) use requantize::{Requantize, RequantizedRows, Scales, inverse};
pub(crate) use row_conv::{READ, RowConv, row_conv_fits};
#[cfg(all(target_arch = "x86_64", not(miri)))]
pub(crate) use vectors::{Bytes, requantize_sums};

/// Most columns of a panel (`NR` of BLIS).
pub(crate) const MOST_COLUMNS: usize = 32;

/// Shape of the micro-kernel for an instruction set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct MicroKernel {
    isa: Isa,
    /// Columns of a panel (`NR`).
    pub(crate) columns: usize,
    /// Rows that are kept in registers at once (`MR`).
    pub(crate) rows: usize,
}

impl MicroKernel {
    /// Returns whether the kernel requantizes integer sums in registers before it stores them.
    pub(crate) fn requantizes(self) -> bool {
        self.isa == Isa::Avx512
    }

    /// The kernel of an instruction set.
    pub(crate) fn of(isa: Isa) -> MicroKernel {
        let (columns, rows) = match isa {
            Isa::Avx512 => (32, 12),
            Isa::Avx2 => (16, 6),
            Isa::Portable => (8, 4),
        };
        MicroKernel { isa, columns, rows }
    }
}

/// 8-bit integers, which are multiplied in quads.
///
/// `vpdpbusd` multiplies an unsigned by a signed byte. The sign bit of each factor of a row is therefore flipped: an `i8`
/// becomes unsigned and 128 greater, a `u8` becomes signed and 128 less. The excess in a sum is the product of a row of
/// flipped zeros by the same columns.
pub(crate) trait Byte: Pod + Debug + Send + Sync {
    /// True if the type is signed.
    const SIGNED: bool;

    /// The value of the byte.
    fn number(self) -> i32;

    /// The value of the bits in the type of the other signedness.
    fn other(self) -> i32;

    /// The byte with its sign bit flipped.
    fn sign_flipped(self) -> Self;
}

macro_rules! bytes {
    ($($byte:ty: $signed:literal, $other:ty;)*) => {$(
        impl Byte for $byte {
            const SIGNED: bool = $signed;

            #[inline(always)]
            fn number(self) -> i32 {
                i32::from(self)
            }

            #[inline(always)]
            fn other(self) -> i32 {
                i32::from(self as $other)
            }

            #[inline(always)]
            fn sign_flipped(self) -> $byte {
                (self as u8 ^ 0x80) as $byte
            }
        }
    )*};
}

bytes!(i8: true, u8; u8: false, i8;);

/// Zero with its sign bit flipped.
pub(crate) const FLIPPED_ZERO: u8 = 0x80;

/// Four terms of a column, or of a row, in which the sign bits are flipped.
pub(crate) type Quad<B> = [B; 4];

/// Adds the products of a row's quad, whose sign bits are flipped, by a column's quad to the sum.
#[inline(always)]
fn products_of<B: Byte>(row: Quad<B>, column: Quad<B>, sum: i32) -> i32 {
    let pairs = row.into_iter().zip(column);
    pairs.fold(sum, |sum, (a, b)| {
        sum.wrapping_add(a.sign_flipped().number() * b.number())
    })
}

/// As `vpdpbusd`: adds the products of a row's quad, whose bytes have the other signedness, by a column's quad to the sum.
#[inline(always)]
fn dot<B: Byte>(row: Quad<B>, column: Quad<B>, sum: i32) -> i32 {
    let pairs = row.into_iter().zip(column);
    pairs.fold(sum, |sum, (a, b)| sum.wrapping_add(a.other() * b.number()))
}

/// Positions of a line that are summed at once.
pub(crate) const PLACES: usize = 16;

/// Weights in quads, each with its distance in quads from the position that is summed.
#[derive(Debug)]
pub(crate) struct Weights<B> {
    list: Vec<(usize, Quad<B>)>,
    /// The greatest distance.
    behind: usize,
    /// Initial value of each sum; it includes the compensation for flipped sign bits, which the caller computes.
    begin: i32,
    /// True if bytes are multiplied by VNNI.
    dots: bool,
}

impl<B: Byte> Weights<B> {
    pub(crate) fn of(list: Vec<(usize, Quad<B>)>, begin: i32) -> Weights<B> {
        Weights {
            behind: list.iter().map(|tap| tap.0).max().unwrap_or(0),
            list,
            begin,
            dots: Isa::current() == Isa::Avx512,
        }
    }

    /// Returns whether sums are requantized in registers, so that they are never stored.
    pub(crate) fn requantizes(&self) -> bool {
        self.dots
    }

    /// Requantizes the sum of each position, scaled and added to a bias first if `scale` is given. Only if
    /// [`requantizes`](Weights::requantizes) returns true.
    ///
    /// # Panics
    /// The line is too short for whole vectors of [`PLACES`], elements do not have the size of requantized sums, or
    /// bytes are not multiplied by VNNI.
    pub(crate) fn requantized<T: Pod>(
        &self,
        line: &[Quad<B>],
        to: &mut [T],
        (requantize, scale): (&Requantize, Option<[f32; 2]>),
    ) {
        let room = line.len().checked_sub(self.behind);
        let whole = to.len().next_multiple_of(PLACES);
        let fits = room.is_some_and(|n| whole <= n);
        assert!(fits && self.dots, "each place has quads");
        assert_eq!(
            requantize.size(),
            size_of::<T>(),
            "elements are what sums become"
        );
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let to = (to.as_mut_ptr().cast(), to.len());
            // SAFETY: the length of the line was checked above, all places are elements of the size that is written, and
            // the machine has the instructions.
            unsafe {
                vectors::along::requantized(line, &self.list, self.begin, to, (requantize, scale))
            };
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = scale;
    }

    /// Sets each position to the initial value plus the products of the weights by the quads behind the position in a line,
    /// whose sign bits are flipped. The result is the same for all instruction sets.
    ///
    /// # Panics
    /// The number of positions is no multiple of [`PLACES`], or the line is too short.
    #[inline(always)]
    pub(crate) fn sums(&self, line: &[Quad<B>], to: &mut [i32]) {
        let room = line.len().checked_sub(self.behind);
        let fits = room.is_some_and(|n| to.len() <= n);
        assert!(
            fits && to.len().is_multiple_of(PLACES),
            "each place has quads"
        );
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        if self.dots {
            // SAFETY: the length of the line was checked above, and the machine has the instructions.
            unsafe { vectors::along::dot_line(line, &self.list, to, self.begin) };
            return;
        }
        let (places, _) = to.as_chunks_mut::<PLACES>();
        for (number, to) in places.iter_mut().enumerate() {
            let mut sums = [self.begin; PLACES];
            for &(at, weights) in &self.list {
                let quads = &line[number * PLACES + at..][..PLACES];
                for (sum, &quad) in sums.iter_mut().zip(quads) {
                    *sum = dot(quad, weights, *sum);
                }
            }
            *to = sums;
        }
    }
}

/// Unit that micro-kernels multiply: an `f32`, an `i32` or a quad of bytes.
pub(crate) trait Factor: Pod + Debug + Send + Sync {
    /// Type of the accumulators.
    type Sum: Number;

    /// Multiplies two factors and adds the product to the sum.
    fn multiplied(self, other: Self, sum: Self::Sum) -> Self::Sum;

    /// For bytes, a factor of a row that has this byte everywhere.
    fn splat_byte(byte: u8) -> Option<Self> {
        let _ = byte;
        None
    }

    /// Computes a panel.
    ///
    /// # Safety
    /// - `out` has as many rows as `left`; it may have none if `requantize` is given and sums are not added to it. So have
    ///   `Initial::Rows`, `compensation` and the rows of [`RequantizedRows`], if they are given.
    /// - Each row of `left` has, from each of `runs` on, `run` readable factors, `left_step` apart. All runs together have
    ///   `terms` factors.
    /// - `right` has `terms` times all columns of `micro`, or half of them with `half`, `right_step` apart. With `taps` it
    ///   has a vector of columns at each of `terms` taps and, without `half`, another one at the second offset behind it.
    ///   There is one run then, and [`Factor::taps`] gives a number.
    /// - Each row of `out` has as many writable columns, and each row of [`RequantizedRows`] as many as it says. Rows
    ///   overlap neither one another nor the operands.
    /// - `requantize` is given only if [`MicroKernel::requantizes`] returns true.
    unsafe fn panel(micro: MicroKernel, panel: &Panel<'_, Self>);

    /// Columns of a vector, if the kernel can read columns at taps.
    fn taps(micro: MicroKernel) -> Option<usize> {
        let vectors = micro.isa != Isa::Portable && Self::splat_byte(0).is_none();
        vectors.then_some(micro.columns / 2)
    }
}

/// Rows of the left operand by a panel of the right one.
#[derive(Debug)]
pub(crate) struct Panel<'a, F: Factor> {
    /// Start of each row of the left operand.
    pub(crate) left: &'a [*const F],
    /// Stride between the terms of a row.
    pub(crate) left_step: usize,
    /// Start of each run of terms in a row, in factors (a single run starts at 0), and the terms of each run.
    pub(crate) runs: &'a [isize],
    pub(crate) run: usize,
    /// For bytes, the zero point of the rows with its sign bit flipped: [`FLIPPED_ZERO`] if it is 0.
    pub(crate) zero: u8,
    /// For bytes, a number that is added to the sums of each row: the compensation for the zero point of the columns.
    pub(crate) compensation: Option<&'a [F::Sum]>,
    /// The columns of the first term.
    pub(crate) right: *const F,
    /// Stride between the terms of the columns.
    pub(crate) right_step: usize,
    /// Offset of each term's first vector from `right`, and of the second vector from the first, if the columns of a term
    /// are not contiguous.
    pub(crate) taps: Option<Taps<'a>>,
    pub(crate) terms: usize,
    /// Start of each row of the result, whose columns are contiguous.
    pub(crate) out: &'a [*mut F::Sum],
    pub(crate) initial: Initial<'a, F::Sum>,
    /// Requantization of integer sums in registers and its destination; sums are then not stored.
    pub(crate) requantize: Option<RequantizedRows<'a>>,
    /// True if only the first half of the columns is computed.
    pub(crate) half: bool,
}

/// Offset of each term's first vector, and of the second vector from the first.
pub(crate) type Taps<'a> = (&'a [usize], usize);

/// Values that products are added to.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Initial<'a, S> {
    Zero,
    /// The previous contents of the result.
    InPlace,
    /// One number for each row.
    Rows(&'a [S]),
    /// One number for each column of a panel.
    Columns(&'a [S; MOST_COLUMNS]),
}

macro_rules! factors {
    ($($factor:ty: $sum:ty, $narrow:ident, $wide:ident, $multiplied:expr $(, $splat_byte:expr)?;)*) => {$(
        impl Factor for $factor {
            type Sum = $sum;

            #[inline(always)]
            fn multiplied(self, other: $factor, sum: $sum) -> $sum {
                $multiplied(self, other, sum)
            }

            $(
                #[inline(always)]
                fn splat_byte(byte: u8) -> Option<$factor> {
                    Some($splat_byte(byte))
                }
            )?

            /// # Safety
            /// That of the trait.
            unsafe fn panel(micro: MicroKernel, panel: &Panel<'_, $factor>) {
                // SAFETY: the caller's promises; the machine has the vectors, as `MicroKernel` is made of an
                // available `Isa`.
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
    Quad<i8>: i32, narrow_signed, dot_signed, products_of, |byte: u8| [byte.cast_signed(); 4];
    Quad<u8>: i32, narrow_unsigned, dot_unsigned, products_of, |byte| [byte; 4];
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::channels::Quantized;
    use crate::element::Element;
    use bytemuck::Zeroable;

    /// Compares a panel of some rows, for all instruction sets, with sums of single products.
    fn check<F: Factor>(number: impl Fn(usize) -> F, same: impl Fn(F::Sum, F::Sum) -> bool) {
        for isa in Isa::available() {
            let micro = MicroKernel::of(isa);
            // Three runs of twelve terms, out of order and with a gap between two of them.
            let (terms, run, runs, line) = (36, 12, [0isize, 26, 13], 38);
            let place = |t: usize| runs[t / run] as usize + t % run;
            for (rows, half) in [(1, true), (2, false), (13, false), (29, true)] {
                let columns = if half {
                    micro.columns / 2
                } else {
                    micro.columns
                };
                let left: Vec<F> = (0..rows * line).map(&number).collect();
                let right: Vec<F> = (0..terms * micro.columns).map(|i| number(i + 5)).collect();
                let mut out = vec![F::Sum::zeroed(); rows * micro.columns];
                let starts: Vec<*const F> = left.chunks(line).map(<[F]>::as_ptr).collect();
                let places = out.chunks_mut(micro.columns).map(<[F::Sum]>::as_mut_ptr);
                let places: Vec<*mut F::Sum> = places.collect();
                let add = |places: &[*mut F::Sum], initial: Initial<'_, F::Sum>| {
                    let panel = Panel {
                        requantize: None,
                        left: &starts,
                        left_step: 1,
                        runs: &runs,
                        run,
                        zero: FLIPPED_ZERO,
                        compensation: None,
                        right: right.as_ptr(),
                        right_step: micro.columns,
                        taps: None,
                        terms,
                        out: places,
                        initial,
                        half,
                    };
                    // SAFETY: all rows, terms and columns are in the lists, and the places are rows of a list.
                    unsafe { F::panel(micro, &panel) };
                };
                add(&places, Initial::Zero);
                add(&places, Initial::InPlace);
                let by_row: Vec<F::Sum> = out.iter().step_by(micro.columns).copied().collect();
                let mut by_column = [F::Sum::zeroed(); MOST_COLUMNS];
                by_column[..micro.columns].copy_from_slice(&out[..micro.columns]);
                let mut more = vec![F::Sum::zeroed(); rows * micro.columns];
                for (initial, by_rows) in [
                    (Initial::Rows(&by_row), true),
                    (Initial::Columns(&by_column), false),
                ] {
                    let places = more.chunks_mut(micro.columns).map(<[F::Sum]>::as_mut_ptr);
                    let places: Vec<*mut F::Sum> = places.collect();
                    add(&places, initial);
                    for (i, found) in more.iter().enumerate() {
                        let (row, column) = (i / micro.columns, i % micro.columns);
                        if column < columns {
                            let added = if by_rows {
                                by_row[row]
                            } else {
                                by_column[column]
                            };
                            let sum = (0..terms).fold(F::Sum::zeroed(), |sum, t| {
                                let factor = right[t * micro.columns + column];
                                left[row * line + place(t)].multiplied(factor, sum)
                            });
                            assert!(same(*found, sum.plus(added)), "{isa:?} {i}");
                        }
                    }
                }
                for row in 0..rows {
                    for column in 0..columns {
                        let sum = (0..terms).fold(F::Sum::zeroed(), |sum, t| {
                            left[row * line + place(t)]
                                .multiplied(right[t * micro.columns + column], sum)
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
    fn sums_become_bytes_as_each_by_itself() {
        let micro = MicroKernel::of(Isa::current());
        if !micro.requantizes() {
            return;
        }
        for (scale, divisor) in [
            (0.015_625f32, 0.5f32),
            (0.3, 0.7),
            (1e-5, 3.0),
            (3e38, 1e-30),
        ] {
            for (plus, low, high) in [(None, -128.0, 127.0), (Some(100.0), 0.0, 255.0)] {
                let requantize = Requantize::of(scale, 0.0, divisor, plus, [low, high]);
                let requantize = requantize.expect("they are numbers");
                let quad = |i: usize| std::array::from_fn(|k| (i * 31 + k * 97) as i8);
                let rows: Vec<Quad<i8>> = (0..29 * 3).map(quad).collect();
                let columns: Vec<Quad<i8>> = (0..3 * 32).map(|i| quad(i * i)).collect();
                // Some are not exact in `f32`.
                let starts: Vec<i32> = (0..29).map(|i| (i - 14) << (i * 31 % 29)).collect();
                let columns_there = if low < 0.0 { 32 } else { 21 };
                let mut bytes = vec![0u8; 29 * 40];
                let out: Vec<*mut u8> = bytes.chunks_mut(40).map(<[u8]>::as_mut_ptr).collect();
                let left: Vec<*const Quad<i8>> = rows.chunks(3).map(<[_]>::as_ptr).collect();
                let panel = Panel {
                    left: &left,
                    left_step: 1,
                    runs: &[0],
                    run: 3,
                    zero: FLIPPED_ZERO,
                    compensation: None,
                    right: columns.as_ptr(),
                    taps: None,
                    right_step: 32,
                    terms: 3,
                    out: &[],
                    initial: Initial::Rows(&starts),
                    requantize: Some(RequantizedRows {
                        by: &requantize,
                        scales: None,
                        rows: &out,
                        columns: columns_there,
                    }),
                    half: false,
                };
                // SAFETY: all rows, terms and columns are in the lists above, and 40 bytes for each row.
                unsafe { Factor::panel(micro, &panel) };
                let scaled = Requantize::scaled(scale, 0.0).expect("it is a number");
                let mut floats = vec![-1f32; 29 * 40];
                let places: Vec<*mut u8> = floats
                    .chunks_mut(40)
                    .map(|row| row.as_mut_ptr().cast())
                    .collect();
                let requantize_to = RequantizedRows {
                    by: &scaled,
                    scales: None,
                    rows: &places,
                    columns: columns_there,
                };
                let panel = Panel {
                    requantize: Some(requantize_to),
                    ..panel
                };
                // SAFETY: as above, with 40 floats for each row.
                unsafe { Factor::panel(micro, &panel) };
                for (i, found) in floats.iter().enumerate() {
                    let (row, column) = (i / 40, i % 40);
                    let sum = (0..3).fold(starts[row], |sum, t| match column < 32 {
                        true => rows[row * 3 + t].multiplied(columns[t * 32 + column], sum),
                        false => sum,
                    });
                    let wanted = match column < columns_there {
                        true => scaled.scaled_sum(sum),
                        false => -1.0,
                    };
                    assert_eq!(found.to_bits(), wanted.to_bits(), "{scale} {i}");
                }
                for (i, found) in bytes.iter().enumerate() {
                    let (row, column) = (i / 40, i % 40);
                    if columns_there <= column {
                        assert_eq!(*found, 0, "{i}");
                        continue;
                    }
                    let sum = (0..3).fold(starts[row], |sum, t| {
                        rows[row * 3 + t].multiplied(columns[t * 32 + column], sum)
                    });
                    assert_eq!(
                        *found,
                        requantize.of_sum(sum),
                        "{scale} {divisor} {plus:?} {i}"
                    );
                }
            }
        }
    }

    #[test]
    fn lines_are_summed_as_their_numbers_are() {
        fn check<B: Byte>(of: impl Fn(usize) -> B) {
            let plain: Vec<Quad<B>> = (0..200)
                .map(|i| std::array::from_fn(|k| of(i * 5 + k)))
                .collect();
            let line: Vec<Quad<B>> = plain.iter().map(|quad| quad.map(B::sign_flipped)).collect();
            for (count, behind) in [(0, 0), (1, 0), (3, 1), (7, 9)] {
                let taps = (0..count).map(|i| (i * behind, std::array::from_fn(|k| of(i * 3 + k))));
                let taps: Vec<(usize, Quad<B>)> = taps.collect();
                let mut sums = [7; 64];
                let weights = taps.iter().flat_map(|tap| tap.1.map(B::number)).sum();
                let begin = i32::MAX - 3;
                let begin = begin.wrapping_sub(Quantized::PLAIN.compensation::<B>(weights));
                let mut found = Weights::of(taps.clone(), begin);
                found.sums(&line, &mut sums);
                if found.requantizes() {
                    let requantize = Requantize::of(1e-3, 0.0, 0.7, Some(3.0), [0.0, 255.0]);
                    let requantize = requantize.expect("all are finite");
                    let scaled = Requantize::scaled(0.5, f32::NEG_INFINITY).expect("it is finite");
                    for n in [0, 1, 15, 16, 17, 28, 32, 33, 48, 64] {
                        let (mut bytes, mut floats) = ([99u8; 65], [-1f32; 65]);
                        found.requantized(&line, &mut bytes[..n], (&requantize, None));
                        found.requantized(&line, &mut floats[..n], (&scaled, None));
                        for (place, &sum) in sums.iter().enumerate() {
                            let wanted = match place < n {
                                true => (requantize.of_sum(sum), scaled.scaled_sum(sum)),
                                false => (99, -1.0),
                            };
                            assert_eq!((bytes[place], floats[place]), wanted, "{n} {place}");
                        }
                        assert_eq!((bytes[64], floats[64]), (99, -1.0));
                    }
                    found.dots = false;
                    let mut plain = [8; 64];
                    found.sums(&line, &mut plain);
                    assert_eq!(plain, sums, "{count} {behind}");
                }
                for (place, sum) in sums.into_iter().enumerate() {
                    let products = taps.iter().flat_map(|(at, weights)| {
                        let pairs = plain[place + at].into_iter().zip(*weights);
                        pairs.map(|(a, b)| a.number() * b.number())
                    });
                    let wanted = products.fold(i32::MAX - 3, i32::wrapping_add);
                    assert_eq!(sum, wanted, "{count} {behind} {place}");
                }
            }
        }
        let ends = |i: usize| [0x80u8, 0xFF, 0x7F, 0x00, 0x80, 0x80, 0x13][i * i % 11 % 7];
        check(ends);
        check(|i| ends(i).cast_signed());
    }

    #[test]
    fn columns_at_taps_give_the_same_sums() {
        let number = |i: usize| f32::from((i * 73 % 511) as i16 - 255) / 64.0;
        let (rows, terms, second) = (14, 19, 53);
        let left: Vec<f32> = (0..rows * terms).map(number).collect();
        let cells: Vec<f32> = (0..400).map(|i| number(i + 7)).collect();
        let taps: Vec<usize> = (0..terms).map(|t| t * 37 % 101).collect();
        for micro in Isa::available().into_iter().map(MicroKernel::of) {
            let Some(lanes) = <f32 as Factor>::taps(micro) else {
                continue;
            };
            let columns = micro.columns;
            let cell = |i: usize| {
                let (term, c) = (i / columns, i % columns);
                cells[taps[term] + c / lanes * second + c % lanes]
            };
            let beside: Vec<f32> = (0..terms * columns).map(cell).collect();
            for half in [false, true] {
                let sums = |right: &[f32], right_step: usize, taps: Option<Taps<'_>>| {
                    let mut out = vec![0f32; rows * columns];
                    let starts: Vec<*const f32> = left.chunks(terms).map(<[_]>::as_ptr).collect();
                    let places = out.chunks_mut(columns).map(<[f32]>::as_mut_ptr);
                    let places: Vec<*mut f32> = places.collect();
                    let panel = Panel {
                        requantize: None,
                        left: &starts,
                        left_step: 1,
                        runs: &[0],
                        run: terms,
                        zero: 0,
                        compensation: None,
                        right: right.as_ptr(),
                        right_step,
                        taps,
                        terms,
                        out: &places,
                        initial: Initial::Zero,
                        half,
                    };
                    // SAFETY: all rows, terms, columns and vectors at taps are in the lists, and the places are rows of a
                    // list.
                    unsafe { Factor::panel(micro, &panel) };
                    out
                };
                let found = sums(&cells, 0, Some((&taps, second)));
                assert_eq!(found, sums(&beside, columns, None), "{micro:?} {half}");
            }
        }
    }

    /// Compares sums with a zero point of the rows, for all instruction sets, with 64-bit sums that wrap around.
    fn check_less(terms: usize, zero: u8, left: impl Fn(usize) -> u8, right: impl Fn(usize) -> i8) {
        for isa in Isa::available() {
            let micro = MicroKernel::of(isa);
            let rows = 14;
            // Sign bits are flipped, as kernels expect.
            let quad = |i: usize| std::array::from_fn(|k| left(i * 4 + k).cast_signed());
            let all: Vec<Quad<i8>> = (0..rows * terms).map(quad).collect();
            let quad = |i: usize| std::array::from_fn(|k| right(i * 4 + k));
            let columns: Vec<Quad<i8>> = (0..terms * micro.columns).map(quad).collect();
            let compensation: Vec<i32> = (0..rows as i32).map(|i| (i - 3) << 20).collect();
            let mut out = vec![0i32; rows * micro.columns];
            let places = out.chunks_mut(micro.columns).map(<[i32]>::as_mut_ptr);
            let places: Vec<*mut i32> = places.collect();
            let starts: Vec<*const Quad<i8>> = all.chunks(terms).map(<[_]>::as_ptr).collect();
            let panel = Panel {
                requantize: None,
                left: &starts,
                left_step: 1,
                runs: &[0],
                run: terms,
                zero,
                compensation: Some(&compensation),
                right: columns.as_ptr(),
                right_step: micro.columns,
                taps: None,
                terms,
                out: &places,
                initial: Initial::Zero,
                half: false,
            };
            // SAFETY: all rows, terms and columns are in the lists, and the places are rows of a list.
            unsafe { Factor::panel(micro, &panel) };
            for (i, &found) in out.iter().enumerate() {
                let (row, column) = (i / micro.columns, i % micro.columns);
                let mut sum = i64::from(compensation[row]);
                for t in 0..terms {
                    let own = all[row * terms + t];
                    let other = columns[t * micro.columns + column];
                    for (a, b) in own.into_iter().zip(other) {
                        sum += (i64::from(a.cast_unsigned()) - i64::from(zero)) * i64::from(b);
                    }
                }
                assert_eq!(found, sum as i32, "{isa:?} {zero} {i}");
            }
        }
    }

    #[test]
    fn rows_are_less_any_byte() {
        for zero in [0, 1, 127, 128, 255] {
            check_less(9, zero, |i| (i * 97) as u8, |i| (i * i * 31) as i8);
            for (left, right) in [(255, -128), (0, -128), (255, 127), (128, -1)] {
                check_less(25, zero, |_| left, |_| right);
            }
        }
        // A hundred thousand terms: the greatest sums do not fit in 32 bits.
        check_less(25_000, 0, |_| 255, |_| -128);
        check_less(25_000, 255, |i| (i % 2) as u8, |_| 127);
    }

    #[test]
    fn all_instructions_give_the_same_sums() {
        let byte = |i: usize| (i * 73 % 511) as i16 - 255;
        // The least and the greatest of both types among others.
        let ends = |i: usize| match i % 7 {
            0 | 3 => 0x80,
            1 => 0xFF,
            2 | 5 => 0x7F,
            _ => byte(i) as u8,
        };
        check(
            |i| std::array::from_fn(|k| ends(i + k).cast_signed()),
            |a: i32, b| a == b,
        );
        check(|i| std::array::from_fn(|k| ends(i + k)), |a: i32, b| a == b);
        for all in [0x00u8, 0x7F, 0x80, 0xFF] {
            check(|_| [all; 4], |a: i32, b| a == b);
            check(|_| [all.cast_signed(); 4], |a: i32, b| a == b);
        }
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
