//! Interleaving of several streams into one, and deinterleaving.

use super::steps::Repeats;
use std::ops::Range;

/// Interleave or deinterleave.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Direction {
    /// Interleaves streams of the source into a run of the target.
    Interleave,
    /// Deinterleaves a run of the source into streams of the target.
    Deinterleave,
}

/// Element `i` of stream `k` is at `offsets[k] + i * unit` on one side and at `(i * streams + k) * unit` on the other one.
#[derive(Clone, Debug)]
pub struct Streams {
    /// The direction of the move.
    pub direction: Direction,
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub unit: usize,
    /// Elements of a stream.
    pub count: usize,
    /// Offset of each stream, in bytes.
    pub offsets: Vec<isize>,
    /// Loops around the streams.
    pub repeats: Repeats,
    /// For 64-byte vectors: the bytes that each stored vector takes from each loaded one.
    pub(crate) wide: Vec<Pick<64>>,
    /// For 16-byte vectors: the bytes that each stored vector takes from each loaded one.
    pub(crate) narrow: Vec<Pick<16>>,
}

/// The bytes that a vector takes from another one.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Pick<const V: usize> {
    /// For each byte the index of its source; at least 128 if it comes from another vector.
    pub(crate) bytes: [u8; V],
    /// Bit `i` says whether byte `i` comes from this vector.
    pub(crate) mask: u64,
}

impl Streams {
    /// Most streams of one kernel.
    pub const MOST: usize = 8;

    /// Streams of elements of `unit` bytes.
    pub fn new(direction: Direction, unit: usize, count: usize, offsets: Vec<isize>) -> Self {
        let k = offsets.len();
        Self {
            direction,
            unit,
            count,
            wide: picks::<64>(direction, unit, k),
            narrow: picks::<16>(direction, unit, k),
            offsets,
            repeats: Repeats::ONCE,
        }
    }
}

/// For each stored vector, the picks from each loaded vector.
fn picks<const V: usize>(direction: Direction, unit: usize, k: usize) -> Vec<Pick<V>> {
    let mut picks = Vec::with_capacity(k * k);
    for written in 0..k {
        for read in 0..k {
            let mut pick = Pick {
                bytes: [128; V],
                mask: 0,
            };
            for byte in 0..V {
                let (vector, place) = match direction {
                    Direction::Interleave => {
                        let place = written * V + byte;
                        let element = place / unit;
                        (element % k, element / k * unit + place % unit)
                    }
                    Direction::Deinterleave => {
                        let place = (byte / unit * k + written) * unit + byte % unit;
                        (place / V, place % V)
                    }
                };
                if vector == read {
                    pick.bytes[byte] = place as u8;
                    pick.mask |= 1 << byte;
                }
            }
            picks.push(pick);
        }
    }
    picks
}

/// Elements `range` of each stream at some of the repeats.
pub(super) struct StreamsPart<'a> {
    pub(super) streams: &'a Streams,
    pub(super) range: Range<usize>,
    pub(super) repeats: Range<usize>,
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}

impl StreamsPart<'_> {
    /// Start of the streams in both buffers, at each repeat.
    #[inline(always)]
    pub(super) fn places(&self) -> impl Iterator<Item = (*const u8, *mut u8)> + use<> {
        self.streams
            .repeats
            .places(self.repeats.clone(), self.from, self.to)
    }
}
