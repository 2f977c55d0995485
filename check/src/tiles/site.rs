//! An operation whose layouts are checked, and its labels.

use crate::labels::{labels_of, role};
use optc_ir::{Freedom, Func, TensorType, Value};
use optc_target::{Alternative, PortRole, PortRule, Target};

/// An operation whose layouts are checked.
pub(super) struct Site<'a> {
    pub(super) func: &'a Func,
    /// Its operands, then its results.
    pub(super) values: &'a [Value],
    pub(super) freedom: &'a Freedom,
    pub(super) target: &'a Target,
}

impl Site<'_> {
    pub(super) fn n_operands(&self) -> usize {
        self.freedom.operands.len()
    }

    /// Returns whether a port is an operand behind the second one.
    pub(super) fn is_aside(&self, port: usize) -> bool {
        (2..self.n_operands()).contains(&port)
    }

    pub(super) fn labels(&self, port: usize) -> &[Option<usize>] {
        labels_of(self.freedom, port)
    }

    /// The labels of some dimensions of a port.
    pub(super) fn labelled(&self, port: usize, dims: &[usize]) -> Vec<Option<usize>> {
        let labels = self.labels(port);
        dims.iter()
            .map(|&d| labels.get(d).copied().flatten())
            .collect()
    }

    /// The extent of a label at a port; 1 if the port does not have the label.
    pub(super) fn extent(&self, port: usize, label: usize) -> u64 {
        let dim = self.labels(port).iter().position(|l| *l == Some(label));
        let ty = self.func.ty(self.values[port]).as_tensor();
        let shape = ty.and_then(TensorType::shape);
        let extent = dim
            .zip(shape)
            .and_then(|(dim, shape)| shape.get(dim).copied());
        extent.unwrap_or(1)
    }

    pub(super) fn role(&self, label: usize) -> PortRole {
        role(self.freedom, label, self.n_operands())
    }

    /// The rule of an alternative for a port.
    pub(super) fn rule(&self, alternative: &Alternative, port: usize) -> PortRule {
        alternative.port(port, self.n_operands())
    }

    /// The index of an element of a port, by label; indices of 0 are left out.
    pub(super) fn index(&self, port: usize, element: &[u64]) -> Vec<(usize, u64)> {
        let labels = self.labels(port).iter().zip(element);
        let mut all: Vec<(usize, u64)> = labels.filter_map(|(l, &n)| Some(((*l)?, n))).collect();
        all.retain(|(_, n)| *n != 0);
        all.sort_unstable();
        all
    }

    /// The indices of elements of a port along these labels.
    pub(super) fn along(
        &self,
        port: usize,
        elements: &[Vec<u64>],
        labels: &[usize],
    ) -> Vec<Vec<u64>> {
        let own = self.labels(port);
        let place = |l: &usize| own.iter().position(|o| *o == Some(*l)).unwrap_or(0);
        let dims: Vec<usize> = labels.iter().map(place).collect();
        let pick = |e: &Vec<u64>| dims.iter().map(|&d| e[d]).collect();
        elements.iter().map(pick).collect()
    }
}
