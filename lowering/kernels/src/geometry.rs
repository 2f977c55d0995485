//! Geometry of convolutions: offsets of the operands and positions of the kernel.

/// Most spatial dimensions.
pub const DIMS: usize = 3;

/// A convolution along one spatial dimension.
#[derive(Clone, Copy, Debug)]
pub struct ConvDim {
    /// Taps of the kernel.
    pub kernel: usize,
    /// Distance between positions.
    pub stride: usize,
    /// Distance between taps.
    pub dilation: usize,
    /// Padding before the first element.
    pub low: usize,
    /// Extent of the operand.
    pub input: usize,
    /// Extent of the result.
    pub output: usize,
}

/// Base offsets and tables of offsets by dimension, with groups as a dimension of their own. The entries are the result N G
/// O spatial, the operand N G C spatial, the weights G O C kernel, and the bias, whose dimensions are those of the result.
#[derive(Clone, Debug)]
pub struct ConvOffsets {
    /// Offset of the first element of each value.
    pub base: [i64; 4],
    /// Offsets along each dimension of each value.
    pub tables: [Vec<Vec<i64>>; 4],
    /// The spatial dimensions.
    pub dims: Vec<ConvDim>,
}

impl ConvDim {
    /// Distance from the first place that the kernel reads to the last one, with padding.
    pub fn last(&self) -> usize {
        (self.output - 1) * self.stride + (self.kernel - 1) * self.dilation
    }

    /// The element that tap `kernel` reads for place `place` of the result; `None` if it is padding.
    #[inline(always)]
    pub fn reads(&self, place: usize, kernel: usize) -> Option<usize> {
        let at = place * self.stride + kernel * self.dilation;
        at.checked_sub(self.low).filter(|&i| i < self.input)
    }
}

/// The stride of offsets, if it is constant.
pub fn step(table: &[i64]) -> Option<i64> {
    let step = table.get(1).copied().unwrap_or(0);
    let even = table
        .iter()
        .enumerate()
        .all(|(i, &offset)| offset == step * i as i64);
    even.then_some(step)
}

/// The least and the greatest sum of a base and one offset of each table.
pub fn reach(base: i64, tables: &[Vec<i64>]) -> (i64, i64) {
    tables.iter().fold((base, base), |(low, high), table| {
        let (least, most) = (table.iter().min(), table.iter().max());
        (
            low + least.copied().unwrap_or(0),
            high + most.copied().unwrap_or(0),
        )
    })
}

/// Consecutive positions along the last dimension.
pub(crate) struct Run {
    pub(crate) first: usize,
    pub(crate) count: usize,
    pub(crate) place: [i32; DIMS],
    pub(crate) offset: i64,
}

/// Copies elements whose places are `step` apart, the first at `offset`, with `rest` for places that are padding.
#[inline(always)]
pub(crate) fn copy_padded<E: Copy>(
    source: &[E],
    offset: i64,
    (first, size): (i32, i32),
    (step, stride): (i32, i64),
    (to, rest): (&mut [E], E),
) {
    let count = to.len();
    let last = first + (count as i32 - 1) * step;
    if 0 <= first && last < size {
        return copy_strided(source, offset, stride, to);
    }
    let low = (-first).max(0) as usize;
    let low = low.div_ceil(step as usize).min(count);
    let high = ((size - first).max(0) as usize).div_ceil(step as usize);
    let high = high.clamp(low, count);
    to[..low].fill(rest);
    to[high..].fill(rest);
    let from = offset + low as i64 * stride;
    copy_strided(source, from, stride, &mut to[low..high]);
}

/// Copies elements a stride apart.
#[inline(always)]
fn copy_strided<E: Copy>(source: &[E], offset: i64, stride: i64, to: &mut [E]) {
    if to.is_empty() {
        return;
    }
    let at = offset as usize;
    if stride == 1 {
        if let Ok(to) = <&mut [E; 16]>::try_from(&mut *to) {
            to.copy_from_slice(&source[at..at + 16]);
        } else {
            let from = &source[at..at + to.len()];
            to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        }
        return;
    }
    if stride == 2
        && let Some(part) = source.get(at..at + 2 * to.len() - 1)
        && let Some((last, to)) = to.split_last_mut()
    {
        let (pairs, rest) = part.as_chunks::<2>();
        to.iter_mut()
            .zip(pairs)
            .for_each(|(to, from)| *to = from[0]);
        rest.iter().for_each(|from| *last = *from);
        return;
    }
    if let Some(part) = source.get(at..)
        && 0 < stride
    {
        let from = part.iter().step_by(stride as usize);
        to.iter_mut().zip(from).for_each(|(to, from)| *to = *from);
        return;
    }
    for (i, to) in to.iter_mut().enumerate() {
        *to = source[(offset + stride * i as i64) as usize];
    }
}
