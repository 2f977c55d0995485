//! The state of a kernel that is being written: its names, and the operands of its operations.

use super::cx::{Cx, Reason};
use super::index::python;
use super::member::{Member, Operand};
use super::movement::eight_rows;
use super::words::{Names, dtype, tuple};
use optc_ir::{DType, Value};
use optc_tile::{Expr, GroupSchedule, Tile};
use std::collections::{BTreeMap, BTreeSet};

/// A value that the kernel writes.
pub(super) struct Output {
    pub(super) value: Value,
    /// The block of a program; `None` if the output is stored in several parts.
    pub(super) tile: Option<Tile>,
    pub(super) name: String,
}

/// The names of the running state of an online value.
pub(super) struct Online {
    pub(super) factor: String,
    pub(super) sum: String,
    /// The tile of the rows, with one number for each row.
    pub(super) rows: Tile,
    /// The dimension along which the state is updated.
    pub(super) axis: usize,
}

/// The kernel of a group that is being written.
pub(super) struct Writer<'a> {
    pub(super) cx: &'a Cx<'a>,
    pub(super) group: &'a GroupSchedule,
    pub(super) members: &'a [Member<'a>],
    pub(super) names: Names,
    /// The values that a program has computed, by value and part.
    pub(super) local: BTreeMap<(Value, usize), String>,
    /// References to values in memory, by value and tile.
    pub(super) refs: BTreeMap<(Value, Tile), String>,
    pub(super) inputs: Vec<(Value, Tile)>,
    pub(super) scratch: Vec<(String, String)>,
    pub(super) online: BTreeMap<Value, Online>,
    pub(super) helpers: BTreeSet<&'static str>,
    /// The grid axes whose program index the kernel uses.
    pub(super) programs: BTreeSet<usize>,
}

/// The lanes of a vector, and the most steps of an axis whose places are looked at.
const LANES: i64 = 128;
const MAX_STEPS: u64 = 1 << 12;

/// Returns whether a scalar is passed in 32 bits instead of its own 16.
pub(super) fn is_narrow(element: DType) -> bool {
    element.is_float() && element.bits() == 16
}

impl<'a> Writer<'a> {
    pub(super) fn new(cx: &'a Cx<'a>, group: &'a GroupSchedule, members: &'a [Member<'a>]) -> Self {
        let mut names = Names::default();
        for axis in 0..group.axes.len() {
            names.fresh(&format!("g{axis}"));
        }
        Writer {
            cx,
            group,
            members,
            names,
            local: BTreeMap::new(),
            refs: BTreeMap::new(),
            inputs: Vec::new(),
            scratch: Vec::new(),
            online: BTreeMap::new(),
            helpers: BTreeSet::new(),
            programs: BTreeSet::new(),
        }
    }

    /// The operands on this tile, except those in `without`.
    pub(super) fn arguments(
        &mut self,
        member: &Member<'_>,
        without: &[usize],
    ) -> Result<Vec<String>, Reason> {
        let mut args = Vec::with_capacity(member.operands.len());
        for (i, operand) in member.operands.iter().enumerate() {
            if !without.contains(&i) {
                args.push(self.argument(operand)?);
            }
        }
        Ok(args)
    }

    pub(super) fn argument(&mut self, operand: &Operand) -> Result<String, Reason> {
        if operand.absent {
            return Ok(String::new());
        }
        let mut text = match &operand.local {
            None => {
                let reference = self.refs[&operand.fetched()].clone();
                let element = self.cx.tensor(operand.value)?.dtype;
                let text = match &operand.block {
                    Some(block) => self.piece(&reference, block, operand)?,
                    // A TPU has no blocks of rank 0, and those of rank 1 have no parts. Scalars have 32 bits.
                    None if operand.tile.0.is_empty() && is_narrow(element) => {
                        format!("{reference}[0, 0].astype({})", dtype(element))
                    }
                    None if operand.tile.0.is_empty() => format!("{reference}[0, 0]"),
                    None if operand.tile.0.len() == 1 => format!("{reference}[0, :]"),
                    None => format!("{reference}[...]"),
                };
                match element.is_bool() {
                    true => format!("({text} != 0)"),
                    false => text,
                }
            }
            Some((piece, tile)) => {
                let name = self.local.get(&(operand.value, *piece)).cloned();
                let name = name.ok_or("it needs what is not computed yet")?;
                self.part(&name, [tile, &operand.tile], self.cx.array(operand.value)?)?
            }
        };
        if let Some((fill, dims)) = &operand.fill {
            let shape = self.cx.shape(operand.value)?;
            let fill = if self.cx.tensor(operand.value)?.dtype.is_float() || !fill.contains("inf") {
                (*fill).to_owned()
            } else {
                return Err("integers have no infinity to fill with".to_owned());
            };
            for &d in dims {
                let start = self.python(&operand.tile.0[d].start);
                text = format!("_inside({text}, {fill}, ({d}, {start}, {}))", shape[d]);
            }
            self.helpers.insert("_inside");
        }
        Ok(text)
    }

    /// An expression over the program's indices, in Python.
    pub(super) fn python(&mut self, expr: &Expr) -> String {
        expr.axes(&mut |axis| {
            self.programs.insert(axis);
        });
        python(expr)
    }

    /// Checks that a part of the lanes whose place depends on the program starts at whole vectors.
    fn lanes(&self, offset: &Expr, room: i64) -> Result<(), Reason> {
        let grid = self.group.grid();
        let (low, high) = offset.range(&grid);
        if room == 0 || low == high {
            return Ok(());
        }
        let mut index = vec![0; grid.len()];
        let mut whole = offset.eval(&index) % LANES == 0;
        let mut axes = Vec::new();
        offset.axes(&mut |axis| axes.push(axis));
        for axis in axes {
            for at in 0..grid[axis].min(MAX_STEPS).cast_signed() {
                index[axis] = at;
                whole &= offset.eval(&index) % LANES == 0;
            }
            index[axis] = 0;
        }
        match whole {
            true => Ok(()),
            false => Err(format!(
                "it reads lanes from {low} to {high} on, at no multiple of {LANES}"
            )),
        }
    }

    /// The part of a block from memory that an operation reads.
    fn piece(&mut self, name: &str, block: &Tile, operand: &Operand) -> Result<String, Reason> {
        let grid = self.group.grid();
        let mut parts = Vec::with_capacity(block.0.len());
        if block.0.len() == 1 {
            parts.push("0".to_owned());
        }
        for (have, need) in block.0.iter().zip(&operand.tile.0) {
            let offset = need.start.minus(&have.start);
            let (low, high) = offset.range(&grid);
            let room = have.extent.cast_signed() - need.extent.cast_signed();
            if low < 0 || room < high {
                let whole = match block.0.len() {
                    1 => format!("{name}[0, :]"),
                    _ => format!("{name}[...]"),
                };
                let array = self.cx.array(operand.value)?;
                return self.part(&whole, [block, &operand.tile], array);
            }
            if parts.len() + 1 == block.0.len().max(2) {
                self.lanes(&offset, room)?;
            }
            parts.push(if room == 0 {
                ":".to_owned()
            } else if low == high {
                format!("{low}:{}", low + need.extent.cast_signed())
            } else {
                format!("pl.ds({}, {})", self.python(&offset), need.extent)
            });
        }
        Ok(format!("{name}[{}]", parts.join(", ")))
    }

    /// The part of a tile computed in the group that an operation reads. A part whose place depends on the program is read
    /// from memory: a compiler of kernels takes no vector apart at a place that it does not know.
    pub(super) fn part(
        &mut self,
        name: &str,
        [have, need]: [&Tile; 2],
        (shape, element): (Vec<u64>, DType),
    ) -> Result<String, Reason> {
        let grid = self.group.grid();
        let mut parts = Vec::with_capacity(shape.len());
        let mut starts = Vec::with_capacity(shape.len());
        let mut ends = Vec::with_capacity(shape.len());
        let mut held = Vec::with_capacity(shape.len());
        let (mut all, mut fixed, mut first_lane) = (true, true, 0);
        let mut name = name.to_owned();
        for (d, (have, need)) in have.0.iter().zip(&need.0).enumerate() {
            let mut offset = need.start.minus(&have.start);
            let (mut low, mut high) = offset.range(&grid);
            let mut room = have.extent.cast_signed() - need.extent.cast_signed();
            // Positions beyond a tile that reaches the end of the dimension are outside of the value.
            let (before, behind) = ((-low).max(0), (high - room).max(0));
            let (first, last) = have.start.range(&grid);
            let size = shape[d].cast_signed();
            let reaches = first.saturating_add(have.extent.cast_signed()) >= size;
            if (before != 0 && 0 < last) || (behind != 0 && !reaches) {
                return Err(format!("it needs `{need}` of `{have}`"));
            }
            ends.push(tuple([before, behind]));
            offset = offset.offset(before);
            (low, high, room) = (low + before, high + before, room + before + behind);
            all &= room == 0;
            fixed &= low == high;
            parts.push(if room == 0 {
                ":".to_owned()
            } else {
                format!("{low}:{}", low + need.extent.cast_signed())
            });
            if d + 1 == shape.len() {
                self.lanes(&offset, room)?;
            }
            held.push(have.extent.cast_signed() + before + behind);
            first_lane = low;
            starts.push(match room {
                0 => "slice(None)".to_owned(),
                _ => format!("pl.ds({}, {})", self.python(&offset), need.extent),
            });
        }
        if ends.iter().any(|e| e != "(0, 0)") {
            name = format!("_widened({name}, {})", tuple(&ends));
            self.helpers.insert("_widened");
        }
        if all {
            return Ok(name);
        }
        if fixed {
            if let Some(rows) = eight_rows(&name, &held, first_lane) {
                let row = parts.len() - 2;
                (name, parts[row]) = (rows, "0:1".to_owned());
            }
            return Ok(format!("{name}[{}]", parts.join(", ")));
        }
        let kept = self.names.fresh("kept");
        let memory = format!("pltpu.VMEM({}, {})", tuple(&held), dtype(element));
        self.scratch.push((kept.clone(), memory));
        self.helpers.insert("_kept");
        Ok(format!("_kept({kept}, {name}, {})", starts.join(", ")))
    }
}
