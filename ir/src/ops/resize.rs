//! `hbir.resize`: interpolation to another number of elements (ONNX `Resize`).
//!
//! Either `scales`, one factor a dimension (the result has `floor(n * scale)` elements), or `sizes`, the
//! result's extents. Position `o` of the result reads the operand at a place that
//! `coordinate_transformation_mode` gives: half_pixel `(o + 0.5) / s - 0.5`, half_pixel_symmetric (which adds
//! what rounding the size lost), pytorch_half_pixel (0 for one element), align_corners `o * (n - 1) / (m - 1)`,
//! asymmetric `o / s`. `mode` is nearest (`nearest_mode`: round_prefer_floor, round_prefer_ceil, floor, ceil),
//! linear, or cubic (`cubic_coeff_a`, -0.75 when absent); what lies beyond the edge is the edge element, or is
//! left out and the weights scaled to 1 with `exclude_outside`. Where elements become fewer, `antialias`
//! widens the linear and cubic weights by the scale. tf_crop_and_resize resizes the part that `roi`
//! gives (starts, then ends, in parts of `n - 1`); outside of the operand is `extrapolation_value`. Dimensions are independent: one after
//! the other is interpolated, in `f64`, and the result rounded once.

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{marks, or_barrier};
use crate::ops::reduce::Lanes;
use crate::ops::shape::{computed, flag_or, float_or, one, show, word, wrong_kind};
use crate::size::Size;
use crate::tensor::{EvalError, Tensor};
use crate::tile::{Access, Index, LoopKind};
use crate::types::{Dim, TensorType};

const RESIZE: Decl = Decl::new(
    "hbir.resize",
    "resize",
    "interpolation to another number of elements",
    (1, 1),
    infer,
    eval,
)
.freedom(freedom)
.access(access);

const MODES: [&str; 3] = ["nearest", "linear", "cubic"];
const COORDINATES: [&str; 6] = [
    "half_pixel",
    "half_pixel_symmetric",
    "pytorch_half_pixel",
    "align_corners",
    "asymmetric",
    CROP,
];
const CROP: &str = "tf_crop_and_resize";
const ROUNDINGS: [&str; 4] = ["round_prefer_floor", "round_prefer_ceil", "floor", "ceil"];

/// How every dimension is interpolated.
struct Config {
    mode: &'static str,
    coordinates: &'static str,
    rounding: &'static str,
    cubic: f64,
    exclude_outside: bool,
    antialias: bool,
    /// Per dimension where the part that is resized starts and ends, in parts of `n - 1`.
    roi: Vec<(f64, f64)>,
    /// What lies outside of the operand when a part is resized.
    beyond: f64,
}

/// C1: known words. C5: a region has two numbers a dimension, and is there to be cropped.
fn config(op: &OpRef<'_>) -> Result<Config, OpError> {
    let code = "resize-c1";
    let place = "coordinate_transformation_mode";
    let rank = op.operand(0)?.rank();
    let roi = numbers(op, "roi")?;
    let crops = word(op, code, place, &COORDINATES, "half_pixel")? == CROP;
    if roi.as_ref().map(Vec::len) != crops.then_some(2 * rank) {
        let message = format!(
            "hbir.resize wants {} numbers in `roi` to crop, else none",
            2 * rank
        );
        return Err(OpError::new("resize-c5", message));
    }
    let roi = roi.unwrap_or_default();
    let (starts, ends) = roi.split_at(roi.len() / 2);
    Ok(Config {
        antialias: flag_or(op, "antialias", false)?,
        roi: starts.iter().copied().zip(ends.iter().copied()).collect(),
        beyond: float_or(op, "extrapolation_value", 0.0)?,
        mode: word(op, code, "mode", &MODES, "nearest")?,
        coordinates: word(op, code, place, &COORDINATES, "half_pixel")?,
        rounding: word(op, code, "nearest_mode", &ROUNDINGS, "round_prefer_floor")?,
        cubic: float_or(op, "cubic_coeff_a", -0.75)?,
        exclude_outside: flag_or(op, "exclude_outside", false)?,
    })
}

/// Per dimension the result's extent and the scale.
///
/// C2: one of `scales` and `sizes`, with one entry a dimension. C3: scales are positive, sizes not
/// negative, and an empty dimension stays empty.
fn targets(op: &OpRef<'_>, x: &TensorType) -> Result<Vec<(Dim, f64)>, OpError> {
    let scales = numbers(op, "scales")?;
    let sizes = numbers(op, "sizes")?;
    let (list, by_scale) = match (scales, sizes) {
        (Some(scales), None) => (scales, true),
        (None, Some(sizes)) => (sizes, false),
        _ => {
            let message = "hbir.resize wants one of `scales` and `sizes`";
            return Err(OpError::new("resize-c2", message));
        }
    };
    if list.len() != x.rank() {
        let message = format!(
            "hbir.resize of {} has {} entries, wanted {}",
            show(&x.dims),
            list.len(),
            x.rank()
        );
        return Err(OpError::new("resize-c2", message));
    }
    let target = |(dim, &v): (&Dim, &f64)| {
        if by_scale {
            scaled(dim, v)
        } else {
            sized(dim, v)
        }
    };
    x.dims.iter().zip(&list).map(target).collect()
}

fn numbers(op: &OpRef<'_>, name: &str) -> Result<Option<Vec<f64>>, OpError> {
    let Some(attr) = op.props.get(name) else {
        return Ok(None);
    };
    let list = attr
        .as_array()
        .map(|a| a.iter().map(crate::attr::Attr::as_float).collect());
    list.flatten()
        .map(Some)
        .ok_or_else(|| wrong_kind(name, "a list of numbers"))
}

/// The greatest extent that a resize is believed to have.
const MAX_EXTENT: f64 = 4_294_967_296.0;

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked before"
)]
#[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
fn scaled(dim: &Dim, scale: f64) -> Result<(Dim, f64), OpError> {
    let Some(n) = dim.fixed() else {
        return Ok((
            if scale == 1.0 {
                dim.clone()
            } else if 0.0 < scale && scale < MAX_EXTENT && scale.fract() == 0.0 {
                computed(dim, |n| n.times(&Size::from(scale as u64)))
            } else {
                Dim::Unknown
            },
            scale,
        ));
    };
    let size = (n as f64 * scale).floor();
    if 0.0 < scale && size < MAX_EXTENT {
        return Ok((Dim::Fixed(size as u64), scale));
    }
    let message = format!("hbir.resize scales {n} elements by {scale}, wanted a positive factor");
    Err(OpError::new("resize-c3", message))
}

#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    reason = "checked before"
)]
#[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
fn sized(dim: &Dim, size: f64) -> Result<(Dim, f64), OpError> {
    let n = dim.fixed();
    if (0.0..MAX_EXTENT).contains(&size) && (n != Some(0) || size == 0.0) {
        let scale = n.filter(|&n| n != 0).map_or(1.0, |n| size / n as f64);
        return Ok((Dim::Fixed(size as u64), scale));
    }
    Err(OpError::new(
        "resize-c3",
        format!("hbir.resize of {dim} elements to {size}"),
    ))
}

/// C4: of numbers.
fn infer(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    config(op)?;
    if x.dtype.is_bool() {
        return Err(OpError::new(
            "resize-c4",
            "hbir.resize of i1, wanted a float or an integer type",
        ));
    }
    one(targets(op, x)?.into_iter().map(|t| t.0).collect(), x.dtype)
}

fn eval(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let message = |e: OpError| EvalError::new(e.message);
    let config = config(call.op).map_err(message)?;
    let targets = targets(call.op, call.op.operand(0).map_err(message)?).map_err(message)?;
    let mut shape = call.input(0).shape.clone();
    let original = shape.clone();
    let mut values = call.input(0).to_f64();
    for (axis, (&size, (_, scale))) in call.shape().iter().zip(&targets).enumerate() {
        if size != shape[axis] || *scale != 1.0 || !config.roi.is_empty() {
            values = resize_axis(&values, &mut shape, axis, size, *scale, &config);
        }
    }
    if !config.roi.is_empty() {
        for (axis, &n) in original.iter().enumerate() {
            erase_outside(&mut values, &shape, axis, n, &config);
        }
    }
    Ok(call.floats(values))
}

/// What the positions of one dimension of the result of an `hbir.resize` read.
#[derive(Clone, PartialEq, Debug)]
pub struct Interpolation {
    /// The dimension.
    pub axis: usize,
    /// Per position the elements of the operand that it reads, and their weights.
    pub taps: Vec<Vec<(usize, f64)>>,
}

/// The dimensions that an `hbir.resize` interpolates, one after the other; `None` where a size is not known,
/// or a part of the operand is resized that reaches outside.
#[must_use]
pub fn interpolations(op: &OpRef<'_>) -> Option<Vec<Interpolation>> {
    let x = op.operand(0).ok()?;
    let config = config(op).ok().filter(|c| c.roi.is_empty())?;
    let targets = targets(op, x).ok()?;
    let mut all = Vec::new();
    for (axis, (dim, (target, scale))) in x.dims.iter().zip(&targets).enumerate() {
        let n = usize::try_from(dim.fixed()?).ok()?;
        let m = usize::try_from(target.fixed()?).ok()?;
        if n != m || *scale != 1.0 {
            let taps = (0..m).map(|o| taps(o, (n, m), *scale, axis, &config));
            let taps = taps.collect();
            all.push(Interpolation { axis, taps });
        }
    }
    Some(all)
}

/// Writes the value for outside where a dimension is read beyond its `n` elements.
#[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
fn erase_outside(values: &mut [f64], shape: &[usize], axis: usize, n: usize, config: &Config) {
    let m = shape[axis];
    let outside: Vec<bool> = (0..m)
        .map(|o| {
            let place = cropped(o as f64, n as f64, m as f64, config.roi[axis]);
            !(0.0..=n as f64 - 1.0).contains(&place)
        })
        .collect();
    for (start, step) in Lanes::new(shape, axis).iter() {
        for (o, _) in outside.iter().enumerate().filter(|(_, out)| **out) {
            values[start + o * step] = config.beyond;
        }
    }
}

/// Where position `o` of `m` reads the part from `start` to `end` of a dimension of `n` elements.
fn cropped(o: f64, n: f64, m: f64, (start, end): (f64, f64)) -> f64 {
    if m <= 1.0 {
        return 0.5 * (start + end) * (n - 1.0);
    }
    start * (n - 1.0) + o * (end - start) * (n - 1.0) / (m - 1.0)
}

/// Interpolates one dimension.
fn resize_axis(
    x: &[f64],
    shape: &mut [usize],
    axis: usize,
    size: usize,
    scale: f64,
    config: &Config,
) -> Vec<f64> {
    let from = Lanes::new(shape, axis);
    let taps: Vec<Vec<(usize, f64)>> = (0..size)
        .map(|o| taps(o, (from.n, size), scale, axis, config))
        .collect();
    shape[axis] = size;
    let to = Lanes::new(shape, axis);
    let mut out = vec![0.0; shape.iter().product()];
    for ((start, step), (out_start, out_step)) in from.iter().zip(to.iter()) {
        for (o, taps) in taps.iter().enumerate() {
            let sum = taps
                .iter()
                .map(|&(i, weight)| x[start + i * step] * weight)
                .sum();
            out[out_start + o * out_step] = sum;
        }
    }
    out
}

/// The elements that position `o` of the result reads, and their weights.
#[expect(
    clippy::cast_possible_truncation,
    reason = "places are near the extent"
)]
#[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
fn taps(
    o: usize,
    (n, m): (usize, usize),
    scale: f64,
    axis: usize,
    config: &Config,
) -> Vec<(usize, f64)> {
    let place = match config.roi.get(axis) {
        Some(&part) => cropped(o as f64, n as f64, m as f64, part),
        None => place(o as f64, n as f64, m as f64, scale, config.coordinates),
    };
    let clamp = |i: i64| i.clamp(0, n as i64 - 1) as usize;
    if config.mode == "nearest" {
        let nearest = match config.rounding {
            "round_prefer_ceil" => (place + 0.5).floor(),
            "floor" => place.floor(),
            "ceil" => place.ceil(),
            _ => (place - 0.5).ceil(),
        };
        return vec![(clamp(nearest as i64), 1.0)];
    }
    let base = place.floor();
    let t = place - base;
    let (first, weights) = if config.antialias && scale < 1.0 {
        wide_weights(place, scale, config)
    } else if config.mode == "linear" {
        (base as i64, vec![1.0 - t, t])
    } else {
        (base as i64 - 1, cubic_weights(t, config.cubic).to_vec())
    };
    let taps = weights
        .into_iter()
        .zip(first..)
        .map(|(weight, i)| (i, weight));
    if !config.exclude_outside {
        return taps.map(|(i, weight)| (clamp(i), weight)).collect();
    }
    let inside: Vec<(i64, f64)> = taps.filter(|(i, _)| (0..n as i64).contains(i)).collect();
    let total: f64 = inside.iter().map(|t| t.1).sum();
    inside
        .into_iter()
        .map(|(i, weight)| (clamp(i), weight / total))
        .collect()
}

/// Where position `o` of `m` reads a dimension of `n` elements.
fn place(o: f64, n: f64, m: f64, scale: f64, coordinates: &str) -> f64 {
    let half_pixel = (o + 0.5) / scale - 0.5;
    match coordinates {
        "half_pixel_symmetric" => n / 2.0 * (1.0 - m / (scale * n)) + half_pixel,
        "pytorch_half_pixel" if m <= 1.0 => 0.0,
        "align_corners" if m <= 1.0 => 0.0,
        "align_corners" => o * (n - 1.0) / (m - 1.0),
        "asymmetric" => o / scale,
        _ => half_pixel,
    }
}

/// The weights of the four elements around a place, `t` beyond the second (Keys' cubic convolution).
fn cubic_weights(t: f64, a: f64) -> [f64; 4] {
    let near = |t: f64| ((a + 2.0) * t - (a + 3.0)) * t * t + 1.0;
    let far = |t: f64| ((a * t - 5.0 * a) * t + 8.0 * a) * t - 4.0 * a;
    [far(t + 1.0), near(t), near(1.0 - t), far(2.0 - t)]
}

/// The first element and the weights of all that the kernel, widened by `1 / scale`, covers; their sum is 1.
#[expect(
    clippy::cast_possible_truncation,
    reason = "places are near the extent"
)]
#[expect(clippy::cast_precision_loss, reason = "extents are below 2^53")]
fn wide_weights(place: f64, scale: f64, config: &Config) -> (i64, Vec<f64>) {
    let linear = config.mode == "linear";
    let reach = if linear { 1.0 } else { 2.0 } / scale;
    let first = (place - reach).ceil() as i64;
    let last = (place + reach).floor() as i64;
    let weight = |i: i64| {
        let distance = ((i as f64 - place) * scale).abs();
        if linear {
            (1.0 - distance).max(0.0)
        } else if distance < 1.0 {
            cubic_weights(distance, config.cubic)[1]
        } else {
            cubic_weights((distance - 1.0).min(1.0), config.cubic)[0]
        }
    };
    let weights: Vec<f64> = (first..=last).map(weight).collect();
    let total: f64 = weights.iter().sum();
    (first, weights.into_iter().map(|w| w / total).collect())
}

fn freedom(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Window, |f| {
        let (x, y) = (op.operand(0)?, op.result(0)?);
        let mut labels = Vec::with_capacity(x.rank());
        for (d, (a, b)) in x.dims.iter().zip(&y.dims).enumerate() {
            let role = match d {
                0 if 2 < x.rank() => Role::Batch,
                1 if 2 < x.rank() => Role::Channel,
                _ => Role::Spatial,
            };
            let label = f.fresh(role);
            if !a.same(b) {
                f.uncut(label);
            }
            labels.push(label);
        }
        f.operand(marks(&labels));
        f.result(marks(&labels));
        Ok(())
    })
}

/// A dimension that keeps its size is a loop, unless a region of interest says otherwise.
fn access(op: &OpRef<'_>) -> Result<Access, OpError> {
    let (x, y) = (op.operand(0)?, op.result(0)?);
    let mut access = Access::whole(op);
    if op.props.get("roi").is_some() {
        return Ok(access);
    }
    for (d, (a, b)) in x.dims.iter().zip(&y.dims).enumerate() {
        // Outer dimensions alone: an inner one of the same size may still be scaled.
        if !a.same(b) || 2 <= d || x.rank() <= 2 {
            continue;
        }
        let id = access.add(b.fixed().unwrap_or(0), LoopKind::Parallel);
        access.operands[0][d] = Index::of(id);
        access.results[0][d] = Index::of(id);
    }
    Ok(access)
}

pub(super) fn register(registry: &mut Registry) {
    registry.add(RESIZE);
}
