//! What a plan moves, before and after.

use crate::tile_propagate::carry::{Carried, Given, carry};
use crate::tile_propagate::choose::{self, Cost, Limits, work_untiled};
use crate::tile_propagate::local::{Kinds, Local, LocalOp, Shape, Source, Uses, bytes_of};
use optc_ir::tile::{Access, Axis, Index, Plan, Steps, Tile};
use optc_ir::{Diagnostic, Func};
use std::collections::BTreeMap;

/// What the groups of a program move, in bytes read from and written to memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileReport {
    /// The groups, in order.
    pub groups: Vec<GroupReport>,
    /// Every operation for itself reads its operands and writes its results.
    pub unfused_bytes: u64,
    /// The groups without tiles, in one program: a group that does not fit on chip so moves what its
    /// operations move.
    pub untiled_bytes: u64,
    /// The groups with their tiles.
    pub tiled_bytes: u64,
    /// Every group reads once what it needs of each input and writes each output once.
    pub lower_bound_bytes: u64,
    /// See [`GroupReport::conversion_bytes`].
    pub conversion_bytes: u64,
    /// See [`GroupReport::conversion_bytes_at_edges`].
    pub conversion_bytes_at_edges: u64,
    /// Operations with known sizes that are in no group although they compute.
    pub ungrouped: u64,
}

/// What one group moves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupReport {
    /// The name of its last operation.
    pub last: String,
    /// The number of its operations.
    pub ops: u64,
    /// The extents of its grid.
    pub grid: Vec<u64>,
    /// See [`TileReport::unfused_bytes`].
    pub unfused_bytes: u64,
    /// See [`TileReport::untiled_bytes`].
    pub untiled_bytes: u64,
    /// See [`TileReport::tiled_bytes`].
    pub tiled_bytes: u64,
    /// See [`TileReport::lower_bound_bytes`].
    pub lower_bound_bytes: u64,
    /// The most bytes on chip at once.
    pub footprint: u64,
    /// The programs that may run at the same time.
    pub parallel: u64,
    /// The steps of all loops of all programs: what is computed more than once counts so often.
    pub steps: u64,
    /// The steps of all loops without tiles.
    pub untiled_steps: u64,
    /// The layout conversions among its operations.
    pub conversions: u64,
    /// The bytes that these read and write where each is run by itself, through memory.
    pub conversion_bytes: u64,
    /// The bytes of their operands and results that come from memory or leave the group; the rest is
    /// converted on chip.
    pub conversion_bytes_at_edges: u64,
    span: optc_ir::Span,
}

impl TileReport {
    pub(super) fn add(
        &mut self,
        func: &Func,
        places: &[usize],
        local: &Local,
        axes: &[Axis],
        cost: &Cost,
        limits: &Limits,
    ) {
        let (mut bound, mut unfused) = (0u64, 0u64);
        let whole = whole(local);
        let needed = match &whole {
            Some((_, carried)) => needed_inputs(local, carried),
            None => local.inputs.iter().map(Shape::bytes).collect(),
        };
        for part in needed {
            bound = bound.saturating_add(part);
        }
        for op in &local.ops {
            let kind = &op.kind;
            if !kind.free {
                let values = kind.operands.iter().chain(&kind.results);
                unfused = values.fold(unfused, |a, s| a.saturating_add(s.bytes()));
            }
            for (shape, &leaves) in kind.results.iter().zip(&op.leaves) {
                if leaves {
                    bound = bound.saturating_add(shape.bytes());
                }
            }
        }
        let untiled =
            whole.and_then(|(given, carried)| one_program(local, &given, carried, limits));
        let last = places.last().map(|&at| &func.ops[func.body[at]]);
        let mut group = GroupReport {
            last: last.map_or(String::new(), |op| op.name.to_string()),
            ops: places.len() as u64,
            grid: axes.iter().map(|a| a.extent).collect(),
            unfused_bytes: unfused,
            untiled_bytes: untiled.unwrap_or(unfused),
            tiled_bytes: cost.bytes,
            lower_bound_bytes: bound,
            footprint: cost.footprint,
            parallel: cost.parallel,
            steps: cost.work,
            untiled_steps: work_untiled(local),
            span: last.map_or_else(optc_ir::Span::default, |op| op.span),
            ..GroupReport::default()
        };
        for (op, &at) in local.ops.iter().zip(places) {
            let ([operand], [result]) = (&op.kind.operands[..], &op.kind.results[..]) else {
                continue;
            };
            if &*func.ops[func.body[at]].name != "hbir.layout_convert" {
                continue;
            }
            let read = matches!(op.operands[..], [Source::Outside(_)]);
            let at_edge = if read { operand.bytes() } else { 0 };
            let at_edge = at_edge + if op.leaves[0] { result.bytes() } else { 0 };
            group.conversions += 1;
            group.conversion_bytes += operand.bytes().saturating_add(result.bytes());
            group.conversion_bytes_at_edges += at_edge;
        }
        self.conversion_bytes = self.conversion_bytes.saturating_add(group.conversion_bytes);
        self.conversion_bytes_at_edges = self
            .conversion_bytes_at_edges
            .saturating_add(group.conversion_bytes_at_edges);
        self.unfused_bytes = self.unfused_bytes.saturating_add(group.unfused_bytes);
        self.untiled_bytes = self.untiled_bytes.saturating_add(group.untiled_bytes);
        self.tiled_bytes = self.tiled_bytes.saturating_add(group.tiled_bytes);
        self.lower_bound_bytes = self.lower_bound_bytes.saturating_add(bound);
        self.groups.push(group);
    }

    /// Counts what is in no group.
    pub(super) fn finish(&mut self, func: &Func, kinds: &Kinds, uses: &Uses, plan: &Plan) {
        debug_assert_eq!(kinds.of.len(), uses.users.len(), "one entry an operation");
        for (kind, op) in kinds.of.iter().zip(&func.body) {
            if kind.fits && !kind.free && !plan.tiles.contains_key(op) {
                self.ungrouped += 1;
            }
        }
    }

    /// One remark a group, then the sums.
    pub(super) fn remarks(&self) -> Vec<Diagnostic> {
        let mut remarks = Vec::with_capacity(self.groups.len() + 1);
        for (number, group) in self.groups.iter().enumerate() {
            let message = format!(
                "group {number} of {} operations, grid {:?}: moves {} bytes, {} apart, {} at least; {} \
                 bytes on chip, {} programs at a time",
                group.ops,
                group.grid,
                group.tiled_bytes,
                group.unfused_bytes,
                group.lower_bound_bytes,
                group.footprint,
                group.parallel
            );
            if 0 < group.conversions {
                let message = format!(
                    "group {number} converts {} layouts in its tiles: {} bytes of them come from memory or go there, \
                     {} if each is run by itself",
                    group.conversions, group.conversion_bytes_at_edges, group.conversion_bytes
                );
                let remark = Diagnostic::remark("tile-conversion", message);
                remarks.push(remark.at(group.span, "its last operation"));
            }
            remarks.push(
                Diagnostic::remark("tile-group-plan", message).at(group.span, "its last operation"),
            );
        }
        remarks
    }
}

/// A group without tiles: each result that leaves it is asked for as a whole.
fn whole(local: &Local) -> Option<(Vec<Given>, Carried)> {
    let whole = |op: &LocalOp| {
        let results = op.kind.results.iter().map(|s| Tile::whole(&s.dims));
        Given {
            results: op.leaves.contains(&true).then(|| vec![results.collect()]),
            ..Given::default()
        }
    };
    let given: Vec<Given> = local.ops.iter().map(whole).collect();
    let carried = carry(local, &given, &[], true).ok()?;
    Some((given, carried))
}

/// The bytes that a group moves in one program, if it has one and that fits on chip.
fn one_program(
    local: &Local,
    given: &[Given],
    mut carried: Carried,
    limits: &Limits,
) -> Option<u64> {
    choose::widen(local, &mut carried, &[], limits);
    choose::check(local, &carried, given, &[], limits).ok()?;
    let cost = choose::cost(local, &carried, &[], limits);
    (cost.footprint <= limits.memory).then_some(cost.bytes)
}

/// The bytes that a group needs of each input, however it is tiled.
///
/// What is counted is never more than what is needed: of what several operations read in ways that are not
/// followed, the largest part counts alone.
fn needed_inputs(local: &Local, carried: &Carried) -> Vec<u64> {
    let results = local.ops.iter().map(|op| vec![Vec::new(); op.leaves.len()]);
    let mut reads: Vec<Vec<Vec<Read>>> = results.collect();
    let mut inputs: Vec<Vec<Read>> = vec![Vec::new(); local.inputs.len()];
    for (at, op) in local.ops.iter().enumerate().rev() {
        let access = &op.kind.access;
        let pieces = &carried.steps[at];
        // The largest share that is needed of what the steps make of a result: of the operands as large a
        // share is.
        let mut share = (0u64, 1u64);
        for (r, shape) in op.kind.results.iter().enumerate() {
            let made = pieces.iter().map(|steps| {
                let made = access.result(r, steps, &shape.dims, &[]).tile;
                inside(&made, &shape.dims)
            });
            let all = made.fold(0, u64::saturating_add).max(1);
            let part = match op.leaves[r] {
                true => all,
                false => union(&reads[at][r], &shape.dims).min(all),
            };
            if u128::from(share.0) * u128::from(all) < u128::from(part) * u128::from(share.1) {
                share = (part, all);
            }
        }
        for (i, source) in op.operands.iter().enumerate() {
            let dims = &op.kind.operands[i].dims;
            for steps in pieces {
                let read = Read::of(access, i, steps, dims, share);
                match *source {
                    Source::Inside(from, r) => reads[from][r].push(read),
                    Source::Outside(id) => inputs[id].push(read),
                }
            }
        }
    }
    let pairs = inputs.iter().zip(&local.inputs);
    let bytes =
        |(reads, shape): (&Vec<Read>, &Shape)| bytes_of(&[union(reads, &shape.dims)], shape.bits);
    pairs.map(bytes).collect()
}

/// The elements of a tile without a grid that lie in a value of this shape.
fn inside(tile: &Tile, shape: &[u64]) -> u64 {
    let spans = tile.0.iter().zip(shape);
    let lengths = spans
        .map(|(s, &n)| s.clipped(&[], n))
        .map(|r| r.end - r.start);
    lengths.fold(1, u64::saturating_mul)
}

/// Elements of a dimension: the first, the number and the distance.
type Elements = (i64, u64, i64);

/// What an operation needs of an operand.
#[derive(Clone)]
struct Read {
    /// The elements that are needed.
    needed: u64,
    /// Per dimension the elements that are needed; none where it is no product of such sets.
    sets: Option<Vec<Elements>>,
}

impl Read {
    /// What the steps read, of which a share is needed.
    fn of(access: &Access, operand: usize, steps: &Steps, dims: &[u64], share: (u64, u64)) -> Read {
        let region = access.operand(operand, steps, dims, &[]);
        let needed = region.needed.min(inside(&region.tile, dims));
        let part = u128::from(needed) * u128::from(share.0) / u128::from(share.1);
        let box_of = |d: usize| {
            let span = &region.tile.0[d];
            Some((span.start.as_number()?, span.extent, 1))
        };
        let set = |(d, index): (usize, &Index)| match index {
            Index::Sum { terms, offset } => match terms.as_slice() {
                [] => Some((*offset, 1, 1)),
                &[(id, stride)] if 0 < stride => {
                    let step = steps.spans.get(id)?;
                    let first = step.start.as_number()?.checked_mul(stride)?;
                    Some((first.checked_add(*offset)?, step.extent, stride))
                }
                _ => None,
            },
            Index::Whole => Some((0, dims[d], 1)),
            Index::Digit { .. } => None,
        };
        let full = region.needed == region.tile.elements();
        let index = access.operands.get(operand).map_or(&[][..], Vec::as_slice);
        let sets = index.iter().enumerate();
        let sets = sets.map(|(d, i)| if full { box_of(d) } else { set((d, i)) });
        Read {
            needed: u64::try_from(part).unwrap_or(u64::MAX),
            sets: sets.collect::<Option<_>>().filter(|_| share.0 == share.1),
        }
    }
}

/// The most reads of a value, and the greatest extent of it, of which the elements are counted together.
const MAX_READS: usize = 32;
const MAX_COUNTED: u64 = 1 << 16;

/// The elements that some of these reads need: exact where they are products of sets, else those of the
/// largest one.
fn union(reads: &[Read], shape: &[u64]) -> u64 {
    let most = reads.iter().map(|r| r.needed).max().unwrap_or(0);
    let sets: Option<Vec<&Vec<Elements>>> = reads.iter().map(|r| r.sets.as_ref()).collect();
    let few = reads.len() <= MAX_READS && shape.iter().all(|&n| n <= MAX_COUNTED);
    let Some(sets) = sets.filter(|_| few && 1 < reads.len()) else {
        return most;
    };
    // The number of elements of the dimensions so far by the reads that they are in.
    let mut counts: BTreeMap<u32, u64> = BTreeMap::new();
    counts.insert(u32::MAX, 1);
    for (d, &size) in shape.iter().enumerate() {
        let mut own: BTreeMap<u32, u64> = BTreeMap::new();
        let mut masks = vec![0u32; usize::try_from(size).unwrap_or(0)];
        for (i, set) in sets.iter().enumerate() {
            let (first, count, distance) = set[d];
            for (at, mask) in (0i64..).zip(&mut masks) {
                let from = at.saturating_sub(first);
                let within = 0 <= from && (from / distance).unsigned_abs() < count;
                if within && from % distance == 0 {
                    *mask |= 1 << i;
                }
            }
        }
        for mask in masks {
            *own.entry(mask).or_default() += 1;
        }
        let mut next: BTreeMap<u32, u64> = BTreeMap::new();
        for (mask, count) in &counts {
            for (other, more) in own.iter().filter(|(other, _)| *mask & **other != 0) {
                let sum = next.entry(mask & other).or_default();
                *sum = sum.saturating_add(count.saturating_mul(*more));
            }
        }
        counts = next;
    }
    counts.values().fold(0, |a, &n| a.saturating_add(n))
}
