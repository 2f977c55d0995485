//! Lays out digits: performs the pad-reshape-transpose steps of block and tile notations on a chain.

use crate::chain::{Chain, Cut, ceil_div, normalize};

/// The digits of a tensor, each assigned to one axis of a growing physical array.
///
/// A digit is `(k % outer) / size` of the row-major number `k`, where `outer` is the size of the digit before it. The
/// value of an axis is the sum of its digits times their weights, which form a mixed radix.
pub(crate) struct Builder {
    digits: Vec<Digit>,
    /// Physical extent of each axis, padding included.
    extents: Vec<u64>,
    elements: u64,
}

#[derive(Clone, Copy)]
struct Digit {
    size: u64,
    count: u64,
    axis: usize,
    weight: u64,
}

/// The reason why a step is refused.
pub(crate) enum BuildError {
    /// A number does not fit.
    Overflow,
    /// An axis would be cut across the padding inside it.
    AcrossPadding,
}

/// The number of elements of a shape, if it is below 2^63.
pub(crate) fn element_count(shape: &[u64]) -> Option<u64> {
    if shape.contains(&0) {
        return Some(0);
    }
    let product = shape
        .iter()
        .try_fold(1u64, |product, &size| product.checked_mul(size))?;
    i64::try_from(product).ok().map(|_| product)
}

/// Steps that turn the dimensions of a tensor into the axes of a buffer.
pub(crate) trait Steps {
    /// Adds an axis of one position, to pad the rank.
    fn unit_axis(&mut self) -> usize;

    /// Cuts an axis into blocks of `block` positions. Returns the axes of the block number and of the position in the
    /// block. The last block is padded.
    fn cut(&mut self, axis: usize, block: u64) -> Result<(usize, usize), BuildError>;

    /// Merges two axes into one in which `minor` counts fastest.
    fn merge(&mut self, major: usize, minor: usize) -> Result<usize, BuildError>;
}

impl Steps for Builder {
    fn unit_axis(&mut self) -> usize {
        self.new_axis(1)
    }

    fn cut(&mut self, axis: usize, block: u64) -> Result<(usize, usize), BuildError> {
        let outer = self.new_axis(ceil_div(self.extents[axis], block));
        let inner = self.new_axis(block);
        let highest = |digit: &Digit| u128::from(digit.weight) * u128::from(digit.count - 1);
        let own = self.digits.iter().filter(|digit| digit.axis == axis);
        let fits = own.map(highest).sum::<u128>() < u128::from(block);
        let mut digits = Vec::with_capacity(self.digits.len() + 1);
        for &digit in &self.digits {
            if digit.axis != axis {
                digits.push(digit);
            } else if fits {
                digits.push(Digit {
                    axis: inner,
                    ..digit
                });
            } else {
                cut_digit(digit, block, outer, inner, &mut digits)?;
            }
        }
        self.digits = digits;
        Ok((outer, inner))
    }

    fn merge(&mut self, major: usize, minor: usize) -> Result<usize, BuildError> {
        let factor = self.extents[minor];
        let extent = self.extents[major]
            .checked_mul(factor)
            .ok_or(BuildError::Overflow)?;
        let axis = self.new_axis(extent);
        for digit in &mut self.digits {
            if digit.axis == major {
                let weight = digit
                    .weight
                    .checked_mul(factor)
                    .ok_or(BuildError::Overflow)?;
                *digit = Digit {
                    axis,
                    weight,
                    ..*digit
                };
            } else if digit.axis == minor {
                digit.axis = axis;
            }
        }
        self.join_runs();
        Ok(axis)
    }
}

impl Builder {
    /// One axis per dimension, `shape` major to minor. No dimension may be zero.
    pub(crate) fn new(shape: &[u64]) -> Result<Self, BuildError> {
        let elements = element_count(shape).ok_or(BuildError::Overflow)?;
        let mut size = elements;
        let mut digits = Vec::with_capacity(shape.len() * 2);
        for (axis, &count) in shape.iter().enumerate() {
            size /= count.max(1);
            if 1 < count {
                digits.push(Digit {
                    size,
                    count,
                    axis,
                    weight: 1,
                });
            }
        }
        Ok(Self {
            digits,
            extents: shape.to_vec(),
            elements,
        })
    }

    fn new_axis(&mut self, extent: u64) -> usize {
        self.extents.push(extent);
        self.extents.len() - 1
    }

    /// Joins adjacent digits of one axis that form one linear run.
    fn join_runs(&mut self) {
        let mut i = self.digits.len();
        while i >= 2 {
            let (a, b) = (self.digits[i - 2], self.digits[i - 1]);
            let runs = a.axis == b.axis
                && b.size.checked_mul(b.count) == Some(a.size)
                && b.weight.checked_mul(b.count) == Some(a.weight);
            if runs {
                self.digits[i - 2] = Digit {
                    count: a.count.saturating_mul(b.count),
                    ..b
                };
                self.digits.remove(i - 1);
            }
            i -= 1;
        }
    }

    /// The chain of positions and the buffer's size, for the given axes major to minor.
    pub(crate) fn finish(&self, axes: &[usize]) -> Result<(Chain, u64), BuildError> {
        let mut strides = vec![0u64; self.extents.len()];
        let mut positions = 1u64;
        for &axis in axes.iter().rev() {
            strides[axis] = positions;
            positions = positions
                .checked_mul(self.extents[axis])
                .ok_or(BuildError::Overflow)?;
        }
        i64::try_from(positions).map_err(|_| BuildError::Overflow)?;
        let cut = |digit: &Digit| Cut {
            size: digit.size,
            stride: strides[digit.axis].wrapping_mul(digit.weight) as i64,
        };
        Ok((
            normalize(self.digits.iter().map(cut), self.elements),
            positions,
        ))
    }
}

/// Splits one digit of an axis: it goes to the block number, to the position in the block, or is cut between the two.
fn cut_digit(
    digit: Digit,
    block: u64,
    outer: usize,
    inner: usize,
    digits: &mut Vec<Digit>,
) -> Result<(), BuildError> {
    let Digit {
        size,
        count,
        weight,
        ..
    } = digit;
    if weight.is_multiple_of(block) {
        digits.push(Digit {
            axis: outer,
            weight: weight / block,
            ..digit
        });
        return Ok(());
    }
    if !block.is_multiple_of(weight) {
        return Err(BuildError::AcrossPadding);
    }
    let kept = block / weight;
    if count <= kept {
        digits.push(Digit {
            axis: inner,
            ..digit
        });
        return Ok(());
    }
    let size_outer = size.checked_mul(kept).ok_or(BuildError::Overflow)?;
    digits.push(Digit {
        size: size_outer,
        count: ceil_div(count, kept),
        axis: outer,
        weight: 1,
    });
    digits.push(Digit {
        size,
        count: kept,
        axis: inner,
        weight,
    });
    Ok(())
}
