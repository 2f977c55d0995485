//! Fusion of operations with kernels, in order: bytes, prologues, element-wise chains, epilogues.

use crate::bytes::{in_bytes, of_floats};
use crate::epilogue::{EpilogueResult, Known, fuse_epilogues};
use crate::fuse::{Fused, fuse};
use crate::job::{Job, ReadInstead};
use crate::ops::{Family, Order, Orders, Site};
use crate::prologue::{PrologueResult, fuse_prologues};
use optc_ir::Op;

/// The kernels and summation orders of products, after prologues and norms have been fused. `floats` says whether products
/// of floats that equal bytes multiply the bytes.
pub(crate) fn products(jobs: &[&Job], site: Site<'_>, floats: bool) -> Orders {
    let ops: Vec<Op> = jobs.iter().map(|job| job.op).collect();
    let families: Vec<Option<Family>> = jobs.iter().map(|job| job.family()).collect();
    let prologues = fuse_prologues(&ops, &families, &ReadInstead::default(), site).into_iter();
    let order = |(prologue, job): (PrologueResult, &&Job)| match (prologue, &job.kernel) {
        (PrologueResult::Sum(kernel, _), _) => Some((job.op, Order::of(&*kernel))),
        (PrologueResult::Stays, Some(kernel)) if kernel.family() == Family::Contraction => {
            Some((job.op, Order::of(&**kernel)))
        }
        _ => None,
    };
    let mut orders: Orders = prologues.zip(jobs).filter_map(order).collect();
    if floats {
        let all = of_floats(jobs, site).into_iter();
        orders.extend(all.map(|op| (op, Order::EXACT)));
    }
    orders
}

/// The jobs after fusion: products of bytes, contractions with additions, convolutions with norms, element-wise chains, and
/// epilogues. `floats` says whether products of floats that equal bytes multiply the bytes.
pub(crate) fn joined(jobs: Vec<Job>, site: Site<'_>, floats: bool) -> Vec<Job> {
    let (jobs, bytes) = in_bytes(jobs, site, floats);
    let instead = ReadInstead::of(&jobs, bytes, site);
    let mut made = Vec::with_capacity(jobs.len());
    let mut kernels = Vec::with_capacity(jobs.len());
    let ops: Vec<Op> = jobs.iter().map(|job| job.op).collect();
    let families: Vec<Option<Family>> = jobs.iter().map(Job::family).collect();
    let prologues = fuse_prologues(&ops, &families, &instead, site);
    for (job, prologue) in jobs.into_iter().zip(prologues) {
        match prologue {
            PrologueResult::Gone => continue,
            PrologueResult::Stays => {
                // A kernel that copies bytes does not compute its operation, so it is not fused.
                let family = job.family();
                kernels.push(family.is_some_and(|family| family != Family::CopiedBytes));
                made.push(job);
            }
            PrologueResult::Sum(kernel, operands) => {
                kernels.push(false);
                made.push(job.with(kernel, operands, site));
            }
        }
    }
    let jobs = std::mem::take(&mut made);
    let ops: Vec<Op> = jobs.iter().map(|job| job.op).collect();
    let mut chains = Vec::with_capacity(jobs.len());
    for (job, fused) in jobs.into_iter().zip(fuse(&ops, &kernels, &instead, site)) {
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
    let epilogues = fuse_epilogues(&known.collect::<Vec<_>>(), &instead, site);
    let jobs = made.into_iter().zip(epilogues);
    let jobs = jobs.filter_map(|(job, epilogue)| match epilogue {
        EpilogueResult::Stays => Some(job),
        EpilogueResult::Gone => None,
        EpilogueResult::Sum(kernel, operands) => Some(job.with(kernel, operands, site)),
    });
    jobs.collect()
}
