//! Runs pipelines. The manager checks, logs, prints and counts around every pass; passes do none of this.

use crate::codes;
use crate::pass::{Changed, Options, Outcome, PassContext, PassInfo, Phase, Stage};
use optc_check::{check_memory, check_target};
use optc_ir::{Diagnostic, Module, compared_sizes, text, trace, verify};
use std::time::{Duration, Instant};

/// The manager's work around each pass.
#[derive(Default)]
pub struct Hooks<'a> {
    /// After each pass also check the memory of the module and, once its layouts are chosen, that the target takes them.
    pub verify_each: bool,
    /// Do not check that a pass leaves a well-formed module. The check takes time linear in the module; without it a
    /// defect of a pass shows itself later, or not at all.
    pub unverified: bool,
    /// Called after each pass with its name, the module before (if `keep_before`) and after.
    pub after: Option<AfterHook<'a>>,
    /// True if `after` gets the text before the pass.
    pub keep_before: bool,
    /// Run only this many passes of the pipeline.
    pub limit: Option<usize>,
}

/// A function that is called after a pass: the pass's name, the text before (when kept), the module.
pub type AfterHook<'a> = Box<dyn FnMut(&str, Option<&str>, &Module) + 'a>;

impl std::fmt::Debug for Hooks<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Hooks")
            .field("verify_each", &self.verify_each)
            .field("unverified", &self.unverified)
            .finish_non_exhaustive()
    }
}

/// The time that a pass took. It is for display alone; no decision depends on it.
#[derive(Clone, Debug, PartialEq)]
pub struct Timing {
    /// The pass.
    pub pass: &'static str,
    /// Wall-clock time.
    pub time: Duration,
}

/// Runs a pipeline.
///
/// # Errors
/// A pass refused the module, ran outside its phases, or left it invalid.
pub fn run(
    module: &mut Module,
    stages: &[Stage],
    cx: &mut PassContext,
    hooks: &mut Hooks<'_>,
) -> Result<Vec<Timing>, Vec<Diagnostic>> {
    let mut timings = Vec::new();
    cx.bindings = compared_sizes(module, &cx.registry, &cx.bindings);
    for stage in stages.iter().take(hooks.limit.unwrap_or(usize::MAX)) {
        timings.push(run_one(module, stage, cx, hooks)?);
    }
    Ok(timings)
}

fn run_one(
    module: &mut Module,
    stage: &Stage,
    cx: &mut PassContext,
    hooks: &mut Hooks<'_>,
) -> Result<Timing, Vec<Diagnostic>> {
    let info = stage.pass.info();
    in_phase(info, module)?;
    let check_unchanged = cfg!(debug_assertions);
    let before = (hooks.keep_before || check_unchanged).then(|| text::print(module));
    let ops: usize = module.funcs.iter().map(|f| f.body.len()).sum();
    let span = tracing::info_span!("pass", pass = %info.name, ops);
    let start = Instant::now();
    cx.options = stage.options.clone();
    let Outcome { changed, report } = span
        .in_scope(|| stage.pass.run(module, cx))
        .map_err(|d| vec![*d])?;
    cx.options = Options::default();
    trace::settle(module, &cx.registry, info.name);
    if let Some(report) = report {
        cx.reports.add(info.name, report);
    }
    if changed == Changed::Yes {
        cx.remarks
            .extend(crate::plans::keep(module, &cx.registry, info.name));
    }
    let timing = Timing {
        pass: info.name,
        time: start.elapsed(),
    };
    if let Some(before) = before
        .as_deref()
        .filter(|_| check_unchanged && changed == Changed::No)
    {
        is_unchanged(info, before, module)?;
    }
    is_sound(info, module, cx, hooks)?;
    if let Some(after) = &mut hooks.after {
        after(
            info.name,
            before.as_deref().filter(|_| hooks.keep_before),
            module,
        );
    }
    Ok(timing)
}

/// Checks that a pass may run on a module.
fn in_phase(info: &PassInfo, module: &Module) -> Result<(), Vec<Diagnostic>> {
    let phase = Phase::of(module);
    if (info.phases.0..=info.phases.1).contains(&phase) {
        return Ok(());
    }
    let message = format!(
        "pass `{}` runs in the phases {:?} to {:?}, found a module in phase {phase:?}",
        info.name, info.phases.0, info.phases.1
    );
    Err(vec![Diagnostic::error(codes::PASS_PHASE, message)])
}

/// Checks that a pass that reports no change changed nothing.
fn is_unchanged(info: &PassInfo, before: &str, module: &Module) -> Result<(), Vec<Diagnostic>> {
    if before == text::print(module) {
        return Ok(());
    }
    let message = format!(
        "pass `{}` says it changed nothing but the text differs",
        info.name
    );
    Err(vec![Diagnostic::error(codes::PASS_CHANGED, message)])
}

/// Checks the module that a pass leaves: it is well formed and, once its layouts are chosen, the target takes them.
fn is_sound(
    info: &PassInfo,
    module: &Module,
    cx: &PassContext,
    hooks: &Hooks<'_>,
) -> Result<(), Vec<Diagnostic>> {
    let after = |mut diags: Vec<Diagnostic>| {
        for diag in &mut diags {
            diag.notes.push(format!("after pass `{}`", info.name));
        }
        diags
    };
    let verify_each = hooks.verify_each;
    if !hooks.unverified || verify_each || cfg!(debug_assertions) {
        verify::verify(module, &cx.registry).map_err(after)?;
    }
    if verify_each || cfg!(debug_assertions) {
        let diags = check_memory(module, &cx.registry);
        if !diags.is_empty() {
            return Err(after(diags));
        }
    }
    if !verify_each || module.attrs.str("hbir.target") != Some(&*cx.target.name) {
        return Ok(());
    }
    let diags = check_target(module, &cx.registry, &cx.target);
    match diags.is_empty() {
        true => Ok(()),
        false => Err(after(diags)),
    }
}
