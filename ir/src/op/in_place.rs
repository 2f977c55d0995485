//! Which parts of an operation lie in their wholes, as its text says.

use super::part::{Part, Port};
use super::registry::Registry;
use crate::attr::Attr;
use crate::module::{Func, Op, OpData, Value};
use crate::tensor::Tensor;
use indexmap::IndexSet;

/// The attribute of an operation with the numbers of its parts that lie in their wholes.
pub const IN_PLACE: &str = "in_place";

/// The numbers in the attribute [`IN_PLACE`]; none where there is no such attribute.
///
/// # Errors
/// The attribute is no list of numbers from 0 on.
pub fn listed(data: &OpData) -> Result<Vec<usize>, String> {
    let Some(attr) = data.attrs.get(IN_PLACE) else {
        return Ok(Vec::new());
    };
    let number = |attr: &Attr| attr.as_int().and_then(|n| usize::try_from(n).ok());
    let list: Option<Vec<usize>> = attr
        .as_array()
        .and_then(|list| list.iter().map(number).collect());
    list.ok_or_else(|| format!("found `{IN_PLACE}` that is no list of numbers of ports"))
}

/// Writes the numbers of the parts that lie in their wholes.
pub fn set(data: &mut OpData, numbers: &[usize]) {
    match numbers {
        [] => {
            data.attrs.remove(IN_PLACE);
        }
        numbers => data.attrs.set(IN_PLACE, Attr::ints(numbers)),
    }
}

/// The tensor of a value that is a constant written in the program, not a larger one that repeats one element.
#[must_use]
pub fn constant(func: &Func, value: Value) -> Option<Tensor> {
    let op = func.def_op(value)?;
    let Some(Attr::Dense(dense)) = func.ops[op].props.get("value") else {
        return None;
    };
    let ty = func.ty(value).as_tensor()?;
    let size = |n: &u64| usize::try_from(*n).unwrap_or(usize::MAX);
    let shape: Vec<usize> = ty.shape()?.iter().map(size).collect();
    if dense.splat && shape.iter().product::<usize>() != 1 {
        return None;
    }
    Tensor::from_bytes(ty.dtype, shape, &dense.bytes).ok()
}

/// The parts that an operation of a function says lie in place.
#[must_use]
pub fn settled(func: &Func, op: Op, registry: &Registry) -> Vec<Part> {
    let data = &func.ops[op];
    let numbers: IndexSet<usize> = listed(data).unwrap_or_default().into_iter().collect();
    let decl = registry.get(&data.name);
    let Some(decl) = decl.filter(|d| d.is_part() || !numbers.is_empty()) else {
        return Vec::new();
    };
    let known = |i: usize| constant(func, *data.operands.get(i)?);
    let mut parts = decl.parts(&func.op_ref(op), &known);
    parts.retain(|p| decl.is_part() || numbers.contains(&p.part.number()));
    parts
}

/// The parts that the results of an operation are, one a result, if all of them lie in operands: it copies nothing.
#[must_use]
pub fn results(func: &Func, op: Op, registry: &Registry) -> Option<Vec<Part>> {
    let parts = settled(func, op, registry);
    let results = 0..func.ops[op].results.len();
    let in_order = parts
        .iter()
        .map(|part| part.part)
        .eq(results.map(Port::Result));
    (in_order && !parts.is_empty()).then_some(parts)
}

/// Whether all results of an operation lie in its operand, so that it copies nothing and need not run.
#[must_use]
pub fn copies_nothing(func: &Func, op: Op, registry: &Registry) -> bool {
    let decl = registry.get(&func.ops[op].name);
    decl.is_some_and(|decl| decl.is_part()) || results(func, op, registry).is_some()
}
