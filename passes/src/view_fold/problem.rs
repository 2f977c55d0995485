//! What is minimised: a sum of small cost tables over variables with a few states.

use super::maps::{FastMap, FastSet};
use smallvec::SmallVec;
use std::fmt::Debug;
use std::hash::Hash;
use std::sync::Arc;

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

/// What the costs of a problem are written in while it is solved.
pub(crate) trait Word: Copy + Default + Ord + Hash + Debug {
    /// What a word counts.
    type Units: Copy + Default + Debug;
    /// What is not allowed; sums saturate there.
    const NEVER: Self;
    /// A sum.
    fn plus(self, other: Self) -> Self;
    /// The cost that it stands for.
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

/// How costs are written in machine words: movement bytes above so many bits of the tie breaker. No sum of allowed costs is
/// [`Word::NEVER`] or above, and [`Packing::TABLES`] words can be added without a carry.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Packing {
    tie_bits: u32,
}

impl Packing {
    /// How many words may be added without looking.
    pub(crate) const TABLES: usize = 1 << 6;

    const BITS: u32 = 57;

    /// A packing in which every sum of one entry of each table fits.
    pub(crate) fn of<'a>(tables: impl Iterator<Item = &'a [Cost]>) -> Option<Packing> {
        Packing::of_most(tables.map(most))
    }

    /// The same of the most that each table has.
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

    /// The bytes and the tie breaker of a word that is allowed.
    pub(crate) fn parts(self, word: u64) -> [u64; 2] {
        let bytes = word >> self.tie_bits;
        [bytes, word - (bytes << self.tie_bits)]
    }

    /// The word of bytes and a tie breaker.
    pub(crate) fn joined(self, [bytes, tie]: [u64; 2]) -> u64 {
        (bytes << self.tie_bits) + tie
    }
}

/// The most bytes and the largest tie breaker of what is allowed of a table.
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
pub(crate) type Table<W = Cost> = Arc<[W]>;

/// A table over some variables, row-major in their order. Factors that are alike share it.
#[derive(Clone, Debug)]
pub(crate) struct Factor<W = Cost> {
    pub(crate) vars: Vars,
    pub(crate) table: Table<W>,
}

/// A sum of factors over variables with finite domains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem<W: Word = Cost> {
    pub(crate) domains: Vec<usize>,
    pub(crate) factors: Vec<Factor<W>>,
    /// What the costs count.
    pub(crate) units: W::Units,
    /// The tables of factors that were not made to be shared.
    tables: FastSet<Table<W>>,
}

impl<W: Word> Problem<W> {
    /// A problem of variables with so many states each, and no factors.
    pub(crate) fn over(domains: Vec<usize>, units: W::Units) -> Problem<W> {
        Problem {
            domains,
            units,
            ..Problem::default()
        }
    }

    /// Adds a factor with a table that another one has.
    pub(crate) fn keep(&mut self, vars: &[usize], table: Table<W>) {
        let vars = Vars::from_slice(vars);
        self.factors.push(Factor { vars, table });
    }
}

impl Problem {
    /// The problem in machine words, where all its sums fit; its tables of costs are let go of one after another.
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

    /// Adds a factor, with the table of one before it that has the same costs.
    pub(crate) fn push(&mut self, vars: &[usize], table: Table) {
        let table = self.shared(table);
        self.keep(vars, table);
    }

    /// The table of a factor before that has the same costs; this one, where there is none.
    pub(crate) fn shared(&mut self, table: Table) -> Table {
        let at = self.tables.insert_full(table).0;
        self.tables[at].clone()
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
    /// Variables of a kernel above which an assignment that is near is all that is improved. What was found without it came out
    /// dearer in all kernels of so many variables of the bench `scaling`, and in some smaller ones cheaper.
    pub(crate) near: usize,
    /// Columns of an integer programme.
    pub(crate) columns: usize,
    /// Nodes of its branch and bound.
    pub(crate) nodes: u64,
    /// What the minimum is looked for for.
    pub(crate) aim: Aim,
}

/// What a minimum is looked for for: with nothing that is not asked for, less is done.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Aim {
    /// An assignment, and what none goes below.
    Both,
    /// An assignment that is proven; with a problem that turns out to be too large for that, nothing is found.
    Proof,
    /// An assignment; it is proven only where that is no effort of its own.
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
