//! What a plan moves, before and after.

use crate::tile_propagate::carry::{Given, carry};
use crate::tile_propagate::choose::{Cost, Limits, moved};
use crate::tile_propagate::local::{Kinds, Local, Uses};
use optc_ir::tile::{Axis, Plan, Tile};
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
        for (shape, part) in local.inputs.iter().zip(untiled_inputs(local, limits)) {
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

/// The bytes of each input that a group without tiles reads.
fn untiled_inputs(local: &Local, limits: &Limits) -> Vec<u64> {
    let whole = |op: &crate::tile_propagate::local::LocalOp| {
        let results = op.kind.results.iter().map(|s| Tile::whole(&s.dims));
        Given {
            results: op.leaves.contains(&true).then(|| results.collect()),
            reduce: Vec::new(),
        }
    };
    let given: Vec<Given> = local.ops.iter().map(whole).collect();
    match carry(local, &given, &[]) {
        Ok(carried) => {
            let pairs = carried.inputs.iter().zip(&local.inputs);
            pairs
                .map(|(tile, shape)| moved(tile, shape, &[], limits))
                .collect()
        }
        Err(_) => local
            .inputs
            .iter()
            .map(crate::tile_propagate::local::Shape::bytes)
            .collect(),
    }
}
