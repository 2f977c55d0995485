//! The problem of a choice before the representation of its costs is known.
//!
//! Forms with the same needs cost the same, so most columns of its tables equal another column. Equal columns are
//! stored once. Tables are expanded into machine words where all sums fit.

use crate::maps::FastMap;
use crate::problem::{Cost, Packing, Problem, Table, Vars, Word, most};
use crate::solve::{Solution, Starts, evaluate, settle, solve, solve_near, solve_words};
use std::ops::Range;
use std::rc::Rc;

/// A table by rows: the costs of each kind of column, and the kind of each column.
pub struct Columns {
    costs: Vec<Cost>,
    n_kinds: usize,
    kinds: Vec<usize>,
}

impl Columns {
    /// A table with this number of kinds of columns; every kind occurs.
    pub fn of(costs: Vec<Cost>, n_kinds: usize, kinds: Vec<usize>) -> Columns {
        Columns {
            costs,
            n_kinds,
            kinds,
        }
    }

    /// A table over one variable.
    pub fn single(costs: impl Iterator<Item = Cost>) -> Columns {
        Columns::of(costs.collect(), 1, vec![0])
    }

    /// The cost of a row and a column.
    #[must_use]
    pub fn at(&self, row: usize, column: usize) -> Cost {
        let kind = match self.kinds[..] {
            [one] => one,
            _ => self.kinds[column],
        };
        self.costs[row * self.n_kinds + kind]
    }

    fn table<W: Word>(&self, word: &impl Fn(Cost) -> W) -> Table<W> {
        let words = self.costs.iter().map(|&c| word(c));
        if self.kinds.len() == 1 {
            return words.collect();
        }
        let words: Vec<W> = words.collect();
        let rows = words.chunks_exact(self.n_kinds.max(1));
        let mut table = Vec::with_capacity(rows.len() * self.kinds.len());
        for row in rows {
            table.extend(self.kinds.iter().map(|&kind| row[kind]));
        }
        table.into()
    }
}

/// A problem whose tables are not expanded.
pub struct Draft {
    domains: Vec<usize>,
    factors: Vec<(Vars, Rc<Columns>)>,
}

impl Draft {
    /// A problem of variables with these numbers of states, and no factors.
    pub fn over(domains: Vec<usize>) -> Draft {
        Draft {
            domains,
            factors: Vec::new(),
        }
    }

    /// Adds a factor, unless it has no effect: no costs, and at most one variable with more than one state.
    pub fn add(&mut self, vars: &[usize], table: Rc<Columns>) {
        let any = || table.costs.iter().any(|&c| c != 0);
        if says_something(&self.domains, vars, any) {
            self.factors.push((Vars::from_slice(vars), table));
        }
    }

    /// The problem, in machine words where it fits.
    pub fn written(&self) -> Written {
        let mut known: FastMap<*const Columns, [u64; 2]> = FastMap::default();
        let all = self.factors.iter().map(|(_, table)| {
            let most = || most(&table.costs);
            *known.entry(Rc::as_ptr(table)).or_insert_with(most)
        });
        match Packing::of_most(all) {
            Some(packing) => Written::Words(self.expand(packing, |c| packing.pack(c))),
            None => Written::Costs(self.in_costs()),
        }
    }

    /// The problem in costs.
    pub fn in_costs(&self) -> Problem {
        self.expand((), |c| c)
    }

    fn expand<W: Word>(&self, units: W::Units, word: impl Fn(Cost) -> W) -> Problem<W> {
        let mut problem = Problem::over(self.domains.clone(), units);
        let mut known: FastMap<*const Columns, Table<W>> = FastMap::default();
        problem.factors.reserve(self.factors.len());
        for (vars, table) in &self.factors {
            let made = known.entry(Rc::as_ptr(table));
            let made = made.or_insert_with(|| table.table(&word));
            problem.keep(vars, made.clone());
        }
        problem
    }
}

/// Returns whether a factor has an effect: it has costs, or two variables with more than one state.
fn says_something(domains: &[usize], vars: &[usize], any_cost: impl FnOnce() -> bool) -> bool {
    let open = vars.iter().filter(|&&v| domains[v] != 1).count();
    1 < open || any_cost()
}

/// A problem in machine words where all its sums fit, else in costs.
pub enum Written {
    /// In machine words.
    Words(Problem<u64>),
    /// In costs.
    Costs(Problem),
}

impl Written {
    /// The number of variables.
    pub fn variables(&self) -> usize {
        match self {
            Written::Words(problem) => problem.domains.len(),
            Written::Costs(problem) => problem.domains.len(),
        }
    }

    /// Minimises the sum of the factors. The solution costs no more than the starts.
    pub fn solve(&self, starts: Starts<'_>) -> Solution {
        match self {
            Written::Words(problem) => solve_words(problem, starts),
            Written::Costs(problem) => solve(problem, starts),
        }
    }

    /// An assignment of low cost; see `solve_near`.
    pub fn solve_near(&self, near: Option<Vec<usize>>) -> Solution {
        match self {
            Written::Words(problem) => solve_near(problem, near),
            Written::Costs(problem) => solve_near(problem, near),
        }
    }

    /// The problem with some variables restricted to the allowed states.
    pub fn held(&self, held: &[(usize, Vec<bool>)]) -> Written {
        match self {
            Written::Words(problem) => Written::Words(hold(problem, held)),
            Written::Costs(problem) => Written::Costs(hold(problem, held)),
        }
    }

    /// The problem in which each variable has some of its states: those of the list with its number in `of`.
    pub fn within(&self, lists: &[Vec<usize>], of: &[usize]) -> Written {
        match self {
            Written::Words(problem) => Written::Words(within(problem, lists, of)),
            Written::Costs(problem) => Written::Costs(within(problem, lists, of)),
        }
    }

    /// The cost of an assignment.
    pub fn cost(&self, states: &[usize]) -> Cost {
        match self {
            Written::Words(problem) => evaluate(problem, states),
            Written::Costs(problem) => evaluate(problem, states),
        }
    }

    /// Gives each of these variables in turn the best state beside the others.
    pub fn settle(&self, states: &mut [usize], vars: Range<usize>) {
        match self {
            Written::Words(problem) => settle(problem, states, vars),
            Written::Costs(problem) => settle(problem, states, vars),
        }
    }

    /// The problem without some states of its first variables. Factors with such a variable have it first. `stays` says
    /// for each variable which states stay; variables that share a table must have the same entry.
    pub fn without(&self, stays: &[Vec<bool>]) -> Written {
        match self {
            Written::Words(problem) => Written::Words(without(problem, stays)),
            Written::Costs(problem) => Written::Costs(without(problem, stays)),
        }
    }
}

fn hold<W: Word>(problem: &Problem<W>, held: &[(usize, Vec<bool>)]) -> Problem<W> {
    let mut problem = problem.clone();
    for (var, allowed) in held {
        let cost = |&is: &bool| if is { W::default() } else { W::NEVER };
        problem.keep(&[*var], allowed.iter().map(cost).collect());
    }
    problem
}

/// Tables that share costs and lists of states stay shared.
fn within<W: Word>(problem: &Problem<W>, lists: &[Vec<usize>], of: &[usize]) -> Problem<W> {
    let domains = of.iter().map(|&list| lists[list].len()).collect();
    let mut left = Problem::over(domains, problem.units);
    let mut known: FastMap<(*const W, Vars), Table<W>> = FastMap::default();
    for factor in &problem.factors {
        let own: Vars = factor.vars.iter().map(|&v| of[v]).collect();
        let made = known.entry((factor.table.as_ptr(), own.clone()));
        let table = made.or_insert_with(|| {
            let mut at = vec![0usize];
            for (&var, &list) in factor.vars.iter().zip(&own) {
                let below = |&row: &usize| {
                    let first = row * problem.domains[var];
                    lists[list].iter().map(move |state| first + state)
                };
                at = at.iter().flat_map(below).collect();
            }
            at.into_iter().map(|entry| factor.table[entry]).collect()
        });
        let any = || table.iter().any(|&c| c != W::default());
        if says_something(&left.domains, &factor.vars, any) {
            left.keep(&factor.vars, table.clone());
        }
    }
    left
}

fn without<W: Word>(problem: &Problem<W>, stays: &[Vec<bool>]) -> Problem<W> {
    let mut domains = problem.domains.clone();
    for (n, stays) in domains.iter_mut().zip(stays) {
        *n = stays.iter().filter(|&&s| s).count();
    }
    let mut left = Problem::over(domains, problem.units);
    let mut known: FastMap<*const W, Table<W>> = FastMap::default();
    for factor in &problem.factors {
        let stays = factor.vars.first().and_then(|&v| stays.get(v));
        let table = match stays {
            None => factor.table.clone(),
            Some(stays) => {
                let made = known.entry(factor.table.as_ptr());
                let rows = || {
                    let n = factor.table.len() / stays.len().max(1);
                    let rows = factor.table.chunks_exact(n.max(1)).zip(stays);
                    let rows: Vec<&[W]> = rows.filter(|(_, s)| **s).map(|(r, _)| r).collect();
                    rows.concat().into()
                };
                made.or_insert_with(rows).clone()
            }
        };
        let any = || table.iter().any(|&c| c != W::default());
        if says_something(&left.domains, &factor.vars, any) {
            left.keep(&factor.vars, table);
        }
    }
    left
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::{Factor, INFEASIBLE, cost};

    /// A generator of pseudo-random numbers, each below the given one.
    fn numbers() -> impl FnMut(usize) -> usize {
        let mut seed = 0x9E37_79B9_7F4A_7C15u64;
        move |n| {
            seed ^= seed << 13;
            seed ^= seed >> 7;
            seed ^= seed << 17;
            usize::try_from(seed >> 8).unwrap_or(0) % n
        }
    }

    /// The factors of a problem in costs.
    fn factors(written: &Written) -> Vec<(Vec<usize>, Vec<Cost>)> {
        fn all<W: Word>(problem: &Problem<W>) -> Vec<(Vec<usize>, Vec<Cost>)> {
            let costs = |f: &Factor<W>| f.table.iter().map(|w| w.cost(problem.units)).collect();
            let factors = problem.factors.iter();
            factors.map(|f| (f.vars.to_vec(), costs(f))).collect()
        }
        match written {
            Written::Words(problem) => all(problem),
            Written::Costs(problem) => all(problem),
        }
    }

    #[test]
    fn a_problem_without_states_is_the_one_that_is_drafted_without_them() {
        let mut random = numbers();
        let mut in_words = 0;
        for round in 0..200 {
            let (groups, nodes) = (1 + random(3), 1 + random(3));
            let stays: Vec<Vec<bool>> = (0..groups)
                .map(|_| (0..=random(4)).map(|s| s == 0 || random(2) == 0).collect())
                .collect();
            let fewer: Vec<usize> = stays
                .iter()
                .map(|s| s.iter().filter(|&&s| s).count())
                .collect();
            let forms: Vec<usize> = (0..nodes).map(|_| 1 + random(3)).collect();
            let domains = |of: Vec<usize>| of.into_iter().chain(forms.iter().copied()).collect();
            let mut all = Draft::over(domains(stays.iter().map(Vec::len).collect()));
            let mut left = Draft::over(domains(fewer));
            // Every other problem has costs that do not fit words.
            let largest = if round % 2 == 0 { 1 << 10 } else { 1 << 60 };
            for (group, stays) in stays.iter().enumerate() {
                for (node, &forms) in forms.iter().enumerate() {
                    let n_kinds = 1 + random(forms);
                    let kinds: Vec<usize> = (0..forms).map(|f| f % n_kinds).collect();
                    let mut entry = |_| match random(6) {
                        0 => INFEASIBLE,
                        1 | 2 => 0,
                        n => cost(largest / n as u64, n as u64),
                    };
                    let costs: Vec<Cost> = (0..stays.len() * n_kinds).map(&mut entry).collect();
                    let rows = costs.chunks(n_kinds).zip(stays).filter(|(_, s)| **s);
                    let rows: Vec<&[Cost]> = rows.map(|(row, _)| row).collect();
                    let vars = [group, groups + node];
                    let rest = Columns::of(rows.concat(), n_kinds, kinds.clone());
                    left.add(&vars, Rc::new(rest));
                    all.add(&vars, Rc::new(Columns::of(costs, n_kinds, kinds)));
                }
            }
            let written = all.written();
            assert_eq!(
                factors(&written),
                factors(&Written::Costs(all.in_costs())),
                "words stand for the costs"
            );
            in_words += usize::from(matches!(written, Written::Words(_)));
            assert_eq!(factors(&written.without(&stays)), factors(&left.written()));
        }
        assert!((100..200).contains(&in_words), "{in_words} of 200 in words");
    }

    /// The addresses of the tables of factors over two variables.
    fn pairs(written: &Written) -> Vec<usize> {
        fn all<W: Word>(problem: &Problem<W>) -> Vec<usize> {
            let pairs = problem.factors.iter().filter(|f| f.vars.len() == 2);
            pairs.map(|f| f.table.as_ptr().addr()).collect()
        }
        match written {
            Written::Words(problem) => all(problem),
            Written::Costs(problem) => all(problem),
        }
    }

    #[test]
    fn a_problem_within_lists_of_states_costs_what_the_whole_one_does() {
        let mut random = numbers();
        let mut in_words = 0;
        for round in 0..100 {
            let n = 1 + random(4);
            let domains: Vec<usize> = (0..n).map(|_| 1 + random(4)).collect();
            let largest = if round % 2 == 0 { 1 << 10 } else { 1 << 60 };
            let mut draft = Draft::over(domains.clone());
            for var in 0..n {
                // A table over each variable, and one over it and the next one.
                let mut entry = |_| match random(5) {
                    0 => INFEASIBLE,
                    n => cost(largest / n as u64, n as u64),
                };
                let next = domains.get(var + 1).copied();
                let own: Vec<Cost> = (0..domains[var]).map(&mut entry).collect();
                let both = (0..domains[var] * next.unwrap_or(0)).map(&mut entry);
                let both: Vec<Cost> = both.collect();
                draft.add(&[var], Rc::new(Columns::single(own.into_iter())));
                if let Some(next) = next {
                    let kinds = (0..next).collect();
                    draft.add(&[var, var + 1], Rc::new(Columns::of(both, next, kinds)));
                }
            }
            // A list has some states in any order; two variables may have the same list.
            let mut lists: Vec<Vec<usize>> = Vec::new();
            let mut of = Vec::new();
            for &domain in &domains {
                let known = lists.iter().position(|l| l.iter().all(|&s| s < domain));
                let known = known.filter(|_| random(2) == 0);
                of.push(known.unwrap_or_else(|| {
                    let some = (0..=random(domain)).map(|_| random(domain));
                    lists.push(some.collect());
                    lists.len() - 1
                }));
            }
            let written = draft.written();
            let left = written.within(&lists, &of);
            assert_eq!(left.variables(), n);
            in_words += usize::from(matches!(left, Written::Words(_)));
            let sizes: Vec<usize> = of.iter().map(|&list| lists[list].len()).collect();
            for mut number in 0..sizes.iter().product() {
                let mut own = Vec::new();
                for &size in &sizes {
                    own.push(number % size);
                    number /= size;
                }
                let whole = own.iter().zip(&of).map(|(&s, &list)| lists[list][s]);
                let whole: Vec<usize> = whole.collect();
                assert_eq!(
                    left.cost(&own),
                    written.cost(&whole),
                    "{own:?} of {lists:?}"
                );
            }
        }
        assert!((50..100).contains(&in_words), "{in_words} of 100 in words");
    }

    #[test]
    fn tables_with_the_same_costs_and_lists_stay_one() {
        let table = Rc::new(Columns::of(
            (0..9).map(|n| cost(n, 0)).collect(),
            3,
            vec![0, 1, 2],
        ));
        let mut draft = Draft::over(vec![3; 4]);
        for var in 0..3 {
            draft.add(&[var, var + 1], table.clone());
        }
        let lists = [vec![0, 2], vec![1, 2]];
        let left = draft.written().within(&lists, &[0, 0, 0, 1]);
        let tables = pairs(&left);
        assert!(tables[0] == tables[1] && tables[1] != tables[2]);
    }
}
