//! Integer programmes for the problems that variable elimination leaves, solved by branch and bound over linear
//! relaxations.
//!
//! Each state of a variable is a column that is 0 or 1; exactly one column of a variable is 1. A table over several
//! variables adds a column between 0 and 1 for each allowed entry. For each variable and set of states its rows demand
//! that the entries with these states sum up to the columns of the states. States that a table does not distinguish
//! share a row. The relaxation is the tightest one that considers one table at a time.
//!
//! Example: two variables of 2 states and a table that forbids equal states have 2 + 2 state columns and 2 entry
//! columns. The entry (0, 1) equals the first column of the first variable and the second column of the second.
//!
//! Bytes are counted in units of their greatest common divisor, so that the solver's floating-point numbers are small
//! integers. The caller evaluates the result again in integers.

use crate::problem::{Factor, INFEASIBLE, Limits, Problem, Word, movement};
use indexmap::IndexMap;
use microlp::{
    ComparisonOp, LinearExpr, OptimizationDirection, SolveOptions, SolveOutcome, Variable,
};

/// The result of a programme.
#[derive(Clone, Debug)]
pub(crate) struct Found {
    /// The best assignment, if there is one.
    pub(crate) states: Option<Vec<usize>>,
    /// A lower bound of the bytes of every assignment.
    pub(crate) bound: u64,
}

/// The programme of a problem.
pub(crate) struct Programme<'a, W: Word> {
    problem: &'a Problem<W>,
    lp: microlp::Problem,
    /// Per variable and state: its column, if the state is allowed.
    columns: Vec<Vec<Option<Variable>>>,
    /// The greatest common divisor of all bytes.
    unit: u64,
    left: usize,
}

/// The bytes of a cost; `None` where the cost means forbidden.
fn bytes<W: Word>(word: W, units: W::Units) -> Option<u64> {
    let cost = word.cost(units);
    (cost < INFEASIBLE).then(|| movement(cost))
}

impl<'a, W: Word> Programme<'a, W> {
    /// The programme of a problem; `None` if it would exceed the limits.
    pub(crate) fn of(problem: &'a Problem<W>, limits: Limits) -> Option<Programme<'a, W>> {
        let mut programme = Programme::new(problem, limits.columns)?;
        for factor in problem.factors.iter().filter(|f| 1 < f.vars.len()) {
            programme.table(factor)?;
        }
        Some(programme)
    }

    /// Minimises the movement bytes; `None` if there is no solution.
    pub(crate) fn minimise(&self, start: Option<&[usize]>, limits: Limits) -> Option<Found> {
        let mut options = SolveOptions::default();
        options.node_limit = Some(limits.nodes);
        options.warm_start = start.map(|s| self.hint(s));
        match self.lp.solve_with(options).ok()? {
            SolveOutcome::Solution(solution) => {
                let bound = if solution.status() == microlp::SolutionStatus::Optimal {
                    solution.objective()
                } else {
                    solution.stats().best_bound.unwrap_or(0.0)
                };
                Some(Found {
                    states: self.states(|column| solution.var_value(column)),
                    bound: self.bytes(bound),
                })
            }
            SolveOutcome::Interrupted(stopped) => Some(Found {
                states: None,
                bound: self.bytes(stopped.stats().best_bound.unwrap_or(0.0)),
            }),
        }
    }

    fn new(problem: &'a Problem<W>, limit: usize) -> Option<Programme<'a, W>> {
        let bytes = |word| bytes(word, problem.units);
        let mut own: Vec<Vec<Option<u64>>> =
            problem.domains.iter().map(|&n| vec![Some(0); n]).collect();
        for factor in problem.factors.iter().filter(|f| f.vars.len() == 1) {
            for (sum, &cost) in own[factor.vars[0]].iter_mut().zip(factor.table.iter()) {
                *sum = sum.zip(bytes(cost)).map(|(a, b)| a.saturating_add(b));
            }
        }
        // Allowed states are columns whatever the tables contain. Most problems that are too large have too many of
        // them.
        if limit < own.iter().flatten().flatten().count() {
            return None;
        }
        let all = problem.factors.iter().flat_map(|f| f.table.iter());
        let unit = all.filter_map(|&c| bytes(c)).fold(0, gcd).max(1);
        let mut programme = Programme {
            problem,
            lp: microlp::Problem::new(OptimizationDirection::Minimize),
            columns: Vec::with_capacity(own.len()),
            unit,
            left: limit,
        };
        for costs in own {
            let mut columns = Vec::with_capacity(costs.len());
            for cost in costs {
                columns.push(match cost {
                    Some(cost) => {
                        programme.left = programme.left.checked_sub(1)?;
                        let cost = programme.units(cost);
                        Some(programme.lp.add_binary_var(cost))
                    }
                    None => None,
                });
            }
            let mut sum = LinearExpr::empty();
            columns.iter().flatten().for_each(|&c| sum.add(c, 1.0));
            programme.lp.add_constraint(sum, ComparisonOp::Eq, 1.0);
            programme.columns.push(columns);
        }
        Some(programme)
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "an objective; the result is evaluated exactly"
    )]
    fn units(&self, bytes: u64) -> f64 {
        (bytes / self.unit) as f64
    }

    /// A bound of the solver in bytes, with its tolerance subtracted, rounded up to whole units.
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "clamped to what fits; numbers below 0 are 0"
    )]
    fn bytes(&self, units: f64) -> u64 {
        let safe = units - 1e-6 * units.abs().max(1.0);
        (safe.max(0.0).ceil() as u64).saturating_mul(self.unit)
    }

    /// Adds the columns and rows of a table over two or more variables.
    fn table(&mut self, factor: &Factor<W>) -> Option<()> {
        let units = self.problem.units;
        let sizes: Vec<usize> = factor
            .vars
            .iter()
            .map(|&v| self.problem.domains[v])
            .collect();
        let classes: Vec<Vec<usize>> = (0..sizes.len())
            .map(|at| classes((factor, units), &sizes, at))
            .collect();
        let mut rows: Vec<Vec<LinearExpr>> = classes
            .iter()
            .map(|of| {
                let n = of.iter().max().map_or(0, |m| m + 1);
                (0..n).map(|_| LinearExpr::empty()).collect()
            })
            .collect();
        let mut seen: IndexMap<Vec<usize>, ()> = IndexMap::new();
        let mut index = vec![0usize; sizes.len()];
        for &cost in factor.table.iter() {
            let key: Vec<usize> = index.iter().zip(&classes).map(|(&s, of)| of[s]).collect();
            if let Some(cost) = bytes(cost, units)
                && !seen.contains_key(&key)
            {
                self.left = self.left.checked_sub(1)?;
                let column = self.lp.add_var(self.units(cost), (0.0, f64::INFINITY));
                for (row, &class) in rows.iter_mut().zip(&key) {
                    row[class].add(column, 1.0);
                }
                seen.insert(key, ());
            }
            step(&mut index, &sizes);
        }
        for (at, rows) in rows.into_iter().enumerate() {
            let states = self.columns[factor.vars[at]].clone();
            for (class, mut row) in rows.into_iter().enumerate() {
                for (state, column) in states.iter().enumerate() {
                    if classes[at][state] == class
                        && let Some(column) = column
                    {
                        row.add(*column, -1.0);
                    }
                }
                self.lp.add_constraint(row, ComparisonOp::Eq, 0.0);
            }
        }
        Some(())
    }

    fn hint(&self, states: &[usize]) -> Vec<(Variable, f64)> {
        let mut hint = Vec::new();
        for (columns, &chosen) in self.columns.iter().zip(states) {
            for (state, column) in columns.iter().enumerate() {
                hint.extend(column.map(|c| (c, if state == chosen { 1.0 } else { 0.0 })));
            }
        }
        hint
    }

    /// The state of each variable whose column is nearest to 1.
    fn states(&self, value: impl Fn(Variable) -> f64) -> Option<Vec<usize>> {
        let of = |columns: &Vec<Option<Variable>>| {
            let one = |c: &Option<Variable>| c.is_some_and(|c| 0.5 < value(c));
            columns.iter().position(one)
        };
        self.columns.iter().map(of).collect()
    }
}

/// The greatest common divisor of two numbers; that of 0 and `n` is `n`.
fn gcd(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

fn step(index: &mut [usize], sizes: &[usize]) {
    for (i, &n) in index.iter_mut().zip(sizes).rev() {
        *i += 1;
        if *i < n {
            return;
        }
        *i = 0;
    }
}

/// For each state of the variable at a position, the number of its class. States that the table does not distinguish
/// are in one class.
fn classes<W: Word>(
    (factor, units): (&Factor<W>, W::Units),
    sizes: &[usize],
    at: usize,
) -> Vec<usize> {
    let inner: usize = sizes[at + 1..].iter().product();
    let chunk = inner * sizes[at];
    let mut known: IndexMap<Vec<Option<u64>>, usize> = IndexMap::new();
    (0..sizes[at])
        .map(|state| {
            let rows = factor.table.chunks_exact(chunk.max(1));
            let slice: Vec<Option<u64>> = rows
                .flat_map(|r| &r[state * inner..(state + 1) * inner])
                .map(|&c| bytes(c, units))
                .collect();
            let next = known.len();
            *known.entry(slice).or_insert(next)
        })
        .collect()
}
