//! The instructions for each operation.
//!
//! Example: `hbir.exp` is one instruction, `exponential`. Operations that take several instructions are in the modules
//! of their families.

use super::compose;
use super::constant::constant;
use super::custom::{custom_call, result_shape};
use super::func::{Outcome, Writer, list};
use super::line::Inside;
use super::shape::tensor_text;
use super::tuple::Tree;
use super::{composition, elementwise, index, norms, places, scaled, windows};
use crate::codes;
use crate::unwritten::{Form, Unwritten, first};
use optc_ir::op::{AttrValue, Operation, Structure};
use optc_ir::{Attr, Diagnostic, Dim, Op, OpData, TensorType, Value};
use optc_layout::{ViewMap, propagate};
use optc_ops::{
    BitcastConvert, Broadcast, CallOp, Concat, Constant, DepthToSpace, DimSplit, DotGeneral,
    Flatten, Identity, Iota, LayoutConvert, MlirCall, Opaque, Reshape, ShardingConstraint,
    SpaceToDepth, Split, Squeeze, TopK, Transpose, Unsqueeze, View,
};
use std::fmt::Write;

/// Writes one operation and names its results.
pub(super) fn write(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    if data.results.len() == 1
        && w.func.ty(data.results[0]).as_tensor().is_some()
        && data
            .operands
            .iter()
            .all(|&v| w.func.ty(v).as_tensor().is_some())
    {
        match tensor_op(w, data) {
            Err(Unwritten::NoForm) => {}
            Err(Unwritten::Error(error)) => return Err(error),
            Ok(name) => {
                // An asynchronous instruction was named when it was started.
                if !name.is_empty() {
                    w.called(data.results[0], name);
                }
                return Ok(());
            }
        }
    }
    match &*data.name {
        CallOp::NAME | MlirCall::NAME => call(w, op),
        Opaque::NAME => match w.typed::<Opaque>(data) {
            Ok(made) if made.domain.as_deref() == Some("hlo") => opaque(w, op, &made.kind),
            Ok(made) if w.shared.mlir && made.domain.as_deref() == Some("mlir") => {
                verbatim(w, op, &made.kind)
            }
            _ => custom_call(w, op),
        },
        Split::NAME => index::split(w, op),
        TopK::NAME => places::top_k(w, op),
        _ => custom_call(w, op),
    }
}

/// The name of the result of an operation on tensors.
fn tensor_op(w: &mut Writer<'_>, data: &OpData) -> Form<String> {
    let ty = w.tensor(data.results[0])?.clone();
    let args = &data.operands;
    Ok(match &*data.name {
        ShardingConstraint::NAME if w.shared.mlir => {
            let splits = w.typed::<ShardingConstraint>(data)?.split.0;
            let splits: Vec<String> = splits.iter().map(DimSplit::to_string).collect();
            let attrs = format!(", split={{{}}}", splits.join(","));
            w.one("sharding-constraint", args[0], &ty, &attrs)?
        }
        Identity::NAME | ShardingConstraint::NAME => identity(w, args[0], &ty)?,
        BitcastConvert::NAME => w.one("bitcast-convert", args[0], &ty, "")?,
        View::NAME => view(w, data, &ty)?,
        Reshape::NAME | Squeeze::NAME | Unsqueeze::NAME | Flatten::NAME => {
            w.one("reshape", args[0], &ty, "")?
        }
        DepthToSpace::NAME | SpaceToDepth::NAME => rearranged(w, data, &ty, false)?,
        LayoutConvert::NAME if data.attrs.str("hlo.async") == Some("copy") => {
            start_copy(w, data, &ty)?
        }
        LayoutConvert::NAME => convert(w, data, &ty)?,
        Broadcast::NAME => w.spread(args[0], &ty)?,
        Constant::NAME => constant(w, data, &ty)?,
        Transpose::NAME => transpose(w, data, &ty)?,
        Iota::NAME => iota(w, data, &ty)?,
        Concat::NAME => concat(w, data, &ty)?,
        DotGeneral::NAME => dot(w, data, &ty)?,
        _ => {
            let families = [
                elementwise::write,
                compose::write,
                norms::write,
                composition::write,
                index::write,
                places::write,
                scaled::write,
                windows::write,
            ];
            first(families, |family| family(w, data, &ty))?
        }
    })
}

fn transpose(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let perm = w.typed::<Transpose>(data)?.permutation(&w.op_ref(data))?;
    let attrs = format!(", dimensions={}", list(&perm));
    Ok(w.one("transpose", data.operands[0], ty, &attrs)?)
}

fn iota(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let axis = w.typed::<Iota>(data)?.along(&w.op_ref(data))?;
    let attrs = format!(", iota_dimension={axis}");
    Ok(w.put(ty, "iota", &[], &attrs)?)
}

/// A bitcast; before layout assignment the equivalent reshape and transpose. If HLO text cannot express the layout, the
/// row-major rearrangement.
fn view(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    if tensor_text(ty).is_ok() {
        if w.is_logical() {
            return rearranged(w, data, ty, true);
        }
        let root = w.root(data.operands[0]);
        return w.one("bitcast", root, ty, "");
    }
    rearranged(w, data, &ty.without_layout(), false)
}

/// A copy. For a view whose layout HLO text cannot express, the rearrangement straight into the new layout.
fn convert(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    let operand = data.operands[0];
    match w.defining(operand) {
        Some(seen) if !w.expressible(operand) && w.structure(seen) == Structure::View => {
            rearranged(w, seen, ty, false)
        }
        // A broadcast scalar is written in the new layout directly.
        Some(made) if &*made.name == Broadcast::NAME && w.is_one(made.operands[0]) => {
            w.spread(made.operands[0], ty)
        }
        _ => w.one("copy", operand, ty, ""),
    }
}

/// The reshape, transpose and reshape of a rearrangement; the last one gives `ty`. With `in_place` they have layouts in
/// which none of them moves anything, else row-major ones.
fn rearranged(
    w: &mut Writer<'_>,
    data: &OpData,
    ty: &TensorType,
    in_place: bool,
) -> Outcome<String> {
    let mut at = w.name(data.operands[0])?;
    let Some(view) = w.rearrangement(data) else {
        return w.put(ty, "reshape", &[at], "");
    };
    let mut from = w.tensor(data.operands[0])?.clone();
    if view.shape != from.dims {
        from = seen(&from, &view.shape, None, in_place);
        at = w.put(&from, "reshape", &[at], "")?;
    }
    if !view.is_reshape() {
        let dims = view.transposed();
        let last = dims == ty.dims;
        let own = seen(&from, &dims, Some(&view.perm), in_place);
        let attrs = format!(", dimensions={}", list(&view.perm));
        at = w.put(if last { ty } else { &own }, "transpose", &[at], &attrs)?;
        if last {
            return Ok(at);
        }
    }
    w.put(ty, "reshape", &[at], "")
}

/// The type of a value after a reshape or transpose that moves nothing; row-major if HLO text cannot express its
/// layout, or without `in_place`.
fn seen(from: &TensorType, dims: &[Dim], perm: Option<&[usize]>, in_place: bool) -> TensorType {
    let to = TensorType::new(dims.to_vec(), from.dtype);
    let there = || {
        if !in_place {
            return None;
        }
        let map = ViewMap {
            shape: None,
            perm: perm.map(<[usize]>::to_vec),
            result: to.shape()?,
        };
        let layout = propagate(&from.layout()?.ok()?, &map).ok()?;
        let ty = to.with_notation(layout.notation().clone());
        tensor_text(&ty).is_ok().then_some(ty)
    };
    there().unwrap_or(to)
}

/// The same numbers; in another memory space without a copy: a bitcast, as XLA writes it.
fn identity(w: &mut Writer<'_>, x: Value, ty: &TensorType) -> Outcome<String> {
    let from = w.tensor(x)?;
    let layout = |ty: &TensorType| {
        let text = ty.notation.to_string();
        let cut = text
            .find("S(")
            .map_or(text.as_str(), |i| &text[..i])
            .to_owned();
        cut.trim_end_matches([':', '"']).to_owned()
    };
    let near = from.notation != ty.notation && layout(from) == layout(ty);
    w.one(if near { "bitcast" } else { "copy" }, x, ty, "")
}

fn concat(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let axis = w.typed::<Concat>(data)?.along(&w.op_ref(data))?;
    let mut names = Vec::with_capacity(data.operands.len());
    for &arg in &data.operands {
        names.push(w.name(arg)?);
    }
    let attrs = format!(", dimensions={{{axis}}}");
    Ok(w.put(ty, "concatenate", &names, &attrs)?)
}

fn dot(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Form<String> {
    let pairing = w.typed::<DotGeneral>(data)?.pairing(&w.op_ref(data))?;
    let names = [w.name(data.operands[0])?, w.name(data.operands[1])?];
    let mut attrs = String::new();
    for (side, batch, contract) in [
        ("lhs", &pairing.lhs_batch, &pairing.lhs_contract),
        ("rhs", &pairing.rhs_batch, &pairing.rhs_contract),
    ] {
        if !batch.is_empty() {
            let _ = write!(attrs, ", {side}_batch_dims={}", list(batch));
        }
        let _ = write!(attrs, ", {side}_contracting_dims={}", list(contract));
    }
    Ok(w.put(ty, "dot", &names, &attrs)?)
}

fn start_copy(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    let from = tensor_text(w.tensor(data.operands[0])?)?;
    let to = tensor_text(ty)?;
    let name = w.name(data.operands[0])?;
    let shape = format!("({to}, {from}, u32[])");
    let start = w.raw(&shape, "copy-start", &[name], "");
    w.started(data.results[0], start, "copy", &to);
    Ok(String::new())
}

/// A call, or a fusion if it was one on import.
fn call(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    let callee = w.typed::<CallOp>(data).map(|call| call.callee);
    let callee = callee.or_else(|_| w.typed::<MlirCall>(data).map(|call| call.callee));
    let Some(callee) = callee
        .ok()
        .and_then(|c| w.shared.computations(&c.to_attr()))
    else {
        return custom_call(w, op);
    };
    let mut names = Vec::new();
    let mut at = 0;
    for tree in operand_trees(data, data.attrs.get("hlo.operand_shapes")) {
        let values = &data.operands[at..at + tree.leaves()];
        names.push(w.tuple(&tree, values)?);
        at += tree.leaves();
    }
    let tree = Tree::flat(data.results.len());
    let shape = result_shape(w, data, &tree)?;
    let (opcode, attrs) = match data.attrs.str("hlo.fusion") {
        Some(kind) => {
            let aliasing = data.attrs.str("hlo.output_to_operand_aliasing");
            let aliasing = aliasing.map_or(String::new(), |t| {
                format!(", output_to_operand_aliasing={t}")
            });
            ("fusion", format!(", kind={kind}{aliasing}, calls={callee}"))
        }
        None => ("call", format!(", to_apply={callee}")),
    };
    let name = w.raw(&shape, opcode, &names, &attrs);
    w.results(op, tree, &name)
}

/// The tuple structure of each operand; no tuples if nothing is stated.
fn operand_trees(data: &OpData, stated: Option<&Attr>) -> Vec<Tree> {
    let trees: Option<Vec<Tree>> = stated.and_then(Attr::as_array).and_then(|list| {
        list.iter()
            .map(|text| text.as_str().and_then(Tree::parse))
            .collect()
    });
    trees
        .filter(|t| t.iter().map(Tree::leaves).sum::<usize>() == data.operands.len())
        .unwrap_or_else(|| vec![Tree::Leaf; data.operands.len()])
}

/// An instruction of HLO text that was kept unchanged.
fn opaque(w: &mut Writer<'_>, op: Op, kind: &str) -> Outcome<()> {
    let data = &w.func.ops[op];
    let mut names = Vec::new();
    let mut at = 0;
    for tree in operand_trees(data, data.props.get("operand_shapes")) {
        let values = &data.operands[at..at + tree.leaves()];
        names.push(w.tuple(&tree, values)?);
        at += tree.leaves();
    }
    let stated = data.props.str("result_shape").and_then(Tree::parse);
    let tree = stated
        .filter(|t| t.leaves() == data.results.len())
        .unwrap_or_else(|| Tree::flat(data.results.len()));
    let shape = result_shape(w, data, &tree)?;
    let mut attrs = String::new();
    for (key, value) in data.props.iter() {
        let Some(key) = key.strip_prefix("hlo.") else {
            continue;
        };
        let text = match value {
            Attr::Str(text) => Some(text.to_string()),
            other => w.shared.computations(other),
        };
        if let Some(text) = text {
            let _ = write!(attrs, ", {key}={text}");
        }
    }
    let name = match data.props.str("payload") {
        Some(payload) => {
            let left_out = kind == "constant" && payload.contains("...");
            let called = data.props.str("elided").filter(|_| left_out);
            let inside = Inside::Payload(payload.to_owned());
            let name = w.named(called.unwrap_or(kind), &shape, kind, inside, &attrs);
            if left_out {
                elided(w, data, &name, &shape);
            }
            name
        }
        None => w.raw(&shape, kind, &names, &attrs),
    };
    w.results(op, tree, &name)
}

/// An operation of MLIR that was kept unchanged.
fn verbatim(w: &mut Writer<'_>, op: Op, kind: &str) -> Outcome<()> {
    let data = &w.func.ops[op];
    let mut operands = Vec::with_capacity(data.operands.len());
    for &operand in &data.operands {
        operands.push(w.name(operand)?);
    }
    let tree = Tree::flat(data.results.len());
    let shape = result_shape(w, data, &tree)?;
    let called = data
        .props
        .get("hlo.called_computations")
        .and_then(Attr::as_array);
    let called = called.unwrap_or_default().iter();
    let computations = called.filter_map(|c| w.shared.computations(c));
    let inside = Inside::Verbatim {
        text: data.props.str("hlo.text").unwrap_or(kind).to_owned(),
        operands,
        computations: computations
            .map(|c| c.trim_start_matches('%').to_owned())
            .collect(),
    };
    let name = w.line(&shape, kind, inside, "");
    w.results(op, tree, &name)
}

/// Warns about a constant whose elements the program does not have.
fn elided(w: &mut Writer<'_>, data: &OpData, name: &str, shape: &str) {
    let message = format!(
        "the elements of the constant `{name}` of {shape} were left out of the program's text, and stay out"
    );
    let diag =
        Diagnostic::warning(codes::HLO_CONSTANT_ELIDED, message).at(data.span, "this constant");
    let diag =
        diag.hint("print the module with `print_large_constants`, so that its text holds them");
    w.shared.warnings.push(diag);
}
