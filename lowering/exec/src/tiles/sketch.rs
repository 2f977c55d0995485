//! Sketches: one program of a group as tiles and operations on them, before kernels are chosen.
//!
//! A tile is in the program's scratch memory, in the part of a whole buffer that the group reads, or in the part that it
//! writes. Views and slices of a tile are no operations: their user gets an access of its own.
//!
//! For `relu(transpose(x))` in tiles of 32 rows, the program's sketch has a read (the part of `x`), a write (the part of
//! the result) and one operation, `relu`, whose operand has the transposed access to the read.

use super::group::{Bounds, Group, Wholes};
use super::window::window;
use crate::access::Access;
use crate::memory::{Slot, Storage};
use crate::ops;
use crate::tiles::error::TileError;
use indexmap::IndexMap;
use optc_ir::memory::{self, Place};
use optc_ir::op::in_place;
use optc_ir::op::part::{Part, Port};
use optc_ir::{AttrDict, Dim, FreedomClass, Op, OpRef, Role, TensorType, Type, Value};
use optc_tile::{OpSchedule, OperandSchedule, PartSchedule, Source, Tile};
use std::ops::Range;
use std::sync::Arc;

/// The memory of a tile.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TileMemory {
    /// Scratch memory number `n` of the program.
    Scratch(usize),
    /// Read number `n`.
    Read(usize),
    /// Write number `n`.
    Write(usize),
    /// The whole buffer of a constant.
    Constant,
}

/// A tile, or a part of one as an operation reads it.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TileValue {
    /// The value that it is a part of.
    pub(super) of: Value,
    pub(super) memory: TileMemory,
    pub(super) access: Access,
}

/// An operation on tiles.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct TileOp {
    /// The operation of the function that it stands for.
    pub(super) op: Op,
    /// Attributes for the tiles; `None` for a copy of the elements of one tile to another.
    pub(super) props: Option<AttrDict>,
    pub(super) operands: Vec<usize>,
    pub(super) results: Vec<usize>,
}

/// A program. Programs that differ only in where their parts of whole buffers begin have equal sketches.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Sketch {
    pub(super) values: Vec<TileValue>,
    pub(super) ops: Vec<TileOp>,
    /// Bytes of each piece of scratch memory.
    pub(super) scratch: Vec<usize>,
    /// The whole buffer of each read, and the bytes that are read.
    pub(super) reads: Vec<(usize, usize)>,
    /// The whole buffer of each write, and the bytes that are written.
    pub(super) writes: Vec<(usize, usize)>,
}

/// The byte of the whole buffer at which each read and each write begins.
#[derive(Clone, Debug, Default)]
pub(super) struct Begins {
    pub(super) reads: Vec<usize>,
    pub(super) writes: Vec<usize>,
}

/// A tile that is computed; others are views or slices of it.
#[derive(Clone, Debug)]
struct Root {
    value: usize,
    bounds: Bounds,
    /// For scratch memory, the stride of each dimension.
    strides: Vec<i64>,
    /// For a write, the first offset in the whole buffer.
    low: i64,
}

/// Source of the elements of a part of a value.
#[derive(Clone, Copy, Debug)]
enum TileSource {
    /// Its whole buffer, which is complete before the group runs.
    Outside,
    /// A part of a tile that the program computes.
    Root(Value, usize),
    /// None: the part is empty in this program.
    Nowhere,
}

/// The access of all elements of a value, extrapolated from the memory of a tile.
struct Extrapolated {
    memory: Option<TileMemory>,
    access: Arc<Access>,
    /// A shift of all offsets.
    shift: i64,
}

/// A tile that is copied to a result. If the operand is a part of the result, also that part, the operand's shape, and
/// the bounds of the tile within it.
type Piece<'p> = (usize, Option<(&'p Part, Vec<usize>, Bounds)>);

pub(super) struct Sketcher<'g, 'a> {
    group: &'g Group<'a>,
    wholes: &'g mut Wholes,
    program: &'g [i64],
    sketch: Sketch,
    begins: Begins,
    roots: IndexMap<(Value, usize), Root>,
    sources: IndexMap<(Value, usize), TileSource>,
}

/// Sketches the program at an index of the grid.
///
/// # Errors
/// The reason why it cannot run in tiles.
pub(super) fn sketch(
    group: &Group<'_>,
    wholes: &mut Wholes,
    program: &[i64],
) -> Result<(Sketch, Begins), TileError> {
    let mut sketcher = Sketcher {
        group,
        wholes,
        program,
        sketch: Sketch::default(),
        begins: Begins::default(),
        roots: IndexMap::new(),
        sources: IndexMap::new(),
    };
    for schedule in &group.schedule.ops {
        for number in 0..schedule.parts.len() {
            let done = sketcher.part(schedule, number);
            done.map_err(|error| error.of(group.name(schedule.op)))?;
        }
    }
    Ok((sketcher.sketch, sketcher.begins))
}

fn is_empty(bounds: &Bounds) -> bool {
    bounds.iter().any(Range::is_empty)
}

fn listed(bounds: &[Range<usize>]) -> Vec<Vec<usize>> {
    bounds.iter().map(|range| range.clone().collect()).collect()
}

impl Sketcher<'_, '_> {
    fn bounds(&self, tile: &Tile, value: Value) -> Result<Bounds, TileError> {
        let shape = self.group.shape(value)?;
        let spans = tile.0.iter().zip(&shape);
        let clipped = spans.map(|(span, &n)| {
            let range = span.clipped(self.program, n as u64);
            range.start as usize..range.end as usize
        });
        Ok(clipped.collect())
    }

    /// Sketches one part of an operation.
    fn part(&mut self, schedule: &OpSchedule, number: usize) -> Result<(), TileError> {
        let site = self.group.site(schedule.op);
        let data = site.data();
        let part = &schedule.parts[number];
        let places = memory::places(data).ok().flatten();
        let places = places.ok_or(TileError::NoPlaces)?;
        let mut made = Vec::new();
        for (result, (&value, place)) in data.results.iter().zip(&places).enumerate() {
            let source = match place {
                Place::Constant => TileSource::Outside,
                Place::Alias(operand) => {
                    let from = part
                        .operands
                        .get(*operand)
                        .ok_or(TileError::OperandMissing)?;
                    self.source(from)?
                }
                Place::Pieces => return Err(TileError::Pieces),
                _ => {
                    made.push(result);
                    continue;
                }
            };
            self.sources.insert((value, number), source);
        }
        let mut bounds = Vec::with_capacity(data.results.len());
        for (tile, &value) in part.results.iter().zip(&data.results) {
            bounds.push(self.bounds(tile, value)?);
        }
        for &result in &made {
            if is_empty(&bounds[result]) {
                let key = (data.results[result], number);
                self.sources.insert(key, TileSource::Nowhere);
            }
        }
        made.retain(|&result| !is_empty(&bounds[result]));
        if made.is_empty() {
            return Ok(());
        }
        if self.group.moves.contains(&schedule.op) {
            return self.moved(schedule, number, &made, &bounds);
        }
        if made.len() != data.results.len() {
            return Err(TileError::NoElement);
        }
        self.computed(schedule, number, &bounds)
    }

    /// Source of an operand.
    fn source(&self, operand: &OperandSchedule) -> Result<TileSource, TileError> {
        match operand.source {
            Source::Memory => Ok(TileSource::Outside),
            Source::Made { part, .. } => {
                let source = self.sources.get(&(operand.value, part)).copied();
                source.ok_or(TileError::Order(operand.value))
            }
        }
    }

    /// The access of all elements of an operand.
    fn extrapolated(&mut self, operand: &OperandSchedule) -> Result<Extrapolated, TileError> {
        let value = operand.value;
        match self.source(operand)? {
            TileSource::Nowhere => Err(TileError::Nowhere(value)),
            TileSource::Outside if self.group.is_in_pieces(value) => {
                Err(TileError::InPieces(value))
            }
            TileSource::Outside => Ok(Extrapolated {
                memory: None,
                access: Arc::clone(&self.group.slot(value)?.access),
                shift: 0,
            }),
            TileSource::Root(root, part) => self.inside(value, root, part),
        }
    }

    /// The access of all elements of a value that aliases a tile.
    fn inside(
        &mut self,
        value: Value,
        root: Value,
        part: usize,
    ) -> Result<Extrapolated, TileError> {
        let found = self.roots.get(&(root, part));
        let found = found.ok_or(TileError::Order(root))?;
        let memory = self.sketch.values[found.value].memory;
        let (access, shift) = match memory {
            TileMemory::Write(_) => (Arc::clone(&self.group.slot(value)?.access), -found.low),
            TileMemory::Scratch(_) | TileMemory::Read(_) | TileMemory::Constant => {
                let starts = found.bounds.iter().zip(&found.strides);
                let start: i64 = starts.map(|(range, s)| range.start as i64 * s).sum();
                let rearranged = self
                    .wholes
                    .rearranged(self.group, value, root, &found.strides)?;
                (rearranged, -start)
            }
        };
        Ok(Extrapolated {
            memory: Some(memory),
            access,
            shift,
        })
    }

    /// The part of a value that an operation reads.
    fn read(&mut self, operand: &OperandSchedule, bounds: &Bounds) -> Result<usize, TileError> {
        if let TileSource::Root(root, part) = self.source(operand)?
            && root == operand.value
            && let Some(root) = self.roots.get(&(root, part))
            && root.bounds == *bounds
        {
            return Ok(root.value);
        }
        let extrapolated = self.extrapolated(operand)?;
        let access = Arc::clone(&extrapolated.access);
        self.picked(operand.value, &extrapolated, &access, bounds)
    }

    /// A tile with this access in its memory. Without `memory`, it is read from its whole buffer.
    fn value(
        &mut self,
        of: Value,
        memory: Option<TileMemory>,
        access: Access,
    ) -> Result<usize, TileError> {
        let (memory, access) = match memory {
            Some(memory) => (memory, access),
            None => {
                let slot = self.group.slot(of)?;
                match slot.storage {
                    Storage::Constant(_) if *slot.access == access => {
                        (TileMemory::Constant, access)
                    }
                    _ => {
                        let (begin, bytes, access) = reached(slot, access)?;
                        let key = (self.wholes.source(slot), bytes);
                        let known = self.sketch.reads.iter().zip(&self.begins.reads);
                        let known = known
                            .enumerate()
                            .find(|(_, (k, b))| **k == key && **b == begin);
                        let number = match known {
                            Some((number, _)) => number,
                            None => {
                                self.sketch.reads.push(key);
                                self.begins.reads.push(begin);
                                self.sketch.reads.len() - 1
                            }
                        };
                        (TileMemory::Read(number), access)
                    }
                }
            }
        };
        let made = TileValue { of, memory, access };
        // Operations that read the same part of a value share it.
        let written = |at: usize| self.sketch.ops.iter().any(|op| op.results.contains(&at));
        let same = (0..self.sketch.values.len()).find(|&at| self.sketch.values[at] == made);
        Ok(match same.filter(|&at| !written(at) || self.is_root(at)) {
            Some(at) => at,
            None => {
                self.sketch.values.push(made);
                self.sketch.values.len() - 1
            }
        })
    }

    fn is_root(&self, value: usize) -> bool {
        self.roots.values().any(|root| root.value == value)
    }

    /// Memory for a result's tile: its part of the whole buffer, or scratch memory.
    fn make(&mut self, value: Value, part: usize, bounds: &Bounds) -> Result<usize, TileError> {
        let whole = &self.group.slot(value)?.access;
        let own: Vec<usize> = bounds.iter().map(Range::len).collect();
        let direct = self.group.direct && self.group.stored.contains(&value);
        let (made, strides, low) = if direct {
            let picked = whole.picked(&listed(bounds));
            let low = picked.reach().map_or(0, |(low, _)| low);
            (self.target(value, bounds)?, Vec::new(), low)
        } else {
            let strides = dense(whole, bounds);
            let access = Access::strided(&own, &strides);
            let slot = self.group.slot(value)?;
            let bytes = own.iter().product::<usize>() * size(slot)?;
            let memory = TileMemory::Scratch(self.sketch.scratch.len());
            self.sketch.scratch.push(bytes);
            let of = value;
            self.sketch.values.push(TileValue { of, memory, access });
            (self.sketch.values.len() - 1, strides, 0)
        };
        let root = Root {
            value: made,
            bounds: bounds.clone(),
            strides,
            low,
        };
        self.roots.insert((value, part), root);
        self.sources
            .insert((value, part), TileSource::Root(value, part));
        Ok(made)
    }

    /// A write of a part of a value's whole buffer.
    fn target(&mut self, value: Value, bounds: &Bounds) -> Result<usize, TileError> {
        let slot = self.group.slot(value)?;
        let (begin, bytes, access) = reached(slot, slot.access.picked(&listed(bounds)))?;
        let memory = TileMemory::Write(self.sketch.writes.len());
        self.sketch.writes.push((self.wholes.target(slot), bytes));
        self.begins.writes.push(begin);
        let of = value;
        self.sketch.values.push(TileValue { of, memory, access });
        Ok(self.sketch.values.len() - 1)
    }

    /// Copies a result to its whole buffer, unless it was computed there.
    fn stored(&mut self, op: Op, value: Value, part: usize) -> Result<(), TileError> {
        if self.group.direct || !self.group.stored.contains(&value) {
            return Ok(());
        }
        let Some(root) = self.roots.get(&(value, part)).cloned() else {
            return Ok(());
        };
        let target = self.target(value, &root.bounds)?;
        self.copy(op, root.value, target);
        Ok(())
    }

    fn copy(&mut self, op: Op, from: usize, to: usize) {
        self.sketch.ops.push(TileOp {
            op,
            props: None,
            operands: vec![from],
            results: vec![to],
        });
    }

    /// Sketches an operation that only moves elements, as copies of parts of its operands.
    fn moved(
        &mut self,
        schedule: &OpSchedule,
        number: usize,
        made: &[usize],
        bounds: &[Bounds],
    ) -> Result<(), TileError> {
        let (op, group) = (schedule.op, self.group);
        let site = group.site(op);
        let data = site.data();
        let operands = &schedule.parts[number].operands;
        if let [operand] = &operands[..]
            && made == [0]
        {
            let extrapolated = self.extrapolated(operand)?;
            let (registry, bindings) = (site.registry, site.bindings);
            if let Some(access) =
                ops::rearranged(site.func, op, registry, bindings, &extrapolated.access)
            {
                let from = self.picked(operand.value, &extrapolated, &access, &bounds[0])?;
                let to = self.make(data.results[0], number, &bounds[0])?;
                self.copy(op, from, to);
                return self.stored(op, data.results[0], number);
            }
        }
        let known = |i: usize| in_place::constant(site.func, *data.operands.get(i)?);
        let decl = site.registry.get(&data.name).ok_or(TileError::Undeclared)?;
        let parts = decl.parts(&site.func.op_ref(op), &known);
        for &result in made {
            let value = data.results[result];
            // Operands are resolved before the result gets memory.
            let pieces = self.pieces(&parts, operands, (result, value), &bounds[result])?;
            let to = self.make(value, number, &bounds[result])?;
            for (from, there) in pieces {
                let Some((one, shape, own)) = there else {
                    self.copy(op, from, to);
                    continue;
                };
                let extrapolated = self.inside(value, value, number)?;
                let access = ops::part(one, &shape, &extrapolated.access);
                let access = access.ok_or(TileError::NoPartOfResult)?;
                let access = access.picked(&listed(&own)).moved(extrapolated.shift);
                let memory = self.sketch.values[to].memory;
                let of = value;
                self.sketch.values.push(TileValue { of, memory, access });
                self.copy(op, from, self.sketch.values.len() - 1);
            }
            self.stored(op, value, number)?;
        }
        Ok(())
    }

    /// The pieces of operands that a result is filled with.
    fn pieces<'p>(
        &mut self,
        parts: &'p [Part],
        operands: &[OperandSchedule],
        (result, value): (usize, Value),
        bounds: &Bounds,
    ) -> Result<Vec<Piece<'p>>, TileError> {
        let mut pieces = Vec::new();
        for one in parts {
            match (one.part, one.whole) {
                (Port::Result(r), Port::Operand(i)) if r == result => {
                    let extrapolated = self.extrapolated(&operands[i])?;
                    let shape = self.group.shape(value)?;
                    let access = ops::part(one, &shape, &extrapolated.access);
                    let access = access.ok_or(TileError::NoPartOfOperand)?;
                    let from = self.picked(operands[i].value, &extrapolated, &access, bounds)?;
                    pieces.push((from, None));
                }
                (Port::Operand(i), Port::Result(r)) if r == result => {
                    let shape = self.group.shape(operands[i].value)?;
                    if let Some(own) = cut(one, &shape, bounds)? {
                        let from = self.read(&operands[i], &own)?;
                        pieces.push((from, Some((one, shape, own))));
                    }
                }
                _ => {}
            }
        }
        let count = |piece: &Piece<'_>| self.sketch.values[piece.0].access.count();
        let filled: usize = pieces.iter().map(count).sum();
        let wanted: usize = bounds.iter().map(Range::len).product();
        match filled == wanted {
            true => Ok(pieces),
            false => Err(TileError::Unfilled),
        }
    }

    /// The elements within bounds of a value with this access, in the memory of an extrapolated operand.
    fn picked(
        &mut self,
        value: Value,
        of: &Extrapolated,
        access: &Access,
        bounds: &Bounds,
    ) -> Result<usize, TileError> {
        let access = access.picked(&listed(bounds)).moved(of.shift);
        self.value(value, of.memory, access)
    }

    /// Sketches an operation that computes, on the tiles of its operands.
    fn computed(
        &mut self,
        schedule: &OpSchedule,
        number: usize,
        bounds: &[Bounds],
    ) -> Result<(), TileError> {
        let (op, group) = (schedule.op, self.group);
        let part: &PartSchedule = &schedule.parts[number];
        let mut own = Vec::with_capacity(part.operands.len());
        for operand in &part.operands {
            let tile = operand.tile.as_ref();
            let tile = tile.ok_or(TileError::OperandSizes)?;
            own.push(self.bounds(tile, operand.value)?);
        }
        let (props, own) = match window(group, op, &own, bounds)? {
            Some(found) => found,
            None => {
                group.follows(op, &own, bounds)?;
                (group.site(op).data().props.clone(), own)
            }
        };
        group.fits(op, &props, &own, bounds)?;
        let mut operands = Vec::with_capacity(own.len());
        for (operand, bounds) in part.operands.iter().zip(&own) {
            operands.push(self.read(operand, bounds)?);
        }
        let values = group.site(op).data().results.clone();
        let mut results = Vec::with_capacity(values.len());
        for (&value, bounds) in values.iter().zip(bounds) {
            results.push(self.make(value, number, bounds)?);
        }
        self.sketch.ops.push(TileOp {
            op,
            props: Some(props),
            operands,
            results,
        });
        for value in values {
            self.stored(op, value, number)?;
        }
        Ok(())
    }
}

/// The first byte, the number of bytes and the relative access of some elements of a whole buffer.
fn reached(slot: &Slot, access: Access) -> Result<(usize, usize, Access), TileError> {
    let size = size(slot)?;
    let (low, high) = access.reach().ok_or(TileError::EmptyTile)?;
    let begin = usize::try_from(low)? * size;
    let bytes = (high - low + 1) as usize * size;
    Ok((begin, bytes, access.moved(-low)))
}

/// The bytes of an element.
fn size(slot: &Slot) -> Result<usize, TileError> {
    match slot.width % 8 {
        0 => Ok(slot.width as usize / 8),
        _ => Err(TileError::NoBytes),
    }
}

/// Strides of a dense tile whose dimensions have the order of the whole buffer.
fn dense(whole: &Access, bounds: &Bounds) -> Vec<i64> {
    let step = |dim: usize| match whole {
        Access::Sum { tables, .. } if 1 < bounds[dim].len() => {
            let start = bounds[dim].start;
            (tables[dim][start + 1] - tables[dim][start]).abs()
        }
        _ => i64::MAX,
    };
    let mut order: Vec<usize> = (0..bounds.len()).collect();
    order.sort_by_key(|&dim| std::cmp::Reverse(step(dim)));
    let mut strides = vec![0; bounds.len()];
    let mut stride = 1;
    for dim in order.into_iter().rev() {
        strides[dim] = stride;
        stride *= bounds[dim].len() as i64;
    }
    strides
}

/// The elements of a part that are within bounds of its whole; `None` if there are none.
fn cut(one: &Part, shape: &[usize], bounds: &Bounds) -> Result<Option<Bounds>, TileError> {
    let mut own: Bounds = shape.iter().map(|&n| 0..n).collect();
    for (along, range) in one.dims.iter().zip(bounds) {
        let start = along.start.eval(&|_| None).ok_or(TileError::UnknownSize)?;
        let less = |at: usize| at as i128 - start;
        let Some(dim) = along.from else {
            if !range.contains(&usize::try_from(start).unwrap_or(usize::MAX)) {
                return Ok(None);
            }
            continue;
        };
        if along.step != 1 && own[dim].len() != 1 {
            return Err(TileError::Apart);
        }
        let n = shape[dim];
        let clip = |at: i128| usize::try_from(at.max(0)).unwrap_or(usize::MAX).min(n);
        own[dim] = clip(less(range.start))..clip(less(range.end)).max(clip(less(range.start)));
    }
    Ok((!is_empty(&own)).then_some(own))
}

impl Group<'_> {
    /// Checks that the operation with these attributes infers the results' tiles from the operands' tiles.
    fn fits(
        &self,
        op: Op,
        props: &AttrDict,
        own: &[Bounds],
        results: &[Bounds],
    ) -> Result<(), TileError> {
        let site = self.site(op);
        let data = site.data();
        let decl = site.registry.get(&data.name).ok_or(TileError::Undeclared)?;
        let ty = |(&value, bounds): (&Value, &Bounds)| Ok(self.tile_type(value, bounds)?.into());
        let operands = data.operands.iter().zip(own).map(ty);
        let operands = operands.collect::<Result<Vec<Type>, TileError>>()?;
        let made = data.results.iter().zip(results).map(ty);
        let made = made.collect::<Result<Vec<Type>, TileError>>()?;
        let of = OpRef {
            name: &data.name,
            operands: operands.iter().collect(),
            results: made.iter().collect(),
            props,
        };
        let inferred = decl.infer(&of)?;
        let same = inferred.len() == made.len()
            && inferred.iter().zip(&made).all(|(inferred, made)| {
                made.as_tensor()
                    .is_some_and(|made| made.dims == inferred.dims)
            });
        match same {
            true => Ok(()),
            false => Err(TileError::Extents),
        }
    }

    /// Checks that equal labels have equal ranges, so that the operation on the parts gives the parts of its results.
    fn follows(&self, op: Op, own: &[Bounds], results: &[Bounds]) -> Result<(), TileError> {
        let site = self.site(op);
        let data = site.data();
        let decl = site.registry.get(&data.name).ok_or(TileError::Undeclared)?;
        let freedom = decl.freedom(&site.func.op_ref(op));
        if !matches!(
            freedom.class,
            FreedomClass::Ordered | FreedomClass::Contract | FreedomClass::Window
        ) {
            return Err(TileError::Dimensions);
        }
        let mut ranges: Vec<Option<Range<usize>>> = vec![None; freedom.labels.len()];
        let ends = data.results.iter().zip(results).zip(&freedom.results);
        for ((&value, bounds), labels) in ends {
            for ((range, &n), label) in bounds.iter().zip(&self.shape(value)?).zip(labels) {
                let free = |label: &usize| {
                    let of = freedom.labels[*label];
                    of.granule == 0 && of.role != Role::Axis
                };
                match label {
                    Some(label) if free(label) => {
                        let known = ranges[*label].get_or_insert_with(|| range.clone());
                        if known != range {
                            return Err(TileError::Cuts);
                        }
                    }
                    _ if *range == (0..n) => {}
                    _ => return Err(TileError::CutAlong),
                }
            }
        }
        let ends = data.operands.iter().zip(own).zip(&freedom.operands);
        for ((&value, bounds), labels) in ends {
            for ((range, &n), label) in bounds.iter().zip(&self.shape(value)?).zip(labels) {
                let wanted = label.and_then(|label| ranges[label].clone());
                if *range != wanted.unwrap_or(0..n) {
                    return Err(TileError::OtherParts);
                }
            }
        }
        Ok(())
    }

    /// The type of a tile.
    pub(super) fn tile_type(&self, value: Value, bounds: &Bounds) -> Result<TensorType, TileError> {
        let ty = self
            .func()
            .ty(value)
            .as_tensor()
            .ok_or(TileError::NoTensor)?;
        let dims = bounds.iter().map(|range| Dim::Fixed(range.len() as u64));
        Ok(TensorType::new(dims.collect(), ty.dtype))
    }
}
