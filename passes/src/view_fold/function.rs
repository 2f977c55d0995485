//! Folds one function: candidates, choice, bound, and the program that the choice stands for.

use super::alternatives::{Folding, alternatives};
use super::choose::Choice;
use super::conversion::Conversion;
use super::groups::{self, Functions};
use super::problem::movement;
use super::reasons::Reasons;
use super::search::Search;
use super::shared::Shared;
use crate::codes;
use crate::names::name_of;
use crate::pass::PassContext;
use optc_check::FuncWitness;
use optc_check::amount::Amount;
use optc_ir::size::SizeTable;
use optc_ir::{Diagnostic, Func, StandIns, TensorType, Value};

/// A folded function.
pub(crate) struct Folded {
    pub(crate) witness: FuncWitness,
    pub(crate) func: Func,
    pub(crate) conversions: Vec<Conversion>,
    pub(crate) why: Vec<(Value, String)>,
    /// What the values that are asked about might have been.
    pub(crate) alternatives: Vec<(Value, Vec<String>)>,
    pub(crate) naive: Amount,
    pub(crate) naive_padding: Amount,
    /// Whether numbers stood in for unknown sizes.
    pub(crate) stands_in: bool,
    /// No choice of layouts converts fewer bytes.
    pub(crate) bound: u64,
    /// Bytes of copies that might have been parts of other values.
    pub(crate) copied: u64,
    pub(crate) proven: bool,
    pub(crate) dropped: u64,
    pub(crate) groups: usize,
    pub(crate) nodes: usize,
    /// Bytes that it converts when its boundary is free, where these are fewer.
    pub(crate) freed: Option<u64>,
    /// A number of candidates that a group may have with which it converts fewer bytes.
    pub(crate) cap: Option<usize>,
    /// Searches that were made for remarks alone.
    pub(crate) trials: usize,
}

/// Folds a function.
///
/// # Errors
/// A size is too large, a pinned layout does not fit, or the target takes the function in no layouts.
pub(crate) fn fold(
    func: &Func,
    functions: &Functions<'_>,
    cx: &mut PassContext,
    shared: &mut Shared,
) -> Result<Folded, Box<Diagnostic>> {
    let graph = groups::build(
        func,
        functions,
        cx,
        &mut shared.layouts,
        &mut shared.signatures,
    )?;
    // Where values may lie without tiles, one that has no room for a run would lie so though its row wants one.
    let lines = graph
        .groups
        .iter()
        .any(|(_, group)| shared.layouts.is_plain(group.bits));
    if let Some(diag) = lines.then(|| too_large(func, cx)).flatten() {
        return Err(Box::new(diag));
    }
    if !graph.kept.is_empty() {
        let message = format!(
            "{} of @{} share memory and keep the layouts that they declare, though the boundary is free",
            graph.kept.join(", "),
            func.name
        );
        cx.remarks
            .push(Diagnostic::remark(codes::BOUNDARY_SHARED, message));
    }
    let mut search = shared.search(&graph);
    let sizes = SizeTable::new(&cx.bindings);
    let [naive, naive_padding] = search.naive_bytes(&sizes);
    search.is_bounded = true;
    let choice = search.choose().ok_or_else(|| no_lowering(func, cx))?;
    search.trace(&choice);
    let bound = bound_of(&mut search, &choice);
    let copied = search.copied(&choice);
    let (dropped, candidates) = (search.dropped, search.take_candidates());
    let explain = shared.explain;
    let emitted = shared.emit(func, &graph, cx, &candidates, &choice, explain);
    writable(&emitted.func, func, &graph.numbers)?;
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
    let (freed, cap) = (reasons.freed(), reasons.cap());
    let trials = reasons.trials();
    let witness = FuncWitness::of(
        func,
        &emitted.func,
        &cx.registry,
        &emitted.operations,
        &emitted.held,
    );
    Ok(Folded {
        func: emitted.func,
        conversions,
        why: emitted.why,
        alternatives,
        witness,
        naive,
        naive_padding,
        stands_in: graph.numbers.any(),
        bound,
        copied,
        proven: choice.proven,
        dropped,
        groups: graph.groups.len(),
        nodes: graph.nodes.len(),
        freed,
        cap,
        trials,
    })
}

fn no_lowering(func: &Func, cx: &PassContext) -> Box<Diagnostic> {
    if let Some(diag) = too_large(func, cx) {
        return Box::new(diag);
    }
    let message = format!(
        "@{}: no lowering exists on target `{}`",
        func.name, cx.target.name
    );
    Box::new(Diagnostic::error(codes::NO_LOWERING, message))
}

/// Bytes that no lowering goes below.
fn bound_of(search: &mut Search<'_>, choice: &Choice) -> u64 {
    let moved = movement(choice.cost);
    if moved == 0 {
        return 0;
    }
    let found = search.bound(moved);
    debug_assert!(found <= moved, "a bound of {found} bytes above {moved}");
    found
}

/// Checks that every layout has a notation without the numbers that stand for unknown sizes.
fn writable(new: &Func, func: &Func, numbers: &StandIns) -> Result<(), Box<Diagnostic>> {
    let Some(value) = unwritable(new, numbers) else {
        return Ok(());
    };
    let message = format!(
        "@{}: the layout of {} has no notation without the unknown sizes",
        func.name,
        name_of(new, value)
    );
    let diag = Diagnostic::error(codes::REARRANGE_UNKNOWN_SIZE, message);
    Err(Box::new(diag.at(func.span, "in this function")))
}

/// A value whose layout could only be written with a number that stands for an unknown size.
fn unwritable(func: &Func, numbers: &StandIns) -> Option<Value> {
    if !numbers.any() {
        return None;
    }
    let leaks = |&v: &Value| {
        let text = func.ty(v).as_tensor().map(|ty| ty.notation.to_string());
        text.is_some_and(|text| numbers.reword(&text) != text)
    };
    func.values.ids().find(leaks)
}

/// The first value that has no room for the runs or blocks which its operation wants: a buffer has fewer than 2^63
/// bits.
fn too_large(func: &Func, cx: &PassContext) -> Option<Diagnostic> {
    let tight = |ty: &TensorType, run: u64| {
        let shape = ty.shape()?;
        let fits = |dim: usize| {
            let padded = shape.iter().enumerate();
            let mut padded = padded.map(|(d, &n)| match d == dim {
                true => n.checked_next_multiple_of(run),
                false => Some(n),
            });
            let bits = u64::from(ty.dtype.bits());
            let total = padded.try_fold(bits, |all, n| all.checked_mul(n?));
            total.is_some_and(|n| i64::try_from(n).is_ok())
        };
        (0..shape.len()).rev().find(|&dim| !fits(dim))
    };
    func.body.iter().find_map(|&op| {
        let data = &func.ops[op];
        let family = cx.registry.get(&data.name)?.family_of(&func.op_ref(op));
        let row = cx.target.row(family)?;
        let run = Some(row.parameter()).filter(|n| 1 < *n)?;
        let mut values = data.operands.iter().chain(&data.results);
        let (value, dim) = values.find_map(|&v| Some((v, tight(func.ty(v).as_tensor()?, run)?)))?;
        let message = format!(
            "{} wants runs of {run} elements on `{}`; {} with dimension {dim} padded to them has 2^63 bits or more",
            data.name,
            cx.target.name,
            optc_ir::text::print_type(func.ty(value))
        );
        let diag = Diagnostic::error(codes::VALUE_TOO_LARGE, message);
        Some(diag.at(data.span, "this operation"))
    })
}
