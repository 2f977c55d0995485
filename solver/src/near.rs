//! The variables that share tables with one variable, and how many tables each shares.

use crate::maps::FastMap;
use smallvec::SmallVec;

/// Adjacent variables with counts: a list if there are few, else a map.
#[derive(Clone, Debug, Default)]
pub(crate) struct Near {
    few: SmallVec<[(u32, u32); 6]>,
    many: Option<Box<FastMap<u32, u32>>>,
}

/// The most variables that are searched in a list.
const FEW: usize = 24;

/// The stored form of a variable; there are fewer than 2^32.
fn short(var: usize) -> u32 {
    u32::try_from(var).unwrap_or(u32::MAX)
}

impl Near {
    /// Counts one more table that is shared with a variable.
    pub(crate) fn join(&mut self, var: usize) {
        let var = short(var);
        if let Some(many) = &mut self.many {
            *many.entry(var).or_default() += 1;
            return;
        }
        let len = self.few.len();
        match self.few.iter_mut().find(|(v, _)| *v == var) {
            Some((_, n)) => *n += 1,
            None if len < FEW => self.few.push((var, 1)),
            None => {
                let all = self.few.drain(..).chain([(var, 1)]);
                self.many = Some(Box::new(all.collect()));
            }
        }
    }

    /// Counts one table less that is shared with a variable. A variable with none is no longer adjacent.
    pub(crate) fn part(&mut self, var: usize) {
        let var = short(var);
        if let Some(many) = &mut self.many {
            if let Some(n) = many.get_mut(&var) {
                *n -= 1;
                if *n == 0 {
                    many.swap_remove(&var);
                }
            }
            return;
        }
        if let Some(at) = self.few.iter().position(|(v, _)| *v == var) {
            self.few[at].1 -= 1;
            if self.few[at].1 == 0 {
                self.few.swap_remove(at);
            }
        }
    }

    /// The number of adjacent variables.
    pub(crate) fn len(&self) -> usize {
        self.many.as_ref().map_or(self.few.len(), |many| many.len())
    }

    /// The adjacent variables, in no order.
    pub(crate) fn vars(&self) -> impl ExactSizeIterator<Item = usize> {
        (0..self.len()).map(|i| match &self.many {
            Some(many) => many.get_index(i).map_or(0, |(v, _)| *v as usize),
            None => self.few[i].0 as usize,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn few_and_many_variables_are_beside_alike() {
        for n in [3, FEW, FEW + 1, 100] {
            let mut near = Near::default();
            for round in 0..2 {
                (0..n).for_each(|v| near.join(v));
                assert_eq!(near.len(), n, "round {round}");
            }
            (0..n).step_by(2).for_each(|v| near.part(v));
            assert_eq!(near.len(), n);
            (0..n).step_by(2).for_each(|v| near.part(v));
            let mut left: Vec<usize> = near.vars().collect();
            left.sort_unstable();
            assert_eq!(left, (1..n).step_by(2).collect::<Vec<_>>());
        }
    }
}
