//! Sums over the places of a kernel, of bytes that lie side by side, each channel by itself: four places at once, as the machine adds four
//! products of bytes to a sum of 32 bits.
//!
//! Four places of 64 channels are woven in registers, which makes vectors of every fourth four channels; weights and what sums begin
//! with are in that order when the work is prepared. The sums are exact, but that they wrap around.

use super::product::{Byte, MOST_COLUMNS, Narrow, Quad, TURNED_ZERO};
use crate::isa::Isa;
use bytemuck::Pod;

/// Channels of a block, and of a vector of sums.
const BLOCK: usize = 64;
const LANES: usize = 16;
/// Places that are multiplied at once.
const QUAD: usize = 4;

/// The weights of the places of a kernel, of channels that lie side by side.
#[derive(Debug)]
pub(crate) struct Places<B> {
    places: usize,
    channels: usize,
    /// Of each block and each four places, the weights of all its channels.
    weights: Vec<Quad<B>>,
    /// What the weights of each channel add up to.
    sums: Vec<i32>,
}

/// The factors and the terms of some channels by which sums are scaled.
pub(crate) type Scales = [[f32; MOST_COLUMNS]; 2];

/// What bytes are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Bytes {
    /// Whether their highest bit is turned before they are multiplied.
    pub(crate) turned: bool,
    /// What they are less, its highest bit turned where theirs is.
    pub(crate) zero: u8,
}

impl Bytes {
    /// Those of the type that they have, less nothing.
    pub(crate) const PLAIN: Bytes = Bytes {
        turned: true,
        zero: TURNED_ZERO,
    };

    /// What of sums of products turned bits and what bytes are less make too much, of weights that add up to this.
    pub(crate) fn more<B: Byte>(self, weights: i32) -> i32 {
        match B::SIGNED {
            true => weights.wrapping_mul(i32::from(self.zero)),
            false => weights.wrapping_mul(-i32::from(TURNED_ZERO)),
        }
    }

    /// The byte that is multiplied as 0.
    pub(crate) fn nothing(self) -> u8 {
        match self.turned {
            true => self.zero ^ TURNED_ZERO,
            false => self.zero,
        }
    }
}

/// Where the channels are that a line of a result is summed from.
#[derive(Debug)]
pub(crate) struct Reads<'a> {
    /// The first channel of each column in each row of the kernel; of padding none.
    pub(crate) columns: &'a [Option<usize>],
    /// The column of each place of the kernel for the first position, and from one position to the next.
    pub(crate) places: &'a [usize],
    pub(crate) stride: usize,
}

/// How many positions of a result there are, and how far apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Positions {
    pub(crate) count: usize,
    pub(crate) step: usize,
}

/// Where in its block a channel comes.
fn place(channel: usize) -> usize {
    let (block, at) = (channel / BLOCK, channel % BLOCK);
    block * BLOCK + at % LANES / 4 * LANES + at / LANES * 4 + at % 4
}

impl<B: Byte> Places<B> {
    /// The weights of so many places and channels, if the machine multiplies four bytes at once.
    pub(crate) fn of(
        places: usize,
        channels: usize,
        weight: impl Fn(usize, usize) -> B,
    ) -> Option<Places<B>> {
        let has = has_dots(Isa::detect());
        (has && 0 < places && 0 < channels).then(|| Places::made(places, channels, weight))
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

    /// What sums of bytes begin with, of each channel, as lines of sums want it.
    ///
    /// # Panics
    /// There are other channels.
    pub(crate) fn begins(
        &self,
        begins: impl ExactSizeIterator<Item = i32>,
        bytes: Bytes,
    ) -> Vec<i32> {
        assert_eq!(begins.len(), self.channels, "each channel has a beginning");
        let mut all = vec![0; self.channels.next_multiple_of(BLOCK)];
        for (channel, (begin, &weights)) in begins.zip(&self.sums).enumerate() {
            all[place(channel)] = begin.wrapping_sub(bytes.more::<B>(weights));
        }
        all
    }

    /// Writes the sums of a line of a result, or what they become.
    ///
    /// # Panics
    /// What is read or written is outside of its list, positions lie in one another, or elements are not of the size of what is written.
    pub(crate) fn line<T: Pod>(
        &self,
        (x, bytes): (&[B], Bytes),
        begins: &[i32],
        reads: &Reads<'_>,
        to: (&mut [T], Positions),
        (narrow, scales): (Option<&Narrow>, Option<&[Scales]>),
    ) {
        let (to, positions) = to;
        let Some(last) = positions.count.checked_sub(1) else {
            return;
        };
        let size = narrow.map_or(size_of::<i32>(), Narrow::size);
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
        let zeros = vec![bytemuck::cast::<u8, B>(bytes.nothing()); self.channels];
        let first = |column: &Option<usize>| match *column {
            None => zeros.as_ptr(),
            Some(at) => x[at..][..self.channels].as_ptr(),
        };
        let columns: Vec<*const B> = reads.columns.iter().map(first).collect();
        // Those behind the last one have no weight.
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
                turned: bytes.turned,
                scales,
                to: to.as_mut_ptr().cast(),
                size,
                positions,
            };
            // SAFETY: each position has a column of each place, of which all channels can be read, and a place of its own for as many elements;
            // all was compared just now. Weights are made on machines alone that have the instructions.
            unsafe { vectors::line(&line, narrow) };
        }
        #[cfg(any(not(target_arch = "x86_64"), miri))]
        let _ = (columns, places, narrow);
    }
}

/// Whether the machine multiplies four bytes at once.
fn has_dots(isa: Isa) -> bool {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        isa == Isa::Avx512 && is_x86_feature_detected!("avx512vnni")
    }
    #[cfg(any(not(target_arch = "x86_64"), miri))]
    {
        let _ = isa;
        false
    }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    use super::{BLOCK, Byte, LANES, MOST_COLUMNS, Positions, QUAD, Quad, Scales};
    use crate::kernels::product::{Narrow, Narrowed, Scales as Scaled, narrow_sums};
    use std::arch::x86_64::*;
    use std::array::from_fn;

    pub(super) struct Line<'a, B> {
        pub(super) channels: usize,
        pub(super) weights: &'a [Quad<B>],
        pub(super) begins: &'a [i32],
        pub(super) columns: &'a [*const B],
        pub(super) places: &'a [usize],
        pub(super) stride: usize,
        /// Whether the highest bits are turned.
        pub(super) turned: bool,
        /// What sums are scaled by, of some channels each.
        pub(super) scales: Option<&'a [Scales]>,
        pub(super) to: *mut u8,
        /// Bytes of what is written.
        pub(super) size: usize,
        pub(super) positions: Positions,
    }

    /// # Safety
    /// As [`some`], of all positions.
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    pub(super) unsafe fn line<B: Byte>(line: &Line<'_, B>, narrow: Option<&Narrow>) {
        for block in 0..line.channels.div_ceil(BLOCK) {
            let mut at = 0;
            // SAFETY: these positions are there, by the caller's promise.
            unsafe {
                while at + 2 <= line.positions.count {
                    some::<B, 2>(line, narrow, block, at);
                    at += 2;
                }
                if at < line.positions.count {
                    some::<B, 1>(line, narrow, block, at);
                }
            }
        }
    }

    /// Positions from `at` on of a block of channels.
    ///
    /// # Safety
    /// Each position has a column of each place, which are whole fours of which all channels can be read, and a place for as many elements of
    /// its own; there are weights and beginnings of whole blocks; on a machine that has the instructions.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw,avx512vl,avx512vnni")]
    unsafe fn some<B: Byte, const P: usize>(
        line: &Line<'_, B>,
        narrow: Option<&Narrow>,
        block: usize,
        at: usize,
    ) {
        let first = block * BLOCK;
        let there = (line.channels - first).min(BLOCK);
        let mask = u64::MAX >> (BLOCK - there);
        let turn = _mm512_set1_epi8(if line.turned { -128 } else { 0 });
        // SAFETY: the caller's promises; of a block nothing is read or written but the channels that there are.
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
                    let quads = woven(bytes);
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
                sorted[p] = in_order(sums[p]);
            }
            match narrow {
                Some(by) => {
                    // As many channels as scales have together.
                    for half in 0..there.div_ceil(MOST_COLUMNS) {
                        let at = half * MOST_COLUMNS;
                        let rows: [*mut u8; P] = from_fn(|p| place(p).add(at * line.size));
                        let scales = line.scales.map(|all| &all[first / MOST_COLUMNS + half]);
                        let to = Narrowed {
                            scales: scales.map(Scaled::Columns),
                            by,
                            rows: &rows,
                            columns: (there - at).min(MOST_COLUMNS),
                        };
                        let own: [[__m512i; 2]; P] =
                            from_fn(|p| [sorted[p][2 * half], sorted[p][2 * half + 1]]);
                        narrow_sums(to, &own, 0);
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

    /// The bytes of each channel of four places beside one another: those of channels 0 to 4, 16 to 20, 32 to 36 and 48 to 52, then the next
    /// ones.
    #[inline]
    #[target_feature(enable = "avx512f,avx512bw")]
    fn woven([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
        let low = [_mm512_unpacklo_epi8(a, b), _mm512_unpacklo_epi8(c, d)];
        let high = [_mm512_unpackhi_epi8(a, b), _mm512_unpackhi_epi8(c, d)];
        [
            _mm512_unpacklo_epi16(low[0], low[1]),
            _mm512_unpackhi_epi16(low[0], low[1]),
            _mm512_unpacklo_epi16(high[0], high[1]),
            _mm512_unpackhi_epi16(high[0], high[1]),
        ]
    }

    /// Sums of channels in that order, in the order of channels.
    #[inline]
    #[target_feature(enable = "avx512f")]
    fn in_order([a, b, c, d]: [__m512i; 4]) -> [__m512i; 4] {
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

    /// Lines of sums, and of bytes that they become, beside sums one by one.
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
            let begins = of.begins((0..channels).map(begin), Bytes::PLAIN);
            for (count, stride, step) in [(1, 1, channels), (7, 1, channels + 3), (4, 2, 300)] {
                let width = places + count * stride;
                let x: Vec<B> = (0..width * channels + 5).map(&number).collect();
                // The last column ends where the list does.
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
                let given = (&x[..], Bytes::PLAIN);
                of.line(given, &begins, &reads, (&mut sums, positions), (None, None));
                let narrow = Narrow::of(1e-3, 0.0, 0.7, Some(3.0), [0.0, 255.0]);
                let narrow = narrow.expect("all are finite");
                let mut bytes = vec![77u8; long];
                let how = (Some(&narrow), None);
                of.line(given, &begins, &reads, (&mut bytes, positions), how);
                for at in 0..long {
                    let (position, c) = (at / step, at % step);
                    let wanted = match c < channels {
                        true => (sum(position, c), narrow.of_sum(sum(position, c))),
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
