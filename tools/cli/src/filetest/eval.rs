//! Computes a module before and after passes by both oracles.

use super::header::Evaluation;
use crate::inputs::weights;
use crate::part::Part;
use optc::Bindings;
use optc::interp::{EquivalenceOptions, Fill, equivalent};

/// What differs between the module before and after, one line a function; nothing if they compute
/// the same on random inputs and on edge values. Weights whose files are absent are invented. A private
/// function that is there no more is compared in what called it.
pub(super) fn compare(part: &Part, evaluation: Evaluation) -> Vec<String> {
    let (a, b) = (&part.before, &part.after);
    let data = (weights(a, true), weights(b, true));
    let mut faults = Vec::new();
    for func in &a.module.funcs {
        let private = func.attrs.str("sym_visibility") == Some("private");
        if private && b.module.funcs.iter().all(|f| f.name != func.name) {
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
