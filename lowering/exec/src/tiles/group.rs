//! Facts about a group that hold for all of its programs.

use crate::access::Access;
use crate::memory::Slot;
use crate::ops::{self, Orders, Site};
use crate::tiles::error::TileError;
use indexmap::{IndexMap, IndexSet};
use optc_ir::memory::{self, Place};
use optc_ir::op::in_place;
use optc_ir::{Func, Op, Value};
use optc_tile::{GroupSchedule, Schedule};
use std::ops::Range;
use std::sync::Arc;

/// The range of a tile along each dimension of its value.
pub(super) type Bounds = Vec<Range<usize>>;

/// A group of a function whose values have slots.
pub(super) struct Group<'a> {
    site: Site<'a>,
    pub(super) schedule: &'a GroupSchedule,
    pub(super) ops: IndexSet<Op>,
    /// The operations that only move elements.
    pub(super) moves: IndexSet<Op>,
    /// The kernels and summation orders of its operations on whole values, without fusion.
    pub(super) orders: Orders,
    /// The kernels and summation orders of its products, with initial values fused.
    pub(super) products: Orders,
    /// Values of the group whose bytes are read outside of it, under this or another name.
    pub(super) stored: IndexSet<Value>,
    /// True if programs write these in place, without a copy at the end.
    pub(super) direct: bool,
}

/// Whole buffers that a group reads and writes, and accesses that all programs share.
#[derive(Debug, Default)]
pub(super) struct Wholes {
    pub(super) sources: Vec<Slot>,
    pub(super) targets: Vec<Slot>,
    /// Accesses of values that alias a tile, by value and strides of the tile.
    rearranged: IndexMap<(Value, Vec<i64>), Arc<Access>>,
}

impl<'a> Group<'a> {
    pub(super) fn of(
        site: Site<'a>,
        schedule: &'a Schedule,
        number: usize,
        (moves, orders): (IndexSet<Op>, Orders),
        products: &Orders,
        direct: bool,
    ) -> Group<'a> {
        let group = &schedule.groups[number];
        let ops: IndexSet<Op> = group.ops.iter().map(|op| op.op).collect();
        let mut stored = IndexSet::new();
        for &op in &ops {
            for &value in &site.func.ops[op].results {
                if schedule.is_live_out(value)
                    && let Some(&root) = in_place::path(site.func, value).last()
                {
                    stored.insert(root);
                }
            }
        }
        Group {
            site,
            schedule: group,
            products: products
                .iter()
                .filter(|(op, _)| ops.contains(*op))
                .map(|(op, order)| (*op, order.clone()))
                .collect(),
            ops,
            moves,
            orders,
            stored,
            direct,
        }
    }

    pub(super) fn site(&self, op: Op) -> Site<'a> {
        self.site.at(op)
    }

    pub(super) fn func(&self) -> &'a Func {
        self.site.func
    }

    pub(super) fn name(&self, op: Op) -> &'a str {
        &self.site.func.ops[op].name
    }

    pub(super) fn slot(&self, value: Value) -> Result<&'a Slot, TileError> {
        let slot = self.site.slot(value);
        slot.ok_or(TileError::NoSlot(value))
    }

    /// Returns whether a value is assembled in place from the bytes of several others.
    pub(super) fn is_in_pieces(&self, value: Value) -> bool {
        let func = self.func();
        let path = in_place::path(func, value);
        let op = path.last().and_then(|&root| func.def_op(root));
        op.is_some_and(|op| {
            let places = memory::places(&func.ops[op]).ok().flatten();
            places.is_some_and(|places| places.contains(&Place::Pieces))
        })
    }

    pub(super) fn shape(&self, value: Value) -> Result<Vec<usize>, TileError> {
        let ty = self.func().ty(value).as_tensor().and_then(ops::shape);
        ty.ok_or(TileError::Sizes(value))
    }
}

impl Wholes {
    /// The number of the buffer that a value is read from.
    pub(super) fn source(&mut self, slot: &Slot) -> usize {
        numbered(&mut self.sources, slot)
    }

    /// The number of the buffer that a value is written to.
    pub(super) fn target(&mut self, slot: &Slot) -> usize {
        numbered(&mut self.targets, slot)
    }

    /// The access of a value that aliases `root`, whose elements have the given strides.
    pub(super) fn rearranged(
        &mut self,
        group: &Group<'_>,
        value: Value,
        root: Value,
        strides: &[i64],
    ) -> Result<Arc<Access>, TileError> {
        let key = (value, strides.to_vec());
        if let Some(known) = self.rearranged.get(&key) {
            return Ok(Arc::clone(known));
        }
        let func = group.func();
        let mut access = Access::strided(&group.shape(root)?, strides);
        let mut path = in_place::path(func, value);
        let end = path.iter().position(|&at| at == root);
        path.truncate(end.ok_or(TileError::NotIn { value, root })?);
        for &at in path.iter().rev() {
            let op = func.def_op(at).ok_or(TileError::Argument)?;
            let site = group.site(op);
            let result = site.data().results.iter().position(|&v| v == at);
            let (registry, bindings) = (site.registry, site.bindings);
            let result = result.unwrap_or(0);
            let found = ops::aliased(func, op, result, registry, bindings, &access);
            access = found.ok_or(TileError::NoPart(at))?;
        }
        let access = Arc::new(access);
        self.rearranged.insert(key, Arc::clone(&access));
        Ok(access)
    }
}

fn numbered(known: &mut Vec<Slot>, slot: &Slot) -> usize {
    let same = |s: &Slot| s.storage == slot.storage && s.range() == slot.range();
    if let Some(at) = known.iter().position(same) {
        return at;
    }
    known.push(slot.clone());
    known.len() - 1
}
