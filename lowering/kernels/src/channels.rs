//! Depthwise convolution of bytes whose channels are contiguous, by VNNI: four taps at once.
//!
//! The bytes of 64 channels at four taps are interleaved in registers into quads of four taps. That permutes the channels
//! (0 to 3, 16 to 19, 32 to 35, 48 to 51, then 4 to 7, ..), so weights and initial values are stored in the permuted order
//! when the work is prepared, and sums are permuted back. Sums are exact, except that they wrap around.
#![expect(unsafe_code, reason = "vector instructions read and write by pointers")]

use super::product::{Byte, FLIPPED_ZERO, MOST_COLUMNS, Quad, Requantize};
use crate::isa::Isa;
use bytemuck::Pod;

/// Channels of a block, and of a vector of sums.
const BLOCK: usize = 64;
const LANES: usize = 16;
/// Taps that are multiplied at once.
const QUAD: usize = 4;

/// Packed weights of a depthwise convolution with contiguous channels.
#[derive(Debug)]
pub(crate) struct Places<B> {
    places: usize,
    channels: usize,
    /// For each block and each four taps, the weights of all channels of the block.
    weights: Vec<Quad<B>>,
    /// Sum of the weights of each channel.
    sums: Vec<i32>,
}

/// Scales and biases of the sums of some channels.
pub(crate) type Scales = [[f32; MOST_COLUMNS]; 2];

/// Signs and zero point of the operand's bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Quantized {
    /// True if their sign bit is flipped before they are multiplied.
    pub(crate) sign_flipped: bool,
    /// Zero point, whose sign bit is flipped where that of the bytes is.
    pub(crate) zero: u8,
}

impl Quantized {
    /// Bytes of the weights' type with zero point 0.
    pub(crate) const PLAIN: Quantized = Quantized {
        sign_flipped: true,
        zero: FLIPPED_ZERO,
    };

    /// The excess of a sum of products through flipped sign bits and the zero point; `weights` is the sum of the weights.
    pub(crate) fn compensation<B: Byte>(self, weights: i32) -> i32 {
        match B::SIGNED {
            true => weights.wrapping_mul(i32::from(self.zero)),
            false => weights.wrapping_mul(-i32::from(FLIPPED_ZERO)),
        }
    }

    /// The byte that stands for 0 before sign bits are flipped.
    pub(crate) fn zero_byte(self) -> u8 {
        match self.sign_flipped {
            true => self.zero ^ FLIPPED_ZERO,
            false => self.zero,
        }
    }
}

/// The inputs of a row of positions.
#[derive(Debug)]
pub(crate) struct Reads<'a> {
    /// Offset of the first channel of each column in each row of the kernel; `None` for padding.
    pub(crate) columns: &'a [Option<usize>],
    /// Index in `columns` of each tap for the first position, and the stride of positions.
    pub(crate) places: &'a [usize],
    pub(crate) stride: usize,
}

/// Number of positions of a row, and the elements between them in the result.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positions {
    pub(crate) count: usize,
    pub(crate) step: usize,
}

/// Index of a channel in the permuted order.
fn place(channel: usize) -> usize {
    let (block, at) = (channel / BLOCK, channel % BLOCK);
    block * BLOCK + at % LANES / 4 * LANES + at / LANES * 4 + at % 4
}

impl<B: Byte> Places<B> {
    /// Packs the weights of taps and channels; `None` without AVX-512.
    pub(crate) fn of(
        places: usize,
        channels: usize,
        weight: impl Fn(usize, usize) -> B,
    ) -> Option<Places<B>> {
        let dots = Isa::current() == Isa::Avx512;
        (dots && 0 < places && 0 < channels).then(|| Places::made(places, channels, weight))
    }

    fn made(places: usize, channels: usize, weight: impl Fn(usize, usize) -> B) -> Places<B> {
        let (blocks, groups) = (channels.div_ceil(BLOCK), places.div_ceil(QUAD));
        let mut weights = vec![[B::zeroed(); QUAD]; blocks * groups * BLOCK];
        let mut sums = vec![0i32; channels];
        for (channel, sum) in sums.iter_mut().enumerate() {
            let at = place(channel % BLOCK);
            for p in 0..places {
                let line = (channel / BLOCK * groups + p / QUAD) * BLOCK;
                let weight = weight(p, channel);
                weights[line + at][p % QUAD] = weight;
                *sum = sum.wrapping_add(weight.number());
            }
        }
        Places {
            places,
            channels,
            weights,
            sums,
        }
    }

    /// Bytes of the weights.
    pub(crate) fn bytes(&self) -> usize {
        size_of_val(&self.weights[..]) + size_of_val(&self.sums[..])
    }

    /// Initial values of the sums of each channel, with compensation, in the permuted order.
    ///
    /// # Panics
    /// The number of channels differs.
    pub(crate) fn begins(
        &self,
        begins: impl ExactSizeIterator<Item = i32>,
        bytes: Quantized,
    ) -> Vec<i32> {
        assert_eq!(begins.len(), self.channels, "each channel has a beginning");
        let mut all = vec![0; self.channels.next_multiple_of(BLOCK)];
        for (channel, (begin, &weights)) in begins.zip(&self.sums).enumerate() {
            all[place(channel)] = begin.wrapping_sub(bytes.compensation::<B>(weights));
        }
        all
    }

    /// Computes a row of positions and writes the sums, or with `requantize` their requantization.
    ///
    /// # Panics
    /// An access is out of bounds, positions overlap, or elements do not have the size of what is written.
    pub(crate) fn line<T: Pod>(
        &self,
        (x, bytes): (&[B], Quantized),
        begins: &[i32],
        reads: &Reads<'_>,
        to: (&mut [T], Positions),
        (requantize, scales): (Option<&Requantize>, Option<&[Scales]>),
    ) {
        let (to, positions) = to;
        let Some(last) = positions.count.checked_sub(1) else {
            return;
        };
        let size = requantize.map_or(size_of::<i32>(), Requantize::size);
        assert_eq!(size, size_of::<T>(), "elements are what sums become");
        let whole = self.channels.next_multiple_of(BLOCK);
        assert_eq!(begins.len(), whole, "all sums begin with something");
        assert_eq!(reads.places.len(), self.places, "each place has a column");
        let inside = |first: usize, step: usize, len: usize| {
            let end = last.checked_mul(step).and_then(|n| n.checked_add(first));
            end.is_some_and(|end| end < len)
        };
        let mut columns = reads.places.iter();
        assert!(
            columns.all(|&first| inside(first, reads.stride, reads.columns.len())),
            "each place has a column at each position"
        );
        assert!(
            (last == 0 || self.channels <= positions.step)
                && inside(self.channels - 1, positions.step, to.len()),
            "positions lie apart and inside of the result"
        );
        let parts = self.channels.div_ceil(MOST_COLUMNS);
        assert!(
            scales.is_none_or(|scales| scales.len() == parts),
            "each channel has a scale"
        );
        let zeros = vec![bytemuck::cast::<u8, B>(bytes.zero_byte()); self.channels];
        let first = |column: &Option<usize>| match *column {
            None => zeros.as_ptr(),
            Some(at) => x[at..][..self.channels].as_ptr(),
        };
        let columns: Vec<*const B> = reads.columns.iter().map(first).collect();
        // Taps beyond the last one have weights 0.
        let mut places = reads.places.to_vec();
        places.resize(self.places.next_multiple_of(QUAD), reads.places[0]);
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        {
            let line = vectors::Line {
                channels: self.channels,
                weights: &self.weights,
                begins,
                columns: &columns,
                places: &places,
                stride: reads.stride,
                sign_flipped: bytes.sign_flipped,
                scales,
                to: to.as_mut_ptr().cast(),
                size,
                positions,
            };
            // SAFETY: each position has a column for each tap, all channels of which are readable, and a place of its own
            // for as many elements; all of this was checked above. Weights are made only on machines that have the
            // instructions.
            unsafe { vectors::line(&line, requantize) };
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = (columns, places, requantize);
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    use super::{BLOCK, Byte, LANES, MOST_COLUMNS, Positions, QUAD, Quad, Scales};
    use crate::product::{Requantize, RequantizedRows, Scales as Scaled, requantize_sums};
    use std::arch::x86_64::*;
    use std::array::from_fn;

    pub(super) struct Line<'a, B> {
        pub(super) channels: usize,
        pub(super) weights: &'a [Quad<B>],
        pub(super) begins: &'a [i32],
        pub(super) columns: &'a [*const B],
        pub(super) places: &'a [usize],
        pub(super) stride: usize,
        /// True if sign bits are flipped.
        pub(super) sign_flipped: bool,
        /// Scales and biases, for some channels each.
        pub(super) scales: Option<&'a [Scales]>,
        pub(super) to: *mut u8,
        /// Bytes of an element that is written.
        pub(super) size: usize,
        pub(super) positions: Positions,
    }

    /// # Safety
    /// As [`some`], for all positions.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) unsafe fn line<B: Byte>(line: &Line<'_, B>, requantize: Option<&Requantize>) {
        for block in 0..line.channels.div_ceil(BLOCK) {
            let mut at = 0;
            // SAFETY: these positions exist, by the caller's promise.
            unsafe {
                while at + 2 <= line.positions.count {
                    some::<B, 2>(line, requantize, block, at);
                    at += 2;
                }
                if at < line.positions.count {
                    some::<B, 1>(line, requantize, block, at);
                }
            }
        }
    }

    /// Computes `P` positions from `at` on, for a block of channels.
    ///
    /// # Safety
    /// Each position has a column for each tap, all channels of which are readable, and a place of its own for as many
    /// elements. The number of taps is a multiple of four. There are weights and initial values for whole blocks. The
    /// machine has these instructions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn some<B: Byte, const P: usize>(
        line: &Line<'_, B>,
        requantize: Option<&Requantize>,
        block: usize,
        at: usize,
    ) {
        let first = block * BLOCK;
        let there = (line.channels - first).min(BLOCK);
        let mask = u64::MAX >> (BLOCK - there);
        let turn = _mm512_set1_epi8(if line.sign_flipped { -128 } else { 0 });
        // SAFETY: the caller's promises; masks exclude the channels of the block that do not exist.
        unsafe {
            let begins = line.begins.as_ptr().add(first);
            let begins: [__m512i; 4] =
                from_fn(|k| _mm512_loadu_si512(begins.add(k * LANES).cast()));
            let mut sums = [begins; P];
            let groups = line.places.len() / QUAD;
            let mut weights = line.weights.as_ptr().add(block * groups * BLOCK);
            for places in line.places.as_chunks::<QUAD>().0 {
                let own: [__m512i; 4] =
                    from_fn(|k| _mm512_loadu_si512(weights.add(k * LANES).cast()));
                for (p, sums) in sums.iter_mut().enumerate() {
                    let bytes: [__m512i; 4] = from_fn(|j| {
                        let column = places[j] + (at + p) * line.stride;
                        let from = (*line.columns.get_unchecked(column)).add(first);
                        _mm512_xor_si512(_mm512_maskz_loadu_epi8(mask, from.cast()), turn)
                    });
                    let quads = interleave(bytes);
                    for (k, sum) in sums.iter_mut().enumerate() {
                        *sum = match B::SIGNED {
                            true => _mm512_dpbusd_epi32(*sum, quads[k], own[k]),
                            false => _mm512_dpbusd_epi32(*sum, own[k], quads[k]),
                        };
                    }
                }
                weights = weights.add(BLOCK);
            }
            let step = line.positions.step;
            let place = |p: usize| line.to.add(((at + p) * step + first) * line.size);
            let mut sorted = [[_mm512_setzero_si512(); 4]; P];
            for p in 0..P {
                sorted[p] = deinterleave(sums[p]);
            }
            match requantize {
                Some(by) => {
                    // Half a block at a time: as many channels as one array of scales has.
                    for half in 0..there.div_ceil(MOST_COLUMNS) {
                        let at = half * MOST_COLUMNS;
                        let rows: [*mut u8; P] = from_fn(|p| place(p).add(at * line.size));
                        let scales = line.scales.map(|all| &all[first / MOST_COLUMNS + half]);
                        let to = RequantizedRows {
                            scales: scales.map(Scaled::Columns),
                            by,
                            rows: &rows,
                            columns: (there - at).min(MOST_COLUMNS),
                        };
                        let own: [[__m512i; 2]; P] =
                            from_fn(|p| [sorted[p][2 * half], sorted[p][2 * half + 1]]);
                        requantize_sums(to, &own, 0);
                    }
                }
                None => {
                    for (p, sums) in sorted.iter().enumerate() {
                        let to: *mut i32 = place(p).cast();
                        for (k, &sums) in sums.iter().enumerate() {
                            let mask = (mask >> (k * LANES)) as u16;
                            _mm512_mask_storeu_epi32(to.add(k * LANES), mask, sums);
                        }
                    }
                }
            }
        }
    }

    /// Interleaves the bytes of four taps into quads: channels 0 to 3, 16 to 19, 32 to 35 and 48 to 51, then the next four
    /// of each.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn interleave([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        let low = [_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d)];
        let high = [_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d)];
        [
            _mm512_unpacklo_epi16(low[0], low[1]),
            _mm512_unpackhi_epi16(low[0], low[1]),
            _mm512_unpacklo_epi16(high[0], high[1]),
            _mm512_unpackhi_epi16(high[0], high[1]),
        ]
    }

    /// Permutes sums back to the order of channels.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn deinterleave([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        let low = [
            _mm512_shuffle_i32x4::<0x44>(a, b),
            _mm512_shuffle_i32x4::<0x44>(c, d),
        ];
        let high = [
            _mm512_shuffle_i32x4::<0xEE>(a, b),
            _mm512_shuffle_i32x4::<0xEE>(c, d),
        ];
        [
            _mm512_shuffle_i32x4::<0x88>(low[0], low[1]),
            _mm512_shuffle_i32x4::<0xDD>(low[0], low[1]),
            _mm512_shuffle_i32x4::<0x88>(high[0], high[1]),
            _mm512_shuffle_i32x4::<0xDD>(high[0], high[1]),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares rows of sums, and of bytes that they are requantized to, with sums of single products.
    fn check<B: Byte>(number: impl Fn(usize) -> B) {
        for (channels, places) in [
            (1, 9),
            (15, 1),
            (16, 4),
            (58, 9),
            (64, 25),
            (65, 3),
            (200, 8),
        ] {
            let weight = |p: usize, c: usize| number(p * 97 + c * 5);
            let Some(of) = Places::of(places, channels, weight) else {
                return;
            };
            let begin = |c: usize| match c % 5 {
                0 => i32::MAX - 3,
                1 => 0,
                _ => c as i32 * 977 - 30_000,
            };
            let begins = of.begins((0..channels).map(begin), Quantized::PLAIN);
            for (count, stride, step) in [(1, 1, channels), (7, 1, channels + 3), (4, 2, 300)] {
                let width = places + count * stride;
                let x: Vec<B> = (0..width * channels + 5).map(&number).collect();
                // The last column ends at the end of the list.
                let column = |i: usize| (i % 4 != 1).then_some(i * channels + 5);
                let columns: Vec<Option<usize>> = (0..width).map(column).collect();
                let taps: Vec<usize> = (0..places).map(|p| (p * 3) % places).collect();
                let reads = Reads {
                    columns: &columns,
                    places: &taps,
                    stride,
                };
                let positions = Positions { count, step };
                let sum = |position: usize, c: usize| -> i32 {
                    (0..places).fold(begin(c), |sum, p| {
                        let at = columns[taps[p] + position * stride];
                        let x = at.map_or(0, |at| x[at + c].number());
                        sum.wrapping_add(x * weight(p, c).number())
                    })
                };
                let long = (count - 1) * step + channels;
                let mut sums = vec![-7i32; long];
                let given = (&x[..], Quantized::PLAIN);
                of.line(given, &begins, &reads, (&mut sums, positions), (None, None));
                let requantize = Requantize::of(1e-3, 0.0, 0.7, Some(3.0), [0.0, 255.0]);
                let requantize = requantize.expect("all are finite");
                let mut bytes = vec![77u8; long];
                let how = (Some(&requantize), None);
                of.line(given, &begins, &reads, (&mut bytes, positions), how);
                for at in 0..long {
                    let (position, c) = (at / step, at % step);
                    let wanted = match c < channels {
                        true => (sum(position, c), requantize.of_sum(sum(position, c))),
                        false => (-7, 77),
                    };
                    assert_eq!((sums[at], bytes[at]), wanted, "{channels} {places} {at}");
                }
            }
        }
    }

    #[test]
    fn channels_are_summed_as_their_numbers_are() {
        check::<i8>(|i| [-128, 127, (i * 37 % 256) as u8 as i8, -128][i % 4]);
        check::<i8>(|_| -128);
        check::<u8>(|i| [255, 0, (i * 37 % 256) as u8, 255][i % 4]);
        check::<u8>(|_| 255);
    }
}
