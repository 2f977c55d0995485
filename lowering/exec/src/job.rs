//! Jobs: operations with their kernels, before they become steps.

use crate::memory::Slot;
use crate::ops::{Bytes, Family, Kernel, Site};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Op, Value};

/// Most steps between two that are fused. It keeps the search for partners linear in the program.
pub(crate) const FARTHEST: usize = 64;

/// One operation to run, or several that were fused.
#[derive(Debug)]
pub(crate) struct Job {
    pub(crate) op: Op,
    /// `None` if it is not run by a kernel.
    pub(crate) kernel: Option<Box<dyn Kernel>>,
    /// The values that it reads: for several operations, the operands of all.
    pub(crate) operands: Vec<Value>,
    /// Bytes of its operands and results.
    pub(crate) bytes: u64,
}

impl Job {
    /// The family of its kernel.
    pub(crate) fn family(&self) -> Option<Family> {
        self.kernel.as_ref().map(|kernel| kernel.family())
    }

    /// The job with another kernel and its operands.
    pub(crate) fn with(
        mut self,
        kernel: Box<dyn Kernel>,
        operands: Vec<Value>,
        site: Site<'_>,
    ) -> Job {
        self.set(kernel, operands, site);
        self
    }

    /// Replaces the kernel and its operands.
    pub(crate) fn set(&mut self, kernel: Box<dyn Kernel>, operands: Vec<Value>, site: Site<'_>) {
        let all = operands.iter().chain(&site.func.ops[self.op].results);
        self.bytes = all.filter_map(|&v| site.slot(v)).map(Slot::touched).sum();
        self.kernel = Some(kernel);
        self.operands = operands;
    }
}

/// Values that jobs read although they are no operands of their operations.
#[derive(Debug, Default)]
pub(crate) struct ReadInstead {
    /// The bytes that products multiply in place of their operands.
    pub(crate) products: IndexMap<Op, Bytes>,
    /// Values that are read by other jobs than their users.
    pub(crate) values: IndexSet<Value>,
}

impl ReadInstead {
    /// Collects the values that jobs read in place of operands; `products` have bytes in place of operands.
    pub(crate) fn of(jobs: &[Job], products: IndexMap<Op, Bytes>, site: Site<'_>) -> ReadInstead {
        let others = jobs.iter().flat_map(|job| {
            let own = &site.func.ops[job.op].operands;
            job.operands.iter().filter(|value| !own.contains(value))
        });
        ReadInstead {
            values: others.copied().collect(),
            products,
        }
    }
}
