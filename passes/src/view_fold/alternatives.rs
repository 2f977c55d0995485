//! Alternatives to a chosen form or layout, and the cost of the function with each: for `--explain` of one name.
//!
//! Example of a line: `other layout, root in row-major, its default: 480 bytes, 240 more`.
//!
//! A form or layout is held fixed, and all else is chosen again. The rules named for a form are those without which
//! saturation does not find the layouts that the operation has at its ports. Where several rules find them
//! independently, each of those is named.

use super::choose::Choice;
use super::emit::Emitted;
use super::explain::called;
use super::groups::{Graph, Group, Node, NodeKind};
use super::layouts::LayoutId;
use super::notation::spell;
use super::saturate::{Mode, RuleSet};
use super::search::{Need, NodeMode, Search};
use super::shared::Shared;
use super::weigh::{Scales, Weight};
use crate::names::reader_name;
use crate::pass::PassContext;
use optc_check::amount::bytes_of;
use optc_ir::size::SizeTable;
use optc_ir::{Func, Op, Traffic, Value};
use optc_solver::movement;

/// The most values that are explained in full. For more values only the chains are given.
const MOST_VALUES: usize = 4;
/// The most forms, and the most layouts, that are weighed for one value.
const MOST_WEIGHED: usize = 16;
/// The most weighed alternatives that are listed.
const MOST_LISTED: usize = 8;

/// The data of a folded function that explanations are made from.
pub(super) struct Folding<'a> {
    pub(super) func: &'a Func,
    pub(super) graph: &'a Graph,
    pub(super) cx: &'a PassContext,
    pub(super) choice: &'a Choice,
    pub(super) emitted: &'a Emitted,
    /// Bytes of the function lowered naively.
    pub(super) naive: u64,
}

/// The alternatives of each new value that has this name or comes from this place.
pub(super) fn alternatives(
    folding: &Folding<'_>,
    shared: &Shared,
    name: &str,
) -> Vec<(Value, Vec<String>)> {
    let wanted = called(&folding.emitted.func, name);
    if wanted.is_empty() {
        return Vec::new();
    }
    let mut tables = shared.clone();
    let mut search = tables.search(folding.graph);
    let Some(scales) = search.scales() else {
        return Vec::new();
    };
    let mut found = Vec::new();
    for value in wanted.into_iter().take(MOST_VALUES) {
        let mut about = About {
            folding,
            search: &mut search,
            scales: &scales,
            lines: Vec::new(),
        };
        let (op, group) = about.place(value);
        let node = op.and_then(|op| about.node(op));
        if let Some(node) = node {
            about.rules(node);
        }
        about.total();
        for old in about.held(value) {
            about.unfolded(old);
        }
        if let Some(node) = node {
            about.forms(node);
        }
        if let Some(group) = group {
            about.layouts(group);
        }
        found.push((value, about.lines));
    }
    found
}

/// The explanation of one value, while it is made.
struct About<'f, 's, 'g> {
    folding: &'f Folding<'f>,
    search: &'s mut Search<'g>,
    scales: &'s Scales,
    lines: Vec<String>,
}

/// An alternative, and the cost of the function with it.
struct Other {
    what: String,
    /// The cost, or the reason why the alternative cannot be chosen.
    weight: Result<Weight, String>,
}

impl About<'_, '_, '_> {
    fn say(&mut self, line: String) {
        self.lines.push(line);
    }

    /// The operation of the original whose result a new value is, and the value's storage group.
    fn place(&self, value: Value) -> (Option<Op>, Option<Group>) {
        let emitted = self.folding.emitted;
        let made = emitted.func.def_op(value);
        let op = emitted
            .operations
            .iter()
            .find(|(_, new)| Some(*new) == made);
        let op = op.map(|&(old, _)| old);
        let result = op.and_then(|old| {
            let results = &emitted.func.ops[made?].results;
            let at = results.iter().position(|&v| v == value)?;
            self.folding.func.ops[old].results.get(at).copied()
        });
        let old = result.or_else(|| self.held(value).first().copied());
        let group = old.and_then(|old| self.folding.graph.member(old).map(|m| m.group));
        (op, group)
    }

    /// The original values that a new one holds, each once.
    fn held(&self, value: Value) -> Vec<Value> {
        let mut all = Vec::new();
        for &(old, new) in &self.folding.emitted.held {
            if new == value && !all.contains(&old) {
                all.push(old);
            }
        }
        all
    }

    /// Says how many bytes a reshape, transpose or other rearrangement of the original moves where it is left unfolded.
    fn unfolded(&mut self, old: Value) {
        let Folding { func, cx, .. } = *self.folding;
        let Some(op) = func.def_op(old) else { return };
        let Some(decl) = cx.registry.get(&func.ops[op].name) else {
            return;
        };
        let of_op = func.op_ref(op);
        if cx.registry.rearrangement(&of_op).is_err() {
            return;
        }
        let sizes = SizeTable::new(&cx.bindings);
        let data = &func.ops[op];
        let ends = [data.operands.first(), data.results.first()];
        let types = ends
            .into_iter()
            .flatten()
            .filter_map(|&v| func.ty(v).as_tensor());
        let bytes = match decl.traffic(&of_op) {
            Traffic::Movement => types.fold(0, |sum: u64, ty| {
                sum.saturating_add(bytes_of(ty, &sizes).at(&sizes))
            }),
            Traffic::None | Traffic::Expand | Traffic::Copy(..) => 0,
        };
        let name = reader_name(func, Some(op));
        self.say(format!(
            "left unfolded, {name} reads and writes {bytes} bytes"
        ));
    }

    fn node(&self, op: Op) -> Option<Node> {
        let graph = self.folding.graph;
        let is = |kind: &NodeKind| matches!(kind, NodeKind::Op(own) if *own == op);
        let mut nodes = graph.nodes.iter();
        nodes.find(|(_, data)| is(&data.kind)).map(|(node, _)| node)
    }

    fn text(&self, layout: LayoutId) -> String {
        let target = &self.folding.cx.target;
        let notation = self.search.layouts.notation(layout, |l| spell(l, target));
        self.folding.graph.words(&notation)
    }

    /// Says what the function costs as chosen, and lowered naively.
    fn total(&mut self) {
        let bytes = movement(self.folding.choice.cost);
        let naive = self.folding.naive;
        let searched = match self.folding.choice.proven {
            true => "",
            false => ", as far as was searched",
        };
        self.say(format!(
            "as chosen the function costs {bytes} bytes{searched}; with every operation in its default layouts, {naive}"
        ));
    }

    /// The chosen layouts at the ports of an operation.
    fn at_ports(&mut self, node: Node) -> Option<Vec<LayoutId>> {
        let graph = self.folding.graph;
        let choice = self.folding.choice;
        let mode = choice.modes[node].clone();
        let mut all = Vec::with_capacity(mode.needs.len());
        for (port, need) in graph.nodes[node].ports.iter().zip(&mode.needs) {
            let group = graph.member(port.value)?.group;
            let root = match need.constant {
                Some(layout) => Some(layout),
                None => self.taken(group, need),
            };
            let here = match root {
                Some(root) => graph.at_member(self.search.layouts, port.value, root),
                None => need.direct,
            };
            all.push(here?);
        }
        Some(all)
    }

    /// The layout of the copy of a group that serves a need; `None` where the value is converted at the port.
    fn taken(&self, group: Group, need: &Need) -> Option<LayoutId> {
        let state = self.folding.choice.groups[group];
        let there = (1u64 << state.produced) | state.extras;
        let all = &self.search.candidates[group];
        let produced = [state.produced].into_iter();
        let order = produced.chain(0..all.len());
        let first = order
            .clone()
            .find(|&i| need.mask & there & (1u64 << i) != 0);
        let cheap = || {
            let ok = order.filter(|&i| need.mask & (1u64 << i) != 0);
            ok.min_by_key(|&i| self.search.layouts.bytes(all[i]))
        };
        first.or_else(cheap).map(|i| all[i])
    }

    /// Says which rules made the chosen form of an operation.
    fn rules(&mut self, node: Node) {
        let Some(id) = self.folding.graph.nodes[node].signature else {
            return;
        };
        let Some(ports) = self.at_ports(node) else {
            return;
        };
        let values = self.folding.graph.nodes[node].ports.iter();
        let values: Vec<Value> = values.map(|p| p.value).collect();
        let demands = values.iter().map(|&v| self.search.demands_at(v)).collect();
        let key = (id, demands);
        let mut gives = |rules: &mut RuleSet| {
            let forms = rules.forms(self.search.signatures, self.search.layouts, &key);
            let has = |mode: &Mode| {
                let mut both = mode.ports.iter().zip(&ports);
                both.all(|(taken, layout)| taken.contains(layout))
            };
            (forms.modes.iter().any(has), forms.fired())
        };
        let all = self.search.rules.clone();
        let (found, fired) = gives(&mut all.filtered(|_| true));
        let (by_default, _) = gives(&mut all.filtered(|_| false));
        if by_default {
            self.say("in its default layouts, which no rule is needed for".to_owned());
            return;
        }
        if !found {
            return;
        }
        let needed: Vec<&String> = fired
            .iter()
            .filter(|name| !gives(&mut all.filtered(|rule| rule != name.as_str())).0)
            .collect();
        let (how, named) = match needed.is_empty() {
            false => ("by", needed),
            true => {
                let alone =
                    |name: &&String| gives(&mut all.filtered(|rule| rule == name.as_str())).0;
                ("by any of", fired.iter().filter(alone).collect())
            }
        };
        for name in named {
            if let Some(equation) = all.equation(name) {
                self.say(format!("{how} `{name}`: {equation}"));
            }
        }
    }

    /// Lists the other forms of an operation.
    fn forms(&mut self, node: Node) {
        let modes = self.scales.modes[node].clone();
        let chosen = &self.folding.choice.modes[node];
        let others: Vec<usize> = (0..modes.len()).filter(|&i| modes[i] != *chosen).collect();
        let mut weighed = Vec::new();
        for &form in others.iter().take(MOST_WEIGHED) {
            let what = self.form(node, &modes[form]);
            let cannot = || {
                "impossible: no layouts of the operations around it are compatible with it"
                    .to_owned()
            };
            let weight = self.scales.with_form(node, form).ok_or_else(cannot);
            weighed.push(Other { what, weight });
        }
        self.list("form", weighed, others.len());
    }

    /// A form in words: the layout at each port.
    fn form(&self, node: Node, mode: &NodeMode) -> String {
        let ports = self.folding.graph.nodes[node].ports.iter().enumerate();
        let mut words = Vec::new();
        for ((at, port), need) in ports.zip(&mode.needs) {
            let name = self.folding.graph.nodes[node].port_name(at);
            let layout = match need.constant {
                Some(layout) => format!("constant, {}", self.text(layout)),
                None => self.taken_words(port.value, need),
            };
            words.push(format!("{name}: {layout}"));
        }
        if mode.price != 0 {
            words.push(format!("at a price of {} bytes", mode.price));
        }
        words.join("; ")
    }

    /// The root layouts that a port takes, in words.
    fn taken_words(&self, value: Value, need: &Need) -> String {
        let Some(member) = self.folding.graph.member(value) else {
            return String::new();
        };
        let all = self.search.candidates[member.group].iter().enumerate();
        let taken = all.filter(|(i, _)| need.mask & (1u64 << i) != 0);
        let taken: Vec<LayoutId> = taken.map(|(_, &layout)| layout).collect();
        match (&taken[..], need.direct) {
            ([], Some(layout)) => self.text(layout),
            ([], None) => "none".to_owned(),
            ([one], _) => format!("root in {}", self.text(*one)),
            ([one, rest @ ..], _) => {
                format!("root in {} or {} more", self.text(*one), rest.len())
            }
        }
    }

    /// Lists the other layouts that a value could be produced in.
    fn layouts(&mut self, group: Group) {
        let data = &self.folding.graph.groups[group];
        if data.constant {
            return;
        }
        let all = self.search.candidates[group].clone();
        let chosen = self.folding.choice.groups[group].produced;
        let default = data.producer.and_then(|(node, port)| {
            let graph = self.folding.graph;
            let layout = self.search.required_at(node, port);
            graph.at_root(
                self.search.layouts,
                graph.nodes[node].ports[port].value,
                layout,
            )
        });
        let is_default = |candidate: usize| Some(all[candidate]) == default;
        let mut others: Vec<usize> = (0..all.len()).filter(|&i| i != chosen).collect();
        others.sort_by_key(|&i| !is_default(i));
        let gives = |candidate: usize| {
            let mut modes = data.producer.iter().flat_map(|&(node, port)| {
                let modes = self.scales.modes[node].iter();
                modes.map(move |mode| mode.needs[port].mask)
            });
            modes.any(|mask| mask & (1u64 << candidate) != 0)
        };
        let producer = data.producer.map(|(node, _)| self.producer(node));
        let mut weighed = Vec::new();
        for &candidate in others.iter().take(MOST_WEIGHED) {
            let named = if is_default(candidate) {
                ", its default"
            } else {
                ""
            };
            let what = format!("root in {}{named}", self.text(all[candidate]));
            let weight = match gives(candidate) {
                false => Err(format!(
                    "{} does not give it",
                    producer.clone().unwrap_or_else(|| "nothing".to_owned())
                )),
                true => {
                    let cannot = || {
                        "impossible: no layouts of the operations around it are compatible with it"
                            .to_owned()
                    };
                    self.scales.with_layout(group, candidate).ok_or_else(cannot)
                }
            };
            weighed.push(Other { what, weight });
        }
        self.list("layout", weighed, others.len());
        let left = self.search.left_out[group];
        if left != 0 {
            let cap = self.search.cap;
            self.say(format!(
                "{left} more layouts were not considered (max-layouts={cap})"
            ));
        }
    }

    /// The producer of a group, in words.
    fn producer(&self, node: Node) -> String {
        let data = &self.folding.graph.nodes[node];
        match data.kind {
            NodeKind::Op(op) | NodeKind::Alias(op, _) => reader_name(self.folding.func, Some(op)),
            NodeKind::Arg(i) if data.pinned.is_some() => format!("argument {i}, which is pinned,"),
            NodeKind::Arg(i) => format!("argument {i}"),
            NodeKind::Return(i) => format!("result {i}"),
        }
    }

    /// Lists alternatives, the cheapest first.
    fn list(&mut self, noun: &str, mut weighed: Vec<Other>, all: usize) {
        if all == 0 {
            self.say(format!("no other {noun} was found"));
            return;
        }
        weighed.sort_by_key(|other| other.weight.as_ref().map_or(u64::MAX, |w| w.bytes));
        let listed = weighed.len().min(MOST_LISTED);
        let chosen = movement(self.folding.choice.cost);
        for Other { what, weight } in weighed.into_iter().take(listed) {
            let costs = match weight {
                Err(why) => format!("refused, {why}"),
                Ok(Weight { bytes, proven }) => {
                    let searched = if proven {
                        ""
                    } else {
                        ", as far as was searched"
                    };
                    match bytes.checked_sub(chosen) {
                        Some(0) => format!(
                            "{bytes} bytes, the same; at equal cost, fewer compile-time bytes and then default layouts are preferred{searched}"
                        ),
                        Some(more) => format!("{bytes} bytes, {more} more{searched}"),
                        None => format!(
                            "{bytes} bytes, {} fewer, which the search did not find",
                            chosen - bytes
                        ),
                    }
                }
            };
            self.say(format!("other {noun}, {what}: {costs}"));
        }
        if listed < all {
            self.say(format!("{} more {noun}s are not listed", all - listed));
        }
    }
}
