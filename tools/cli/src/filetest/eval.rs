//! Computes a module before and after passes by both oracles.

use super::header::Evaluation;
use crate::inputs::weights;
use crate::part::Part;
use optc::Bindings;
use optc::interp::{EquivalenceOptions, Fill, equivalent};
use optc::{Func, Type};

/// The differences between the module before and after, one line per function; empty if they compute the same on random
/// inputs and on edge values. Weights whose files are absent are made up. A private function that no longer exists, or
/// whose boundary has other types, is compared as a part of its callers.
pub(super) fn compare(part: &Part, evaluation: Evaluation) -> Vec<String> {
    let (a, b) = (&part.before, &part.after);
    let data = (weights(a, true), weights(b, true));
    let mut faults = Vec::new();
    for func in &a.module.funcs {
        let private = func.attrs.str("sym_visibility") == Some("private");
        // A removed function, or one with another boundary, is run by its callers.
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

/// Returns whether two functions have the same name, and arguments and results of the same sizes and element types.
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
