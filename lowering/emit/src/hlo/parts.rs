//! Parts of live values: an operation that reads a part becomes a call of a computation with the slice and the
//! operation.
//!
//! HLO text has no instruction for a part that stays in place: a `slice` on its own is a copy. In XLA:TPU's modules the
//! slice is in the fusion of its user. A call has the same effect, and XLA's CPU backend, which has no fusion of a
//! product, inlines it. A conversion of a part becomes a fusion.

use indexmap::{IndexMap, IndexSet};
use optc_ir::entity::SideTable;
use optc_ir::{Attr, AttrDict, Func, Module, Op, Operation, Registry, Structure, Value};
use optc_ops::{CallOp, LayoutConvert, Split, Subview};
use std::sync::Arc;

/// The module with a function for each operation that reads parts of live values; `None` if there is no such operation.
pub(super) fn called(module: &Module, registry: &Registry) -> Option<Module> {
    let has_parts = |func: &Func| func.body.iter().any(|&op| is_part(func, op));
    let own = |func: &Func| !is_fusion(module, &func.name);
    if !module.funcs.iter().any(|func| has_parts(func) && own(func)) {
        return None;
    }
    let mut out = module.clone();
    let mut made = Vec::new();
    let mut names: IndexSet<Arc<str>> = module.funcs.iter().map(|f| f.name.clone()).collect();
    for func in &mut out.funcs {
        if !has_parts(func) || is_fusion(module, &func.name) {
            continue;
        }
        for at in 0..func.body.len() {
            let op = func.body[at];
            if let Some((body, roots)) = outlined(func, op, registry, &mut names) {
                call(func, op, &body, roots);
                made.push(body);
            }
        }
        drop_unread(func, registry);
    }
    out.funcs.extend(made);
    Some(out)
}

/// Returns whether an operation is a part of a live value. A repetition is a `broadcast`, which every reader fuses.
fn is_part(func: &Func, op: Op) -> bool {
    let is = &*func.ops[op].name == Subview::NAME;
    is && Subview::of(&func.op_ref(op)).is_ok_and(|part| !part.broadcast)
}

/// Returns whether some operation of the module is a fusion of this function.
fn is_fusion(module: &Module, name: &str) -> bool {
    module.funcs.iter().any(|func| {
        let fusion = |&op: &Op| {
            func.callee(op) == Some(name) && func.ops[op].attrs.str("hlo.fusion").is_some()
        };
        func.body.iter().any(fusion)
    })
}

/// The chain of views and parts that defines a value, last one first, and the value that the chain begins with; `None`
/// if the chain has no part.
fn chain(func: &Func, value: Value, registry: &Registry) -> Option<(Vec<Op>, Value)> {
    let (mut ops, mut at) = (Vec::new(), value);
    while let Some(op) = func.def_op(at) {
        let data = &func.ops[op];
        if !is_part(func, op) && registry.structure(&data.name) != Structure::View {
            break;
        }
        ops.push(op);
        at = data.operands[0];
    }
    ops.iter().any(|&op| is_part(func, op)).then_some((ops, at))
}

/// Outlines an operation that reads parts into a function; its arguments are the values that the parts are of, and the
/// other operands.
fn outlined(
    func: &Func,
    op: Op,
    registry: &Registry,
    names: &mut IndexSet<Arc<str>>,
) -> Option<(Func, Vec<Value>)> {
    let data = &func.ops[op];
    let structure = registry.structure(&data.name);
    let alone = data.props.symbols().next().is_none() && data.results.len() == 1;
    if is_part(func, op) || structure == Structure::View || &*data.name == Split::NAME || !alone {
        return None;
    }
    let chains: Vec<_> = data
        .operands
        .iter()
        .map(|&v| chain(func, v, registry))
        .collect();
    if chains.iter().all(Option::is_none) {
        return None;
    }
    let mut name: Arc<str> = Arc::from(format!("{}_part", func.name));
    let mut n = 0;
    while !names.insert(name.clone()) {
        n += 1;
        name = Arc::from(format!("{}_part.{n}", func.name));
    }
    let mut body = Func::new(&name);
    let mut inside: IndexMap<Value, Value> = IndexMap::new();
    let mut roots = Vec::new();
    for (&operand, chain) in data.operands.iter().zip(&chains) {
        let (ops, root) = chain
            .as_ref()
            .map_or((&[][..], operand), |(ops, root)| (ops, *root));
        if !inside.contains_key(&root) {
            let arg = body.add_arg(func.ty(root).clone(), None);
            inside.insert(root, arg);
            roots.push(root);
        }
        for &step in ops.iter().rev() {
            copy(func, step, &mut body, &mut inside);
        }
    }
    copy(func, op, &mut body, &mut inside);
    let result = inside[&data.results[0]];
    body.add_result(result, None);
    Some((body, roots))
}

/// Copies an operation into another function, unless it is there already.
fn copy(func: &Func, op: Op, body: &mut Func, inside: &mut IndexMap<Value, Value>) {
    let data = &func.ops[op];
    if data.results.iter().all(|r| inside.contains_key(r)) {
        return;
    }
    let operands = data.operands.iter().map(|v| inside[v]).collect();
    let types = data.results.iter().map(|&v| func.ty(v).clone()).collect();
    let new = body.make_op(
        data.name.clone(),
        operands,
        data.props.clone(),
        types,
        data.loc.clone(),
    );
    body.ops[new].attrs = data.attrs.clone();
    body.ops[new].span = data.span;
    body.body.push(new);
    let results = body.ops[new].results.clone();
    inside.extend(data.results.iter().copied().zip(results));
}

/// Replaces an operation by a call.
fn call(func: &mut Func, op: Op, callee: &Func, roots: Vec<Value>) {
    let mut props = AttrDict::new();
    props.set("callee", Attr::Symbol(callee.name.clone()));
    let mut attrs = AttrDict::new();
    let data = &mut func.ops[op];
    // A conversion only moves elements, so the call is one fusion.
    if &*data.name == LayoutConvert::NAME {
        attrs.set("hlo.fusion", Attr::str("kLoop"));
    }
    data.name = Arc::from(CallOp::NAME);
    data.operands = roots;
    data.props = props;
    data.attrs = attrs;
}

/// Removes dead views and parts.
fn drop_unread(func: &mut Func, registry: &Registry) {
    let mut read: SideTable<Value, bool> = SideTable::new(false);
    for &result in &func.results {
        read[result] = true;
    }
    let mut kept = Vec::with_capacity(func.body.len());
    for &op in func.body.iter().rev() {
        let data = &func.ops[op];
        let moves_nothing = is_part(func, op) || registry.structure(&data.name) == Structure::View;
        if moves_nothing && data.results.iter().all(|&r| !read[r]) {
            continue;
        }
        for &operand in &data.operands {
            read[operand] = true;
        }
        kept.push(op);
    }
    kept.reverse();
    func.body = kept;
}
