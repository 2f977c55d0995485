//! What a plan moves, before and after.

use crate::tile_propagate::carry::{Given, carry};
use crate::tile_propagate::choose::{Cost, Limits, work_untiled};
use crate::tile_propagate::local::{Kinds, Local, LocalOp, Shape, Source, Uses, bytes_of};
use optc_ir::tile::{Axis, Plan, Region, Tile};
use optc_ir::{Diagnostic, Func};

/// What the groups of a program move, in bytes read from and written to memory.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TileReport {
    /// The groups, in order.
    pub groups: Vec<GroupReport>,
    /// Every operation for itself reads its operands and writes its results.
    pub unfused_bytes: u64,
    /// The groups without tiles: a group whose values do not fit on chip together moves what its
    /// operations move.
    pub untiled_bytes: u64,
    /// The groups with their tiles.
    pub tiled_bytes: u64,
    /// Every group reads once what it needs of each input and writes each output once.
    pub lower_bound_bytes: u64,
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
        let (mut bound, mut unfused, mut all) = (0u64, 0u64, 0u64);
        for (shape, part) in local.inputs.iter().zip(needed_inputs(local)) {
            bound = bound.saturating_add(part);
            all = all.saturating_add(shape.bytes());
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
                if !kind.free || leaves {
                    all = all.saturating_add(shape.bytes());
                }
            }
        }
        let last = places.last().map(|&at| &func.ops[func.body[at]]);
        let group = GroupReport {
            last: last.map_or(String::new(), |op| op.name.to_string()),
            ops: places.len() as u64,
            grid: axes.iter().map(|a| a.extent).collect(),
            unfused_bytes: unfused,
            untiled_bytes: if all <= limits.memory { bound } else { unfused },
            tiled_bytes: cost.bytes,
            lower_bound_bytes: bound,
            footprint: cost.footprint,
            parallel: cost.parallel,
            steps: cost.work,
            untiled_steps: work_untiled(local),
            span: last.map_or_else(optc_ir::Span::default, |op| op.span),
        };
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
            remarks.push(
                Diagnostic::remark("tile-group-plan", message).at(group.span, "its last operation"),
            );
        }
        remarks
    }
}

/// The bytes that a group needs of each input, however it is tiled.
///
/// What is counted is never more than what is needed: of what several operations read in several dimensions or
/// with gaps, the largest part counts alone.
fn needed_inputs(local: &Local) -> Vec<u64> {
    let whole = |op: &LocalOp| {
        let results = op.kind.results.iter().map(|s| Tile::whole(&s.dims));
        Given {
            results: op.leaves.contains(&true).then(|| results.collect()),
            ..Given::default()
        }
    };
    let given: Vec<Given> = local.ops.iter().map(whole).collect();
    let Ok(carried) = carry(local, &given, &[]) else {
        return local.inputs.iter().map(Shape::bytes).collect();
    };
    let results = local.ops.iter().map(|op| vec![Vec::new(); op.leaves.len()]);
    let mut reads: Vec<Vec<Vec<Region>>> = results.collect();
    let mut inputs: Vec<Vec<Region>> = vec![Vec::new(); local.inputs.len()];
    for (at, op) in local.ops.iter().enumerate().rev() {
        let (access, steps) = (&op.kind.access, &carried.steps[at]);
        // The largest share that is needed of what the steps make of a result: of the operands as large a
        // share is.
        let mut share = (0u64, 1u64);
        for (r, shape) in op.kind.results.iter().enumerate() {
            let made = access.result(r, steps, &shape.dims, &[]).tile;
            let all = inside(&made, &shape.dims).max(1);
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
            let mut region = access.operand(i, steps, dims, &[]);
            let needed = region.needed.min(inside(&region.tile, dims));
            let part = u128::from(needed) * u128::from(share.0) / u128::from(share.1);
            region.needed = u64::try_from(part).unwrap_or(u64::MAX);
            match *source {
                Source::Inside(from, r) => reads[from][r].push(region),
                Source::Outside(id) => inputs[id].push(region),
            }
        }
    }
    let pairs = inputs.iter().zip(&local.inputs);
    let bytes = |(regions, shape): (&Vec<Region>, &Shape)| {
        bytes_of(&[union(regions, &shape.dims)], shape.bits)
    };
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

/// The elements that some of these regions need: exact where they are boxes that differ in one dimension,
/// else those of the largest one.
fn union(regions: &[Region], shape: &[u64]) -> u64 {
    let most = regions.iter().map(|r| r.needed).max().unwrap_or(0);
    let full = |r: &Region| r.needed == inside(&r.tile, shape);
    let Some(first) = regions.first().filter(|_| regions.iter().all(full)) else {
        return most;
    };
    let differs = |d: &usize| regions.iter().any(|r| r.tile.0[*d] != first.tile.0[*d]);
    let dims: Vec<usize> = (0..shape.len()).filter(differs).collect();
    let &[dim] = dims.as_slice() else { return most };
    let span = |r: &Region| r.tile.0[dim].clipped(&[], shape[dim]);
    let mut spans: Vec<_> = regions.iter().map(span).collect();
    spans.sort_unstable_by_key(|s| (s.start, s.end));
    let (mut covered, mut end) = (0u64, 0u64);
    for span in spans {
        covered += span.end.saturating_sub(span.start.max(end));
        end = end.max(span.end);
    }
    let own = span(first);
    match own.end - own.start {
        0 => most,
        length => inside(&first.tile, shape) / length * covered,
    }
}
