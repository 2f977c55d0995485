//! Layouts of what a loop carries: chosen for its body, and kept across its boundary.
//!
//! A loop's operands and results and the arguments and results of its body and its condition lie alike. They are tried
//! as the program declares them, as what is given to the loop lies before it is converted, and as the body takes and gives
//! them when its boundary is free; the cheapest body decides, since it runs many times, and what stands around the loop is
//! laid out for it.

use super::function::fold;
use super::groups::{Functions, Laid};
use super::maps::FastMap;
use super::shared::Shared;
use crate::pass::PassContext;
use optc_check::stats::Stats;
use optc_ir::size::SizeTable;
use optc_ir::{Diagnostic, Func, Module, Structure, Value};
use optc_layout::Notation;
use optc_ops::loop_functions;

/// Lays out the loops of a module whose functions nothing else names, inner ones first.
///
/// # Errors
/// A body cannot be folded in any case.
pub(crate) fn lay_out(
    module: &Module,
    cx: &PassContext,
    shared: &Shared,
) -> Result<Laid, Box<Diagnostic>> {
    let mut laid = Laid::default();
    let mut named: FastMap<&str, usize> = FastMap::default();
    for func in &module.funcs {
        for &op in &func.body {
            for name in func.ops[op].props.symbols() {
                *named.entry(name).or_default() += 1;
            }
        }
    }
    let of_name = |name: &str| module.funcs.iter().find(|f| *f.name == *name);
    let mut open: Vec<(&Func, &Func, Vec<Notation>)> = Vec::new();
    for func in &module.funcs {
        for &op in &func.body {
            let Some((condition, body)) = loop_functions(func, op) else {
                continue;
            };
            let alone = named.get(condition) == Some(&1) && named.get(body) == Some(&1);
            if let (true, Some(condition), Some(body)) = (alone, of_name(condition), of_name(body))
                && fits(func, op, condition, body)
            {
                let given = func.ops[op].operands.iter().map(|&v| given(func, v, cx));
                open.push((condition, body, given.collect()));
            }
        }
    }
    // A body that holds a loop comes after it.
    let holds = |body: &Func, inner: &Func| {
        body.body
            .iter()
            .any(|&op| loop_functions(body, op).is_some_and(|(_, name)| *inner.name == *name))
    };
    while !open.is_empty() {
        let innermost = open
            .iter()
            .position(|(_, body, _)| !open.iter().any(|(_, inner, _)| holds(body, inner)));
        // A loop that runs itself has no innermost one.
        let Some(at) = innermost else { break };
        let (condition, body, given) = open.remove(at);
        if let Some(notations) = chosen(module, body, &given, cx, shared, &laid)? {
            let args = notations[..body.args.len()].to_vec();
            laid.insert(condition.name.to_string(), args);
            laid.insert(body.name.to_string(), notations);
        }
    }
    Ok(laid)
}

/// How a value lies before it is converted.
fn given(func: &Func, value: Value, cx: &PassContext) -> Notation {
    let mut at = value;
    while let Some(op) = func.def_op(at) {
        let data = &func.ops[op];
        let converts = cx.registry.structure(&data.name) == Structure::Convert;
        match data.operands.first() {
            Some(&operand) if converts => at = operand,
            _ => break,
        }
    }
    let ty = func.ty(at).as_tensor();
    ty.map_or(Notation::RowMajor, |ty| ty.notation.clone())
}

/// Whether all that a loop carries has the same known sizes everywhere.
fn fits(func: &Func, op: optc_ir::Op, condition: &Func, body: &Func) -> bool {
    let data = &func.ops[op];
    let carried = |func: &Func, values: &[Value]| -> Option<Vec<(Vec<u64>, String)>> {
        let one = |v: &Value| {
            let ty = func.ty(*v).as_tensor()?;
            Some((ty.shape()?, ty.dtype.to_string()))
        };
        values.iter().map(one).collect()
    };
    let wanted = carried(func, &data.operands);
    wanted.is_some()
        && [
            carried(func, &data.results),
            carried(body, &body.args),
            carried(body, &body.results),
            carried(condition, &condition.args),
        ]
        .iter()
        .all(|other| *other == wanted)
}

/// The boundary with which a body costs least, if that is another one than it declares.
fn chosen(
    module: &Module,
    body: &Func,
    given: &[Notation],
    cx: &PassContext,
    shared: &Shared,
    laid: &Laid,
) -> Result<Option<Vec<Notation>>, Box<Diagnostic>> {
    let mut scratch = PassContext::new(cx.registry.clone(), cx.target.clone());
    scratch.bindings = cx.bindings.clone();
    let sizes = SizeTable::new(&cx.bindings);
    let cost = |boundary: Option<&Vec<Notation>>| -> Result<u64, Box<Diagnostic>> {
        let mut laid = laid.clone();
        if let Some(notations) = boundary {
            laid.insert(body.name.to_string(), notations.clone());
        }
        let mut functions = Functions::new(module);
        functions.laid = laid;
        let mut cx = scratch.clone();
        let folded = fold(body, &functions, &mut cx, &mut shared.clone())?;
        let folded = Module {
            funcs: vec![folded.func],
            ..Module::default()
        };
        let stats = Stats::on(&folded, &cx.registry, &sizes, &cx.target);
        Ok(stats.layout_bytes().saturating_add(stats.copy_bytes))
    };
    let mut free = scratch.clone();
    free.boundary.free_all = true;
    let mut functions = Functions::new(module);
    functions.laid = laid.clone();
    functions.uncall(&body.name);
    let mut tried = vec![given.to_vec()];
    if let Ok(freed) = fold(body, &functions, &mut free, &mut shared.clone()) {
        let notation = |v: &Value| freed.func.ty(*v).as_tensor().map(|ty| ty.notation.clone());
        let all = [&freed.func.args, &freed.func.results];
        tried.extend(all.iter().filter_map(|values| {
            let all: Option<Vec<Notation>> = values.iter().map(notation).collect();
            all
        }));
    }
    let mut best: Option<Vec<Notation>> = None;
    let mut least = cost(None)?;
    for carried in tried {
        let boundary: Vec<Notation> = carried.iter().chain(&carried).cloned().collect();
        if let Ok(bytes) = cost(Some(&boundary))
            && bytes < least
        {
            (best, least) = (Some(boundary), bytes);
        }
    }
    Ok(best)
}
