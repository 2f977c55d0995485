//! The choice of one layout a group and one form an operation, as a problem of costs.

use super::bound;
use super::groups::{Group, Node};
use super::layouts::LayoutId;
use super::maps::{FastMap, FastSet};
use super::problem::{Cost, INFEASIBLE, Problem, cost, movement};
use super::search::{Modes, Need, NodeMode, Search};
use super::solve::{Solution, solve};
use optc_ir::entity::{EntityId, SideTable};
use std::rc::Rc;

/// One state of a group: the layout it is produced in, and further copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupState {
    pub(crate) produced: usize,
    pub(crate) extras: u64,
}

/// The chosen layouts.
pub(crate) struct Choice {
    pub(crate) groups: SideTable<Group, GroupState>,
    pub(crate) modes: SideTable<Node, Rc<NodeMode>>,
    pub(crate) cost: Cost,
    pub(crate) proven: bool,
}

/// The states of groups; groups that look alike share them.
struct States {
    of: SideTable<Group, Rc<[GroupState]>>,
    /// A number of what a group's states and their costs depend on.
    class: SideTable<Group, usize>,
}

/// What the states of a group and their costs depend on.
#[derive(PartialEq, Eq, Hash)]
struct Class<'a> {
    candidates: &'a [LayoutId],
    /// The candidates that its operation may give, and those that its readers may want.
    produced: u64,
    wanted: u64,
    /// How many readers it has, as far as it matters.
    readers: usize,
    constant: bool,
    known: bool,
    streamed: bool,
    touches: u64,
}

/// What the costs of the ports of an operation that lie in one group depend on.
#[derive(PartialEq, Eq, Hash)]
struct PairKey {
    class: usize,
    /// Where the forms lie: nodes that look alike share them.
    modes: *const Rc<NodeMode>,
    ports: Vec<(usize, bool)>,
    copied: u64,
}

/// Readers from which on a group may have pairs of further copies.
const PAIR_READERS: usize = 4;

/// Candidates of a group up to which pairs of further copies are states of it.
const PAIR_LIMIT: usize = 6;

impl Search<'_> {
    /// What the states of a group depend on.
    fn class(&self, group: Group, modes: &SideTable<Node, Modes>) -> Class<'_> {
        let data = &self.graph.groups[group];
        let masks = |(node, port): &(Node, usize)| {
            modes[*node]
                .iter()
                .fold(0u64, |m, mode| m | mode.needs[*port].mask)
        };
        Class {
            candidates: &self.candidates[group],
            produced: data.producer.as_ref().map_or(0, masks),
            wanted: data.uses.iter().map(masks).fold(0u64, |a, b| a | b),
            readers: data.uses.len().min(PAIR_READERS),
            constant: data.constant,
            known: data.is_known(),
            streamed: self.graph.is_streamed(group),
            touches: data.touches(),
        }
    }

    /// The states of all groups, or `None` where one has none.
    fn states(&self, modes: &SideTable<Node, Modes>, with_extras: bool) -> Option<States> {
        let mut classes: FastSet<Class<'_>> = FastSet::default();
        let mut lists: Vec<Rc<[GroupState]>> = Vec::new();
        let mut states = States {
            of: SideTable::new(Rc::new([])),
            class: SideTable::new(0),
        };
        for group in self.graph.groups.ids() {
            let (class, is_new) = classes.insert_full(self.class(group, modes));
            if is_new {
                lists.extend(classes.last().map(|c| group_states(c, with_extras).into()));
            }
            if lists[class].is_empty() {
                tracing::debug!(%group, "no state");
                return None;
            }
            states.of[group] = lists[class].clone();
            states.class[group] = class;
        }
        Some(states)
    }

    fn convert_bytes(&self, group: Group, from: usize, to: usize) -> u64 {
        let c = &self.candidates[group];
        let bytes = |i: usize| self.layouts.bytes(c[i]);
        if from == to {
            0
        } else {
            bytes(from).saturating_add(bytes(to))
        }
    }

    /// Bytes without elements of a group in a layout.
    fn padding(&self, group: Group, index: usize) -> u64 {
        self.layouts.padding(self.candidates[group][index])
    }

    /// The padding that a group in a state costs where it is written and where it is read.
    fn stored_padding(&self, group: Group, state: GroupState) -> u64 {
        let data = &self.graph.groups[group];
        if state.extras == 0 && self.graph.is_streamed(group) {
            return 0;
        }
        let padding = self.padding(group, state.produced);
        padding.saturating_mul(data.touches())
    }

    /// The padding that a copy writes where it might have been a part of its operand that stays where it is.
    fn copied_padding(&self, node: Node, group: Group, state: GroupState, mode: &NodeMode) -> u64 {
        match self.is_copy(node, mode) {
            true => self.padding(group, state.produced),
            false => 0,
        }
    }

    /// Whether an operation that may give a part of its operand copies it.
    pub(crate) fn is_copy(&self, node: Node, mode: &NodeMode) -> bool {
        let copied = self.graph.nodes[node].signature;
        let copied = copied.map_or(0, |id| self.signatures.get(id).copied);
        copied != 0 && copied <= mode.price
    }

    /// Bytes of the copies that might have been parts of their operands.
    pub(crate) fn copied(&self, choice: &Choice) -> u64 {
        let copies = self.graph.nodes.ids().filter_map(|node| {
            let id = self.graph.nodes[node].signature?;
            let copy = self.is_copy(node, &choice.modes[node]);
            copy.then(|| self.signatures.get(id).copied)
        });
        copies.fold(0, u64::saturating_add)
    }

    /// A streamed group that is converted is stored.
    fn stored_by_conversion(&self, group: Group, state: GroupState) -> u64 {
        match self.graph.is_streamed(group) {
            true => {
                let padding = self.padding(group, state.produced);
                padding.saturating_mul(self.graph.groups[group].touches())
            }
            false => 0,
        }
    }

    /// Bytes of giving a port what it needs when its group is in a state.
    fn port_bytes(&self, group: Group, state: GroupState, need: &Need) -> u64 {
        let available = (1u64 << state.produced) | state.extras;
        if need.constant.is_some() || need.mask & available != 0 {
            return 0;
        }
        match need.direct {
            Some(layout) => {
                let from = self.layouts.bytes(self.candidates[group][state.produced]);
                let to = self
                    .layouts
                    .bytes(layout)
                    .saturating_add(self.layouts.padding(layout));
                let stored = self.stored_by_conversion(group, state);
                from.saturating_add(to).saturating_add(stored)
            }
            None => self.stored_by_conversion(group, state).saturating_add(
                (0..self.candidates[group].len())
                    .filter(|i| need.mask & (1u64 << i) != 0)
                    .map(|i| {
                        let moved = self.convert_bytes(group, state.produced, i);
                        moved.saturating_add(self.padding(group, i))
                    })
                    .min()
                    .unwrap_or(u64::MAX),
            ),
        }
    }

    /// Bytes that no lowering goes below.
    pub(crate) fn bound(&mut self) -> u64 {
        if let Some(known) = self.bound {
            return known;
        }
        let found = bound::bytes(self.graph, self.layouts, self.signatures, &self.candidates);
        self.bound = Some(found);
        found
    }

    /// The forms of all operations, or `None` when some operation has none at all.
    pub(crate) fn modes(&mut self) -> Option<SideTable<Node, Modes>> {
        let graph = self.graph;
        let mut modes: SideTable<Node, Modes> = SideTable::new(Rc::new([]));
        for node in graph.nodes.ids() {
            modes[node] = self.node_modes(node);
            if modes[node].is_empty() && !graph.nodes[node].ports.is_empty() {
                tracing::debug!(%node, kind = ?graph.nodes[node].kind, "no form");
                return None;
            }
        }
        Some(modes)
    }

    /// The cheapest choice, or `None` when some operation has no form at all.
    pub(crate) fn choose(&mut self) -> Option<Choice> {
        let modes = self.modes()?;
        // Without further copies the domains are small; a choice that moves nothing needs none.
        let plain = self.choose_among(&modes, None)?;
        if movement(plain.cost) == 0 && plain.proven {
            return Some(plain);
        }
        // On a machine with tiles a choice seldom costs nothing; one that no lowering goes below needs none either.
        if self.layouts.is_tiled() && movement(plain.cost) == self.bound() {
            return Some(plain);
        }
        let shared = self.choose_among(&modes, Some(&plain))?;
        let better = shared.cost <= plain.cost;
        Some(if better { shared } else { plain })
    }

    /// The cheapest choice without further copies, or with them and then no dearer than one without.
    fn choose_among(
        &self,
        modes: &SideTable<Node, Modes>,
        plain: Option<&Choice>,
    ) -> Option<Choice> {
        let states = self.states(modes, plain.is_some())?;
        let problem = self.problem(modes, &states);
        let start = plain.and_then(|plain| self.assignment(plain, modes, &states));
        let solution = solve(&problem, start);
        tracing::debug!(
            variables = problem.domains.len(),
            factors = problem.factors.len(),
            bytes = movement(solution.cost),
            proven = solution.proven,
            "solved"
        );
        (solution.cost < INFEASIBLE).then(|| self.read(&solution, modes, &states))
    }

    /// A choice as the states of a problem's variables.
    fn assignment(
        &self,
        choice: &Choice,
        modes: &SideTable<Node, Modes>,
        states: &States,
    ) -> Option<Vec<usize>> {
        let of_group = |g: Group| states.of[g].iter().position(|&s| s == choice.groups[g]);
        let of_node = |n: Node| match modes[n].is_empty() {
            true => Some(0),
            false => modes[n].iter().position(|m| *m == choice.modes[n]),
        };
        let groups = self.graph.groups.ids().map(of_group);
        groups.chain(self.graph.nodes.ids().map(of_node)).collect()
    }

    fn problem(&self, modes: &SideTable<Node, Modes>, states: &States) -> Problem {
        let graph = self.graph;
        let n_groups = graph.groups.len();
        let mut problem = Problem::default();
        problem
            .domains
            .extend(graph.groups.ids().map(|g| states.of[g].len()));
        problem
            .domains
            .extend(graph.nodes.ids().map(|n| modes[n].len().max(1)));
        let mut of_class: FastMap<usize, Rc<[Cost]>> = FastMap::default();
        for group in graph.groups.ids() {
            let table = of_class.entry(states.class[group]).or_insert_with(|| {
                let all = states.of[group].iter();
                all.map(|&s| self.state_cost(group, s)).collect()
            });
            problem.add(vec![group.index()], table.clone());
        }
        let mut pairs: FastMap<PairKey, Rc<[Cost]>> = FastMap::default();
        for (node, data) in graph.nodes.iter() {
            let var = n_groups + node.index();
            let known = graph.is_known(node);
            let price = |m: &Rc<NodeMode>| match known {
                true => cost(0, m.tie.saturating_add(m.price)),
                false => cost(m.price, m.tie),
            };
            problem.add(vec![var], modes[node].iter().map(price).collect());
            let copied = data.signature;
            let copied = copied.map_or(0, |id| self.signatures.get(id).copied);
            let mut by_group: FastMap<Group, Vec<(usize, bool)>> = FastMap::default();
            for (port, p) in data.ports.iter().enumerate() {
                if let Some(member) = graph.member(p.value)
                    && !graph.groups[member.group].constant
                {
                    let ports = by_group.entry(member.group).or_default();
                    ports.push((port, p.is_result));
                }
            }
            for (group, ports) in by_group {
                let key = PairKey {
                    class: states.class[group],
                    modes: modes[node].as_ptr(),
                    ports,
                    copied,
                };
                let known = pairs.get(&key).cloned();
                let table = known.unwrap_or_else(|| {
                    let all = states.of[group].iter().flat_map(|&state| {
                        let modes = modes[node].iter();
                        modes.map(move |mode| (state, mode))
                    });
                    let ports = &key.ports;
                    let costs =
                        all.map(|(state, mode)| self.pair_cost(node, group, ports, state, mode));
                    let table: Rc<[Cost]> = costs.collect();
                    pairs.insert(key, table.clone());
                    table
                });
                problem.add(vec![group.index(), var], table);
            }
        }
        problem
    }

    fn state_cost(&self, group: Group, state: GroupState) -> Cost {
        if self.graph.groups[group].constant {
            return 0;
        }
        let extras = (0..self.candidates[group].len()).filter(|i| state.extras & (1u64 << i) != 0);
        let read = |i: usize| self.padding(group, i);
        let bytes = extras
            .map(|i| {
                self.convert_bytes(group, state.produced, i)
                    .saturating_add(read(i))
            })
            .fold(self.stored_padding(group, state), u64::saturating_add);
        let default = cost(0, u64::from(state.produced != 0));
        self.price(group, bytes).saturating_add(default)
    }

    /// What bytes of a group cost: movement, or where it is known at compile time a tie breaker.
    fn price(&self, group: Group, bytes: u64) -> Cost {
        if self.graph.groups[group].is_known() {
            cost(0, bytes)
        } else {
            cost(bytes, 0)
        }
    }

    fn pair_cost(
        &self,
        node: Node,
        group: Group,
        ports: &[(usize, bool)],
        state: GroupState,
        mode: &NodeMode,
    ) -> Cost {
        let mut bytes = 0u64;
        for &(port, is_result) in ports {
            let need = &mode.needs[port];
            if is_result {
                if need.mask & (1u64 << state.produced) == 0 {
                    return INFEASIBLE;
                }
                bytes = bytes.saturating_add(self.copied_padding(node, group, state, mode));
            } else {
                bytes = bytes.saturating_add(self.port_bytes(group, state, need));
            }
        }
        if bytes == u64::MAX {
            INFEASIBLE
        } else {
            self.price(group, bytes)
        }
    }

    fn read(&self, solution: &Solution, modes: &SideTable<Node, Modes>, states: &States) -> Choice {
        let n_groups = self.graph.groups.len();
        let mut groups = SideTable::new(GroupState {
            produced: 0,
            extras: 0,
        });
        for group in self.graph.groups.ids() {
            groups[group] = states.of[group][solution.states[group.index()]];
        }
        let mut chosen = SideTable::new(Rc::new(NodeMode {
            needs: Vec::new(),
            tie: 0,
            price: 0,
        }));
        for node in self.graph.nodes.ids() {
            if let Some(mode) = modes[node].get(solution.states[n_groups + node.index()]) {
                chosen[node] = mode.clone();
            }
        }
        Choice {
            groups,
            modes: chosen,
            cost: solution.cost,
            proven: solution.proven,
        }
    }
}

/// The states that a group of a class may be in.
fn group_states(class: &Class<'_>, with_extras: bool) -> Vec<GroupState> {
    if class.constant {
        return vec![GroupState {
            produced: 0,
            extras: 0,
        }];
    }
    let n = class.candidates.len();
    let mut states = Vec::new();
    let in_mask = |mask: u64| (0..n).filter(move |i| mask & (1u64 << i) != 0);
    for p in in_mask(class.produced) {
        states.push(GroupState {
            produced: p,
            extras: 0,
        });
        if class.readers < 2 || !with_extras {
            continue;
        }
        let others = class.wanted & !(1u64 << p);
        for e in in_mask(others) {
            states.push(GroupState {
                produced: p,
                extras: 1u64 << e,
            });
            if class.readers < PAIR_READERS || PAIR_LIMIT < n {
                continue;
            }
            for f in in_mask(others).filter(|&f| e < f) {
                states.push(GroupState {
                    produced: p,
                    extras: (1u64 << e) | (1u64 << f),
                });
            }
        }
    }
    states
}
