//! Exact choice: variable elimination over a sum of small cost tables.
//!
//! Variables are eliminated in the order of the table that each elimination makes; the result is a
//! minimum over all assignments. Where a table would pass the guard, the variable with the most
//! neighbours is fixed to its best state under the tables seen so far and the result is no longer
//! proven.

use indexmap::IndexMap;
use std::cmp::Reverse;
use std::collections::BinaryHeap;

/// Movement bytes in the upper half; in the lower half what breaks ties (compile-time bytes, then
/// departures from the default). Sums saturate at [`INFEASIBLE`].
pub(crate) type Cost = u128;

/// An assignment that cannot be lowered.
pub(crate) const INFEASIBLE: Cost = 1 << 126;

/// A cost of movement bytes and a tie breaker.
pub(crate) fn cost(bytes: u64, tie: u64) -> Cost {
    (u128::from(bytes) << 64) | u128::from(tie)
}

/// The movement bytes of a cost.
pub(crate) fn movement(cost: Cost) -> u64 {
    u64::try_from(cost >> 64).unwrap_or(u64::MAX)
}

fn add(a: Cost, b: Cost) -> Cost {
    a.saturating_add(b).min(INFEASIBLE)
}

/// A table over some variables, row-major in their order.
#[derive(Clone, Debug)]
pub(crate) struct Factor {
    pub(crate) vars: Vec<usize>,
    pub(crate) table: Vec<Cost>,
}

/// A sum of factors over variables with finite domains.
#[derive(Clone, Debug, Default)]
pub(crate) struct Problem {
    pub(crate) domains: Vec<usize>,
    pub(crate) factors: Vec<Factor>,
}

/// A choice of one state a variable.
#[derive(Clone, Debug)]
pub(crate) struct Solution {
    pub(crate) states: Vec<usize>,
    pub(crate) cost: Cost,
    /// Whether no assignment is cheaper.
    pub(crate) proven: bool,
}

/// Entries of the largest table that elimination may make; `benches/solve` shows what it costs.
const TABLE_GUARD: usize = 1 << 22;

struct Step {
    var: usize,
    scope: Vec<usize>,
    best: Vec<u32>,
}

/// Minimises the sum of the factors.
pub(crate) fn solve(problem: &Problem) -> Solution {
    solve_with(problem, TABLE_GUARD)
}

fn solve_with(problem: &Problem, guard: usize) -> Solution {
    let mut state = State::new(problem);
    let mut steps = Vec::new();
    let mut proven = true;
    while let Some((var, size)) = state.next() {
        if size <= guard {
            steps.push(state.eliminate(var));
        } else {
            proven = false;
            state.heap.push(Reverse((size, var)));
            let widest = state.widest();
            steps.push(state.fix(widest));
        }
    }
    let mut states = vec![0usize; problem.domains.len()];
    for step in steps.iter().rev() {
        let mut at = 0usize;
        for &v in &step.scope {
            at = at * problem.domains[v] + states[v];
        }
        states[step.var] = step.best[at] as usize;
    }
    let cost = evaluate(problem, &states);
    Solution {
        states,
        cost,
        proven,
    }
}

/// The cost of an assignment.
pub(crate) fn evaluate(problem: &Problem, states: &[usize]) -> Cost {
    problem.factors.iter().fold(0, |sum, factor| {
        let at = factor
            .vars
            .iter()
            .fold(0, |at, &v| at * problem.domains[v] + states[v]);
        add(sum, factor.table[at])
    })
}

struct State<'a> {
    domains: &'a [usize],
    factors: Vec<Option<Factor>>,
    /// Per variable, the factors that mention it, and ones that are gone.
    of: Vec<Vec<usize>>,
    /// Per variable, how many factors it shares with each other one.
    beside: Vec<IndexMap<usize, usize>>,
    /// Per variable, the size it stands in the heap with.
    sizes: Vec<usize>,
    done: Vec<bool>,
    heap: BinaryHeap<Reverse<(usize, usize)>>,
}

impl<'a> State<'a> {
    fn new(problem: &'a Problem) -> State<'a> {
        let n = problem.domains.len();
        let mut state = State {
            domains: &problem.domains,
            factors: Vec::with_capacity(problem.factors.len() * 2),
            of: vec![Vec::new(); n],
            beside: vec![IndexMap::new(); n],
            sizes: vec![0; n],
            done: vec![false; n],
            heap: BinaryHeap::new(),
        };
        for factor in &problem.factors {
            state.insert(drop_single(factor, &problem.domains));
        }
        for var in 0..n {
            state.sizes[var] = state.size(var);
            state.heap.push(Reverse((state.sizes[var], var)));
        }
        state
    }

    fn insert(&mut self, factor: Factor) {
        let id = self.factors.len();
        for &v in &factor.vars {
            self.of[v].push(id);
            for &w in factor.vars.iter().filter(|&&w| w != v) {
                *self.beside[v].entry(w).or_default() += 1;
            }
        }
        self.factors.push(Some(factor));
    }

    fn scope(&self, var: usize) -> Vec<usize> {
        let mut scope: Vec<usize> = self.beside[var].keys().copied().collect();
        scope.sort_unstable();
        scope
    }

    /// Entries of the table that eliminating the variable makes, its own states included.
    fn size(&self, var: usize) -> usize {
        let beside = &self.beside[var];
        // Variables of one state are in no factor: so many others pass every number.
        if usize::BITS as usize <= beside.len() {
            return usize::MAX;
        }
        let scope = beside.keys().map(|&v| self.domains[v]);
        scope.fold(self.domains[var], usize::saturating_mul)
    }

    /// The variable whose elimination makes the smallest table.
    fn next(&mut self) -> Option<(usize, usize)> {
        while let Some(Reverse((size, var))) = self.heap.pop() {
            if self.done[var] {
                continue;
            }
            // A variable whose size has changed stands in the heap once more.
            if self.sizes[var] == size {
                return Some((var, size));
            }
        }
        None
    }

    fn take_factors(&mut self, var: usize) -> Vec<Factor> {
        let ids = std::mem::take(&mut self.of[var]);
        let taken: Vec<Factor> = ids
            .into_iter()
            .filter_map(|f| self.factors[f].take())
            .collect();
        for factor in &taken {
            for &v in factor.vars.iter().filter(|&&v| v != var) {
                for w in factor.vars.iter().filter(|&&w| w != v) {
                    if let Some(n) = self.beside[v].get_mut(w) {
                        *n -= 1;
                        if *n == 0 {
                            self.beside[v].swap_remove(w);
                        }
                    }
                }
            }
        }
        self.beside[var].clear();
        taken
    }

    fn finish(&mut self, var: usize, scope: &[usize]) {
        self.done[var] = true;
        for &v in scope {
            let size = self.size(v);
            if self.sizes[v] != size {
                self.sizes[v] = size;
                self.heap.push(Reverse((size, v)));
            }
        }
    }

    fn eliminate(&mut self, var: usize) -> Step {
        let scope = self.scope(var);
        let factors = self.take_factors(var);
        let (table, best) = min_out(self.domains, var, &scope, &factors);
        if !scope.is_empty() {
            self.insert(Factor {
                vars: scope.clone(),
                table,
            });
        }
        self.finish(var, &scope);
        Step { var, scope, best }
    }

    fn widest(&self) -> usize {
        let open = (0..self.done.len()).filter(|&v| !self.done[v]);
        open.max_by_key(|&v| (self.scope(v).len(), Reverse(v)))
            .expect("a variable is left")
    }

    /// Fixes a variable to the state whose factors have the least sum of minima.
    fn fix(&mut self, var: usize) -> Step {
        let scope = self.scope(var);
        let factors = self.take_factors(var);
        let floor = |state: usize| {
            factors.iter().fold(0, |sum, f| {
                let slice = slice(f, var, state, self.domains);
                add(sum, slice.table.iter().copied().min().unwrap_or(0))
            })
        };
        let state = (0..self.domains[var])
            .min_by_key(|&s| floor(s))
            .unwrap_or(0);
        for factor in &factors {
            let rest = slice(factor, var, state, self.domains);
            if !rest.vars.is_empty() {
                self.insert(rest);
            }
        }
        self.finish(var, &scope);
        Step {
            var,
            scope: Vec::new(),
            best: vec![u32::try_from(state).unwrap_or(0)],
        }
    }
}

/// The factor without variables of one state.
fn drop_single(factor: &Factor, domains: &[usize]) -> Factor {
    let vars = factor
        .vars
        .iter()
        .copied()
        .filter(|&v| domains[v] != 1)
        .collect();
    Factor {
        vars,
        table: factor.table.clone(),
    }
}

/// The factor with one variable fixed.
fn slice(factor: &Factor, var: usize, state: usize, domains: &[usize]) -> Factor {
    let Some(at) = factor.vars.iter().position(|&v| v == var) else {
        return factor.clone();
    };
    let inner: usize = factor.vars[at + 1..].iter().map(|&v| domains[v]).product();
    let chunk = inner * domains[var];
    let rows = factor.table.chunks_exact(chunk);
    let table = rows
        .flat_map(|r| r[state * inner..(state + 1) * inner].iter().copied())
        .collect();
    let vars = factor.vars.iter().copied().filter(|&v| v != var).collect();
    Factor { vars, table }
}

/// Sums the factors and minimises over `var`.
fn min_out(
    domains: &[usize],
    var: usize,
    scope: &[usize],
    factors: &[Factor],
) -> (Vec<Cost>, Vec<u32>) {
    let size: usize = scope.iter().map(|&v| domains[v]).product();
    let n = domains[var];
    let strides: Vec<Vec<usize>> = factors
        .iter()
        .map(|f| strides_of(f, domains, scope))
        .collect();
    let own: Vec<usize> = factors.iter().map(|f| stride_of(f, domains, var)).collect();
    let mut index = vec![0usize; scope.len()];
    let mut base = vec![0usize; factors.len()];
    let (mut table, mut best) = (Vec::with_capacity(size), Vec::with_capacity(size));
    for _ in 0..size {
        let (mut least, mut arg) = (Cost::MAX, 0u32);
        for s in 0..n {
            let sum = factors
                .iter()
                .zip(&base)
                .zip(&own)
                .fold(0, |sum, ((f, b), o)| add(sum, f.table[b + s * o]));
            if sum < least {
                (least, arg) = (sum, u32::try_from(s).unwrap_or(u32::MAX));
            }
        }
        table.push(least);
        best.push(arg);
        advance(&mut index, &mut base, scope, domains, &strides);
    }
    (table, best)
}

fn advance(
    index: &mut [usize],
    base: &mut [usize],
    scope: &[usize],
    domains: &[usize],
    strides: &[Vec<usize>],
) {
    for d in (0..scope.len()).rev() {
        index[d] += 1;
        for (b, s) in base.iter_mut().zip(strides) {
            *b += s[d];
        }
        if index[d] < domains[scope[d]] {
            return;
        }
        for (b, s) in base.iter_mut().zip(strides) {
            *b -= s[d] * index[d];
        }
        index[d] = 0;
    }
}

fn stride_of(factor: &Factor, domains: &[usize], var: usize) -> usize {
    match factor.vars.iter().position(|&v| v == var) {
        Some(at) => factor.vars[at + 1..].iter().map(|&v| domains[v]).product(),
        None => 0,
    }
}

fn strides_of(factor: &Factor, domains: &[usize], scope: &[usize]) -> Vec<usize> {
    scope
        .iter()
        .map(|&v| stride_of(factor, domains, v))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn random(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    fn problem(seed: &mut u64) -> Problem {
        let n = 2 + (random(seed) % 6) as usize;
        let domains: Vec<usize> = (0..n).map(|_| 1 + (random(seed) % 3) as usize).collect();
        let mut factors = Vec::new();
        for _ in 0..2 * n {
            let mut vars: Vec<usize> = (0..1 + random(seed) % 3)
                .map(|_| (random(seed) % n as u64) as usize)
                .collect();
            vars.sort_unstable();
            vars.dedup();
            let size = vars.iter().map(|&v| domains[v]).product();
            let entry = |s: &mut u64| match random(s) % 8 {
                0 => INFEASIBLE,
                x => cost(x, random(s) % 3),
            };
            let table = (0..size).map(|_| entry(seed)).collect();
            factors.push(Factor { vars, table });
        }
        Problem { domains, factors }
    }

    fn brute(problem: &Problem) -> Cost {
        let total: usize = problem.domains.iter().product();
        let mut least = Cost::MAX;
        for mut code in 0..total {
            let states: Vec<usize> = problem
                .domains
                .iter()
                .map(|&d| {
                    let s = code % d;
                    code /= d;
                    s
                })
                .collect();
            least = least.min(evaluate(problem, &states));
        }
        least
    }

    #[test]
    fn elimination_finds_the_minimum() {
        let mut seed = 0x9E37_79B9_7F4A_7C15;
        for _ in 0..2000 {
            let problem = problem(&mut seed);
            let solution = solve(&problem);
            assert!(solution.proven);
            assert_eq!(solution.cost, brute(&problem));
        }
    }

    #[test]
    fn past_the_guard_the_result_is_an_upper_bound() {
        let mut seed = 0xD1B5_4A32_D192_ED03;
        for _ in 0..500 {
            let problem = problem(&mut seed);
            let solution = solve_with(&problem, 4);
            assert!(brute(&problem) <= solution.cost);
        }
    }
}
