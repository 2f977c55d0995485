//! Operators that the program keeps unchanged.

use super::attrs;
use super::valid::graphs;
use super::writer::{Captures, MAX_GRAPHS, Outcome, Writer};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Attr, DType, Diagnostic, OpData, Value};
use optc_onnx_proto::prost::Message;
use optc_onnx_proto::prost::bytes::Bytes;
use optc_onnx_proto::{
    AttributeProto, GraphProto, NodeProto, SparseTensorProto, TensorProto, kind, schema,
};
use optc_ops::Opaque;

/// Writes an operator unchanged, with the graphs made from its functions; returns the names of its results.
pub(super) fn write(
    w: &mut Writer<'_>,
    data: &OpData,
    functions: &IndexMap<&str, Bytes>,
) -> Outcome<Vec<String>> {
    let operator = w.typed::<Opaque>(data)?;
    let domain = operator.domain.as_deref().unwrap_or_default().to_owned();
    if domain == "hlo" || domain == "stablehlo" {
        let message = format!(
            "the operator `{}` of {domain} is none of ONNX",
            operator.kind
        );
        return Err(w.refused(message));
    }
    let was = w.module.attrs.int("hbir.onnx_opset");
    if let Some(was) = was.filter(|&was| was < w.opset) {
        let since = |opset: i64| schema(&domain, &operator.kind, opset).map(|s| s.since);
        if since(was) != since(w.opset) {
            let why = format!(
                "{} of version {was} means something else there",
                operator.kind
            );
            return Err(w.without_form(data, &why));
        }
    }
    let captured = data.props.int("captures").unwrap_or(0);
    let captured = usize::try_from(captured).unwrap_or(0);
    let own = data.operands.len().saturating_sub(captured);
    let input = inputs(w, data, own)?;
    let mut attribute = attributes(w, data, functions)?;
    let captures = named(w, data, own)?;
    let made = |attr: &AttributeProto| functions.contains_key(&*format!("onnx.{}", attr.name));
    let kept = attribute.iter_mut().filter(|attr| !made(attr));
    keep_apart(w, kept.collect(), &captures);
    if !domain.is_empty() && domain != "ai.onnx" {
        let version = w.model.domains.entry(domain.clone()).or_insert(1);
        *version = data.props.int("domain_version").unwrap_or(1).max(*version);
    }
    let node = NodeProto {
        input,
        op_type: operator.kind.to_string(),
        domain,
        attribute,
        overload: data.props.str("overload").unwrap_or_default().to_owned(),
        ..NodeProto::default()
    };
    let at = w.nodes.len();
    let made = functions.keys().filter_map(|key| key.strip_prefix("onnx."));
    let made = made.map(str::to_owned).collect();
    let optional = operator.on_rows();
    let results = w.keep(node, made, data.results.len());
    if optional {
        leave_out_unused(w, at, data);
    }
    if !captures.is_empty() {
        w.captures.push(Captures {
            node: at,
            names: captures,
        });
    }
    Ok(results)
}

/// The names of an operator's inputs; the name of an absent one is empty. The operation has `own` of them as operands.
fn inputs(w: &mut Writer<'_>, data: &OpData, own: usize) -> Outcome<Vec<String>> {
    let mut names = Vec::with_capacity(own);
    for &value in &data.operands[..own] {
        names.push(w.name(value)?);
    }
    let Some(positions) = data.props.ints("input_positions") else {
        return Ok(names);
    };
    let count = positions.iter().max().map_or(0, |&n| n + 1);
    let mut all = vec![String::new(); usize::try_from(count).unwrap_or(0)];
    for (name, at) in names.into_iter().zip(positions) {
        if let Some(slot) = usize::try_from(at).ok().and_then(|at| all.get_mut(at)) {
            *slot = name;
        }
    }
    Ok(all)
}

/// The attributes of an operator, with the graphs made from its functions.
fn attributes(
    w: &Writer<'_>,
    data: &OpData,
    functions: &IndexMap<&str, Bytes>,
) -> Outcome<Vec<AttributeProto>> {
    let mut all = Vec::new();
    for (key, attr) in data.props.iter() {
        let Some(name) = key.strip_prefix("onnx.") else {
            continue;
        };
        all.push(match (functions.get(key), stated_kind(data, name)) {
            (Some(graph), _) => attrs::graph(name, graph.clone()),
            (None, Some(kind)) => messages(w, name, kind, attr)?,
            (None, None) => attribute_of(w, name, attr)?,
        });
    }
    Ok(all)
}

/// Leaves out unused optional results, such as statistics, of a node.
fn leave_out_unused(w: &mut Writer<'_>, at: usize, data: &OpData) {
    for (i, &value) in data.results.iter().enumerate().skip(1) {
        if w.uses(value) == 0
            && let Some(name) = w.nodes[at].output.get_mut(i)
        {
            name.clear();
        }
    }
    while w.nodes[at].output.last().is_some_and(String::is_empty) {
        w.nodes[at].output.pop();
    }
}

/// The values that the graphs of an operator capture, with their inner names.
fn named(w: &mut Writer<'_>, data: &OpData, own: usize) -> Outcome<Vec<(String, Value)>> {
    let values = &data.operands[own..];
    let stated = data.props.get("capture_names").and_then(Attr::as_array);
    let stated: Vec<&str> = stated
        .iter()
        .flat_map(|g| g.iter())
        .filter_map(Attr::as_str)
        .collect();
    let mut names = Vec::with_capacity(values.len());
    for (i, &value) in values.iter().enumerate() {
        let outside = w.name(value)?;
        let inside = stated.get(i).map_or(outside, |&name| name.to_owned());
        names.push((inside, value));
    }
    Ok(names)
}

/// The kind of an attribute, if its value does not determine it.
fn stated_kind(data: &OpData, name: &str) -> Option<i32> {
    let all = data.props.get("attribute_kinds").and_then(Attr::as_array)?;
    let named = all.iter().find_map(|pair| match pair.as_array()? {
        [key, kind] if key.as_str() == Some(name) => kind.as_int(),
        _ => None,
    });
    named.and_then(|kind| i32::try_from(kind).ok())
}

fn unfit(w: &Writer<'_>, name: &str) -> Box<Diagnostic> {
    w.refused(format!(
        "the attribute `{name}` is of a kind that ONNX does not have"
    ))
}

/// An attribute that holds messages (tensors, graphs, types), by their location in the model file.
fn messages(w: &Writer<'_>, name: &str, kind: i32, attr: &Attr) -> Outcome<AttributeProto> {
    let wire = |attr: &Attr| message(w, name, attr);
    let (mut one, mut all) = (None, Vec::new());
    match attr {
        Attr::Array(list) => all = list.iter().map(wire).collect::<Outcome<_>>()?,
        attr => one = Some(wire(attr)?),
    }
    let mut made = AttributeProto {
        name: name.to_owned(),
        kind,
        ..AttributeProto::default()
    };
    match kind {
        kind::FLOATS | kind::INTS | kind::STRINGS if one.is_none() && all.is_empty() => {}
        kind::TENSOR => made.t = one,
        kind::GRAPH => made.g = one,
        kind::SPARSE_TENSOR => made.sparse_tensor = one,
        kind::TYPE_PROTO => made.tp = one,
        kind::TENSORS => made.tensors = all,
        kind::GRAPHS => made.graphs = all,
        kind::SPARSE_TENSORS => made.sparse_tensors = all,
        kind::TYPE_PROTOS => made.type_protos = all,
        _ => return Err(unfit(w, name)),
    }
    Ok(made)
}

/// The bytes of a message.
fn message(w: &Writer<'_>, name: &str, attr: &Attr) -> Outcome<Bytes> {
    match attr {
        Attr::External {
            file,
            offset,
            length,
        } => {
            let read = (w.data)(file, *offset, *length, DType::UI8);
            let bytes =
                read.map_err(|e| w.refused(format!("the attribute `{name}` cannot be read: {e}")))?;
            Ok(Bytes::from(bytes))
        }
        Attr::Dense(_) => {
            let made = attribute_of(w, name, attr)?;
            made.t.ok_or_else(|| unfit(w, name))
        }
        _ => Err(unfit(w, name)),
    }
}

fn attribute_of(w: &Writer<'_>, name: &str, attr: &Attr) -> Outcome<AttributeProto> {
    let unfit = || unfit(w, name);
    Ok(match attr {
        Attr::Int(n, _) => attrs::int(name, *n),
        Attr::Float(x, _) => attrs::float(name, *x),
        Attr::Str(text) => attrs::text(name, text),
        Attr::Array(list)
            if list.iter().all(|a| matches!(a, Attr::Float(..))) && !list.is_empty() =>
        {
            let list: Vec<f64> = list.iter().filter_map(Attr::as_float).collect();
            attrs::floats(name, &list)
        }
        Attr::Array(list) if list.iter().all(|a| matches!(a, Attr::Str(_))) && !list.is_empty() => {
            let list: Vec<&str> = list.iter().filter_map(Attr::as_str).collect();
            attrs::texts(name, &list)
        }
        Attr::Array(_) => attrs::ints(name, &attr.as_ints().ok_or_else(unfit)?),
        Attr::Dense(dense) => {
            let tensor = optc_ops::dense_tensor(dense).map_err(|e| w.refused(e.to_string()))?;
            attrs::tensor(name, &tensor).ok_or_else(unfit)?
        }
        _ => return Err(unfit()),
    })
}

/// Renames values defined in kept graphs whose names equal those of outer values that the graph captures: an inner
/// definition would hide the outer one.
fn keep_apart(
    w: &mut Writer<'_>,
    attributes: Vec<&mut AttributeProto>,
    captures: &[(String, Value)],
) {
    let mut defined = IndexSet::new();
    for graph in attributes.iter().flat_map(|attr| graphs(attr)) {
        definitions(graph, 0, &mut defined);
    }
    let captured = |name: &String| captures.iter().any(|(inside, _)| inside == name);
    let mut names = IndexMap::new();
    for name in defined.into_iter().filter(|name| !captured(name)) {
        if let Some(other) = w.inner(&name) {
            names.insert(name, other);
        }
    }
    if names.is_empty() {
        return;
    }
    for attr in attributes {
        rename_in(attr, &|graph| renamed(graph, &names, Scope::All, 0));
    }
}

/// Replaces each graph of an attribute by `rename` of it.
pub(super) fn rename_in(attr: &mut AttributeProto, rename: &dyn Fn(&Bytes) -> Bytes) {
    for graph in attr.g.iter_mut().chain(&mut attr.graphs) {
        *graph = rename(graph);
    }
}

/// Collects the names that a graph defines, including graphs inside of it.
fn definitions(bytes: &Bytes, depth: usize, found: &mut IndexSet<String>) {
    let Ok(graph) = GraphProto::decode(bytes.clone()) else {
        return;
    };
    found.extend(own(&graph));
    if depth < MAX_GRAPHS {
        let attributes = graph.node.iter().flat_map(|n| &n.attribute);
        for inner in attributes.flat_map(graphs) {
            definitions(inner, depth + 1, found);
        }
    }
}

/// The names that a graph itself defines.
fn own(graph: &GraphProto) -> IndexSet<String> {
    let mut own: IndexSet<String> = graph.input.iter().map(|i| i.name.clone()).collect();
    own.extend(graph.node.iter().flat_map(|n| n.output.iter().cloned()));
    let values = |wire: &Bytes| SparseTensorProto::decode(wire.clone()).ok()?.values;
    let sparse = graph.sparse_initializer.iter().filter_map(values);
    let initializers = graph.initializer.iter().cloned().chain(sparse);
    own.extend(initializers.filter_map(|i| Some(TensorProto::decode(i).ok()?.name)));
    own.shift_remove("");
    own
}

/// The names of a graph that are replaced.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Only names of outer values.
    Outer,
    /// Also names that the graph defines.
    All,
}

/// A graph inside of a node, with values renamed.
pub(super) fn renamed(
    bytes: &Bytes,
    names: &IndexMap<String, String>,
    scope: Scope,
    depth: usize,
) -> Bytes {
    let Ok(mut graph) = GraphProto::decode(bytes.clone()) else {
        return bytes.clone();
    };
    // An inner definition hides the outer value of the same name.
    let own = own(&graph);
    let meant = |inside: &String| scope == Scope::All || !own.contains(inside);
    let names: IndexMap<String, String> = names
        .iter()
        .filter(|(inside, other)| inside != other && meant(inside))
        .map(|(inside, other)| (inside.clone(), other.clone()))
        .collect();
    if names.is_empty() || MAX_GRAPHS <= depth {
        return bytes.clone();
    }
    let rename = |name: &mut String| {
        if let Some(other) = names.get(name) {
            name.clone_from(other);
        }
    };
    graph.output.iter_mut().for_each(|o| rename(&mut o.name));
    for node in &mut graph.node {
        node.input.iter_mut().for_each(rename);
        for attr in &mut node.attribute {
            rename_in(attr, &|inner| renamed(inner, &names, scope, depth + 1));
        }
    }
    if scope == Scope::All {
        graph.input.iter_mut().for_each(|i| rename(&mut i.name));
        graph
            .value_info
            .iter_mut()
            .for_each(|i| rename(&mut i.name));
        let outputs = graph.node.iter_mut().flat_map(|n| &mut n.output);
        outputs.for_each(rename);
        for wire in &mut graph.initializer {
            *wire = tensor_named(wire, &rename);
        }
        for wire in &mut graph.sparse_initializer {
            if let Ok(mut tensor) = SparseTensorProto::decode(wire.clone()) {
                tensor.values = tensor.values.map(|values| tensor_named(&values, &rename));
                *wire = tensor.encode_to_vec().into();
            }
        }
    }
    graph.encode_to_vec().into()
}

/// A tensor, renamed.
fn tensor_named(wire: &Bytes, rename: &dyn Fn(&mut String)) -> Bytes {
    let Ok(mut tensor) = TensorProto::decode(wire.clone()) else {
        return wire.clone();
    };
    let before = tensor.name.clone();
    rename(&mut tensor.name);
    match tensor.name == before {
        true => wire.clone(),
        false => tensor.encode_to_vec().into(),
    }
}
