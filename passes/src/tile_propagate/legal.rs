//! Rules that a carried plan must keep on a target, and larger reads that make a plan legal.

use crate::tile_propagate::carry::{Carried, Given, covers};
use crate::tile_propagate::limits::Limits;
use crate::tile_propagate::local::{Local, LocalOp, LocalSource};
use optc_tile::block::Backend;
use optc_tile::{Axis, Order, Span, Steps, Sum, Tile, Tiling};
use thiserror::Error;

/// Enlarges reads from memory where the needed part is no legal block of the target: first to the next larger block
/// size, then to all of the last dimension, then to all of the last two.
pub(crate) fn widen(local: &Local, carried: &mut Carried, grid: &[u64], limits: &Limits) {
    for (parts, shape) in carried.inputs.iter_mut().zip(&local.inputs) {
        let rank = shape.dims.len();
        for tile in parts.iter_mut() {
            for span in &mut tile.0 {
                span.extent = limits.rounded(span.extent);
            }
            for d in (rank.saturating_sub(2)..rank).rev() {
                if limits.legal(tile, &shape.dims, shape.bits).is_err() {
                    tile.0[d] = Span::whole(limits.rounded(shape.dims[d]));
                }
            }
        }
        let mut kept: Vec<Tile> = Vec::with_capacity(parts.len());
        for tile in parts.drain(..) {
            if !kept
                .iter()
                .any(|known| known.holds(&tile, &shape.dims, grid))
            {
                kept.retain(|known| !tile.holds(known, &shape.dims, grid));
                kept.push(tile);
            }
        }
        *parts = kept;
    }
}

/// Returns whether programs can read the parts that they need of the blocks that [`widen`] enlarges.
pub(crate) fn reads_parts(local: &Local, carried: &Carried, limits: &Limits) -> bool {
    let mut inputs = carried.inputs.iter().zip(&local.inputs);
    inputs.all(|(parts, shape)| {
        let legal = |tile: &Tile| limits.legal(tile, &shape.dims, shape.bits).is_ok();
        parts.iter().all(|tile| limits.reads(tile) || legal(tile))
    })
}

/// Checks that a carried plan is legal: results that leave the group are covered, sums are complete where they are
/// read, and blocks keep the target's rules. The error names the first operation or input that breaks a rule.
pub(crate) fn check(
    local: &Local,
    carried: &Carried,
    given: &[Given],
    axes: &[Axis],
    limits: &Limits,
) -> Result<(), (Option<usize>, String)> {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let completion = completion(local, given, &grid);
    let online = online(local, given);
    for (at, op) in local.ops.iter().enumerate() {
        let pieces = &carried.results[at];
        if 1 < pieces.len() && online[at] {
            let reason = "it is computed online, and readers need several parts of it".to_owned();
            return Err((Some(at), reason));
        }
        if limits.reads_row_major() && op.kind.rearranges {
            let parts = pieces.iter().zip(&carried.steps[at]);
            parts
                .filter_map(|(tiles, steps)| Some((tiles.first()?, steps)))
                .try_for_each(|(tile, steps)| is_box(op, tile, steps, &grid))
                .map_err(|reason| (Some(at), reason))?;
        }
        for (r, shape) in op.live_outs() {
            let tiles: Vec<&Tile> = pieces.iter().map(|piece| &piece[r]).collect();
            if !covers(&tiles, &shape.dims, &grid) {
                let tiles: Vec<String> = tiles.iter().map(ToString::to_string).collect();
                let tiles = tiles.join(" and ");
                let reason = format!("the tiles {tiles} of its result {r} are not all of it");
                return Err((Some(at), reason));
            }
        }
        for (r, tile) in pieces.iter().flat_map(|piece| piece.iter().enumerate()) {
            let mut axes = completion[at].results.iter();
            if let Some(axis) = axes.find(|&&a| tile.depends_on(a)) {
                let reason =
                    format!("its tile {tile} depends on g{axis}, along which it is added up");
                return Err((Some(at), reason));
            }
            let shape = &op.kind.results[r];
            if !op.live_out[r] || tile.is_outside(&shape.dims, &grid) {
                continue;
            }
            let outside = |(span, &size): (&Span, &u64)| {
                let (low, high) = span.start.range(&grid);
                let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
                low.saturating_add(number(span.extent)) <= 0 || number(size) <= high
            };
            if pieces.len() == 1 && tile.0.iter().zip(&shape.dims).any(outside) {
                let reason = format!("the part {tile} of its result {r} is empty in some program");
                return Err((Some(at), reason));
            }
            limits
                .legal(tile, &shape.dims, shape.bits)
                .map_err(|e| (Some(at), format!("result {r} in blocks {tile}: {e}")))?;
        }
    }
    for (tiles, shape) in carried.inputs.iter().zip(&local.inputs) {
        for tile in tiles {
            limits
                .legal(tile, &shape.dims, shape.bits)
                .map_err(|e| (None, format!("a value from memory in blocks {tile}: {e}")))?;
        }
    }
    Ok(())
}

/// Checks that the elements of a tile are a box of the operand of a reshape or transpose.
fn is_box(op: &LocalOp, tile: &Tile, steps: &Steps, grid: &[u64]) -> Result<(), String> {
    let shape = op.kind.operands.first().map(|shape| shape.dims.as_slice());
    let region = op
        .kind
        .domain
        .operand(0, steps, shape.unwrap_or_default(), grid);
    let (found, wanted) = (region.tile.elements(), tile.elements());
    if wanted < found {
        return Err(format!(
            "the {wanted} elements of its tile {tile} are no box of its operand, but part of one of {found}"
        ));
    }
    Ok(())
}

/// The sum of an operation, and the completion axes of its operands and of its results: the values are complete only at
/// the last step of these axes.
struct Completion {
    operands: Vec<usize>,
    sum: Sum,
    results: Vec<usize>,
}

fn completion(local: &Local, given: &[Given], grid: &[u64]) -> Vec<Completion> {
    let mut all: Vec<Completion> = Vec::with_capacity(local.ops.len());
    for (op, given) in local.ops.iter().zip(given) {
        let makers = op.operands.iter().filter_map(|source| match *source {
            LocalSource::Inside(from, _) => Some(&all[from].results),
            LocalSource::Outside(_) => None,
        });
        let operands: Vec<usize> = makers.flatten().copied().collect();
        let sum = Sum::of(&given.reduce, grid);
        let results = sum.complete_after(&op.kind.domain, operands.clone());
        all.push(Completion {
            operands,
            sum,
            results,
        });
    }
    all
}

/// For each operation the axes of the sums that it waits for: it runs at their last step only.
pub(crate) fn ends(local: &Local, given: &[Given], grid: &[u64]) -> Vec<Vec<usize>> {
    let all = completion(local, given, grid).into_iter();
    all.map(|of| of.operands).collect()
}

/// For each operation, whether it is computed online, part by part of its axis, or reads a result that is, directly or
/// through others up to a sum.
fn online(local: &Local, given: &[Given]) -> Vec<bool> {
    let mut online: Vec<bool> = Vec::with_capacity(local.ops.len());
    let is_cut = |at: usize| !given[at].reduce.is_empty();
    let is_online = |at: usize| local.ops[at].kind.domain.online().is_some();
    for (at, op) in local.ops.iter().enumerate() {
        let streams = |from: usize| online[from] && (is_online(from) || !is_cut(from));
        let mut sources = op.operands.iter();
        let reads = sources.any(|s| matches!(*s, LocalSource::Inside(from, _) if streams(from)));
        online.push((is_online(at) && is_cut(at)) || reads);
    }
    online
}

/// Checks that programs that write one block run directly after one another, and that no axis runs inside of a sum's
/// axis except those that the sum waits for. The error names the first operation that breaks this. `run` has the axes,
/// the outermost first.
pub(crate) fn check_order(
    local: &Local,
    carried: &Carried,
    given: &[Given],
    axes: &[Axis],
    run: &[usize],
    limits: &Limits,
) -> Result<(), (Option<usize>, String)> {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let completion = completion(local, given, &grid);
    for (at, (op, pieces)) in local.ops.iter().zip(&carried.results).enumerate() {
        let Completion { operands, sum, .. } = &completion[at];
        sum.check_order(run, operands, &grid)
            .map_err(|e| (Some(at), e.to_string()))?;
        for (r, shape) in op.live_outs() {
            let tiles = pieces.iter().map(|piece| &piece[r]);
            tiles
                .filter(|tile| !tile.is_outside(&shape.dims, &grid))
                .try_for_each(|tile| revisits(tile, axes, run, limits.backend))
                .map_err(|e| (Some(at), format!("result {r} {e}")))?;
        }
    }
    Ok(())
}

/// A block that is written by programs that do not run directly after one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
enum Revisit {
    /// An axis of a sum runs outside of one that moves the block.
    #[error("is written again after another block, because g{early} runs outside of g{moves}")]
    Returns { early: usize, moves: usize },
    /// An axis along which the block stays is parallel.
    #[error("is written by every step of g{0}, which is parallel, wanted arbitrary")]
    Parallel(usize),
}

/// Checks that programs that write the same block run directly after one another.
fn revisits(
    tile: &Tile,
    axes: &[Axis],
    run: &[usize],
    backend: Option<Backend>,
) -> Result<(), Revisit> {
    let moves = run.iter().rposition(|&a| tile.depends_on(a));
    let again = |a: &usize| 1 < axes[*a].extent && !tile.depends_on(*a);
    let sums = |a: &usize| again(a) && axes[*a].order == Order::Arbitrary;
    // The steps of a sum that an output waits for must run inside of the steps that move the output.
    if let (Some(moves), Some(early)) = (moves, run.iter().position(sums))
        && early < moves
    {
        let (moves, early) = (run[moves], run[early]);
        return Err(Revisit::Returns { early, moves });
    }
    let tpu = matches!(backend, Some(Backend::Tpu(_)));
    match (0..axes.len()).find(|a| tpu && again(a)) {
        Some(a) if axes[a].order == Order::Parallel => Err(Revisit::Parallel(a)),
        _ => Ok(()),
    }
}
