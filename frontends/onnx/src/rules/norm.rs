//! Normalizations.

use super::{Rule, decomposed, native};
use crate::builder::{Stop, Val};
use crate::codes;
use crate::node::{Done, NodeCx};
use optc_ops::{
    Add, BatchNorm, Compare, Direction, Div, GroupNorm, InstanceNorm, LayerNorm, Mul, ReduceKind,
    RmsNorm, Rsqrt, Select, Sqrt, Squeeze, Sub, ints,
};

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
    decomposed("SkipLayerNormalization", |cx| skip_norm(cx, true)),
    decomposed("SkipSimplifiedLayerNormalization", |cx| {
        skip_norm(cx, false)
    }),
];

/// The default `epsilon` of the contrib operators.
const SKIP_EPSILON: f64 = 1e-12_f32 as f64;

/// A normalization of `input + skip + bias`; output 3 is this sum.
fn skip_norm(cx: &mut NodeCx<'_, '_>, centred: bool) -> Done {
    if cx.is_used(1) || cx.is_used(2) {
        return Err(Stop::opaque("its statistics are used"));
    }
    let (x, skip, scale) = (cx.need(0)?, cx.need(1)?, cx.need(2)?);
    let (beta, bias) = if centred {
        (cx.input(3), cx.input(4))
    } else {
        (None, cx.input(3))
    };
    let mut sum = cx.emit(&Add {}, &[x, skip])?;
    if let Some(bias) = bias {
        sum = cx.emit(&Add {}, &[sum, bias])?;
    }
    let axis = cx.axis(-1, cx.rank(sum)?)?;
    let (axis, epsilon) = (axis as i64, epsilon(cx, SKIP_EPSILON));
    let operands: Vec<Val> = [sum, scale].into_iter().chain(beta).collect();
    if centred {
        cx.finish(&LayerNorm { axis, epsilon }, &operands)?;
    } else {
        cx.finish(&RmsNorm { axis, epsilon }, &operands)?;
    }
    cx.set(3, sum);
    Ok(())
}

fn epsilon(cx: &NodeCx<'_, '_>, default: f64) -> f64 {
    cx.float("epsilon", default)
}

fn batch_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    if cx.trains_unless_told() {
        return Err(Stop::opaque("it updates its statistics"));
    }
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
    let epsilon = epsilon(cx, EPSILON);
    if cx.opset < 9 && !cx.flag("spatial", true) {
        return of_each_element(cx, operands, epsilon);
    }
    cx.finish(&BatchNorm { epsilon }, &operands)
}

/// Before version 9: statistics, scale and bias have one element for each element of an example.
fn of_each_element(cx: &mut NodeCx<'_, '_>, operands: [Val; 5], epsilon: f64) -> Done {
    let [x, scale, bias, mean, variance] = operands;
    let epsilon = cx.scalar_like(epsilon, variance)?;
    let sum = cx.emit(&Add {}, &[variance, epsilon])?;
    let deviation = cx.emit(&Sqrt {}, &[sum])?;
    let distance = cx.emit(&Sub {}, &[x, mean])?;
    let normal = cx.emit(&Div {}, &[distance, deviation])?;
    let scaled = cx.emit(&Mul {}, &[normal, scale])?;
    cx.finish(&Add {}, &[scaled, bias])
}

/// In training: uses the mean and variance of the batch; outputs 1 and 2 are the running ones.
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
        let axes = Some(ints(&axes));
        cx.emit(&Squeeze { axes }, &[value])
    };
    let (mean, variance) = (flat(cx, mean)?, flat(cx, variance)?);
    let epsilon = epsilon(cx, EPSILON);
    let operands = [x, scale, bias, mean, variance];
    let normal = cx.emit(&BatchNorm { epsilon }, &operands)?;
    cx.set(0, normal);
    let momentum = cx.float("momentum", f64::from(0.9_f32));
    let pairs = [(1, mean_so_far, mean), (2, variance_so_far, variance)];
    for (output, so_far, now) in pairs {
        if cx.is_used(output) {
            let (old, new) = (
                cx.scalar_like(momentum, x)?,
                cx.scalar_like(1.0 - momentum, x)?,
            );
            let old = cx.emit(&Mul {}, &[so_far, old])?;
            let new = cx.emit(&Mul {}, &[now, new])?;
            let value = cx.emit(&Add {}, &[old, new])?;
            cx.set(output, value);
        }
    }
    Ok(())
}

fn instance_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    let epsilon = epsilon(cx, EPSILON);
    cx.finish(&InstanceNorm { epsilon }, &operands)
}

/// `GroupNormalization`; before version 21 scale and bias have one element for each group.
fn group_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, scale, bias) = (cx.need(0)?, cx.need(1)?, cx.need(2)?);
    let groups = cx.int("num_groups");
    let groups =
        groups.ok_or_else(|| Stop::error(codes::ATTRIBUTE_MISSING, "`num_groups` is missing"))?;
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
    let op = GroupNorm {
        num_groups: groups,
        epsilon: epsilon(cx, EPSILON),
    };
    cx.finish(&op, &[x, scale, bias])
}

/// Repeats each group's element for every channel of the group.
fn per_channel(cx: &mut NodeCx<'_, '_>, x: Val, groups: i64, channels: i64) -> Result<Val, Stop> {
    if groups < 1 || channels % groups != 0 {
        let message = format!("{channels} channels do not divide into {groups} groups");
        return Err(Stop::error(codes::GROUP_NORM_GROUPS, message));
    }
    let column = cx.reshape(x, &[groups, 1])?;
    let wide = cx.broadcast(column, &[groups, channels / groups])?;
    cx.reshape(wide, &[channels])
}

fn layer_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    let (x, scale) = (cx.need(0)?, cx.need(1)?);
    let axis = cx.axis(cx.int("axis").unwrap_or(-1), cx.rank(x)?)?;
    let op = LayerNorm {
        axis: axis as i64,
        epsilon: epsilon(cx, EPSILON),
    };
    let operands: Vec<Val> = [x, scale].into_iter().chain(cx.input(2)).collect();
    cx.finish(&op, &operands)?;
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
    let sum = cx.emit(&Add {}, &[variance, epsilon])?;
    let inverse = cx.emit(&Rsqrt {}, &[sum])?;
    cx.set(1, mean);
    cx.set(2, inverse);
    Ok(())
}

/// The mean along `axes`, the difference from it, and the variance; all keep these dimensions.
fn moments(cx: &mut NodeCx<'_, '_>, x: Val, axes: &[usize]) -> Result<(Val, Val, Val), Stop> {
    let mean = cx.reduce(ReduceKind::Mean, x, axes, true)?;
    let distance = cx.emit(&Sub {}, &[x, mean])?;
    let square = cx.emit(&Mul {}, &[distance, distance])?;
    let variance = cx.reduce(ReduceKind::Mean, square, axes, true)?;
    Ok((mean, distance, variance))
}

fn rms_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    if cx.is_used(1) {
        return Err(Stop::opaque("its second output is used"));
    }
    let (x, scale) = (cx.need(0)?, cx.need(1)?);
    let axis = cx.axis(cx.int("axis").unwrap_or(-1), cx.rank(x)?)?;
    let (axis, epsilon) = (axis as i64, epsilon(cx, EPSILON));
    cx.finish(&RmsNorm { axis, epsilon }, &[x, scale])
}

/// `x / max(norm(x), tiny)`; a vector of zeros stays zero.
fn lp_norm(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let axis = cx.axis(cx.int("axis").unwrap_or(-1), cx.rank(x)?)?;
    let kind = match cx.float("p", 2.0) {
        1.0 => ReduceKind::L1,
        2.0 => ReduceKind::L2,
        p => return Err(Stop::opaque(format!("its norm is of order {p}"))),
    };
    let norm = cx.reduce(kind, x, &[axis], true)?;
    let zero = cx.scalar_like(0.0, x)?;
    let one = cx.scalar_like(1.0, x)?;
    let vanishes = cx.emit(
        &Compare {
            direction: Direction::Eq,
        },
        &[norm, zero],
    )?;
    let divisor = cx.emit(&Select {}, &[vanishes, one, norm])?;
    cx.finish(&Div {}, &[x, divisor])
}

/// `(x - mean) / (sqrt(variance) + 1e-9)`, as in the function body of the standard.
fn mean_variance(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let axes = cx.ints("axes").unwrap_or_else(|| vec![0, 2, 3]);
    let axes = cx.axes(&axes, cx.rank(x)?)?;
    let (_, distance, variance) = moments(cx, x, &axes)?;
    let deviation = cx.emit(&Sqrt {}, &[variance])?;
    let tiny = cx.scalar_like(1e-9, x)?;
    let divisor = cx.emit(&Add {}, &[deviation, tiny])?;
    cx.finish(&Div {}, &[distance, divisor])
}
