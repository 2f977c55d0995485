//! Result types of standard operators that stay opaque, so that their readers need not stay opaque, too. Sizes that
//! depend on elements are unknown.

use crate::entries::Entry;
use crate::functions::standard;
use crate::node::NodeCx;
use crate::tensor::{self, Declared};
use optc_ir::size::Size;
use optc_ir::{DType, Dim, TensorType};
use optc_onnx_proto::GraphProto;
use prost::Message;

/// Norms of onnxruntime that also return statistics of their rows.
const NORMS: [&str; 3] = [
    "SimplifiedLayerNormalization",
    "SkipLayerNormalization",
    "SkipSimplifiedLayerNormalization",
];

/// The type of output `i`; `None` if not even its rank is known.
pub(crate) fn result(cx: &NodeCx<'_, '_>, i: usize) -> Option<TensorType> {
    if let Some(ty) = of_onnxruntime(cx, i) {
        return Some(ty);
    }
    let op = cx.node.op_type.as_str();
    if !standard(&cx.node.domain).is_empty() {
        // Its weights are transposed: `[directions, hidden, gates]`.
        let quantized = op == "DynamicQuantizeLSTM" && i < 3;
        let weights = operand(cx, 2).filter(|_| quantized)?;
        let [directions, hidden, gates] = &weights.dims[..] else {
            return None;
        };
        let dims = vec![directions.clone(), gates.clone(), hidden.clone()];
        return recurrent(
            i,
            cx,
            &operand(cx, 0)?,
            &TensorType::new(dims, weights.dtype),
        );
    }
    match (op, i) {
        ("If", _) => branches(cx, i),
        ("Loop", _) => loop_result(cx, i),
        ("GRU" | "LSTM" | "RNN", 0..=2) => recurrent(i, cx, &operand(cx, 0)?, &operand(cx, 2)?),
        _ => like_operand(cx, op, i)
            .or_else(|| selected(cx, op, i))
            .or_else(|| cut(cx, op, i))
            .or_else(|| of_windows(cx, op, i)),
    }
}

/// Operators whose result has the shape of an operand, or one that an attribute or an operand gives.
fn like_operand(cx: &NodeCx<'_, '_>, op: &str, i: usize) -> Option<TensorType> {
    match (op, i) {
        ("BatchNormalization" | "Bernoulli" | "CumProd" | "CumSum" | "Dropout" | "Trilu", 0)
        | ("RandomNormalLike" | "RandomUniformLike", 0) => {
            let ty = operand(cx, 0)?;
            let dtype = chosen_dtype(cx, ty.dtype)?;
            Some(TensorType::new(ty.dims, dtype))
        }
        ("Dropout", 1) => Some(TensorType::new(operand(cx, 0)?.dims, DType::BOOL)),
        ("RandomNormal" | "RandomUniform", 0) => {
            let dims = cx.ints("shape")?.into_iter().map(extent).collect();
            Some(TensorType::new(dims, chosen_dtype(cx, DType::F32)?))
        }
        ("Multinomial", 0) => {
            let batch = operand(cx, 0)?.dims.into_iter().next()?;
            let dims = vec![batch, extent(cx.int("sample_size").unwrap_or(1))];
            Some(TensorType::new(dims, chosen_dtype(cx, DType::SI32)?))
        }
        ("ConstantOfShape", 0) => {
            let dtype = match cx.tensor_attr("value").ok()? {
                Some(value) => value.ty.dtype,
                None => DType::F32,
            };
            Some(TensorType::new(sizes(cx, 0)?, dtype))
        }
        ("Range", 0) => Some(TensorType::new(vec![Dim::Unknown], operand(cx, 0)?.dtype)),
        (op, 0) if op.starts_with("Reduce") && cx.flag("keepdims", true) => {
            let ty = operand(cx, 0)?;
            Some(TensorType::new(vec![Dim::Unknown; ty.rank()], ty.dtype))
        }
        _ => None,
    }
}

/// Operators that select elements or number them.
fn selected(cx: &NodeCx<'_, '_>, op: &str, i: usize) -> Option<TensorType> {
    match (op, i) {
        ("NonZero", 0) => {
            let rank = operand(cx, 0)?.rank() as u64;
            Some(indices(vec![Dim::Fixed(rank), Dim::Unknown]))
        }
        ("NonMaxSuppression", 0) => Some(indices(vec![Dim::Unknown, Dim::Fixed(3)])),
        ("Unique", 0) => picked(cx),
        ("Unique", 1..=3) => Some(indices(vec![Dim::Unknown])),
        ("Compress", 0) => picked(cx),
        ("OneHot", 0) => {
            let (mut dims, dtype) = (operand(cx, 0)?.dims, operand(cx, 2)?.dtype);
            let axis = cx.axis(cx.int("axis").unwrap_or(-1), dims.len() + 1).ok()?;
            dims.insert(axis, Dim::Unknown);
            Some(TensorType::new(dims, dtype))
        }
        ("TopK", 0 | 1) => {
            let ty = operand(cx, 0)?;
            let axis = cx.axis(cx.int("axis").unwrap_or(-1), ty.rank()).ok()?;
            let ty = without(ty, &[axis]);
            Some(if i == 0 { ty } else { indices(ty.dims) })
        }
        _ => None,
    }
}

/// Operators that reshape, cut, pad or repeat their operand.
fn cut(cx: &NodeCx<'_, '_>, op: &str, i: usize) -> Option<TensorType> {
    match (op, i) {
        ("Expand", 0) => expanded(cx),
        ("Reshape", 0) => reshaped(cx),
        ("Split", _) => {
            let ty = operand(cx, 0)?;
            let axis = cx.axis(cx.int("axis").unwrap_or(0), ty.rank()).ok()?;
            Some(without(ty, &[axis]))
        }
        ("Squeeze" | "Unsqueeze", 0) => with_axes(cx, op == "Squeeze"),
        ("Slice", 0) => along(cx, 3),
        ("Pad", 0) => along(cx, 3),
        ("CenterCropPad", 0) => {
            let ty = operand(cx, 0)?;
            let axes = match cx.ints("axes") {
                Some(axes) => cx.axes(&axes, ty.rank()).ok()?,
                None => (0..ty.rank()).collect(),
            };
            Some(without(ty, &axes))
        }
        ("Tile" | "Resize" | "Upsample", 0) => {
            let ty = operand(cx, 0)?;
            let axes: Vec<usize> = (0..ty.rank()).collect();
            Some(without(ty, &axes))
        }
        _ => None,
    }
}

/// Operators on images, signals and matrices.
fn of_windows(cx: &NodeCx<'_, '_>, op: &str, i: usize) -> Option<TensorType> {
    match (op, i) {
        ("Det", 0) => {
            let mut ty = operand(cx, 0)?;
            ty.dims.truncate(ty.rank().checked_sub(2)?);
            Some(ty)
        }
        ("Col2Im", 0) => columns(cx),
        ("DFT", 0) => fourier(cx),
        ("STFT", 0) => frames(cx),
        ("AveragePool" | "LpPool" | "MaxPool", 0) => padded_alike(cx, None),
        ("MaxPool", 1) => Some(indices(padded_alike(cx, None)?.dims)),
        ("Conv", 0) => padded_alike(cx, operand(cx, 1)?.dims.into_iter().next()),
        ("RoiAlign", 0) => {
            let (x, rois) = (operand(cx, 0)?, operand(cx, 1)?);
            let size = |name: &str| extent(cx.int(name).unwrap_or(1));
            let (rows, columns) = (size("output_height"), size("output_width"));
            let dims = vec![
                rois.dims.first()?.clone(),
                x.dims.get(1)?.clone(),
                rows,
                columns,
            ];
            Some(TensorType::new(dims, x.dtype))
        }
        ("MaxRoiPool", 0) => {
            let (x, rois) = (operand(cx, 0)?, operand(cx, 1)?);
            let mut dims = vec![rois.dims.first()?.clone(), x.dims.get(1)?.clone()];
            dims.extend(cx.ints("pooled_shape")?.into_iter().map(extent));
            Some(TensorType::new(dims, x.dtype))
        }
        ("DeformConv", 0) => {
            let (x, weights, offsets) = (operand(cx, 0)?, operand(cx, 1)?, operand(cx, 2)?);
            let mut dims = vec![x.dims.first()?.clone(), weights.dims.first()?.clone()];
            dims.extend(offsets.dims.get(2..)?.iter().cloned());
            Some(TensorType::new(dims, x.dtype))
        }
        _ => None,
    }
}

/// The result of windows that are padded to have one position for each stride, of other windows with unknown extents.
fn padded_alike(cx: &NodeCx<'_, '_>, channels: Option<Dim>) -> Option<TensorType> {
    let mut ty = operand(cx, 0)?;
    let same = cx
        .string("auto_pad")
        .is_some_and(|mode| mode.starts_with("SAME_"));
    let strides = cx.ints("strides");
    let spatial = ty.dims.get_mut(2..)?.iter_mut();
    for (i, dim) in spatial.enumerate() {
        let stride = strides.as_ref().map_or(Some(1), |all| all.get(i).copied());
        let positions = |by: i64| {
            dim.size()?
                .quotient_up(&Size::from(u64::try_from(by).ok()?))
        };
        let positions = stride.filter(|&by| same && 0 < by).and_then(positions);
        *dim = positions.map_or(Dim::Unknown, |n| Dim::of_size(&n));
    }
    if let Some(channels) = channels {
        *ty.dims.get_mut(1)? = channels;
    }
    Some(ty)
}

/// The type of output `i` of an operator of onnxruntime.
fn of_onnxruntime(cx: &NodeCx<'_, '_>, i: usize) -> Option<TensorType> {
    let op = cx.node.op_type.as_str();
    if NORMS.contains(&op) && (1..3).contains(&i) {
        let mut statistics = operand(cx, 0)?;
        *statistics.dims.last_mut()? = Dim::Fixed(1);
        statistics.dtype = DType::F32;
        return Some(statistics);
    }
    if cx.node.domain != "com.microsoft" {
        return None;
    }
    match (op, i) {
        ("RotaryEmbedding", 0) => operand(cx, 0),
        ("MatMulNBits", 0) => {
            let mut ty = operand(cx, 0)?;
            *ty.dims.last_mut()? = extent(cx.int("N")?);
            Some(ty)
        }
        ("GroupQueryAttention", 0) => {
            let mut ty = operand(cx, 0)?;
            let hidden = ty.dims.get_mut(2)?;
            if cx.input(1).is_none() {
                let [heads, kv_heads] = ["num_heads", "kv_num_heads"].map(|name| cx.int(name));
                let (heads, kv_heads) = (heads?, kv_heads?);
                let all = heads.checked_add(kv_heads.checked_mul(2)?)?;
                let packed = hidden.fixed().and_then(|n| i64::try_from(n).ok());
                let packed = packed.filter(|n| 0 < all && n % all == 0);
                *hidden = packed.map_or(Dim::Unknown, |n| extent(n / all * heads));
            }
            Some(ty)
        }
        ("GroupQueryAttention", 1 | 2) => {
            let past = operand(cx, i + 2)?;
            (past.rank() == 4).then(|| without(past, &[2]))
        }
        _ => None,
    }
}

fn operand(cx: &NodeCx<'_, '_>, i: usize) -> Option<TensorType> {
    Some(cx.ty(cx.input(i)?).ok()?.without_layout())
}

/// The element type of the attribute `dtype`, if it is there.
fn chosen_dtype(cx: &NodeCx<'_, '_>, default: DType) -> Option<DType> {
    match cx.int("dtype") {
        Some(code) => optc_onnx_proto::dtype(i32::try_from(code).ok()?).ok(),
        None => Some(default),
    }
}

fn extent(n: i64) -> Dim {
    u64::try_from(n).map_or(Dim::Unknown, Dim::Fixed)
}

fn indices(dims: Vec<Dim>) -> TensorType {
    TensorType::new(dims, DType::SI64)
}

/// The type with unknown sizes along these axes.
fn without(mut ty: TensorType, axes: &[usize]) -> TensorType {
    for &axis in axes {
        ty.dims[axis] = Dim::Unknown;
    }
    ty
}

/// The operand with more or fewer dimensions. Input 1 lists these, but is not known; only their number is.
fn with_axes(cx: &NodeCx<'_, '_>, fewer: bool) -> Option<TensorType> {
    let (ty, axes) = (operand(cx, 0)?, operand(cx, 1)?);
    let [count] = &axes.dims[..] else {
        return None;
    };
    let count = usize::try_from(count.fixed()?).ok()?;
    let rank = if fewer {
        ty.rank().checked_sub(count)?
    } else {
        ty.rank().checked_add(count)?
    };
    let known = rank <= MAX_RANK as usize;
    known.then(|| TensorType::new(vec![Dim::Unknown; rank], ty.dtype))
}

/// The operand's type with unknown extents along the axes that input `i` lists; along all axes if the list is computed
/// or absent.
fn along(cx: &NodeCx<'_, '_>, i: usize) -> Option<TensorType> {
    let ty = operand(cx, 0)?;
    let axes = match cx.const_ints(i) {
        Some(axes) => cx.axes(&axes, ty.rank()).ok()?,
        None => (0..ty.rank()).collect(),
    };
    Some(without(ty, &axes))
}

/// Some of the elements, or of the slices along `axis`.
fn picked(cx: &NodeCx<'_, '_>) -> Option<TensorType> {
    let ty = operand(cx, 0)?;
    match cx.int("axis") {
        Some(axis) => {
            let axis = cx.axis(axis, ty.rank()).ok()?;
            Some(without(ty, &[axis]))
        }
        None => Some(TensorType::new(vec![Dim::Unknown], ty.dtype)),
    }
}

/// The sizes in a shape input; computed ones are unknown.
fn sizes(cx: &NodeCx<'_, '_>, i: usize) -> Option<Vec<Dim>> {
    if let Some(entries) = cx.entries(i) {
        let size = |entry: Entry| match entry {
            Entry::Int(n) => extent(n),
            Entry::Size(size) => Dim::of_size(&size),
            Entry::Ratio(..) | Entry::Below(..) | Entry::Unknown => Dim::Unknown,
        };
        return Some(entries.into_iter().map(size).collect());
    }
    let shape = operand(cx, i)?;
    let rank = shape.dims.first()?.fixed().filter(|&n| n <= MAX_RANK)?;
    Some((0..rank).map(|_| Dim::Unknown).collect())
}

/// The most dimensions that a computed shape may have.
const MAX_RANK: u64 = 64;

/// The operand's sizes, broadcast with the wanted ones.
fn expanded(cx: &NodeCx<'_, '_>) -> Option<TensorType> {
    let ty = operand(cx, 0)?;
    let mut dims = sizes(cx, 1)?;
    while dims.len() < ty.rank() {
        dims.insert(0, Dim::Fixed(1));
    }
    let lead = dims.len() - ty.rank();
    for (dim, own) in dims[lead..].iter_mut().zip(&ty.dims) {
        let known = own.fixed().filter(|&n| 1 < n);
        *dim = match (dim.fixed(), known) {
            (_, Some(n)) => Dim::Fixed(n),
            (Some(n), None) if 1 < n => Dim::Fixed(n),
            (Some(_), None) => own.clone(),
            (None, None) if own.is_one() => dim.clone(),
            (None, None) => Dim::Unknown,
        };
    }
    Some(TensorType::new(dims, ty.dtype))
}

/// The wanted sizes; 0 is the operand's size, and -1 and computed ones are unknown.
fn reshaped(cx: &NodeCx<'_, '_>) -> Option<TensorType> {
    let ty = operand(cx, 0)?;
    let mut dims = sizes(cx, 1)?;
    if !cx.flag("allowzero", false) {
        for (d, dim) in dims.iter_mut().enumerate() {
            if dim.fixed() == Some(0) {
                *dim = ty.dims.get(d)?.clone();
            }
        }
    }
    Some(TensorType::new(dims, ty.dtype))
}

/// `Col2Im`: columns of blocks are placed into an image, `[N, C * block, L]` to `[N, C, image…]`.
fn columns(cx: &NodeCx<'_, '_>) -> Option<TensorType> {
    let ty = operand(cx, 0)?;
    let image = sizes(cx, 1)?;
    let block = cx.const_ints(2)?;
    let block = block.iter().try_fold(1u64, |all, &n| {
        all.checked_mul(u64::try_from(n).ok().filter(|&n| 0 < n)?)
    })?;
    let channels = ty.dims.get(1)?.fixed().filter(|n| n.is_multiple_of(block));
    let mut dims = vec![ty.dims.first()?.clone()];
    dims.push(channels.map_or(Dim::Unknown, |n| Dim::Fixed(n / block)));
    dims.extend(image);
    Some(TensorType::new(dims, ty.dtype))
}

/// `STFT` of `[batch, samples, …]` to `[batch, frames, frequencies, 2]`.
fn frames(cx: &NodeCx<'_, '_>) -> Option<TensorType> {
    let ty = operand(cx, 0)?;
    let number = |i: usize| {
        cx.const_ints(i)?
            .first()
            .and_then(|&n| u64::try_from(n).ok())
    };
    let length = match (cx.input(3), cx.input(2)) {
        (Some(_), _) => number(3),
        (None, Some(_)) => operand(cx, 2)?.dims.first()?.fixed(),
        (None, None) => ty.dims.get(1)?.fixed(),
    };
    let frequencies = length.map(|n| match cx.flag("onesided", true) {
        true => n / 2 + 1,
        false => n,
    });
    let count = || {
        let (length, step) = (length?, number(1).filter(|&n| 0 < n)?);
        let rest = ty.dims.get(1)?.size()?.minus(&Size::from(length))?;
        rest.quotient(&Size::from(step))?.plus(&Size::from(1))
    };
    let frames = count().filter(|n| n.as_constant().is_none_or(|n| 1 <= n));
    let dims = vec![
        ty.dims.first()?.clone(),
        frames.map_or(Dim::Unknown, |n| Dim::of_size(&n)),
        frequencies.map_or(Dim::Unknown, Dim::Fixed),
        Dim::Fixed(2),
    ];
    Some(TensorType::new(dims, ty.dtype))
}

/// `DFT` of `[…, 1 or 2]`: real and imaginary parts; a one-sided one has half of the frequencies.
fn fourier(cx: &NodeCx<'_, '_>) -> Option<TensorType> {
    let mut ty = operand(cx, 0)?;
    let rank = ty.rank();
    let axis = match (cx.opset < 20, cx.input(2)) {
        (true, _) => cx.int("axis").unwrap_or(1),
        (false, None) => -2,
        (false, Some(_)) => *cx.const_ints(2)?.first()?,
    };
    let axis = cx.axis(axis, rank).ok()?;
    let (one_sided, inverse) = (cx.flag("onesided", false), cx.flag("inverse", false));
    let length = match cx.input(1) {
        Some(_) => cx
            .const_ints(1)
            .and_then(|n| u64::try_from(*n.first()?).ok()),
        None if one_sided && inverse => ty.dims[axis]
            .fixed()
            .map(|n| n.saturating_sub(1).saturating_mul(2)),
        None => ty.dims[axis].fixed(),
    };
    let results = match one_sided && !inverse {
        false => length,
        true => length.map(|n| n / 2 + 1),
    };
    ty.dims[axis] = results.map_or(Dim::Unknown, Dim::Fixed);
    *ty.dims.last_mut()? = Dim::Fixed(if one_sided && inverse { 1 } else { 2 });
    Some(ty)
}

/// The common declared type of both branches for output `i`; sizes in which they differ are unknown.
fn branches(cx: &NodeCx<'_, '_>, i: usize) -> Option<TensorType> {
    let yes = declared_inside(cx, "then_branch", i)?;
    let no = declared_inside(cx, "else_branch", i)?;
    either(yes, &no)
}

/// The type of output `i` of a `Loop`. A carried value has the common sizes of its first value and the body's
/// declaration. The other outputs stack the results of all rounds.
fn loop_result(cx: &NodeCx<'_, '_>, i: usize) -> Option<TensorType> {
    let carried = cx.node.input.len().checked_sub(2)?;
    let body = declared_inside(cx, "body", i + 1)?;
    if i < carried {
        return either(operand(cx, i + 2)?, &body);
    }
    let dims = std::iter::once(Dim::Unknown).chain(body.dims).collect();
    Some(TensorType::new(dims, body.dtype))
}

/// The common type of two types; sizes that differ, or that are unknown in one of them, are unknown.
fn either(a: TensorType, b: &TensorType) -> Option<TensorType> {
    if a.dtype != b.dtype || a.rank() != b.rank() {
        return None;
    }
    let pairs = a.dims.into_iter().zip(&b.dims);
    let same = |(a, b): (Dim, &Dim)| if a.same(b) { a } else { Dim::Unknown };
    Some(TensorType::new(pairs.map(same).collect(), a.dtype))
}

/// The type that the subgraph of this attribute declares for its output `i`.
fn declared_inside(cx: &NodeCx<'_, '_>, name: &str, i: usize) -> Option<TensorType> {
    let graph = GraphProto::decode(cx.attr(name)?.g.clone()?).ok()?;
    match tensor::declared(graph.output.get(i)?.ty.as_ref()) {
        Declared::Tensor(ty) => Some(ty),
        Declared::Unranked(_) | Declared::Dtype(_) | Declared::Other => None,
    }
}

/// The type of all states, of the last state, or of the last cell of a recurrent operator. `x` is `[length, batch,
/// input]`, the recurrence weights are `[directions, gates, hidden]`.
fn recurrent(
    i: usize,
    cx: &NodeCx<'_, '_>,
    x: &TensorType,
    weights: &TensorType,
) -> Option<TensorType> {
    let [first, second, _] = &x.dims[..] else {
        return None;
    };
    let [directions, _, hidden] = &weights.dims[..] else {
        return None;
    };
    let by_batch = cx.int("layout").unwrap_or(0) == 1;
    let dims: Vec<&Dim> = match (i, by_batch) {
        (0, false) => vec![first, directions, second, hidden],
        (0, true) => vec![first, second, directions, hidden],
        (_, false) => vec![directions, second, hidden],
        (_, true) => vec![first, directions, hidden],
    };
    Some(TensorType::new(
        dims.into_iter().cloned().collect(),
        x.dtype,
    ))
}
