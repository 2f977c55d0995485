//! A layout as a program of steps: axes are cut into blocks and merged, then ordered in the buffer.
//!
//! Any sequence of tiles is such a program, including one that merges axes with padding between them and cuts across
//! this padding. A layout that is a chain is kept as a chain, which answers faster; only the others are programs.

use crate::build::{BuildError, Steps};

/// One step. Axes are numbered in the order in which they appear, the dimensions first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AxisStep {
    /// A new axis of one position.
    Unit,
    /// `outer = axis / block`, `inner = axis % block`: two new axes.
    Cut { axis: usize, block: u64 },
    /// `major * extent(minor) + minor`: a new axis.
    Merge { major: usize, minor: usize },
}

/// Steps from the dimensions to the axes of the buffer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Program {
    /// Sizes of the dimensions.
    shape: Vec<u64>,
    steps: Vec<AxisStep>,
    /// Positions along each axis, padding included.
    extents: Vec<u64>,
    /// The axes of the buffer, major to minor.
    axes: Vec<usize>,
}

impl Steps for Program {
    fn unit_axis(&mut self) -> usize {
        self.steps.push(AxisStep::Unit);
        self.extents.push(1);
        self.extents.len() - 1
    }

    fn cut(&mut self, axis: usize, block: u64) -> Result<(usize, usize), BuildError> {
        self.steps.push(AxisStep::Cut { axis, block });
        self.extents.push(self.extents[axis].div_ceil(block));
        self.extents.push(block);
        let inner = self.extents.len() - 1;
        Ok((inner - 1, inner))
    }

    fn merge(&mut self, major: usize, minor: usize) -> Result<usize, BuildError> {
        let extent = self.extents[major].checked_mul(self.extents[minor]);
        let extent = extent.filter(|&extent| i64::try_from(extent).is_ok());
        self.steps.push(AxisStep::Merge { major, minor });
        self.extents.push(extent.ok_or(BuildError::Overflow)?);
        Ok(self.extents.len() - 1)
    }
}

impl Program {
    /// A program without steps: one axis per dimension.
    pub(crate) fn new(shape: &[u64]) -> Self {
        Self {
            shape: shape.to_vec(),
            steps: Vec::new(),
            extents: shape.to_vec(),
            axes: Vec::new(),
        }
    }

    /// The program whose buffer has these axes, major to minor, and the buffer's number of positions. The element at
    /// position `p`, which must be below the product of the extents; `None` for padding.
    pub(crate) fn finish(self, axes: Vec<usize>) -> Result<(Self, u64), BuildError> {
        let mut extents = axes.iter().map(|&axis| self.extents[axis]);
        let positions = extents.try_fold(1u64, u64::checked_mul);
        let positions = positions.filter(|&n| i64::try_from(n).is_ok());
        let positions = positions.ok_or(BuildError::Overflow)?;
        Ok((Self { axes, ..self }, positions))
    }

    pub(crate) fn steps(&self) -> &[AxisStep] {
        &self.steps
    }

    /// Positions along an axis.
    pub(crate) fn extent(&self, axis: usize) -> u64 {
        self.extents[axis]
    }

    /// The axes of the buffer, major to minor.
    pub(crate) fn axes(&self) -> &[usize] {
        &self.axes
    }

    /// Position of the element `e`, which is in bounds.
    pub(crate) fn position(&self, e: &[u64]) -> u64 {
        let mut values = e.to_vec();
        for step in &self.steps {
            match *step {
                AxisStep::Unit => values.push(0),
                AxisStep::Cut { axis, block } => {
                    let value = values[axis];
                    values.push(value / block);
                    values.push(value % block);
                }
                AxisStep::Merge { major, minor } => {
                    values.push(values[major] * self.extents[minor] + values[minor]);
                }
            }
        }
        let count = |p: u64, &axis: &usize| p * self.extents[axis] + values[axis];
        self.axes.iter().fold(0, count)
    }

    /// The element at position `p`, which is below the product of the extents; `None` for padding.
    pub(crate) fn element_at(&self, mut p: u64) -> Option<Vec<u64>> {
        let mut values = vec![0u64; self.extents.len()];
        for &axis in self.axes.iter().rev() {
            let extent = self.extents[axis].max(1);
            values[axis] = p % extent;
            p /= extent;
        }
        let mut next = self.extents.len();
        for step in self.steps.iter().rev() {
            match *step {
                AxisStep::Unit => next -= 1,
                AxisStep::Cut { axis, block } => {
                    next -= 2;
                    values[axis] = values[next] * block + values[next + 1];
                    if self.extents[axis] <= values[axis] {
                        return None;
                    }
                }
                AxisStep::Merge { major, minor } => {
                    next -= 1;
                    values[major] = values[next] / self.extents[minor].max(1);
                    values[minor] = values[next] % self.extents[minor].max(1);
                }
            }
        }
        let inside = |(value, size): (&u64, &u64)| value < size;
        let rank = self.shape.len();
        values.truncate(rank);
        (p == 0 && values.iter().zip(&self.shape).all(inside)).then_some(values)
    }
}
