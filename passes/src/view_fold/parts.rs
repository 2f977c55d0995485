//! Slices that may be parts of their operands: the bytes stay where they are, and readers step over the rest.

use super::signature::Part;
use optc_check::stats::changes_space;
use optc_ir::entity::SideTable;
use optc_ir::op::Traffic;
use optc_ir::{FreedomClass, Func, Op, Operation, Registry, Structure, Value};
use optc_ops::{Slice, Subview};

/// The values that someone takes who wants them in a buffer of their own: the caller, functions that are run, an
/// operation of which nothing is known.
pub(crate) fn kept_whole(func: &Func, registry: &Registry) -> SideTable<Value, bool> {
    let mut whole = SideTable::new(false);
    for &result in &func.results {
        whole[result] = true;
    }
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        let class = registry
            .get(&data.name)
            .map(|decl| decl.freedom(&func.op_ref(op)).class);
        let converts = registry.structure(&data.name) == Structure::Convert;
        let moves_on = class == Some(FreedomClass::Rearrange) || converts;
        let opaque = match moves_on {
            true => changes_space(func, op, registry),
            false => {
                matches!(class, None | Some(FreedomClass::Barrier))
                    || data.props.symbols().next().is_some()
            }
        };
        let all = opaque || (moves_on && data.results.iter().any(|&r| whole[r]));
        for &operand in &data.operands {
            whole[operand] |= all;
        }
    }
    whole
}

/// Whether an operation may give, or gives, a part of its operand.
pub(crate) fn part_of(
    func: &Func,
    op: Op,
    registry: &Registry,
    whole: &SideTable<Value, bool>,
) -> Part {
    let data = &func.ops[op];
    let free = data.results.iter().all(|&r| !whole[r]);
    if &*data.name == Subview::NAME && free {
        return Part::Stays;
    }
    let decl = registry
        .get(&data.name)
        .filter(|_| &*data.name == Slice::NAME && free);
    let bytes = decl.and_then(|decl| match decl.traffic(&func.op_ref(op)) {
        Traffic::Copy(read, write) => {
            u64::try_from(read.as_constant()?.checked_add(write.as_constant()?)?).ok()
        }
        Traffic::None | Traffic::Movement | Traffic::Expand => None,
    });
    bytes.map_or(Part::Copied, Part::Either)
}
