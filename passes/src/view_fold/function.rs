//! Folds one function: as it is, and with some values computed several times where that costs less.

use super::alternatives::{Folding, alternatives};
use super::attempt::{Attempt, attempt};
use super::conversion::Conversion;
use super::folded::Folded;
use super::groups::Functions;
use super::maps::FastMap;
use super::reason::Reason;
use super::reasons::Reasons;
use super::shared::Shared;
use super::trade;
use super::twice;
use crate::codes;
use crate::pass::PassContext;
use optc_ir::size::SizeTable;
use optc_ir::{Diagnostic, Func, Op};
use optc_solver::movement;

/// Folds a function, with cheap values computed several times where that moves fewer bytes.
///
/// # Errors
/// A size is too large, a pinned layout does not fit, or the target takes the function in no layouts.
pub(crate) fn fold(
    func: &Func,
    functions: &Functions<'_>,
    cx: &mut PassContext,
    shared: &mut Shared,
) -> Result<Folded, Box<Diagnostic>> {
    let mut first = attempt(func, functions, cx, shared)?;
    trade::for_copies(func, &mut first, cx, shared);
    if !first.graph.kept.is_empty() {
        let message = format!(
            "{} of @{} share memory and keep the layouts that they declare, though the boundary is free",
            first.graph.kept.join(", "),
            func.name
        );
        cx.remarks
            .push(Diagnostic::remark(codes::BOUNDARY_SHARED, message));
    }
    let found = match shared.rules.twice {
        true => twice::cheaper(func, &first, (functions, cx), shared),
        false => None,
    };
    let Some((twice, again, saved)) = found else {
        return Ok(finished(func, first, functions, cx, shared));
    };
    let again = Attempt {
        naive: first.naive.clone(),
        naive_padding: first.naive_padding.clone(),
        ..again
    };
    let mut folded = finished(&twice.func, again, functions, cx, shared);
    let once = finished(func, first, functions, cx, shared);
    // A lower bound for the programs with the copies and those without.
    folded.bound = folded.bound.min(once.bound);
    folded.proven &= once.proven;
    twice.name(&mut folded, saved);
    folded.once = Some(Box::new(once));
    Ok(folded)
}

/// Names the operations in reasons by those that replace them.
fn of_new_function(conversions: &mut [Conversion], operations: &[(Op, Op)]) {
    let reasons = conversions.iter_mut().flat_map(|c| &mut c.reason);
    let named = reasons.filter_map(|reason| match reason {
        Reason::Operations { ops, .. } => Some(ops),
        _ => None,
    });
    let named: Vec<&mut Vec<Op>> = named.collect();
    if named.is_empty() {
        return;
    }
    let now: FastMap<Op, Op> = operations.iter().copied().collect();
    for ops in named {
        *ops = ops.iter().filter_map(|op| now.get(op).copied()).collect();
    }
}

/// Collects the explanations and figures of a function that is laid out.
fn finished(
    func: &Func,
    attempt: Attempt,
    functions: &Functions<'_>,
    cx: &PassContext,
    shared: &mut Shared,
) -> Folded {
    let Attempt {
        graph,
        choice,
        emitted,
        naive,
        naive_padding,
        bound,
        dropped,
        ..
    } = attempt;
    let sizes = SizeTable::new(&cx.bindings);
    let alternatives = match &shared.weighed {
        None => Vec::new(),
        Some(name) => {
            let folding = Folding {
                func,
                graph: &graph,
                cx,
                choice: &choice,
                emitted: &emitted,
                naive: naive.at(&sizes).saturating_add(naive_padding.at(&sizes)),
            };
            alternatives(&folding, shared, name)
        }
    };
    let mut conversions = emitted.conversions;
    let mut reasons = Reasons::new(func, &graph, cx, shared, &conversions);
    reasons.is_entry = functions.is_entry(func);
    reasons.proven = choice.proven;
    if 0 < dropped && bound < movement(choice.cost) {
        reasons.try_larger_caps();
    }
    reasons.explain(&mut conversions, &choice);
    of_new_function(&mut conversions, &emitted.operations);
    let (freed, cap) = (reasons.freed(), reasons.cap());
    let trials = reasons.trials();
    Folded {
        func: emitted.func,
        operations: emitted.operations,
        held: emitted.held,
        stored: emitted.stored,
        ends: graph.ends(),
        repeated: Vec::new(),
        saved: 0,
        once: None,
        conversions,
        why: emitted.why,
        alternatives,
        naive,
        naive_padding,
        stands_in: graph.numbers.any(),
        bound,
        proven: choice.proven,
        dropped,
        groups: graph.groups.len(),
        nodes: graph.nodes.len(),
        freed,
        cap,
        trials,
    }
}
