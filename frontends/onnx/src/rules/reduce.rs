//! Reductions and softmax.

use super::shape::reshape_to;
use super::{Rule, decomposed, native};
use crate::entries::Entry;
use crate::node::{Done, NodeCx};
use optc_ir::Dim;
use optc_ir::op::Operation;
use optc_ops::{Flatten, LogSoftmax, ReduceKind, Softmax};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    decomposed("GlobalAveragePool", |cx| global_pool(cx, ReduceKind::Mean)),
    decomposed("GlobalMaxPool", |cx| global_pool(cx, ReduceKind::Max)),
    native("LogSoftmax", |cx| softmax(cx, |axis| LogSoftmax { axis })),
    native("ReduceL1", |cx| reduce(cx, ReduceKind::L1, 18)),
    native("ReduceL2", |cx| reduce(cx, ReduceKind::L2, 18)),
    native("ReduceLogSum", |cx| reduce(cx, ReduceKind::LogSum, 18)),
    native("ReduceLogSumExp", |cx| {
        reduce(cx, ReduceKind::LogSumExp, 18)
    }),
    native("ReduceMax", |cx| reduce(cx, ReduceKind::Max, 18)),
    native("ReduceMean", |cx| reduce(cx, ReduceKind::Mean, 18)),
    native("ReduceMin", |cx| reduce(cx, ReduceKind::Min, 18)),
    native("ReduceProd", |cx| reduce(cx, ReduceKind::Prod, 18)),
    native("ReduceSum", |cx| reduce(cx, ReduceKind::Sum, 13)),
    native("ReduceSumSquare", |cx| {
        reduce(cx, ReduceKind::SumSquare, 18)
    }),
    native("Softmax", |cx| softmax(cx, |axis| Softmax { axis })),
];

/// A reduction; `since` is the first version with the axes as an input.
fn reduce(cx: &mut NodeCx<'_, '_>, kind: ReduceKind, since: i64) -> Done {
    let x = cx.need(0)?;
    let rank = cx.rank(x)?;
    let axes = if since <= cx.opset {
        cx.ints_or_input("axes", 1)?
    } else {
        cx.ints("axes")
    };
    // A scalar may be reduced along axis 0 or -1, although it has no dimension; exporters write this.
    let of_scalar = |axes: &Vec<i64>| rank == 0 && axes.iter().all(|a| [0, -1].contains(a));
    let axes = axes.filter(|a| !a.is_empty() && !of_scalar(a));
    let nothing = axes.is_none() && cx.flag("noop_with_empty_axes", false);
    if nothing
        && matches!(
            kind,
            ReduceKind::Sum
                | ReduceKind::Mean
                | ReduceKind::Max
                | ReduceKind::Min
                | ReduceKind::Prod
        )
    {
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

fn global_pool(cx: &mut NodeCx<'_, '_>, kind: ReduceKind) -> Done {
    let x = cx.need(0)?;
    let axes: Vec<usize> = (2..cx.rank(x)?).collect();
    let result = cx.reduce(kind, x, &axes, true)?;
    cx.set(0, result);
    Ok(())
}

/// `Softmax`; before version 13 it runs over all dimensions from the axis on.
fn softmax<T: Operation>(cx: &mut NodeCx<'_, '_>, along: fn(i64) -> T) -> Done {
    let x = cx.need(0)?;
    let dims = cx.dims(x)?;
    let axis = cx.int("axis").unwrap_or(if cx.opset < 13 { 1 } else { -1 });
    let axis = cx.axis(axis, dims.len())?;
    let flat = cx.opset < 13 && !dims[axis + 1..].iter().all(Dim::is_one);
    if !flat {
        return cx.finish(&along(axis as i64), &[x]);
    }
    let axis = axis as i64;
    let rows = cx.emit(&Flatten { axis }, &[x])?;
    let result = cx.emit(&along(1), &[rows])?;
    let sizes: Vec<Entry> = dims.iter().map(Entry::from).collect();
    let result = reshape_to(cx, result, &sizes)?;
    cx.set(0, result);
    Ok(())
}
