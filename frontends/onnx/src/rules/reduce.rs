//! Reductions and softmax.

use super::shape::reshape_to;
use super::{Rule, decomposed, native};
use crate::entries::Entry;
use crate::node::{Done, NodeCx, props};
use optc_ir::{Attr, Dim};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    decomposed("GlobalAveragePool", |cx| global_pool(cx, "mean")),
    decomposed("GlobalMaxPool", |cx| global_pool(cx, "max")),
    native("LogSoftmax", |cx| softmax(cx, "hbir.log_softmax")),
    native("ReduceL1", |cx| reduce(cx, "l1", 18)),
    native("ReduceL2", |cx| reduce(cx, "l2", 18)),
    native("ReduceLogSum", |cx| reduce(cx, "log_sum", 18)),
    native("ReduceLogSumExp", |cx| reduce(cx, "log_sum_exp", 18)),
    native("ReduceMax", |cx| reduce(cx, "max", 18)),
    native("ReduceMean", |cx| reduce(cx, "mean", 18)),
    native("ReduceMin", |cx| reduce(cx, "min", 18)),
    native("ReduceProd", |cx| reduce(cx, "prod", 18)),
    native("ReduceSum", |cx| reduce(cx, "sum", 13)),
    native("ReduceSumSquare", |cx| reduce(cx, "sum_square", 18)),
    native("Softmax", |cx| softmax(cx, "hbir.softmax")),
];

/// A reduction; `since` is the version in which the axes became an input.
fn reduce(cx: &mut NodeCx<'_, '_>, kind: &str, since: i64) -> Done {
    let x = cx.need(0)?;
    let rank = cx.rank(x)?;
    let axes = if since <= cx.opset {
        cx.ints_or_input("axes", 1)?
    } else {
        cx.ints("axes")
    };
    let axes = axes.filter(|a| !a.is_empty());
    let nothing = axes.is_none() && cx.flag("noop_with_empty_axes", false);
    if nothing && matches!(kind, "sum" | "mean" | "max" | "min" | "prod") {
        cx.set(0, x);
        return Ok(());
    }
    let axes = match axes {
        Some(axes) => cx.axes(&axes, rank)?,
        None if nothing => Vec::new(),
        None => (0..rank).collect(),
    };
    let result = cx.reduce(kind, x, &axes, cx.flag("keepdims", true))?;
    cx.set(0, result);
    Ok(())
}

fn global_pool(cx: &mut NodeCx<'_, '_>, kind: &str) -> Done {
    let x = cx.need(0)?;
    let axes: Vec<usize> = (2..cx.rank(x)?).collect();
    let result = cx.reduce(kind, x, &axes, true)?;
    cx.set(0, result);
    Ok(())
}

/// `Softmax`; before version 13 it ran over all dimensions from the axis on.
fn softmax(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let axis = cx.int("axis").unwrap_or(if cx.opset < 13 { 1 } else { -1 });
    let axis = cx.axis(axis, dims.len())?;
    let dict = |axis: usize| props([("axis", Attr::int(axis as i64))]);
    let flat = cx.opset < 13 && !dims[axis + 1..].iter().all(Dim::is_one);
    if !flat {
        return cx.finish(name, &[x], dict(axis));
    }
    let rows = cx.emit("hbir.flatten", &[x], dict(axis))?;
    let result = cx.emit(name, &[rows], dict(1))?;
    let sizes: Vec<Entry> = dims.iter().map(Entry::from).collect();
    let result = reshape_to(cx, result, &sizes)?;
    cx.set(0, result);
    Ok(())
}
