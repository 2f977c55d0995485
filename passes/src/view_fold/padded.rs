//! Remarks on the padding that stays: the places of a tile that are not full, and the rows of the target that want them.

use super::layouts::Layouts;
use super::maps::FastMap;
use super::physical::{Digit, Place};
use crate::codes;
use crate::names::name_of;
use crate::pass::PassContext;
use indexmap::IndexMap;
use optc_check::{Item, Source};
use optc_ir::text::print_type;
use optc_ir::{Diagnostic, Func, Module, Op, Structure, Value};
use optc_target::When;

/// The most operations that a remark names.
const MOST_NAMED: usize = 4;

/// The values of one type that are padded.
struct Padded {
    func: usize,
    first: Value,
    values: usize,
    bytes: u64,
}

/// The operations and numbers of operands that read each value.
type Readers = FastMap<Value, Vec<(Op, usize)>>;

fn readers_of(func: &Func) -> Readers {
    let mut readers = Readers::default();
    for &op in &func.body {
        for (at, &operand) in func.ops[op].operands.iter().enumerate() {
            readers.entry(operand).or_default().push((op, at));
        }
    }
    readers
}

/// Adds one remark for each type of stored values with padding, those with the most padding first.
pub(crate) fn remark_padding(module: &Module, all: &[Item], cx: &mut PassContext) {
    if !cx.target.is_tiled() {
        return;
    }
    let mut types: IndexMap<String, Padded> = IndexMap::new();
    for item in all {
        let func = &module.funcs[item.func];
        let value = match item.of {
            Source::Op(op) => func.ops[op].results.first().copied(),
            Source::Arg(arg) => Some(arg),
        };
        let Some(first) = value.filter(|_| item.padding != 0) else {
            continue;
        };
        let entry = types.entry(print_type(func.ty(first)));
        let known = entry.or_insert(Padded {
            func: item.func,
            first,
            values: 0,
            bytes: 0,
        });
        known.values += 1;
        known.bytes = known.bytes.saturating_add(item.padding);
    }
    let mut types: Vec<(String, Padded)> = types.into_iter().collect();
    types.sort_by_key(|(_, padded)| std::cmp::Reverse(padded.bytes));
    let mut layouts = Layouts::on(&cx.target);
    let readers: Vec<Readers> = module.funcs.iter().map(readers_of).collect();
    for (ty, padded) in types {
        let (func, value) = (&module.funcs[padded.func], padded.first);
        let name = name_of(func, value);
        let of = match padded.values {
            1 => name,
            n => format!("{n} values, the first of them {name},"),
        };
        let message = format!(
            "padding of {of} in {ty} stays: {} bytes written and read",
            padded.bytes
        );
        let mut diag = Diagnostic::remark(codes::PADDING_STAYS, message);
        if let Some(op) = func.def_op(value) {
            diag = diag.at(func.ops[op].span, "produced here");
        }
        for line in places(func, value, &mut layouts) {
            diag = diag.note(line);
        }
        for line in demands(func, &readers[padded.func], value, cx) {
            diag = diag.note(line);
        }
        cx.remarks.push(diag);
    }
}

/// The places of a tile that are not full, and the extents that would fill them.
fn places(func: &Func, value: Value, layouts: &mut Layouts) -> Vec<String> {
    let Some(layout) = func.ty(value).as_tensor().and_then(|ty| ty.layout()?.ok()) else {
        return Vec::new();
    };
    let (elements, positions) = (layout.elements(), layout.positions());
    let id = layouts.intern(layout);
    let [rows, lanes] = layouts.tile(id);
    let Some(form) = layouts.form(id) else {
        // Text of blocks or digits states no tile.
        return vec![format!("{elements} elements are in {positions} positions")];
    };
    let said = |(place, size, word): (Place, u64, &str)| {
        let digits: Vec<String> = form.at(place).map(digit).collect();
        let extents = form.at(place).map(|d| d.extent);
        let run = extents.fold(1u64, u64::saturating_mul);
        let full = run.checked_next_multiple_of(size)?;
        if full == run {
            return None;
        }
        let of = match digits.as_slice() {
            [] => "one element".to_owned(),
            _ => format!("{run} elements of {}", digits.join(" and ")),
        };
        let hint = match digits.as_slice() {
            [one] => format!("; a multiple of {size} elements along {one} would fill them"),
            _ => String::new(),
        };
        Some(format!("the {word} hold {of} in {full} positions{hint}"))
    };
    let both = [(Place::Lane, lanes, "lanes"), (Place::Row, rows, "rows")];
    both.into_iter().filter_map(said).collect()
}

/// A digit in words.
fn digit(digit: &Digit) -> String {
    match digit.div {
        1 => format!("d{}", digit.dim),
        div => format!("d{}/{div}", digit.dim),
    }
}

/// The roles that operations want in the lanes and rows of a value: the operation that makes it, and its readers.
fn demands(func: &Func, readers: &Readers, value: Value, cx: &PassContext) -> Vec<String> {
    let mut ports: Vec<(Op, usize)> = Vec::new();
    if let Some(op) = func.def_op(value) {
        ports.push((op, func.ops[op].operands.len()));
    }
    let mut views = vec![value];
    while let Some(view) = views.pop() {
        for &(op, at) in readers.get(&view).into_iter().flatten() {
            let data = &func.ops[op];
            match cx.registry.structure(&data.name) {
                Structure::View => views.extend(&data.results),
                _ => ports.push((op, at)),
            }
        }
    }
    let said = |(op, port): (Op, usize)| {
        let (data, decl) = (&func.ops[op], cx.registry.get(&func.ops[op].name)?);
        let row = cx.target.row(decl.family_of(&func.op_ref(op)))?;
        let n = data.operands.len();
        let tiled = row.taken().filter(|a| a.when != Some(When::Untiled));
        let mut words: Vec<String> = tiled.filter_map(|a| a.port(port, n).words()).collect();
        words.dedup();
        let which = match port < n {
            true => format!("operand {port}"),
            false => "the result".to_owned(),
        };
        let name = &data.name;
        (!words.is_empty()).then(|| format!("{which} of `{name}` has {}", words.join(", or ")))
    };
    let mut lines: Vec<String> = ports.into_iter().filter_map(said).collect();
    lines.sort();
    lines.dedup();
    if lines.is_empty() {
        return vec!["its operations take any order: another one costs more in all".to_owned()];
    }
    let left = lines.len().saturating_sub(MOST_NAMED);
    lines.truncate(MOST_NAMED);
    if 0 < left {
        lines.push(format!("and {left} more ports"));
    }
    lines
}
