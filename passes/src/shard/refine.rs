//! The choice improved along a few axes of the mesh at a time.
//!
//! The states of an operation are the combinations of its splits over all axes, too many for the exact search where
//! operations share many values. The splits over one axis beside given ones over the others are few: the search is exact
//! there, and moves all operations at once.

use super::problem::Choice;
use indexmap::IndexMap;
use optc_ir::shard::Sharding;
use optc_solver::{Aim, Asked, Solution, Starts, Written};

/// The most operations of a program whose choice is improved.
const MOST_OPS: usize = 1 << 10;

/// The most times that every set of axes is tried.
const ROUNDS: usize = 8;

/// The most axes whose splits are chosen at once.
const MOST_AXES: usize = 2;

impl Choice<'_> {
    /// The cheapest of the solution and the starts, each improved along single axes and pairs of them. The bound stays
    /// that of the solution.
    pub(super) fn refined(
        &self,
        written: &Written,
        found: Solution,
        starts: [&Vec<usize>; 2],
    ) -> Solution {
        let n_axes = self.given.links.0.len();
        if found.proven || n_axes < 2 || MOST_OPS < self.ops.len() {
            return found;
        }
        let mut best = found;
        for start in [best.states.clone()].iter().chain(starts) {
            let mut states = start.clone();
            for most in 1..=MOST_AXES.min(n_axes - 1) {
                best.summed += self.descend(written, &mut states, &sets(n_axes, most));
            }
            let cost = written.cost(&states);
            if cost < best.cost {
                best = Solution {
                    states,
                    cost,
                    ..best
                };
            }
        }
        best
    }

    /// Chooses the splits over each set of axes anew, until none of them improves the choice. Returns the entries of the
    /// tables that were summed.
    fn descend(&self, written: &Written, states: &mut Vec<usize>, sets: &[Vec<usize>]) -> usize {
        let mut cost = written.cost(states);
        let (mut idle, mut summed) = (0, 0);
        for axes in sets.iter().cycle().take(ROUNDS * sets.len()) {
            let (lists, of) = self.along(axes, states);
            let place =
                |(var, state): (usize, &usize)| lists[of[var]].iter().position(|s| s == state);
            let near = states.iter().enumerate().map(|v| place(v).unwrap_or(0));
            let found = written.within(&lists, &of).solve(Starts {
                near: Some(near.collect()),
                safe: &mut || None,
                asked: Asked::surely(),
                aim: Aim::Assignment,
            });
            summed += found.summed;
            let own = found.states.iter().zip(&of);
            let own: Vec<usize> = own.map(|(&state, &list)| lists[list][state]).collect();
            let now = written.cost(&own);
            idle = if now < cost { 0 } else { idle + 1 };
            if now < cost {
                (*states, cost) = (own, now);
            }
            if idle == sets.len() {
                break;
            }
        }
        summed
    }

    /// The states of each variable that differ from the given one in the splits over these axes alone, as different lists
    /// and the number of the list of each variable.
    fn along(&self, axes: &[usize], states: &[usize]) -> (Vec<Vec<usize>>, Vec<usize>) {
        let rest = |sharding: &Sharding| {
            let kept = sharding.clone();
            axes.iter().fold(kept, |kept, &axis| kept.without(axis))
        };
        let mut lists = Vec::new();
        let mut known: IndexMap<(bool, usize, usize), usize> = IndexMap::new();
        let n_ops = self.ops.len();
        let of = states.iter().enumerate().map(|(var, &state)| {
            let is_op = var < n_ops;
            let list = match is_op {
                true => self.ops[var],
                false => self.values[var - n_ops],
            };
            *known.entry((is_op, list, state)).or_insert_with(|| {
                let same: Vec<usize> = match is_op {
                    true => {
                        let all = self.lists[list].all.iter();
                        let ports = all.map(|d| d.operands.iter().chain(&d.results).map(rest));
                        alike(
                            &ports.map(Iterator::collect).collect::<Vec<Vec<_>>>(),
                            state,
                        )
                    }
                    false => {
                        let all = self.stored[list].iter();
                        alike(&all.map(rest).collect::<Vec<_>>(), state)
                    }
                };
                lists.push(same);
                lists.len() - 1
            })
        });
        let of = of.collect();
        (lists, of)
    }
}

/// The places of the entries that equal the one at `at`.
fn alike<T: PartialEq>(all: &[T], at: usize) -> Vec<usize> {
    (0..all.len()).filter(|&i| all[i] == all[at]).collect()
}

/// The sets of this many axes.
fn sets(n_axes: usize, size: usize) -> Vec<Vec<usize>> {
    match size {
        1 => (0..n_axes).map(|a| vec![a]).collect(),
        _ => {
            let pairs = |a| (a + 1..n_axes).map(move |b| vec![a, b]);
            (0..n_axes).flat_map(pairs).collect()
        }
    }
}
