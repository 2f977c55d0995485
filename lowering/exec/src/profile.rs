//! Time and traffic of a run, by step.

use std::time::Duration;

/// One step of a run.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct StepProfile {
    /// The operation, without its dialect.
    pub op: String,
    /// Its name or source location in the original format, if known.
    pub source: String,
    /// The kernel that ran it; `generic` for the declared semantics.
    pub kernel: &'static str,
    /// Start time, from the start of the run.
    pub begin: Duration,
    /// Elapsed time.
    pub time: Duration,
    /// Processor time, of all threads.
    pub cpu: Duration,
    /// Most threads that worked on it at once.
    pub threads: usize,
    /// Bytes of its operands and results, padding included.
    pub bytes: u64,
    /// Bytes read and written to gather operands into row-major order and to scatter results.
    pub staged: u64,
    /// Bytes read and written by loops that only move.
    pub moved: u64,
}

/// All steps of a run, except those with nothing to do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Profile {
    /// The steps, in order.
    pub steps: Vec<StepProfile>,
    /// Time of the whole run, arguments and results included.
    pub time: Duration,
}

impl Profile {
    /// Bytes of operands and results of all steps.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.steps.iter().map(|s| s.bytes).sum()
    }

    /// Bytes that steps moved without computing, staging included.
    #[must_use]
    pub fn moved(&self) -> u64 {
        self.steps.iter().map(|s| s.moved + s.staged).sum()
    }

    /// Bytes that were gathered into row-major order and scattered from it.
    #[must_use]
    pub fn staged(&self) -> u64 {
        self.steps.iter().map(|s| s.staged).sum()
    }
}
