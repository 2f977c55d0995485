//! Operators of ONNX that run functions of the module: `If`, `Loop` and `Scan` whose graphs are functions.
//!
//! The operands are the inputs of the node, then the captures: values of the enclosing graph that the inner graphs use.
//! The attribute `captures` is their number. In a function, the arguments for captures come last.

use optc_ir::op::{Control, OpRef, Slices};
use optc_ir::{Attr, AttrDict};
use std::sync::Arc;

/// The attributes that name the functions of an operator; empty for an operator that runs no functions.
#[must_use]
pub fn body_attributes(kind: &str) -> &'static [&'static str] {
    match kind {
        "If" => &["onnx.then_branch", "onnx.else_branch"],
        "Loop" | "Scan" => &["onnx.body"],
        _ => &[],
    }
}

/// The functions that an operator of this kind runs, if its graphs are functions.
pub(crate) fn control(kind: &str, op: &OpRef<'_>) -> Option<Control> {
    let named = |key: &&str| symbol(op.props.get(key)?);
    let functions: Option<Vec<Arc<str>>> = body_attributes(kind).iter().map(named).collect();
    let mut functions = functions?;
    if kind == "If" {
        return Some(Control::Branch(functions));
    }
    let body = functions.pop()?;
    let captures = op.props.int("captures").unwrap_or(0);
    let own = op.operands.len();
    let own = own.checked_sub(usize::try_from(captures).ok()?)?;
    if kind == "Loop" {
        let positions = op.props.ints("input_positions");
        let has = |n: i64, at: usize| {
            let stated = positions.as_ref().map(|all| all.contains(&n));
            stated.unwrap_or(at < own)
        };
        let (limit, condition) = (has(0, 0), has(1, 1));
        let carried = own.checked_sub(usize::from(limit) + usize::from(condition))?;
        return Some(Control::Rounds {
            body,
            limit,
            condition,
            carried,
        });
    }
    let apart = usize::try_from(op.props.int("onnx.num_scan_inputs")?).ok()?;
    let carried = own.checked_sub(apart)?;
    let stacked = op.results.len().checked_sub(carried)?;
    let slices = |what: &str, first: usize, count: usize| -> Option<Vec<Slices>> {
        let list = |key: String| op.props.ints(&key);
        let axes = list(format!("onnx.scan_{what}_axes"));
        let directions = list(format!("onnx.scan_{what}_directions"));
        let one = |i: usize| {
            let ty = match what {
                "input" => op.operand(first + i),
                _ => op.result(first + i),
            };
            let rank = i64::try_from(ty.ok()?.rank()).ok()?;
            let at = |list: &Option<Vec<i64>>| list.as_ref().map_or(Some(0), |l| l.get(i).copied());
            let axis = at(&axes)?;
            let axis = if axis < 0 {
                axis.checked_add(rank)?
            } else {
                axis
            };
            Some(Slices {
                axis: usize::try_from(axis).ok().filter(|_| axis < rank)?,
                reverse: at(&directions)? != 0,
            })
        };
        (0..count).map(one).collect()
    };
    Some(Control::Scan {
        body,
        carried,
        apart: slices("input", carried, apart)?,
        stacked: slices("output", carried, stacked)?,
    })
}

/// The attributes of a `Scan` that slices its operands along the dimensions `apart` and stacks its results along the
/// dimensions `stacked`.
#[must_use]
pub fn with_slices(props: &AttrDict, apart: Vec<usize>, stacked: Vec<usize>) -> AttrDict {
    let mut props = props.clone();
    for (what, axes) in [("input", apart), ("output", stacked)] {
        let key = format!("onnx.scan_{what}_axes");
        if axes.iter().any(|&axis| axis != 0) || props.get(&key).is_some() {
            props.set(&key, Attr::ints(&axes));
        }
    }
    props
}

/// The function that an attribute names.
pub(crate) fn symbol(attr: &Attr) -> Option<Arc<str>> {
    match attr {
        Attr::Symbol(name) => Some(name.clone()),
        _ => None,
    }
}
