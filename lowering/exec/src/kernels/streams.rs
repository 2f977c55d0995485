//! Some streams that are woven into one, or one that is taken apart.

use super::steps::Repeats;
use std::ops::Range;

/// Which side has one run and which has the streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Direction {
    /// From streams of the source to a run of the target.
    Weave,
    /// From a run of the source to streams of the target.
    Part,
}

/// Element `i` of stream `k` lies at `offsets[k] + i * unit` on one side, and at `(i * streams + k) * unit` on
/// the other one.
#[derive(Clone, Debug)]
pub(crate) struct Streams {
    pub(crate) direction: Direction,
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub(crate) unit: usize,
    /// Elements of a stream.
    pub(crate) count: usize,
    pub(crate) offsets: Vec<isize>,
    /// The same streams at other places.
    pub(crate) repeats: Repeats,
    /// For 64-byte vectors, what each vector that is written takes of each that is read.
    pub(crate) wide: Vec<Pick<64>>,
    /// The same for 16-byte vectors.
    pub(crate) narrow: Vec<Pick<16>>,
}

/// The bytes that a vector takes of another one.
#[derive(Clone, Copy, Debug)]
#[repr(C, align(64))]
pub(crate) struct Pick<const V: usize> {
    /// The byte that each byte is; 128 and more where it is none.
    pub(crate) bytes: [u8; V],
    /// Bit `i` says whether byte `i` is one.
    pub(crate) mask: u64,
}

impl Streams {
    /// The most streams that one kernel takes.
    pub(crate) const MOST: usize = 8;

    pub(crate) fn new(
        direction: Direction,
        unit: usize,
        count: usize,
        offsets: Vec<isize>,
    ) -> Self {
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

/// For each vector that is written, what it takes of each vector that is read.
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
                    Direction::Weave => {
                        let place = written * V + byte;
                        let element = place / unit;
                        (element % k, element / k * unit + place % unit)
                    }
                    Direction::Part => {
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

/// Elements `range` of each stream at some of the places.
pub(super) struct StreamsPart<'a> {
    pub(super) streams: &'a Streams,
    pub(super) range: Range<usize>,
    pub(super) repeats: Range<usize>,
    pub(super) from: *const u8,
    pub(super) to: *mut u8,
}

impl StreamsPart<'_> {
    /// Where the streams begin on both sides, at each place.
    #[inline(always)]
    pub(super) fn places(&self) -> impl Iterator<Item = (*const u8, *mut u8)> + use<> {
        self.streams
            .repeats
            .places(self.repeats.clone(), self.from, self.to)
    }
}
