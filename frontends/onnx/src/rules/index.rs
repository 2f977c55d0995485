//! Operators that pick, place, order or accumulate elements along an axis.

use super::shape::{axis_bounds, emit_slice, reshape_to, whole};
use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::entries::{self, Entry};
use crate::node::{Done, NodeCx, props};
use optc_ir::{Attr, DType, Dim, Operation, Tensor};
use optc_ops::{
    Add, ArgMax, ArgMin, Concat, Cumprod, Cumsum, Direction, Flatten, Gather, GatherElements,
    GatherNd, Mod, ScatterElements, ScatterReduction, Select, Sub, TopK,
};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("ArgMax", |cx| arg(cx, ArgMax::NAME)),
    native("ArgMin", |cx| arg(cx, ArgMin::NAME)),
    decomposed("Compress", compress),
    native("CumProd", |cx| running(cx, Cumprod::NAME)),
    native("CumSum", |cx| running(cx, Cumsum::NAME)),
    native("Gather", gather),
    native("GatherElements", gather_elements),
    native("GatherND", gather_nd),
    decomposed("Hardmax", hardmax),
    decomposed("NonZero", non_zero),
    decomposed("OneHot", one_hot),
    decomposed("ReverseSequence", reverse_sequence),
    native("Scatter", scatter_elements),
    native("ScatterElements", scatter_elements),
    native("ScatterND", scatter_nd),
    decomposed("TensorScatter", tensor_scatter),
    native("TopK", top_k),
];

fn axis_attr(cx: &NodeCx<'_, '_>, default: i64, rank: usize) -> Result<i64, Stop> {
    let axis = cx.axis(cx.int("axis").unwrap_or(default), rank)?;
    Ok(axis as i64)
}

/// `Gather`. Constant indices that name every element once are written into the program, so that later passes recognise
/// the permutation. Indices in ascending order are a reshape.
fn gather(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, indices) = (cx.need(0)?, cx.need(1)?);
    let dims = cx.dims(x)?;
    let axis = cx.axis(cx.int("axis").unwrap_or(0), dims.len())?;
    let order = cx.const_ints(1).zip(dims[axis].fixed());
    if let Some(order) = order.and_then(|(order, n)| permutation(&order, n)) {
        if order.iter().zip(0i64..).all(|(&a, b)| a == b) {
            let mut sizes: Vec<Entry> = dims.iter().map(Entry::from).collect();
            let named: Vec<Entry> = cx.dims(indices)?.iter().map(Entry::from).collect();
            sizes.splice(axis..=axis, named);
            if entries::ints(&sizes).is_some() {
                let result = reshape_to(cx, x, &sizes)?;
                cx.set(0, result);
                return Ok(());
            }
        }
        cx.b.inline(indices);
    }
    let axis = axis as i64;
    cx.finish(&Gather { axis }, &[x, indices])
}

/// The indices counted from the front; `None` unless they name each of `n` elements once.
fn permutation(indices: &[i64], n: u64) -> Option<Vec<i64>> {
    let n = i64::try_from(n).ok()?;
    if i64::try_from(indices.len()).ok()? != n {
        return None;
    }
    let order: Vec<i64> = indices
        .iter()
        .map(|&i| if i < 0 { i + n } else { i })
        .collect();
    let mut sorted = order.clone();
    sorted.sort_unstable();
    sorted
        .iter()
        .zip(0..n)
        .all(|(&a, b)| a == b)
        .then_some(order)
}

fn gather_elements(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, indices) = (cx.need(0)?, cx.need(1)?);
    let axis = axis_attr(cx, 0, cx.rank(x)?)?;
    cx.finish(&GatherElements { axis }, &[x, indices])
}

fn gather_nd(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    let batch_dims = cx.int("batch_dims").unwrap_or(0);
    cx.finish(&GatherNd { batch_dims }, &operands)
}

fn reduction(cx: &NodeCx<'_, '_>) -> Attr {
    Attr::str(&cx.string("reduction").unwrap_or_else(|| "none".into()))
}

fn scatter_elements(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    let axis = axis_attr(cx, 0, cx.rank(operands[0])?)?;
    let dict = props([("axis", Attr::int(axis)), ("reduction", reduction(cx))]);
    cx.finish_named("hbir.scatter_elements", &operands, dict)
}

fn scatter_nd(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    cx.finish_named(
        "hbir.scatter_nd",
        &operands,
        props([("reduction", reduction(cx))]),
    )
}

/// `ArgMax` or `ArgMin`.
fn arg(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    let x = cx.need(0)?;
    let axis = axis_attr(cx, 0, cx.rank(x)?)?;
    let last = cx.flag("select_last_index", false);
    let dict = props([
        ("axis", Attr::int(axis)),
        ("keepdims", Attr::Bool(cx.flag("keepdims", true))),
        ("select_last_index", Attr::Bool(last)),
    ]);
    cx.finish_named(name, &[x], dict)
}

/// `CumSum` or `CumProd`.
fn running(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    let x = cx.need(0)?;
    let dict = props([
        ("axis", Attr::int(running_axis(cx, x)?)),
        ("exclusive", Attr::Bool(cx.flag("exclusive", false))),
        ("reverse", Attr::Bool(cx.flag("reverse", false))),
    ]);
    cx.finish_named(name, &[x], dict)
}

/// The axis from the second input.
fn running_axis(cx: &NodeCx<'_, '_>, x: Val) -> Result<i64, Stop> {
    cx.need(1)?;
    let axis = cx.const_ints(1).and_then(|a| a.first().copied());
    let axis = axis.ok_or_else(|| Stop::opaque("its axis is computed at run time"))?;
    Ok(cx.axis(axis, cx.rank(x)?)? as i64)
}

fn top_k(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let axis = axis_attr(cx, -1, cx.rank(x)?)?;
    let k = cx
        .int("k")
        .or(cx.const_ints(1).and_then(|k| k.first().copied()));
    let all = || {
        let k = cx.b.one_size(cx.input(1)?)?;
        let dim = cx.dims(x).ok()?.get(usize::try_from(axis).ok()?)?.size()?;
        (k == dim).then_some(TopK::ALL)
    };
    let k = k.or_else(all);
    let k = k.ok_or_else(|| Stop::opaque("its k is computed at run time"))?;
    let op = TopK {
        k,
        axis,
        largest: cx.flag("largest", true),
        sorted: cx.flag("sorted", true),
    };
    let results = cx.emit_all(&op, &[x])?;
    results
        .into_iter()
        .enumerate()
        .for_each(|(i, result)| cx.set(i, result));
    Ok(())
}

/// 1 at the first greatest element along the axis, else 0. Before version 13 it runs along all dimensions from the axis
/// on.
fn hardmax(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let axis = cx.int("axis").unwrap_or(if cx.opset < 13 { 1 } else { -1 });
    let axis = cx.axis(axis, dims.len())?;
    let flat = cx.opset < 13 && !dims[axis + 1..].iter().all(Dim::is_one);
    let (rows, along) = if flat {
        let axis = axis as i64;
        (cx.emit(&Flatten { axis }, &[x])?, 1)
    } else {
        (x, axis)
    };
    let depth = cx.extent(rows, along)?;
    let first = ArgMax {
        axis: along as i64,
        keepdims: false,
        select_last_index: false,
    };
    let place = cx.emit(&first, &[rows])?;
    let values = Tensor::from_f64(cx.dtype(x)?, vec![2], [0.0, 1.0]);
    let values = cx.b.literal(values, cx.loc.clone());
    let dict = props([
        ("axis", Attr::int(along as i64)),
        ("depth", Attr::int(depth)),
    ]);
    let mut marks = cx.emit_named("hbir.one_hot", &[place, values], dict)?;
    if flat {
        let sizes: Vec<Entry> = dims.iter().map(Entry::from).collect();
        marks = reshape_to(cx, marks, &sizes)?;
    }
    cx.set(0, marks);
    Ok(())
}

/// The elements, along an axis or of the flattened input, for which a constant condition is true.
fn compress(cx: &mut NodeCx<'_, '_>) -> Done {
    let mut x = cx.need(0)?;
    cx.need(1)?;
    let kept = cx.const_ints(1);
    let kept = kept.ok_or_else(|| Stop::opaque("its condition is computed at run time"))?;
    let axis = match cx.int("axis") {
        Some(axis) => cx.axis(axis, cx.rank(x)?)?,
        None => {
            x = cx.reshape(x, &[-1])?;
            0
        }
    };
    let places = kept.iter().zip(0i64..).filter(|(k, _)| **k != 0);
    let places: Vec<i64> = places.map(|(_, i)| i).collect();
    let places = Tensor::from_i64(DType::SI64, vec![places.len()], places);
    let places = cx.b.literal(places, cx.loc.clone());
    cx.finish(&Gather { axis: axis as i64 }, &[x, places])
}

/// The coordinates of the non-zero elements of a constant, one row for each dimension. Exporters write ranges as the
/// non-zero elements of ones.
fn non_zero(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    if let Some(t) = cx.tensor(0).filter(|t| t.dtype.computes()) {
        let zero = |&i: &usize| t.f64_at(i) == 0.0 && (t.dtype.is_float() || t.i64_at(i) == 0);
        let found: Vec<usize> = (0..t.len()).filter(|i| !zero(i)).collect();
        if cx
            .file
            .spend((found.len() as u64).saturating_mul(dims.len() as u64))
        {
            let mut places = Vec::with_capacity(found.len() * dims.len());
            let mut stride = t.len();
            for &n in &t.shape {
                stride = stride.checked_div(n).unwrap_or(0);
                places.extend(found.iter().map(|i| (i / stride % n) as i64));
            }
            let places = Tensor::from_i64(DType::SI64, vec![dims.len(), found.len()], places);
            let places = cx.b.literal(places, cx.loc.clone());
            cx.set(0, places);
            return Ok(());
        }
    }
    let one = cx.b.splat_of(x).is_some_and(|one| one.f64_at(0) != 0.0);
    match &dims[..] {
        [n] if one => {
            let places = cx.iota(n, 1, 2, DType::SI64)?;
            cx.set(0, places);
            Ok(())
        }
        [_, ..] if one && dims.iter().all(|dim| dim.size().is_some()) => {
            let mut rows = Vec::with_capacity(dims.len());
            for (axis, n) in dims.iter().enumerate() {
                let row = cx.iota(n, axis, dims.len(), DType::SI64)?;
                let row = cx.broadcast_to(row, &dims)?;
                rows.push(cx.reshape(row, &[1, -1])?);
            }
            cx.finish(&Concat { axis: 0 }, &rows)
        }
        _ => Err(Stop::opaque("its operand is computed at run time")),
    }
}

/// Reverses the first elements of every sequence; its length gives their number.
fn reverse_sequence(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, lengths) = (cx.need(0)?, cx.need(1)?);
    let dims = cx.dims(x)?;
    let time = cx.axis(cx.int("time_axis").unwrap_or(0), dims.len())?;
    let batch = cx.axis(cx.int("batch_axis").unwrap_or(1), dims.len())?;
    if dims[time].size().is_some() && cx.b.one_size(lengths) == dims[time].size() {
        let result = reversed(cx, x, time)?;
        cx.set(0, result);
        return Ok(());
    }
    let at = cx.iota(&dims[time], time, dims.len(), DType::SI64)?;
    let lengths = along(cx, lengths, batch, dims.len())?;
    let one = cx.scalar_like(1.0, at)?;
    let last = cx.emit(&Sub {}, &[lengths, one])?;
    let mirrored = cx.emit(&Sub {}, &[last, at])?;
    let inside = cx.compare(Direction::Lt, at, lengths)?;
    let places = cx.emit(&Select {}, &[inside, mirrored, at])?;
    let places = cx.broadcast_to(places, &dims)?;
    let axis = time as i64;
    cx.finish(&GatherElements { axis }, &[x, places])
}

/// `x` reversed along an axis.
fn reversed(cx: &mut NodeCx<'_, '_>, x: Val, axis: usize) -> Result<Val, Stop> {
    let dims = cx.dims(x)?;
    let mut bounds = whole(&dims);
    bounds[axis] = axis_bounds(&dims[axis], -1, i64::MIN, -1)?;
    emit_slice(cx, x, &bounds)
}

/// A vector of integers, placed along one of `rank` dimensions.
fn along(cx: &mut NodeCx<'_, '_>, x: Val, axis: usize, rank: usize) -> Result<Val, Stop> {
    if cx.rank(x)? != 1 {
        return Err(Stop::opaque("its indices are no vector"));
    }
    let x = cx.cast(x, DType::SI64)?;
    let others: Vec<usize> = (0..rank).filter(|&d| d != axis).collect();
    cx.unsqueeze(x, &others)
}

/// An update that is written into a cache along an axis, starting at an index for each batch.
fn tensor_scatter(cx: &mut NodeCx<'_, '_>) -> Done {
    let (cache, update) = (cx.need(0)?, cx.need(1)?);
    let dims = cx.dims(update)?;
    let axis = cx.axis(cx.int("axis").unwrap_or(-2), dims.len())?;
    let mut places = cx.iota(&dims[axis], axis, dims.len(), DType::SI64)?;
    if let Some(first) = cx.input(2) {
        let first = along(cx, first, 0, dims.len())?;
        places = cx.emit(&Add {}, &[places, first])?;
    }
    if cx.string("mode").as_deref() == Some("circular") {
        let length = cx.extent(cache, axis)?;
        let length = cx.scalar_like(length as f64, places)?;
        places = cx.emit(&Mod { fmod: false }, &[places, length])?;
    }
    let places = cx.broadcast_to(places, &dims)?;
    let op = ScatterElements {
        axis: axis as i64,
        reduction: ScatterReduction::None,
    };
    cx.finish(&op, &[cache, places, update])
}

/// `OneHot`: the operation takes `[off, on]` as its second operand.
fn one_hot(cx: &mut NodeCx<'_, '_>) -> Done {
    let (indices, values) = (cx.need(0)?, cx.need(2)?);
    cx.need(1)?;
    let depth = cx.const_floats(1).and_then(|d| d.first().copied());
    let axis = axis_attr(cx, -1, cx.rank(indices)? + 1)?;
    let indices = cx.cast(indices, DType::SI64)?;
    let Some(depth) = depth else {
        return one_hot_of_size(cx, indices, values, axis);
    };
    let dict = props([
        ("axis", Attr::int(axis)),
        ("depth", Attr::int(depth as i64)),
    ]);
    cx.finish_named("hbir.one_hot", &[indices, values], dict)
}

/// `OneHot` with a depth of unknown size: the indices are compared with the positions along the axis.
fn one_hot_of_size(cx: &mut NodeCx<'_, '_>, indices: Val, values: Val, axis: i64) -> Done {
    let depth = cx.need(1)?;
    let size = cx.b.one_size(depth);
    let size = size.ok_or_else(|| Stop::opaque("its depth is computed at run time"))?;
    let rank = cx.rank(indices)? + 1;
    let axis = cx.axis(axis, rank)?;
    let places = cx.iota(&Dim::of_size(&size), axis, rank, DType::SI64)?;
    let depth = cx.cast(depth, DType::SI64)?;
    let depth = cx.reshape(depth, &[])?;
    let zero = cx.scalar_like(0.0, indices)?;
    let from_end = cx.emit(&Add {}, &[indices, depth])?;
    let is_negative = cx.compare(Direction::Lt, indices, zero)?;
    let indices = cx.emit(&Select {}, &[is_negative, from_end, indices])?;
    let indices = cx.unsqueeze(indices, &[axis])?;
    let marks = cx.compare(Direction::Eq, indices, places)?;
    let off = cx.cut(values, 0, 0, 1)?;
    let off = cx.reshape(off, &[])?;
    let on = cx.cut(values, 0, 1, 2)?;
    let on = cx.reshape(on, &[])?;
    cx.finish(&Select {}, &[marks, on, off])
}
