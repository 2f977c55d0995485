//! Batch norms and rotary embeddings: full-size work around a small table.
//!
//! Example: a batch norm computes `rsqrt(variance + epsilon) * scale` for each channel, broadcasts it, and multiplies the
//! centred operand by it.

use super::elementwise::Elementwise;
use super::func::{Outcome, Writer, list};
use super::shape::{shaped, sizes};
use crate::unwritten::{Form, Unwritten, known};
use optc_ir::op::Operation;
use optc_ir::{DType, OpData, TensorType, Value};
use optc_ops::{BatchNorm, RotaryEmbedding};

/// Writes one of these operations and returns the name of the result. Any other operation has no form here.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    match &*data.name {
        BatchNorm::NAME => batch_norm(w, data, ty),
        RotaryEmbedding::NAME => rotary_embedding(w, data, ty),
        _ => Err(Unwritten::NoForm),
    }
}

/// The accumulator type for sums of narrow floats: f32, in the layout of `ty` if `ty` is wide enough already.
pub(super) fn wide(ty: &TensorType) -> TensorType {
    match ty.dtype {
        DType::F32 | DType::F64 => ty.clone(),
        _ => TensorType {
            dtype: DType::F32,
            ..ty.without_layout()
        },
    }
}

/// `1 / sqrt(variance + epsilon)`.
fn root(w: &mut Writer<'_>, variance: &String, ty: &TensorType, epsilon: f64) -> Outcome<String> {
    let mut e = Elementwise { w, ty };
    let epsilon = e.number(epsilon)?;
    let sum = e.of("add", &[variance, &epsilon])?;
    e.of("rsqrt", &[&sum])
}

/// A vector with one number for each channel, converted to at least f32, before it is broadcast.
fn channel_numbers(w: &mut Writer<'_>, value: Value) -> Outcome<(String, TensorType)> {
    let own = w.tensor(value)?.clone();
    let ty = TensorType {
        dtype: wide(&own).dtype,
        ..own.without_layout()
    };
    Ok((w.one("convert", value, &ty, "")?, ty))
}

/// A vector with one number for each channel, broadcast to `ty`.
fn by_channel(w: &mut Writer<'_>, x: String, ty: &TensorType) -> Outcome<String> {
    w.put(ty, "broadcast", &[x], ", dimensions={1}")
}

fn batch_norm(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let BatchNorm { epsilon } = w.typed(data)?;
    let &[x, scale, bias, mean, variance] = &data.operands[..] else {
        return Err(Unwritten::NoForm);
    };
    let wide = wide(ty);
    let (scale, flat) = channel_numbers(w, scale)?;
    let (bias, _) = channel_numbers(w, bias)?;
    let (mean, _) = channel_numbers(w, mean)?;
    let (variance, _) = channel_numbers(w, variance)?;
    let root = root(w, &variance, &flat, epsilon)?;
    let factor = w.put(&flat, "multiply", &[root, scale], "")?;
    let x = w.one("convert", x, &wide, "")?;
    let mean = by_channel(w, mean, &wide)?;
    let y = w.put(&wide, "subtract", &[x, mean], "")?;
    let factor = by_channel(w, factor, &wide)?;
    let y = w.put(&wide, "multiply", &[y, factor], "")?;
    let bias = by_channel(w, bias, &wide)?;
    let y = w.put(&wide, "add", &[y, bias], "")?;
    Ok(w.put(ty, "convert", &[y], "")?)
}

/// Cosines or sines for every pair of elements: `[batch, sequence, pairs]`; the batch may be 1.
fn angles(
    w: &mut Writer<'_>,
    data: &OpData,
    table: Value,
    pairs: &TensorType,
    sequence: usize,
) -> Form<String> {
    let shape = known(sizes(w.tensor(table)?))?;
    let (mut name, mut own) = channel_numbers(w, table)?;
    if let Some(&positions) = data.operands.get(3) {
        let places = known(sizes(w.tensor(positions)?))?;
        let half = shape.get(1).copied().unwrap_or(0);
        own = shaped(&own, &[&places[..], &[half]].concat());
        let positions = w.name(positions)?;
        let attrs = format!(
            ", offset_dims={{2}}, collapsed_slice_dims={{0}}, start_index_map={{0}}, \
             index_vector_dim=2, slice_sizes={{1,{half}}}"
        );
        name = w.put(&own, "gather", &[name, positions], &attrs)?;
    }
    let found = known(sizes(&own))?;
    let &[batch, length, half] = &found[..] else {
        return Err(Unwritten::NoForm);
    };
    let wanted = sizes(pairs).and_then(|s| s.first().copied());
    let mut dims = vec![sequence, 3];
    if Some(batch) == wanted {
        dims.insert(0, 0);
    } else {
        name = w.put(&shaped(&own, &[length, half]), "reshape", &[name], "")?;
    }
    let attrs = format!(", dimensions={}", list(&dims));
    Ok(w.put(pairs, "broadcast", &[name], &attrs)?)
}

/// The two elements of each pair that is rotated: neighbours in the last dimension, or elements half its rotated part
/// apart. `pairs` is the type of one of them, and `shape` its extents.
fn halves(
    w: &mut Writer<'_>,
    x: &String,
    (pairs, shape): (&TensorType, &[u64; 4]),
    interleaved: bool,
) -> Outcome<[String; 2]> {
    let [lead @ .., half] = shape;
    let (half, x) = (*half, std::slice::from_ref(x));
    if !interleaved {
        return Ok([
            w.put(pairs, "slice", x, &run(lead, 0, half))?,
            w.put(pairs, "slice", x, &run(lead, half, 2 * half))?,
        ]);
    }
    let with = |inner: &[u64]| shaped(pairs, &[lead.as_slice(), inner].concat());
    let head = w.put(&with(&[2 * half]), "slice", x, &run(lead, 0, 2 * half))?;
    let head = [w.put(&with(&[half, 2]), "reshape", &[head], "")?];
    let mut part = |i: u64| {
        let one = w.put(&with(&[half, 1]), "slice", &head, &run(shape, i, i + 1))?;
        w.put(pairs, "reshape", &[one], "")
    };
    Ok([part(0)?, part(1)?])
}

/// The first elements of the last dimension are rotated in pairs; the others are unchanged.
fn rotary_embedding(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let (about, shape) = (w.typed::<RotaryEmbedding>(data)?, known(sizes(ty))?);
    let sequence = about.sequence()?;
    let size = known(about.rotated(&w.op_ref(data))?)?;
    let &[a, b, c, last] = &shape[..] else {
        return Err(Unwritten::NoForm);
    };
    let wide = wide(ty).without_layout();
    let pairs = shaped(&wide, &[a, b, c, size / 2]);
    let (cos, sin) = (
        angles(w, data, data.operands[1], &pairs, sequence)?,
        angles(w, data, data.operands[2], &pairs, sequence)?,
    );
    let x = w.one("convert", data.operands[0], &wide, "")?;
    let half = size / 2;
    let [left, right] = halves(w, &x, (&pairs, &[a, b, c, half]), about.interleaved)?;
    let mut e = Elementwise { w, ty: &pairs };
    let (cl, sr) = (
        e.of("multiply", &[&cos, &left])?,
        e.of("multiply", &[&sin, &right])?,
    );
    let (sl, cr) = (
        e.of("multiply", &[&sin, &left])?,
        e.of("multiply", &[&cos, &right])?,
    );
    let (first, second) = (e.of("subtract", &[&cl, &sr])?, e.of("add", &[&sl, &cr])?);
    let head = shaped(&wide, &[a, b, c, size]);
    let turned = if about.interleaved {
        let one = shaped(&wide, &[a, b, c, half, 1]);
        let first = w.put(&one, "reshape", &[first], "")?;
        let second = w.put(&one, "reshape", &[second], "")?;
        let both = shaped(&wide, &[a, b, c, half, 2]);
        let both = w.put(&both, "concatenate", &[first, second], ", dimensions={4}")?;
        w.put(&head, "reshape", &[both], "")?
    } else {
        w.put(&head, "concatenate", &[first, second], ", dimensions={3}")?
    };
    let whole = if size == last {
        turned
    } else {
        let rest = shaped(&wide, &[a, b, c, last - size]);
        let rest = w.put(&rest, "slice", &[x], &run(&[a, b, c], size, last))?;
        w.put(&wide, "concatenate", &[turned, rest], ", dimensions={3}")?
    };
    Ok(w.put(ty, "convert", &[whole], "")?)
}

/// The attribute of a slice in the last dimension, with the other dimensions whole.
fn run(others: &[u64], start: u64, limit: u64) -> String {
    let mut parts: Vec<String> = others.iter().map(|n| format!("[0:{n}]")).collect();
    parts.push(format!("[{start}:{limit}]"));
    format!(", slice={{{}}}", parts.join(", "))
}
