//! The programs of one group.

use super::error::TileFault;
use super::eval::Step;
use super::part::{Part, Region, extents, for_each, intersection, is_empty, offset, whole};
use super::poison::{Poison, copy_element, poisoned, same_element};
use super::reduce::{Partial, combine};
use super::running::{Rows, Running};
use crate::error::OpFailure;
use crate::walk::{Frame, Memory};
use optc_ir::entity::EntityId;
use optc_ir::op::access::Access;
use optc_ir::op::access_of;
use optc_ir::{DType, Func, Op, OpRef, Structure, Tensor, Value};
use optc_tile::Tiling;
use optc_tile::block::Grid;
use optc_tile::{AddsUp, Group, OpTile, Order, Plan, Span, Sum, adds_up};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;
use std::rc::Rc;

/// The most programs that are run one after the other.
const MAX_PROGRAMS: u64 = 1 << 22;

/// A value that is used outside of its group, as it is written.
struct Written {
    tensor: Tensor,
    done: Vec<bool>,
}

/// One part of an operation of the group, and what is the same in all programs.
struct Member {
    op: Op,
    /// The number of the part.
    piece: usize,
    tile: OpTile,
    /// Of each operand that the group makes the part that is read.
    sources: Vec<usize>,
    shapes: Vec<Vec<usize>>,
    results: Vec<(Vec<usize>, DType)>,
    /// The axes that a cut reduction runs over.
    axes: Vec<usize>,
    /// The extents of the loops that it reduces over.
    loops: Vec<i64>,
    /// Whether each result is used outside of the group.
    escapes: Vec<bool>,
    /// Whether the operation makes other parts, too.
    one_of_many: bool,
    /// The dimension along which it runs on, where that is cut.
    runs_along: Option<usize>,
    /// The operation whose running result it adds up, and where the rows of that stand in its own.
    adds_up: Option<AddsUp>,
}

/// What is kept from one program to the next.
#[derive(Default)]
struct Kept {
    partial: BTreeMap<(Op, usize), Partial>,
    running: BTreeMap<Op, Running>,
}

/// What there is of each value in one program, part by part; of a value in memory part 0.
type Parts = BTreeMap<(Value, usize), Part>;

/// Of values of a group the axes at whose last step alone they are there.
type Waits = BTreeMap<Value, Vec<usize>>;

/// Runs the group of this number and stores the values that are used outside of it.
pub(crate) fn run_group<M: Memory>(
    frame: &mut Frame<'_, M>,
    plan: &Plan,
    number: usize,
    escapes: &[bool],
) -> Result<(), (Op, OpFailure)> {
    let func = frame.func;
    let group = &plan.groups[number];
    let mut members = Vec::with_capacity(group.ops.len());
    let mut waits = Waits::new();
    for &op in &group.ops {
        if frame.structure(op) == Structure::Constant {
            continue;
        }
        let parts = parts(frame, plan, group, op, escapes, &mut waits);
        members.extend(parts.map_err(|e| (op, e))?);
    }
    let Some(first) = members.first().map(|m| m.op) else {
        return Ok(());
    };
    if group.programs() > MAX_PROGRAMS {
        let (group, count) = (number, group.programs());
        let limit = MAX_PROGRAMS;
        return Err((
            first,
            TileFault::Programs {
                group,
                count,
                limit,
            }
            .into(),
        ));
    }
    let outer = outer_values(frame, &members)?;
    let mut written = escaping(frame, &members, escapes).map_err(|e| (first, e))?;
    let steps = group.grid().iter().map(|&n| n.cast_signed()).collect();
    let grid =
        Grid::new(steps).map_err(|e| (first, OpFailure::Tile(TileFault::Plan(e.to_string()))))?;
    let mut kept = Kept::default();
    for program in grid.programs() {
        let mut parts = outer.clone();
        for member in &members {
            let fail = |e| (member.op, e);
            let done = run_member(frame, group, member, &program, &parts, &mut kept);
            let Some(done) = done.map_err(fail)? else {
                continue;
            };
            let values = &func.ops[member.op].results;
            for (i, (part, &value)) in done.into_iter().zip(values).enumerate() {
                if let Some(written) = written.get_mut(&value) {
                    write(written, &part, &program, i).map_err(|e| fail(e.into()))?;
                }
                parts.insert((value, member.piece), part);
            }
        }
    }
    for member in &members {
        for (i, &value) in func.ops[member.op].results.iter().enumerate() {
            let Some(written) = written.remove(&value) else {
                continue;
            };
            let stored = complete(written, number, i)
                .map_err(OpFailure::from)
                .and_then(|tensor| frame.store_result(i, value, Rc::new(tensor)));
            stored.map_err(|e| (member.op, e))?;
        }
    }
    Ok(())
}

/// The parts of one operation.
fn parts<M: Memory>(
    frame: &Frame<'_, M>,
    plan: &Plan,
    group: &Group,
    op: Op,
    escapes: &[bool],
    waits: &mut Waits,
) -> Result<Vec<Member>, OpFailure> {
    let tile = &plan.tiles[&op];
    if tile.count() == 0 && !frame.func.ops[op].results.is_empty() {
        return Err(TileFault::Unplanned { group: tile.group }.into());
    }
    let pieces = tile.pieces().enumerate();
    pieces
        .map(|piece| member(frame, plan, group, op, piece, escapes, waits))
        .collect()
}

fn member<M: Memory>(
    frame: &Frame<'_, M>,
    plan: &Plan,
    group: &Group,
    op: Op,
    (piece, tile): (usize, OpTile),
    escapes: &[bool],
    waits: &mut Waits,
) -> Result<Member, OpFailure> {
    let func = frame.func;
    let data = &func.ops[op];
    if tile.results.len() != data.results.len() {
        return Err(TileFault::Unplanned { group: tile.group }.into());
    }
    let shape = |value: Value| -> Result<(Vec<usize>, DType), OpFailure> {
        let ty = frame.tensor_type(value)?;
        let shape = frame.scope.shape(ty).ok_or_else(|| {
            TileFault::Plan(format!("the sizes of {value} are not known before it runs"))
        })?;
        Ok((shape, ty.dtype))
    };
    let mut shapes = Vec::with_capacity(data.operands.len());
    for &operand in &data.operands {
        shapes.push(shape(operand)?.0);
    }
    let mut results = Vec::with_capacity(data.results.len());
    for (result, &value) in data.results.iter().enumerate() {
        let (wanted, found) = (shape(value)?, tile.results[result].0.len());
        if found != wanted.0.len() {
            let wanted = wanted.0.len();
            return Err(TileFault::Rank {
                result,
                found,
                wanted,
            }
            .into());
        }
        results.push(wanted);
    }
    let ranks = tile.reads.iter().zip(&shapes).enumerate();
    for (operand, (block, shape)) in ranks {
        let rank = |block: &optc_tile::Tile| block.0.len() != shape.len();
        if block.as_ref().is_some_and(rank) {
            let why = format!("the block that is read of operand {operand} has another rank");
            return Err(TileFault::Plan(why).into());
        }
    }
    let waiting = data.operands.iter().filter_map(|v| waits.get(v));
    let before: Vec<usize> = waiting.flatten().copied().collect();
    let axes = reduction_axes(group, &tile, &before)?;
    let access = access_at(frame, op)?;
    let sum = Sum { axes: axes.clone() };
    let after = sum.complete_after(&access, before);
    for &value in &data.results {
        waits.insert(value, after.clone());
    }
    let sources = sources(func, plan, group, op, &tile, &access);
    let loops = access.sums().into_iter();
    let loops: Vec<i64> = loops.map(u64::cast_signed).collect();
    if loops.len() < tile.reduce.len() {
        let found = tile.reduce.len();
        let why = format!("the plan has {found} loops, the operation {}", loops.len());
        return Err(TileFault::Reduction(why).into());
    }
    let adds_up = adds_up(func, frame.program.registry, plan, op, &access).map_err(|i| {
        let why = format!("operand {i} runs on along a part that it does not add up over");
        TileFault::Reduction(why)
    })?;
    Ok(Member {
        op,
        piece,
        sources,
        shapes,
        results,
        axes,
        loops,
        escapes: data.results.iter().map(|v| escapes[v.index()]).collect(),
        one_of_many: 1 < plan.tiles[&op].count(),
        runs_along: access.running_dim().filter(|_| !tile.reduce.is_empty()),
        adds_up,
        tile,
    })
}

/// Of each operand that the group makes in several parts the one that this part of an operation reads:
/// the first that holds what it needs.
fn sources(
    func: &Func,
    plan: &Plan,
    group: &Group,
    op: Op,
    tile: &OpTile,
    access: &Access,
) -> Vec<usize> {
    let data = &func.ops[op];
    let shape = |v: Value| func.ty(v).as_tensor().and_then(|t| t.shape());
    let shapes: Option<Vec<Vec<u64>>> = data.results.iter().map(|&v| shape(v)).collect();
    let grid = group.grid();
    let steps = shapes.and_then(|shapes| {
        let shapes: Vec<&[u64]> = shapes.iter().map(Vec::as_slice).collect();
        let steps = access.steps(&tile.results, &tile.reduce, &shapes, &grid);
        steps.ok()
    });
    let source = |(i, &value): (usize, &Value)| {
        let def = func.def_op(value)?;
        let maker = plan.tiles.get(&def).filter(|t| t.group == tile.group)?;
        let result = func.ops[def].results.iter().position(|v| *v == value)?;
        let shape = shape(value)?;
        let needed = access.operand(i, steps.as_ref()?, &shape, &grid).tile;
        maker.holding(result, &needed, &shape, &grid)
    };
    let operands = data.operands.iter().enumerate();
    operands.map(|o| source(o).unwrap_or(0)).collect()
}

/// The axes that a cut reduction runs over, of an operation that waits for the last step of `before`. No
/// others run faster, so that nothing starts the sum again before it is complete.
fn reduction_axes(group: &Group, tile: &OpTile, before: &[usize]) -> Result<Vec<usize>, TileFault> {
    let grid = group.grid();
    let sum = Sum::of(&tile.reduce, &grid);
    let run: Vec<usize> = (0..grid.len()).collect();
    sum.check_order(&run, before, &grid)
        .map_err(|e| TileFault::Reduction(format!("it {e}")))?;
    let axes = sum.axes;
    if let Some(&axis) = axes
        .iter()
        .find(|a| group.axes[**a].order == Order::Parallel)
    {
        return Err(TileFault::Reduction(format!(
            "it adds up over axis {axis} of the grid, which is parallel"
        )));
    }
    Ok(axes)
}

/// The loops of an operation.
fn access_at<M: Memory>(frame: &Frame<'_, M>, op: Op) -> Result<Access, OpFailure> {
    let op = frame.func.op_ref(op);
    Ok(access_of(Some(frame.declaration(&op)?), &op))
}

/// The values that the group reads from memory.
fn outer_values<M: Memory>(
    frame: &mut Frame<'_, M>,
    members: &[Member],
) -> Result<Parts, (Op, OpFailure)> {
    let func = frame.func;
    let inner: BTreeSet<Op> = members.iter().map(|m| m.op).collect();
    let mut parts = Parts::new();
    for member in members {
        for (i, &operand) in func.ops[member.op].operands.iter().enumerate() {
            let within = func.def_op(operand).is_some_and(|op| inner.contains(&op));
            if within || parts.contains_key(&(operand, 0)) {
                continue;
            }
            let tensor = frame.load(i, operand).map_err(|e| (member.op, e))?;
            parts.insert((operand, 0), Part::of_memory(tensor));
        }
    }
    Ok(parts)
}

/// The values of the group that something outside of it uses.
fn escaping<M: Memory>(
    frame: &Frame<'_, M>,
    members: &[Member],
    escapes: &[bool],
) -> Result<BTreeMap<Value, Written>, OpFailure> {
    let func: &Func = frame.func;
    let mut written = BTreeMap::new();
    for member in members {
        for (&value, (shape, dtype)) in func.ops[member.op].results.iter().zip(&member.results) {
            if escapes[value.index()] {
                crate::walk::elements_within_limit(shape)?;
                let tensor = poisoned(*dtype, shape, Poison::Nan);
                let done = vec![false; tensor.len()];
                written.insert(value, Written { tensor, done });
            }
        }
    }
    Ok(written)
}

/// The elements that a span is in a program, those outside of the value included.
fn range(span: &Span, program: &[i64]) -> Range<i64> {
    let start = span.start.eval(program);
    start..start.saturating_add(span.extent.cast_signed())
}

/// The tiles of one operation; `None` where it is not complete yet, or what it needs is not.
fn run_member<M: Memory>(
    frame: &Frame<'_, M>,
    group: &Group,
    member: &Member,
    program: &[i64],
    parts: &Parts,
    kept: &mut Kept,
) -> Result<Option<Vec<Part>>, OpFailure> {
    let func = frame.func;
    let data = &func.ops[member.op];
    let mut inputs = Vec::with_capacity(data.operands.len());
    for (i, operand) in data.operands.iter().enumerate() {
        let Some(part) = parts.get(&(*operand, member.sources[i])) else {
            return Ok(None);
        };
        // Of a value in memory there is no more than the block that is fetched.
        match member.tile.reads.get(i).and_then(Option::as_ref) {
            Some(block) => {
                let region: Region = block.0.iter().map(|s| range(s, program)).collect();
                let region = intersection(&region, &part.region);
                inputs.push(Part {
                    tensor: part.crop(&region, Poison::Nan).into(),
                    region,
                });
            }
            None => inputs.push(part.clone()),
        }
    }
    let regions = regions(member, program)?;
    let all_empty = regions.iter().zip(&member.results);
    let all_empty = all_empty.fold(true, |all, (region, (shape, _))| {
        all && is_empty(&intersection(region, &whole(shape)))
    });
    if all_empty && member.axes.is_empty() {
        let parts = regions.into_iter().zip(&member.results);
        let nothing = |(region, (_, dtype)): (Region, &(Vec<usize>, DType))| Part {
            tensor: poisoned(*dtype, &extents(&region), Poison::Nan).into(),
            region,
        };
        return Ok(Some(parts.map(nothing).collect()));
    }
    let op: OpRef<'_> = func.op_ref(member.op);
    let step = Step {
        decl: frame.declaration(&op)?,
        name: &data.name,
        props: &data.props,
        bindings: &frame.scope.bindings,
        program,
        inputs: &inputs,
        shapes: &member.shapes,
        regions: &regions,
        results: &member.results,
    };
    let first = member.axes.iter().all(|&a| program[a] == 0);
    let tensors = if let (Some(axis), false) = (member.runs_along, member.axes.is_empty()) {
        let before = kept.running.remove(&member.op).filter(|_| !first);
        let (region, result) = (&regions[0], &member.results[0]);
        let (tensor, now) = Running::step(before, &inputs[0], region, result, axis, program)?;
        kept.running.insert(member.op, now);
        vec![tensor]
    } else if member.axes.is_empty() {
        step.compute()?
    } else {
        let combine = combine(step.decl, &op)?;
        let reduced: Vec<Range<i64>> = member
            .tile
            .reduce
            .iter()
            .zip(&member.loops)
            .map(|(span, &size)| {
                let range = range(span, program);
                range.start.max(0)..range.end.min(size).max(range.start.max(0))
            })
            .collect();
        let last = |a: &usize| program[*a] == group.axes[*a].extent.cast_signed() - 1;
        let mut before = kept
            .partial
            .remove(&(member.op, member.piece))
            .filter(|_| !first);
        let rows = member.adds_up.as_ref().and_then(|of| {
            let running = kept.running.get(&of.op)?;
            Some(Rows {
                running,
                kept: &of.kept,
            })
        });
        if let (Some(rows), Some(before)) = (&rows, &mut before) {
            before.tensor = rows.scaled(&before.tensor, &regions[0]);
        }
        let mut now = step.accumulate(combine, &reduced, &member.loops, before)?;
        if !member.axes.iter().all(last) {
            kept.partial.insert((member.op, member.piece), now);
            return Ok(None);
        }
        if let Some(rows) = &rows {
            now.tensor = rows.divided(&now.tensor, &regions[0]);
        }
        vec![now.finish(member.results[0].1)]
    };
    let done = regions.into_iter().zip(tensors);
    let part = |(region, tensor): (Region, Tensor)| Part {
        region,
        tensor: tensor.into(),
    };
    Ok(Some(done.map(part).collect()))
}

/// Where the results of an operation lie in a program; each that is written to memory holds an
/// element of its value.
fn regions(member: &Member, program: &[i64]) -> Result<Vec<Region>, TileFault> {
    let mut regions = Vec::with_capacity(member.results.len());
    for (result, (tile, (shape, _))) in member.tile.results.iter().zip(&member.results).enumerate()
    {
        let region: Region = tile.0.iter().map(|s| range(s, program)).collect();
        let whole = whole(shape);
        let empty = is_empty(&intersection(&region, &whole)) && !shape.contains(&0);
        // Of several parts some may have nothing in a program.
        if empty && member.escapes[result] && !member.one_of_many {
            let none =
                |(a, b): &(&Range<i64>, &Range<i64>)| a.end.min(b.end) <= a.start.max(b.start);
            let dim = region
                .iter()
                .zip(&whole)
                .position(|p| none(&p))
                .unwrap_or(0);
            return Err(TileFault::Empty {
                program: program.to_vec(),
                result,
                dim,
                start: region[dim].start,
                stop: region[dim].end,
                size: whole[dim].end,
            });
        }
        regions.push(region);
    }
    Ok(regions)
}

/// Writes a tile to memory.
fn write(
    written: &mut Written,
    part: &Part,
    program: &[i64],
    result: usize,
) -> Result<(), TileFault> {
    let all = whole(&written.tensor.shape);
    let (to, from) = (written.tensor.strides(), part.tensor.strides());
    let mut fault = None;
    for_each(&intersection(&part.region, &all), |at| {
        let (i, j) = (offset(at, &all, &to), offset(at, &part.region, &from));
        if written.done[i] && !same_element(&written.tensor, i, &part.tensor, j) {
            fault.get_or_insert_with(|| at.to_vec());
        }
        written.done[i] = true;
        copy_element(&mut written.tensor, i, &part.tensor, j);
    });
    match fault {
        None => Ok(()),
        Some(element) => Err(TileFault::Rewritten {
            program: program.to_vec(),
            result,
            element,
        }),
    }
}

/// The value, of which every element is written.
fn complete(written: Written, group: usize, result: usize) -> Result<Tensor, TileFault> {
    let Some(hole) = written.done.iter().position(|done| !done) else {
        return Ok(written.tensor);
    };
    let mut rest = hole;
    let element = written.tensor.strides().into_iter().map(|stride| {
        let i = rest / stride;
        rest %= stride;
        i as i64
    });
    Err(TileFault::Unwritten {
        group,
        result,
        element: element.collect(),
    })
}
