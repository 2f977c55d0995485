//! Layouts that convert as many bytes or more, and that cost less in total because they save copies.
//!
//! Some copies could be parts of other values, read or written in place. Whether they can depends on the layouts of the
//! value and on what all its readers take, so it is known only once all layouts are chosen. If copies are left, the
//! copied values are held in their other layouts, one after another, and everything else is chosen again. The choice
//! with the least cost, copies included, is taken, and the search continues from there.
//!
//! Example: a slice of columns is a copy if its reader wants its operand in one run. With the sliced value transposed,
//! the slice is one run and is read in place.
//!
//! # Cost
//! [`MOST_TRIALS`] choices in each of [`MOST_ROUNDS`] rounds, for a function of at most [`MOST_GROUPS`] groups that
//! copies something by choice. Nothing for any other function.

use super::attempt::{Attempt, writable};
use super::choose::Choice;
use super::costs::{Bytes, bytes, laid};
use super::emit::Emitted;
use super::groups::Group;
use super::layouts::LayoutId;
use super::maps::FastSet;
use super::shared::Shared;
use crate::elide_copies::{self, Repeats};
use crate::pass::PassContext;
use optc_check::stats::Stats;
use optc_ir::entity::SideTable;
use optc_ir::size::SizeTable;
use optc_ir::{Func, Module, Op};
use optc_solver::movement;

/// The most layouts that are tried from one choice.
const MOST_TRIALS: usize = 48;
/// The most groups of a function for which this is done: each trial is a choice for all of them.
const MOST_GROUPS: usize = 1024;
/// The most rounds of looking for better layouts.
const MOST_ROUNDS: usize = 4;

/// The cost of a function after copies that need not be made have been elided.
struct Weighed {
    bytes: Bytes,
    /// The operations that copy by choice.
    copying: Vec<Op>,
}

/// A group that is held in a layout.
type Held = (Group, LayoutId);

/// A choice with one more group held.
struct Trial {
    held: Held,
    candidates: SideTable<Group, Vec<LayoutId>>,
    choice: Choice,
    emitted: Emitted,
    weighed: Weighed,
}

/// Replaces an attempt by a better one, if there is one.
pub(super) fn for_copies(
    func: &Func,
    attempt: &mut Attempt,
    cx: &PassContext,
    shared: &mut Shared,
) {
    if !shared.saves_copies || cx.target.is_tiled() || MOST_GROUPS < attempt.graph.groups.len() {
        return;
    }
    // Most functions have no copies to save: their cost is not computed.
    let (module, copying) = elided(&attempt.emitted.func, &attempt.choice, cx);
    if copying.is_empty() {
        return;
    }
    let bytes = bytes(&module, cx);
    // A saving in repeated elements must not lead to more moved and copied bytes than in naive lowering.
    let sizes = SizeTable::new(&cx.bindings);
    let naive = attempt
        .naive
        .at(&sizes)
        .saturating_add(attempt.naive_padding.at(&sizes));
    let most = naive.saturating_add(copied(func, cx)).max(bytes.unrepeated);
    let mut best = Weighed { bytes, copying };
    let mut held: Vec<Held> = Vec::new();
    for _ in 0..MOST_ROUNDS {
        if best.copying.is_empty() {
            break;
        }
        let groups = groups_of(func, attempt, &best.copying);
        let found = better(func, attempt, (&groups, &held, &best, most), cx, shared);
        let Some(found) = found else {
            break;
        };
        // No choice converts less than the first one.
        let same = movement(found.choice.cost) == movement(attempt.choice.cost);
        attempt.choice = Choice {
            proven: attempt.choice.proven && same,
            ..found.choice
        };
        attempt.candidates = found.candidates;
        attempt.emitted = found.emitted;
        held.push(found.held);
        best = found.weighed;
    }
}

/// A function without the copies that need not be made, and the remaining copies that another choice might save.
fn elided(func: &Func, choice: &Choice, cx: &PassContext) -> (Module, Vec<Op>) {
    let mut module = laid(vec![func.clone()], cx);
    let (left, copying) = elide_copies::without_limit(&mut module, cx);
    let converts = movement(choice.cost) != 0;
    let saves =
        left.by_choice != 0 || left.given != 0 && converts || left.repeats == Repeats::ByChoice;
    (module, if saves { copying } else { Vec::new() })
}

/// Bytes that a function as written copies.
fn copied(func: &Func, cx: &PassContext) -> u64 {
    let module = laid(vec![func.clone()], cx);
    let sizes = SizeTable::new(&cx.bindings);
    Stats::at(&module, &cx.registry, &sizes).copy_bytes
}

/// The storage groups of operands and results of these operations of the folded function, each once.
fn groups_of(func: &Func, attempt: &Attempt, copying: &[Op]) -> Vec<Group> {
    let mut seen: FastSet<Group> = FastSet::default();
    let pairs = attempt.emitted.operations.iter();
    let olds = pairs.filter(|(_, new)| copying.contains(new));
    let values = olds.flat_map(|&(old, _)| {
        let data = &func.ops[old];
        data.operands.iter().chain(&data.results)
    });
    let groups = values.filter_map(|&value| Some(attempt.graph.member(value)?.group));
    groups.filter(|&group| seen.insert(group)).collect()
}

/// The cheapest choice with one more group held in another layout, if it costs less.
fn better(
    func: &Func,
    attempt: &Attempt,
    (groups, held, best, limit): (&[Group], &[Held], &Weighed, u64),
    cx: &PassContext,
    shared: &mut Shared,
) -> Option<Trial> {
    let mut tables = shared.clone();
    let mut search = tables.search(&attempt.graph);
    let scales = search.scales()?;
    let mut trials: Vec<(Held, Choice)> = Vec::new();
    for &group in groups {
        let now = attempt.candidates[group].get(attempt.choice.groups[group].produced);
        let others = search.candidates[group].clone();
        for layout in others.into_iter().filter(|layout| Some(layout) != now) {
            if trials.len() == MOST_TRIALS {
                break;
            }
            let mut fixed = held.to_vec();
            fixed.push((group, layout));
            let choice = scales.with_layouts(&search, &attempt.choice, &fixed);
            // The conversions are a part of the cost.
            let Some(choice) = choice.filter(|c| movement(c.cost) < best.bytes.all) else {
                continue;
            };
            trials.push(((group, layout), choice));
        }
    }
    let candidates = search.take_candidates();
    let (mut found, mut least): (Option<Trial>, u64) = (None, best.bytes.all);
    for (held, choice) in trials {
        let graph = &attempt.graph;
        let emitted = tables.emit(func, graph, cx, &candidates, &choice, shared.explain);
        let (module, copying) = elided(&emitted.func, &choice, cx);
        let bytes = bytes(&module, cx);
        let cheaper = bytes.all < least && bytes.unrepeated <= limit;
        if !cheaper || writable(&emitted.func, func, &graph.numbers).is_err() {
            continue;
        }
        least = bytes.all;
        found = Some(Trial {
            held,
            candidates: candidates.clone(),
            choice,
            emitted,
            weighed: Weighed { bytes, copying },
        });
    }
    if found.is_some() {
        // Rules were counted when they first fired.
        let rules = shared.rules.clone();
        *shared = tables;
        shared.rules = rules;
    }
    found
}
