//! A check of the invariants of every written model.
//!
//! 1. A graph defines each name once, before its uses. A graph inside of a node sees the names that are defined around
//!    it before that node, and does not define these again.
//! 2. The nodes that the writer made are operators of the model's opset, with attributes, numbers of inputs and
//!    outputs, and element types of inputs that the opset allows. Operators that were kept from the original model are
//!    not checked.

use super::writer::{MAX_GRAPHS, Outcome, Written};
use crate::codes;
use indexmap::IndexMap;
use optc_ir::{Diagnostic, Loc};
use optc_onnx_proto::prost::Message;
use optc_onnx_proto::prost::bytes::Bytes;
use optc_onnx_proto::{
    AttributeProto, GraphProto, ModelProto, NodeProto, SparseTensorProto, TensorProto,
    ValueInfoProto, dtype, schema,
};
use std::collections::BTreeSet;

/// Checks a model; `nodes` are the nodes that the writer made.
pub(super) fn check(
    model: &ModelProto,
    opset: i64,
    nodes: &IndexMap<String, Written>,
) -> Outcome<()> {
    let mut check = Check {
        opset,
        nodes,
        scopes: Vec::new(),
    };
    match &model.graph {
        Some(graph) => check.graph(graph, &Loc::Unknown, true),
        None => Ok(()),
    }
}

struct Check<'a> {
    opset: i64,
    nodes: &'a IndexMap<String, Written>,
    /// The names defined in the current graph and in all graphs around it, outermost first, with their element types if
    /// known.
    scopes: Vec<IndexMap<String, Option<i32>>>,
}

fn invalid(message: String, loc: &Loc) -> Box<Diagnostic> {
    Box::new(Diagnostic::error(codes::ONNX_INVALID, message).of(loc.names()))
}

impl Check<'_> {
    fn graph(&mut self, graph: &GraphProto, around: &Loc, own: bool) -> Outcome<()> {
        if MAX_GRAPHS < self.scopes.len() {
            return Ok(());
        }
        let declared = graph.value_info.iter().chain(&graph.output);
        let declared: IndexMap<&str, i32> = declared.filter_map(element).collect();
        self.scopes.push(IndexMap::new());
        for input in &graph.input {
            let dtype = element(input).map(|(_, dtype)| dtype);
            self.define(&input.name, dtype, around)?;
        }
        // An initializer with the name of an input is the default value of that input.
        let input = |name: &str| graph.input.iter().any(|i| i.name == name);
        let values = |wire: &Bytes| SparseTensorProto::decode(wire.clone()).ok()?.values;
        let sparse = graph.sparse_initializer.iter().filter_map(values);
        for wire in graph.initializer.iter().cloned().chain(sparse) {
            if let Ok(tensor) = TensorProto::decode(wire)
                && !input(&tensor.name)
            {
                self.define(&tensor.name, Some(tensor.data_type), around)?;
            }
        }
        for node in &graph.node {
            self.node(node, &declared, around, own)?;
        }
        for output in &graph.output {
            if !self.sees(&output.name) {
                let message = format!("nothing defines the output `{}` of a graph", output.name);
                return Err(invalid(message, around));
            }
        }
        self.scopes.pop();
        Ok(())
    }

    fn node(
        &mut self,
        node: &NodeProto,
        declared: &IndexMap<&str, i32>,
        around: &Loc,
        own: bool,
    ) -> Outcome<()> {
        let made = self.nodes.get(&node.name).filter(|_| own);
        let loc = made.map_or(around, |made| &made.loc);
        for name in node.input.iter().filter(|name| !name.is_empty()) {
            if !self.sees(name) {
                let message = format!("{} uses `{name}` before it is defined", label(node));
                return Err(invalid(message, loc));
            }
        }
        if made.is_some_and(|made| !made.kept) && node.domain.is_empty() {
            self.operator(node)
                .map_err(|why| invalid(format!("{}: {why}", label(node)), loc))?;
        }
        for attr in &node.attribute {
            let own = made.is_some_and(|made| made.graphs.contains(&attr.name));
            for graph in graphs(attr) {
                if let Ok(graph) = GraphProto::decode(graph.clone()) {
                    self.graph(&graph, loc, own)?;
                }
            }
        }
        for name in node.output.iter().filter(|name| !name.is_empty()) {
            self.define(name, declared.get(&**name).copied(), loc)?;
        }
        Ok(())
    }

    fn define(&mut self, name: &str, dtype: Option<i32>, loc: &Loc) -> Outcome<()> {
        if self.sees(name) {
            return Err(invalid(format!("`{name}` is defined again"), loc));
        }
        if let Some(scope) = self.scopes.last_mut() {
            scope.insert(name.to_owned(), dtype);
        }
        Ok(())
    }

    fn sees(&self, name: &str) -> bool {
        self.scopes.iter().any(|scope| scope.contains_key(name))
    }

    /// Checks a standard node against the schema of its operator.
    fn operator(&self, node: &NodeProto) -> Result<(), String> {
        let opset = self.opset;
        let schema = schema("", &node.op_type, opset);
        let schema = schema.ok_or_else(|| format!("version {opset} has no such operator"))?;
        let unknown = node
            .attribute
            .iter()
            .find(|a| !schema.has_attribute(&a.name));
        if let Some(attr) = unknown {
            let name = &attr.name;
            return Err(format!("version {opset} has no attribute `{name}`"));
        }
        let sides = [
            ("inputs", node.input.len(), schema.inputs),
            ("outputs", node.output.len(), schema.outputs),
        ];
        for (what, found, (least, most)) in sides {
            if found < least || most.is_some_and(|most| most < found) {
                return Err(format!("found {found} {what} in version {opset}"));
            }
        }
        for (at, name) in node.input.iter().enumerate() {
            let known = self.scopes.iter().find_map(|scope| scope.get(name));
            let Some(Some(of)) = known.map(|code| dtype((*code)?).ok()) else {
                continue;
            };
            if !schema.takes(at, of) {
                return Err(format!("input {at} is of {of} in version {opset}"));
            }
        }
        Ok(())
    }
}

fn label(node: &NodeProto) -> String {
    format!("node `{}` ({})", node.name, node.op_type)
}

/// The graphs of an attribute.
pub(super) fn graphs(attr: &AttributeProto) -> impl Iterator<Item = &Bytes> {
    attr.g.iter().chain(&attr.graphs)
}

/// The name and the element type of a declared value.
fn element(info: &ValueInfoProto) -> Option<(&str, i32)> {
    let tensor = info.ty.as_ref()?.tensor_type.as_ref()?;
    Some((&*info.name, tensor.elem_type))
}

/// The files beside a model that hold elements of its tensors, relative to its folder, sorted; empty if the bytes are
/// no model.
#[must_use]
pub fn files_of(bytes: &[u8]) -> Vec<String> {
    let mut files = BTreeSet::new();
    if let Ok(model) = ModelProto::decode(bytes)
        && let Some(graph) = &model.graph
    {
        collect_files(graph, 0, &mut files);
    }
    files.into_iter().collect()
}

fn collect_files(graph: &GraphProto, depth: usize, files: &mut BTreeSet<String>) {
    let attributes = || graph.node.iter().flat_map(|n| &n.attribute);
    let held = attributes().flat_map(|a| a.t.iter().chain(&a.tensors));
    for wire in graph.initializer.iter().chain(held) {
        if let Ok(tensor) = TensorProto::decode(wire.clone()) {
            let places = tensor.external_data.into_iter();
            files.extend(places.filter(|e| e.key == "location").map(|e| e.value));
        }
    }
    for inner in attributes().flat_map(graphs) {
        if let Ok(inner) = GraphProto::decode(inner.clone())
            && depth < MAX_GRAPHS
        {
            collect_files(&inner, depth + 1, files);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::attrs;
    use super::*;

    fn value(name: &str) -> ValueInfoProto {
        ValueInfoProto {
            name: name.to_owned(),
            ty: None,
        }
    }

    fn node(op_type: &str, input: &[&str], output: &[&str]) -> NodeProto {
        NodeProto {
            name: format!("node of {}", output.join(" ")),
            op_type: op_type.to_owned(),
            input: input.iter().map(|&i| i.to_owned()).collect(),
            output: output.iter().map(|&o| o.to_owned()).collect(),
            ..NodeProto::default()
        }
    }

    fn graph(node: Vec<NodeProto>, input: &[&str], output: &[&str]) -> GraphProto {
        GraphProto {
            node,
            input: input.iter().map(|i| value(i)).collect(),
            output: output.iter().map(|o| value(o)).collect(),
            ..GraphProto::default()
        }
    }

    /// The result of the check of a graph with an input `x`, whose nodes the writer made.
    fn said(opset: i64, nodes: Vec<NodeProto>, output: &str) -> String {
        let made = nodes.iter().map(|node| {
            let graphs = node.attribute.iter().map(|a| a.name.clone());
            let written = Written {
                loc: Loc::name(&node.name),
                kept: false,
                graphs: graphs.collect(),
            };
            (node.name.clone(), written)
        });
        let made = made.collect();
        let model = ModelProto {
            graph: Some(graph(nodes, &["x"], &[output])),
            ..ModelProto::default()
        };
        match check(&model, opset, &made) {
            Ok(()) => String::new(),
            Err(diag) => {
                assert_eq!(diag.code, "onnx-invalid");
                diag.message
            }
        }
    }

    #[test]
    fn names_are_defined_once_and_before_they_are_used() {
        let relu = || node("Relu", &["x"], &["y"]);
        assert_eq!(said(17, vec![relu()], "y"), "");
        assert_eq!(
            said(17, vec![node("Relu", &["z"], &["y"])], "y"),
            "node `node of y` (Relu) uses `z` before it is defined"
        );
        assert_eq!(
            said(17, vec![relu()], "z"),
            "nothing defines the output `z` of a graph"
        );
        let again = node("Relu", &["x"], &["x"]);
        assert_eq!(said(17, vec![again], "x"), "`x` is defined again");
        let mut branch = node("If", &["x"], &["z"]);
        let inner = |uses: &str, gives: &str| {
            let nodes = vec![node("Neg", &[uses], &[gives])];
            graph(nodes, &[], &[gives]).encode_to_vec().into()
        };
        let mut with = |then: Bytes, other: Bytes| {
            branch.attribute = vec![
                attrs::graph("then_branch", then),
                attrs::graph("else_branch", other),
            ];
            said(17, vec![relu(), branch.clone()], "z")
        };
        // Graphs of one node see the graph around them, but not one another.
        assert_eq!(with(inner("y", "a"), inner("x", "a")), "");
        assert_eq!(
            with(inner("y", "a"), inner("a", "b")),
            "node `node of b` (Neg) uses `a` before it is defined"
        );
        assert_eq!(
            with(inner("y", "a"), inner("x", "y")),
            "`y` is defined again"
        );
        assert_eq!(
            with(inner("z", "a"), inner("x", "b")),
            "node `node of a` (Neg) uses `z` before it is defined"
        );
    }

    #[test]
    fn operators_are_those_of_the_version() {
        let shape = |opset, end| {
            let mut node = node("Shape", &["x"], &["y"]);
            node.attribute = vec![attrs::int("end", end)];
            said(opset, vec![node], "y")
        };
        assert_eq!(shape(15, 1), "");
        assert_eq!(
            shape(14, 1),
            "node `node of y` (Shape): version 14 has no attribute `end`"
        );
        let einsum = |opset| said(opset, vec![node("Einsum", &["x"], &["y"])], "y");
        assert_eq!(
            einsum(11),
            "node `node of y` (Einsum): version 11 has no such operator"
        );
        assert_eq!(einsum(12), "");
        assert_eq!(
            said(17, vec![node("Relu", &["x", "x"], &["y"])], "y"),
            "node `node of y` (Relu): found 2 inputs in version 17"
        );
    }

    #[test]
    fn files_of_tensors_are_found_in_graphs_inside_of_nodes() {
        let tensor = |file: &str| -> Bytes {
            let place = optc_onnx_proto::StringStringEntryProto {
                key: "location".to_owned(),
                value: file.to_owned(),
            };
            let tensor = TensorProto {
                external_data: vec![place],
                ..TensorProto::default()
            };
            tensor.encode_to_vec().into()
        };
        let mut inner = graph(Vec::new(), &[], &[]);
        inner.initializer = vec![tensor("inner")];
        let mut branch = node("If", &["x"], &["z"]);
        branch.attribute = vec![attrs::graph("then_branch", inner.encode_to_vec().into())];
        let mut outer = graph(vec![branch], &["x"], &["z"]);
        outer.initializer = vec![tensor("outer"), tensor("inner")];
        let model = ModelProto {
            graph: Some(outer),
            ..ModelProto::default()
        };
        assert_eq!(files_of(&model.encode_to_vec()), ["inner", "outer"]);
        assert_eq!(files_of(b"text"), Vec::<String>::new());
    }
}
