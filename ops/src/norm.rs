//! `hbir.layer_norm` and `hbir.rms_norm`, and the shared code of normalizations:
//! `y = (x - mean) / sqrt(variance + epsilon) * scale + bias`.
//!
//! A normalization of trailing dimensions takes mean and variance over all dimensions from `axis` on. A normalization
//! over channels has operands with one number for each channel (dimension 1): scale and bias, and perhaps mean and
//! variance.

use crate::over_axes::{among, of_dims, whole};
use crate::prelude::*;
use crate::shape::broadcast;
use optc_ir::AttrDict;

/// Normalizations of trailing dimensions: doc, struct, name, summary, number of operands, whether the mean is subtracted.
macro_rules! trailing_norms {
    ($($(#[$doc:meta])* $op:ident $name:literal $summary:literal $operands:expr, $centred:literal;)*) => {$(
        attributes! {
            $(#[$doc])*
            pub struct $op {
                /// The first normalized dimension; negative numbers count from the end. All dimensions after it are
                /// normalized too.
                axis: i64 = -1,
                /// The number added to the variance or to the mean of squares before the square root.
                epsilon: f64 = 1e-5,
            }
        }

        impl $op {
            /// The first normalized dimension. All dimensions after it are normalized too.
            ///
            /// # Errors
            /// The operand has no such dimension.
            pub fn first_axis(&self, op: &OpRef<'_>) -> Result<usize, OpError> {
                first_axis(op, self.axis)
            }
        }

        impl Operation for $op {
            const NAME: &'static str = $name;
            const SUMMARY: &'static str = $summary;
            const FAMILY: &'static str = "norm";
            const OPERANDS: (usize, usize) = $operands;
            const CODES: &'static [Code] = CODES;

            fn infer(&self, op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
                infer_trailing(op, self.axis)
            }

            fn eval(&self, call: &Call<'_>) -> Result<Vec<Tensor>, EvalError> {
                eval_trailing(call, self.axis, self.epsilon, $centred)
            }

            fn composition(&self, op: &OpRef<'_>) -> Option<Composition> {
                over_trailing_dimensions(op, self.axis, self.epsilon, $centred)
            }

            fn iteration_domain(&self, op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
                let axes: Vec<usize> = (self.first_axis(op)?..op.operand(0)?.rank()).collect();
                IterationDomain::broadcasting_along(op, &axes)
            }

            fn over_axes(&self, op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
                let first = self.first_axis(op).ok()?;
                over_trailing(op, axes, first, |axis| $op { axis, ..*self }.write())
            }
        }
    )*};
}

trailing_norms! {
    /// Normalization over the dimensions from `axis` on, then scale and bias:
    /// `y = (x - mean) / sqrt(variance + epsilon) * scale + bias` (ONNX `LayerNormalization`). The bias may be left out.
    LayerNorm "hbir.layer_norm" "normalized over the dimensions from `axis` on, scaled and shifted"
        (2, 3), true;
    /// Division by the root mean square over the dimensions from `axis` on, then a scale:
    /// `y = x / sqrt(mean of squares + epsilon) * scale` (ONNX `RMSNormalization`).
    RmsNorm "hbir.rms_norm"
        "divided by the root mean square over the dimensions from `axis` on, scaled"
        (2, 2), false;
}

/// The first normalized dimension of a normalization of trailing dimensions.
fn first_axis(op: &OpRef<'_>, axis: i64) -> Result<usize, OpError> {
    as_axis(op, NORM_C2, axis, op.operand(0)?.rank())
}

/// C1: floats of one element type. C2: `axis` is an axis of the operand. C3: scale and bias broadcast to the operand.
fn infer_trailing(op: &OpRef<'_>, axis: i64) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    wants_float(op, NORM_C1, 0)?;
    let dtype = common_dtype(op, NORM_C1, 0..op.operands.len())?;
    first_axis(op, axis)?;
    for i in 1..op.operands.len() {
        let p = op.operand(i)?;
        let joint = broadcast(op, NORM_C3, &[&x.dims, &p.dims])?;
        if !compatible(&joint, &x.dims) {
            let message = format!(
                "{} of {} has operand {i} of {}, wanted one that broadcasts to it",
                op.name,
                show(&x.dims),
                show(&p.dims)
            );
            return Err(OpError::new(NORM_C3, message));
        }
    }
    one(x.dims.clone(), dtype)
}

/// Normalizes one group in place. Without `centred` the mean counts as 0, which gives the root mean square.
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

/// Normalizes the dimensions from `axis` on; without `centred` the mean is not subtracted.
fn eval_trailing(
    call: &Call<'_>,
    axis: i64,
    epsilon: f64,
    centred: bool,
) -> Result<Vec<Tensor>, EvalError> {
    let x = call.input(0);
    let axis = first_axis(call.op, axis)?;
    let n = x.shape[axis..].iter().product::<usize>().max(1);
    let mut values = x.to_f64();
    for group in values.chunks_mut(n) {
        normalize(group, centred, epsilon);
    }
    let factors = broadcast_floats(call.input(1), &x.shape);
    values.iter_mut().zip(factors).for_each(|(v, f)| *v *= f);
    if let Some(bias) = call.inputs.get(2) {
        let terms = broadcast_floats(bias, &x.shape);
        values.iter_mut().zip(terms).for_each(|(v, t)| *v += t);
    }
    Ok(call.floats(values))
}

/// The stages of a normalization, behind those of an empty composition, whose operands are data, scale and perhaps bias.
fn normalized(mut norm: Composition, epsilon: f64, centred: bool) -> Composition {
    let mut x = Expr::A;
    if centred {
        let mean = norm.reduce(Combine::Add, Expr::A, Expr::A / Expr::B);
        x = norm.each(x - mean);
    }
    let root = (Expr::A / Expr::B + epsilon).rsqrt();
    let factor = norm.reduce(Combine::Add, x.clone() * x.clone(), root);
    let mut y = x * factor;
    if 1 < norm.at.len() {
        y = y * Expr::B;
    }
    if 2 < norm.at.len() {
        y = y + Expr::C;
    }
    norm.each(y);
    norm
}

/// The stages of a normalization of the dimensions from `axis` on, less the mean if it is `centred`.
fn over_trailing_dimensions(
    op: &OpRef<'_>,
    axis: i64,
    epsilon: f64,
    centred: bool,
) -> Option<Composition> {
    let axes = first_axis(op, axis).ok()?..op.operand(0).ok()?.rank();
    let norm = Composition::broadcasting(op, axes.collect());
    Some(normalized(norm, epsilon, centred))
}

/// The stages of a normalization of the spatial dimensions of each channel, or of each group of channels.
pub(crate) fn over_spatial_dimensions(
    op: &OpRef<'_>,
    groups: Option<u64>,
    epsilon: f64,
) -> Option<Composition> {
    let axes = 2..op.operand(0).ok()?.rank();
    let norm = Composition {
        at: vec![0, 1, 1],
        groups,
        ..Composition::new(0, axes.collect())
    };
    Some(normalized(norm, epsilon, true))
}

/// C1: floats of one element type. C4: rank 2 or more. C5: the other operands have one element for each channel.
pub(crate) fn infer_channels(op: &OpRef<'_>) -> Result<Vec<Inferred>, OpError> {
    let x = op.operand(0)?;
    wants_float(op, NORM_C1, 0)?;
    let dtype = common_dtype(op, NORM_C1, 0..op.operands.len())?;
    let [_, channels, ..] = x.dims.as_slice() else {
        let message = format!("{} of {}, wanted rank 2 or more", op.name, show(&x.dims));
        return Err(OpError::new(NORM_C4, message));
    };
    for i in 1..op.operands.len() {
        let p = op.operand(i)?;
        if p.rank() != 1 || unify(&p.dims[0], channels).is_none() {
            let found = show(&p.dims);
            let message = format!(
                "{} has operand {i} of {found}, wanted [{channels}]",
                op.name
            );
            return Err(OpError::new(NORM_C5, message));
        }
    }
    one(x.dims.clone(), dtype)
}

/// Applies to every element the function that `f` gives for its channel.
pub(crate) fn per_channel<F: Fn(f64) -> f64>(
    shape: &[usize],
    values: &mut [f64],
    f: impl Fn(usize) -> F,
) {
    let spatial = shape[2..].iter().product::<usize>().max(1);
    let channels = shape[1].max(1);
    for (plane, values) in values.chunks_mut(spatial).enumerate() {
        let f = f(plane % channels);
        values.iter_mut().for_each(|v| *v = f(*v));
    }
}

/// Normalizes each group of channels of each sample; `groups` is at least 1.
pub(crate) fn eval_groups(call: &Call<'_>, groups: usize, epsilon: f64) -> Vec<Tensor> {
    let x = call.input(0);
    let per_sample = x.shape[1..].iter().product::<usize>();
    let mut values = x.to_f64();
    for group in values.chunks_mut((per_sample / groups).max(1)) {
        normalize(group, true, epsilon);
    }
    per_channel(&x.shape, &mut values, |c| {
        let [scale, bias] = [1, 2].map(|i| call.input(i).f64_at(c));
        move |v| v * scale + bias
    });
    call.floats(values)
}

/// The loops of an operation whose later operands have one number for each channel of the first one.
pub(crate) fn channels(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let mut domain = IterationDomain::new(op, FreedomClass::Ordered);
    let ids = domain.over(&op.operand(0)?.dims);
    let channel = *ids
        .get(1)
        .ok_or_else(|| OpError::new(NORM_C4, "a norm over channels of rank below 2"))?;
    domain.operands.fill(IndexExpr::each(&[channel]));
    domain.operands[0] = IndexExpr::each(&ids);
    domain.results[0] = IndexExpr::each(&ids);
    Ok(domain)
}

/// The form of a normalization of trailing dimensions: the axes of these dimensions come last, in their order, and none
/// is cut. `write` gets the new `axis` and returns the attributes.
fn over_trailing(
    op: &OpRef<'_>,
    axes: &Axes<'_>,
    first: usize,
    write: impl FnOnce(i64) -> AttrDict,
) -> Option<OverAxes> {
    let rank = op.operand(0).ok()?.rank();
    let labels = of_dims(axes, 0, first..rank);
    let trailing = whole(axes, &labels)?;
    let mut own = axes.own(0);
    own.retain(|run| !trailing.contains(run));
    let n = trailing.len();
    own.extend(trailing.iter().cloned());
    let mut operands = vec![own.clone()];
    for port in 1..axes.n_operands() {
        let mut all = axes.ports()[port].labels.iter().flatten();
        let inside = all.all(|label| labels.contains(&Some(*label)));
        operands.push(if inside {
            trailing.clone()
        } else {
            own.clone()
        });
    }
    let mut over = OverAxes::new(write(-(n as i64)), operands, vec![own]);
    over.broadcasts = true;
    Some(over)
}

/// The form of a normalization over channels: the dimensions `before`, the channels, the dimensions `after`.
pub(crate) fn over_channels(
    op: &OpRef<'_>,
    axes: &Axes<'_>,
    before: Vec<Run>,
    after: Vec<Run>,
) -> Option<OverAxes> {
    let channel = axes.whole(axes.label(0, 1)?)?;
    let data = [&before[..], std::slice::from_ref(&channel), &after].concat();
    let mut operands = vec![vec![channel]; axes.n_operands()];
    operands[0].clone_from(&data);
    Some(OverAxes::new(op.props.clone(), operands, vec![data]))
}

/// The form of a normalization over the spatial dimensions: the batch is one dimension, then come the channels, then
/// the spatial axes in any order.
pub(crate) fn over_images(op: &OpRef<'_>, axes: &Axes<'_>) -> Option<OverAxes> {
    let rank = op.operand(0).ok()?.rank();
    let batch = among(axes, &of_dims(axes, 0, 0..1)).concat();
    let mut spatial = among(axes, &of_dims(axes, 0, 2..rank));
    if spatial.is_empty() {
        spatial.push(Vec::new());
    }
    over_channels(op, axes, vec![batch], spatial)
}

/// As [`channels`], and the operation works along the spatial dimensions.
pub(crate) fn channels_along_spatial(op: &OpRef<'_>) -> Result<IterationDomain, OpError> {
    let mut domain = channels(op)?;
    (2..domain.loops.len()).for_each(|id| domain.along(id));
    Ok(domain)
}

/// The elements of a tensor that broadcasts to `shape`, as floats.
fn broadcast_floats(x: &Tensor, shape: &[usize]) -> Vec<f64> {
    match x.shape == shape {
        true => x.to_f64(),
        false => Offsets::broadcast(&x.shape, shape).picked(&x.to_f64()),
    }
}

codes! {
    pub(crate) const CODES;

    NORM_C1 = program(
        "the operands of a normalization are not floats of one element type",
        r#"%0 = "hbir.layer_norm"(%x, %y) : (tensor<1x4x2xf32>, tensor<2xf16>) -> tensor<1x4x2xf32>"#,
        "cast scale and bias to the element type of the input",
    );
    NORM_C2 = program(
        "`hbir.layer_norm` or `hbir.rms_norm` names an axis that its operand does not have",
        r#"%0 = "hbir.layer_norm"(%x, %y) <{axis = 3}> : (tensor<1x4x2xf32>, tensor<2xf32>) -> tensor<1x4x2xf32>"#,
        "count axes from 0, or from the end with negative numbers: rank 3 has the axes -3 to 2",
    );
    NORM_C3 = program(
        "scale or bias do not broadcast to the operand of the normalization",
        r#"%0 = "hbir.rms_norm"(%x, %y) : (tensor<1x4x2xf32>, tensor<3xf32>) -> tensor<1x4x2xf32>"#,
        "give them the extents of the normalized dimensions",
    );
    NORM_C4 = program(
        "the operand of a normalization over channels has fewer than 2 dimensions",
        r#"%0 = "hbir.instance_norm"(%x, %y, %z) : (tensor<4xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>"#,
        "give an operand [N, C, …]",
    );
    NORM_C5 = program(
        "scale, bias, mean or variance do not have one element a channel",
        r#"%0 = "hbir.instance_norm"(%x, %y, %z) : (tensor<1x4x2xf32>, tensor<3xf32>, tensor<3xf32>) -> tensor<1x4x2xf32>"#,
        "give vectors as long as dimension 1 of the operand",
    );
    NORM_C6 = program(
        "`num_groups` of `hbir.group_norm` does not divide the channels",
        r#"%0 = "hbir.group_norm"(%x, %y, %z) <{num_groups = 3}> : (tensor<1x4x2xf32>, tensor<4xf32>, tensor<4xf32>) -> tensor<1x4x2xf32>"#,
        "choose a number of groups that divides dimension 1 of the operand",
    );
}
