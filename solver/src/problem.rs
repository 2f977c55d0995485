//! The problem that is minimised: a sum of small cost tables over variables with a few states.
//!
//! Example: two variables with 2 states each, a table `[0, 10]` over the first, and a table `[0, 4, 4, 0]` over both.
//! The minimum 0 has both variables in state 0.

use crate::maps::{FastMap, FastSet};
use smallvec::SmallVec;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

/// An amount that is minimised first (bytes that are moved), above the lowest 48 bits, which hold a tie breaker. Sums
/// saturate at [`INFEASIBLE`].
pub type Cost = u128;

/// Bits of the tie breaker: more than the bytes of the constants of any program. The bits above have room for the sums
/// of some hundred thousand entries of the largest possible amounts.
const TIE_BITS: u32 = 48;

const MOST_TIE: Cost = (1 << TIE_BITS) - 1;

/// The cost of an assignment that is not allowed.
pub const INFEASIBLE: Cost = 1 << 126;

/// A cost made of movement bytes and a tie breaker.
#[must_use]
pub fn cost(bytes: u64, tie: u64) -> Cost {
    (u128::from(bytes) << TIE_BITS) | u128::from(tie).min(MOST_TIE)
}

/// The tie breaker of a cost.
pub(crate) fn tie_of(cost: Cost) -> Cost {
    cost & MOST_TIE
}

/// Returns whether two costs have equal movement bytes.
pub(crate) fn moves_alike(a: Cost, b: Cost) -> bool {
    a >> TIE_BITS == b >> TIE_BITS
}

/// The movement bytes of a cost; saturates.
#[must_use]
pub fn movement(cost: Cost) -> u64 {
    u64::try_from(cost >> TIE_BITS).unwrap_or(u64::MAX)
}

/// A sum of costs.
pub(crate) fn add(a: Cost, b: Cost) -> Cost {
    a.saturating_add(b).min(INFEASIBLE)
}

/// The variables of a factor: seldom more than a few.
pub type Vars = SmallVec<[usize; 4]>;

/// A representation of the costs of a problem while it is solved.
pub trait Word: Copy + Default + Ord + Hash + Debug {
    /// The scale of a word.
    type Units: Copy + Default + Debug;
    /// The infeasible value; sums saturate there.
    const NEVER: Self;
    /// A sum.
    fn plus(self, other: Self) -> Self;
    /// The cost that the word represents.
    fn cost(self, units: Self::Units) -> Cost;
}

impl Word for Cost {
    type Units = ();
    const NEVER: Cost = INFEASIBLE;
    fn plus(self, other: Cost) -> Cost {
        add(self, other)
    }
    fn cost(self, (): ()) -> Cost {
        self
    }
}

/// A representation of costs in machine words: movement bytes above `tie_bits` bits of the tie breaker. No sum of
/// allowed costs reaches [`Word::NEVER`], and `Packing::TABLES` words can be added without a carry.
#[derive(Clone, Copy, Debug, Default)]
pub struct Packing {
    tie_bits: u32,
}

impl Packing {
    /// The most words that may be added without a check.
    pub(crate) const TABLES: usize = 1 << 6;

    const BITS: u32 = 57;

    /// A packing in which every sum of one entry of each table fits.
    pub(crate) fn of<'a>(tables: impl Iterator<Item = &'a [Cost]>) -> Option<Packing> {
        Packing::of_most(tables.map(most))
    }

    /// [`Self::of`], given the largest entries of each table.
    pub(crate) fn of_most(all: impl Iterator<Item = [u64; 2]>) -> Option<Packing> {
        let (mut bytes, mut tie) = (0u64, 0u64);
        for most in all {
            bytes = bytes.checked_add(most[0])?;
            tie = tie.checked_add(most[1])?;
        }
        let bits = |n: u64| u64::BITS - n.leading_zeros();
        let tie_bits = bits(tie);
        (bits(bytes) + tie_bits <= Packing::BITS).then_some(Packing { tie_bits })
    }

    pub(crate) fn pack(self, cost: Cost) -> u64 {
        match cost < INFEASIBLE {
            true => movement(cost) << self.tie_bits | short(tie_of(cost)),
            false => u64::NEVER,
        }
    }

    /// The bytes and the tie breaker of an allowed word.
    pub(crate) fn parts(self, word: u64) -> [u64; 2] {
        let bytes = word >> self.tie_bits;
        [bytes, word - (bytes << self.tie_bits)]
    }

    /// The word of these bytes and this tie breaker.
    pub(crate) fn joined(self, [bytes, tie]: [u64; 2]) -> u64 {
        (bytes << self.tie_bits) + tie
    }
}

/// The most bytes and the largest tie breaker of the allowed entries of a table.
pub(crate) fn most(table: &[Cost]) -> [u64; 2] {
    let allowed = table.iter().filter(|&&c| c < INFEASIBLE);
    allowed.fold([0, 0], |[bytes, tie], &c| {
        [bytes.max(movement(c)), tie.max(short(tie_of(c)))]
    })
}

fn short(tie: Cost) -> u64 {
    u64::try_from(tie).unwrap_or(u64::MAX)
}

impl Word for u64 {
    type Units = Packing;
    const NEVER: u64 = 1 << Packing::BITS;
    fn plus(self, other: u64) -> u64 {
        self.saturating_add(other).min(u64::NEVER)
    }
    fn cost(self, units: Packing) -> Cost {
        match self < u64::NEVER {
            true => {
                let [bytes, tie] = units.parts(self);
                cost(bytes, tie)
            }
            false => INFEASIBLE,
        }
    }
}

/// The costs of a factor. Threads that solve problems share them.
pub type Table<W = Cost> = Arc<[W]>;

/// A table over some variables, row-major in their order. Equal factors share the table.
#[derive(Clone, Debug)]
pub struct Factor<W = Cost> {
    /// The variables, by number.
    pub vars: Vars,
    /// The costs, row-major over the states of the variables.
    pub table: Table<W>,
}

/// A sum of factors over variables with finite domains.
#[derive(Clone, Debug, Default)]
pub struct Problem<W: Word = Cost> {
    /// The number of states of each variable.
    pub domains: Vec<usize>,
    /// The tables whose sum is minimised.
    pub factors: Vec<Factor<W>>,
    /// The scale of the costs.
    pub(crate) units: W::Units,
    /// Tables of factors that were interned by [`Problem::push`].
    tables: FastSet<Table<W>>,
}

impl<W: Word> Problem<W> {
    /// A problem of variables with these numbers of states, and no factors.
    pub(crate) fn over(domains: Vec<usize>, units: W::Units) -> Problem<W> {
        Problem {
            domains,
            units,
            ..Problem::default()
        }
    }

    /// Adds a factor with a table as it is, usually one that another factor has.
    pub fn keep(&mut self, vars: &[usize], table: Table<W>) {
        let vars = Vars::from_slice(vars);
        self.factors.push(Factor { vars, table });
    }
}

impl Problem {
    /// The problem in machine words, if all its sums fit. Its tables of costs are freed one after another.
    pub(crate) fn into_words(self) -> Result<Problem<u64>, Problem> {
        let mut known: FastMap<*const Cost, [u64; 2]> = FastMap::default();
        let mut numbers = Vec::with_capacity(self.factors.len());
        for factor in &self.factors {
            let entry = known.entry(factor.table.as_ptr());
            numbers.push(entry.index());
            entry.or_insert_with(|| most(&factor.table));
        }
        let Some(packing) = Packing::of_most(numbers.iter().map(|&i| known[i])) else {
            return Err(self);
        };
        drop(self.tables);
        let mut tables: Vec<Table> = Vec::with_capacity(known.len());
        let mut all_vars = Vec::with_capacity(numbers.len());
        for (factor, &number) in self.factors.into_iter().zip(&numbers) {
            if number == tables.len() {
                tables.push(factor.table);
            }
            all_vars.push(factor.vars);
        }
        let words = |table: Table| table.iter().map(|&c| packing.pack(c)).collect();
        let words: Vec<Table<u64>> = tables.into_iter().map(words).collect();
        let factors = all_vars.into_iter().zip(numbers);
        let factors = factors.map(|(vars, number)| Factor {
            vars,
            table: words[number].clone(),
        });
        Ok(Problem {
            factors: factors.collect(),
            ..Problem::over(self.domains, packing)
        })
    }

    /// Adds a factor. If an earlier one has the same costs, they share the table.
    pub fn push(&mut self, vars: &[usize], table: Table) {
        let table = self.shared(table);
        self.keep(vars, table);
    }

    /// The table of an earlier factor with the same costs, or this one.
    pub fn shared(&mut self, table: Table) -> Table {
        let at = self.tables.insert_full(table).0;
        self.tables[at].clone()
    }
}

/// Limits of the search for a minimum. All limits are counts; none is a time.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Limits {
    /// Entries of the largest table that elimination may make.
    pub(crate) table: usize,
    /// Entries of all tables that one elimination may make, for each variable of the problem. In all at least sixteen
    /// times [`Limits::table`] are allowed.
    pub(crate) work: usize,
    /// Entries of the largest table in the elimination before an integer programme. The columns of the programme are
    /// table entries.
    pub(crate) core: usize,
    /// Rounds of elimination around an assignment.
    pub(crate) rounds: usize,
    /// Variables of a kernel above which only the given near assignment is improved. In all kernels of that size in the
    /// bench `scaling`, assignments found without it cost more; in some smaller kernels they cost less.
    pub(crate) near: usize,
    /// Columns of an integer programme.
    pub(crate) columns: usize,
    /// Nodes of its branch and bound.
    pub(crate) nodes: u64,
    /// The aim of the search.
    pub(crate) aim: Aim,
}

/// The aim of a search. Work that the aim does not need is left out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Aim {
    /// An assignment, and a lower bound.
    Both,
    /// A proven assignment. With a problem that turns out to be too large for that, nothing is found.
    Proof,
    /// An assignment. It is proven only where that takes no effort of its own.
    Assignment,
}

impl Limits {
    /// Entries of all tables that one elimination of a problem of `n` variables may make.
    pub(crate) fn work_of(self, n: usize) -> usize {
        self.work
            .saturating_mul(n)
            .max(self.table.saturating_mul(16))
    }
}
