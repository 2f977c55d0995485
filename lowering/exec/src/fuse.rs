//! Fuses element-wise operations into one step, so that intermediate values are never written.
//!
//! An operation joins its users if these are all one step already, of the same shape. The step runs at the position of its
//! last operation. Operands of earlier operations must still have their values there: no step in between may write to them,
//! and the result must not overlap them, unless it has exactly the same bytes in the same order.

use crate::job::{FARTHEST, ReadInstead};
use crate::ops::{Chain, Piece, Site, pieces};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Op, Value};
use optc_kernels::links::{ChainOp, From, MOST_CODES, MOST_OPERANDS};

/// Operations that are fused into one step.
#[derive(Debug, Default)]
struct Group {
    /// Indices of steps, the last first.
    members: Vec<usize>,
    operands: IndexSet<Value>,
}

struct Fusion<'a> {
    site: Site<'a>,
    /// The operation of each step.
    steps: &'a [Op],
    codes: Vec<Option<Vec<Piece>>>,
    /// The step that each step has been fused into; itself if it has not.
    roots: Vec<usize>,
    groups: Vec<Group>,
}

/// Result of fusion for a step.
#[derive(Debug)]
pub(crate) enum Fused {
    Stays,
    /// The step has been fused into another one.
    Gone,
    /// The step is a chain of several operations, with their operands.
    Chain(Box<Chain>, Vec<Value>, Vec<Op>),
}

/// Fuses steps. `kernels` says which steps have a kernel of their own; values of `instead` have other readers and stay.
/// `site` is at any operation of the function.
pub(crate) fn fuse(
    steps: &[Op],
    kernels: &[bool],
    instead: &ReadInstead,
    site: Site<'_>,
) -> Vec<Fused> {
    let codes: Vec<Option<Vec<Piece>>> = steps
        .iter()
        .zip(kernels)
        .map(|(&op, kernel)| kernel.then(|| pieces(&site.at(op)))?)
        .collect();
    let mut fusion = Fusion {
        site,
        roots: (0..steps.len()).collect(),
        groups: steps.iter().map(|_| Group::default()).collect(),
        codes,
        steps,
    };
    fusion.join(instead);
    let mut made: Vec<Fused> = Vec::with_capacity(steps.len());
    for (root, group) in fusion.groups.iter().enumerate() {
        let several = fusion.roots[root] == root && 1 < group.members.len();
        let chain = several.then(|| chain(steps, group, &fusion.codes, site));
        made.push(match chain.flatten() {
            Some((chain, operands)) => {
                let members = group.members.iter().map(|&member| steps[member]);
                Fused::Chain(Box::new(chain), operands, members.collect())
            }
            None => Fused::Stays,
        });
    }
    for (number, &root) in fusion.roots.iter().enumerate() {
        if root != number && matches!(made[root], Fused::Chain(..)) {
            made[number] = Fused::Gone;
        }
    }
    made
}

/// The chain of a group's operations, in order, with its operands.
fn chain(
    steps: &[Op],
    group: &Group,
    codes: &[Option<Vec<Piece>>],
    site: Site<'_>,
) -> Option<(Chain, Vec<Value>)> {
    let mut links = Vec::new();
    let mut made: IndexMap<Value, usize> = IndexMap::new();
    for &member in group.members.iter().rev() {
        let data = &site.func.ops[steps[member]];
        let from = |&value: &Value| match made.get(&value) {
            Some(&link) => Some(From::Code(link)),
            None => group.operands.get_index_of(&value).map(From::Operand),
        };
        let mut first = from(data.operands.first()?)?;
        for piece in codes[member].as_ref()? {
            let second = piece.second.map(|i| from(data.operands.get(i)?));
            let second = match second {
                Some(second) => second?,
                None => first,
            };
            links.push(ChainOp {
                code: piece.code,
                kind: piece.kind,
                from: [first, second],
            });
            first = From::Code(links.len() - 1);
        }
        made.insert(*data.results.first()?, links.len() - 1);
    }
    let root = steps[*group.members.first()?];
    let target = &site.slot(*site.func.ops[root].results.first()?)?.access;
    let shape = target.shape();
    let accesses: Option<Vec<_>> = group
        .operands
        .iter()
        .map(|&v| {
            let slot = site.slot(v)?;
            Some((slot.access.broadcast(&shape), slot.cells()?))
        })
        .collect();
    let chain = Chain::of(target, &accesses?, links)?;
    Some((chain, group.operands.iter().copied().collect()))
}

impl Fusion<'_> {
    fn join(&mut self, instead: &ReadInstead) {
        let func = self.site.func;
        let mut users: IndexMap<Value, Vec<Option<usize>>> = IndexMap::new();
        let number: IndexMap<Op, usize> = self
            .steps
            .iter()
            .enumerate()
            .map(|(i, &op)| (op, i))
            .collect();
        for &op in &func.body {
            for &value in &func.ops[op].operands {
                users
                    .entry(value)
                    .or_default()
                    .push(number.get(&op).copied());
            }
        }
        for &value in func.results.iter().chain(&instead.values) {
            users.entry(value).or_default().push(None);
        }
        for step in (0..self.steps.len()).rev() {
            if self.codes[step].is_none() {
                continue;
            }
            let data = &func.ops[self.steps[step]];
            let readers = data.results.first().and_then(|v| users.get(v));
            let root = readers.and_then(|readers| self.joined(step, readers));
            let root = root.unwrap_or(step);
            self.roots[step] = root;
            let group = &mut self.groups[root];
            group.members.push(step);
            if let Some(result) = data.results.first() {
                group.operands.shift_remove(result);
            }
            group.operands.extend(data.operands.iter().copied());
        }
    }

    /// The step that all users of an operation's result have been fused into, if the operation can join it.
    fn joined(&self, step: usize, readers: &[Option<usize>]) -> Option<usize> {
        let root = self.roots[(*readers.first()?)?];
        let all = readers.iter().all(|reader| {
            reader.is_some_and(|reader| self.codes[reader].is_some() && self.roots[reader] == root)
        });
        let group = &self.groups[root];
        let func = self.site.func;
        let data = &func.ops[self.steps[step]];
        let result = *data.results.first()?;
        let last = *func.ops[self.steps[root]].results.first()?;
        let (own, target) = (self.site.slot(result)?, self.site.slot(last)?);
        let few = group.members.len() < MOST_CODES
            && group.operands.len() + data.operands.len() <= MOST_OPERANDS + 1;
        let fits =
            all && few && root - step <= FARTHEST && own.access.shape() == target.access.shape();
        let stays = |&value: &Value| {
            let Some(slot) = self.site.slot(value) else {
                return false;
            };
            let kept = (step + 1..root)
                .all(|i| self.roots[i] != i || !self.site.writes(self.steps[i], slot));
            let exact = slot.range() == target.range() && slot.access == target.access;
            kept && (exact || !slot.overlaps(target))
        };
        (fits && data.operands.iter().all(stays)).then_some(root)
    }
}
