//! Why a value of the result is as it is.

use super::report::FoldReport;
use indexmap::IndexMap;
use optc_ir::text::value_names;
use optc_ir::{Func, Loc, Module, Registry, Structure, Value};

/// The chain of decisions that led to a value's form, from the report of a run with the option `explain`.
///
/// `name` is that of a value, as `module` prints it, or else a `loc` name: the name of an ONNX node or of an HLO
/// instruction. The latter explains all results of all operations that came from there.
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
    let wanted = name.trim_start_matches('%');
    for (index, func) in module.funcs.iter().enumerate() {
        let names = value_names(func);
        if let Some((&value, _)) = names.iter().find(|(_, n)| n.as_str() == wanted) {
            return Some(chain(func, (index, value), &names, &why, registry));
        }
    }
    let mut all = Vec::new();
    for (index, func) in module.funcs.iter().enumerate() {
        let names = value_names(func);
        let ops = func.body.iter().map(|&op| &func.ops[op]);
        let values = ops.filter(|data| is_from(&data.loc, name));
        for &value in values.flat_map(|data| &data.results) {
            all.push(chain(func, (index, value), &names, &why, registry));
        }
    }
    (!all.is_empty()).then(|| all.join("\n\n"))
}

/// Whether a location has this name.
fn is_from(loc: &Loc, name: &str) -> bool {
    match loc {
        Loc::Name(own) => **own == *name,
        Loc::Fused(parts) => parts.iter().any(|part| is_from(part, name)),
        Loc::Unknown | Loc::File(..) => false,
    }
}

/// A line for a value and for each one that it views or is converted from, in turn.
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
