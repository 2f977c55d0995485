//! Operations with their kernels, and which of them become one.

use crate::begin::{Begun, begin};
use crate::finish::{Finished, Known, finish};
use crate::fuse::{Fused, fuse};
use crate::memory::Slot;
use crate::ops::{CONTRACT, Kernel, Orders, Site, order_of};
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

/// The products of some jobs when additions have become their beginnings, and the convolutions that norms have become.
pub(crate) fn products(jobs: &[&Job], site: Site<'_>) -> Orders {
    let ops: Vec<Op> = jobs.iter().map(|job| job.op).collect();
    let names: Vec<Option<&str>> = jobs.iter().map(|job| job.name()).collect();
    let begun = begin(&ops, &names, site).into_iter();
    let order = |(begun, job): (Begun, &&Job)| match (begun, &job.kernel) {
        (Begun::Sum(kernel, _), _) => Some((job.op, order_of(&*kernel))),
        (Begun::Stays, Some(kernel)) if kernel.name() == CONTRACT => {
            Some((job.op, order_of(&**kernel)))
        }
        _ => None,
    };
    begun.zip(jobs).filter_map(order).collect()
}

/// The jobs, a contraction and what is added to it as one, a convolution and the norm of it, element-wise ones that follow one another, and what is made of sums.
pub(crate) fn joined(jobs: Vec<Job>, site: Site<'_>) -> Vec<Job> {
    let mut made = Vec::with_capacity(jobs.len());
    let mut kernels = Vec::with_capacity(jobs.len());
    let ops: Vec<Op> = jobs.iter().map(|job| job.op).collect();
    let names: Vec<Option<&str>> = jobs.iter().map(Job::name).collect();
    let begun = begin(&ops, &names, site);
    for (job, begun) in jobs.into_iter().zip(begun) {
        match begun {
            Begun::Gone => continue,
            Begun::Stays => {
                kernels.push(job.name().is_some());
                made.push(job);
            }
            Begun::Sum(kernel, operands) => {
                kernels.push(false);
                made.push(job.with(kernel, operands, site));
            }
        }
    }
    let jobs = std::mem::take(&mut made);
    let ops: Vec<Op> = jobs.iter().map(|job| job.op).collect();
    let mut chains = Vec::with_capacity(jobs.len());
    for (job, fused) in jobs.into_iter().zip(fuse(&ops, &kernels, site)) {
        let (job, links) = match fused {
            Fused::Gone => continue,
            Fused::Stays => (job, None),
            Fused::Chain(chain, operands, members) => {
                let links = chain.links().to_vec();
                (job.with(chain, operands, site), Some((links, members)))
            }
        };
        made.push(job);
        chains.push(links);
    }
    let known = made.iter().zip(&chains).map(|(job, links)| Known {
        op: job.op,
        kernel: job.kernel.as_deref(),
        operands: &job.operands,
        several: links.as_ref().map(|(links, ops)| (&links[..], &ops[..])),
    });
    let finished = finish(&known.collect::<Vec<_>>(), site);
    let jobs = made.into_iter().zip(finished);
    let jobs = jobs.filter_map(|(job, finished)| match finished {
        Finished::Stays => Some(job),
        Finished::Gone => None,
        Finished::Sum(kernel, operands) => Some(job.with(kernel, operands, site)),
    });
    jobs.collect()
}

impl Job {
    /// The name of its kernel.
    fn name(&self) -> Option<&'static str> {
        self.kernel.as_ref().map(|kernel| kernel.name())
    }

    /// The job with the work of several.
    fn with(mut self, kernel: Box<dyn Kernel>, operands: Vec<Value>, site: Site<'_>) -> Job {
        let all = operands.iter().chain(&site.func.ops[self.op].results);
        self.bytes = all.filter_map(|&v| site.slot(v)).map(Slot::touched).sum();
        self.kernel = Some(kernel);
        self.operands = operands;
        self
    }
}
