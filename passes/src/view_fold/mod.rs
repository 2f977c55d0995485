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
//! 2. Candidate layouts come by demand. Each operation, the target and the boundary demand their own layouts. Each
//!    operation hands a demand at one port on to its other ports (`search`).
//! 3. The forms of an operation that compute the same value come from equality saturation with equations (`builtin`,
//!    `saturate`).
//!    Without rules there is the default form alone.
//! 4. Variable elimination chooses one layout a group and one form an operation, with the fewest bytes converted
//!    (`choose`, `solve`). Past its limits an integer programme does so (`integer`). A lower bound over all choices is
//!    computed apart (`bound`).
//! 5. The choice is written down (`emit`). A cheap value is computed once for each order that it is read in where that
//!    costs less (`twice`). The result is compared with the naive lowering on the whole program; it is never worse.
//!
//! # Soundness
//! 1. A `view` is emitted only where [`optc_layout::propagate`] gives the result's layout, which is exact.
//! 2. Operations keep their attributes and logical shapes; only the layouts of their types change.
//! 3. The certificate of the run is checked by [`optc_check`], which shares no code with the
//!    search.
//!
//! # Not done
//! [`elide_copies`] decides whether a `concat`, `slice`, `split` or `pad` copies, once the layouts are chosen. On a
//! machine with tiles the search counts the parts that do not lie evenly in their wholes (`parts`).
//! It does not see that a reader takes whole tiles alone, nor that a conversion could read a part that its readers refuse.
//! If the layouts turn out worse than naive lowering, they are chosen again as if all copies stayed.
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

use crate::codes;
mod alternatives;
mod attempt;
mod bound;
mod builtin;
mod chain;
mod choose;
mod context;
mod control;
mod conversion;
mod costs;
mod emit;
mod ends;
mod explain;
mod folded;
mod function;
mod groups;
mod label_order;
mod layouts;
pub(crate) mod maps;
mod matrices;
mod notation;
mod orders;
mod over;
mod padded;
mod parts;
mod physical;
mod price;
mod reason;
mod reasons;
mod remarks;
mod report;
mod restrict;
mod rows;
mod rule;
mod saturate;
mod search;
mod shared;
mod signature;
mod signatures;
mod ties;
mod tiled;
mod totals;
mod trade;
mod twice;
mod weigh;

use crate::aliases;
use crate::bufferize::{self, MAX_LIVE};
use crate::elide_copies;
use crate::pass::{
    Changed, OptionInfo, Options, Outcome, Pass, PassContext, PassInfo, Phase, RuleInfo,
};
pub use builtin::builtin_rules;
pub use context::{Named, RuleContext};
pub use conversion::Conversion;
pub use explain::explain;
use function::fold;
use groups::Functions;
use layouts::Layouts;
use optc_check::amount::amount;
use optc_check::items;
use optc_check::stats::Stats;
use optc_ir::size::SizeTable;
use optc_ir::{Attr, CodeName, Diagnostic, Module, name_sizes, trace};
use padded::remark_padding;
pub use reason::{Freed, Keeper, NamedEnd, Reason};
use remarks::{remark_conversions, remark_copies, remark_families};
pub use report::{FoldReport, Proof};
pub use rows::Compiled;
pub use rule::SearchRule;
use saturate::RuleSet;
use shared::{Shared, Tally};
pub(crate) use signature::Elements;
pub use signature::Signature;
use signatures::Signatures;
use std::fmt;
use std::thread;
use totals::Totals;

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
        OptionInfo {
            name: "explain",
            default: "false",
            summary: "keep why each value is as it is, for `--explain`; the name of a value, or of where it came from, weighs also what that might have been",
        },
        MAX_LIVE,
    ],
};

/// The pass.
#[derive(Clone, Default)]
pub struct ViewFold {
    /// Rules of a library user; they are tried after the built-in ones.
    pub rules: Vec<SearchRule>,
}

impl fmt::Debug for ViewFold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names = self.rules.iter().map(|r| r.name());
        f.debug_list().entries(names).finish()
    }
}

impl ViewFold {
    /// The state that a run starts with, from the options of the pass.
    fn shared(&self, options: &Options) -> Result<Shared, Box<Diagnostic>> {
        let cap = usize::try_from(options.number(&INFO, "max-layouts")?).unwrap_or(usize::MAX);
        let rules = RuleSet::new(options.get(&INFO, "rules"), &self.rules).map_err(|name| {
            let known: Vec<&str> = builtin_rules().iter().map(|r| r.name).collect();
            let message = format!("found no rule `{name}`");
            let diag = Diagnostic::error(codes::UNKNOWN_RULE, message);
            let wanted = format!("wanted all, none, or names of {}", known.join(", "));
            let names = known.into_iter().chain(["all", "none"]);
            Box::new(diag.note(wanted).suggest("", &name, names))
        })?;
        let (explain, weighed) = match options.get(&INFO, "explain") {
            "false" => (false, None),
            "true" => (true, None),
            name => (true, Some(name.to_owned())),
        };
        Ok(Shared {
            layouts: Layouts::default(),
            signatures: Signatures::default(),
            rules,
            cap,
            // Without rules copies stay.
            saves_copies: options.get(&INFO, "rules") != "none",
            explain,
            weighed,
        })
    }
}

impl Pass for ViewFold {
    fn info(&self) -> &'static PassInfo {
        &INFO
    }

    fn list_rules(&self) -> Vec<RuleInfo<'_>> {
        let own = self.rules.iter().map(|rule| RuleInfo {
            name: rule.name(),
            equation: rule.equation(),
            summary: rule.summary(),
        });
        builtin_rules().into_iter().chain(own).collect()
    }

    fn run(&self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        cx.boundary.check(module)?;
        aliases::request(module, cx)?;
        let shared = self.shared(&cx.options)?;
        let limit = bufferize::limit(&cx.options, &INFO)?;
        let again = limit.is_some() || cx.target.is_tiled();
        let (before, said) = (again.then(|| module.clone()), cx.remarks.len());
        let done = fold_with(shared, module, limit, cx);
        let is_from_copies = |code: &CodeName| {
            *code == codes::MAX_LIVE.name || *code == codes::WORSE_THAN_NAIVE.name
        };
        match (done, before) {
            // Fewer copies may keep more alive, and layouts for parts may cost more where a reader refuses the parts:
            // try again as if all copies stayed.
            (Err(diag), Some(before)) if is_from_copies(&diag.code) => {
                *module = before;
                cx.remarks.truncate(said);
                let mut shared = self.shared(&cx.options)?;
                shared.saves_copies = false;
                fold_with(shared, module, limit, cx)
            }
            (done, _) => done,
        }
    }
}

/// Folds a module.
fn fold_with(
    mut shared: Shared,
    module: &mut Module,
    limit: Option<u64>,
    cx: &mut PassContext,
) -> Result<Outcome, Box<Diagnostic>> {
    name_sizes(module, &cx.registry);
    elide_copies::as_copies(module);
    let sizes = SizeTable::new(&cx.bindings);
    let before = Stats::at(module, &cx.registry, &sizes);
    let mut total = Totals::default();
    let mut functions = Functions::new(module);
    functions.laid = control::lay_out(module, cx, &shared)?;
    let mut all = Vec::with_capacity(module.funcs.len());
    for func in &module.funcs {
        all.push(fold(func, &functions, cx, &mut shared)?);
    }
    let all = twice::if_cheaper(all, limit, cx);
    let mut funcs = Vec::with_capacity(module.funcs.len());
    for ((index, func), folded) in module.funcs.iter().enumerate().zip(all) {
        let witness = folded.witness(func, &cx.registry);
        total.add(index, &folded, witness, &sizes);
        twice::remark(func, &folded, cx);
        shared.rules.ran_twice(&folded.repeated);
        let mut new = folded.func;
        let pairs = folded.held.iter().chain(&folded.stored).copied();
        new.trace = trace::moved(func, &cx.registry, pairs, INFO.name);
        funcs.push(new);
    }
    let kept = module.funcs.iter().find(|f| functions.keeps_boundary(f));
    total.kept = kept.map(|f| f.name.to_string());
    let original = Module {
        funcs: std::mem::replace(&mut module.funcs, funcs),
        ..Module::default()
    };
    let tally = shared.tally();
    // Layouts that were shared, where there are very many, are freed in a thread of their own while the rest is done.
    let many = MANY_LAYOUTS < tally.layouts;
    let rest = Rest {
        total,
        tally,
        limit,
        before,
        original,
    };
    thread::scope(|scope| {
        if many {
            let away = move || drop(shared);
            // If no thread starts, they are freed at once.
            let _ = thread::Builder::new().spawn_scoped(scope, away);
        }
        rest.finish(module, cx)
    })
}

/// Above this number of layouts in a module, shared state is freed in a thread of its own.
const MANY_LAYOUTS: usize = 1 << 14;

/// The state when all functions are folded, and the original functions.
struct Rest {
    total: Totals,
    tally: Tally,
    limit: Option<u64>,
    before: Stats,
    original: Module,
}

impl Rest {
    /// Reads parts in place, and reports on the module.
    fn finish(self, module: &mut Module, cx: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
        let Rest {
            mut total,
            tally,
            limit,
            before,
            original,
        } = self;
        let sizes = SizeTable::new(&cx.bindings);
        module.attrs.set("hbir.target", Attr::str(&cx.target.name));
        module.attrs.remove("hbir.canonical");
        if cx.options.get(&INFO, "rules") != "none" {
            total.copies = elide_copies::run_on(module, limit, cx)?;
        } else if let Some(limit) = limit {
            bufferize::check_limit(module, limit, cx)?;
        }
        aliases::check(module, &|func, op| total.copies.why(func, op), cx)?;
        let after = Stats::on(module, &cx.registry, &sizes, &cx.target);
        total
            .naive
            .add(&amount(before.polynomials.copy, before.copy_bytes), &sizes);
        total.compare(&after, &sizes)?;
        let all = items(module, &cx.registry, &sizes, None);
        remark_copies(module, &all, &total.copies, cx);
        remark_families(module, cx);
        remark_padding(module, &all, cx);
        let report = total.report(&after, tally, cx, module);
        remark_conversions(&report, &original, cx);
        tracing::info!(
            before = report.bytes_before,
            after = report.bytes_after,
            proof = report.proof.name(),
            "folded"
        );
        Ok(Outcome::with(Changed::Yes, report))
    }
}
