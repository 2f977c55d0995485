//! The alternatives of an operation, by equality saturation.
//!
//! For each signature one small e-graph is saturated with the equations of the rules. Operations that look alike share
//! it. Its terms, in the language of `terms.rs`:
//!
//! - `(ordered ports)`, `(contract ports)`, …: the operation. One term a structure that it has; they are one e-class.
//! - `(at P L)`: the layout `L` at port `P`. The e-class is typed by its port.
//! - `(only P L)`: the same, though `(at P L)` may be joined with other layouts.
//! - `(any P K)`: any layout at port `P` that the operation takes equally well in its form `K`. Membership is a union
//!   with `(at P L)`.
//! - `(convert (at P L) OPERATION)`: the operation of which the layout `L` is demanded at port `P`. All these are one
//!   e-class, since they compute the same value.
//! - `(ordered (list L0 L1 …))`: a form, the operation with these layouts at its ports, in the same e-class.
//!
//! Every layout that a producer, consumer, target or boundary demands at a port is seeded. The left side of a rule
//! matches the operation under a demand, and its right side is the forms to add. Without rules there is only the base
//! form: every port in its default layout.
//!
//! Example: a relu with the default layouts row-major has `(op (list (at 0 rm) (at 1 rm)))`. If the transposed layout
//! `t` is demanded at its result, `any-order` adds `(ordered (list (at 0 t) (at 1 t)))`.

use super::builtin::{COMPUTE_TWICE, CONSTANT_ANY_LAYOUT, builtin_rules, contracts, is_data_port};
use super::context::{Form, RuleContext};
use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::maps::{FastMap, FastSet};
use super::orders::with_k;
use super::price as prices;
use super::rows::{OrderRule, default_layout};
use super::rule::{self, Right, SearchRule};
use super::signature::{LabelDigit, LabelOrder, Signature, SignatureId, TileRule};
use super::signatures::Signatures;
use super::tiled::{self, Part, PortParts};
use crate::terms::Term;
use egg::{
    Analysis, Applier, DidMerge, EGraph, Id, Pattern, PatternAst, Rewrite, Runner, Subst, Symbol,
};
use indexmap::{IndexMap, IndexSet};
use optc_ir::Op;
use optc_ir::entity::EntityId;
use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

/// A form of an operation: per port, the layouts that it reads or writes there without extra cost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mode {
    /// Per port, acceptable layouts. The first is the one that the rule names.
    pub(crate) ports: Vec<Vec<LayoutId>>,
    /// Bytes that the operation moves by itself.
    pub(crate) price: u64,
    /// The ports that are parts of others and copied, as a set.
    pub(crate) copies: u64,
}

/// The data of an e-graph besides its terms.
#[derive(Clone, Default)]
pub(crate) struct Knowledge {
    signature: Option<Arc<Signature>>,
    layouts: Layouts,
    /// The class of the operation.
    operation: Id,
    /// The class of the operation under demands and of its forms.
    laid: Id,
    keys: IndexSet<Vec<LabelDigit>>,
    parts: IndexSet<Part>,
    /// The terms of layouts at ports.
    terms: FastMap<(usize, LayoutId), Id>,
    /// The applied rules, each with a port and a layout there.
    applied: FastSet<(usize, u32, u32)>,
    /// Orders that rules have followed to all ports.
    followed: FastSet<LabelOrder>,
    fired: IndexMap<String, u64>,
}

impl Analysis<Term> for Knowledge {
    /// The port that a class belongs to; `None` for all that is no layout at a port.
    type Data = Option<u32>;

    fn make(egraph: &mut EGraph<Term, Self>, node: &Term, _id: Id) -> Self::Data {
        match node {
            Term::At([p, _]) | Term::Only([p, _]) | Term::Any([p, _]) => number_of(egraph, *p),
            Term::Num(_) | Term::Convert(_) | Term::List(_) | Term::Symbol(_) | Term::Call(..) => {
                None
            }
        }
    }

    fn merge(&mut self, a: &mut Self::Data, b: Self::Data) -> DidMerge {
        assert_eq!(*a, b, "a rule joined values of two ports");
        DidMerge(false, false)
    }
}

/// Applies one rule, of this number: adds what its right side says.
struct Apply(Arc<SearchRule>, usize);

impl Applier<Term, Knowledge> for Apply {
    fn apply_one(
        &self,
        egraph: &mut EGraph<Term, Knowledge>,
        class: Id,
        subst: &Subst,
        ast: Option<&PatternAst<Term>>,
        name: Symbol,
    ) -> Vec<Id> {
        let Some(signature) = egraph.analysis.signature.clone() else {
            return Vec::new();
        };
        if !self.0.is_of(&signature) {
            return Vec::new();
        }
        let changed = match &self.0.right {
            Right::Operation(right) => right.apply_one(egraph, class, subst, ast, name),
            Right::Forms { head, order, .. } => {
                let mut changed = Vec::new();
                for (port, layout) in at_ports(egraph, subst[*order]) {
                    changed.extend(self.forms(egraph, &signature, *head, (port, layout)));
                }
                return changed;
            }
        };
        if !changed.is_empty() {
            egraph.analysis.count(self.0.name());
        }
        changed
    }
}

impl Apply {
    /// Adds the forms that follow from a layout at a port, the first time that it is demanded.
    fn forms(
        &self,
        egraph: &mut EGraph<Term, Knowledge>,
        signature: &Signature,
        head: Symbol,
        (port, layout): (u32, u32),
    ) -> Vec<Id> {
        let Right::Forms { forms, .. } = &self.0.right else {
            return Vec::new();
        };
        let knowledge = &mut egraph.analysis;
        if !knowledge.applied.insert((self.1, port, layout)) {
            return Vec::new();
        }
        let asked = LayoutId::from_index(layout as usize);
        let mut cx = RuleContext {
            signature,
            layouts: &mut knowledge.layouts,
            port: port as usize,
            layout: asked,
            followed: &mut knowledge.followed,
            forms: Vec::new(),
        };
        if self.0.takes(&mut cx) {
            forms(&mut cx);
        }
        let forms = cx.forms;
        let mut changed = Vec::new();
        for form in forms {
            changed.extend(match form {
                Form::Exact(ids) => add_exact(egraph, signature, head, &ids),
                Form::Member(key) => add_member(egraph, signature, head, (port, asked), key),
                Form::Tile(part) => add_part(egraph, signature, port, asked, part),
            });
        }
        if !changed.is_empty() {
            egraph.analysis.count(self.0.name());
        }
        changed
    }
}

impl Knowledge {
    /// Counts that a rule gave something.
    fn count(&mut self, rule: &str) {
        match self.fired.get_mut(rule) {
            Some(times) => *times += 1,
            None => {
                self.fired.insert(rule.to_owned(), 1);
            }
        }
    }
}

/// The layouts at ports in a class, each as the numbers of the port and of the layout.
fn at_ports(egraph: &EGraph<Term, Knowledge>, class: Id) -> Vec<(u32, u32)> {
    let nodes = egraph[class].nodes.iter();
    let at = nodes.filter_map(|node| match node {
        Term::At([p, l]) => number_of(egraph, *p).zip(number_of(egraph, *l)),
        _ => None,
    });
    at.collect()
}

/// The number that a class stands for, if any.
fn number_of(egraph: &EGraph<Term, Knowledge>, class: Id) -> Option<u32> {
    egraph[class].nodes.iter().find_map(|n| match n {
        Term::Num(n) => Some(*n),
        _ => None,
    })
}

fn number(egraph: &mut EGraph<Term, Knowledge>, n: usize) -> Id {
    egraph.add(Term::Num(u32::try_from(n).unwrap_or(u32::MAX)))
}

/// The class of a layout at a port; memoized. The layout is demanded from now on.
fn add_at(
    egraph: &mut EGraph<Term, Knowledge>,
    signature: &Signature,
    port: usize,
    layout: LayoutId,
) -> Id {
    if let Some(&known) = egraph.analysis.terms.get(&(port, layout)) {
        return egraph.find(known);
    }
    let (p, l) = (number(egraph, port), number(egraph, layout.index()));
    let id = egraph.add(Term::At([p, l]));
    egraph.analysis.terms.insert((port, layout), id);
    // An operation may have some hundred thousand ports. No memory is held for those at which no rule acts.
    if signature.hub.is_none_or(|hub| hub == port) || signature.takes_roles() {
        let operation = egraph.analysis.operation;
        let demanded = egraph.add(Term::Convert([id, operation]));
        egraph.union(egraph.analysis.laid, demanded);
    }
    id
}

/// Adds a form with these layouts. Returns the class of all forms if the form is new.
fn add_form(egraph: &mut EGraph<Term, Knowledge>, head: Symbol, layouts: Vec<Id>) -> Option<Id> {
    let list = Term::List(layouts.into());
    let is_new = egraph.lookup(list.clone()).is_none();
    let list = egraph.add(list);
    let form = egraph.add(Term::Call(head, vec![list]));
    let laid = egraph.analysis.laid;
    egraph.union(laid, form);
    is_new.then(|| egraph.find(laid))
}

/// Adds the form with these layouts.
fn add_exact(
    egraph: &mut EGraph<Term, Knowledge>,
    signature: &Signature,
    head: Symbol,
    form: &[LayoutId],
) -> Option<Id> {
    let layouts = form
        .iter()
        .enumerate()
        .map(|(port, &layout)| {
            let one = add_at(egraph, signature, port, layout);
            // Channels first or last must hold at all ports of a window at once. A contraction form may use such a
            // layout at a single port, and must not lend its other ports to this form.
            if !is_window(signature) {
                return one;
            }
            let (p, l) = (number(egraph, port), number(egraph, layout.index()));
            egraph.add(Term::Only([p, l]))
        })
        .collect();
    add_form(egraph, head, layouts)
}

/// Returns whether a row lists the place of an operation's channels.
fn is_window(signature: &Signature) -> bool {
    signature.has_order(|rule| rule.channels.is_some())
}

/// Puts the layout at the port into the form with this order of K, and adds that form.
fn add_member(
    egraph: &mut EGraph<Term, Knowledge>,
    signature: &Signature,
    head: Symbol,
    (port, layout): (u32, LayoutId),
    key: Vec<LabelDigit>,
) -> Option<Id> {
    let key_id = egraph.analysis.keys.insert_full(key.clone()).0;
    let (p, k) = (number(egraph, port as usize), number(egraph, key_id));
    let one = add_at(egraph, signature, port as usize, layout);
    let any = egraph.add(Term::Any([p, k]));
    let joined = egraph.union(one, any);
    let ports = 0..signature.n_ports();
    let layouts = ports
        .map(|other| add_port(egraph, signature, other, key_id, &key))
        .collect();
    let form = add_form(egraph, head, layouts);
    form.or(joined.then(|| egraph.find(any)))
}

/// Puts the layout into the class of layouts with this part in their tile.
fn add_part(
    egraph: &mut EGraph<Term, Knowledge>,
    signature: &Signature,
    port: u32,
    layout: LayoutId,
    part: Part,
) -> Option<Id> {
    let key = egraph.analysis.parts.insert_full(part).0;
    let (p, k) = (number(egraph, port as usize), number(egraph, key));
    let one = add_at(egraph, signature, port as usize, layout);
    let any = egraph.add(Term::Any([p, k]));
    egraph.union(one, any).then(|| egraph.find(any))
}

/// The class of all layouts that a port may have in a form. The port's default belongs to it if it has the form's order
/// of K.
fn add_port(
    egraph: &mut EGraph<Term, Knowledge>,
    signature: &Signature,
    port: usize,
    key_id: usize,
    key: &[LabelDigit],
) -> Id {
    let layouts = &mut egraph.analysis.layouts;
    let default = default_layout(signature, layouts, port);
    let order = label_order(signature, layouts, port, default).unwrap_or_default();
    let has_k = !signature.k_digits(port, &order).is_empty();
    // A port without K is in the same class in every form. Key 0 is the empty one.
    let contracted = !is_window(signature)
        || !is_data_port(signature, port)
        || contracts(signature, layouts, port, default);
    let base = if !contracted {
        None
    } else if key.is_empty() || !has_k {
        Some(default)
    } else {
        with_k(signature, layouts, port, &order, key)
    };
    let (p, k) = (
        number(egraph, port),
        number(egraph, if has_k { key_id } else { 0 }),
    );
    let any = egraph.add(Term::Any([p, k]));
    if let Some(layout) = base {
        let one = add_at(egraph, signature, port, layout);
        egraph.union(any, one);
    }
    any
}

/// The most nodes of one signature's e-graph; the graphs of the corpus stay below 400.
const NODE_LIMIT: usize = 20_000;
/// The same per port, for operations with very many ports.
const NODES_A_PORT: usize = 256;
/// Rounds of saturation. Rules only add forms for seeded layouts, so two rounds reach the fixed point.
const ITERATION_LIMIT: usize = 8;

/// The rules that are on, and how many times each fired.
#[derive(Clone)]
pub(crate) struct RuleSet {
    /// Each rule with its rewrite.
    rules: Vec<(Arc<SearchRule>, Rewrite<Term, Knowledge>)>,
    /// True if all rules are on.
    pub(crate) all: bool,
    pub(crate) constants: bool,
    /// True if cheap values may be computed several times.
    pub(crate) twice: bool,
    pub(crate) fired: IndexMap<String, u64>,
    pub(crate) unsaturated: u64,
    known: FastMap<ModeKey, Arc<Forms>>,
}

/// A signature and the layouts that are demanded at its ports.
pub(crate) type ModeKey = (SignatureId, Vec<Vec<LayoutId>>);

/// The result of saturation for a signature and its demands.
pub(crate) struct Forms {
    pub(crate) modes: Vec<Mode>,
    /// The number of times that each rule gave a form.
    fired: IndexMap<String, u64>,
    saturated: bool,
}

impl Forms {
    /// The rules that gave a form.
    pub(super) fn fired(&self) -> Vec<String> {
        self.fired.keys().cloned().collect()
    }
}

impl RuleSet {
    /// The rules of a choice: `all`, `none`, or a list of names.
    pub(crate) fn new(choice: &str, extra: &[SearchRule]) -> Result<RuleSet, String> {
        let names: Vec<&str> = choice.split([',', '+', ':']).map(str::trim).collect();
        let known = builtin_rules();
        let is_known =
            |n: &&str| known.iter().any(|k| k.name == *n) || extra.iter().any(|r| r.name() == *n);
        let all = choice == "all";
        if !all
            && choice != "none"
            && let Some(unknown) = names.iter().find(|n| !is_known(n))
        {
            return Err((*unknown).to_owned());
        }
        let on = |name: &str| all || (choice != "none" && names.contains(&name));
        let rules = rule::rules().iter().chain(extra);
        let mut searched = Vec::new();
        for rule in rules.filter(|r| on(r.name())) {
            let rule = Arc::new(rule.clone());
            let left = Pattern::new(rule.equation.left.clone());
            let apply = Apply(rule.clone(), searched.len());
            let rewrite = Rewrite::new(rule.name(), left, apply)?;
            searched.push((rule, rewrite));
        }
        Ok(RuleSet {
            rules: searched,
            all,
            constants: on(CONSTANT_ANY_LAYOUT.name),
            twice: on(COMPUTE_TWICE.name),
            fired: IndexMap::new(),
            unsaturated: 0,
            known: FastMap::default(),
        })
    }

    /// Those rules that are on and whose names `is_on` accepts, without memoized answers.
    pub(super) fn filtered(&self, is_on: impl Fn(&str) -> bool) -> RuleSet {
        let on = self.rules.iter().filter(|(rule, _)| is_on(rule.name()));
        RuleSet {
            rules: on.cloned().collect(),
            all: false,
            constants: self.constants,
            twice: self.twice,
            fired: IndexMap::new(),
            unsaturated: 0,
            known: FastMap::default(),
        }
    }

    /// Counts operations that run more than once. Each entry has the number of runs.
    pub(super) fn ran_twice(&mut self, repeated: &[(Op, usize)]) {
        let more: usize = repeated.iter().map(|(_, times)| times - 1).sum();
        if more != 0 {
            let fired = self.fired.entry(COMPUTE_TWICE.name.to_owned()).or_default();
            *fired += more as u64;
        }
    }

    /// The equation of a rule that is on.
    pub(super) fn equation(&self, name: &str) -> Option<&str> {
        let mut rules = self.rules.iter();
        rules
            .find(|(rule, _)| rule.name() == name)
            .map(|(rule, _)| rule.equation())
    }

    /// All forms of an operation, given the layouts that are demanded at its ports. Each function asks once for each of
    /// its keys. Equal keys of other functions are answered from memory.
    pub(crate) fn forms(
        &mut self,
        signatures: &Signatures,
        layouts: &mut Layouts,
        key: &ModeKey,
    ) -> Arc<Forms> {
        let forms = match self.known.get(key) {
            Some(known) => known.clone(),
            None => {
                let found = Arc::new(self.saturate(signatures.shared(key.0), layouts, &key.1));
                self.known.insert(key.clone(), found.clone());
                found
            }
        };
        for (name, n) in &forms.fired {
            match self.fired.get_mut(name) {
                Some(sum) => *sum += n,
                None => {
                    self.fired.insert(name.clone(), *n);
                }
            }
        }
        self.unsaturated += u64::from(!forms.saturated);
        forms
    }

    fn saturate(
        &self,
        signature: Arc<Signature>,
        layouts: &mut Layouts,
        demands: &[Vec<LayoutId>],
    ) -> Forms {
        let n_ports = signature.n_ports();
        let tiled = signature.clone();
        let runner = Runner::<Term, Knowledge>::new(Knowledge::default())
            .with_egraph(seeded(signature, std::mem::take(layouts), demands))
            .with_scheduler(egg::SimpleScheduler)
            .with_node_limit(NODE_LIMIT.max(NODES_A_PORT.saturating_mul(n_ports)))
            .with_iter_limit(ITERATION_LIMIT)
            .with_time_limit(Duration::MAX)
            .run(self.rules.iter().map(|(_, rewrite)| rewrite));
        let saturated = matches!(runner.stop_reason, Some(egg::StopReason::Saturated));
        let mut egraph = runner.egraph;
        let mut modes = read_modes(&egraph);
        if tiled.is_tiled() {
            let joined = join_parts(&mut egraph, &tiled);
            let layouts = &mut egraph.analysis.layouts;
            match tiled.has_prices() {
                false => {
                    for (_, mode) in joined {
                        if !modes.contains(&mode) {
                            modes.push(mode);
                        }
                    }
                    widen(layouts, &tiled, demands, &mut modes);
                }
                true => modes = price(layouts, &tiled, demands, modes, joined),
            }
        }
        if tiled.has_order_prices() {
            modes = price_orders(&mut egraph.analysis.layouts, &tiled, modes);
        }
        let fired = std::mem::take(&mut egraph.analysis.fired);
        *layouts = std::mem::take(&mut egraph.analysis.layouts);
        Forms {
            modes,
            fired,
            saturated,
        }
    }
}

/// The heads of the terms that an operation is. Equations match them.
fn heads(signature: &Signature) -> impl Iterator<Item = &'static str> {
    let lists = |is_so: fn(&OrderRule) -> bool| signature.has_order(is_so);
    let all = [
        ("op", true),
        (signature.family, true),
        ("ordered", signature.is_common_order()),
        ("contract", lists(|rule| !rule.shared.is_empty())),
        (
            "matrices",
            lists(|rule| rule.ends.is_some() && !rule.shares_all),
        ),
        ("window", is_window(signature)),
        ("patched", lists(|rule| rule.patches)),
        ("roles", signature.takes_roles()),
        ("blocks", lists(|rule| rule.block.is_some())),
    ];
    all.into_iter().filter_map(|(head, is)| is.then_some(head))
}

/// The graph before any rule, not rebuilt yet: the operation, the base form and the demands.
fn seeded(
    signature: Arc<Signature>,
    layouts: Layouts,
    demands: &[Vec<LayoutId>],
) -> EGraph<Term, Knowledge> {
    let mut knowledge = Knowledge {
        signature: Some(signature.clone()),
        layouts,
        ..Knowledge::default()
    };
    knowledge.keys.insert(Vec::new());
    let mut egraph = EGraph::new(knowledge);
    let ports = egraph.add(Term::Symbol("ports".into()));
    let mut operation = None;
    for head in heads(&signature) {
        let is = egraph.add(Term::Call(head.into(), vec![ports]));
        egraph.union(*operation.get_or_insert(is), is);
    }
    egraph.analysis.operation = operation.map_or(ports, |operation| egraph.find(operation));
    egraph.analysis.laid = egraph.add(Term::Symbol("laid".into()));
    let base: Vec<LayoutId> = (0..signature.n_ports())
        .map(|p| default_layout(&signature, &mut egraph.analysis.layouts, p))
        .collect();
    add_exact(&mut egraph, &signature, "op".into(), &base);
    let hub = signature.hub;
    for (port, wanted) in demands.iter().enumerate() {
        if hub.is_none_or(|hub| hub == port) {
            for &layout in wanted {
                add_at(&mut egraph, &signature, port, layout);
            }
        }
    }
    egraph
}

/// The forms in the class of the operation, sorted.
fn read_modes(egraph: &EGraph<Term, Knowledge>) -> Vec<Mode> {
    let laid = &egraph[egraph.find(egraph.analysis.laid)];
    let lists = laid.nodes.iter().filter_map(|node| match node {
        Term::Call(_, lists) => Some(&egraph[*lists.first()?].nodes),
        _ => None,
    });
    let mut modes: Vec<Mode> = Vec::new();
    for node in lists.flatten() {
        let Term::List(ports) = node else { continue };
        let mode = Mode {
            ports: ports.iter().map(|&p| members(egraph, p)).collect(),
            price: 0,
            copies: 0,
        };
        if mode.ports.iter().all(|p| !p.is_empty()) && !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    modes.sort_by(|a, b| a.ports.cmp(&b.ports));
    modes
}

/// The forms that are joined from the parts of the ports' tiles, each with the number of its alternative.
fn join_parts(egraph: &mut EGraph<Term, Knowledge>, signature: &Signature) -> Vec<(usize, Mode)> {
    if !signature.takes_roles() {
        return Vec::new();
    }
    let mut parts: PortParts = vec![Vec::new(); signature.n_ports()];
    for key in 0..egraph.analysis.parts.len() {
        for (port, found) in parts.iter_mut().enumerate() {
            let (p, k) = (number(egraph, port), number(egraph, key));
            let Some(class) = egraph.lookup(Term::Any([p, k])) else {
                continue;
            };
            let part = egraph.analysis.parts[key].clone();
            let ids = members(egraph, class);
            if !ids.is_empty() {
                found.push((part, ids));
            }
        }
    }
    let layouts = &mut egraph.analysis.layouts;
    let mut modes = Vec::new();
    for (rule, _) in signature.tiles.iter().enumerate().take(tiled::MOST_RULES) {
        let forms = tiled::join(signature, layouts, &parts, rule);
        let mode = |ports| Mode {
            ports,
            price: 0,
            copies: 0,
        };
        modes.extend(forms.into_iter().map(|ports| (rule, mode(ports))));
    }
    modes
}

/// The forms of an operation on a machine without tiles, each with its price. A form is split so that all layouts of a
/// port in one form have the same price.
fn price_orders(layouts: &mut Layouts, signature: &Signature, modes: Vec<Mode>) -> Vec<Mode> {
    let mut priced: Vec<Mode> = Vec::new();
    for mode in modes {
        let mut split = vec![mode];
        for port in (0..signature.n_ports()).filter(|&port| prices::is_slower(signature, port)) {
            let one = |mode: Mode| {
                let mut by_price: IndexMap<u64, Vec<LayoutId>> = IndexMap::new();
                for &layout in &mode.ports[port] {
                    let price = prices::slower(signature, layouts, port, layout);
                    by_price.entry(price).or_default().push(layout);
                }
                let all = by_price.into_values();
                let of = |taken| {
                    let mut mode = mode.clone();
                    mode.ports[port] = taken;
                    mode
                };
                all.map(of).collect::<Vec<Mode>>()
            };
            split = split.into_iter().flat_map(one).collect();
        }
        for mut mode in split {
            // The layouts of a port in one form have one order, or ports are priced one by one.
            let first: Option<Vec<LayoutId>> =
                mode.ports.iter().map(|ids| ids.first().copied()).collect();
            mode.price = first.map_or(0, |ports| prices::price_of(signature, layouts, &ports));
            if !priced.contains(&mode) {
                priced.push(mode);
            }
        }
    }
    priced
}

/// The most combinations of layouts in a form for which each is a form of its own where parts may be copied.
const MOST_COMBINED: usize = 16;

/// The forms with one layout at each of these ports, and at the ports that may be parts or have parts.
fn one_layout_at(signature: &Signature, mode: Mode, mut ports: BTreeSet<usize>) -> Vec<Mode> {
    if mode.combinations() <= MOST_COMBINED {
        ports.extend(signature.cuts.iter().flat_map(|cut| [cut.part, cut.whole]));
    }
    let mut single = vec![mode];
    for port in ports {
        let one = |mode: Mode| {
            let each = mode.ports[port].clone().into_iter();
            let alone = move |layout| {
                let mut mode = mode.clone();
                mode.ports[port] = vec![layout];
                mode
            };
            each.map(alone).collect::<Vec<_>>()
        };
        single = single.into_iter().flat_map(one).collect();
    }
    single
}

/// Leaves at each port of a form the layouts with which the operation copies the same parts as with the first ones.
fn keep_alike(layouts: &Layouts, signature: &Signature, mode: &mut Mode, first: Vec<LayoutId>) {
    let mut ports = first;
    for (port, all) in mode
        .ports
        .iter_mut()
        .enumerate()
        .filter(|(_, all)| 1 < all.len())
    {
        let own = ports[port];
        all.retain(|&layout| {
            ports[port] = layout;
            layout == own || prices::copies(signature, layouts, &ports).0 == mode.copies
        });
        ports[port] = own;
    }
}

impl Mode {
    /// The number of combinations of one layout at each port.
    fn combinations(&self) -> usize {
        self.ports
            .iter()
            .fold(1, |n: usize, all| n.saturating_mul(all.len()))
    }
}

/// The forms of an operation, each with its price. A port that has a price has one layout in each form.
fn price(
    layouts: &mut Layouts,
    signature: &Signature,
    demands: &[Vec<LayoutId>],
    exact: Vec<Mode>,
    joined: Vec<(usize, Mode)>,
) -> Vec<Mode> {
    let common = signature.tiles.iter().position(|rule| rule.shares_all);
    let common = common.filter(|_| signature.is_common_order());
    // The alternative whose operands the form has, the alternative whose price it has (if known), and the form.
    let mut all: Vec<(Option<usize>, Option<usize>, Mode)> = Vec::new();
    all.extend(exact.into_iter().map(|mode| (common, None, mode)));
    let rules = joined.into_iter();
    all.extend(rules.map(|(rule, mode)| (Some(rule), Some(rule), mode)));
    for (.., mode) in &mut all {
        widen(layouts, signature, demands, std::slice::from_mut(mode));
    }
    let result = signature.n_operands;
    // An alternative that writes any layout: its operands are combined with each demanded layout of the result.
    for i in 0..all.len() {
        let (from, _, mode) = all[i].clone();
        for (rule, written) in signature.tiles.iter().enumerate() {
            let reads = match from {
                Some(from) => alike(&signature.tiles[from], written),
                None => false,
            };
            if !written.writes_any || !reads || demands.len() <= result {
                continue;
            }
            let others = demands[result]
                .iter()
                .filter(|l| !mode.ports[result].contains(l));
            for &layout in others {
                let mut mode = mode.clone();
                mode.ports[result] = vec![layout];
                all.push((None, Some(rule), mode));
            }
        }
    }
    let mut priced: Vec<Mode> = Vec::new();
    for (_, rule, mode) in all {
        let rule = rule.map(|rule| &signature.tiles[rule]);
        let of_rule = rule.map_or(&signature.tiles[..], std::slice::from_ref);
        let priced_ports = of_rule.iter().filter_map(|rule| rule.price);
        let priced_ports = priced_ports.map(|price| price.port.index(result));
        for mut mode in one_layout_at(signature, mode, priced_ports.collect()) {
            let first: Option<Vec<LayoutId>> =
                mode.ports.iter().map(|ids| ids.first().copied()).collect();
            mode.price = match (&first, rule) {
                (Some(first), Some(rule)) => prices::rule_price(signature, rule, layouts, first),
                (Some(first), None) => prices::price_of(signature, layouts, first),
                (None, _) => 0,
            };
            if let Some(first) = first.filter(|_| !signature.cuts.is_empty()) {
                let (copied, bytes) = prices::copies(signature, layouts, &first);
                mode.copies = copied;
                mode.price = mode.price.saturating_add(bytes);
                keep_alike(layouts, signature, &mut mode, first);
            }
            match priced.iter_mut().find(|known| known.ports == mode.ports) {
                Some(known) if mode.price < known.price => *known = mode,
                Some(_) => {}
                None => priced.push(mode),
            }
        }
    }
    priced
}

/// Returns whether an alternative reads the same layouts as another one that writes any layout.
fn alike(rule: &TileRule, writes: &TileRule) -> bool {
    rule.shares_all == writes.shares_all && (rule.shares_all || rule == writes)
}

/// Adds to each port of a form every demanded layout with the same digits in the same places. A tile that the text
/// states is as good as the machine's own.
fn widen(
    layouts: &mut Layouts,
    signature: &Signature,
    demands: &[Vec<LayoutId>],
    modes: &mut [Mode],
) {
    // An operation that hands values to functions of its own keeps the layouts that these were written for.
    let demands = if signature.declared.is_empty() {
        demands
    } else {
        &[]
    };
    for (port, wanted) in demands.iter().enumerate() {
        let orders: Vec<_> = wanted
            .iter()
            .map(|&l| (l, label_order(signature, layouts, port, l)))
            .collect();
        for mode in modes.iter_mut() {
            let Some(&first) = mode.ports[port].first() else {
                continue;
            };
            let Some(order) = label_order(signature, layouts, port, first) else {
                continue;
            };
            for (layout, other) in &orders {
                if other.as_ref() == Some(&order) && !mode.ports[port].contains(layout) {
                    mode.ports[port].push(*layout);
                }
            }
        }
    }
}

/// The layouts in the class of a port.
fn members(egraph: &EGraph<Term, Knowledge>, class: Id) -> Vec<LayoutId> {
    let mut out = Vec::new();
    for node in &egraph[class].nodes {
        let (Term::At([_, l]) | Term::Only([_, l])) = node else {
            continue;
        };
        for n in &egraph[*l].nodes {
            if let Term::Num(n) = n {
                out.push(LayoutId::from_index(*n as usize));
            }
        }
    }
    out.sort_unstable();
    out.dedup();
    out
}

#[cfg(test)]
mod tests {
    use super::super::signature::Elements;
    use super::*;
    use crate::terms::{Equation, EquationError};
    use crate::view_fold::context::Named;
    use optc_ir::{Freedom, FreedomClass, Label, Role};
    use optc_layout::Layout;

    #[test]
    fn every_rule_has_a_name_and_an_equation() {
        for rule in builtin_rules() {
            let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(rule.name.chars().all(kebab), "{}", rule.name);
            assert!(Equation::parse(rule.equation).is_ok(), "{}", rule.equation);
            assert!(!rule.summary.is_empty(), "{}", rule.name);
        }
    }

    #[test]
    fn an_unknown_rule_is_named() {
        assert_eq!(
            RuleSet::new("nonsense", &[]).err(),
            Some("nonsense".to_owned())
        );
        assert!(RuleSet::new("none", &[]).is_ok_and(|r| r.rules.is_empty() && !r.constants));
        assert!(RuleSet::new("all", &[]).is_ok_and(|r| r.constants));
    }

    /// A split into `n` parts of a row each.
    fn split(n: usize) -> Arc<Signature> {
        let label = |role| Label { role, granule: 1 };
        let labels = vec![Some(0), Some(1)];
        let freedom = Freedom {
            class: FreedomClass::Ordered,
            labels: vec![label(Role::Axis), label(Role::Parallel)],
            operands: vec![labels.clone()],
            results: vec![labels; n],
        };
        let mut shapes = vec![vec![n as u64, 256]];
        shapes.resize(n + 1, vec![1, 256]);
        let target = optc_target::Target::builtin("cpu").expect("builtin");
        let bits = vec![32; n + 1];
        let made = Signature::new(
            ("slice", Elements::Floats),
            freedom,
            shapes,
            bits,
            1,
            Vec::new(),
            &target,
        );
        Arc::new(made)
    }

    /// The number of matches that a pass of these rules over the graph holds at once.
    fn held(rules: &RuleSet, egraph: &EGraph<Term, Knowledge>) -> usize {
        let found = rules
            .rules
            .iter()
            .map(|(_, rewrite)| rewrite.search(egraph));
        found.flatten().map(|class| class.substs.len()).sum()
    }

    #[test]
    fn a_rule_holds_matches_only_where_it_may_act() {
        let equation = "(convert ?o (slice ?xs)) => (slice (convert ?o ?xs))";
        let own = SearchRule::new("own", equation, "", &[]).expect("an equation");
        for n in [100, 200, 400, 800] {
            let mut egraph = seeded(split(n), Layouts::default(), &[]);
            egraph.rebuild();
            // Nodes of a port: its number, and the term for its default layout.
            assert!(egraph.total_size() <= 2 * (n + 1) + 12);
            let count = |extra: &[SearchRule]| {
                let rules = RuleSet::new("all", extra).expect("known rules");
                held(&rules, &egraph)
            };
            // One port hands the orders on to the others.
            assert_eq!(count(&[]), 1);
            assert_eq!(count(std::slice::from_ref(&own)), 2);
        }
    }

    /// The forms of a sum of two values, on a target where the family has an order of its own.
    #[test]
    fn a_rule_is_its_equation_and_the_functions_that_it_names() {
        let label = Label {
            role: Role::Parallel,
            granule: 1,
        };
        let labels = vec![Some(0), Some(1)];
        let freedom = Freedom {
            class: FreedomClass::Barrier,
            labels: vec![label; 2],
            operands: vec![labels.clone()],
            results: vec![labels],
        };
        let target = optc_target::Target::builtin("cpu").expect("built in");
        let shapes = vec![vec![2, 3]; 2];
        let made = Signature::new(
            ("turn", Elements::Floats),
            freedom,
            shapes,
            vec![32; 2],
            1,
            Vec::new(),
            &target,
        );
        let mut signatures = Signatures::default();
        let id = signatures.intern(made);
        let turned = |cx: &mut RuleContext<'_>| {
            let layout = Layout::from_order(&[2, 3], 32, &[1, 0]).expect("an order");
            cx.add_form(&[Some(layout), None]);
        };
        let equation = "(convert ?o (turn ?xs)) => (turn (convert (turned ?o) ?xs)) if (first ?o)";
        let first = Named::OrderIs("first", |cx| cx.port() == 0);
        let mixed = SearchRule::new("r", "(turn ?xs) => (op ?xs) if (taken ?xs)", "", &[]);
        assert!(matches!(mixed.err(), Some(EquationError::Form { .. })));
        let rule = |own: &[Named]| SearchRule::new("turn-any-order", equation, "", own);
        let unknown = EquationError::UnknownName("turned".to_owned());
        assert_eq!(rule(&[first]).err(), Some(unknown));
        let rule = rule(&[Named::Order("turned", turned), first]).expect("all names are known");
        let forms = |rules: &[SearchRule]| {
            let mut rules = RuleSet::new("all", rules).expect("known rules");
            let key = (id, vec![Vec::new(); 2]);
            let found = rules.forms(&signatures, &mut Layouts::default(), &key);
            (found.modes.len(), found.fired())
        };
        assert_eq!(forms(&[]), (1, Vec::new()));
        assert_eq!(forms(&[rule]), (2, vec!["turn-any-order".to_owned()]));
    }
}
