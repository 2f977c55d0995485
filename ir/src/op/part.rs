//! Parts: what an operation that only moves elements has to copy, unless it lies there already.

use super::op_ref::OpRef;
use crate::module::{OpData, Value};
use crate::size::Size;

/// One end of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// The operand of this number.
    Operand(usize),
    /// The result of this number.
    Result(usize),
}

/// The index along one dimension of a whole, by the index of its part: `start + step * part[from]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Along {
    /// The dimension of the part; none where the index is `start` for all of its elements.
    pub from: Option<usize>,
    /// The index of the part's first element, in elements.
    pub start: Size,
    /// From one element of the part to the next, in elements; below 0 it is walked down.
    pub step: i64,
}

impl Along {
    /// A dimension that whole and part have in common.
    #[must_use]
    pub fn whole(dim: usize) -> Along {
        Along::from(dim, Size::default())
    }

    /// A dimension of the part, from an element on.
    #[must_use]
    pub fn from(dim: usize, start: Size) -> Along {
        Along {
            from: Some(dim),
            start,
            step: 1,
        }
    }

    /// A dimension that the part does not have.
    #[must_use]
    pub fn at(start: Size) -> Along {
        Along {
            from: None,
            start,
            step: 1,
        }
    }
}

/// A port whose elements are some of another one's: the results of a split are parts of its operand, the operands of a
/// concat are parts of its result. A dimension of the part that no dimension of the whole comes from repeats it.
///
/// Where it lies in the bytes of the whole, nothing is copied. An operation says so of its parts by a discardable
/// attribute, `in_place = [0, 2]`: the numbers of their ports, all of which are operands or all results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part.
    pub part: Port,
    /// The whole.
    pub whole: Port,
    /// The index in each dimension of the whole.
    pub dims: Vec<Along>,
}

impl Port {
    /// Its number among the operands or the results.
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            Port::Operand(n) | Port::Result(n) => n,
        }
    }

    /// The value at this port of an operation; `None` where it has no such port.
    #[must_use]
    pub fn value(self, op: &OpData) -> Option<Value> {
        match self {
            Port::Operand(n) => op.operands.get(n).copied(),
            Port::Result(n) => op.results.get(n).copied(),
        }
    }
}

impl Part {
    /// Whether the dimensions are those of well formed ends.
    #[must_use]
    pub fn fits(&self, op: &OpRef<'_>) -> bool {
        let rank = |port: Port| match port {
            Port::Operand(i) => op.operand(i).ok().map(|ty| ty.rank()),
            Port::Result(i) => op.result(i).ok().map(|ty| ty.rank()),
        };
        let (Some(part), Some(whole)) = (rank(self.part), rank(self.whole)) else {
            return false;
        };
        self.dims.len() == whole && self.dims.iter().all(|a| a.from.is_none_or(|d| d < part))
    }
}
