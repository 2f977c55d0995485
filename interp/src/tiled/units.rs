//! The order in which operations and groups run.

use super::error::TileFault;
use optc_ir::entity::EntityId;
use optc_ir::tile::Plan;
use optc_ir::{Func, Op, ValueDef};
use std::collections::BTreeSet;

/// What runs at once.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Unit {
    /// One operation.
    Op(Op),
    /// The group of this number.
    Group(usize),
}

/// How a function runs.
pub(crate) struct Schedule {
    pub(crate) units: Vec<Unit>,
    /// The values that something outside of their own group uses, by number.
    pub(crate) escapes: Vec<bool>,
}

/// The units of a function, and which values leave their groups.
///
/// # Errors
/// As [`units`].
pub(crate) fn schedule(func: &Func, plan: Option<&Plan>) -> Result<Schedule, (Op, TileFault)> {
    let escapes = Plan::escapes(plan, func);
    let units = units(func, plan)?;
    Ok(Schedule { units, escapes })
}

/// The units of a function so that each comes after what it needs: the order of the body, groups
/// as late as nothing forbids.
///
/// # Errors
/// A group needs a value that is computed from its own results.
fn units(func: &Func, plan: Option<&Plan>) -> Result<Vec<Unit>, (Op, TileFault)> {
    let Some(plan) = plan else {
        return Ok(func.body.iter().map(|&op| Unit::Op(op)).collect());
    };
    let unit_of = |op: Op| match plan.tiles.get(&op) {
        Some(tile) => Unit::Group(tile.group),
        None => Unit::Op(op),
    };
    // Numbered in the order of their first operation.
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
    let mut waits: Vec<usize> = vec![0; all.len()];
    for &op in &func.body {
        let reader = number[op.index()];
        for &operand in &func.ops[op].operands {
            let ValueDef::Result(writer, _) = func.values[operand].def else {
                continue;
            };
            let Some(&writer) = number.get(writer.index()).filter(|n| **n < all.len()) else {
                continue;
            };
            if writer != reader && readers[writer].insert(reader) {
                waits[reader] += 1;
            }
        }
    }
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
    match (0..all.len()).find(stuck) {
        Some(unit) => {
            let Unit::Group(group) = all[unit] else {
                return Ok(order);
            };
            match plan.groups[group].ops.first() {
                Some(&op) => Err((op, TileFault::Cycle { group })),
                None => Ok(order),
            }
        }
        None => Ok(order),
    }
}
