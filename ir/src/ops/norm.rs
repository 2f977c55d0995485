//! Normalizations: `y = (x - mean) / sqrt(variance + epsilon) * scale + bias`.
//!
//! - `hbir.layer_norm`: mean and variance over the dimensions from `axis` on (ONNX
//!   `LayerNormalization`); `hbir.rms_norm`: no mean, the mean of squares for the variance.
//! - `hbir.batch_norm`: mean and variance are operands, one a channel (dimension 1; ONNX
//!   `BatchNormalization` at inference).
//! - `hbir.instance_norm`: over the spatial dimensions of each channel; `hbir.group_norm`: over the
//!   channels of each of `num_groups` groups and the spatial dimensions; scale and bias one a channel
//!   (ONNX `InstanceNormalization`, `GroupNormalization` of opset 21).

use crate::op::{Freedom, FreedomClass, Inferred, OpError, OpRef, Registry, Role};
use crate::ops::decl::{Call, Decl};
use crate::ops::labels::{broadcasting_along, marks, or_barrier};
use crate::ops::shape::{
    axis_or, broadcast, common_dtype, compatible, float_or, one, show, unify, wants_float,
};
use crate::tensor::{EvalError, Offsets, Tensor};

const LAYER_NORM: Decl = Decl::new(
    "hbir.layer_norm",
    "norm",
    "normalized over the dimensions from `axis` on, scaled and shifted",
    (2, 3),
    infer_trailing,
    eval_trailing,
)
.freedom(freedom_trailing);

const RMS_NORM: Decl = Decl::new(
    "hbir.rms_norm",
    "norm",
    "divided by the root mean square over the dimensions from `axis` on, scaled",
    (2, 2),
    infer_trailing,
    eval_trailing,
)
.freedom(freedom_trailing);

const BATCH_NORM: Decl = Decl::new(
    "hbir.batch_norm",
    "norm",
    "normalized by given means and variances, one a channel",
    (5, 5),
    infer_channels,
    eval_batch,
)
.freedom(freedom_channels);

const INSTANCE_NORM: Decl = Decl::new(
    "hbir.instance_norm",
    "norm",
    "normalized over the spatial dimensions of each channel",
    (3, 3),
    infer_channels,
    eval_groups,
)
.freedom(freedom_channels);

const GROUP_NORM: Decl = Decl::new(
    "hbir.group_norm",
    "norm",
    "normalized over groups of channels and the spatial dimensions",
    (3, 3),
    infer_channels,
    eval_groups,
)
.freedom(freedom_channels);

const EPSILON: f64 = 1e-5;

/// C1: floats of one element type. C2: an axis of the operand. C3: scale and bias broadcast to the
/// operand.
fn infer_trailing(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    wants_float(op, "norm-c1", 0)?;
    let dtype = common_dtype(op, "norm-c1", 0..op.operands.len())?;
    axis_or(op, "norm-c2", x.rank(), -1)?;
    float_or(op, "epsilon", EPSILON)?;
    for i in 1..op.operands.len() {
        let p = op.operand(i)?;
        let joint = broadcast(op, "norm-c3", &[&x.dims, &p.dims])?;
        if !compatible(&joint, &x.dims) {
            let message = format!(
                "{} of {} has operand {i} of {}, wanted one that broadcasts to it",
                op.name,
                show(&x.dims),
                show(&p.dims)
            );
            return Err(OpError::new("norm-c3", message));
        }
    }
    one(x.dims.clone(), dtype)
}

/// Normalizes one group in place; the mean is 0 for the root mean square.
#[expect(clippy::cast_precision_loss, reason = "a count of elements")]
fn normalize(group: &mut [f64], centred: bool, epsilon: f64) {
    let n = group.len() as f64;
    let mean = if centred {
        group.iter().sum::<f64>() / n
    } else {
        0.0
    };
    let variance = group.iter().map(|x| (x - mean) * (x - mean)).sum::<f64>() / n;
    let scale = 1.0 / (variance + epsilon).sqrt();
    group.iter_mut().for_each(|x| *x = (*x - mean) * scale);
}

fn eval_trailing(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let message = |e: OpError| EvalError::new(e.message);
    let axis = axis_or(call.op, "norm-c2", x.shape.len(), -1).map_err(message)?;
    let epsilon = float_or(call.op, "epsilon", EPSILON).map_err(message)?;
    let n = x.shape[axis..].iter().product::<usize>().max(1);
    let mut values = x.to_f64();
    for group in values.chunks_mut(n) {
        normalize(group, call.op.name != "hbir.rms_norm", epsilon);
    }
    let scale = call.input(1);
    let factors = Offsets::broadcast(&scale.shape, &x.shape);
    values
        .iter_mut()
        .zip(factors)
        .for_each(|(v, i)| *v *= scale.f64_at(i));
    if let Some(bias) = call.inputs.get(2) {
        let terms = Offsets::broadcast(&bias.shape, &x.shape);
        values
            .iter_mut()
            .zip(terms)
            .for_each(|(v, i)| *v += bias.f64_at(i));
    }
    Ok(call.floats(values))
}

fn freedom_trailing(op: &OpRef<'_>) -> Freedom {
    let Ok(rank) = op.operand(0).map(|x| x.rank()) else {
        return Freedom::barrier(op);
    };
    match axis_or(op, "norm-c2", rank, -1) {
        Ok(axis) => broadcasting_along(op, &(axis..rank).collect::<Vec<_>>()),
        Err(_) => Freedom::barrier(op),
    }
}

/// C1: floats of one element type. C4: rank 2 or more. C5: the other operands have one element a
/// channel. C6: the groups divide the channels.
fn infer_channels(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    wants_float(op, "norm-c1", 0)?;
    let dtype = common_dtype(op, "norm-c1", 0..op.operands.len())?;
    float_or(op, "epsilon", EPSILON)?;
    let [_, channels, ..] = x.dims.as_slice() else {
        let message = format!("{} of {}, wanted rank 2 or more", op.name, show(&x.dims));
        return Err(OpError::new("norm-c4", message));
    };
    for i in 1..op.operands.len() {
        let p = op.operand(i)?;
        if p.rank() != 1 || unify(&p.dims[0], channels).is_none() {
            let found = show(&p.dims);
            let message = format!(
                "{} has operand {i} of {found}, wanted [{channels}]",
                op.name
            );
            return Err(OpError::new("norm-c5", message));
        }
    }
    let groups = groups(op, channels.fixed().unwrap_or(0))?;
    if channels.fixed().is_some_and(|c| c % groups != 0) {
        let message = format!(
            "{} of {channels} channels has num_groups = {groups}, wanted a divisor",
            op.name
        );
        return Err(OpError::new("norm-c6", message));
    }
    one(x.dims.clone(), dtype)
}

/// The number of groups: one a channel for an instance norm.
fn groups(op: &OpRef<'_>, channels: u64) -> Result<u64, OpError> {
    if op.name != "hbir.group_norm" {
        return Ok(channels.max(1));
    }
    let found = op.int("num_groups")?;
    u64::try_from(found).ok().filter(|&g| 0 < g).ok_or_else(|| {
        let message = format!("hbir.group_norm has num_groups = {found}, wanted 1 or more");
        OpError::new("norm-c6", message)
    })
}

/// Applies `f(value, channel)` to every element.
fn per_channel(shape: &[usize], values: &mut [f64], f: impl Fn(f64, usize) -> f64) {
    let spatial = shape[2..].iter().product::<usize>().max(1);
    let channels = shape[1].max(1);
    values
        .iter_mut()
        .enumerate()
        .for_each(|(i, v)| *v = f(*v, i / spatial % channels));
}

fn eval_batch(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let epsilon = call.op.props.float("epsilon").unwrap_or(EPSILON);
    let p = |i: usize, c: usize| call.input(i).f64_at(c);
    let mut values = call.input(0).to_f64();
    per_channel(&call.input(0).shape, &mut values, |x, c| {
        (x - p(3, c)) / (p(4, c) + epsilon).sqrt() * p(1, c) + p(2, c)
    });
    Ok(call.floats(values))
}

fn eval_groups(call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let epsilon = call.op.props.float("epsilon").unwrap_or(EPSILON);
    let groups = groups(call.op, x.shape[1] as u64).map_err(|e| EvalError::new(e.message))?;
    let groups = usize::try_from(groups).unwrap_or(usize::MAX);
    let per_sample = x.shape[1..].iter().product::<usize>();
    let mut values = x.to_f64();
    for group in values.chunks_mut((per_sample / groups).max(1)) {
        normalize(group, true, epsilon);
    }
    let p = |i: usize, c: usize| call.input(i).f64_at(c);
    per_channel(&x.shape, &mut values, |v, c| v * p(1, c) + p(2, c));
    Ok(call.floats(values))
}

fn freedom_channels(op: &OpRef<'_>) -> Freedom {
    or_barrier(op, FreedomClass::Ordered, |f| {
        let x = op.operand(0)?;
        let labels = f.fresh_for(x.rank());
        let channel = *labels
            .get(1)
            .ok_or_else(|| OpError::new("norm-c4", "a norm over channels of rank below 2"))?;
        if op.name != "hbir.batch_norm" {
            labels[2..].iter().for_each(|&l| f.role(l, Role::Axis));
        }
        if op.name == "hbir.group_norm" {
            f.role(channel, Role::Axis);
            let size = x.dims[1].fixed().map(|c| c / groups(op, c).unwrap_or(1));
            f.cut(channel, size.unwrap_or(1));
        }
        f.operand(marks(&labels));
        (1..op.operands.len()).for_each(|_| f.operand(vec![Some(channel)]));
        f.result(marks(&labels));
        Ok(())
    })
}

pub(super) fn register(registry: &mut Registry) {
    for op in [LAYER_NORM, RMS_NORM, BATCH_NORM, INSTANCE_NORM, GROUP_NORM] {
        registry.add(op);
    }
}
