//! The cost of a carried plan: bytes moved, bytes on chip, parallel programs, steps and time.
//!
//! Example: with a grid of 4 x 8 blocks whose second axis is innermost, a tile that depends on the first axis alone is
//! fetched 4 times. A tile that depends on the second is fetched 32 times.

use crate::tile_propagate::carry::Carried;
use crate::tile_propagate::limits::Limits;
use crate::tile_propagate::local::{Local, LocalOp, LocalSource, Shape, WIDE};
use crate::tile_propagate::stored::bytes_of;
use crate::tile_propagate::time::{Amounts, Time, runs, steps_of};
use optc_ir::op::iteration_domain::Loop;
use optc_tile::{Axis, Order, Span, Steps, Tile};

/// The cost of a plan.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Cost {
    /// Bytes read from and written to memory.
    pub(crate) bytes: u64,
    /// The most bytes on chip at once.
    pub(crate) footprint: u64,
    /// Programs that may run at the same time.
    pub(crate) parallel: u64,
    /// Steps of all loops of all programs.
    pub(crate) work: u64,
    /// Arithmetic operations of all programs.
    pub(crate) operations: u64,
    /// Bytes of the outermost memory: those that move, without the ones that a shared cache holds.
    pub(crate) outer_bytes: u64,
    /// Bytes that operations without arithmetic move on chip.
    pub(crate) on_chip_bytes: u64,
    /// The modelled time.
    pub(crate) time: Time,
}

/// The steps of all loops of a group without tiles. Names for values take none.
pub(crate) fn work_untiled(local: &Local) -> u64 {
    let works = local.ops.iter().filter(|op| !op.kind.free);
    let steps = works.map(|op| steps_of(&op.kind.domain.loops));
    steps.fold(0, u64::saturating_add)
}

/// The number of times that a tile is fetched or written: each time that it changes while the programs run in order, at least
/// once. Programs that share nothing fetch it separately. `run` has the axes, the outermost first.
fn fetches(tile: &Tile, axes: &[Axis], run: &[usize], limits: &Limits) -> u64 {
    let apart = axes.iter().filter(|a| !limits.shares(a));
    let apart = apart.fold(1u64, |n, a| n.saturating_mul(a.extent));
    let shared: Vec<usize> = run
        .iter()
        .copied()
        .filter(|&a| limits.shares(&axes[a]))
        .collect();
    let Some(last) = shared.iter().rposition(|&a| tile.depends_on(a)) else {
        return apart;
    };
    let outer = shared[..last].iter();
    let outer = outer.fold(apart, |n, &a| n.saturating_mul(axes[a].extent));
    // Along the innermost axis that the tile depends on, a quotient changes less often than the index.
    let (axis, steps) = (shared[last], axes[shared[last]].extent);
    let every = |s: &Span| s.start.depends_on(axis) && s.start.is_plain();
    if MAX_STEPS < steps || tile.0.iter().any(every) {
        return outer.saturating_mul(steps);
    }
    let mut index = vec![0i64; axes.len()];
    let mut changes = 0u64;
    let mut before: Option<Vec<i64>> = None;
    for step in 0..steps {
        index[axis] = i64::try_from(step).unwrap_or(i64::MAX);
        let starts: Vec<i64> = tile.0.iter().map(|s| s.start.eval(&index)).collect();
        if before.as_ref() != Some(&starts) {
            changes += 1;
            before = Some(starts);
        }
    }
    outer.saturating_mul(changes)
}

/// The most steps along one axis that are evaluated one by one.
const MAX_STEPS: u64 = 1 << 12;

/// The bytes that move for a tile: all of it at each change, without elements outside of the value.
fn moved(tile: &Tile, shape: &Shape, axes: &[Axis], run: &[usize], limits: &Limits) -> u64 {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let (shape, bits) = (shape.dims.as_slice(), shape.bits);
    let extents = tile.0.iter().zip(shape).map(|(s, &n)| s.extent.min(n));
    let dims: Vec<u64> = extents.collect();
    let times = fetches(tile, axes, run, limits);
    let mut bytes = u128::from(times) * u128::from(bytes_of(&dims, bits));
    let spans = tile.0.iter().zip(shape).map(|(span, &n)| (span, n));
    for (span, size) in spans {
        if let Some((inside, steps)) = inside(span, size, &grid) {
            bytes = bytes * inside / (u128::from(span.extent.min(size).max(1)) * steps);
        }
    }
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The number of elements of a dimension that a span covers over all steps of the one axis that moves it, clipped to
/// the dimension, and the number of steps. `None` where several axes move the span.
fn inside(span: &Span, size: u64, grid: &[u64]) -> Option<(u128, u128)> {
    let (low, high) = span.start.range(grid);
    let end = i128::from(high) + i128::from(span.extent);
    if 0 <= low && end <= i128::from(size) {
        return Some((u128::from(span.extent), 1));
    }
    let mut axes = Vec::new();
    span.start.axes(&mut |a| axes.push(a));
    axes.dedup();
    let (axis, steps) = match axes[..] {
        [] => (None, 1),
        [axis] if grid[axis] <= MAX_STEPS || span.start.is_plain() => (Some(axis), grid[axis]),
        _ => return None,
    };
    let count = match axis {
        None => clipped(span, &[], size),
        Some(axis) if span.start.is_plain() => evenly(span, size, grid, axis),
        Some(axis) => {
            let mut index = vec![0i64; grid.len()];
            let part = |step: u64| {
                index[axis] = i64::try_from(step).unwrap_or(i64::MAX);
                clipped(span, &index, size)
            };
            (0..steps).map(part).fold(0, u128::saturating_add)
        }
    };
    Some((count, u128::from(steps)))
}

/// The elements of a dimension that a span covers in one program.
fn clipped(span: &Span, index: &[i64], size: u64) -> u128 {
    let part = span.clipped(index, size);
    u128::from(part.end - part.start)
}

/// The number of elements that a span covers over all steps of an axis, if it advances by the same distance in each
/// step. Only steps at the ends of the dimension are evaluated one by one.
fn evenly(span: &Span, size: u64, grid: &[u64], axis: usize) -> u128 {
    let number = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
    let mut index = vec![0i64; grid.len()];
    let first = span.start.eval(&index);
    index[axis] = 1;
    let distance = span.start.eval(&index).saturating_sub(first);
    let (last, extent, size_i) = (number(grid[axis]) - 1, number(span.extent), number(size));
    let mut sum = |steps: std::ops::RangeInclusive<i64>| {
        let part = |step: i64| {
            index[axis] = step;
            clipped(span, &index, size)
        };
        steps.map(part).fold(0, u128::saturating_add)
    };
    if distance <= 0 {
        return sum(0..=last);
    }
    let floor = |n: i64| n.div_euclid(distance);
    let ceil = |n: i64| n.saturating_neg().div_euclid(distance).saturating_neg();
    // Steps whose span overlaps the dimension, and among them those with a span that is not clipped.
    let some = floor((-extent).saturating_sub(first)) + 1..=ceil(size_i.saturating_sub(first)) - 1;
    let (start, end) = (*some.start().max(&0), *some.end().min(&last));
    let from = ceil(first.saturating_neg()).max(start);
    let to = floor(size_i.saturating_sub(extent).saturating_sub(first)).min(end);
    if to < from {
        return sum(start..=end);
    }
    let full = u128::from((to - from + 1).unsigned_abs()) * u128::from(span.extent);
    full + sum(start..=from - 1) + sum(to + 1..=end)
}

/// The steps of all loops that the programs of a grid run, clipped to the loops.
fn work_of(steps: &Steps, loops: &[Loop], grid: &[u64]) -> u64 {
    let programs = grid.iter().fold(1u64, |a, &n| a.saturating_mul(n));
    let all = steps.spans.iter().map(|s| s.extent);
    let all = all.fold(programs, u64::saturating_mul);
    let mut work = u128::from(all);
    for (span, of) in steps.spans.iter().zip(loops) {
        if let Some((inside, steps)) = inside(span, of.extent, grid) {
            work = work * inside / (u128::from(span.extent.max(1)) * steps);
        }
    }
    u64::try_from(work).unwrap_or(u64::MAX)
}

/// The bytes that a carried plan moves. `run` has the axes, the outermost first.
pub(crate) fn bytes_moved(
    local: &Local,
    carried: &Carried,
    axes: &[Axis],
    run: &[usize],
    limits: &Limits,
) -> u64 {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let inputs = carried.inputs.iter().zip(&local.inputs);
    let inputs = inputs.flat_map(|(tiles, shape)| tiles.iter().map(move |tile| (tile, shape)));
    let pieces = |(op, pieces): (&'_ LocalOp, &'_ Vec<Vec<Tile>>)| {
        let mut bytes = 0u64;
        for (r, shape) in op.live_outs() {
            for tile in pieces.iter().map(|piece| &piece[r]) {
                if !tile.is_outside(&shape.dims, &grid) {
                    bytes = bytes.saturating_add(moved(tile, shape, axes, run, limits));
                }
            }
        }
        bytes
    };
    let read = inputs.map(|(tile, shape)| moved(tile, shape, axes, run, limits));
    let written = local.ops.iter().zip(&carried.results).map(pieces);
    read.chain(written).fold(0, u64::saturating_add)
}

/// The bytes of the outermost memory. A shared cache keeps a value over the steps of an axis if all that the programs of
/// one step touch fits into it.
fn outer_bytes(
    local: &Local,
    carried: &Carried,
    axes: &[Axis],
    run: &[usize],
    cache: u64,
    limits: &Limits,
) -> u64 {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let mut parts: Vec<(&Tile, &Shape)> = Vec::new();
    for (tiles, shape) in carried.inputs.iter().zip(&local.inputs) {
        parts.extend(tiles.iter().map(|tile| (tile, shape)));
    }
    for (op, pieces) in local.ops.iter().zip(&carried.results) {
        for (r, shape) in op.live_outs() {
            let tiles = pieces.iter().map(|piece| &piece[r]);
            let tiles = tiles.filter(|tile| !tile.is_outside(&shape.dims, &grid));
            parts.extend(tiles.map(|tile| (tile, shape)));
        }
    }
    // The bytes of a part that the axes for which `runs` is true touch.
    let touched = |tile: &Tile, shape: &Shape, runs: &dyn Fn(usize) -> bool| {
        let extent = |(a, axis): (usize, &Axis)| Axis {
            extent: if runs(a) && tile.depends_on(a) {
                axis.extent
            } else {
                1
            },
            ..*axis
        };
        let axes: Vec<Axis> = axes.iter().enumerate().map(extent).collect();
        moved(tile, shape, &axes, run, limits).min(shape.bytes())
    };
    let mut times = vec![1u64; parts.len()];
    for (place, &axis) in run.iter().enumerate().filter(|&(_, &a)| 1 < axes[a].extent) {
        let inside = |a: usize| run[place + 1..].contains(&a);
        let one = parts
            .iter()
            .map(|(tile, shape)| touched(tile, shape, &inside));
        if cache < one.fold(0, u64::saturating_add) {
            for (times, (tile, _)) in times.iter_mut().zip(&parts) {
                if !tile.depends_on(axis) {
                    *times = times.saturating_mul(axes[axis].extent);
                }
            }
        }
    }
    let all = parts
        .iter()
        .zip(times)
        .map(|((tile, shape), times)| touched(tile, shape, &|_| true).saturating_mul(times));
    all.fold(0, u64::saturating_add)
}

/// The cost of a carried plan. `run` has the axes, the outermost first. `ends` has the axes of the sums that each
/// operation waits for.
pub(crate) fn cost(
    local: &Local,
    carried: &Carried,
    (axes, run): (&[Axis], &[usize]),
    ends: &[Vec<usize>],
    limits: &Limits,
) -> Cost {
    let grid: Vec<u64> = axes.iter().map(|a| a.extent).collect();
    let product = |n: u64, axis: &Axis| n.saturating_mul(axis.extent);
    let parallel = axes.iter().filter(|a| a.order == Order::Parallel);
    let bytes = bytes_moved(local, carried, axes, run, limits);
    let outer = limits
        .cache
        .map(|(cache, _)| outer_bytes(local, carried, axes, run, cache, limits).min(bytes));
    let mut out = Cost {
        bytes,
        outer_bytes: outer.unwrap_or(bytes),
        parallel: parallel.fold(1, product),
        footprint: footprint(local, carried, axes, &grid, limits),
        ..Cost::default()
    };
    let mut amounts = Amounts {
        bytes,
        outer: out.outer_bytes,
        programs: axes.iter().fold(1, product),
        parallel: out.parallel,
        ..Amounts::default()
    };
    for (op, pieces, grid) in runs(local, carried, ends, &grid) {
        if op.kind.free {
            continue;
        }
        let work = pieces.iter();
        let work = work.map(|steps| work_of(steps, &op.kind.domain.loops, &grid));
        let work = work.fold(0, u64::saturating_add);
        out.work = out.work.saturating_add(work);
        let programs = grid
            .iter()
            .fold(1u64, |n, &extent| n.saturating_mul(extent));
        amounts.add(&op.kind, pieces, work, programs);
    }
    out.operations = amounts.operations;
    out.on_chip_bytes = amounts.on_chip;
    // Names for values in memory take no time.
    if local.ops.iter().any(|op| !op.kind.free) {
        out.time = amounts.time(limits);
    }
    out
}

/// The most bytes that a program has on chip at once: blocks that it reads and writes, incomplete sums, state of online
/// computations, and intermediate values until their last use.
fn footprint(
    local: &Local,
    carried: &Carried,
    axes: &[Axis],
    grid: &[u64],
    limits: &Limits,
) -> u64 {
    // A tile that changes while a chip runs has two buffers, because the next one is prefetched.
    let changes = |tile: &Tile| {
        let moves = |(a, axis): (usize, &Axis)| limits.shares(axis) && tile.depends_on(a);
        axes.iter().enumerate().any(moves)
    };
    let buffers = |tile: &Tile| 1 + u64::from(changes(tile));
    let mut standing = 0u64;
    for (tiles, shape) in carried.inputs.iter().zip(&local.inputs) {
        for tile in tiles {
            let bytes = limits.bytes(shape, tile, shape.bits, grid);
            standing = standing.saturating_add(buffers(tile).saturating_mul(bytes));
        }
    }
    let last = last_uses(local);
    let mut ends: Vec<u64> = vec![0; local.ops.len() + 1];
    let (mut live, mut peak) = (0u64, 0u64);
    for (at, op) in local.ops.iter().enumerate() {
        let kind = &op.kind;
        let mut own = 0u64;
        let pieces = carried.results[at].iter().zip(&carried.steps[at]);
        for (tiles, steps) in pieces {
            let runs = online_dim(op, steps);
            for (r, tile) in tiles.iter().enumerate() {
                let shape = &kind.results[r];
                if tile.is_outside(&shape.dims, grid) {
                    continue;
                }
                let bytes = |tile: &Tile, bits: u32| limits.bytes(shape, tile, bits, grid);
                if op.live_out[r] {
                    let bytes = bytes(tile, shape.bits);
                    standing = standing.saturating_add(buffers(tile).saturating_mul(bytes));
                } else if !kind.free {
                    let bits = if runs.is_some() {
                        shape.wide
                    } else {
                        shape.bits
                    };
                    own = own.saturating_add(bytes(tile, bits));
                }
                // An incomplete sum stays on chip from program to program. So do the maximum and the sum of each row of
                // an online computation.
                if accumulates(op, steps) {
                    standing = standing.saturating_add(bytes(tile, shape.wide));
                }
                if let Some(dim) = runs {
                    let mut rows = tile.clone();
                    rows.0[dim] = Span::whole(1);
                    standing = standing.saturating_add(bytes(&rows, WIDE).saturating_mul(2));
                }
            }
        }
        live = live.saturating_add(own);
        peak = peak.max(live);
        ends[last[at].max(at)] += own;
        live = live.saturating_sub(ends[at]);
    }
    standing.saturating_add(peak)
}

/// Returns whether a program computes only a part of the operation's sum.
fn accumulates(op: &LocalOp, steps: &Steps) -> bool {
    let mut sums = op.kind.domain.reductions();
    sums.any(|(id, size, _)| !steps.spans[id].is_whole(size))
}

/// The dimension along which an operation is computed online, from program to program, if it is.
fn online_dim(op: &LocalOp, steps: &Steps) -> Option<usize> {
    let (id, size) = op.kind.domain.online()?;
    let dim = op.kind.domain.online_dim()?;
    (!steps.spans[id].is_whole(size)).then_some(dim)
}

/// The index of the last operation that needs each operation's result. A result that is a name for an operand keeps the
/// operand alive.
fn last_uses(local: &Local) -> Vec<usize> {
    let mut last = vec![0usize; local.ops.len()];
    for (at, op) in local.ops.iter().enumerate() {
        for source in &op.operands {
            if let LocalSource::Inside(from, _) = source {
                last[*from] = at;
                if op.kind.free {
                    last[at] = at;
                }
            }
        }
    }
    for at in (0..local.ops.len()).rev() {
        if local.ops[at].kind.free
            && let Some(LocalSource::Inside(from, _)) = local.ops[at].operands.first()
        {
            last[*from] = last[*from].max(last[at]);
        }
    }
    last
}

/// The axes of a written plan in the order in which its programs run: the first one is the outermost.
pub(crate) fn in_turn(axes: &[Axis]) -> Vec<usize> {
    (0..axes.len()).collect()
}
