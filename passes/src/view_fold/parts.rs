//! Ports that may be parts of other ports in place: no bytes move, and readers and writers use strides.
//!
//! On a machine with tiles the layouts decide which parts lie evenly in their wholes, so the search counts the bytes of
//! the others. Whether a part is in place in the end, [`crate::elide_copies`] decides for all readers together.

use super::signature::Cut;
use optc_check::stats::{changes_space, leaves_space};
use optc_ir::entity::{EntityId, SideTable};
use optc_ir::op::part::Port;
use optc_ir::op::{Traffic, in_place};
use optc_ir::{
    Along, FreedomClass, Func, Op, OpDecl, Part, Registry, Structure, TensorType, Value,
};
use optc_layout::Pick;
use optc_target::Target;

/// The ports of an operation that are looked at as parts: sets of them are the bits of a number.
pub(crate) const MOST_CUT: usize = 64;

/// Collects, for each operation, the ports that may be parts of other ports in place: operands, and results that nobody
/// wants in a buffer of their own. An operand that an update changes is left out, as other operations decide about it. A
/// value that is a part of its operand does not lie in another value too, and one that several operations join lies in the
/// result of the last one.
pub(crate) fn cuts(func: &Func, registry: &Registry, target: &Target) -> SideTable<Op, Vec<Cut>> {
    let mut all = SideTable::new(Vec::new());
    let takes_parts = |op: Op| {
        let data = &func.ops[op];
        let decl = registry.get(&data.name);
        let row = decl.and_then(|decl| target.row(decl.family_of(&func.op_ref(op))));
        match registry.structure(&data.name) {
            Structure::Convert => !changes_space(func, op, registry),
            _ => {
                row.is_some_and(|row| row.parts.is_some()) && data.props.symbols().next().is_none()
            }
        }
    };
    let parts: Vec<(Op, Vec<Part>)> = func
        .body
        .iter()
        .filter_map(|&op| {
            takes_parts(op).then_some(())?;
            let parts = parts_of(func, op, registry);
            (!parts.is_empty()).then_some((op, parts))
        })
        .collect();
    if parts.is_empty() {
        return all;
    }
    let (root, refused) = uses(func, registry, takes_parts);
    let mut joined: SideTable<Value, bool> = SideTable::new(false);
    for (op, parts) in parts.into_iter().rev() {
        let data = &func.ops[op];
        let number = |port: Port| port.index(data.operands.len());
        for part in parts {
            let Some(value) = part.part.value(data) else {
                continue;
            };
            let root = root[value];
            let given = match part.part {
                Port::Operand(_) => {
                    let writer = func
                        .def_op(root)
                        .filter(|_| !joined[root] && !refused[root]);
                    !writer.is_some_and(takes_parts)
                }
                Port::Result(_) if refused[root] => continue,
                Port::Result(_) => false,
            };
            joined[root] |= matches!(part.part, Port::Operand(_)) && !given;
            let bytes = func.ty(value).as_tensor().map(TensorType::logical_bytes);
            let bytes = bytes.and_then(|n| u64::try_from(n.as_constant()?).ok());
            let picks = part.dims.iter().map(pick).collect::<Option<_>>();
            if let (Some(bytes), Some(picks)) = (bytes, picks)
                && number(part.part) < MOST_CUT
            {
                all[op].push(Cut {
                    part: number(part.part),
                    whole: number(part.whole),
                    picks,
                    bytes: bytes.saturating_mul(2),
                    given,
                });
            }
        }
    }
    all
}

/// The parts at the ports of an operation that copies, other than the operand that an update changes.
fn parts_of(func: &Func, op: Op, registry: &Registry) -> Vec<Part> {
    let (data, op_ref) = (&func.ops[op], func.op_ref(op));
    let copies = |decl: &&dyn OpDecl| matches!(decl.traffic(&op_ref), Traffic::Copy(..));
    // A part is in the memory space of its whole.
    let Some(decl) = registry
        .get(&data.name)
        .filter(copies)
        .filter(|_| !leaves_space(func, op))
    else {
        return Vec::new();
    };
    let updated = decl.updates(&op_ref).map(|update| Port::Operand(update.of));
    let known = |i: usize| in_place::constant(func, *data.operands.get(i)?);
    let mut parts = decl.parts(&op_ref, &known);
    parts.retain(|part| Some(part.part) != updated);
    parts
}

/// For each value, the value whose buffer it is if all rearrangements are views, and whether someone wants that buffer for
/// itself: the caller, or an operation that takes no parts.
fn uses(
    func: &Func,
    registry: &Registry,
    takes_parts: impl Fn(Op) -> bool,
) -> (SideTable<Value, Value>, SideTable<Value, bool>) {
    let moves = |op: Op| {
        let class = registry.class(&func.op_ref(op));
        class == Some(FreedomClass::Rearrange) && !changes_space(func, op, registry)
    };
    let mut root: SideTable<Value, Value> = SideTable::new(Value::from_index(0));
    for &arg in &func.args {
        root[arg] = arg;
    }
    for &op in &func.body {
        let data = &func.ops[op];
        for &result in &data.results {
            root[result] = match data.operands.first() {
                Some(&operand) if moves(op) => root[operand],
                _ => result,
            };
        }
    }
    let mut refused: SideTable<Value, bool> = SideTable::new(false);
    for &result in &func.results {
        refused[root[result]] = true;
    }
    // A conversion in the text may go: its operand is then read where its result is.
    let converts = |op: Op| registry.structure(&func.ops[op].name) == Structure::Convert;
    for &op in func.body.iter().rev().filter(|&&op| !moves(op)) {
        let data = &func.ops[op];
        let mut results = data.results.iter();
        if !takes_parts(op) || (converts(op) && results.any(|&r| refused[root[r]])) {
            for &operand in &data.operands {
                refused[root[operand]] = true;
            }
        }
    }
    (root, refused)
}

/// The index along a dimension of a whole, if its start is a number.
fn pick(along: &Along) -> Option<Pick> {
    Some(Pick {
        from: along.from,
        start: u64::try_from(along.start.as_constant()?).ok()?,
        step: along.step,
    })
}
