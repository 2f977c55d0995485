//! Folds one function: candidates, choice, bound, and the program that the choice stands for.

use super::bound;
use super::chain::Chains;
use super::conversion::Conversion;
use super::emit::Emitter;
use super::groups::{self, Functions, Graph};
use super::layouts::Layouts;
use super::names::name_of;
use super::problem::movement;
use super::saturate::RuleSet;
use super::search::{Choice, Search};
use super::signatures::Signatures;
use crate::codes;
use crate::pass::PassContext;
use optc_check::FuncWitness;
use optc_check::amount::Amount;
use optc_ir::size::SizeTable;
use optc_ir::{Diagnostic, Func, StandIns, TensorType, Value};

/// What the functions of a module share.
pub(crate) struct Shared {
    pub(crate) layouts: Layouts,
    pub(crate) signatures: Signatures,
    pub(crate) rules: RuleSet,
    /// Candidate layouts that a group may have.
    pub(crate) cap: usize,
    /// Whether the reasons for each value's form are kept.
    pub(crate) explain: bool,
}

impl Shared {
    fn search<'a>(&'a mut self, graph: &'a Graph) -> Search<'a> {
        let mut search = Search::new(
            graph,
            &mut self.layouts,
            &mut self.signatures,
            &mut self.rules,
            self.cap,
        );
        search.demand();
        search
    }
}

/// A folded function.
pub(crate) struct Folded {
    pub(crate) witness: FuncWitness,
    pub(crate) func: Func,
    pub(crate) conversions: Vec<Conversion>,
    pub(crate) why: Vec<(Value, String)>,
    pub(crate) naive: Amount,
    /// Whether numbers stood in for unknown sizes.
    pub(crate) stands_in: bool,
    /// No choice of layouts converts fewer bytes.
    pub(crate) bound: u64,
    pub(crate) proven: bool,
    pub(crate) dropped: u64,
    pub(crate) groups: usize,
    pub(crate) nodes: usize,
    pub(crate) freed: Option<u64>,
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
    if !graph.kept.is_empty() {
        let message = format!(
            "{} of @{} share memory and keep the layouts that they declare, though the boundary is free",
            graph.kept.join(", "),
            func.name
        );
        cx.remarks
            .push(Diagnostic::remark(codes::BOUNDARY_SHARED, message));
    }
    let explain = shared.explain;
    let mut search = shared.search(&graph);
    let sizes = SizeTable::new(&cx.bindings);
    let naive = search.naive_bytes(&sizes);
    let choice = search.choose().ok_or_else(|| no_lowering(func, cx))?;
    let bound = bound_of(&graph, &mut search, &choice);
    let (dropped, candidates) = (search.dropped, search.take_candidates());
    let emitted = Emitter {
        old: func,
        graph: &graph,
        layouts: &mut shared.layouts,
        candidates: &candidates,
        choice: &choice,
        registry: &cx.registry,
        target: &cx.target,
        explain,
        sizes: &sizes,
    }
    .run();
    writable(&emitted.func, func, &graph.numbers)?;
    let mut conversions = emitted.conversions;
    if !conversions.is_empty() {
        explain_conversions(&mut conversions, func, &graph, &shared.signatures, &choice);
    }
    let needs_free = movement(choice.cost) != 0;
    let freed = needs_free.then(|| freed_bytes(&graph, shared)).flatten();
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
        witness,
        naive,
        stands_in: graph.numbers.any(),
        bound,
        proven: choice.proven,
        dropped,
        groups: graph.groups.len(),
        nodes: graph.nodes.len(),
        freed,
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
fn bound_of(graph: &Graph, search: &mut Search<'_>, choice: &Choice) -> u64 {
    let moved = movement(choice.cost);
    if moved == 0 {
        return 0;
    }
    let found = bound::bytes(graph, search.layouts, search.signatures, &search.candidates);
    debug_assert!(found <= moved, "a bound of {found} bytes above {moved}");
    found
}

/// Says of each conversion which operations fix the two orders.
fn explain_conversions(
    conversions: &mut [Conversion],
    func: &Func,
    graph: &Graph,
    signatures: &Signatures,
    choice: &Choice,
) {
    let chains = Chains::new(func, graph, signatures, choice);
    for conversion in conversions.iter_mut().filter(|c| !c.constant) {
        let Some(member) = graph.member(conversion.of) else {
            continue;
        };
        conversion.forced_by = chains.of_producer(member.group);
        let reader = conversion.readers.first().copied().flatten();
        conversion.wanted_by = chains.of_reader(member.group, reader);
    }
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

/// Movement bytes of the same function if every argument and result could have any layout.
fn freed_bytes(graph: &Graph, shared: &mut Shared) -> Option<u64> {
    let mut free = Graph {
        groups: graph.groups.clone(),
        nodes: graph.nodes.clone(),
        members: graph.members.clone(),
        shapes: graph.shapes.clone(),
        numbers: graph.numbers.clone(),
        kept: Vec::new(),
    };
    for node in graph.nodes.ids() {
        free.nodes[node].pinned = None;
    }
    let choice = shared.search(&free).choose()?;
    Some(movement(choice.cost))
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
        let family = cx.registry.get(&data.name)?.family();
        let row = cx.target.row(family)?;
        let run = row.run.or(row.block).filter(|n| 1 < *n)?;
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
