//! Model-local functions: each call is replaced by the function's nodes.

use crate::proto::{AttributeProto, FunctionProto, ModelProto, NodeProto, OperatorSetIdProto};
use indexmap::IndexMap;
use optc_ir::Diagnostic;

/// How deep functions may call each other.
const MAX_DEPTH: usize = 32;

/// How many nodes a model may have after its functions are put in.
const MAX_NODES: usize = 1 << 22;

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
    functions: IndexMap<Key<'a>, &'a FunctionProto>,
    out: Vec<FlatNode>,
    calls: usize,
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
    let functions = keys.zip(&model.functions).collect();
    let mut inliner = Inliner {
        functions,
        out: Vec::with_capacity(nodes.len()),
        calls: 0,
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
            let Some(&function) = self.functions.get(&key) else {
                if MAX_NODES <= self.out.len() {
                    let message = format!("the functions expand to more than {MAX_NODES} nodes");
                    return Err(Diagnostic::error("function-expansion", message));
                }
                let opset = opsets.get(&node.domain).unwrap_or(1);
                self.out.push(FlatNode { node, opset });
                continue;
            };
            if MAX_DEPTH <= depth {
                let message = format!(
                    "function `{}` is nested more than {MAX_DEPTH} deep",
                    function.name
                );
                return Err(Diagnostic::error("function-expansion", message));
            }
            let body = self.body(function, &node)?;
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
    fn body(
        &mut self,
        function: &FunctionProto,
        call: &NodeProto,
    ) -> Result<Vec<NodeProto>, Diagnostic> {
        self.calls += 1;
        if MAX_NODES < self.out.len().saturating_add(function.node.len()) {
            let message = format!("the functions expand to more than {MAX_NODES} nodes");
            return Err(Diagnostic::error("function-expansion", message));
        }
        let scope = format!("{}#{}", function.name, self.calls);
        let mut names: IndexMap<&str, String> = IndexMap::new();
        let pairs = |formal: &'_ [String], actual: &[String]| -> Vec<(usize, String)> {
            (0..formal.len())
                .map(|i| (i, actual.get(i).cloned().unwrap_or_default()))
                .collect()
        };
        for (i, actual) in pairs(&function.output, &call.output) {
            if !actual.is_empty() {
                names.insert(&function.output[i], actual);
            }
        }
        for (i, actual) in pairs(&function.input, &call.input) {
            names.insert(&function.input[i], actual);
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
        Ok(function.node.iter().map(instance).collect())
    }
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
