//! Gives each operation of each group that is kept on chip a tile.
//!
//! ```ir before
//! func.func @main(%x: tensor<5x8x3xf32>) -> tensor<8x5x3xf32> attributes {hbir.groups = [{grid = [4], order = ["parallel"]}]} {
//!   %0 = "hbir.relu"(%x) {tile = {group = 0}} : (tensor<5x8x3xf32>) -> tensor<5x8x3xf32>
//!   %1 = "hbir.transpose"(%0) <{perm = [1, 0, 2]}> {tile = {group = 0, result = ["2 @ g0 * 2", "5", "3"]}} : (tensor<5x8x3xf32>) -> tensor<8x5x3xf32>
//!   return %1 : tensor<8x5x3xf32>
//! }
//! ```
//! ```ir after
//! func.func @main(%x: tensor<5x8x3xf32>) -> tensor<8x5x3xf32> attributes {hbir.groups = [{grid = [4], order = ["parallel"]}]} {
//!   %0 = "hbir.relu"(%x) {tile = {group = 0, result = ["5", "2 @ g0 * 2", "3"]}} : (tensor<5x8x3xf32>) -> tensor<5x8x3xf32>
//!   %1 = "hbir.transpose"(%0) <{perm = [1, 0, 2]}> {tile = {group = 0, result = ["2 @ g0 * 2", "5", "3"]}} : (tensor<5x8x3xf32>) -> tensor<8x5x3xf32>
//!   return %1 : tensor<8x5x3xf32>
//! }
//! ```
//!
//! 1. Operations are grown into groups along the dataflow (`groups`). An operation joins the groups that make its
//!    operands if the result fits on chip, does not exceed the limit of work, and is better by time (`time`) and bytes.
//!    Then the first and last operations of groups move to their neighbours where that is better.
//! 2. For each group a grid is chosen (`choose`): the dimensions of its last result and the sums that are cut, the
//!    block sizes, and their order. Plans are compared by cost (`cost`). A plan must be legal on the target (`legal`,
//!    `limits`).
//! 3. The tile of the last result is carried through the group (`carry`), from results to operands and back, by the
//!    loops that the operations declare ([`optc_ir::op::iteration_domain::IterationDomain`]).
//! 4. An axis of the grid that is cut finer than a digit of a reshape becomes two nested axes, so that every tile
//!    starts at a sum.
//! 5. The plan is written as attributes ([`optc_tile::plan`]).
//!
//! A program may have a plan of its own. Groups with a given grid are kept. Operations in them without a tile get the
//! tile that follows from the others.
//!
//! # Soundness
//! 1. A tile of an operand holds everything that the tiles of its users read ([`optc_tile::Tiling::steps`]).
//! 2. Results that leave a group are covered by the tiles of its programs, and a sum is read only when it is complete.
//!    The verifier checks the second independently.
//! 3. A group never depends on a value that depends on the group.
//!
//! # Not done
//! The rows of a norm stay whole. The rows of a softmax stay whole unless products alone read it, directly or through
//! operations that scale, cast or move its elements. An operation
//! with unknown sizes, or without declared loops, stays outside of groups.
//!
//! # Cost
//! Linear in operations: groups of any size are planned until a limit of effort. Each spelling of a group is planned once. The effort to place an
//! operation, to join groups, and to plan a group at the end is bounded in dimensions of operands and results. A chain
//! of cuts that do not divide one another ends a group where the start of a tile would be a sum of too many terms; the
//! group's remark says so.
//!
//! # Neighbours
//! Run `view-fold` before: the tile of a view is a view.

use crate::codes;
mod bound;
mod carry;
mod choose;
mod cost;
mod groups;
mod legal;
mod limits;
mod local;
mod online;
mod report;
mod stored;
mod time;

use crate::pass::{Changed, OptionInfo, Outcome, Pass, PassContext, PassInfo, Phase};
use carry::{Given, Stuck, carry};
use choose::op_tiles;
use cost::{cost, in_turn};
use groups::Grow;
use legal::{check, check_order, ends, widen};
use limits::Limits;
use local::{Kinds, Local, Uses};
use optc_ir::{Diagnostic, Func, Module, Registry};
use optc_tile::{Axis, Expr, Group, OpTile, Plan, Tile};
pub use report::{GroupReport, TileReport};

/// The name, phases and options of the pass.
pub static INFO: PassInfo = PassInfo {
    name: "tile-propagate",
    summary: "give each operation of each group that is kept on chip a tile of its own",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[
        OptionInfo {
            name: "memory",
            default: "target",
            summary: "bytes on chip: a number, or those of the target",
        },
        OptionInfo {
            name: "rank-one",
            default: "current",
            summary: "the rule for vectors on a TPU: current, or documented",
        },
    ],
};

/// The pass.
#[derive(Clone, Copy, Debug)]
pub struct TilePropagate;

impl Pass for TilePropagate {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let limits = limits(cx)?;
        let mut report = TileReport::default();
        let mut changed = Changed::No;
        for func in &mut module.funcs {
            let before = Plan::read(func).map_err(first)?.unwrap_or_default();
            let plan = plan(func, &cx.registry, &limits, before.clone(), &mut report)?;
            if plan != before {
                plan.write(func);
                changed = Changed::Yes;
            }
        }
        cx.remarks.extend(report.remarks());
        Ok(Outcome::with(changed, report))
    }
}

fn first(diags: Vec<Diagnostic>) -> Box<Diagnostic> {
    let diag = diags.into_iter().next();
    Box::new(diag.unwrap_or_else(|| {
        Diagnostic::error(
            optc_tile::shared_codes::TILE_SYNTAX,
            "the plan cannot be read",
        )
    }))
}

fn limits(cx: &PassContext) -> Result<Limits, Box<Diagnostic>> {
    let rank_one = cx.options.get(&INFO, "rank-one");
    if !["current", "documented"].contains(&rank_one) {
        let message = format!(
            "option `rank-one` of `{}` is `{rank_one}`, wanted current or documented",
            INFO.name
        );
        return Err(Box::new(Diagnostic::error(codes::OPTION_VALUE, message)));
    }
    let mut limits = Limits::of(&cx.target, rank_one == "documented");
    if cx.options.get(&INFO, "memory") != "target" {
        limits.memory = cx.options.number(&INFO, "memory")?;
    }
    Ok(limits)
}

/// The plan of a function: the given groups, completed, then those that are grown.
fn plan(
    func: &Func,
    registry: &Registry,
    limits: &Limits,
    given: Plan,
    report: &mut TileReport,
) -> Result<Plan, Box<Diagnostic>> {
    let kinds = Kinds::of(func, registry, limits.target());
    let uses = Uses::of(func);
    let mut taken = vec![false; func.body.len()];
    let mut plan = Plan::default();
    for (number, group) in given.groups.iter().enumerate() {
        let places: Vec<usize> = func
            .body
            .iter()
            .enumerate()
            .filter(|(_, op)| given.tiles.get(op).is_some_and(|t| t.group == number))
            .map(|(at, _)| at)
            .collect();
        places.iter().for_each(|&at| taken[at] = true);
        complete(
            func,
            &kinds,
            &uses,
            limits,
            &given,
            (number, group, &places),
            &mut plan,
            report,
        )?;
    }
    let mut grow = Grow::new(func, &kinds, &uses, limits);
    let groups = grow.run(&taken);
    report.candidates = report
        .candidates
        .saturating_add(grow.effort.candidates.get());
    report.carried = report.carried.saturating_add(grow.effort.carried.get());
    for grown in groups {
        let (local, _) = Local::new(func, &kinds, &uses, &grown.places);
        // Names for values in memory move nothing and need no grid.
        if local.ops.iter().all(|op| op.kind.free) {
            continue;
        }
        let number = plan.groups.len();
        let mut axes = grown.plan.axes.clone();
        let mut tiles = grown.plan.tiles.clone();
        nest(&mut axes, &mut tiles);
        report.add(
            func,
            &grown.places,
            &local,
            &axes,
            &grown.plan.cost,
            limits,
            grown.apart,
        );
        let ops = grown.places.iter().map(|&at| func.body[at]).collect();
        plan.groups.push(Group { axes, ops });
        for (&at, mut tile) in grown.places.iter().zip(tiles) {
            tile.group = number;
            plan.tiles.insert(func.body[at], tile);
        }
    }
    report.finish(func, &kinds, &plan, limits);
    Ok(plan)
}

/// Completes the plan of one group that the program gives in part: every operation gets its tile.
///
/// Given tiles are constraints; the others are propagated from them. A conflict is the user's to resolve, so it is
/// reported with both places, and no given tile is changed. The order of the checks gives the most useful message: an
/// operation without loops first, then conflicting tiles, then excessive size.
#[expect(
    clippy::too_many_arguments,
    reason = "what a function and its plan are"
)]
fn complete(
    func: &Func,
    kinds: &Kinds,
    uses: &Uses,
    limits: &Limits,
    given: &Plan,
    (number, group, places): (usize, &Group, &[usize]),
    plan: &mut Plan,
    report: &mut TileReport,
) -> Result<(), Box<Diagnostic>> {
    let name = |at: usize| &func.ops[func.body[places[at]]];
    if let Some(at) = places.iter().position(|&p| !kinds.of[p].fits) {
        let message = format!(
            "{} of group {number} has no loops to tile, or a size that is not known",
            name(at).name
        );
        let diag =
            Diagnostic::error(codes::TILE_CONFLICT, message).at(name(at).span, "this operation");
        return Err(Box::new(diag));
    }
    let (local, _) = Local::new(func, kinds, uses, places);
    let given = places
        .iter()
        .map(|&at| given.tiles.get(&func.body[at]).cloned());
    let fixed: Vec<Given> = given
        .map(|tile| of_tile(tile.unwrap_or_default()))
        .collect();
    let grid = group.grid();
    let mut carried =
        carry(&local, &fixed, &grid, false).map_err(|Stuck { op, by, reason, .. }| {
            let message = format!("group {number}: {}: {reason}", name(op).name);
            let mut diag = Diagnostic::error(codes::TILE_CONFLICT, message)
                .at(name(op).span, "this operation");
            if let Some(by) = by {
                diag = diag.at(name(by).span, format!("{} asks for it", name(by).name));
            }
            Box::new(diag)
        })?;
    widen(&local, &mut carried, &grid, limits);
    let run = in_turn(&group.axes);
    let checked = check(&local, &carried, &fixed, &group.axes, limits);
    let checked =
        checked.and_then(|()| check_order(&local, &carried, &fixed, &group.axes, &run, limits));
    checked.map_err(|(op, reason)| {
        let message = format!("group {number}: {reason}");
        let diag = Diagnostic::error(codes::TILE_CONFLICT, message);
        Box::new(match op {
            Some(op) => diag.at(name(op).span, "this operation"),
            None => diag.at(func.span, "this function"),
        })
    })?;
    let ends = ends(&local, &fixed, &grid);
    let cost = cost(&local, &carried, (&group.axes, &run), &ends, limits);
    if limits.memory < cost.footprint {
        let message = format!(
            "group {number} needs {} bytes on chip, wanted at most {}",
            cost.footprint, limits.memory
        );
        let hint = "smaller blocks, or fewer operations in the group";
        let diag = Diagnostic::error(codes::TILE_CONFLICT, message).at(func.span, "this function");
        return Err(Box::new(diag.hint(hint)));
    }
    report.add(func, places, &local, &group.axes, &cost, limits, false);
    let mut ops = Vec::new();
    for (&at, mut tile) in places.iter().zip(op_tiles(&local, carried, fixed, &grid)) {
        tile.group = number;
        ops.push(func.body[at]);
        plan.tiles.insert(func.body[at], tile);
    }
    let axes = group.axes.clone();
    plan.groups.push(Group { axes, ops });
    Ok(())
}

/// The results, reduced axes and reads that a plan gives for an operation.
fn of_tile(tile: OpTile) -> Given {
    let parts: Vec<OpTile> = tile.parts().collect();
    let (results, mut reads): (Vec<_>, Vec<_>) =
        parts.into_iter().map(|p| (p.results, p.reads)).unzip();
    if reads.is_empty() {
        reads.push(tile.reads);
    }
    Given {
        results: (!results.is_empty()).then_some(results),
        reduce: tile.reduce,
        reads,
    }
}

/// Splits each axis whose quotients and remainders occur in tiles into two nested axes, until no axis is left whose
/// number of steps they divide.
fn nest(axes: &mut Vec<Axis>, tiles: &mut [OpTile]) {
    loop {
        let mut split: Option<(usize, u64)> = None;
        let spans = tiles.iter().flat_map(|t| {
            let more = t.more.iter();
            let reads = more.clone().flat_map(|p| &p.reads);
            let reads = t.reads.iter().chain(reads).flatten();
            let results = t.results.iter().chain(more.flat_map(|p| &p.results));
            let spans = results.chain(reads).flat_map(|t| &t.0);
            spans.chain(&t.reduce)
        });
        for span in spans {
            span.start.cuts(&mut |axis, period| {
                let extent = axes.get(axis).map_or(1, |a| a.extent);
                let proper = 1 < period && period < extent && extent.is_multiple_of(period);
                if proper && split.is_none_or(|s| (axis, period) < s) {
                    split = Some((axis, period));
                }
            });
        }
        let Some((axis, period)) = split else { return };
        let inner = Axis {
            extent: period,
            order: axes[axis].order,
        };
        axes[axis].extent /= period;
        axes.insert(axis + 1, inner);
        let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
        let stride = i64::try_from(period).unwrap_or(i64::MAX);
        let with = |a: usize| match a.cmp(&axis) {
            std::cmp::Ordering::Less => Expr::axis(a),
            std::cmp::Ordering::Equal => Expr::axis(a).times(stride).plus(&Expr::axis(a + 1)),
            std::cmp::Ordering::Greater => Expr::axis(a + 1),
        };
        for tile in tiles.iter_mut() {
            let mut all: Vec<&mut Tile> = tile.results.iter_mut().collect();
            all.extend(tile.reads.iter_mut().flatten());
            for piece in &mut tile.more {
                all.extend(&mut piece.results);
                all.extend(piece.reads.iter_mut().flatten());
            }
            for part in all {
                *part = part.substitute(&with, &grid);
            }
            for span in &mut tile.reduce {
                *span = span.substitute(&with, &grid);
            }
        }
    }
}
