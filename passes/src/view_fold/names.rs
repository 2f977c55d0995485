//! What values and operations are called in messages.

use indexmap::IndexMap;
use optc_ir::{Func, Value};

pub(crate) fn name_of(func: &Func, value: Value) -> String {
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

/// The names the printer gives values, without `%`: arguments by name, results numbered in order.
pub(crate) fn printed_names(func: &Func) -> IndexMap<Value, String> {
    let mut names = IndexMap::new();
    for &arg in &func.args {
        let name = func.values[arg].name.as_deref().map(str::to_owned);
        names.insert(
            arg,
            name.unwrap_or_else(|| arg.to_string().replace('%', "")),
        );
    }
    let mut n = 0usize;
    for &op in &func.body {
        let results = &func.ops[op].results;
        for (i, &result) in results.iter().enumerate() {
            let many = 1 < results.len();
            let name = if many {
                format!("{n}#{i}")
            } else {
                format!("{n}")
            };
            names.insert(result, name);
        }
        n += usize::from(!results.is_empty());
    }
    names
}
