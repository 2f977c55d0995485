//! Operations that only rename elements, as the view that does the same.

use crate::types::Dim;

/// An operation as the view that does the same: reshape to `shape`, transpose by `perm`, row-major
/// reshape to the result's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDims {
    /// The dimensions that are transposed.
    pub shape: Vec<Dim>,
    /// `perm[i]` is the entry of `shape` that comes at place `i`.
    pub perm: Vec<usize>,
}

impl ViewDims {
    /// A reshape of an operand of these dimensions.
    #[must_use]
    pub fn reshape(dims: &[Dim]) -> ViewDims {
        ViewDims {
            shape: dims.to_vec(),
            perm: (0..dims.len()).collect(),
        }
    }

    /// The dimensions after the transpose.
    #[must_use]
    pub fn transposed(&self) -> Vec<Dim> {
        self.perm.iter().map(|&p| self.shape[p].clone()).collect()
    }

    /// Whether nothing is transposed.
    #[must_use]
    pub fn is_reshape(&self) -> bool {
        self.perm.iter().enumerate().all(|(i, &p)| i == p)
    }
}
