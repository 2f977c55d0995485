//! Programs as graphs for Google's Model Explorer, and bytes as its node data.
//!
//! Each function of each panel is a graph. The namespace of a node is the function, then its layers; rows of very many
//! operations are divided into layers, since Model Explorer places every layer as a whole.

use crate::graph::{Graph, Node, Tone};
use crate::picture::{Panel, Picture};
use crate::spelling::Spelling;
use crate::svg::nest::{self, Item};
use crate::words;
use optc_ir::text::{print_attr, print_type, value_names};
use optc_ir::{Func, Value};
use serde_json::{Map, Value as Json, json};

/// The longest text of an attribute in characters.
const LONGEST: usize = 400;

/// The graphs, and the bytes of their operations.
#[derive(Clone, Debug, PartialEq)]
pub struct Explored {
    /// A collection of graphs, as Model Explorer reads it from a file; ends with a line break.
    pub graphs: String,
    /// Bytes read plus written by each operation that moves some, as node data for these graphs; ends with a line break.
    pub node_data: String,
}

/// The functions of each panel as graphs.
#[must_use]
pub fn write(picture: &Picture<'_>) -> Explored {
    let spelling = Spelling::of(picture);
    let (mut graphs, mut data) = (Vec::new(), Map::new());
    for panel in &picture.panels {
        for (func, graph) in panel.graphs(spelling) {
            let id = format!("@{} {}", func.name, panel.title);
            let bytes = graph.nodes.iter().enumerate();
            let bytes = bytes.filter(|(_, node)| 0 < node.charge.bytes);
            let bytes =
                bytes.map(|(i, node)| (i.to_string(), json!({ "value": node.charge.bytes })));
            data.insert(
                id.clone(),
                json!({
                    "name": "bytes moved",
                    "results": Json::Object(bytes.collect()),
                    "gradient": [
                        { "stop": 0.0, "bgColor": "#fff3e0" },
                        { "stop": 1.0, "bgColor": "#e64a19" },
                    ],
                }),
            );
            graphs.push(json!({ "id": id, "nodes": nodes(panel, func, &graph) }));
        }
    }
    let collection = json!({ "label": picture.title, "graphs": graphs });
    Explored {
        graphs: format!("{collection}\n"),
        node_data: format!("{}\n", Json::Object(data)),
    }
}

fn nodes(panel: &Panel<'_>, func: &Func, graph: &Graph) -> Vec<Json> {
    let mut spaces = vec![String::new(); graph.nodes.len()];
    let root = format!("@{} {}", func.name, panel.title).replace('/', "∕");
    namespaces(&nest::layers(graph), &root, &mut spaces);
    let names = value_names(func);
    let name = |value: Value| format!("%{}", names.get(&value).map_or("", |n| n));
    let mut made: Vec<Vec<usize>> = vec![Vec::new(); graph.nodes.len()];
    for (k, wire) in graph.wires.iter().enumerate() {
        made[wire.from].push(k);
    }
    let nodes = graph.nodes.iter().enumerate().map(|(i, node)| {
        let edges = node.reads.iter().enumerate().map(|(port, &k)| {
            let from = graph.wires[k].from;
            let output = made[from].iter().position(|&other| other == k);
            json!({
                "sourceNodeId": from.to_string(),
                "sourceNodeOutputId": output.unwrap_or(0).to_string(),
                "targetNodeInputId": port.to_string(),
            })
        });
        let outputs = made[i].iter().enumerate().map(|(port, &k)| {
            let value = graph.wires[k].value;
            let ty = print_type(func.ty(value));
            json!({
                "id": port.to_string(),
                "attrs": [pair("tensor_name", &name(value)), pair("tensor_shape", &ty)],
            })
        });
        json!({
            "id": i.to_string(),
            "label": node.title,
            "namespace": spaces[i],
            "attrs": attributes(func, node),
            "incomingEdges": edges.collect::<Vec<_>>(),
            "outputsMetadata": outputs.collect::<Vec<_>>(),
        })
    });
    nodes.collect()
}

fn namespaces(items: &[Item], around: &str, spaces: &mut [String]) {
    for item in items {
        match item {
            Item::Node(node) => around.clone_into(&mut spaces[*node]),
            Item::Group(group) => {
                let inner = format!("{around}/{}", group.label);
                namespaces(&group.items, &inner, spaces);
            }
        }
    }
}

fn pair(key: &str, value: &str) -> Json {
    json!({ "key": key, "value": value })
}

fn attributes(func: &Func, node: &Node) -> Vec<Json> {
    let mut attrs = Vec::new();
    let Some(op) = node.op else {
        return attrs;
    };
    let data = &func.ops[op];
    attrs.push(pair("operation", &data.name));
    if let Some(name) = words::last_name(&data.loc) {
        attrs.push(pair("name", &name));
    }
    let class = match node.tone {
        Tone::Port | Tone::Compute | Tone::Collective => "computes",
        Tone::View => "a view, moves nothing",
        Tone::Movement => "moves",
        Tone::Copy => "copies a part",
        Tone::Expand => "repeats",
        Tone::Constant => "constants, at compile time",
    };
    attrs.push(pair("cost", class));
    attrs.push(pair("bytes", &node.charge.bytes.to_string()));
    let props = data.props.iter();
    attrs.extend(props.map(|(key, attr)| pair(key, &words::cut(&print_attr(attr), LONGEST))));
    attrs
}
