//! Boxes of values.

use super::poison::{Poison, copy_element, poisoned};
use optc_ir::Tensor;
use std::ops::Range;
use std::sync::Arc;

/// A box in the coordinates of a value: the elements `start..end` of each dimension. They may lie outside the value.
pub(super) type Region = Vec<Range<i64>>;

/// The extents of a box.
pub(super) fn extents(region: &Region) -> Vec<usize> {
    let extent = |r: &Range<i64>| usize::try_from(r.end - r.start).unwrap_or(0);
    region.iter().map(extent).collect()
}

/// All of a value of this shape.
pub(super) fn whole(shape: &[usize]) -> Region {
    shape.iter().map(|&n| 0..n.cast_signed() as i64).collect()
}

/// The part of a box that lies in another one.
pub(super) fn intersection(a: &Region, b: &Region) -> Region {
    let both = |(a, b): (&Range<i64>, &Range<i64>)| {
        let start = a.start.max(b.start);
        start..a.end.min(b.end).max(start)
    };
    a.iter().zip(b).map(both).collect()
}

/// Returns whether a box has no element.
pub(super) fn is_empty(region: &Region) -> bool {
    region.iter().any(|r| r.end <= r.start)
}

/// The elements of a value that lie in a box.
#[derive(Clone, Debug)]
pub(super) struct Fragment {
    pub(super) region: Region,
    /// The elements; its shape is that of the region.
    pub(super) tensor: Arc<Tensor>,
}

impl Fragment {
    /// A value in memory.
    pub(super) fn of_memory(tensor: Arc<Tensor>) -> Fragment {
        Fragment {
            region: whole(&tensor.shape),
            tensor,
        }
    }

    /// The elements in `region`; missing ones are poison.
    pub(super) fn crop(&self, region: &Region, poison: Poison) -> Tensor {
        let mut out = poisoned(self.tensor.dtype, &extents(region), poison);
        self.copy_into(&mut out, region);
        out
    }

    /// Copies the elements of the fragment that lie in `region` into a tensor of that region.
    pub(super) fn copy_into(&self, out: &mut Tensor, region: &Region) {
        let both = intersection(&self.region, region);
        let (from, to) = (self.tensor.strides(), out.strides());
        for_each_row(&both, |at, length| {
            let i = offset(at, &self.region, &from);
            let j = offset(at, region, &to);
            for k in 0..length {
                copy_element(out, j + k, &self.tensor, i + k);
            }
        });
    }
}

/// The offset of an element in a tensor of a box; the element must be in the box.
pub(super) fn offset(at: &[i64], region: &Region, strides: &[usize]) -> usize {
    let steps = at.iter().zip(region).zip(strides);
    steps.fold(0, |sum, ((i, r), stride)| {
        sum + usize::try_from(i - r.start).unwrap_or(0) * stride
    })
}

/// Calls `see` with the first element of every row of a box and the length of the rows.
pub(super) fn for_each_row(region: &Region, mut see: impl FnMut(&[i64], usize)) {
    if is_empty(region) {
        return;
    }
    let mut at: Vec<i64> = region.iter().map(|r| r.start).collect();
    let Some(last) = region.len().checked_sub(1) else {
        return see(&at, 1);
    };
    let length = usize::try_from(region[last].end - region[last].start).unwrap_or(0);
    loop {
        see(&at, length);
        let mut dim = last;
        loop {
            if dim == 0 {
                return;
            }
            dim -= 1;
            at[dim] += 1;
            if at[dim] < region[dim].end {
                break;
            }
            at[dim] = region[dim].start;
        }
    }
}

/// Calls `see` with every element of a box, in row-major order.
pub(super) fn for_each(region: &Region, mut see: impl FnMut(&[i64])) {
    for_each_row(region, |at, length| {
        let mut at = at.to_vec();
        for _ in 0..length {
            see(&at);
            if let Some(last) = at.last_mut() {
                *last += 1;
            }
        }
    });
}
