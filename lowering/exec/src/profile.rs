//! What a run took and moved, step by step.

use std::time::Duration;

/// One step of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepProfile {
    /// The operation, without its dialect.
    pub op: String,
    /// Where it came from, if something is known.
    pub source: String,
    /// The kernel that ran it: `generic` for the way of all operations.
    pub kernel: &'static str,
    /// When it began, from the start of the run.
    pub begin: Duration,
    /// How long it took.
    pub time: Duration,
    /// For how long processors worked on it.
    pub cpu: Duration,
    /// The most threads that worked on it at once.
    pub threads: usize,
    /// Bytes of its operands and results, padding included.
    pub bytes: u64,
    /// Bytes that were read and written to bring operands into logical order and results out of it.
    pub staged: u64,
    /// Bytes that were read and written by loops that only move.
    pub moved: u64,
}

/// All steps of a run; those that move and compute nothing are left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The steps, in order.
    pub steps: Vec<StepProfile>,
    /// The whole run, arguments and results included.
    pub time: Duration,
}

impl Profile {
    /// The bytes of operands and results of all steps.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(|s| s.bytes).sum()
    }

    /// The bytes that steps moved without computing, staging included.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.steps.iter().map(|s| s.moved + s.staged).sum()
    }

    /// The bytes that were brought into logical order and out of it.
    #[must_use]
    pub fn staged(&self) -> u64 {
        self.steps.iter().map(|s| s.staged).sum()
    }
}
