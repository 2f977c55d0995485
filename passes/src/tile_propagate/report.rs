//! The bytes that a plan moves, and those without it.

use crate::codes;
use crate::tile_propagate::bound::{lower_bound, whole};
use crate::tile_propagate::carry::{Carried, Given, MAX_TERMS};
use crate::tile_propagate::cost::{Cost, cost, work_untiled};
use crate::tile_propagate::legal::{check, widen};
use crate::tile_propagate::limits::Limits;
use crate::tile_propagate::local::{Kinds, Local, LocalSource, Shape};
use crate::tile_propagate::time::{self, is_wasteful, untiled};
use optc_check::roofline::seconds;
use optc_ir::analysis::Uses;
use optc_ir::{Diagnostic, Func, Operation, Value};
use optc_ops::Gather;
use optc_tile::{Axis, Plan};
use std::collections::BTreeSet;

/// The bytes that the groups of a program read from and write to memory.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TileReport {
    /// The groups, in order.
    pub groups: Vec<GroupReport>,
    /// Bytes if each operation by itself reads its operands and writes its results.
    pub unfused_bytes: u64,
    /// Bytes of the groups without tiles, each in one program. A group that does not fit on chip this way counts as its
    /// separate operations.
    pub untiled_bytes: u64,
    /// Bytes of the groups with their tiles.
    pub tiled_bytes: u64,
    /// Lower bound: every group reads the needed part of each input once and writes each output once.
    pub lower_bound_bytes: u64,
    /// See [`GroupReport::conversion_bytes`].
    pub conversion_bytes: u64,
    /// See [`GroupReport::conversion_bytes_at_edges`].
    pub conversion_bytes_at_edges: u64,
    /// The number of operations that compute and are in no group. They read their operands and write their results.
    pub ungrouped: u64,
    /// The bytes that these operations move. They are part of the sums above, except for those of conversions.
    pub ungrouped_bytes: u64,
    /// Bytes of the program's arguments and constants that are read, and of its results, once each.
    pub program_bytes: u64,
    /// The modelled time of the groups and of the operations in no group, in picoseconds.
    pub time_ps: u64,
    /// The modelled time of all operations one after the other. See [`GroupReport::apart_ps`].
    pub apart_ps: u64,
    /// The number of combinations of block sizes that were evaluated, over all tried groups.
    pub candidates: u64,
    /// The number of dimensions of operands and results whose tiles were carried for them.
    pub carried: u64,
}

/// The bytes that one group moves.
#[derive(Clone, Debug, Default, PartialEq)]
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
    /// The steps of all loops of all programs. A value that is computed several times counts as often.
    pub steps: u64,
    /// The steps of all loops without tiles.
    pub untiled_steps: u64,
    /// The arithmetic operations of all programs. A value that is computed several times counts as often.
    pub operations: u64,
    /// The arithmetic operations of its operations apart.
    pub untiled_operations: u64,
    /// The part of [`GroupReport::tiled_bytes`] that the outermost memory moves: without what a cache holds that all
    /// programs share.
    pub outer_bytes: u64,
    /// The most work that the target allows, as a multiple of that of the operations apart, if a plan that the program
    /// brings exceeds it.
    pub above_work: Option<f64>,
    /// Bytes that operations without arithmetic read and write on chip.
    pub on_chip_bytes: u64,
    /// The modelled time in picoseconds, and that of its operations by themselves, each of which reads its operands and
    /// writes its results once.
    pub time_ps: u64,
    /// See [`GroupReport::time_ps`].
    pub apart_ps: u64,
    /// The larger of the three times below, and the launch.
    pub roofline_ps: u64,
    /// Picoseconds of the arithmetic of all units.
    pub compute_ps: u64,
    /// Picoseconds of the bytes that come from memory or go there.
    pub memory_ps: u64,
    /// Picoseconds of the bytes that move on chip.
    pub on_chip_ps: u64,
    /// The number of layout conversions among its operations.
    pub conversions: u64,
    /// The bytes that these conversions read and write if each runs by itself, through memory.
    pub conversion_bytes: u64,
    /// The bytes of their operands and results that come from memory or leave the group. The rest is converted on chip.
    pub conversion_bytes_at_edges: u64,
    /// True if its first operation is in no group with its producers because tiles through both would start at sums of
    /// too many terms.
    pub apart: bool,
    span: optc_ir::Span,
}

impl GroupReport {
    /// The work of the group as a multiple of the work of its operations apart: steps of loops, or arithmetic
    /// operations if they are the larger multiple.
    #[must_use]
    pub fn work(&self) -> f64 {
        let times = |found: u64, apart: u64| seconds(found, seconds(apart.max(1), 1.0));
        let steps = times(self.steps, self.untiled_steps);
        steps.max(times(self.operations, self.untiled_operations))
    }
}

impl GroupReport {
    /// Counts the layout conversions of a group.
    fn add_conversions(&mut self, local: &Local) {
        for op in &local.ops {
            let ([operand], [result]) = (&op.kind.operands[..], &op.kind.results[..]) else {
                continue;
            };
            if !op.kind.converts {
                continue;
            }
            let read = matches!(op.operands[..], [LocalSource::Outside(_)]);
            let at_edge = if read { operand.bytes() } else { 0 };
            let at_edge = at_edge + if op.live_out[0] { result.bytes() } else { 0 };
            self.conversions += 1;
            self.conversion_bytes += operand.bytes().saturating_add(result.bytes());
            self.conversion_bytes_at_edges += at_edge;
        }
    }
}

impl TileReport {
    /// Adds a group, with its figures beside those of its alternatives: each operation by itself, all in one program,
    /// and the lower bound. They are computed here, because the search prices only the plans that it looks at.
    #[expect(
        clippy::too_many_arguments,
        reason = "what a group is, and how it was found"
    )]
    pub(super) fn add(
        &mut self,
        func: &Func,
        places: &[usize],
        local: &Local,
        axes: &[Axis],
        cost: &Cost,
        limits: &Limits,
        apart: bool,
    ) {
        let whole = whole(local);
        let bound = lower_bound(local, whole.as_ref().map(|(_, carried)| carried));
        let mut unfused = 0u64;
        for kind in local.ops.iter().map(|op| &op.kind) {
            if !kind.free {
                let values = kind.operands.iter().chain(&kind.results);
                unfused = values.fold(unfused, |a, s| a.saturating_add(s.bytes()));
            }
        }
        let one = whole.and_then(|(given, carried)| one_program(local, &given, carried, limits));
        let (apart_steps, apart_operations) = (work_untiled(local), untiled(local, 0).operations);
        let work = (cost.work, cost.operations);
        let wasteful = is_wasteful(local, work, (apart_steps, apart_operations), limits);
        let last = places.last().map(|&at| &func.ops[func.body[at]]);
        let mut group = GroupReport {
            last: last.map_or(String::new(), |op| op.name.to_string()),
            ops: places.len() as u64,
            grid: axes.iter().map(|a| a.extent).collect(),
            unfused_bytes: unfused,
            untiled_bytes: one.unwrap_or(unfused),
            tiled_bytes: cost.bytes,
            lower_bound_bytes: bound,
            footprint: cost.footprint,
            parallel: cost.parallel,
            steps: cost.work,
            untiled_steps: apart_steps,
            operations: cost.operations,
            untiled_operations: apart_operations,
            outer_bytes: cost.outer_bytes,
            above_work: wasteful.then_some(limits.max_work),
            on_chip_bytes: cost.on_chip_bytes,
            time_ps: cost.time.total,
            apart_ps: time::apart(local, limits),
            roofline_ps: cost.time.roofline,
            compute_ps: cost.time.compute,
            memory_ps: cost.time.memory,
            on_chip_ps: cost.time.on_chip,
            apart,
            span: last.map_or_else(optc_ir::Span::default, |op| op.span),
            ..GroupReport::default()
        };
        group.add_conversions(local);
        self.conversion_bytes = self.conversion_bytes.saturating_add(group.conversion_bytes);
        self.conversion_bytes_at_edges = self
            .conversion_bytes_at_edges
            .saturating_add(group.conversion_bytes_at_edges);
        self.unfused_bytes = self.unfused_bytes.saturating_add(group.unfused_bytes);
        self.untiled_bytes = self.untiled_bytes.saturating_add(group.untiled_bytes);
        self.tiled_bytes = self.tiled_bytes.saturating_add(group.tiled_bytes);
        self.lower_bound_bytes = self.lower_bound_bytes.saturating_add(bound);
        self.time_ps = self.time_ps.saturating_add(group.time_ps);
        self.apart_ps = self.apart_ps.saturating_add(group.apart_ps);
        self.groups.push(group);
    }

    /// Counts operations in no group, and the bytes that the program reads and writes at its boundary.
    pub(super) fn finish(&mut self, func: &Func, kinds: &Kinds, plan: &Plan, limits: &Limits) {
        debug_assert_eq!(kinds.of.len(), func.body.len(), "one entry an operation");
        for (kind, &op) in kinds.of.iter().zip(&func.body) {
            if kind.computes && !kind.free && !plan.tiles.contains_key(&op) {
                let data = &func.ops[op];
                let sum = |values: &[Value]| {
                    let bytes = values.iter().map(|&v| bytes_at(func, v));
                    bytes.fold(0, u64::saturating_add)
                };
                let written = sum(&data.results);
                let mut bytes = written.saturating_add(sum(&data.operands));
                if let (true, Some(&from)) = (*data.name == *Gather::NAME, data.operands.first()) {
                    // A gather reads its first operand by rows: no more bytes than it writes.
                    let all = bytes_at(func, from);
                    bytes = bytes.saturating_sub(all.saturating_sub(written));
                }
                self.ungrouped += 1;
                let time = time::alone(kind, bytes, limits);
                self.time_ps = self.time_ps.saturating_add(time);
                self.apart_ps = self.apart_ps.saturating_add(time);
                self.ungrouped_bytes = self.ungrouped_bytes.saturating_add(bytes);
                for sum in [
                    &mut self.unfused_bytes,
                    &mut self.untiled_bytes,
                    &mut self.tiled_bytes,
                    &mut self.lower_bound_bytes,
                ] {
                    *sum = sum.saturating_add(bytes);
                }
            }
        }
        self.program_bytes = self.program_bytes.saturating_add(ends(func, kinds));
    }

    /// One remark a group.
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
                let remark = Diagnostic::remark(codes::TILE_CONVERSION, message);
                remarks.push(remark.at(group.span, "its last operation"));
            }
            if let Some(most) = group.above_work {
                let message = format!(
                    "group {number} does {:.2} times the work of its operations apart, wanted at most {most}",
                    group.work()
                );
                let remark = Diagnostic::remark(codes::TILE_WORK, message);
                remarks.push(remark.at(group.span, "its last operation"));
            }
            let remark = Diagnostic::remark(codes::TILE_GROUP_PLAN, message);
            let remark = remark.at(group.span, "its last operation");
            remarks.push(if group.apart {
                remark.hint(format!(
                    "what its first operation reads is in another group: tiles through both would start at sums of \
                     more than {MAX_TERMS} terms"
                ))
            } else {
                remark
            });
        }
        remarks
    }
}

/// The bytes of a value; 0 where its size is unknown.
fn bytes_at(func: &Func, value: Value) -> u64 {
    Shape::of(func.ty(value)).map_or(0, |shape| shape.bytes())
}

/// The bytes of the values that come into a function and are read, and of its results, each value once. Arguments and
/// results of a private function are counted at its callers.
fn ends(func: &Func, kinds: &Kinds) -> u64 {
    let outer = func.attrs.str("sym_visibility") != Some("private");
    let mut sources: BTreeSet<Value> = BTreeSet::new();
    if outer {
        sources.extend(&func.args);
    }
    for (kind, &op) in kinds.of.iter().zip(&func.body) {
        if kind.stored_data {
            sources.extend(&func.ops[op].results);
        }
    }
    let uses = Uses::of(func);
    let results: BTreeSet<Value> = func.results.iter().copied().filter(|_| outer).collect();
    let read = sources.iter().filter(|&&v| !uses.readers(v).is_empty());
    let read = read.map(|&v| bytes_at(func, v));
    let written = results.iter().map(|&v| bytes_at(func, v));
    read.chain(written).fold(0, u64::saturating_add)
}

/// The bytes that a group moves in one program; `None` if there is no such plan or it does not fit on chip.
fn one_program(
    local: &Local,
    given: &[Given],
    mut carried: Carried,
    limits: &Limits,
) -> Option<u64> {
    widen(local, &mut carried, &[], limits);
    check(local, &carried, given, &[], limits).ok()?;
    let cost = cost(local, &carried, (&[], &[]), &[], limits);
    (cost.footprint <= limits.memory).then_some(cost.bytes)
}
