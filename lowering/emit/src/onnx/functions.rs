//! The functions of the original model that some operator still calls.

use super::writer::{MAX_GRAPHS, Outcome, Writer};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Attr, DType, Module};
use optc_onnx_proto::prost::Message;
use optc_onnx_proto::prost::bytes::Bytes;
use optc_onnx_proto::{FunctionProto, GraphProto, NodeProto};

/// Domain, name and overload of an operator or a function.
type Key = (String, String, String);

fn key(domain: &str, name: &str, overload: &str) -> Key {
    let domain = if domain == "ai.onnx" { "" } else { domain };
    (domain.to_owned(), name.to_owned(), overload.to_owned())
}

/// The functions that the written nodes call, directly or not, in the order of the model.
pub(super) fn used(module: &Module, w: &Writer<'_>) -> Outcome<Vec<Bytes>> {
    let Some(Attr::Array(places)) = module.attrs.get("hbir.onnx_functions") else {
        return Ok(Vec::new());
    };
    let mut all: IndexMap<Key, (Bytes, FunctionProto)> = IndexMap::new();
    for place in places {
        let Attr::External {
            file,
            offset,
            length,
        } = place
        else {
            continue;
        };
        let read = (w.data)(file, *offset, *length, DType::UI8);
        let unread = |e: String| w.refused(format!("a function of the model cannot be read: {e}"));
        let bytes = Bytes::from(read.map_err(unread)?);
        let function = FunctionProto::decode(bytes.clone()).map_err(|e| unread(e.to_string()))?;
        let named = key(&function.domain, &function.name, &function.overload);
        all.entry(named).or_insert((bytes, function));
    }
    let mut called = IndexSet::new();
    calls(&w.nodes, 0, &mut called);
    let mut at = 0;
    while let Some(key) = called.get_index(at).cloned() {
        if let Some((_, function)) = all.get(&key) {
            calls(&function.node, 0, &mut called);
        }
        at += 1;
    }
    let kept = all.into_iter().filter(|(key, _)| called.contains(key));
    Ok(kept.map(|(_, (bytes, _))| bytes).collect())
}

/// Collects the operators of nodes and of the graphs inside of them.
fn calls(nodes: &[NodeProto], depth: usize, found: &mut IndexSet<Key>) {
    if MAX_GRAPHS <= depth {
        return;
    }
    for node in nodes {
        found.insert(key(&node.domain, &node.op_type, &node.overload));
        for bytes in node
            .attribute
            .iter()
            .flat_map(|a| a.g.iter().chain(&a.graphs))
        {
            if let Ok(graph) = GraphProto::decode(bytes.clone()) {
                calls(&graph.node, depth + 1, found);
            }
        }
    }
}
