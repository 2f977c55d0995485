//! Layouts that convert as many bytes or more, and that are better with the copies that they save.
//!
//! What is copied where a part of a value might have been read where it lies, or written where it is wanted, depends on the layouts of the value and on what
//! all its readers take, so that it is known once all layouts are chosen. Where copies are left by that, the values that are copied are held in their other
//! layouts, one after another, with all else as is best beside that, and what costs least with its copies is taken; then again from there.
//!
//! # Cost
//! As many choices as [`MOST_TRIALS`] says, [`MOST_ROUNDS`] times, of a function of at most [`MOST_GROUPS`] that copies something by choice; none of any other one.

use super::attempt::{Attempt, writable};
use super::choose::Choice;
use super::costs::{Bytes, bytes, laid};
use super::emit::Emitted;
use super::groups::Group;
use super::layouts::LayoutId;
use super::maps::FastSet;
use super::problem::movement;
use super::shared::Shared;
use crate::elide_copies::{self, Repeats};
use crate::pass::PassContext;
use optc_check::stats::Stats;
use optc_ir::entity::SideTable;
use optc_ir::size::SizeTable;
use optc_ir::{Func, Module, Op};

/// Layouts that are tried from one choice on.
const MOST_TRIALS: usize = 48;
/// Groups of a function above which none is: each layout that is tried is a choice of all.
const MOST_GROUPS: usize = 1024;
/// How often better layouts are looked for.
const MOST_ROUNDS: usize = 4;

/// A function with what it costs when copies have gone that need not be made.
struct Weighed {
    bytes: Bytes,
    /// The operations that copy by choice.
    copying: Vec<Op>,
}

/// A group that lies in a layout, whatever else does.
type Held = (Group, LayoutId);

/// A choice with one more group held.
struct Trial {
    held: Held,
    candidates: SideTable<Group, Vec<LayoutId>>,
    choice: Choice,
    emitted: Emitted,
    copied: u64,
    weighed: Weighed,
}

/// Makes of an attempt a better one, if there is one.
pub(super) fn for_copies(
    func: &Func,
    attempt: &mut Attempt,
    cx: &PassContext,
    shared: &mut Shared,
) {
    if !shared.trades || cx.target.is_tiled() || MOST_GROUPS < attempt.graph.groups.len() {
        return;
    }
    // Most functions leave nothing to save: what they cost is of no interest then.
    let (module, copying) = elided(&attempt.emitted.func, &attempt.choice, cx);
    if copying.is_empty() {
        return;
    }
    let bytes = bytes(&module, cx);
    // Elements that are no longer repeated do not pay for more than naive lowering moves and copies.
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
        // Nothing converts less than the first choice.
        let same = movement(found.choice.cost) == movement(attempt.choice.cost);
        attempt.choice = Choice {
            proven: attempt.choice.proven && same,
            ..found.choice
        };
        attempt.candidates = found.candidates;
        attempt.emitted = found.emitted;
        attempt.copied = found.copied;
        held.push(found.held);
        best = found.weighed;
    }
}

/// A function without the copies that need not be made, and what copies in it that another choice might not.
fn elided(func: &Func, choice: &Choice, cx: &PassContext) -> (Module, Vec<Op>) {
    let mut module = laid(vec![func.clone()], cx);
    let (left, copying) = elide_copies::without_limit(&mut module, cx);
    let converts = movement(choice.cost) != 0;
    let saves =
        left.by_choice != 0 || left.given != 0 && converts || left.repeats == Repeats::ByChoice;
    (module, if saves { copying } else { Vec::new() })
}

/// Bytes that a function as it was written copies.
fn copied(func: &Func, cx: &PassContext) -> u64 {
    let module = laid(vec![func.clone()], cx);
    let sizes = SizeTable::new(&cx.bindings);
    Stats::at(&module, &cx.registry, &sizes).copy_bytes
}

/// The storage groups of what operations of the folded function read and give, each once.
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

/// What costs least with one more group held in another layout, if that is less.
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
    let mut trials: Vec<(Held, Choice, u64)> = Vec::new();
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
            // What it converts is a part of what it costs.
            let Some(choice) = choice.filter(|c| movement(c.cost) < best.bytes.all) else {
                continue;
            };
            let copied = search.copied(&choice);
            trials.push(((group, layout), choice, copied));
        }
    }
    let candidates = search.take_candidates();
    let (mut found, mut least): (Option<Trial>, u64) = (None, best.bytes.all);
    for (held, choice, copied) in trials {
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
            copied,
            weighed: Weighed { bytes, copying },
        });
    }
    if found.is_some() {
        // Rules were counted when they fired first.
        let rules = shared.rules.clone();
        *shared = tables;
        shared.rules = rules;
    }
    found
}
