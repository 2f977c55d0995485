//! Finds the reasons why conversions stay, by trying changes that may remove them.
//!
//! Example: an argument `x` is pinned row-major and its only reader needs it transposed. With `x` free the conversion
//! disappears, so the remark names `--free-boundary=x`.
//!
//! A conversion whose order comes from a pinned port may disappear when the port is free. It may also only move
//! elsewhere. So the function is searched again with each remedy. A remedy is named if the conversion disappears and
//! the function converts fewer bytes. Trials are made only where remarks are printed, and with tables of their own, so
//! that the figures of a run do not change. Without trials a remark names the ports and operations alone.

use super::chain::Chains;
use super::choose::Choice;
use super::conversion::Conversion;
use super::groups::{Graph, Node, NodeKind, Pin};
use super::maps::{FastMap, FastSet};
use super::reason::{Freed, Keeper, NamedEnd, Reason};
use super::search::MASK_BITS;
use super::shared::Shared;
use crate::names::reader_name;
use crate::pass::PassContext;
use optc_check::End;
use optc_ir::{FreedomClass, Func, Op, Value};

/// The most programs that are searched to explain the conversions of one function. Further remedies are left out.
const TRIALS: usize = 11;
/// The number of programs that are searched however large the function is: a free boundary and two caps.
const LEAST_TRIALS: usize = 3;
/// The most nodes of all searched programs together, beyond [`LEAST_TRIALS`] programs.
const TRIAL_NODES: usize = 1 << 16;

/// A change that may remove a conversion.
#[derive(Clone, PartialEq, Eq, Hash)]
enum Remedy {
    /// The ports with these keys are free.
    Free(Vec<String>),
    /// The whole boundary is free.
    FreeAll,
    /// A group may have this many candidates.
    Cap(usize),
}

/// The conversions of a program.
struct Effect {
    bytes: u64,
    /// The values that are converted.
    of: FastSet<Value>,
}

impl Effect {
    fn new(conversions: &[Conversion]) -> Effect {
        let moved = conversions.iter().filter(|c| !c.constant);
        Effect {
            bytes: moved.clone().fold(0, |n, c| n.saturating_add(c.bytes)),
            of: moved.map(|c| c.of).collect(),
        }
    }
}

/// The conversions of one function, and the remedies that were tried.
pub(crate) struct Reasons<'a> {
    func: &'a Func,
    graph: &'a Graph,
    cx: &'a PassContext,
    shared: &'a Shared,
    /// The tables of the trials, made for the first one.
    tables: Option<Box<Shared>>,
    /// True if options may name the ports of this function.
    pub(crate) is_entry: bool,
    /// True if the search has proved its choice.
    pub(crate) proven: bool,
    /// The conversions of the function as it is.
    now: Effect,
    tried: FastMap<Remedy, Option<Effect>>,
    /// The number of trials that may still be made.
    left: usize,
}

impl<'a> Reasons<'a> {
    pub(crate) fn new(
        func: &'a Func,
        graph: &'a Graph,
        cx: &'a PassContext,
        shared: &'a Shared,
        conversions: &[Conversion],
    ) -> Reasons<'a> {
        Reasons {
            func,
            graph,
            cx,
            shared,
            tables: None,
            is_entry: true,
            proven: true,
            now: Effect::new(conversions),
            tried: FastMap::default(),
            left: if cx.explain_remarks {
                (TRIAL_NODES / graph.nodes.len().max(1)).clamp(LEAST_TRIALS, TRIALS)
            } else {
                0
            },
        }
    }

    /// Sets in each conversion the operations that fix the two orders, and the reason why it stays.
    pub(crate) fn explain(&mut self, conversions: &mut [Conversion], choice: &Choice) {
        if self.now.of.is_empty() {
            return;
        }
        if self.has_declared() {
            self.attempt(Remedy::FreeAll);
        }
        let mut sides = Vec::with_capacity(conversions.len());
        let chains = Chains::new(self.func, self.graph, &self.shared.signatures, choice);
        for conversion in conversions.iter_mut().filter(|c| !c.constant) {
            let anchors = chains.of(conversion);
            sides.push((anchors, self.ports(conversion, &chains, anchors)));
        }
        let moved = conversions.iter_mut().filter(|c| !c.constant);
        for (conversion, (anchors, ports)) in moved.zip(sides) {
            conversion.reason = self.reason(conversion.of, anchors, &ports);
            conversion.left_out = self.left_out(anchors);
        }
    }

    /// The number of programs that were searched.
    pub(crate) fn trials(&self) -> usize {
        self.tried.len()
    }

    /// Returns whether an option can free any port.
    fn has_declared(&self) -> bool {
        let mut nodes = self.graph.nodes.iter();
        nodes.any(|(_, n)| n.pin == Some(Pin::Declared))
    }

    /// Tries larger caps of candidates a group.
    pub(crate) fn try_larger_caps(&mut self) {
        for cap in [self.shared.cap.saturating_mul(2).min(MASK_BITS), MASK_BITS] {
            if self.shared.cap < cap && self.cap().is_none() {
                self.attempt(Remedy::Cap(cap));
            }
        }
    }

    /// A cap with which the function converts fewer bytes.
    pub(crate) fn cap(&self) -> Option<usize> {
        self.tried.iter().find_map(|(remedy, effect)| match remedy {
            Remedy::Cap(cap) if effect.as_ref()?.bytes < self.now.bytes => Some(*cap),
            Remedy::Cap(_) | Remedy::Free(_) | Remedy::FreeAll => None,
        })
    }

    /// Bytes that the function converts when its boundary is free, if that is less.
    pub(crate) fn freed(&self) -> Option<u64> {
        let freed = self.tried.get(&Remedy::FreeAll)?.as_ref()?;
        (freed.bytes < self.now.bytes).then_some(freed.bytes)
    }

    fn reason(
        &mut self,
        of: Value,
        anchors: [Option<Node>; 2],
        ports: &[(Node, Pin)],
    ) -> Option<Reason> {
        let declared = ports.iter().filter(|(_, pin)| *pin == Pin::Declared);
        let declared: Vec<Node> = declared.map(|(port, _)| *port).collect();
        let mut options = self.options(of, &declared);
        if options.is_empty() && self.helps(&Remedy::FreeAll, of) {
            if declared.is_empty() {
                return Some(Reason::Boundary);
            }
            options.push(Freed::All);
        }
        if !options.is_empty() {
            let ports = self.named_ends(&declared);
            return Some(Reason::Pinned { ports, options });
        }
        if let Some(&(port, pin)) = ports.iter().find(|(_, pin)| *pin != Pin::Declared) {
            let keeper = self.keeper(pin);
            let port = self.named_end(port)?;
            return Some(Reason::Kept { port, keeper });
        }
        // If a free boundary was not tried, the ports that fix the orders are named, and operations are not blamed.
        if self.has_declared() && !self.tried.contains_key(&Remedy::FreeAll) {
            let ports = self.named_ends(&declared);
            let options = Vec::new();
            return (!ports.is_empty()).then_some(Reason::Pinned { ports, options });
        }
        if let Some(bytes) = self.elsewhere(of) {
            let ports = self.named_ends(&declared);
            let now = self.now.bytes;
            return Some(Reason::Size { ports, bytes, now });
        }
        let reason = match self.cap() {
            Some(max_layouts) if self.helps(&Remedy::Cap(max_layouts), of) => {
                Reason::Cap { max_layouts }
            }
            _ => {
                let ops = anchors.into_iter().flatten();
                Reason::Operations {
                    ops: ops.filter_map(|node| self.op(node)).collect(),
                    words: self.operations(anchors),
                }
            }
        };
        Some(reason)
    }

    /// The fewest bytes that the function converts with free ports and without the conversions of a value, if that is
    /// no less than now.
    fn elsewhere(&self, of: Value) -> Option<u64> {
        let freed = self.tried.iter().filter(|(remedy, _)| match remedy {
            Remedy::Free(_) | Remedy::FreeAll => true,
            Remedy::Cap(_) => false,
        });
        let effects = freed.filter_map(|(_, effect)| effect.as_ref());
        let least = effects.filter(|e| !e.of.contains(&of)).map(|e| e.bytes);
        least.min().filter(|&bytes| self.now.bytes <= bytes)
    }

    /// The pinned ports that fix one of the two orders.
    fn ports(
        &self,
        conversion: &Conversion,
        chains: &Chains<'_>,
        anchors: [Option<Node>; 2],
    ) -> Vec<(Node, Pin)> {
        let to_boundary = conversion.readers.contains(&None);
        let results = chains.unmet_results(conversion.of).filter(|_| to_boundary);
        let mut ports: Vec<(Node, Pin)> = Vec::new();
        for node in anchors.into_iter().flatten().chain(results) {
            if let Some(pin) = self.graph.nodes[node].pin
                && !ports.contains(&(node, pin))
            {
                ports.push((node, pin));
            }
        }
        ports
    }

    /// The options that free some of these ports and remove the conversion: each option that frees a single port, else
    /// the one that frees all of them.
    fn options(&mut self, of: Value, ports: &[Node]) -> Vec<Freed> {
        let keys: Vec<String> = ports.iter().map(|&port| self.key(port)).collect();
        if !self.is_entry || !keys.iter().all(|key| can_be_named(key)) {
            return Vec::new();
        }
        let mut options = Vec::new();
        for (&port, key) in ports.iter().zip(&keys) {
            let one = vec![key.clone()];
            if self.tries_and_helps(Remedy::Free(one.clone()), of) {
                options.push(self.option(&[port], &one));
            }
        }
        if options.is_empty()
            && 1 < keys.len()
            && self.tries_and_helps(Remedy::Free(keys.clone()), of)
        {
            options.push(self.option(ports, &keys));
        }
        options
    }

    /// The option that frees these ports and those that are free already.
    fn option(&self, ports: &[Node], keys: &[String]) -> Freed {
        Freed::Ends {
            ends: ports.iter().filter_map(|&port| self.end(port)).collect(),
            keys: self.cx.boundary.free.iter().chain(keys).cloned().collect(),
        }
    }

    fn tries_and_helps(&mut self, remedy: Remedy, of: Value) -> bool {
        if !self.tried.contains_key(&remedy) {
            self.attempt(remedy.clone());
        }
        self.helps(&remedy, of)
    }

    /// Returns whether a remedy that was tried removes the conversions of a value and saves bytes.
    fn helps(&self, remedy: &Remedy, of: Value) -> bool {
        let effect = self.tried.get(remedy).and_then(Option::as_ref);
        effect.is_some_and(|e| e.bytes < self.now.bytes && !e.of.contains(&of))
    }

    /// Searches the function with a remedy, if the limit of trials allows.
    fn attempt(&mut self, remedy: Remedy) {
        let Some(left) = self.left.checked_sub(1) else {
            return;
        };
        self.left = left;
        let mut graph = self.graph.clone();
        let mut cap = self.shared.cap;
        match &remedy {
            Remedy::Free(keys) => self.free(&mut graph, |key| keys.iter().any(|k| k == key)),
            Remedy::FreeAll => self.free(&mut graph, |_| true),
            Remedy::Cap(larger) => cap = *larger,
        }
        let effect = self.converted(&graph, cap);
        self.tried.insert(remedy, effect);
    }

    fn converted(&mut self, graph: &Graph, cap: usize) -> Option<Effect> {
        let shared = self.shared;
        let tables = self.tables.get_or_insert_with(|| Box::new(shared.clone()));
        tables.cap = cap;
        let mut search = tables.search(graph);
        let choice = search.choose()?;
        let candidates = search.take_candidates();
        let emitted = tables.emit(self.func, graph, self.cx, &candidates, &choice, false);
        Some(Effect::new(&emitted.conversions))
    }

    /// Frees the ports with some keys, as far as an option can free them.
    fn free(&self, graph: &mut Graph, is_meant: impl Fn(&str) -> bool) {
        for node in self.graph.nodes.ids() {
            let data = &mut graph.nodes[node];
            if data.pin == Some(Pin::Declared) && is_meant(&self.key(node)) {
                (data.pinned, data.pin, data.space) = (None, None, None);
            }
        }
    }

    /// The argument or result that a node is.
    fn end(&self, port: Node) -> Option<End> {
        match self.graph.nodes[port].kind {
            NodeKind::Arg(i) => Some(End::Arg(i)),
            NodeKind::Return(i) => Some(End::Result(i)),
            NodeKind::Op(_) | NodeKind::Alias(..) => None,
        }
    }

    /// The operation that a node is.
    fn op(&self, node: Node) -> Option<Op> {
        match self.graph.nodes[node].kind {
            NodeKind::Op(op) => Some(op),
            NodeKind::Arg(_) | NodeKind::Return(_) | NodeKind::Alias(..) => None,
        }
    }

    /// The name of a port in options.
    fn key(&self, port: Node) -> String {
        match self.end(port) {
            Some(End::Arg(i)) => self.func.arg_key(i),
            Some(End::Result(i)) => self.func.result_key(i),
            None => String::new(),
        }
    }

    fn named_end(&self, port: Node) -> Option<NamedEnd> {
        let end = self.end(port)?;
        let name = match end {
            End::Arg(i) => self.func.values[self.func.args[i]].name.clone(),
            End::Result(_) => None,
        };
        Some(NamedEnd { end, name })
    }

    fn named_ends(&self, ports: &[Node]) -> Vec<NamedEnd> {
        let ports = ports.iter();
        ports.filter_map(|&port| self.named_end(port)).collect()
    }

    fn keeper(&self, pin: Pin) -> Keeper {
        match pin {
            Pin::Declared => Keeper::Declared,
            Pin::Called => Keeper::Called(self.func.name.clone()),
            Pin::Shared => Keeper::Shared,
            Pin::Option => Keeper::Option,
            Pin::Written => Keeper::Written,
        }
    }

    /// Describes the operations that fix the two orders, and the layouts that they take.
    fn operations(&self, anchors: [Option<Node>; 2]) -> String {
        let mut fixed: Vec<String> = Vec::new();
        let mut names: Vec<String> = Vec::new();
        let mut priced = false;
        for node in anchors.into_iter().flatten() {
            let Some(op) = self.op(node) else {
                continue;
            };
            let sig = self.graph.nodes[node].signature;
            priced |= sig.is_some_and(|id| self.shared.signatures.get(id).has_prices());
            let name = reader_name(self.func, Some(op));
            let text = self.takes(node, &name);
            fixed.extend(text.filter(|text| !fixed.contains(text)));
            names.push(name);
        }
        if !fixed.is_empty() {
            return fixed.join("; ");
        }
        let all_rules = self.shared.rules.all;
        let with = if all_rules {
            ""
        } else {
            " by the rules that are on"
        };
        let searched = if self.proven {
            ""
        } else {
            "as far as was searched, "
        };
        let target = &self.cx.target.name;
        let including = if priced {
            ", the prices of their rows included"
        } else {
            ""
        };
        let (cost, costs) = if priced {
            ("cost", "costs")
        } else {
            ("convert", "converts")
        };
        match &names[..] {
            [a, b] => format!(
                "{searched}on `{target}`{with}, no order that both {a} and {b} accept {costs} fewer bytes{including}"
            ),
            _ => format!("{searched}no layouts on `{target}`{with} {cost} fewer bytes{including}"),
        }
    }

    /// The orders that the target leaves out of operations, each with the reason. Targets without tiles only.
    fn left_out(&self, anchors: [Option<Node>; 2]) -> Vec<String> {
        let target = &self.cx.target;
        let mut out: Vec<String> = Vec::new();
        for node in anchors.into_iter().flatten() {
            let Some(id) = self.graph.nodes[node].signature else {
                continue;
            };
            let family = self.shared.signatures.get(id).family;
            let row = target.row(family).filter(|_| !target.is_tiled());
            for alternative in row.iter().flat_map(|row| &row.take) {
                let (Some(name), Some(why)) = (&alternative.name, &alternative.refused) else {
                    continue;
                };
                let line = format!(
                    "target `{}` refuses the alternative `{name}` of family `{family}`: {why}",
                    target.name
                );
                if !out.contains(&line) {
                    out.push(line);
                }
            }
        }
        out
    }

    /// The reason why an operation takes one order on any target, if it does.
    fn takes(&self, node: Node, name: &str) -> Option<String> {
        let op = self.op(node)?;
        let signature = self
            .shared
            .signatures
            .get(self.graph.nodes[node].signature?);
        if let Some(callee) = self.func.callee(op) {
            return Some(format!("{name} takes the layouts that @{callee} declares"));
        }
        if !signature.declared.is_empty() && !signature.is_move() {
            return Some(format!("{name} keeps the layouts that it is written with"));
        }
        if signature.freedom.class != FreedomClass::Barrier {
            return None;
        }
        let rearranges = self
            .cx
            .registry
            .rearrangement(&self.func.op_ref(op))
            .is_ok();
        let data = &self.func.ops[op];
        let mut types = data
            .operands
            .iter()
            .chain(&data.results)
            .map(|&v| self.func.ty(v));
        let open = types.any(|ty| ty.as_tensor().is_some_and(|ty| ty.shape().is_none()));
        Some(match rearranges && open {
            true => format!(
                "{name} has sizes that do not follow from each other: it takes row-major order"
            ),
            false => format!("{name} takes row-major order on any target"),
        })
    }
}

/// Returns whether a list in an option can hold a key.
fn can_be_named(key: &str) -> bool {
    !key.is_empty() && !key.starts_with('%') && key.trim() == key && !key.contains([',', '\'', '`'])
}
