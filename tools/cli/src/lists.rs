//! `--list-passes` and `--list-rules`.

use crate::streams::Streams;
use optc::Compiler;
use optc::passes::{canonicalize, pipeline, view_fold};

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

/// The rules of each pass that has some, each with its equation.
pub(crate) fn rules(streams: &mut Streams<'_>) {
    let lists = [
        ("canonicalize", canonicalize::rule_names()),
        ("view-fold", view_fold::builtin_rules()),
    ];
    for (pass, rules) in lists {
        streams.line(&format!("{pass}:"));
        let width = rules.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, equation) in rules {
            streams.line(&format!("  {name:<width$}  {equation}"));
        }
    }
}
