//! Sums that are cut into parts: the axes of the grid that they run along, and the conditions on these axes.

use crate::span::Span;
use optc_ir::op::iteration_domain::IterationDomain;
use thiserror::Error;

/// The axes along which an operation accumulates, ascending.
///
/// An operation whose operands are sums themselves starts at the last step of their completion axes. It accumulates
/// only at those steps, so one sum runs inside another.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Sum {
    /// The axes that have more than one step.
    pub axes: Vec<usize>,
}

/// The reason why a cut sum is refused.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum SumError {
    /// Another axis starts the sum again before it is complete.
    #[error("adds up along g{along}, and g{faster}, along which it does not, runs faster")]
    Order {
        /// The first axis of the sum.
        along: usize,
        /// The other one.
        faster: usize,
    },
    /// The parts do not cover the sum with each element once.
    #[error(
        "adds up {found} elements in the parts `{span}` over {steps} steps, wanted each of {size} once"
    )]
    Parts {
        /// The part of a program.
        span: Box<Span>,
        /// The steps of its axes.
        steps: u64,
        /// The elements that the parts have together.
        found: u64,
        /// The elements of the sum.
        size: u64,
    },
    /// Two sums of one operation share an axis.
    #[error("adds up two sums along g{axis}, wanted an axis for each")]
    Shared {
        /// The axis.
        axis: usize,
    },
    /// There are more steps than are checked.
    #[error("adds up in {steps} steps, wanted at most {MAX_STEPS}")]
    Steps {
        /// The steps.
        steps: u64,
    },
}

/// The most steps of a sum that are checked one by one.
const MAX_STEPS: u64 = 1 << 16;

impl Sum {
    /// The sum of these parts in a grid of these extents.
    #[must_use]
    pub fn of(reduce: &[Span], grid: &[u64]) -> Sum {
        let mut axes = Vec::new();
        for span in reduce {
            span.start.axes(&mut |axis| axes.push(axis));
        }
        axes.sort_unstable();
        axes.dedup();
        axes.retain(|&a| grid.get(a).is_some_and(|&n| 1 < n));
        Sum { axes }
    }

    /// The completion axes of the sum in an operation whose operands have the completion axes `before`.
    #[must_use]
    pub fn after(&self, mut before: Vec<usize>) -> Vec<usize> {
        before.extend(&self.axes);
        before.sort_unstable();
        before.dedup();
        before
    }

    /// The completion axes of the results of an operation with these loops that is cut along the axes of the sum, and
    /// whose operands have the completion axes `before`. A value that is computed online is available at every step.
    #[must_use]
    pub fn complete_after(&self, domain: &IterationDomain, before: Vec<usize>) -> Vec<usize> {
        match domain.online() {
            Some(_) => before,
            None => self.after(before),
        }
    }

    /// Checks that no axis runs faster than the outermost axis of the sum, except the sum's axes and the completion
    /// axes of its operands (`before`). `run` has all axes, the outermost first.
    ///
    /// # Errors
    /// Another axis runs faster.
    pub fn check_order(
        &self,
        run: &[usize],
        before: &[usize],
        grid: &[u64],
    ) -> Result<(), SumError> {
        let Some(first) = run.iter().position(|a| self.axes.contains(a)) else {
            return Ok(());
        };
        let foreign = |a: &&usize| 1 < grid[**a] && !self.axes.contains(a) && !before.contains(a);
        match run[first..].iter().find(foreign) {
            Some(&faster) => Err(SumError::Order {
                along: run[first],
                faster,
            }),
            None => Ok(()),
        }
    }

    /// Checks that the parts of each sum cover it, each element once. `reduce` has the part of a program for each sum,
    /// `sizes` the numbers of elements.
    ///
    /// # Errors
    /// The parts do not cover a sum, or there are too many steps to check.
    pub fn check_parts(reduce: &[Span], sizes: &[u64], grid: &[u64]) -> Result<(), SumError> {
        let mut seen = vec![false; grid.len()];
        for (span, &size) in reduce.iter().zip(sizes) {
            let own = Sum::of(std::slice::from_ref(span), grid);
            for &axis in &own.axes {
                if std::mem::replace(&mut seen[axis], true) {
                    return Err(SumError::Shared { axis });
                }
            }
            own.check_part(span, size, grid)?;
        }
        Ok(())
    }

    fn check_part(&self, span: &Span, size: u64, grid: &[u64]) -> Result<(), SumError> {
        let extents = self.axes.iter().map(|&a| grid[a]);
        let steps = extents.fold(1, u64::saturating_mul);
        if MAX_STEPS < steps {
            return Err(SumError::Steps { steps });
        }
        let mut index = vec![0i64; grid.len()];
        let mut parts = Vec::new();
        for n in 0..steps {
            let mut rest = n;
            for &a in &self.axes {
                index[a] = (rest % grid[a]).cast_signed();
                rest /= grid[a];
            }
            parts.push(span.clipped(&index, size));
        }
        parts.retain(|part| part.start < part.end);
        parts.sort_unstable_by_key(|part| (part.start, part.end));
        let mut end = 0;
        let mut once = true;
        for part in &parts {
            once &= part.start == end;
            end = part.end;
        }
        if once && end == size {
            return Ok(());
        }
        let lengths = parts.iter().map(|part| part.end - part.start);
        Err(SumError::Parts {
            span: Box::new(span.clone()),
            steps,
            found: lengths.fold(0, u64::saturating_add),
            size,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(text: &str, size: u64, grid: &[u64]) -> Result<(), SumError> {
        Sum::check_parts(&[Span::parse(text).unwrap()], &[size], grid)
    }

    #[test]
    fn parts_are_all_of_a_sum_and_each_once() {
        assert_eq!(parts("4 @ g0 * 4", 12, &[3]), Ok(()));
        assert_eq!(parts("5 @ g0 * 5", 12, &[3]), Ok(()));
        assert_eq!(parts("2 @ g0 * 6 + g1 * 2", 12, &[2, 3]), Ok(()));
        assert_eq!(parts("12", 12, &[3]), Ok(()));
        for (text, grid, elements) in [
            ("5 @ g0 * 4", &[3u64][..], 14),
            ("4 @ g0 * 5", &[3], 10),
            ("4 @ g0 * 4", &[2], 8),
            ("4 @ g0 * 4 + 1", &[3], 11),
            ("4 @ (g0 floordiv 2) * 4", &[6], 24),
            ("4 @ (g0 mod 2) * 4", &[3], 12),
            ("5", &[1], 5),
        ] {
            match parts(text, 12, grid) {
                Err(SumError::Parts { found, .. }) => assert_eq!(found, elements, "{text}"),
                other => panic!("{text}: {other:?}"),
            }
        }
        let both = [
            Span::parse("2 @ g0 * 2").unwrap(),
            Span::parse("3 @ g0 * 3").unwrap(),
        ];
        let shared = Sum::check_parts(&both, &[4, 6], &[2]);
        assert_eq!(shared, Err(SumError::Shared { axis: 0 }));
    }

    #[test]
    fn a_sum_runs_inside_of_what_waits_for_it() {
        let sum = Sum { axes: vec![1] };
        let grid = [4, 8, 2];
        let order = |before: &[usize]| sum.check_order(&[0, 1, 2], before, &grid);
        assert_eq!(order(&[2]), Ok(()));
        assert_eq!(
            order(&[]),
            Err(SumError::Order {
                along: 1,
                faster: 2
            })
        );
        assert_eq!(sum.check_order(&[0, 2, 1], &[], &grid), Ok(()));
        assert_eq!(sum.after(vec![2]), [1, 2]);
    }
}
