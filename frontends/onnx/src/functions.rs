//! Model-local functions: each call is replaced by the function's nodes.

use crate::proto::{AttributeProto, FunctionProto, ModelProto, NodeProto, OperatorSetIdProto};
use indexmap::IndexMap;
use optc_ir::Diagnostic;
use prost::Message;

/// How deep functions may call each other.
const MAX_DEPTH: usize = 32;

/// How many bytes the nodes may take that functions add.
const MAX_BYTES: usize = 1 << 27;

/// About what a node takes in memory beside its attributes.
const NODE_BYTES: usize = 256;

/// A node and the version of its operator set.
pub(crate) struct FlatNode {
    pub(crate) node: NodeProto,
    pub(crate) opset: i64,
}

/// Versions of operator sets by domain; `ai.onnx` is the empty domain.
#[derive(Clone, Debug, Default)]
pub(crate) struct Opsets(IndexMap<String, i64>);

impl Opsets {
    /// Reads the imports of a model or a function.
    pub(crate) fn new(imports: &[OperatorSetIdProto]) -> Opsets {
        let entry = |set: &OperatorSetIdProto| {
            let domain = standard(set.domain.as_deref().unwrap_or_default());
            (domain.to_owned(), set.version.unwrap_or(1))
        };
        Opsets(imports.iter().map(entry).collect())
    }

    /// The version of a domain.
    pub(crate) fn get(&self, domain: &str) -> Option<i64> {
        self.0.get(standard(domain)).copied()
    }
}

/// A domain with the two names of the standard one made equal.
pub(crate) fn standard(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

type Key<'a> = (&'a str, &'a str, &'a str);

struct Inliner<'a> {
    /// Each function and the bytes that a call adds.
    functions: IndexMap<Key<'a>, (&'a FunctionProto, usize)>,
    out: Vec<FlatNode>,
    calls: usize,
    bytes: usize,
}

/// All nodes of the model's graph, with functions put in place of their calls.
pub(crate) fn flatten(
    model: &ModelProto,
    nodes: Vec<NodeProto>,
) -> Result<Vec<FlatNode>, Diagnostic> {
    let key = |f: &'_ FunctionProto| {
        (
            standard(&f.domain).to_owned(),
            f.name.clone(),
            f.overload.clone(),
        )
    };
    let names: Vec<(String, String, String)> = model.functions.iter().map(key).collect();
    let keys = names
        .iter()
        .map(|(d, n, o)| (d.as_str(), n.as_str(), o.as_str()));
    let sized = |f| (f, size(f));
    let functions = keys.zip(model.functions.iter().map(sized)).collect();
    let mut inliner = Inliner {
        functions,
        out: Vec::with_capacity(nodes.len()),
        calls: 0,
        bytes: 0,
    };
    inliner.add(nodes, &Opsets::new(&model.opset_import), 0)?;
    Ok(inliner.out)
}

impl Inliner<'_> {
    fn add(
        &mut self,
        nodes: Vec<NodeProto>,
        opsets: &Opsets,
        depth: usize,
    ) -> Result<(), Diagnostic> {
        for node in nodes {
            let key = (
                standard(&node.domain),
                node.op_type.as_str(),
                node.overload.as_str(),
            );
            let Some(&(function, size)) = self.functions.get(&key) else {
                let opset = opsets.get(&node.domain).unwrap_or(1);
                self.out.push(FlatNode { node, opset });
                continue;
            };
            self.bytes = self.bytes.saturating_add(size);
            if MAX_DEPTH <= depth || MAX_BYTES < self.bytes {
                let message = format!("the calls of function `{}` do not end", function.name);
                let note = format!(
                    "wanted at most {MAX_DEPTH} calls inside one another and {MAX_BYTES} bytes of nodes"
                );
                return Err(Diagnostic::error("function-expansion", message).note(note));
            }
            let body = self.body(function, &node);
            let own = Opsets::new(&function.opset_import);
            let inner = if function.opset_import.is_empty() {
                opsets
            } else {
                &own
            };
            self.add(body, inner, depth + 1)?;
        }
        Ok(())
    }

    /// The nodes of one call, with names and attributes of the caller.
    fn body(&mut self, function: &FunctionProto, call: &NodeProto) -> Vec<NodeProto> {
        self.calls += 1;
        let scope = format!("{}#{}", function.name, self.calls);
        let mut names: IndexMap<&str, String> = IndexMap::new();
        for (formal, actual) in function.output.iter().zip(&call.output) {
            if !actual.is_empty() {
                names.insert(formal, actual.clone());
            }
        }
        for (i, formal) in function.input.iter().enumerate() {
            names.insert(formal, call.input.get(i).cloned().unwrap_or_default());
        }
        let rename = |name: &String| match names.get(name.as_str()) {
            Some(actual) => actual.clone(),
            None if name.is_empty() => String::new(),
            None => format!("{scope}/{name}"),
        };
        let instance = |node: &NodeProto| NodeProto {
            input: node.input.iter().map(rename).collect(),
            output: node.output.iter().map(rename).collect(),
            name: if call.name.is_empty() {
                node.name.clone()
            } else {
                format!("{}/{}", call.name, node.name)
            },
            attribute: node
                .attribute
                .iter()
                .filter_map(|a| attribute(a, function, call))
                .collect(),
            ..node.clone()
        };
        function.node.iter().map(instance).collect()
    }
}

/// About the bytes that a call of this function adds.
fn size(function: &FunctionProto) -> usize {
    function.encoded_len() + NODE_BYTES * (1 + function.node.len())
}

/// An attribute of a function's node; one that refers to the function's own takes the caller's.
fn attribute(
    attr: &AttributeProto,
    function: &FunctionProto,
    call: &NodeProto,
) -> Option<AttributeProto> {
    if attr.ref_attr_name.is_empty() {
        return Some(attr.clone());
    }
    let named = |a: &&AttributeProto| a.name == attr.ref_attr_name;
    let given = call.attribute.iter().find(named);
    let found = given.or_else(|| function.attribute_proto.iter().find(named))?;
    Some(AttributeProto {
        name: attr.name.clone(),
        ..found.clone()
    })
}
