//! Operators that pick, place, order or accumulate elements along an axis.

use super::{Rule, decomposed, native};
use crate::builder::Stop;
use crate::node::{Done, NodeCx, props};
use optc_ir::{Attr, AttrDict, DType};

/// The rules of this family.
pub(super) static RULES: &[Rule] = &[
    native("ArgMax", |cx| arg_extreme(cx, "hbir.arg_max")),
    native("ArgMin", |cx| arg_extreme(cx, "hbir.arg_min")),
    native("CumSum", cumsum),
    native("Gather", |cx| gather(cx, "hbir.gather")),
    native("GatherElements", |cx| gather(cx, "hbir.gather_elements")),
    native("GatherND", gather_nd),
    decomposed("OneHot", one_hot),
    native("Scatter", scatter_elements),
    native("ScatterElements", scatter_elements),
    native("ScatterND", scatter_nd),
    native("TopK", top_k),
];

fn axis_attr(cx: &NodeCx<'_, '_>, default: i64, rank: usize) -> Result<Attr, Stop> {
    let axis = cx.axis(cx.int("axis").unwrap_or(default), rank)?;
    Ok(Attr::int(axis as i64))
}

fn gather(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    let (x, indices) = (cx.need(0)?, cx.need(1)?);
    let axis = axis_attr(cx, 0, cx.rank(x)?)?;
    cx.finish(name, &[x, indices], props([("axis", axis)]))
}

fn gather_nd(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?];
    let batch_dims = cx.int("batch_dims").unwrap_or(0);
    cx.finish(
        "hbir.gather_nd",
        &operands,
        props([("batch_dims", Attr::int(batch_dims))]),
    )
}

fn reduction(cx: &NodeCx<'_, '_>) -> Attr {
    Attr::str(&cx.string("reduction").unwrap_or_else(|| "none".into()))
}

fn scatter_elements(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    let axis = axis_attr(cx, 0, cx.rank(operands[0])?)?;
    let dict = props([("axis", axis), ("reduction", reduction(cx))]);
    cx.finish("hbir.scatter_elements", &operands, dict)
}

fn scatter_nd(cx: &mut NodeCx<'_, '_>) -> Done {
    let operands = [cx.need(0)?, cx.need(1)?, cx.need(2)?];
    cx.finish(
        "hbir.scatter_nd",
        &operands,
        props([("reduction", reduction(cx))]),
    )
}

fn arg_extreme(cx: &mut NodeCx<'_, '_>, name: &str) -> Done {
    let x = cx.need(0)?;
    let dict = props([
        ("axis", axis_attr(cx, 0, cx.rank(x)?)?),
        ("keepdims", Attr::Bool(cx.flag("keepdims", true))),
        (
            "select_last_index",
            Attr::Bool(cx.flag("select_last_index", false)),
        ),
    ]);
    cx.finish(name, &[x], dict)
}

fn cumsum(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    cx.need(1)?;
    let axis = cx.const_ints(1).and_then(|a| a.first().copied());
    let axis = axis.ok_or_else(|| Stop::opaque("its axis is computed at run time"))?;
    let axis = cx.axis(axis, cx.rank(x)?)?;
    let dict = props([
        ("axis", Attr::int(axis as i64)),
        ("exclusive", Attr::Bool(cx.flag("exclusive", false))),
        ("reverse", Attr::Bool(cx.flag("reverse", false))),
    ]);
    cx.finish("hbir.cumsum", &[x], dict)
}

fn top_k(cx: &mut NodeCx<'_, '_>) -> Done {
    let x = cx.need(0)?;
    let k = cx
        .int("k")
        .or(cx.const_ints(1).and_then(|k| k.first().copied()));
    let k = k.ok_or_else(|| Stop::opaque("its k is computed at run time"))?;
    let dict = props([
        ("k", Attr::int(k)),
        ("axis", axis_attr(cx, -1, cx.rank(x)?)?),
        ("largest", Attr::Bool(cx.flag("largest", true))),
        ("sorted", Attr::Bool(cx.flag("sorted", true))),
    ]);
    let results = cx.emit_all("hbir.top_k", &[x], dict)?;
    results
        .into_iter()
        .enumerate()
        .for_each(|(i, result)| cx.set(i, result));
    Ok(())
}

/// `OneHot`: the operation takes `[off, on]` as its second operand.
fn one_hot(cx: &mut NodeCx<'_, '_>) -> Done {
    let (indices, values) = (cx.need(0)?, cx.need(2)?);
    cx.need(1)?;
    let depth = cx.const_floats(1).and_then(|d| d.first().copied());
    let depth = depth.ok_or_else(|| Stop::opaque("its depth is computed at run time"))?;
    let axis = axis_attr(cx, -1, cx.rank(indices)? + 1)?;
    let indices = cx.cast(indices, DType::SI64)?;
    let dict: AttrDict = props([("axis", axis), ("depth", Attr::int(depth as i64))]);
    cx.finish("hbir.one_hot", &[indices, values], dict)
}
