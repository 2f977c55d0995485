//! Elimination of one variable: the sum of the tables that mention it, minimised over its states.
//!
//! Example: variable `x` with 2 states, tables `a[y][x] = [[1, 5], [4, 0]]` and `b[x] = [2, 0]`. The result over `y` is
//! `[min(1 + 2, 5 + 0), min(4 + 2, 0 + 0)] = [3, 0]` with the best states `[0, 1]`.
//!
//! The entries of the result are enumerated like an odometer. A table is added at the position where its last variable
//! is set, to sums that are kept for each position. If every other variable has a table of its own, an entry costs
//! about two additions a state instead of one a table. Costs that fit are added in 64 bits.

use crate::problem::{Cost, Factor, INFEASIBLE, Packing, Table, Word, add};
use std::borrow::Cow;
use std::rc::Rc;

/// The result of eliminating a variable.
#[derive(Clone)]
pub(crate) struct Reduced<W> {
    /// The least sums, row-major over the other variables. The part that all allowed sums have in common is subtracted.
    pub(crate) table: Table<W>,
    /// The first state of the variable with the least sum, for each entry.
    pub(crate) best: Rc<[u32]>,
    pub(crate) common: W,
}

/// Representations of costs in which a variable can be eliminated.
pub(crate) trait Eliminate: Word {
    /// Sums the factors and minimises over `var`; `scope` has the other variables of the factors.
    fn min_out(
        domains: &[usize],
        var: usize,
        scope: &[usize],
        factors: &[Factor<Self>],
        units: Self::Units,
    ) -> Reduced<Self>;
}

impl Eliminate for Cost {
    fn min_out(
        domains: &[usize],
        var: usize,
        scope: &[usize],
        factors: &[Factor],
        (): (),
    ) -> Reduced<Cost> {
        let tables = factors.iter().map(|f| &f.table[..]);
        let packing = Packing::of(tables).filter(|_| factors.len() <= Packing::TABLES);
        let Some(packing) = packing else {
            let terms = factors.iter().map(|f| innermost(f, domains, var));
            return less_common_of(Walk::new(domains, var, scope, factors, terms).run());
        };
        let packed = |factor: &Factor| {
            let words = factor.table.iter().map(|&c| packing.pack(c));
            let words: Vec<u64> = words.collect();
            match factor.vars.last() == Some(&var) {
                true => words,
                false => innermost_of(&words, &factor.vars, domains, var),
            }
        };
        let terms = factors.iter().map(|f| Cow::Owned(packed(f)));
        let sums = Walk::new(domains, var, scope, factors, terms).run();
        let reduced = less_common(sums, packing);
        Reduced {
            table: reduced.table.iter().map(|w| w.cost(packing)).collect(),
            best: reduced.best,
            common: reduced.common.cost(packing),
        }
    }
}

impl Eliminate for u64 {
    fn min_out(
        domains: &[usize],
        var: usize,
        scope: &[usize],
        factors: &[Factor<u64>],
        packing: Packing,
    ) -> Reduced<u64> {
        if factors.len() <= Packing::TABLES {
            let terms = factors.iter().map(|f| innermost(f, domains, var));
            return less_common(
                Walk::new(domains, var, scope, factors, terms).run(),
                packing,
            );
        }
        let costs = factors.iter().map(|f| Factor {
            vars: f.vars.clone(),
            table: f.table.iter().map(|w| w.cost(packing)).collect(),
        });
        let reduced = Cost::min_out(domains, var, scope, &costs.collect::<Vec<_>>(), ());
        Reduced {
            table: reduced.table.iter().map(|&c| packing.pack(c)).collect(),
            best: reduced.best,
            common: packing.pack(reduced.common),
        }
    }
}

/// Least sums, each with the first state that attains it.
struct Sums<W> {
    table: Vec<W>,
    best: Vec<u32>,
}

/// Subtracts the bytes that all allowed sums have in common, and the tie breaker that they have in common. Sums that
/// are not allowed get state 0.
fn less_common(sums: Sums<u64>, packing: Packing) -> Reduced<u64> {
    let allowed = sums.table.iter().filter(|&&w| w < u64::NEVER);
    let least = allowed.fold(None, |least: Option<[u64; 2]>, &word| {
        let [bytes, tie] = packing.parts(word);
        let [b, t] = least.unwrap_or([bytes, tie]);
        Some([b.min(bytes), t.min(tie)])
    });
    let common = least.map_or(0, |parts| packing.joined(parts));
    let words = sums.table.iter();
    let rest = |&word: &u64| match word < u64::NEVER {
        true => word - common,
        false => u64::NEVER,
    };
    let state = |(&word, &best): (&u64, &u32)| if word < u64::NEVER { best } else { 0 };
    Reduced {
        table: words.clone().map(rest).collect(),
        best: words.zip(&sums.best).map(state).collect(),
        common,
    }
}

/// [`less_common`] for sums that do not fit 64 bits.
fn less_common_of(mut sums: Sums<Cost>) -> Reduced<Cost> {
    let allowed = || sums.table.iter().copied().filter(|&c| c < INFEASIBLE);
    let tie_of = crate::problem::tie_of;
    let bytes = allowed().map(|c| c - tie_of(c)).min().unwrap_or(0);
    let common = bytes + allowed().map(tie_of).min().unwrap_or(0);
    for (sum, best) in sums.table.iter_mut().zip(&mut sums.best) {
        if *sum < INFEASIBLE {
            *sum -= common;
        } else {
            (*sum, *best) = (INFEASIBLE, 0);
        }
    }
    Reduced {
        table: sums.table.into(),
        best: sums.best.into(),
        common,
    }
}

/// Words that are added during the enumeration of tables.
trait Term: Copy + Ord + Default {
    /// The sum. A sum of one entry of each table is exact, or at least the infeasible value if some entry is
    /// infeasible.
    fn and(self, other: Self) -> Self;
}

impl Term for u64 {
    fn and(self, other: u64) -> u64 {
        self.wrapping_add(other)
    }
}

impl Term for Cost {
    fn and(self, other: Cost) -> Cost {
        add(self, other)
    }
}

/// A table during the enumeration: the states of the variable are innermost.
struct Addend<'a, W: Clone> {
    words: Cow<'a, [W]>,
    /// Index of the first word for the positions that are set so far.
    base: usize,
}

/// The enumeration of the entries of the result.
struct Walk<'a, W: Clone> {
    /// The number of states of the variable.
    n: usize,
    extents: Vec<usize>,
    terms: Vec<Addend<'a, W>>,
    /// Sorted by position: the position that moves a term, the term, its stride there, and whether this is the term's
    /// last position.
    moves: Vec<(usize, usize, usize, bool)>,
    /// The index of the first move of each position, and the number of moves.
    begins: Vec<usize>,
    /// For each position, the sums of the terms that are complete before it.
    sums: Vec<W>,
    result: Sums<W>,
}

impl<'a, W: Term> Walk<'a, W> {
    /// An enumeration over the tables of these factors. `terms` has the tables with the states of the variable
    /// innermost.
    fn new<F>(
        domains: &[usize],
        var: usize,
        scope: &[usize],
        factors: &[Factor<F>],
        terms: impl Iterator<Item = Cow<'a, [W]>>,
    ) -> Walk<'a, W> {
        let n = domains[var];
        let extents: Vec<usize> = scope.iter().map(|&v| domains[v]).collect();
        let size = extents.iter().product();
        let mut walk = Walk {
            n,
            moves: Vec::with_capacity(factors.len() * 2),
            begins: vec![0; extents.len() + 1],
            sums: vec![W::default(); n * (extents.len() + 1)],
            terms: Vec::with_capacity(factors.len()),
            result: Sums {
                table: Vec::with_capacity(size),
                best: Vec::with_capacity(size),
            },
            extents,
        };
        for (factor, words) in factors.iter().zip(terms) {
            let term = Addend { words, base: 0 };
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

    fn run(mut self) -> Sums<W> {
        match self.extents.len() {
            0 => {
                let least = least_of(self.sums[..self.n].iter().copied());
                self.result.push(least);
            }
            _ => self.walk(0),
        }
        self.result
    }

    /// Enumerates the positions from `at` on; earlier ones are set.
    fn walk(&mut self, at: usize) {
        if at + 1 == self.extents.len() {
            self.walk_last();
            return;
        }
        let (n, moves) = (self.n, self.begins[at]..self.begins[at + 1]);
        for _ in 0..self.extents[at] {
            let (before, after) = self.sums.split_at_mut((at + 1) * n);
            let (before, sums) = (&before[at * n..], &mut after[..n]);
            let last = self.moves[moves.clone()].iter().filter(|m| m.3);
            let mut complete = last.map(|&(_, term, ..)| {
                let Addend { words, base } = &self.terms[term];
                &words[*base..*base + n]
            });
            match complete.next() {
                None => sums.copy_from_slice(before),
                Some(words) => sum_all(sums, before, words),
            }
            complete.for_each(|words| plus_all(sums, words));
            self.walk(at + 1);
            for &(_, term, stride, _) in &self.moves[moves.clone()] {
                self.terms[term].base += stride;
            }
        }
        for &(_, term, stride, _) in &self.moves[moves] {
            self.terms[term].base -= stride * self.extents[at];
        }
    }

    /// Enumerates the last position, where every term that moves is complete.
    fn walk_last(&mut self) {
        let (n, at) = (self.n, self.extents.len() - 1);
        let moves = self.begins[at]..self.begins[at + 1];
        for entry in 0..self.extents[at] {
            let (before, own) = self.sums.split_at_mut((at + 1) * n);
            let (before, own) = (&before[at * n..], &mut own[..n]);
            let words = |&(_, term, stride, _): &(usize, usize, usize, bool)| {
                let Addend { words, base } = &self.terms[term];
                let base = base + entry * stride;
                &words[base..base + n]
            };
            let least = match &self.moves[moves.clone()] {
                [] => least_of(before.iter().copied()),
                [last] => least_of(before.iter().zip(words(last)).map(|(a, b)| a.and(*b))),
                [first, between @ .., last] => {
                    sum_all(own, before, words(first));
                    between.iter().for_each(|m| plus_all(own, words(m)));
                    least_of(own.iter().zip(words(last)).map(|(a, b)| a.and(*b)))
                }
            };
            self.result.push(least);
        }
    }
}

/// The least sum and the first state that attains it; `None` if there are no states.
fn least_of<W: Term>(mut sums: impl Iterator<Item = W>) -> Option<(W, u32)> {
    let first = sums.next()?;
    let mut state = 0;
    Some(sums.fold((first, 0), |least, sum| {
        state += 1;
        if sum < least.0 { (sum, state) } else { least }
    }))
}

impl<W> Sums<W> {
    fn push(&mut self, least: Option<(W, u32)>) {
        let (sum, state) = least.unzip();
        self.table.extend(sum);
        self.best.extend(state);
    }
}

fn sum_all<W: Term>(sums: &mut [W], a: &[W], b: &[W]) {
    for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
        *sum = a.and(*b);
    }
}

fn plus_all<W: Term>(sums: &mut [W], words: &[W]) {
    for (sum, &word) in sums.iter_mut().zip(words) {
        *sum = sum.and(word);
    }
}

/// The table of a factor with the states of a variable innermost. A table without the variable is repeated for each
/// state.
fn innermost<'a, W: Term>(factor: &'a Factor<W>, domains: &[usize], var: usize) -> Cow<'a, [W]> {
    match factor.vars.last() == Some(&var) {
        true => Cow::Borrowed(&factor.table),
        false => Cow::Owned(innermost_of(&factor.table, &factor.vars, domains, var)),
    }
}

/// [`innermost`] for the words of a table over these variables, where `var` is not the last one.
fn innermost_of<W: Term>(words: &[W], vars: &[usize], domains: &[usize], var: usize) -> Vec<W> {
    let n = domains[var];
    let Some(at) = vars.iter().position(|&v| v == var) else {
        let each = words.iter();
        return each.flat_map(|&w| std::iter::repeat_n(w, n)).collect();
    };
    let inner: usize = vars[at + 1..].iter().map(|&v| domains[v]).product();
    let mut all = vec![W::default(); words.len()];
    let size = (inner * n).max(1);
    for (to, from) in all.chunks_exact_mut(size).zip(words.chunks_exact(size)) {
        for (s, row) in from.chunks_exact(inner.max(1)).enumerate() {
            for (i, &word) in row.iter().enumerate() {
                to[i * n + s] = word;
            }
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Vars, cost, movement, tie_of};

    /// The same result, entry by entry.
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
            let tables = || factors.iter().map(|f| &f.table[..]);
            let sums = Cost::min_out(&domains, 2, &scope, &factors, ());
            if let Some(packing) = Packing::of(tables()) {
                packed += 1;
                let words = factors.iter().map(|f| Factor {
                    vars: f.vars.clone(),
                    table: f.table.iter().map(|&c| packing.pack(c)).collect(),
                });
                let words: Vec<Factor<u64>> = words.collect();
                let same = u64::min_out(&domains, 2, &scope, &words, packing);
                let costs: Vec<Cost> = same.table.iter().map(|w| w.cost(packing)).collect();
                assert_eq!(costs[..], sums.table[..]);
                assert_eq!(same.best, sums.best);
                assert_eq!(same.common.cost(packing), sums.common);
            }
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
