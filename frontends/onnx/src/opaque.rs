//! Operators without an equivalent, which are kept as `hbir.opaque` with their attributes.

use crate::builder::{Builder, NewOp, Stop, Val};
use crate::codes;
use crate::effect::effect;
use crate::entries::known_or;
use crate::functions::standard;
use crate::inferred;
use crate::node::NodeCx;
use crate::open_sizes::all_named;
use crate::tensor::{self, Blob, File, INLINE_BYTES, Storage};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Attr, AttrDict, Dense, Diagnostic, Effect, Loc, TensorType, Type};
use optc_onnx_proto::{AttributeProto, GraphProto, SparseTensorProto, kind};
use prost::Message;
use prost::bytes::Bytes;
use std::sync::Arc;

/// The deepest nesting of subgraphs that are searched for used values.
pub(crate) const MAX_GRAPH_DEPTH: usize = 16;

/// The most examples of a kind that a remark names.
const NAMED: usize = 3;

/// The type of a value for which neither the file nor a shape rule gives a type.
const UNKNOWN: &str = "!hbir.unknown";

/// Emits the node unchanged. `captured` are the values that its subgraphs use, with their names inside, unless
/// functions replace the subgraphs.
pub(crate) fn emit(
    cx: &mut NodeCx<'_, '_>,
    captured: &[(Val, Option<String>)],
) -> Result<(), Stop> {
    emit_typed(cx, captured, Vec::new())
}

/// Emits the node as [`emit`] does, with known result types.
pub(crate) fn emit_typed(
    cx: &mut NodeCx<'_, '_>,
    captured: &[(Val, Option<String>)],
    known: Vec<Option<Type>>,
) -> Result<(), Stop> {
    emit_with(cx, captured, known, &Functions::default())
}

/// Functions that replace a node's graphs.
#[derive(Default)]
pub(crate) struct Functions {
    /// The names of functions, by the attributes of the graphs that they replace.
    pub(crate) names: IndexMap<&'static str, Arc<str>>,
    /// Their effect.
    pub(crate) effect: Option<Effect>,
}

/// Adds the attributes of the node to those of the operation, as `onnx.NAME`.
fn add_attributes(
    cx: &NodeCx<'_, '_>,
    functions: &Functions,
    dict: &mut AttrDict,
) -> Result<(), Stop> {
    let mut kinds = Vec::new();
    for attr in &cx.node.attribute {
        if let Some(name) = functions.names.get(&*attr.name) {
            dict.set(&format!("onnx.{}", attr.name), Attr::Symbol(name.clone()));
            continue;
        }
        if let Some(value) = attribute(cx.file, attr, &cx.label())? {
            if !tells_its_kind(&value) {
                kinds.push((&*attr.name, Attr::int(attr.kind().into())));
            }
            dict.set(&format!("onnx.{}", attr.name), value);
        }
    }
    if let Some((name, default)) = stated_default(cx) {
        dict.set(name, default);
    }
    if !kinds.is_empty() {
        // Sorted, so that the order of the attributes in the file does not matter.
        kinds.sort_by_key(|&(name, _)| name);
        let pair = |(name, kind)| Attr::Array(vec![Attr::str(name), kind]);
        let kinds = kinds.into_iter().map(pair).collect();
        dict.set("attribute_kinds", Attr::Array(kinds));
    }
    Ok(())
}

/// The attribute of a node that has its default and is written nevertheless: the shape inference of the `onnx` package
/// assumes another default.
fn stated_default(cx: &NodeCx<'_, '_>) -> Option<(&'static str, Attr)> {
    let is_standard = standard(&cx.node.domain).is_empty();
    let lacks = is_standard && cx.node.op_type == "STFT" && cx.attr("onesided").is_none();
    lacks.then(|| ("onnx.onesided", Attr::int(1)))
}

/// Emits the node as [`emit`] does, with functions in place of graphs.
pub(crate) fn emit_with(
    cx: &mut NodeCx<'_, '_>,
    captured: &[(Val, Option<String>)],
    known: Vec<Option<Type>>,
    functions: &Functions,
) -> Result<(), Stop> {
    let present: Vec<usize> = (0..cx.inputs.len())
        .filter(|&i| cx.inputs[i].is_some())
        .collect();
    let mut operands: Vec<Val> = cx.inputs.iter().flatten().copied().collect();
    let mut dict = AttrDict::new()
        .with("kind", Attr::str(&cx.node.op_type))
        .with("domain", Attr::str(&cx.node.domain));
    let effect = functions
        .effect
        .or(cx.call)
        .or_else(|| effect(&cx.node.domain, &cx.node.op_type));
    if let Some(effect) = effect {
        dict.set("effect", Attr::str(effect.name()));
    }
    if !cx.node.overload.is_empty() {
        dict.set("overload", Attr::str(&cx.node.overload));
    }
    if present.len() < cx.inputs.len() {
        dict.set("input_positions", Attr::ints(&present));
    }
    if !captured.is_empty() {
        dict.set("captures", Attr::int(captured.len() as i64));
        operands.extend(captured.iter().map(|(val, _)| *val));
        let names: Option<Vec<&String>> = captured.iter().map(|(_, name)| name.as_ref()).collect();
        if let Some(names) = names {
            let names = names.into_iter().map(|name| Attr::str(name));
            dict.set("capture_names", Attr::Array(names.collect()));
        }
    }
    add_attributes(cx, functions, &mut dict)?;
    let mut types = Vec::with_capacity(cx.node.output.len());
    for (i, output) in cx.node.output.iter().enumerate() {
        let known = known.get(i).cloned().flatten();
        let ty = known.unwrap_or_else(|| result_type(cx, i));
        types.push(match (ty, cx.taken.as_deref_mut()) {
            (Type::Tensor(ty), Some(taken)) => {
                all_named(TensorType::clone(&ty), output, taken).into()
            }
            (ty, _) => ty,
        });
    }
    let loc = cx.loc.clone();
    let op = NewOp {
        name: "hbir.opaque",
        operands: &operands,
        props: dict,
        declared: None,
        loc,
    };
    let results = cx.b.emit_declared(op, types);
    results
        .into_iter()
        .enumerate()
        .for_each(|(i, result)| cx.set(i, result));
    Ok(())
}

/// The type derived from the inputs, with open extents replaced by the file's declaration; unknown if there is neither.
fn result_type(cx: &NodeCx<'_, '_>, i: usize) -> Type {
    let derived = inferred::result(cx, i);
    match (cx.declared_type(i), derived) {
        (Some(Type::Tensor(declared)), Some(derived)) if declared.rank() == derived.rank() => {
            let pairs = derived.dims.into_iter().zip(&declared.dims);
            let dims = pairs.map(|(own, said)| known_or(own, said)).collect();
            TensorType::new(dims, declared.dtype).into()
        }
        (Some(declared), _) => declared,
        (None, derived) => derived.map_or_else(unknown, Type::from),
    }
}

/// An attribute of the file as one of the program; `None` for a kind without a counterpart.
fn attribute(file: &File, attr: &AttributeProto, owner: &str) -> Result<Option<Attr>, Diagnostic> {
    let text = |bytes: &Bytes| Attr::str(&String::from_utf8_lossy(bytes));
    let float = |x: f32| Attr::float(f64::from(x));
    let list = |items: Vec<Attr>| Some(Attr::Array(items));
    Ok(match attr.kind() {
        kind::FLOAT => attr.f.map(float),
        kind::INT => attr.i.map(Attr::int),
        kind::STRING => attr.s.as_ref().map(text),
        kind::FLOATS => list(attr.floats.iter().map(|&x| float(x)).collect()),
        kind::INTS => Some(Attr::ints(&attr.ints)),
        kind::STRINGS => list(attr.strings.iter().map(text).collect()),
        kind::TENSOR => match &attr.t {
            Some(wire) => kept_tensor(file, wire, owner)?,
            None => None,
        },
        kind::TENSORS => {
            let kept = attr
                .tensors
                .iter()
                .map(|wire| kept_tensor(file, wire, owner));
            list(
                kept.filter_map(Result::transpose)
                    .collect::<Result<_, _>>()?,
            )
        }
        kind::GRAPH => attr.g.as_ref().and_then(|g| place(file, g)),
        kind::GRAPHS => list(places(file, &attr.graphs)),
        kind::SPARSE_TENSOR => attr.sparse_tensor.as_ref().and_then(|t| place(file, t)),
        kind::SPARSE_TENSORS => list(places(file, &attr.sparse_tensors)),
        kind::TYPE_PROTO => attr.tp.as_ref().and_then(|t| place(file, t)),
        kind::TYPE_PROTOS => list(places(file, &attr.type_protos)),
        _ => None,
    })
}

fn places(file: &File, all: &[Bytes]) -> Vec<Attr> {
    all.iter().filter_map(|bytes| place(file, bytes)).collect()
}

/// Returns whether an attribute of the program corresponds to exactly one kind of attribute of the file.
fn tells_its_kind(attr: &Attr) -> bool {
    match attr {
        Attr::External { .. } => false,
        Attr::Array(list) => list
            .first()
            .is_some_and(|first| !matches!(first, Attr::External { .. } | Attr::Dense(_))),
        _ => true,
    }
}

/// A tensor attribute; for an element type that the IR does not have, the place of its bytes.
fn kept_tensor(file: &File, wire: &Bytes, owner: &str) -> Result<Option<Attr>, Diagnostic> {
    match tensor::load(file, wire, owner) {
        Ok(Blob {
            storage: Storage::File { .. },
            ..
        }) => Ok(place(file, wire)),
        Ok(blob) => Ok(Some(tensor_attr(blob))),
        Err(diag) if diag.code == tensor::UNSUPPORTED.name => Ok(place(file, wire)),
        Err(diag) => Err(diag),
    }
}

/// A constant of an element type that the IR does not have: the place of its bytes.
pub(crate) fn constant(b: &mut Builder<'_>, file: &File, wire: &Bytes, loc: Loc) -> Option<Val> {
    let props = AttrDict::new()
        .with("kind", Attr::str("Constant"))
        .with("effect", Attr::str(Effect::Pure.name()))
        .with("domain", Attr::str(""))
        .with("onnx.value", place(file, wire)?);
    let op = NewOp {
        name: "hbir.opaque",
        operands: &[],
        props,
        declared: None,
        loc,
    };
    b.defer(op, vec![unknown()]).first().copied()
}

/// The type of a value whose type the IR does not have.
pub(crate) fn unknown() -> Type {
    Type::Other(Arc::from(UNKNOWN))
}

/// A message of the file, such as a subgraph: the place of its bytes.
pub(crate) fn place(file: &File, bytes: &Bytes) -> Option<Attr> {
    let offset = file.offset_of(bytes)?;
    Some(Attr::External {
        file: file.name.clone(),
        offset,
        length: bytes.len() as u64,
    })
}

/// The elements of a tensor, or the place of their bytes.
pub(crate) fn tensor_attr(blob: Blob) -> Attr {
    let ty = Type::from(blob.ty);
    match blob.storage {
        Storage::File {
            file,
            offset,
            length,
            ..
        } => Attr::External {
            file,
            offset,
            length,
        },
        Storage::Here(t) => {
            debug_assert!(
                t.len() <= INLINE_BYTES || !t.is_empty(),
                "decoded tensors have elements"
            );
            Attr::Dense(Arc::new(Dense {
                ty,
                bytes: t.to_bytes(),
                splat: false,
            }))
        }
        Storage::Splat(one) => Attr::Dense(Arc::new(Dense {
            ty,
            bytes: one.to_bytes(),
            splat: true,
        })),
    }
}

/// The outer names that the subgraphs of a node use.
pub(crate) fn captured(attributes: &[AttributeProto]) -> IndexSet<String> {
    let mut found = IndexSet::new();
    attributes
        .iter()
        .for_each(|attr| capture_attr(attr, &IndexSet::new(), 0, &mut found));
    found
}

fn capture_attr(
    attr: &AttributeProto,
    outer: &IndexSet<String>,
    depth: usize,
    found: &mut IndexSet<String>,
) {
    if MAX_GRAPH_DEPTH <= depth {
        return;
    }
    for bytes in attr.g.iter().chain(&attr.graphs) {
        let Ok(graph) = GraphProto::decode(bytes.clone()) else {
            continue;
        };
        let inside = defined(&graph, outer);
        let results = graph.output.iter().map(|o| &o.name);
        for name in graph.node.iter().flat_map(|n| &n.input).chain(results) {
            if !name.is_empty() && !inside.contains(name) {
                found.insert(name.clone());
            }
        }
        let inner = graph.node.iter().flat_map(|n| &n.attribute);
        inner.for_each(|a| capture_attr(a, &inside, depth + 1, found));
    }
}

/// The names that a subgraph defines, and those of the graphs around it.
pub(crate) fn defined(graph: &GraphProto, outer: &IndexSet<String>) -> IndexSet<String> {
    let name = |wire: &Bytes| {
        optc_onnx_proto::TensorProto::decode(wire.clone())
            .ok()
            .map(|t| t.name)
    };
    let inputs = graph.input.iter().map(|i| i.name.clone());
    let outputs = graph.node.iter().flat_map(|n| n.output.iter().cloned());
    let sparse = graph.sparse_initializer.iter().filter_map(|wire| {
        let values = SparseTensorProto::decode(wire.clone()).ok()?.values?;
        name(&values)
    });
    let constants = graph.initializer.iter().filter_map(name).chain(sparse);
    outer
        .iter()
        .cloned()
        .chain(inputs)
        .chain(outputs)
        .chain(constants)
        .collect()
}

/// Counts opaque operators by kind.
#[derive(Clone, Default)]
pub(crate) struct Tally(IndexMap<String, Kind>);

#[derive(Clone, Default)]
struct Kind {
    count: usize,
    nodes: Vec<String>,
    reasons: IndexSet<String>,
}

impl Tally {
    /// Notes one opaque operator.
    pub(crate) fn add(&mut self, domain: &str, op_type: &str, node: &str, reason: &str) {
        let kind = if domain.is_empty() {
            op_type.to_owned()
        } else {
            format!("{domain}.{op_type}")
        };
        let entry = self.0.entry(kind).or_default();
        entry.count += 1;
        if entry.nodes.len() < NAMED {
            entry.nodes.push(node.to_owned());
        }
        if entry.reasons.len() < NAMED {
            entry.reasons.insert(reason.to_owned());
        }
    }

    /// One remark for each kind.
    pub(crate) fn remarks(self) -> Vec<Diagnostic> {
        let remark = |(name, kind): (String, Kind)| {
            let times = if kind.count == 1 {
                "once".into()
            } else {
                format!("{} times", kind.count)
            };
            let message = format!("operator {name} stays opaque ({times})");
            let mut diag = Diagnostic::remark(codes::OPAQUE_OP, message);
            for reason in kind.reasons {
                diag = diag.note(reason);
            }
            let more = if NAMED < kind.count { ", …" } else { "" };
            diag.note(format!("at {}{more}", kind.nodes.join(", ")))
        };
        self.0.into_iter().map(remark).collect()
    }
}
