//! `--list-passes`, `--list-rules` and `--list-ops`.

use crate::streams::Streams;
use optc::Compiler;
use optc::passes::pipeline;

/// The passes with their options, then the named pipelines.
pub(crate) fn passes(compiler: &Compiler, streams: &mut Streams<'_>) {
    for info in compiler.passes().infos() {
        streams.line(&format!("{:<16} {}", info.name, info.summary));
        for option in info.options {
            let head = format!("{}={}", option.name, option.default);
            streams.line(&format!("  {head:<24} {}", option.summary));
        }
    }
    streams.line("\npipelines:");
    for (name, passes) in pipeline::NAMED {
        streams.line(&format!("{name:<16} {}", passes.join(",")));
    }
}

/// The rules of each pass that has rules, user rules included, each with its equation.
pub(crate) fn rules(compiler: &Compiler, streams: &mut Streams<'_>) {
    for pass in compiler.passes().iter() {
        let rules = pass.list_rules();
        if rules.is_empty() {
            continue;
        }
        streams.line(&format!("{}:", pass.info().name));
        let width = rules.iter().map(|r| r.name.len()).max().unwrap_or(0);
        for rule in rules {
            streams.line(&format!("  {:<width$}  {}", rule.name, rule.equation));
        }
    }
}

/// The operations, each with its family and what it computes.
pub(crate) fn operations(compiler: &Compiler, streams: &mut Streams<'_>) {
    let all = compiler.registry().all();
    let width = all.iter().map(|op| op.name().len()).max().unwrap_or(0);
    for op in all {
        let (name, family) = (op.name(), op.family());
        streams.line(&format!("{name:<width$}  {family:<12} {}", op.summary()));
    }
}
