//! Explanations of the values of the result.

use super::report::{FoldReport, Proof};
use indexmap::IndexMap;
use optc_ir::text::value_names;
use optc_ir::{Func, Loc, Module, Registry, Structure, Value};

/// The chain of decisions that led to a value's form, from the report of a run with the option `explain`.
///
/// `name` is the name of a value, as `module` prints it, or else a `loc` name: the name of an ONNX node or of an HLO
/// instruction. A `loc` name selects all results of all operations that came from there.
#[must_use]
pub fn explain(
    report: &FoldReport,
    registry: &Registry,
    module: &Module,
    name: &str,
) -> Option<String> {
    let mut why: IndexMap<(usize, Value), &str> = IndexMap::new();
    for (func, value, text) in &report.why {
        why.entry((*func, *value)).or_insert(text);
    }
    let one = |index: usize, func: &Func, value: Value| {
        let names = value_names(func);
        let mut text = chain(func, (index, value), &names, &why, registry);
        let told = report.alternatives.iter();
        let mut told = told.filter(|(at, of, _)| (*at, *of) == (index, value));
        for line in told.by_ref().flat_map(|(.., lines)| lines) {
            text.push_str("\n  ");
            text.push_str(line);
        }
        text
    };
    for (index, func) in module.funcs.iter().enumerate() {
        if let Some(value) = named(func, name) {
            return Some(one(index, func, value) + &proof(report));
        }
    }
    let mut all = Vec::new();
    for (index, func) in module.funcs.iter().enumerate() {
        let values = called(func, name).into_iter();
        all.extend(values.map(|value| one(index, func, value)));
    }
    (!all.is_empty()).then(|| all.join("\n\n") + &proof(report))
}

/// A sentence on how sure the choice of layouts is, where alternatives were weighed.
fn proof(report: &FoldReport) -> String {
    if report.alternatives.is_empty() {
        return String::new();
    }
    let FoldReport {
        bytes_after,
        lower_bound_bytes,
        ..
    } = report;
    let says = match report.proof {
        Proof::Optimal => "no layouts that the target takes cost less",
        Proof::OptimalInCandidates => {
            "minimal over the candidate layouts; a layout that is no candidate may cost less"
        }
        Proof::Bound => "a limit ended the search: other layouts may cost less",
    };
    format!(
        "\n\nthe program: {}, {bytes_after} bytes, {lower_bound_bytes} at least; {says}",
        report.proof.name()
    )
}

/// The value of this name in the text.
fn named(func: &Func, name: &str) -> Option<Value> {
    let wanted = name.trim_start_matches('%');
    let names = value_names(func);
    let found = names.iter().find(|(_, n)| n.as_str() == wanted);
    found.map(|(&value, _)| value)
}

/// The value of this name in the text, or else all results of operations that came from a place of this name.
pub(super) fn called(func: &Func, name: &str) -> Vec<Value> {
    if let Some(value) = named(func, name) {
        return vec![value];
    }
    let ops = func.body.iter().map(|&op| &func.ops[op]);
    let ops = ops.filter(|data| is_from(&data.loc, name));
    ops.flat_map(|data| data.results.iter().copied()).collect()
}

/// Returns whether a location has this name.
fn is_from(loc: &Loc, name: &str) -> bool {
    match loc {
        Loc::Name(own) => **own == *name,
        Loc::Fused(parts) => parts.iter().any(|part| is_from(part, name)),
        Loc::Unknown | Loc::File(..) => false,
    }
}

/// A line for a value and for each value that it views or is converted from, in turn.
fn chain(
    func: &Func,
    (index, value): (usize, Value),
    names: &IndexMap<Value, String>,
    why: &IndexMap<(usize, Value), &str>,
    registry: &Registry,
) -> String {
    let mut lines = Vec::new();
    let mut at = Some(value);
    while let Some(v) = at {
        let text = why.get(&(index, v)).unwrap_or(&"as the program has it");
        let name = names.get(&v);
        let name = name.map_or_else(|| v.to_string(), |n| format!("%{n}"));
        lines.push(format!("{name}: {text}"));
        at = func.def_op(v).and_then(|op| {
            let data = &func.ops[op];
            let structure = registry.structure(&data.name);
            let passes = matches!(structure, Structure::View | Structure::Convert);
            data.operands.first().copied().filter(|_| passes)
        });
    }
    lines.join("\n")
}
