//! Graphs that operators keep, without the names of values and nodes: graphs that differ in names alone are equal.

use crate::opaque::MAX_GRAPH_DEPTH;
use indexmap::IndexMap;
use optc_ir::{Attr, AttrDict};
use optc_onnx_proto::{AttributeProto, GraphProto, SparseTensorProto, TensorProto, kind};
use prost::Message;
use prost::bytes::Bytes;
use std::ops::Range;

/// Reads the bytes to which an attribute refers.
pub type Read<'a> = dyn Fn(&Attr) -> Option<Vec<u8>> + 'a;

/// Bytes that stand for attributes of an `hbir.opaque` where two programs are compared: its graphs, and the names by
/// which these know outer values.
///
/// A value inside is named by its number in the order of definitions, an outer one by its number among the captured
/// operands. `None` if the operator has no graphs, or if one cannot be read.
#[must_use]
pub fn nameless(props: &AttrDict, read: &Read<'_>) -> Option<IndexMap<String, Vec<u8>>> {
    let mut scope = Scope::of(props)?;
    let mut found = IndexMap::new();
    for pair in props.get("attribute_kinds")?.as_array()? {
        let [name, kind] = pair.as_array()? else {
            return None;
        };
        let kind = kind.as_int().and_then(|kind| i32::try_from(kind).ok());
        let graphs = matches!(kind, Some(kind::GRAPH | kind::GRAPHS));
        let key = format!("onnx.{}", name.as_str()?);
        let Some(attr) = props.get(&key).filter(|_| graphs) else {
            continue;
        };
        let one = std::slice::from_ref(attr);
        let mut bytes = Vec::new();
        for graph in attr.as_array().unwrap_or(one) {
            let graph = scope.graph(&read(graph)?.into(), 0)?;
            bytes.extend(graph.len().to_le_bytes());
            bytes.extend(graph);
        }
        found.insert(key, bytes);
    }
    if found.is_empty() {
        return None;
    }
    found.insert("capture_names".to_owned(), Vec::new());
    Some(found)
}

/// A value in a graph.
#[derive(Clone, Copy)]
enum Named {
    /// It was the n-th that a graph of the operator defined.
    Inside(usize),
    /// It is the n-th that the graphs capture.
    Captured(usize),
}

/// The values that can be used at a place, by their names.
struct Scope {
    names: IndexMap<String, Named>,
    /// Names that the graphs around the place define, and the values of these names before.
    hidden: Vec<(String, Option<Named>)>,
    /// The number of values that were defined so far.
    defined: usize,
}

impl Scope {
    /// The values that the graphs of an operator capture; `None` if their names are not known.
    fn of(props: &AttrDict) -> Option<Scope> {
        let stated = props.get("capture_names").and_then(Attr::as_array);
        let stated = stated.unwrap_or_default();
        let number =
            |(i, name): (usize, &Attr)| Some((name.as_str()?.to_owned(), Named::Captured(i)));
        let names = stated.iter().enumerate().map(number);
        let names = names.collect::<Option<IndexMap<_, _>>>()?;
        let captures = props.int("captures").unwrap_or(0);
        (usize::try_from(captures) == Ok(names.len())).then(|| Scope {
            names,
            hidden: Vec::new(),
            defined: 0,
        })
    }

    /// Gives a value that is defined here its number.
    fn define(&mut self, name: &mut String) {
        if name.is_empty() {
            return;
        }
        let own = Named::Inside(self.defined);
        self.defined += 1;
        let before = self.names.insert(name.clone(), own);
        self.hidden.push((name.clone(), before));
        self.find(name);
    }

    /// Names a value that is used here. One that no graph around has defined yet keeps its name.
    fn find(&self, name: &mut String) {
        if !name.is_empty() {
            *name = match self.names.get(name) {
                Some(Named::Inside(number)) => format!("%{number}"),
                Some(Named::Captured(number)) => format!("^{number}"),
                None => format!("={name}"),
            };
        }
    }

    /// A graph with other names; `None` if it cannot be read.
    fn graph(&mut self, bytes: &Bytes, depth: usize) -> Option<Vec<u8>> {
        if MAX_GRAPH_DEPTH <= depth {
            return None;
        }
        let mut graph = GraphProto::decode(bytes.clone()).ok()?;
        let (outer, first) = (self.hidden.len(), self.defined);
        graph
            .input
            .iter_mut()
            .for_each(|i| self.define(&mut i.name));
        let inputs = first..self.defined;
        for wire in &mut graph.initializer {
            *wire = self.tensor(wire, &inputs)?;
        }
        for wire in &mut graph.sparse_initializer {
            let mut tensor = SparseTensorProto::decode(wire.clone()).ok()?;
            if let Some(values) = &mut tensor.values {
                *values = self.tensor(values, &inputs)?;
            }
            *wire = tensor.encode_to_vec().into();
        }
        graph.name = None;
        for node in &mut graph.node {
            node.name.clear();
            node.input.iter_mut().for_each(|name| self.find(name));
            for attr in &mut node.attribute {
                self.inside(attr, depth + 1)?;
            }
            node.output.iter_mut().for_each(|name| self.define(name));
        }
        let types = graph.output.iter_mut().chain(&mut graph.value_info);
        types.for_each(|value| self.find(&mut value.name));
        for (name, before) in self.hidden.drain(outer..).rev() {
            match before {
                Some(before) => self.names.insert(name, before),
                None => self.names.swap_remove(&name),
            };
        }
        Some(graph.encode_to_vec())
    }

    fn inside(&mut self, attr: &mut AttributeProto, depth: usize) -> Option<()> {
        for graph in attr.g.iter_mut().chain(&mut attr.graphs) {
            *graph = self.graph(graph, depth)?.into();
        }
        Some(())
    }

    /// An initializer with another name. If it is the default of an input, it has the name of the input.
    fn tensor(&mut self, wire: &Bytes, inputs: &Range<usize>) -> Option<Bytes> {
        let mut tensor = TensorProto::decode(wire.clone()).ok()?;
        match self.names.get(&tensor.name) {
            Some(Named::Inside(number)) if inputs.contains(number) => self.find(&mut tensor.name),
            _ => self.define(&mut tensor.name),
        }
        Some(tensor.encode_to_vec().into())
    }
}
