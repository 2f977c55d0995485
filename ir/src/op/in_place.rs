//! The attributes that say which parts of an operation lie in place, inside of their wholes.

use super::part::{Part, Port, Update};
use super::registry::Registry;
use crate::attr::Attr;
use crate::memory::{self, Place};
use crate::module::{Func, Op, OpData, Value, ValueDef};
use crate::tensor::Tensor;
use indexmap::{IndexMap, IndexSet};

/// The attribute of an operation with the numbers of its parts that lie in place.
pub const IN_PLACE: &str = "in_place";

/// The attribute of an operation whose result has no bytes: its readers read the operands in place.
pub const IN_PIECES: &str = "in_pieces";

/// The attribute of an argument with the numbers of the results of the function that may lie in its memory. The argument
/// is then the first bytes of the result's memory, which the caller provides for both.
pub const ALIAS: &str = "hbir.alias";

/// The numbers of the results that may lie in the memory of an argument; empty for any other value.
#[must_use]
pub fn aliased_results(func: &Func, value: Value) -> Vec<usize> {
    let ValueDef::Arg(number) = func.values[value].def else {
        return Vec::new();
    };
    let port = func.arg_ports.get(number);
    let listed = port.and_then(|port| port.attrs.ints(ALIAS));
    let listed = listed.into_iter().flatten();
    listed
        .filter_map(|n| usize::try_from(n).ok())
        .filter(|&n| n < func.results.len())
        .collect()
}

/// The update that an operation is, if the operand that it copies lies in its result.
#[must_use]
pub fn settled_update(func: &Func, op: Op, registry: &Registry) -> Option<Update> {
    let data = &func.ops[op];
    let update = registry.get(&data.name)?.updates(&func.op_ref(op))?;
    listed(data).ok()?.contains(&update.of).then_some(update)
}

/// Returns whether the operation has the attribute [`IN_PIECES`]: its result lies in pieces, the bytes of its operands.
#[must_use]
pub fn is_in_pieces(data: &OpData) -> bool {
    data.attrs.get(IN_PIECES).is_some()
}

/// Sets or removes the attribute [`IN_PIECES`].
pub fn set_in_pieces(data: &mut OpData, is: bool) {
    match is {
        true => data.attrs.set(IN_PIECES, Attr::Unit),
        false => {
            data.attrs.remove(IN_PIECES);
        }
    }
}

/// The numbers in the attribute [`IN_PLACE`]; empty if there is no such attribute.
///
/// # Errors
/// The attribute is no list of non-negative integers.
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

/// Writes the numbers of the parts that lie in place.
pub fn set(data: &mut OpData, numbers: &[usize]) {
    match numbers {
        [] => {
            data.attrs.remove(IN_PLACE);
        }
        numbers => data.attrs.set(IN_PLACE, Attr::ints(numbers)),
    }
}

/// The tensor of a constant that is written in the program. `None` for any other value, and for a constant of several
/// elements that is written as one repeated element.
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

/// The parts of an operation that lie in place according to its attribute.
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

/// For each result of an operation, true if it is a part that lies in place in operand 0.
#[must_use]
pub fn lies_in_operand(func: &Func, op: Op, registry: &Registry) -> Vec<bool> {
    let mut lies = vec![false; func.ops[op].results.len()];
    for part in settled(func, op, registry) {
        if let (Port::Result(number), Port::Operand(0)) = (part.part, part.whole)
            && let Some(lies) = lies.get_mut(number)
        {
            *lies = true;
        }
    }
    lies
}

/// The values that lie inside others ([`Place::Inside`]) in a function whose memory is decided, and the arguments that
/// lie in the memory of a result ([`ALIAS`]). Each is mapped to the outermost value whose bytes contain it.
///
/// A value is left out if no operation lists it, or an alias of it, in `in_place`.
#[must_use]
pub fn wholes(func: &Func, registry: &Registry) -> IndexMap<Value, Value> {
    let mut wholes: IndexMap<Value, Value> = IndexMap::new();
    for &op in func.body.iter().rev() {
        if func.ops[op].attrs.get(IN_PLACE).is_none() {
            continue;
        }
        let data = &func.ops[op];
        for part in settled(func, op, registry) {
            let (Port::Operand(_), Port::Result(_)) = (part.part, part.whole) else {
                continue;
            };
            let ends = part.part.value(data).zip(part.whole.value(data));
            if let Some((small, whole)) = ends
                && let Some(&value) = path(func, small).last()
            {
                let outer = wholes.get(&whole).copied().unwrap_or(whole);
                let lies = match place(func, value) {
                    Some(place) => place == Place::Inside,
                    None => {
                        matches!(place(func, outer), Some(Place::Result(n)) if aliased_results(func, value).contains(&n))
                    }
                };
                if lies {
                    wholes.insert(value, outer);
                }
            }
        }
    }
    wholes
}

/// The chain of values that a value aliases by [`Place::Alias`], from the value itself to the one that owns the bytes.
#[must_use]
pub fn path(func: &Func, value: Value) -> Vec<Value> {
    let mut path = vec![value];
    let mut at = value;
    while let Some(Place::Alias(operand)) = place(func, at)
        && let Some(op) = func.def_op(at)
        && let Some(&up) = func.ops[op].operands.get(operand)
    {
        path.push(up);
        at = up;
    }
    path
}

/// The place of a value; `None` for an argument, or if memory is not decided.
fn place(func: &Func, value: Value) -> Option<Place> {
    let ValueDef::Result(op, number) = func.values[value].def else {
        return None;
    };
    let places = memory::places(&func.ops[op]).ok()??;
    places.get(number).copied()
}
