//! What a function costs with one form of an operation, or one layout of a value, and all else as is best beside that.

use super::asked::Asked;
use super::choose::{Choice, Copies, States};
use super::draft::Written;
use super::groups::{Group, Node};
use super::layouts::LayoutId;
use super::problem::{Aim, INFEASIBLE, movement};
use super::search::{Modes, Search};
use super::solve::Starts;
use optc_ir::entity::{EntityId, SideTable};

/// The choice of a function as a problem that is solved with one variable held.
pub(crate) struct Scales {
    /// The forms of all operations.
    pub(crate) modes: SideTable<Node, Modes>,
    states: States,
    problem: Written,
    groups: usize,
}

/// What a function costs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Weight {
    /// Bytes of all that the search decides about.
    pub(crate) bytes: u64,
    /// Whether nothing with what is held costs less.
    pub(crate) proven: bool,
}

/// The states that a variable may be in.
type Held = (usize, Vec<bool>);

impl Search<'_> {
    /// The problem that a choice solves, with few further copies of each group.
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
    /// What the function costs where a node has the form of this number; nothing where it cannot.
    pub(crate) fn with_form(&self, node: Node, form: usize) -> Option<Weight> {
        let allowed = (0..self.modes[node].len()).map(|state| state == form);
        self.weight((self.groups + node.index(), allowed.collect()))
    }

    /// What it costs where a group is produced in the candidate of this number; nothing where it cannot be.
    pub(crate) fn with_layout(&self, group: Group, candidate: usize) -> Option<Weight> {
        self.weight(self.produced_in(group, candidate))
    }

    /// A choice that costs little where groups are produced in these layouts, near one without some of them; nothing where they
    /// cannot be.
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

    /// The cost with a variable in one of some states.
    fn weight(&self, held: Held) -> Option<Weight> {
        if !held.1.contains(&true) {
            return None;
        }
        // Nothing is known of it.
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
