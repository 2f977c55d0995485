//! A placement as a mixed radix: the linear digits of its dimensions in the order of the buffer.

use crate::build::element_count;
use crate::chain::{Chain, Cut, normalize, split, steps};
use crate::error::LayoutError;
use crate::function::{Function, concat};
use crate::placement::{Placement, Storage};

/// One physical digit of a layout: a run of positions that counts `index[dim] / div`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Piece {
    /// The logical dimension.
    pub dim: usize,
    /// How many indices share a value of the digit.
    pub div: u64,
    /// How many values the digit takes; 1 for positions that no element uses.
    pub count: u64,
    /// Physical positions, padding included, at least `count`.
    pub extent: u64,
}

impl Placement {
    /// The placement whose physical digits are `pieces`, major to minor: the inverse of
    /// [`Placement::pieces`].
    ///
    /// # Errors
    /// The pieces of a dimension are no mixed radix of its size, or the size overflows.
    pub(crate) fn from_pieces(
        shape: &[u64],
        elem_bits: u32,
        pieces: &[Piece],
    ) -> Result<Placement, LayoutError> {
        let overflow = || LayoutError::Overflow {
            shape: shape.to_vec(),
        };
        let elements = element_count(shape).ok_or_else(overflow)?;
        if elements == 0 {
            return Ok(Placement::row_major(shape, elem_bits));
        }
        let positions = pieces_size(pieces).ok_or_else(overflow)?;
        let mut chains = vec![Vec::new(); shape.len()];
        let mut stride = positions;
        for piece in pieces {
            if piece.extent < piece.count.max(1) || shape.len() <= piece.dim {
                return Err(LayoutError::Pieces {
                    dim: piece.dim,
                    size: 0,
                });
            }
            stride /= piece.extent.max(1);
            chains[piece.dim].push((*piece, stride as i64));
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

    /// The maximal linear digits of each dimension, sorted major to minor; `None` where the
    /// function is not a sum over dimensions of mixed-radix digits in one dense order.
    ///
    /// In each dimension the `div`s divide one another and the `count`s fill the range between
    /// them. A dimension of size 1 has no digit. Innermost positions that no element uses are a
    /// piece of count 1. An empty tensor has no pieces.
    #[must_use]
    pub fn pieces(&self) -> Option<Vec<Piece>> {
        if self.elements() == 0 {
            return Some(Vec::new());
        }
        let function = self.function();
        if function.order.is_some() || function.program.is_some() || function.offset != 0 {
            return None;
        }
        let mut pieces = Vec::new();
        let (mut rest, mut n) = (function.chain.clone(), self.elements());
        for (dim, &size) in self.shape().iter().enumerate().rev() {
            if size == 1 {
                continue;
            }
            let (outer, part) = split(&rest, n, size)?;
            (rest, n) = (outer, n / size);
            dimension_pieces(dim, size, &part, &mut pieces)?;
        }
        fill_extents(self.shape(), self.positions(), pieces)
    }
}

/// The product of all extents.
fn pieces_size(pieces: &[Piece]) -> Option<u64> {
    let size = pieces
        .iter()
        .try_fold(1u64, |size, piece| size.checked_mul(piece.extent))?;
    i64::try_from(size).ok().map(|_| size)
}

/// One dimension's chain from its pieces and their strides.
fn dimension_chain(dim: usize, size: u64, list: &mut [(Piece, i64)]) -> Result<Chain, LayoutError> {
    list.sort_by_key(|(piece, _)| std::cmp::Reverse(piece.div));
    let mut domain = size;
    let mut cuts = Vec::with_capacity(list.len());
    for &(piece, stride) in list.iter() {
        let unused = domain <= piece.div && piece.count <= 1;
        if piece.div == 0 || !unused && piece.count != domain.div_ceil(piece.div) {
            return Err(LayoutError::Pieces { dim, size });
        }
        if !unused {
            cuts.push(Cut {
                size: piece.div,
                stride,
            });
            domain = piece.div;
        }
    }
    if 1 < domain {
        return Err(LayoutError::Pieces { dim, size });
    }
    Ok(normalize(cuts, size))
}

/// Appends one dimension's pieces, their strides in place of extents.
fn dimension_pieces(dim: usize, size: u64, part: &[Cut], pieces: &mut Vec<Piece>) -> Option<()> {
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
        pieces.push(Piece {
            dim,
            div,
            count: step.count,
            extent,
        });
    }
    Some(())
}

/// Sorts pieces that carry strides and turns the strides into extents.
fn fill_extents(shape: &[u64], positions: u64, mut pieces: Vec<Piece>) -> Option<Vec<Piece>> {
    pieces.sort_by_key(|piece| std::cmp::Reverse(piece.extent));
    let mut above = positions;
    for piece in &mut pieces {
        let stride = piece.extent;
        if !above.is_multiple_of(stride) || above / stride < piece.count {
            return None;
        }
        piece.extent = above / stride;
        above = stride;
    }
    if 1 < above {
        // A dimension of size 1 takes the unused positions, so that a block can name it.
        let dim = shape
            .iter()
            .rposition(|&size| size == 1)
            .or(shape.len().checked_sub(1))?;
        pieces.push(Piece {
            dim,
            div: shape[dim],
            count: 1,
            extent: above,
        });
    }
    Some(pieces)
}
