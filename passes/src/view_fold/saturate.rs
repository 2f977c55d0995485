//! The alternatives of an operation, by equality saturation.
//!
//! For each signature one small e-graph is saturated. Operations that look alike share it. Its terms:
//!
//! - `(as P L)`: the value at port `P`, in layout `L`. The e-class is typed by its port.
//! - `(only P L)`: the value at port `P`, in layout `L` and no other, though `(as P L)` may be joined with other
//!   layouts.
//! - `(any P K)`: the value at port `P`, in any layout that the operation takes equally well in its form `K`.
//!   Membership is a union with `(as P L)`.
//! - `(run K p0 p1 …)`: the operation in form `K` with each port as given. All such terms are in the e-class `op`: they
//!   compute the same value.
//!
//! Every layout that a producer, consumer, target or boundary demands at a port is seeded as `(as P L)`. A rule looks
//! at one such term and adds the `run` term that its equation allows. Without rules there is only the base form: every
//! port in its default layout.
//!
//! Example: a relu with the default layouts row-major has `(run (as 0 rm) (as 1 rm))`. If the transposed layout `t` is
//! demanded at its result, `elementwise-any-order` adds `(run (as 0 t) (as 1 t))`.

use super::accepts::default_layout;
use super::builtin::{
    BUILTIN, COMPUTE_TWICE, CONSTANT_ANY_LAYOUT, builtin_rules, contracts, is_data_port,
};
use super::label_order::label_order;
use super::layouts::{LayoutId, Layouts};
use super::maps::{FastMap, FastSet};
use super::orders::with_k;
use super::price as prices;
use super::rule::{Form, RuleContext, SearchRule};
use super::signature::{LabelDigit, LabelOrder, Signature, SignatureId, TileRule};
use super::signatures::Signatures;
use super::tiled::{self, Part, PortParts};
use egg::{
    Analysis, Applier, DidMerge, EGraph, Id, Language, Pattern, PatternAst, Rewrite, Runner,
};
use egg::{SearchMatches, Searcher, Subst, Symbol, Var};
use indexmap::{IndexMap, IndexSet};
use optc_ir::Op;
use optc_ir::entity::EntityId;
use optc_target::Accept;
use std::borrow::Cow;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

egg::define_language! {
    pub(crate) enum Alt {
        Num(u32),
        "op" = Op,
        "as" = As([Id; 2]),
        "only" = Only([Id; 2]),
        "any" = Any([Id; 2]),
        "run" = Run(Box<[Id]>),
    }
}

/// A form of an operation: per port, the layouts that it reads or writes there without extra cost.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Mode {
    /// Per port, acceptable layouts. The first is the one that the rule names.
    pub(crate) ports: Vec<Vec<LayoutId>>,
    /// Bytes that the operation moves by itself.
    pub(crate) price: u64,
}

/// The data of an e-graph besides its terms.
#[derive(Clone, Default)]
pub(crate) struct Knowledge {
    signature: Option<Arc<Signature>>,
    layouts: Layouts,
    keys: IndexSet<Vec<LabelDigit>>,
    parts: IndexSet<Part>,
    /// The terms of ports in layouts.
    terms: FastMap<(usize, LayoutId), Id>,
    /// The applied rules, each with a port and a layout there.
    applied: FastSet<(usize, u32, u32)>,
    /// Orders that rules have followed to all ports.
    followed: FastSet<LabelOrder>,
    fired: IndexMap<String, u64>,
}

impl Analysis<Alt> for Knowledge {
    /// The port that a class belongs to; `None` for numbers and for whole operations.
    type Data = Option<u32>;

    fn make(egraph: &mut EGraph<Alt, Self>, node: &Alt, _id: Id) -> Self::Data {
        match node {
            Alt::As([p, _]) | Alt::Only([p, _]) | Alt::Any([p, _]) => number_of(egraph, *p),
            Alt::Num(_) | Alt::Op | Alt::Run(_) => None,
        }
    }

    fn merge(&mut self, a: &mut Self::Data, b: Self::Data) -> DidMerge {
        assert_eq!(*a, b, "a rule joined values of two ports");
        DidMerge(false, false)
    }
}

/// The pattern that every rule looks at: a port in a layout.
struct AskedFor {
    pattern: Pattern<Alt>,
    port: Var,
    layout: Var,
}

impl AskedFor {
    /// The substitution of the variables for a node of this pattern; `None` for other nodes.
    fn matched(&self, egraph: &EGraph<Alt, Knowledge>) -> impl Fn(&Alt) -> Option<Subst> {
        move |node| {
            let Alt::As([p, l]) = node else { return None };
            let mut subst = Subst::with_capacity(2);
            subst.insert(self.port, egraph.find(*p));
            subst.insert(self.layout, egraph.find(*l));
            Some(subst)
        }
    }
}

static ASKED_FOR: LazyLock<AskedFor> = LazyLock::new(|| {
    let var = |name: &str| {
        name.parse()
            .expect("a variable begins with a question mark")
    };
    AskedFor {
        pattern: "(as ?p ?l)".parse().expect("a term of the language"),
        port: var("?p"),
        layout: var("?l"),
    }
});

/// Finds the demanded layouts at the ports that one rule, of this number, concerns, and to which it was not applied
/// before. A pass holds the matches of all rules at once, and most rules concern no port of most operations.
struct At(Arc<dyn SearchRule>, usize);

impl Searcher<Alt, Knowledge> for At {
    fn search_eclass_with_limit(
        &self,
        egraph: &EGraph<Alt, Knowledge>,
        eclass: Id,
        limit: usize,
    ) -> Option<SearchMatches<'_, Alt>> {
        let knowledge = &egraph.analysis;
        let class = &egraph[eclass];
        let (signature, port) = knowledge.signature.as_ref().zip(class.data)?;
        if !self.0.concerns(signature, port as usize) {
            return None;
        }
        // Each round of saturation finds all terms again. A rule adds everything for a layout the first time.
        let fresh = |node: &Alt| {
            let Alt::As([_, l]) = node else { return false };
            let layout = number_of(egraph, *l);
            layout.is_some_and(|l| !knowledge.applied.contains(&(self.1, port, l)))
        };
        let found = class.nodes.iter().filter(|node| fresh(node)).take(limit);
        let substs: Vec<Subst> = found.filter_map(ASKED_FOR.matched(egraph)).collect();
        let ast = Some(Cow::Borrowed(&ASKED_FOR.pattern.ast));
        (!substs.is_empty()).then_some(SearchMatches {
            eclass: egraph.find(eclass),
            substs,
            ast,
        })
    }

    fn search_with_limit(
        &self,
        egraph: &EGraph<Alt, Knowledge>,
        mut limit: usize,
    ) -> Vec<SearchMatches<'_, Alt>> {
        let shape = Alt::As([Id::from(0); 2]).discriminant();
        let mut all = Vec::new();
        for class in egraph.classes_for_op(&shape).into_iter().flatten() {
            if limit == 0 {
                break;
            }
            if let Some(found) = self.search_eclass_with_limit(egraph, class, limit) {
                limit = limit.saturating_sub(found.substs.len());
                all.push(found);
            }
        }
        all
    }

    fn get_pattern_ast(&self) -> Option<&PatternAst<Alt>> {
        Some(&ASKED_FOR.pattern.ast)
    }

    fn vars(&self) -> Vec<Var> {
        ASKED_FOR.pattern.vars()
    }
}

/// Applies one rule, of this number, to one demanded layout.
struct Apply(Arc<dyn SearchRule>, usize);

impl Applier<Alt, Knowledge> for Apply {
    fn apply_one(
        &self,
        egraph: &mut EGraph<Alt, Knowledge>,
        _class: Id,
        subst: &Subst,
        _ast: Option<&PatternAst<Alt>>,
        _rule: Symbol,
    ) -> Vec<Id> {
        let (Some(port), Some(layout)) = (
            number_of(egraph, subst[ASKED_FOR.port]),
            number_of(egraph, subst[ASKED_FOR.layout]),
        ) else {
            return Vec::new();
        };
        let knowledge = &mut egraph.analysis;
        let is_new = knowledge.applied.insert((self.1, port, layout));
        let Some(signature) = knowledge.signature.clone().filter(|_| is_new) else {
            return Vec::new();
        };
        let asked = LayoutId::from_index(layout as usize);
        let mut cx = RuleContext {
            signature: &signature,
            layouts: &mut knowledge.layouts,
            port: port as usize,
            layout: asked,
            followed: &mut knowledge.followed,
            forms: Vec::new(),
        };
        self.0.apply(&mut cx);
        let forms = cx.forms;
        let mut changed = Vec::new();
        for form in forms {
            changed.extend(match form {
                Form::Exact(ids) => add_exact(egraph, &signature, &ids),
                Form::Member(key) => add_member(egraph, &signature, port, asked, key),
                Form::Tile(part) => add_part(egraph, port, asked, part),
            });
        }
        if !changed.is_empty() {
            let fired = &mut egraph.analysis.fired;
            match fired.get_mut(self.0.name()) {
                Some(times) => *times += 1,
                None => {
                    fired.insert(self.0.name().to_owned(), 1);
                }
            }
        }
        changed
    }
}

/// The number that a class stands for, if any.
fn number_of(egraph: &EGraph<Alt, Knowledge>, class: Id) -> Option<u32> {
    egraph[class].nodes.iter().find_map(|n| match n {
        Alt::Num(n) => Some(*n),
        Alt::Op | Alt::As(_) | Alt::Only(_) | Alt::Any(_) | Alt::Run(_) => None,
    })
}

fn number(egraph: &mut EGraph<Alt, Knowledge>, n: usize) -> Id {
    egraph.add(Alt::Num(u32::try_from(n).unwrap_or(u32::MAX)))
}

/// The class of a port in a layout; memoized.
fn add_as(egraph: &mut EGraph<Alt, Knowledge>, port: usize, layout: LayoutId) -> Id {
    if let Some(&known) = egraph.analysis.terms.get(&(port, layout)) {
        return egraph.find(known);
    }
    let (p, l) = (number(egraph, port), number(egraph, layout.index()));
    let id = egraph.add(Alt::As([p, l]));
    egraph.analysis.terms.insert((port, layout), id);
    id
}

/// Adds a run to the class of the operation. Returns that class if it changed.
fn add_run(egraph: &mut EGraph<Alt, Knowledge>, children: Vec<Id>) -> Option<Id> {
    let run = egraph.add(Alt::Run(children.into()));
    let op = egraph.add(Alt::Op);
    egraph.union(op, run).then(|| egraph.find(op))
}

/// Adds the form with these layouts.
fn add_exact(
    egraph: &mut EGraph<Alt, Knowledge>,
    signature: &Signature,
    form: &[LayoutId],
) -> Option<Id> {
    let children = form
        .iter()
        .enumerate()
        .map(|(port, &layout)| {
            let one = add_as(egraph, port, layout);
            // Channels first or last must hold at all ports of a window at once. A contraction form may use such a
            // layout at a single port, and must not lend its other ports to this form.
            if signature.accept != Accept::ChannelOrders {
                return one;
            }
            let (p, l) = (number(egraph, port), number(egraph, layout.index()));
            egraph.add(Alt::Only([p, l]))
        })
        .collect();
    add_run(egraph, children)
}

/// Puts the layout at the port into the form with this order of K, and adds that form.
fn add_member(
    egraph: &mut EGraph<Alt, Knowledge>,
    signature: &Signature,
    port: u32,
    layout: LayoutId,
    key: Vec<LabelDigit>,
) -> Option<Id> {
    let key_id = egraph.analysis.keys.insert_full(key.clone()).0;
    let (p, k) = (number(egraph, port as usize), number(egraph, key_id));
    let one = add_as(egraph, port as usize, layout);
    let any = egraph.add(Alt::Any([p, k]));
    let joined = egraph.union(one, any);
    let mut children = vec![k];
    for other in 0..signature.n_ports() {
        children.push(add_port(egraph, signature, other, key_id, &key));
    }
    let run = add_run(egraph, children);
    run.or(joined.then(|| egraph.find(any)))
}

/// Puts the layout into the class of layouts with this part in their tile.
fn add_part(
    egraph: &mut EGraph<Alt, Knowledge>,
    port: u32,
    layout: LayoutId,
    part: Part,
) -> Option<Id> {
    let key = egraph.analysis.parts.insert_full(part).0;
    let (p, k) = (number(egraph, port as usize), number(egraph, key));
    let one = add_as(egraph, port as usize, layout);
    let any = egraph.add(Alt::Any([p, k]));
    egraph.union(one, any).then(|| egraph.find(any))
}

/// The class of all layouts that a port may have in a form. The port's default belongs to it if it has the form's order
/// of K.
fn add_port(
    egraph: &mut EGraph<Alt, Knowledge>,
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
    let contracted = signature.accept != Accept::ChannelOrders
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
    let any = egraph.add(Alt::Any([p, k]));
    if let Some(layout) = base {
        let one = add_as(egraph, port, layout);
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
    rules: Vec<(Arc<dyn SearchRule>, Rewrite<Alt, Knowledge>)>,
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
    pub(crate) fn new(choice: &str, extra: &[Arc<dyn SearchRule>]) -> Result<RuleSet, String> {
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
        let builtin = BUILTIN
            .iter()
            .map(|r| -> Arc<dyn SearchRule> { Arc::new(*r) });
        let rules = builtin
            .chain(extra.iter().cloned())
            .filter(|r| on(r.name()));
        let mut searched = Vec::new();
        for rule in rules {
            let name = rule.name().to_owned();
            let apply = Apply(rule.clone(), searched.len());
            let at = At(rule.clone(), searched.len());
            let rewrite = Rewrite::new(name, at, apply)?;
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
        // A rule that concerns no port is left out, however many values there are.
        let concerned =
            |rule: &dyn SearchRule| (0..n_ports).any(|port| rule.concerns(&tiled, port));
        let concerned = self
            .rules
            .iter()
            .filter(|(rule, _)| concerned(rule.as_ref()));
        let runner = Runner::<Alt, Knowledge>::new(Knowledge::default())
            .with_egraph(seeded(signature, std::mem::take(layouts), demands))
            .with_scheduler(egg::SimpleScheduler)
            .with_node_limit(NODE_LIMIT.max(NODES_A_PORT.saturating_mul(n_ports)))
            .with_iter_limit(ITERATION_LIMIT)
            .with_time_limit(Duration::MAX)
            .run(concerned.map(|(_, rewrite)| rewrite));
        let saturated = matches!(runner.stop_reason, Some(egg::StopReason::Saturated));
        let mut egraph = runner.egraph;
        let mut modes = read_modes(&mut egraph);
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

/// The graph before any rule, not rebuilt yet: the base form and the demands.
fn seeded(
    signature: Arc<Signature>,
    layouts: Layouts,
    demands: &[Vec<LayoutId>],
) -> EGraph<Alt, Knowledge> {
    let mut knowledge = Knowledge {
        signature: Some(signature.clone()),
        layouts,
        ..Knowledge::default()
    };
    knowledge.keys.insert(Vec::new());
    let mut egraph = EGraph::new(knowledge);
    let base: Vec<LayoutId> = (0..signature.n_ports())
        .map(|p| default_layout(&signature, &mut egraph.analysis.layouts, p))
        .collect();
    add_exact(&mut egraph, &signature, &base);
    let hub = signature.hub;
    for (port, wanted) in demands.iter().enumerate() {
        if hub.is_none_or(|hub| hub == port) {
            for &layout in wanted {
                add_as(&mut egraph, port, layout);
            }
        }
    }
    egraph
}

/// The runs in the class of the operation, sorted.
fn read_modes(egraph: &mut EGraph<Alt, Knowledge>) -> Vec<Mode> {
    let op = egraph.add(Alt::Op);
    let op = egraph.find(op);
    let n_ports = egraph
        .analysis
        .signature
        .as_ref()
        .map_or(0, |s| s.n_ports());
    let mut modes: Vec<Mode> = Vec::new();
    for node in &egraph[op].nodes {
        let Alt::Run(children) = node else { continue };
        let ports = &children[children.len() - n_ports..];
        let mode = Mode {
            ports: ports.iter().map(|&p| members(egraph, p)).collect(),
            price: 0,
        };
        if mode.ports.iter().all(|p| !p.is_empty()) && !modes.contains(&mode) {
            modes.push(mode);
        }
    }
    modes.sort_by(|a, b| a.ports.cmp(&b.ports));
    modes
}

/// The forms that are joined from the parts of the ports' tiles, each with the number of its alternative.
fn join_parts(egraph: &mut EGraph<Alt, Knowledge>, signature: &Signature) -> Vec<(usize, Mode)> {
    if !signature.takes_roles() {
        return Vec::new();
    }
    let mut parts: PortParts = vec![Vec::new(); signature.n_ports()];
    for key in 0..egraph.analysis.parts.len() {
        for (port, found) in parts.iter_mut().enumerate() {
            let (p, k) = (number(egraph, port), number(egraph, key));
            let Some(class) = egraph.lookup(Alt::Any([p, k])) else {
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
        modes.extend(
            forms
                .into_iter()
                .map(|ports| (rule, Mode { ports, price: 0 })),
        );
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
        let mut single = vec![mode];
        let priced_ports = of_rule.iter().filter_map(|rule| rule.price);
        let priced_ports = priced_ports.map(|price| price.port.index(result));
        let copied = (signature.copied != 0).then_some([0, result]);
        for port in priced_ports.chain(copied.into_iter().flatten()) {
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
        for mut mode in single {
            let first: Option<Vec<LayoutId>> =
                mode.ports.iter().map(|ids| ids.first().copied()).collect();
            mode.price = match (&first, rule) {
                (Some(first), Some(rule)) => prices::rule_price(signature, rule, layouts, first),
                (Some(first), None) => prices::price_of(signature, layouts, first),
                (None, _) => 0,
            };
            match priced.iter_mut().find(|known| known.ports == mode.ports) {
                Some(known) => known.price = known.price.min(mode.price),
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
fn members(egraph: &EGraph<Alt, Knowledge>, class: Id) -> Vec<LayoutId> {
    let mut out = Vec::new();
    for node in &egraph[class].nodes {
        let (Alt::As([_, l]) | Alt::Only([_, l])) = node else {
            continue;
        };
        for n in &egraph[*l].nodes {
            if let Alt::Num(n) = n {
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
    use super::*;
    use optc_ir::{Freedom, FreedomClass, Label, Role};

    #[test]
    fn every_rule_has_a_name_and_an_equation() {
        for rule in builtin_rules() {
            let kebab = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
            assert!(rule.name.chars().all(kebab), "{}", rule.name);
            assert!(rule.equation.contains(" = "), "{}", rule.equation);
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
            ("slice", true),
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
    fn held(rules: &RuleSet, egraph: &EGraph<Alt, Knowledge>) -> usize {
        let found = rules
            .rules
            .iter()
            .map(|(_, rewrite)| rewrite.search(egraph));
        found.flatten().map(|class| class.substs.len()).sum()
    }

    /// A user's rule, which concerns every port.
    struct Everywhere;

    impl SearchRule for Everywhere {
        fn name(&self) -> &'static str {
            "everywhere"
        }
        fn equation(&self) -> &'static str {
            "op(x) = op(x)"
        }
        fn apply(&self, _cx: &mut RuleContext<'_>) {}
    }

    #[test]
    fn a_rule_holds_matches_only_where_it_may_act() {
        let everywhere: Arc<dyn SearchRule> = Arc::new(Everywhere);
        for n in [100, 200, 400, 800] {
            let mut egraph = seeded(split(n), Layouts::default(), &[]);
            egraph.rebuild();
            // Nodes of a port: its number, and the term for its default layout.
            assert!(egraph.total_size() <= 2 * (n + 1) + 4);
            let count = |extra: &[Arc<dyn SearchRule>]| {
                let rules = RuleSet::new("all", extra).expect("known rules");
                held(&rules, &egraph)
            };
            assert_eq!(count(&[]), 1);
            // A rule without `concerns` is applied at each port.
            assert_eq!(count(std::slice::from_ref(&everywhere)), 1 + n + 1);
        }
    }

    #[test]
    fn nodes_are_leaves_or_have_children() {
        assert!(Alt::Op.is_leaf());
        assert!(!Alt::As([Id::from(0), Id::from(1)]).is_leaf());
    }
}
