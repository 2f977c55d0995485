//! A placement as a mixed radix: the linear digits of its dimensions in the order of the buffer.

use crate::build::element_count;
use crate::chain::{Chain, Cut, normalize, split, steps};
use crate::error::LayoutError;
use crate::function::{Function, concat};
use crate::placement::{Placement, Storage};

/// One physical digit of a layout: a run of positions that counts `index[dim] / div`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Mode {
    /// The logical dimension.
    pub dim: usize,
    /// The number of indices that share a value of the digit.
    pub div: u64,
    /// The number of values; 1 for positions that no element uses.
    pub count: u64,
    /// Physical positions, padding included, at least `count`.
    pub extent: u64,
}

impl Placement {
    /// The placement whose physical digits are `modes`, major to minor: the inverse of
    /// [`Placement::modes`].
    ///
    /// # Errors
    /// The modes of a dimension are not a mixed radix of its size, or the size overflows.
    pub(crate) fn from_modes(
        shape: &[u64],
        elem_bits: u32,
        modes: &[Mode],
    ) -> Result<Placement, LayoutError> {
        let overflow = || LayoutError::overflow(shape);
        let elements = element_count(shape).ok_or_else(overflow)?;
        if elements == 0 {
            return Ok(Placement::row_major(shape, elem_bits));
        }
        let positions = modes_size(modes).ok_or_else(overflow)?;
        let mut chains = vec![Vec::new(); shape.len()];
        let mut stride = positions;
        for mode in modes {
            if mode.extent < mode.count.max(1) || shape.len() <= mode.dim {
                return Err(LayoutError::Modes {
                    dim: mode.dim,
                    size: 0,
                });
            }
            stride /= mode.extent.max(1);
            chains[mode.dim].push((*mode, stride as i64));
        }
        let mut parts = Vec::with_capacity(shape.len());
        for (dim, (&size, list)) in shape.iter().zip(&mut chains).enumerate() {
            parts.push((size, dimension_chain(dim, size, list)?));
        }
        let chain = concat(parts.iter().map(|(size, part)| (*size, &**part)));
        let chain = if elements <= 1 { Chain::new() } else { chain };
        let function = Function::logical(chain, 0);
        let storage = Storage::of_type(positions, elem_bits);
        Ok(Placement::new(shape, elements, function, storage))
    }

    /// The maximal linear digits of each dimension, sorted major to minor. `None` unless the function is a sum over
    /// dimensions of mixed-radix digits in one dense order.
    ///
    /// In each dimension the `div`s divide one another and the `count`s fill the range between them. A dimension of
    /// size 1 has no digit. Innermost positions that no element uses are a mode of count 1. An empty tensor has no
    /// modes.
    #[must_use]
    pub fn modes(&self) -> Option<Vec<Mode>> {
        if self.elements() == 0 {
            return Some(Vec::new());
        }
        let function = self.function();
        if function.order.is_some() || function.program.is_some() || function.offset != 0 {
            return None;
        }
        let mut modes = Vec::new();
        let (mut rest, mut n) = (function.chain.clone(), self.elements());
        for (dim, &size) in self.shape().iter().enumerate().rev() {
            if size == 1 {
                continue;
            }
            let (outer, part) = split(&rest, n, size)?;
            (rest, n) = (outer, n / size);
            dimension_modes(dim, size, &part, &mut modes)?;
        }
        fill_extents(self.shape(), self.positions(), modes)
    }
}

/// The product of all extents.
fn modes_size(modes: &[Mode]) -> Option<u64> {
    let size = modes
        .iter()
        .try_fold(1u64, |size, mode| size.checked_mul(mode.extent))?;
    i64::try_from(size).ok().map(|_| size)
}

/// One dimension's chain from its modes and their strides.
fn dimension_chain(dim: usize, size: u64, list: &mut [(Mode, i64)]) -> Result<Chain, LayoutError> {
    list.sort_by_key(|(mode, _)| std::cmp::Reverse(mode.div));
    let mut domain = size;
    let mut cuts = Vec::with_capacity(list.len());
    for &(mode, stride) in list.iter() {
        let unused = domain <= mode.div && mode.count <= 1;
        if mode.div == 0 || !unused && mode.count != domain.div_ceil(mode.div) {
            return Err(LayoutError::Modes { dim, size });
        }
        if !unused {
            cuts.push(Cut {
                size: mode.div,
                stride,
            });
            domain = mode.div;
        }
    }
    if 1 < domain {
        return Err(LayoutError::Modes { dim, size });
    }
    Ok(normalize(cuts, size))
}

/// Appends one dimension's modes, with their strides in place of extents.
fn dimension_modes(dim: usize, size: u64, part: &[Cut], modes: &mut Vec<Mode>) -> Option<()> {
    let mut radix = None;
    for step in steps(part, size) {
        let div = step.cut.size;
        if radix.is_some_and(|radix: u64| !radix.is_multiple_of(div)) {
            return None;
        }
        radix = Some(div);
        let extent = u64::try_from(step.cut.stride)
            .ok()
            .filter(|&stride| 0 < stride)?;
        modes.push(Mode {
            dim,
            div,
            count: step.count,
            extent,
        });
    }
    Some(())
}

/// Sorts modes that have strides in place of extents, and computes the extents.
fn fill_extents(shape: &[u64], positions: u64, mut modes: Vec<Mode>) -> Option<Vec<Mode>> {
    modes.sort_by_key(|mode| std::cmp::Reverse(mode.extent));
    let mut above = positions;
    for mode in &mut modes {
        let stride = mode.extent;
        if !above.is_multiple_of(stride) || above / stride < mode.count {
            return None;
        }
        mode.extent = above / stride;
        above = stride;
    }
    if 1 < above {
        // A dimension of size 1 takes the unused positions, so that a block can name it.
        let dim = shape
            .iter()
            .rposition(|&size| size == 1)
            .or(shape.len().checked_sub(1))?;
        modes.push(Mode {
            dim,
            div: shape[dim],
            count: 1,
            extent: above,
        });
    }
    Some(modes)
}
