//! Element maps: for each element of a value, the element of another value that it is.

use optc_layout::{Layout, ViewMap};

/// A map from each element of a value to an element of a source: a layout function that gives the source's row-major
/// numbers, then the steps after it that no layout function can express, adjacent steps joined.
#[derive(Clone, Debug)]
pub(crate) struct ElementMap {
    start: Layout,
    steps: Vec<ViewMap>,
}

impl ElementMap {
    /// The most steps that are followed. Joining looks only at the last step, comparing at all of them.
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

    /// Appends a step; `None` if the step does not fit, or if there are too many steps.
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

    /// Returns whether the two are one function: undoing the other's steps must leave the other's start. The steps need
    /// not begin at the same place.
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
