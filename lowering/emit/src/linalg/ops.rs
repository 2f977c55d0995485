//! What each operation becomes.

use super::constant::constant;
use super::digits::{of_layout, row_major};
use super::mem::{Mem, Outcome};
use super::nest::Nest;
use super::ports::{freedom, ports};
use super::writer::{Init, Writer};
use super::{parts, places, products, reduce, scalars, windows};
use optc_ir::op::{Operation, Structure};
use optc_ir::{Op, OpData, Value};
use optc_layout::{Digit, ViewMap, propagate};
use optc_ops::{CallOp, Constant, LayoutConvert, MlirCall};

/// Families of operations, each with what it writes: whether it has written the operation.
const FAMILIES: &[fn(&mut Writer<'_>, &OpData) -> Outcome<bool>] = &[
    elementwise,
    reduce::write,
    products::write,
    windows::write,
    parts::write,
    places::write,
];

/// Writes one operation.
pub(super) fn write(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let func = w.func;
    let data = &func.ops[op];
    w.now = Some(data);
    match &*data.name {
        Constant::NAME => return constant(w, data),
        CallOp::NAME | MlirCall::NAME => return call(w, op),
        _ => {}
    }
    for &value in data.operands.iter().chain(&data.results) {
        w.tensor(value)?;
    }
    if w.registry.structure(&data.name) == Structure::View {
        return renamed(w, data);
    }
    if &*data.name == LayoutConvert::NAME {
        let (x, y) = (data.operands[0], data.results[0]);
        let port = w.operand(x, false)?;
        return w.settle(y, &port.mem, &port.digits);
    }
    if w.registry.rearrangement(&w.op_ref(data)).is_ok() {
        return rearranged(w, data);
    }
    for family in FAMILIES {
        if family(w, data)? {
            return Ok(());
        }
    }
    Err(w.refuse("it has no form"))
}

/// A view that has been verified: the same memory.
fn renamed(w: &mut Writer<'_>, data: &OpData) -> Outcome<()> {
    let mem = w.mem(data.operands[0])?;
    w.digits(data.results[0])?;
    w.set(data.results[0], mem);
    Ok(())
}

/// A reshape or transpose that nothing has folded: nothing where the memory is right, else one transpose.
fn rearranged(w: &mut Writer<'_>, data: &OpData) -> Outcome<()> {
    let (x, y) = (data.operands[0], data.results[0]);
    let to = w.shape(y)?;
    let view = w.registry.rearrangement(&w.op_ref(data));
    let view = view.map_err(|e| w.refuse(&e.to_string()))?;
    let shape = w.sizes.complete(&view.shape, &w.shape(x)?);
    let shape = shape.ok_or_else(|| w.refuse("a size is not known"))?;
    let map = ViewMap {
        shape: Some(shape.clone()),
        perm: Some(view.perm.clone()),
        result: to.clone(),
    };
    let seen = w
        .layout(x)?
        .and_then(|layout| propagate(&layout, &map).ok());
    if let Some(digits) = seen.and_then(|seen| of_layout(&to, &seen)) {
        let mem = w.mem(x)?;
        w.digits(x)?;
        return w.settle(y, &mem, &digits);
    }
    // In row-major order a reshape is nothing.
    let mem = w.logical(x)?;
    let before = row_major(&shape);
    let order = view
        .perm
        .iter()
        .flat_map(|&p| before.iter().filter(move |d| d.of == p));
    let order: Vec<Digit> = order.copied().collect();
    let mem = w.arrange(&mem, &before, &order);
    w.settle(y, &mem, &row_major(&to))
}

/// A call of a function of the module.
fn call(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let func = w.func;
    let data = &func.ops[op];
    let Some(callee) = func.callee(op) else {
        return Err(w.refuse("it names no function"));
    };
    let mut args = Vec::with_capacity(data.operands.len());
    let mut types = Vec::with_capacity(data.operands.len());
    for &value in &data.operands {
        let shape = boundary(w, value)?;
        let mem = w.mem(value)?;
        let mem = w.reshape(&mem, &shape);
        types.push(w.sizes.ty(&mem));
        args.push(mem.name);
    }
    let name = w.fresh();
    let n = data.results.len();
    let mut results = Vec::with_capacity(n);
    for (i, &value) in data.results.iter().enumerate() {
        let shape = boundary(w, value)?;
        let dtype = w.tensor(value)?.dtype;
        let name = match n {
            1 => name.clone(),
            _ => format!("{name}#{i}"),
        };
        let mem = Mem { name, shape, dtype };
        results.push(w.sizes.ty(&mem));
        w.set(value, mem);
    }
    let left = match n {
        0 => String::new(),
        1 => format!("{name} = "),
        _ => format!("{name}:{n} = "),
    };
    w.line(&format!(
        "{left}func.call @{}({}) : ({}) -> ({})",
        super::symbol(callee),
        args.join(", "),
        types.join(", "),
        results.join(", ")
    ));
    Ok(())
}

/// The extents of an argument or result of a function: as declared where it is row-major, else its digits in memory.
pub(super) fn boundary(w: &Writer<'_>, value: Value) -> Outcome<Vec<u64>> {
    let (digits, shape) = (w.digits(value)?, w.shape(value)?);
    Ok(match digits == row_major(&shape) {
        true => shape,
        false => super::digits::extents(&digits),
    })
}

/// Operations of each element by itself, operands broadcast.
fn elementwise(w: &mut Writer<'_>, data: &OpData) -> Outcome<bool> {
    let (op, &[result]) = (w.op_ref(data), data.results.as_slice()) else {
        return Ok(false);
    };
    if data.operands.is_empty() || parts::is_part(&op) || !scalars::knows(&op) {
        return Ok(false);
    }
    let freedom = freedom(w, data)?;
    let dtype = w.tensor(result)?.dtype;
    for plain in [false, true] {
        let Some((ins, out)) = ports(w, data, &freedom, plain)? else {
            continue;
        };
        let mut all: Vec<&[Digit]> = vec![&out];
        all.extend(ins.iter().map(|p| &*p.digits));
        let Some(nest) = Nest::of(&all) else { continue };
        let mem = w.generic(&nest, &ins, (&out, dtype), Init::Empty, |b, _, xs, _| {
            // What `knows` is so for all numbers.
            let made = scalars::apply(&op, b, xs, dtype);
            made.unwrap_or_else(|| xs[0].clone())
        });
        let digits = w.wanted(result, plain)?;
        w.settle(result, &mem, &digits)?;
        return Ok(true);
    }
    Ok(false)
}
