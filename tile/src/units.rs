//! The order in which operations and groups run.

use crate::plan::Plan;
use optc_ir::entity::EntityId;
use optc_ir::module::{Func, Op, ValueDef};
use optc_ir::op::{Registry, Structure};
use std::collections::BTreeSet;
use thiserror::Error;

/// Operations that run as one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unit {
    /// One operation; a constant always runs by itself.
    Op(Op),
    /// The group of this number.
    Group(usize),
}

/// A group needs a value that is computed from its own results.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Error)]
#[error("group {group} cannot run as one: it needs a value that is computed from its own results")]
pub struct Cycle {
    /// The group.
    pub group: usize,
    /// Its first operation.
    pub op: Op,
}

/// The units of a function in the order of their first operation, and for each unit the numbers of the units that read
/// its results.
#[must_use]
pub fn readers(func: &Func, plan: &Plan, registry: &Registry) -> (Vec<Unit>, Vec<BTreeSet<usize>>) {
    let unit_of = |op: Op| match plan.tiles.get(&op) {
        Some(tile) if registry.structure(&func.ops[op].name) != Structure::Constant => {
            Unit::Group(tile.group)
        }
        _ => Unit::Op(op),
    };
    let mut all: Vec<Unit> = Vec::new();
    let mut number: Vec<usize> = vec![usize::MAX; func.ops.len()];
    let mut of_group: Vec<Option<usize>> = vec![None; plan.groups.len()];
    for &op in &func.body {
        let unit = unit_of(op);
        let known = match unit {
            Unit::Group(group) => of_group[group],
            Unit::Op(_) => None,
        };
        number[op.index()] = known.unwrap_or_else(|| {
            all.push(unit);
            all.len() - 1
        });
        if let Unit::Group(group) = unit {
            of_group[group] = Some(number[op.index()]);
        }
    }
    let mut readers: Vec<BTreeSet<usize>> = vec![BTreeSet::new(); all.len()];
    for &op in &func.body {
        let reader = number[op.index()];
        for &operand in &func.ops[op].operands {
            let ValueDef::Result(writer, _) = func.values[operand].def else {
                continue;
            };
            let Some(&writer) = number.get(writer.index()).filter(|n| **n < all.len()) else {
                continue;
            };
            if writer != reader {
                readers[writer].insert(reader);
            }
        }
    }
    (all, readers)
}

/// The units of a function in topological order: the order of the body, with groups as late as possible.
///
/// # Errors
/// A group needs a value that is computed from its own results.
pub fn units(func: &Func, plan: &Plan, registry: &Registry) -> Result<Vec<Unit>, Cycle> {
    let (all, readers) = readers(func, plan, registry);
    let mut waits: Vec<usize> = vec![0; all.len()];
    readers.iter().flatten().for_each(|&r| waits[r] += 1);
    let mut ready: BTreeSet<usize> = (0..all.len()).filter(|&u| waits[u] == 0).collect();
    let mut order = Vec::with_capacity(all.len());
    while let Some(unit) = ready.pop_first() {
        order.push(all[unit]);
        for &reader in &readers[unit] {
            waits[reader] -= 1;
            if waits[reader] == 0 {
                ready.insert(reader);
            }
        }
    }
    let stuck = |u: &usize| 0 < waits[*u] && matches!(all[*u], Unit::Group(_));
    let Some(Unit::Group(group)) = (0..all.len()).find(stuck).map(|unit| all[unit]) else {
        return Ok(order);
    };
    match plan.groups[group].ops.first() {
        Some(&op) => Err(Cycle { group, op }),
        None => Ok(order),
    }
}
