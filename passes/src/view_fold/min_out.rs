//! Eliminating one variable: the sum of the tables that mention it, least over its states.
//!
//! The entries of the result are walked as an odometer, and a table is added where the last of its variables is set, to
//! sums that are kept for each position: where every variable beside has its own table, an entry costs about two additions
//! a state and not one a table. Costs that fit are added in 64 bits.

use super::problem::{Cost, Factor, INFEASIBLE, add, cost, movement};
use std::rc::Rc;

/// What costs are added as, with the state that a sum is of: the least sum is then of the first state that gives it.
trait Word: Copy + Ord {
    /// The sum of nothing, of a state.
    fn of_state(state: usize) -> Self;
    /// The sum: of one table's entry each it is exact, or at least what stands for [`INFEASIBLE`] where an entry is.
    fn plus(self, other: Self) -> Self;
}

impl Word for u64 {
    fn of_state(state: usize) -> u64 {
        state as u64
    }
    fn plus(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
}

impl Word for (Cost, usize) {
    fn of_state(state: usize) -> (Cost, usize) {
        (0, state)
    }
    fn plus(self, other: (Cost, usize)) -> (Cost, usize) {
        (add(self.0, other.0), self.1 + other.1)
    }
}

/// How costs are written in 64 bits: movement bytes above the tie breaker above a state.
#[derive(Clone, Copy)]
struct Packing {
    tie_bits: u32,
    state_bits: u32,
    /// What stands for [`INFEASIBLE`]: above every sum of allowed entries, and one of it from each table fits.
    never: u64,
}

impl Packing {
    /// A packing in which every sum of one entry a table fits, with one of so many states.
    fn of(factors: &[Factor], n: usize) -> Option<Packing> {
        let (mut bytes, mut tie) = (0u64, 0u64);
        for factor in factors {
            let (mut most_bytes, mut most_tie) = (0, 0);
            for &c in factor.table.iter().filter(|&&c| c < INFEASIBLE) {
                most_bytes = most_bytes.max(movement(c));
                most_tie = most_tie.max(tie_of(c));
            }
            bytes = bytes.checked_add(most_bytes)?;
            tie = tie.checked_add(most_tie)?;
        }
        let bits = |n: u64| u64::BITS - n.leading_zeros();
        let (tie_bits, tables) = (bits(tie), bits(factors.len() as u64));
        let state_bits = bits(n as u64);
        let room = u64::BITS.checked_sub(tables)?;
        (bits(bytes) + tie_bits + state_bits < room).then(|| Packing {
            tie_bits,
            state_bits,
            never: 1 << (room - 1),
        })
    }

    fn pack(self, cost: Cost) -> u64 {
        match cost < INFEASIBLE {
            true => (movement(cost) << self.tie_bits | tie_of(cost)) << self.state_bits,
            false => self.never,
        }
    }

    /// The bytes and the tie breaker of a word.
    fn parts(self, word: u64) -> (u64, u64) {
        let sum = word >> self.state_bits;
        let bytes = sum >> self.tie_bits;
        (bytes, sum - (bytes << self.tie_bits))
    }

    /// The state of a word; the first one of what is not allowed.
    fn state(self, word: u64) -> u32 {
        match word < self.never {
            true => u32::try_from(word - (word >> self.state_bits << self.state_bits)).unwrap_or(0),
            false => 0,
        }
    }
}

/// What breaks ties in a cost.
fn tie_of(cost: Cost) -> u64 {
    u64::try_from(super::problem::tie_of(cost)).unwrap_or(u64::MAX)
}

/// What eliminating a variable leaves.
#[derive(Clone)]
pub(crate) struct Reduced {
    /// The least sums, row-major over the other variables, less what all of them that are allowed have in common.
    pub(crate) table: Rc<[Cost]>,
    /// The first states of the variable that give them.
    pub(crate) best: Rc<[u32]>,
    pub(crate) common: Cost,
}

/// Sums the factors and minimises over `var`; `scope` has the other variables of the factors.
pub(crate) fn min_out(
    domains: &[usize],
    var: usize,
    scope: &[usize],
    factors: &[Factor],
) -> Reduced {
    match Packing::of(factors, domains[var]) {
        Some(packing) => {
            let walk = Walk::new(domains, var, scope, factors, |c| packing.pack(c));
            less_common(&walk.run(), packing)
        }
        None => less_common_of(&Walk::new(domains, var, scope, factors, |c| (c, 0)).run()),
    }
}

/// The sums without the bytes, and without the tie breaker, that all allowed ones have in common.
fn less_common(words: &[u64], packing: Packing) -> Reduced {
    let (mut bytes, mut tie) = (u64::MAX, u64::MAX);
    for &word in words.iter().filter(|&&w| w < packing.never) {
        let parts = packing.parts(word);
        (bytes, tie) = (bytes.min(parts.0), tie.min(parts.1));
    }
    let rest = |&word: &u64| match word < packing.never {
        true => {
            let parts = packing.parts(word);
            cost(parts.0 - bytes, parts.1 - tie)
        }
        false => INFEASIBLE,
    };
    Reduced {
        table: words.iter().map(rest).collect(),
        best: words.iter().map(|&word| packing.state(word)).collect(),
        common: if bytes == u64::MAX {
            0
        } else {
            cost(bytes, tie)
        },
    }
}

/// The same of sums that do not fit.
fn less_common_of(sums: &[(Cost, usize)]) -> Reduced {
    let allowed = || sums.iter().map(|(c, _)| *c).filter(|&c| c < INFEASIBLE);
    let tie_of = super::problem::tie_of;
    let bytes = allowed().map(|c| c - tie_of(c)).min().unwrap_or(0);
    let common = bytes + allowed().map(tie_of).min().unwrap_or(0);
    let rest = |&(c, _): &(Cost, usize)| match c < INFEASIBLE {
        true => c - common,
        false => INFEASIBLE,
    };
    let state = |&(c, state): &(Cost, usize)| match c < INFEASIBLE {
        true => u32::try_from(state).unwrap_or(u32::MAX),
        false => 0,
    };
    Reduced {
        table: sums.iter().map(rest).collect(),
        best: sums.iter().map(state).collect(),
        common,
    }
}

/// A table as it is walked: the states of the variable innermost.
struct Term<W> {
    words: Vec<W>,
    /// The first of the words that the positions set so far lead to.
    base: usize,
}

/// The walk over the entries of the result.
struct Walk<W> {
    /// The states of the variable.
    n: usize,
    extents: Vec<usize>,
    terms: Vec<Term<W>>,
    /// The position that moves a term, the term, by how much, and whether it is its last position; by position.
    moves: Vec<(usize, usize, usize, bool)>,
    /// Where the moves of each position begin, and behind the last one.
    begins: Vec<usize>,
    /// Sums of the terms that are set before each position, and of all but the last of them.
    sums: Vec<W>,
    table: Vec<W>,
}

impl<W: Word> Walk<W> {
    fn new(
        domains: &[usize],
        var: usize,
        scope: &[usize],
        factors: &[Factor],
        word: impl Fn(Cost) -> W,
    ) -> Walk<W> {
        let n = domains[var];
        let extents: Vec<usize> = scope.iter().map(|&v| domains[v]).collect();
        let size = extents.iter().product();
        let mut walk = Walk {
            n,
            moves: Vec::with_capacity(factors.len() * 2),
            begins: vec![0; extents.len() + 1],
            sums: vec![W::of_state(0); n * (extents.len() + 1)],
            terms: Vec::with_capacity(factors.len()),
            table: Vec::with_capacity(size),
            extents,
        };
        for (state, sum) in walk.sums.iter_mut().take(n).enumerate() {
            *sum = W::of_state(state);
        }
        for factor in factors {
            let term = Term {
                words: innermost(factor, domains, var, &word),
                base: 0,
            };
            let others = || factor.vars.iter().filter(|&&v| v != var);
            let place = |v: &usize| scope.binary_search(v).unwrap_or(scope.len());
            let last = others().map(place).max();
            let mut stride = n;
            for v in others().rev() {
                let at = place(v);
                let move_ = (at, walk.terms.len(), stride, Some(at) == last);
                walk.moves.push(move_);
                stride *= domains[*v];
            }
            if last.is_none() {
                plus_all(&mut walk.sums[..n], &term.words);
            }
            walk.terms.push(term);
        }
        walk.moves
            .sort_unstable_by_key(|&(at, term, ..)| (at, term));
        for (at, begin) in walk.begins.iter_mut().enumerate() {
            *begin = walk.moves.partition_point(|m| m.0 < at);
        }
        walk
    }

    fn run(mut self) -> Vec<W> {
        match self.extents.len() {
            0 => self
                .table
                .extend(least_of(self.sums[..self.n].iter().copied())),
            _ => self.walk(0),
        }
        self.table
    }

    /// Walks the positions from one on; those before are set.
    fn walk(&mut self, at: usize) {
        if at + 1 == self.extents.len() {
            self.walk_last();
            return;
        }
        let (n, moves) = (self.n, self.begins[at]..self.begins[at + 1]);
        for _ in 0..self.extents[at] {
            let (before, after) = self.sums.split_at_mut((at + 1) * n);
            let sums = &mut after[..n];
            sums.copy_from_slice(&before[at * n..]);
            for &(_, term, _, is_last) in &self.moves[moves.clone()] {
                if is_last {
                    let Term { words, base } = &self.terms[term];
                    plus_all(sums, &words[*base..*base + n]);
                }
            }
            self.walk(at + 1);
            for &(_, term, stride, _) in &self.moves[moves.clone()] {
                self.terms[term].base += stride;
            }
        }
        for &(_, term, stride, _) in &self.moves[moves] {
            self.terms[term].base -= stride * self.extents[at];
        }
    }

    /// Walks the last position, where every term that moves is complete.
    fn walk_last(&mut self) {
        let (n, at) = (self.n, self.extents.len() - 1);
        let moves = self.begins[at]..self.begins[at + 1];
        for entry in 0..self.extents[at] {
            let (before, own) = self.sums.split_at_mut((at + 1) * n);
            let (before, own) = (&before[at * n..], &mut own[..n]);
            let words = |&(_, term, stride, _): &(usize, usize, usize, bool)| {
                let Term { words, base } = &self.terms[term];
                let base = base + entry * stride;
                &words[base..base + n]
            };
            let least = match &self.moves[moves.clone()] {
                [] => least_of(before.iter().copied()),
                [last] => least_of(before.iter().zip(words(last)).map(|(a, b)| a.plus(*b))),
                [first, between @ .., last] => {
                    for (sum, (a, b)) in own.iter_mut().zip(before.iter().zip(words(first))) {
                        *sum = a.plus(*b);
                    }
                    between.iter().for_each(|m| plus_all(own, words(m)));
                    least_of(own.iter().zip(words(last)).map(|(a, b)| a.plus(*b)))
                }
            };
            if let Some(least) = least {
                self.table.push(least);
            }
        }
    }
}

/// The least sum; there is one where there is a state.
fn least_of<W: Word>(mut sums: impl Iterator<Item = W>) -> Option<W> {
    let first = sums.next()?;
    Some(sums.fold(first, |least, sum| if sum < least { sum } else { least }))
}

fn plus_all<W: Word>(sums: &mut [W], words: &[W]) {
    for (sum, &word) in sums.iter_mut().zip(words) {
        *sum = sum.plus(word);
    }
}

/// The table of a factor with the states of a variable innermost; one that lacks the variable has the same for each.
fn innermost<W: Word>(
    factor: &Factor,
    domains: &[usize],
    var: usize,
    word: impl Fn(Cost) -> W,
) -> Vec<W> {
    let n = domains[var];
    let Some(at) = factor.vars.iter().position(|&v| v == var) else {
        let each = factor.table.iter().map(|&c| word(c));
        return each.flat_map(|w| std::iter::repeat_n(w, n)).collect();
    };
    let inner: usize = factor.vars[at + 1..].iter().map(|&v| domains[v]).product();
    let entries = factor.table.iter().map(|&c| word(c));
    let mut words: Vec<W> = entries.collect();
    if inner == 1 {
        return words;
    }
    let mut chunk = vec![W::of_state(0); inner * n];
    for words in words.chunks_exact_mut((inner * n).max(1)) {
        chunk.copy_from_slice(words);
        for (s, row) in chunk.chunks_exact(inner.max(1)).enumerate() {
            for (i, &word) in row.iter().enumerate() {
                words[i * n + s] = word;
            }
        }
    }
    words
}

#[cfg(test)]
mod tests {
    use super::super::problem::Vars;
    use super::*;

    /// The same, entry by entry.
    fn one_by_one(
        domains: &[usize],
        var: usize,
        scope: &[usize],
        factors: &[Factor],
    ) -> (Vec<Cost>, Vec<u32>) {
        let size: usize = scope.iter().map(|&v| domains[v]).product();
        let mut all = (Vec::new(), Vec::new());
        for entry in 0..size {
            let mut states = vec![0; domains.len()];
            let mut rest = entry;
            for &v in scope.iter().rev() {
                states[v] = rest % domains[v];
                rest /= domains[v];
            }
            let mut least = (INFEASIBLE, 0);
            for s in 0..domains[var] {
                states[var] = s;
                let at = |f: &Factor| {
                    let vars = f.vars.iter();
                    vars.fold(0, |at, &v| at * domains[v] + states[v])
                };
                let sum = factors.iter().fold(0, |sum, f| add(sum, f.table[at(f)]));
                if sum < least.0 {
                    least = (sum, u32::try_from(s).expect("few states"));
                }
            }
            all.0.push(least.0);
            all.1.push(least.1);
        }
        all
    }

    #[test]
    fn walks_give_what_entry_by_entry_gives() {
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        let mut random = move |n: u64| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            seed % n
        };
        let mut packed = 0;
        for round in 0..400u32 {
            let domains: Vec<usize> = (0..5).map(|_| 1 + random(3) as usize).collect();
            let factors: Vec<Factor> = (0..6)
                .map(|_| {
                    let vars: Vars = (0..5).filter(|&v| v == 2 || random(3) == 0).collect();
                    let size = vars.iter().map(|&v| domains[v]).product();
                    let entry = |_| match random(9) {
                        0 => INFEASIBLE,
                        x => cost(x << (8 * (round % 8)), random(1 << (round % 40))),
                    };
                    let table = (0..size).map(entry).collect();
                    Factor { vars, table }
                })
                .collect();
            let mentioned = |v: &usize| *v != 2 && factors.iter().any(|f| f.vars.contains(v));
            let scope: Vec<usize> = (0..5).filter(mentioned).collect();
            packed += u32::from(Packing::of(&factors, domains[2]).is_some());
            let sums = min_out(&domains, 2, &scope, &factors);
            let whole = |&rest: &Cost| match rest < INFEASIBLE {
                true => rest + sums.common,
                false => INFEASIBLE,
            };
            let table: Vec<Cost> = sums.table.iter().map(whole).collect();
            let best = sums.best.to_vec();
            assert_eq!((table, best), one_by_one(&domains, 2, &scope, &factors));
            let rests = || sums.table.iter().copied().filter(|&c| c < INFEASIBLE);
            assert_eq!(rests().map(movement).min().unwrap_or(0), 0);
            assert_eq!(rests().map(tie_of).min().unwrap_or(0), 0);
        }
        assert!(100 < packed && packed < 390, "{packed} of 400 fit");
    }
}
