//! Checks shared by several kinds of tests.

use optc_check::Certificate;
use optc_compare::{EquivalenceOptions, Fill, RandomSource, equivalent};
use optc_ir::op::in_place;
use optc_ir::{Bindings, Diagnostic, Module, Registry, text, verify};
use optc_passes::manager::{Hooks, run};
use optc_passes::view_fold::FoldReport;
use optc_passes::{Boundary, PassContext, PassList};
use optc_target::Target;
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

/// The number of results of a program that are in pieces.
#[must_use]
pub fn in_pieces(module: &Module) -> usize {
    let ops = module
        .funcs
        .iter()
        .flat_map(|f| f.body.iter().map(|&op| &f.ops[op]));
    ops.filter(|data| in_place::is_in_pieces(data)).count()
}

/// The number of cases of a property: `n`, multiplied by `OPTC_PROPS_FACTOR`.
#[must_use]
pub fn cases(n: u64) -> u64 {
    let factor = std::env::var("OPTC_PROPS_FACTOR").ok();
    n * factor.and_then(|f| f.parse().ok()).unwrap_or(1)
}

/// A built-in target; each is read once.
///
/// # Panics
/// There is no target of this name.
#[must_use]
pub fn target(name: &str) -> Arc<Target> {
    static READ: Mutex<BTreeMap<String, Arc<Target>>> = Mutex::new(BTreeMap::new());
    let mut read = READ.lock().unwrap_or_else(PoisonError::into_inner);
    let target = read
        .entry(name.to_owned())
        .or_insert_with(|| Arc::new(Target::builtin(name).expect("a built-in target")));
    Arc::clone(target)
}

/// The outcome of a pipeline.
#[derive(Clone, Debug)]
pub struct Ran {
    /// The program afterwards.
    pub module: Module,
    /// The context: remarks and reports.
    pub cx: PassContext,
}

impl Ran {
    /// The report of `view-fold`.
    #[must_use]
    pub fn fold(&self) -> Option<&FoldReport> {
        self.cx.reports.get()
    }

    /// The certificate of `view-fold` for its result from `original`.
    ///
    /// # Panics
    /// No fold was run.
    #[must_use]
    pub fn certificate(&self, original: &Module) -> Certificate {
        let report = self.fold().expect("view-fold was run");
        report.certificate(original, &self.module, &self.cx.registry, &self.cx.target)
    }
}

/// Runs a pipeline for a built-in target, verifying after each pass.
///
/// # Errors
/// The diagnostics of the passes or of the verifier.
///
/// # Panics
/// The target or the pipeline does not exist.
pub fn run_passes(
    module: &Module,
    pipeline: &str,
    target: &str,
    boundary: &Boundary,
    registry: &Arc<Registry>,
) -> Result<Ran, String> {
    run_on(module, pipeline, self::target(target), boundary, registry)
}

/// Runs a pipeline for a target, verifying after each pass.
///
/// # Errors
/// The diagnostics of the passes or of the verifier.
///
/// # Panics
/// The pipeline does not exist.
pub fn run_on(
    module: &Module,
    pipeline: &str,
    target: Arc<Target>,
    boundary: &Boundary,
    registry: &Arc<Registry>,
) -> Result<Ran, String> {
    let stages = PassList::builtin()
        .parse(pipeline)
        .expect("a pipeline of built-in passes");
    let mut cx = PassContext::new(registry.clone(), target);
    cx.boundary = boundary.clone();
    let mut module = module.clone();
    let mut hooks = Hooks {
        verify_each: true,
        ..Hooks::default()
    };
    run(&mut module, &stages, &mut cx, &mut hooks).map_err(|d| words(&d))?;
    Ok(Ran { module, cx })
}

/// Diagnostics as one text.
#[must_use]
pub fn words(diags: &[Diagnostic]) -> String {
    let line = |d: &Diagnostic| {
        let notes: String = d.notes.iter().map(|n| format!("\n  note: {n}")).collect();
        format!("{}: {}{notes}", d.code, d.message)
    };
    diags.iter().map(line).collect::<Vec<_>>().join("\n")
}

/// Checks that two programs compute the same: both by the reference interpreter, and the second one also by the naive
/// interpreter.
///
/// # Errors
/// The first difference.
pub fn same_meaning(before: &Module, after: &Module, registry: &Registry) -> Result<(), String> {
    let options = EquivalenceOptions {
        seeds: vec![1],
        edges: vec![Fill::Unique(0)],
        bindings: small_bindings(before),
        uninterpreted: true,
        ..EquivalenceOptions::default()
    };
    let made_up = RandomSource;
    equivalent(before, after, registry, &made_up, &made_up, &options).map_err(|e| e.to_string())
}

/// Small sizes for the symbols of a program, all different.
#[must_use]
pub fn small_bindings(module: &Module) -> Bindings {
    let mut bindings = Bindings::default();
    let values = module.funcs.iter().flat_map(|f| f.values.iter());
    for ty in values.filter_map(|(_, v)| v.ty.as_tensor()) {
        for dim in &ty.dims {
            for name in dim.size().map(|size| size.names()).unwrap_or_default() {
                let next = [3, 2, 5, 7][bindings.0.len() % 4];
                bindings.0.entry(name).or_insert(next);
            }
        }
    }
    bindings
}

/// Checks that a program verifies, and that printing and parsing it changes nothing.
///
/// # Errors
/// The difference.
pub fn round_trip(module: &Module, registry: &Registry) -> Result<Module, String> {
    verify::verify(module, registry).map_err(|d| words(&d))?;
    let printed = text::print(module);
    let parsed = text::parse(&printed).map_err(|d| format!("{}\n{printed}", words(&d)))?;
    verify::verify(&parsed, registry).map_err(|d| words(&d))?;
    let again = text::print(&parsed);
    if again == printed {
        Ok(parsed)
    } else {
        Err(format!(
            "printed:\n{printed}\nparsed and printed again:\n{again}"
        ))
    }
}

/// Parses a text that is known to be valid.
///
/// # Panics
/// The text is refused.
#[must_use]
#[track_caller]
pub fn parse(source: &str) -> Module {
    match text::parse(source) {
        Ok(module) => module,
        Err(diags) => panic!("{}\n{source}", words(&diags)),
    }
}
