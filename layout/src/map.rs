//! Logical maps of elements: reshape, transpose, reshape.

use smallvec::SmallVec;

use crate::build::element_count;
use crate::dims::{Dims, unravel};

/// A logical map: reshape, transpose, reshape.
///
/// The steps are: reshape the operand to `shape` (default: its own), transpose by `perm` (output axis `i` reads axis
/// `perm[i]`; default: identity), reshape row-major to `result`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct ViewMap {
    /// Elements along each dimension before the transpose.
    pub shape: Option<Vec<u64>>,
    /// Input axis of each output axis.
    pub perm: Option<Vec<usize>>,
    /// Elements along each dimension of the result.
    pub result: Vec<u64>,
}

/// The dimensions of a transposed tensor by their old numbers, and the other way round.
pub(crate) struct Renaming<'a> {
    /// The old number of each new dimension.
    pub(crate) perm: &'a [usize],
    /// The new number of each old dimension.
    pub(crate) new: Vec<usize>,
}

impl Renaming<'_> {
    /// The new numbers of old dimensions.
    pub(crate) fn all(&self, dims: &[usize]) -> Vec<usize> {
        dims.iter().map(|&dim| self.new[dim]).collect()
    }
}

/// The reason why a [`ViewMap`] does not fit its operand.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ViewMapError {
    /// A reshape to another number of elements.
    #[error("reshape of {from:?} to {to:?} changes the number of elements")]
    Elements {
        /// The shape before.
        from: Vec<u64>,
        /// The shape after.
        to: Vec<u64>,
    },
    /// A `perm` that is not a permutation of the axes.
    #[error("perm {perm:?} is not a permutation of the {rank} axes of {shape:?}", rank = .shape.len())]
    Perm {
        /// The permutation as given.
        perm: Vec<usize>,
        /// The shape that it should permute.
        shape: Vec<u64>,
    },
}

/// Returns whether two shapes have the same number of elements, without overflow.
fn same_elements(a: &[u64], b: &[u64]) -> bool {
    let plain = |shape: &[u64]| {
        let mut sizes = shape.iter();
        sizes.try_fold(1u64, |product, &size| product.checked_mul(size))
    };
    if let (Some(a), Some(b)) = (plain(a), plain(b)) {
        return a == b;
    }
    let count = |shape: &[u64]| {
        if shape.contains(&0) {
            return Some(0);
        }
        shape.iter().try_fold(1u128, |product, &size| {
            product.checked_mul(u128::from(size))
        })
    };
    match (count(a), count(b)) {
        (Some(a), Some(b)) => a == b,
        _ => a == b,
    }
}

impl ViewMap {
    /// A row-major reshape to `result`.
    #[must_use]
    pub fn reshape(result: &[u64]) -> Self {
        Self {
            shape: None,
            perm: None,
            result: result.to_vec(),
        }
    }

    /// A transpose of a tensor of shape `operand`; `perm[i]` is the input axis of output axis `i`.
    ///
    /// # Errors
    /// `perm` is not a permutation of the axes.
    pub fn transpose(operand: &[u64], perm: &[usize]) -> Result<Self, ViewMapError> {
        check_perm(perm, operand)?;
        let result = perm.iter().map(|&axis| operand[axis]).collect();
        Ok(Self {
            shape: None,
            perm: Some(perm.to_vec()),
            result,
        })
    }

    /// The shape that is transposed.
    pub(crate) fn middle<'a>(&'a self, operand: &'a [u64]) -> &'a [u64] {
        self.shape.as_deref().unwrap_or(operand)
    }

    /// The permutation of `rank` axes, written out.
    pub(crate) fn axes(&self, rank: usize) -> Dims {
        match &self.perm {
            Some(perm) => Dims::from_slice(perm),
            None => (0..rank).collect(),
        }
    }

    /// Checks the map against its operand's shape.
    ///
    /// # Errors
    /// A reshape changes the number of elements, or `perm` is not a permutation.
    pub fn check(&self, operand: &[u64]) -> Result<(), ViewMapError> {
        let middle = self.middle(operand);
        let elements = |from: &[u64], to: &[u64]| {
            if same_elements(from, to) {
                return Ok(());
            }
            Err(ViewMapError::Elements {
                from: from.to_vec(),
                to: to.to_vec(),
            })
        };
        elements(operand, middle)?;
        if let Some(perm) = &self.perm {
            check_perm(perm, middle)?;
        }
        elements(middle, &self.result)
    }

    /// The operand's row-major number of the element with row-major number `k` of the result.
    ///
    /// The map must fit the operand.
    pub(crate) fn operand_number(&self, operand: &[u64], k: u64) -> u64 {
        let middle = self.middle(operand);
        let Some(perm) = &self.perm else { return k };
        let permuted: Vec<u64> = perm.iter().map(|&axis| middle[axis]).collect();
        let mut e = vec![0; middle.len()];
        for (&axis, index) in perm.iter().zip(unravel(k, &permuted)) {
            e[axis] = index;
        }
        number(&e, middle)
    }

    /// Logical index in the operand of the element `e` of the result.
    ///
    /// `None` if the map does not fit the operand or `e` is out of bounds.
    #[must_use]
    pub fn operand_index(&self, operand: &[u64], e: &[u64]) -> Option<Vec<u64>> {
        self.check(operand).ok()?;
        element_count(operand)?;
        if e.len() != self.result.len() || e.iter().zip(&self.result).any(|(i, n)| n <= i) {
            return None;
        }
        let k = number(e, &self.result);
        Some(unravel(self.operand_number(operand, k), operand))
    }

    /// Returns whether the map keeps every element's row-major number, as a reshape does.
    #[must_use]
    pub fn is_reshape(&self, operand: &[u64]) -> bool {
        let middle = self.middle(operand);
        let Some(perm) = &self.perm else { return true };
        middle.contains(&0)
            || perm
                .iter()
                .filter(|&&axis| middle.get(axis).is_none_or(|&n| 1 < n))
                .is_sorted()
    }

    /// The renaming of the dimensions of a tensor of shape `operand`; `None` unless the map is only a transpose.
    pub(crate) fn renaming(&self, operand: &[u64]) -> Option<Renaming<'_>> {
        let perm = self.perm.as_deref()?;
        let untouched = self.shape.as_deref().is_none_or(|shape| shape == operand);
        let permuted = perm.len() == self.result.len()
            && perm
                .iter()
                .zip(&self.result)
                .all(|(&axis, size)| operand.get(axis) == Some(size));
        if !untouched || !permuted {
            return None;
        }
        let mut new = vec![0; perm.len()];
        for (to, &from) in perm.iter().enumerate() {
            new[from] = to;
        }
        Some(Renaming { perm, new })
    }

    /// The single map equal to applying `self` to `operand` first and `next` second.
    ///
    /// `None` if a map does not fit, or if no single reshape, transpose and reshape equals both maps: the shapes at
    /// which they meet have no common refinement.
    #[must_use]
    pub fn then(&self, operand: &[u64], next: &ViewMap) -> Option<ViewMap> {
        self.check(operand).ok()?;
        next.check(&self.result).ok()?;
        let result = next.result.clone();
        if operand.contains(&0) {
            return Some(ViewMap {
                shape: None,
                perm: None,
                result,
            });
        }
        if next.is_reshape(&self.result) {
            return Some(ViewMap {
                result,
                ..self.clone()
            });
        }
        let second = next.middle(&self.result);
        if self.is_reshape(operand) {
            return Some(ViewMap {
                shape: Some(second.to_vec()),
                ..next.clone()
            });
        }
        let first = self.middle(operand);
        let axes = self.axes(first.len());
        let permuted: Vec<u64> = axes.iter().map(|&axis| first[axis]).collect();
        let meet = Refinement::of(&permuted, second)?;
        // The factors in the order of `first`, each by its number in the order of `permuted`.
        let mut source = Vec::with_capacity(meet.sizes.len());
        for axis in 0..first.len() {
            let place = axes.iter().position(|&other| other == axis)?;
            source.extend(meet.left[place].clone());
        }
        let shape = source.iter().map(|&factor| meet.sizes[factor]).collect();
        let axes = next.axes(second.len());
        let target = axes.iter().flat_map(|&axis| meet.right[axis].clone());
        let perm: Option<Vec<usize>> = target
            .map(|factor| source.iter().position(|&other| other == factor))
            .collect();
        Some(ViewMap {
            shape: Some(shape),
            perm: Some(perm?),
            result,
        })
    }

    /// The map back from the result to a tensor of shape `operand`.
    ///
    /// # Errors
    /// The map does not fit the operand.
    pub fn inverse(&self, operand: &[u64]) -> Result<ViewMap, ViewMapError> {
        self.check(operand)?;
        let middle = self.middle(operand);
        let axes = self.axes(middle.len());
        let mut perm = vec![0; axes.len()];
        for (i, &axis) in axes.iter().enumerate() {
            perm[axis] = i;
        }
        let shape = axes.iter().map(|&axis| middle[axis]).collect();
        Ok(ViewMap {
            shape: Some(shape),
            perm: Some(perm),
            result: operand.to_vec(),
        })
    }
}

/// Row-major number of an index; saturates.
fn number(e: &[u64], shape: &[u64]) -> u64 {
    let step = |number: u64, (index, size): (&u64, &u64)| {
        number.saturating_mul(*size).saturating_add(*index)
    };
    e.iter().zip(shape).fold(0, step)
}

fn check_perm(perm: &[usize], shape: &[u64]) -> Result<(), ViewMapError> {
    let error = || ViewMapError::Perm {
        perm: perm.to_vec(),
        shape: shape.to_vec(),
    };
    let mut seen: SmallVec<[bool; 16]> = shape.iter().map(|_| false).collect();
    if perm.len() != shape.len() {
        return Err(error());
    }
    for &axis in perm {
        let slot = seen.get_mut(axis).ok_or_else(error)?;
        if std::mem::replace(slot, true) {
            return Err(error());
        }
    }
    Ok(())
}

/// Factors that refine the dimensions of two shapes, major to minor, none of size 1.
pub(crate) struct Refinement {
    pub(crate) sizes: Vec<u64>,
    /// The factors of each dimension of the first shape.
    pub(crate) left: Vec<std::ops::Range<usize>>,
    /// The factors of each dimension of the second shape.
    pub(crate) right: Vec<std::ops::Range<usize>>,
}

impl Refinement {
    /// The refinement; `None` if the shapes have no common one. No dimension may be zero.
    pub(crate) fn of(left: &[u64], right: &[u64]) -> Option<Self> {
        let (mut minor_first, mut ends) = (Vec::new(), [Vec::new(), Vec::new()]);
        let shapes = [left, right];
        let mut rest = [1u64, 1];
        let mut todo = [left.len(), right.len()];
        loop {
            for side in 0..2 {
                while rest[side] == 1 && 0 < todo[side] {
                    todo[side] -= 1;
                    rest[side] = shapes[side][todo[side]];
                    ends[side].push(minor_first.len());
                }
            }
            if rest == [1, 1] {
                break;
            }
            let factor = rest[0].min(rest[1]);
            if factor <= 1 || rest.iter().any(|size| !size.is_multiple_of(factor)) {
                return None;
            }
            minor_first.push(factor);
            rest = [rest[0] / factor, rest[1] / factor];
        }
        let total = minor_first.len();
        let ranges = |starts: &[usize]| {
            let stops = starts.iter().skip(1).copied().chain([total]);
            let range = |(&start, stop): (&usize, usize)| total - stop..total - start;
            let mut ranges: Vec<_> = starts.iter().zip(stops).map(range).collect();
            ranges.reverse();
            ranges
        };
        let (left, right) = (ranges(&ends[0]), ranges(&ends[1]));
        minor_first.reverse();
        Some(Self {
            sizes: minor_first,
            left,
            right,
        })
    }
}
