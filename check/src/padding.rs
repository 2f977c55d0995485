//! Padding: bytes of stored values that hold no element.
//!
//! A value is stored if an operation writes it for others to read. Nothing is stored between operations that stream
//! (see [`STREAMING`]), nor between an operation of [`FUSING`] and its epilogue, the element-wise operation that is its
//! only reader. Operands and results of a conversion count as movement, padding included. The padding of a stored value
//! counts once for the write and once for the readers.

use optc_ir::entity::SideTable;
use optc_ir::op::in_place;
use optc_ir::{FreedomClass, Func, Op, Registry, Structure, Value};

/// Families whose operations work element by element in one common order. Values between them are not stored.
pub const STREAMING: &[&str] = &["elementwise", "softmax", "norm", "reduce", "broadcast"];

/// Families whose results an element-wise operation takes as an epilogue if nothing else reads them. Each element-wise
/// operation takes one such result, that of its first operand of such a family.
pub const FUSING: &[&str] = &["matmul", "conv"];

/// Properties of the readers of one buffer.
#[derive(Clone, Copy, Default)]
struct Readers {
    /// The number of operands that read it.
    reads: u64,
    /// An operation other than a conversion reads it.
    computes: bool,
    /// An operation that does not stream reads it, or a conversion, or the caller.
    stored: bool,
}

/// Padding in bytes of each stored value of a function that has some. Values with unknown sizes and values known at
/// compile time are left out. `moves` tells whether a live operation only moves.
#[must_use]
pub fn padding(
    func: &Func,
    registry: &Registry,
    known: &SideTable<Value, bool>,
    moves: &SideTable<Op, Option<bool>>,
) -> Vec<(Value, u64)> {
    if func.values.ids().all(|v| bytes_of_padding(func, v) == 0) {
        return Vec::new();
    }
    let live = || func.body.iter().copied().filter(|&op| moves[op].is_some());
    let moves = |op: Op| moves[op] == Some(true);
    let mut root: SideTable<Value, Option<Value>> = SideTable::new(None);
    let mut readers: SideTable<Value, Readers> = SideTable::new(Readers::default());
    let root_of = |root: &SideTable<Value, Option<Value>>, v: Value| root[v].unwrap_or(v);
    for op in live() {
        let data = &func.ops[op];
        if is_view(func, op, registry) && !moves(op) {
            for &result in &data.results {
                root[result] = Some(root_of(&root, data.operands[0]));
            }
            continue;
        }
        for &operand in &data.operands {
            let buffer = &mut readers[root_of(&root, operand)];
            buffer.reads += 1;
            buffer.computes |= !moves(op);
            buffer.stored |= !streams(func, op, registry);
        }
    }
    for &result in &func.results {
        readers[root_of(&root, result)].stored = true;
    }
    let family = |op: Op| registry.get(&func.ops[op].name).map(|decl| decl.family());
    let mut epilogue: SideTable<Value, bool> = SideTable::new(false);
    for op in live().filter(|&op| family(op) == Some("elementwise")) {
        let mut buffers = func.ops[op].operands.iter().map(|&v| root_of(&root, v));
        let fused = buffers.find(|&buffer| {
            let made = func.def_op(buffer).and_then(family);
            made.is_some_and(|made| FUSING.contains(&made)) && readers[buffer].reads == 1
        });
        if let Some(buffer) = fused {
            epilogue[buffer] = true;
        }
    }
    let mut found = Vec::new();
    for &arg in &func.args {
        if readers[arg].computes {
            found.push((arg, bytes_of_padding(func, arg)));
        }
    }
    for op in live() {
        let in_operand = in_place::lies_in_operand(func, op, registry);
        for (&result, is_part) in func.ops[op].results.iter().zip(in_operand) {
            if root[result].is_some() || known[result] {
                continue;
            }
            let Readers {
                computes, stored, ..
            } = readers[result];
            if !stored && (epilogue[result] || streams(func, op, registry)) {
                continue;
            }
            // A part of another value is written nowhere.
            let written = !moves(op) && !is_part;
            let times = u64::from(written) + u64::from(computes);
            found.push((result, bytes_of_padding(func, result).saturating_mul(times)));
        }
    }
    found.retain(|&(_, bytes)| bytes != 0);
    found
}

/// Returns whether no value between an operation and others of its kind is stored.
fn streams(func: &Func, op: Op, registry: &Registry) -> bool {
    let decl = registry.get(&func.ops[op].name);
    decl.is_some_and(|decl| STREAMING.contains(&decl.family()))
}

/// Returns whether the result of an operation is its operand's buffer under another shape or notation.
fn is_view(func: &Func, op: Op, registry: &Registry) -> bool {
    let data = &func.ops[op];
    registry.structure(&data.name) == Structure::Convert
        || registry.class(&func.op_ref(op)) == Some(FreedomClass::Rearrange)
}

/// Physical minus logical bytes of a value; 0 where sizes are unknown.
fn bytes_of_padding(func: &Func, value: Value) -> u64 {
    let Some(ty) = func.ty(value).as_tensor() else {
        return 0;
    };
    let Some(Ok(layout)) = ty.layout() else {
        return 0;
    };
    let bits = layout
        .elements()
        .saturating_mul(u64::from(layout.elem_bits()));
    layout.bytes().saturating_sub(bits.div_ceil(8))
}
