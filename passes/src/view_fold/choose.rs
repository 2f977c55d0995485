//! The choice of one layout a group and one form an operation, as a problem of costs.
//!
//! Example: a group with the candidates row-major and transposed has the states "row-major", "transposed", and each of
//! these with a copy in the other layout. An operation with two forms has two states. A reader whose form does not take
//! an available layout pays a conversion.

use super::bound::{self, Fine};
use super::groups::{Graph, Group, Node, NodeKind};
use super::layouts::{LayoutId, Layouts};
use super::maps::{FastMap, FastSet};
use super::parts::MOST_CUT;
use super::search::{Modes, Need, NodeMode, Search};
use super::signatures::Signatures;
use optc_ir::entity::{EntityId, SideTable};
use optc_solver::{
    Aim, Asked, Columns, Cost, Draft, INFEASIBLE, Solution, Starts, Written, cost, movement,
};
use smallvec::SmallVec;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

/// A state of a group: the layout that it is produced in, and further copies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct GroupState {
    pub(crate) produced: usize,
    pub(crate) extras: u64,
    /// If above 0, the state stands for all sets of at least this many copies out of `extras`, and costs no more than
    /// any of them.
    open: usize,
    /// True if an operation reads the value in the layout that it is produced in: its padding then counts once more.
    pub(crate) read: bool,
}

impl GroupState {
    /// The first candidate, without further copies.
    const FIRST: GroupState = GroupState {
        produced: 0,
        extras: 0,
        open: 0,
        read: true,
    };
}

/// The chosen layouts.
#[derive(Clone)]
pub(crate) struct Choice {
    pub(crate) groups: SideTable<Group, GroupState>,
    pub(crate) modes: SideTable<Node, Rc<NodeMode>>,
    pub(crate) cost: Cost,
    pub(crate) proven: bool,
}

/// The states of groups; groups that look alike share them.
pub(super) struct States {
    of: SideTable<Group, Arc<[GroupState]>>,
    /// A number of the class of each group: all that its states and their costs depend on.
    class: SideTable<Group, usize>,
    /// True if some states stand for larger sets of copies.
    has_open: bool,
}

impl States {
    /// Returns whether a solution is not allowed, or has a state that stands for larger sets of copies.
    fn says_nothing(&self, solution: &Solution) -> bool {
        let mut states = solution.states.iter().enumerate();
        let is_open = |(var, &state): (usize, &usize)| {
            let of = self.of_group(Group::from_index(var)).get(state);
            of.is_some_and(|state| state.open != 0)
        };
        INFEASIBLE <= solution.cost || states.any(is_open)
    }

    pub(super) fn of_group(&self, group: Group) -> &[GroupState] {
        &self.of[group]
    }
}

/// A choice as a problem that is not solved yet.
struct Posed {
    states: States,
    problem: Written,
    /// The choice to improve, as states of the problem's variables.
    near: Option<Vec<usize>>,
    aim: Aim,
}

impl Posed {
    fn solve(&self, asked: Asked) -> Solution {
        self.problem.solve(Starts {
            near: self.near.clone(),
            safe: &mut || None,
            asked,
            aim: self.aim,
        })
    }

    fn solved(self, asked: Asked) -> Solved {
        let solution = self.solve(asked);
        let states = self.states;
        Solved { states, solution }
    }

    /// The problem without the states that stand for larger sets of copies. The choice to improve has none of them.
    fn closed(&self, groups: usize) -> Posed {
        let mut lists: FastMap<usize, Arc<[GroupState]>> = FastMap::default();
        let mut states = States {
            of: SideTable::new(Arc::new([])),
            class: self.states.class.clone(),
            has_open: false,
        };
        let is_closed = |s: &&GroupState| s.open == 0;
        let mut stays: Vec<Vec<bool>> = Vec::with_capacity(groups);
        for group in (0..groups).map(Group::from_index) {
            let all = self.states.of_group(group);
            let list = lists.entry(self.states.class[group]);
            let list = list.or_insert_with(|| all.iter().filter(is_closed).copied().collect());
            states.of[group] = list.clone();
            stays.push(all.iter().map(|s| is_closed(&s)).collect());
        }
        let near = self.near.as_ref().map(|near| {
            let place = |(var, &state): (usize, &usize)| match stays.get(var) {
                Some(stays) => stays[..state].iter().filter(|&&s| s).count(),
                None => state,
            };
            near.iter().enumerate().map(place).collect()
        });
        Posed {
            states,
            problem: self.problem.without(&stays),
            near,
            aim: Aim::Assignment,
        }
    }
}

/// A solved problem.
struct Solved {
    states: States,
    solution: Solution,
}

/// The input of the bound, with layouts of its own: the bound is computed while other layouts are made.
struct Apart<'a> {
    graph: &'a Graph,
    layouts: Layouts,
    signatures: Signatures,
    candidates: SideTable<Group, Vec<LayoutId>>,
}

impl Apart<'_> {
    fn bound(mut self, asked: Asked) -> Fine {
        let known = (self.graph, &mut self.layouts, &self.signatures);
        bound::fine(known, &self.candidates, asked)
    }
}

/// Choices with copies that were computed in parallel with the bound.
#[derive(Default)]
struct Ahead {
    /// The choice in which states stand for larger sets of copies.
    open: Option<(Choice, States)>,
    /// The choice without such states, where the other one is of no use.
    closed: Option<Choice>,
}

/// All that the states of a group and their costs depend on.
#[derive(PartialEq, Eq, Hash)]
struct Class<'a> {
    candidates: &'a [LayoutId],
    /// The candidates that its operation may produce, and those that its readers may want.
    produced: u64,
    wanted: u64,
    /// The number of readers, up to [`MOST_READERS`].
    readers: usize,
    constant: bool,
    known: bool,
    streamed: bool,
    touches: u64,
    /// Candidates with padding, where operations read the group.
    padded: u64,
}

/// All that the costs of an operation's ports in one group depend on.
#[derive(PartialEq, Eq, Hash)]
struct PairKey {
    class: usize,
    /// The address of the forms: nodes that look alike share them.
    modes: *const Rc<NodeMode>,
    ports: Ports,
    computes: bool,
}

/// The demand of a form at a port.
struct Taken<'a> {
    need: &'a Need,
    is_result: bool,
    /// True if the port is a part that is copied, though it could have been in place.
    copies: bool,
    /// Bytes that the operation copies if no conversion stands before the port.
    unconverted: u64,
    /// Bytes of converting the produced value, once computed.
    converted: Option<u64>,
}

/// Returns whether a form copies a port that could have been a part of another one in place.
fn copies(mode: &NodeMode, port: usize) -> bool {
    port < MOST_CUT && mode.copies & (1 << port) != 0
}

/// The layouts that a group in a state offers to an operation.
struct Given {
    produced: usize,
    /// The candidates that are available to it.
    available: u64,
    /// Padding that is stored only if a conversion reads the value.
    stored: u64,
    computes: bool,
}

/// Ports of an operation, and whether each is a result.
type Ports = SmallVec<[(usize, bool); 2]>;

/// Above this number of readers no difference is made. A further copy serves at least two readers, because one reader
/// converts for itself.
const MOST_READERS: usize = 16;

/// The most candidates of a group with which pairs of further copies are states from the start: the number of pairs is
/// quadratic, 15 for this many.
const PAIR_LIMIT: usize = 6;

/// The most states of a group with which larger sets of copies are among them.
const MOST_STATES: usize = 2048;

/// Above this number of signatures the bound is begun before the first choice is made, because finding the forms takes
/// a while.
const MANY_SIGNATURES: usize = 1 << 12;

/// The most rounds in which sets of copies grow.
const MOST_ROUNDS: usize = 12;

impl<'a> Search<'a> {
    /// The class of a group: all that its states depend on.
    fn class(&self, group: Group, modes: &SideTable<Node, Modes>) -> Class<'_> {
        let data = &self.graph.groups[group];
        let masks = |(node, port): &(Node, usize)| {
            modes[*node]
                .iter()
                .fold(0u64, |m, mode| m | mode.needs[*port].mask)
        };
        let padded = |&i: &usize| data.is_read && !data.is_known() && self.padding(group, i) != 0;
        let candidates = 0..self.candidates[group].len();
        Class {
            padded: candidates.filter(padded).fold(0, |m, i| m | (1u64 << i)),
            candidates: &self.candidates[group],
            produced: data.producer.as_ref().map_or(0, masks),
            wanted: data.uses.iter().map(masks).fold(0u64, |a, b| a | b),
            readers: data.uses.len().min(MOST_READERS),
            constant: data.constant,
            known: data.is_known(),
            streamed: self.graph.is_streamed(group),
            touches: data.touches(),
        }
    }

    /// The states of all groups, or `None` where some group has none.
    pub(super) fn states(&self, modes: &SideTable<Node, Modes>, copies: &Copies) -> Option<States> {
        let mut classes: FastSet<Class<'_>> = FastSet::default();
        let mut lists: Vec<Arc<[GroupState]>> = Vec::new();
        let mut states = States {
            of: SideTable::new(Arc::new([])),
            class: SideTable::new(0),
            has_open: false,
        };
        for group in self.graph.groups.ids() {
            let (class, is_new) = classes.insert_full(self.class(group, modes));
            if is_new {
                lists.extend(
                    classes
                        .last()
                        .map(|c| group_states(c, copies, class).into()),
                );
            }
            if lists[class].is_empty() {
                tracing::debug!(%group, "no state");
                return None;
            }
            states.has_open |= is_new && lists[class].iter().any(|state| state.open != 0);
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

    /// Bytes of a group's layout that hold no element.
    fn padding(&self, group: Group, index: usize) -> u64 {
        self.layouts.padding(self.candidates[group][index])
    }

    /// The cost of the padding of a group in a state, where it is written and where it is read.
    fn stored_padding(&self, group: Group, state: GroupState) -> u64 {
        if state.extras == 0 && self.graph.is_streamed(group) {
            return 0;
        }
        self.all_padding(group, state)
    }

    /// The padding of a stored group, as often as it counts.
    fn all_padding(&self, group: Group, state: GroupState) -> u64 {
        let padding = self.padding(group, state.produced);
        padding.saturating_mul(self.touches(group, state))
    }

    /// The number of times that the padding of a stored group counts: for its write, and for reads of the produced value.
    fn touches(&self, group: Group, state: GroupState) -> u64 {
        let data = &self.graph.groups[group];
        u64::from(data.is_written()) + u64::from(data.is_read && state.read)
    }

    /// Padding of a streamed group that is stored because a conversion reads it.
    fn stored_by_conversion(&self, group: Group, state: GroupState) -> u64 {
        match self.graph.is_streamed(group) {
            true => self.all_padding(group, state),
            false => 0,
        }
    }

    /// Bytes of the conversion that a port needs, if any.
    fn port_bytes(&self, group: Group, given: &Given, taken: &mut Taken<'_>) -> u64 {
        let need = taken.need;
        if need.mask & given.available != 0 {
            return taken.unconverted;
        }
        if need.constant.is_some() {
            return 0;
        }
        let converted = || self.converted_bytes(group, given.produced, need, given.computes);
        let converted = taken.converted.get_or_insert_with(converted);
        converted.saturating_add(given.stored)
    }

    /// Bytes of the cheapest conversion of the produced value into a layout that the port takes.
    fn converted_bytes(&self, group: Group, produced: usize, need: &Need, computes: bool) -> u64 {
        // An operation that computes reads the result of a conversion, padding included.
        let read = |padding: u64| if computes { padding } else { 0 };
        let direct = need.direct.map_or(u64::MAX, |layout| {
            let from = self.layouts.bytes(self.candidates[group][produced]);
            let to = self.layouts.bytes(layout);
            let padding = read(self.layouts.padding(layout));
            from.saturating_add(to).saturating_add(padding)
        });
        let by_root = bits(need.mask).filter(|&i| i != produced).map(|i| {
            let moved = self.convert_bytes(group, produced, i);
            moved.saturating_add(read(self.padding(group, i)))
        });
        by_root.min().map_or(direct, |least| least.min(direct))
    }

    /// A lower bound of the bytes of every lowering; `enough` is the cost of some lowering.
    pub(crate) fn bound(&mut self, enough: u64) -> u64 {
        if let Some(known) = self.bound {
            return known;
        }
        let fine = self.fine.take();
        let found = bound::bytes(
            (self.graph, self.layouts, self.signatures),
            &self.candidates,
            fine,
            enough,
        );
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

    /// Returns whether there are so many groups that the bound is computed in a thread of its own.
    fn is_many(&self) -> bool {
        let many = bound::MANY_GROUPS < self.graph.groups.len();
        self.is_bounded && many && !self.layouts.is_tiled()
    }

    /// The input of the bound.
    fn apart(&self) -> Apart<'a> {
        Apart {
            graph: self.graph,
            layouts: self.layouts.clone(),
            signatures: self.signatures.of_ports(),
            candidates: self.candidates.clone(),
        }
    }

    /// The cheapest choice, or `None` when some operation has no form at all. With many different operations the bound
    /// is begun before it is known whether it is needed.
    pub(crate) fn choose(&mut self) -> Option<Choice> {
        if !self.is_many() || self.signatures.len() <= MANY_SIGNATURES {
            return self.cheapest(&mut || None);
        }
        let (apart, asked) = (self.apart(), Asked::perhaps());
        thread::scope(|scope| {
            let _ending = asked.ending();
            let of_bound = asked.clone();
            let bound = move || apart.bound(of_bound);
            let mut thread = thread::Builder::new().spawn_scoped(scope, bound).ok();
            self.cheapest(&mut || {
                asked.confirm();
                thread.take()?.join().ok()
            })
        })
    }

    /// [`Self::choose`]; `early` returns the bound with all states, where a thread computes it.
    fn cheapest(&mut self, early: &mut dyn FnMut() -> Option<Fine>) -> Option<Choice> {
        let modes = self.modes()?;
        // Without further copies the domains are small. A choice that moves nothing needs no copies.
        let (plain, _) = self.choose_from_fewer(&modes, None, &Copies::NONE)?;
        if movement(plain.cost) == 0 && plain.proven {
            return Some(plain);
        }
        // On a machine with tiles a choice seldom costs nothing. A choice that meets the bound needs no copies either.
        if self.layouts.is_tiled() && movement(plain.cost) == self.bound(movement(plain.cost)) {
            return Some(plain);
        }
        let shared = self.choose_with_copies(&modes, &plain, early)?;
        let better = shared.cost <= plain.cost;
        Some(if better { shared } else { plain })
    }

    /// The cheapest choice with further copies, no dearer than the one without. Sets of copies are enumerated on
    /// demand: when a state that stands for larger sets is chosen, those sets become states of their own in the next
    /// round. A choice without such a state is the cheapest of all.
    fn choose_with_copies(
        &mut self,
        modes: &SideTable<Node, Modes>,
        plain: &Choice,
        early: &mut dyn FnMut() -> Option<Fine>,
    ) -> Option<Choice> {
        let mut copies = Copies {
            open: true,
            ..Copies::few()
        };
        let mut ahead = self.ahead(modes, plain, &copies, early);
        for _ in 0..MOST_ROUNDS {
            if ahead.closed.is_some() {
                break;
            }
            let found = ahead.open.take();
            let found = found.or_else(|| self.choose_among(modes, Some(plain), &copies));
            let Some((choice, states)) = found else {
                break;
            };
            let stands = |g: Group| choice.groups[g].open != 0;
            if !self.graph.groups.ids().any(stands) {
                return Some(choice);
            }
            if !choice.proven {
                break;
            }
            // No set of copies costs less than the state that stands for it: none is worth it.
            if choice.cost == plain.cost {
                let proven = true;
                return Some(Choice {
                    proven,
                    ..plain.clone()
                });
            }
            let mut wanted: Vec<(usize, usize)> = Vec::new();
            for group in self.graph.groups.ids() {
                let open = choice.groups[group].open;
                if open != 0 && !wanted.contains(&(states.class[group], open)) {
                    wanted.push((states.class[group], open));
                }
            }
            let full = |&(class, size): &(usize, usize)| {
                let groups = self.graph.groups.ids();
                let mut alike = groups.filter(|&g| states.class[g] == class);
                alike
                    .next()
                    .is_none_or(|g| MOST_STATES < sets_of(&self.class(g, modes), size))
            };
            tracing::debug!(?wanted, "more copies");
            if wanted.iter().any(full) {
                break;
            }
            copies.sizes.extend(wanted);
        }
        copies.open = false;
        let closed = ahead.closed.filter(|_| copies.sizes.is_empty());
        let closed = closed.or_else(|| {
            let found = self.choose_from_fewer(modes, Some(plain), &copies);
            found.map(|(choice, _)| choice)
        });
        // Some set of copies might be cheaper.
        let proven = false;
        Some(Choice { proven, ..closed? })
    }

    /// Choices with copies of a program of many groups, computed by two threads in parallel with the bound. No
    /// computation depends on another, so the results are those of a sequential run. Empty where choices are computed
    /// on request instead.
    fn ahead(
        &mut self,
        modes: &SideTable<Node, Modes>,
        plain: &Choice,
        open: &Copies,
        early: &mut dyn FnMut() -> Option<Fine>,
    ) -> Ahead {
        if !self.is_many() {
            return Ahead::default();
        }
        let Some(posed) = self.pose(modes, Some(plain), open) else {
            return Ahead::default();
        };
        // If the choice with open states is not proven, the choice without them is needed. If the bound was begun
        // early, this thread begins with the latter before that is known.
        let closed_asked = Asked::perhaps();
        let is_taken = AtomicBool::new(!posed.states.has_open);
        let closed = || {
            let is_free = !is_taken.swap(true, Ordering::Relaxed);
            is_free.then(|| {
                posed
                    .closed(self.graph.groups.len())
                    .solved(closed_asked.clone())
            })
        };
        let both = || {
            let _ending = closed_asked.ending();
            let solution = posed.solve(Asked::surely());
            let fails = !solution.proven && posed.states.says_nothing(&solution);
            if !fails {
                return (solution, fails, None);
            }
            closed_asked.confirm();
            (solution, fails, closed())
        };
        let found = thread::scope(|scope| {
            let thread = thread::Builder::new().spawn_scoped(scope, both).ok()?;
            let bound = early();
            let is_free = bound.is_some() && !closed_asked.has_ended();
            let bound = bound.unwrap_or_else(|| self.apart().bound(Asked::surely()));
            self.fine = Some(bound);
            let mine = is_free.then(closed).flatten();
            let (solution, fails, theirs) = thread.join().ok()?;
            Some((solution, mine.or(theirs).filter(|_| fails)))
        });
        let Some((solution, closed)) = found else {
            return Ahead::default();
        };
        let closed = closed.and_then(|closed| self.chosen(modes, closed));
        let states = posed.states;
        Ahead {
            open: self.chosen(modes, Solved { states, solution }),
            closed: closed.map(|(choice, _)| choice),
        }
    }

    /// A choice. Where it is not proven, the better one of it and of a choice that is improved from one among fewer
    /// states: those in which the produced value is read.
    fn choose_from_fewer(
        &mut self,
        modes: &SideTable<Node, Modes>,
        plain: Option<&Choice>,
        copies: &Copies,
    ) -> Option<(Choice, States)> {
        let (first, states) = self.choose_among(modes, plain, copies)?;
        if first.proven || !self.layouts.is_tiled() {
            return Some((first, states));
        }
        let fewer = Copies {
            unread: false,
            sizes: copies.sizes.clone(),
            ..*copies
        };
        let (small, _) = self.choose_among(modes, plain, &fewer)?;
        let (again, _) = self.choose_among(modes, Some(&small), copies)?;
        let better = if again.cost < first.cost {
            again
        } else {
            first
        };
        Some((better, states))
    }

    /// The cheapest choice without further copies; or, given such a choice, the cheapest one with copies, which is no
    /// dearer.
    fn choose_among(
        &mut self,
        modes: &SideTable<Node, Modes>,
        plain: Option<&Choice>,
        copies: &Copies,
    ) -> Option<(Choice, States)> {
        let posed = self.pose(modes, plain, copies)?;
        let solution = match plain {
            Some(_) => posed.solve(Asked::surely()),
            None => posed.problem.solve(Starts {
                near: None,
                safe: &mut || self.by_default(&posed.problem, &posed.states),
                asked: Asked::surely(),
                aim: posed.aim,
            }),
        };
        let states = posed.states;
        self.chosen(modes, Solved { states, solution })
    }

    /// The problem of a choice; `None` where a group has no state.
    fn pose(
        &self,
        modes: &SideTable<Node, Modes>,
        plain: Option<&Choice>,
        copies: &Copies,
    ) -> Option<Posed> {
        let states = self.states(modes, copies)?;
        let problem = self.problem(modes, &states).written();
        let near = plain.and_then(|plain| self.assignment(plain, modes, &states));
        Some(Posed {
            aim: self.aim(copies, &states),
            states,
            problem,
            near,
        })
    }

    /// The aim of the solver for a choice. Without states that stand for larger sets of copies, a choice is not
    /// reported as proven. With them, it is of no use unless it is proven.
    fn aim(&self, copies: &Copies, states: &States) -> Aim {
        match self.layouts.is_tiled() {
            true if copies.unread => Aim::Both,
            false if states.has_open => Aim::Proof,
            false if copies.open => Aim::Both,
            _ => Aim::Assignment,
        }
    }

    /// The choice of a solution, with its states; `None` where the solution is not allowed.
    fn chosen(&self, modes: &SideTable<Node, Modes>, solved: Solved) -> Option<(Choice, States)> {
        let Solved { states, solution } = solved;
        tracing::debug!(
            variables = solution.states.len(),
            bytes = movement(solution.cost),
            proven = solution.proven,
            "solved"
        );
        let allowed = solution.cost < INFEASIBLE;
        allowed.then(|| (self.read(&solution, modes, &states), states))
    }

    /// An assignment as good as naive lowering or better: every group in the default layout of its producer, and each
    /// operation in the best form beside that. `None` where a group has no such state.
    fn by_default(&mut self, problem: &Written, states: &States) -> Option<Vec<usize>> {
        let graph = self.graph;
        let variables = problem.variables();
        let mut assignment = Vec::with_capacity(variables);
        for (group, data) in graph.groups.iter() {
            let produced = match data.producer {
                Some((node, port)) if !data.constant => {
                    let layout = self.required_at(node, port);
                    let value = graph.nodes[node].ports[port].value;
                    let root = graph.at_root(self.layouts, value, layout)?;
                    self.candidates[group].iter().position(|&l| l == root)?
                }
                _ => 0,
            };
            let plain = |s: &GroupState| s.produced == produced && s.extras == 0 && s.read;
            assignment.push(states.of[group].iter().position(plain)?);
        }
        let nodes = assignment.len()..variables;
        assignment.resize(variables, 0);
        problem.settle(&mut assignment, nodes);
        Some(assignment)
    }

    /// A choice as states of a problem's variables.
    pub(super) fn assignment(
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

    pub(super) fn problem(&self, modes: &SideTable<Node, Modes>, states: &States) -> Draft {
        let graph = self.graph;
        let n_groups = graph.groups.len();
        let of_groups = graph.groups.ids().map(|g| states.of[g].len());
        let of_nodes = graph.nodes.ids().map(|n| modes[n].len().max(1));
        let mut problem = Draft::over(of_groups.chain(of_nodes).collect());
        let mut of_class: FastMap<usize, Rc<Columns>> = FastMap::default();
        for group in graph.groups.ids() {
            let table = of_class.entry(states.class[group]).or_insert_with(|| {
                let all = states.of[group].iter();
                Rc::new(Columns::single(all.map(|&s| self.state_cost(group, s))))
            });
            problem.add(&[group.index()], table.clone());
        }
        let mut pairs: FastMap<PairKey, Rc<Columns>> = FastMap::default();
        for (node, data) in graph.nodes.iter() {
            let var = n_groups + node.index();
            let known = graph.is_known(node);
            let price = |m: &Rc<NodeMode>| match known {
                true => cost(0, m.tie.saturating_add(m.price)),
                false => cost(m.price, m.tie),
            };
            let prices = Columns::single(modes[node].iter().map(price));
            problem.add(&[var], Rc::new(prices));
            let mut by_group: FastMap<Group, Ports> = FastMap::default();
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
                    computes: matches!(data.kind, NodeKind::Op(_)),
                };
                let known = pairs.get(&key).cloned();
                let table = known.unwrap_or_else(|| {
                    let of_group = &states.of[group];
                    let table = self.pair_table(node, group, &key.ports, of_group, &modes[node]);
                    let table = Rc::new(table);
                    pairs.insert(key, table.clone());
                    table
                });
                problem.add(&[group.index(), var], table);
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
        let mut made: Vec<u64> = extras
            .map(|i| {
                self.convert_bytes(group, state.produced, i)
                    .saturating_add(read(i))
            })
            .collect();
        if state.open != 0 {
            made.sort_unstable();
            made.truncate(state.open);
        }
        let stored = self.stored_padding(group, state);
        let bytes = made.into_iter().fold(stored, u64::saturating_add);
        let default = cost(0, u64::from(state.produced != 0));
        self.price(group, bytes).saturating_add(default)
    }

    /// The cost of bytes of a group: movement, or a tie breaker where the group is known at compile time.
    fn price(&self, group: Group, bytes: u64) -> Cost {
        if self.graph.groups[group].is_known() {
            cost(0, bytes)
        } else {
            cost(bytes, 0)
        }
    }

    /// The cost of an operation's ports in one group, for each state of the group and each form. Forms with the same
    /// needs there cost the same.
    fn pair_table(
        &self,
        node: Node,
        group: Group,
        ports: &[(usize, bool)],
        states: &[GroupState],
        modes: &[Rc<NodeMode>],
    ) -> Columns {
        let alike = |a: &NodeMode, b: &NodeMode| {
            let mut needs = ports.iter();
            needs.all(|&(port, _)| a.needs[port] == b.needs[port])
                && ports
                    .iter()
                    .all(|&(port, _)| copies(a, port) == copies(b, port))
        };
        let mut kinds: Vec<&NodeMode> = Vec::new();
        let mut kind_of = Vec::with_capacity(modes.len());
        for mode in modes {
            let known = kinds.iter().position(|kind| alike(kind, mode));
            kind_of.push(known.unwrap_or_else(|| {
                kinds.push(mode);
                kinds.len() - 1
            }));
        }
        let row = kinds.iter().flat_map(|kind| self.taken(node, ports, kind));
        let mut row: Vec<Taken<'_>> = row.collect();
        let mut costs = Vec::with_capacity(states.len() * kinds.len());
        let mut produced = None;
        for &state in states {
            // States with one produced layout are adjacent: the cost of converting it for a port stays the same.
            if produced != Some(state.produced) {
                produced = Some(state.produced);
                row.iter_mut().for_each(|taken| taken.converted = None);
            }
            let given = self.given(node, group, state);
            let kinds = row.chunks_exact_mut(ports.len());
            costs.extend(kinds.map(|taken| self.pair_cost(group, &given, taken)));
        }
        Columns::of(costs, kinds.len(), kind_of)
    }

    /// The demands of a form at these ports of an operation.
    fn taken<'n>(
        &'n self,
        node: Node,
        ports: &'n [(usize, bool)],
        mode: &'n NodeMode,
    ) -> impl Iterator<Item = Taken<'n>> {
        let id = self.graph.nodes[node].signature;
        let cuts = id.map_or(&[][..], |id| &self.signatures.get(id).cuts);
        ports.iter().map(move |&(port, is_result)| {
            let copies = copies(mode, port);
            let given = cuts
                .iter()
                .find(|cut| cut.part == port && cut.given && !copies);
            Taken {
                need: &mode.needs[port],
                is_result,
                copies,
                unconverted: given.map_or(0, |cut| cut.bytes),
                converted: None,
            }
        })
    }

    /// The layouts that a group in a state offers to an operation.
    fn given(&self, node: Node, group: Group, state: GroupState) -> Given {
        let computes = matches!(self.graph.nodes[node].kind, NodeKind::Op(_));
        let produced = 1u64 << state.produced;
        Given {
            produced: state.produced,
            available: match state.read || !computes {
                true => produced | state.extras,
                false => state.extras,
            },
            // Further copies are made from a value that is stored already.
            stored: match state.extras {
                0 => self.stored_by_conversion(group, state),
                _ => 0,
            },
            computes,
        }
    }

    /// The cost of ports of one group, in one state and one form.
    fn pair_cost(&self, group: Group, given: &Given, ports: &mut [Taken<'_>]) -> Cost {
        let mut bytes = 0u64;
        for taken in ports {
            if !taken.is_result {
                bytes = bytes.saturating_add(self.port_bytes(group, given, taken));
                continue;
            }
            if taken.need.mask & (1u64 << given.produced) == 0 {
                return INFEASIBLE;
            }
            // A copy writes padding that a part of the operand in place would not write.
            if taken.copies {
                bytes = bytes.saturating_add(self.padding(group, given.produced));
            }
        }
        match bytes {
            0 => 0,
            u64::MAX => INFEASIBLE,
            _ => self.price(group, bytes),
        }
    }

    /// Logs the terms of a choice.
    pub(crate) fn trace(&self, choice: &Choice) {
        if !tracing::enabled!(tracing::Level::TRACE) {
            return;
        }
        let graph = self.graph;
        tracing::trace!(bytes = movement(choice.cost), "chosen");
        for (group, data) in graph.groups.iter() {
            let state = choice.groups[group];
            let text = |i: usize| {
                self.layouts
                    .get(self.candidates[group][i])
                    .notation()
                    .to_string()
            };
            let copies: Vec<String> = bits(state.extras).map(text).collect();
            let produced = text(state.produced);
            let stored = movement(self.state_cost(group, state));
            let uses = data.uses.iter().map(|&(node, port)| {
                let ports = [(port, false)];
                let taken = self.taken(node, &ports, &choice.modes[node]);
                let mut taken: Vec<Taken<'_>> = taken.collect();
                let given = self.given(node, group, state);
                (node, movement(self.pair_cost(group, &given, &mut taken)))
            });
            let uses: Vec<(Node, u64)> = uses.collect();
            let node = data.producer.map(|(node, _)| &graph.nodes[node].kind);
            let (shape, read) = (&data.shape, state.read);
            tracing::trace!(
                ?group,
                ?node,
                ?shape,
                produced,
                ?copies,
                read,
                stored,
                ?uses,
                "choice"
            );
        }
    }

    /// The choice that a solution stands for.
    pub(super) fn read(
        &self,
        solution: &Solution,
        modes: &SideTable<Node, Modes>,
        states: &States,
    ) -> Choice {
        let n_groups = self.graph.groups.len();
        let mut groups = SideTable::new(GroupState::FIRST);
        for group in self.graph.groups.ids() {
            groups[group] = states.of[group][solution.states[group.index()]];
        }
        let mut chosen = SideTable::new(Rc::new(NodeMode::of(Vec::new())));
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

/// Sets of further copies that are states of groups.
pub(super) struct Copies {
    /// True if there are any copies.
    any: bool,
    /// The largest size of a set, by class number, where it is not the initial one.
    sizes: FastMap<usize, usize>,
    /// True if there are states that stand for larger sets.
    open: bool,
    /// True if there are states in which no operation reads the produced value.
    unread: bool,
}

impl Copies {
    /// The sets that are tried from the start.
    pub(super) fn few() -> Copies {
        Copies {
            any: true,
            sizes: FastMap::default(),
            open: false,
            unread: true,
        }
    }

    /// No copies.
    const NONE: Copies = Copies {
        any: false,
        sizes: FastMap::with_hasher(rustc_hash::FxBuildHasher),
        open: false,
        unread: true,
    };
}

/// The positions of the set bits of a mask, in order.
fn bits(mask: u64) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        let at = left.trailing_zeros() as usize;
        let any = left != 0;
        left &= left.wrapping_sub(1);
        any.then_some(at)
    })
}

/// The number of states of a group of a class with sets of at most `size` copies.
fn sets_of(class: &Class<'_>, size: usize) -> usize {
    let n = u64::from(class.wanted.count_ones());
    let mut sets = 1u64;
    let mut all = 1u64;
    for k in 1..=size as u64 {
        sets = sets.saturating_mul(n.saturating_sub(k - 1)) / k;
        all = all.saturating_add(sets);
    }
    let produced = u64::from(class.produced.count_ones());
    let read = if class.padded == 0 { 1 } else { 2 };
    usize::try_from(all.saturating_mul(produced * read)).unwrap_or(usize::MAX)
}

/// The states that a group of a class may be in.
fn group_states(class: &Class<'_>, copies: &Copies, number: usize) -> Vec<GroupState> {
    if class.constant {
        return vec![GroupState::FIRST];
    }
    let most = match copies.any {
        true => class.readers / 2,
        false => 0,
    };
    let at_first = match class.candidates.len() {
        n if n <= PAIR_LIMIT => 2,
        _ => 1,
    };
    let size = copies
        .sizes
        .get(&number)
        .copied()
        .unwrap_or(at_first)
        .min(most);
    let mut states = Vec::new();
    for produced in bits(class.produced) {
        let others = class.wanted & !(1u64 << produced);
        let mut sets = vec![0u64];
        let mut begin = 0;
        for _ in 0..size {
            let end = sets.len();
            for at in begin..end {
                let set = sets[at];
                let above = bits(others).filter(|&i| set >> i == 0);
                let longer: Vec<u64> = above.map(|i| set | (1u64 << i)).collect();
                sets.extend(longer);
            }
            begin = end;
        }
        let of = |extras: u64, open: usize, read: bool| GroupState {
            produced,
            extras,
            open,
            read,
        };
        let more = size < most && size < others.count_ones() as usize;
        let unread = copies.unread && class.padded & (1u64 << produced) != 0;
        for read in [true, false].into_iter().take(1 + usize::from(unread)) {
            states.extend(sets.iter().map(|&set| of(set, 0, read)));
            if more && copies.open {
                states.push(of(others, size + 1, read));
            }
        }
    }
    states
}
