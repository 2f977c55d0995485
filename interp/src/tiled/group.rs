//! Runs the programs of one group.

use super::error::TileFault;
use super::eval::TiledOp;
use super::fragment::{Fragment, Region, extents, for_each, intersection, is_empty, offset, whole};
use super::online::{Online, Rows};
use super::poison::{Poison, copy_element, poisoned, same_element};
use super::reduce::{Partial, combine};
use crate::error::OpFailure;
use crate::frame::{Frame, Memory};
use crate::limit::elements_within_limit;
use optc_ir::{DType, Func, Op, OpRef, Tensor, Value};
use optc_tile::block::Grid;
use optc_tile::{GroupSchedule, OpSchedule, OperandSchedule, PartSchedule, Schedule, Source, Span};
use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

/// The most programs that are run one after the other.
const MAX_PROGRAMS: u64 = 1 << 22;

/// A value that is used outside its group, as far as it is written.
struct Written {
    tensor: Tensor,
    done: Vec<bool>,
}

/// One part of an operation of the group, with the sizes of its values in this run.
struct Member<'s> {
    schedule: &'s OpSchedule,
    /// The number of the part.
    number: usize,
    part: &'s PartSchedule,
    shapes: Vec<Vec<usize>>,
    results: Vec<(Vec<usize>, DType)>,
    /// For each result: true if something outside the group uses it.
    live_out: Vec<bool>,
}

/// State that is kept from one program to the next.
#[derive(Default)]
struct Kept {
    partial: BTreeMap<(Op, usize), Partial>,
    online: BTreeMap<Op, Online>,
}

/// The available elements of each value in one program, part by part; a value in memory is part 0.
type Fragments = BTreeMap<(Value, usize), Fragment>;

/// Runs the group of this number and stores the values that are used outside it.
pub(crate) fn run_group<M: Memory>(
    frame: &mut Frame<'_, M>,
    schedule: &Schedule,
    number: usize,
) -> Result<(), (Op, OpFailure)> {
    let func = frame.func;
    let Some(group) = schedule.groups.get(number) else {
        return Ok(());
    };
    let mut members = Vec::with_capacity(group.ops.len());
    for op in &group.ops {
        let parts = parts(frame, schedule, number, op);
        members.extend(parts.map_err(|e| (op.op, e))?);
    }
    let Some(first) = members.first().map(|m| m.schedule.op) else {
        return Ok(());
    };
    let grid = grid(group, number).map_err(|e| (first, e.into()))?;
    let outer = outer_values(frame, &members)?;
    let mut written = live_outs(frame, &members).map_err(|e| (first, e))?;
    let mut kept = Kept::default();
    for program in grid.programs() {
        let mut parts = outer.clone();
        for member in &members {
            let fail = |e| (member.schedule.op, e);
            let done = run_member(frame, group, member, &program, &parts, &mut kept);
            let Some(done) = done.map_err(fail)? else {
                continue;
            };
            let values = &func.ops[member.schedule.op].results;
            for (i, (part, &value)) in done.into_iter().zip(values).enumerate() {
                if let Some(written) = written.get_mut(&value) {
                    write(written, &part, &program, i).map_err(|e| fail(e.into()))?;
                }
                parts.insert((value, member.number), part);
            }
        }
    }
    for member in &members {
        let op = member.schedule.op;
        for (i, &value) in func.ops[op].results.iter().enumerate() {
            let Some(written) = written.remove(&value) else {
                continue;
            };
            let stored = complete(written, number, i)
                .map_err(OpFailure::from)
                .and_then(|tensor| frame.store_result(i, value, Arc::new(tensor)));
            stored.map_err(|e| (op, e))?;
        }
    }
    Ok(())
}

/// The programs of a group; an error if there are too many to run one after the other.
fn grid(group: &GroupSchedule, number: usize) -> Result<Grid, TileFault> {
    if group.programs() > MAX_PROGRAMS {
        return Err(TileFault::Programs {
            group: number,
            count: group.programs(),
            limit: MAX_PROGRAMS,
        });
    }
    let steps = group.grid().iter().map(|&n| n.cast_signed()).collect();
    Grid::new(steps).map_err(|e| TileFault::Plan(e.to_string()))
}

/// The parts of one operation.
fn parts<'s, M: Memory>(
    frame: &Frame<'_, M>,
    schedule: &Schedule,
    group: usize,
    op: &'s OpSchedule,
) -> Result<Vec<Member<'s>>, OpFailure> {
    if op.parts.is_empty() && !frame.func.ops[op.op].results.is_empty() {
        return Err(TileFault::Unplanned { group }.into());
    }
    let parts = op.parts.iter().enumerate();
    parts
        .map(|(number, part)| member(frame, schedule, op, number, part))
        .collect()
}

fn member<'s, M: Memory>(
    frame: &Frame<'_, M>,
    schedule: &Schedule,
    op: &'s OpSchedule,
    number: usize,
    part: &'s PartSchedule,
) -> Result<Member<'s>, OpFailure> {
    let data = &frame.func.ops[op.op];
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
    for &value in &data.results {
        results.push(shape(value)?);
    }
    check_form(op, part, &shapes, &results)?;
    let live_out = data.results.iter().map(|&v| schedule.is_live_out(v));
    Ok(Member {
        live_out: live_out.collect(),
        schedule: op,
        number,
        part,
        shapes,
        results,
    })
}

/// Checks that a part has a tile for each result and a source for each operand, with the right numbers of dimensions.
fn check_form(
    op: &OpSchedule,
    part: &PartSchedule,
    shapes: &[Vec<usize>],
    results: &[(Vec<usize>, DType)],
) -> Result<(), TileFault> {
    let ranks = part.results.iter().map(|tile| tile.0.len());
    let wanted = results.iter().map(|(shape, _)| shape.len());
    if !ranks.eq(wanted) {
        let why = "its tiles have other dimensions than its results";
        return Err(TileFault::Plan(why.to_owned()));
    }
    let block = |(operand, shape): (&OperandSchedule, &Vec<usize>)| {
        let fetched = operand.fetched.as_ref();
        fetched.is_none_or(|tile| tile.0.len() == shape.len())
    };
    let fits = part.operands.len() == shapes.len();
    if !fits || !part.operands.iter().zip(shapes).all(block) {
        let why = "the blocks that it reads have other dimensions than its operands";
        return Err(TileFault::Plan(why.to_owned()));
    }
    if let Some(axis) = op.online {
        let along = results.first().is_some_and(|(shape, _)| axis < shape.len());
        if !along || shapes.is_empty() {
            return Err(TileFault::Plan(
                "it has no axis to be computed along".to_owned(),
            ));
        }
    }
    if op.reduced.len() < op.reduce.len() {
        let (found, wanted) = (op.reduce.len(), op.reduced.len());
        let why = format!("the plan has {found} loops, the operation {wanted}");
        return Err(TileFault::Reduction(why));
    }
    Ok(())
}

/// The values that the group reads from memory.
fn outer_values<M: Memory>(
    frame: &mut Frame<'_, M>,
    members: &[Member<'_>],
) -> Result<Fragments, (Op, OpFailure)> {
    let mut parts = Fragments::new();
    for member in members {
        for (i, operand) in member.part.operands.iter().enumerate() {
            let value = operand.value;
            if operand.source != Source::Memory || parts.contains_key(&(value, 0)) {
                continue;
            }
            let tensor = frame.load(i, value);
            let tensor = tensor.map_err(|e| (member.schedule.op, e))?;
            parts.insert((value, 0), Fragment::of_memory(tensor));
        }
    }
    Ok(parts)
}

/// The values of the group that something outside it uses.
fn live_outs<M: Memory>(
    frame: &Frame<'_, M>,
    members: &[Member<'_>],
) -> Result<BTreeMap<Value, Written>, OpFailure> {
    let func: &Func = frame.func;
    let mut written = BTreeMap::new();
    for member in members {
        let results = func.ops[member.schedule.op].results.iter();
        let results = results.zip(&member.results).zip(&member.live_out);
        for ((&value, (shape, dtype)), _) in results.filter(|(_, live_out)| **live_out) {
            elements_within_limit(shape)?;
            let tensor = poisoned(*dtype, shape, Poison::Nan);
            let done = vec![false; tensor.len()];
            written.insert(value, Written { tensor, done });
        }
    }
    Ok(written)
}

/// The elements of a span in a program, including those outside the value.
fn range(span: &Span, program: &[i64]) -> Range<i64> {
    let start = span.start.eval(program);
    start..start.saturating_add(span.extent.cast_signed())
}

/// The tiles of one operation in a program; `None` if the operation or one of its operands is not complete yet.
///
/// The body handles the cases in order: missing operands, tiles without elements of their values, and the three ways to
/// compute. These cases share too much state to be functions of their own.
fn run_member<M: Memory>(
    frame: &Frame<'_, M>,
    group: &GroupSchedule,
    member: &Member<'_>,
    program: &[i64],
    parts: &Fragments,
    kept: &mut Kept,
) -> Result<Option<Vec<Fragment>>, OpFailure> {
    let func = frame.func;
    let (schedule, data) = (member.schedule, &func.ops[member.schedule.op]);
    let Some(inputs) = inputs(member, program, parts) else {
        return Ok(None);
    };
    let regions = regions(member, program)?;
    let all_empty = regions.iter().zip(&member.results);
    let all_empty = all_empty.fold(true, |all, (region, (shape, _))| {
        all && is_empty(&intersection(region, &whole(shape)))
    });
    if all_empty && schedule.sequential.is_empty() {
        let parts = regions.into_iter().zip(&member.results);
        let nothing = |(region, (_, dtype)): (Region, &(Vec<usize>, DType))| Fragment {
            tensor: poisoned(*dtype, &extents(&region), Poison::Nan).into(),
            region,
        };
        return Ok(Some(parts.map(nothing).collect()));
    }
    let op: OpRef<'_> = func.op_ref(schedule.op);
    let step = TiledOp {
        decl: frame.declaration(&op)?,
        name: &data.name,
        props: &data.props,
        bindings: &frame.scope.bindings,
        program,
        inputs: &inputs,
        shapes: &member.shapes,
        regions: &regions,
        results: &member.results,
        epilogue: &schedule.epilogue,
    };
    let first = schedule
        .sequential
        .iter()
        .all(|&a| program.get(a) == Some(&0));
    let tensors = if let Some(axis) = schedule.online {
        let before = kept.online.remove(&schedule.op).filter(|_| !first);
        let (region, result) = (&regions[0], &member.results[0]);
        let (tensor, now) = Online::step(before, &inputs[0], region, result, axis, program)?;
        kept.online.insert(schedule.op, now);
        vec![tensor]
    } else if schedule.sequential.is_empty() {
        step.compute()?
    } else {
        match accumulated(group, member, &step, first, kept)? {
            Some(tensor) => vec![tensor],
            None => return Ok(None),
        }
    };
    let done = regions.into_iter().zip(tensors);
    let part = |(region, tensor): (Region, Tensor)| Fragment {
        region,
        tensor: tensor.into(),
    };
    Ok(Some(done.map(part).collect()))
}

/// The available elements of each operand in a program; `None` if an operand is not complete yet.
fn inputs(member: &Member<'_>, program: &[i64], parts: &Fragments) -> Option<Vec<Fragment>> {
    let operand = |operand: &OperandSchedule| {
        let number = match operand.source {
            Source::Memory => 0,
            Source::Made { part, .. } => part,
        };
        let part = parts.get(&(operand.value, number))?;
        // Only the fetched block of a value in memory is available.
        let Some(block) = &operand.fetched else {
            return Some(part.clone());
        };
        let region: Region = block.0.iter().map(|s| range(s, program)).collect();
        let region = intersection(&region, &part.region);
        let tensor = part.crop(&region, Poison::Nan).into();
        Some(Fragment { region, tensor })
    };
    member.part.operands.iter().map(operand).collect()
}

/// Runs one more step of a reduction that is cut. The result comes at the last step.
fn accumulated(
    group: &GroupSchedule,
    member: &Member<'_>,
    step: &TiledOp<'_>,
    first: bool,
    kept: &mut Kept,
) -> Result<Option<Tensor>, OpFailure> {
    let (schedule, program) = (member.schedule, step.program);
    let combine = combine(schedule.combine, step.name)?;
    let reduced: Vec<Range<i64>> = schedule
        .reduce
        .iter()
        .zip(&schedule.reduced)
        .map(|(span, &size)| {
            let (range, size) = (range(span, program), size.cast_signed());
            range.start.max(0)..range.end.min(size).max(range.start.max(0))
        })
        .collect();
    let key = (schedule.op, member.number);
    let mut before = kept.partial.remove(&key).filter(|_| !first);
    let mut rows = Vec::with_capacity(schedule.rescales.len());
    for of in &schedule.rescales {
        rows.extend(kept.online.get(&of.op).map(|online| Rows {
            online,
            kept: &of.kept,
        }));
    }
    if let Some(before) = &mut before {
        for rows in &rows {
            before.tensor = rows.scaled(&before.tensor, &step.regions[0]);
        }
    }
    let mut now = step.accumulate(combine, &reduced, &schedule.reduced, before)?;
    let last = |a: &usize| {
        let extent = group.axes.get(*a).map(|axis| axis.extent.cast_signed() - 1);
        extent.as_ref() == program.get(*a)
    };
    if !schedule.sequential.iter().all(last) {
        kept.partial.insert(key, now);
        return Ok(None);
    }
    for rows in &rows {
        now.tensor = rows.divided(&now.tensor, &step.regions[0]);
    }
    Ok(Some(now.finish(member.results[0].1)))
}

/// The regions of an operation's results in a program. Each result that is written to memory must hold an element of
/// its value.
fn regions(member: &Member<'_>, program: &[i64]) -> Result<Vec<Region>, TileFault> {
    let mut regions = Vec::with_capacity(member.results.len());
    for (result, (tile, (shape, _))) in member.part.results.iter().zip(&member.results).enumerate()
    {
        let region: Region = tile.0.iter().map(|s| range(s, program)).collect();
        let whole = whole(shape);
        let empty = is_empty(&intersection(&region, &whole)) && !shape.contains(&0);
        // If there are several parts, some may have no element in a program.
        if empty && member.live_out[result] && member.schedule.parts.len() == 1 {
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
    part: &Fragment,
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

/// The written value, after a check that every element is written.
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
