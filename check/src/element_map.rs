//! Which element of another value each element of a value is, as a function.

use optc_layout::{Layout, ViewMap};

/// Which element of a source each element of a value is: a layout function of the source's row-major
/// numbers, then the steps after it that no layout function can follow, neighbours joined.
#[derive(Clone, Debug)]
pub(crate) struct ElementMap {
    start: Layout,
    steps: Vec<ViewMap>,
}

impl ElementMap {
    /// More steps than this are not followed: joining looks at the last alone, comparing at all.
    const STEPS: usize = 16;

    pub(crate) fn identity(shape: &[u64], bits: u32) -> ElementMap {
        ElementMap {
            start: Layout::row_major(shape, bits),
            steps: Vec::new(),
        }
    }

    pub(crate) fn shape(&self) -> &[u64] {
        match self.steps.last() {
            Some(step) => &step.result,
            None => self.start.shape(),
        }
    }

    /// `None` where the step does not fit, or the steps become too many.
    pub(crate) fn then(mut self, step: ViewMap) -> Option<ElementMap> {
        step.check(self.shape()).ok()?;
        let mut step = step;
        while let Some(last) = self.steps.pop() {
            match last.then(self.shape(), &step) {
                Some(joined) => step = joined,
                None => {
                    self.steps.push(last);
                    break;
                }
            }
        }
        if self.steps.is_empty()
            && let Ok(start) = optc_layout::propagate(&self.start, &step)
        {
            self.start = start;
            return Some(self);
        }
        self.steps.push(step);
        (self.steps.len() <= Self::STEPS).then_some(self)
    }

    /// Whether the two are one function: the other's steps undone, the other's start is left. Where the
    /// steps begin does not matter.
    pub(crate) fn same(&self, other: &ElementMap) -> bool {
        if self.shape() != other.shape() {
            return false;
        }
        let undone =
            other
                .steps
                .iter()
                .enumerate()
                .rev()
                .try_fold(self.clone(), |map, (i, step)| {
                    let before = i.checked_sub(1).map(|i| &other.steps[i].result[..]);
                    let from = before.unwrap_or(other.start.shape());
                    map.then(step.inverse(from).ok()?)
                });
        undone.is_some_and(|map| {
            map.steps.is_empty()
                && map.start.shape() == other.start.shape()
                && map.start.same_function(&other.start)
        })
    }
}
