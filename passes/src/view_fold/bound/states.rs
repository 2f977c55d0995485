//! The states of a group: the layout that it is produced in, its copies, and the least cost of each.

use super::ports::ports_of;
use super::relaxation::{Copies, GroupState, Known, Readers, Relaxation};
use crate::view_fold::groups::{Group, Node};
use optc_ir::entity::EntityId;
use optc_solver::{Cost, INFEASIBLE, cost};

/// The most readers of a group with which there are states in which one of them does not read the produced layout: one
/// state for each reader and each set of copies.
pub(super) const MOST_READERS: usize = 8;

impl Relaxation<'_> {
    pub(super) fn counts(&self, group: Group) -> bool {
        let data = &self.graph.groups[group];
        // A value without elements costs nothing anywhere.
        !data.is_known() && !data.shape.contains(&0)
    }

    /// Adds one variable for each group, and makes the views of its ports.
    pub(super) fn groups(&mut self) {
        let graph = self.graph;
        for (group, data) in graph.groups.iter() {
            if self.asked.has_ended() {
                return;
            }
            if !self.counts(group) {
                self.group_states[group] = vec![GroupState::FIRST];
                self.problem.domains.push(1);
                continue;
            }
            self.atoms[group] = self.find_atoms(group);
            let n = self.candidates[group].len() + self.classes(group);
            let produced = match data.producer {
                Some((node, port)) => self.view(node, port, group).domain.clone(),
                None => vec![true; n],
            };
            let mut wanted = vec![0usize; n];
            for &(node, port) in &data.uses {
                let domain = &self.view(node, port, group).domain;
                let counts = wanted.iter_mut().zip(domain);
                counts.for_each(|(w, &d)| *w += usize::from(d));
            }
            let states = self.states(group, &produced, &wanted);
            let known = Known::of(n);
            let costs = states.iter().map(|s| self.state_cost(group, s, &known));
            let table = costs.collect();
            self.problem.push(&[group.index()], table);
            self.problem.domains.push(states.len());
            self.group_states[group] = states;
        }
    }

    /// The least bytes that a conversion of a group for one of these ports reads and writes. A layout that is no
    /// candidate has at least the padding that its producer, or any one of the ports, needs.
    pub(super) fn convert(
        &self,
        group: Group,
        from: usize,
        to: usize,
        ports: &[(Node, usize)],
    ) -> u64 {
        if from == to {
            return 0;
        }
        let producer = self.graph.groups[group].producer;
        let made = producer.map_or(0, |port| self.unknown_padding(group, from, port));
        let wanted = ports
            .iter()
            .map(|&port| self.unknown_padding(group, to, port));
        self.bytes(group, from)
            .saturating_add(made)
            .saturating_add(self.bytes(group, to))
            .saturating_add(wanted.min().unwrap_or(0))
    }

    /// Returns whether padding counts where the produced value is read, and there are several readers.
    pub(super) fn tells_readers(&self, group: Group) -> bool {
        1 < self.graph.groups[group].uses.len() && self.graph.is_read_apart(group)
    }

    /// The least cost of the padding of a group where it is written, and where the produced value is read.
    pub(super) fn stored_padding(&self, group: Group, state: &GroupState) -> u64 {
        let data = &self.graph.groups[group];
        let copied =
            !state.copies_none() || matches!(state.readers, Readers::Not(_) | Readers::None);
        if self.graph.is_streamed(group) && !copied {
            return 0;
        }
        let read = self.tells_readers(group) && state.readers != Readers::None;
        let ports = match state.readers {
            Readers::All => ports_of(data),
            Readers::Some | Readers::Not(_) | Readers::None => data.producer.into_iter().collect(),
        };
        let padding = self.padding(group, state.produced, &ports);
        let times = u64::from(data.is_written()) + u64::from(read);
        padding.saturating_mul(times)
    }

    /// The least cost of one copy for several readers.
    pub(super) fn copy_cost(&self, group: Group, produced: usize, to: usize) -> u64 {
        let uses = &self.graph.groups[group].uses;
        self.convert(group, produced, to, uses)
            .saturating_add(self.copy_padding(group, to, uses))
    }

    pub(super) fn state_cost(&self, group: Group, state: &GroupState, known: &Known) -> Cost {
        let copy_cost = |to| {
            let at = (state.produced, to);
            known.ask(at, || self.copy_cost(group, state.produced, to))
        };
        let copies = match &state.copies {
            Copies::To(all) => (all.iter())
                .map(|&to| copy_cost(to))
                .fold(0, u64::saturating_add),
            Copies::Many(n) => {
                let n_states = self.candidates[group].len() + self.classes(group);
                let others = (0..n_states).filter(|&to| to != state.produced);
                let mut all: Vec<u64> = others.map(copy_cost).collect();
                all.sort_unstable();
                all.truncate(*n);
                all.into_iter().fold(0, u64::saturating_add)
            }
        };
        cost(copies.saturating_add(self.stored_padding(group, state)), 0)
    }

    /// The states of a group. `produced` says for each layout whether the group may be produced in it; `wanted`, how
    /// many readers may want it.
    pub(super) fn states(
        &self,
        group: Group,
        produced: &[bool],
        wanted: &[usize],
    ) -> Vec<GroupState> {
        let data = &self.graph.groups[group];
        let shared: Vec<usize> = (0..wanted.len()).filter(|&i| 1 < wanted[i]).collect();
        let produced: Vec<usize> = (0..produced.len()).filter(|&i| produced[i]).collect();
        // A copy for one reader is the reader's own.
        let most = (data.uses.len() / 2).min(shared.len());
        let mut sets: Vec<Vec<usize>> = vec![Vec::new()];
        let mut size = 0;
        let mut begin = 0;
        while size < most {
            let mut longer = Vec::new();
            for set in &sets[begin..] {
                let after = set.last().map_or(0, |last| last + 1);
                for &i in shared.iter().filter(|&&i| after <= i) {
                    longer.push([&set[..], &[i]].concat());
                }
            }
            if self.detail.states < (sets.len() + longer.len()) * produced.len() {
                break;
            }
            begin = sets.len();
            sets.extend(longer);
            size += 1;
        }
        let mut states = Vec::new();
        for produced in produced {
            let is_class = self.candidates[group].len() <= produced;
            let mut add = |copies: &Copies, readers| {
                states.push(GroupState {
                    produced,
                    copies: copies.clone(),
                    readers,
                });
            };
            for set in sets.iter().filter(|set| !set.contains(&produced)) {
                let copies = Copies::To(set.clone());
                let tells = self.tells_readers(group);
                if tells {
                    add(&copies, Readers::None);
                }
                if tells && is_class && set.is_empty() && data.uses.len() <= MOST_READERS {
                    add(&copies, Readers::All);
                    (0..data.uses.len()).for_each(|i| add(&copies, Readers::Not(i)));
                } else {
                    add(&copies, Readers::Some);
                }
            }
            if size < most {
                add(&Copies::Many(size + 1), Readers::None);
            }
        }
        states
    }

    /// The cost of a reader of a port in a state, given the state of its group.
    pub(super) fn read_cost(
        &self,
        port: (Node, usize),
        group: Group,
        state: &GroupState,
        index: usize,
        known: &Known,
    ) -> Cost {
        let data = &self.graph.groups[group];
        let alone = data.uses.len() == 1;
        let there = match &state.copies {
            Copies::To(all) => all.contains(&index),
            Copies::Many(_) => true,
        };
        if there {
            return 0;
        }
        if state.produced == index {
            let computes = self.graph.nodes[port.0].signature.is_some();
            let refused = match state.readers {
                Readers::All | Readers::Some => false,
                Readers::Not(i) => data.uses.get(i) == Some(&port),
                Readers::None => true,
            };
            if refused && computes {
                return INFEASIBLE;
            }
            if alone && self.graph.is_read_apart(group) && !self.graph.is_streamed(group) {
                let ports = ports_of(data);
                let both = self.padding(group, index, &ports);
                let written = self.padding(group, index, ports.get(..1).unwrap_or(&[]));
                let again =
                    u64::from(data.is_written()).saturating_mul(both.saturating_sub(written));
                return cost(both.saturating_add(again), 0);
            }
            return 0;
        }
        if state.readers == Readers::All {
            return INFEASIBLE;
        }
        let bytes = known.ask((state.produced, index), || {
            self.converted(port, group, state.produced, index)
        });
        cost(bytes, 0)
    }

    /// The cost of a reader that converts the produced value for itself.
    pub(super) fn converted(
        &self,
        port: (Node, usize),
        group: Group,
        produced: usize,
        index: usize,
    ) -> u64 {
        let data = &self.graph.groups[group];
        let alone = data.uses.len() == 1;
        let moved = self.convert(group, produced, index, &[port]);
        let read = self.copy_padding(group, index, &[port]);
        // A streamed value that its only reader converts is stored.
        let stored = match alone && self.graph.is_streamed(group) && data.is_written() {
            true => {
                let ports: Vec<(Node, usize)> = data.producer.into_iter().collect();
                self.padding(group, produced, &ports)
            }
            false => 0,
        };
        moved.saturating_add(read).saturating_add(stored)
    }
}
