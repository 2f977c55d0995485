//! Slices whose results may be parts of their operands in place: no bytes move, and readers use strides.

use super::signature::Part;
use optc_check::stats::{changes_space, leaves_space};
use optc_ir::entity::SideTable;
use optc_ir::op::Traffic;
use optc_ir::{FreedomClass, Func, Op, OpRef, Operation, Registry, Structure, Value};
use optc_ops::{Slice, Subview};

/// Values that need a buffer of their own. They are returned to the caller, handed to functions that are run, or read
/// by an operation of which nothing is known.
pub(crate) fn kept_whole(func: &Func, registry: &Registry) -> SideTable<Value, bool> {
    let mut whole = SideTable::new(false);
    for &result in &func.results {
        whole[result] = true;
    }
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        let class = registry.class(&func.op_ref(op));
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

/// Bytes that a slice reads and writes, or the slice that a subview stands for. `None` for any other operation, and for
/// one that copies nothing.
pub(crate) fn copied_by(func: &Func, op: Op, registry: &Registry) -> Option<u64> {
    let data = &func.ops[op];
    let (name, props) = match &*data.name {
        Subview::NAME => Subview::as_copy(data.props.clone()),
        Slice::NAME => (Slice::NAME, data.props.clone()),
        _ => return None,
    };
    let copy = OpRef {
        name,
        props: &props,
        ..func.op_ref(op)
    };
    let decl = registry.get(name).filter(|_| name == Slice::NAME)?;
    match decl.traffic(&copy) {
        Traffic::Copy(read, write) => {
            u64::try_from(read.as_constant()?.checked_add(write.as_constant()?)?).ok()
        }
        Traffic::None | Traffic::Movement | Traffic::Expand => None,
    }
}

/// The relations that an operation's result may have to its operand. `chosen` says that the target's row for slices lists which
/// results are parts. A part that the text states is then a copy where the row does not take it.
pub(crate) fn part_of(
    func: &Func,
    op: Op,
    registry: &Registry,
    whole: &SideTable<Value, bool>,
    chosen: bool,
) -> Part {
    let data = &func.ops[op];
    let stated = &*data.name == Subview::NAME;
    let bytes = copied_by(func, op, registry).filter(|_| !stated || chosen);
    match bytes {
        _ if data.results.iter().any(|&r| whole[r]) => Part::Copied,
        // A part is in the memory space of its operand.
        _ if leaves_space(func, op) => Part::Copied,
        Some(bytes) => Part::Either(bytes),
        None if stated => Part::Stays,
        None => Part::Copied,
    }
}
