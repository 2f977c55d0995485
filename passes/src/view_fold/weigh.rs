//! The cost of a function with one form of an operation or one layout of a value held, and everything else chosen
//! again.

use super::choose::{Choice, Copies, States};
use super::groups::{Group, Node};
use super::layouts::LayoutId;
use super::search::{Modes, Search};
use optc_ir::entity::{EntityId, SideTable};
use optc_solver::{Aim, Asked, INFEASIBLE, Starts, Written, movement};

/// The choice of a function as a problem that can be solved with some variables held.
pub(crate) struct Scales {
    /// The forms of all operations.
    pub(crate) modes: SideTable<Node, Modes>,
    states: States,
    problem: Written,
    groups: usize,
}

/// The cost of a function.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Weight {
    /// Bytes of everything that the search decides.
    pub(crate) bytes: u64,
    /// True if nothing cheaper exists with what is held.
    pub(crate) proven: bool,
}

/// The states that a variable may be in.
type Held = (usize, Vec<bool>);

impl Search<'_> {
    /// The problem of a choice, with few further copies of each group.
    pub(crate) fn scales(&mut self) -> Option<Scales> {
        let modes = self.modes()?;
        let states = self.states(&modes, &Copies::few())?;
        let problem = self.problem(&modes, &states).written();
        Some(Scales {
            modes,
            states,
            problem,
            groups: self.graph.groups.len(),
        })
    }
}

impl Scales {
    /// The cost where a node has the form of this number; `None` where that is infeasible.
    pub(crate) fn with_form(&self, node: Node, form: usize) -> Option<Weight> {
        let allowed = (0..self.modes[node].len()).map(|state| state == form);
        self.weight((self.groups + node.index(), allowed.collect()))
    }

    /// The cost where a group is produced in the candidate of this number; `None` where that is infeasible.
    pub(crate) fn with_layout(&self, group: Group, candidate: usize) -> Option<Weight> {
        self.weight(self.produced_in(group, candidate))
    }

    /// A choice of low cost where groups are produced in these layouts, near a choice in which some of them may have
    /// others. `None` where that is infeasible.
    pub(super) fn with_layouts(
        &self,
        search: &Search<'_>,
        near: &Choice,
        held: &[(Group, LayoutId)],
    ) -> Option<Choice> {
        let mut near = search.assignment(near, &self.modes, &self.states);
        let mut all: Vec<Held> = Vec::with_capacity(held.len());
        for &(group, layout) in held {
            let mut candidates = search.candidates[group].iter();
            let candidate = candidates.position(|&known| known == layout)?;
            let (var, allowed) = self.produced_in(group, candidate);
            let first = allowed.iter().position(|&is| is)?;
            if let Some(near) = near.as_mut().filter(|near| !allowed[near[var]]) {
                near[var] = first;
            }
            all.push((var, allowed));
        }
        let found = self.problem.held(&all).solve_near(near);
        let fits = found.cost < INFEASIBLE;
        fits.then(|| search.read(&found, &self.modes, &self.states))
    }

    /// The states of a group that is produced in a candidate.
    fn produced_in(&self, group: Group, candidate: usize) -> Held {
        let states = self.states.of_group(group).iter();
        let allowed = states.map(|state| state.produced == candidate);
        (group.index(), allowed.collect())
    }

    /// The cost with a variable in one of these states.
    fn weight(&self, held: Held) -> Option<Weight> {
        if !held.1.contains(&true) {
            return None;
        }
        // No assignment is known to start from.
        let starts = Starts {
            near: None,
            safe: &mut || None,
            asked: Asked::surely(),
            aim: Aim::Both,
        };
        let found = self.problem.held(&[held]).solve(starts);
        (found.cost < INFEASIBLE).then(|| Weight {
            bytes: movement(found.cost),
            proven: found.proven,
        })
    }
}
