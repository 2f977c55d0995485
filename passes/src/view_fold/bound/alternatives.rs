//! Rows that list alternatives: one alternative is taken at all ports, with a least padding.

use super::classes::{class_of, may_be};
use super::order::whole_and_part;
use super::padding::padding_of_runs;
use super::ports::ports_of;
use super::relaxation::{Class, Lanes, Relaxation, Slot, Spread, State};
use crate::view_fold::ends::may_end_in;
use crate::view_fold::groups::Node;
use crate::view_fold::layouts::{LayoutId, Layouts};
use crate::view_fold::rows::takes_at;
use crate::view_fold::signature::{Signature, SignatureId, TileRule};
use crate::view_fold::tiled;
use indexmap::IndexMap;
use optc_solver::{Cost, INFEASIBLE, cost};

/// Returns whether an alternative of a row takes a layout at a port.
fn takes(
    sig: &Signature,
    layouts: &mut Layouts,
    alternative: usize,
    port: usize,
    layout: LayoutId,
) -> bool {
    match (sig.tiles.get(alternative), sig.orders.get(alternative)) {
        (Some(rule), _) => tiled::is_taken_by(sig, layouts, rule, port, layout),
        (None, Some(rule)) => takes_at(sig, rule, layouts, port, layout),
        (None, None) => true,
    }
}

impl Relaxation<'_> {
    /// The least extra padding when two ports of a common order fill their lanes differently: those of the larger port
    /// hold digits of several dimensions, one of which the smaller port lacks, and those of the smaller port hold a
    /// single digit. Padding that is counted anyway is subtracted.
    pub(super) fn crossing(&mut self, node: Node, a: (usize, usize), b: (usize, usize)) -> u64 {
        let Some(id) = self.graph.nodes[node].signature else {
            return 0;
        };
        let sig = self.signatures.get(id);
        let same_lanes = (self.layouts).have_same_lanes(sig.bits[a.0], sig.bits[b.0]);
        if !sig.is_tiled() || !sig.is_common_order() || !same_lanes {
            return 0;
        }
        let (whole, part) = match whole_and_part(sig, a.0, b.0) {
            Some((whole, _)) if whole == a.0 => (a, b),
            Some(_) => (b, a),
            None => return 0,
        };
        let Some(State::Other(class)) = self.ports[&(node, whole.0)].state(whole.1) else {
            return 0;
        };
        let x = self.ports[&(node, whole.0)].classes[class];
        let y = match self.ports[&(node, part.0)].state(part.1) {
            Some(State::Known(layout)) => class_of(sig, self.layouts, part.0, layout),
            Some(State::Other(class)) => self.ports[&(node, part.0)].classes[class],
            Some(State::Unknown) | None => return 0,
        };
        let crosses = x.spread == Spread::Several && y.spread == Spread::One;
        let label = x.label.filter(|_| crosses && x.label == y.label);
        let size = |port: usize| sig.extent(port, label?);
        let Some(size) = size(part.0).filter(|&n| size(whole.0) == Some(n)) else {
            return 0;
        };
        let sizes = sig.shapes[whole.0].iter().zip(&sig.shapes[part.0]);
        let more = sizes.fold(1u64, |n, (m, n2)| n.saturating_mul(m / n2));
        let run = tiled::least_crossing_run(self.layouts, sig.bits[whole.0], size, more);
        let Some(run) = run else {
            return 0;
        };
        let group = self.ports[&(node, whole.0)].group;
        let data = &self.graph.groups[group];
        if self.graph.is_streamed(group) {
            return 0;
        }
        let padding = padding_of_runs(data, run);
        let ports = ports_of(data);
        let more = padding.saturating_sub(self.padding(group, whole.1, &ports));
        if self.graph.nodes[node].ports[whole.0].is_result {
            return more.saturating_mul(u64::from(data.is_written()));
        }
        let written = data.is_written() && data.producer.is_some_and(|(n, _)| self.is_even(n));
        let times = u64::from(written) + u64::from(self.graph.is_read_apart(group));
        more.saturating_mul(times) / data.uses.len().max(1) as u64
    }

    /// Returns whether an operation is of a common order and all its ports that have dimensions have one shape.
    pub(super) fn is_even(&self, node: Node) -> bool {
        let Some(id) = self.graph.nodes[node].signature else {
            return false;
        };
        let sig = self.signatures.get(id);
        let result = sig.shapes.get(sig.n_operands);
        let alike = |shape: &Vec<u64>| Some(shape) == result || shape.iter().all(|&n| n == 1);
        sig.is_common_order() && sig.shapes.iter().all(alike)
    }

    /// Adds a variable for the alternative that is taken at all ports, where a row lists several: alternatives of roles
    /// for lines of lanes, or of ends of orders.
    pub(super) fn alternatives(
        &mut self,
        node: Node,
        id: SignatureId,
        slots: &IndexMap<usize, Slot>,
    ) {
        let sig = self.signatures.get(id);
        let n = if sig.lines.is_some() && sig.tiles.iter().all(TileRule::is_by_roles) {
            sig.tiles.len()
        } else if sig.lists_ends() && !sig.is_common_order() {
            sig.orders.len()
        } else {
            0
        };
        if n < 2 || slots.len() < 2 {
            return;
        }
        let var = self.problem.domains.len();
        // The last state is the form of all defaults.
        self.problem.domains.push(n + 1);
        for (&port, &slot) in slots {
            let at = self.ports[&(node, port)].at.clone();
            let default = self.signatures.default_at(self.layouts, id, port);
            let mut table = Vec::new();
            for index in self.indices(node, (port, slot)) {
                for alternative in 0..n {
                    table.push(match at.get(index) {
                        Some(Some(known)) => {
                            match takes(sig, self.layouts, alternative, port, *known) {
                                true => 0,
                                false => INFEASIBLE,
                            }
                        }
                        Some(None) => 0,
                        None => self.other_cost(node, id, alternative, (port, index)),
                    });
                }
                table.push(match at.get(index) {
                    Some(Some(known)) if *known == default => 0,
                    Some(Some(_)) => INFEASIBLE,
                    None if at.contains(&Some(default)) => INFEASIBLE,
                    Some(None) | None => 0,
                });
            }
            if table.iter().any(|&c| c != 0) {
                self.problem.push(&[slot.var, var], table.into());
            }
        }
    }

    /// The cost of a layout that is no candidate, where an alternative is taken.
    pub(super) fn other_cost(
        &self,
        node: Node,
        id: SignatureId,
        alternative: usize,
        (port, index): (usize, usize),
    ) -> Cost {
        let view = &self.ports[&(node, port)];
        let class = view.classes.get(index - view.at.len());
        let class = class.copied().unwrap_or(Class::UNKNOWN);
        let sig = self.signatures.get(id);
        let Some(rule) = sig.tiles.get(alternative) else {
            let ends = sig.orders[alternative].ends.as_ref();
            let may = |label| ends.is_none_or(|ends| may_end_in(sig, ends, port, label));
            return match class.label.is_none_or(may) {
                true => 0,
                false => INFEASIBLE,
            };
        };
        match may_be(sig, self.layouts, rule, port, class) {
            false => INFEASIBLE,
            true if class.lanes == Lanes::Whole => 0,
            true => cost(self.more_padding(node, id, rule, port, index), 0),
        }
    }

    /// The least padding of an alternative at a port in a layout that is no candidate. Padding that is counted anyway
    /// is subtracted.
    pub(super) fn more_padding(
        &self,
        node: Node,
        id: SignatureId,
        rule: &TileRule,
        port: usize,
        index: usize,
    ) -> u64 {
        let value = self.graph.nodes[node].ports[port].value;
        let Some(member) = self.graph.member(value) else {
            return 0;
        };
        let group = member.group;
        let data = &self.graph.groups[group];
        let is_result = self.graph.nodes[node].ports[port].is_result;
        let counted = match is_result {
            true => data.is_written(),
            false => data.is_read && data.uses.len() == 1,
        };
        if !counted || self.graph.is_streamed(group) {
            return 0;
        }
        let ports = ports_of(data);
        let anyway = self.padding(group, index, &ports);
        let class = index - self.candidates[group].len();
        let class = self.ports[&(node, port)].classes.get(class);
        let innermost = class.and_then(|class| class.label);
        let sig = self.signatures.get(id);
        let least = tiled::least_line_padding(sig, self.layouts, rule, port, innermost);
        least.saturating_sub(anyway)
    }
}
