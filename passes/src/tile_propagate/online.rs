//! Sums along which a softmax can be computed online.
//!
//! Example: a product reads `softmax(x) * 2`. The softmax is computed part by part of the product's sum: its numbers are
//! right up to a factor for each row, and so are their doubles.

use crate::tile_propagate::local::{Local, LocalSource};

/// A softmax that is computed online, part by part of a sum.
#[derive(Clone, Debug)]
pub(crate) struct OnlineCut {
    /// The softmax.
    pub(crate) op: usize,
    /// The other sums that read it, along the same axis: the operation, and the number of the reduction.
    pub(crate) sums: Vec<(usize, usize)>,
}

/// The softmax that a sum reads along the axis that the sum accumulates over, directly or through operations whose
/// results are proportional to it. Nothing but such sums may read it.
pub(crate) fn online_cut(local: &Local, sum: (usize, usize)) -> Option<OnlineCut> {
    let (at, which) = sum;
    let domain = &local.ops[at].kind.domain;
    let sources = local.ops[at].operands.iter().enumerate();
    let mut found = sources.filter_map(|(i, source)| {
        let LocalSource::Inside(from, 0) = *source else {
            return None;
        };
        let dims = 0..local.ops[at].kind.operands[i].dims.len();
        let mut dims = dims.filter(|&d| domain.reduction_along(i, d) == Some(which));
        softmax(local, from, dims.next()?)
    });
    let op = found.next()?;
    let dim = local.ops[op].kind.domain.online_dim()?;
    let mut seen = vec![false; local.ops.len()];
    let mut sums = Vec::new();
    add_sums(local, (op, dim), &mut seen, &mut sums)?;
    sums.retain(|&other| other != sum);
    Some(OnlineCut { op, sums })
}

/// The softmax along a dimension of an operation's result, which is the softmax or proportional to it.
fn softmax(local: &Local, mut at: usize, mut dim: usize) -> Option<usize> {
    loop {
        let op = &local.ops[at];
        if op.kind.domain.online_dim() == Some(dim) {
            return Some(at);
        }
        let sources = op.operands.iter().enumerate();
        let mut next = sources.filter_map(|(i, source)| match *source {
            LocalSource::Inside(from, 0) if op.kind.proportional[i] => {
                let passed = op.kind.domain.passed(i)?;
                Some((from, passed.iter().position(|d| *d == Some(dim))?))
            }
            _ => None,
        });
        (at, dim) = next.next()?;
    }
}

/// Adds the sums that read an operation's result along a dimension, directly or through operations whose results are
/// proportional to it. `None` if anything else reads it, or if an operation reads it twice.
fn add_sums(
    local: &Local,
    (at, dim): (usize, usize),
    seen: &mut [bool],
    sums: &mut Vec<(usize, usize)>,
) -> Option<()> {
    if local.ops[at].live_out.iter().any(|&l| l) {
        return None;
    }
    for (reader, op) in local.ops.iter().enumerate().skip(at + 1) {
        let reads = |s: &LocalSource| matches!(*s, LocalSource::Inside(from, _) if from == at);
        let mut operands = (0..op.operands.len()).filter(|&i| reads(&op.operands[i]));
        let Some(i) = operands.next() else {
            continue;
        };
        if operands.next().is_some() || std::mem::replace(&mut seen[reader], true) {
            return None;
        }
        let domain = &op.kind.domain;
        match domain.reduction_along(i, dim) {
            Some(which) => {
                domain.kept(i, dim)?;
                sums.push((reader, which));
            }
            None if op.kind.proportional[i] => {
                add_sums(local, (reader, domain.passed(i)?[dim]?), seen, sums)?;
            }
            None => return None,
        }
    }
    Some(())
}
