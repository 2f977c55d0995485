//! Programs with fewer attributes, and with row-major layouts.

use crate::Search;
use optc_ir::{AttrDict, Func, Module};

/// The number of attributes of a function, its ports and its operations.
pub(crate) fn attributes(func: &Func) -> usize {
    let ports = func.arg_ports.iter().chain(&func.result_ports);
    let ports: usize = ports.map(|port| port.attrs.iter().count()).sum();
    let ops = func.body.iter().map(|&op| &func.ops[op]);
    let ops = ops.map(|data| data.attrs.iter().count() + data.props.iter().count());
    func.attrs.iter().count() + ports + ops.sum::<usize>()
}

/// Makes all layouts row-major, and removes attributes, all discardable ones first.
pub(crate) fn plainer(search: &mut Search<'_>) {
    let mut module = search.best.clone();
    for func in &mut module.funcs {
        for value in func.values.ids().collect::<Vec<_>>() {
            if let Some(tensor) = func.ty(value).as_tensor() {
                func.values[value].ty = tensor.without_layout().into();
            }
        }
    }
    search.accepts(module);
    let mut module = search.best.clone();
    dicts(&mut module, |discardable, dict| {
        if discardable {
            *dict = AttrDict::new();
        }
    });
    search.accepts(module);
    let mut number: usize = 0;
    loop {
        let (mut module, mut seen, mut found) = (search.best.clone(), 0usize, false);
        dicts(&mut module, |_, dict| {
            let names: Vec<String> = dict.iter().map(|(name, _)| name.to_owned()).collect();
            if let Some(name) = number.checked_sub(seen).and_then(|i| names.get(i)) {
                dict.remove(name);
                found = true;
            }
            seen += names.len();
        });
        if !found {
            break;
        }
        if !search.accepts(module) {
            number += 1;
        }
    }
}

/// Calls `f` with each dictionary of a module, and whether its attributes are discardable.
fn dicts(module: &mut Module, mut f: impl FnMut(bool, &mut AttrDict)) {
    let mut each = |discardable: bool, dict: &mut AttrDict| f(discardable, dict);
    each(true, &mut module.attrs);
    for func in &mut module.funcs {
        each(true, &mut func.attrs);
        let ports = func.arg_ports.iter_mut().chain(&mut func.result_ports);
        ports.for_each(|port| each(true, &mut port.attrs));
        for op in func.body.clone() {
            each(true, &mut func.ops[op].attrs);
            each(false, &mut func.ops[op].props);
        }
    }
}
