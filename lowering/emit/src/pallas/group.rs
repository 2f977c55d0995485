//! One group as a kernel and its `pallas_call`.

use super::index::block_spec;
use super::ops::{Site, along_channels, stated_pads, write};
use super::words::{Names, dtype, tuple, wide};
use optc_ir::op::access::{Access, Combine, Index, LoopKind};
use optc_ir::op::access_of;
use optc_ir::{
    AttrDict, Attributes, DType, Dim, Func, Op, OpDecl, OpRef, Operation, Registry, Structure,
    TensorType, Type, Value,
};
use optc_ops::{
    AvgPool, Broadcast, Concat, Conv, Iota, MaxPool, Pad, Reduce, ReduceKind, Reshape, Slice, Split,
};
use optc_tile::Tiling;
use optc_tile::block::{Grid, Semantics, check_revisits};
use optc_tile::{AddsUp, Expr, Group, OpTile, Order, Plan, Span, Steps, Tile, adds_up};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A group that has a kernel.
pub(super) struct Kernel {
    /// The function.
    pub(super) text: String,
    /// The call; `{0}` and so on stand for the values that it reads.
    pub(super) call: String,
    pub(super) inputs: Vec<Value>,
    pub(super) outputs: Vec<Value>,
    pub(super) helpers: BTreeSet<&'static str>,
}

/// Why a group has no kernel, in words.
pub(super) type Reason = String;

/// What a tile of a program needs of a value.
struct Operand {
    value: Value,
    tile: Tile,
    /// The block that is fetched of a value in memory, where that is not the tile.
    block: Option<Tile>,
    /// Dimensions that may reach outside of the value, and what counts there.
    fill: Option<(&'static str, Vec<usize>)>,
    /// The value comes from the group: the number of the part of it that is read, and its tile there.
    local: Option<(usize, Tile)>,
    /// It has nothing of the value in any program.
    absent: bool,
}

impl Operand {
    /// The value and the block of it that is fetched.
    fn fetched(&self) -> (Value, Tile) {
        let block = self.block.as_ref().unwrap_or(&self.tile);
        (self.value, block.clone())
    }
}

/// One part of an operation in the kernel.
struct Member {
    op: Op,
    /// The number of the part.
    piece: usize,
    tile: OpTile,
    /// Of each result whether the part has nothing of it.
    absent: Vec<bool>,
    operands: Vec<Operand>,
    /// The axes of the grid that its reduction runs over.
    axes: Vec<usize>,
    combine: Option<Combine>,
    /// Operands that count in the first step alone.
    first_only: Vec<usize>,
    /// The dimensions of the operand as a view sees them, on this tile.
    inner: Option<(Vec<u64>, Vec<usize>)>,
    /// The padding of windows that is not in the operands.
    pads: Option<Vec<(i64, i64)>>,
    /// The dimension along which it runs on, where that is cut.
    runs_along: Option<usize>,
    /// The value, right up to a factor a row, that it adds up, and where the rows of that stand in
    /// its result.
    adds_up: Option<AddsUp>,
}

/// The names of what is kept of a value that runs on.
struct Running {
    factor: String,
    sum: String,
    /// Where its rows lie: a number each.
    rows: Tile,
    /// The dimension that the rows run along.
    axis: usize,
}

/// What does not change while one group is written.
pub(super) struct Cx<'a> {
    pub(super) func: &'a Func,
    pub(super) registry: &'a Registry,
    /// The values that something outside of their group uses, by number.
    pub(super) escapes: &'a dyn Fn(Value) -> bool,
    /// The name of a value.
    pub(super) name: &'a dyn Fn(Value) -> String,
}

fn shape_of(ty: &TensorType) -> Result<Vec<u64>, Reason> {
    ty.shape()
        .ok_or_else(|| "a size is not a number".to_owned())
}

impl Cx<'_> {
    fn tensor(&self, value: Value) -> Result<&TensorType, Reason> {
        let ty = self.func.ty(value).as_tensor();
        ty.ok_or_else(|| format!("{value} is no tensor"))
    }
    fn shape(&self, value: Value) -> Result<Vec<u64>, Reason> {
        shape_of(self.tensor(value)?)
    }
    /// The attributes of an operation that is a `T`.
    fn typed<T: Operation>(&self, op: Op) -> Option<T> {
        T::of(&self.func.op_ref(op)).ok()
    }
    fn is_constant(&self, op: Op) -> bool {
        self.registry.structure(&self.func.ops[op].name) == Structure::Constant
    }
}

/// The kernel of a group, and its call.
pub(super) fn kernel(
    cx: &Cx<'_>,
    plan: &Plan,
    number: usize,
    name: &str,
) -> Result<Kernel, Reason> {
    let group = &plan.groups[number];
    let mut members = Vec::with_capacity(group.ops.len());
    let inner: BTreeSet<Value> = group
        .ops
        .iter()
        .filter(|op| !cx.is_constant(**op))
        .flat_map(|&op| cx.func.ops[op].results.iter().copied())
        .collect();
    for &op in &group.ops {
        if !cx.is_constant(op) {
            let tile = &plan.tiles[&op];
            if tile.count() == 0 {
                return Err(format!("{}: it has no tile", cx.func.ops[op].name));
            }
            for piece in tile.pieces().enumerate() {
                let member = member(cx, plan, group, &inner, op, piece);
                let member = member.map_err(|why| format!("{}: {why}", cx.func.ops[op].name))?;
                if !member.absent.iter().all(|&absent| absent) {
                    members.push(member);
                }
            }
        }
    }
    Writer::new(cx, group, &members).text(name)
}

fn member(
    cx: &Cx<'_>,
    plan: &Plan,
    group: &Group,
    inner: &BTreeSet<Value>,
    op: Op,
    (piece, tile): (usize, OpTile),
) -> Result<Member, Reason> {
    let data = &cx.func.ops[op];
    let grid = group.grid();
    if tile.results.len() != data.results.len() {
        return Err("it has no tile".to_owned());
    }
    for &value in data.operands.iter().chain(&data.results) {
        let dtype = cx.tensor(value)?.dtype;
        if dtype.complex_part().is_some() {
            return Err(format!("a kernel has no values of {dtype}"));
        }
    }
    let op_ref = cx.func.op_ref(op);
    let decl = cx.registry.get(&data.name);
    let access = access_of(decl, &op_ref);
    let reductions: Vec<(usize, u64, Combine)> = access.reductions().collect();
    let mut shapes = Vec::new();
    for &value in &data.results {
        shapes.push(cx.shape(value)?);
    }
    let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
    let mut inner_shape = None;
    let window = Window::of(&op_ref);
    let mut pads = window.as_ref().map(|_| Vec::new());
    let (regions, steps) = match rearranged(cx, op, &tile, &grid)? {
        Some((region, inner, perm)) => {
            inner_shape = Some((inner, perm));
            (vec![region], None)
        }
        None => {
            let steps = access
                .steps(&tile.results, &tile.reduce, &shapes, &grid)
                .map_err(|e| e.to_string())?;
            let mut regions = Vec::new();
            for (i, &operand) in data.operands.iter().enumerate() {
                let shape = cx.shape(operand)?;
                let mut region = access.operand(i, &steps, &shape, &grid).tile;
                for (span, index) in region.0.iter_mut().zip(&access.operands[i]) {
                    *span = unclipped(index, &steps).unwrap_or_else(|| span.clone());
                }
                if Concat::of(&op_ref).is_ok() || Pad::of(&op_ref).is_ok() {
                    // What lies outside of an operand is another one's, or padding.
                    region = region.bounded(&shape, &grid);
                }
                if let Some(window) = window.as_ref().filter(|_| i == 0) {
                    pads = Some(uncut(&tile, &shapes, &window.pads, &shape, &mut region));
                }
                regions.push(region);
            }
            (regions, Some(steps))
        }
    };
    let axes: Vec<usize> = (0..grid.len())
        .filter(|&a| 1 < grid[a] && tile.reduce.iter().any(|s| s.start.depends_on(a)))
        .collect();
    let axes_cut = !axes.is_empty();
    let combine = reductions.first().map(|r| r.2).filter(|_| !axes.is_empty());
    let mut operands = Vec::with_capacity(regions.len());
    for (i, (region, &value)) in regions.into_iter().zip(&data.operands).enumerate() {
        let shape = cx.shape(value)?;
        let local = inner.contains(&value).then(|| {
            let maker = cx.func.def_op(value)?;
            let results = &cx.func.ops[maker].results;
            let r = results.iter().position(|v| *v == value)?;
            let maker = plan.tiles.get(&maker)?;
            let number = maker.holding(r, &region, &shape, &grid);
            // What a part that is made has no more than is padded.
            let number = number.unwrap_or(0);
            Some((number, maker.tiles_of(r).nth(number)?.clone()))
        });
        let reaches = |d: usize| {
            let (low, high) = region.0[d].start.range(&grid);
            let end = high.saturating_add(region.0[d].extent.cast_signed());
            low < 0 || shape[d].cast_signed() < end
        };
        let window = window.as_ref().filter(|_| i == 0);
        let fill = match window {
            _ if access.running().is_some() => Some("-jnp.inf"),
            Some(window) => Some(window.fill),
            None => fill_of(&op_ref, combine),
        };
        let dims: Vec<usize> = (0..shape.len())
            .filter(|&d| reaches(d) && counts(&access, steps.as_ref(), i, d, window.is_some()))
            .collect();
        let fill = fill.filter(|_| !dims.is_empty()).map(|f| (f, dims));
        let block = tile.reads.get(i).cloned().flatten();
        operands.push(Operand {
            value,
            block: block.filter(|b| *b != region && local.is_none()),
            absent: region.is_outside(&shape, &grid),
            tile: region,
            fill,
            local: local.flatten(),
        });
    }
    let absent = tile.results.iter().zip(&shapes);
    let absent = absent
        .map(|(t, shape)| t.is_outside(shape, &grid))
        .collect();
    Ok(Member {
        op,
        piece,
        absent,
        operands,
        axes,
        combine,
        first_only: once(&access, axes_cut),
        inner: inner_shape,
        pads,
        runs_along: access.running_dim().filter(|_| axes_cut),
        adds_up: adds_up(cx.func, cx.registry, plan, op, &access)
            .map_err(|_| "it does not add up over the part along which an operand runs on")?,
        tile,
    })
}

/// The operands that count once in a reduction that is cut: those that it does not run over, of a
/// sum of products with more.
fn once(access: &Access, cut: bool) -> Vec<usize> {
    let reduced = |index: &Index| match index {
        Index::Sum { terms, .. } => terms
            .iter()
            .any(|(id, _)| matches!(access.loops[*id].kind, LoopKind::Reduce(_))),
        Index::Digit { .. } | Index::Whole => false,
    };
    let all = access.operands.iter().enumerate();
    all.filter(|(_, dims)| cut && !dims.iter().any(reduced))
        .map(|(i, _)| i)
        .collect()
}

/// The elements that steps address, also those outside of the dimension.
fn unclipped(index: &Index, steps: &Steps) -> Option<Span> {
    let Index::Sum { terms, offset } = index else {
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

/// A window that slides over the first operand and may reach into padding, which the kernel takes.
struct Window {
    /// The padding that the attributes state, begin and end a spatial dimension.
    pads: Vec<(i64, i64)>,
    /// What counts as nothing there.
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

/// The attributes of an operation with a window that has this padding.
fn padded(op: &OpRef<'_>, pads: &[(i64, i64)]) -> Option<AttrDict> {
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

/// Takes the operand of a window whole along dimensions that are not cut; gives the padding there,
/// which is not in the operand.
fn uncut(
    tile: &OpTile,
    shapes: &[&[u64]],
    stated: &[(i64, i64)],
    operand: &[u64],
    region: &mut Tile,
) -> Vec<(i64, i64)> {
    let mut pads = Vec::with_capacity(stated.len());
    for (d, &stated) in stated.iter().enumerate() {
        let result = tile.results.first().and_then(|t| t.0.get(d + 2));
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

/// What counts as nothing outside of an operand of a reduction that is cut.
fn fill_of(op: &OpRef<'_>, combine: Option<Combine>) -> Option<&'static str> {
    let is = |kind: ReduceKind| Reduce::of(op).is_ok_and(|reduce| reduce.kind == kind);
    match combine? {
        Combine::Add => Some("0"),
        Combine::Multiply => Some("1"),
        Combine::Max if is(ReduceKind::Max) => Some("-jnp.inf"),
        Combine::Min if is(ReduceKind::Min) => Some("jnp.inf"),
        Combine::Max | Combine::Min => None,
    }
}

/// Whether what lies outside along a dimension would count: a cut reduction runs over it, or a
/// window.
fn counts(
    access: &Access,
    steps: Option<&Steps>,
    operand: usize,
    dim: usize,
    window: bool,
) -> bool {
    let Some(Index::Sum { terms, .. }) = access.operands.get(operand).and_then(|o| o.get(dim))
    else {
        return false;
    };
    terms.iter().any(|(id, _)| match access.loops[*id].kind {
        LoopKind::Reduce(_) | LoopKind::Running => steps
            .and_then(|s| s.spans.get(*id))
            .is_some_and(|s| s.start.as_number() != Some(0) || access.loops[*id].extent < s.extent),
        LoopKind::Inner => window,
        LoopKind::Parallel => false,
    })
}

type Rearranged = (Tile, Vec<u64>, Vec<usize>);

/// The operand's part of an operation that only renames elements, and the extents of its tile in
/// between: the operand is reshaped to them and transposed. `None` for other operations.
fn rearranged(
    cx: &Cx<'_>,
    op: Op,
    tile: &OpTile,
    grid: &[u64],
) -> Result<Option<Rearranged>, Reason> {
    let op_ref = cx.func.op_ref(op);
    let Ok(view) = cx.registry.rearrangement(&op_ref) else {
        return Ok(None);
    };
    let inner: Option<Vec<u64>> = view.shape.iter().map(optc_ir::Dim::fixed).collect();
    let inner = inner.ok_or("a size is not a number")?;
    let transposed: Vec<u64> = view.perm.iter().map(|&p| inner[p]).collect();
    let operand = shape_of(op_ref.operand(0).map_err(|e| e.message)?)?;
    let result = shape_of(op_ref.result(0).map_err(|e| e.message)?)?;
    let last = tile.results.first().ok_or("it has no tile")?;
    let between = reshaped(cx.registry, &transposed, &result, last, grid)?;
    let mut back = vec![Span::whole(1); inner.len()];
    for (i, &p) in view.perm.iter().enumerate() {
        back[p] = between.0[i].clone();
    }
    let back = Tile(back);
    let first = reshaped(cx.registry, &operand, &inner, &back, grid)?;
    let extents = back.0.iter().map(|s| s.extent).collect();
    Ok(Some((first, extents, view.perm)))
}

/// The part of `from` that a reshape to `to` needs for a tile; refused where it is more than the
/// tile.
fn reshaped(
    registry: &Registry,
    from: &[u64],
    to: &[u64],
    tile: &Tile,
    grid: &[u64],
) -> Result<Tile, Reason> {
    if from == to {
        return Ok(tile.clone());
    }
    let (a, b) = (Type::tensor(from, DType::F32), Type::tensor(to, DType::F32));
    let dims: Vec<Dim> = to.iter().map(|&n| Dim::Fixed(n)).collect();
    let props = Reshape::of_dims(&dims).write();
    let op = OpRef {
        name: Reshape::NAME,
        operands: vec![&a],
        results: vec![&b],
        props: &props,
    };
    let access = access_of(registry.get(Reshape::NAME), &op);
    let steps = access
        .steps(std::slice::from_ref(tile), &[], &[to], grid)
        .map_err(|e| e.to_string())?;
    let region = access.operand(0, &steps, from, grid);
    let (found, wanted) = (region.tile.elements(), tile.elements());
    if found != wanted {
        return Err(format!(
            "a tile of {wanted} elements needs a box of {found} before the reshape"
        ));
    }
    Ok(region.tile)
}

/// A value that the kernel writes.
struct Output {
    value: Value,
    /// The block of a program; none of one that is written in several parts.
    tile: Option<Tile>,
    name: String,
}

/// One way in which a span is clipped at the ends of a dimension.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Clip {
    /// The elements that are cut off at the front, and those that are left.
    low: u64,
    count: u64,
    /// The start of the span, where something is cut off.
    start: Option<i64>,
}

/// The most ways in which a part may be clipped.
const MAX_CLIPS: usize = 16;

/// The ways in which the programs clip a span.
fn clips(span: &Span, size: u64, grid: &[u64]) -> Result<Vec<Clip>, Reason> {
    let mut axes = Vec::new();
    span.start.axes(&mut |axis| axes.push(axis));
    axes.sort_unstable();
    axes.dedup();
    let steps = axes.iter().map(|&a| grid[a]);
    let steps = steps.fold(1u64, u64::saturating_mul);
    if MAX_PROGRAMS < steps {
        return Err("a part of its output starts in too many places".to_owned());
    }
    let mut found = BTreeSet::new();
    let mut index = vec![0i64; grid.len()];
    for n in 0..steps {
        let mut rest = n;
        for &a in &axes {
            index[a] = (rest % grid[a]).cast_signed();
            rest /= grid[a];
        }
        let start = span.start.eval(&index);
        let part = span.clipped(&index, size);
        let count = part.end - part.start;
        let low = if count == 0 {
            0
        } else {
            part.start.cast_signed() - start
        };
        let start = (count < span.extent && 0 < count).then_some(start);
        let low = low.unsigned_abs();
        found.insert(Clip { low, count, start });
    }
    Ok(found.into_iter().collect())
}

struct Writer<'a> {
    cx: &'a Cx<'a>,
    group: &'a Group,
    members: &'a [Member],
    names: Names,
    /// Values that a program has computed, part by part.
    local: BTreeMap<(Value, usize), String>,
    /// References to values in memory, by value and part.
    refs: BTreeMap<(Value, Tile), String>,
    inputs: Vec<(Value, Tile)>,
    scratch: Vec<(String, String)>,
    running: BTreeMap<Value, Running>,
    helpers: BTreeSet<&'static str>,
    /// Whether an index of the program is used in the kernel.
    programs: BTreeSet<usize>,
}

impl<'a> Writer<'a> {
    fn new(cx: &'a Cx<'a>, group: &'a Group, members: &'a [Member]) -> Self {
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
            running: BTreeMap::new(),
            helpers: BTreeSet::new(),
            programs: BTreeSet::new(),
        }
    }

    fn text(mut self, name: &str) -> Result<Kernel, Reason> {
        let cx = self.cx;
        let grid = self.group.grid();
        for member in self.members {
            let read = |o: &&Operand| o.local.is_none() && !o.absent;
            for operand in member.operands.iter().filter(read) {
                let key = operand.fetched();
                if !self.refs.contains_key(&key) {
                    let reference = self
                        .names
                        .fresh(&format!("{}_ref", (cx.name)(operand.value)));
                    self.refs.insert(key.clone(), reference);
                    self.inputs.push(key);
                }
            }
        }
        let mut outputs: Vec<Output> = Vec::new();
        for member in self.members {
            let results = cx.func.ops[member.op].results.iter();
            let results = results.zip(&member.tile.results).zip(&member.absent);
            for ((&value, tile), _) in results.filter(|(_, absent)| !**absent) {
                if !(cx.escapes)(value) {
                    continue;
                }
                match outputs.iter_mut().find(|o| o.value == value) {
                    Some(known) => known.tile = None,
                    None => outputs.push(Output {
                        value,
                        tile: Some(tile.clone()),
                        name: self.names.fresh(&format!("{}_out", (cx.name)(value))),
                    }),
                }
            }
        }
        for Output { value, tile, .. } in &outputs {
            if let Some(tile) = tile {
                written_once(self.group, tile)
                    .map_err(|why| format!("{}: {why}", (cx.name)(*value)))?;
            }
        }
        // What waits for a reduction that is cut stands under the last step of its axes.
        let mut starts: BTreeMap<Vec<usize>, Vec<String>> = BTreeMap::new();
        let mut stages: BTreeMap<BTreeSet<usize>, Vec<String>> = BTreeMap::new();
        stages.insert(BTreeSet::new(), Vec::new());
        let mut waits: BTreeMap<Value, BTreeSet<usize>> = BTreeMap::new();
        for member in self.members {
            let data = &cx.func.ops[member.op];
            let named = |why: Reason| format!("{}: {why}", data.name);
            let before = data.operands.iter().filter_map(|v| waits.get(v));
            let before: BTreeSet<usize> = before.flatten().copied().collect();
            let mut after = before.clone();
            let results = &data.results;
            let [start, each, last] = if let Some(axis) = member.runs_along {
                let [start, each] = self.runs_on(member, axis).map_err(&named)?;
                [start, each, Vec::new()]
            } else if !member.axes.is_empty() {
                after.extend(&member.axes);
                let lines = self.reduction(member).map_err(&named)?;
                lines.map(|line| vec![line])
            } else {
                let each = self.lines(member).map_err(&named)?;
                [Vec::new(), each, Vec::new()]
            };
            if !start.is_empty() {
                let first = starts.entry(member.axes.clone()).or_default();
                first.extend(start);
            }
            stages.entry(before).or_default().extend(each);
            waits.extend(results.iter().map(|&value| (value, after.clone())));
            let stage = stages.entry(after).or_default();
            stage.extend(last);
            for (r, value) in results
                .iter()
                .enumerate()
                .filter(|(r, _)| !member.absent[*r])
            {
                let Some(output) = outputs.iter().find(|o| o.value == *value) else {
                    continue;
                };
                let text = self.local[&(*value, member.piece)].clone();
                let lines = match &output.tile {
                    None => self.stores(output, &member.tile.results[r], &text)?,
                    Some(tile) if tile.0.is_empty() => {
                        vec![format!("{}[0, 0] = {text}", output.name)]
                    }
                    Some(_) => vec![format!("{}[...] = {text}", output.name)],
                };
                stages
                    .entry(waits[value].clone())
                    .or_default()
                    .extend(lines);
            }
        }
        // The steps that are waited for are nested, so that what one stage computes the next ones see.
        let mut stages: Vec<(BTreeSet<usize>, Vec<String>)> = stages.into_iter().collect();
        stages.sort_by_key(|(axes, _)| axes.len());
        if !stages.is_sorted_by(|(a, _), (b, _)| a.is_subset(b)) {
            return Err("its reductions run over axes that are not nested".to_owned());
        }
        let mut params: Vec<String> = self.inputs.iter().map(|k| self.refs[k].clone()).collect();
        params.extend(outputs.iter().map(|o| o.name.clone()));
        params.extend(self.scratch.iter().map(|s| s.0.clone()));
        let mut text = format!("def {name}({}):\n", params.join(", "));
        let programs = self.programs.iter();
        let programs = programs.chain(starts.keys().flatten());
        for axis in programs
            .chain(stages.iter().flat_map(|s| &s.0))
            .collect::<BTreeSet<_>>()
        {
            let _ = writeln!(text, "    g{axis} = pl.program_id({axis})");
        }
        let at = |axes: &[usize], end: &dyn Fn(usize) -> u64| {
            let parts = axes.iter().map(|&a| format!("g{a} == {}", end(a)));
            match parts.collect::<Vec<_>>().as_slice() {
                [one] => one.clone(),
                all => format!("({})", all.join(") & (")),
            }
        };
        for (axes, lines) in &starts {
            block(&mut text, 1, &at(axes, &|_| 0), "first");
            write_lines(&mut text, 2, lines);
            text.push('\n');
        }
        let mut known: &BTreeSet<usize> = &BTreeSet::new();
        let depth = stages.len();
        for (depth, (axes, lines)) in stages.iter().enumerate() {
            let more: Vec<usize> = axes.difference(known).copied().collect();
            if !more.is_empty() {
                block(&mut text, depth, &at(&more, &|a| grid[a] - 1), "last");
            }
            write_lines(&mut text, depth + 1, lines);
            known = axes;
        }
        if 1 < depth {
            text.push('\n');
        }
        let call = self.call(name, &outputs)?;
        Ok(Kernel {
            text,
            call,
            inputs: self.inputs.iter().map(|i| i.0).collect(),
            outputs: outputs.into_iter().map(|o| o.value).collect(),
            helpers: self.helpers,
        })
    }

    /// Copies a part of an output to where it lies: one copy for each way in which it is clipped at the
    /// ends of the value.
    fn stores(&mut self, output: &Output, tile: &Tile, text: &str) -> Result<Vec<String>, Reason> {
        let grid = self.group.grid();
        let ty = self.cx.tensor(output.value)?;
        let shape = shape_of(ty)?;
        let extents = tuple(tile.0.iter().map(|s| s.extent));
        let held = format!("pltpu.VMEM({extents}, {})", dtype(ty.dtype));
        let part = self.names.fresh(&format!("{}_part", output.name));
        self.scratch.push((part.clone(), held));
        let mut copies: Vec<(Vec<String>, Vec<String>, Vec<String>)> = vec![Default::default()];
        for (span, &size) in tile.0.iter().zip(&shape) {
            let start = self.python(&span.start);
            let cases = clips(span, size, &grid)?;
            let one = cases.len() == 1;
            let mut all = Vec::with_capacity(copies.len() * cases.len());
            for (conditions, from, to) in &copies {
                for clip in cases.iter().filter(|clip| 0 < clip.count) {
                    let (mut conditions, mut from, mut to) =
                        (conditions.clone(), from.clone(), to.clone());
                    match clip.start {
                        _ if one => {}
                        Some(at) => conditions.push(format!("{start} == {at}")),
                        None => {
                            let last = size.cast_signed() - span.extent.cast_signed();
                            conditions.push(format!("0 <= {start}"));
                            conditions.push(format!("{start} <= {last}"));
                        }
                    }
                    let whole = clip.low == 0 && clip.count == span.extent;
                    from.push(match whole {
                        true => ":".to_owned(),
                        false => format!("{}:{}", clip.low, clip.low + clip.count),
                    });
                    to.push(match clip.count == size {
                        true => ":".to_owned(),
                        false => {
                            let first = span.start.offset(clip.low.cast_signed());
                            format!("pl.ds({}, {})", self.python(&first), clip.count)
                        }
                    });
                    all.push((conditions, from, to));
                }
            }
            copies = all;
            if MAX_CLIPS < copies.len() {
                return Err("a part of its output is clipped in too many ways".to_owned());
            }
        }
        let mut lines = vec![format!("{part}[...] = {text}")];
        for (conditions, from, to) in copies {
            let (from, to) = (from.join(", "), to.join(", "));
            let copy = format!(
                "pltpu.sync_copy({part}.at[{from}], {}.at[{to}])",
                output.name
            );
            if conditions.is_empty() {
                lines.push(copy);
            } else {
                let all = match conditions.as_slice() {
                    [one] => one.clone(),
                    all => format!("({})", all.join(") & (")),
                };
                lines.push(format!("@pl.when({all})"));
                lines.push("def _store():".to_owned());
                lines.push(format!("    {copy}"));
            }
        }
        Ok(lines)
    }

    fn call(&self, name: &str, outputs: &[Output]) -> Result<String, Reason> {
        let cx = self.cx;
        let grid = self.group.grid();
        // One program has an axis, too: without a grid a TPU takes no blocks.
        let shown: &[u64] = if grid.is_empty() { &[1] } else { &grid };
        let spec = |value: Value, tile: &Tile| -> Result<String, Reason> {
            if tile.0.is_empty() {
                let one = Tile(vec![Span::whole(1), Span::whole(1)]);
                return Ok(block_spec(&[1, 1], &one, shown));
            }
            Ok(block_spec(&cx.shape(value)?, tile, shown))
        };
        let mut text = format!(
            "pl.pallas_call(\n        {name},\n        grid={},\n",
            tuple(shown)
        );
        text.push_str("        in_specs=[\n");
        for (value, tile) in &self.inputs {
            let _ = writeln!(text, "            {},", spec(*value, tile)?);
        }
        text.push_str("        ],\n        out_specs=[\n");
        for Output { value, tile, .. } in outputs {
            let spec = match tile {
                Some(tile) => spec(*value, tile)?,
                None => "pl.BlockSpec(memory_space=pl.ANY)".to_owned(),
            };
            let _ = writeln!(text, "            {spec},");
        }
        text.push_str("        ],\n        out_shape=[\n");
        for Output { value, .. } in outputs {
            let ty = cx.tensor(*value)?;
            let mut shape = shape_of(ty)?;
            if shape.is_empty() {
                shape = vec![1, 1];
            }
            let (shape, dtype) = (tuple(shape), dtype(ty.dtype));
            let _ = writeln!(text, "            jax.ShapeDtypeStruct({shape}, {dtype}),");
        }
        text.push_str("        ],\n");
        if !self.scratch.is_empty() {
            let all: Vec<&str> = self.scratch.iter().map(|s| s.1.as_str()).collect();
            let _ = writeln!(text, "        scratch_shapes=[{}],", all.join(", "));
        }
        let order = self.group.axes.iter().map(|a| match a.order {
            Order::Parallel => "\"parallel\"",
            Order::Arbitrary => "\"arbitrary\"",
        });
        let mut order: Vec<&str> = order.collect();
        order.resize(shown.len(), "\"arbitrary\"");
        let _ = writeln!(
            text,
            "        compiler_params=pltpu.CompilerParams(dimension_semantics={}),",
            tuple(order)
        );
        text.push_str("        interpret=interpret,\n    )");
        Ok(text)
    }

    /// One operation on its tile.
    fn lines(&mut self, member: &Member) -> Result<Vec<String>, Reason> {
        let args = self.arguments(member, &[])?;
        let texts = self.expressions(member, &args, None)?;
        let results = &self.cx.func.ops[member.op].results;
        let mut lines = Vec::with_capacity(texts.len());
        for ((&value, text), _) in results
            .iter()
            .zip(texts)
            .zip(&member.absent)
            .filter(|(_, absent)| !**absent)
        {
            let name = self.names.fresh(&(self.cx.name)(value));
            lines.push(format!("{name} = {text}"));
            self.local.insert((value, member.piece), name);
        }
        Ok(lines)
    }

    /// The first and every step of a softmax whose axis is cut.
    fn runs_on(&mut self, member: &Member, axis: usize) -> Result<[Vec<String>; 2], Reason> {
        let cx = self.cx;
        let value = cx.func.ops[member.op].results[0];
        let dtype = dtype(cx.tensor(value)?.dtype);
        let base = (cx.name)(value);
        let rows = rows_of(&member.tile.results[0], axis);
        let extents: Vec<u64> = rows.0.iter().map(|s| s.extent).collect();
        let mut memory = |names: &mut Names, what: &str| {
            let name = names.fresh(&format!("{base}_{what}"));
            let held = format!("pltpu.VMEM({}, jnp.float32)", tuple(&extents));
            self.scratch.push((name.clone(), held));
            name
        };
        let (top, sum) = (
            memory(&mut self.names, "max"),
            memory(&mut self.names, "sum"),
        );
        let mut fresh = |what: &str| self.names.fresh(&format!("{base}_{what}"));
        let (x, now, shift, factor) = (fresh("in"), fresh("now"), fresh("shift"), fresh("factor"));
        let result = self.names.fresh(&base);
        let arg = self.argument(&member.operands[0])?;
        let shape = tuple(&extents);
        let first = vec![
            format!("{top}[...] = jnp.full({shape}, -jnp.inf, jnp.float32)"),
            format!("{sum}[...] = jnp.zeros({shape}, jnp.float32)"),
        ];
        let exp = format!("jnp.exp({x} - {shift})");
        let narrow = if dtype == "jnp.float32" {
            String::new()
        } else {
            format!(".astype({dtype})")
        };
        let lines = vec![
            format!("{x} = ({arg}).astype(jnp.float32)"),
            format!("{now} = jnp.maximum({top}[...], jnp.max({x}, axis={axis}, keepdims=True))"),
            format!("{shift} = jnp.where({now} == -jnp.inf, 0, {now})"),
            format!("{factor} = jnp.exp({top}[...] - {shift})"),
            format!("{result} = {exp}"),
            format!(
                "{sum}[...] = {sum}[...] * {factor} + jnp.sum({result}, axis={axis}, keepdims=True)"
            ),
            format!("{top}[...] = {now}"),
        ];
        let name = format!("{result}{narrow}");
        self.local.insert((value, member.piece), name);
        let running = Running {
            factor,
            sum,
            rows,
            axis,
        };
        self.running.insert(value, running);
        Ok([first, lines])
    }

    /// A number a row of what an operation adds up, as its result has the rows.
    fn rows(
        &mut self,
        member: &Member,
        name: impl Fn(&Running) -> String,
    ) -> Result<Option<String>, Reason> {
        let Some(AddsUp { value, kept, .. }) = &member.adds_up else {
            return Ok(None);
        };
        let running = self.running.get(value);
        let running = running.ok_or("it needs what is not computed yet")?;
        let result = &member.tile.results[0].0;
        let operand = member.operands.iter().find(|o| o.value == *value);
        let read = operand.ok_or("it does not read what runs on")?;
        let read = rows_of(&read.tile, running.axis);
        let mut sizes = self.cx.shape(*value)?;
        sizes[running.axis] = 1;
        let (have, text) = (running.rows.clone(), name(running));
        let mut text = self.part(&text, &have, &read, &sizes)?;
        let rows: Vec<u64> = read.0.iter().map(|s| s.extent).collect();
        let mut ends: Vec<usize> = (0..kept.len()).filter(|&d| kept[d].is_some()).collect();
        ends.sort_by_key(|&d| kept[d]);
        let rest: Vec<usize> = (0..kept.len()).filter(|&d| kept[d].is_none()).collect();
        let mut shape = vec![1; result.len()];
        for (d, at) in kept.iter().enumerate() {
            if let Some(at) = at {
                shape[*at] = rows[d];
            }
        }
        ends.extend(rest);
        if !ends.is_sorted() && ends.iter().filter(|&&d| rows[d] != 1).count() > 1 {
            text = format!("jnp.transpose({text}, {})", tuple(&ends));
        }
        if shape != rows {
            text = format!("{text}.reshape{}", tuple(&shape));
        }
        Ok(Some(text))
    }

    /// The first, every and the last step of a reduction that is cut.
    fn reduction(&mut self, member: &Member) -> Result<[String; 3], Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.op];
        let ([value], Some(combine)) = (&data.results[..], member.combine) else {
            return Err("its reduction cannot be cut".to_owned());
        };
        let ty = cx.tensor(*value)?.clone();
        let held = wide(ty.dtype);
        let extents: Vec<u64> = member.tile.results[0].0.iter().map(|s| s.extent).collect();
        let name = self.names.fresh(&format!("{}_sum", (cx.name)(*value)));
        let memory = format!("pltpu.VMEM({}, {})", tuple(&extents), dtype(held));
        self.scratch.push((name.clone(), memory));
        let args = self.arguments(member, &member.first_only)?;
        let part = self
            .expressions(member, &args, Some(held))?
            .pop()
            .ok_or("it has no result")?;
        let start = match combine {
            Combine::Add => "0",
            Combine::Multiply => "1",
            Combine::Max => "-jnp.inf",
            Combine::Min => "jnp.inf",
        };
        let start = format!(
            "{name}[...] = jnp.full({}, {start}, {})",
            tuple(&extents),
            dtype(held)
        );
        let factor = self.rows(member, |r| r.factor.clone())?;
        let each = match combine {
            Combine::Add => match factor {
                Some(factor) => format!("{name}[...] = {name}[...] * {factor} + {part}"),
                None => format!("{name}[...] += {part}"),
            },
            Combine::Multiply => format!("{name}[...] *= {part}"),
            Combine::Max => format!("{name}[...] = jnp.maximum({name}[...], {part})"),
            Combine::Min => format!("{name}[...] = jnp.minimum({name}[...], {part})"),
        };
        let mut whole = format!("{name}[...]");
        if let Some(sum) = self.rows(member, |r| format!("{}[...]", r.sum))? {
            whole = format!("{whole} / {sum}");
        }
        for &i in &member.first_only {
            let bias = self.argument(&member.operands[i])?;
            whole = match cx.typed::<Conv>(member.op) {
                Some(_) => format!("{whole} + {}", along_channels(&bias, extents.len() - 2)),
                None => format!("{whole} + {bias}"),
            };
        }
        if held != ty.dtype {
            whole = format!("({whole}).astype({})", dtype(ty.dtype));
        }
        let result = self.names.fresh(&(cx.name)(*value));
        let last = format!("{result} = {whole}");
        self.local.insert((*value, member.piece), result);
        Ok([start, each, last])
    }

    /// The operands as they are on this tile, but for those in `without`.
    fn arguments(&mut self, member: &Member, without: &[usize]) -> Result<Vec<String>, Reason> {
        let mut args = Vec::with_capacity(member.operands.len());
        for (i, operand) in member.operands.iter().enumerate() {
            if !without.contains(&i) {
                args.push(self.argument(operand)?);
            }
        }
        Ok(args)
    }

    fn argument(&mut self, operand: &Operand) -> Result<String, Reason> {
        if operand.absent {
            return Ok(String::new());
        }
        let mut text = match &operand.local {
            None => {
                let reference = self.refs[&operand.fetched()].clone();
                match &operand.block {
                    Some(block) => self.piece(&reference, block, operand)?,
                    // A TPU has no blocks without dimensions.
                    None if operand.tile.0.is_empty() => format!("{reference}[0, 0]"),
                    None => format!("{reference}[...]"),
                }
            }
            Some((piece, tile)) => {
                let name = self.local.get(&(operand.value, *piece)).cloned();
                let name = name.ok_or("it needs what is not computed yet")?;
                self.part(&name, tile, &operand.tile, &self.cx.shape(operand.value)?)?
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

    /// An expression over the indices of the program.
    fn python(&mut self, expr: &Expr) -> String {
        expr.axes(&mut |axis| {
            self.programs.insert(axis);
        });
        super::index::python(expr)
    }

    /// The part of a block from memory that an operation reads.
    fn piece(&mut self, name: &str, block: &Tile, operand: &Operand) -> Result<String, Reason> {
        let grid = self.group.grid();
        let mut parts = Vec::with_capacity(block.0.len());
        for (have, need) in block.0.iter().zip(&operand.tile.0) {
            let offset = need.start.minus(&have.start);
            let (low, high) = offset.range(&grid);
            let room = have.extent.cast_signed() - need.extent.cast_signed();
            if low < 0 || room < high {
                let shape = self.cx.shape(operand.value)?;
                return self.part(&format!("{name}[...]"), block, &operand.tile, &shape);
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

    /// The part of a tile in the group that an operation reads.
    fn part(
        &mut self,
        name: &str,
        have: &Tile,
        need: &Tile,
        shape: &[u64],
    ) -> Result<String, Reason> {
        let grid = self.group.grid();
        let mut parts = Vec::with_capacity(shape.len());
        let mut starts = Vec::with_capacity(shape.len());
        let mut ends = Vec::with_capacity(shape.len());
        let (mut all, mut fixed) = (true, true);
        let mut name = name.to_owned();
        for (d, (have, need)) in have.0.iter().zip(&need.0).enumerate() {
            let mut offset = need.start.minus(&have.start);
            let (mut low, mut high) = offset.range(&grid);
            let mut room = have.extent.cast_signed() - need.extent.cast_signed();
            // What is beyond a tile that has the whole dimension lies outside of the value.
            let (before, behind) = ((-low).max(0), (high - room).max(0));
            if (before != 0 || behind != 0) && !have.is_whole(shape[d]) {
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
            starts.push(format!("jnp.int32({})", self.python(&offset)));
        }
        if ends.iter().any(|e| e != "(0, 0)") {
            name = format!("jnp.pad({name}, {})", tuple(&ends));
        }
        if all {
            return Ok(name);
        }
        if fixed {
            return Ok(format!("{name}[{}]", parts.join(", ")));
        }
        let extents = tuple(need.0.iter().map(|s| s.extent));
        Ok(format!(
            "lax.dynamic_slice({name}, {}, {extents})",
            tuple(starts)
        ))
    }

    /// The operation on its arguments, which are tiles; with another element type of the result.
    fn expressions(
        &mut self,
        member: &Member,
        args: &[String],
        held: Option<DType>,
    ) -> Result<Vec<String>, Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.op];
        let extents = |t: &Tile| -> Vec<u64> { t.0.iter().map(|s| s.extent).collect() };
        let results: Vec<Vec<u64>> = member.tile.results.iter().map(extents).collect();
        let mut operands: Vec<Vec<u64>> =
            member.operands.iter().map(|o| extents(&o.tile)).collect();
        let mut args = args.to_vec();
        if let Some(concat) = cx.typed::<Concat>(member.op)
            && let Some(text) = self.joined(member, &concat, &args)?
        {
            return Ok(vec![text]);
        }
        if member.operands.iter().any(|o| o.absent) {
            return Err("a program has nothing of one of its operands".to_owned());
        }
        let split = cx.typed::<Split>(member.op).is_some();
        if split && operands[0] != cx.shape(data.operands[0])? {
            let same = results.iter().all(|r| *r == operands[0]);
            let refuse = || "its parts have other extents than its tile".to_owned();
            return same
                .then(|| vec![args[0].clone(); results.len()])
                .ok_or_else(refuse);
        }
        if let Some((inner, perm)) = &member.inner {
            return Ok(vec![rearrangement(
                &args[0],
                &operands[0],
                inner,
                perm,
                &results[0],
            )]);
        }
        let op = cx.func.op_ref(member.op);
        let mut types: Vec<Type> = op.results.iter().map(|t| (*t).clone()).collect();
        let mut props = data.props.clone();
        if let Some(mut conv) = cx.typed::<Conv>(member.op).filter(|conv| 1 < conv.group) {
            let groups = conv.groups().map_err(|e| e.message)?;
            let each = cx.shape(data.results[0])?[1] / groups;
            let here = (results[0][1] / each.max(1)).max(1);
            conv.group = here.cast_signed();
            props = conv.write();
            // A part of the channels of every group: in the operand they lie apart.
            let (channels, part) = (operands[0][1], operands[1][1]);
            let all = cx.shape(data.operands[1])?[1];
            if part < all && channels == (here - 1) * all + part {
                self.helpers.insert("_parts");
                args[0] = format!("_parts({}, {here}, {all}, {part})", args[0]);
                operands[0][1] = here * part;
            }
        }
        if let Some(held) = held {
            types = vec![Type::tensor(&cx.shape(data.results[0])?, held)];
        }
        let op = OpRef {
            name: op.name,
            operands: op.operands.clone(),
            results: types.iter().collect(),
            props: &props,
        };
        if let Some(decl) = cx.registry.get(op.name) {
            self.fits(member, decl, &op, &operands, &results)?;
        }
        let site = Site {
            op: &op,
            operands,
            results,
            tile: true,
            pads: member.pads.clone(),
        };
        let written = write(&site, &args).ok_or("it has no form on a tile yet")?;
        self.helpers.extend(&written.helpers);
        let mut texts = written.results;
        if let Ok(iota) = Iota::of(&op) {
            let axis = iota.along(&op).map_err(|e| e.message)?;
            let start = self.python(&member.tile.results[0].0[axis].start);
            texts = vec![format!("{} + ({start})", texts[0])];
        }
        Ok(texts)
    }

    /// A part of a concat that is cut along its axis: of each operand what lies in the part. None where
    /// it is not cut so.
    fn joined(
        &mut self,
        member: &Member,
        concat: &Concat,
        args: &[String],
    ) -> Result<Option<String>, Reason> {
        let cx = self.cx;
        let data = &cx.func.ops[member.op];
        let shape = cx.shape(data.results[0])?;
        let tile = member.tile.results[0].clone();
        let axis = concat.along(&cx.func.op_ref(member.op));
        let axis = axis.map_err(|e| e.message)?;
        if tile.0[axis].is_whole(shape[axis]) && !member.operands.iter().any(|o| o.absent) {
            return Ok(None);
        }
        let extents = |t: &Tile| -> Vec<u64> { t.0.iter().map(|s| s.extent).collect() };
        let mut parts = Vec::with_capacity(args.len());
        let mut before = 0u64;
        for (operand, arg) in member.operands.iter().zip(args) {
            let size = cx.shape(operand.value)?[axis];
            if !operand.absent {
                if extents(&operand.tile) != extents(&tile) {
                    return Err("an operand has other extents than its tile".to_owned());
                }
                parts.push(tuple([
                    arg.clone(),
                    before.to_string(),
                    (before + size).to_string(),
                ]));
            }
            before += size;
        }
        let start = self.python(&tile.0[axis].start);
        match parts.as_slice() {
            [] => Err("a program has nothing of its operands".to_owned()),
            [_] => Ok(args.iter().find(|arg| !arg.is_empty()).cloned()),
            parts => {
                self.helpers.insert("_joined");
                Ok(Some(format!(
                    "_joined({axis}, {start}, {})",
                    parts.join(", ")
                )))
            }
        }
    }

    /// Whether the operation on its tiles gives the tiles of its results.
    fn fits(
        &self,
        member: &Member,
        decl: &dyn OpDecl,
        op: &OpRef<'_>,
        operands: &[Vec<u64>],
        results: &[Vec<u64>],
    ) -> Result<(), Reason> {
        // The attributes of these say what becomes of the whole operand, or there is none.
        if Broadcast::of(op).is_ok() || Slice::of(op).is_ok() || Iota::of(op).is_ok() {
            return Ok(());
        }
        let types: Vec<Type> = operands
            .iter()
            .zip(&op.operands)
            .map(|(shape, ty)| Type::tensor(shape, ty.as_tensor().map_or(DType::F32, |t| t.dtype)))
            .collect();
        let ends: Vec<Type> = results
            .iter()
            .zip(&op.results)
            .map(|(shape, ty)| Type::tensor(shape, ty.as_tensor().map_or(DType::F32, |t| t.dtype)))
            .collect();
        let pads = member.pads.as_ref().and_then(|pads| padded(op, pads));
        let props = pads.as_ref().unwrap_or(op.props);
        let here = OpRef {
            name: op.name,
            operands: types.iter().collect(),
            results: ends.iter().collect(),
            props,
        };
        let inferred = decl.infer(&here).map_err(|e| e.message)?;
        let found: Vec<Option<Vec<u64>>> = inferred
            .iter()
            .map(|i| i.dims.iter().map(optc_ir::Dim::fixed).collect())
            .collect();
        let wanted: Vec<Option<Vec<u64>>> = results.iter().cloned().map(Some).collect();
        if found == wanted {
            return Ok(());
        }
        Err("on tiles it gives other extents than its tile".to_owned())
    }
}

/// The most programs whose blocks are followed one by one.
const MAX_PROGRAMS: u64 = 1 << 16;

/// Whether every block of an output is written by programs directly after one another alone.
fn written_once(group: &Group, tile: &Tile) -> Result<(), Reason> {
    if MAX_PROGRAMS < group.programs() {
        return Ok(());
    }
    let extents = group.axes.iter().map(|a| a.extent.cast_signed());
    let grid = Grid::new(extents.collect()).map_err(|e| e.to_string())?;
    let semantics: Vec<Semantics> = group
        .axes
        .iter()
        .map(|a| match a.order {
            Order::Parallel => Semantics::Parallel,
            Order::Arbitrary => Semantics::Arbitrary,
        })
        .collect();
    let block = |program: &[i64]| tile.0.iter().map(|s| s.start.eval(program)).collect();
    check_revisits(&grid, &semantics, block).map_err(|e| e.to_string())
}

/// One number for each row along an axis of a tile.
fn rows_of(tile: &Tile, axis: usize) -> Tile {
    let mut rows = tile.clone();
    rows.0[axis] = Span::whole(1);
    rows
}

/// The head of lines under a condition.
fn block(text: &mut String, depth: usize, condition: &str, name: &str) {
    let indent = "    ".repeat(depth);
    let _ = write!(
        text,
        "\n{indent}@pl.when({condition})\n{indent}def _{name}():\n"
    );
}

fn write_lines(text: &mut String, depth: usize, lines: &[String]) {
    let indent = "    ".repeat(depth);
    for line in lines {
        let _ = writeln!(text, "{indent}{line}");
    }
}

/// A tile reshaped, transposed and reshaped.
pub(super) fn rearrangement(
    x: &str,
    from: &[u64],
    inner: &[u64],
    perm: &[usize],
    to: &[u64],
) -> String {
    let mut text = x.to_owned();
    let ordered = perm.iter().enumerate().all(|(i, &p)| i == p);
    let turned: Vec<u64> = perm.iter().map(|&p| inner[p]).collect();
    if !ordered {
        if from != inner {
            text = format!("{text}.reshape{}", tuple(inner));
        }
        text = format!("jnp.transpose({text}, {})", tuple(perm));
        if turned != to {
            text = format!("{text}.reshape{}", tuple(to));
        }
        return text;
    }
    if from != to {
        text = format!("{text}.reshape{}", tuple(to));
    }
    text
}
