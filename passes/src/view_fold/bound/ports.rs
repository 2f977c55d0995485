//! Variables of ports: the states that each may take, and the constraints between them.
//!
//! Example: the operand of a barrier takes row-major alone. If its group has the candidates row-major and transposed,
//! the port's only state is row-major. Where the group is produced transposed, without a row-major copy, the port pays
//! a conversion.

use super::classes::may_be;
use super::order::is_unpadded_order;
use super::relaxation::{Class, GroupState, Known, Lanes, Relaxation, Slot, State, View};
use crate::view_fold::ends::may_end_in;
use crate::view_fold::groups::{Group, GroupData, Node, NodeData, NodeKind};
use crate::view_fold::layouts::LayoutId;
use crate::view_fold::price;
use crate::view_fold::rows::{listed, related};
use crate::view_fold::signature::Signature;
use indexmap::IndexMap;
use optc_ir::entity::EntityId;
use optc_solver::{INFEASIBLE, Table, cost};
use std::rc::Rc;

/// Pairs of each port of a common order with the largest port (the hub). With `siblings`, also pairs of each port with
/// the one before it of its shape.
pub(super) fn hub_pairs(sig: &Signature, ports: &[usize], siblings: bool) -> Vec<(usize, usize)> {
    let size = |port: &&usize| {
        let long = sig.long_labels(**port);
        long.fold((0, 1u64), |(k, p), (_, n)| (k + 1, p.saturating_mul(n)))
    };
    let hub = ports.iter().rev().max_by_key(size).copied();
    let hub = hub.unwrap_or(0);
    let others: Vec<usize> = ports.iter().copied().filter(|&p| p != hub).collect();
    let alike =
        |p: usize, q: usize| sig.labels(p) == sig.labels(q) && sig.shapes[p] == sig.shapes[q];
    let mut pairs: Vec<(usize, usize)> = others.iter().map(|&p| (hub, p)).collect();
    for (i, &p) in others.iter().enumerate().filter(|_| siblings) {
        let before = others[..i].iter().rev().find(|&&q| alike(p, q));
        pairs.extend(before.map(|&q| (q, p)));
    }
    pairs
}

/// The port that produces a group and those that read it.
pub(super) fn ports_of(data: &GroupData) -> Vec<(Node, usize)> {
    let uses = data.uses.iter().copied();
    data.producer.into_iter().chain(uses).collect()
}

impl Relaxation<'_> {
    pub(super) fn view(&mut self, node: Node, port: usize, group: Group) -> &View {
        if !self.ports.contains_key(&(node, port)) {
            let view = self.look(node, port, group);
            self.ports.insert((node, port), Rc::new(view));
        }
        &self.ports[&(node, port)]
    }

    pub(super) fn look(&mut self, node: Node, port: usize, group: Group) -> View {
        let graph = self.graph;
        let data = &graph.nodes[node];
        let value = data.ports[port].value;
        let roots = self.candidates[group].clone();
        let at = roots
            .into_iter()
            .map(|root| graph.at_member(self.layouts, value, root))
            .collect();
        let exact = graph.member(value).is_some_and(|m| m.maps.len() <= 1);
        let mut view = View {
            group,
            at,
            exact,
            domain: Vec::new(),
            classes: self.classes_at(data, port, group),
            seen: 0,
        };
        let seen = (view.at.clone(), view.classes.clone());
        view.seen = self.seen.insert_full(seen).0;
        let n = view.at.len() + view.classes.len();
        view.domain = (0..n)
            .map(|i| match view.state(i) {
                None => false,
                Some(State::Unknown) => true,
                Some(State::Known(layout)) => self.admits(data, port, layout),
                Some(State::Other(class)) => {
                    self.admits_other(data, port, &view.at, (group, class), view.classes[class])
                }
            })
            .collect();
        if !view.domain.contains(&true) {
            view.domain = vec![true; n];
        }
        view
    }

    /// Returns whether a layout may be at a port, the other ports left aside.
    pub(super) fn admits(&mut self, node: &NodeData, port: usize, layout: LayoutId) -> bool {
        if let Some(pinned) = node.pinned {
            return layout == pinned;
        }
        match node.signature {
            Some(id) => self.signatures.accepts(self.layouts, id, port, layout),
            None => true,
        }
    }

    /// Returns whether some layout that is no candidate may be at a port.
    pub(super) fn admits_other(
        &mut self,
        node: &NodeData,
        port: usize,
        at: &[Option<LayoutId>],
        (group, index): (Group, usize),
        class: Class,
    ) -> bool {
        if let Some((atom, lanes)) = self.atom(group, index) {
            let bits = self.graph.groups[group].bits;
            let run = self.run_within(group, &atom, lanes);
            if run.is_some_and(|n| self.least_padded_run(bits, n).is_none()) {
                return false;
            }
            let mut others = self.atoms[group].iter().filter(|a| **a != atom);
            let beside = match lanes {
                Lanes::Along => others.any(|a| a.dim == atom.dim),
                Lanes::Across => others.any(|a| a.dim != atom.dim),
                Lanes::Any | Lanes::Whole | Lanes::Within => true,
            };
            if !beside {
                return false;
            }
        }
        if let (None, Some(id), Some(_)) = (node.pinned, node.signature, class.label) {
            let sig = self.signatures.get(id);
            let default = self.signatures.default_at(self.layouts, id, port);
            let rules = || sig.tiles.iter();
            let layouts = &*self.layouts;
            let in_tiles = || rules().any(|rule| may_be(sig, layouts, rule, port, class));
            let in_order = |label| {
                let mut all = sig.orders.iter().map(|rule| &rule.ends);
                all.any(|ends| {
                    ends.as_ref()
                        .is_none_or(|e| may_end_in(sig, e, port, label))
                })
            };
            let may = match class.label {
                Some(label) if !sig.is_tiled() => in_order(label),
                _ => in_tiles(),
            };
            if !may && !rules().any(|rule| rule.logical) && at.contains(&Some(default)) {
                return false;
            }
        }
        let listed = match (node.pinned, node.signature) {
            (Some(pinned), _) => Some(vec![pinned]),
            (None, Some(id)) => listed(self.signatures.get(id), self.layouts, port),
            (None, None) => None,
        };
        listed.is_none_or(|all| all.iter().any(|l| !at.contains(&Some(*l))))
    }

    pub(super) fn nodes(&mut self) {
        let graph = self.graph;
        for (node, data) in graph.nodes.iter() {
            if self.asked.has_ended() {
                return;
            }
            let mut slots: IndexMap<usize, Slot> = IndexMap::new();
            let pairs = self.pairs(node, data);
            for (port, p) in data.ports.iter().enumerate() {
                let Some(group) = graph.member(p.value).map(|m| m.group) else {
                    continue;
                };
                if !self.counts(group) {
                    continue;
                }
                if p.is_result {
                    let (var, produces) = (group.index(), true);
                    slots.insert(port, Slot { var, produces });
                    let prices = self.prices(node, port);
                    if !prices.is_empty() {
                        let states = &self.group_states[group];
                        let price = |s: &GroupState| cost(prices[s.produced], 0);
                        let table = states.iter().map(price).collect();
                        self.problem.push(&[var], table);
                    }
                    continue;
                }
                let related = pairs.iter().any(|(a, b)| *a == port || *b == port);
                if let Some(var) = self.reader(node, port, group, related) {
                    let produces = false;
                    slots.insert(port, Slot { var, produces });
                }
            }
            for (a, b) in pairs {
                if let (Some(&x), Some(&y)) = (slots.get(&a), slots.get(&b)) {
                    self.relate(node, (a, x), (b, y));
                }
            }
            if let Some(id) = data.signature {
                self.alternatives(node, id, &slots);
            }
        }
    }

    /// The pairs of ports that constrain one another.
    pub(super) fn pairs(&self, node: Node, data: &NodeData) -> Vec<(usize, usize)> {
        if matches!(data.kind, NodeKind::Alias(..)) {
            return vec![(0, 1)];
        }
        let Some(id) = data.signature else {
            return Vec::new();
        };
        let sig = self.signatures.get(id);
        let counts = |port: &usize| {
            let member = data
                .ports
                .get(*port)
                .and_then(|p| self.graph.member(p.value));
            member.is_some_and(|m| self.counts(m.group))
        };
        let ports: Vec<usize> = (0..sig.n_ports()).filter(counts).collect();
        let _ = node;
        let all = ports.iter().enumerate();
        if sig.is_common_order() && (sig.is_tiled() || is_unpadded_order(sig)) {
            hub_pairs(sig, &ports, self.detail.siblings)
        } else if sig.takes_roles() {
            all.flat_map(|(i, &a)| ports[..i].iter().map(move |&b| (b, a)))
                .collect()
        } else if sig.is_tiled() {
            Vec::new()
        } else {
            let mut pairs = related(sig);
            pairs.retain(|(a, b)| counts(a) && counts(b));
            pairs
        }
    }

    /// The least price of an operation with a port in each of its states; empty where all are 0.
    pub(super) fn prices(&mut self, node: Node, port: usize) -> Vec<u64> {
        let Some(id) = self.graph.nodes[node].signature else {
            return Vec::new();
        };
        let sig = self.signatures.get(id);
        if !sig.has_prices() || self.graph.is_known(node) {
            return Vec::new();
        }
        let view = &self.ports[&(node, port)];
        // For layouts that are no candidates only the elements and the innermost dimension are known.
        let elements = price::is_slower(sig, port).then(|| {
            let (shape, bits) = (&sig.shapes[port], sig.bits[port]);
            let fixed = || sig.elements(port).saturating_mul(u64::from(bits)) / 8;
            let bytes = self.layouts.symbolic_bytes(shape, bits);
            bytes.unwrap_or_else(fixed)
        });
        let mut price = |i: usize| match view.state(i) {
            Some(State::Known(layout)) => price::least_price(sig, self.layouts, port, layout),
            Some(State::Other(class)) => {
                let known = elements.zip(view.classes[class].label);
                known.map_or(0, |(n, label)| price::slower_with(sig, port, label, n))
            }
            Some(State::Unknown) | None => 0,
        };
        let prices: Vec<u64> = (0..view.domain.len()).map(&mut price).collect();
        // Readers without prices for their orders are alike.
        match prices.iter().any(|&n| n != 0) {
            true => prices,
            false => Vec::new(),
        }
    }

    /// Adds the cost of a reading port: over a variable of its own where another port constrains it.
    pub(super) fn reader(
        &mut self,
        node: Node,
        port: usize,
        group: Group,
        related: bool,
    ) -> Option<usize> {
        let domain = &self.view(node, port, group).domain;
        let domain_len = domain.len();
        let indices: Vec<usize> = (0..domain_len).filter(|&i| domain[i]).collect();
        let loads = self.prices(node, port);
        // Without padding and prices, all readers of a group with the same states have the same costs.
        let alike = !self.layouts.is_tiled() && loads.is_empty();
        let key = alike.then(|| (group, indices.clone(), related));
        if let Some(table) = key.as_ref().and_then(|key| self.readers.get(key)) {
            let (table, own) = (table.clone(), related.then_some(indices.len()));
            return self.charge(group, table, own);
        }
        let known = Known::of(domain_len);
        let states = std::mem::take(&mut self.group_states[group]);
        let price = |s: &GroupState, i: &usize| {
            let load = loads.get(*i).copied().unwrap_or(0);
            self.read_cost((node, port), group, s, *i, &known)
                .saturating_add(cost(load, 0))
        };
        let mut costs = Vec::with_capacity(states.len() * indices.len());
        for state in &states {
            let of_state = indices.iter().map(|i| price(state, i));
            match related {
                true => costs.extend(of_state),
                false => costs.push(of_state.min().unwrap_or(0)),
            }
        }
        self.group_states[group] = states;
        let table = self.problem.shared(costs.into());
        if let Some(key) = key {
            self.readers.insert(key, table.clone());
        }
        self.charge(group, table, related.then_some(indices.len()))
    }

    /// Adds the cost of a reader of a group. `own` is the number of states of the reader's own variable, if it has one.
    fn charge(&mut self, group: Group, table: Table, own: Option<usize>) -> Option<usize> {
        // Variables of groups come first; those of ports follow.
        let var = self.problem.domains.len();
        self.problem.domains.extend(own);
        let vars = [group.index(), var];
        self.problem
            .keep(&vars[..1 + usize::from(own.is_some())], table);
        own.map(|_| var)
    }

    pub(super) fn relate(&mut self, node: Node, a: (usize, Slot), b: (usize, Slot)) {
        let relation = self.relation(node, a.0, b.0);
        let rows = self.indices(node, a);
        let columns = self.indices(node, b);
        let mut table = Vec::with_capacity(rows.len() * columns.len());
        for &row in &rows {
            for &column in &columns {
                table.push(match relation[row][column] {
                    true => cost(self.crossing(node, (a.0, row), (b.0, column)), 0),
                    false => INFEASIBLE,
                });
            }
        }
        if table.iter().any(|&c| c != 0) {
            self.problem.push(&[a.1.var, b.1.var], table.into());
        }
    }

    /// The index of the layout at the port for each state of its variable.
    pub(super) fn indices(&self, node: Node, (port, slot): (usize, Slot)) -> Vec<usize> {
        let view = &self.ports[&(node, port)];
        if slot.produces {
            let states = &self.group_states[view.group];
            return states.iter().map(|s| s.produced).collect();
        }
        (0..view.domain.len()).filter(|&i| view.domain[i]).collect()
    }
}
