//! Layout freedom: how the order of an operation's operands maps to the order of its results. It follows from the
//! operation's loops ([`Freedom::of`]).

use crate::op::op_ref::OpRef;
use crate::types::{TensorType, Type};

/// How the order of an operation's operands maps to the order of its results.
///
/// Every dimension of every operand and result carries a label; dimensions with the same label run
/// over the same index. `None` marks a dimension of extent 1 that is broadcast or dropped.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Freedom {
    /// The kind of agreement that the operation needs.
    pub class: FreedomClass,
    /// The labels.
    pub labels: Vec<Label>,
    /// Per operand, per dimension: an index into `labels`.
    pub operands: Vec<Vec<Option<usize>>>,
    /// Per result, per dimension: an index into `labels`.
    pub results: Vec<Vec<Option<usize>>>,
}

/// The kind of agreement that an operation needs between the orders of its operands and results.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum FreedomClass {
    /// Only renames elements: reshape, transpose, view, squeeze. Part of the index map, never run.
    Rearrange,
    /// All operands and results follow one common order of labels, each restricted to its own.
    Ordered,
    /// A contraction: labels of both operands and the result are batch, of one operand and the
    /// result M or N, of both operands only K.
    Contract,
    /// A window slides over the spatial labels: the target lists the orders of batch, channel and
    /// spatial labels.
    Window,
    /// Has no tensor operands whose order matters and can write its result in any layout: a
    /// constant, an iota.
    Source,
    /// Nothing is known: operands and results are in the default layout.
    #[default]
    Barrier,
}

/// One label of a [`Freedom`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The operation's behaviour along it.
    pub role: Role,
    /// A cut of the label at `c` (into `x / c` and `x % c`) commutes with the operation only if
    /// `c` divides this: 0 allows every cut (equal extents everywhere), 1 none. Axes of concat,
    /// slice, split and pad carry the greatest common divisor of all offsets and extents.
    pub granule: u64,
}

/// An operation's behaviour along a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Role {
    /// Independent along it.
    Parallel,
    /// Works along it: softmax, normalization, reduction, concat, slice, gather axis.
    Axis,
    /// Batch of a window operation.
    Batch,
    /// Channel (of the result, of a group, or of the input) of a window operation.
    Channel,
    /// Spatial dimension of a window operation.
    Spatial,
}

impl Freedom {
    /// Whether this is of a window operation with weights that has each channel for itself.
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

    /// A barrier.
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
