//! What each operation becomes.

use super::compose;
use super::constant::constant;
use super::func::{Outcome, Writer, computations, escaped, list};
use super::index;
use super::shape::{shape_text, tensor_text};
use super::tuple::Tree;
use super::windows;
use optc_ir::{Attr, DType, Diagnostic, Dim, Op, OpData, Sign, TensorType, Value};
use std::fmt::Write;

/// Operations that are one instruction of the same operands.
const DIRECT: &[(&str, &str)] = &[
    ("hbir.abs", "abs"),
    ("hbir.acos", "acos"),
    ("hbir.acosh", "acosh"),
    ("hbir.add", "add"),
    ("hbir.and", "and"),
    ("hbir.asin", "asin"),
    ("hbir.asinh", "asinh"),
    ("hbir.atan2", "atan2"),
    ("hbir.atanh", "atanh"),
    ("hbir.bit_and", "and"),
    ("hbir.bit_or", "or"),
    ("hbir.bit_xor", "xor"),
    ("hbir.bitcast_convert", "bitcast-convert"),
    ("hbir.cast", "convert"),
    ("hbir.cbrt", "cbrt"),
    ("hbir.ceil", "ceil"),
    ("hbir.cos", "cosine"),
    ("hbir.cosh", "cosh"),
    ("hbir.div", "divide"),
    ("hbir.erf", "erf"),
    ("hbir.exp", "exponential"),
    ("hbir.expm1", "exponential-minus-one"),
    ("hbir.floor", "floor"),
    ("hbir.log", "log"),
    ("hbir.log1p", "log-plus-one"),
    ("hbir.max", "maximum"),
    ("hbir.min", "minimum"),
    ("hbir.mul", "multiply"),
    ("hbir.neg", "negate"),
    ("hbir.not", "not"),
    ("hbir.or", "or"),
    ("hbir.pow", "power"),
    ("hbir.round", "round-nearest-even"),
    ("hbir.rsqrt", "rsqrt"),
    ("hbir.shift_left", "shift-left"),
    ("hbir.sigmoid", "logistic"),
    ("hbir.sign", "sign"),
    ("hbir.sin", "sine"),
    ("hbir.sinh", "sinh"),
    ("hbir.sqrt", "sqrt"),
    ("hbir.sub", "subtract"),
    ("hbir.tan", "tan"),
    ("hbir.tanh", "tanh"),
    ("hbir.xor", "xor"),
];

/// Writes one operation and names its results.
pub(super) fn write(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    if data.results.len() == 1
        && w.func.ty(data.results[0]).as_tensor().is_some()
        && data
            .operands
            .iter()
            .all(|&v| w.func.ty(v).as_tensor().is_some())
        && let Some(name) = tensor_op(w, data)?
    {
        // An asynchronous instruction has been named where it was started.
        if !name.is_empty() {
            w.called(data.results[0], name);
        }
        return Ok(());
    }
    match &*data.name {
        "hbir.call" | "func.call" => call(w, op),
        "hbir.opaque" if data.props.str("domain") == Some("hlo") => opaque(w, op),
        "hbir.split" => index::split(w, op),
        _ => custom_call(w, op),
    }
}

/// The name of the result of an operation on tensors; none where it has no instructions here.
fn tensor_op(w: &mut Writer<'_>, data: &OpData) -> Outcome<Option<String>> {
    let ty = w.tensor(data.results[0])?.clone();
    let args = &data.operands;
    if let Some((_, opcode)) = DIRECT.iter().find(|(name, _)| *name == &*data.name) {
        return direct(w, opcode, args, &ty).map(Some);
    }
    let done = match &*data.name {
        "hbir.identity" => identity(w, args[0], &ty)?,
        "hbir.shift_right" => {
            let signed = matches!(
                ty.dtype,
                DType::Int {
                    sign: Sign::Signed | Sign::Signless,
                    ..
                }
            );
            let opcode = if signed {
                "shift-right-arithmetic"
            } else {
                "shift-right-logical"
            };
            direct(w, opcode, args, &ty)?
        }
        "hbir.compare" => compare(w, data, &ty)?,
        "hbir.select" => direct(w, "select", args, &ty)?,
        "hbir.view" => view(w, data, &ty)?,
        "hbir.reshape" | "hbir.squeeze" | "hbir.unsqueeze" | "hbir.flatten" => {
            one(w, "reshape", args[0], &ty, "")?
        }
        "hbir.transpose" => {
            let perm = data
                .props
                .ints("perm")
                .unwrap_or_else(|| (0..ty.rank() as i64).rev().collect());
            one(
                w,
                "transpose",
                args[0],
                &ty,
                &format!(", dimensions={}", list(&perm)),
            )?
        }
        "hbir.layout_convert" if data.attrs.str("hlo.async") == Some("copy") => {
            start_copy(w, data, &ty)?
        }
        "hbir.layout_convert" => convert(w, data, &ty)?,
        "hbir.broadcast" => w.spread(args[0], &ty)?,
        "hbir.constant" => constant(w, data, &ty)?,
        "hbir.iota" => {
            let axis = data.props.int("axis").unwrap_or(0);
            let axis = if axis < 0 {
                axis + ty.rank() as i64
            } else {
                axis
            };
            w.payload(
                &tensor_text(&ty)?,
                "iota",
                "",
                &format!(", iota_dimension={axis}"),
            )
        }
        "hbir.concat" => concat(w, data, &ty)?,
        "hbir.dot_general" => dot(w, data, &ty)?,
        _ => {
            let written = match compose::write(w, data, &ty)? {
                None => index::write(w, data, &ty)?,
                some => some,
            };
            return match written {
                None => windows::write(w, data, &ty),
                some => Ok(some),
            };
        }
    };
    Ok(Some(done))
}

/// One instruction of one operand.
pub(super) fn one(
    w: &mut Writer<'_>,
    opcode: &str,
    x: Value,
    ty: &TensorType,
    attrs: &str,
) -> Outcome<String> {
    let name = w.name(x)?;
    w.put(ty, opcode, &[name], attrs)
}

/// A bitcast; where HLO text cannot write the layout, the rearrangement by itself, row-major.
fn view(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    if tensor_text(ty).is_ok() {
        let root = w.root(data.operands[0]);
        return one(w, "bitcast", root, ty, "");
    }
    rearranged(w, data, &ty.without_layout())
}

/// A copy; of a view that HLO text cannot write, the rearrangement into the new layout.
fn convert(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    let operand = data.operands[0];
    match w.defining(operand) {
        Some(seen) if !w.expressible(operand) && &*seen.name == "hbir.view" => {
            rearranged(w, seen, ty)
        }
        _ => one(w, "copy", operand, ty, ""),
    }
}

/// The reshape, transpose and reshape of a view, the last one into `ty`.
fn rearranged(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    let from = w.tensor(data.operands[0])?.clone();
    let mut at = w.name(data.operands[0])?;
    let mut dims = from.dims.clone();
    if let Some(shape) = data.props.ints("shape") {
        dims = shape
            .iter()
            .map(|&n| u64::try_from(n).map_or(Dim::Unknown, Dim::Fixed))
            .collect();
        at = w.put(
            &TensorType::new(dims.clone(), ty.dtype),
            "reshape",
            &[at],
            "",
        )?;
    }
    if let Some(perm) = data.props.ints("perm") {
        let place = |&p: &i64| usize::try_from(p).ok().and_then(|p| dims.get(p).cloned());
        dims = perm
            .iter()
            .map(|p| place(p).unwrap_or(Dim::Unknown))
            .collect();
        let last = dims == ty.dims;
        let own = TensorType::new(dims.clone(), ty.dtype);
        let attrs = format!(", dimensions={}", list(&perm));
        at = w.put(if last { ty } else { &own }, "transpose", &[at], &attrs)?;
        if last {
            return Ok(at);
        }
    }
    w.put(ty, "reshape", &[at], "")
}

/// An element-wise instruction: HLO wants operands of one shape.
fn direct(w: &mut Writer<'_>, opcode: &str, args: &[Value], ty: &TensorType) -> Outcome<String> {
    let mut names = Vec::with_capacity(args.len());
    for &arg in args {
        names.push(w.spread(arg, ty)?);
    }
    w.put(ty, opcode, &names, "")
}

/// The same numbers; in another memory space without a copy: a bitcast, as XLA writes it.
fn identity(w: &mut Writer<'_>, x: Value, ty: &TensorType) -> Outcome<String> {
    let from = w.tensor(x)?;
    let layout = |ty: &TensorType| {
        let text = ty.spelling.to_string();
        let cut = text
            .find("S(")
            .map_or(text.as_str(), |i| &text[..i])
            .to_owned();
        cut.trim_end_matches([':', '"']).to_owned()
    };
    let near = from.spelling != ty.spelling && layout(from) == layout(ty);
    one(w, if near { "bitcast" } else { "copy" }, x, ty, "")
}

fn compare(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    let direction = data
        .props
        .str("direction")
        .unwrap_or("eq")
        .to_ascii_uppercase();
    let mut names = Vec::with_capacity(2);
    for &arg in &data.operands {
        names.push(w.spread(arg, ty)?);
    }
    w.put(ty, "compare", &names, &format!(", direction={direction}"))
}

fn concat(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    let axis = data.props.int("axis").unwrap_or(0);
    let axis = if axis < 0 {
        axis + ty.rank() as i64
    } else {
        axis
    };
    let mut names = Vec::with_capacity(data.operands.len());
    for &arg in &data.operands {
        names.push(w.name(arg)?);
    }
    w.put(
        ty,
        "concatenate",
        &names,
        &format!(", dimensions={{{axis}}}"),
    )
}

fn dot(w: &mut Writer<'_>, data: &OpData, ty: &TensorType) -> Outcome<String> {
    let get = |name: &str| data.props.ints(name).unwrap_or_default();
    let names = [w.name(data.operands[0])?, w.name(data.operands[1])?];
    let mut attrs = String::new();
    for side in ["lhs", "rhs"] {
        let batch = get(&format!("{side}_batch"));
        if !batch.is_empty() {
            let _ = write!(attrs, ", {side}_batch_dims={}", list(&batch));
        }
        let contract = get(&format!("{side}_contract"));
        let _ = write!(attrs, ", {side}_contracting_dims={}", list(&contract));
    }
    w.put(ty, "dot", &names, &attrs)
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

/// A call, or the fusion that it was.
fn call(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    let Some(callee) = data
        .props
        .get("callee")
        .and_then(|c| computations(w.shared, c))
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

fn result_shape(w: &Writer<'_>, data: &OpData, tree: &Tree) -> Outcome<String> {
    let mut shapes = Vec::with_capacity(data.results.len());
    for &value in &data.results {
        shapes.push(shape_text(w.func.ty(value))?);
    }
    Ok(tree.shape(&mut shapes.into_iter()))
}

/// How the operands are put together; apart where nothing else is stated.
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

/// An instruction of HLO text that was kept as it is.
fn opaque(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    let kind = data.props.str("kind").unwrap_or("custom-call").to_owned();
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
            other => computations(w.shared, other),
        };
        if let Some(text) = text {
            let _ = write!(attrs, ", {key}={text}");
        }
    }
    let name = match data.props.str("payload") {
        Some(payload) => {
            let name = w.payload(&shape, &kind, payload, &attrs);
            if kind == "constant" && payload.contains("...") {
                elided(w, data, &name, &shape);
            }
            name
        }
        None => w.raw(&shape, &kind, &names, &attrs),
    };
    w.results(op, tree, &name)
}

/// Warns of a constant whose elements the program does not have.
fn elided(w: &mut Writer<'_>, data: &OpData, name: &str, shape: &str) {
    let message = format!(
        "the elements of the constant `{name}` of {shape} were left out of the program's text, and stay out"
    );
    let diag = Diagnostic::warning("hlo-constant-elided", message).at(data.span, "this constant");
    let diag =
        diag.hint("print the module with `print_large_constants`, so that its text holds them");
    w.shared.warnings.push(diag);
}

/// What an operation of another format says in HLO text besides what it computes: a custom call whose
/// effect is not none may not be removed.
fn side_effect(data: &OpData) -> &'static str {
    let pure = &*data.name != "hbir.opaque" || data.props.str("effect") == Some("pure");
    if pure {
        ""
    } else {
        ", custom_call_has_side_effect=true"
    }
}

/// An operation without instructions: a custom call that names it.
pub(super) fn custom_call(w: &mut Writer<'_>, op: Op) -> Outcome<()> {
    let data = &w.func.ops[op];
    let mut names = Vec::with_capacity(data.operands.len());
    for &value in &data.operands {
        names.push(w.name(value)?);
    }
    let tree = Tree::flat(data.results.len());
    let shape = result_shape(w, data, &tree)?;
    let target = match (&*data.name, data.props.str("kind")) {
        ("hbir.opaque", Some(kind)) => format!("{}.{kind}", data.props.str("domain").unwrap_or("")),
        (name, _) => name.to_owned(),
    };
    let fields: Vec<String> = data
        .props
        .iter()
        .filter(|(key, _)| *key != "effect")
        .map(|(key, value)| format!("{key} = {}", optc_ir::text::print_attr(value)))
        .collect();
    let config = escaped(&fields.join(", "));
    let attrs = format!(
        ", custom_call_target=\"{}\"{}, backend_config=\"{config}\"",
        escaped(target.trim_start_matches('.')),
        side_effect(data)
    );
    let name = w.raw(&shape, "custom-call", &names, &attrs);
    w.results(op, tree, &name)
}

/// The extents that are numbers.
pub(super) fn sizes(ty: &TensorType) -> Option<Vec<u64>> {
    ty.shape()
}

/// A type of the same element type with these extents, row-major.
pub(super) fn shaped(ty: &TensorType, shape: &[u64]) -> TensorType {
    TensorType::new(shape.iter().map(|&n| Dim::Fixed(n)).collect(), ty.dtype)
}
