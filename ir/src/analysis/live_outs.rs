//! Live-outs: the values that are used outside of the set of operations that computes them.

use crate::entity::SideTable;
use crate::module::{Func, Op, Value};

/// The values that are used by an operation outside of their own part. `part_of` numbers the parts of a function.
///
/// An operation in no part (`part_of` is `None`) is outside of every part, and outside of every other operation without
/// a part. The function's return is outside of all parts too.
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
