//! What is minimised: a sum of small cost tables over variables with a few states.

use super::maps::FastSet;
use smallvec::SmallVec;
use std::rc::Rc;

/// Movement bytes above [`TIE_BITS`] of what breaks ties (compile-time bytes, then departures from the default).
/// Sums saturate at [`INFEASIBLE`].
pub(crate) type Cost = u128;

/// Bits for what breaks ties: a program has 2^48 bytes of constants at most, and above them is room for the sums of some
/// hundred thousand conversions of the largest values that there are.
const TIE_BITS: u32 = 48;

const MOST_TIE: Cost = (1 << TIE_BITS) - 1;

/// An assignment that cannot be lowered.
pub(crate) const INFEASIBLE: Cost = 1 << 126;

/// A cost of movement bytes and a tie breaker.
pub(crate) fn cost(bytes: u64, tie: u64) -> Cost {
    (u128::from(bytes) << TIE_BITS) | u128::from(tie).min(MOST_TIE)
}

/// What breaks ties in a cost.
pub(crate) fn tie_of(cost: Cost) -> Cost {
    cost & MOST_TIE
}

/// Whether two costs are of as many movement bytes.
pub(crate) fn moves_alike(a: Cost, b: Cost) -> bool {
    a >> TIE_BITS == b >> TIE_BITS
}

/// The movement bytes of a cost; saturates.
pub(crate) fn movement(cost: Cost) -> u64 {
    u64::try_from(cost >> TIE_BITS).unwrap_or(u64::MAX)
}

/// A sum of costs.
pub(crate) fn add(a: Cost, b: Cost) -> Cost {
    a.saturating_add(b).min(INFEASIBLE)
}

/// The variables of a factor: seldom more than a few.
pub(crate) type Vars = SmallVec<[usize; 4]>;

/// A table over some variables, row-major in their order. Factors that are alike share it.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    pub(crate) vars: Vars,
    pub(crate) table: Rc<[Cost]>,
}

/// A sum of factors over variables with finite domains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem {
    pub(crate) domains: Vec<usize>,
    pub(crate) factors: Vec<Factor>,
    /// The tables of factors that were not made to be shared.
    tables: FastSet<Rc<[Cost]>>,
}

impl Problem {
    /// A problem of variables with so many states each, and no factors.
    pub(crate) fn over(domains: Vec<usize>) -> Problem {
        Problem {
            domains,
            ..Problem::default()
        }
    }

    /// Adds a factor over variables whose domains are known, unless it says nothing: no costs, and no
    /// two variables that have a choice.
    pub(crate) fn add(&mut self, vars: &[usize], table: Rc<[Cost]>) {
        let open = vars.iter().filter(|&&v| self.domains[v] != 1).count();
        if 1 < open || table.iter().any(|&c| c != 0) {
            self.keep(vars, table);
        }
    }

    /// Adds a factor, with the table of one before it that has the same costs.
    pub(crate) fn push(&mut self, vars: &[usize], table: Rc<[Cost]>) {
        let table = self.shared(table);
        self.keep(vars, table);
    }

    /// The table of a factor before that has the same costs; this one, where there is none.
    pub(crate) fn shared(&mut self, table: Rc<[Cost]>) -> Rc<[Cost]> {
        let at = self.tables.insert_full(table).0;
        self.tables[at].clone()
    }

    /// Adds a factor with a table that another one has.
    pub(crate) fn keep(&mut self, vars: &[usize], table: Rc<[Cost]>) {
        let vars = Vars::from_slice(vars);
        self.factors.push(Factor { vars, table });
    }
}

/// How far the search for a minimum goes; everything counts, nothing is timed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Entries of the largest table that elimination may make.
    pub(crate) table: usize,
    /// Entries of all tables that one elimination may make, for each variable of the problem; never
    /// fewer in all than one of the largest tables has sixteen times.
    pub(crate) work: usize,
    /// The same where what is left becomes an integer programme: its columns are table entries.
    pub(crate) core: usize,
    /// Rounds of elimination around an assignment.
    pub(crate) rounds: usize,
    /// Columns of an integer programme.
    pub(crate) columns: usize,
    /// Nodes of its branch and bound.
    pub(crate) nodes: u64,
}

impl Limits {
    /// Entries of all tables that one elimination of a problem of `n` variables may make.
    pub(crate) fn work_of(self, n: usize) -> usize {
        self.work
            .saturating_mul(n)
            .max(self.table.saturating_mul(16))
    }
}
