//! Operations that move elements or work with positions: reshapes, parts, gathers and the like.
//!
//! Example: a reshape from `[B, S, 8]` to `[B, S, 2, 4]` is a `Reshape` by `[0, 0, 2, 4]`: a 0 keeps the extent of the
//! operand.

use super::attrs::{int, ints, text};
use super::writer::{Outcome, Writer};
use optc_ir::op::Operation;
use optc_ir::size::Factor;
use optc_ir::{AttrDict, DType, Dim, OpData, OpRef, Size, Tensor, TensorType, Value};
use optc_ops::{
    Bound, Broadcast, Concat, DepthToSpace, Flatten, Gather, GatherElements, GatherNd, Iota,
    OneHot, Pad, PadMode, PadValue, Reshape, ScatterElements, ScatterNd, ScatterReduction, Slice,
    SpaceToDepth, Split, Squeeze, Subview, Tile, TopK, Transpose, Unsqueeze,
};

/// Writes one of these operations and returns the names of the results; `None` for any other operation.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<Vec<String>>> {
    let one = |name: String| Ok(Some(vec![name]));
    match &*data.name {
        Transpose::NAME => {
            let typed = w.typed::<Transpose>(data)?;
            let x = w.name(data.operands[0])?;
            one(w.node("Transpose", &[&x], vec![ints("perm", &typed.perm)]))
        }
        Reshape::NAME => {
            let x = w.name(data.operands[0])?;
            one(reshape(w, data, &x)?)
        }
        Flatten::NAME => {
            let along = w.typed::<Flatten>(data)?.axis;
            let along = counted(along, w.tensor(data.operands[0])?.rank());
            let x = w.name(data.operands[0])?;
            one(w.node("Flatten", &[&x], vec![int("axis", along)]))
        }
        Squeeze::NAME => {
            let axes = w.typed::<Squeeze>(data)?.axes;
            one(axes_of(w, data, "Squeeze", axes.as_deref())?)
        }
        Unsqueeze::NAME => {
            let axes = w.typed::<Unsqueeze>(data)?.axes;
            one(axes_of(w, data, "Unsqueeze", Some(&axes))?)
        }
        Concat::NAME => {
            let along = w.typed::<Concat>(data)?.axis;
            let along = counted(along, w.tensor(data.results[0])?.rank());
            let given = w.operands(data)?;
            one(w.node("Concat", &given, vec![int("axis", along)]))
        }
        Split::NAME => split(w, data).map(Some),
        Slice::NAME if let Some(size) = size_of(w, data) => {
            let dtype = w.tensor(data.results[0])?.dtype;
            let size = w.size(&Dim::of_size(&size))?;
            one(cast(w, &size, optc_ir::DType::SI64, dtype)?)
        }
        Slice::NAME => {
            let x = w.name(data.operands[0])?;
            let made = w.typed::<Slice>(data)?;
            let (starts, limits) = (made.starts.0.clone(), made.limits.0.clone());
            one(slice(
                w,
                data,
                &x,
                (&starts, &limits, made.strides.as_deref()),
            )?)
        }
        Subview::NAME => subview(w, data).map(|name| Some(vec![name])),
        Pad::NAME => pad(w, data).map(|name| Some(vec![name])),
        Tile::NAME => {
            let x = w.name(data.operands[0])?;
            let repeats = w.list(&w_repeats(w, data)?)?;
            one(w.node("Tile", &[&x, &repeats], vec![]))
        }
        Broadcast::NAME => {
            let x = w.name(data.operands[0])?;
            let (from, to) = (w.tensor(data.operands[0])?, w.tensor(data.results[0])?);
            one(expanded(w, data, &x, &from.dims, &to.dims)?)
        }
        // A size used as data is the last index of a range that is one longer.
        Iota::NAME if is_of_sizes(w, data.results[0]) => one(String::new()),
        Iota::NAME => iota(w, data).map(|name| Some(vec![name])),
        DepthToSpace::NAME => one(depth_to_space(w, data)?),
        SpaceToDepth::NAME => {
            let size = w.typed::<SpaceToDepth>(data)?.blocksize;
            let x = w.name(data.operands[0])?;
            one(w.node("SpaceToDepth", &[&x], vec![int("blocksize", size)]))
        }
        _ => selected(w, data),
    }
}

fn depth_to_space(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<DepthToSpace>(data)?;
    let x = w.name(data.operands[0])?;
    let mode = made.mode.word();
    let mut attrs = vec![int("blocksize", made.blocksize)];
    if mode != "DCR" || w.has_attribute("DepthToSpace", "mode") {
        attrs.push(text("mode", mode));
    }
    Ok(w.node("DepthToSpace", &[&x], attrs))
}

/// Writes an operation that selects elements by numbers, or puts them there.
fn selected(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<Vec<String>>> {
    match &*data.name {
        Gather::NAME => {
            let along = w.typed::<Gather>(data)?.axis;
            indexed(w, data, "Gather", vec![int("axis", along)])
        }
        GatherElements::NAME => {
            let along = w.typed::<GatherElements>(data)?.axis;
            if !w.has("GatherElements") {
                let name = gather_each(w, data, along)?;
                return Ok(Some(vec![name]));
            }
            indexed(w, data, "GatherElements", vec![int("axis", along)])
        }
        GatherNd::NAME => {
            let batch = w.typed::<GatherNd>(data)?.batch_dims;
            let attrs = if batch == 0 {
                vec![]
            } else {
                vec![int("batch_dims", batch)]
            };
            indexed(w, data, "GatherND", attrs)
        }
        ScatterElements::NAME => {
            let made = w.typed::<ScatterElements>(data)?;
            let mut attrs = reduction(w, data, made.reduction)?;
            attrs.push(int("axis", made.axis));
            let op_type = match w.has("ScatterElements") {
                true => "ScatterElements",
                false => "Scatter",
            };
            indexed(w, data, op_type, attrs)
        }
        ScatterNd::NAME => {
            let made = w.typed::<ScatterNd>(data)?;
            if made.drop_outside {
                return Ok(None);
            }
            let attrs = reduction(w, data, made.reduction)?;
            indexed(w, data, "ScatterND", attrs)
        }
        TopK::NAME => top_k(w, data).map(Some),
        OneHot::NAME => one_hot(w, data).map(|name| Some(vec![name])),
        _ => Ok(None),
    }
}

fn w_repeats(w: &Writer<'_>, data: &OpData) -> Outcome<Vec<i64>> {
    Ok(w.typed::<Tile>(data)?.repeats)
}

/// A reshape to the dimensions of an operation's result.
pub(super) fn reshape(w: &mut Writer<'_>, data: &OpData, x: &str) -> Outcome<String> {
    let (from, to) = (w.tensor(data.operands[0])?, w.tensor(data.results[0])?);
    let (from, to) = (from.dims.clone(), to.dims.clone());
    reshaped(w, x, &from, &to)
}

/// A reshape from dimensions `from` to dimensions `to`.
pub(super) fn reshaped(w: &mut Writer<'_>, x: &str, from: &[Dim], to: &[Dim]) -> Outcome<String> {
    let unknown = |d: &&Dim| d.fixed().is_none();
    let empty = to.iter().any(|d| d.fixed() == Some(0));
    let flag = w.has_attribute("Reshape", "allowzero");
    if empty && !flag {
        return emptied(w, x, to);
    }
    // A dimension that keeps its extent needs no number: 0 means the operand's own extent.
    let stays = |at: usize| from.get(at).is_some_and(|d| d.same(&to[at]));
    let open = (0..to.len())
        .filter(|&i| to[i].fixed().is_none() && !stays(i))
        .count();
    let alone = to.iter().filter(unknown).count() <= 1;
    let left = |at: usize| to[at].fixed().is_none() && (alone || !stays(at));
    if (alone || open == 1)
        && !leaves(from, to, left)
        && let Some(shape) = computed(w, to)
    {
        return Ok(w.node("Reshape", &[x, &shape], vec![]));
    }
    let shape = if alone || empty || 1 < open {
        w.shape(to, true)?
    } else {
        let size = |(at, d): (usize, &Dim)| match d.fixed() {
            Some(n) => i64::try_from(n).unwrap_or(-1),
            None if stays(at) => 0,
            None => -1,
        };
        w.list(&to.iter().enumerate().map(size).collect::<Vec<i64>>())?
    };
    let attrs = match empty {
        true => vec![int("allowzero", 1)],
        false => vec![],
    };
    Ok(w.node("Reshape", &[x, &shape], attrs))
}

/// Returns whether a reshape in which the dimensions `left` are left open infers the dimensions `to`. Always true if a
/// size has no name.
fn leaves(from: &[Dim], to: &[Dim], left: impl Fn(usize) -> bool) -> bool {
    let size = |(at, dim): (usize, &Dim)| if left(at) { Dim::Unknown } else { dim.clone() };
    let told: Vec<Dim> = to.iter().enumerate().map(size).collect();
    let ty = TensorType::new(from.to_vec(), DType::F32).into();
    let props = AttrDict::default();
    let op = OpRef {
        name: Reshape::NAME,
        operands: vec![&ty],
        results: Vec::new(),
        props: &props,
    };
    let nameless = from.iter().chain(to).any(|d| *d == Dim::Unknown);
    let made = Reshape::of_dims(&told).infer(&op);
    nameless || made.is_ok_and(|made| made.iter().all(|made| made.dims == to))
}

/// A tensor with all sizes; `None` if the inputs do not determine one of them.
fn computed(w: &mut Writer<'_>, dims: &[Dim]) -> Option<String> {
    let at = w.nodes.len();
    let shape = w.shape(dims, false);
    if shape.is_err() {
        w.nodes.truncate(at);
    }
    shape.ok()
}

/// A value without elements of dimensions `to`, for versions in which a 0 in a shape means the operand's own extent.
fn emptied(w: &mut Writer<'_>, x: &str, to: &[Dim]) -> Outcome<String> {
    // Made as a line of 0 elements, then a column in the first empty dimension, then repeated along all other
    // dimensions.
    let mut name = {
        let shape = w.list(&[-1])?;
        w.node("Reshape", &[x, &shape], vec![])
    };
    let first = to.iter().position(|d| d.fixed() == Some(0)).unwrap_or(0);
    let column = |w: &mut Writer<'_>, name: &str, at: usize| -> Outcome<String> {
        let mut shape = vec![1; to.len()];
        shape[at] = -1;
        let shape = w.list(&shape)?;
        Ok(w.node("Reshape", &[name, &shape], vec![]))
    };
    name = column(w, &name, first)?;
    let repeats: Vec<Dim> = (0..to.len())
        .map(|at| {
            if at == first {
                Dim::Fixed(1)
            } else {
                to[at].clone()
            }
        })
        .collect();
    let repeats = w.shape(&repeats, false)?;
    Ok(w.node("Tile", &[&name, &repeats], vec![]))
}

/// A value of dimensions `from`, broadcast to the dimensions `to`.
pub(super) fn expanded(
    w: &mut Writer<'_>,
    data: &OpData,
    x: &str,
    from: &[Dim],
    to: &[Dim],
) -> Outcome<String> {
    if w.has("Expand") {
        let shape = w.shape(to, false)?;
        return Ok(w.node("Expand", &[x, &shape], vec![]));
    }
    let mut wide = vec![Dim::Fixed(1); to.len().saturating_sub(from.len())];
    wide.extend_from_slice(from);
    let repeat = |(n, m): (&Dim, &Dim)| match (n.is_one(), m.fixed()) {
        _ if n.same(m) => Some(1),
        (true, Some(m)) => i64::try_from(m).ok(),
        _ => None,
    };
    let repeats: Option<Vec<i64>> = wide.iter().zip(to).map(repeat).collect();
    let repeats = repeats.ok_or_else(|| w.without_form(data, "there is no Expand"))?;
    let name = match wide.len() == from.len() {
        true => x.to_owned(),
        false => reshaped(w, x, from, &wide)?,
    };
    let repeats = w.list(&repeats)?;
    Ok(w.node("Tile", &[&name, &repeats], vec![]))
}

/// An axis counted from the front: negative axes need version 11.
fn counted(axis: i64, rank: usize) -> i64 {
    match axis < 0 {
        true => axis + i64::try_from(rank).unwrap_or(0),
        false => axis,
    }
}

/// An operator with axes, which are an attribute before version 13 and an input from then on.
fn axes_of(
    w: &mut Writer<'_>,
    data: &OpData,
    op_type: &str,
    axes: Option<&[i64]>,
) -> Outcome<String> {
    let x = w.name(data.operands[0])?;
    let (from, to) = (w.tensor(data.operands[0])?, w.tensor(data.results[0])?);
    let rank = from.rank().max(to.rank());
    let axes: Option<Vec<i64>> = axes.map(|axes| axes.iter().map(|&a| counted(a, rank)).collect());
    Ok(match axes.as_deref() {
        None => w.node(op_type, &[&x], vec![]),
        Some(axes) if w.has_attribute(op_type, "axes") => {
            w.node(op_type, &[&x], vec![ints("axes", axes)])
        }
        Some(axes) => {
            let axes = w.list(axes)?;
            w.node(op_type, &[&x, &axes], vec![])
        }
    })
}

fn split(w: &mut Writer<'_>, data: &OpData) -> Outcome<Vec<String>> {
    let made = w.typed::<Split>(data)?;
    let x = w.name(data.operands[0])?;
    let along = counted(made.axis, w.tensor(data.operands[0])?.rank());
    let mut attrs = vec![int("axis", along)];
    let results = data.results.len();
    if w.has_attribute("Split", "split") {
        attrs.push(ints("split", &made.sizes));
        return Ok(w.several("Split", &[&x], attrs, results));
    }
    let sizes = w.list(&made.sizes)?;
    Ok(w.several("Split", &[&x, &sizes], attrs, results))
}

/// A dimension that is sliced: its number, the bounds and the step.
type CutDim = (i64, Bound, Bound, i64);

/// The dimensions of which a slice does not take everything; `None` if there are too few bounds.
fn cut_dims(
    dims: &[Dim],
    (starts, limits, strides): (&[Bound], &[Bound], Option<&[i64]>),
) -> Option<Vec<CutDim>> {
    let mut parts = Vec::new();
    for (d, dim) in dims.iter().enumerate() {
        let (start, limit) = (starts.get(d)?, limits.get(d)?);
        let step = strides.and_then(|s| s.get(d).copied()).unwrap_or(1);
        let zero = matches!(start, Bound::At(size) if size.as_constant() == Some(0));
        let end = match limit {
            Bound::End => true,
            Bound::At(size) => dim.size().as_ref() == Some(size),
        };
        if !(zero && end && step == 1) {
            let at = i64::try_from(d).unwrap_or(0);
            let n = dim.size();
            let last = n.as_ref().and_then(|n| n.minus(&Size::constant(1)));
            let (start, limit) = match step < 0 {
                true => (short(start, n.as_ref(), last.as_ref()), limit.clone()),
                false => (
                    short(start, n.as_ref(), n.as_ref()),
                    short(limit, n.as_ref(), n.as_ref()),
                ),
            };
            parts.push((at, start, limit, step));
        }
    }
    Some(parts)
}

/// A bound of a dimension of this size as a number, if the operator takes it so: without the minimum with the most that the
/// bound may be, which the operator takes itself, or counted from the end.
fn short(bound: &Bound, n: Option<&Size>, most: Option<&Size>) -> Bound {
    let (Bound::At(size), Some(n), Some(most)) = (bound, n, most) else {
        return bound.clone();
    };
    let number = |size: &Size| Bound::At(Size::constant(size.as_constant().unwrap_or(0)));
    let from_end = size
        .minus(n)
        .filter(|d| d.as_constant().is_some_and(|d| d < 0));
    if let Some(from_end) = from_end
        && size.as_constant().is_none()
    {
        return number(&from_end);
    }
    if let [(1, factors)] = &size.terms().collect::<Vec<_>>()[..]
        && let [Factor::Min(a, b)] = factors[..]
    {
        let pairs = [(a, b), (b, a)];
        let fits = |(own, other): &(&Size, &Size)| {
            *other == most && own.as_constant().is_some_and(|n| 0 <= n)
        };
        if let Some((own, _)) = pairs.into_iter().find(fits) {
            return number(own);
        }
    }
    bound.clone()
}

/// A slice; whole dimensions are left out.
fn slice(
    w: &mut Writer<'_>,
    data: &OpData,
    x: &str,
    bounds: (&[Bound], &[Bound], Option<&[i64]>),
) -> Outcome<String> {
    let dims = &w.tensor(data.operands[0])?.dims;
    let Some(parts) = cut_dims(dims, bounds) else {
        return Err(w.refused("a slice has too few bounds".to_owned()));
    };
    if parts.is_empty() {
        return Ok(w.node("Identity", &[x], vec![]));
    }
    // A limit of -1 with a negative step means before the first element; ONNX writes a large negative number for it.
    let number = |bound: &Bound, is_limit: bool, step: i64| match bound {
        Bound::End if step < 0 && !is_limit => Some(i64::MAX),
        Bound::End => Some(i64::MAX),
        Bound::At(size) => {
            let n = size.as_constant().and_then(|n| i64::try_from(n).ok())?;
            Some(if n < 0 && is_limit && step < 0 {
                i64::MIN
            } else {
                n
            })
        }
    };
    let side = |w: &mut Writer<'_>, is_limit: bool| -> Outcome<String> {
        let pick = |p: &CutDim| if is_limit { p.2.clone() } else { p.1.clone() };
        let known: Option<Vec<i64>> = parts
            .iter()
            .map(|p| number(&pick(p), is_limit, p.3))
            .collect();
        if let Some(known) = known {
            return w.list(&known);
        }
        let mut names = Vec::with_capacity(parts.len());
        for part in &parts {
            let bound = pick(part);
            names.push(match (number(&bound, is_limit, part.3), bound) {
                (Some(n), _) => w.list(&[n])?,
                (None, Bound::At(size)) => w.size(&Dim::of_size(&size))?,
                (None, Bound::End) => w.list(&[i64::MAX])?,
            });
        }
        Ok(w.joined(names))
    };
    if w.has_attribute("Slice", "starts") {
        let all = |limit: bool| -> Option<Vec<i64>> {
            let of = |p: &CutDim| number(if limit { &p.2 } else { &p.1 }, limit, p.3);
            parts.iter().map(of).collect()
        };
        let (Some(starts), Some(ends)) = (all(false), all(true)) else {
            return Err(w.without_form(data, "its bounds are computed"));
        };
        if parts.iter().any(|p| p.3 != 1) {
            return Err(w.without_form(data, "steps came with version 10"));
        }
        let axes: Vec<i64> = parts.iter().map(|p| p.0).collect();
        let attrs = vec![
            ints("axes", &axes),
            ints("ends", &ends),
            ints("starts", &starts),
        ];
        return Ok(w.node("Slice", &[x], attrs));
    }
    let (starts, limits) = (side(w, false)?, side(w, true)?);
    let axes = w.list(&parts.iter().map(|p| p.0).collect::<Vec<i64>>())?;
    let steps = match parts.iter().all(|p| p.3 == 1) {
        true => String::new(),
        false => w.list(&parts.iter().map(|p| p.3).collect::<Vec<i64>>())?,
    };
    Ok(w.node("Slice", &[x, &starts, &limits, &axes, &steps], vec![]))
}

/// A part or repetition that the program reads in place; ONNX copies it.
fn subview(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Subview>(data)?;
    let x = w.name(data.operands[0])?;
    let to = w.tensor(data.results[0])?.dims.clone();
    if made.broadcast {
        let from = w.tensor(data.operands[0])?.dims.clone();
        return expanded(w, data, &x, &from, &to);
    }
    let (Some(starts), Some(limits)) = (&made.starts, &made.limits) else {
        return Err(w.refused("a part has no bounds".to_owned()));
    };
    let parts = made
        .parts(&w.op_ref(data))
        .map_err(|e| w.refused(e.message))?;
    let name = slice(w, data, &x, (&starts.0, &limits.0, made.strides.as_deref()))?;
    let from: Vec<Dim> = parts.into_iter().map(|p| p.size).collect();
    if from == to {
        return Ok(name);
    }
    reshaped(w, &name, &from, &to)
}

fn pad(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Pad>(data)?;
    let amounts = made
        .amounts(&w.op_ref(data))
        .map_err(|e| w.refused(e.message))?;
    let all = [amounts.low, amounts.high].concat();
    let dtype = w.tensor(data.operands[0])?.dtype;
    let x = w.name(data.operands[0])?;
    if made.mode == PadMode::Wrap && w.opset < 19 {
        return Err(w.without_form(data, "the mode wrap came with version 19"));
    }
    let mode = text("mode", made.mode.word());
    let is_zero = match made.value {
        PadValue::Int(n) => n == 0,
        PadValue::Float(x) => x.to_bits() == 0,
    };
    if w.has_attribute("Pad", "pads") {
        let value = match made.value {
            PadValue::Int(n) => Tensor::from_i64(dtype, vec![], [n]),
            PadValue::Float(x) => Tensor::from_f64(dtype, vec![], [x]),
        };
        let value = super::attrs::float("value", value.f64_at(0));
        return Ok(w.node("Pad", &[&x], vec![mode, ints("pads", &all), value]));
    }
    let pads = w.list(&all)?;
    let value = match is_zero {
        true => String::new(),
        false => w.literal(&made.value.element(dtype))?,
    };
    Ok(w.node("Pad", &[&x, &pads, &value], vec![mode]))
}

/// An operator whose indices must be integers of 32 or 64 bits.
fn indexed(
    w: &mut Writer<'_>,
    data: &OpData,
    op_type: &str,
    attrs: Vec<optc_onnx_proto::AttributeProto>,
) -> Outcome<Option<Vec<String>>> {
    let mut given = w.operands(data)?;
    if let (Some(&at), Some(name)) = (data.operands.get(1), given.get_mut(1)) {
        *name = wide(w, at, name, op_type.ends_with("ND"))?;
    }
    Ok(Some(vec![w.node(op_type, &given, attrs)]))
}

/// Indices, converted to a type that operators accept: 64 bits, or 32 unless `only_64`.
fn wide(w: &mut Writer<'_>, value: Value, name: &str, only_64: bool) -> Outcome<String> {
    let bits = w.tensor(value)?.dtype.bits();
    if bits == 64 || (bits == 32 && !only_64) {
        return Ok(name.to_owned());
    }
    Ok(w.node("Cast", &[name], vec![int("to", 7)]))
}

fn reduction(
    w: &Writer<'_>,
    data: &OpData,
    kind: ScatterReduction,
) -> Outcome<Vec<optc_onnx_proto::AttributeProto>> {
    let since = match kind {
        ScatterReduction::None => return Ok(vec![]),
        ScatterReduction::Add | ScatterReduction::Mul => 16,
        ScatterReduction::Max | ScatterReduction::Min => 18,
    };
    // The operator table does not list the values of an attribute.
    if w.opset < since {
        return Err(w.without_form(data, &format!("this reduction came with version {since}")));
    }
    Ok(vec![text("reduction", kind.word())])
}

/// The number of elements along its dimension that an operation returns.
fn greatest(w: &mut Writer<'_>, data: &OpData, made: &TopK) -> Outcome<String> {
    if made.k != TopK::ALL {
        return w.list(&[made.k]);
    }
    let dims = &w.tensor(data.operands[0])?.dims;
    let at = if made.axis < 0 {
        made.axis + dims.len() as i64
    } else {
        made.axis
    };
    let all = usize::try_from(at)
        .ok()
        .and_then(|at| dims.get(at))
        .cloned();
    w.shape(all.as_slice(), false)
}

/// The greatest elements along a dimension. The least ones are the greatest of the negated operand in versions without
/// the attribute.
fn top_k(w: &mut Writer<'_>, data: &OpData) -> Outcome<Vec<String>> {
    let made = w.typed::<TopK>(data)?;
    let mut x = w.name(data.operands[0])?;
    let dtype = w.tensor(data.operands[0])?.dtype;
    let mut attrs = vec![int("axis", made.axis)];
    let directed = w.has_attribute("TopK", "largest");
    if directed {
        attrs.push(int("largest", made.largest));
        attrs.push(int("sorted", made.sorted));
    }
    let turned = !directed && !made.largest;
    let wide = exact(w, "TopK", dtype);
    if let Some(wide) = wide {
        x = cast(w, &x, dtype, wide)?;
    }
    if turned {
        x = w.node("Neg", &[&x], vec![]);
    }
    let mut names = if made.k != TopK::ALL && w.has_attribute("TopK", "k") {
        attrs.push(int("k", made.k));
        w.several("TopK", &[&x], attrs, 2)
    } else {
        let k = greatest(w, data, &made)?;
        w.several("TopK", &[&x, &k], attrs, 2)
    };
    if turned {
        names[0] = w.node("Neg", &[&names[0]], vec![]);
    }
    if let Some(wide) = wide {
        names[0] = cast(w, &names[0], wide, dtype)?;
    }
    if let (Some(&at), Some(name)) = (data.results.get(1), names.get(1).cloned()) {
        names[1] = cast(w, &name, DType::SI64, w.tensor(at)?.dtype)?;
    }
    Ok(names)
}

/// A type that the operator accepts and that represents all numbers of `dtype`, which the operator does not accept.
/// `None` if the operator accepts `dtype` itself, or if there is no such type.
pub(super) fn exact(w: &Writer<'_>, op_type: &str, dtype: DType) -> Option<DType> {
    let whole = dtype.is_int() || dtype.is_bool();
    let wider = [DType::SI32, DType::SI64, DType::F32, DType::F64];
    let holds = |to: &DType| match (*to, whole) {
        (DType::SI32, true) => dtype.bits() < 32,
        (DType::SI64 | DType::F64, true) => dtype.bits() <= 32,
        (DType::F32, true) => dtype.bits() <= 16,
        (DType::F32 | DType::F64, false) => dtype.is_float() && dtype.bits() < to.bits(),
        _ => false,
    };
    if w.takes(op_type, dtype) {
        return None;
    }
    wider
        .into_iter()
        .find(|to| holds(to) && w.takes(op_type, *to))
}

/// Reads an element for each index along a dimension, by a `Gather` from the flattened operand.
fn gather_each(w: &mut Writer<'_>, data: &OpData, axis: i64) -> Outcome<String> {
    let (x_ty, at_ty) = (
        w.tensor(data.operands[0])?.clone(),
        w.tensor(data.operands[1])?.clone(),
    );
    let no = "there is no GatherElements";
    let (Some(dims), Some(shape)) = (x_ty.shape(), at_ty.shape()) else {
        return Err(w.without_form(data, no));
    };
    let rank = dims.len();
    let at = if axis < 0 { rank as i64 + axis } else { axis };
    let along = usize::try_from(at).ok().filter(|&at| at < rank);
    let along = along.ok_or_else(|| w.without_form(data, no))?;
    let stride = |d: usize| dims[d + 1..].iter().product::<u64>();
    // The flat index of the first element that each position may read.
    let count = shape.iter().product::<u64>();
    let start = |mut n: u64| {
        let mut sum = 0;
        for d in (0..rank).rev() {
            let place = n % shape[d];
            n /= shape[d];
            sum += if d == along { 0 } else { place * stride(d) };
        }
        i64::try_from(sum).unwrap_or(i64::MAX)
    };
    let extents: Vec<usize> = shape
        .iter()
        .filter_map(|&n| usize::try_from(n).ok())
        .collect();
    let starts = w.literal(&Tensor::from_i64(
        DType::SI64,
        extents,
        (0..count).map(start),
    ))?;
    let mut given = w.name(data.operands[1])?;
    if at_ty.dtype != DType::SI64 {
        given = w.node("Cast", &[&given], vec![int("to", 7)]);
    }
    given = from_front(w, &given, dims[along])?;
    let step = w.literal(&Tensor::from_i64(
        DType::SI64,
        vec![],
        [i64::try_from(stride(along)).unwrap_or(i64::MAX)],
    ))?;
    let steps = w.node("Mul", &[&given, &step], vec![]);
    let places = w.node("Add", &[&steps, &starts], vec![]);
    let x = w.name(data.operands[0])?;
    let all = [Dim::Fixed(dims.iter().product())];
    let flat = reshaped(w, &x, &x_ty.dims, &all)?;
    Ok(w.node("Gather", &[&flat, &places], vec![int("axis", 0)]))
}

/// 64-bit indices into a dimension of extent `n`, with `n` added to negative ones.
fn from_front(w: &mut Writer<'_>, places: &str, n: u64) -> Outcome<String> {
    let number = |n: i64| Tensor::from_i64(DType::SI64, vec![], [n]);
    let zero = w.literal(&number(0))?;
    let n = w.literal(&number(i64::try_from(n).unwrap_or(i64::MAX)))?;
    // Before version 9 only floats can be compared; indices are far below 2^53.
    let below = match w.takes("Less", DType::SI64) {
        true => w.node("Less", &[places, &zero], vec![]),
        false => {
            let wide = cast(w, places, DType::SI64, DType::F64)?;
            let zero = w.number(0.0, DType::F64)?;
            w.node("Less", &[&wide, &zero], vec![])
        }
    };
    let below = w.node("Cast", &[&below], vec![int("to", 7)]);
    let more = w.node("Mul", &[&below, &n], vec![]);
    Ok(w.node("Add", &[places, &more], vec![]))
}

/// A comparison, in a type that represents all numbers of the operands if the version cannot compare these.
pub(super) fn compared(
    w: &mut Writer<'_>,
    op_type: &str,
    a: &str,
    b: &str,
    dtype: DType,
) -> Outcome<String> {
    let wide = exact(w, op_type, dtype).unwrap_or(dtype);
    let (a, b) = (cast(w, a, dtype, wide)?, cast(w, b, dtype, wide)?);
    Ok(w.node(op_type, &[&a, &b], vec![]))
}

/// A cast to another element type.
pub(super) fn cast(w: &mut Writer<'_>, name: &str, from: DType, to: DType) -> Outcome<String> {
    let (Some(from), Some(number)) = (optc_onnx_proto::code(from), optc_onnx_proto::code(to))
    else {
        return Err(w.refused(format!("ONNX has no elements of the type {to}")));
    };
    if from == number {
        return Ok(name.to_owned());
    }
    Ok(w.node("Cast", &[name], vec![int("to", number)]))
}

fn one_hot(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<OneHot>(data)?;
    let indices = w.name(data.operands[0])?;
    let to = w.tensor(data.results[0])?.dtype;
    let values = match data.operands.get(1) {
        Some(&values) => w.name(values)?,
        None => w.literal(&Tensor::from_f64(to, vec![2], [0.0, 1.0]))?,
    };
    if !w.has("OneHot") {
        return marked(w, data, (made.axis, made.depth), (&indices, &values));
    }
    let indices = wide(w, data.operands[0], &indices, false)?;
    let depth = w.list(&[made.depth])?;
    Ok(w.node(
        "OneHot",
        &[&indices, &depth, &values],
        vec![int("axis", made.axis)],
    ))
}

/// One of two values for each position along a new dimension: the second one if the position equals the index.
fn marked(
    w: &mut Writer<'_>,
    data: &OpData,
    (axis, depth): (i64, i64),
    (indices, values): (&str, &str),
) -> Outcome<String> {
    let ty = w.tensor(data.operands[0])?.clone();
    let rank = ty.rank() + 1;
    let at = if axis < 0 { rank as i64 + axis } else { axis };
    let along = usize::try_from(at).ok().filter(|&at| at < rank);
    let along = along.ok_or_else(|| w.without_form(data, "it has no such axis"))?;
    let n = u64::try_from(depth).unwrap_or(0);
    let indices = cast(w, indices, ty.dtype, DType::SI64)?;
    let places = from_front(w, &indices, n)?;
    let mut column = ty.dims.clone();
    column.insert(along, Dim::Fixed(1));
    let places = reshaped(w, &places, &ty.dims, &column)?;
    let mut shape = vec![1; rank];
    shape[along] = usize::try_from(n).unwrap_or(0);
    let all = w.literal(&Tensor::from_i64(DType::SI64, shape, 0..depth))?;
    let found = w.node("Equal", &[&places, &all], vec![]);
    let found = w.node("Cast", &[&found], vec![int("to", 6)]);
    Ok(w.node("Gather", &[values, &found], vec![int("axis", 0)]))
}

/// True if all readers of a value only take a size from it.
fn is_of_sizes(w: &Writer<'_>, value: Value) -> bool {
    let func = w.func;
    let mut readers = func.body.iter().map(|&op| &func.ops[op]);
    let read = |op: &OpData| op.operands.contains(&value);
    let other = readers.any(|op| read(op) && size_of(w, op).is_none());
    !other && !func.results.contains(&value)
}

/// The size that a slice of a range is: a slice of one element, at the index that the size names.
fn size_of(w: &Writer<'_>, data: &OpData) -> Option<Size> {
    let &[of] = &data.operands[..] else {
        return None;
    };
    let made = w.func.def_op(of).map(|op| &*w.func.ops[op].name);
    let ty = w.tensor(of).ok().filter(|ty| ty.rank() == 1)?;
    let counts = ty.dtype.is_int() || ty.dtype.is_float();
    if made != Some(Iota::NAME) || !counts || &*data.name != Slice::NAME {
        return None;
    }
    let parts = w.typed::<Slice>(data).ok()?.parts(&w.op_ref(data)).ok()?;
    let [part] = &parts[..] else { return None };
    let named = part.start.as_constant().is_none();
    (named && part.stride == 1 && part.size.is_one()).then(|| part.start.clone())
}

/// The index along an axis: a range along it, expanded to the other dimensions.
fn iota(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Iota>(data)?;
    let ty: TensorType = w.tensor(data.results[0])?.clone();
    let rank = i64::try_from(ty.rank()).unwrap_or(0);
    let at = if made.axis < 0 {
        made.axis + rank
    } else {
        made.axis
    };
    let at = usize::try_from(at).unwrap_or(0);
    let Some(length) = ty.dims.get(at) else {
        return Err(w.without_form(data, "it has no such axis"));
    };
    let range = range(w, data, length)?;
    let range = cast(w, &range, DType::SI64, ty.dtype)?;
    if ty.rank() == 1 {
        return Ok(range);
    }
    let mut column = vec![Dim::Fixed(1); ty.rank()];
    column[at] = ty.dims[at].clone();
    let name = reshaped(w, &range, &ty.dims[at..=at], &column)?;
    expanded(w, data, &name, &column, &ty.dims)
}

/// A 64-bit range `0, 1, …`.
fn range(w: &mut Writer<'_>, data: &OpData, length: &Dim) -> Outcome<String> {
    let number = |n: u64| {
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        Tensor::from_i64(DType::SI64, vec![], [n])
    };
    if w.has("Range") {
        let limit = match length.fixed() {
            Some(n) => w.literal(&number(n))?,
            None => {
                let size = w.size(length)?;
                reshaped(w, &size, &[Dim::Fixed(1)], &[])?
            }
        };
        let (start, step) = (w.literal(&number(0))?, w.literal(&number(1))?);
        return Ok(w.node("Range", &[&start, &limit, &step], vec![]));
    }
    if let Some(n) = length.fixed().and_then(|n| i64::try_from(n).ok()) {
        return w.list(&(0..n).collect::<Vec<i64>>());
    }
    if !w.has("NonZero") {
        return Err(w.without_form(data, "Range came with version 11"));
    }
    // The positions of the nonzero elements of a vector of ones.
    let shape = w.shape(std::slice::from_ref(length), false)?;
    let one = super::attrs::tensor("value", &Tensor::from_i64(DType::SI64, vec![1], [1]));
    let ones = w.node("ConstantOfShape", &[&shape], one.into_iter().collect());
    let places = w.node("NonZero", &[&ones], vec![]);
    let flat = w.list(&[-1])?;
    Ok(w.node("Reshape", &[&places, &flat], vec![]))
}
