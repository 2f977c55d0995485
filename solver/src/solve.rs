//! Exact choice: variable elimination over a sum of small cost tables, then an integer programme.
//!
//! Example: a chain of variables `a - b - c` has a table for each pair. Elimination of `a` leaves a table over `b`, and
//! elimination of `b` a table over `c`. The minimum of that table is the answer.
//!
//! The next variable to be eliminated is the one whose elimination makes the smallest table. The result is a minimum
//! over all assignments. The order depends on no cost, so whether all tables fit is known before one is made.
//!
//! 1. Everything that fits in small tables is eliminated.
//! 2. The rest is eliminated in large tables, one connected part at a time.
//! 3. A part whose tables exceed the guard becomes an integer programme (`integer`).
//! 4. A part that exceeds the limits of programmes too is reduced by elimination to its kernels. In these, variables
//!    are fixed and then improved one at a time. The lower bound then is the larger one of the programme's and that of
//!    mini-buckets: elimination in which a variable may have a different state in each of several tables.

use crate::asked::Asked;
use crate::eliminate::{Eliminate, Reduced};
use crate::integer::Programme;
use crate::maps::{FastMap, FastSet};
use crate::near::Near;
use crate::problem::{
    Aim, Cost, Factor, INFEASIBLE, Limits, Problem, Table, Vars, Word, add, movement, moves_alike,
};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::ops::Range;
use std::rc::Rc;

/// A choice of one state a variable.
#[derive(Clone, Debug)]
pub struct Solution {
    /// The state of each variable.
    pub states: Vec<usize>,
    /// The sum of the tables for these states.
    pub cost: Cost,
    /// Lower bound of the cost of every assignment.
    pub bound: Cost,
    /// True if no assignment moves fewer bytes.
    pub proven: bool,
    /// The entries of all tables that the search summed, a count of its work; 0 for a part of a problem.
    pub summed: usize,
}

/// A table entry takes at most 20 bytes, so the largest table takes 80 MiB. A dense block of 24 values that are each
/// read by all later nodes stays within the columns and nodes (see the tests).
const LIMITS: Limits = Limits {
    table: 1 << 22,
    work: 1 << 11,
    core: 1 << 10,
    rounds: 64,
    near: 1 << 10,
    columns: 6_000,
    nodes: 400,
    aim: Aim::Both,
};

/// Limits for an assignment near a given one. Many such problems are solved and the best answer is taken.
const NEAR: Limits = Limits {
    table: 1 << 14,
    work: 1 << 8,
    near: 0,
    columns: 0,
    nodes: 0,
    aim: Aim::Assignment,
    ..LIMITS
};

/// The most rounds of improving one variable after another.
const ROUNDS: usize = 16;

/// Rounds of elimination around an assignment without improvement, after which it stops.
const IDLE: usize = 3;

/// The number of widest variables that are considered as the one that keeps its state, in elimination around an
/// assignment.
const WIDEST: usize = 4;

/// The most entries of memoized tables.
const KNOWN: usize = 1 << 22;

struct Step {
    var: usize,
    scope: Vec<usize>,
    best: Rc<[u32]>,
}

/// The key of a reduction: the number of variables, their numbers of states, and for each table its address, the number
/// of its variables and which they are.
#[derive(PartialEq, Eq, Hash)]
struct Reduction(Vec<usize>);

impl Reduction {
    fn of<W>(domains: &[usize], var: usize, scope: &[usize], factors: &[Factor<W>]) -> Reduction {
        let entries = factors.iter().map(|f| 2 + f.vars.len()).sum::<usize>();
        let mut all = Vec::with_capacity(2 + scope.len() + entries);
        all.push(scope.len());
        all.extend(scope.iter().chain([&var]).map(|&v| domains[v]));
        for factor in factors {
            let place = |v: &usize| scope.binary_search(v).unwrap_or(scope.len());
            all.extend([factor.table.as_ptr().addr(), factor.vars.len()]);
            all.extend(factor.vars.iter().map(place));
        }
        Reduction(all)
    }

    /// Entries of the table that is summed.
    fn size(&self) -> usize {
        let states = self.0.iter().skip(1).take(1 + self.0[0]);
        states.fold(1usize, |n, &s| n.saturating_mul(s))
    }
}

/// Memoized reductions, over all rounds of one problem. Rounds, and blocks that are alike, have the same reductions
/// again and again. Tables with the same costs are interned, and results for the same tables are looked up. When the
/// memory is full, everything is dropped: recurring reductions are soon known again.
struct Known<W: Word> {
    tables: FastSet<Table<W>>,
    reductions: FastMap<Reduction, (Reduced<W>, Vec<Factor<W>>)>,
    /// Entries of the kept tables.
    entries: usize,
    /// Entries of all tables that were summed.
    summed: usize,
    /// The flag that says whether the result is needed.
    asked: Asked,
}

impl<W: Word> Known<W> {
    fn asked(asked: Asked) -> Known<W> {
        Known {
            tables: FastSet::default(),
            reductions: FastMap::default(),
            entries: 0,
            summed: 0,
            asked,
        }
    }

    /// The interned table with the same costs.
    fn shared(&mut self, table: Table<W>) -> Table<W> {
        let (at, is_new) = self.tables.insert_full(table);
        let same = self.tables[at].clone();
        if is_new && self.make_room(same.len()) {
            self.tables.insert(same.clone());
        }
        same
    }

    /// Stores the result of a reduction. Its factors are kept with it, so that their addresses stay valid.
    fn keep(&mut self, reduction: Reduction, reduced: Reduced<W>, factors: Vec<Factor<W>>) {
        self.make_room(reduced.best.len());
        self.reductions.insert(reduction, (reduced, factors));
    }

    /// Makes room for this many more entries. Returns whether everything was dropped for it.
    fn make_room(&mut self, entries: usize) -> bool {
        let full = KNOWN < self.entries.saturating_add(entries);
        if full {
            let (asked, summed) = (self.asked.clone(), self.summed);
            *self = Known {
                summed,
                ..Known::asked(asked)
            };
        }
        self.entries = self.entries.saturating_add(entries);
        full
    }
}

/// An assignment that is computed on demand.
pub type Later<'a> = dyn FnMut() -> Option<Vec<usize>> + 'a;

/// Given assignments.
pub struct Starts<'a> {
    /// An assignment that is improved like those that are found.
    pub near: Option<Vec<usize>>,
    /// An assignment that is used, and then improved, if everything that is found costs more.
    pub safe: &'a mut Later<'a>,
    /// The flag that says whether the result is needed.
    pub asked: Asked,
    /// The aim. If nothing is found, the result is an assignment that is not allowed.
    pub aim: Aim,
}

/// Minimises the sum of the factors. The result costs no more than the starts.
pub(crate) fn solve(problem: &Problem, starts: Starts<'_>) -> Solution {
    solve_with(problem.clone(), starts, LIMITS)
}

/// [`solve`] for a problem in machine words.
pub(crate) fn solve_words(problem: &Problem<u64>, starts: Starts<'_>) -> Solution {
    solve_in(problem, starts, LIMITS)
}

/// An assignment of low cost, for one of many problems. It is exact where elimination fits, and near a start where it
/// does not.
pub(crate) fn solve_near<W: Eliminate>(problem: &Problem<W>, near: Option<Vec<usize>>) -> Solution {
    let starts = Starts {
        near,
        safe: &mut || None,
        asked: Asked::surely(),
        aim: Aim::Assignment,
    };
    solve_in(problem, starts, NEAR)
}

/// Gives each of these variables in turn the best state beside the others.
pub(crate) fn settle<W: Word>(problem: &Problem<W>, states: &mut [usize], vars: Range<usize>) {
    let mut of: Vec<Vec<&Factor<W>>> = vec![Vec::new(); problem.domains.len()];
    for factor in &problem.factors {
        factor.vars.iter().for_each(|&v| of[v].push(factor));
    }
    for var in vars {
        improve_one(problem, &of[var], states, var);
    }
}

/// Minimises the sum of the factors, with no more effort than the bound needs.
#[must_use]
pub fn relax(problem: Problem, asked: Asked) -> Solution {
    let limits = Limits {
        rounds: 0,
        ..LIMITS
    };
    solve_alone(problem, asked, limits)
}

fn solve_alone(problem: Problem, asked: Asked, limits: Limits) -> Solution {
    let starts = Starts {
        near: None,
        safe: &mut || None,
        asked,
        aim: limits.aim,
    };
    solve_with(problem, starts, limits)
}

fn solve_with(problem: Problem, starts: Starts<'_>, limits: Limits) -> Solution {
    match problem.into_words() {
        Ok(words) => solve_in(&words, starts, limits),
        Err(problem) => solve_in(&problem, starts, limits),
    }
}

/// Eliminates everything that fits small tables, and solves each part of the rest.
fn solve_in<W: Eliminate>(problem: &Problem<W>, starts: Starts<'_>, limits: Limits) -> Solution {
    let mut known = Known::asked(starts.asked);
    let mut work = limits.work_of(problem.domains.len());
    let mut state = State::new(problem, &mut known);
    let mut steps = Vec::new();
    let mut states = vec![0usize; problem.domains.len()];
    if state.eliminate_within(limits.core, usize::MAX, &mut steps) {
        return Solution {
            summed: known.summed,
            ..exact(problem, &steps, states)
        };
    }
    let (mut bound, parts) = (state.constant.cost(problem.units), state.parts());
    let aim = starts.aim;
    let limits = Limits { aim, ..limits };
    let starts = [starts.near, (starts.safe)()];
    for part in parts {
        let starts = [0, 1].map(|i| starts[i].as_ref().map(|s| part.pick(s)));
        let solution = solve_part(&part.problem, starts, limits, &mut work, &mut known);
        if aim == Aim::Proof && INFEASIBLE <= solution.cost {
            return nothing(problem);
        }
        bound = add(bound, solution.bound);
        part.put(&solution.states, &mut states);
    }
    back_substitute(&problem.domains, &steps, &mut states);
    let cost = evaluate(problem, &states);
    let bound = bound.min(cost);
    Solution {
        states,
        cost,
        bound,
        proven: moves_alike(bound, cost),
        summed: known.summed,
    }
}

/// An infeasible solution, for a search that found nothing.
fn nothing<W: Word>(problem: &Problem<W>) -> Solution {
    Solution {
        states: vec![0; problem.domains.len()],
        cost: INFEASIBLE,
        bound: 0,
        proven: false,
        summed: 0,
    }
}

/// The solution after every variable was eliminated.
fn exact<W: Word>(problem: &Problem<W>, steps: &[Step], mut states: Vec<usize>) -> Solution {
    back_substitute(&problem.domains, steps, &mut states);
    let cost = evaluate(problem, &states);
    Solution {
        states,
        cost,
        bound: cost,
        proven: true,
        summed: 0,
    }
}

/// Sets the states of eliminated variables, in reverse order of elimination. The states of all other variables are set
/// already.
fn back_substitute(domains: &[usize], steps: &[Step], states: &mut [usize]) {
    for step in steps.iter().rev() {
        let at = step
            .scope
            .iter()
            .fold(0, |at, &v| at * domains[v] + states[v]);
        states[step.var] = step.best[at] as usize;
    }
}

/// Solves a remaining part, by elimination in large tables where these fit.
fn solve_part<W: Eliminate>(
    problem: &Problem<W>,
    starts: [Option<Vec<usize>>; 2],
    limits: Limits,
    work: &mut usize,
    known: &mut Known<W>,
) -> Solution {
    let mut state = State::new(problem, known);
    if state.fits(limits.table) {
        let mut steps = Vec::new();
        let fits = state.eliminate_within(limits.table, *work, &mut steps);
        *work = work.saturating_sub(state.made);
        if fits {
            return exact(problem, &steps, vec![0; problem.domains.len()]);
        }
    }
    drop(state);
    solve_kernels(problem, starts, limits, known)
}

/// Solves a part that does not fit large tables. Elimination leaves its kernels. Fixing and improving give a start,
/// which the programme improves.
fn solve_kernels<W: Eliminate>(
    problem: &Problem<W>,
    [near, safe]: [Option<Vec<usize>>; 2],
    limits: Limits,
    known: &mut Known<W>,
) -> Solution {
    let programme = match known.asked.has_ended() {
        true => None,
        false => Programme::of(problem, limits).filter(|_| known.asked.is_sure()),
    };
    let early = programme.as_ref();
    if let Some(found) = early.and_then(|p| by_relaxation(problem, p, near.as_ref(), limits, known))
    {
        return found;
    }
    // This many tables of the guard's size are within the allowed work.
    let n = problem.domains.len();
    let guard = (limits.work_of(n) / n.max(1)).clamp(limits.core, limits.table);
    let mut states = vec![0usize; n];
    let mut steps = Vec::new();
    let mut state = State::new(problem, known);
    if state.eliminate_within(guard, usize::MAX, &mut steps) {
        return exact(problem, &steps, states);
    }
    let (floor, kernels) = (state.constant.cost(problem.units), state.parts());
    let lowest = |known: &mut Known<W>| {
        let guard = guard.min(limits.table >> 4);
        let bounds = kernels.iter();
        let bounds = bounds.map(|kernel| mini_buckets(&kernel.problem, guard, known));
        bounds.fold(floor, add)
    };
    // Without a programme, little can be proven except that the near assignment is a minimum.
    if limits.aim == Aim::Proof && programme.is_none() {
        let cost = near.as_ref().map(|near| evaluate(problem, near));
        if !cost.is_some_and(|cost| moves_alike(cost, lowest(known))) {
            return nothing(problem);
        }
    }
    // A bound alone needs no assignment, but a programme begins with one.
    if 0 < limits.rounds || programme.is_some() {
        for kernel in &kernels {
            let starts = [&near, &safe].map(|s| s.as_ref().map(|s| kernel.pick(s)));
            let found = assigned(&kernel.problem, guard, limits, starts, known);
            kernel.put(&found, &mut states);
        }
    }
    back_substitute(&problem.domains, &steps, &mut states);
    let mut cost = evaluate(problem, &states);
    let mut bound = floor;
    let start = (cost < INFEASIBLE).then_some(states.as_slice());
    if let Some(found) = programme.and_then(|p| p.minimise(start, limits)) {
        bound = bound.max(crate::problem::cost(found.bound, 0));
        if let Some(mut better) = found.states {
            for kernel in &kernels {
                let mut own = kernel.pick(&better);
                let inside = &kernel.problem;
                around(inside, guard, limits.rounds, &mut own, None, known);
                kernel.put(&own, &mut better);
            }
            back_substitute(&problem.domains, &steps, &mut better);
            let now = evaluate(problem, &better);
            if now < cost {
                (states, cost) = (better, now);
            }
        }
    }
    if limits.aim != Aim::Assignment && !moves_alike(bound, cost) {
        bound = bound.max(lowest(known));
    }
    let bound = bound.min(cost);
    Solution {
        states,
        cost,
        bound,
        proven: moves_alike(bound, cost),
        summed: 0,
    }
}

/// An assignment that is proven by the programme's linear relaxation, if that has an integral solution. With dense
/// blocks it often has. Ties are broken near this solution.
fn by_relaxation<W: Eliminate>(
    problem: &Problem<W>,
    programme: &Programme<'_, W>,
    near: Option<&Vec<usize>>,
    limits: Limits,
    known: &mut Known<W>,
) -> Option<Solution> {
    let root = Limits { nodes: 1, ..limits };
    let cost_of = |states: &Vec<usize>| evaluate(problem, states);
    let start = near.filter(|near| cost_of(near) < INFEASIBLE);
    let found = programme.minimise(start.map(Vec::as_slice), root)?;
    let bound = crate::problem::cost(found.bound, 0);
    let all = start.into_iter().chain(&found.states);
    let mut states = all.min_by_key(|states| cost_of(states))?.clone();
    if !moves_alike(bound, cost_of(&states)) {
        return None;
    }
    let rounds = limits.rounds;
    around(problem, limits.core, rounds, &mut states, None, known);
    let cost = evaluate(problem, &states);
    Some(Solution {
        states,
        cost,
        bound: bound.min(cost),
        proven: true,
        summed: 0,
    })
}

/// The cheapest of: an assignment by fixing variables and improving, the improved near start, and the safe one. With
/// many variables only the near start is improved, if it is allowed.
fn assigned<W: Eliminate>(
    problem: &Problem<W>,
    guard: usize,
    limits: Limits,
    [near, safe]: [Option<Vec<usize>>; 2],
    known: &mut Known<W>,
) -> Vec<usize> {
    if known.asked.has_ended() {
        return vec![0; problem.domains.len()];
    }
    let near = near.map(|mut near| {
        around(problem, guard, limits.rounds, &mut near, None, known);
        (evaluate(problem, &near), near)
    });
    let near = match near {
        Some((cost, near)) if limits.near < near.len() && cost < INFEASIBLE => return near,
        near => near,
    };
    let other = near.as_ref().map(|(cost, _)| *cost);
    let mut states = fixed(problem, guard, known);
    improve(problem, &mut states);
    around(problem, guard, limits.rounds, &mut states, other, known);
    let mut cost = evaluate(problem, &states);
    if let Some(safe) = safe.filter(|s| evaluate(problem, s) < cost) {
        states = safe;
        around(problem, guard, limits.rounds, &mut states, other, known);
        cost = evaluate(problem, &states);
    }
    match near {
        Some((now, near)) if now < cost => near,
        _ => states,
    }
}

/// An assignment by elimination in which the widest variable is fixed where a table would not fit.
fn fixed<W: Eliminate>(problem: &Problem<W>, guard: usize, known: &mut Known<W>) -> Vec<usize> {
    let mut state = State::new(problem, known);
    let mut steps = Vec::new();
    while !state.eliminate_within(guard, usize::MAX, &mut steps) {
        match state.widest() {
            Some(widest) => steps.push(state.fix(widest)),
            None => break,
        }
    }
    let mut states = vec![0usize; problem.domains.len()];
    back_substitute(&problem.domains, &steps, &mut states);
    states
}

/// Improves an assignment by elimination around it. Where a table would not fit, a variable keeps its state, a
/// different variable in each round. All others take the best states beside it. Ends early if, at the rate of the last
/// rounds, it would not become cheaper than `other`.
fn around<W: Eliminate>(
    problem: &Problem<W>,
    guard: usize,
    rounds: usize,
    states: &mut Vec<usize>,
    other: Option<Cost>,
    known: &mut Known<W>,
) {
    let mut cost = evaluate(problem, states);
    let mut costs = vec![cost];
    if movement(cost) == 0 {
        return;
    }
    let mut idle = 0;
    for round in 0..rounds {
        if known.asked.has_ended() {
            return;
        }
        let mut state = State::new(problem, known);
        let mut steps = Vec::new();
        while !state.eliminate_within(guard, usize::MAX, &mut steps) {
            match state.wide(round) {
                Some(var) => steps.push(state.fix_to(var, states[var])),
                None => break,
            }
        }
        let mut found = states.clone();
        back_substitute(&problem.domains, &steps, &mut found);
        let now = evaluate(problem, &found);
        tracing::debug!(round, bytes = movement(now), "around");
        idle = if now < cost { 0 } else { idle + 1 };
        if now < cost {
            (*states, cost) = (found, now);
        }
        if idle == IDLE {
            return;
        }
        costs.push(cost);
        let left = Cost::try_from(rounds - round - 1).unwrap_or(0);
        if let (Some(other), [.., before, _, _, _]) = (other, &costs[..])
            && other.saturating_add((before - cost) / (IDLE as Cost) * left) < cost
        {
            return;
        }
    }
}

/// Gives one variable after another the best state beside the others, until none changes.
fn improve<W: Word>(problem: &Problem<W>, states: &mut [usize]) {
    let mut of: Vec<Vec<&Factor<W>>> = vec![Vec::new(); problem.domains.len()];
    for factor in &problem.factors {
        factor.vars.iter().for_each(|&v| of[v].push(factor));
    }
    for _ in 0..ROUNDS {
        let mut changed = false;
        for (var, of) in of.iter().enumerate() {
            changed |= improve_one(problem, of, states, var);
        }
        if !changed {
            return;
        }
    }
}

/// Gives a variable with these factors the best state beside the others. Returns whether it changed.
fn improve_one<W: Word>(
    problem: &Problem<W>,
    of: &[&Factor<W>],
    states: &mut [usize],
    var: usize,
) -> bool {
    let before = states[var];
    let mut cost_of = |state: usize| {
        states[var] = state;
        let entries = of.iter().map(|f| entry(f, &problem.domains, states));
        entries.fold(W::default(), W::plus)
    };
    let own = cost_of(before);
    let best = (0..problem.domains[var]).map(|s| (cost_of(s), s)).min();
    let better = best.filter(|&(cost, _)| cost < own);
    states[var] = better.map_or(before, |(_, state)| state);
    better.is_some()
}

/// A lower bound of the cost of every assignment, by elimination in mini-buckets. The tables of a variable are summed
/// only as far as they fit. Each sum has its own state of the variable.
fn mini_buckets<W: Eliminate>(problem: &Problem<W>, guard: usize, known: &mut Known<W>) -> Cost {
    let mut state = State::new(problem, known);
    while let Some((var, _)) = state.next().filter(|_| !state.known.asked.has_ended()) {
        let scope = state.scope(var);
        let mut bins: Vec<(Vec<usize>, Vec<Factor<W>>)> = Vec::new();
        for factor in state.take_factors(var) {
            let joined = |vars: &[usize]| -> Vec<usize> {
                let mut all: Vec<usize> = vars.iter().chain(factor.vars.iter()).copied().collect();
                all.sort_unstable();
                all.dedup();
                all
            };
            let size = |vars: &[usize]| {
                vars.iter()
                    .fold(1usize, |n, &v| n.saturating_mul(problem.domains[v]))
            };
            match bins
                .iter_mut()
                .find(|(vars, _)| size(&joined(vars)) <= guard)
            {
                Some((vars, bin)) => {
                    *vars = joined(vars);
                    bin.push(factor);
                }
                None => bins.push((joined(&[]), vec![factor])),
            }
        }
        for (vars, bin) in bins {
            let scope: Vec<usize> = vars.into_iter().filter(|&v| v != var).collect();
            let reduced = state.reduced(var, &scope, bin);
            state.put(Vars::from_vec(scope), reduced.table);
        }
        state.finish(var, &scope);
    }
    state.constant.cost(problem.units)
}

/// The cost of an assignment.
pub(crate) fn evaluate<W: Word>(problem: &Problem<W>, states: &[usize]) -> Cost {
    let entries = problem.factors.iter();
    let entries = entries.map(|f| entry(f, &problem.domains, states));
    entries.fold(W::default(), W::plus).cost(problem.units)
}

fn entry<W: Word>(factor: &Factor<W>, domains: &[usize], states: &[usize]) -> W {
    let at = factor
        .vars
        .iter()
        .fold(0, |at, &v| at * domains[v] + states[v]);
    factor.table[at]
}

/// A connected part of the problem after elimination, with renumbered variables.
struct Part<W: Word> {
    vars: Vec<usize>,
    problem: Problem<W>,
}

impl<W: Word> Part<W> {
    /// The states of its variables in an assignment of the whole problem.
    fn pick(&self, states: &[usize]) -> Vec<usize> {
        self.vars.iter().map(|&v| states[v]).collect()
    }

    /// Copies the states of its variables into an assignment of the whole problem.
    fn put(&self, own: &[usize], states: &mut [usize]) {
        for (&var, &state) in self.vars.iter().zip(own) {
            states[var] = state;
        }
    }
}

struct State<'a, W: Word> {
    domains: &'a [usize],
    units: W::Units,
    factors: Vec<Option<Factor<W>>>,
    /// Per variable, the factors that mention it, including removed ones.
    of: Vec<Vec<usize>>,
    /// Per variable, the number of factors that it shares with each other variable.
    beside: Vec<Near>,
    /// Per variable, its current size in the heap.
    sizes: Vec<usize>,
    done: Vec<bool>,
    heap: BinaryHeap<Reverse<(usize, usize)>>,
    /// The cost of the eliminated variables that does not depend on the others.
    constant: W,
    /// Entries of the tables that were made and not found in memory.
    made: usize,
    known: &'a mut Known<W>,
}

impl<'a, W: Eliminate> State<'a, W> {
    fn new(problem: &'a Problem<W>, known: &'a mut Known<W>) -> State<'a, W> {
        let n = problem.domains.len();
        let mut state = State {
            domains: &problem.domains,
            units: problem.units,
            factors: Vec::with_capacity(problem.factors.len() * 2),
            of: vec![Vec::new(); n],
            beside: vec![Near::default(); n],
            sizes: vec![0; n],
            done: vec![false; n],
            heap: BinaryHeap::new(),
            constant: W::default(),
            made: 0,
            known,
        };
        for factor in &problem.factors {
            let factor = drop_single(factor, &problem.domains);
            state.put(factor.vars, factor.table);
        }
        for var in 0..n {
            state.sizes[var] = state.size(var);
            state.heap.push(Reverse((state.sizes[var], var)));
        }
        state
    }

    /// Eliminates while the tables fit: each within `guard` entries, and all that are not memoized within `work`
    /// entries. Returns whether nothing is left.
    fn eliminate_within(&mut self, guard: usize, work: usize, steps: &mut Vec<Step>) -> bool {
        let most = self.made.saturating_add(work);
        while let Some((var, size)) = self.next() {
            if guard < size || most <= self.made || self.known.asked.has_ended() {
                self.heap.push(Reverse((size, var)));
                return false;
            }
            steps.push(self.eliminate(var));
        }
        true
    }

    /// Returns whether the elimination of all remaining variables makes no table above `guard` entries. The order
    /// depends on no cost.
    fn fits(&self, guard: usize) -> bool {
        let sets = self.beside.iter().map(|near| near.vars().collect());
        let mut beside: Vec<FastSet<usize>> = sets.collect();
        let (mut sizes, mut done, mut heap) =
            (self.sizes.clone(), self.done.clone(), self.heap.clone());
        while let Some(Reverse((size, var))) = heap.pop() {
            if done[var] || sizes[var] != size {
                continue;
            }
            if guard < size {
                return false;
            }
            done[var] = true;
            let scope: Vec<usize> = std::mem::take(&mut beside[var]).into_iter().collect();
            for &v in &scope {
                beside[v].swap_remove(&var);
                beside[v].extend(scope.iter().copied().filter(|&w| w != v));
                let size = size_beside(self.domains, v, beside[v].iter().copied());
                if sizes[v] != size {
                    sizes[v] = size;
                    heap.push(Reverse((size, v)));
                }
            }
        }
        true
    }

    /// The remaining problem, as connected parts.
    fn parts(&self) -> Vec<Part<W>> {
        let mut part_of: Vec<Option<usize>> = vec![None; self.done.len()];
        let mut parts: Vec<Part<W>> = Vec::new();
        for first in (0..self.done.len()).filter(|&v| !self.done[v]) {
            if part_of[first].is_some() {
                continue;
            }
            let mut vars = vec![first];
            part_of[first] = Some(parts.len());
            let mut at = 0;
            while let Some(&var) = vars.get(at) {
                for near in self.scope(var) {
                    if part_of[near].is_none() {
                        part_of[near] = Some(parts.len());
                        vars.push(near);
                    }
                }
                at += 1;
            }
            vars.sort_unstable();
            let domains = vars.iter().map(|&v| self.domains[v]).collect();
            let problem = Problem::over(domains, self.units);
            parts.push(Part { vars, problem });
        }
        for factor in self.factors.iter().flatten() {
            let Some(part) = factor.vars.first().and_then(|&v| part_of[v]) else {
                continue;
            };
            let part = &mut parts[part];
            let local = |v: &usize| part.vars.binary_search(v).unwrap_or(0);
            let vars = factor.vars.iter().map(local).collect();
            let table = factor.table.clone();
            part.problem.factors.push(Factor { vars, table });
        }
        parts
    }

    /// Adds a table. A table over no variable is added to the constant.
    fn put(&mut self, vars: Vars, table: Table<W>) {
        match (vars.is_empty(), table.first()) {
            (true, Some(&cost)) => self.constant = self.constant.plus(cost),
            _ => self.insert(Factor { vars, table }),
        }
    }

    fn insert(&mut self, factor: Factor<W>) {
        let id = self.factors.len();
        for &v in &factor.vars {
            self.of[v].push(id);
            for &w in factor.vars.iter().filter(|&&w| w != v) {
                self.beside[v].join(w);
            }
        }
        self.factors.push(Some(factor));
    }

    fn scope(&self, var: usize) -> Vec<usize> {
        let mut scope: Vec<usize> = self.beside[var].vars().collect();
        scope.sort_unstable();
        scope
    }

    /// Entries of the table that eliminating the variable makes, its own states included.
    fn size(&self, var: usize) -> usize {
        size_beside(self.domains, var, self.beside[var].vars())
    }

    /// The variable whose elimination makes the smallest table.
    fn next(&mut self) -> Option<(usize, usize)> {
        while let Some(Reverse((size, var))) = self.heap.pop() {
            if self.done[var] {
                continue;
            }
            // A variable whose size has changed has a second entry in the heap.
            if self.sizes[var] == size {
                return Some((var, size));
            }
        }
        None
    }

    fn take_factors(&mut self, var: usize) -> Vec<Factor<W>> {
        let ids = std::mem::take(&mut self.of[var]);
        let taken: Vec<Factor<W>> = ids
            .into_iter()
            .filter_map(|f| self.factors[f].take())
            .collect();
        for factor in &taken {
            for &v in factor.vars.iter().filter(|&&v| v != var) {
                for w in factor.vars.iter().filter(|&&w| w != v) {
                    self.beside[v].part(*w);
                }
            }
        }
        self.beside[var] = Near::default();
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
        let Reduced { table, best, .. } = self.reduced(var, &scope, factors);
        self.put(Vars::from_slice(&scope), table);
        self.finish(var, &scope);
        Step { var, scope, best }
    }

    /// Sums the factors and minimises over `var`. The part that all sums have in common is added to the constant.
    fn reduced(&mut self, var: usize, scope: &[usize], factors: Vec<Factor<W>>) -> Reduced<W> {
        let reduction = Reduction::of(self.domains, var, scope, &factors);
        let known = &mut *self.known;
        let found = known.reductions.get(&reduction);
        let reduced = match found {
            Some((reduced, _)) => reduced.clone(),
            None => {
                self.made = self.made.saturating_add(reduction.size());
                known.summed = known.summed.saturating_add(reduction.size());
                let mut reduced = W::min_out(self.domains, var, scope, &factors, self.units);
                reduced.table = known.shared(reduced.table);
                // The factors are kept, so that the addresses of their tables stay valid.
                known.keep(reduction, reduced.clone(), factors);
                reduced
            }
        };
        self.constant = self.constant.plus(reduced.common);
        reduced
    }

    /// Of the next variable to be eliminated and those adjacent to it, the one with the most adjacent variables.
    fn widest(&mut self) -> Option<usize> {
        let (next, size) = self.next()?;
        self.heap.push(Reverse((size, next)));
        let near = self.beside[next].vars().chain([next]);
        near.max_by_key(|&v| (self.beside[v].len(), Reverse(v)))
    }

    /// Of the next variable to be eliminated and those adjacent to it, one of the widest; a different one in each
    /// round.
    fn wide(&mut self, round: usize) -> Option<usize> {
        let (next, size) = self.next()?;
        self.heap.push(Reverse((size, next)));
        let mut near: Vec<usize> = self.beside[next].vars().chain([next]).collect();
        near.sort_unstable_by_key(|&v| (Reverse(self.beside[v].len()), v));
        let at = mixed(round, next) % near.len().min(WIDEST);
        near.get(at).copied()
    }

    /// Fixes a variable to a state.
    fn fix_to(&mut self, var: usize, state: usize) -> Step {
        let scope = self.scope(var);
        for factor in self.take_factors(var) {
            let rest = slice(&factor, var, state, self.domains);
            let table = self.known.shared(rest.table);
            self.put(rest.vars, table);
        }
        self.finish(var, &scope);
        Step {
            var,
            scope: Vec::new(),
            best: Rc::new([u32::try_from(state).unwrap_or(0)]),
        }
    }

    /// Fixes a variable to the state whose factors have the least sum of minima.
    fn fix(&mut self, var: usize) -> Step {
        let factors: Vec<&Factor<W>> = self.of[var]
            .iter()
            .filter_map(|&f| self.factors[f].as_ref())
            .collect();
        let floor = |state: usize| {
            factors.iter().fold(W::default(), |sum, f| {
                let slice = slice(f, var, state, self.domains);
                sum.plus(slice.table.iter().copied().min().unwrap_or_default())
            })
        };
        let state = (0..self.domains[var])
            .min_by_key(|&s| floor(s))
            .unwrap_or(0);
        self.fix_to(var, state)
    }
}

/// Entries of a table over a variable and those adjacent to it.
fn size_beside(
    domains: &[usize],
    var: usize,
    beside: impl ExactSizeIterator<Item = usize>,
) -> usize {
    // Variables with one state are in no factor, so this many adjacent variables exceed every limit.
    if usize::BITS as usize <= beside.len() {
        return usize::MAX;
    }
    let scope = beside.map(|v| domains[v]);
    scope.fold(domains[var], usize::saturating_mul)
}

/// A pseudo-random number of a round and a variable.
fn mixed(round: usize, var: usize) -> usize {
    let key = (round as u64) << 32 ^ var as u64;
    let mixed = (key ^ key >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
    usize::try_from(mixed >> 48).unwrap_or(0)
}

/// The factor without variables that have one state.
fn drop_single<W>(factor: &Factor<W>, domains: &[usize]) -> Factor<W> {
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
fn slice<W: Word>(factor: &Factor<W>, var: usize, state: usize, domains: &[usize]) -> Factor<W> {
    let Some(at) = factor.vars.iter().position(|&v| v == var) else {
        return Factor {
            vars: factor.vars.clone(),
            table: factor.table.clone(),
        };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::problem::cost;

    fn random(seed: &mut u64) -> u64 {
        *seed ^= *seed << 13;
        *seed ^= *seed >> 7;
        *seed ^= *seed << 17;
        *seed
    }

    fn problem(seed: &mut u64) -> Problem {
        let n = 2 + (random(seed) % 6) as usize;
        let domains: Vec<usize> = (0..n).map(|_| 1 + (random(seed) % 3) as usize).collect();
        let mut problem = Problem::over(domains.clone(), ());
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
            problem.push(&vars, table);
        }
        problem
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
    fn blocks_that_are_alike_are_reduced_once() {
        let table: Table = (0..9).map(|i| cost(1 + i * 7 % 5, i % 2)).collect();
        let reductions = |n: usize| {
            let mut problem = Problem::over(vec![3; n], ());
            for v in 1..n {
                problem.push(&[v - 1, v], table.clone());
            }
            let mut known = Known::asked(Asked::surely());
            let mut state = State::new(&problem, &mut known);
            assert!(state.eliminate_within(usize::MAX, usize::MAX, &mut Vec::new()));
            (state.known.reductions.len(), state.constant)
        };
        let ((few, short), (all, long)) = (reductions(50), reductions(5_000));
        assert!(few < 20 && all == few, "{few} {all}");
        assert!(short < long && long < INFEASIBLE);
    }

    #[test]
    fn elimination_finds_the_minimum() {
        let mut seed = 0x9E37_79B9_7F4A_7C15;
        for _ in 0..2000 {
            let problem = problem(&mut seed);
            let solution = solve_alone(problem.clone(), Asked::surely(), LIMITS);
            assert!(solution.proven);
            assert_eq!(solution.cost, brute(&problem));
        }
    }

    /// Limits within which almost nothing can be eliminated.
    const SMALL: Limits = Limits {
        table: 4,
        core: 4,
        ..LIMITS
    };

    #[test]
    fn the_integer_programme_finds_what_elimination_finds() {
        let mut seed = 0xD1B5_4A32_D192_ED03;
        for _ in 0..300 {
            let problem = problem(&mut seed);
            let (exact, programme) = (
                solve_alone(problem.clone(), Asked::surely(), LIMITS),
                solve_alone(problem.clone(), Asked::surely(), SMALL),
            );
            assert_eq!(movement(exact.cost), movement(programme.cost));
            if exact.cost < INFEASIBLE {
                assert!(programme.proven);
            }
        }
    }

    #[test]
    fn past_all_limits_the_result_lies_between_its_bound_and_the_best_found() {
        let limits = Limits {
            columns: 0,
            nodes: 0,
            ..SMALL
        };
        let mut seed = 0xD1B5_4A32_D192_ED03;
        for _ in 0..500 {
            let problem = problem(&mut seed);
            let (least, solution) = (
                brute(&problem),
                solve_alone(problem.clone(), Asked::surely(), limits),
            );
            assert!(least <= solution.cost);
            assert!(solution.bound <= least);
            assert!(!solution.proven || movement(solution.cost) == movement(least));
        }
    }

    #[test]
    fn a_proof_is_found_or_nothing_and_an_assignment_is_the_same_without_one() {
        let small = |aim, columns| Limits {
            columns,
            aim,
            ..SMALL
        };
        let mut seed = 0xA076_1D64_78BD_642F;
        let mut found = [0, 0, 0];
        for round in 0..600 {
            let problem = problem(&mut seed);
            let least = brute(&problem);
            let columns = if round % 2 == 0 { 0 } else { LIMITS.columns };
            let [both, proof, assignment] = [Aim::Both, Aim::Proof, Aim::Assignment]
                .map(|aim| solve_alone(problem.clone(), Asked::surely(), small(aim, columns)));
            match proof.cost < INFEASIBLE {
                true => assert_eq!(proof.states, both.states),
                false => assert!(!proof.proven || least == INFEASIBLE),
            }
            assert!(!proof.proven || movement(proof.cost) == movement(least));
            assert_eq!(assignment.states, both.states);
            assert!(assignment.bound <= both.bound);
            found[0] += usize::from(proof.proven);
            found[1] += usize::from(!proof.proven);
            found[2] += usize::from(assignment.bound < both.bound);
        }
        assert!(found.iter().all(|&n| 20 < n), "{found:?}");
    }

    #[test]
    fn what_is_near_is_improved_alone_where_there_are_many_variables() {
        let limits = Limits {
            near: 0,
            columns: 0,
            ..SMALL
        };
        let mut seed = 0xE703_7ED1_A0B4_28DB;
        let (mut better, mut dearer) = (0, 0);
        for _ in 0..400 {
            let problem = problem(&mut seed);
            let state = |&n: &usize| (random(&mut seed) % n as u64) as usize;
            let near: Vec<usize> = problem.domains.iter().map(state).collect();
            let before = evaluate(&problem, &near);
            let starts = Starts {
                near: Some(near),
                safe: &mut || None,
                asked: Asked::surely(),
                aim: Aim::Both,
            };
            let solution = solve_with(problem.clone(), starts, limits);
            assert!(solution.cost <= before && solution.bound <= brute(&problem));
            better += usize::from(solution.cost < before);
            dearer += usize::from(brute(&problem) < solution.cost);
        }
        assert!(
            200 < better && 0 < dearer,
            "{better} better, {dearer} dearer"
        );
    }

    /// A problem like a dense block of width `n`: groups that are each read by all later nodes.
    fn dense(n: usize, states: usize, seed: &mut u64) -> Problem {
        let mut problem = Problem::over(vec![states; 2 * n], ());
        for node in 0..n {
            for group in 0..=node {
                let bytes = 1 + random(seed) % 50;
                let table = (0..states * states)
                    .map(|i| cost(if i / states == i % states { 0 } else { bytes }, 0));
                problem.factors.push(Factor {
                    vars: Vars::from_slice(&[group, n + node]),
                    table: table.collect(),
                });
            }
            let wish = (random(seed) % states as u64) as usize;
            let bytes = 1 + random(seed) % 200;
            let table = (0..states).map(|s| cost(if s == wish { 0 } else { bytes }, 0));
            problem.factors.push(Factor {
                vars: Vars::from_slice(&[node]),
                table: table.collect(),
            });
        }
        problem
    }

    #[test]
    fn dense_blocks_are_solved_exactly_past_the_table_guard() {
        let mut seed = 0x1234_5678_9ABC_DEF1;
        for (n, states) in [(6, 3), (10, 2), (24, 2), (24, 3)] {
            let problem = dense(n, states, &mut seed);
            let solution = solve_alone(problem.clone(), Asked::surely(), LIMITS);
            assert!(solution.proven, "{n} groups of {states} states");
            if n <= 6 {
                assert_eq!(movement(solution.cost), movement(brute(&problem)));
            }
        }
    }

    #[test]
    fn the_relaxation_alone_proves_dense_blocks() {
        let mut seed = 0x1234_5678_9ABC_DEF1;
        for n in [6, 10, 24] {
            let problem = dense(n, 2, &mut seed);
            let mut known = Known::asked(Asked::surely());
            let programme = Programme::of(&problem, LIMITS).expect("it is small");
            let found = by_relaxation(&problem, &programme, None, LIMITS, &mut known);
            let found = found.expect("its solution is whole");
            let exact = solve_alone(problem.clone(), Asked::surely(), LIMITS);
            assert!(found.proven && movement(found.cost) == movement(exact.cost));
        }
    }

    #[test]
    fn what_is_looked_for_near_an_assignment_costs_no_more() {
        let mut seed = 0x9FB2_1C65_1E98_DF25;
        for _ in 0..400 {
            let problem = problem(&mut seed);
            let state = |&n: &usize| (random(&mut seed) % n as u64) as usize;
            let near: Vec<usize> = problem.domains.iter().map(state).collect();
            let before = evaluate(&problem, &near);
            let found = solve_near(&problem, Some(near));
            assert!(brute(&problem) <= found.cost && found.cost <= before);
        }
    }

    /// Sixty operations that each read two earlier values, near ones or any. They pay where the order differs. Every
    /// fifth one prefers an order of its own.
    fn random_graph(near: usize, seed: &mut u64) -> Problem {
        let (n, states) = (60, 3);
        let mut problem = Problem::over(vec![states; n], ());
        for node in 1..n {
            for _ in 0..2 {
                let back = 1 + (random(seed) % near.min(node) as u64) as usize;
                let bytes = 1 + random(seed) % 50;
                let turn = (random(seed) % 4 % states as u64) as usize;
                let fits = |i: usize| (i / states + turn) % states == i % states;
                let table = (0..states * states).map(|i| cost(if fits(i) { 0 } else { bytes }, 0));
                problem.factors.push(Factor {
                    vars: Vars::from_slice(&[node - back, node]),
                    table: table.collect(),
                });
            }
            if node % 5 == 0 {
                let wish = (random(seed) % states as u64) as usize;
                let table = (0..states).map(|s| if s == wish { 0 } else { cost(100, 0) });
                problem.factors.push(Factor {
                    vars: Vars::from_slice(&[node]),
                    table: table.collect(),
                });
            }
        }
        problem
    }

    #[test]
    fn random_graphs_are_solved_alike_by_elimination_and_by_programmes() {
        let core = Limits {
            table: 1 << 4,
            core: 1 << 4,
            ..LIMITS
        };
        let mut seed = 0x0F0F_1234_5678_9ABD;
        let (mut compared, mut proven) = (0, 0);
        for round in 0..12 {
            let near = if round % 2 == 0 { 5 } else { 60 };
            let problem = random_graph(near, &mut seed);
            let (exact, programme) = (
                solve_alone(problem.clone(), Asked::surely(), LIMITS),
                solve_alone(problem.clone(), Asked::surely(), core),
            );
            assert!(programme.bound <= exact.cost && exact.bound <= programme.cost);
            if exact.proven {
                assert!(exact.cost <= programme.cost);
                compared += 1;
            }
            if exact.proven && programme.proven {
                assert_eq!(movement(exact.cost), movement(programme.cost));
                proven += 1;
            }
        }
        assert!(
            6 <= compared && 6 <= proven,
            "{compared} compared, {proven} proven"
        );
    }
}
