//! ONNX models.
//!
//! - All values are row-major: `normalize-layouts` must run first on a program with layouts. Another layout refuses the
//!   program (`onnx-layout`).
//! - The operator version (opset) is that of the original model, but at least 7; it is 21 if there is no original
//!   model. An operation that has no operator in that version becomes several; one that ONNX cannot express refuses the
//!   program.
//! - Constants in the original model are written into the new one; those in other files stay there. A constant that is
//!   rearranged before its use is written in the rearranged form.
//! - Operators that the program keeps as opaque are written unchanged, including graphs inside of them.
//! - Functions of the model are written unchanged if an operator still calls them.
//! - Names of inputs, outputs and nodes are kept, and so is metadata. An input with a default value keeps it.

mod attrs;
mod bytes;
mod dense;
mod elementwise;
mod functions;
mod opaque;
mod products;
mod recurrent;
mod reductions;
mod shapes;
mod turned;
mod valid;
mod writer;

pub use crate::ReadData;
use crate::write_op::OutputFormat;
use crate::written::{MARK, written};
use crate::{codes, entry};
use dense::value_info;
use indexmap::{IndexMap, IndexSet};
use optc_ir::Operation;
use optc_ir::op::Structure;
use optc_ir::{
    Attr, AttrDict, Control, Diagnostic, Dim, Func, Module, Op, OpData, Port, Registry, TensorType,
    Value,
};
use optc_layout::Notation;
use optc_onnx_proto::prost::Message;
use optc_onnx_proto::prost::bytes::Bytes;
use optc_onnx_proto::{
    GraphProto, ModelProto, OperatorSetIdProto, StringStringEntryProto, TypeProto, ValueInfoProto,
};
use optc_ops::{
    Atan2, CallOp, Dequantize, DequantizeBlocks, DynamicUpdateSlice, MlirCall, Reshape,
    body_attributes,
};
use std::collections::BTreeSet;
use std::sync::Arc;
pub use valid::files_of;
use writer::{MAX_GRAPHS, Outcome, Writer};
pub use writer::{Options, unread};

/// The opset of a program that does not come from a model.
const OPSET: i64 = 21;

/// The oldest opset that is written; runtimes do not support operators of older ones.
pub(crate) const LEAST_OPSET: i64 = 7;

/// The version of the file format that belongs to [`OPSET`].
const IR_VERSION: i64 = 10;

/// The first version of the file format in which initializers need not be inputs too.
const LEAST_IR_VERSION: i64 = 4;

/// The operations that cannot be written as ONNX operators, sorted by name; nor can some uses of others.
pub const WITHOUT_FORM: &[&str] = &[
    MlirCall::NAME,
    Atan2::NAME,
    CallOp::NAME,
    DequantizeBlocks::NAME,
    DynamicUpdateSlice::NAME,
];

/// A model, and what is to be known about it.
#[derive(Clone, Debug)]
pub struct Emitted {
    /// The bytes of the file.
    pub bytes: Vec<u8>,
    /// The files that still hold elements of constants, relative to the model's folder, sorted.
    pub files: Vec<String>,
}

/// The module as an ONNX model: the entry function, `@main` or the first one. `registry` has the operations, `options` the operators that may be
/// used, and `data` reads the files of constants.
///
/// # Errors
/// A layout that is not row-major, an operation that ONNX cannot express or whose writer fails, a constant whose file
/// cannot be read, or no function.
pub fn emit(
    module: &Module,
    registry: &Registry,
    options: Options,
    data: &ReadData<'_>,
) -> Result<Emitted, Box<Diagnostic>> {
    let module = &*written(module, registry, OutputFormat::Onnx)?;
    let func = &module.funcs[entry(module)?];
    let opset = module.attrs.int("hbir.onnx_opset").unwrap_or(OPSET);
    let opset = opset.max(LEAST_OPSET);
    let mut w = Writer::new(module, func, (opset, registry), data);
    w.options = options;
    for (i, &arg) in func.args.iter().enumerate() {
        let name = w.fresh(&func.arg_key(i));
        row_major(func, arg, func.span)?;
        if let Some(port) = func.arg_ports.get(i) {
            w.default(arg, port, &name)?;
        }
        w.set(arg, name);
    }
    let wanted: Vec<String> = (0..func.results.len())
        .map(|i| func.result_key(i))
        .collect();
    for name in &wanted {
        let _ = w.fresh(name);
    }
    let graph = graph(&mut w, wanted, func.args.len(), registry)?;
    let model = model(module, &w.model.domains, opset);
    let files: BTreeSet<String> = w.model.files.iter().cloned().collect();
    let functions = functions::used(module, &w)?;
    let Writer {
        nodes,
        model: shared,
        ..
    } = w;
    let model = ModelProto {
        functions,
        graph: Some(GraphProto {
            node: nodes,
            initializer: shared.initializers,
            name: Some(graph_name(module, func)),
            doc_string: kept(module).str("graph_doc_string").map(str::to_owned),
            ..graph
        }),
        ..model
    };
    valid::check(&model, opset, &shared.nodes)?;
    Ok(Emitted {
        bytes: model.into_bytes(),
        files: files.into_iter().collect(),
    })
}

/// The graph of a function whose arguments have names, without nodes and constants, which are in the writer. The first
/// arguments are inputs; the others are captured from the surrounding graph.
fn graph(
    w: &mut Writer<'_>,
    wanted: Vec<String>,
    inputs: usize,
    registry: &Registry,
) -> Outcome<GraphProto> {
    let func = w.func;
    for &op in &func.body {
        operation(w, op, registry)?;
    }
    results(w, &wanted)?;
    w.drop_unused(&wanted);
    w.nodes.splice(0..0, std::mem::take(&mut w.constants));
    let value_info = types_of_values(w, &wanted);
    let ports = |names: Vec<String>, values: &[Value], ports: &[Port]| {
        let all = names.into_iter().zip(values).zip(ports);
        let all = all.map(|((name, &value), port)| port_info(func, name, value, port));
        all.collect::<Outcome<Vec<ValueInfoProto>>>()
    };
    let mut args = Vec::with_capacity(inputs);
    for &arg in func.args.iter().take(inputs) {
        args.push(w.name(arg)?);
    }
    Ok(GraphProto {
        input: ports(args, &func.args, &func.arg_ports)?,
        output: ports(wanted, &func.results, &func.result_ports)?,
        value_info,
        ..GraphProto::default()
    })
}

/// The graphs of an operator that runs functions, by the attributes that name these functions.
fn bodies<'d>(
    w: &mut Writer<'_>,
    data: &'d OpData,
    registry: &Registry,
) -> Outcome<IndexMap<&'d str, Bytes>> {
    let kind = data.props.str("kind").unwrap_or_default();
    let named = |key: &&'static str| match data.props.get(key)? {
        Attr::Symbol(name) => Some((*key, name)),
        _ => None,
    };
    let named: Vec<(&str, &Arc<str>)> = body_attributes(kind).iter().filter_map(named).collect();
    let mut graphs = IndexMap::new();
    if named.is_empty() {
        return Ok(graphs);
    }
    let unfit =
        |w: &Writer<'_>| w.refused(format!("the operands of {kind} do not fit what it runs"));
    let control = registry
        .get(&data.name)
        .and_then(|decl| decl.control(&w.op_ref(data)));
    let inputs = match control {
        Some(Control::Rounds { carried, .. }) => 2 + carried,
        Some(Control::Scan { carried, apart, .. }) => carried + apart.len(),
        Some(Control::Branch(_)) => 0,
        Some(Control::Loop { .. }) | None => return Err(unfit(w)),
    };
    let captures = data.props.int("captures").unwrap_or(0);
    let own = usize::try_from(captures).ok();
    let own = own.and_then(|n| data.operands.len().checked_sub(n));
    let mut rest = data
        .operands
        .get(own.ok_or_else(|| unfit(w))?..)
        .unwrap_or_default();
    for (key, name) in named {
        let func = w.module.funcs.iter().find(|f| f.name == *name);
        let func = func.ok_or_else(|| w.refused(format!("there is no function @{name}")))?;
        let taken = func
            .args
            .len()
            .checked_sub(inputs)
            .filter(|&n| n <= rest.len());
        let (captured, others) = rest.split_at(taken.ok_or_else(|| unfit(w))?);
        rest = others;
        graphs.insert(key, body(w, func, (inputs, captured), registry)?);
    }
    Ok(graphs)
}

/// A function as a graph inside of a node. It refers to captured values by their outer names.
fn body<'a>(
    w: &mut Writer<'a>,
    func: &'a Func,
    (inputs, captured): (usize, &[Value]),
    registry: &Registry,
) -> Outcome<Bytes> {
    if MAX_GRAPHS <= w.depth() {
        let message = format!(
            "functions run one another more than {MAX_GRAPHS} deep, at @{}",
            func.name
        );
        return Err(w.refused(message));
    }
    let mut names = Vec::with_capacity(func.args.len());
    for &value in captured {
        names.push(w.name(value)?);
    }
    w.enter(func);
    let own: Vec<String> = (0..inputs).map(|i| w.fresh(&func.arg_key(i))).collect();
    for (&arg, name) in func.args.iter().zip(own.into_iter().chain(names)) {
        row_major(func, arg, func.span)?;
        w.set(arg, name);
    }
    let wanted = (0..func.results.len()).map(|i| w.fresh(&func.result_key(i)));
    let wanted: Vec<String> = wanted.collect();
    let graph = graph(w, wanted, inputs, registry)?;
    let nodes = w.leave().map_or_else(Vec::new, |inner| inner.nodes);
    let graph = GraphProto {
        node: nodes,
        name: Some(func.name.to_string()),
        ..graph
    };
    Ok(graph.encode_to_vec().into())
}

/// The types of the nodes' results, for those names that are values of the program.
fn types_of_values(w: &Writer<'_>, results: &[String]) -> Vec<ValueInfoProto> {
    let mut types: IndexMap<&str, &TensorType> = IndexMap::new();
    for value in w.func.values.ids() {
        if let (Some(name), Some(ty)) = (w.known(value), w.func.ty(value).as_tensor()) {
            types.insert(name, ty);
        }
    }
    let made = w.made.iter().map(|(name, ty)| (name.as_str(), ty));
    types.extend(made);
    let outputs = w.nodes.iter().flat_map(|n| &n.output);
    let inner = outputs.filter(|name| !results.contains(name));
    inner
        .filter_map(|name| value_info(name, types.get(name.as_str())?))
        .collect()
}

/// The name and type of an input or output.
fn port_info(func: &Func, name: String, value: Value, port: &Port) -> Outcome<ValueInfoProto> {
    let tensor = func.ty(value).as_tensor();
    if let Some(info) = tensor.and_then(|ty| value_info(&name, ty)) {
        return Ok(info);
    }
    let foreign = port.attrs.str("hbir.onnx_type").and_then(bytes_of);
    match foreign.map(|bytes| TypeProto::decode(bytes.as_slice())) {
        Some(Ok(ty)) => Ok(ValueInfoProto { name, ty: Some(ty) }),
        _ => {
            let message = format!("`{name}` has elements that ONNX does not have");
            let diag = Diagnostic::error(codes::ONNX_OP, message);
            Err(Box::new(diag.at(func.span, "in this function")))
        }
    }
}

/// Bytes from hexadecimal digits.
fn bytes_of(digits: &str) -> Option<Vec<u8>> {
    let pair = |pair: &[u8]| {
        let text = std::str::from_utf8(pair).ok()?;
        u8::from_str_radix(text, 16)
            .ok()
            .filter(|_| pair.len() == 2)
    };
    digits.as_bytes().chunks(2).map(pair).collect()
}

/// The metadata of the original model.
fn kept(module: &Module) -> AttrDict {
    match module.attrs.get("hbir.onnx_model") {
        Some(Attr::Dict(dict)) => dict.clone(),
        _ => AttrDict::new(),
    }
}

fn graph_name(module: &Module, func: &Func) -> String {
    let kept = kept(module).str("graph_name").map(str::to_owned);
    kept.unwrap_or_else(|| module.name.as_deref().unwrap_or(&func.name).to_owned())
}

/// The pairs of a list of texts and values.
fn pairs<'a>(kept: &'a AttrDict, key: &str) -> Vec<(&'a str, &'a Attr)> {
    let all = kept.get(key).and_then(Attr::as_array).unwrap_or_default();
    let pair = |attr: &'a Attr| match attr.as_array()? {
        [key, value] => Some((key.as_str()?, value)),
        _ => None,
    };
    all.iter().filter_map(pair).collect()
}

/// The model with its metadata, without its graph.
fn model(module: &Module, domains: &IndexMap<String, i64>, opset: i64) -> ModelProto {
    let kept = kept(module);
    let text = |key: &str| kept.str(key).map(str::to_owned);
    let versions: IndexMap<String, i64> = pairs(&kept, "opsets")
        .into_iter()
        .filter_map(|(domain, version)| Some((domain.to_owned(), version.as_int()?)))
        .collect();
    let set = |domain: &str, version: i64| OperatorSetIdProto {
        domain: Some(domain.to_owned()),
        version: Some(version),
    };
    let mut opset_import = vec![set("", opset)];
    for (domain, version) in &versions {
        opset_import.push(set(domain, *version));
    }
    for (domain, version) in domains.iter().filter(|(d, _)| !versions.contains_key(*d)) {
        opset_import.push(set(domain, *version));
    }
    let metadata_props = pairs(&kept, "metadata")
        .into_iter()
        .filter_map(|(key, value)| {
            let (key, value) = (key.to_owned(), value.as_str()?.to_owned());
            Some(StringStringEntryProto { key, value })
        })
        .collect();
    let written = |version: i64| match version {
        ..=8 => LEAST_IR_VERSION,
        9..=12 => 7,
        13..=18 => 8,
        19..=20 => 9,
        _ => IR_VERSION,
    };
    ModelProto {
        ir_version: Some(
            kept.int("ir_version")
                .unwrap_or(written(opset))
                .max(LEAST_IR_VERSION),
        ),
        producer_name: text("producer_name").or_else(|| Some("optc".to_owned())),
        producer_version: text("producer_version"),
        domain: text("domain"),
        model_version: kept.int("model_version"),
        doc_string: text("doc_string"),
        opset_import,
        metadata_props,
        ..ModelProto::default()
    }
}

/// Renames the values of the results to the names of the outputs.
fn results(w: &mut Writer<'_>, all: &[String]) -> Outcome<()> {
    let func = w.func;
    let mut renamed: IndexMap<String, String> = IndexMap::new();
    let outputs = w.nodes.iter().flat_map(|n| n.output.iter().cloned());
    let outputs: IndexSet<String> = outputs.collect();
    for (i, (&value, wanted)) in func.results.iter().zip(all).enumerate() {
        let name = w.name(value)?;
        if name == *wanted {
            continue;
        }
        // An input, a constant or a value that is another output already needs an `Identity`.
        let made = outputs.contains(&name) && !w.is_lazy(value);
        if made && !renamed.contains_key(&name) && !all[..i].contains(&name) {
            renamed.insert(name, wanted.clone());
            continue;
        }
        let from = renamed.get(&name).cloned().unwrap_or(name);
        let made = w.node("Identity", &[&from], vec![]);
        renamed.insert(made, wanted.clone());
    }
    // A value that kept graphs capture gets the name that these use, if the name is free. The graphs then stay
    // unchanged.
    let captured: Vec<(String, Value)> = w.captures.iter().flat_map(|c| c.names.clone()).collect();
    for (inside, value) in captured {
        let outside = w.name(value)?;
        let made = outputs.contains(&outside) && !w.is_lazy(value);
        if made && !renamed.contains_key(&outside) && w.take(&inside) {
            renamed.insert(outside, inside);
        }
    }
    let rename = |name: &mut String| {
        if let Some(wanted) = renamed.get(name) {
            name.clone_from(wanted);
        }
    };
    for node in &mut w.nodes {
        node.input.iter_mut().for_each(rename);
        node.output.iter_mut().for_each(rename);
    }
    for captures in std::mem::take(&mut w.captures) {
        let mut names = IndexMap::new();
        for (inside, value) in captures.names {
            let mut outside = w.name(value)?;
            rename(&mut outside);
            if outside != inside {
                names.insert(inside, outside);
            }
        }
        if names.is_empty() {
            continue;
        }
        for attr in &mut w.nodes[captures.node].attribute {
            opaque::rename_in(attr, &|graph| {
                opaque::renamed(graph, &names, opaque::Scope::Outer, 0)
            });
        }
    }
    Ok(())
}

fn row_major(func: &Func, value: Value, span: optc_ir::Span) -> Outcome<()> {
    let Some(ty) = func.ty(value).as_tensor() else {
        return Ok(());
    };
    if ty.notation == Notation::RowMajor {
        return Ok(());
    }
    let message = format!(
        "found a value in the layout {{{}}}, wanted row-major values",
        ty.notation
    );
    let diag = Diagnostic::error(codes::ONNX_LAYOUT, message);
    let hint = "end the pipeline with `normalize-layouts`: ONNX has no layouts";
    let made = func.def_op(value).map(|op| func.ops[op].loc.names());
    let diag = diag.of(made.unwrap_or_default());
    Err(Box::new(diag.at(span, "made here").hint(hint)))
}

fn operation(w: &mut Writer<'_>, op: Op, registry: &Registry) -> Outcome<()> {
    let func = w.func;
    let data = &func.ops[op];
    w.begin(data);
    for &value in &data.results {
        row_major(func, value, data.span)?;
    }
    let before = w.nodes.len();
    let names = match registry.structure(&data.name) {
        Structure::Constant => {
            w.constant(data.results[0]);
            return Ok(());
        }
        Structure::Opaque => {
            let graphs = bodies(w, data, registry)?;
            opaque::write(w, data, &graphs)?
        }
        Structure::Call => {
            let diag = w.refused(format!("{} calls a function", data.name));
            return Err(Box::new(diag.hint(
                "put functions in place of their calls, with the pass `inline`",
            )));
        }
        Structure::Convert => {
            let name = w.name(data.operands[0])?;
            vec![name]
        }
        _ if &*data.name == Dequantize::NAME && w.scaled_constant(data)? => return Ok(()),
        Structure::View | Structure::Plain => match rearranged(w, data, registry)? {
            Rearranged::Later => return Ok(()),
            Rearranged::Now(name) => vec![name],
            Rearranged::No => plain(w, data)?,
        },
    };
    if names.len() != data.results.len() {
        return Err(w.refused(format!("{} has another number of results", data.name)));
    }
    // Operators that are kept unchanged are not checked: they are the model's own.
    if registry.structure(&data.name) != Structure::Opaque || data.attrs.flag(MARK) {
        taken(w, data, &names, before)?;
    }
    if &*data.name == Dequantize::NAME && w.are_lazy(&data.operands) {
        w.first(before, data.results[0]);
    }
    for (&value, name) in data.results.iter().zip(names) {
        w.set(value, name);
    }
    Ok(())
}

/// Refuses nodes of an operation that the model's opset does not support: operators, attributes, inputs, and element
/// types of operands and of the results, which have the names `names`.
fn taken(w: &Writer<'_>, data: &OpData, names: &[String], before: usize) -> Outcome<()> {
    for node in w.nodes.iter().skip(before).filter(|n| n.domain.is_empty()) {
        let kind = &node.op_type;
        let Some(schema) = w.schema(kind) else {
            return Err(w.without_form(data, &format!("there is no {kind}")));
        };
        let mut attributes = node.attribute.iter();
        if let Some(attr) = attributes.find(|attr| !schema.has_attribute(&attr.name)) {
            let why = format!("{kind} has no attribute `{}`", attr.name);
            return Err(w.without_form(data, &why));
        }
        if !schema.has_inputs(node.input.len()) {
            let why = format!("{kind} has no {} inputs", node.input.len());
            return Err(w.without_form(data, &why));
        }
        for (at, name) in node.input.iter().enumerate() {
            let mut operands = data.operands.iter();
            let of = operands.find(|&&v| w.known(v) == Some(name));
            // A sequence has no element type.
            let ty = of.and_then(|&of| w.func.ty(of).as_tensor());
            if let Some(ty) = ty.filter(|ty| !schema.takes(at, ty.dtype)) {
                let why = format!("{kind} of {} is no operator", ty.dtype);
                return Err(w.without_form(data, &why));
            }
        }
        for (name, &value) in names.iter().zip(&data.results) {
            let at = node.output.iter().position(|output| output == name);
            let ty = w.func.ty(value).as_tensor();
            let (Some(at), Some(ty)) = (at, ty) else {
                continue;
            };
            if !schema.gives(at, ty.dtype) {
                let why = format!("{kind} gives no {}", ty.dtype);
                return Err(w.without_form(data, &why));
            }
        }
    }
    Ok(())
}

enum Rearranged {
    /// The operation is written at its first use.
    Later,
    Now(String),
    No,
}

/// A rearrangement of a constant is deferred. A view becomes the equivalent reshape and transpose.
fn rearranged(w: &mut Writer<'_>, data: &OpData, registry: &Registry) -> Outcome<Rearranged> {
    let view = registry.structure(&data.name) == Structure::View;
    let Some(&x) = data.operands.first() else {
        return Ok(Rearranged::No);
    };
    let lazy = w.is_lazy(x) && w.known(x).is_none();
    if !view && !lazy {
        return Ok(Rearranged::No);
    }
    let Ok(dims) = registry.rearrangement(&w.op_ref(data)) else {
        return Ok(Rearranged::No);
    };
    let result = data.results[0];
    if lazy {
        let shape: Option<Vec<u64>> = dims.shape.iter().map(Dim::fixed).collect();
        match shape {
            _ if dims.is_reshape() => w.reshape_constant(x, result),
            Some(shape) => w.transpose_constant(x, result, &shape, &dims.perm),
            None => return Ok(Rearranged::No),
        }
        return Ok(Rearranged::Later);
    }
    let name = w.name(x)?;
    let from = w.tensor(x)?.dims.clone();
    let to = w.tensor(result)?.dims.clone();
    let order: Vec<usize> = dims
        .perm
        .iter()
        .copied()
        .filter(|&p| !dims.shape[p].is_one())
        .collect();
    if order.is_sorted() {
        return shapes::reshaped(w, &name, &from, &to).map(Rearranged::Now);
    }
    let mut name = name;
    if dims.shape != from {
        name = shapes::reshaped(w, &name, &from, &dims.shape)?;
    }
    let perm: Vec<i64> = dims
        .perm
        .iter()
        .map(|&p| i64::try_from(p).unwrap_or(0))
        .collect();
    name = w.node("Transpose", &[&name], vec![attrs::ints("perm", &perm)]);
    let turned = dims.transposed();
    if turned != to {
        name = shapes::reshaped(w, &name, &turned, &to)?;
    }
    Ok(Rearranged::Now(name))
}

/// The operators for an operation.
fn plain(w: &mut Writer<'_>, data: &OpData) -> Outcome<Vec<String>> {
    if &*data.name == Reshape::NAME
        && w.options.pixel_shuffles
        && let Some(name) = turned::shuffled(w, data)?
    {
        return Ok(vec![name]);
    }
    for family in [elementwise::write, reductions::write] {
        if let Some(name) = family(w, data)? {
            return Ok(vec![name]);
        }
    }
    for family in [shapes::write, products::write, recurrent::write] {
        if let Some(names) = family(w, data)? {
            return Ok(names);
        }
    }
    Err(w.without_form(data, "it has no operator for it"))
}
