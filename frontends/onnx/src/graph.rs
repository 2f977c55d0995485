//! Converts the decoded model to a module.

use crate::bodies::{self, Counted, Runner};
use crate::builder::{Builder, MAX_SIZES, Stop, Val};
use crate::catalogue::first_version;
use crate::codes;
use crate::declared::{
    Ports, argument_type, contradicts, declared_types, foreign_type, refined, result_names,
    set_port, show, with_expressions,
};
use crate::entries::{self, Entry};
use crate::functions::{Branch, FlatNode, Inliner, Opsets, Scope, standard};
use crate::node::{NodeCx, label};
use crate::opaque::{self, Tally};
use crate::open_sizes::all_named;
use crate::order::{self, Captured, Ordered};
use crate::quantized_lstm;
use crate::rules::{Rules, is_kept};
use crate::tensor::{self, Declared, File};
use crate::{Import, Options, Whole};
use indexmap::{IndexMap, IndexSet};
use optc_ir::{
    Attr, AttrDict, Diagnostic, Dim, Effect, Func, Loc, Module, Operation, Registry, Size,
    Structure, TensorType, Type, Value,
};
use optc_onnx_proto::{FunctionProto, GraphProto, ModelProto, NodeProto, schema};
use optc_ops::Silu;
use prost::Message;
use prost::bytes::Bytes;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::sync::Arc;

/// The versions of the standard operator set that the rules were written for.
const OPSETS: std::ops::RangeInclusive<i64> = 1..=28;

/// The least version of the standard operator set that models are written in.
const LEAST_WRITTEN_OPSET: i64 = 7;

/// The deepest nesting of branches that are inlined.
const MAX_BRANCHES: usize = 16;

/// The most conditions that are decided by trying both branches. Each trial translates all later nodes twice.
const MAX_TRIALS: usize = 16;

/// The deepest nesting of loops whose rounds are counted, which translates their graphs twice.
const MAX_COUNTED: usize = 4;

/// The attributes of an `If` with its branches; the first one is taken if the condition is true.
const BRANCHES: [&str; 2] = ["then_branch", "else_branch"];

/// The first version of the format in which an initializer of an input is only its default. Before, every initializer
/// was listed as an input.
const OVERRIDABLE: i64 = 4;

/// The default name of a model.
const DEFAULT_NAME: &str = "model.onnx";

/// Imports a model; see [`crate::import`].
pub(crate) fn import(bytes: &[u8], options: &Options) -> Result<Import, Vec<Diagnostic>> {
    let bytes = Bytes::copy_from_slice(bytes);
    let mut model = ModelProto::decode(bytes.clone()).map_err(|e| {
        vec![tensor::malformed(&format!(
            "the file is no ONNX model: {e}"
        ))]
    })?;
    let Some(mut graph) = model.graph.take() else {
        let message = "the model has no graph";
        return Err(vec![Diagnostic::error(codes::ONNX_NO_GRAPH, message)]);
    };
    let name = options.name.as_deref().unwrap_or(DEFAULT_NAME);
    let file = File::new(name, bytes);
    let functions = decoded(&model.functions)?;
    let nodes = std::mem::take(&mut graph.node);
    let registry = optc_ops::registry();
    let source = ModelInput {
        options,
        model: &model,
        graph: &graph,
        file: &file,
        functions: &functions,
        registry: &registry,
    };
    let keep = options.whole == Whole::All && !functions.is_empty();
    let again = if keep { nodes.clone() } else { Vec::new() };
    let mut done = source.translate(nodes, false, IndexMap::new())?;
    if keep {
        // The results of calls become known from the translated functions.
        done = source.translate(again, true, done.types)?;
    }
    let Translated {
        funcs,
        opset,
        diags,
        ..
    } = done;
    let mut module = Module {
        funcs,
        ..Module::default()
    };
    module.attrs.set("hbir.source", Attr::str("onnx"));
    if options.whole != Whole::None && !functions.is_empty() {
        let places = model.functions.iter();
        let places = places.filter_map(|bytes| opaque::place(&file, bytes));
        let functions = Attr::Array(places.collect());
        module.attrs.set("hbir.onnx_functions", functions);
    }
    if let Some(opset) = opset {
        module.attrs.set("hbir.onnx_opset", Attr::int(opset));
    }
    // A runtime that has `Swish` may get it back; of others, nobody knows whether they have it.
    let has_silu = |func: &Func| func.ops.iter().any(|(_, data)| *data.name == *Silu::NAME);
    if module.funcs.iter().any(has_silu) {
        module.attrs.set("hbir.onnx_swish", Attr::Bool(true));
    }
    if let Some(said) = said_of_itself(&model, &graph) {
        module.attrs.set("hbir.onnx_model", Attr::Dict(said));
    }
    Ok(Import { module, diags })
}

/// The functions of a model.
fn decoded(functions: &[Bytes]) -> Result<Vec<FunctionProto>, Vec<Diagnostic>> {
    let decode = |bytes: &Bytes| {
        FunctionProto::decode(bytes.clone())
            .map_err(|e| vec![tensor::malformed(&format!("a function is none: {e}"))])
    };
    functions.iter().map(decode).collect()
}

/// A model that was read.
struct ModelInput<'a> {
    options: &'a Options,
    model: &'a ModelProto,
    graph: &'a GraphProto,
    file: &'a File,
    functions: &'a [FunctionProto],
    registry: &'a Registry,
}

/// The translated graph.
struct Translated {
    /// `@main`, then the functions that it runs.
    funcs: Vec<Func>,
    opset: Option<i64>,
    diags: Vec<Diagnostic>,
    /// The types of its values by their names.
    types: IndexMap<String, Type>,
}

impl ModelInput<'_> {
    /// Translates the graph. With `keep`, calls of functions are kept; otherwise they are inlined. `types` are the
    /// types of values for which the file declares none.
    fn translate(
        &self,
        nodes: Vec<NodeProto>,
        keep: bool,
        types: IndexMap<String, Type>,
    ) -> Result<Translated, Vec<Diagnostic>> {
        let opsets = Rc::new(Opsets::new(&self.model.opset_import));
        let mut inliner = Inliner::new(self.functions, keep);
        let nodes = inliner.flatten(nodes, &opsets).map_err(|d| vec![d])?;
        let mut diags = Vec::new();
        let opset = check_opset(&opsets, &nodes, &mut diags)?;
        let mut importer = Importer::new(self.registry, self.file, inliner, self.graph);
        importer.diags = diags;
        // Models are written in newer versions than these old ones, in which operators may have another meaning.
        let old = opset.is_some_and(|opset| opset < LEAST_WRITTEN_OPSET);
        importer.whole = match old {
            true => Whole::None,
            false => self.options.whole,
        };
        importer.held.clone_from(&self.options.held);
        if self
            .model
            .ir_version
            .is_some_and(|version| OVERRIDABLE <= version)
        {
            let inputs = self.graph.input.iter();
            importer.overridable = inputs.map(|i| i.name.clone()).collect();
        }
        for (name, ty) in types {
            importer.declared.entry(name).or_insert(ty);
        }
        importer.run(self.graph, &nodes)?;
        let Importer {
            b,
            mut diags,
            tally,
            names,
            funcs,
            ..
        } = importer;
        diags.extend(tally.remarks());
        let types = names
            .into_iter()
            .map(|(name, val)| (name, b.ty(val).clone()));
        let types = types.filter(|(_, ty)| ty.as_tensor().is_some()).collect();
        Ok(Translated {
            funcs: reachable(b.out.func, funcs),
            opset,
            diags,
            types,
        })
    }
}

/// Metadata of the model beside its graph, needed to write it again.
fn said_of_itself(model: &ModelProto, graph: &GraphProto) -> Option<AttrDict> {
    let mut said = AttrDict::new();
    let texts = [
        ("producer_name", &model.producer_name),
        ("producer_version", &model.producer_version),
        ("domain", &model.domain),
        ("doc_string", &model.doc_string),
        ("graph_name", &graph.name),
        ("graph_doc_string", &graph.doc_string),
    ];
    for (key, text) in texts {
        if let Some(text) = text.as_deref().filter(|t| !t.is_empty()) {
            said.set(key, Attr::str(text));
        }
    }
    let numbers = [
        ("ir_version", model.ir_version),
        ("model_version", model.model_version),
    ];
    for (key, number) in numbers {
        if let Some(number) = number {
            said.set(key, Attr::int(number));
        }
    }
    let pair = |key: &str, value: Attr| Attr::Array(vec![Attr::str(key), value]);
    let props = model.metadata_props.iter();
    let props: Vec<Attr> = props.map(|p| pair(&p.key, Attr::str(&p.value))).collect();
    if !props.is_empty() {
        said.set("metadata", Attr::Array(props));
    }
    let others = model.opset_import.iter().filter_map(|set| {
        let domain = set.domain.as_deref().unwrap_or_default();
        let own = !standard(domain).is_empty();
        own.then(|| pair(domain, Attr::int(set.version.unwrap_or(1))))
    });
    let others: Vec<Attr> = others.collect();
    if !others.is_empty() {
        said.set("opsets", Attr::Array(others));
    }
    (!said.is_empty()).then_some(said)
}

/// The version of the standard operators; `None` in a model without any.
fn check_opset(
    opsets: &Opsets,
    nodes: &[FlatNode],
    diags: &mut Vec<Diagnostic>,
) -> Result<Option<i64>, Vec<Diagnostic>> {
    let Some(opset) = opsets.get("") else {
        let none = nodes.iter().all(|n| !standard(&n.node.domain).is_empty());
        if none && !nodes.is_empty() {
            return Ok(None);
        }
        let message = "the model does not say which version of the standard operators it uses";
        return Err(vec![Diagnostic::error(codes::OPSET_MISSING, message)]);
    };
    if !OPSETS.contains(&opset) {
        let (first, last) = (OPSETS.start(), OPSETS.end());
        let message = format!(
            "operator set {opset} is outside the versions {first} to {last} that import knows"
        );
        diags.push(Diagnostic::warning(codes::OPSET_UNTESTED, message));
    }
    Ok(Some(opset))
}

struct Importer<'a> {
    b: Builder<'a>,
    file: &'a File,
    rules: Rules,
    inliner: Inliner<'a>,
    /// The current nesting depth of inlined branches.
    depth: usize,
    /// The number of conditions that may still be decided by trying both branches.
    trials: usize,
    whole: Whole,
    /// The nodes that stay unchanged.
    held: BTreeSet<Arc<str>>,
    /// The inputs whose initializers are only defaults.
    overridable: IndexSet<String>,
    /// The defaults of inputs, each with its type.
    defaults: IndexMap<String, (Attr, Option<TensorType>)>,
    names: IndexMap<String, Val>,
    declared: IndexMap<String, Type>,
    used: IndexSet<String>,
    /// The names of sizes in the types of the graph's inputs.
    sizes: IndexSet<Arc<str>>,
    /// Names that new sizes must not have.
    taken: IndexSet<Arc<str>>,
    /// The functions made from graphs inside nodes.
    funcs: Vec<Func>,
    diags: Vec<Diagnostic>,
    tally: Tally,
}

/// The state of the function that is being built.
#[derive(Clone)]
struct FuncState<'a> {
    b: Builder<'a>,
    names: IndexMap<String, Val>,
    declared: IndexMap<String, Type>,
    used: IndexSet<String>,
}

/// The state of an import before a trial.
#[derive(Clone)]
struct Saved<'a> {
    place: FuncState<'a>,
    taken: IndexSet<Arc<str>>,
    depth: usize,
    funcs: Vec<Func>,
    diags: Vec<Diagnostic>,
    tally: Tally,
}

/// The reason why a node that runs graphs stays whole.
enum Kept {
    /// For this reason.
    For(String),
    /// It is held; the types of its results.
    Held(Vec<Option<Type>>),
}

/// A function made from a graph, before it is decided whether it is kept.
struct Body {
    func: Func,
    /// The captured outer values, in the order of its last arguments.
    captured: Vec<Val>,
    results: Vec<Type>,
    /// True if its first result is always true, so that every loop continues.
    goes_on: bool,
    /// The known entries of each result.
    sizes: Vec<Option<Vec<Entry>>>,
}

impl<'a> Importer<'a> {
    fn new(
        registry: &'a Registry,
        file: &'a File,
        inliner: Inliner<'a>,
        graph: &GraphProto,
    ) -> Importer<'a> {
        Importer {
            b: Builder::new(registry, file, "main"),
            file,
            rules: Rules::new(),
            inliner,
            depth: 0,
            trials: MAX_TRIALS,
            whole: Whole::None,
            held: BTreeSet::new(),
            overridable: IndexSet::new(),
            defaults: IndexMap::new(),
            names: IndexMap::new(),
            declared: declared_types(graph),
            used: IndexSet::new(),
            sizes: IndexSet::new(),
            taken: IndexSet::new(),
            funcs: Vec::new(),
            diags: Vec::new(),
            tally: Tally::default(),
        }
    }

    fn run(&mut self, graph: &GraphProto, nodes: &[FlatNode]) -> Result<(), Vec<Diagnostic>> {
        self.names_of_sizes(graph);
        self.constants(graph, None)?;
        self.arguments(graph)?;
        self.used
            .extend(graph.output.iter().map(|o| o.name.clone()));
        self.nodes(nodes)?;
        self.results(graph)
    }

    /// Records the names of sizes in the inputs, and parses declared expressions of these names, such as `past + seq`.
    fn names_of_sizes(&mut self, graph: &GraphProto) {
        for input in &graph.input {
            if let Declared::Tensor(ty) = tensor::declared(input.ty.as_ref()) {
                let names = ty.dims.iter().filter_map(Dim::size);
                self.sizes.extend(names.flat_map(|size| size.names()));
            }
        }
        let sizes = &self.sizes;
        for ty in self.declared.values_mut() {
            if let Type::Tensor(tensor) = ty {
                *ty = Type::from(with_expressions(tensor, sizes));
            }
        }
        self.taken.extend(sizes.iter().cloned());
        let declared = self.declared.values().filter_map(Type::as_tensor);
        let named = declared.flat_map(|ty| ty.dims.iter().filter_map(Dim::size));
        self.taken.extend(named.flat_map(|size| size.names()));
    }

    /// Translates nodes in topological order.
    fn nodes(&mut self, nodes: &[FlatNode]) -> Result<(), Vec<Diagnostic>> {
        let known: IndexSet<String> = self.names.keys().cloned().collect();
        let order = order::sort(nodes, &known)?;
        let inputs = nodes.iter().flat_map(|n| &n.node.input);
        let captured = order.captured.iter().flat_map(|c| c.keys());
        self.used.extend(inputs.chain(captured).cloned());
        self.in_order(nodes, &order, 0)
    }

    /// Translates the nodes from number `from` of their order on.
    ///
    /// An `If` with an unknown condition may have branches whose results have no common type. It is decided if the
    /// later nodes are valid with only one of the branches: a valid model takes that branch whenever it runs.
    fn in_order(
        &mut self,
        nodes: &[FlatNode],
        order: &Ordered,
        from: usize,
    ) -> Result<(), Vec<Diagnostic>> {
        for (at, &i) in order.order.iter().enumerate().skip(from) {
            let flat = &nodes[i];
            let open = self.whole != Whole::All && is_if(flat) && self.known_branch(flat).is_none();
            if !open || self.trials == 0 {
                self.node(flat, &order.captured[i])?;
                continue;
            }
            let before = self.saved();
            self.node(flat, &order.captured[i])?;
            let value = |name: &String| self.names.get(name);
            let mut types = flat
                .node
                .output
                .iter()
                .filter_map(value)
                .map(|&v| self.b.ty(v));
            if types.all(|ty| ty.as_tensor().is_some()) {
                continue;
            }
            self.trials -= 1;
            let opaque = self.saved();
            let mut both = BRANCHES.map(|name| {
                self.restore(before.clone());
                let graph = graph_of(flat, name).ok_or_else(Vec::new)?;
                self.branch(flat, &graph)?;
                self.in_order(nodes, order, at + 1)?;
                Ok(self.saved())
            });
            if both[0].is_err() {
                both.swap(0, 1);
            }
            match both {
                [Ok(right), Err(why)] => {
                    self.restore(right);
                    self.diags.push(decided(flat, why));
                    return Ok(());
                }
                [Ok(_), Ok(_)] | [Err(_), _] => self.restore(opaque),
            }
        }
        Ok(())
    }

    fn saved(&self) -> Saved<'a> {
        Saved {
            place: FuncState {
                b: self.b.clone(),
                names: self.names.clone(),
                declared: self.declared.clone(),
                used: self.used.clone(),
            },
            taken: self.taken.clone(),
            depth: self.depth,
            funcs: self.funcs.clone(),
            diags: self.diags.clone(),
            tally: self.tally.clone(),
        }
    }

    fn restore(&mut self, saved: Saved<'a>) {
        self.exchange(saved.place);
        self.taken = saved.taken;
        self.depth = saved.depth;
        self.funcs = saved.funcs;
        self.diags = saved.diags;
        self.tally = saved.tally;
    }

    /// The initializers of the graph or of a branch; each is emitted only if something uses it.
    fn constants(
        &mut self,
        graph: &GraphProto,
        scope: Option<&Scope>,
    ) -> Result<(), Vec<Diagnostic>> {
        let mut errors = Vec::new();
        let dense = graph.initializer.iter().map(|wire| (wire, false));
        let sparse = graph.sparse_initializer.iter().map(|wire| (wire, true));
        for (wire, sparse) in dense.chain(sparse) {
            if scope.is_none()
                && let Some(name) = tensor::name_of(wire, sparse)
                && self.overridable.contains(&name)
            {
                match self.default(wire, sparse) {
                    Ok(made) if !self.defaults.contains_key(&name) => {
                        self.defaults.insert(name, made);
                    }
                    Ok(_) => errors.push(twice(&name)),
                    Err(diag) => errors.push(diag),
                }
                continue;
            }
            let (name, value) = match self.initializer(wire, sparse) {
                Ok(found) => found,
                Err(diag) => {
                    errors.push(diag);
                    continue;
                }
            };
            let name = scope.map_or_else(|| name.clone(), |s| s.rename(&name));
            if self.names.insert(name.clone(), value).is_some() {
                errors.push(twice(&name));
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// The default of an input: its elements, or for a foreign element type the message with them.
    fn default(
        &mut self,
        wire: &Bytes,
        sparse: bool,
    ) -> Result<(Attr, Option<TensorType>), Diagnostic> {
        let owner = "an input";
        let blob = match sparse {
            true => tensor::load_sparse(self.file, wire, owner),
            false => tensor::load(self.file, wire, owner),
        };
        match blob {
            Ok(blob) => {
                let ty = blob.ty.clone();
                Ok((opaque::tensor_attr(blob), Some(ty)))
            }
            Err(diag) if diag.code == tensor::UNSUPPORTED.name => {
                let place = opaque::place(self.file, wire).ok_or_else(|| diag.clone())?;
                self.diags.push(diag);
                Ok((place, None))
            }
            Err(diag) => Err(diag),
        }
    }

    /// The name and the value of an initializer; one of a foreign element type is kept undecoded.
    fn initializer(&mut self, wire: &Bytes, sparse: bool) -> Result<(String, Val), Diagnostic> {
        let owner = "an initializer";
        let blob = if sparse {
            tensor::load_sparse(self.file, wire, owner)
        } else {
            tensor::load(self.file, wire, owner)
        };
        match blob {
            Ok(blob) => {
                let name = blob.name.clone();
                let value = self.b.constant(blob, Loc::name(&name));
                Ok((name, value))
            }
            Err(diag) if diag.code == tensor::UNSUPPORTED.name => {
                let name = tensor::name_of(wire, sparse).unwrap_or_default();
                let value = opaque::constant(&mut self.b, self.file, wire, Loc::name(&name));
                let value = value.ok_or_else(|| diag.clone())?;
                self.diags.push(diag);
                Ok((name, value))
            }
            Err(diag) => Err(diag),
        }
    }

    /// The inputs of the graph without those that have constant values.
    fn arguments(&mut self, graph: &GraphProto) -> Result<(), Vec<Diagnostic>> {
        let mut errors = Vec::new();
        let mut seen: IndexSet<&str> = IndexSet::new();
        for input in &graph.input {
            if !seen.insert(&input.name) {
                let message = format!("the input `{}` is there twice", input.name);
                errors.push(Diagnostic::error(codes::DUPLICATE_NAME, message));
                continue;
            }
            if self.names.contains_key(&input.name) {
                continue;
            }
            let default = self.defaults.shift_remove(&input.name);
            let of_default = default.as_ref().and_then(|(_, ty)| ty.clone());
            let default = default.map(|(default, ty)| (default, ty.and_then(|ty| ty.shape())));
            let ty = argument_type(input).or_else(|diag| match of_default {
                Some(ty) => Ok((Type::from(ty), None)),
                None => Err(diag),
            });
            match ty {
                Err(diag) => errors.push(diag),
                Ok((ty, warning)) => {
                    self.diags.extend(warning);
                    let ty = match &ty {
                        Type::Tensor(tensor) => {
                            let tensor = with_expressions(tensor, &self.sizes);
                            match self.whole {
                                Whole::All => tensor.into(),
                                Whole::None | Whole::Large => {
                                    all_named(tensor, &input.name, &mut self.taken).into()
                                }
                            }
                        }
                        Type::Scalar(_) | Type::Other(_) => ty,
                    };
                    let open = ty.as_tensor().is_none_or(|ty| ty.shape().is_none());
                    let value = self.b.out.func.add_arg(ty, Some(&input.name));
                    let foreign = foreign_type(self.b.out.func.ty(value), input);
                    let port = self.b.out.func.arg_ports.last_mut();
                    if let Some(port) = set_port(port, &input.name, foreign)
                        && let Some((default, shape)) = default
                    {
                        port.attrs.set("hbir.default", default);
                        if let Some(shape) = shape.filter(|_| open) {
                            port.attrs.set("hbir.default_shape", Attr::ints(&shape));
                        }
                    }
                    self.names.insert(input.name.clone(), Val::Ssa(value));
                }
            }
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    fn results(&mut self, graph: &GraphProto) -> Result<(), Vec<Diagnostic>> {
        let mut errors = Vec::new();
        for (output, port) in graph.output.iter().zip(result_names(graph)) {
            let name = &output.name;
            let Some(&val) = self.names.get(name) else {
                let message = format!("nothing defines the output `{name}` of the graph");
                errors.push(Diagnostic::error(codes::UNDEFINED_VALUE, message));
                continue;
            };
            let value = self.b.value(val);
            self.b.out.func.add_result(value, Some(&port));
            let foreign = foreign_type(self.b.out.func.ty(value), output);
            set_port(self.b.out.func.result_ports.last_mut(), &port, foreign);
        }
        if errors.is_empty() {
            Ok(())
        } else {
            Err(errors)
        }
    }

    /// Translates one node.
    fn node(&mut self, flat: &FlatNode, captured: &Captured) -> Result<(), Vec<Diagnostic>> {
        if let Some(graph) = self.known_branch(flat).or_else(|| self.spelled_out(flat)) {
            return self.branch(flat, &graph);
        }
        let whole = match bodies::runs_graphs(&flat.node) && flat.call.is_none() {
            true => match self.runner(flat) {
                Ok(None) => return Ok(()),
                Ok(Some(types)) => Some(Kept::Held(types)),
                Err(Stop::Opaque(reason)) => Some(Kept::For(reason)),
                Err(Stop::Refused(diag)) => return Err(vec![*diag]),
            },
            false => None,
        };
        self.operator(flat, captured, whole).map_err(|d| vec![d])
    }

    /// Translates a node that runs graphs to one that runs functions. For a held node, returns the types of its
    /// results.
    fn runner(&mut self, flat: &FlatNode) -> Result<Option<Vec<Option<Type>>>, Stop> {
        if self.whole == Whole::All {
            return Err(Stop::opaque(
                "no pass runs, so operators are written unchanged",
            ));
        }
        if MAX_BRANCHES <= self.depth {
            let message = format!("graphs lie more than {MAX_BRANCHES} deep inside one another");
            return Err(Stop::opaque(message));
        }
        let runner = bodies::runner(&flat.node, flat.opset)?;
        let before = (self.funcs.len(), self.diags.len(), self.tally.clone());
        self.depth += 1;
        let done = self.run_by_functions(flat, &runner);
        self.depth -= 1;
        if !matches!(done, Ok(None)) {
            self.funcs.truncate(before.0);
            self.diags.truncate(before.1);
            self.tally = before.2;
        }
        done
    }

    fn run_by_functions(
        &mut self,
        flat: &FlatNode,
        runner: &Runner,
    ) -> Result<Option<Vec<Option<Type>>>, Stop> {
        let value = |name: &String| self.names.get(name).copied();
        let inputs: Vec<Option<Val>> = flat.node.input.iter().map(value).collect();
        let type_of = |val: &Option<Val>| val.map(|val| self.b.ty(val).clone());
        let types: Vec<Option<Type>> = inputs.iter().map(type_of).collect();
        let mut given = runner.given(&types)?;
        let Counted { known, rounds } = self.counted(flat, runner, &inputs, &given);
        let made = self.settled(flat, runner, &mut given, &known)?;
        let number = |i: usize| self.b.tensor(inputs.get(i).copied().flatten()?);
        let truth = |i: usize| number(i).is_some_and(|t| t.len() == 1 && t.i64_at(0) != 0);
        let begins = inputs.get(1).copied().flatten().is_none() || truth(1);
        let always = begins && made[0].goes_on;
        let most = inputs.first().copied().flatten();
        let size = most.and_then(|most| self.b.one_size(most));
        let rounds = match most {
            Some(_) if always => size.and_then(|size| size.maximum(&Size::default())),
            Some(_) => size.zip(rounds).and_then(|(most, n)| most.minimum(&n)),
            None => rounds,
        };
        let rounds = rounds.filter(|_| begins);
        let rounds = rounds.map(|size| Dim::of_size(&size));
        let declared = |i: usize| self.declared.get(flat.node.output.get(i)?)?.as_tensor();
        let said = (0..runner.outputs())
            .skip(runner.carried())
            .find_map(declared);
        let said = said.and_then(|ty| ty.dims.first().cloned());
        let taken = &mut self.taken;
        let mut name = || match &said {
            Some(dim) if *dim != Dim::Unknown => dim.clone(),
            _ => bodies::name_of_rounds(taken),
        };
        let graphs: Vec<Vec<Type>> = made.iter().map(|body| body.results.clone()).collect();
        let results = runner.results(&types, &given, &graphs, (rounds, &mut name))?;
        let mut functions = opaque::Functions::default();
        let mut captured = Vec::new();
        let mut effect = Effect::Pure;
        for (body, (attr, _)) in made.into_iter().zip(&runner.graphs) {
            let mut func = body.func;
            func.name = Arc::from(format!("{attr}.{}", self.funcs.len()));
            let ops = func
                .body
                .iter()
                .map(|&op| self.b.out.registry().effect(&func.op_ref(op)));
            effect = ops.fold(effect, Effect::max);
            functions.names.insert(attr, func.name.clone());
            captured.extend(body.captured.into_iter().map(|val| (val, None)));
            self.funcs.push(func);
        }
        functions.effect = Some(effect);
        let mut node = flat.node.clone();
        node.output.resize(runner.outputs(), String::new());
        let results = results.into_iter().enumerate().map(|(i, ty)| {
            let declared = self.declared.get(&node.output[i]);
            Some(refined(ty, declared))
        });
        let results: Vec<Option<Type>> = results.collect();
        if self.is_held(&flat.node) {
            return Ok(Some(results));
        }
        let mut cx = self.context(flat, &node);
        if runner.counts() {
            bodies::as_scalars(&mut cx)?;
        }
        let done = opaque::emit_with(&mut cx, &captured, results, &functions);
        let outputs = std::mem::take(&mut cx.outputs);
        done?;
        self.bind(flat, &outputs)?;
        Ok(None)
    }

    /// The graphs of a node as functions whose results have the types that the next round is given. `given` has the
    /// types of the first round, and is widened until they do.
    fn settled(
        &mut self,
        flat: &FlatNode,
        runner: &Runner,
        given: &mut Vec<Type>,
        known: &[Option<Vec<Entry>>],
    ) -> Result<Vec<Body>, Stop> {
        let mut attempt = 0;
        loop {
            let made = self.functions(flat, runner, given, known);
            let wanted = match &made {
                Ok(made) => runner.carrying(given, &made[0].results)?,
                // The inputs of the first round may have too narrow types.
                Err(_) => runner.open(given),
            };
            if wanted == *given {
                return made;
            }
            attempt += 1;
            *given = match attempt < bodies::ATTEMPTS {
                true => wanted,
                false => runner.open(&wanted),
            };
        }
    }

    /// True if a node must stay unchanged.
    fn is_held(&self, node: &NodeProto) -> bool {
        !self.held.is_empty() && self.held.contains(name_of(node))
    }

    /// Facts about carried values before the graph of a loop is translated. They come from a trial translation in which
    /// every integer input has a name of its own.
    fn counted(
        &mut self,
        flat: &FlatNode,
        runner: &Runner,
        inputs: &[Option<Val>],
        given: &[Type],
    ) -> Counted {
        let names = match runner.counts() && self.depth <= MAX_COUNTED {
            true => bodies::names_of_numbers(given),
            false => return Counted::default(),
        };
        let before = (self.funcs.len(), self.diags.len(), self.tally.clone());
        let body = self.function(flat, &runner.graphs[0].1, given, &names);
        self.funcs.truncate(before.0);
        self.diags.truncate(before.1);
        self.tally = before.2;
        let first = |val: &Option<Val>| self.b.entries((*val)?);
        let first: Vec<Option<Vec<Entry>>> = inputs.iter().map(first).collect();
        body.map_or_else(
            |_| Counted::default(),
            |body| runner.counted(&names, &first, &body.sizes),
        )
    }

    /// The functions of the graphs of a node, whose inputs have these types and these known entries.
    fn functions(
        &mut self,
        flat: &FlatNode,
        runner: &Runner,
        given: &[Type],
        known: &[Option<Vec<Entry>>],
    ) -> Result<Vec<Body>, Stop> {
        let start = self.funcs.len();
        let graphs = runner.graphs.iter();
        let made: Result<Vec<Body>, Stop> = graphs
            .map(|(_, graph)| self.function(flat, graph, given, known))
            .collect();
        if made.is_err() {
            self.funcs.truncate(start);
        }
        made
    }

    /// The function of one graph of a node.
    fn function(
        &mut self,
        flat: &FlatNode,
        graph: &GraphProto,
        given: &[Type],
        known: &[Option<Vec<Entry>>],
    ) -> Result<Body, Stop> {
        let inside = opaque::defined(graph, &IndexSet::new());
        let branch = self.inliner.branch(flat, graph, &inside)?;
        let inner = FuncState {
            b: Builder::new(self.b.out.registry(), self.file, ""),
            names: IndexMap::new(),
            declared: IndexMap::new(),
            used: IndexSet::new(),
        };
        let mut outer = self.exchange(inner);
        let done = self.body(graph, &branch, (given, known), &outer);
        let declared = std::mem::take(&mut outer.declared);
        let inner = self.exchange(FuncState { declared, ..outer });
        let (captured, goes_on, sizes) = done.map_err(first_of)?;
        let mut func = inner.b.out.func;
        func.attrs.set("sym_visibility", Attr::str("private"));
        let results = func.results.iter().map(|&v| func.ty(v).clone()).collect();
        let mut read: IndexSet<Value> = func.results.iter().copied().collect();
        read.extend(
            func.body
                .iter()
                .flat_map(|&op| func.ops[op].operands.iter().copied()),
        );
        let handed = func.args.len() - captured.len();
        let keep: Vec<bool> = (0..func.args.len())
            .map(|i| i < handed || read.contains(&func.args[i]))
            .collect();
        func.retain_args(|i| keep[i]);
        let captured = captured.into_iter().zip(&keep[handed..]);
        Ok(Body {
            captured: captured
                .filter(|(_, keep)| **keep)
                .map(|(val, _)| val)
                .collect(),
            func,
            results,
            goes_on,
            sizes,
        })
    }

    /// Switches to another function that is being built.
    fn exchange(&mut self, place: FuncState<'a>) -> FuncState<'a> {
        FuncState {
            b: std::mem::replace(&mut self.b, place.b),
            names: std::mem::replace(&mut self.names, place.names),
            declared: std::mem::replace(&mut self.declared, place.declared),
            used: std::mem::replace(&mut self.used, place.used),
        }
    }

    /// Builds the function of a graph. Returns the captured values, whether the first result is always true, and the
    /// known entries of all results.
    #[expect(clippy::type_complexity, reason = "it is taken apart at once")]
    fn body(
        &mut self,
        graph: &GraphProto,
        branch: &Branch,
        (given, known): (&[Type], &[Option<Vec<Entry>>]),
        outer: &FuncState<'a>,
    ) -> Result<(Vec<Val>, bool, Vec<Option<Vec<Entry>>>), Vec<Diagnostic>> {
        let Branch { nodes, scope } = branch;
        self.constants(graph, Some(scope))?;
        let mut ports = Ports::default();
        for (i, (input, ty)) in graph.input.iter().zip(given).enumerate() {
            let name = ports.fresh(&input.name);
            let value = self.b.out.func.add_arg(ty.clone(), Some(&name));
            set_port(
                self.b.out.func.arg_ports.last_mut(),
                &name,
                foreign_type(ty, input),
            );
            let val = match known.get(i) {
                Some(Some(sizes)) => self.b.argument(value, sizes.clone()),
                Some(None) | None => Val::Ssa(value),
            };
            if self.names.insert(scope.rename(&input.name), val).is_some() {
                let message = format!("the input `{}` is there twice", input.name);
                return Err(vec![Diagnostic::error(codes::DUPLICATE_NAME, message)]);
            }
        }
        let results: Vec<String> = graph.output.iter().map(|o| scope.rename(&o.name)).collect();
        let captured = self.captured(nodes, &results, outer, &mut ports);
        self.declare(graph, scope);
        self.used.extend(results.iter().cloned());
        self.nodes(nodes)?;
        let mut goes_on = false;
        let mut sizes = Vec::new();
        for (i, (output, name)) in graph.output.iter().zip(&results).enumerate() {
            let Some(&val) = self.names.get(name) else {
                let message = format!("nothing defines the output `{}` of a graph", output.name);
                return Err(vec![Diagnostic::error(codes::UNDEFINED_VALUE, message)]);
            };
            if i == 0 {
                let argument = self.b.out.func.args.get(1).copied().map(Val::Ssa);
                let known = self.b.tensor(val);
                let known = known.is_some_and(|t| t.len() == 1 && t.i64_at(0) != 0);
                goes_on = known || argument == Some(val);
            }
            sizes.push(self.b.entries(val));
            let value = self.b.value(val);
            let name = ports.fresh(&output.name);
            self.b.out.func.add_result(value, Some(&name));
            let foreign = foreign_type(self.b.out.func.ty(value), output);
            set_port(self.b.out.func.result_ports.last_mut(), &name, foreign);
        }
        Ok((captured, goes_on, sizes))
    }

    /// Captures the outer values that the nodes of a graph use.
    fn captured(
        &mut self,
        nodes: &[FlatNode],
        results: &[String],
        outer: &FuncState<'a>,
        ports: &mut Ports,
    ) -> Vec<Val> {
        let made: IndexSet<&String> = nodes.iter().flat_map(|n| &n.node.output).collect();
        let mut wanted: IndexSet<String> = IndexSet::new();
        for flat in nodes {
            wanted.extend(flat.node.input.iter().cloned());
            let inner = opaque::captured(&flat.node.attribute);
            wanted.extend(inner.iter().map(|name| flat.outer_name(name)));
        }
        wanted.extend(results.iter().cloned());
        let mut captured = Vec::new();
        for name in wanted.iter().filter(|name| !made.contains(name)) {
            let Some(&val) = outer
                .names
                .get(name)
                .filter(|_| !self.names.contains_key(name))
            else {
                continue;
            };
            let port = ports.fresh(name);
            let (inner, handed) = self.b.capture(&outer.b, val, &port);
            if handed {
                set_port(self.b.out.func.arg_ports.last_mut(), &port, None);
                captured.push(val);
            }
            self.names.insert(name.clone(), inner);
        }
        captured
    }

    /// Records the types that a graph inside a node declares.
    fn declare(&mut self, graph: &GraphProto, scope: &Scope) {
        let sizes = &self.sizes;
        let read = |ty: Type| match ty.as_tensor() {
            Some(tensor) => Type::from(with_expressions(tensor, sizes)),
            None => ty,
        };
        let declared = declared_types(graph).into_iter();
        let declared = declared.map(|(name, ty)| (scope.rename(&name), read(ty)));
        self.declared.extend(declared);
    }

    /// A node and its surroundings.
    fn context<'s>(&'s mut self, flat: &FlatNode, node: &'s NodeProto) -> NodeCx<'s, 'a> {
        let value = |name: &String| self.names.get(name).copied();
        let inputs: Vec<Option<Val>> = node.input.iter().map(value).collect();
        NodeCx {
            b: &mut self.b,
            node,
            opset: flat.opset,
            loc: Loc::name(name_of(node)),
            call: flat.call,
            file: self.file,
            declared: &self.declared,
            used: &self.used,
            taken: (self.whole != Whole::All).then_some(&mut self.taken),
            inputs,
            outputs: vec![None; node.output.len()],
        }
    }

    /// The graph that replaces an operator of a runtime; `None` if the operator must be kept for output.
    fn spelled_out(&self, flat: &FlatNode) -> Option<GraphProto> {
        let node = &flat.node;
        let is_lstm = node.domain == "com.microsoft" && node.op_type == "DynamicQuantizeLSTM";
        let known = is_lstm && flat.call.is_none() && self.whole == Whole::None;
        known
            .then(|| quantized_lstm::graph(node, flat.opsets.get("")?))
            .flatten()
    }

    /// The branch of an `If` with a constant condition.
    fn known_branch(&self, flat: &FlatNode) -> Option<GraphProto> {
        if !is_if(flat) || MAX_BRANCHES <= self.depth {
            return None;
        }
        let condition = self.b.tensor(*self.names.get(flat.node.input.first()?)?)?;
        let [then_branch, else_branch] = BRANCHES;
        match condition.len() {
            1 if condition.i64_at(0) != 0 => graph_of(flat, then_branch),
            1 => graph_of(flat, else_branch),
            _ => None,
        }
    }

    /// Inlines a subgraph in place of its node.
    fn branch(&mut self, flat: &FlatNode, graph: &GraphProto) -> Result<(), Vec<Diagnostic>> {
        let inside = opaque::defined(graph, &IndexSet::new());
        let branch = self.inliner.branch(flat, graph, &inside);
        let Branch { nodes, scope } = branch.map_err(|d| vec![d])?;
        self.constants(graph, Some(&scope))?;
        self.declare(graph, &scope);
        let results: Vec<String> = graph.output.iter().map(|o| scope.rename(&o.name)).collect();
        self.used.extend(results.iter().cloned());
        self.depth += 1;
        self.nodes(&nodes)?;
        self.depth -= 1;
        let value = |name: &String| self.names.get(name).copied();
        let outputs: Vec<Option<Val>> = results.iter().map(value).collect();
        self.bind(flat, &outputs).map_err(|d| vec![d])
    }

    /// Translates one node by its rule, unless it stays whole.
    fn operator(
        &mut self,
        flat: &FlatNode,
        captured: &Captured,
        whole: Option<Kept>,
    ) -> Result<(), Diagnostic> {
        let node = &flat.node;
        if node.op_type.is_empty() {
            let message = format!("{} names no operator", label(node));
            return Err(Diagnostic::error(codes::ONNX_NODE, message));
        }
        let value = |name: &String| self.names.get(name).copied();
        let captures: Vec<(Val, Option<String>)> = captured
            .iter()
            .filter_map(|(outer, inner)| Some((value(outer)?, Some(inner.clone()))))
            .collect();
        let rule = match flat.call {
            Some(_) => None,
            None => self.rules.get(&node.domain, &node.op_type),
        };
        let (keep, held) = (self.whole, self.is_held(node));
        let mut cx = self.context(flat, node);
        let start = cx.b.out.func.body.len();
        let foreign = foreign_attribute(flat).map(Kept::For);
        let mut known = None;
        let done = match (whole.or(foreign), rule) {
            (Some(Kept::For(reason)), _) => Err(Stop::Opaque(reason)),
            (Some(Kept::Held(types)), _) => {
                known = Some(types);
                Ok(())
            }
            (None, Some(rule)) => (rule.apply)(&mut cx),
            (None, None) => Err(Stop::opaque("no operation stands for it")),
        };
        let mut noted = None;
        match done {
            Ok(())
                if held
                    || keep != Whole::None && is_kept(node)
                    || stays_whole(&cx, start, (keep, flat.opsets.get(""))) =>
            {
                let types = known.unwrap_or_else(|| {
                    let results = cx.outputs.iter().map(|val| Some(cx.b.ty((*val)?).clone()));
                    results.collect()
                });
                cx.b.abandon(start);
                cx.outputs.fill(None);
                opaque::emit_typed(&mut cx, &captures, types).map_err(|stop| stopped(stop, &cx))?;
            }
            Ok(()) => shape_values(&mut cx),
            Err(Stop::Refused(diag)) => return Err(in_node(*diag, &cx)),
            Err(Stop::Opaque(reason)) => {
                cx.b.abandon(start);
                cx.outputs.fill(None);
                opaque::emit(&mut cx, &captures).map_err(|stop| stopped(stop, &cx))?;
                noted = (flat.call.is_none() && !held).then_some(reason);
            }
        }
        let outputs = std::mem::take(&mut cx.outputs);
        if let Some(reason) = noted {
            let domain = standard(&node.domain);
            self.tally.add(domain, &node.op_type, &label(node), &reason);
        }
        self.bind(flat, &outputs)
    }

    /// Names the outputs of a node and compares them with the file's declarations.
    fn bind(&mut self, flat: &FlatNode, outputs: &[Option<Val>]) -> Result<(), Diagnostic> {
        for (i, name) in flat
            .node
            .output
            .iter()
            .enumerate()
            .filter(|(_, n)| !n.is_empty())
        {
            let Some(val) = outputs.get(i).copied().flatten() else {
                if self.used.contains(name) {
                    let message =
                        format!("{} does not give output {i}, `{name}`", label(&flat.node));
                    return Err(Diagnostic::error(codes::UNDEFINED_VALUE, message));
                }
                continue;
            };
            if let Some(declared) = self.declared.get(name).and_then(Type::as_tensor) {
                self.b.refine(val, declared, &self.sizes);
                if let Some(found) = self
                    .b
                    .ty(val)
                    .as_tensor()
                    .filter(|f| contradicts(f, declared))
                {
                    let message = format!(
                        "{} gives `{name}` the type {}, but the file declares {}",
                        label(&flat.node),
                        show(found),
                        show(declared)
                    );
                    self.diags
                        .push(Diagnostic::warning(codes::DECLARED_TYPE_DIFFERS, message));
                }
            }
            self.names.insert(name.clone(), val);
        }
        Ok(())
    }
}

fn is_if(flat: &FlatNode) -> bool {
    flat.node.op_type == "If" && standard(&flat.node.domain).is_empty() && flat.call.is_none()
}

/// The graph in an attribute of a node.
fn graph_of(flat: &FlatNode, name: &str) -> Option<GraphProto> {
    let attr = flat.node.attribute.iter().find(|a| a.name == name)?;
    GraphProto::decode(attr.g.clone()?).ok()
}

/// The remark that the condition of an `If` always has one value, with the errors for the other value.
fn decided(flat: &FlatNode, why: Vec<Diagnostic>) -> Diagnostic {
    let message = format!("{} always takes one branch", label(&flat.node));
    let remark = Diagnostic::remark(codes::BRANCH_DECIDED, message);
    let why = why.into_iter().next();
    let why = why.map(|diag| format!("with the other one {}", diag.message));
    why.into_iter().fold(remark, Diagnostic::note)
}

/// An attribute that the operator does not have in the model's version, so that its meaning is unknown.
fn foreign_attribute(flat: &FlatNode) -> Option<String> {
    let node = &flat.node;
    let schema = schema(&node.domain, &node.op_type, flat.opset)?;
    let mut attributes = node.attribute.iter();
    let found = attributes.find(|attr| !schema.has_attribute(&attr.name))?;
    Some(format!(
        "it has an attribute `{}` that is not known",
        found.name
    ))
}

/// Tracks sizes through shape arithmetic if not all of them are numbers.
fn shape_values(cx: &mut NodeCx<'_, '_>) {
    let Some(&Some(result)) = cx.outputs.first() else {
        return;
    };
    if cx.b.tensor(result).is_some() || cx.b.entries(result).is_some() {
        return;
    }
    let inputs: Vec<Option<Vec<Entry>>> = (0..cx.inputs.len()).map(|i| cx.entries(i)).collect();
    let open = |e: &Entry| matches!(e, Entry::Size(_) | Entry::Ratio(..) | Entry::Below(..));
    if !inputs.iter().flatten().flatten().any(open) {
        return;
    }
    let float = |val: Val| cx.b.ty(val).as_tensor().is_some_and(|t| t.dtype.is_float());
    let (from, to) = (cx.input(0).is_some_and(float), float(result));
    let shape = cx.b.ty(result).as_tensor().and_then(TensorType::shape);
    let elements = shape.and_then(|s| usize::try_from(s.iter().product::<u64>()).ok());
    let args = entries::Args {
        float: from,
        rounds: from && !to,
        fmod: cx.flag("fmod", false),
        elements: elements.filter(|&n| n <= MAX_SIZES),
    };
    if let Some(sizes) = entries::apply(&cx.node.op_type, &inputs, &args) {
        cx.b.set_entries(result, sizes);
    }
}

/// Returns whether a node stays whole that became the operations of the body from `start` on, in a file with this
/// version of the standard operators. An operation without a standard operator in that version would need an operator
/// of one runtime.
fn stays_whole(cx: &NodeCx<'_, '_>, start: usize, (whole, version): (Whole, Option<i64>)) -> bool {
    if whole == Whole::None {
        return false;
    }
    // Operators of another domain belong to one runtime, which has them in one piece. The standard has adopted some of
    // them under the same names.
    if !standard(&cx.node.domain).is_empty() {
        let later = first_version(&cx.node.op_type).zip(version);
        if whole == Whole::All || later.is_some_and(|(first, version)| version < first) {
            return true;
        }
    }
    let (registry, func) = (cx.b.out.registry(), &cx.b.out.func);
    let mut constant: IndexSet<Value> = IndexSet::new();
    let (mut all, mut along) = (0, 0);
    for &op in &func.body[start..] {
        let data = &func.ops[op];
        let known = |value: &Value| {
            let made = func.def_op(*value);
            let made = made.map(|op| registry.structure(&func.ops[op].name));
            constant.contains(value) || made == Some(Structure::Constant)
        };
        if data.operands.iter().all(known) {
            constant.extend(&data.results);
            continue;
        }
        all += 1;
        let family = registry.get(&data.name).map(|decl| decl.family());
        along += usize::from(family != Some("elementwise"));
    }
    match whole {
        Whole::None => false,
        Whole::Large => 3 < all || 1 < along,
        Whole::All => 1 < all,
    }
}

/// The name of a node, or of its first output if it has none.
fn name_of(node: &NodeProto) -> &str {
    let first = node.output.iter().find(|o| !o.is_empty());
    match &*node.name {
        "" => first.map_or("", String::as_str),
        name => name,
    }
}

fn twice(name: &str) -> Diagnostic {
    let message = format!("the initializer `{name}` is there twice");
    Diagnostic::error(codes::DUPLICATE_NAME, message)
}

/// The functions that a program runs, after its first one.
fn reachable(main: Func, funcs: Vec<Func>) -> Vec<Func> {
    let named = |func: &Func| -> Vec<Arc<str>> {
        let ops = func
            .body
            .iter()
            .flat_map(|&op| func.ops[op].props.symbols());
        ops.map(Arc::from).collect()
    };
    let mut run: IndexSet<Arc<str>> = named(&main).into_iter().collect();
    // Functions come after the functions that they run.
    for func in funcs.iter().rev() {
        if run.contains(&func.name) {
            run.extend(named(func));
        }
    }
    let kept = funcs.into_iter().filter(|func| run.contains(&func.name));
    std::iter::once(main).chain(kept).collect()
}

/// The reason why a graph became no function. An undefined or duplicate name is an error of the model; anything else
/// keeps the operator whole.
fn first_of(diags: Vec<Diagnostic>) -> Stop {
    let wrong = [
        codes::DUPLICATE_NAME,
        codes::FUNCTION_EXPANSION,
        codes::GRAPH_CYCLE,
        codes::ONNX_NODE,
        codes::UNDEFINED_VALUE,
    ];
    let is_wrong = |diag: &Diagnostic| wrong.iter().any(|code| diag.code == *code);
    match diags.into_iter().max_by_key(is_wrong) {
        Some(diag) if is_wrong(&diag) => Stop::Refused(Box::new(diag)),
        Some(diag) => Stop::Opaque(diag.message),
        None => Stop::opaque("a graph inside of it is wrong"),
    }
}

fn stopped(stop: Stop, cx: &NodeCx<'_, '_>) -> Diagnostic {
    match stop {
        Stop::Refused(diag) => in_node(*diag, cx),
        Stop::Opaque(reason) => Diagnostic::error(codes::ONNX_NODE, reason),
    }
}

fn in_node(mut diag: Diagnostic, cx: &NodeCx<'_, '_>) -> Diagnostic {
    let label = cx.label();
    if !diag.message.contains(&label) {
        diag.message = format!("{label}: {}", diag.message);
    }
    diag
}
