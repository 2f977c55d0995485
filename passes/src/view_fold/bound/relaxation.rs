//! The data of the relaxation: states of groups and ports, classes of other layouts, and memoized answers.

use crate::view_fold::groups::{Graph, Group, Node};
use crate::view_fold::layouts::{LayoutId, Layouts};
use crate::view_fold::maps::{FastMap, FastSet};
use crate::view_fold::physical::Digit;
use crate::view_fold::signature::SignatureId;
use crate::view_fold::signatures::Signatures;
use optc_ir::entity::{EntityId, SideTable};
use optc_solver::{Asked, Problem, Table, movement};
use std::cell::RefCell;
use std::rc::Rc;

/// The numbers of states and constraints of a relaxation.
#[derive(Clone, Copy, Debug)]
pub(super) struct Detail {
    /// The most states of a group with which larger sets of copies are among them.
    pub(super) states: usize,
    /// True if ports of one shape are related to one another as well.
    pub(super) siblings: bool,
}

impl Detail {
    pub(super) const FINE: Detail = Detail {
        states: 200,
        siblings: true,
    };
    pub(super) const COARSE: Detail = Detail {
        states: 1,
        siblings: false,
    };
}

/// A layout, as far as the relaxation distinguishes layouts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// The candidate that has this layout at the port.
    Known(LayoutId),
    /// A candidate whose layout at the port is not known.
    Unknown,
    /// No candidate. On a machine of lines of lanes, of this class.
    Other(usize),
}

/// A group's state: the index of the layout that it is produced in, and its copies for several readers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct GroupState {
    pub(super) produced: usize,
    pub(super) copies: Copies,
    pub(super) readers: Readers,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Copies {
    /// One copy for each of these indices.
    To(Vec<usize>),
    /// At least this many copies, in whatever layouts are wanted.
    Many(usize),
}

/// Operations that read the value in the layout that it is produced in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Readers {
    /// All of them; there is no copy.
    All,
    /// Any of them.
    Some,
    /// All but this one, by its place among the readers, and any others.
    Not(usize),
    None,
}

impl GroupState {
    pub(super) const FIRST: GroupState = GroupState {
        produced: 0,
        copies: Copies::To(Vec::new()),
        readers: Readers::Some,
    };

    pub(super) fn copies_none(&self) -> bool {
        self.copies == Copies::To(Vec::new())
    }
}

/// A signature, two ports, and the numbers of their views.
pub(super) type RelationKey = (SignatureId, [usize; 2], [usize; 2]);

/// Compatibility of the states of two ports: a row for each state of the first.
pub(super) type Relation = Rc<Vec<Vec<bool>>>;

/// A port of a node: the layouts of its group's candidates there, and the states that it may take.
#[derive(Clone, Debug)]
pub(super) struct View {
    pub(super) group: Group,
    pub(super) at: Vec<Option<LayoutId>>,
    /// True if a candidate without a layout here provably has none.
    pub(super) exact: bool,
    pub(super) domain: Vec<bool>,
    /// The classes of other layouts, as the port sees them.
    pub(super) classes: Vec<Class>,
    /// A number that identifies the layouts and classes.
    pub(super) seen: usize,
}

/// The way in which the innermost run of a layout lies on a machine of lines of lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Lanes {
    /// Not known.
    Any,
    /// Without padding: the run fills whole lines, or lies in none.
    Whole,
    /// Padded lanes hold part of one digit that no member cuts.
    Within,
    /// Padded lanes hold several such digits, all of one dimension.
    Along,
    /// Padded lanes hold digits of several dimensions.
    Across,
}

impl Lanes {
    pub(super) const ALL: [Lanes; 4] = [Lanes::Whole, Lanes::Within, Lanes::Along, Lanes::Across];
}

/// The number of labels of the digits in padded lanes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) enum Spread {
    One,
    Several,
    /// Not known.
    Any,
}

/// A class of layouts that are no candidates, at a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Class {
    /// The label of the innermost digit, where it is known.
    pub(super) label: Option<usize>,
    pub(super) lanes: Lanes,
    pub(super) spread: Spread,
    /// The elements of that digit.
    pub(super) extent: u64,
}

impl Class {
    pub(super) const UNKNOWN: Class = Class {
        label: None,
        lanes: Lanes::Any,
        spread: Spread::Any,
        extent: 0,
    };
}

impl View {
    pub(super) fn state(&self, index: usize) -> Option<State> {
        match self.at.get(index) {
            None => Some(State::Other(index - self.at.len())),
            Some(Some(layout)) => Some(State::Known(*layout)),
            Some(None) if self.exact => None,
            Some(None) => Some(State::Unknown),
        }
    }
}

/// Memoized costs of conversions of one group, by the indices of the two layouts.
pub(super) struct Known {
    n: usize,
    found: RefCell<Vec<Option<u64>>>,
}

impl Known {
    /// For a group with `n` indices.
    pub(super) fn of(n: usize) -> Known {
        let found = RefCell::new(vec![None; n * n]);
        Known { n, found }
    }

    pub(super) fn ask(&self, (from, to): (usize, usize), find: impl FnOnce() -> u64) -> u64 {
        let at = from * self.n + to;
        if let Some(&Some(known)) = self.found.borrow().get(at) {
            return known;
        }
        let found = find();
        if let Some(known) = self.found.borrow_mut().get_mut(at) {
            *known = Some(found);
        }
        found
    }
}

/// The variable of a port; `produces` if the port produces its group.
#[derive(Clone, Copy, Debug)]
pub(super) struct Slot {
    pub(super) var: usize,
    pub(super) produces: bool,
}

/// The elements of a padded run and the positions that it takes, where there is one.
pub(super) type PaddedRun = Option<(u64, u64)>;

/// A group, the index of its layout, the first of the ports, and their number.
pub(super) type PaddingKey = (Group, usize, Option<(Node, usize)>, usize);

pub(super) struct Relaxation<'a> {
    /// The flag that says whether the bound is needed.
    pub(super) asked: Asked,
    pub(super) graph: &'a Graph,
    pub(super) layouts: &'a mut Layouts,
    pub(super) signatures: &'a Signatures,
    pub(super) candidates: &'a SideTable<Group, Vec<LayoutId>>,
    pub(super) detail: Detail,
    pub(super) problem: Problem,
    pub(super) ports: FastMap<(Node, usize), Rc<View>>,
    /// The layouts and classes of ports, interned.
    pub(super) seen: FastSet<(Vec<Option<LayoutId>>, Vec<Class>)>,
    pub(super) group_states: SideTable<Group, Vec<GroupState>>,
    pub(super) related: FastMap<RelationKey, Relation>,
    /// Runs of least padding, by element width and extent.
    pub(super) runs: RefCell<FastMap<(u32, u64), PaddedRun>>,
    /// Padding of a group's layouts, by group, index and ports.
    pub(super) paddings: RefCell<FastMap<PaddingKey, u64>>,
    /// Per group, the digits of which one is innermost in every layout: they make the classes of layouts that are no
    /// candidates.
    pub(super) atoms: SideTable<Group, Vec<Digit>>,
    /// Costs of a reader of a group with these states, on a machine without tiles.
    pub(super) readers: FastMap<(Group, Vec<usize>, bool), Table>,
    /// True if a row lists ends of orders, on a machine without tiles.
    pub(super) lists_ends: bool,
}

impl Relaxation<'_> {
    /// Logs the terms of the relaxation's minimum.
    pub(super) fn trace(&self, states: &[usize]) {
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
}
