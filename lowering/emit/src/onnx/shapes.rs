//! Shapes, parts and places: what moves elements, or names where they lie.

use super::attrs::{int, ints, text};
use super::writer::{Outcome, Writer};
use optc_ir::op::Operation;
use optc_ir::{Dim, OpData, Tensor, TensorType, Value};
use optc_ops::{
    Bound, Broadcast, Concat, DepthToSpace, Flatten, Gather, GatherElements, GatherNd, Iota,
    OneHot, Pad, PadMode, PadValue, Reshape, ScatterElements, ScatterNd, ScatterReduction, Slice,
    SpaceToDepth, Split, Squeeze, Subview, Tile, TopK, Transpose, Unsqueeze,
};

/// The names of the results; nothing where the operation is none of these.
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
            let given = w.operands(data)?;
            let given: Vec<&str> = given.iter().map(String::as_str).collect();
            one(w.node("Concat", &given, vec![int("axis", along)]))
        }
        Split::NAME => split(w, data).map(Some),
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
            let dims = w.tensor(data.results[0])?.dims.clone();
            let shape = w.shape(&dims, false)?;
            one(w.node("Expand", &[&x, &shape], vec![]))
        }
        Gather::NAME => {
            let along = w.typed::<Gather>(data)?.axis;
            indexed(w, data, "Gather", vec![int("axis", along)])
        }
        GatherElements::NAME if 11 <= w.opset => {
            let along = w.typed::<GatherElements>(data)?.axis;
            indexed(w, data, "GatherElements", vec![int("axis", along)])
        }
        GatherNd::NAME if 12 <= w.opset => {
            let batch = w.typed::<GatherNd>(data)?.batch_dims;
            let attrs = if batch == 0 {
                vec![]
            } else {
                vec![int("batch_dims", batch)]
            };
            indexed(w, data, "GatherND", attrs)
        }
        ScatterElements::NAME if 9 <= w.opset => {
            let made = w.typed::<ScatterElements>(data)?;
            let mut attrs = reduction(w, data, made.reduction)?;
            attrs.push(int("axis", made.axis));
            let op_type = match 11 <= w.opset {
                true => "ScatterElements",
                false => "Scatter",
            };
            indexed(w, data, op_type, attrs)
        }
        ScatterNd::NAME if 11 <= w.opset => {
            let made = w.typed::<ScatterNd>(data)?;
            let attrs = reduction(w, data, made.reduction)?;
            indexed(w, data, "ScatterND", attrs)
        }
        TopK::NAME if 11 <= w.opset => top_k(w, data).map(Some),
        OneHot::NAME => one_hot(w, data).map(|name| Some(vec![name])),
        Iota::NAME => iota(w, data).map(|name| Some(vec![name])),
        DepthToSpace::NAME => {
            let made = w.typed::<DepthToSpace>(data)?;
            let x = w.name(data.operands[0])?;
            let mode = made.mode.word();
            let mut attrs = vec![int("blocksize", made.blocksize)];
            if 11 <= w.opset {
                attrs.push(text("mode", mode));
            } else if mode != "DCR" {
                return Err(w.without_form(data, "the mode CRD came with version 11"));
            }
            one(w.node("DepthToSpace", &[&x], attrs))
        }
        SpaceToDepth::NAME => {
            let size = w.typed::<SpaceToDepth>(data)?.blocksize;
            let x = w.name(data.operands[0])?;
            one(w.node("SpaceToDepth", &[&x], vec![int("blocksize", size)]))
        }
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

/// Elements of a value of dimensions `from` in the dimensions `to`.
pub(super) fn reshaped(w: &mut Writer<'_>, x: &str, from: &[Dim], to: &[Dim]) -> Outcome<String> {
    let unknown = |d: &&Dim| d.fixed().is_none();
    let empty = to.iter().any(|d| d.fixed() == Some(0));
    // What stays where it is needs no number: 0 is the operand's own extent.
    let stays = |at: usize| from.get(at).is_some_and(|d| d.same(&to[at]));
    let open = (0..to.len())
        .filter(|&i| to[i].fixed().is_none() && !stays(i))
        .count();
    let shape = if to.iter().filter(unknown).count() <= 1 || empty || 1 < open {
        w.shape(to, true)?
    } else {
        let size = |(at, d): (usize, &Dim)| match d.fixed() {
            Some(n) => i64::try_from(n).unwrap_or(-1),
            None if stays(at) => 0,
            None => -1,
        };
        w.list(&to.iter().enumerate().map(size).collect::<Vec<i64>>())?
    };
    let attrs = match empty && 14 <= w.opset {
        true => vec![int("allowzero", 1)],
        false => vec![],
    };
    Ok(w.node("Reshape", &[x, &shape], attrs))
}

/// An operator of axes, which came to be an input in version 13.
fn axes_of(
    w: &mut Writer<'_>,
    data: &OpData,
    op_type: &str,
    axes: Option<&[i64]>,
) -> Outcome<String> {
    let x = w.name(data.operands[0])?;
    Ok(match axes {
        None => w.node(op_type, &[&x], vec![]),
        Some(axes) if w.opset < 13 => w.node(op_type, &[&x], vec![ints("axes", axes)]),
        Some(axes) => {
            let axes = w.list(axes)?;
            w.node(op_type, &[&x, &axes], vec![])
        }
    })
}

fn split(w: &mut Writer<'_>, data: &OpData) -> Outcome<Vec<String>> {
    let made = w.typed::<Split>(data)?;
    let x = w.name(data.operands[0])?;
    let mut attrs = vec![int("axis", made.axis)];
    let results = data.results.len();
    if w.opset < 13 {
        attrs.push(ints("split", &made.sizes));
        return Ok(w.several("Split", &[&x], attrs, results));
    }
    let sizes = w.list(&made.sizes)?;
    Ok(w.several("Split", &[&x, &sizes], attrs, results))
}

/// A part; dimensions that are whole are not named.
fn slice(
    w: &mut Writer<'_>,
    data: &OpData,
    x: &str,
    (starts, limits, strides): (&[Bound], &[Bound], Option<&[i64]>),
) -> Outcome<String> {
    let dims = w.tensor(data.operands[0])?.dims.clone();
    let stride = |d: usize| strides.and_then(|s| s.get(d).copied()).unwrap_or(1);
    let mut parts: Vec<(i64, Bound, Bound, i64)> = Vec::new();
    for (d, dim) in dims.iter().enumerate() {
        let (Some(start), Some(limit)) = (starts.get(d), limits.get(d)) else {
            return Err(w.refused("a slice has too few bounds".to_owned()));
        };
        let zero = matches!(start, Bound::At(size) if size.as_constant() == Some(0));
        let end = match limit {
            Bound::End => true,
            Bound::At(size) => dim.size().as_ref() == Some(size),
        };
        if !(zero && end && stride(d) == 1) {
            let at = i64::try_from(d).unwrap_or(0);
            parts.push((at, start.clone(), limit.clone(), stride(d)));
        }
    }
    if parts.is_empty() {
        return Ok(w.node("Identity", &[x], vec![]));
    }
    // A limit of -1 of what goes down is before the first element: in ONNX that is far below it.
    let number = |bound: &Bound, is_limit: bool, step: i64| match bound {
        Bound::End if step < 0 && !is_limit => Some(i64::MAX),
        Bound::End => Some(i64::MAX),
        Bound::At(size) => {
            let n = size.as_constant().and_then(|n| i64::try_from(n).ok())?;
            Some(if n < 0 && is_limit { i64::MIN } else { n })
        }
    };
    let side = |w: &mut Writer<'_>, is_limit: bool| -> Outcome<String> {
        let pick = |p: &(i64, Bound, Bound, i64)| if is_limit { p.2.clone() } else { p.1.clone() };
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
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        Ok(w.node("Concat", &names, vec![int("axis", 0)]))
    };
    if w.opset < 10 {
        let all = |limit: bool| -> Option<Vec<i64>> {
            let of =
                |p: &(i64, Bound, Bound, i64)| number(if limit { &p.2 } else { &p.1 }, limit, p.3);
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

/// A part or repetition that the program leaves where it is: ONNX copies it.
fn subview(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Subview>(data)?;
    let x = w.name(data.operands[0])?;
    let to = w.tensor(data.results[0])?.dims.clone();
    if made.broadcast {
        let shape = w.shape(&to, false)?;
        return Ok(w.node("Expand", &[&x, &shape], vec![]));
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
    if w.opset < 11 {
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

/// An operator whose indices are integers of 32 or 64 bits.
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
    let given: Vec<&str> = given.iter().map(String::as_str).collect();
    Ok(Some(vec![w.node(op_type, &given, attrs)]))
}

/// Indices in a type that operators take.
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
    if w.opset < since {
        return Err(w.without_form(data, &format!("this reduction came with version {since}")));
    }
    Ok(vec![text("reduction", kind.word())])
}

fn top_k(w: &mut Writer<'_>, data: &OpData) -> Outcome<Vec<String>> {
    let made = w.typed::<TopK>(data)?;
    let x = w.name(data.operands[0])?;
    let k = match made.k {
        TopK::ALL => {
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
            w.shape(all.as_slice(), false)?
        }
        k => w.list(&[k])?,
    };
    let attrs = vec![
        int("axis", made.axis),
        int("largest", made.largest),
        int("sorted", made.sorted),
    ];
    let mut names = w.several("TopK", &[&x, &k], attrs, 2);
    if let (Some(&at), Some(name)) = (data.results.get(1), names.get(1).cloned()) {
        names[1] = cast(w, &name, optc_ir::DType::SI64, w.tensor(at)?.dtype)?;
    }
    Ok(names)
}

/// A value in another element type.
pub(super) fn cast(
    w: &mut Writer<'_>,
    name: &str,
    from: optc_ir::DType,
    to: optc_ir::DType,
) -> Outcome<String> {
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
    let indices = wide(w, data.operands[0], &indices, false)?;
    let depth = w.list(&[made.depth])?;
    let to = w.tensor(data.results[0])?.dtype;
    let values = match data.operands.get(1) {
        Some(&values) => w.name(values)?,
        None => w.literal(&Tensor::from_f64(to, vec![2], [0.0, 1.0]))?,
    };
    Ok(w.node(
        "OneHot",
        &[&indices, &depth, &values],
        vec![int("axis", made.axis)],
    ))
}

/// The index along an axis: a constant along it, expanded.
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
    if w.opset < 11 {
        return Err(w.without_form(data, "Range came with version 11"));
    }
    let number = |n: u64| {
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        Tensor::from_i64(optc_ir::DType::SI64, vec![], [n])
    };
    let limit = match length.fixed() {
        Some(n) => w.literal(&number(n))?,
        None => {
            let size = w.size(length)?;
            reshaped(w, &size, &[Dim::Fixed(1)], &[])?
        }
    };
    let (start, step) = (w.literal(&number(0))?, w.literal(&number(1))?);
    let range = w.node("Range", &[&start, &limit, &step], vec![]);
    let range = cast(w, &range, optc_ir::DType::SI64, ty.dtype)?;
    if ty.rank() == 1 {
        return Ok(range);
    }
    let mut column = vec![Dim::Fixed(1); ty.rank()];
    column[at] = ty.dims[at].clone();
    let column = reshaped(w, &range, &ty.dims[at..=at], &column)?;
    let shape = w.shape(&ty.dims, false)?;
    Ok(w.node("Expand", &[&column, &shape], vec![]))
}
