//! Operators that change shapes and move data by constant amounts.

use super::{Rule, decomposed, native};
use crate::builder::{NewOp, Stop, Val};
use crate::codes;
use crate::entries::{Entry, clamp_slice, size_attr};
use crate::node::{Done, NodeCx, props};
use optc_ir::op::AttrValue;
use optc_ir::{Attr, AttrDict, DType, Dim, Effect, Size, Tensor, TensorType, Type};
use optc_ops::{
    Add, Broadcast, Concat, Direction, Flatten, Gather, PadValue, Reshape, Select, SpaceToDepth,
    Split, Squeeze, Tile, Transpose, Trilu, Unsqueeze, ints,
};

/// A slice bound of at least this value is the end of an extent that is not a number. Exporters write such bounds.
const FAR: i64 = 1_000_000_000;

/// The most elements at the end of an unknown extent that are picked by their indices.
const MAX_TAIL: i64 = 64;

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    decomposed("CenterCropPad", center_crop_pad),
    native("Concat", concat),
    native("DepthToSpace", depth_to_space),
    decomposed("Dropout", dropout),
    native("Expand", expand),
    native("Flatten", flatten),
    decomposed("Identity", identity),
    native("Pad", pad),
    native("Reshape", reshape),
    decomposed("Shape", shape),
    decomposed("Size", size),
    native("Slice", slice),
    native("SpaceToDepth", space_to_depth),
    native("Split", split),
    native("Squeeze", squeeze),
    native("Tile", tile),
    native("Transpose", transpose),
    native("Trilu", trilu),
    native("Unsqueeze", unsqueeze),
];

fn identity(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    cx.set(0, x);
    Ok(())
}

/// `Dropout` outside training: the result is its input, and a mask of ones.
fn dropout(cx: &mut NodeCx<'_, '_>) -> Done {
    if cx.trains_unless_told() {
        return Err(Stop::opaque("it drops elements at random"));
    }
    let training = cx.const_ints(2).map_or(cx.input(2).is_some(), |t| t != [0]);
    if training {
        return Err(Stop::opaque("it drops elements at random"));
    }
    identity(cx)?;
    if cx.is_used(1) {
        let ty = TensorType::new(cx.dims(cx.need(0)?)?, DType::BOOL);
        if ty.shape().is_none() {
            return Err(Stop::opaque("its mask has an unknown extent"));
        }
        let one = Tensor::from_i64(DType::BOOL, Vec::new(), [1]);
        let mask = cx.b.splat(ty, one, cx.loc.clone());
        cx.set(1, mask);
    }
    Ok(())
}

fn concat(cx: &mut NodeCx<'_, '_>) -> Done {
    let inputs = cx.all_inputs()?;
    let rank = cx.rank(inputs[0])?;
    let default = if cx.opset < 4 { Some(1) } else { None };
    let axis = cx.int("axis").or(default);
    let axis = axis.ok_or_else(|| Stop::error(codes::ATTRIBUTE_MISSING, "`axis` is missing"))?;
    let axis = cx.axis(axis, rank)?;
    if let [only] = inputs[..] {
        cx.set(0, only);
        return Ok(());
    }
    cx.finish(&Concat { axis: axis as i64 }, &inputs)
}

fn transpose(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let rank = cx.rank(x)?;
    let reversed = || (0..rank as i64).rev().collect();
    let perm = cx
        .ints("perm")
        .filter(|p| !p.is_empty())
        .unwrap_or_else(reversed);
    cx.finish(&Transpose { perm: ints(&perm) }, &[x])
}

fn flatten(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let rank = cx.rank(x)?;
    let axis = cx.int("axis").unwrap_or(1);
    let axis = if axis == rank as i64 {
        rank
    } else {
        cx.axis(axis, rank)?
    };
    cx.finish(&Flatten { axis: axis as i64 }, &[x])
}

/// The length of the list of axes in input 1, if the axes are computed when the program runs.
fn computed_axes(cx: &NodeCx<'_, '_>) -> Option<usize> {
    let axes = cx.input(1).filter(|_| cx.ints("axes").is_none())?;
    if cx.const_ints(1).is_some() {
        return None;
    }
    let [count] = &cx.ty(axes).ok()?.dims[..] else {
        return None;
    };
    usize::try_from(count.fixed()?).ok()
}

/// A squeeze of `count` computed axes. The result is derived if it does not depend on which axes they are, else taken
/// from the file's declaration.
fn squeeze_computed(cx: &mut NodeCx<'_, '_>, x: Val, count: usize) -> Done {
    let dims = cx.dims(x)?;
    let ones: Vec<usize> = (0..dims.len()).filter(|&i| dims[i].is_one()).collect();
    let known = dims.iter().all(|d| d.fixed().is_some());
    if count == dims.len() || (known && count == ones.len()) {
        let axes = if count == dims.len() {
            (0..count).collect()
        } else {
            ones
        };
        return cx.finish(
            &Squeeze {
                axes: Some(ints(&axes)),
            },
            &[x],
        );
    }
    reshape_of_rank(cx, x, dims.len().checked_sub(count))
}

/// An unsqueeze of `count` computed axes, as [`squeeze_computed`].
fn unsqueeze_computed(cx: &mut NodeCx<'_, '_>, x: Val, count: usize) -> Done {
    let dims = cx.dims(x)?;
    if dims.iter().all(Dim::is_one) && count <= MAX_COMPUTED_AXES {
        let result = cx.reshape(x, &vec![1; dims.len() + count])?;
        cx.set(0, result);
        return Ok(());
    }
    reshape_of_rank(cx, x, dims.len().checked_add(count))
}

/// The greatest accepted length of an unknown list of axes.
const MAX_COMPUTED_AXES: usize = 64;

/// A reshape to the declared type, if that has this rank.
fn reshape_of_rank(cx: &mut NodeCx<'_, '_>, x: Val, rank: Option<usize>) -> Done {
    let declared = cx.declared_type(0);
    let found = declared.as_ref().and_then(Type::as_tensor);
    if found.map(TensorType::rank) != rank {
        return Err(Stop::opaque("its axes are computed at run time"));
    }
    reshape_declared(cx, x)
}

fn squeeze(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    if let Some(count) = computed_axes(cx) {
        return squeeze_computed(cx, x, count);
    }
    let dims = cx.dims(x)?;
    let axes = match cx.ints_or_input("axes", 1)? {
        Some(axes) => cx.axes(&axes, dims.len())?,
        None => {
            let ones: Vec<usize> = (0..dims.len()).filter(|&i| dims[i].is_one()).collect();
            let declared = cx.declared_type(0);
            let declared = declared.as_ref().and_then(Type::as_tensor);
            let kept = Some(dims.len() - ones.len());
            let is_long = |size: Size| size.is_at_least(2);
            let known = dims
                .iter()
                .all(|d| d.fixed().is_some() || d.size().is_some_and(is_long));
            if !known && declared.map(TensorType::rank) != kept {
                return Err(Stop::opaque(
                    "it drops all extents of 1 and some extents may be 1",
                ));
            }
            ones
        }
    };
    cx.finish(
        &Squeeze {
            axes: Some(ints(&axes)),
        },
        &[x],
    )
}

fn unsqueeze(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    if let Some(count) = computed_axes(cx) {
        return unsqueeze_computed(cx, x, count);
    }
    let axes = cx.ints_or_input("axes", 1)?;
    let axes = axes.ok_or_else(|| Stop::error(codes::MISSING_INPUT, "the axes are missing"))?;
    let axes = cx.axes(&axes, cx.rank(x)? + axes.len())?;
    cx.finish(&Unsqueeze { axes: ints(&axes) }, &[x])
}

fn reshape(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let sizes = match cx.ints("shape") {
        Some(ints) => ints.into_iter().map(Entry::Int).collect(),
        None => {
            cx.need(1)?;
            match cx.entries(1) {
                Some(sizes) => sizes,
                None => return reshape_declared(cx, x),
            }
        }
    };
    let sizes = copied_sizes(cx, &dims, sizes)?;
    let sizes = deduced_size(&dims, sizes);
    if 1 < sizes.iter().filter(|size| is_open(size)).count() {
        return reshape_declared(cx, x);
    }
    let result = reshape_to(cx, x, &sizes)?;
    cx.set(0, result);
    Ok(())
}

/// `x` reshaped to these extents, which may be symbols.
pub(super) fn reshape_to(cx: &mut NodeCx<'_, '_>, x: Val, sizes: &[Entry]) -> Result<Val, Stop> {
    match shape_attr(sizes) {
        shape @ Some(_) => cx.emit(&Reshape { shape }, &[x]),
        None => {
            let ty = TensorType::new(sizes.iter().map(Entry::dim).collect(), cx.dtype(x)?);
            cx.emit_typed(&Reshape { shape: None }, &[x], ty)
        }
    }
}

/// A reshape to sizes that only the declared type gives.
fn reshape_declared(cx: &mut NodeCx<'_, '_>, x: Val) -> Done {
    let dtype = cx.dtype(x)?;
    let declared = cx.declared_type(0);
    let Some(ty) = declared.as_ref().and_then(Type::as_tensor) else {
        return Err(Stop::opaque("its shape is computed at run time"));
    };
    if ty.dims.iter().filter(|d| **d == Dim::Unknown).count() > 1 {
        return Err(Stop::opaque("its shape is computed at run time"));
    }
    let ty = TensorType::new(ty.dims.clone(), dtype);
    let result = cx.emit_typed(&Reshape { shape: None }, &[x], ty)?;
    cx.set(0, result);
    Ok(())
}

/// Replaces each 0 by the extent of the input, unless `allowzero` makes 0 literal.
fn copied_sizes(
    cx: &NodeCx<'_, '_>,
    dims: &[Dim],
    mut sizes: Vec<Entry>,
) -> Result<Vec<Entry>, Stop> {
    if cx.flag("allowzero", false) {
        if sizes.contains(&Entry::Int(0)) && sizes.contains(&Entry::Int(-1)) {
            let message =
                "the shape has a 0 and a -1 with allowzero = 1, wanted at most one of them";
            return Err(Stop::error(codes::RESHAPE_ZERO_AND_REST, message));
        }
        return Ok(sizes);
    }
    for (i, size) in sizes.iter_mut().enumerate() {
        if *size == Entry::Int(0) {
            let dim = dims.get(i).ok_or_else(|| {
                let message = format!(
                    "the shape copies extent {i} of an input of rank {}",
                    dims.len()
                );
                Stop::error(codes::RESHAPE_COPIES_MISSING_EXTENT, message)
            })?;
            *size = Entry::from(dim);
        }
    }
    Ok(sizes)
}

/// Replaces -1 by its number, if all other sizes are known.
fn deduced_size(dims: &[Dim], mut sizes: Vec<Entry>) -> Vec<Entry> {
    let known = |e: &Entry| e.int().and_then(|n| u64::try_from(n).ok());
    let total = product(dims.iter().map(Dim::fixed));
    let rest = product(sizes.iter().filter(|e| **e != Entry::Int(-1)).map(known));
    if let (Some(total), Some(rest)) = (total, rest)
        && rest != 0
        && total % rest == 0
        && let Ok(n) = i64::try_from(total / rest)
        && let [only] = &mut sizes
            .iter_mut()
            .filter(|e| **e == Entry::Int(-1))
            .collect::<Vec<_>>()[..]
    {
        **only = Entry::Int(n);
    }
    sizes
}

fn product(mut factors: impl Iterator<Item = Option<u64>>) -> Option<u64> {
    factors.try_fold(1u64, |a, n| a.checked_mul(n?))
}

/// Returns whether a size is derived from the others.
fn is_open(size: &Entry) -> bool {
    size.is_unknown() || *size == Entry::Int(-1)
}

/// The `shape` attribute: numbers, names of symbols and at most one -1.
fn shape_attr(sizes: &[Entry]) -> Option<Vec<Attr>> {
    if 1 < sizes.iter().filter(|size| is_open(size)).count() {
        return None;
    }
    Some(sizes.iter().map(size_attr).collect())
}

/// `Expand`: the common broadcast shape of the input and the wanted one.
fn expand(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    cx.need(1)?;
    let dims = cx.dims(x)?;
    let sizes = match (
        cx.entries(1),
        cx.declared_type(0).as_ref().and_then(Type::as_tensor),
    ) {
        (Some(sizes), _) => sizes,
        (None, Some(ty)) => ty.dims.iter().map(Entry::from).collect(),
        (None, None) => return Err(Stop::opaque("its shape is computed at run time")),
    };
    let rank = dims.len().max(sizes.len());
    let padded = |list: Vec<Entry>| {
        let missing = rank - list.len();
        std::iter::repeat_n(Entry::Int(1), missing)
            .chain(list)
            .collect::<Vec<_>>()
    };
    let have = padded(dims.iter().map(Entry::from).collect());
    let want = padded(sizes);
    let shape: Vec<Entry> = have
        .iter()
        .zip(&want)
        .map(|(a, b)| common_extent(a, b))
        .collect();
    if shape.iter().any(Entry::is_unknown) {
        return Err(Stop::opaque("its shape is computed at run time"));
    }
    let shape = shape_attr(&shape).ok_or_else(|| Stop::opaque("its shape has negative extents"))?;
    cx.finish(&Broadcast { shape: Some(shape) }, &[x])
}

/// The broadcast of two extents, of which one may be 1 at run time.
fn common_extent(have: &Entry, want: &Entry) -> Entry {
    match (have, want) {
        (_, Entry::Int(1)) => have.clone(),
        (Entry::Unknown, Entry::Int(_) | Entry::Size(_)) | (Entry::Int(1), _) => want.clone(),
        (Entry::Size(_), Entry::Int(_)) => want.clone(),
        (Entry::Size(a), Entry::Size(b)) if a != b && !a.is_at_least(2) => match b.is_at_least(2) {
            true => want.clone(),
            false => Entry::from(a.maximum(b)),
        },
        _ => have.clone(),
    }
}

fn tile(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    cx.need(1)?;
    let computed = || Stop::opaque("its repeats are computed at run time");
    if cx.opset < 6 {
        // The repeats along a single axis.
        let one = |i: usize| cx.const_floats(i)?.first().map(|&n| n as i64);
        let (times, axis) = one(1).zip(one(2)).ok_or_else(computed)?;
        let mut repeats = vec![1; cx.rank(x)?];
        let axis = cx.axis(axis, repeats.len())?;
        repeats[axis] = times;
        return cx.finish(&Tile { repeats }, &[x]);
    }
    let Some(repeats) = cx.const_ints(1) else {
        let repeats = cx.entries(1).ok_or_else(computed)?;
        let dims = cx.dims(x)?;
        let [apart, wide, merged] = repeated(&dims, &repeats).ok_or_else(computed)?;
        let shape = Some(wide.iter().map(size_attr).collect());
        if apart.len() == dims.len() {
            return cx.finish(&Broadcast { shape }, &[x]);
        }
        let apart = reshape_to(cx, x, &apart)?;
        let wide = cx.emit(&Broadcast { shape }, &[apart])?;
        let tiled = reshape_to(cx, wide, &merged)?;
        cx.set(0, tiled);
        return Ok(());
    };
    cx.finish(
        &Tile {
            repeats: ints(&repeats),
        },
        &[x],
    )
}

/// The shapes for a tile with unknown repeats: first an extent of 1 before each repeated extent longer than 1, then the
/// repeats in place of these 1s, then both merged.
fn repeated(dims: &[Dim], repeats: &[Entry]) -> Option<[Vec<Entry>; 3]> {
    if dims.len() != repeats.len() {
        return None;
    }
    let [mut apart, mut wide, mut merged] = [Vec::new(), Vec::new(), Vec::new()];
    for (dim, repeat) in dims.iter().zip(repeats) {
        let own = Entry::from(dim);
        let all = match repeat {
            Entry::Int(1) => own.clone(),
            _ if dim.is_one() => {
                repeat.size()?;
                apart.push(own);
                wide.push(repeat.clone());
                merged.push(repeat.clone());
                continue;
            }
            _ => {
                apart.push(Entry::Int(1));
                wide.push(repeat.clone());
                Entry::from(&Dim::of_size(&dim.size()?.times(&repeat.size()?)?))
            }
        };
        apart.push(own.clone());
        wide.push(own);
        merged.push(all);
    }
    Some([apart, wide, merged])
}

fn split(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let axis = cx.axis(cx.int("axis").unwrap_or(0), dims.len())?;
    if let Some(sizes) = symbolic_parts(cx, &dims[axis]) {
        return split_sizes(cx, x, axis, &sizes);
    }
    let sizes = match cx.ints_or_input("split", 1)? {
        Some(sizes) => sizes,
        None => equal_parts(cx, &dims[axis])?,
    };
    if sizes.len() != cx.node.output.len() {
        let (found, wanted) = (cx.node.output.len(), sizes.len());
        let message = format!("it has {found} outputs, wanted {wanted} for its sizes");
        return Err(Stop::error(codes::SPLIT_OUTPUTS, message));
    }
    if let [_] = sizes[..] {
        cx.set(0, x);
        return Ok(());
    }
    let axis = axis as i64;
    let parts = cx.emit_all(&Split { axis, sizes }, &[x])?;
    parts
        .into_iter()
        .enumerate()
        .for_each(|(i, part)| cx.set(i, part));
    Ok(())
}

/// The sizes of the parts if not all are numbers: they are given, or equal parts of an extent that divides evenly.
fn symbolic_parts(cx: &NodeCx<'_, '_>, dim: &Dim) -> Option<Vec<Size>> {
    let n = cx.node.output.len();
    let sizes: Vec<Size> = if cx.input(1).is_some() {
        cx.entries(1)?
            .iter()
            .map(Entry::size)
            .collect::<Option<_>>()?
    } else if cx.attr("split").is_some() {
        return None;
    } else {
        let (size, parts) = (dim.size()?, Size::from(n as u64));
        let part = match size.exact_quotient(&parts) {
            Some(part) => part,
            // With `num_outputs` the last part is smaller if the extent does not divide evenly; without, it divides.
            None if cx.int("num_outputs").is_none() => size.quotient(&parts)?,
            None => return None,
        };
        vec![part; n]
    };
    let open = sizes.iter().any(|size| size.as_constant().is_none());
    (open && sizes.len() == n).then_some(sizes)
}

/// A split with parts of unknown size: one slice for each part.
fn split_sizes(cx: &mut NodeCx<'_, '_>, x: Val, axis: usize, sizes: &[Size]) -> Done {
    let dims = cx.dims(x)?;
    let mut start = Some(Size::default());
    for (i, size) in sizes.iter().enumerate() {
        let from = Entry::from(start.clone());
        start = start.and_then(|start| start.plus(size));
        let to = Entry::from(start.clone());
        if from.is_unknown() || to.is_unknown() {
            return Err(Stop::opaque("its sizes are computed at run time"));
        }
        let mut bounds = whole(&dims);
        bounds[axis] = Bounds {
            start: from,
            limit: to,
            step: 1,
        };
        let part = emit_slice(cx, x, &bounds)?;
        cx.set(i, part);
    }
    Ok(())
}

/// One part for each output; the last one is smaller if the extent does not divide evenly.
fn equal_parts(cx: &NodeCx<'_, '_>, dim: &Dim) -> Result<Vec<i64>, Stop> {
    let n = dim.fixed().and_then(|n| i64::try_from(n).ok());
    let n = n.ok_or_else(|| Stop::opaque("it splits an unknown extent into equal parts"))?;
    let parts = cx.node.output.len() as i64;
    let parts = cx
        .int("num_outputs")
        .unwrap_or(parts)
        .clamp(1, parts.max(1));
    let size = n.div_euclid(parts) + i64::from(n.rem_euclid(parts) != 0);
    let part = |i: i64| size.min((n - i * size).max(0));
    Ok((0..parts).map(part).collect())
}

fn slice(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let starts = slice_bounds(cx, "starts", 1)?;
    let ends = slice_bounds(cx, "ends", 2)?;
    let axes = cx.ints_or_input("axes", 3)?;
    let axes = axes.unwrap_or_else(|| (0..starts.len() as i64).collect());
    let steps = cx
        .ints_or_input("steps", 4)?
        .unwrap_or_else(|| vec![1; starts.len()]);
    if ends.len() != starts.len() || axes.len() != starts.len() || steps.len() != starts.len() {
        return Err(Stop::error(
            codes::SLICE_LISTS,
            "starts, ends, axes and steps differ in length",
        ));
    }
    cx.axes(&axes, dims.len())?;
    let mut x = x;
    let mut bounds = whole(&dims);
    for (i, &axis) in axes.iter().enumerate() {
        let axis = cx.axis(axis, dims.len())?;
        let step = steps[i];
        if step == 0 {
            return Err(Stop::error(
                codes::SLICE_STEP,
                format!("the step of axis {axis} is 0"),
            ));
        }
        let dim = &dims[axis];
        let (Some(start), Some(end)) = (starts[i].int(), ends[i].int()) else {
            bounds[axis] = symbolic_bounds(dim, &starts[i], &ends[i], step)?;
            continue;
        };
        if let Some(tail) = tail_indices(dim, start, end, step) {
            bounds[axis] = Bounds::of(0, tail.len() as i64, 1);
            x = pick(cx, x, axis, tail)?;
            continue;
        }
        bounds[axis] = axis_bounds(dim, start, end, step)?;
    }
    if bounds == whole(&cx.dims(x)?) {
        cx.set(0, x);
        return Ok(());
    }
    let result = emit_slice(cx, x, &bounds)?;
    cx.set(0, result);
    Ok(())
}

fn slice_bounds(cx: &NodeCx<'_, '_>, name: &str, i: usize) -> Result<Vec<Entry>, Stop> {
    let list = match cx.ints(name) {
        Some(ints) => Some(ints.into_iter().map(Entry::Int).collect()),
        None => cx.entries(i),
    };
    list.ok_or_else(|| Stop::opaque("its bounds are computed at run time"))
}

/// Bounds of a dimension that are not all numbers. A named bound, and one counted from the end, is assumed to lie
/// within the dimension unless it is known to lie beyond. The slice checks this at run time.
fn symbolic_bounds(dim: &Dim, start: &Entry, end: &Entry, step: i64) -> Result<Bounds, Stop> {
    let computed = || Stop::opaque("its bounds are computed at run time");
    let n = dim.size().ok_or_else(computed)?;
    let last = |entry: &Entry| entry.int().is_some_and(|e| FAR <= e);
    let place = |entry: &Entry| {
        let at = entry.size()?;
        let below = Size::default().minus(&at)?.is_at_least(1);
        let at = if below { n.plus(&at)? } else { at };
        if last(entry) || at.minus(&n)?.is_at_least(0) {
            return Some(n.clone());
        }
        // A number may exceed an unknown size.
        match at.as_constant() {
            Some(_) => at.minimum(&n),
            None => Some(at),
        }
    };
    let (Some(start), Some(end)) = (place(start), place(end)) else {
        return Err(computed());
    };
    let over = |a: &Size, b: &Size| a.minus(b).is_some_and(|d| d.is_at_least(0));
    if step < 1 {
        return Err(computed());
    }
    let end = if over(&start, &end) {
        start.clone()
    } else {
        end
    };
    let limit = if end == n && dim.fixed().is_none() {
        Entry::Int(i64::MAX)
    } else {
        Entry::from(Some(end))
    };
    Ok(Bounds {
        start: Entry::from(Some(start)),
        limit,
        step,
    })
}

/// The indices, counted from the end, of the last few elements of an unknown extent.
fn tail_indices(dim: &Dim, start: i64, end: i64, step: i64) -> Option<Vec<i64>> {
    let limit = if FAR <= end { 0 } else { end };
    let known = *dim != Dim::Unknown;
    if known || start < -MAX_TAIL || limit <= start || 0 < limit || step < 1 {
        return None;
    }
    let step = usize::try_from(step).unwrap_or(usize::MAX);
    Some((start..limit).step_by(step).collect())
}

fn pick(cx: &mut NodeCx<'_, '_>, x: Val, axis: usize, indices: Vec<i64>) -> Result<Val, Stop> {
    let indices = Tensor::from_i64(DType::SI64, vec![indices.len()], indices);
    let indices = cx.b.literal(indices, cx.loc.clone());
    cx.emit(&Gather { axis: axis as i64 }, &[x, indices])
}

/// Start, limit and stride of one dimension.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Bounds {
    start: Entry,
    limit: Entry,
    step: i64,
}

impl Bounds {
    fn of(start: i64, limit: i64, step: i64) -> Bounds {
        Bounds {
            start: Entry::Int(start),
            limit: Entry::Int(limit),
            step,
        }
    }
}

/// Bounds that keep all elements; the limit of an unknown extent is the largest number.
pub(super) fn whole(dims: &[Dim]) -> Vec<Bounds> {
    let limit = |d: &Dim| {
        d.fixed()
            .and_then(|n| i64::try_from(n).ok())
            .unwrap_or(i64::MAX)
    };
    dims.iter().map(|d| Bounds::of(0, limit(d), 1)).collect()
}

pub(super) fn axis_bounds(dim: &Dim, start: i64, end: i64, step: i64) -> Result<Bounds, Stop> {
    if let Some(n) = dim.fixed().and_then(|n| i64::try_from(n).ok()) {
        let (start, limit) = clamp_slice(n, start, end, step);
        let empty = (0 < step && limit < start) || (step < 0 && start < limit);
        let limit = if empty { start } else { limit };
        return Ok(Bounds::of(start, limit, step));
    }
    let (first, last) = (-FAR, FAR);
    match step {
        1 if (0..last).contains(&start) && last <= end => {
            return Ok(Bounds::of(start, i64::MAX, 1));
        }
        // All elements are there, unless the extent is 0.
        1 if start == 0 && end == 1 => return Ok(Bounds::of(0, 1, 1)),
        -1 if (start == -1 || last <= start) && end <= first => {
            return Ok(Bounds::of(i64::MAX, -1, -1));
        }
        // From an element that may lie beyond the last one, down to the first.
        -1 if 0 <= start && end <= first => {
            let most = dim.size().and_then(|n| n.minus(&Size::constant(1)));
            let from = most.and_then(|most| most.minimum(&Size::constant(i128::from(start))));
            if let Some(from) = from {
                let start = Entry::from(Some(from));
                return Ok(Bounds {
                    start,
                    ..Bounds::of(0, -1, -1)
                });
            }
        }
        _ => {}
    }
    symbolic_bounds(dim, &Entry::Int(start), &Entry::Int(end), step)
        .map_err(|_| Stop::opaque("it cuts an extent that is unknown"))
}

pub(super) fn emit_slice(cx: &mut NodeCx<'_, '_>, x: Val, bounds: &[Bounds]) -> Result<Val, Stop> {
    let list = |part: fn(&Bounds) -> &Entry| {
        Attr::Array(bounds.iter().map(|b| size_attr(part(b))).collect())
    };
    let strides: Vec<i64> = bounds.iter().map(|b| b.step).collect();
    let dict = props([
        ("starts", list(|b| &b.start)),
        ("limits", list(|b| &b.limit)),
        ("strides", Attr::ints(&strides)),
    ]);
    cx.emit_named("hbir.slice", &[x], dict)
}

/// `Pad`; negative amounts are cut off first.
fn pad(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let (low, high) = pad_amounts(cx, dims.len())?;
    let mode = cx.string("mode").unwrap_or_else(|| "constant".into());
    let value = pad_value(cx, x)?;
    let number = |amount: &Entry| amount.int().unwrap_or(0);
    let [numbers_low, numbers_high] =
        [&low, &high].map(|amounts| amounts.iter().map(number).collect::<Vec<i64>>());
    let all = numbers_low.iter().chain(&numbers_high);
    let mut result = x;
    if all.clone().any(|&n| n != 0) || low.iter().chain(&high).all(|e| e.int().is_some()) {
        result = padded(cx, x, (&numbers_low, &numbers_high), &mode, value.clone())?;
    }
    for (axis, ends) in low.iter().zip(&high).enumerate() {
        let named = |amount: &Entry| amount.size().filter(|size| size.as_constant().is_none());
        let ends = [named(ends.0), named(ends.1)];
        if ends.iter().all(Option::is_none) {
            continue;
        }
        if mode != "constant" {
            return Err(Stop::opaque("its pads are computed at run time"));
        }
        let value = PadValue::from_attr(&value);
        let value = value.ok_or_else(|| Stop::opaque("its padding value is not a number"))?;
        let ends = ends.map(Option::unwrap_or_default);
        result = lengthened(cx, result, axis, &ends, value)?;
    }
    cx.set(0, result);
    Ok(())
}

/// `x` with equal elements added at both ends of a dimension, by named sizes. A size that is negative cuts off elements.
pub(super) fn lengthened(
    cx: &mut NodeCx<'_, '_>,
    x: Val,
    axis: usize,
    [low, high]: &[Size; 2],
    value: PadValue,
) -> Result<Val, Stop> {
    let unknown = || Stop::opaque("its pads are computed at run time");
    let (mut dims, dtype) = (cx.dims(x)?, cx.dtype(x)?);
    let extent = dims[axis].size().ok_or_else(unknown)?;
    // Elements `start` to `limit` stay, and so many as are missing from the extents wanted are added.
    let zero = Size::default();
    let start = zero.minus(low).and_then(|n| n.maximum(&zero));
    let limit = extent.plus(high).and_then(|n| n.minimum(&extent));
    let (start, limit) = start.zip(limit).ok_or_else(unknown)?;
    let before = low.plus(&start).ok_or_else(unknown)?;
    let after = extent.plus(high).and_then(|n| n.minus(&limit));
    let after = after.ok_or_else(unknown)?;
    let mut kept = x;
    if start != zero || limit != extent {
        let mut bounds = whole(&dims);
        bounds[axis] = Bounds {
            start: Entry::from(Some(start)),
            limit: Entry::from(Some(limit)),
            step: 1,
        };
        kept = emit_slice(cx, x, &bounds)?;
    }
    let mut end = |amount: &Size| -> Result<Option<Val>, Stop> {
        if *amount == zero {
            return Ok(None);
        }
        dims[axis] = Dim::of_size(amount);
        let one = cx.b.literal(value.element(dtype), cx.loc.clone());
        cx.broadcast_to(one, &dims).map(Some)
    };
    let parts = [end(&before)?, Some(kept), end(&after)?];
    match parts.iter().flatten().copied().collect::<Vec<Val>>()[..] {
        [only] => Ok(only),
        ref parts => cx.emit(&Concat { axis: axis as i64 }, parts),
    }
}

/// Pads both ends of every dimension; negative amounts are cut off first.
pub(super) fn padded(
    cx: &mut NodeCx<'_, '_>,
    x: Val,
    (low, high): (&[i64], &[i64]),
    mode: &str,
    value: Attr,
) -> Result<Val, Stop> {
    let dims = cx.dims(x)?;
    let cut = low.iter().chain(high).any(|&n| n < 0);
    let x = if cut {
        cut_edges(cx, x, &dims, low, high)?
    } else {
        x
    };
    let grow = |list: &[i64]| Attr::ints(&list.iter().map(|n| *n.max(&0)).collect::<Vec<_>>());
    let dict = props([
        ("low", grow(low)),
        ("high", grow(high)),
        ("mode", Attr::str(mode)),
        ("value", value),
    ]);
    cx.emit_named("hbir.pad", &[x], dict)
}

/// The amounts before and after each dimension.
fn pad_amounts(cx: &NodeCx<'_, '_>, rank: usize) -> Result<(Vec<Entry>, Vec<Entry>), Stop> {
    let listed = cx.ints("paddings").or_else(|| cx.ints("pads"));
    let pads: Vec<Entry> = match (listed, cx.input(1)) {
        (Some(listed), _) => listed.into_iter().map(Entry::Int).collect(),
        (None, None) => return Err(Stop::error(codes::MISSING_INPUT, "the pads are missing")),
        (None, Some(_)) => {
            let known = |pads: &Vec<Entry>| pads.iter().all(|amount| amount.size().is_some());
            let pads = cx.entries(1).filter(known);
            pads.ok_or_else(|| Stop::opaque("its pads are computed at run time"))?
        }
    };
    let axes = match (cx.input(3), cx.const_ints(3)) {
        (None, _) => (0..rank as i64).collect(),
        (Some(_), Some(axes)) => axes,
        (Some(_), None) => return Err(Stop::opaque("its axes are computed at run time")),
    };
    if pads.len() != 2 * axes.len() {
        let (found, wanted) = (pads.len(), 2 * axes.len());
        return Err(Stop::error(
            codes::PAD_COUNT,
            format!("it has {found} pads, wanted {wanted}"),
        ));
    }
    cx.axes(&axes, rank)?;
    let (mut low, mut high) = (vec![Entry::Int(0); rank], vec![Entry::Int(0); rank]);
    for (i, &axis) in axes.iter().enumerate() {
        let axis = cx.axis(axis, rank)?;
        (low[axis], high[axis]) = (pads[i].clone(), pads[axes.len() + i].clone());
    }
    Ok((low, high))
}

/// The padding constant, as an attribute of the element's kind.
fn pad_value(cx: &NodeCx<'_, '_>, x: Val) -> Result<Attr, Stop> {
    let dtype = cx.dtype(x)?;
    let float = !dtype.is_int();
    let number = |v: f64| {
        if float {
            Attr::float(v)
        } else {
            Attr::int(v as i64)
        }
    };
    match (cx.input(2), cx.tensor(2)) {
        (Some(_), None) => Err(Stop::opaque("its padding value is computed at run time")),
        (Some(_), Some(t)) if t.is_empty() => Ok(number(0.0)),
        (Some(_), Some(t)) if dtype.complex_part().is_some() => {
            let zero = t.to_bytes().iter().all(|&b| b == 0);
            let complex = || Stop::opaque("it pads with a complex number that is not 0");
            zero.then(|| number(0.0)).ok_or_else(complex)
        }
        (Some(_), Some(t)) if float => Ok(Attr::float(t.f64_at(0))),
        (Some(_), Some(t)) => Ok(Attr::int(t.i64_at(0))),
        (None, _) => Ok(number(cx.float("value", 0.0))),
    }
}

fn cut_edges(
    cx: &mut NodeCx<'_, '_>,
    x: Val,
    dims: &[Dim],
    low: &[i64],
    high: &[i64],
) -> Result<Val, Stop> {
    let mut bounds = whole(dims);
    for (i, bound) in bounds.iter_mut().enumerate() {
        if low[i] < 0 || high[i] < 0 {
            let cut = |n: i64| Size::constant(i128::from(n.min(0)));
            let start = Size::default().minus(&cut(low[i]));
            let limit = dims[i].size().and_then(|n| n.plus(&cut(high[i])));
            let (Some(start), Some(limit)) = (start, limit) else {
                return Err(Stop::opaque("it cuts an extent that is unknown"));
            };
            let limit = limit.maximum(&start).filter(|_| dims[i].fixed().is_some());
            let open = || dims[i].size()?.plus(&cut(high[i]));
            bound.limit = Entry::from(limit.or_else(open));
            bound.start = Entry::from(Some(start));
        }
    }
    emit_slice(cx, x, &bounds)
}

/// `CenterCropPad`: longer dimensions are cut at both ends, shorter ones are padded.
fn center_crop_pad(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    cx.need(1)?;
    let rank = cx.rank(x)?;
    let wanted = cx.const_ints(1);
    let wanted = wanted.ok_or_else(|| Stop::opaque("its shape is computed at run time"))?;
    let axes = cx
        .ints("axes")
        .unwrap_or_else(|| (0..rank as i64).collect());
    if axes.len() != wanted.len() {
        let (found, wanted) = (wanted.len(), axes.len());
        return Err(Stop::error(
            codes::PAD_COUNT,
            format!("it has {found} sizes, wanted {wanted}"),
        ));
    }
    cx.axes(&axes, rank)?;
    let (mut low, mut high) = (vec![0i64; rank], vec![0i64; rank]);
    for (&axis, &size) in axes.iter().zip(&wanted) {
        let axis = cx.axis(axis, rank)?;
        let more = size.saturating_sub(cx.extent(x, axis)?);
        low[axis] = if more < 0 {
            -(more.saturating_neg() / 2)
        } else {
            more / 2
        };
        high[axis] = more - low[axis];
    }
    let zero = if cx.dtype(x)?.is_int() {
        Attr::int(0)
    } else {
        Attr::float(0.0)
    };
    let result = padded(cx, x, (&low, &high), "constant", zero)?;
    cx.set(0, result);
    Ok(())
}

fn depth_to_space(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let mode = cx.string("mode").unwrap_or_else(|| "DCR".into());
    let dict = props([
        ("blocksize", Attr::int(blocksize(cx)?)),
        ("mode", Attr::str(&mode)),
    ]);
    cx.finish_named("hbir.depth_to_space", &[x], dict)
}

fn space_to_depth(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    if cx.string("mode").as_deref() == Some("CRD") {
        return space_to_depth_crd(cx, x);
    }
    let blocksize = blocksize(cx)?;
    cx.finish(&SpaceToDepth { blocksize }, &[x])
}

/// The depth of each channel comes before that of the next channel.
fn space_to_depth_crd(cx: &mut NodeCx<'_, '_>, x: Val) -> Done {
    let size = cx.int("blocksize").filter(|&b| 0 < b);
    let b = size.ok_or_else(|| Stop::error(codes::ATTRIBUTE_MISSING, "`blocksize` is missing"))?;
    if cx.rank(x)? != 4 {
        return Err(Stop::opaque("its input has another rank than 4"));
    }
    let [n, c, h, w] = [0, 1, 2, 3].map(|i| cx.extent(x, i));
    let (n, c, h, w) = (n?, c?, h? / b, w? / b);
    let blocks = cx.reshape(x, &[n, c, h, b, w, b])?;
    let perm = vec![0, 1, 3, 5, 2, 4];
    let turned = cx.emit(&Transpose { perm }, &[blocks])?;
    let depth = b.checked_mul(b).and_then(|bb| bb.checked_mul(c));
    let depth = depth.ok_or_else(|| Stop::opaque("its depth is too large"))?;
    let result = cx.reshape(turned, &[n, depth, h, w])?;
    cx.set(0, result);
    Ok(())
}

fn blocksize(cx: &NodeCx<'_, '_>) -> Result<i64, Stop> {
    let size = cx.int("blocksize");
    size.ok_or_else(|| Stop::error(codes::ATTRIBUTE_MISSING, "`blocksize` is missing"))
}

fn trilu(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let upper = cx.flag("upper", true);
    let k = match (cx.input(1), cx.const_ints(1).as_deref()) {
        (None, _) => 0,
        (Some(_), Some([k, ..])) => *k,
        (Some(k), _) => return trilu_from(cx, x, k, upper),
    };
    cx.finish(&Trilu { k, upper }, &[x])
}

/// `Trilu` with a diagonal that is computed at run time.
fn trilu_from(cx: &mut NodeCx<'_, '_>, x: Val, k: Val, upper: bool) -> Done {
    let dims = cx.dims(x)?;
    let [.., rows, columns] = &dims[..] else {
        return Err(Stop::opaque("its diagonal is computed at run time"));
    };
    let row = cx.iota(rows, 0, 2, DType::SI64)?;
    let column = cx.iota(columns, 1, 2, DType::SI64)?;
    let k = cx.reshape(k, &[])?;
    let diagonal = cx.emit(&Add {}, &[row, k])?;
    let direction = if upper { Direction::Ge } else { Direction::Le };
    let inside = cx.compare(direction, column, diagonal)?;
    let zero = cx.scalar_like(0.0, x)?;
    cx.finish(&Select {}, &[inside, x, zero])
}

/// `Shape`: a constant if the extents are known, else an opaque operation that is only emitted if something uses it as
/// data.
fn shape(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let rank = dims.len() as i64;
    let bound = |at: i64| (if at < 0 { at.saturating_add(rank) } else { at }).clamp(0, rank);
    let start = bound(cx.int("start").unwrap_or(0)) as usize;
    let end = bound(cx.int("end").unwrap_or(rank)) as usize;
    let kept = dims.get(start..end.max(start)).unwrap_or_default();
    let sizes: Vec<Entry> = kept.iter().map(Entry::from).collect();
    let ty = TensorType::fixed(&[sizes.len() as u64], DType::SI64);
    let mut dict = props([
        ("kind", Attr::str("Shape")),
        ("domain", Attr::str("")),
        ("effect", Attr::str(Effect::Pure.name())),
    ]);
    // Versions before 15 have no bounds.
    for (name, bound) in [("start", start), ("end", end)] {
        if cx.attr(name).is_some() {
            dict.set(&format!("onnx.{name}"), Attr::int(bound as i64));
        }
    }
    deferred(cx, x, dict, ty, sizes)
}

fn size(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims: Option<Vec<Size>> = cx.dims(x)?.iter().map(Dim::size).collect();
    let sizes = vec![Entry::from(dims.and_then(|dims| Size::product(&dims)))];
    let dict = props([
        ("kind", Attr::str("Size")),
        ("domain", Attr::str("")),
        ("effect", Attr::str(Effect::Pure.name())),
    ]);
    deferred(cx, x, dict, TensorType::fixed(&[], DType::SI64), sizes)
}

fn deferred(
    cx: &mut NodeCx<'_, '_>,
    x: Val,
    props: AttrDict,
    ty: TensorType,
    sizes: Vec<Entry>,
) -> Done {
    let loc = cx.loc.clone();
    let op = NewOp {
        name: "hbir.opaque",
        operands: &[x],
        props,
        declared: None,
        loc,
    };
    let results = cx.b.defer(op, vec![Type::from(ty)]);
    cx.b.set_entries(results[0], sizes);
    cx.set(0, results[0]);
    Ok(())
}
