//! Reduction of a failing program.

use optc_ir::{Func, Module};

/// The smallest shorter program that still fails. It is cut after an operation; then dead operations are removed.
pub(crate) fn shrink(module: &Module, fails: impl Fn(&Module) -> bool) -> Module {
    let n_ops = module.funcs[0].body.len();
    let cut = (1..=n_ops).map(|n| prefix(module, n)).find(|m| fails(m));
    let mut small = cut.unwrap_or_else(|| module.clone());
    let swept = sweep(&small);
    if fails(&swept) {
        small = swept;
    }
    small
}

/// The first `n` operations, with the results of the last one returned.
fn prefix(module: &Module, n: usize) -> Module {
    let mut module = module.clone();
    let func = &mut module.funcs[0];
    func.body.truncate(n);
    let last = func.body[n - 1];
    set_results(func, last);
    module
}

fn set_results(func: &mut Func, op: optc_ir::Op) {
    func.results.clear();
    func.result_ports.clear();
    for value in func.ops[op].results.clone() {
        func.add_result(value, None);
    }
}

fn sweep(module: &Module) -> Module {
    let mut module = module.clone();
    let func = &mut module.funcs[0];
    let mut needed = func.results.clone();
    for &op in func.body.iter().rev() {
        if func.ops[op].results.iter().any(|r| needed.contains(r)) {
            needed.extend(&func.ops[op].operands);
        }
    }
    let ops = &func.ops;
    func.body
        .retain(|&op| ops[op].results.iter().any(|r| needed.contains(r)));
    module
}
