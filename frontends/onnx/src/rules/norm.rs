//! Normalizations.

use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::node::{Done, NodeCx, props};
use optc_ir::{Attr, AttrDict};

/// The default `epsilon` of the standard.
const EPSILON: f64 = 1e-5_f32 as f64;

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("BatchNormalization", batch_norm),
    native("GroupNormalization", group_norm),
    native("InstanceNormalization", instance_norm),
    native("LayerNormalization", layer_norm),
    decomposed("LpNormalization", lp_norm),
    decomposed("MeanVarianceNormalization", mean_variance),
    native("RMSNormalization", rms_norm),
    native("SimplifiedLayerNormalization", rms_norm),
];

/// The rules of this family in the domain `com.microsoft`.
pub(super) static MICROSOFT: &[Rule] = &[
    native("SimplifiedLayerNormalization", rms_norm),
    decomposed("SkipLayerNormalization", |cx| {
        skip_norm(cx, "hbir.layer_norm")
    }),
    decomposed("SkipSimplifiedLayerNormalization", |cx| {
        skip_norm(cx, "hbir.rms_norm")
    }),
];

/// The default `epsilon` of the contrib operators.
const SKIP_EPSILON: f64 = 1e-12_f32 as f64;

/// A normalization of `input + skip + bias`; output 3 is this sum.
fn skip_norm(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    if cx.is_used(1) || cx.is_used(2) {
        return Err(Stop::opaque("its statistics are used"));
    }
    let (x, skip, scale) = (cx.need(0)?, cx.need(1)?, cx.need(2)?);
    let centred = name == "hbir.layer_norm";
    let (beta, bias) = if centred {
        (cx.input(3), cx.input(4))
    } else {
        (None, cx.input(3))
    };
    let mut sum = cx.plain("hbir.add", &[x, skip])?;
    if let Some(bias) = bias {
        sum = cx.plain("hbir.add", &[sum, bias])?;
    }
    let axis = cx.axis(-1, cx.rank(sum)?)?;
    let dict = props([
        ("axis", Attr::int(axis as i64)),
        ("epsilon", epsilon(cx, SKIP_EPSILON)),
    ]);
    let operands: Vec<Val> = [sum, scale].into_iter().chain(beta).collect();
    cx.finish(name, &operands, dict)?;
    cx.set(3, sum);
    Ok(())
}

fn epsilon(cx: &NodeCx<'_, '_>, default: f64) -> Attr {
    Attr::float(cx.float("epsilon", default))
}

fn batch_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    if cx.flag("training_mode", false) {
        return batch_statistics(cx);
    }
    if (1..cx.node.output.len()).any(|i| cx.is_used(i)) {
        return Err(Stop::opaque("it updates its statistics"));
    }
    let operands = [
        cx.need(0)?,
        cx.need(1)?,
        cx.need(2)?,
        cx.need(3)?,
        cx.need(4)?,
    ];
    let dict = props([("epsilon", epsilon(cx, EPSILON))]);
    cx.finish("hbir.batch_norm", &operands, dict)
}

/// In training: by the mean and variance of the batch; outputs 1 and 2 are those that run along.
fn batch_statistics(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let channel_wise = [cx.need(1)?, cx.need(2)?, cx.need(3)?, cx.need(4)?];
    let dtype = cx.dtype(x)?;
    for value in channel_wise {
        if cx.dtype(value)? != dtype {
            return Err(Stop::opaque("its statistics are of another type"));
        }
    }
    let [scale, bias, mean_so_far, variance_so_far] = channel_wise;
    let rank = cx.rank(x)?;
    if rank < 2 {
        return Err(Stop::opaque("it has no channels"));
    }
    let axes: Vec<usize> = (0..rank).filter(|&d| d != 1).collect();
    let (mean, _, variance) = moments(cx, x, &axes)?;
    let flat = |cx: &mut NodeCx<'_, '_>, value| {
        let axes: Vec<i64> = axes.iter().map(|&d| d as i64).collect();
        let dict = props([("axes", Attr::ints(&axes))]);
        cx.emit("hbir.squeeze", &[value], dict)
    };
    let (mean, variance) = (flat(cx, mean)?, flat(cx, variance)?);
    let dict = props([("epsilon", epsilon(cx, EPSILON))]);
    let operands = [x, scale, bias, mean, variance];
    let normal = cx.emit("hbir.batch_norm", &operands, dict)?;
    cx.set(0, normal);
    let momentum = cx.float("momentum", f64::from(0.9_f32));
    let pairs = [(1, mean_so_far, mean), (2, variance_so_far, variance)];
    for (output, so_far, now) in pairs {
        if cx.is_used(output) {
            let (old, new) = (
                cx.scalar_like(momentum, x)?,
                cx.scalar_like(1.0 - momentum, x)?,
            );
            let old = cx.plain("hbir.mul", &[so_far, old])?;
            let new = cx.plain("hbir.mul", &[now, new])?;
            let value = cx.plain("hbir.add", &[old, new])?;
            cx.set(output, value);
        }
    }
    Ok(())
}

fn instance_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    let dict = props([("epsilon", epsilon(cx, EPSILON))]);
    cx.finish("hbir.instance_norm", &operands, dict)
}

/// `GroupNormalization`; before version 21 scale and bias have one element a group.
fn group_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, scale, bias) = (cx.need(0)?, cx.need(1)?, cx.need(2)?);
    let groups = cx.int("num_groups");
    let groups =
        groups.ok_or_else(|| Stop::error("attribute-missing", "`num_groups` is missing"))?;
    let channels = cx
        .dims(x)?
        .get(1)
        .and_then(|d| i64::try_from(d.fixed()?).ok());
    let channels = channels.ok_or_else(|| Stop::opaque("its number of channels is unknown"))?;
    let (scale, bias) = if cx.opset < 21 {
        (
            per_channel(cx, scale, groups, channels)?,
            per_channel(cx, bias, groups, channels)?,
        )
    } else {
        (scale, bias)
    };
    let dict = props([
        ("epsilon", epsilon(cx, EPSILON)),
        ("num_groups", Attr::int(groups)),
    ]);
    cx.finish("hbir.group_norm", &[x, scale, bias], dict)
}

/// Repeats each group's element for every channel of the group.
fn per_channel(cx: &mut NodeCx<'_, '_>, x: Val, groups: i64, channels: i64) -> Result<Val, Stop> {
    if groups < 1 || channels % groups != 0 {
        let message = format!("{channels} channels do not divide into {groups} groups");
        return Err(Stop::error("group-norm-groups", message));
    }
    let shape = |list: &[i64]| props([("shape", Attr::ints(list))]);
    let column = cx.emit("hbir.reshape", &[x], shape(&[groups, 1]))?;
    let wide = cx.emit(
        "hbir.broadcast",
        &[column],
        shape(&[groups, channels / groups]),
    )?;
    cx.emit("hbir.reshape", &[wide], shape(&[channels]))
}

fn layer_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, scale) = (cx.need(0)?, cx.need(1)?);
    let axis = cx.axis(cx.int("axis").unwrap_or(-1), cx.rank(x)?)?;
    let dict = props([
        ("axis", Attr::int(axis as i64)),
        ("epsilon", epsilon(cx, EPSILON)),
    ]);
    let operands: Vec<Val> = [x, scale].into_iter().chain(cx.input(2)).collect();
    cx.finish("hbir.layer_norm", &operands, dict)?;
    if cx.is_used(1) || cx.is_used(2) {
        layer_statistics(cx, x, axis)?;
    }
    Ok(())
}

/// The outputs `Mean` and `InvStdDev` of a layer normalization.
fn layer_statistics(cx: &mut NodeCx<'_, '_>, x: Val, axis: usize) -> Done {
    let axes: Vec<usize> = (axis..cx.rank(x)?).collect();
    let (mean, _, variance) = moments(cx, x, &axes)?;
    let epsilon = cx.scalar_like(cx.float("epsilon", EPSILON), x)?;
    let sum = cx.emit("hbir.add", &[variance, epsilon], AttrDict::new())?;
    let inverse = cx.emit("hbir.rsqrt", &[sum], AttrDict::new())?;
    cx.set(1, mean);
    cx.set(2, inverse);
    Ok(())
}

/// The mean along `axes`, the distance from it, and the variance; all with these dimensions kept.
fn moments(cx: &mut NodeCx<'_, '_>, x: Val, axes: &[usize]) -> Result<(Val, Val, Val), Stop> {
    let mean = cx.reduce("mean", x, axes, true)?;
    let distance = cx.emit("hbir.sub", &[x, mean], AttrDict::new())?;
    let square = cx.emit("hbir.mul", &[distance, distance], AttrDict::new())?;
    let variance = cx.reduce("mean", square, axes, true)?;
    Ok((mean, distance, variance))
}

fn rms_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    if cx.is_used(1) {
        return Err(Stop::opaque("its second output is used"));
    }
    let (x, scale) = (cx.need(0)?, cx.need(1)?);
    let axis = cx.axis(cx.int("axis").unwrap_or(-1), cx.rank(x)?)?;
    let dict = props([
        ("axis", Attr::int(axis as i64)),
        ("epsilon", epsilon(cx, EPSILON)),
    ]);
    cx.finish("hbir.rms_norm", &[x, scale], dict)
}

/// `x / max(norm(x), tiny)`; a vector of zeros stays zero.
fn lp_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let axis = cx.axis(cx.int("axis").unwrap_or(-1), cx.rank(x)?)?;
    let kind = match cx.int("p").unwrap_or(2) {
        1 => "l1",
        2 => "l2",
        p => return Err(Stop::opaque(format!("its norm is of order {p}"))),
    };
    let norm = cx.reduce(kind, x, &[axis], true)?;
    let zero = cx.scalar_like(0.0, x)?;
    let one = cx.scalar_like(1.0, x)?;
    let vanishes = cx.emit(
        "hbir.compare",
        &[norm, zero],
        props([("direction", Attr::str("eq"))]),
    )?;
    let divisor = cx.emit("hbir.select", &[vanishes, one, norm], AttrDict::new())?;
    cx.finish("hbir.div", &[x, divisor], AttrDict::new())
}

/// `(x - mean) / (sqrt(variance) + 1e-9)`, as the function body in the standard says.
fn mean_variance(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let axes = cx.ints("axes").unwrap_or_else(|| vec![0, 2, 3]);
    let axes = cx.axes(&axes, cx.rank(x)?)?;
    let (_, distance, variance) = moments(cx, x, &axes)?;
    let deviation = cx.emit("hbir.sqrt", &[variance], AttrDict::new())?;
    let tiny = cx.scalar_like(1e-9, x)?;
    let divisor = cx.emit("hbir.add", &[deviation, tiny], AttrDict::new())?;
    cx.finish("hbir.div", &[distance, divisor], AttrDict::new())
}
