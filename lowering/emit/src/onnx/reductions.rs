//! Reductions, softmax and norms.
//!
//! Example: a softmax along axis 1 of a tensor of rank 3 is a `Softmax` from opset 13 on. In earlier opsets the
//! operator merges all dimensions from the axis on, so the softmax becomes a `Transpose` with `perm = [0, 2, 1]`, a
//! `Softmax` of the last axis, and another `Transpose`.

use super::attrs::{float, int, ints};
use super::shapes::{cast, reshaped};
use super::writer::{Outcome, Writer};
use optc_ir::op::Operation;
use optc_ir::{DType, Dim, OpData, Tensor};
use optc_onnx_proto::AttributeProto;
use optc_ops::{
    ArgMax, ArgMin, BatchNorm, Cumprod, Cumsum, GroupNorm, InstanceNorm, LayerNorm, LogSoftmax,
    Reduce, ReduceKind, RmsNorm, Softmax,
};

/// Writes one of these operations and returns the name of the result; `None` for any other operation.
pub(super) fn write(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    Ok(Some(match &*data.name {
        Softmax::NAME => {
            let made = w.typed::<Softmax>(data)?;
            let at = made.along(&w.op_ref(data));
            let at = at.map_err(|e| w.refused(e.message))?;
            softmax(w, data, "Softmax", made.axis, at)?
        }
        LogSoftmax::NAME => {
            let made = w.typed::<LogSoftmax>(data)?;
            let at = made.along(&w.op_ref(data));
            let at = at.map_err(|e| w.refused(e.message))?;
            softmax(w, data, "LogSoftmax", made.axis, at)?
        }
        Reduce::NAME => reduce(w, data)?,
        ArgMax::NAME => {
            let made = w.typed::<ArgMax>(data)?;
            arg(
                w,
                data,
                "ArgMax",
                (made.axis, made.keepdims, made.select_last_index),
            )?
        }
        ArgMin::NAME => {
            let made = w.typed::<ArgMin>(data)?;
            arg(
                w,
                data,
                "ArgMin",
                (made.axis, made.keepdims, made.select_last_index),
            )?
        }
        Cumsum::NAME => {
            let made = w.typed::<Cumsum>(data)?;
            let flags = [("exclusive", made.exclusive), ("reverse", made.reverse)];
            cumulative(w, data, "CumSum", made.axis, flags)?
        }
        Cumprod::NAME => {
            let made = w.typed::<Cumprod>(data)?;
            let flags = [("exclusive", made.exclusive), ("reverse", made.reverse)];
            cumulative(w, data, "CumProd", made.axis, flags)?
        }
        LayerNorm::NAME => layer_norm(w, data)?,
        RmsNorm::NAME => rms_norm(w, data)?,
        BatchNorm::NAME => {
            let epsilon = w.typed::<BatchNorm>(data)?.epsilon;
            of_operands(w, data, "BatchNormalization", float("epsilon", epsilon))?
        }
        InstanceNorm::NAME => {
            let epsilon = w.typed::<InstanceNorm>(data)?.epsilon;
            of_operands(w, data, "InstanceNormalization", float("epsilon", epsilon))?
        }
        GroupNorm::NAME => group_norm(w, data)?,
        _ => return Ok(None),
    }))
}

/// An operator on the operands as they are, with one attribute.
fn of_operands(
    w: &mut Writer<'_>,
    data: &OpData,
    op_type: &str,
    attr: AttributeProto,
) -> Outcome<String> {
    let given = w.operands(data)?;
    Ok(w.node(op_type, &given, vec![attr]))
}

/// A cumulative sum or product. Flags that are off are not written.
fn cumulative(
    w: &mut Writer<'_>,
    data: &OpData,
    op_type: &str,
    axis: i64,
    flags: [(&str, bool); 2],
) -> Outcome<String> {
    let at = w.literal(&Tensor::from_i64(DType::SI64, vec![], [axis]))?;
    let x = w.name(data.operands[0])?;
    let flags = flags.into_iter().filter(|(_, on)| *on);
    let flags = flags.map(|(name, on)| int(name, on)).collect();
    Ok(w.node(op_type, &[&x, &at], flags))
}

/// A softmax. Before version 13 the operator merges all dimensions from the axis on.
fn softmax(
    w: &mut Writer<'_>,
    data: &OpData,
    op_type: &str,
    axis: i64,
    at: usize,
) -> Outcome<String> {
    let x = w.name(data.operands[0])?;
    let dims = &w.tensor(data.operands[0])?.dims;
    let (rank, inner) = (dims.len(), &dims[at + 1..]);
    // The operator table does not say that the meaning of the axis depends on the version.
    if 13 <= w.opset || inner.iter().all(Dim::is_one) {
        return Ok(w.node(op_type, &[&x], vec![int("axis", axis)]));
    }
    let mut perm: Vec<i64> = (0..i64::try_from(rank).unwrap_or(0)).collect();
    perm.swap(at, rank - 1);
    let last = w.node("Transpose", &[&x], vec![ints("perm", &perm)]);
    let along = int("axis", i64::try_from(rank - 1).unwrap_or(0));
    let soft = w.node(op_type, &[&last], vec![along]);
    Ok(w.node("Transpose", &[&soft], vec![ints("perm", &perm)]))
}

fn arg(
    w: &mut Writer<'_>,
    data: &OpData,
    op_type: &str,
    (axis, keep, last): (i64, bool, bool),
) -> Outcome<String> {
    let x = w.name(data.operands[0])?;
    let mut attrs = vec![int("axis", axis), int("keepdims", keep)];
    if last {
        attrs.push(int("select_last_index", 1));
    }
    let name = w.node(op_type, &[&x], attrs);
    cast(w, &name, DType::SI64, w.tensor(data.results[0])?.dtype)
}

fn reduce(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<Reduce>(data)?;
    let dtype = w.tensor(data.operands[0])?.dtype;
    let axes = made.axes.clone().unwrap_or_default();
    let op_type = match made.kind {
        ReduceKind::Sum => "ReduceSum",
        ReduceKind::Mean => "ReduceMean",
        ReduceKind::Max | ReduceKind::Or => "ReduceMax",
        ReduceKind::Min | ReduceKind::And => "ReduceMin",
        ReduceKind::Prod => "ReduceProd",
        ReduceKind::L1 => "ReduceL1",
        ReduceKind::L2 => "ReduceL2",
        ReduceKind::SumSquare => "ReduceSumSquare",
        ReduceKind::LogSum => "ReduceLogSum",
        ReduceKind::LogSumExp => "ReduceLogSumExp",
    };
    let mut x = w.name(data.operands[0])?;
    // Maximum and minimum of booleans need version 20.
    let through_ints = dtype.is_bool() && !w.takes(op_type, dtype);
    if through_ints {
        x = w.node("Cast", &[&x], vec![int("to", 6)]);
    }
    if let Some(op_type) = global_pool(w, data, &made)? {
        return Ok(w.node(op_type, &[&x], vec![]));
    }
    let name = match made.axes.is_some() && axes.is_empty() {
        true => of_each(w, made.kind, &x),
        false => reduced(w, op_type, &x, made.axes.as_deref(), made.keepdims)?,
    };
    match through_ints {
        true => Ok(w.node("Cast", &[&name], vec![int("to", 9)])),
        false => Ok(name),
    }
}

/// A reduction over no dimensions, which is element-wise.
fn of_each(w: &mut Writer<'_>, kind: ReduceKind, x: &str) -> String {
    match kind {
        ReduceKind::L1 | ReduceKind::L2 => w.node("Abs", &[x], vec![]),
        ReduceKind::SumSquare => w.node("Mul", &[x, x], vec![]),
        ReduceKind::LogSum => w.node("Log", &[x], vec![]),
        ReduceKind::Sum
        | ReduceKind::Mean
        | ReduceKind::Max
        | ReduceKind::Or
        | ReduceKind::Min
        | ReduceKind::And
        | ReduceKind::Prod
        | ReduceKind::LogSumExp => w.node("Identity", &[x], vec![]),
    }
}

/// The pooling operator for a mean or maximum over all spatial dimensions. Runtimes implement it in the layouts of
/// convolutions.
fn global_pool(w: &Writer<'_>, data: &OpData, made: &Reduce) -> Outcome<Option<&'static str>> {
    let ty = w.tensor(data.operands[0])?;
    let op_type = match made.kind {
        ReduceKind::Mean => "GlobalAveragePool",
        ReduceKind::Max => "GlobalMaxPool",
        _ => return Ok(None),
    };
    let reduced = made.reduced(&w.op_ref(data));
    let mut reduced = reduced.map_err(|e| w.refused(e.message))?;
    reduced.sort_unstable();
    let spatial = 4 <= ty.rank() && reduced == (2..ty.rank()).collect::<Vec<_>>();
    Ok((spatial && made.keepdims && ty.dtype.is_float()).then_some(op_type))
}

/// Writes a reduction. The axes are an attribute or, in later versions, an input.
pub(super) fn reduced(
    w: &mut Writer<'_>,
    op_type: &str,
    x: &str,
    axes: Option<&[i64]>,
    keep: bool,
) -> Outcome<String> {
    let keep = int("keepdims", keep);
    match axes {
        None => Ok(w.node(op_type, &[x], vec![keep])),
        Some(axes) if w.has_attribute(op_type, "axes") => {
            Ok(w.node(op_type, &[x], vec![ints("axes", axes), keep]))
        }
        Some(axes) => {
            let axes = w.list(axes)?;
            Ok(w.node(op_type, &[x, &axes], vec![keep]))
        }
    }
}

fn layer_norm(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<LayerNorm>(data)?;
    let dtype = w.tensor(data.operands[0])?.dtype;
    let first = made.first_axis(&w.op_ref(data));
    let first = first.map_err(|e| w.refused(e.message))?;
    if w.takes("LayerNormalization", dtype) && 2 <= data.operands.len() {
        let given = w.operands(data)?;
        let attrs = vec![int("axis", made.axis), float("epsilon", made.epsilon)];
        return Ok(w.node("LayerNormalization", &given, attrs));
    }
    let x = w.name(data.operands[0])?;
    let axes = trailing(w, data, first)?;
    let mean = reduced(w, "ReduceMean", &x, Some(&axes), true)?;
    let centered = w.node("Sub", &[&x, &mean], vec![]);
    normalized(w, data, &centered, &axes, made.epsilon)
}

fn rms_norm(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<RmsNorm>(data)?;
    let dtype = w.tensor(data.operands[0])?.dtype;
    let first = made.first_axis(&w.op_ref(data));
    let first = first.map_err(|e| w.refused(e.message))?;
    if w.takes("RMSNormalization", dtype) && data.operands.len() == 2 {
        let given = w.operands(data)?;
        let attrs = vec![int("axis", made.axis), float("epsilon", made.epsilon)];
        return Ok(w.node("RMSNormalization", &given, attrs));
    }
    let x = w.name(data.operands[0])?;
    let axes = trailing(w, data, first)?;
    normalized(w, data, &x, &axes, made.epsilon)
}

fn trailing(w: &Writer<'_>, data: &OpData, first: usize) -> Outcome<Vec<i64>> {
    let rank = w.tensor(data.operands[0])?.rank();
    let axes = (first..rank).map(i64::try_from);
    Ok(axes.filter_map(Result::ok).collect())
}

/// A value divided by the square root of the mean of its squares, then scaled and shifted by the other operands.
fn normalized(
    w: &mut Writer<'_>,
    data: &OpData,
    x: &str,
    axes: &[i64],
    epsilon: f64,
) -> Outcome<String> {
    let dtype = w.tensor(data.operands[0])?.dtype;
    // Runtimes recognise a norm by its power.
    let two = w.number(2.0, dtype)?;
    let square = w.node("Pow", &[x, &two], vec![]);
    let mean = reduced(w, "ReduceMean", &square, Some(axes), true)?;
    let epsilon = w.number(epsilon, dtype)?;
    let more = w.node("Add", &[&mean, &epsilon], vec![]);
    let root = w.node("Sqrt", &[&more], vec![]);
    let mut name = w.node("Div", &[x, &root], vec![]);
    if let Some(&scale) = data.operands.get(1) {
        let scale = w.name(scale)?;
        name = w.node("Mul", &[&name, &scale], vec![]);
    }
    if let Some(&bias) = data.operands.get(2) {
        let bias = w.name(bias)?;
        name = w.node("Add", &[&name, &bias], vec![]);
    }
    Ok(name)
}

/// Writes one operator from version 21 on (in version 18 it scales groups, not channels). Before, each group is
/// normalized as one channel, then scaled and shifted.
fn group_norm(w: &mut Writer<'_>, data: &OpData) -> Outcome<String> {
    let made = w.typed::<GroupNorm>(data)?;
    let epsilon = float("epsilon", made.epsilon);
    if 21 <= w.opset && data.operands.len() == 3 {
        let given = w.operands(data)?;
        let attrs = vec![int("num_groups", made.num_groups), epsilon];
        return Ok(w.node("GroupNormalization", &given, attrs));
    }
    let ty = w.tensor(data.operands[0])?.clone();
    let groups = usize::try_from(made.num_groups).unwrap_or(0);
    let x = w.name(data.operands[0])?;
    let shape = w.list(&[0, made.num_groups, -1])?;
    let grouped = w.node("Reshape", &[&x, &shape], vec![]);
    let ones = w.literal(&Tensor::from_f64(ty.dtype, vec![groups], vec![1.0; groups]))?;
    let zeros = w.literal(&Tensor::from_f64(ty.dtype, vec![groups], vec![0.0; groups]))?;
    let normal = w.node(
        "InstanceNormalization",
        &[&grouped, &ones, &zeros],
        vec![epsilon],
    );
    let merged = vec![
        ty.dims[0].clone(),
        Dim::Fixed(made.num_groups.unsigned_abs()),
        Dim::Unknown,
    ];
    let mut name = reshaped(w, &normal, &merged, &ty.dims)?;
    let channels = ty.dims.get(1).cloned().unwrap_or(Dim::Unknown);
    let mut column = vec![channels.clone()];
    column.extend((2..ty.rank()).map(|_| Dim::Fixed(1)));
    for (at, op_type) in [(1, "Mul"), (2, "Add")] {
        if let Some(&value) = data.operands.get(at) {
            let value = w.name(value)?;
            let value = reshaped(w, &value, std::slice::from_ref(&channels), &column)?;
            name = w.node(op_type, &[&name, &value], vec![]);
        }
    }
    Ok(name)
}
