//! Why a value of the result is as it is.

use super::names::printed_names;
use super::report::FoldReport;
use indexmap::IndexMap;
use optc_ir::{Module, Registry, Structure, Value};

/// The chain of decisions that led to a value's form, from the report of a run with the option `explain`;
/// values are called as `module` prints them.
#[must_use]
pub fn explain(
    report: &FoldReport,
    registry: &Registry,
    module: &Module,
    name: &str,
) -> Option<String> {
    let wanted = name.trim_start_matches('%');
    let mut why: IndexMap<(usize, Value), &str> = IndexMap::new();
    for (func, value, text) in &report.why {
        why.entry((*func, *value)).or_insert(text);
    }
    for (index, func) in module.funcs.iter().enumerate() {
        let names = printed_names(func);
        let Some(value) = names.iter().find(|(_, n)| n.as_str() == wanted) else {
            continue;
        };
        let value = *value.0;
        let mut lines = Vec::new();
        let mut at = Some(value);
        while let Some(v) = at {
            let text = why.get(&(index, v)).unwrap_or(&"as the program has it");
            let name = names
                .get(&v)
                .map_or_else(|| v.to_string(), |n| format!("%{n}"));
            lines.push(format!("{name}: {text}"));
            at = func.def_op(v).and_then(|op| {
                let data = &func.ops[op];
                let passes = matches!(
                    registry.structure(&data.name),
                    Structure::View | Structure::Convert
                );
                if passes {
                    data.operands.first().copied()
                } else {
                    None
                }
            });
        }
        return Some(lines.join("\n"));
    }
    None
}
