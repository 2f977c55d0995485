//! What a function costs with one form of an operation, or one layout of a value, and all else as is best beside that.

use super::asked::Asked;
use super::choose::{Choice, Copies, States};
use super::groups::{Group, Node};
use super::layouts::LayoutId;
use super::problem::{Aim, INFEASIBLE, Problem, Table, movement};
use super::search::{Modes, Search};
use super::solve::{Solution, Starts, solve};
use optc_ir::entity::{EntityId, SideTable};

/// The choice of a function as a problem that is solved with one variable held.
pub(crate) struct Scales {
    /// The forms of all operations.
    pub(crate) modes: SideTable<Node, Modes>,
    states: States,
    problem: Problem,
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

impl Search<'_> {
    /// The problem that a choice solves, with few further copies of each group.
    pub(crate) fn scales(&mut self) -> Option<Scales> {
        let modes = self.modes()?;
        let states = self.states(&modes, &Copies::few())?;
        let problem = self.problem(&modes, &states).in_costs();
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
        self.hold(self.groups + node.index(), |state| state == form)
    }

    /// What it costs where a group is produced in the candidate of this number; nothing where it cannot be.
    pub(crate) fn with_layout(&self, group: Group, candidate: usize) -> Option<Weight> {
        let states = self.states.of_group(group);
        self.hold(group.index(), |state| states[state].produced == candidate)
    }

    /// The choice that costs least where groups are produced in these layouts; nothing where they cannot be.
    pub(super) fn with_layouts(
        &self,
        search: &Search<'_>,
        held: &[(Group, LayoutId)],
    ) -> Option<Choice> {
        let mut problem = self.problem.clone();
        for &(group, layout) in held {
            let (candidates, states) = (&search.candidates[group], self.states.of_group(group));
            let table = self.only(group.index(), |state| {
                candidates.get(states[state].produced) == Some(&layout)
            });
            problem.keep(&[group.index()], table?);
        }
        let found = solve_alone(&problem);
        let fits = found.cost < INFEASIBLE;
        fits.then(|| search.read(&found, &self.modes, &self.states))
    }

    /// What keeps a variable in some of its states; nothing where it has none of them.
    fn only(&self, var: usize, allowed: impl Fn(usize) -> bool) -> Option<Table> {
        let states = 0..self.problem.domains[var];
        let some = states.clone().any(&allowed);
        let cost = |state| if allowed(state) { 0 } else { INFEASIBLE };
        some.then(|| states.map(cost).collect())
    }

    /// The cost with a variable in one of some states.
    fn hold(&self, var: usize, allowed: impl Fn(usize) -> bool) -> Option<Weight> {
        let table = self.only(var, allowed)?;
        let mut held = self.problem.clone();
        held.keep(&[var], table);
        let found = solve_alone(&held);
        (found.cost < INFEASIBLE).then(|| Weight {
            bytes: movement(found.cost),
            proven: found.proven,
        })
    }
}

/// A problem of which nothing is known.
fn solve_alone(problem: &Problem) -> Solution {
    let starts = Starts {
        near: None,
        safe: &mut || None,
        asked: Asked::surely(),
        aim: Aim::Both,
    };
    solve(problem, starts)
}
