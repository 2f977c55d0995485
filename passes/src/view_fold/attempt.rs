//! Lays out one function: candidates, choice, lower bound, and the program that the choice stands for.

use super::choose::Choice;
use super::emit::Emitted;
use super::groups::{self, Functions, Graph, Group};
use super::layouts::LayoutId;
use super::search::Search;
use super::shared::Shared;
use crate::codes;
use crate::names::name_of;
use crate::pass::PassContext;
use optc_check::amount::Amount;
use optc_ir::entity::SideTable;
use optc_ir::size::SizeTable;
use optc_ir::{Diagnostic, Func, StandIns, TensorType, Value};
use optc_solver::movement;

/// A function as one search lays it out.
pub(super) struct Attempt {
    pub(super) graph: Graph,
    pub(super) candidates: SideTable<Group, Vec<LayoutId>>,
    pub(super) choice: Choice,
    pub(super) emitted: Emitted,
    pub(super) naive: Amount,
    pub(super) naive_padding: Amount,
    /// A lower bound of the bytes that any choice of layouts converts.
    pub(super) bound: u64,
    pub(super) dropped: u64,
}

/// Lays out one function.
///
/// # Errors
/// A size is too large, a pinned layout does not fit, or the target takes the function in no layouts.
pub(super) fn attempt(
    func: &Func,
    functions: &Functions<'_>,
    cx: &PassContext,
    shared: &mut Shared,
) -> Result<Attempt, Box<Diagnostic>> {
    let graph = groups::build(
        func,
        functions,
        cx,
        &mut shared.layouts,
        &mut shared.signatures,
        shared.saves_copies,
    )?;
    // If values may lie without tiles, a value without room for a run would lie without tiles, though its row wants
    // a run.
    let lines = graph
        .groups
        .iter()
        .any(|(_, group)| shared.layouts.is_plain(group.bits));
    if let Some(diag) = lines.then(|| too_large(func, cx)).flatten() {
        return Err(Box::new(diag));
    }
    let mut search = shared.search(&graph);
    let [naive, naive_padding] = search.naive_bytes(&SizeTable::new(&cx.bindings));
    search.is_bounded = true;
    let choice = search.choose().ok_or_else(|| no_lowering(func, cx))?;
    search.trace(&choice);
    let bound = bound_of(&mut search, &choice);
    let (dropped, candidates) = (search.dropped, search.take_candidates());
    let explain = shared.explain;
    let emitted = shared.emit(func, &graph, cx, &candidates, &choice, explain);
    writable(&emitted.func, func, &graph.numbers)?;
    Ok(Attempt {
        graph,
        candidates,
        choice,
        emitted,
        naive,
        naive_padding,
        bound,
        dropped,
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

/// A lower bound of the bytes of every lowering.
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
pub(super) fn writable(new: &Func, func: &Func, numbers: &StandIns) -> Result<(), Box<Diagnostic>> {
    let Some(value) = unwritable(new, numbers) else {
        return Ok(());
    };
    let message = format!(
        "@{}: the layout of {} has no notation without the unknown sizes",
        func.name,
        name_of(new, value)
    );
    let diag = Diagnostic::error(codes::REARRANGE_UNKNOWN_SIZE, message);
    let made = new.def_op(value).map(|op| new.ops[op].loc.names());
    let diag = diag.of(made.unwrap_or_default());
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

/// The first value that has no room for the runs or blocks of its operation: a buffer has fewer than 2^63 bits.
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
