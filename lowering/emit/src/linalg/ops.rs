//! The dispatch over operations: each is written as a conversion, a call, a view, or by the writer of its family.

use super::constant::constant;
use super::digits::row_major;
use super::kept;
use super::mem::{Mem, Outcome};
use super::nest::Nest;
use super::ports::{freedom, ports};
use super::stored::Stored;
use super::writer::{How, Init, Writer};
use super::{parts, places, products, reduce, scalars, windows};
use crate::unwritten::{Form, Unwritten, first, known};
use optc_ir::op::{Operation, Structure};
use optc_ir::{Op, OpData, Value};
use optc_layout::{Digit, Layout, Mode, ViewMap, propagate};
use optc_ops::{CallOp, Constant, LayoutConvert, MlirCall};

/// Writers of families of operations.
const FAMILIES: &[fn(&mut Writer<'_>, &OpData) -> Form<()>] = &[
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
    if kept::is_kept(data) {
        return kept::write(w, data);
    }
    if w.registry.structure(&data.name) == Structure::View {
        return renamed(w, data);
    }
    if &*data.name == LayoutConvert::NAME {
        let (x, y) = (data.operands[0], data.results[0]);
        let (from, to) = (w.stored(x)?, w.stored(y)?);
        w.see_constant(x)?;
        let mem = match w.seen[x].clone() {
            Some((mem, digits)) => w.placed(&mem, &digits, &to),
            None => {
                let mem = w.storage(x)?;
                w.converted(&mem, &from, &to)
            }
        };
        w.set(y, mem);
        return Ok(());
    }
    if w.registry.rearrangement(&w.op_ref(data)).is_ok() {
        return rearranged(w, data);
    }
    match first(FAMILIES, |family| family(w, data)) {
        Ok(()) => Ok(()),
        Err(Unwritten::NoForm) => Err(w.refuse("it has no form")),
        Err(Unwritten::Error(error)) => Err(error),
    }
}

/// Writes a verified view: the result is the same memory under another name.
fn renamed(w: &mut Writer<'_>, data: &OpData) -> Outcome<()> {
    let (x, y) = (data.operands[0], data.results[0]);
    let mem = w.storage(x)?;
    if !w.stored(y)?.is_digital() {
        w.seen[y] = seen(w, data)?;
    }
    w.set(y, mem);
    Ok(())
}

/// The memory of a view's operand and the digits of the view's result in it; `None` if the result is not an order of
/// digits.
fn seen(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<(Mem, Vec<Digit>)>> {
    let (x, y) = (data.operands[0], data.results[0]);
    let (from, to, digits) = (w.shape(x)?, w.shape(y)?, w.digits(x)?);
    let bits = w.tensor(x)?.dtype.bits();
    let Ok(view) = w.registry.rearrangement(&w.op_ref(data)) else {
        return Ok(None);
    };
    let map = ViewMap {
        shape: w.sizes.complete(&view.shape, &from),
        perm: Some(view.perm.clone()),
        result: to.clone(),
    };
    let mode = |d: &Digit| Mode {
        dim: d.of,
        div: d.div,
        count: d.extent,
        extent: d.extent,
    };
    let modes: Vec<Mode> = digits.iter().map(mode).collect();
    let seen = Layout::from_modes(&from, bits, &modes).ok();
    let seen = seen.and_then(|layout| propagate(&layout, &map).ok());
    let Some(digits) = seen.and_then(|layout| Digit::all(&to, &layout)) else {
        return Ok(None);
    };
    Ok(Some((w.mem(x)?, digits)))
}

/// Writes a reshape or transpose that was not folded: nothing if the memory is already in the right order, else one
/// transpose.
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
    let seen = seen.and_then(|seen| Stored::of(&to, &seen, |n| w.sizes.stands(n)));
    if let Some(from) = seen {
        w.stored(x)?;
        let (mem, wanted) = (w.storage(x)?, w.stored(y)?);
        let mem = w.converted(&mem, &from, &wanted);
        w.set(y, mem);
        return Ok(());
    }
    // A row-major reshape moves nothing.
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
        let mem = w.storage(value)?;
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

/// The extents of an argument or result of a function in the text: the declared ones if the value is row-major, else
/// those of its memory.
pub(super) fn boundary(w: &Writer<'_>, value: Value) -> Outcome<Vec<u64>> {
    let (stored, shape) = (w.stored(value)?, w.shape(value)?);
    let plain = Stored::exact(&shape, &row_major(&shape));
    Ok(match stored == plain {
        true => shape,
        false => stored.extents(),
    })
}

/// Writes element-wise operations with broadcast operands.
fn elementwise(w: &mut Writer<'_>, data: &OpData) -> Form<()> {
    let (op, &[result]) = (w.op_ref(data), data.results.as_slice()) else {
        return Err(Unwritten::NoForm);
    };
    if data.operands.is_empty() || parts::is_part(&op) || !scalars::knows(w.registry, &op) {
        return Err(Unwritten::NoForm);
    }
    let freedom = freedom(w, data)?;
    let dtype = w.tensor(result)?.dtype;
    first(How::ALL, |how| {
        let found = ports(w, data, &freedom, how)?;
        let (ins, out) = (&found.ins, &found.out);
        let mut all: Vec<&[Digit]> = vec![out];
        all.extend(ins.iter().map(|p| &*p.digits));
        let nest = known(Nest::of(&all))?;
        let registry = w.registry;
        let mem = w.generic(&nest, ins, (out, dtype), Init::Empty, |b, _, xs, _| {
            // `knows` has checked that the operation has a form, whatever the numbers are.
            let made = scalars::apply(registry, &op, b, xs, dtype);
            made.unwrap_or_else(|| xs[0].clone())
        });
        found.settle(w, &mem);
        Ok(())
    })
}
