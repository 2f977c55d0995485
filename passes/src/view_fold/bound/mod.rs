//! Lower bound of the bytes that any choice of layouts admitted by the target converts.
//!
//! The search chooses among candidates. The bound must hold for all layouts. It is the minimum of a relaxation: a value
//! lies in one of its candidates or in *some other* layout. The latter is a state of its own that stands for every
//! layout that is no candidate. Constraints on these states follow from the declared freedom of an operation and the
//! target's row alone, never from the forms that rules gave:
//!
//! - A port may be in the other state, unless the target's row lists layouts for it and all of them are candidates.
//!   Listed are: row-major of a barrier, the layouts that a called function declares, channels first and last of a
//!   window, a pinned boundary.
//! - Two ports of one common order must agree. Where the order of one port determines all of the other's, the latter is
//!   one layout. If that layout is a candidate, the other port is not in the other state.
//! - Two ports of a contraction must have K in one order. The same holds for the data and the weights of a convolution
//!   of one pixel, if the data has its channels neither first nor last.
//! - The data and the result of a window must have channels in one place.
//! - The two sides of a kept rearrangement must have the layouts of one view.
//!
//! On a machine of lines of lanes the other layouts fall into classes by their innermost digit and by the way in which
//! padded lanes are filled. Where rows list ends of orders, the classes are by the innermost digit alone. Copies for
//! several readers are states of a group; a copy for one reader is the reader's own.
//!
//! Constraints among more than two ports, and the padding that a row allows, are left out. A conversion between two
//! different states costs the bytes of both. The bytes of the other state are counted without padding. A conversion
//! from the other state to itself costs nothing. Every lowering is an assignment of the relaxation that costs no more.
//! The minimum of the relaxation, or the lower bound on it that the solver proves, is therefore a bound.

mod alternatives;
mod classes;
mod order;
mod padding;
mod ports;
mod relation;
mod relaxation;
mod states;

use super::groups::{Graph, Group};
use super::layouts::{LayoutId, Layouts};
use super::maps::{FastMap, FastSet};
use super::signature::Signature;
use super::signatures::Signatures;
use optc_ir::entity::SideTable;
use optc_solver::{Asked, INFEASIBLE, Problem, movement, relax};
use relaxation::{Detail, Relaxation};
use std::cell::RefCell;

/// Returns whether a row lists the ends of an operation's orders, or has a price for some of them.
fn says_of_ends(sig: &Signature) -> bool {
    sig.lists_ends() || !sig.slower.is_empty()
}

/// A lower bound of the bytes that every lowering of the function converts. `enough` is what some lowering converts:
/// once the bound reaches it, nothing more is tried.
pub(crate) fn bytes(
    known: Known<'_>,
    candidates: &SideTable<Group, Vec<LayoutId>>,
    fine: Option<Fine>,
    enough: u64,
) -> u64 {
    let groups = known.0.groups.len();
    let mut relaxation = relaxation(known, candidates, Asked::surely());
    let Fine { bytes, exact } = fine.unwrap_or_else(|| relaxation.fine());
    // With fewer states the solver may prove more. With many groups it seldom does, where most of `enough` is proved
    // already.
    let most = MANY_GROUPS < groups && enough - enough / 4 <= bytes;
    if exact || enough <= bytes || most {
        return bytes;
    }
    let (coarse, _) = relaxation.minimum(Detail::COARSE);
    bytes.max(coarse)
}

/// The input of a bound: the program, its layouts and the signatures of its operations.
pub(crate) type Known<'a> = (&'a Graph, &'a mut Layouts, &'a Signatures);

/// A bound with all states; `exact` if it is the minimum of the relaxation.
pub(crate) struct Fine {
    bytes: u64,
    exact: bool,
}

/// The bound with all states, where no lowering's cost is known yet.
pub(crate) fn fine(
    known: Known<'_>,
    candidates: &SideTable<Group, Vec<LayoutId>>,
    asked: Asked,
) -> Fine {
    relaxation(known, candidates, asked).fine()
}

fn relaxation<'a>(
    (graph, layouts, signatures): Known<'a>,
    candidates: &'a SideTable<Group, Vec<LayoutId>>,
    asked: Asked,
) -> Relaxation<'a> {
    Relaxation {
        asked,
        graph,
        signatures,
        candidates,
        detail: Detail::FINE,
        problem: Problem::default(),
        ports: FastMap::default(),
        seen: FastSet::default(),
        group_states: SideTable::new(Vec::new()),
        related: FastMap::default(),
        runs: RefCell::default(),
        paddings: RefCell::default(),
        atoms: SideTable::new(Vec::new()),
        readers: FastMap::default(),
        lists_ends: signatures.any(|sig| !sig.is_tiled() && says_of_ends(sig)),
        layouts,
    }
}

/// Above this number of groups the relaxation is solved with fewer states only.
const MOST_GROUPS: usize = 1 << 14;

/// Above this number of groups a bound of at least three quarters of the moved bytes is not raised further, and the
/// bound is computed in parallel with the choice.
pub(crate) const MANY_GROUPS: usize = 1 << 12;

impl Relaxation<'_> {
    fn fine(&mut self) -> Fine {
        let (bytes, exact) = match self.graph.groups.len() <= MOST_GROUPS {
            true => self.minimum(Detail::FINE),
            false => (0, false),
        };
        Fine { bytes, exact }
    }

    /// The minimum of the relaxation in some detail, or the lower bound on it that the solver proves. Also returns
    /// whether it is the minimum. Views and relations of ports are computed once and kept.
    fn minimum(&mut self, detail: Detail) -> (u64, bool) {
        self.detail = detail;
        self.problem = Problem::default();
        self.group_states = SideTable::new(Vec::new());
        self.paddings.borrow_mut().clear();
        self.groups();
        self.nodes();
        if self.asked.has_ended() {
            return (0, false);
        }
        self.readers.clear();
        let problem = std::mem::take(&mut self.problem);
        let variables = problem.domains.len();
        if tracing::enabled!(tracing::Level::TRACE) {
            self.problem = problem.clone();
        }
        let solution = relax(problem, self.asked.clone());
        tracing::debug!(
            variables,
            ?detail,
            bytes = movement(solution.bound),
            exact = solution.proven,
            "bound"
        );
        self.trace(&solution.states);
        let bytes = match solution.bound < INFEASIBLE {
            true => movement(solution.bound),
            false => 0,
        };
        (bytes, solution.proven)
    }
}
