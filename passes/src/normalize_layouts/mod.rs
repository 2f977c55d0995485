//! Makes every value row-major, in the shape of its digits: for formats that have no layouts.
//!
//! ```ir before
//! %0 = "hbir.relu"(%x) : (tensor<2x3xf32, {order = [1, 0]}>) -> tensor<2x3xf32, {order = [1, 0]}>
//! %1 = "hbir.view"(%0) <{perm = [1, 0]}> : (tensor<2x3xf32, {order = [1, 0]}>) -> tensor<3x2xf32>
//! %2 = "hbir.softmax"(%1) : (tensor<3x2xf32>) -> tensor<3x2xf32>
//! ```
//! ```ir after
//! %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
//! %1 = "hbir.relu"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>
//! %2 = "hbir.softmax"(%1) : (tensor<3x2xf32>) -> tensor<3x2xf32>
//! ```
//!
//! # Soundness
//! 1. For each value the new program has its memory, in order: a row-major tensor whose dimensions are runs of the
//!    value's digits. A view is the same memory. A conversion is a transpose of digits.
//! 2. An operation runs over the axes of its ports in memory, with its attributes adjusted to these axes. If it has no
//!    such form, it runs over its own dimensions, with its operands and results transposed.
//! 3. Arguments and results have their own dimensions. A port with a declared layout is transposed. With
//!    `keep-boundary` it keeps its layout, so that there is no movement. A value that an operation shares with a
//!    function that it alone runs is handed on in memory order, if both have it in one layout.
//!
//! # Not done
//! Layouts that are no order of digits (tiles with padding, overlapping strides) are refused. Windows run over their
//! own dimensions.
//!
//! # Cost
//! Linear in operations and digits.
//!
//! # Neighbours
//! Run after `view-fold`, before a program is written in a format without layouts; `canonicalize` may follow.
//!
//! # Source
//! MLIR's `normalize-memrefs`; XLA's `layout_normalization`.

mod boundary;
mod contract;
mod digits;
mod memory;
mod ordered;
mod shared;

use crate::codes;
use crate::pass::{Changed, OptionInfo, Outcome, Pass, PassContext, PassInfo, Phase};
use memory::Memory;
use shared::{Ports, Shared, as_it_lies};

use optc_ir::{
    Diagnostic, FreedomClass, Func, FuncBuilder, Module, NewOp, Op, OpError, OpRef, StandIns,
    Structure, TensorType, Type, Value,
};
use optc_layout::Notation;
use optc_ops::Transpose;
use thiserror::Error;

static INFO: PassInfo = PassInfo {
    name: "normalize-layouts",
    summary: "make every value row-major, in the shape of its digits in memory",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[OptionInfo {
        name: "keep-boundary",
        default: "false",
        summary: "keep the layouts that arguments and results declare",
    }],
};

/// The pass.
#[derive(Clone, Copy, Default, Debug)]
pub struct NormalizeLayouts;

impl Pass for NormalizeLayouts {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let laid = module.funcs.iter().any(is_laid);
        let views = |func: &Func| {
            let view = |op: &Op| {
                let structure = cx.registry.structure(&func.ops[*op].name);
                matches!(structure, Structure::View | Structure::Convert)
            };
            func.body.iter().any(view)
        };
        if !laid && !module.funcs.iter().any(views) {
            return Ok(Changed::No.into());
        }
        let shared = Shared::of(module, &cx.registry);
        for func in &mut module.funcs {
            *func = normalized(func, &shared, cx)?;
        }
        module.attrs.remove("hbir.target");
        Ok(Changed::Yes.into())
    }
}

fn is_laid(func: &Func) -> bool {
    let laid = |v: Value| {
        let ty = func.ty(v).as_tensor();
        ty.is_some_and(|ty| ty.notation != Notation::RowMajor)
    };
    func.values.ids().any(laid)
}

/// The function with every value row-major.
fn normalized(func: &Func, shared: &Shared, cx: &PassContext) -> Result<Func, Box<Diagnostic>> {
    let registry = &cx.registry;
    let numbers = StandIns::for_func(func, registry).ok_or_else(|| {
        let message = format!("@{}: a value has 2^63 positions or more", func.name);
        let diag = Diagnostic::error(codes::NORMALIZE_LAYOUT, message);
        Box::new(diag.at(func.span, "in this function"))
    })?;
    let mut memory = Memory::new(FuncBuilder::named(&func.name, registry), numbers);
    memory.dimension_numbers = cx.target.dimension_numbers;
    for &op in &func.body {
        let data = &func.ops[op];
        if let (Structure::View, Some(&of)) =
            (registry.structure(&data.name), data.operands.first())
        {
            memory.views.entry(of).or_insert(op);
        }
    }
    let ports = shared.function(func);
    for (i, (&arg, port)) in func.args.iter().zip(&func.arg_ports).enumerate() {
        let lies = lies(&mut memory, func, arg, ports.gives(i));
        let ty = lies.clone().unwrap_or_else(|| plain(func.ty(arg)));
        let new = memory.b.func.add_arg(ty, port.name.as_deref());
        if let Some(last) = memory.b.func.arg_ports.last_mut() {
            last.clone_from(port);
        }
        let stored = match lies {
            Some(_) => Ok(new),
            None => stored(&mut memory, func, arg, new),
        };
        let stored = stored.map_err(|why| refused(func, arg, &why))?;
        memory.set(arg, stored);
    }
    for &op in &func.body {
        memory.b.loc = func.ops[op].loc.clone();
        let made = operation(&mut memory, func, op, &shared.operation(func, op));
        let made = made.map_err(|why| {
            let data = &func.ops[op];
            let message = format!("{} has no form without layouts: {why}", data.name);
            let diag = Diagnostic::error(codes::NORMALIZE_LAYOUT, message);
            let hint = "lay the program out for a target whose layouts are orders of digits, such as cpu or onnx";
            let diag = diag.at(data.span, "this operation").hint(hint);
            Box::new(diag.of(data.loc.names()))
        })?;
        for (&old, new) in func.ops[op].results.iter().zip(made) {
            memory.set(old, new);
        }
    }
    for (i, (&value, port)) in func.results.iter().zip(&func.result_ports).enumerate() {
        let new = handed(&mut memory, func, value, ports.takes(i));
        let new = new.map_err(|why| refused(func, value, &why))?;
        memory.b.func.add_result(new, port.name.as_deref());
        if let Some(last) = memory.b.func.result_ports.last_mut() {
            last.clone_from(port);
        }
    }
    if cx.options.flag(&INFO, "keep-boundary")? {
        let kept = boundary::keep(&mut memory.b, func);
        kept.map_err(|e| {
            let message = format!("the boundary of @{}: {}", func.name, e.message);
            let diag = Diagnostic::error(codes::NORMALIZE_LAYOUT, message);
            Box::new(diag.at(func.span, "in this function"))
        })?;
    }
    let made = memory.b.func;
    Ok(Func {
        attrs: func.attrs.clone(),
        loc: func.loc.clone(),
        bare: func.bare,
        span: func.span,
        ..made
    })
}

fn refused(func: &Func, value: Value, why: &Unwritten) -> Box<Diagnostic> {
    let ty = func.ty(value).as_tensor();
    let notation = ty.map(|ty| ty.notation.to_string()).unwrap_or_default();
    let message = format!(
        "a value of @{} in the layout {{{notation}}}: {why}",
        func.name
    );
    let diag = Diagnostic::error(codes::NORMALIZE_LAYOUT, message);
    let made = func.def_op(value).map(|op| func.ops[op].loc.names());
    let diag = diag.of(made.unwrap_or_default());
    Box::new(diag.at(func.span, "in this function"))
}

/// A type without a layout.
fn plain(ty: &Type) -> Type {
    match ty.as_tensor() {
        Some(tensor) => tensor.without_layout().into(),
        None => ty.clone(),
    }
}

/// The reason why a value cannot be written.
#[derive(Debug, Error)]
enum Unwritten {
    #[error("its layout is no order of digits")]
    NoDigits,
    #[error("it is used before it is made")]
    NotMade,
    #[error("an operand is used before it is made")]
    OperandNotMade,
    #[error("it has another number of operands than 1")]
    NotOneOperand,
    #[error("{}", .0.message)]
    Op(#[from] OpError),
}

type Outcomes<T> = Result<T, Unwritten>;

/// Returns whether the memory of a tensor type is its elements in row-major order, whatever the sizes.
fn is_plain(ty: &TensorType) -> bool {
    ty.notation == Notation::RowMajor || ty.dims.iter().any(|d| d.fixed() == Some(0))
}

/// The memory of a value of the old function, from its elements in row-major order.
fn stored(memory: &mut Memory<'_>, func: &Func, mut old: Value, mut new: Value) -> Outcomes<Value> {
    loop {
        let Some(ty) = func.ty(old).as_tensor().filter(|ty| !is_plain(ty)) else {
            return Ok(new);
        };
        if let Some(digits) = digits::of_type(ty, &mut memory.numbers) {
            let stored = memory.stored(new, &digits)?;
            return stored.ok_or(Unwritten::NoDigits);
        }
        // Views have the memory of their operand.
        let &view = memory.views.get(&old).ok_or(Unwritten::NoDigits)?;
        new = viewed(memory, func, view, new)?;
        old = func.ops[view].results[0];
    }
}

/// The result of a view in its own dimensions, from the operand in its own dimensions.
fn viewed(memory: &mut Memory<'_>, func: &Func, op: Op, mut value: Value) -> Outcomes<Value> {
    let made = memory.b.registry().rearrangement(&func.op_ref(op))?;
    value = memory.reshape(value, &made.shape)?;
    if !made.is_reshape() {
        let transpose = Transpose::of_perm(&made.perm);
        value = memory.b.one(&transpose, &[value])?;
    }
    let result = func.ty(func.ops[op].results[0]).as_tensor();
    let dims = &result.ok_or(Unwritten::NoDigits)?.dims;
    Ok(memory.reshape(value, dims)?)
}

/// The type of a value in memory order, if a port hands it on in that order.
fn lies(memory: &mut Memory<'_>, func: &Func, old: Value, handed: bool) -> Option<Type> {
    let ty = func.ty(old).as_tensor().filter(|_| handed)?;
    as_it_lies(ty, &mut memory.numbers).map(Type::from)
}

/// A value of the old function as a port hands it on: in memory order, or in its own dimensions.
fn handed(memory: &mut Memory<'_>, func: &Func, old: Value, handed: bool) -> Outcomes<Value> {
    let Some(Type::Tensor(ty)) = lies(memory, func, old, handed) else {
        return logical(memory, func, old);
    };
    let value = memory.get(old).ok_or(Unwritten::NotMade)?;
    Ok(memory.reshape(value, &ty.dims)?)
}

/// A value of the old function in its own dimensions.
fn logical(memory: &mut Memory<'_>, func: &Func, old: Value) -> Outcomes<Value> {
    let value = memory.get(old).ok_or(Unwritten::NotMade)?;
    let Some(ty) = func.ty(old).as_tensor() else {
        return Ok(value);
    };
    if is_plain(ty) {
        return Ok(memory.reshape(value, &ty.dims)?);
    }
    match digits::of_type(ty, &mut memory.numbers) {
        Some(digits) => {
            let made = memory.logical(value, ty, &digits)?;
            made.ok_or(Unwritten::NoDigits)
        }
        None => through_views(memory, func, old),
    }
}

/// A value in its own dimensions whose layout is no order of their digits. It is a view, possibly through other views,
/// of a value whose layout is one. The views are applied again, to that value in its own dimensions.
fn through_views(memory: &mut Memory<'_>, func: &Func, old: Value) -> Outcomes<Value> {
    let mut views = Vec::new();
    let mut root = old;
    loop {
        let op = func.def_op(root).ok_or(Unwritten::NoDigits)?;
        if memory.b.registry().structure(&func.ops[op].name) != Structure::View {
            return Err(Unwritten::NoDigits);
        }
        views.push(op);
        root = *func.ops[op].operands.first().ok_or(Unwritten::NoDigits)?;
        let ty = func.ty(root).as_tensor().ok_or(Unwritten::NoDigits)?;
        if is_plain(ty) || digits::of_type(ty, &mut memory.numbers).is_some() {
            break;
        }
    }
    let mut value = logical(memory, func, root)?;
    for op in views.into_iter().rev() {
        value = viewed(memory, func, op, value)?;
    }
    Ok(value)
}

/// The memory of an operation's results.
fn operation(memory: &mut Memory<'_>, func: &Func, op: Op, ports: &Ports) -> Outcomes<Vec<Value>> {
    let data = &func.ops[op];
    let view = func.op_ref(op);
    let registry = memory.b.registry();
    let operands: Option<Vec<Value>> = data.operands.iter().map(|&v| memory.get(v)).collect();
    let operands = operands.ok_or(Unwritten::OperandNotMade)?;
    match registry.structure(&data.name) {
        Structure::View => return Ok(operands),
        Structure::Convert => {
            let &[from] = &data.operands[..] else {
                return Err(Unwritten::NotOneOperand);
            };
            let value = converted(memory, func, [from, data.results[0]], operands[0])?;
            return Ok(vec![value]);
        }
        Structure::Plain | Structure::Constant | Structure::Call | Structure::Opaque => {}
    }
    let all = data.operands.iter().chain(&data.results);
    let natural = all.filter_map(|&v| func.ty(v).as_tensor()).all(is_plain);
    if !natural && let Some(made) = over_axes(memory, &view, &operands)? {
        return Ok(made);
    }
    let mut given = Vec::with_capacity(operands.len());
    for (i, &operand) in data.operands.iter().enumerate() {
        given.push(handed(memory, func, operand, ports.gives(i))?);
    }
    let taken = data.results.iter().enumerate();
    let taken: Vec<Option<Type>> = taken
        .map(|(i, &v)| lies(memory, func, v, ports.takes(i)))
        .collect();
    let types = data.results.iter().zip(&taken);
    let types = types.map(|(&v, lies)| lies.clone().unwrap_or_else(|| plain(func.ty(v))));
    let types = types.collect();
    let new = NewOp {
        name: &data.name,
        operands: given,
        props: ports.props.clone().unwrap_or_else(|| data.props.clone()),
        attrs: data.attrs.clone(),
        results: Some(types),
        loc: data.loc.clone(),
    };
    let made = memory.b.add(new)?;
    let results = data.results.iter().zip(taken).zip(made);
    results
        .map(|((&old, lies), new)| match lies {
            Some(_) => Ok(new),
            None => stored(memory, func, old, new),
        })
        .collect()
}

/// The memory of a converted value.
fn converted(
    memory: &mut Memory<'_>,
    func: &Func,
    [from, to]: [Value; 2],
    value: Value,
) -> Outcomes<Value> {
    let (Some(x), Some(y)) = (func.ty(from).as_tensor(), func.ty(to).as_tensor()) else {
        return Ok(value);
    };
    if is_plain(x) && is_plain(y) {
        return Ok(value);
    }
    let (Some(before), Some(after)) = (
        digits::of_type(x, &mut memory.numbers),
        digits::of_type(y, &mut memory.numbers),
    ) else {
        let value = logical(memory, func, from)?;
        return stored(memory, func, to, value);
    };
    if let Some(made) = memory.arrange(value, &before, &after)? {
        return Ok(made);
    }
    let value = logical(memory, func, from)?;
    stored(memory, func, to, value)
}

/// Writes an operation over the axes of its ports in memory; `None` where it has no such form.
fn over_axes(
    memory: &mut Memory<'_>,
    op: &OpRef<'_>,
    operands: &[Value],
) -> Outcomes<Option<Vec<Value>>> {
    let Some(decl) = memory.b.registry().get(op.name) else {
        return Ok(None);
    };
    let freedom = decl.freedom(op);
    let made = match freedom.class {
        FreedomClass::Ordered => ordered::write(memory, op, decl, &freedom, operands),
        FreedomClass::Contract => {
            let made = contract::write(memory, op, &freedom, operands);
            made.map(|made| made.map(|value| vec![value]))
        }
        FreedomClass::Rearrange
        | FreedomClass::Window
        | FreedomClass::Source
        | FreedomClass::Barrier => Ok(None),
    };
    // With nameless sizes there is no such shape. The operation then runs over its own dimensions.
    match made {
        Err(_)
            if op
                .results
                .iter()
                .filter_map(|ty| ty.as_tensor())
                .any(nameless) =>
        {
            Ok(None)
        }
        made => Ok(made?),
    }
}

/// Returns whether a type has unknown sizes without names.
fn nameless(ty: &TensorType) -> bool {
    ty.dims.contains(&optc_ir::Dim::Unknown)
}
