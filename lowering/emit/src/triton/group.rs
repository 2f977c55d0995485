//! The kernels of a group: the choice of their axes and blocks, and their text.
//!
//! A group is one kernel where its programs can compute everything that the last value needs. A value that several
//! programs would compute again, and one that is read at another index than a program can have, is stored by a kernel of
//! its own. The launcher of the group calls the kernels in order.

use super::axis::{AxisId, Kind};
use super::cx::{Cx, Makers, Reason};
use super::kernel::{Kernel, Probe, Val, factor};
use super::words::{block_type, pointer_type, wide};
use optc_ir::{DType, Op, Value};
use optc_tile::{Expr, GroupSchedule};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;

/// A kernel that is written.
pub(super) struct Written {
    pub(super) name: String,
    pub(super) text: String,
    /// The values that it stores; the last is the one that it is for.
    pub(super) outputs: Vec<Value>,
    pub(super) inputs: Vec<Value>,
    pub(super) programs: u64,
    pub(super) warps: u32,
    pub(super) stages: u32,
    pub(super) helpers: BTreeSet<&'static str>,
    /// The operation, if torch computes it, and the reason.
    pub(super) torch: Option<(Op, Reason)>,
    /// The parameters: the value, the name of its pointer, and the number of its strides.
    pub(super) params: Vec<(Value, String, usize)>,
}

/// The rows and columns of a `tl.dot`.
const SIDE: u64 = 64;
/// The sides of a `tl.dot` in a kernel with few programs.
const SMALL_SIDE: u64 = 32;
/// The programs below which blocks are small: half of the multiprocessors of an H100.
const FEW_PROGRAMS: u64 = 66;
/// The columns of a product that reads a product. All of them are in one program where they fit, for each block of them
/// would compute the inner product again.
const NESTED_COLUMNS: u64 = 256;
/// The elements of a block of such a product.
const NESTED_BLOCK: u64 = 4096;
/// The sides of a `tl.dot` of 16 bits in a kernel with enough programs.
const LARGE_SIDE: u64 = 128;
/// The programs from which on larger blocks leave no multiprocessor without work: twice those of an H100.
const MANY_PROGRAMS: u64 = 264;
/// The elements of a block without products.
const PLAIN_BLOCK: u64 = 1024;
/// The elements of a block of long sums without rows or without columns.
const FLAT_BLOCK: u64 = 128;
/// The elements of the rows that a program holds whole.
const MAX_ROW: u64 = 4096;
/// The elements of a row beside which a product's rows are held.
const MAX_PRODUCT_ROW: u64 = 256;
/// The number of neighbouring rows of blocks whose programs run together, so that the second cache holds their operands.
const GROUP_ROWS: u64 = 8;
/// The largest number of programs of a grid.
const MAX_PROGRAMS: u64 = 1 << 31;

/// The kernels of a group, in the order in which they run.
pub(super) fn kernels(
    cx: &Cx<'_>,
    group: &GroupSchedule,
    live: &[Value],
    fresh: &mut dyn FnMut(Value) -> String,
) -> Result<Vec<Written>, Reason> {
    let mut makers: Makers = BTreeMap::new();
    let mut order: BTreeMap<Value, usize> = BTreeMap::new();
    for (at, op) in group.ops.iter().enumerate() {
        for (i, &value) in cx.func.ops[op.op].results.iter().enumerate() {
            makers.insert(value, (op.op, i));
            order.insert(value, at);
        }
    }
    let place = |value: &Value| order.get(value).copied().unwrap_or(0);
    let mut wanted: BTreeSet<(usize, Value)> = live.iter().map(|v| (place(v), *v)).collect();
    let mut written: Vec<Written> = Vec::new();
    let mut done: BTreeSet<Value> = BTreeSet::new();
    while let Some((_, value)) = wanted.pop_last() {
        if !done.insert(value) {
            continue;
        }
        let kernel = match one(cx, &makers, value, &done, fresh) {
            Ok(kernel) => kernel,
            Err(why) => {
                let &(op, _) = makers.get(&value).ok_or(why.clone())?;
                in_torch(cx, op, why)
            }
        };
        done.extend(&kernel.outputs);
        for input in &kernel.inputs {
            if makers.contains_key(input) && !done.contains(input) {
                wanted.insert((place(input), *input));
            }
        }
        written.push(kernel);
    }
    written.reverse();
    match written.iter().find_map(|k| k.torch.as_ref()) {
        Some((_, why)) if written.iter().all(|k| k.torch.is_some()) => Err(why.clone()),
        _ => Ok(written),
    }
}

/// An operation of a group that torch computes.
fn in_torch(cx: &Cx<'_>, op: Op, why: Reason) -> Written {
    let data = &cx.func.ops[op];
    Written {
        name: String::new(),
        text: String::new(),
        outputs: data.results.clone(),
        inputs: data.operands.clone(),
        programs: 0,
        warps: 0,
        stages: 0,
        helpers: BTreeSet::new(),
        torch: Some((op, why)),
        params: Vec::new(),
    }
}

/// The kernel that stores a value. Values of `done` are stored by kernels that run later.
fn one(
    cx: &Cx<'_>,
    makers: &Makers,
    root: Value,
    done: &BTreeSet<Value>,
    fresh: &mut dyn FnMut(Value) -> String,
) -> Result<Written, Reason> {
    let shape = cx.shape(root)?;
    if shape.contains(&0) {
        return Err("a value has no elements".to_owned());
    }
    let mut parts: Vec<Vec<u64>> = shape.iter().map(|&n| vec![n]).collect();
    let mut probe = probe(cx, makers, root, &parts)?;
    while split(&mut parts, &probe) {
        probe = self::probe(cx, makers, root, &parts)?;
    }
    let mut kernel = Kernel::new(cx, makers, root);
    kernel.stored.extend(done.iter().filter(|v| **v != root));
    let extents: Vec<u64> = parts.concat();
    let blocks = blocks(&extents, &probe, SIDE);
    let programs = |blocks: &[(u64, Kind)]| -> u64 {
        let each = extents.iter().zip(blocks);
        each.map(|(n, (block, _))| n.div_ceil(*block)).product()
    };
    let narrow = probe
        .product
        .as_ref()
        .is_some_and(|p| p.dtype.bits() <= 16 && p.dtype != DType::BOOL);
    let sized = |side: u64| self::blocks(&extents, &probe, side);
    let blocks = match (&probe.product, probe.nested) {
        (Some(_), false) if narrow && MANY_PROGRAMS <= programs(&sized(LARGE_SIDE)) => {
            sized(LARGE_SIDE)
        }
        (Some(_), _) if programs(&blocks) < FEW_PROGRAMS => sized(SMALL_SIDE),
        _ => blocks,
    };
    for (&extent, &(block, kind)) in extents.iter().zip(&blocks) {
        kernel.add(extent, block, kind);
    }
    let programs = programs(&blocks);
    if MAX_PROGRAMS <= programs {
        return Err("its grid has too many programs".to_owned());
    }
    let index = root_index(&parts);
    let val = kernel.value(root, &index)?;
    let name = fresh(root);
    text(kernel, &probe, (name, programs), &index, val)
}

/// The most axes into which the dimensions of a result are split.
const MAX_AXES: usize = 12;

/// Splits the axes of a result at the cuts that a walk found. Returns whether there was one.
fn split(parts: &mut [Vec<u64>], probe: &Probe) -> bool {
    let total: usize = parts.iter().map(Vec::len).sum();
    let mut first = 0;
    let mut split = false;
    for part in parts.iter_mut().filter(|_| total < MAX_AXES) {
        let len = part.len();
        let cut = (0..len).find_map(|i| Some((i, *probe.cuts.0.get(&(first + i))?)));
        if let Some((i, by)) = cut {
            let outer = part[i] / by;
            part.splice(i..=i, [outer, by]);
            split = true;
        }
        first += len;
    }
    split
}

/// The index of each dimension of the result, whose axes are these parts.
fn root_index(parts: &[Vec<u64>]) -> Vec<Expr> {
    let mut axis = 0;
    let mut index = Vec::with_capacity(parts.len());
    for part in parts {
        let mut stride: i64 = part.iter().product::<u64>().cast_signed();
        let mut expr = Expr::default();
        for &n in part {
            stride /= n.max(1).cast_signed();
            if n != 1 {
                expr = expr.plus(&Expr::axis(axis).times(stride));
            }
            axis += 1;
        }
        index.push(expr);
    }
    index
}

/// Walks through the group once with an index for each axis of the result.
fn probe(cx: &Cx<'_>, makers: &Makers, root: Value, parts: &[Vec<u64>]) -> Result<Probe, Reason> {
    let mut kernel = Kernel::new(cx, makers, root);
    for &extent in parts.iter().flatten() {
        kernel.add(extent, 1, Kind::Program);
    }
    kernel.probe = Some(Probe {
        roots: parts.iter().map(Vec::len).sum(),
        ..Probe::default()
    });
    // A walk that ends early has seen what is near the result.
    let walked = kernel.value(root, &root_index(parts));
    match (walked, kernel.probe) {
        (_, Some(probe)) => Ok(probe),
        (Err(why), None) => Err(why),
        (Ok(_), None) => Err("its axes are unknown".to_owned()),
    }
}

/// The block and the kind of each axis of the result.
fn blocks(extents: &[u64], probe: &Probe, side: u64) -> Vec<(u64, Kind)> {
    let mut blocks: Vec<(u64, Kind)> = vec![(1, Kind::Program); extents.len()];
    let up = |a: AxisId| extents[a].next_power_of_two();
    let row: u64 = probe.whole.iter().map(|&a| up(a)).product();
    let most = match probe.product {
        Some(_) => MAX_PRODUCT_ROW,
        None => MAX_ROW,
    };
    let held = !probe.whole.is_empty() && row <= most;
    if held {
        for &a in &probe.whole {
            blocks[a] = (up(a), Kind::Whole);
        }
    }
    let free = |a: &AxisId, blocks: &[(u64, Kind)]| 1 < extents[*a] && blocks[*a].0 == 1;
    // Takes axes from the innermost on until the block has this many elements.
    let fill = |axes: &[AxisId], mut room: u64, blocks: &mut Vec<(u64, Kind)>| {
        for (at, &a) in axes.iter().enumerate().rev() {
            if room < 2 || !free(&a, blocks) {
                continue;
            }
            let outer = axes[..at]
                .iter()
                .filter(|a| free(a, blocks))
                .map(|a| up(*a));
            let outer = outer.fold(1, u64::saturating_mul);
            let block = part(extents[a], room, outer);
            blocks[a] = (block, Kind::Program);
            room /= block;
        }
    };
    let all: Vec<AxisId> = (0..extents.len()).collect();
    let Some(product) = &probe.product else {
        let row = if held { row } else { 1 };
        fill(&all, (PLAIN_BLOCK / row).max(1), &mut blocks);
        return blocks;
    };
    let only = |own: &[AxisId], other: &[AxisId]| -> Vec<AxisId> {
        own.iter().copied().filter(|a| !other.contains(a)).collect()
    };
    let (left, right) = (&product.left, &product.right);
    let (rows, columns) = (only(left, right), only(right, left));
    if rows.is_empty() || columns.is_empty() {
        // Each element is a sum of its own, as in a depthwise convolution or a product with a vector.
        let room = match product.operations < FLAT_BLOCK {
            true => PLAIN_BLOCK,
            false => FLAT_BLOCK,
        };
        fill(&all, room, &mut blocks);
        return blocks;
    }
    let taken = |axes: &[AxisId], blocks: &[(u64, Kind)]| -> u64 {
        axes.iter().map(|&a| blocks[a].0).product()
    };
    let most = if probe.nested { NESTED_COLUMNS } else { side };
    let room = (most / taken(&columns, &blocks)).max(1);
    fill(&columns, room, &mut blocks);
    let beside = taken(&columns, &blocks);
    let most = match probe.nested {
        true => (NESTED_BLOCK / beside).clamp(16, side),
        false => (side * side / beside).clamp(16, side),
    };
    let room = (most / taken(&rows, &blocks)).max(1);
    fill(&rows, room, &mut blocks);
    blocks
}

/// The part of an axis that a block has, if a block has at most `room` elements of it and of outer axes: the power of two
/// with which the most elements of a block exist. Blocks of a few neighbours are slower to load.
fn part(extent: u64, room: u64, outer: u64) -> u64 {
    let most = extent.next_power_of_two().min(1 << room.ilog2());
    let powers = (1..=most.ilog2()).rev().map(|n| 1u64 << n);
    let worth = |&block: &u64| {
        let filled = room.min(block.saturating_mul(outer));
        let present = 1000 * extent / (extent.div_ceil(block) * block);
        let share = if block < 16 && block < most { 8 } else { 10 };
        (filled * present * share, block)
    };
    powers.max_by_key(worth).unwrap_or(1)
}

/// The text of a kernel whose body is written.
fn text(
    mut kernel: Kernel<'_>,
    probe: &Probe,
    (name, programs): (String, u64),
    index: &[Expr],
    val: Val,
) -> Result<Written, Reason> {
    let root = kernel.root;
    let roots: Vec<AxisId> = (0..kernel.axes.len())
        .filter(|&a| a < index_axes(index))
        .collect();
    let axes = kernel.vectors(&roots);
    let out = kernel
        .names
        .fresh(&format!("{}_out", (kernel.cx.name)(root)));
    let mut terms = vec![out.clone()];
    for (d, expr) in index.iter().enumerate() {
        if expr.as_number() != Some(0) {
            let at = factor(kernel.index(expr, &axes));
            terms.push(format!("{at} * {out}_s{d}"));
        }
    }
    let stored = stored(&kernel, &val, &axes)?;
    let mask = kernel.mask(&axes, &[]);
    let mask = mask.map_or(String::new(), |mask| format!(", mask={mask}"));
    kernel.line(format!("tl.store({}, {stored}{mask})", terms.join(" + ")));

    let rank = |value: Value| kernel.shape(value).map(|s| s.len());
    let mut params = Vec::new();
    for (value, name) in &kernel.inputs {
        params.push((*value, name.clone(), rank(*value)?));
    }
    params.push((root, out, rank(root)?));
    let mut list = Vec::new();
    for (value, name, rank) in &params {
        let ty = kernel.tensor(*value)?;
        pointer_type(ty.dtype).ok_or_else(|| format!("a kernel has no values of {}", ty.dtype))?;
        list.push(name.clone());
        list.extend((0..*rank).map(|d| format!("{name}_s{d}")));
    }
    let mut text = format!("@triton.jit\ndef {name}({}):\n", list.join(", "));
    for line in head(&kernel, &roots, probe).iter().chain(kernel.lines()) {
        let _ = writeln!(text, "    {line}");
    }
    let tile: u64 = axes.iter().map(|&a| kernel.axes[a].block).product();
    let warps = match probe.product {
        Some(_) if probe.nested || LARGE_SIDE * LARGE_SIDE <= tile => 8,
        Some(_) => 4,
        None if tile <= 256 => 2,
        None if 2048 < tile => 8,
        None => 4,
    };
    let stages = match &probe.product {
        Some(product) if product.dtype.bits() <= 16 => 3,
        _ => 2,
    };
    Ok(Written {
        name,
        text,
        outputs: vec![root],
        inputs: kernel.inputs.iter().map(|(v, _)| *v).collect(),
        programs,
        warps,
        stages,
        helpers: kernel.helpers,
        torch: None,
        params,
    })
}

/// The result on all of its axes, in its type.
fn stored(kernel: &Kernel<'_>, val: &Val, axes: &[AxisId]) -> Result<String, Reason> {
    let dtype = kernel.tensor(kernel.root)?.dtype;
    let to = block_type(dtype).ok_or_else(|| format!("a kernel has no values of {dtype}"))?;
    let mut text = kernel.spread(val, axes);
    if val.axes != axes && !axes.is_empty() {
        let sizes: Vec<u64> = axes.iter().map(|&a| kernel.axes[a].block).collect();
        text = format!("tl.broadcast_to({text}, {sizes:?})");
    }
    if val.dtype != dtype || wide(dtype) != dtype {
        text = format!("({text}).to({to})");
    }
    Ok(text)
}

/// The number of axes that the index of the result names, and those of one element between them.
fn index_axes(index: &[Expr]) -> usize {
    let all = index.iter().flat_map(super::axis::axes_of);
    all.max().map_or(0, |a| a + 1)
}

/// The lines that find the blocks of a program.
fn head(kernel: &Kernel<'_>, roots: &[AxisId], probe: &Probe) -> Vec<String> {
    let count = |a: AxisId| kernel.axes[a].count();
    let several: Vec<AxisId> = roots
        .iter()
        .copied()
        .filter(|&a| kernel.axes[a].kind == Kind::Program)
        .collect();
    let mut lines = Vec::new();
    let cut: Vec<AxisId> = several.iter().copied().filter(|&a| 1 < count(a)).collect();
    if !cut.is_empty() {
        lines.push("program = tl.program_id(0)".to_owned());
    }
    let last = |own: &[AxisId], other: &[AxisId]| {
        let own = own.iter().copied();
        own.filter(|a| !other.contains(a) && cut.contains(a)).max()
    };
    let pair = probe
        .product
        .as_ref()
        .and_then(|p| Some((last(&p.left, &p.right)?, last(&p.right, &p.left)?)));
    let mut rest: Vec<AxisId> = cut.clone();
    if let Some((row, column)) = pair.filter(|&(row, _)| 1 < count(row)) {
        rest.retain(|a| *a != row && *a != column);
        let (m, n) = (count(row), count(column));
        let width = GROUP_ROWS * n;
        // Programs of a few rows of blocks run together, column by column.
        lines.push(format!("tile = program % {}", m * n));
        if !rest.is_empty() {
            lines.push(format!("program = program // {}", m * n));
        }
        lines.push(format!("first = tile // {width} * {GROUP_ROWS}"));
        lines.push(format!("rows = min({m} - first, {GROUP_ROWS})"));
        lines.push(format!("p{row} = first + tile % {width} % rows"));
        lines.push(format!("p{column} = tile % {width} // rows"));
    }
    for (at, &a) in rest.iter().enumerate().rev() {
        match at {
            0 => lines.push(format!("p{a} = program")),
            _ => {
                lines.push(format!("p{a} = program % {}", count(a)));
                lines.push(format!("program = program // {}", count(a)));
            }
        }
    }
    for &a in &several {
        let axis = &kernel.axes[a];
        let (name, block) = (&axis.name, axis.block);
        let start = match count(a) {
            1 => None,
            _ => Some(format!("p{a}")),
        };
        lines.push(match (start, axis.is_vector()) {
            (Some(start), true) => format!("{name} = {start} * {block} + tl.arange(0, {block})"),
            (None, true) => format!("{name} = tl.arange(0, {block})"),
            (Some(start), false) => format!("{name} = {start}"),
            (None, false) => format!("{name} = 0"),
        });
        if let Some(mask) = &axis.mask {
            lines.push(format!("{mask} = {name} < {}", axis.extent));
        }
    }
    lines
}
