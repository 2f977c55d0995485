//! Makes reshapes and transposes free: every one becomes part of a `view` or of one conversion.
//!
//! ```ir before
//! %0 = "hbir.reshape"(%x) <{shape = [6, 5]}> : (tensor<2x3x5xf32>) -> tensor<6x5xf32>
//! %1 = "hbir.transpose"(%0) <{perm = [1, 0]}> : (tensor<6x5xf32>) -> tensor<5x6xf32>
//! ```
//! ```ir after
//! %0 = "hbir.view"(%x) <{perm = [1, 0], shape = [6, 5]}> : (tensor<2x3x5xf32>) -> tensor<5x6xf32, {order = [1, 0]}>
//! ```
//!
//! 1. Values joined by reshapes and transposes form a storage group (`groups`).
//! 2. Layouts come by demand: each operation, the target and the boundary ask for theirs, and each
//!    operation hands a demand at one port on to the others (`search`).
//! 3. The forms of an operation that compute the same value come from equality saturation
//!    (`rules`); without rules there is the default form alone.
//! 4. Variable elimination, past its limits an integer programme, chooses one layout a group and one
//!    form an operation, with the fewest bytes converted (`solve`, `integer`); what no choice goes
//!    below is computed apart (`bound`).
//! 5. The choice is written down (`emit`) and compared with the naive lowering on the whole
//!    program; it is never worse.
//!
//! # Soundness
//! 1. A `view` is emitted only where [`optc_layout::pull`] gives the result's layout, which is exact.
//! 2. Operations keep their attributes and logical shapes; only the layouts of their types change.
//! 3. The certificate of the run is checked by [`optc_check`], which shares no code with the
//!    search.
//!
//! # Not done
//! Copies (`concat`, `slice`, `split`, `pad`) are not turned into sub-views.
//!
//! # Cost
//! Linear in operations for a bounded number of layouts a group (`max-layouts`); elimination grows
//! with the width of the program up to a guard; the integer programme after it has limits of its own.
//!
//! # Neighbours
//! Run `canonicalize` before: it leaves one spelling of every rearrangement.
//!
//! # Source
//! `docs/view-fold.md` has the measurements behind this shape.

pub(crate) mod bound;
pub(crate) mod chain;
pub(crate) mod emit;
pub(crate) mod groups;
pub(crate) mod integer;
pub(crate) mod layouts;
pub(crate) mod rules;
pub(crate) mod search;
pub(crate) mod signature;
pub(crate) mod solve;
pub(crate) mod spelling;

use crate::pass::{Changed, OptionInfo, Pass, PassContext, PassInfo, Phase};
pub use emit::Conversion;
use groups::{Functions, Graph};
use indexmap::{IndexMap, IndexSet};
use layouts::Layouts;
use optc_check::amount::{Amount, amount};
use optc_check::stats::{Stats, fixed_movement};
use optc_check::{Certificate, FuncWitness, Witness};
use optc_ir::size::{Size, SizeTable};
use optc_ir::{
    Attr, Diagnostic, Func, Module, Registry, StandIns, Structure, TensorType, Value, name_sizes,
};
use rules::RuleSet;
pub use rules::{RuleContext, SearchRule, builtin_rules};
use rustc_hash::FxBuildHasher;
use search::{Choice, Search};
pub use signature::Signature;
use signature::Signatures;

/// A map that keeps the order of insertion, as everything does, and hashes its small keys quickly.
pub(crate) type FastMap<K, V> = IndexMap<K, V, FxBuildHasher>;
/// A set like [`FastMap`].
pub(crate) type FastSet<K> = IndexSet<K, FxBuildHasher>;

/// The name, phases and options of the pass.
pub static INFO: PassInfo = PassInfo {
    name: "view-fold",
    summary: "turn every reshape and transpose into a view or a layout conversion",
    phases: (Phase::Imported, Phase::Laid),
    required: false,
    options: &[
        OptionInfo {
            name: "max-layouts",
            default: "12",
            summary: "candidate layouts a storage group may have",
        },
        OptionInfo {
            name: "rules",
            default: "all",
            summary: "search rules that are on: all, none, or names joined by +",
        },
    ],
};

/// How sure the result is.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Proof {
    /// No program in any layouts the target admits moves fewer bytes.
    Optimal,
    /// None does among the candidate layouts and forms.
    OptimalInCandidates,
    /// The search was cut short; the lower bound says how far it may be off.
    Bound,
}

impl Proof {
    /// As `optc stats --json` prints it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Proof::Optimal => "optimal",
            Proof::OptimalInCandidates => "optimal_in_candidates",
            Proof::Bound => "bound",
        }
    }
}

/// What a run of the pass did.
#[derive(Clone, Debug)]
pub struct FoldReport {
    /// Movement plus copy bytes of the program lowered naively on the target.
    pub bytes_before: u64,
    /// Movement plus copy bytes of the result.
    pub bytes_after: u64,
    /// No choice of layouts that the target admits moves and copies fewer bytes than this, the
    /// boundaries of called functions being as they are declared.
    pub lower_bound_bytes: u64,
    /// The three figures above as polynomials in the program's unknown sizes, by name; `None` where a
    /// layout has no polynomial.
    pub polynomials: [(&'static str, Option<Size>); 3],
    /// How sure the result is.
    pub proof: Proof,
    /// How often each rule gave a form, over distinct operations.
    pub rules_fired: IndexMap<String, u64>,
    /// Candidate layouts that `max-layouts` kept out.
    pub dropped: u64,
    /// Storage groups, search nodes, distinct signatures and layouts.
    pub sizes: [usize; 4],
    /// The conversions that stay, per function.
    pub conversions: Vec<(usize, Conversion)>,
    /// Per function, bytes converted if its whole boundary were free; `None` where nothing is.
    pub freed: Vec<Option<u64>>,
    /// The target.
    pub target: String,
    /// Where the values of the original are, for an independent check.
    pub witness: Witness,
    /// With `explain`: why each value is as it is, per function.
    pub why: Vec<(usize, Value, String)>,
}

impl FoldReport {
    /// The certificate of the run that made `folded` of `original`.
    #[must_use]
    pub fn certificate(
        &self,
        original: &Module,
        folded: &Module,
        registry: &Registry,
    ) -> Certificate {
        // The checker knows no bindings.
        let moved = Stats::of(folded, registry).movement_bytes;
        Certificate::of(original, folded, self.witness.clone(), &self.target, moved)
    }
}

pub(crate) struct ViewFold;

impl Pass for ViewFold {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Changed, Box<Diagnostic>> {
        let cap = usize::try_from(cx.options.number(&INFO, "max-layouts")?).unwrap_or(usize::MAX);
        let choice = cx.options.get(&INFO, "rules").to_owned();
        let mut rules = RuleSet::new(&choice, &cx.extra.search).map_err(|name| {
            let known: Vec<&str> = builtin_rules().iter().map(|r| r.0).collect();
            let message = format!("found no rule `{name}`");
            let diag = Diagnostic::error("unknown-rule", message);
            let wanted = format!("wanted all, none, or names of {}", known.join(", "));
            let names = known.into_iter().chain(["all", "none"]);
            Box::new(diag.note(wanted).suggest("", &name, names))
        })?;
        name_sizes(module, &cx.registry);
        let sizes = SizeTable::new(&cx.bindings);
        let before = Stats::at(module, &cx.registry, &sizes);
        let mut layouts = Layouts::default();
        let mut signatures = Signatures::default();
        let mut total = Totals::default();
        let functions = Functions::new(module);
        let mut funcs = Vec::with_capacity(module.funcs.len());
        for (index, func) in module.funcs.iter().enumerate() {
            let folded = fold(
                func,
                &functions,
                cx,
                &mut layouts,
                &mut signatures,
                &mut rules,
                cap,
            )?;
            total.add(index, &folded, &sizes);
            funcs.push(folded.func);
        }
        let kept = module.funcs.iter().find(|f| functions.keeps_boundary(f));
        total.kept = kept.map(|f| f.name.to_string());
        let original = Module {
            funcs: std::mem::replace(&mut module.funcs, funcs),
            ..Module::default()
        };
        module.attrs.set("hbir.target", Attr::str(&cx.target.name));
        module.attrs.remove("hbir.canonical");
        let after = Stats::at(module, &cx.registry, &sizes);
        let moved = amount(after.polynomials.movement.clone(), after.movement_bytes);
        // What an operation that stays moves by itself (a space to depth, a gather that permutes)
        // it moves in any lowering.
        let stays = moved.minus(&total.converted(&sizes), &sizes);
        total.naive.add(&stays, &sizes);
        // Where numbers stand in for sizes the choice is of those, and the bytes here are of others.
        if !total.stands_in && total.naive.at(&sizes) < after.movement_bytes {
            let message = format!(
                "the result moves {} bytes, naive lowering {}",
                after.movement_bytes,
                total.naive.at(&sizes)
            );
            return Err(Box::new(Diagnostic::error("worse-than-naive", message)));
        }
        total
            .naive
            .add(&amount(before.polynomials.copy, before.copy_bytes), &sizes);
        let report = total.report(&after, rules, cx, module, &layouts, &signatures);
        remark_conversions(&report, &original, cx);
        tracing::info!(
            before = report.bytes_before,
            after = report.bytes_after,
            proof = report.proof.name(),
            "folded"
        );
        cx.fold = Some(report);
        Ok(Changed::Yes)
    }
}

struct Folded {
    func: Func,
    witness: FuncWitness,
    conversions: Vec<Conversion>,
    why: Vec<(Value, String)>,
    naive: Amount,
    /// Whether numbers stood in for unknown sizes.
    stands_in: bool,
    /// No choice of layouts converts fewer bytes.
    bound: u64,
    proven: bool,
    dropped: u64,
    groups: usize,
    nodes: usize,
    freed: Option<u64>,
}

#[derive(Default)]
struct Totals {
    naive: Amount,
    stands_in: bool,
    bound: u64,
    unproven: bool,
    /// A function that is called, whose boundary is not laid out.
    kept: Option<String>,
    dropped: u64,
    groups: usize,
    nodes: usize,
    conversions: Vec<(usize, Conversion)>,
    why: Vec<(usize, Value, String)>,
    freed: Vec<Option<u64>>,
    witness: Witness,
}

impl Totals {
    /// Bytes of the conversions at run time.
    fn converted(&self, sizes: &SizeTable) -> Amount {
        let mut sum = Amount::default();
        for (_, conversion) in self.conversions.iter().filter(|(_, c)| !c.constant) {
            sum.add(
                &amount(conversion.polynomial.clone(), conversion.bytes),
                sizes,
            );
        }
        sum
    }

    fn add(&mut self, index: usize, folded: &Folded, sizes: &SizeTable) {
        self.naive.add(&folded.naive, sizes);
        self.stands_in |= folded.stands_in;
        self.bound = self.bound.saturating_add(folded.bound);
        self.unproven |= !folded.proven;
        self.dropped += folded.dropped;
        self.groups += folded.groups;
        self.nodes += folded.nodes;
        self.conversions
            .extend(folded.conversions.iter().map(|c| (index, c.clone())));
        self.why
            .extend(folded.why.iter().map(|(v, t)| (index, *v, t.clone())));
        self.freed.push(folded.freed);
        self.witness.funcs.push(folded.witness.clone());
    }

    fn report(
        self,
        after: &Stats,
        rules: RuleSet,
        cx: &mut PassContext,
        folded: &Module,
        layouts: &Layouts,
        signatures: &Signatures,
    ) -> FoldReport {
        if 0 < self.dropped && after.movement_bytes != 0 {
            let message = format!(
                "{} candidate layouts were left out at the cap; max-layouts={} may save bytes",
                self.dropped,
                2 * cx.options.number(&INFO, "max-layouts").unwrap_or(12)
            );
            cx.remarks
                .push(Diagnostic::remark("layouts-dropped", message));
        }
        if 0 < rules.unsaturated {
            let message = format!("{} operations were not saturated", rules.unsaturated);
            cx.remarks
                .push(Diagnostic::remark("not-saturated", message));
        }
        let bound = self
            .bound
            .saturating_add(fixed_movement(
                folded,
                &cx.registry,
                &SizeTable::new(&cx.bindings),
            ))
            .min(after.movement_bytes);
        // What nothing moves no other boundary makes better.
        let kept = self.kept.filter(|_| after.movement_bytes != 0);
        if let Some(name) = &kept {
            let message = format!(
                "@{name} is called: its arguments and results keep the layouts it declares, and what is \
                 proven is so for these"
            );
            let diag = Diagnostic::remark("called-boundary-kept", message);
            cx.remarks
                .push(diag.note("a function put in place of its calls is laid out with them"));
        }
        let proof = if after.movement_bytes == bound && kept.is_none() {
            Proof::Optimal
        } else if self.unproven {
            Proof::Bound
        } else {
            Proof::OptimalInCandidates
        };
        let sizes = SizeTable::new(&cx.bindings);
        let mut left = amount(after.polynomials.movement.clone(), after.movement_bytes);
        left.add(
            &amount(after.polynomials.copy.clone(), after.copy_bytes),
            &sizes,
        );
        let bytes_after = left.at(&sizes);
        let left = left.polynomial();
        // The bound itself is a number; it has a polynomial where it is reached, or moves nothing.
        let least = match bound {
            0 => after.polynomials.copy.clone(),
            n if n == after.movement_bytes => left.clone(),
            _ => None,
        };
        FoldReport {
            bytes_before: self.naive.at(&sizes),
            bytes_after,
            lower_bound_bytes: bound.saturating_add(after.copy_bytes),
            polynomials: [
                ("bytes_before", self.naive.polynomial()),
                ("bytes_after", left),
                ("lower_bound_bytes", least),
            ],
            proof,
            rules_fired: rules.fired,
            dropped: self.dropped,
            sizes: [self.groups, self.nodes, signatures.len(), layouts.len()],
            conversions: self.conversions,
            freed: self.freed,
            target: cx.target.name.clone(),
            witness: self.witness,
            why: self.why,
        }
    }
}

/// The first value that has no room for the runs or blocks which its operation wants: a buffer has fewer than 2^63
/// bits.
fn too_large(func: &Func, cx: &PassContext) -> Option<Diagnostic> {
    let tight = |ty: &TensorType, run: u64| {
        let shape = ty.shape()?;
        let fits = |dim: usize| {
            let padded = shape.iter().enumerate();
            let mut padded = padded.map(|(d, &n)| match d == dim {
                true => n.checked_next_multiple_of(run),
                false => Some(n),
            });
            let bits = u64::from(ty.dtype.bits());
            let total = padded.try_fold(bits, |all, n| all.checked_mul(n?));
            total.is_some_and(|n| i64::try_from(n).is_ok())
        };
        (0..shape.len()).rev().find(|&dim| !fits(dim))
    };
    func.body.iter().find_map(|&op| {
        let data = &func.ops[op];
        let family = cx.registry.get(&data.name)?.family();
        let row = cx.target.row(family)?;
        let run = row.run.or(row.block).filter(|n| 1 < *n)?;
        let mut values = data.operands.iter().chain(&data.results);
        let (value, dim) = values.find_map(|&v| Some((v, tight(func.ty(v).as_tensor()?, run)?)))?;
        let message = format!(
            "{} wants runs of {run} elements on `{}`; {} with dimension {dim} padded to them has 2^63 bits or more",
            data.name,
            cx.target.name,
            optc_ir::text::print_type(func.ty(value))
        );
        let diag = Diagnostic::error("value-too-large", message);
        Some(diag.at(data.span, "this operation"))
    })
}

fn fold(
    func: &Func,
    functions: &Functions<'_>,
    cx: &mut PassContext,
    layouts: &mut Layouts,
    signatures: &mut Signatures,
    rules: &mut RuleSet,
    cap: usize,
) -> Result<Folded, Box<Diagnostic>> {
    let graph = groups::build(func, functions, cx, layouts, signatures)?;
    if !graph.kept.is_empty() {
        let message = format!(
            "{} of @{} share memory and keep the layouts that they declare, though the boundary is free",
            graph.kept.join(", "),
            func.name
        );
        cx.remarks
            .push(Diagnostic::remark("boundary-shared", message));
    }
    let mut search = Search::new(&graph, layouts, signatures, rules, cap);
    search.demand();
    let sizes = SizeTable::new(&cx.bindings);
    let naive = search.naive_bytes(&sizes);
    let choice = search.choose().ok_or_else(|| {
        if let Some(diag) = too_large(func, cx) {
            return Box::new(diag);
        }
        let message = format!(
            "@{}: no lowering exists on target `{}`",
            func.name, cx.target.name
        );
        Box::new(Diagnostic::error("no-lowering", message))
    })?;
    let needs_free = solve::movement(choice.cost) != 0;
    let bound = if needs_free {
        let found = bound::bytes(
            &graph,
            search.layouts,
            search.signatures,
            &search.candidates,
        );
        debug_assert!(
            found <= solve::movement(choice.cost),
            "a bound of {found} bytes above {}",
            solve::movement(choice.cost)
        );
        found
    } else {
        0
    };
    let (dropped, candidates) = (search.dropped, search.take_candidates());
    let emitted = emit::Emitter {
        old: func,
        graph: &graph,
        layouts,
        candidates: &candidates,
        choice: &choice,
        registry: &cx.registry,
        target: &cx.target,
        explain: cx.explain,
        sizes: &sizes,
    }
    .run();
    if let Some(value) = unwritable(&emitted.func, &graph.numbers) {
        let message = format!(
            "@{}: the layout of {} has no notation without the unknown sizes",
            func.name,
            name_of(&emitted.func, value)
        );
        let diag = Diagnostic::error("rearrange-unknown-size", message);
        return Err(Box::new(diag.at(func.span, "in this function")));
    }
    let mut conversions = emitted.conversions;
    if !conversions.is_empty() {
        let chains = chain::Chains::new(func, &graph, signatures, &choice);
        for conversion in conversions.iter_mut().filter(|c| !c.constant) {
            let Some(member) = graph.member(conversion.of) else {
                continue;
            };
            conversion.forced_by = chains.of_producer(member.group);
            let reader = conversion.readers.first().copied().flatten();
            conversion.wanted_by = chains.of_reader(member.group, reader);
        }
    }
    let freed = needs_free
        .then(|| freed_bytes(&graph, layouts, signatures, rules, cap))
        .flatten();
    let witness = FuncWitness::of(
        func,
        &emitted.func,
        &cx.registry,
        &emitted.operations,
        &emitted.held,
    );
    Ok(Folded {
        func: emitted.func,
        conversions,
        why: emitted.why,
        witness,
        naive,
        stands_in: graph.numbers.any(),
        bound,
        proven: choice.proven,
        dropped,
        groups: graph.groups.len(),
        nodes: graph.nodes.len(),
        freed,
    })
}

/// A value whose layout could only be written with a number that stands for an unknown size.
fn unwritable(func: &Func, numbers: &StandIns) -> Option<Value> {
    if !numbers.any() {
        return None;
    }
    let leaks = |&v: &Value| {
        let text = func.ty(v).as_tensor().map(|ty| ty.spelling.to_string());
        text.is_some_and(|text| numbers.reword(&text) != text)
    };
    func.values.ids().find(leaks)
}

/// Movement bytes of the same function if every argument and result could have any layout.
fn freed_bytes(
    graph: &Graph,
    layouts: &mut Layouts,
    signatures: &mut Signatures,
    rules: &mut RuleSet,
    cap: usize,
) -> Option<u64> {
    let mut free = Graph {
        groups: graph.groups.clone(),
        nodes: graph.nodes.clone(),
        members: graph.members.clone(),
        shapes: graph.shapes.clone(),
        numbers: graph.numbers.clone(),
        kept: Vec::new(),
    };
    for node in graph.nodes.ids() {
        free.nodes[node].pinned = None;
    }
    let mut search = Search::new(&free, layouts, signatures, rules, cap);
    search.demand();
    let choice: Choice = search.choose()?;
    Some(solve::movement(choice.cost))
}

/// One remark a conversion: what forces it, what it costs, what would remove it.
fn remark_conversions(report: &FoldReport, original: &Module, cx: &mut PassContext) {
    for (index, conversion) in &report.conversions {
        let func = &original.funcs[*index];
        let what = if conversion.constant {
            "constant conversion"
        } else {
            "conversion"
        };
        let producer = name_of(func, conversion.of);
        let readers: Vec<String> = conversion
            .readers
            .iter()
            .map(|r| reader_name(func, *r))
            .collect();
        let message = format!(
            "{what} of {producer} from {} to {} stays: {}, read by {}",
            conversion.from,
            conversion.to,
            conversion.words,
            readers.join(", ")
        );
        let code = if conversion.constant {
            "constant-conversion"
        } else {
            "conversion-stays"
        };
        let mut diag = Diagnostic::remark(code, message);
        if let Some(op) = func.def_op(conversion.of) {
            diag = diag.at(func.ops[op].span, "produced here");
        }
        if !conversion.constant {
            if let Some(chain) = &conversion.forced_by {
                diag = diag.note(format!("the order it is in comes from {chain}"));
            }
            if let Some(chain) = &conversion.wanted_by {
                diag = diag.note(format!("the order it is read in comes from {chain}"));
            }
            diag = diag.note(blocker(func, conversion));
            if let Some(Some(bytes)) = report.freed.get(*index) {
                let line = "with a free boundary the function would convert";
                diag = diag.note(format!("{line} {bytes} bytes in all"));
            }
        }
        cx.remarks.push(diag);
    }
}

fn name_of(func: &Func, value: Value) -> String {
    match func.def_op(value) {
        Some(op) => format!("{value} (`{}`{})", func.ops[op].name, loc_text(func, op)),
        None => match &func.values[value].name {
            Some(name) => format!("argument %{name}"),
            None => format!("argument {value}"),
        },
    }
}

fn reader_name(func: &Func, reader: Option<optc_ir::Op>) -> String {
    match reader {
        Some(op) => format!("`{}`{}", func.ops[op].name, loc_text(func, op)),
        None => "the function's result".to_owned(),
    }
}

fn loc_text(func: &Func, op: optc_ir::Op) -> String {
    match &func.ops[op].loc {
        optc_ir::Loc::Name(name) => format!(" at \"{name}\""),
        optc_ir::Loc::Fused(parts) => match parts.first() {
            Some(optc_ir::Loc::Name(name)) => {
                format!(" at \"{name}\" and {} more", parts.len() - 1)
            }
            _ => String::new(),
        },
        optc_ir::Loc::Unknown | optc_ir::Loc::File(..) => String::new(),
    }
}

/// What forces a conversion and what would remove it.
fn blocker(func: &Func, conversion: &Conversion) -> String {
    let from_boundary = func.def_op(conversion.of).is_none();
    let to_boundary = conversion.readers.iter().any(Option::is_none);
    let name = func.values[conversion.of].name.as_deref().unwrap_or("");
    match (from_boundary, to_boundary) {
        (true, true) => format!(
            "argument %{name} and the result are both pinned; `--free-boundary={name}` or a free \
             result removes it"
        ),
        (true, false) => {
            format!("argument %{name} is pinned; `--free-boundary={name}` removes it here")
        }
        (false, true) => "the result is pinned; a free boundary removes it here".to_owned(),
        (false, false) => "producer and reader accept no common order on this target; a target \
                           row that accepts the other order removes it"
            .to_owned(),
    }
}

/// The chain of decisions that led to a value's form, from the last run with `explain` set.
#[must_use]
pub fn explain(cx: &PassContext, module: &Module, name: &str) -> Option<String> {
    let report = cx.fold.as_ref()?;
    let wanted = name.trim_start_matches('%');
    let mut why: IndexMap<(usize, Value), &str> = IndexMap::new();
    for (func, value, text) in &report.why {
        why.entry((*func, *value)).or_insert(text);
    }
    for (index, func) in module.funcs.iter().enumerate() {
        let names = printed_names(func);
        let Some(value) = names.iter().find(|(_, n)| n.as_str() == wanted) else {
            continue;
        };
        let value = *value.0;
        let mut lines = Vec::new();
        let mut at = Some(value);
        while let Some(v) = at {
            let text = why.get(&(index, v)).unwrap_or(&"as the program has it");
            let name = names
                .get(&v)
                .map_or_else(|| v.to_string(), |n| format!("%{n}"));
            lines.push(format!("{name}: {text}"));
            at = func.def_op(v).and_then(|op| {
                let data = &func.ops[op];
                let passes = matches!(
                    cx.registry.structure(&data.name),
                    Structure::View | Structure::Convert
                );
                if passes {
                    data.operands.first().copied()
                } else {
                    None
                }
            });
        }
        return Some(lines.join("\n"));
    }
    None
}

/// The names the printer gives values, without `%`: arguments by name, results numbered in order.
fn printed_names(func: &Func) -> IndexMap<Value, String> {
    let mut names = IndexMap::new();
    for &arg in &func.args {
        let name = func.values[arg].name.as_deref().map(str::to_owned);
        names.insert(
            arg,
            name.unwrap_or_else(|| arg.to_string().replace('%', "")),
        );
    }
    let mut n = 0usize;
    for &op in &func.body {
        let results = &func.ops[op].results;
        for (i, &result) in results.iter().enumerate() {
            let many = 1 < results.len();
            let name = if many {
                format!("{n}#{i}")
            } else {
                format!("{n}")
            };
            names.insert(result, name);
        }
        n += usize::from(!results.is_empty());
    }
    names
}
