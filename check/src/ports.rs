//! The values at the ports of an operation, their layouts, and runs of digits by label.

use optc_ir::{Dim, Func, Op, TensorType, Value};
use optc_layout::Layout;

/// Returns whether the first operand of an operation is a tensor of floats.
pub(crate) fn of_floats(func: &Func, op: Op) -> bool {
    let first = func.ops[op].operands.first();
    let ty = first.and_then(|&v| func.ty(v).as_tensor());
    ty.is_some_and(|ty| ty.dtype.is_float())
}

pub(crate) fn ports(func: &Func, op: Op) -> Vec<Value> {
    let data = &func.ops[op];
    data.operands.iter().chain(&data.results).copied().collect()
}

pub(crate) fn all_row_major(func: &Func, op: Op) -> Result<(), String> {
    for (i, v) in ports(func, op).into_iter().enumerate() {
        if let Some(layout) = layout_of(func, v)
            && !layout.is_row_major_order()
        {
            return Err(format!(
                "port {i} is {}, wanted row-major",
                encoding(func, v)
            ));
        }
    }
    Ok(())
}

pub(crate) fn encoding(func: &Func, value: Value) -> String {
    match func.ty(value).as_tensor() {
        Some(ty) if ty.notation != optc_layout::Notation::RowMajor => {
            format!("{{{}}}", ty.notation)
        }
        _ => "row-major".to_owned(),
    }
}

/// The layout of a value; `None` for a value without elements, for which every layout is right.
pub(crate) fn layout_of(func: &Func, value: Value) -> Option<Layout> {
    let layout = func.ty(value).as_tensor()?.layout()?.ok()?;
    (layout.elements() != 0).then_some(layout)
}

/// The type of a value with the size 2 for every unknown size. The digits of the other dimensions do not depend on these
/// sizes.
pub(crate) fn some_size(func: &Func, value: Value) -> Option<TensorType> {
    const SOME: u64 = 2;
    let mut ty = func.ty(value).as_tensor()?.clone();
    for dim in &mut ty.dims {
        *dim = Dim::Fixed(dim.fixed().unwrap_or(SOME));
    }
    Some(ty)
}

pub(crate) fn some_layout(func: &Func, value: Value) -> Option<Layout> {
    some_size(func, value)?.layout()?.ok()
}

/// A run of adjacent digits of one label, as one digit: `div` adjacent indices share a value of the digit, and it has
/// `count` values.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Run {
    pub(crate) label: usize,
    pub(crate) div: u64,
    pub(crate) count: u64,
}

/// Joins adjacent runs that are consecutive digits of one label. Such runs occur if a label between them is broadcast.
pub(crate) fn joined(runs: impl Iterator<Item = Run>) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for run in runs {
        match out.last_mut() {
            Some(last)
                if last.label == run.label && run.div.checked_mul(run.count) == Some(last.div) =>
            {
                *last = Run {
                    count: last.count.saturating_mul(run.count),
                    ..run
                };
            }
            _ => out.push(run),
        }
    }
    out
}
