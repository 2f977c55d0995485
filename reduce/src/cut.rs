//! Programs with fewer operations, results, arguments and values.

use crate::{Search, entry};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Func, Module, Op, Value};

/// Removes groups of operations, of half of the program first, and of single ones in the end.
pub(crate) fn operations(search: &mut Search<'_>) {
    let mut group = search.best.funcs[entry(&search.best)]
        .body
        .len()
        .div_ceil(2);
    while 0 < group {
        let mut at = 0;
        // Later operations first: what is read by nothing goes without arguments in its place.
        loop {
            let func = &search.best.funcs[entry(&search.best)];
            let len = func.body.len();
            let Some(end) = len.checked_sub(at).filter(|&end| 0 < end) else {
                break;
            };
            let gone = func.body[end.saturating_sub(group)..end].to_vec();
            let made = without(&search.best, &gone);
            if !search.accepts(made) {
                at += group;
            }
        }
        group /= 2;
    }
}

/// The program without some operations of its entry. Arguments stand for the results that others read, and a result that
/// the function returned gives way to the operands of its operation.
fn without(module: &Module, gone: &[Op]) -> Module {
    let mut module = module.clone();
    let entry = entry(&module);
    let func = &mut module.funcs[entry];
    let gone: IndexSet<Op> = gone.iter().copied().collect();
    for op in func.body.clone().into_iter().rev() {
        if !gone.contains(&op) {
            continue;
        }
        let data = &func.ops[op];
        let of = |value: &Value| data.results.contains(value);
        if func.results.iter().any(of) {
            let mut kept: IndexSet<Value> = func.results.iter().copied().collect();
            kept.retain(|value| !of(value));
            let made = |value: &&Value| func.def_op(**value).is_some();
            kept.extend(data.operands.iter().filter(made));
            if kept.is_empty() {
                kept.extend(data.operands.first());
            }
            return_only(func, kept);
        }
    }
    func.body.retain(|op| !gone.contains(op));
    let reads = func.body.iter().flat_map(|&op| &func.ops[op].operands);
    let reads: IndexSet<Value> = reads.chain(&func.results).copied().collect();
    let mut instead: IndexMap<Value, Value> = IndexMap::new();
    for value in reads {
        if func.def_op(value).is_some_and(|op| gone.contains(&op)) {
            let ty = func.ty(value).clone();
            instead.insert(value, func.add_arg(ty, None));
        }
    }
    replace(func, &instead);
    module
}

fn return_only(func: &mut Func, values: IndexSet<Value>) {
    func.results.clear();
    func.result_ports.clear();
    for value in values {
        func.add_result(value, None);
    }
}

fn replace(func: &mut Func, instead: &IndexMap<Value, Value>) {
    let other = |value: &mut Value| *value = instead.get(value).copied().unwrap_or(*value);
    for &op in &func.body {
        func.ops[op].operands.iter_mut().for_each(other);
    }
    func.results.iter_mut().for_each(other);
}

/// Removes results, and puts one value in the place of another one of the same type.
pub(crate) fn values(search: &mut Search<'_>) {
    let mut at = 0;
    loop {
        let func = &search.best.funcs[entry(&search.best)];
        if func.results.len() < 2 || func.results.len() <= at {
            break;
        }
        let mut kept: IndexSet<Value> = func.results.iter().copied().collect();
        kept.shift_remove_index(at.min(kept.len() - 1));
        let mut module = search.best.clone();
        let entry = entry(&module);
        return_only(&mut module.funcs[entry], kept);
        if !search.accepts(module) {
            at += 1;
        }
    }
    let mut number = 0;
    while let Some((old, new)) = pairs(&search.best).get(number).copied() {
        let mut module = search.best.clone();
        let entry = entry(&module);
        replace(&mut module.funcs[entry], &IndexMap::from([(old, new)]));
        if !search.accepts(module) {
            number += 1;
        }
    }
}

/// Pairs of values of one type: a result and an operand of its operation, and two arguments.
fn pairs(module: &Module) -> Vec<(Value, Value)> {
    let func = &module.funcs[entry(module)];
    let same = |a: Value, b: Value| func.ty(a) == func.ty(b);
    let mut pairs = Vec::new();
    for &op in &func.body {
        let data = &func.ops[op];
        for &result in &data.results {
            let operand = data.operands.iter().find(|&&x| same(x, result));
            pairs.extend(operand.map(|&operand| (result, operand)));
        }
    }
    for (i, &arg) in func.args.iter().enumerate() {
        let first = func.args[..i].iter().find(|&&first| same(first, arg));
        pairs.extend(first.map(|&first| (arg, first)));
    }
    pairs
}
