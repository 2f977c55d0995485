//! Parts, padding, and reads by index.
//!
//! Example: the elements 9, 7 and 5 of a line are a `slice` with `slice={[5:10:2]}`, then a `reverse`.

use super::custom::custom_call;
use super::func::{Outcome, Writer, list};
use super::number::element_text;
use super::shape::{shaped, sizes, tensor_text};
use crate::unwritten::{Form, Unwritten, known};
use optc_ir::op::{Operation, Structure};
use optc_ir::{Attr, DType, Dim, Op, OpData, Size, TensorType, Value};
use optc_ops::{
    Clamp, Constant, DynamicUpdateSlice, Gather, Max, Pad, PadMode, Slice, SlicePart, Split,
    Subview, Tile,
};

/// Writes one of these operations and returns the name of the result. Any other operation has no form here.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    match &*data.name {
        Slice::NAME => slice(w, data, ty),
        Subview::NAME => subview(w, data, ty),
        Pad::NAME => pad(w, data, ty),
        Tile::NAME => tile(w, data, ty),
        Gather::NAME => gather(w, data, ty),
        DynamicUpdateSlice::NAME => update_slice(w, data, ty),
        _ => Err(Unwritten::NoForm),
    }
}

fn slice(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let parts = w.typed::<Slice>(data)?.parts(&w.op_ref(data))?;
    part(w, data, ty, &parts)
}

fn subview(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let subview = w.typed::<Subview>(data)?;
    if subview.broadcast {
        return Ok(w.spread(data.operands[0], ty)?);
    }
    part(w, data, ty, &subview.parts(&w.op_ref(data))?)
}

/// The range of one dimension in HLO text, and whether the dimension is reversed; `None` if its ends are unknown.
fn range(part: &SlicePart) -> Option<(String, bool)> {
    let start = i64::try_from(part.start.as_constant()?).ok()?;
    let count = i64::try_from(part.size.fixed()?).ok()?;
    let step = part.stride.abs();
    let reach = (count - 1).max(0) * step;
    // A reversed part begins at the last element that it reads.
    let first = if part.stride < 0 {
        start - reach
    } else {
        start
    };
    let limit = if count == 0 { first } else { first + reach + 1 };
    let colon = match step {
        1 => String::new(),
        step => format!(":{step}"),
    };
    let backward = part.stride < 0 && 1 < count;
    Some((format!("[{first}:{limit}{colon}]"), backward))
}

/// A slice, then a reversal of the dimensions with a negative stride.
fn part(w: &mut Writer<'_>, data: &OpData, ty: &TensorType, parts: &[SlicePart]) -> Form<String> {
    let from = w.tensor(data.operands[0])?.clone();
    let ranges: Option<Vec<(String, bool)>> = parts.iter().map(range).collect();
    let Some(ranges) = ranges else {
        return sized_part(w, data, ty, parts);
    };
    let backward: Vec<usize> = (0..ranges.len()).filter(|&d| ranges[d].1).collect();
    let texts: Vec<String> = ranges.into_iter().map(|(text, _)| text).collect();
    let attrs = format!(", slice={{{}}}", texts.join(", "));
    if backward.is_empty() && data.attrs.str("hlo.async") == Some("slice") {
        let (x, to) = (w.name(data.operands[0])?, tensor_text(ty)?);
        let shape = format!("(({}), {to}, s32[])", tensor_text(&from)?);
        let start = w.raw(&shape, "slice-start", &[x], &attrs);
        w.started(data.results[0], start, "slice", &to);
        return Ok(String::new());
    }
    let name = w.one("slice", data.operands[0], ty, &attrs)?;
    if backward.is_empty() {
        return Ok(name);
    }
    let attrs = format!(", dimensions={}", list(&backward));
    Ok(w.put(ty, "reverse", &[name], &attrs)?)
}

/// As [`part`] for unknown sizes: an operation of StableHLO that takes the sizes as operands.
fn sized_part(
    w: &mut Writer<'_>,
    data: &OpData,
    ty: &TensorType,
    parts: &[SlicePart],
) -> Form<String> {
    let from = w.tensor(data.operands[0])?.clone();
    let (mut starts, mut limits, mut steps) = (Vec::new(), Vec::new(), Vec::new());
    let (mut backward, mut whole) = (Vec::new(), true);
    for (d, (part, dim)) in parts.iter().zip(&from.dims).enumerate() {
        let (one, stride) = (Size::constant(1), Size::constant(i128::from(part.stride)));
        let ends = || {
            let reach = part.size.size()?.minus(&one)?.times(&stride)?;
            let last = part.start.plus(&reach)?;
            // A reversed part begins at the last element that it reads.
            let (first, last) = match part.stride < 0 {
                true => (last, part.start.clone()),
                false => (part.start.clone(), last),
            };
            Some((first, last.plus(&one)?))
        };
        let (start, limit) = known(ends())?;
        if part.stride < 0 {
            backward.push(d);
        }
        let all = start == Size::default() && Some(&limit) == dim.size().as_ref();
        whole &= all && part.stride.abs() == 1;
        starts.push(start);
        limits.push(limit);
        steps.push(Size::from(part.stride.unsigned_abs()));
    }
    if !w.shared.mlir {
        return Err(Unwritten::NoForm);
    }
    let mut name = w.name(data.operands[0])?;
    if !whole {
        let mut operands = vec![name];
        for list in [&starts, &limits, &steps] {
            operands.push(w.size_list(list)?);
        }
        name = w.put(ty, "slice", &operands, "")?;
    }
    if !backward.is_empty() {
        let attrs = format!(", dimensions={}", list(&backward));
        name = w.put(ty, "reverse", &[name], &attrs)?;
    }
    Ok(name)
}

/// The starts are converted to one element type, which HLO requires.
fn update_slice(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let mut names = Vec::with_capacity(data.operands.len());
    let mut starts: Option<DType> = None;
    for (i, &value) in data.operands.iter().enumerate() {
        let dtype = w.tensor(value)?.dtype;
        if 2 <= i && *starts.get_or_insert(dtype) != dtype {
            return Err(Unwritten::NoForm);
        }
        names.push(w.name(value)?);
    }
    Ok(w.put(ty, "dynamic-update-slice", &names, "")?)
}

/// The parts of a split, one slice each.
pub(super) fn split(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    let split = w.typed::<Split>(data).ok();
    let axis = split.and_then(|split| split.along(&w.op_ref(data)).ok());
    let shapes: Option<Vec<Vec<u64>>> = data
        .results
        .iter()
        .map(|&v| w.func.ty(v).as_tensor().and_then(TensorType::shape))
        .collect();
    let (Some(shapes), Some(axis)) = (shapes, axis) else {
        return custom_call(w, op);
    };
    let mut at = 0u64;
    for (&value, shape) in data.results.iter().zip(shapes) {
        let part = |(d, &n): (usize, &u64)| {
            let start = if d == axis { at } else { 0 };
            format!("[{start}:{}]", start + n)
        };
        let parts: Vec<String> = shape.iter().enumerate().map(part).collect();
        let ty = w.tensor(value)?.clone();
        let attrs = format!(", slice={{{}}}", parts.join(", "));
        let name = w.one("slice", data.operands[0], &ty, &attrs)?;
        w.called(value, name);
        at += shape.get(axis).copied().unwrap_or(0);
    }
    Ok(())
}

fn pad(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let pad = w.typed::<Pad>(data)?;
    if pad.mode != PadMode::Constant || ty.rank() == 0 {
        return Err(Unwritten::NoForm);
    }
    let amounts = pad.amounts(&w.op_ref(data))?;
    let pairs = amounts.low.iter().zip(&amounts.high);
    let pairs: Vec<String> = pairs.map(|(low, high)| format!("{low}_{high}")).collect();
    let text = element_text(&pad.value.element(ty.dtype), 0);
    let x = w.name(data.operands[0])?;
    let fill = w.scalar(&text, ty.dtype);
    let attrs = format!(", padding={}", pairs.join("x"));
    Ok(w.put(ty, "pad", &[x, fill], &attrs)?)
}

fn tile(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let from = w.tensor(data.operands[0])?.clone();
    let (shape, Tile { repeats }) = (known(sizes(&from))?, w.typed(data)?);
    let mut wide = Vec::with_capacity(2 * shape.len());
    for (&n, &times) in shape.iter().zip(&repeats) {
        wide.extend([u64::try_from(times).unwrap_or(0), n]);
    }
    let dims: Vec<usize> = (0..shape.len()).map(|d| 2 * d + 1).collect();
    let attrs = format!(", dimensions={}", list(&dims));
    let y = w.one("broadcast", data.operands[0], &shaped(&from, &wide), &attrs)?;
    Ok(w.put(ty, "reshape", &[y], "")?)
}

/// Returns whether indices are known to be at least 0, so that none of them counts from the end.
pub(super) fn is_bounded(w: &Writer<'_>, indices: Value) -> bool {
    let Some(data) = w.defining(indices) else {
        return false;
    };
    if let Ok(Clamp { min, .. }) = w.typed(data) {
        return min.is_some_and(|min| 0.0 <= min);
    }
    if w.typed::<Max>(data).is_ok() {
        // One of the two operands is a number, the other is not itself a maximum.
        let plain = |one: &Value| w.defining(*one).is_some_and(|d| w.typed::<Max>(d).is_err());
        let mut plain = data.operands.iter().filter(|one| plain(one));
        return plain.next_back().is_some_and(|&one| is_bounded(w, one));
    }
    if let Ok(Constant { value, .. }) = w.typed(data) {
        let Some(Attr::Dense(dense)) = &value else {
            return false;
        };
        let tensor = optc_ops::dense_tensor(dense).ok();
        return tensor.is_some_and(|t| (0..t.len()).all(|i| 0 <= t.i64_at(i)));
    }
    let moved = w.structure(data) == Structure::Convert || w.rearrangement(data).is_some();
    moved && is_bounded(w, data.operands[0])
}

fn gather(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let from = w.tensor(data.operands[0])?.clone();
    let places = w.tensor(data.operands[1])?.clone();
    let axis = w.typed::<Gather>(data)?.along(&w.op_ref(data))?;
    let slices: Option<Vec<Size>> = from.dims.iter().map(Dim::size).collect();
    let mut slices = known(slices)?;
    if from.shape().is_none() && !w.shared.mlir {
        return Err(Unwritten::NoForm);
    }
    let n = slices[axis].clone();
    let x = w.name(data.operands[0])?;
    let mut indices = w.name(data.operands[1])?;
    let unsigned = matches!(
        places.dtype,
        DType::Int {
            sign: optc_ir::Sign::Unsigned,
            ..
        }
    );
    if !unsigned && !is_bounded(w, data.operands[1]) {
        let own = places.without_layout();
        let test = TensorType {
            dtype: DType::BOOL,
            ..own.clone()
        };
        let (zero, size) = (w.filled("0", &own)?, w.filled_with(&n, &own)?);
        let below = w.put(&test, "compare", &[indices.clone(), zero], ", direction=LT")?;
        let moved = w.put(&own, "add", &[indices.clone(), size], "")?;
        indices = w.put(&own, "select", &[below, moved, indices], "")?;
    }
    let offsets: Vec<usize> = (0..ty.rank())
        .filter(|d| *d < axis || axis + places.rank() <= *d)
        .collect();
    slices[axis] = Size::constant(1);
    let mut operands = vec![x, indices];
    let stated = match slices.iter().all(|n| n.as_constant().is_some()) {
        true => format!(", slice_sizes={}", list(&slices)),
        false => {
            operands.push(w.size_list(&slices)?);
            String::new()
        }
    };
    let attrs = format!(
        ", offset_dims={}, collapsed_slice_dims={{{axis}}}, start_index_map={{{axis}}}, \
         index_vector_dim={}{stated}",
        list(&offsets),
        places.rank(),
    );
    Ok(w.put(ty, "gather", &operands, &attrs)?)
}
