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
//! - two ports of a contraction must have K in one order, and so must data that has its channels neither first nor last and
//!   the weights of a convolution of one pixel; the data and the result of a window
//!   channels in one place, the two sides of a kept rearrangement the layouts of one view.
//!
//! On a machine of lines of lanes the other layouts fall into classes: which digit is innermost, and what fills lanes that
//! are padded; where rows say what orders end in, by the innermost digit alone. Copies for several readers are states of a group; a copy for one reader is the reader's own.
//!
//! Constraints among more than two ports, and what padding a row allows, are left out. A conversion
//! between two different states costs the bytes of both, of the other state the bytes without
//! padding; from the other state to itself nothing. Every lowering is an assignment of the relaxation
//! that costs no more, so its minimum, or what the solver proves of it, is a bound.

mod alternatives;
mod classes;
mod order;
mod padding;
mod ports;
mod relation;
mod relaxation;
mod states;

use super::asked::Asked;
use super::groups::{Graph, Group};
use super::layouts::{LayoutId, Layouts};
use super::maps::{FastMap, FastSet};
use super::problem::{INFEASIBLE, Problem, movement};
use super::signature::Signature;
use super::signatures::Signatures;
use super::solve::relax;
use optc_ir::entity::SideTable;
use relaxation::{Detail, Relaxation};
use std::cell::RefCell;

/// Whether a row says in what the orders of an operation end, or asks for a price of some of them.
fn says_of_ends(sig: &Signature) -> bool {
    !sig.ends.is_empty() || !sig.slower.is_empty()
}

/// Bytes that every lowering of the function converts at least; where it shows that these are `enough`, which is what some
/// lowering converts, nothing more is tried.
pub(crate) fn bytes(
    known: Known<'_>,
    candidates: &SideTable<Group, Vec<LayoutId>>,
    fine: Option<Fine>,
    enough: u64,
) -> u64 {
    let groups = known.0.groups.len();
    let mut relaxation = relaxation(known, candidates, Asked::surely());
    let Fine { bytes, exact } = fine.unwrap_or_else(|| relaxation.fine());
    // With fewer states the solver may prove more; of many groups seldom, where most of what there is has been proved.
    let most = MANY_GROUPS < groups && enough - enough / 4 <= bytes;
    if exact || enough <= bytes || most {
        return bytes;
    }
    let (coarse, _) = relaxation.minimum(Detail::COARSE);
    bytes.max(coarse)
}

/// What a bound is found from: the program, its layouts and what its operations are.
pub(crate) type Known<'a> = (&'a Graph, &'a mut Layouts, &'a Signatures);

/// A bound with all states, and whether it is the minimum of the relaxation.
pub(crate) struct Fine {
    bytes: u64,
    exact: bool,
}

/// The bound with all states, where what some lowering converts is not known yet.
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

/// Groups of a program up to which the relaxation has all states; one of more is proved with fewer of them.
const MOST_GROUPS: usize = 1 << 14;

/// Groups of a program above which a bound of three quarters of what is moved is not tried to be raised, and above which it is
/// found while a choice is.
pub(crate) const MANY_GROUPS: usize = 1 << 12;

impl Relaxation<'_> {
    fn fine(&mut self) -> Fine {
        let (bytes, exact) = match self.graph.groups.len() <= MOST_GROUPS {
            true => self.minimum(Detail::FINE),
            false => (0, false),
        };
        Fine { bytes, exact }
    }

    /// The minimum of the relaxation in some detail or what the solver proves of it, and whether it is the minimum. What
    /// ports see and how they are related is found out once.
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
