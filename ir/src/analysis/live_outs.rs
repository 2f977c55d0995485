//! Live-outs: the values that leave the set of operations that computes them.

use crate::entity::SideTable;
use crate::module::{Func, Op, Value};

/// The values that an operation outside of their own part uses, where `part_of` numbers the parts of a function.
///
/// An operation in no part is outside of every one, also of those like it; the function's return is outside too.
#[must_use]
pub fn live_outs(func: &Func, part_of: impl Fn(Op) -> Option<usize>) -> SideTable<Value, bool> {
    let mut outs = SideTable::new(false);
    for &op in &func.body {
        for &operand in &func.ops[op].operands {
            let writer = func.def_op(operand).and_then(&part_of);
            if writer.is_none() || writer != part_of(op) {
                outs[operand] = true;
            }
        }
    }
    for &value in &func.results {
        outs[value] = true;
    }
    outs
}
