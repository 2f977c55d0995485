//! Puts the body of a private function in place of each of its calls.
//!
//! ```ir before
//! func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
//!   %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
//!   %1 = "hbir.call"(%0) <{callee = @f}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
//!   return %1 : tensor<2x3xf32>
//! }
//! func.func private @f(%y: tensor<3x2xf32>) -> tensor<2x3xf32> {
//!   %0 = "hbir.transpose"(%y) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
//!   return %0 : tensor<2x3xf32>
//! }
//! ```
//! ```ir after
//! func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {
//!   %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>
//!   %1 = "hbir.transpose"(%0) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32>
//!   return %1 : tensor<2x3xf32>
//! }
//! ```
//!
//! # Soundness
//! 1. A call computes the body of its function on the operands, at that place: operations, their attributes and so
//!    their effects are copied in order.
//! 2. If the function writes the layout of an operand or result in another notation than the call, a view converts the
//!    one notation into the other.
//! 3. A function whose body has sizes that only it knows stays, unless the types of the caller's arguments state these
//!    sizes: two calls may differ in them.
//! 4. A private function that is reachable neither from the program's entry nor from a public function is dropped.
//!
//! # Not done
//! Functions that operations refer to (the bodies of loops, branches and reductions) stay functions; calls in them are
//! replaced. These functions stay as well: one with a plan of tiles, one whose arguments share memory with its results,
//! a recursive one, and one that is not private.
//!
//! # Cost
//! Linear in the operations of the result. A function that is called once is moved. A function that is called several
//! times is copied if the module stays within `limit`, and if the copies take no more steps than the larger one of
//! `limit` and the module's size plus 20,000. Calls that leave no operations behind are steps, too.
//!
//! # Neighbours
//! Run before `canonicalize`, which removes dead and duplicate operations at the seams.
//!
//! # Source
//! MLIR's `inline` and `symbol-dce`; XLA's `CallInliner`.

use crate::codes;
use crate::pass::{Changed, OptionInfo, Options, Outcome, Pass, PassContext, PassInfo, Phase};
use optc_ir::entity::EntityId;
use optc_ir::{
    Attr, AttrDict, Attributes, Diagnostic, Dim, Func, Loc, Module, Op, Operation, Port, Registry,
    Structure, Type, Value,
};
use optc_ops::View;
use optc_tile::{GROUPS, TILE};
use rustc_hash::{FxHashMap, FxHashSet};
use std::sync::Arc;

static INFO: PassInfo = PassInfo {
    name: "inline",
    summary: "put the body of a private function in place of each of its calls",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[OptionInfo {
        name: "limit",
        default: "auto",
        summary: "operations the module may grow to: a number, or 8 times as many as it had, or 20000 more",
    }],
};

/// Operations that a module may grow by, whatever its size.
const GROWTH: usize = 20_000;

/// The factor that a module may grow by.
const GROWTH_FACTOR: usize = 8;

/// The pass.
#[derive(Clone, Copy, Default, Debug)]
pub struct Inline;

impl Pass for Inline {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        if module.funcs.len() < 2 {
            return Ok(Changed::No.into());
        }
        let count = operations(module);
        let limit = limit(&cx.options, count)?;
        let mut changed = drop_unnamed(module);
        let parts = Parts::new(module, &cx.registry);
        let choice = parts.choose(module, limit);
        cx.remarks.extend(choice.remarks);
        if choice.put.contains(&true) {
            changed = true;
            splice(module, &choice.put, &parts.named, &cx.registry);
        }
        Ok(Changed::from(changed).into())
    }
}

fn operations(module: &Module) -> usize {
    module.funcs.iter().map(|f| f.body.len()).sum()
}

/// The operations that a module of `count` operations may grow to.
fn limit(options: &Options, count: usize) -> Result<usize, Box<Diagnostic>> {
    if options.get(&INFO, "limit") == "auto" {
        let times = count.saturating_mul(GROWTH_FACTOR);
        return Ok(times.max(count.saturating_add(GROWTH)));
    }
    let number = options.number(&INFO, "limit")?;
    Ok(usize::try_from(number).unwrap_or(usize::MAX))
}

/// The number of each function, by its name.
fn numbers(module: &Module) -> FxHashMap<&str, usize> {
    let mut all = FxHashMap::default();
    for (number, func) in module.funcs.iter().enumerate() {
        all.entry(&*func.name).or_insert(number);
    }
    all
}

fn is_private(func: &Func) -> bool {
    func.attrs.str("sym_visibility") == Some("private")
}

/// The function that an operation calls, if calling is all that it does.
fn callee<'f>(func: &'f Func, op: Op, registry: &Registry) -> Option<&'f str> {
    let calls = registry.structure(&func.ops[op].name) == Structure::Call;
    func.callee(op).filter(|_| calls)
}

/// Calls `found` with every name of a function in an attribute, and with every possible name in its raw text.
fn names<'a>(attr: &'a Attr, found: &mut dyn FnMut(&'a str)) {
    match attr {
        Attr::Symbol(name) => found(name),
        Attr::Array(items) => items.iter().for_each(|item| names(item, found)),
        Attr::Dict(items) => dict_names(items, found),
        Attr::Raw(text) => {
            let part = |c: char| c.is_alphanumeric() || matches!(c, '_' | '.' | '$' | '-');
            for after in text.split('@').skip(1) {
                let quoted = after.strip_prefix('"').and_then(|t| t.split('"').next());
                let end = after.find(|c| !part(c)).unwrap_or(after.len());
                found(quoted.unwrap_or(&after[..end]));
            }
        }
        Attr::Unit
        | Attr::Bool(_)
        | Attr::Int(..)
        | Attr::Float(..)
        | Attr::Str(_)
        | Attr::Type(_)
        | Attr::Dense(_)
        | Attr::External { .. } => {}
    }
}

fn dict_names<'a>(dict: &'a AttrDict, found: &mut dyn FnMut(&'a str)) {
    dict.iter().for_each(|(_, attr)| names(attr, found));
}

/// Calls `found` with the names of functions in the attributes of a function and its ports, not in its body.
fn declared_names<'a>(func: &'a Func, found: &mut dyn FnMut(&'a str)) {
    dict_names(&func.attrs, found);
    for port in func.arg_ports.iter().chain(&func.result_ports) {
        dict_names(&port.attrs, found);
    }
}

/// Drops the private functions that are unreachable. Returns whether there were any.
fn drop_unnamed(module: &mut Module) -> bool {
    let numbers = numbers(module);
    let mut kept = vec![false; module.funcs.len()];
    let mut next: Vec<usize> = Vec::new();
    let mut reach = |name: &str| next.extend(numbers.get(name));
    dict_names(&module.attrs, &mut reach);
    let public = |&(_, func): &(usize, &Func)| !is_private(func);
    let public = module.funcs.iter().enumerate().filter(public);
    next.extend(public.map(|(number, _)| number));
    next.extend(module.entry());
    while let Some(number) = next.pop() {
        if std::mem::replace(&mut kept[number], true) {
            continue;
        }
        let func = &module.funcs[number];
        let mut reach = |name: &str| next.extend(numbers.get(name));
        declared_names(func, &mut reach);
        for &op in &func.body {
            dict_names(&func.ops[op].props, &mut reach);
            dict_names(&func.ops[op].attrs, &mut reach);
        }
    }
    drop(numbers);
    let before = module.funcs.len();
    let mut kept = kept.into_iter();
    module.funcs.retain(|_| kept.next().unwrap_or(true));
    module.funcs.len() != before
}

/// A call of a function of the module.
#[derive(Clone, Copy, Debug)]
struct Site {
    op: Op,
    callee: usize,
    /// The number of operands and results whose types differ, so that a view is needed.
    seams: usize,
}

/// The functions of a module and the calls among them.
#[derive(Debug)]
struct Parts {
    /// By function, the calls in it.
    sites: Vec<Vec<Site>>,
    /// By function, whether something other than a call names it.
    named: Vec<bool>,
    /// Callees before callers.
    order: Vec<usize>,
    /// By function, whether it is recursive.
    circular: Vec<bool>,
}

/// The functions that are put in place of their calls.
#[derive(Debug)]
struct Choice {
    put: Vec<bool>,
    remarks: Vec<Diagnostic>,
}

impl Parts {
    fn new(module: &Module, registry: &Registry) -> Parts {
        let numbers = numbers(module);
        let mut sites = vec![Vec::new(); module.funcs.len()];
        let mut named = vec![false; module.funcs.len()];
        let mut name = |name: &str| {
            if let Some(&number) = numbers.get(name) {
                named[number] = true;
            }
        };
        dict_names(&module.attrs, &mut name);
        for (func, sites) in module.funcs.iter().zip(&mut sites) {
            declared_names(func, &mut name);
            for &op in &func.body {
                let data = &func.ops[op];
                dict_names(&data.attrs, &mut name);
                let called = callee(func, op, registry);
                let called = called.and_then(|c| numbers.get(c)).copied();
                let Some(called) = called else {
                    dict_names(&data.props, &mut name);
                    continue;
                };
                let other = data.props.iter().filter(|(key, _)| *key != "callee");
                other.for_each(|(_, attr)| names(attr, &mut name));
                let target = &module.funcs[called];
                let given = data.operands.iter().zip(&target.args);
                let taken = data.results.iter().zip(&target.results);
                let differs =
                    |&(&here, &there): &(&Value, &Value)| func.ty(here) != target.ty(there);
                sites.push(Site {
                    op,
                    callee: called,
                    seams: given.chain(taken).filter(differs).count(),
                });
            }
        }
        let (order, circular) = callees_first(&sites);
        Parts {
            sites,
            named,
            order,
            circular,
        }
    }

    /// Decides, callees before callers, which functions are put in place of their calls. After every decision the
    /// number of operations is within the limit, or smaller than before.
    fn choose(&self, module: &Module, limit: usize) -> Choice {
        let entry = module.entry();
        let mut size: Vec<usize> = module.funcs.iter().map(|f| f.body.len()).collect();
        let mut count = operations(module);
        // The effort to copy a body, including calls in it that leave no operations behind.
        let mut visits: Vec<usize> = size.iter().map(|n| n.saturating_add(1)).collect();
        let most_visits = limit.max(count.saturating_add(GROWTH));
        let mut put = vec![false; module.funcs.len()];
        let mut remarks = Vec::new();
        let mut callers: Vec<Vec<(usize, Site)>> = vec![Vec::new(); module.funcs.len()];
        for (caller, sites) in self.sites.iter().enumerate() {
            for &site in sites {
                callers[site.callee].push((caller, site));
            }
        }
        for &at in &self.order {
            for site in self.sites[at].iter().filter(|site| put[site.callee]) {
                let more = size[site.callee].saturating_add(site.seams);
                size[at] = size[at].saturating_add(more).saturating_sub(1);
                visits[at] = visits[at].saturating_add(visits[site.callee]);
            }
            let (func, calls) = (&module.funcs[at], &callers[at]);
            if calls.is_empty() || Some(at) == entry || !is_private(func) || self.circular[at] {
                continue;
            }
            let Some(&(first, site)) = calls.first() else {
                continue;
            };
            let mut refuse = |why: String| {
                let remark = Diagnostic::remark(codes::CALL_KEPT, why);
                let span = module.funcs[first].ops[site.op].span;
                remarks.push(remark.at(span, "its first call"));
            };
            if let Some(why) = obstacle(module, func, calls) {
                refuse(format!("@{} stays a function: {why}", func.name));
                continue;
            }
            let seams: usize = calls.iter().map(|(_, site)| site.seams).sum();
            let copies = calls.len().saturating_mul(size[at]).saturating_add(seams);
            let gone = calls.len() + if self.named[at] { 0 } else { size[at] };
            let after = count.saturating_add(copies).saturating_sub(gone);
            if limit < after && count < after {
                refuse(format!(
                    "@{} stays a function: in place of its {} calls the module would have {after} operations, the limit is \
                     {limit}",
                    func.name,
                    calls.len()
                ));
                continue;
            }
            let visited = calls.len().saturating_mul(visits[at]);
            if 1 < calls.len() && most_visits < visited {
                refuse(format!(
                    "@{} stays a function: putting it in place of its {} calls takes {visited} steps, the limit is {most_visits}",
                    func.name,
                    calls.len()
                ));
                continue;
            }
            count = after;
            put[at] = true;
        }
        Choice { put, remarks }
    }
}

/// The reason why the body of a function cannot replace its calls, whatever it costs.
fn obstacle(module: &Module, func: &Func, calls: &[(usize, Site)]) -> Option<String> {
    if func.attrs.get(GROUPS).is_some() {
        return Some("it has a plan of tiles".to_owned());
    }
    let shared = |port: &Port| port.attrs.get("hbir.alias").is_some();
    if func.arg_ports.iter().any(shared) {
        return Some("an argument shares memory with a result".to_owned());
    }
    let tiled = |(caller, site): &(usize, Site)| {
        let call = &module.funcs[*caller].ops[site.op];
        call.attrs.get(TILE).is_some()
    };
    if calls.iter().any(tiled) {
        return Some("a call is part of a plan of tiles".to_owned());
    }
    let own = own_sizes(func);
    let mut checked = FxHashSet::default();
    for &(caller, _) in calls.iter().filter(|_| !own.is_empty()) {
        if !checked.insert(caller) {
            continue;
        }
        let caller = &module.funcs[caller];
        let known = sizes(caller, &caller.args);
        if let Some(name) = own.iter().find(|name| !known.contains(*name)) {
            return Some(format!("it knows the size `{name}` alone"));
        }
    }
    None
}

/// The names of sizes in the types of values.
fn sizes<'a>(func: &Func, values: impl IntoIterator<Item = &'a Value>) -> FxHashSet<Arc<str>> {
    let types = values.into_iter().filter_map(|&v| func.ty(v).as_tensor());
    let sizes = types.flat_map(|ty| &ty.dims).filter_map(|dim| match dim {
        Dim::Symbol(_) => dim.size(),
        Dim::Fixed(_) | Dim::Unknown => None,
    });
    sizes.flat_map(|size| size.names()).collect()
}

/// The names of sizes in the body of a function that its callers do not see, sorted.
fn own_sizes(func: &Func) -> Vec<Arc<str>> {
    let made = func.body.iter().flat_map(|&op| &func.ops[op].results);
    let seen = sizes(func, func.args.iter().chain(&func.results));
    let mut own: Vec<Arc<str>> = sizes(func, made).into_iter().collect();
    own.retain(|name| !seen.contains(name));
    own.sort();
    own
}

/// The functions, callees before callers, and whether each is recursive.
fn callees_first(sites: &[Vec<Site>]) -> (Vec<usize>, Vec<bool>) {
    let mut order = Vec::with_capacity(sites.len());
    let mut circular = vec![false; sites.len()];
    // `Some(false)` while the callees of a function are visited, `Some(true)` once it is in the order.
    let mut done: Vec<Option<bool>> = vec![None; sites.len()];
    for root in 0..sites.len() {
        if done[root].is_some() {
            continue;
        }
        done[root] = Some(false);
        let mut stack = vec![(root, 0usize)];
        while let Some((at, next)) = stack.pop() {
            let Some(site) = sites[at].get(next) else {
                done[at] = Some(true);
                order.push(at);
                continue;
            };
            stack.push((at, next + 1));
            match done[site.callee] {
                None => {
                    done[site.callee] = Some(false);
                    stack.push((site.callee, 0));
                }
                Some(false) => circular[site.callee] = true,
                Some(true) => {}
            }
        }
    }
    (order, circular)
}

/// Puts these functions in place of their calls. Those that something else names stay as well.
fn splice(module: &mut Module, put: &[bool], named: &[bool], registry: &Registry) {
    let mut bodies: Vec<Func> = Vec::new();
    let mut kept = Vec::new();
    for ((func, &put), &named) in module.funcs.drain(..).zip(put).zip(named) {
        match (put, named) {
            (false, _) => kept.push(func),
            (true, false) => bodies.push(func),
            (true, true) => {
                kept.push(func.clone());
                bodies.push(func);
            }
        }
    }
    let bodies = bodies.iter().map(|func| (&*func.name, func));
    let splice = Splice {
        bodies: bodies.collect(),
        registry,
    };
    for func in &mut kept {
        splice.replace_calls(func);
    }
    module.funcs = kept;
}

/// Puts bodies in place of calls.
struct Splice<'m> {
    bodies: FxHashMap<&'m str, &'m Func>,
    registry: &'m Registry,
}

/// A call whose function is being copied.
struct Frame<'m> {
    func: &'m Func,
    /// The number of operations of its body that are copied.
    done: usize,
    /// The caller's values for the values of the function.
    values: Vec<Option<Value>>,
    /// The results of the call, as values of the calling function, and their types.
    results: Vec<(Value, Type)>,
    /// The location of the call.
    loc: Loc,
}

impl<'m> Splice<'m> {
    /// Replaces the calls of a function.
    fn replace_calls(&self, func: &mut Func) {
        let calls = |&op: &Op| self.target(func, op).is_some();
        if !func.body.iter().any(calls) {
            return;
        }
        let mut replaced: FxHashMap<Value, Value> = FxHashMap::default();
        let resolve = |value: &mut Value, replaced: &FxHashMap<Value, Value>| {
            *value = replaced.get(value).copied().unwrap_or(*value);
        };
        for op in std::mem::take(&mut func.body) {
            for value in &mut func.ops[op].operands {
                resolve(value, &replaced);
            }
            let Some(target) = self.target(func, op) else {
                func.body.push(op);
                continue;
            };
            let data = &func.ops[op];
            let (operands, results) = (data.operands.clone(), data.results.clone());
            let loc = data.loc.clone();
            let results = results.into_iter().map(|v| (v, func.ty(v).clone()));
            let results = results.collect();
            let frame = Frame::new(func, target, &operands, results, loc);
            let results = self.copy(func, frame);
            results.iter().for_each(|&(old, new)| func.record(old, new));
            replaced.extend(results);
        }
        for value in &mut func.results {
            resolve(value, &replaced);
        }
    }

    /// The function to copy in place of an operation.
    fn target(&self, func: &Func, op: Op) -> Option<&'m Func> {
        let name = callee(func, op, self.registry)?;
        self.bodies.get(name).copied()
    }

    /// Copies the body of a function and of the functions that it calls. Returns pairs of the results of the call and
    /// the values that replace them.
    fn copy(&self, func: &mut Func, frame: Frame<'m>) -> Vec<(Value, Value)> {
        let mut stack = Vec::new();
        let mut top = frame;
        loop {
            let Some(&op) = top.func.body.get(top.done) else {
                let results = top.finish(func);
                let Some(caller) = stack.pop() else {
                    return results;
                };
                top = caller;
                for (old, new) in results {
                    top.define(old, new);
                }
                continue;
            };
            top.done += 1;
            let data = &top.func.ops[op];
            let operands: Vec<Value> = data.operands.iter().map(|&v| top.value(v)).collect();
            let types = data.results.iter().map(|&v| top.func.ty(v).clone());
            let loc = match &data.loc {
                Loc::Unknown => top.loc.clone(),
                own => own.clone(),
            };
            if let Some(target) = self.target(top.func, op) {
                let results = data.results.iter().copied().zip(types).collect();
                let inner = Frame::new(func, target, &operands, results, loc);
                stack.push(std::mem::replace(&mut top, inner));
                continue;
            }
            let types = types.collect();
            let made = func.make_op(data.name.clone(), operands, data.props.clone(), types, loc);
            func.ops[made].attrs = data.attrs.clone();
            func.ops[made].span = data.span;
            func.body.push(made);
            let results = func.ops[made].results.clone();
            for (&old, new) in data.results.iter().zip(results) {
                top.define(old, new);
            }
        }
    }
}

impl<'m> Frame<'m> {
    fn new(
        caller: &mut Func,
        func: &'m Func,
        operands: &[Value],
        results: Vec<(Value, Type)>,
        loc: Loc,
    ) -> Frame<'m> {
        let mut frame = Frame {
            func,
            done: 0,
            values: vec![None; func.values.len()],
            results,
            loc,
        };
        for (&arg, &given) in func.args.iter().zip(operands) {
            let given = seam(caller, given, func.ty(arg), &frame.loc);
            frame.define(arg, given);
        }
        frame
    }

    fn define(&mut self, value: Value, as_value: Value) {
        self.values[value.index()] = Some(as_value);
    }

    fn value(&self, value: Value) -> Value {
        let value = self.values[value.index()];
        value.expect("the verifier refuses a value that is used before it is defined")
    }

    /// The results of the call and the values that replace them.
    fn finish(&self, func: &mut Func) -> Vec<(Value, Value)> {
        func.record_copy(self.func, |value| self.values[value.index()]);
        let returned = self.func.results.iter().map(|&v| self.value(v));
        let wanted = self.results.iter().zip(returned);
        wanted
            .map(|((old, ty), value)| (*old, seam(func, value, ty, &self.loc)))
            .collect()
    }
}

/// A value as one of this type. The type has the same layout, possibly in another notation.
fn seam(func: &mut Func, value: Value, ty: &Type, loc: &Loc) -> Value {
    if func.ty(value) == ty {
        return value;
    }
    let view = View {
        shape: None,
        perm: None,
    };
    let op = func.push_op(
        View::NAME,
        vec![value],
        view.write(),
        vec![ty.clone()],
        loc.clone(),
    );
    func.ops[op].results[0]
}
