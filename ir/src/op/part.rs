//! Parts: the values that an operation which only moves elements must copy, unless they already lie in place.

use super::op_ref::OpRef;
use crate::module::{OpData, Value};
use crate::size::Size;

/// An operand or result of an operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Port {
    /// The operand of this number.
    Operand(usize),
    /// The result of this number.
    Result(usize),
}

/// The index along one dimension of a whole as a function of the index of the part: `start + step * part[from]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Along {
    /// The dimension of the part; `None` if the index is `start` for all elements of the part.
    pub from: Option<usize>,
    /// The index of the part's first element, in elements.
    pub start: Size,
    /// The step from one element of the part to the next, in elements; negative for a reversed dimension.
    pub step: i64,
}

impl Along {
    /// A dimension that the part covers from the first element on.
    #[must_use]
    pub fn whole(dim: usize) -> Along {
        Along::from(dim, Size::default())
    }

    /// A dimension that the part covers from element `start` on.
    #[must_use]
    pub fn from(dim: usize, start: Size) -> Along {
        Along {
            from: Some(dim),
            start,
            step: 1,
        }
    }

    /// A dimension that the part does not have: the index is fixed to `start`.
    #[must_use]
    pub fn at(start: Size) -> Along {
        Along {
            from: None,
            start,
            step: 1,
        }
    }
}

/// A port whose elements are some elements of another port. The results of a split are parts of its operand; the
/// operands of a concat are parts of its result. Along a dimension of the part that no dimension of the whole refers
/// to, elements repeat.
///
/// Nothing is copied if the part lies in the bytes of the whole. An operation states which of its parts do so by a
/// discardable attribute, `in_place = [0, 2]`: the numbers of their ports. These are all operands or all results.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The part.
    pub part: Port,
    /// The whole.
    pub whole: Port,
    /// The index along each dimension of the whole.
    pub dims: Vec<Along>,
}

/// An operation with one result that is a copy of an operand in which elements of another operand replace or change some.
///
/// If the copied operand lies in the bytes of the result, only the elements that change are written. The operation then
/// lists the operand in `in_place`. No operation may read the operand afterwards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Update {
    /// The number of the operand that is copied. It has the shape of the result.
    pub of: usize,
    /// The number of the operand whose elements are written.
    pub by: usize,
}

impl Update {
    /// The copied operand, a part that is the whole result.
    #[must_use]
    pub fn part(self, op: &OpRef<'_>) -> Option<Part> {
        let rank = op.operand(self.of).ok()?.rank();
        Some(Part {
            part: Port::Operand(self.of),
            whole: Port::Result(0),
            dims: (0..rank).map(Along::whole).collect(),
        })
    }
}

impl Part {
    /// The part and the whole as values of an operation; `None` if it has no such ports.
    #[must_use]
    pub fn ends(&self, op: &OpData) -> Option<(Value, Value)> {
        self.part.value(op).zip(self.whole.value(op))
    }
}

impl Port {
    /// The number of the port among the operands or the results.
    #[must_use]
    pub fn number(self) -> usize {
        match self {
            Port::Operand(n) | Port::Result(n) => n,
        }
    }

    /// Its number among all ports of an operation with this many operands, operands before results.
    #[must_use]
    pub fn index(self, n_operands: usize) -> usize {
        match self {
            Port::Operand(n) => n,
            Port::Result(n) => n_operands + n,
        }
    }

    /// The value at this port of an operation; `None` if it has no such port.
    #[must_use]
    pub fn value(self, op: &OpData) -> Option<Value> {
        match self {
            Port::Operand(n) => op.operands.get(n).copied(),
            Port::Result(n) => op.results.get(n).copied(),
        }
    }
}

impl Part {
    /// Returns whether the dimensions fit the ranks of both ports.
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
