//! Operations that only rename elements, in the form of an equivalent view.

use crate::types::Dim;

/// An operation in the form of an equivalent view: reshape to `shape`, transpose by `perm`, row-major reshape to the
/// result's shape.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ViewDims {
    /// The dimensions before the transpose.
    pub shape: Vec<Dim>,
    /// `perm[i]` is the entry of `shape` at position `i` after the transpose.
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

    /// Returns whether the transpose is the identity.
    #[must_use]
    pub fn is_reshape(&self) -> bool {
        self.perm.iter().enumerate().all(|(i, &p)| i == p)
    }
}
