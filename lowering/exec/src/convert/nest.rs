//! The loops that move one box of elements, with contiguous loops merged.

use optc_kernels::moves::Loop;
use optc_layout::{AffineBox, AffineOffsets};

/// Loops around runs of `unit` bits or bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Nest {
    pub(crate) from: isize,
    pub(crate) to: isize,
    pub(crate) unit: usize,
    /// Loops by decreasing stride in the target.
    pub(crate) loops: Vec<Loop>,
}

/// Start and strides of one side, in bits.
fn side(offsets: &AffineOffsets, bits: isize) -> Option<(isize, Vec<isize>)> {
    let scaled = |n: &i64| isize::try_from(*n).ok()?.checked_mul(bits);
    let strides: Option<Vec<isize>> = offsets.strides.iter().map(scaled).collect();
    Some((scaled(&offsets.base)?, strides?))
}

impl Nest {
    /// The nest of a box of elements of `bits` bits, with offsets in bits. `None` if it may write a place twice or exceed
    /// one of the buffers, whose sizes in bits are `limits`.
    pub(crate) fn new(boxed: &AffineBox, bits: u32, limits: [usize; 2]) -> Option<Nest> {
        let bits = isize::try_from(bits).ok()?;
        let (mut from, from_strides) = side(&boxed.from, bits)?;
        let (mut to, to_strides) = side(&boxed.to, bits)?;
        let mut loops = Vec::with_capacity(boxed.sizes.len());
        for (i, &size) in boxed.sizes.iter().enumerate() {
            let count = usize::try_from(size).ok()?;
            let mut one = Loop {
                count,
                from: from_strides[i],
                to: to_strides[i],
            };
            if count <= 1 {
                continue;
            }
            if one.to < 0 {
                let last = isize::try_from(count - 1).ok()?;
                from = from.checked_add(one.from.checked_mul(last)?)?;
                to = to.checked_add(one.to.checked_mul(last)?)?;
                (one.from, one.to) = (one.from.checked_neg()?, -one.to);
            }
            loops.push(one);
        }
        loops.sort_by_key(|l| std::cmp::Reverse((l.to, l.from)));
        let mut nest = Nest {
            from,
            to,
            unit: bits.unsigned_abs(),
            loops,
        };
        (nest.is_inside(limits)? && nest.writes_once()?).then_some(())?;
        nest.merge();
        Some(nest)
    }

    /// Returns whether all places are inside of buffers of `limits` bits.
    fn is_inside(&self, limits: [usize; 2]) -> Option<bool> {
        let [mut low_from, mut high_from] = [self.from; 2];
        let mut high_to = self.to;
        for l in &self.loops {
            let last = isize::try_from(l.count - 1).ok()?;
            let reach = l.from.checked_mul(last)?;
            low_from = low_from.checked_add(reach.min(0))?;
            high_from = high_from.checked_add(reach.max(0))?;
            high_to = high_to.checked_add(l.to.checked_mul(last)?)?;
        }
        let ends = |low: isize, high: isize, limit: usize| {
            let end = usize::try_from(high).ok()?.checked_add(self.unit)?;
            Some(0 <= low && end <= limit)
        };
        let source = 0 <= low_from && ends(low_from, high_from, limits[0])?;
        Some(source && 0 <= self.to && ends(self.to, high_to, limits[1])?)
    }

    /// Returns whether each loop's stride in the target is at least the reach of the loops inside of it, so that no place
    /// is written twice.
    fn writes_once(&self) -> Option<bool> {
        let mut reach = isize::try_from(self.unit).ok()?;
        for l in self.loops.iter().rev() {
            if l.to < reach {
                return Some(false);
            }
            let last = isize::try_from(l.count - 1).ok()?;
            reach = reach.checked_add(l.to.checked_mul(last)?)?;
        }
        Some(true)
    }

    /// Merges loops that are contiguous on both sides, and merges the innermost loop into the run.
    fn merge(&mut self) {
        let mut merged: Vec<Loop> = Vec::with_capacity(self.loops.len());
        for &inner in &self.loops {
            let count = inner.count as isize;
            match merged.last_mut() {
                Some(outer)
                    if outer.to == inner.to * count
                        && Some(outer.from) == inner.from.checked_mul(count) =>
                {
                    *outer = Loop {
                        count: outer.count * inner.count,
                        ..inner
                    };
                }
                _ => merged.push(inner),
            }
        }
        let unit = self.unit as isize;
        if let Some(last) = merged.last()
            && last.to == unit
            && last.from == unit
        {
            self.unit *= last.count;
            merged.pop();
        }
        self.loops = merged;
    }

    /// The nest with offsets in bytes, if all offsets are whole bytes.
    pub(crate) fn in_bytes(&self) -> Option<Nest> {
        let part = |n: isize| (n % 8 == 0).then_some(n / 8);
        let whole = self.unit.is_multiple_of(8);
        let loops = self.loops.iter().map(|l| {
            Some(Loop {
                from: part(l.from)?,
                to: part(l.to)?,
                ..*l
            })
        });
        Some(Nest {
            from: part(self.from)?,
            to: part(self.to)?,
            unit: whole.then_some(self.unit / 8)?,
            loops: loops.collect::<Option<_>>()?,
        })
    }

    /// Number of runs that it moves.
    pub(crate) fn units(&self) -> usize {
        self.loops.iter().map(|l| l.count).product()
    }
}
