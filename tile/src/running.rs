//! What adds up parts that are right up to a factor a row.

use crate::plan::Plan;
use optc_ir::module::{Func, Op, Value};
use optc_ir::op::Registry;
use optc_ir::op::access::Access;
use optc_ir::op::access_of;

/// A value of the group that runs on along a part of its axis, as an operation adds it up.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct AddsUp {
    /// The operation that makes it.
    pub op: Op,
    /// The value.
    pub value: Value,
    /// Of each dimension of it its place in the sum ([`Access::kept`]).
    pub kept: Vec<Option<usize>>,
}

/// The value, right up to a factor a row, that an operation with these loops adds up in its group.
///
/// # Errors
/// The operand that runs on along a part that the operation does not add up over.
pub fn adds_up(
    func: &Func,
    registry: &Registry,
    plan: &Plan,
    op: Op,
    access: &Access,
) -> Result<Option<AddsUp>, usize> {
    let Some(own) = plan.tiles.get(&op) else {
        return Ok(None);
    };
    for (i, &value) in func.ops[op].operands.iter().enumerate() {
        let def = func.def_op(value);
        let Some((def, tile)) = def.and_then(|d| Some((d, plan.tiles.get(&d)?))) else {
            continue;
        };
        if own.group != tile.group || tile.reduce.is_empty() {
            continue;
        }
        let decl = registry.get(&func.ops[def].name);
        let Some(dim) = access_of(decl, &func.op_ref(def)).running_dim() else {
            continue;
        };
        let part = access
            .reduction_along(i, dim)
            .and_then(|n| own.reduce.get(n));
        let kept = access.kept(i, dim).filter(|_| part == tile.reduce.first());
        let op = def;
        return kept.map(|kept| Some(AddsUp { op, value, kept })).ok_or(i);
    }
    Ok(None)
}
