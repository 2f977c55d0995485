//! Which parts of an operation lie in their wholes, as its text says.

use super::part::{Along, Part, Port};
use super::registry::Registry;
use crate::attr::Attr;
use crate::module::{Func, Op, OpData, Value};
use crate::tensor::Tensor;

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
    let numbers = listed(data).unwrap_or_default();
    let decl = registry.get(&data.name);
    let Some(decl) = decl.filter(|d| d.is_part() || !numbers.is_empty()) else {
        return Vec::new();
    };
    let known = |i: usize| constant(func, *data.operands.get(i)?);
    let mut parts = decl.parts(&func.op_ref(op), &known);
    parts.retain(|p| decl.is_part() || numbers.contains(&p.part.number()));
    parts
}

/// The result of this number of an operation as a part that lies in its operand, dimension for dimension; `None` where
/// it is none, or has other dimensions.
#[must_use]
pub fn slice(func: &Func, op: Op, result: usize, registry: &Registry) -> Option<Part> {
    let mut parts = settled(func, op, registry).into_iter();
    let part = parts.find(|part| part.part == Port::Result(result))?;
    let straight = |(d, along): (usize, &Along)| along.from == Some(d);
    let rank = func.op_ref(op).result(result).ok()?.rank();
    let same = part.dims.len() == rank && part.dims.iter().enumerate().all(straight);
    same.then_some(part)
}
