//! Layout freedom: the relation between the orders of an operation's operands and results. It follows from the
//! operation's loops ([`Freedom::of`]).

use crate::op::op_ref::OpRef;
use crate::types::{TensorType, Type};

/// The relation between the orders of an operation's operands and results.
///
/// Every dimension of every operand and result has a label; dimensions with the same label run over the same index.
/// `None` marks a dimension of extent 1 that is broadcast or dropped.
///
/// For example, an `hbir.add` of 2 x 3 and 3 has two labels: the dimensions of the first operand and of the result are
/// labelled 0, 1, that of the second operand 1. So any order of the labels is right, if all three follow it.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Freedom {
    /// The kind of relation.
    pub class: FreedomClass,
    /// The labels.
    pub labels: Vec<Label>,
    /// For each operand and dimension, an index into `labels`.
    pub operands: Vec<Vec<Option<usize>>>,
    /// For each result and dimension, an index into `labels`.
    pub results: Vec<Vec<Option<usize>>>,
}

/// The kind of relation between the orders of an operation's operands and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FreedomClass {
    /// The operation only renames elements: reshape, transpose, view, squeeze. It is part of the index map and never
    /// run.
    Rearrange,
    /// All operands and results follow one common order of labels; each has only its own labels of it.
    Ordered,
    /// A contraction. Labels of both operands and the result are batch dimensions, labels of one operand and the result
    /// are M or N, and labels of both operands only are K.
    Contract,
    /// A window operation: the window slides over the spatial labels. The target lists the possible orders of batch,
    /// channel and spatial labels.
    Window,
    /// A source: no operand has an order that matters, and the result may be in any layout (constant, iota).
    Source,
    /// Nothing is known: operands and results are in the default layout.
    #[default]
    Barrier,
}

/// One label of a [`Freedom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The operation's behaviour along the label.
    pub role: Role,
    /// A cut of the label at `c` (into `x / c` and `x % c`) commutes with the operation only if `c` divides the
    /// granule. 0 allows every cut (the extents are equal at all ports), 1 allows none. The granule of an axis of
    /// concat, slice, split or pad is the greatest common divisor of all offsets and extents.
    pub granule: u64,
}

/// An operation's behaviour along a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Independent along the label.
    Parallel,
    /// Works along the label: softmax, normalization, reduction, concat, slice, gather axis.
    Axis,
    /// The batch of a window operation.
    Batch,
    /// A channel (of the result, of a group, or of the input) of a window operation.
    Channel,
    /// A spatial dimension of a window operation.
    Spatial,
}

impl Freedom {
    /// Returns whether this is a depthwise window operation: operand, weights and result share a channel label.
    #[must_use]
    pub fn is_depthwise(&self) -> bool {
        let (Some(data), Some(weights), Some(result)) = (
            self.operands.first(),
            self.operands.get(1),
            self.results.first(),
        ) else {
            return false;
        };
        let everywhere = |label: &usize| {
            let channel = self.labels[*label].role == Role::Channel;
            channel && weights.contains(&Some(*label)) && result.contains(&Some(*label))
        };
        self.class == FreedomClass::Window && data.iter().flatten().any(everywhere)
    }

    /// The freedom of a barrier: no dimension has a label.
    #[must_use]
    pub fn barrier(op: &OpRef<'_>) -> Freedom {
        let blank = |types: &[&Type]| {
            types
                .iter()
                .map(|t| vec![None; t.as_tensor().map_or(0, TensorType::rank)])
                .collect()
        };
        Freedom {
            class: FreedomClass::Barrier,
            labels: Vec::new(),
            operands: blank(&op.operands),
            results: blank(&op.results),
        }
    }
}
