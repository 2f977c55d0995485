//! Lower bounds of the padding of a group in a layout, or in any layout of a class.

use super::relaxation::{Class, Lanes, PaddedRun, Relaxation};
use crate::view_fold::groups::{Group, GroupData, Node};
use crate::view_fold::physical::Digit;
use crate::view_fold::tiled::{self, InLanes};

pub(super) fn unpadded(data: &GroupData) -> u64 {
    bytes_of(data, elements(data))
}

pub(super) fn elements(data: &GroupData) -> u64 {
    data.shape.iter().copied().fold(1, u64::saturating_mul)
}

/// Bytes of this number of elements of a group.
pub(super) fn bytes_of(data: &GroupData, elements: u64) -> u64 {
    elements.saturating_mul(u64::from(data.bits)).div_ceil(8)
}

/// The padding in bytes of a group whose elements all lie in runs of `run` elements, each padded to `lanes` positions.
pub(super) fn padding_of_runs(data: &GroupData, (run, lanes): (u64, u64)) -> u64 {
    let positions = (elements(data) / run).saturating_mul(lanes);
    bytes_of(data, positions).saturating_sub(unpadded(data))
}

impl Relaxation<'_> {
    pub(super) fn bytes(&self, group: Group, index: usize) -> u64 {
        let data = &self.graph.groups[group];
        match self.candidates[group].get(index) {
            Some(&layout) => self.layouts.bytes(layout),
            None => (self.layouts)
                .symbolic_bytes(&data.shape, data.bits)
                .unwrap_or_else(|| unpadded(data)),
        }
    }

    /// The least padding of a group at a port in a layout that is no candidate; 0 for a candidate.
    pub(super) fn unknown_padding(&self, group: Group, index: usize, port: (Node, usize)) -> u64 {
        match self.candidates[group].get(index) {
            Some(_) => 0,
            None => self.padding(group, index, &[port]),
        }
    }

    /// The least padding that is read of a copy that one of these ports reads.
    pub(super) fn copy_padding(&self, group: Group, to: usize, ports: &[(Node, usize)]) -> u64 {
        let of = |&(node, port): &(Node, usize)| match self.graph.nodes[node].signature {
            Some(_) => self.padding(group, to, &[(node, port)]),
            None => 0,
        };
        ports.iter().map(of).min().unwrap_or(0)
    }

    /// The padding of a group in a candidate. For another layout, the least padding in any layout that these ports
    /// take.
    pub(super) fn padding(&self, group: Group, index: usize, ports: &[(Node, usize)]) -> u64 {
        if let Some(&layout) = self.candidates[group].get(index) {
            return self.layouts.padding(layout);
        }
        let key = (group, index, ports.first().copied(), ports.len());
        if let Some(&known) = self.paddings.borrow().get(&key) {
            return known;
        }
        let found = self.class_padding(group, index, ports);
        self.paddings.borrow_mut().insert(key, found);
        found
    }

    /// [`tiled::least_padded_run`], computed once a width and extent.
    pub(super) fn least_padded_run(&self, bits: u32, extent: u64) -> PaddedRun {
        let found = || tiled::least_padded_run(self.layouts, bits, extent);
        let mut known = self.runs.borrow_mut();
        *known.entry((bits, extent)).or_insert_with(found)
    }

    pub(super) fn class_padding(&self, group: Group, index: usize, ports: &[(Node, usize)]) -> u64 {
        let class = index - self.candidates[group].len();
        let least = |&(node, port): &(Node, usize)| {
            let id = self.graph.nodes[node].signature?;
            let view = self.ports.get(&(node, port));
            let class = view.and_then(|v| v.classes.get(class).copied());
            let class = class.unwrap_or(Class::UNKNOWN);
            let sig = self.signatures.get(id);
            if class.lanes == Lanes::Whole && sig.lines.is_some() && !sig.is_common_order() {
                return None;
            }
            let known = class.label.map(|innermost| InLanes {
                innermost,
                filled: class.lanes == Lanes::Whole,
            });
            Some((self.signatures).least_padding(self.layouts, id, port, known))
        };
        let least = ports.iter().filter_map(least).max().unwrap_or(0);
        least.max(self.lane_padding(group, class))
    }

    /// The least padding in the lanes of any layout of a class, in bytes.
    pub(super) fn lane_padding(&self, group: Group, class: usize) -> u64 {
        let data = &self.graph.groups[group];
        let Some((atom, lanes)) = self.atom(group, class) else {
            return 0;
        };
        let Some(extent) = self.run_within(group, &atom, lanes) else {
            return 0;
        };
        let padded = self.least_padded_run(data.bits, extent);
        padded.map_or(0, |run| padding_of_runs(data, run))
    }

    /// The elements of which the padded lanes of a class hold a part, if they hold elements of one dimension.
    pub(super) fn run_within(&self, group: Group, atom: &Digit, lanes: Lanes) -> Option<u64> {
        match lanes {
            Lanes::Within => Some(atom.extent),
            Lanes::Along => self.graph.groups[group].shape.get(atom.dim).copied(),
            Lanes::Any | Lanes::Whole | Lanes::Across => None,
        }
    }
}
