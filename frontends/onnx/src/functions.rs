//! Inlines model-local functions and branches: each call is replaced by the function's nodes, and an `If` with a
//! constant condition by the nodes of its branch.

use crate::codes;
use crate::effect::effect;
use indexmap::{IndexMap, IndexSet};
use optc_ir::{Diagnostic, Effect};
use optc_onnx_proto::{AttributeProto, FunctionProto, GraphProto, NodeProto, OperatorSetIdProto};
use prost::Message;
use std::rc::Rc;

/// The deepest nesting of function calls.
const MAX_DEPTH: usize = 32;

/// The most bytes of nodes that functions may add.
const MAX_BYTES: usize = 1 << 27;

/// The approximate memory of a node without its attributes.
const NODE_BYTES: usize = 256;

/// A node and its surroundings.
pub(crate) struct FlatNode {
    pub(crate) node: NodeProto,
    /// The version of the node's operator set.
    pub(crate) opset: i64,
    /// The versions that its subgraphs use.
    pub(crate) opsets: Rc<Opsets>,
    /// The map from the names in its subgraphs to those of outer values; `None` at the top, where names are those of
    /// the file.
    pub(crate) scope: Option<Rc<Scope>>,
    /// For a call that is kept: the effect of the function.
    pub(crate) call: Option<Effect>,
}

impl FlatNode {
    /// The name of the outer value that a subgraph of this node calls `name`.
    pub(crate) fn outer_name(&self, name: &str) -> String {
        match &self.scope {
            Some(scope) => scope.rename(name),
            None => name.to_owned(),
        }
    }
}

/// The new names of a function's body or a branch after inlining.
#[derive(Debug)]
pub(crate) struct Scope {
    names: IndexMap<String, String>,
    rest: Rest,
}

/// The names that a scope does not list.
#[derive(Debug)]
enum Rest {
    /// The names are inside the body: they get this prefix.
    Prefix(String),
    /// The names are those of the outer scope.
    Outer(Option<Rc<Scope>>),
}

impl Scope {
    /// The new name of a name in the body.
    pub(crate) fn rename(&self, name: &str) -> String {
        match (self.names.get(name), &self.rest) {
            (Some(found), _) => found.clone(),
            (None, _) if name.is_empty() => String::new(),
            (None, Rest::Prefix(prefix)) => format!("{prefix}/{name}"),
            (None, Rest::Outer(Some(outer))) => outer.rename(name),
            (None, Rest::Outer(None)) => name.to_owned(),
        }
    }
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

/// A domain, with the two names of the standard domain made equal.
pub(crate) fn standard(domain: &str) -> &str {
    if domain == "ai.onnx" { "" } else { domain }
}

/// Domain, name and overload of a function.
type Key<'a> = (&'a str, &'a str, &'a str);

fn key_of(function: &FunctionProto) -> Key<'_> {
    let (name, overload) = (function.name.as_str(), function.overload.as_str());
    (standard(&function.domain), name, overload)
}

/// Inlines functions and branches.
pub(crate) struct Inliner<'a> {
    /// Each function, and the bytes that a call of it adds.
    functions: IndexMap<Key<'a>, (&'a FunctionProto, usize)>,
    /// The effect of each function, if calls are kept.
    effects: Option<IndexMap<Key<'a>, Effect>>,
    out: Vec<FlatNode>,
    /// The functions whose bodies are being inlined, outermost first.
    open: Vec<Key<'a>>,
    calls: usize,
    bytes: usize,
}

/// A branch with names that do not collide with those of the graph.
pub(crate) struct Branch {
    /// Its nodes.
    pub(crate) nodes: Vec<FlatNode>,
    /// The new names of its names.
    pub(crate) scope: Rc<Scope>,
}

impl<'a> Inliner<'a> {
    /// The functions of a model; with `keep`, calls of them are kept.
    pub(crate) fn new(functions: &'a [FunctionProto], keep: bool) -> Inliner<'a> {
        let entry = |f: &'a FunctionProto| (key_of(f), (f, size(f)));
        Inliner {
            functions: functions.iter().map(entry).collect(),
            effects: keep.then(|| effects(functions)),
            out: Vec::new(),
            open: Vec::new(),
            calls: 0,
            bytes: 0,
        }
    }

    /// All nodes of the model's graph, with functions inlined.
    pub(crate) fn flatten(
        &mut self,
        nodes: Vec<NodeProto>,
        opsets: &Rc<Opsets>,
    ) -> Result<Vec<FlatNode>, Diagnostic> {
        self.add(nodes, opsets, None)?;
        Ok(std::mem::take(&mut self.out))
    }

    /// The nodes of a subgraph of `flat`, to replace `flat`.
    pub(crate) fn branch(
        &mut self,
        flat: &FlatNode,
        graph: &GraphProto,
        inside: &IndexSet<String>,
    ) -> Result<Branch, Diagnostic> {
        self.calls += 1;
        let nodes: usize = graph.node.iter().map(Message::encoded_len).sum();
        let bytes = nodes + NODE_BYTES * (1 + graph.node.len());
        self.spend(bytes, &flat.node.op_type)?;
        let prefix = format!("{}#{}", flat.node.op_type, self.calls);
        let entry = |name: &String| (name.clone(), format!("{prefix}/{name}"));
        let scope = Rc::new(Scope {
            names: inside.iter().map(entry).collect(),
            rest: Rest::Outer(flat.scope.clone()),
        });
        let nodes = graph.node.iter().map(|n| renamed(n, &flat.node, &scope));
        self.add(nodes.collect(), &flat.opsets, Some(&scope))?;
        let nodes = std::mem::take(&mut self.out);
        Ok(Branch { nodes, scope })
    }

    fn spend(&mut self, bytes: usize, what: &str) -> Result<(), Diagnostic> {
        self.bytes = self.bytes.saturating_add(bytes);
        if self.bytes <= MAX_BYTES {
            return Ok(());
        }
        let message = format!(
            "function calls and branches expand to more than {MAX_BYTES} bytes of nodes, at `{what}`"
        );
        let note = "functions that each call others more than once multiply with every level";
        Err(expansion(message).note(note))
    }

    /// Enters the body of a function. Recursion and too deep nesting are errors.
    fn enter(&mut self, key: Key<'a>) -> Result<(), Diagnostic> {
        if let Some(first) = self.open.iter().position(|open| *open == key) {
            let through: Vec<String> = self.open[first..]
                .iter()
                .map(|(_, name, _)| format!("`{name}`"))
                .collect();
            let message = format!(
                "function `{}` calls itself, through {}",
                key.1,
                through.join(", ")
            );
            return Err(expansion(message).note("an ONNX function may not be recursive"));
        }
        if MAX_DEPTH <= self.open.len() {
            let message = format!(
                "function calls are nested more than {MAX_DEPTH} deep, at `{}`",
                key.1
            );
            return Err(expansion(message));
        }
        self.open.push(key);
        Ok(())
    }

    fn add(
        &mut self,
        nodes: Vec<NodeProto>,
        opsets: &Rc<Opsets>,
        scope: Option<&Rc<Scope>>,
    ) -> Result<(), Diagnostic> {
        for node in nodes {
            let key = (
                standard(&node.domain),
                node.op_type.as_str(),
                node.overload.as_str(),
            );
            let call = self.effects.as_ref().and_then(|all| all.get(&key)).copied();
            let found = self.functions.get(&key).filter(|_| call.is_none());
            let Some(&(function, size)) = found else {
                let opset = opsets.get(&node.domain).unwrap_or(1);
                self.out.push(FlatNode {
                    node,
                    opset,
                    opsets: opsets.clone(),
                    scope: scope.cloned(),
                    call,
                });
                continue;
            };
            self.enter(key_of(function))?;
            self.spend(size, &function.name)?;
            let scope = self.call_scope(function, &node);
            let instance = |inner: &NodeProto| NodeProto {
                attribute: inner
                    .attribute
                    .iter()
                    .filter_map(|a| attribute(a, function, &node))
                    .collect(),
                ..renamed(inner, &node, &scope)
            };
            let body = function.node.iter().map(instance).collect();
            let own = Rc::new(Opsets::new(&function.opset_import));
            let inner = if function.opset_import.is_empty() {
                opsets
            } else {
                &own
            };
            self.add(body, inner, Some(&scope))?;
            self.open.pop();
        }
        Ok(())
    }

    /// The names of one call: the caller's for inputs and outputs, new ones for the rest.
    fn call_scope(&mut self, function: &FunctionProto, call: &NodeProto) -> Rc<Scope> {
        self.calls += 1;
        let mut names: IndexMap<String, String> = IndexMap::new();
        for (formal, actual) in function.output.iter().zip(&call.output) {
            if !actual.is_empty() {
                names.insert(formal.clone(), actual.clone());
            }
        }
        for (i, formal) in function.input.iter().enumerate() {
            names.insert(
                formal.clone(),
                call.input.get(i).cloned().unwrap_or_default(),
            );
        }
        let rest = Rest::Prefix(format!("{}#{}", function.name, self.calls));
        Rc::new(Scope { names, rest })
    }
}

/// The effect of each function: the strongest effect of its nodes.
fn effects(functions: &[FunctionProto]) -> IndexMap<Key<'_>, Effect> {
    let mut all: IndexMap<Key<'_>, Effect> = functions
        .iter()
        .map(|f| (key_of(f), Effect::Pure))
        .collect();
    // An effect only grows, and a chain of calls is at most as long as the number of functions.
    for _ in functions {
        let mut changed = false;
        for function in functions {
            let found = effect_of(&function.node, &all, 0);
            let known = all.entry(key_of(function)).or_insert(found);
            changed |= *known < found;
            *known = found.max(*known);
        }
        if !changed {
            break;
        }
    }
    all
}

fn effect_of(nodes: &[NodeProto], all: &IndexMap<Key<'_>, Effect>, depth: usize) -> Effect {
    if MAX_DEPTH <= depth {
        return Effect::Write;
    }
    let graphs = |node: &NodeProto| {
        let bytes = node
            .attribute
            .iter()
            .flat_map(|a| a.g.iter().chain(&a.graphs));
        let inner = bytes.map(|bytes| match GraphProto::decode(bytes.clone()) {
            Ok(graph) => effect_of(&graph.node, all, depth + 1),
            Err(_) => Effect::Write,
        });
        inner.max().unwrap_or(Effect::Pure)
    };
    let of = |node: &NodeProto| {
        let domain = standard(&node.domain);
        let key = (domain, node.op_type.as_str(), node.overload.as_str());
        let own = all.get(&key).copied();
        let own = own.or_else(|| effect(domain, &node.op_type));
        own.unwrap_or(Effect::Write).max(graphs(node))
    };
    nodes.iter().map(of).max().unwrap_or(Effect::Pure)
}

fn expansion(message: String) -> Diagnostic {
    Diagnostic::error(codes::FUNCTION_EXPANSION, message)
}

/// A node of a body, renamed for its call.
fn renamed(node: &NodeProto, call: &NodeProto, scope: &Scope) -> NodeProto {
    NodeProto {
        input: node.input.iter().map(|n| scope.rename(n)).collect(),
        output: node.output.iter().map(|n| scope.rename(n)).collect(),
        name: if call.name.is_empty() {
            node.name.clone()
        } else {
            format!("{}/{}", call.name, node.name)
        },
        ..node.clone()
    }
}

/// The approximate number of bytes that a call of this function adds.
fn size(function: &FunctionProto) -> usize {
    function.encoded_len() + NODE_BYTES * (1 + function.node.len())
}

/// An attribute of a function's node. One that refers to an attribute of the function takes the caller's value.
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
