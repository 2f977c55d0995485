//! Liveness: the operations that are not dead, and the step after which each value is dead.

use crate::effects::Effects;
use crate::entity::SideTable;
use crate::module::{Func, Op, Value};

/// The live operations: those that some result of the function depends on, and those with an effect besides their
/// results.
#[must_use]
pub fn live_ops(func: &Func, effects: &Effects<'_>) -> SideTable<Op, bool> {
    let mut live = SideTable::new(false);
    let mut used: SideTable<Value, bool> = SideTable::new(false);
    for &value in &func.results {
        used[value] = true;
    }
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        let wanted = data.results.iter().any(|&r| used[r]);
        if wanted || !effects.of(func, op).may_go() {
            live[op] = true;
            for &operand in &data.operands {
                used[operand] = true;
            }
        }
    }
    live
}

/// For each step of an execution, the values that are dead after it, in the order of their ids.
///
/// A step runs the operations that it lists. A value that the function returns, or that no step reads or defines, is in
/// no list.
#[must_use]
pub fn last_uses<'a>(func: &Func, steps: impl IntoIterator<Item = &'a [Op]>) -> Vec<Vec<Value>> {
    let mut last: SideTable<Value, Option<usize>> = SideTable::new(None);
    let mut count = 0;
    for (step, ops) in steps.into_iter().enumerate() {
        count = step + 1;
        for &op in ops {
            let data = &func.ops[op];
            for &value in data.operands.iter().chain(&data.results) {
                last[value] = Some(step);
            }
        }
    }
    for &value in &func.results {
        last[value] = None;
    }
    let mut dying = vec![Vec::new(); count];
    for value in func.values.ids() {
        if let Some(step) = last[value] {
            dying[step].push(value);
        }
    }
    dying
}
