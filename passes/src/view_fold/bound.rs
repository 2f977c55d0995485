//! What no choice of layouts that the target admits goes below.
//!
//! The search chooses among candidates; the bound must not. It is the minimum of a relaxation: a
//! value lies in one of its candidates or in *some other* layout, a state of its own that stands for
//! every layout that is no candidate. What an operation takes is decided for these states from its
//! declared freedom and the target's row alone, never from the forms the rules gave:
//!
//! - a port may be in the other state unless the target's row lists layouts for it and all of them
//!   are candidates (row-major of a barrier, what a called function declares, channels first and last of a window, a pinned boundary);
//! - two ports of one common order must agree; where the order of one says all of the other's, that
//!   is one layout, and if it is a candidate then the other is not in the other state;
//! - two ports of a contraction must have K in one order, the data and the result of a window
//!   channels in one place, the two sides of a kept rearrangement the layouts of one view.
//!
//! On a machine of lines of lanes the other layouts fall into classes: which digit is innermost, and what fills lanes that
//! are padded. Copies for several readers are states of a group; a copy for one reader is the reader's own.
//!
//! Constraints among more than two ports, and what padding a row allows, are left out. A conversion
//! between two different states costs the bytes of both, of the other state the bytes without
//! padding; from the other state to itself nothing. Every lowering is an assignment of the relaxation
//! that costs no more, so its minimum, or what the solver proves of it, is a bound.

use super::accepts::{
    accepts_contract, accepts_pointwise, channel_orders, default_layout, is_unpadded,
};
use super::ends;
use super::groups::{Graph, Group, GroupData, Node, NodeData, NodeKind};
use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts, MapId};
use super::maps::FastMap;
use super::physical::{Digit, Physical, Place};
use super::price;
use super::problem::{Cost, INFEASIBLE, Problem, cost, movement};
use super::restrict::restrict;
use super::signature::{ContractRole, LabelDigit, Signature, SignatureId, TileRule};
use super::signatures::Signatures;
use super::solve::relax;
use super::tiled;
use indexmap::IndexMap;
use optc_ir::FreedomClass;
use optc_ir::entity::{EntityId, SideTable};
use optc_layout::Mode;
use optc_target::Accept;
use std::cell::RefCell;
use std::rc::Rc;

/// Bytes that every lowering of the function converts at least.
pub(crate) fn bytes(
    graph: &Graph,
    layouts: &mut Layouts,
    signatures: &Signatures,
    candidates: &SideTable<Group, Vec<LayoutId>>,
) -> u64 {
    let fine = match graph.groups.len() <= MOST_GROUPS {
        true => minimum(graph, layouts, signatures, candidates, Detail::FINE),
        false => (0, false),
    };
    let (fine, exact) = fine;
    if exact {
        return fine;
    }
    // With fewer states the solver may prove more.
    let (coarse, _) = minimum(graph, layouts, signatures, candidates, Detail::COARSE);
    fine.max(coarse)
}

/// Groups of a program up to which the relaxation has all states; one of more is proved with fewer of them.
const MOST_GROUPS: usize = 1 << 14;

/// What a relaxation tells apart.
#[derive(Clone, Copy, Debug)]
struct Detail {
    /// States of a group up to which larger sets of copies are among them.
    states: usize,
    /// Whether ports of one shape are related to one another as well.
    siblings: bool,
}

impl Detail {
    const FINE: Detail = Detail {
        states: 200,
        siblings: true,
    };
    const COARSE: Detail = Detail {
        states: 1,
        siblings: false,
    };
}

/// The minimum of a relaxation or what the solver proves of it, and whether it is the minimum.
fn minimum(
    graph: &Graph,
    layouts: &mut Layouts,
    signatures: &Signatures,
    candidates: &SideTable<Group, Vec<LayoutId>>,
    detail: Detail,
) -> (u64, bool) {
    let mut relaxation = Relaxation {
        graph,
        layouts,
        signatures,
        candidates,
        detail,
        problem: Problem::default(),
        ports: IndexMap::new(),
        group_states: SideTable::new(Vec::new()),
        related: IndexMap::new(),
        runs: RefCell::default(),
        paddings: RefCell::default(),
        atoms: SideTable::new(Vec::new()),
    };
    relaxation.groups();
    relaxation.nodes();
    let solution = relax(&relaxation.problem);
    tracing::debug!(
        variables = relaxation.problem.domains.len(),
        ?detail,
        bytes = movement(solution.bound),
        exact = solution.proven,
        "bound"
    );
    relaxation.trace(&solution.states);
    let bytes = match solution.bound < INFEASIBLE {
        true => movement(solution.bound),
        false => 0,
    };
    (bytes, solution.proven)
}

/// A layout as the relaxation tells layouts apart.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// The candidate that lies so at the port.
    Known(LayoutId),
    /// A candidate of which the port's layout is not known.
    Unknown,
    /// No candidate; on a machine of lines of lanes, of this class.
    Other(usize),
}

/// A group's state: the index of the layout it is produced in, and what else it is copied to for several readers.
#[derive(Clone, Debug, PartialEq, Eq)]
struct GroupState {
    produced: usize,
    copies: Copies,
    readers: Readers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Copies {
    /// One for each of these indices.
    To(Vec<usize>),
    /// So many at least; whatever is wanted is there.
    Many(usize),
}

/// Which operations read what is produced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Readers {
    /// All of them, and there is no copy.
    All,
    /// Any of them.
    Some,
    /// All but this one, by its place among them, and any other.
    Not(usize),
    None,
}

/// Readers of a group up to which one of them that does not read what is produced is a state.
const MOST_READERS: usize = 8;

impl GroupState {
    const FIRST: GroupState = GroupState {
        produced: 0,
        copies: Copies::To(Vec::new()),
        readers: Readers::Some,
    };

    fn copies_none(&self) -> bool {
        self.copies == Copies::To(Vec::new())
    }
}

/// Digits of a group up to which each of them is a class of layouts.
const MOST_ATOMS: usize = 8;

/// A signature, two ports and the layouts of the candidates there, and the classes.
type RelationKey = (
    SignatureId,
    usize,
    usize,
    Vec<Option<LayoutId>>,
    Vec<Option<LayoutId>>,
    Vec<Class>,
    Vec<Class>,
);

/// Which states of two ports go together, by row.
type Relation = Rc<Vec<Vec<bool>>>;

/// A port of a node: the layouts of its group's candidates there, and which states it takes.
#[derive(Clone, Debug)]
struct View {
    group: Group,
    at: Vec<Option<LayoutId>>,
    /// Whether a candidate without a layout here has provably none.
    exact: bool,
    domain: Vec<bool>,
    /// The classes of other layouts, as the port sees them.
    classes: Vec<Class>,
}

/// How the innermost run of a layout lies on a machine of lines of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Lanes {
    /// Nothing is known of it.
    Any,
    /// It is padded to no line: it fills whole lines, or lies in none.
    Whole,
    /// What fills lanes that are padded is of one digit that no member cuts.
    Within,
    /// What fills lanes that are padded is of several of them, all of one dimension.
    Along,
    /// What fills lanes that are padded is of several dimensions.
    Across,
}

impl Lanes {
    const ALL: [Lanes; 4] = [Lanes::Whole, Lanes::Within, Lanes::Along, Lanes::Across];
}

/// Of how many labels the digits are that fill lanes which are padded.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Spread {
    One,
    Several,
    /// Nothing is known of it.
    Any,
}

/// A class of layouts that are no candidates, at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Class {
    /// The label of the innermost digit, where it is known.
    label: Option<usize>,
    lanes: Lanes,
    spread: Spread,
    /// How many elements that digit has.
    extent: u64,
}

impl Class {
    const UNKNOWN: Class = Class {
        label: None,
        lanes: Lanes::Any,
        spread: Spread::Any,
        extent: 0,
    };
}

impl View {
    fn state(&self, index: usize) -> Option<State> {
        match self.at.get(index) {
            None => Some(State::Other(index - self.at.len())),
            Some(Some(layout)) => Some(State::Known(*layout)),
            Some(None) if self.exact => None,
            Some(None) => Some(State::Unknown),
        }
    }
}

/// What conversions of one group cost, by the index that they begin and end with: asked once each.
#[derive(Default)]
struct Known(RefCell<FastMap<(usize, usize), u64>>);

impl Known {
    fn ask(&self, at: (usize, usize), find: impl FnOnce() -> u64) -> u64 {
        if let Some(&known) = self.0.borrow().get(&at) {
            return known;
        }
        let found = find();
        self.0.borrow_mut().insert(at, found);
        found
    }
}

/// The variable of a port; `true` for one that the port produces.
#[derive(Clone, Copy, Debug)]
struct Slot {
    var: usize,
    produces: bool,
}

/// A run that is padded, with its positions, where there is one.
type PaddedRun = Option<(u64, u64)>;

/// A group, the index of its layout, and the first of how many ports.
type PaddingKey = (Group, usize, Option<(Node, usize)>, usize);

struct Relaxation<'a> {
    graph: &'a Graph,
    layouts: &'a mut Layouts,
    signatures: &'a Signatures,
    candidates: &'a SideTable<Group, Vec<LayoutId>>,
    detail: Detail,
    problem: Problem,
    ports: IndexMap<(Node, usize), View>,
    group_states: SideTable<Group, Vec<GroupState>>,
    related: IndexMap<RelationKey, Relation>,
    /// Runs that pad least, by element width and what they are a part of.
    runs: RefCell<FastMap<(u32, u64), PaddedRun>>,
    /// Padding of a group's layouts, by group, index and the ports that were asked about.
    paddings: RefCell<FastMap<PaddingKey, u64>>,
    /// Per group, the digits one of which is innermost in a layout: the classes of those that are no candidates.
    atoms: SideTable<Group, Vec<Digit>>,
}

impl Relaxation<'_> {
    /// Logs what the minimum of the relaxation is made of.
    fn trace(&self, states: &[usize]) {
        if !tracing::enabled!(tracing::Level::TRACE) {
            return;
        }
        let mut bytes: Vec<u64> = vec![0; self.graph.groups.len()];
        for factor in &self.problem.factors {
            let domains = &self.problem.domains;
            let at = factor.vars.iter();
            let at = at.fold(0, |at, &v| at * domains[v] + states[v]);
            if let Some(n) = factor.vars.first().and_then(|&v| bytes.get_mut(v)) {
                *n = n.saturating_add(movement(factor.table[at]));
            }
        }
        for (group, data) in self.graph.groups.iter() {
            let state = self.group_states[group][states[group.index()]].clone();
            let candidates = &self.candidates[group];
            let text = |index: usize| match candidates.get(index) {
                Some(&layout) => self.layouts.get(layout).notation().to_string(),
                None => match self.atom(group, index - candidates.len()) {
                    Some((atom, lanes)) => format!(
                        "other, {} elements of d{}/{} innermost, {lanes:?}",
                        atom.extent, atom.dim, atom.div
                    ),
                    None => "other".to_owned(),
                },
            };
            let copy = match &state.copies {
                Copies::To(all) => {
                    format!("{:?}", all.iter().map(|&i| text(i)).collect::<Vec<_>>())
                }
                copies => format!("{copies:?}"),
            };
            let node = data.producer.map(|(node, _)| &self.graph.nodes[node].kind);
            let (bytes, produced) = (bytes[group.index()], text(state.produced));
            let readers = state.readers;
            tracing::trace!(?group, ?node, shape = ?data.shape, produced, copy, ?readers, bytes, "bound");
        }
    }

    fn counts(&self, group: Group) -> bool {
        let data = &self.graph.groups[group];
        // Without elements there is nothing that could lie elsewhere.
        !data.is_known() && !data.shape.contains(&0)
    }

    /// One variable a group; its ports are looked at on the way.
    fn groups(&mut self) {
        let graph = self.graph;
        for (group, data) in graph.groups.iter() {
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
            let known = Known::default();
            let costs = states.iter().map(|s| self.state_cost(group, s, &known));
            let table = costs.collect();
            self.problem.push(vec![group.index()], table);
            self.problem.domains.push(states.len());
            self.group_states[group] = states;
        }
    }

    /// Into how many classes the layouts fall that are no candidates.
    fn classes(&self, group: Group) -> usize {
        (self.atoms[group].len() * Lanes::ALL.len()).max(1)
    }

    /// What is known of a class: the innermost digit, and how it lies in lanes.
    fn atom(&self, group: Group, class: usize) -> Option<(Digit, Lanes)> {
        let atom = self.atoms[group].get(class / Lanes::ALL.len())?;
        Some((*atom, Lanes::ALL[class % Lanes::ALL.len()]))
    }

    /// The digits of a group that no member cuts: one of them is innermost in every layout. None where members cut
    /// in ways that do not nest, or on machines with tiles of rows.
    fn find_atoms(&mut self, group: Group) -> Vec<Digit> {
        let graph = self.graph;
        let data = &graph.groups[group];
        if !self.layouts.is_plain(data.bits) {
            return Vec::new();
        }
        let ports = data.producer.iter().chain(&data.uses);
        let mut members: Vec<&[MapId]> = Vec::new();
        for &(node, port) in ports {
            let member = graph.member(graph.nodes[node].ports[port].value);
            let maps = member.map_or(&[][..], |m| &m.maps[..]);
            if !members.contains(&maps) {
                members.push(maps);
            }
        }
        let mut cuts: Vec<Vec<u64>> = data.shape.iter().map(|&n| vec![1, n]).collect();
        for maps in members {
            let Some(found) = self.cuts_of(&data.shape, maps) else {
                return Vec::new();
            };
            for (dim, at) in found {
                cuts[dim].push(at);
            }
        }
        let mut atoms = Vec::new();
        for (dim, mut cuts) in cuts.into_iter().enumerate() {
            cuts.sort_unstable();
            cuts.dedup();
            for pair in cuts.windows(2) {
                if !pair[1].is_multiple_of(pair[0]) {
                    return Vec::new();
                }
                atoms.push(Digit {
                    dim,
                    div: pair[0],
                    extent: pair[1] / pair[0],
                    place: Place::Grid,
                });
            }
        }
        if MOST_ATOMS < atoms.len() {
            Vec::new()
        } else {
            atoms
        }
    }

    /// Where the dimensions of a member end within those of its root.
    fn cuts_of(&self, shape: &[u64], maps: &[MapId]) -> Option<Vec<(usize, u64)>> {
        let Some(last) = maps.last() else {
            return Some(Vec::new());
        };
        let result = self.layouts.view_map(*last).result.clone();
        let mut cuts = Vec::new();
        for wanted in (0..result.len()).filter(|&d| 1 < result[d]) {
            let order: Vec<usize> = (0..result.len()).collect();
            let mut form = Physical::of_order(&result, &order);
            for digit in &mut form.digits {
                digit.place = if digit.dim == wanted {
                    Place::Lane
                } else {
                    Place::Grid
                };
            }
            let mut at = result.clone();
            for &map in maps.iter().rev() {
                let back = self.layouts.inverse(map);
                form = form.through(&at, self.layouts.view_map(back))?;
                at.clone_from(&self.layouts.view_map(back).result);
            }
            if at != shape {
                return None;
            }
            for digit in form.at(Place::Lane) {
                cuts.push((digit.dim, digit.div));
                cuts.push((digit.dim, digit.div.checked_mul(digit.extent)?));
            }
        }
        Some(cuts)
    }

    /// The classes of a group's other layouts, as a port sees them.
    fn classes_at(&self, node: &NodeData, port: usize, group: Group) -> Vec<Class> {
        let value = node.ports[port].value;
        let sig = node.signature.map(|id| self.signatures.get(id));
        let labels = sig.map_or(&[][..], |sig| sig.labels(port));
        let label_of = |atom: &Digit| {
            let maps = &self.graph.member(value)?.maps;
            let shape = &self.graph.groups[group].shape;
            let marked = |d: &Digit| Digit {
                place: if d == atom { Place::Lane } else { Place::Grid },
                ..*d
            };
            let mut form = Physical {
                digits: self.atoms[group].iter().map(marked).collect(),
                stated: None,
            };
            let mut at = shape.clone();
            for &map in maps.iter() {
                form = form.through(&at, self.layouts.view_map(map))?;
                at.clone_from(&self.layouts.view_map(map).result);
            }
            let mut dims: Vec<usize> = form.at(Place::Lane).map(|d| d.dim).collect();
            dims.dedup();
            match dims.as_slice() {
                [dim] => labels.get(*dim).copied().flatten(),
                _ => None,
            }
        };
        let atoms = &self.atoms[group];
        let known: Vec<Option<usize>> = atoms.iter().map(label_of).collect();
        let of = |(atom, &label): (&Digit, &Option<usize>)| {
            let spread = |lanes: Lanes| match lanes {
                Lanes::Within if label.is_some() => Spread::One,
                Lanes::Along | Lanes::Across => {
                    let beside = atoms.iter().zip(&known);
                    let beside = beside.filter(|(a, _)| *a != atom);
                    let beside =
                        beside.filter(|(a, _)| (a.dim == atom.dim) == (lanes == Lanes::Along));
                    spread_of(label, beside.map(|(_, label)| *label))
                }
                Lanes::Any | Lanes::Whole | Lanes::Within => Spread::Any,
            };
            Lanes::ALL.map(|lanes| Class {
                label,
                lanes,
                spread: spread(lanes),
                extent: atom.extent,
            })
        };
        let all: Vec<Class> = atoms.iter().zip(&known).flat_map(of).collect();
        if all.is_empty() {
            vec![Class::UNKNOWN]
        } else {
            all
        }
    }

    fn bytes(&self, group: Group, index: usize) -> u64 {
        let data = &self.graph.groups[group];
        match self.candidates[group].get(index) {
            Some(&layout) => self.layouts.bytes(layout),
            None => (self.layouts)
                .symbolic_bytes(&data.shape, data.bits)
                .unwrap_or_else(|| unpadded(data)),
        }
    }

    /// What converting a group for one of these ports reads and writes at least; what is no candidate is padded at
    /// least as the producer, or each of the ports, pads.
    fn convert(&self, group: Group, from: usize, to: usize, ports: &[(Node, usize)]) -> u64 {
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

    /// What a layout of a group that is no candidate pads at least at a port.
    fn unknown_padding(&self, group: Group, index: usize, port: (Node, usize)) -> u64 {
        match self.candidates[group].get(index) {
            Some(_) => 0,
            None => self.padding(group, index, &[port]),
        }
    }

    /// What is read at least of the padding of a copy that one of these ports reads.
    fn copy_padding(&self, group: Group, to: usize, ports: &[(Node, usize)]) -> u64 {
        let of = |&(node, port): &(Node, usize)| match self.graph.nodes[node].signature {
            Some(_) => self.padding(group, to, &[(node, port)]),
            None => 0,
        };
        ports.iter().map(of).min().unwrap_or(0)
    }

    /// Padding of a group in a candidate, or at least in any other layout that these ports take.
    fn padding(&self, group: Group, index: usize, ports: &[(Node, usize)]) -> u64 {
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

    /// [`tiled::least_padded_run`], asked once a width and extent.
    fn least_padded_run(&self, bits: u32, extent: u64) -> PaddedRun {
        let found = || tiled::least_padded_run(self.layouts, bits, extent);
        let mut known = self.runs.borrow_mut();
        *known.entry((bits, extent)).or_insert_with(found)
    }

    fn class_padding(&self, group: Group, index: usize, ports: &[(Node, usize)]) -> u64 {
        let class = index - self.candidates[group].len();
        let least = |&(node, port): &(Node, usize)| {
            let id = self.graph.nodes[node].signature?;
            let view = self.ports.get(&(node, port));
            let class = view.and_then(|v| v.classes.get(class).copied());
            let class = class.unwrap_or(Class::UNKNOWN);
            if class.lanes == Lanes::Whole && !self.signatures.get(id).is_common_order() {
                return None;
            }
            Some(
                self.signatures
                    .least_padding(self.layouts, id, port, class.label),
            )
        };
        let least = ports.iter().filter_map(least).max().unwrap_or(0);
        least.max(self.lane_padding(group, class))
    }

    /// What the layouts of a class pad at least in their lanes, in bytes.
    fn lane_padding(&self, group: Group, class: usize) -> u64 {
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

    /// What the lanes of a class hold a part of, if they are padded and hold elements of one dimension.
    fn run_within(&self, group: Group, atom: &Digit, lanes: Lanes) -> Option<u64> {
        match lanes {
            Lanes::Within => Some(atom.extent),
            Lanes::Along => self.graph.groups[group].shape.get(atom.dim).copied(),
            Lanes::Any | Lanes::Whole | Lanes::Across => None,
        }
    }

    /// Whether its padding counts where what is produced is read, and there are several readers of it.
    fn tells_readers(&self, group: Group) -> bool {
        1 < self.graph.groups[group].uses.len() && self.graph.is_read_apart(group)
    }

    /// What the padding of a group costs at least where it is written, and where what is produced is read.
    fn stored_padding(&self, group: Group, state: &GroupState) -> u64 {
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

    /// What one copy for several readers costs at least.
    fn copy_cost(&self, group: Group, produced: usize, to: usize) -> u64 {
        let uses = &self.graph.groups[group].uses;
        self.convert(group, produced, to, uses)
            .saturating_add(self.copy_padding(group, to, uses))
    }

    fn state_cost(&self, group: Group, state: &GroupState, known: &Known) -> Cost {
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

    /// The states of a group by whether it may be produced in a layout and how many readers may want each.
    fn states(&self, group: Group, produced: &[bool], wanted: &[usize]) -> Vec<GroupState> {
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

    /// What a reader of a port in a state pays when its group is in one.
    fn read_cost(
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

    /// What a reader pays that converts what is produced for itself.
    fn converted(&self, port: (Node, usize), group: Group, produced: usize, index: usize) -> u64 {
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

    fn view(&mut self, node: Node, port: usize, group: Group) -> &View {
        if !self.ports.contains_key(&(node, port)) {
            let view = self.look(node, port, group);
            self.ports.insert((node, port), view);
        }
        &self.ports[&(node, port)]
    }

    fn look(&mut self, node: Node, port: usize, group: Group) -> View {
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
        };
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

    /// Whether a layout may be at a port, the other ports left aside.
    fn admits(&mut self, node: &NodeData, port: usize, layout: LayoutId) -> bool {
        if let Some(pinned) = node.pinned {
            return layout == pinned;
        }
        match node.signature {
            Some(id) => admits(self.signatures.get(id), self.layouts, port, layout),
            None => true,
        }
    }

    /// Whether a layout that is no candidate may be at a port.
    fn admits_other(
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
            let default = default_layout(sig, self.layouts, port);
            let rules = || sig.tiles.iter();
            let layouts = &*self.layouts;
            let may = rules().any(|rule| may_be(sig, layouts, rule, port, class));
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

    fn nodes(&mut self) {
        let graph = self.graph;
        for (node, data) in graph.nodes.iter() {
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
                    if prices.iter().any(|&n| n != 0) {
                        let states = &self.group_states[group];
                        let price = |s: &GroupState| cost(prices[s.produced], 0);
                        let table = states.iter().map(price).collect();
                        self.problem.push(vec![var], table);
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

    /// The ports that constrain one another, two by two.
    fn pairs(&self, node: Node, data: &NodeData) -> Vec<(usize, usize)> {
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
        let both = |a: usize, b: usize| {
            if counts(&a) && counts(&b) {
                vec![(a, b)]
            } else {
                Vec::new()
            }
        };
        let _ = node;
        if sig.is_tiled() && !sig.is_common_order() {
            let pairs = ports.iter().enumerate();
            return match sig.takes_roles() {
                true => pairs
                    .flat_map(|(i, &a)| ports[..i].iter().map(move |&b| (b, a)))
                    .collect(),
                false => Vec::new(),
            };
        }
        match sig.accept {
            _ if sig.is_tiled() => hub_pairs(sig, &ports, self.detail.siblings),
            Accept::CommonOrder if sig.is_common_order() => {
                hub_pairs(sig, &ports, self.detail.siblings)
            }
            Accept::ContractRuns if sig.freedom.class == FreedomClass::Contract => both(0, 1),
            Accept::Matrices if sig.freedom.class == FreedomClass::Contract => {
                let result = sig.n_operands;
                [both(0, 1), both(0, result), both(1, result)].concat()
            }
            Accept::ChannelOrders if !sig.is_pointwise_conv() => both(0, sig.n_operands),
            Accept::CommonOrder
            | Accept::ContractRuns
            | Accept::Matrices
            | Accept::ChannelOrders
            | Accept::RowMajor
            | Accept::MinRun
            | Accept::LastBlock
            | Accept::Any => Vec::new(),
        }
    }

    /// What an operation costs at least with a port in each of its states; nothing where no row asks for a price.
    fn prices(&mut self, node: Node, port: usize) -> Vec<u64> {
        let Some(id) = self.graph.nodes[node].signature else {
            return Vec::new();
        };
        let sig = self.signatures.get(id);
        if !sig.has_prices() || self.graph.is_known(node) {
            return Vec::new();
        }
        let view = &self.ports[&(node, port)];
        let mut price = |i: usize| match view.state(i) {
            Some(State::Known(layout)) => price::least_price(sig, self.layouts, port, layout),
            Some(State::Unknown | State::Other(_)) | None => 0,
        };
        (0..view.domain.len()).map(&mut price).collect()
    }

    /// What a reading port costs: over a variable of its own where another port constrains it.
    fn reader(&mut self, node: Node, port: usize, group: Group, related: bool) -> Option<usize> {
        let domain = self.view(node, port, group).domain.clone();
        let indices: Vec<usize> = (0..domain.len()).filter(|&i| domain[i]).collect();
        let states = self.group_states[group].clone();
        let loads = self.prices(node, port);
        let known = Known::default();
        let price = |s: &GroupState, i: &usize| {
            let load = loads.get(*i).copied().unwrap_or(0);
            self.read_cost((node, port), group, s, *i, &known)
                .saturating_add(cost(load, 0))
        };
        if !related {
            let least = |s| indices.iter().map(|i| price(s, i)).min();
            let table = states.iter().map(|s| least(s).unwrap_or(0)).collect();
            let vars = vec![group.index()];
            self.problem.push(vars, table);
            return None;
        }
        let table = states
            .iter()
            .flat_map(|s| indices.iter().map(move |i| price(s, i)))
            .collect();
        // Variables of groups come first; those of ports follow them.
        let var = self.problem.domains.len();
        self.problem.domains.push(indices.len());
        let vars = vec![group.index(), var];
        self.problem.push(vars, table);
        Some(var)
    }

    fn relate(&mut self, node: Node, a: (usize, Slot), b: (usize, Slot)) {
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
            let vars = vec![a.1.var, b.1.var];
            self.problem.push(vars, table.into());
        }
    }

    /// What the padding of the larger of two ports of a common order costs beyond what is counted of it anyway, where its
    /// lanes hold what the smaller one does not have and those of the smaller one a single digit.
    fn crossing(&mut self, node: Node, a: (usize, usize), b: (usize, usize)) -> u64 {
        let Some(id) = self.graph.nodes[node].signature else {
            return 0;
        };
        let sig = self.signatures.get(id);
        if sig.lines.is_none() || !sig.is_common_order() {
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
        let size = |port: usize| extent(sig, port, label?);
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

    /// Whether an operation is of a common order and all its ports that have dimensions are alike.
    fn is_even(&self, node: Node) -> bool {
        let Some(id) = self.graph.nodes[node].signature else {
            return false;
        };
        let sig = self.signatures.get(id);
        let result = sig.shapes.get(sig.n_operands);
        let alike = |shape: &Vec<u64>| Some(shape) == result || shape.iter().all(|&n| n == 1);
        sig.is_common_order() && sig.shapes.iter().all(alike)
    }

    /// Where a row lists alternatives of roles for lines of lanes, one variable says which of them is taken at all
    /// ports.
    fn alternatives(&mut self, node: Node, id: SignatureId, slots: &IndexMap<usize, Slot>) {
        let sig = self.signatures.get(id);
        let n = sig.tiles.len();
        let by_roles = |r: &TileRule| !r.shares_all && !r.logical && !r.is_any();
        if sig.lines.is_none() || n < 2 || slots.len() < 2 || !sig.tiles.iter().all(by_roles) {
            return;
        }
        let var = self.problem.domains.len();
        // The last state is the form of all defaults.
        self.problem.domains.push(n + 1);
        for (&port, &slot) in slots {
            let at = self.ports[&(node, port)].at.clone();
            let default = default_layout(sig, self.layouts, port);
            let mut table = Vec::new();
            for index in self.indices(node, (port, slot)) {
                for rule in &sig.tiles {
                    table.push(match at.get(index) {
                        Some(Some(known)) => {
                            match tiled::is_taken_by(sig, self.layouts, rule, port, *known) {
                                true => 0,
                                false => INFEASIBLE,
                            }
                        }
                        Some(None) => 0,
                        None => self.other_cost(node, id, rule, (port, index)),
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
                let vars = vec![slot.var, var];
                self.problem.push(vars, table.into());
            }
        }
    }

    /// What a layout costs that is no candidate, where an alternative is taken.
    fn other_cost(
        &self,
        node: Node,
        id: SignatureId,
        rule: &TileRule,
        (port, index): (usize, usize),
    ) -> Cost {
        let view = &self.ports[&(node, port)];
        let class = view.classes.get(index - view.at.len());
        let class = class.copied().unwrap_or(Class::UNKNOWN);
        let sig = self.signatures.get(id);
        match may_be(sig, self.layouts, rule, port, class) {
            false => INFEASIBLE,
            true if class.lanes == Lanes::Whole => 0,
            true => cost(self.more_padding(node, id, rule, port, index), 0),
        }
    }

    /// What an alternative pads at a port, in a layout that is no candidate, beyond what is counted of it anyway.
    fn more_padding(
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

    /// The index of the layout at the port for each state of its variable.
    fn indices(&self, node: Node, (port, slot): (usize, Slot)) -> Vec<usize> {
        let view = &self.ports[&(node, port)];
        if slot.produces {
            let states = &self.group_states[view.group];
            return states.iter().map(|s| s.produced).collect();
        }
        (0..view.domain.len()).filter(|&i| view.domain[i]).collect()
    }

    fn relation(&mut self, node: Node, a: usize, b: usize) -> Relation {
        let (x, y) = (
            self.ports[&(node, a)].clone(),
            self.ports[&(node, b)].clone(),
        );
        let data = &self.graph.nodes[node];
        if let NodeKind::Alias(_, map) = data.kind {
            return Rc::new(table(&x, &y, |p, q| {
                self.joined_by(map, p, q, &x.at, &y.at)
            }));
        }
        let Some(id) = data.signature else {
            return Rc::new(table(&x, &y, |_, _| true));
        };
        let key = (
            id,
            a,
            b,
            x.at.clone(),
            y.at.clone(),
            x.classes.clone(),
            y.classes.clone(),
        );
        if let Some(known) = self.related.get(&key) {
            return known.clone();
        }
        let sig = self.signatures.get(id);
        let layouts = &mut *self.layouts;
        let made = table(&x, &y, |p, q| match (p, q) {
            (State::Known(p), State::Known(q)) => agree(sig, layouts, (a, p), (b, q)),
            (State::Known(p), State::Other(c)) => {
                leaves_open(sig, layouts, (a, p), b, &y.at)
                    && keeps_innermost(sig, layouts, (a, p), (b, y.classes[c]))
                    && ends_alike(sig, (a, class_of(sig, layouts, a, p)), (b, y.classes[c]))
            }
            (State::Other(c), State::Known(q)) => {
                leaves_open(sig, layouts, (b, q), a, &x.at)
                    && keeps_innermost(sig, layouts, (b, q), (a, x.classes[c]))
                    && ends_alike(sig, (a, x.classes[c]), (b, class_of(sig, layouts, b, q)))
            }
            (State::Other(c), State::Other(d)) => {
                ends_alike(sig, (a, x.classes[c]), (b, y.classes[d]))
            }
            _ => true,
        });
        let made = Rc::new(made);
        self.related.insert(key, made.clone());
        made
    }

    /// Whether the operand and the result of a kept rearrangement may be in these states.
    fn joined_by(
        &mut self,
        map: MapId,
        from: State,
        to: State,
        at_from: &[Option<LayoutId>],
        at_to: &[Option<LayoutId>],
    ) -> bool {
        match (from, to) {
            (State::Known(x), State::Known(y)) => self.layouts.forward(x, map) == Some(y),
            (State::Known(x), State::Other(_)) => {
                let there = self.layouts.forward(x, map);
                there.is_some() && !at_to.contains(&there)
            }
            (State::Other(_), State::Known(y)) => {
                let here = self.layouts.backward(y, map);
                here.is_some() && !at_from.contains(&here)
            }
            _ => true,
        }
    }
}

/// Each port of a common order with the one that has most of it, and with the one before it of its shape.
fn hub_pairs(sig: &Signature, ports: &[usize], siblings: bool) -> Vec<(usize, usize)> {
    let size = |port: &&usize| {
        let dims = sig.labels(**port).iter().zip(&sig.shapes[**port]);
        let long = dims.filter(|(l, n)| l.is_some() && 1 < **n);
        long.fold((0, 1u64), |(k, p), (_, &n)| (k + 1, p.saturating_mul(n)))
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

fn unpadded(data: &GroupData) -> u64 {
    bytes_of(data, elements(data))
}

fn elements(data: &GroupData) -> u64 {
    data.shape.iter().copied().fold(1, u64::saturating_mul)
}

/// Bytes of so many elements of a group.
fn bytes_of(data: &GroupData, elements: u64) -> u64 {
    elements.saturating_mul(u64::from(data.bits)).div_ceil(8)
}

/// What a group pads all of whose elements lie in runs of so many elements and positions, in bytes.
fn padding_of_runs(data: &GroupData, (run, lanes): (u64, u64)) -> u64 {
    let positions = (elements(data) / run).saturating_mul(lanes);
    bytes_of(data, positions).saturating_sub(unpadded(data))
}

/// The port that gives a group and those that read it.
fn ports_of(data: &GroupData) -> Vec<(Node, usize)> {
    let uses = data.uses.iter().copied();
    data.producer.into_iter().chain(uses).collect()
}

fn table(x: &View, y: &View, mut related: impl FnMut(State, State) -> bool) -> Vec<Vec<bool>> {
    let mut rows = Vec::with_capacity(x.domain.len());
    for i in 0..x.domain.len() {
        let row = (0..y.domain.len()).map(|j| match (x.state(i), y.state(j)) {
            (Some(p), Some(q)) if x.domain[i] && y.domain[j] => related(p, q),
            _ => x.domain[i] && y.domain[j],
        });
        rows.push(row.collect());
    }
    rows
}

/// Whether the target's row takes a layout at a port in some form. What the checker of certificates
/// takes is taken here.
fn admits(sig: &Signature, layouts: &mut Layouts, port: usize, layout: LayoutId) -> bool {
    if layout == default_layout(sig, layouts, port) {
        return true;
    }
    if sig.is_tiled() {
        return tiled::accepts(sig, layouts, port, layout);
    }
    let data_port = port == 0 || port == sig.n_operands;
    let modes = match sig.accept {
        Accept::Any => return true,
        Accept::ChannelOrders if !data_port => return true,
        // What a call takes, or another operation that runs functions, is its default alone.
        Accept::RowMajor if !sig.declared.is_empty() => return false,
        Accept::RowMajor => return layouts.get(layout).is_row_major_order(),
        _ => layouts.modes(layout),
    };
    let Some(modes) = modes else { return false };
    let shape = &sig.shapes[port];
    let real = |p: &&Mode| 1 < p.extent && (1 < p.count || shape[p.dim] == 1);
    let innermost = modes.iter().rfind(real);
    match sig.accept {
        Accept::Any | Accept::RowMajor => true,
        Accept::CommonOrder | Accept::Matrices => {
            is_unpadded(&modes) && ends::accepts(sig, port, &modes)
        }
        Accept::ContractRuns => is_unpadded(&modes) && accepts_contract(sig, port, &modes),
        Accept::ChannelOrders => {
            channel_orders(sig, layouts, port).contains(&layout)
                || (sig.is_pointwise_conv()
                    && is_unpadded(&modes)
                    && accepts_pointwise(sig, port, &modes))
        }
        Accept::MinRun => innermost.is_none_or(|p| p.div == 1 && sig.parameter <= p.extent),
        Accept::LastBlock => innermost.is_none_or(|p| {
            p.dim + 1 == shape.len() && p.div == 1 && p.extent.is_multiple_of(sig.parameter)
        }),
    }
}

/// The layouts that the target's row lists for a port; nothing where it takes a family of them.
fn listed(sig: &Signature, layouts: &mut Layouts, port: usize) -> Option<Vec<LayoutId>> {
    if sig.is_tiled() {
        let logical = sig.tiles.iter().all(|rule| rule.logical);
        return logical.then(|| vec![default_layout(sig, layouts, port)]);
    }
    let data_port = port == 0 || port == sig.n_operands;
    match sig.accept {
        Accept::RowMajor => Some(vec![default_layout(sig, layouts, port)]),
        Accept::ChannelOrders if data_port && !sig.is_pointwise_conv() => {
            Some(channel_orders(sig, layouts, port))
        }
        Accept::ChannelOrders
        | Accept::CommonOrder
        | Accept::ContractRuns
        | Accept::Matrices
        | Accept::MinRun
        | Accept::LastBlock
        | Accept::Any => None,
    }
}

/// Whether one form of the operation may have these layouts at two ports.
fn agree(
    sig: &Signature,
    layouts: &mut Layouts,
    (a, x): (usize, LayoutId),
    (b, y): (usize, LayoutId),
) -> bool {
    if sig.is_tiled() {
        return agree_tiled(sig, layouts, (a, x), (b, y));
    }
    if sig.accept == Accept::ChannelOrders {
        let (first, second) = (
            channel_orders(sig, layouts, a),
            channel_orders(sig, layouts, b),
        );
        let mut styles = first.iter().zip(&second);
        return styles.any(|(p, q)| *p == x && *q == y);
    }
    let (Some(p), Some(q)) = (
        label_order(sig, layouts, a, x),
        label_order(sig, layouts, b, y),
    ) else {
        return true;
    };
    if sig.accept == Accept::ContractRuns {
        let k = |order: &[LabelDigit]| {
            let is_k = |d: &LabelDigit| sig.contract_role(d.label) == ContractRole::K;
            joined(order.iter().copied().filter(is_k))
        };
        return k(&p) == k(&q);
    }
    if sig.accept == Accept::Matrices {
        // Digits of one role are in one order at all ports that have it.
        let of = |order: &[LabelDigit], role: ContractRole| {
            joined(
                order
                    .iter()
                    .copied()
                    .filter(|d| sig.contract_role(d.label) == role),
            )
        };
        let roles = [
            ContractRole::Batch,
            ContractRole::M,
            ContractRole::N,
            ContractRole::K,
        ];
        let both = |role: &ContractRole| {
            let has = |port: usize| {
                let mut labels = sig.labels(port).iter().flatten();
                labels.any(|l| sig.contract_role(*l) == *role)
            };
            has(a) && has(b)
        };
        return roles
            .iter()
            .filter(|r| both(r))
            .all(|r| of(&p, *r) == of(&q, *r));
    }
    let shared = |order: &[LabelDigit], other: usize| {
        let exists = |d: &LabelDigit| extent(sig, other, d.label).is_some_and(|n| d.div < n);
        joined(order.iter().copied().filter(exists))
    };
    shared(&p, b) == shared(&q, a)
}

/// Whether all alternatives of a row hold two ports to one order.
fn shares_all(sig: &Signature, a: usize, b: usize) -> bool {
    let written = sig.n_operands <= a.max(b);
    let mut rules = sig.tiles.iter();
    rules.all(|rule| rule.shares_all && !(rule.writes_any && written))
}

/// The same on a machine with tiles.
fn agree_tiled(
    sig: &Signature,
    layouts: &mut Layouts,
    (a, x): (usize, LayoutId),
    (b, y): (usize, LayoutId),
) -> bool {
    if sig.is_common_order() {
        if !shares_all(sig, a, b) {
            return true;
        }
        let (Some(p), Some(q)) = (
            label_order(sig, layouts, a, x),
            label_order(sig, layouts, b, y),
        ) else {
            return true;
        };
        for ((port, here, order), (other, there)) in [((a, x, &p), (b, y)), ((b, y, &q), (a, x))] {
            if let Some(alone) = carried(sig, layouts, (port, here, order), other)
                && alone != there
            {
                return false;
            }
        }
        let shared = |order: &[LabelDigit], other: usize| {
            let exists = |d: &LabelDigit| extent(sig, other, d.label).is_some_and(|n| d.div < n);
            joined(order.iter().copied().filter(exists))
        };
        return shared(&p, b) == shared(&q, a);
    }
    let written = [a, b].iter().any(|&p| sig.n_operands <= p);
    let leaves = |rule: &TileRule| {
        rule.is_any() || rule.logical || rule.shares_all || (rule.writes_any && written)
    };
    if sig.tiles.iter().any(leaves) {
        return true;
    }
    let (p, q) = (
        tiled::parts(sig, layouts, a, x),
        tiled::parts(sig, layouts, b, y),
    );
    match (p, q) {
        (Some(p), Some(q)) => p.rules & q.rules != 0 && tiled::agree(sig, (a, &p), (b, &q)),
        _ => true,
    }
}

/// Whether an alternative takes layouts of a class at a port.
fn may_be(sig: &Signature, layouts: &Layouts, rule: &TileRule, port: usize, class: Class) -> bool {
    let Some(label) = class.label else {
        return true;
    };
    if !tiled::may_end_in(sig, rule, port, label) {
        return false;
    }
    // Each line of lanes holds elements of one role.
    let listed = tiled::lists_lanes(sig, rule, port);
    match class.lanes {
        _ if !listed => true,
        Lanes::Any | Lanes::Within => true,
        Lanes::Whole => {
            let n = tiled::along_role(sig, port, label);
            layouts.padded(2, sig.bits[port], 1, n) == n
        }
        Lanes::Along | Lanes::Across => {
            let n = tiled::along_role(sig, port, label);
            let several = Some(n) != extent(sig, port, label);
            class.extent < n && (several || class.spread != Spread::Several)
        }
    }
}

/// The class that a layout at a port would be in if it were no candidate.
fn class_of(sig: &Signature, layouts: &mut Layouts, port: usize, layout: LayoutId) -> Class {
    let order = match sig.lines {
        Some(_) => label_order(sig, layouts, port, layout),
        None => None,
    };
    let Some(last) = order.as_ref().and_then(|order| order.last()) else {
        return Class::UNKNOWN;
    };
    let size = extent(sig, port, last.label);
    let in_lanes = || order.iter().flatten().filter(|d| d.place == Place::Lane);
    let run = in_lanes().fold(1u64, |n, d| n.saturating_mul(d.extent));
    let is_padded = layouts.padded(2, sig.bits[port], 1, run) != run;
    let padded = last.place == Place::Lane && is_padded;
    Class {
        label: Some(last.label),
        lanes: match padded {
            true if Some(run) == size && run == last.extent => Lanes::Within,
            true => Lanes::Any,
            false => Lanes::Whole,
        },
        spread: match padded {
            true => match in_lanes().all(|d| d.label == last.label) {
                true => Spread::One,
                false => Spread::Several,
            },
            false => Spread::Any,
        },
        extent: last.extent,
    }
}

/// Of how many labels a run is that begins in one label and goes on in some of others.
fn spread_of(label: Option<usize>, beside: impl Iterator<Item = Option<usize>>) -> Spread {
    let Some(label) = label else {
        return Spread::Any;
    };
    let (mut same, mut other) = (false, false);
    for beside in beside {
        match beside {
            Some(l) if l == label => same = true,
            Some(_) => other = true,
            None => (same, other) = (true, true),
        }
    }
    match (same, other) {
        (true, false) => Spread::One,
        (false, true) => Spread::Several,
        _ => Spread::Any,
    }
}

/// Whether two ports of one common order may have layouts of these classes: where both have both innermost dimensions
/// whole, these are one; where they have the same dimensions, lanes are padded alike.
fn ends_alike(sig: &Signature, (a, x): (usize, Class), (b, y): (usize, Class)) -> bool {
    let (Some(p), Some(q)) = (x.label, y.label) else {
        return true;
    };
    if sig.lines.is_none() || !sig.is_common_order() {
        return true;
    }
    let whole = |label: usize| {
        let here = extent(sig, a, label);
        here == extent(sig, b, label) && here.is_some_and(|n| 1 < n)
    };
    if p != q {
        return !(whole(p) && whole(q));
    }
    let shares_all = sig.tiles.iter().all(|rule| rule.shares_all);
    if !shares_all || !whole(p) || sig.labels(a) != sig.labels(b) {
        return true;
    }
    let Some((whole_of, part)) = whole_and_part(sig, a, b) else {
        return true;
    };
    let (x, y) = if whole_of == a { (x, y) } else { (y, x) };
    let mut sizes = sig.shapes[whole_of].iter().zip(&sig.shapes[part]);
    let odd = sizes.all(|(m, n)| (m / n) % 2 == 1);
    let same = sig.shapes[whole_of] == sig.shapes[part];
    match (x.lanes, y.lanes) {
        (Lanes::Any | Lanes::Whole, Lanes::Any) | (Lanes::Any, Lanes::Whole) => true,
        (Lanes::Whole, Lanes::Whole) => true,
        // What fills whole lanes may fill parts of them without what is cut off; an odd number of parts is none.
        (Lanes::Whole, _) => !odd,
        (_, Lanes::Whole) => false,
        _ => match (x.spread, y.spread) {
            (Spread::One, Spread::Several) => false,
            (Spread::Several, Spread::One) => !same,
            _ => true,
        },
    }
}

/// Whether beside a layout at one port of a common order another port may have one of this class: the innermost digit of
/// the first is innermost there too, as far as both ports have it and what would be innermost instead.
fn keeps_innermost(
    sig: &Signature,
    layouts: &mut Layouts,
    (a, layout): (usize, LayoutId),
    (b, class): (usize, Class),
) -> bool {
    if sig.lines.is_none() || !sig.is_common_order() || !shares_all(sig, a, b) {
        return true;
    }
    let order = label_order(sig, layouts, a, layout);
    let (Some(last), Some(q)) = (order.as_ref().and_then(|o| o.last()), class.label) else {
        return true;
    };
    let size = |port: usize, label: usize| extent(sig, port, label).unwrap_or(1);
    let goes_on = last.div == 1 && 1 < last.extent && 1 < size(b, last.label);
    let there = 1 < size(b, q) && size(b, q) <= size(a, q);
    !(goes_on && there) || last.label == q
}

/// Of two ports with the same dimensions the one that has more elements and the one that has an even part of them.
fn whole_and_part(sig: &Signature, a: usize, b: usize) -> Option<(usize, usize)> {
    if sig.labels(a) != sig.labels(b) {
        return None;
    }
    let sizes = || sig.shapes[a].iter().zip(&sig.shapes[b]);
    let (whole, part) = match sizes().all(|(m, n)| n <= m) {
        true => (a, b),
        false if sizes().all(|(m, n)| m <= n) => (b, a),
        false => return None,
    };
    let mut sizes = sig.shapes[whole].iter().zip(&sig.shapes[part]);
    let even = sizes.all(|(m, n)| *n != 0 && m.is_multiple_of(*n));
    even.then_some((whole, part))
}

/// The only layout that a port of one common order has beside that of another one, on a machine of lines: ports with the
/// same labels have the same digits in the same places, as far as neither the run in lanes nor what is innermost is cut.
fn carried(
    sig: &Signature,
    layouts: &mut Layouts,
    (port, layout, order): (usize, LayoutId, &[LabelDigit]),
    other: usize,
) -> Option<LayoutId> {
    // The digits of one element say nothing of what it is padded to.
    if order.is_empty() || restrict(sig, layouts, port, order, port) != Some(layout) {
        return None;
    }
    let mut there = sig.labels(other).iter().zip(&sig.shapes[other]);
    let held = |(label, &to): (&Option<usize>, &u64)| {
        to <= 1 || label.is_some_and(|l| extent(sig, port, l).is_some_and(|from| to <= from))
    };
    // What has fewer dimensions lies as the others do where it is a result; an operand may lie in no lines.
    let alike = sig.labels(port) == sig.labels(other) || sig.n_operands <= other;
    if sig.lines.is_none() || !alike || !there.all(held) {
        return None;
    }
    let whole = |d: &LabelDigit| extent(sig, port, d.label) == extent(sig, other, d.label);
    let mut in_run = order.iter().filter(|d| d.place != Place::Grid);
    if !in_run.all(whole) || !order.last().is_none_or(whole) {
        return None;
    }
    restrict(sig, layouts, other, order, port)
}

/// Label and divisor of each digit, those that follow one another in one label as one.
fn joined(digits: impl Iterator<Item = LabelDigit>) -> Vec<(usize, u64)> {
    let mut out: Vec<LabelDigit> = Vec::new();
    for digit in digits {
        match out.last_mut() {
            Some(last)
                if last.label == digit.label
                    && digit.div.checked_mul(digit.extent) == Some(last.div) =>
            {
                *last = LabelDigit {
                    extent: last.extent.saturating_mul(digit.extent),
                    ..digit
                };
            }
            _ => out.push(digit),
        }
    }
    out.iter().map(|d| (d.label, d.div)).collect()
}

fn extent(sig: &Signature, port: usize, label: usize) -> Option<u64> {
    let dim = sig.labels(port).iter().position(|l| *l == Some(label))?;
    sig.shapes[port].get(dim).copied()
}

/// Whether the layout of one port of a common order leaves it open that another port's is no
/// candidate.
fn leaves_open(
    sig: &Signature,
    layouts: &mut Layouts,
    (a, x): (usize, LayoutId),
    b: usize,
    at_b: &[Option<LayoutId>],
) -> bool {
    if sig.is_tiled() {
        if !shares_all(sig, a, b) {
            return true;
        }
        let order = label_order(sig, layouts, a, x);
        let there = order.and_then(|order| carried(sig, layouts, (a, x, &order), b));
        return there.is_none_or(|there| !at_b.contains(&Some(there)));
    }
    if !sig.is_common_order() || sig.accept != Accept::CommonOrder {
        return true;
    }
    let Some(order) = label_order(sig, layouts, a, x) else {
        return true;
    };
    for (label, &n) in sig.labels(b).iter().zip(&sig.shapes[b]) {
        if n <= 1 {
            continue;
        }
        let Some(here) = label.and_then(|l| extent(sig, a, l)) else {
            return true;
        };
        // A cut of the longer port above the shorter one's extent may stand anywhere.
        if here < n && here <= largest_cut(n) {
            return true;
        }
        let torn =
            |d: &LabelDigit| Some(d.label) == *label && d.div < n && !n.is_multiple_of(d.div);
        if order.iter().any(torn) {
            return false;
        }
    }
    match restrict(sig, layouts, b, &order, a) {
        Some(there) => !at_b.contains(&Some(there)),
        None => true,
    }
}

/// The largest divisor of a number below it.
fn largest_cut(n: u64) -> u64 {
    let factor = (2u64..)
        .take_while(|d| d.saturating_mul(*d) <= n)
        .find(|d| n.is_multiple_of(*d));
    factor.map_or(1, |d| n / d)
}
