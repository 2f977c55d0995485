//! One part of an operation in a kernel: its operands in the form that `jnp` takes.

use super::cx::{Cx, Reason};
use super::form::stated_pads;
use super::rearrange::rearranged;
use optc_ir::op::iteration_domain::{IndexExpr, IterationDomain, LoopKind};
use optc_ir::op::iteration_domain_of;
use optc_ir::{AttrDict, Attributes, Op, OpRef, Operation, Partial, Value};
use optc_ops::{AvgPool, Concat, Conv, MaxPool, Pad, Reduce, ReduceKind};
use optc_tile::{
    Expr, OpSchedule, OperandSchedule, PartSchedule, Source, Span, Steps, Tile, Tiling,
};
use std::collections::BTreeMap;

/// The tile of a value that a program needs.
pub(super) struct Operand {
    pub(super) value: Value,
    pub(super) tile: Tile,
    /// The block that is fetched of a value in memory, if it differs from the tile.
    pub(super) block: Option<Tile>,
    /// Dimensions that may exceed the value, and the neutral element for padding there.
    pub(super) fill: Option<(&'static str, Vec<usize>)>,
    /// If the value is computed in the group: the number of the part that is read, and the tile of that part.
    pub(super) local: Option<(usize, Tile)>,
    /// True if the tile is outside of the value in every program.
    pub(super) absent: bool,
}

impl Operand {
    /// The value and the block of it that is fetched.
    pub(super) fn fetched(&self) -> (Value, Tile) {
        let block = self.block.as_ref().unwrap_or(&self.tile);
        (self.value, block.clone())
    }
}

/// One part of an operation in the kernel.
pub(super) struct Member<'s> {
    pub(super) schedule: &'s OpSchedule,
    /// The number of the part.
    pub(super) number: usize,
    pub(super) part: &'s PartSchedule,
    pub(super) operands: Vec<Operand>,
    /// If the operation is a view, the extents between its reshapes on this tile, and the permutation.
    pub(super) inner: Option<(Vec<u64>, Vec<usize>)>,
    /// The padding of windows that the operands do not contain.
    pub(super) pads: Option<Vec<(i64, i64)>>,
}

/// The operations of a group, by id.
pub(super) type Makers<'s> = BTreeMap<Op, &'s OpSchedule>;

/// The parts of an operation that are not entirely outside of its results.
pub(super) fn members<'s>(
    cx: &Cx<'_>,
    grid: &[u64],
    makers: &Makers<'s>,
    schedule: &'s OpSchedule,
) -> Result<Vec<Member<'s>>, Reason> {
    let name = &cx.func.ops[schedule.op].name;
    if schedule.parts.is_empty() {
        return Err(format!("{name}: it has no tile"));
    }
    let mut out = Vec::with_capacity(schedule.parts.len());
    for part in schedule.parts.iter().enumerate() {
        let member = member(cx, grid, makers, schedule, part);
        let member = member.map_err(|why| format!("{name}: {why}"))?;
        if !member.part.outside.iter().all(|&outside| outside) {
            out.push(member);
        }
    }
    Ok(out)
}

fn member<'s>(
    cx: &Cx<'_>,
    grid: &[u64],
    makers: &Makers<'s>,
    schedule: &'s OpSchedule,
    (number, part): (usize, &'s PartSchedule),
) -> Result<Member<'s>, Reason> {
    let data = &cx.func.ops[schedule.op];
    for &value in data.operands.iter().chain(&data.results) {
        let dtype = cx.tensor(value)?.dtype;
        if dtype.complex_part().is_some() {
            return Err(format!("a kernel has no values of {dtype}"));
        }
    }
    let op_ref = cx.func.op_ref(schedule.op);
    let domain = iteration_domain_of(cx.registry.get(&data.name), &op_ref);
    let Regions {
        tiles,
        inner,
        window,
        pads,
    } = regions(cx, grid, schedule.op, part, &domain)?;
    let mut operands = Vec::with_capacity(tiles.len());
    for ((i, tile), read) in tiles.into_iter().enumerate().zip(&part.operands) {
        let shape = cx.shape(read.value)?;
        let window = window.as_ref().filter(|_| i == 0);
        let fill = match window {
            _ if domain.online().is_some() => Some("-jnp.inf"),
            Some(window) => Some(window.fill),
            None => fill_of(&op_ref, schedule.combine),
        };
        let reaches = |d: usize| {
            let (low, high) = tile.0[d].start.range(grid);
            let end = high.saturating_add(tile.0[d].extent.cast_signed());
            low < 0 || shape[d].cast_signed() < end
        };
        let dims: Vec<usize> = (0..shape.len())
            .filter(|&d| reaches(d) && counts(&domain, &part.steps, i, d, window.is_some()))
            .collect();
        let fill = fill.filter(|_| !dims.is_empty()).map(|f| (f, dims));
        operands.push(operand(read, makers, tile, &shape, grid, fill));
    }
    Ok(Member {
        schedule,
        number,
        part,
        operands,
        inner,
        pads,
    })
}

/// An operand in a kernel, of which the operation reads this tile.
fn operand(
    read: &OperandSchedule,
    makers: &Makers<'_>,
    tile: Tile,
    shape: &[u64],
    grid: &[u64],
    fill: Option<(&'static str, Vec<usize>)>,
) -> Operand {
    let local = match read.source {
        Source::Memory => None,
        Source::Made { op, result, part } => {
            let maker = makers.get(&op).and_then(|maker| maker.parts.get(part));
            let made = maker.and_then(|maker| maker.results.get(result));
            made.map(|made| (part, made.clone()))
        }
    };
    let block = read.fetched.clone();
    Operand {
        value: read.value,
        block: block.filter(|block| *block != tile && local.is_none()),
        absent: tile.is_outside(shape, grid),
        tile,
        fill,
        local,
    }
}

/// The tiles of a part's operands, in the form that the operation takes.
struct Regions {
    tiles: Vec<Tile>,
    /// See [`Member::inner`].
    inner: Option<(Vec<u64>, Vec<usize>)>,
    window: Option<Window>,
    /// See [`Member::pads`].
    pads: Option<Vec<(i64, i64)>>,
}

/// The tiles of the operands that an operation reads. They contain all elements that its steps address, including those
/// outside of the value.
fn regions(
    cx: &Cx<'_>,
    grid: &[u64],
    op: Op,
    part: &PartSchedule,
    domain: &IterationDomain,
) -> Result<Regions, Reason> {
    let data = &cx.func.ops[op];
    let op_ref = cx.func.op_ref(op);
    let mut shapes = Vec::with_capacity(data.results.len());
    for &value in &data.results {
        shapes.push(cx.shape(value)?);
    }
    let window = Window::of(&op_ref);
    let mut pads = window.as_ref().map(|_| Vec::new());
    let result = part.results.first().ok_or("it has no tile")?;
    if let Some((tile, inner, perm)) = rearranged(cx, op, result, grid)? {
        return Ok(Regions {
            tiles: vec![tile],
            inner: Some((inner, perm)),
            window,
            pads,
        });
    }
    let outer = Concat::of(&op_ref).is_ok() || Pad::of(&op_ref).is_ok();
    let mut tiles = Vec::with_capacity(data.operands.len());
    for (i, &operand) in data.operands.iter().enumerate() {
        let shape = cx.shape(operand)?;
        let mut tile = domain.operand(i, &part.steps, &shape, grid).tile;
        for (span, index) in tile.0.iter_mut().zip(&domain.operands[i]) {
            *span = unclipped(index, &part.steps).unwrap_or_else(|| span.clone());
        }
        if outer {
            // Outside of an operand are elements of another operand, or padding.
            tile = tile.bounded(&shape, grid);
        }
        if let Some(window) = window.as_ref().filter(|_| i == 0) {
            let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
            pads = Some(uncut(
                &part.results,
                &shapes,
                &window.pads,
                &shape,
                &mut tile,
            ));
        }
        tiles.push(tile);
    }
    Ok(Regions {
        tiles,
        inner: None,
        window,
        pads,
    })
}

/// The elements that steps address, including those outside of the dimension.
fn unclipped(index: &IndexExpr, steps: &Steps) -> Option<Span> {
    let IndexExpr::Sum { terms, offset } = index else {
        return None;
    };
    let (mut start, mut extent) = (Expr::number(*offset), 1);
    for &(id, stride) in terms {
        let span = steps.spans.get(id).filter(|_| 0 < stride)?;
        start = start.plus(&span.start.times(stride));
        extent += (span.extent - 1) * stride.unsigned_abs();
    }
    Some(Span::new(start, extent))
}

/// A window that slides over the first operand and may reach into padding, which the kernel adds.
struct Window {
    /// The padding in the attributes: begin and end of each spatial dimension.
    pads: Vec<(i64, i64)>,
    /// The neutral element for padding.
    fill: &'static str,
}

impl Window {
    fn of(op: &OpRef<'_>) -> Option<Window> {
        let conv = || Conv::of(op)?.slides(op);
        let mean = || AvgPool::of(op)?.slides(op);
        let greatest = || MaxPool::of(op)?.slides(op);
        let (slides, fill) = match (conv().or_else(|_| mean()), greatest()) {
            (Ok(slides), _) => (slides, "0"),
            (_, Ok(slides)) => (slides, "-jnp.inf"),
            _ => return None,
        };
        let pads = stated_pads(&slides);
        Some(Window { pads, fill })
    }
}

/// The attributes of an operation with a window, with this padding.
pub(super) fn padded(op: &OpRef<'_>, pads: &[(i64, i64)]) -> Option<AttrDict> {
    let (low, high): (Vec<i64>, Vec<i64>) = pads.iter().copied().unzip();
    let pads = Some([low, high].concat());
    if let Ok(conv) = Conv::of(op) {
        return Some(Conv { pads, ..conv }.write());
    }
    if let Ok(pool) = AvgPool::of(op) {
        return Some(AvgPool { pads, ..pool }.write());
    }
    let pool = MaxPool::of(op).ok()?;
    Some(MaxPool { pads, ..pool }.write())
}

/// Extends the tile of a window's operand to the whole dimension wherever the dimension is not cut. Returns the padding
/// of these dimensions, which the operand does not contain.
fn uncut(
    results: &[Tile],
    shapes: &[&[u64]],
    stated: &[(i64, i64)],
    operand: &[u64],
    region: &mut Tile,
) -> Vec<(i64, i64)> {
    let mut pads = Vec::with_capacity(stated.len());
    for (d, &stated) in stated.iter().enumerate() {
        let result = results.first().and_then(|t| t.0.get(d + 2));
        let size = shapes.first().and_then(|s| s.get(d + 2)).copied();
        let whole = |s: &Span| s.start.as_number() == Some(0) && Some(s.extent) == size;
        if result.is_some_and(whole) {
            pads.push(stated);
            region.0[d + 2] = Span::whole(operand[d + 2]);
        } else {
            pads.push((0, 0));
        }
    }
    pads
}

/// The neutral element for positions outside of an operand of a reduction that is cut.
fn fill_of(op: &OpRef<'_>, combine: Option<Partial>) -> Option<&'static str> {
    let is = |kind: ReduceKind| Reduce::of(op).is_ok_and(|reduce| reduce.kind == kind);
    match combine? {
        Partial::Add => Some("0"),
        Partial::Multiply => Some("1"),
        Partial::Max if is(ReduceKind::Max) => Some("-jnp.inf"),
        Partial::Min if is(ReduceKind::Min) => Some("jnp.inf"),
        Partial::Max | Partial::Min | Partial::Mean => None,
    }
}

/// Returns whether positions outside of the value along a dimension would affect the result: a reduction that is cut,
/// or a window, runs over it.
fn counts(
    domain: &IterationDomain,
    steps: &Steps,
    operand: usize,
    dim: usize,
    window: bool,
) -> bool {
    let Some(IndexExpr::Sum { terms, .. }) = domain.operands.get(operand).and_then(|o| o.get(dim))
    else {
        return false;
    };
    terms.iter().any(|(id, _)| match domain.loops[*id].kind {
        LoopKind::Reduce(_) | LoopKind::Online => steps
            .spans
            .get(*id)
            .is_some_and(|s| s.start.as_number() != Some(0) || domain.loops[*id].extent < s.extent),
        LoopKind::Inner => window,
        LoopKind::Parallel | LoopKind::Whole => false,
    })
}
