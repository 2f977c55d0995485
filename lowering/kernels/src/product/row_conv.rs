//! Depthwise convolution of rows of bytes in registers: a shuffle makes the quads of taps that consecutive positions read
//! from the bytes in memory, and `vpdpbusd` multiplies them by the weights.
//!
//! With stride 1 and dilation 1, bytes `a b c d e f ..` become the quads `abcd`, `bcde`, `cdef`, one for each position.

use super::{Byte, PLACES, Quad, Requantize};
use crate::isa::Isa;
use bytemuck::Pod;

/// Bytes of a row that one load reads; they have to be readable behind the last position.
pub(crate) const READ: usize = 64;
/// Bytes of a row that a quarter of a vector of quads is made from.
const WINDOW: usize = 16;
/// Rows that are summed at once.
const ROWS: usize = 4;

/// Weights in quads of four taps, each with its offset in bytes from the first byte that a position reads.
#[derive(Debug)]
pub(crate) struct RowConv<B> {
    list: Vec<(usize, Quad<B>)>,
    /// The greatest offset.
    behind: usize,
    /// Initial value of each sum; it includes the compensation for flipped sign bits, which the caller computes.
    begin: i32,
    stride: usize,
    dilation: usize,
}

/// Returns whether a quarter of a register has all bytes of four positions' quads, and kernels use AVX-512.
pub(crate) fn row_conv_fits(stride: usize, dilation: usize) -> bool {
    let dots = Isa::current() == Isa::Avx512;
    let window = 3usize.checked_mul(stride).zip(dilation.checked_mul(3));
    let window = window.and_then(|(places, taps)| places.checked_add(taps));
    dots && 0 < dilation && matches!(stride, 1 | 2) && window.is_some_and(|n| n < WINDOW)
}

impl<B: Byte> RowConv<B> {
    /// Weights of a kernel with a stride and a dilation that [`row_conv_fits`] accepts.
    pub(crate) fn of(
        list: Vec<(usize, Quad<B>)>,
        begin: i32,
        (stride, dilation): (usize, usize),
    ) -> RowConv<B> {
        RowConv {
            behind: list.iter().map(|tap| tap.0).max().unwrap_or(0),
            list,
            begin,
            stride,
            dilation,
        }
    }

    /// Bytes from the start of a row that are read for `count` positions.
    pub(crate) fn reach(&self, count: usize) -> usize {
        let vectors = count.div_ceil(PLACES).max(1) - 1;
        self.behind + vectors * PLACES * self.stride + READ
    }

    /// Requantizes sums, scaled and added to a bias first if `scale` is given, and writes rows of `count` positions. Each
    /// of `rows` is the index of its first byte and of its first element in `to`.
    ///
    /// # Panics
    /// A row reads or writes out of bounds, elements do not have the size of requantized sums, or kernels do not use AVX-512.
    pub(crate) fn requantized<T: Pod>(
        &self,
        bytes: &[B],
        rows: &[[usize; 2]],
        (to, count): (&mut [T], usize),
        (requantize, scale): (&Requantize, Option<[f32; 2]>),
    ) {
        assert_eq!(
            requantize.size(),
            size_of::<T>(),
            "elements are what sums become"
        );
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        self.write(
            bytes,
            rows,
            (to, count),
            vectors::To::Requantized(requantize, scale),
        );
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = (bytes, rows, to, count, scale);
    }

    /// Writes rows of sums.
    ///
    /// # Panics
    /// As for [`requantized`](RowConv::requantized).
    pub(crate) fn sums(&self, bytes: &[B], rows: &[[usize; 2]], to: (&mut [i32], usize)) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        self.write(bytes, rows, to, vectors::To::Sums);
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = (bytes, rows, to);
    }

    /// Writes rows as `how` says; elements have the size of what is written.
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn write<T: Pod>(
        &self,
        bytes: &[B],
        rows: &[[usize; 2]],
        (to, count): (&mut [T], usize),
        how: vectors::To<'_>,
    ) {
        self.check(bytes.len(), rows, (to.len(), count));
        let (to, from) = (to.as_mut_ptr(), bytes.as_ptr());
        for rows in rows.chunks(ROWS) {
            let places = rows.iter();
            let starts =
                places.map(|row| (from.wrapping_add(row[0]), to.wrapping_add(row[1]).cast()));
            // SAFETY: all rows were checked above, and the machine has the instructions; the callers have elements of
            // the size that is written.
            unsafe { vectors::rows(self, starts, count, how) };
        }
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    fn check(&self, bytes: usize, rows: &[[usize; 2]], (to, count): (usize, usize)) {
        assert!(
            row_conv_fits(self.stride, self.dilation),
            "kernels use AVX-512"
        );
        let (read, written) = (bytes.checked_sub(self.reach(count)), to.checked_sub(count));
        let inside = |at: usize, most: Option<usize>| most.is_some_and(|most| at <= most);
        let all = |row: &[usize; 2]| inside(row[0], read) && inside(row[1], written);
        assert!(
            rows.iter().all(all),
            "rows lie inside of what is read and written"
        );
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    use super::super::{Byte, PLACES, Requantize, RequantizedRows, Scales, requantize_sums};
    use super::{ROWS, RowConv};
    use std::arch::x86_64::*;
    use std::array::from_fn;

    /// Form in which sums are written.
    #[derive(Clone, Copy)]
    pub(super) enum To<'a> {
        Requantized(&'a Requantize, Option<[f32; 2]>),
        Sums,
    }

    /// Shuffle that makes a vector of quads from bytes.
    struct Order {
        words: __m512i,
        bytes: __m512i,
        /// True if 32 bytes are enough.
        half: bool,
    }

    impl Order {
        #[target_feature(enable = "avx512f,avx512bw")]
        fn of(stride: usize, dilation: usize) -> Order {
            let words: [i32; 16] = from_fn(|i| (i / 4 * stride + i % 4) as i32);
            let bytes: [u8; 64] = from_fn(|i| (i % 16 / 4 * stride + i % 4 * dilation) as u8);
            Order {
                // SAFETY: both have 64 bytes.
                words: unsafe { _mm512_loadu_si512(words.as_ptr().cast()) },
                // SAFETY: as above.
                bytes: unsafe { _mm512_loadu_si512(bytes.as_ptr().cast()) },
                half: stride == 1,
            }
        }

        /// # Safety
        /// 64 bytes are readable, or 32 with `HALF`.
        #[inline]
        #[target_feature(enable = "avx512f,avx512bw")]
        unsafe fn quads<const HALF: bool>(&self, from: *const u8) -> __m512i {
            // SAFETY: the caller's promise.
            let bytes = unsafe {
                match HALF {
                    true => _mm512_castsi256_si512(_mm256_loadu_si256(from.cast())),
                    false => _mm512_loadu_si512(from.cast()),
                }
            };
            _mm512_shuffle_epi8(_mm512_permutexvar_epi32(self.words, bytes), self.bytes)
        }
    }

    /// # Safety
    /// There are at most four rows. From each start `reach` bytes are readable and `count` elements of what is written are
    /// writable. The machine has AVX-512 VNNI.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) unsafe fn rows<B: Byte>(
        of: &RowConv<B>,
        starts: impl Iterator<Item = (*const B, *mut u8)>,
        count: usize,
        to: To<'_>,
    ) {
        let (mut from, mut places) = ([std::ptr::null(); ROWS], [std::ptr::null_mut(); ROWS]);
        let mut n = 0;
        for (i, start) in starts.take(ROWS).enumerate() {
            (from[i], places[i]) = start;
            n = i + 1;
        }
        let order = Order::of(of.stride, of.dilation);
        // SAFETY: the caller's promises.
        unsafe {
            match (n == ROWS, order.half) {
                (true, true) => some::<B, ROWS, true>(of, &order, from, places, count, to),
                (true, false) => some::<B, ROWS, false>(of, &order, from, places, count, to),
                (false, _) => {
                    for (&from, &place) in from.iter().zip(&places).take(n) {
                        match order.half {
                            true => some::<B, 1, true>(of, &order, [from], [place], count, to),
                            false => some::<B, 1, false>(of, &order, [from], [place], count, to),
                        }
                    }
                }
            }
        }
    }

    /// # Safety
    /// As for [`rows`], of all rows.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn some<B: Byte, const R: usize, const HALF: bool>(
        of: &RowConv<B>,
        order: &Order,
        from: [*const B; R],
        places: [*mut u8; R],
        count: usize,
        to: To<'_>,
    ) {
        let mut at = 0;
        while at < count {
            let left = count - at;
            // SAFETY: the caller's promises; two vectors are read only where there are places of the second one.
            unsafe {
                if PLACES < left {
                    part::<B, R, 2, HALF>(of, order, from, places, (at, left), to);
                } else {
                    part::<B, R, 1, HALF>(of, order, from, places, (at, left), to);
                }
            }
            at += 2 * PLACES;
        }
    }

    /// # Safety
    /// As for [`rows`], for `C` vectors of positions from `at` on.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn part<B: Byte, const R: usize, const C: usize, const HALF: bool>(
        of: &RowConv<B>,
        order: &Order,
        from: [*const B; R],
        places: [*mut u8; R],
        (at, left): (usize, usize),
        to: To<'_>,
    ) {
        let mut sums = [[_mm512_set1_epi32(of.begin); C]; R];
        for &(tap, weights) in &of.list {
            let weights = _mm512_set1_epi32(bytemuck::cast(weights));
            for (sums, from) in sums.iter_mut().zip(from) {
                for (c, sum) in sums.iter_mut().enumerate() {
                    let first = tap + (at + c * PLACES) * of.stride;
                    // SAFETY: the caller's promise.
                    let quads = unsafe { order.quads::<HALF>(from.add(first).cast()) };
                    *sum = match B::SIGNED {
                        true => _mm512_dpbusd_epi32(*sum, quads, weights),
                        false => _mm512_dpbusd_epi32(*sum, weights, quads),
                    };
                }
            }
        }
        let there = left.min(C * PLACES);
        match to {
            To::Requantized(by, scale) => {
                let rows = places.map(|place| place.wrapping_add(at * by.size()));
                let scales = scale.map(|scale| [scale; R]);
                let to = RequantizedRows {
                    by,
                    scales: scales.as_ref().map(|scales| Scales::Rows(scales)),
                    rows: &rows,
                    columns: there,
                };
                // A copy: accumulators whose address is taken would be spilled from registers.
                let made = sums;
                // SAFETY: each row has `there` columns from here on.
                unsafe { requantize_sums(to, &made, 0) };
            }
            To::Sums => {
                for (sums, place) in sums.iter().zip(places) {
                    for (c, &sum) in sums.iter().enumerate() {
                        let own = there.saturating_sub(c * PLACES).min(PLACES);
                        let mask = ((1u32 << own) - 1) as u16;
                        let place = place.cast::<i32>().wrapping_add(at + c * PLACES);
                        // SAFETY: there are as many places as mask bits.
                        unsafe { _mm512_mask_storeu_epi32(place, mask, sum) };
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check<B: Byte>(of: impl Fn(usize) -> B) {
        for (stride, dilation) in [(1, 1), (1, 2), (1, 4), (2, 1), (2, 3)] {
            if !row_conv_fits(stride, dilation) {
                return;
            }
            for count in [1, 7, 16, 17, 32, 33, 70] {
                let quad = |i: usize| std::array::from_fn(|k| of(i * 31 + k * 7));
                let taps: Vec<(usize, Quad<B>)> = (0..5).map(|i| (i * 3, quad(i))).collect();
                let conv = RowConv::of(taps.clone(), i32::MAX - 9, (stride, dilation));
                let width = conv.reach(count);
                let bytes: Vec<B> = (0..width * 6).map(|i| of(i * i)).collect();
                let rows: Vec<[usize; 2]> = (0..6).map(|r| [r * width, r * (count + 3)]).collect();
                let mut sums = vec![-5; 6 * (count + 3)];
                conv.sums(&bytes, &rows, (&mut sums, count));
                let requantize = Requantize::of(1e-3, 0.0, 0.7, Some(3.0), [0.0, 255.0]);
                let requantize = requantize.expect("all are finite");
                let mut small = vec![77u8; sums.len()];
                conv.requantized(&bytes, &rows, (&mut small, count), (&requantize, None));
                for (i, &sum) in sums.iter().enumerate() {
                    let (row, place) = (i / (count + 3), i % (count + 3));
                    let all = taps.iter().flat_map(|&(at, quad)| {
                        let at = row * width + at + place * stride;
                        quad.into_iter()
                            .enumerate()
                            .map(move |(k, w)| (at + k * dilation, w))
                    });
                    let wanted = all.fold(i32::MAX - 9, |sum, (at, w)| {
                        let x = bytes.get(at).copied().unwrap_or(B::zeroed());
                        // `vpdpbusd` reads rows as the type of the other signedness.
                        let byte: u8 = bytemuck::cast(x);
                        let other = match B::SIGNED {
                            true => i32::from(byte),
                            false => i32::from(byte.cast_signed()),
                        };
                        sum.wrapping_add(other * w.number())
                    });
                    let wanted = match place < count {
                        true => (wanted, requantize.of_sum(wanted)),
                        false => (-5, 77),
                    };
                    assert_eq!((sum, small[i]), wanted, "{stride} {dilation} {count} {i}");
                }
            }
        }
    }

    #[test]
    fn kernels_slide_along_rows() {
        check::<i8>(|i| [-128, 127, (i * 37 % 256) as u8 as i8][i % 3]);
        check::<u8>(|i| [255, 0, (i * 37 % 256) as u8][i % 3]);
    }
}
