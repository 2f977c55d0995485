//! Parts, padding, and reading by index.

use super::constant::number_text;
use super::func::{Outcome, Writer, list};
use super::ops::{one, shaped, sizes};
use super::shape::tensor_text;
use optc_ir::{Attr, DType, Op, OpData, TensorType, Value};

/// The name of the result; nothing where the operation is none of these.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    match &*data.name {
        "hbir.slice" => slice(w, data, ty),
        "hbir.subview" if data.props.flag("broadcast") => w.spread(data.operands[0], ty).map(Some),
        "hbir.subview" => slice(w, data, ty),
        "hbir.pad" => pad(w, data, ty),
        "hbir.tile" => tile(w, data, ty),
        "hbir.gather" => gather(w, data, ty),
        "hbir.dynamic_update_slice" => update_slice(w, data, ty),
        _ => Ok(None),
    }
}

fn slice(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let from = w.tensor(data.operands[0])?.clone();
    let (Some(shape), Some(out)) = (sizes(&from), sizes(ty)) else {
        return Ok(None);
    };
    let (Some(starts), Some(_)) = (data.props.ints("starts"), data.props.ints("limits")) else {
        return Ok(None);
    };
    let strides = data
        .props
        .ints("strides")
        .unwrap_or_else(|| vec![1; shape.len()]);
    if starts.len() != shape.len() || strides.len() != shape.len() {
        return Ok(None);
    }
    let mut parts = Vec::with_capacity(shape.len());
    let mut backward = Vec::new();
    for (d, (&start, &stride)) in starts.iter().zip(&strides).enumerate() {
        let (n, count) = (shape[d] as i64, out[d] as i64);
        let step = stride.abs().max(1);
        // Backward, the part starts where the walk ends.
        let reach = (count - 1).max(0) * step;
        let first = if stride < 0 {
            start.min(n - 1) - reach
        } else {
            start.min(n)
        };
        let limit = if count == 0 { first } else { first + reach + 1 };
        if stride < 0 && 1 < count {
            backward.push(d);
        }
        let colon = if step == 1 {
            String::new()
        } else {
            format!(":{step}")
        };
        parts.push(format!("[{first}:{limit}{colon}]"));
    }
    let attrs = format!(", slice={{{}}}", parts.join(", "));
    if backward.is_empty() && data.attrs.str("hlo.async") == Some("slice") {
        let (x, to) = (w.name(data.operands[0])?, tensor_text(ty)?);
        let shape = format!("(({}), {to}, s32[])", tensor_text(&from)?);
        let start = w.raw(&shape, "slice-start", &[x], &attrs);
        w.started(data.results[0], start, "slice", &to);
        return Ok(Some(String::new()));
    }
    let name = one(w, "slice", data.operands[0], ty, &attrs)?;
    if backward.is_empty() {
        return Ok(Some(name));
    }
    let attrs = format!(", dimensions={}", list(&backward));
    w.put(ty, "reverse", &[name], &attrs).map(Some)
}

/// HLO wants starts of one element type.
fn update_slice(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let mut names = Vec::with_capacity(data.operands.len());
    let mut starts: Option<DType> = None;
    for (i, &value) in data.operands.iter().enumerate() {
        let dtype = w.tensor(value)?.dtype;
        if 2 <= i && *starts.get_or_insert(dtype) != dtype {
            return Ok(None);
        }
        names.push(w.name(value)?);
    }
    w.put(ty, "dynamic-update-slice", &names, "").map(Some)
}

/// The parts of a split, one slice each.
pub(super) fn split(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    let from = w.tensor(data.operands[0])?.clone();
    let axis = data.props.int("axis").unwrap_or(0);
    let axis = if axis < 0 {
        axis + from.rank() as i64
    } else {
        axis
    };
    let shapes: Option<Vec<Vec<u64>>> = data
        .results
        .iter()
        .map(|&v| w.func.ty(v).as_tensor().and_then(TensorType::shape))
        .collect();
    let (Some(shapes), Ok(axis)) = (shapes, usize::try_from(axis)) else {
        return super::ops::custom_call(w, op);
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
        let name = one(w, "slice", data.operands[0], &ty, &attrs)?;
        w.called(value, name);
        at += shape.get(axis).copied().unwrap_or(0);
    }
    Ok(())
}

fn pad(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    if data
        .props
        .str("mode")
        .is_some_and(|mode| mode != "constant")
        || ty.rank() == 0
    {
        return Ok(None);
    }
    let amounts = |name: &str| data.props.ints(name).unwrap_or_else(|| vec![0; ty.rank()]);
    let pairs: Vec<String> = amounts("low")
        .iter()
        .zip(amounts("high"))
        .map(|(low, high)| format!("{low}_{high}"))
        .collect();
    let value = data.props.float("value").unwrap_or(0.0);
    let text = number_text(value, ty.dtype);
    let x = w.name(data.operands[0])?;
    let fill = w.scalar(&text, ty.dtype);
    let attrs = format!(", padding={}", pairs.join("x"));
    w.put(ty, "pad", &[x, fill], &attrs).map(Some)
}

fn tile(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let from = w.tensor(data.operands[0])?.clone();
    let (Some(shape), Some(repeats)) = (sizes(&from), data.props.ints("repeats")) else {
        return Ok(None);
    };
    let mut wide = Vec::with_capacity(2 * shape.len());
    for (&n, &times) in shape.iter().zip(&repeats) {
        wide.extend([u64::try_from(times).unwrap_or(0), n]);
    }
    let dims: Vec<usize> = (0..shape.len()).map(|d| 2 * d + 1).collect();
    let attrs = format!(", dimensions={}", list(&dims));
    let y = one(
        w,
        "broadcast",
        data.operands[0],
        &shaped(&from, &wide),
        &attrs,
    )?;
    w.put(ty, "reshape", &[y], "").map(Some)
}

/// Whether indices are known to lie above 0: then none counts from the end.
fn is_bounded(w: &Writer<'_>, indices: Value) -> bool {
    let Some(data) = w.defining(indices) else {
        return false;
    };
    match &*data.name {
        "hbir.clamp" => data.props.float("min").is_some_and(|min| 0.0 <= min),
        "hbir.view" | "hbir.reshape" | "hbir.layout_convert" => is_bounded(w, data.operands[0]),
        "hbir.constant" => {
            let Some(Attr::Dense(dense)) = data.props.get("value") else {
                return false;
            };
            let tensor = optc_ops::dense_tensor(dense).ok();
            tensor.is_some_and(|t| (0..t.len()).all(|i| 0 <= t.i64_at(i)))
        }
        _ => false,
    }
}

fn gather(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<Option<String>> {
    let from = w.tensor(data.operands[0])?.clone();
    let places = w.tensor(data.operands[1])?.clone();
    let (Some(mut slices), rank) = (sizes(&from), from.rank() as i64) else {
        return Ok(None);
    };
    let axis = data.props.int("axis").unwrap_or(0);
    let Ok(axis) = usize::try_from(if axis < 0 { axis + rank } else { axis }) else {
        return Ok(None);
    };
    let n = slices[axis];
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
        let (zero, size) = (w.filled("0", &own)?, w.filled(&n.to_string(), &own)?);
        let below = w.put(&test, "compare", &[indices.clone(), zero], ", direction=LT")?;
        let moved = w.put(&own, "add", &[indices.clone(), size], "")?;
        indices = w.put(&own, "select", &[below, moved, indices], "")?;
    }
    let offsets: Vec<usize> = (0..ty.rank())
        .filter(|d| *d < axis || axis + places.rank() <= *d)
        .collect();
    slices[axis] = 1;
    let attrs = format!(
        ", offset_dims={}, collapsed_slice_dims={{{axis}}}, start_index_map={{{axis}}}, \
         index_vector_dim={}, slice_sizes={}",
        list(&offsets),
        places.rank(),
        list(&slices)
    );
    w.put(ty, "gather", &[x, indices], &attrs).map(Some)
}
