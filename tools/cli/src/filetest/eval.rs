//! Computes a module before and after passes by both oracles.

use super::header::Evaluation;
use crate::inputs::weights;
use crate::part::Part;
use optc::Bindings;
use optc::interp::{EquivalenceOptions, Fill, equivalent};
use optc::{Func, Type};

/// What differs between the module before and after, one line a function; nothing if they compute
/// the same on random inputs and on edge values. Weights whose files are absent are invented. A private
/// function that is there no more, or takes or gives other types, is compared in what called it.
pub(super) fn compare(part: &Part, evaluation: Evaluation) -> Vec<String> {
    let (a, b) = (&part.before, &part.after);
    let data = (weights(a, true), weights(b, true));
    let mut faults = Vec::new();
    for func in &a.module.funcs {
        let private = func.attrs.str("sym_visibility") == Some("private");
        // What is gone or has another boundary is run by those that stay.
        if private && !b.module.funcs.iter().any(|f| same_boundary(f, func)) {
            continue;
        }
        let mut options = EquivalenceOptions {
            func: func.name.to_string(),
            seeds: (0..evaluation.seeds).collect(),
            bindings: Bindings(part.cx.bindings.clone()),
            ..EquivalenceOptions::default()
        };
        if evaluation.finite {
            options.edges.retain(|fill| *fill != Fill::NonFinite);
        }
        let registry = &part.cx.registry;
        let same = equivalent(&a.module, &b.module, registry, &*data.0, &*data.1, &options);
        if let Err(error) = same {
            faults.push(format!("EVAL: @{}: {error}", func.name));
        }
    }
    faults
}

/// Whether two functions have one name, and arguments and results of the same sizes and elements.
fn same_boundary(a: &Func, b: &Func) -> bool {
    let ports = |func: &Func| -> Vec<Type> {
        let all = func.args.iter().chain(&func.results).map(|&v| func.ty(v));
        all.map(|ty| match ty.as_tensor() {
            Some(tensor) => tensor.without_layout().into(),
            None => ty.clone(),
        })
        .collect()
    };
    a.name == b.name && ports(a) == ports(b)
}
