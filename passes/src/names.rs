//! Names of values and operations in messages.

use indexmap::IndexMap;
use optc_ir::text::value_names;
use optc_ir::{Func, Value};

/// A value in a message: its number and the operation that makes it, or its name as an argument.
#[must_use]
pub fn name_of(func: &Func, value: Value) -> String {
    match func.def_op(value) {
        Some(op) => format!("{value} (`{}`{})", func.ops[op].name, loc_text(func, op)),
        None => match &func.values[value].name {
            Some(name) => format!("argument %{name}"),
            None => format!("argument {value}"),
        },
    }
}

pub(crate) fn reader_name(func: &Func, reader: Option<optc_ir::Op>) -> String {
    match reader {
        Some(op) => format!("`{}`{}", func.ops[op].name, loc_text(func, op)),
        None => "the function's result".to_owned(),
    }
}

fn loc_text(func: &Func, op: optc_ir::Op) -> String {
    match &func.ops[op].loc {
        optc_ir::Loc::Name(name) => format!(" at \"{name}\""),
        optc_ir::Loc::Fused(parts) => match parts.first() {
            Some(optc_ir::Loc::Name(name)) => {
                format!(" at \"{name}\" and {} more", parts.len() - 1)
            }
            _ => String::new(),
        },
        optc_ir::Loc::Unknown | optc_ir::Loc::File(..) => String::new(),
    }
}

/// A value as the text names it, with the operation that produces it.
pub(crate) fn printed_name(func: &Func, value: Value) -> String {
    name_among(func, &value_names(func), value)
}

/// [`printed_name`], given the names of all values of the function.
pub(crate) fn name_among(func: &Func, names: &IndexMap<Value, String>, value: Value) -> String {
    let name = names.get(&value).map_or("", |n| n);
    match func.def_op(value) {
        Some(op) => format!("%{name} (`{}`{})", func.ops[op].name, loc_text(func, op)),
        None => format!("argument %{name}"),
    }
}
