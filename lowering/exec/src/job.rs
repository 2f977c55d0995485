//! An operation to run, with its kernel.

use crate::memory::Slot;
use crate::ops::{Bytes, Kernel, Site};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Op, Value};

/// One operation, or several that are one.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) op: Op,
    /// None of one that is not run by a kernel.
    pub(crate) kernel: Option<Box<dyn Kernel>>,
    /// What it reads: of several operations, the operands of all.
    pub(crate) operands: Vec<Value>,
    /// Bytes of its operands and results.
    pub(crate) bytes: u64,
}

impl Job {
    /// The name of its kernel.
    pub(crate) fn name(&self) -> Option<&'static str> {
        self.kernel.as_ref().map(|kernel| kernel.name())
    }

    /// The job with the work of several.
    pub(crate) fn with(
        mut self,
        kernel: Box<dyn Kernel>,
        operands: Vec<Value>,
        site: Site<'_>,
    ) -> Job {
        self.set(kernel, operands, site);
        self
    }

    /// Gives it another kernel, with what this reads.
    pub(crate) fn set(&mut self, kernel: Box<dyn Kernel>, operands: Vec<Value>, site: Site<'_>) {
        let all = operands.iter().chain(&site.func.ops[self.op].results);
        self.bytes = all.filter_map(|&v| site.slot(v)).map(Slot::touched).sum();
        self.kernel = Some(kernel);
        self.operands = operands;
    }
}

/// What jobs read that is no operand of their operations.
#[derive(Debug, Default)]
pub(crate) struct Instead {
    /// What products multiply in the place of operands.
    pub(crate) products: IndexMap<Op, Bytes>,
    /// What is in memory for those who read it, whatever operations do so.
    pub(crate) values: IndexSet<Value>,
}

impl Instead {
    /// What some jobs read, of which these multiply something else.
    pub(crate) fn of(jobs: &[Job], products: IndexMap<Op, Bytes>, site: Site<'_>) -> Instead {
        let others = jobs.iter().flat_map(|job| {
            let own = &site.func.ops[job.op].operands;
            job.operands.iter().filter(|value| !own.contains(value))
        });
        Instead {
            values: others.copied().collect(),
            products,
        }
    }
}
