//! `optc stats`: operations and the bytes they move.

use crate::args::{CompileArgs, StatsArgs};
use crate::condition::{Condition, Figures};
use crate::failure::{Failure, Status};
use crate::inputs::{self, Input};
use crate::streams::Streams;
use crate::terminal;
use optc::passes::Hooks;
use optc::{Compiler, FoldReport, Program, Stats};
use serde_json::{Map, Value as Json, json};
use std::fmt::Write as _;
use std::path::Path;

/// Grows when a key of the JSON changes its meaning.
const SCHEMA: u64 = 1;

/// The figures of one program, before and after passes when there are any.
struct Measured {
    before: Option<Stats>,
    after: Stats,
    fold: Option<FoldReport>,
}

pub(crate) fn command(args: &StatsArgs, streams: &mut Streams<'_>) -> Result<Status, Failure> {
    let conditions = conditions(&args.fail_if)?;
    if let Some(paths) = &args.compare {
        return compare(paths, args, &conditions, streams);
    }
    let Some(path) = &args.input else {
        return Err(Failure::usage("an input is missing"));
    };
    let measured = measure(path, &args.compile, streams)?;
    let text = if args.json {
        json_of(&measured)
    } else {
        table_of(&measured)
    };
    streams.print(&text);
    let mut figures = Figures::default();
    let bound = measured.fold.as_ref().map(|f| f.lower_bound_bytes);
    figures.add(&measured.after, measured.before.as_ref(), bound);
    fail_if(&conditions, &figures)
}

fn conditions(texts: &[String]) -> Result<Vec<Condition>, Failure> {
    let read = |text: &String| {
        text.parse()
            .map_err(|e| Failure::usage(format!("--fail-if: {e}")))
    };
    texts.iter().map(read).collect()
}

fn fail_if(conditions: &[Condition], figures: &Figures) -> Result<Status, Failure> {
    let mut failed = String::new();
    for condition in conditions {
        let (holds, value) = condition
            .test(figures)
            .map_err(|e| Failure::usage(format!("--fail-if: {e}")))?;
        if holds {
            let _ = writeln!(failed, "error[fail-if]: `{condition}` holds: found {value}");
        }
    }
    if failed.is_empty() {
        Ok(Status::Done)
    } else {
        Err(Failure::check(failed))
    }
}

fn measure(
    path: &Path,
    args: &CompileArgs,
    streams: &mut Streams<'_>,
) -> Result<Measured, Failure> {
    let compiler = inputs::compiler(args)?;
    let stages = inputs::stages(&compiler, args)?;
    let mut program = load(&compiler, path, args, streams)?;
    let mut cx = inputs::context(&compiler, &program, args)?;
    let before = compiler.stats(&program);
    if args.pass.is_none() {
        return Ok(Measured {
            before: None,
            after: before,
            fold: None,
        });
    }
    let mut hooks = Hooks {
        verify_each: args.verify_each,
        ..Hooks::default()
    };
    terminal::doing(|| format!("{}: passes", program.name));
    compiler.run_passes(&mut program, &stages, &mut cx, &mut hooks)?;
    let after = compiler.stats(&program);
    Ok(Measured {
        before: Some(before),
        after,
        fold: cx.fold,
    })
}

fn load(
    compiler: &Compiler,
    path: &Path,
    args: &CompileArgs,
    streams: &mut Streams<'_>,
) -> Result<Program, Failure> {
    Ok(Input::read(path, streams)?.program(compiler, args.from.as_deref())?)
}

fn object(stats: &Stats) -> Map<String, Json> {
    stats
        .fields()
        .into_iter()
        .map(|(name, n)| (name.to_owned(), json!(n)))
        .collect()
}

fn json_of(measured: &Measured) -> String {
    let mut root = Map::new();
    root.insert("schema".to_owned(), json!(SCHEMA));
    root.extend(object(&measured.after));
    if let Some(before) = &measured.before {
        root.insert("before".to_owned(), Json::Object(object(before)));
        root.insert("after".to_owned(), Json::Object(object(&measured.after)));
        let fold = measured.fold.as_ref();
        let mut put = |name: &str, value: Json| root.insert(name.to_owned(), value);
        put("bytes_before", json!(fold.map(|f| f.bytes_before)));
        put("bytes_after", json!(fold.map(|f| f.bytes_after)));
        put(
            "lower_bound_bytes",
            json!(fold.map(|f| f.lower_bound_bytes)),
        );
        put("proof", json!(fold.map(|f| f.proof.name())));
        let rules = fold.map(|f| f.rules_fired.iter().map(|(k, n)| (k.clone(), json!(n))));
        put("rules", json!(rules.map(|r| Json::Object(r.collect()))));
    }
    format!("{:#}\n", Json::Object(root))
}

fn table_of(measured: &Measured) -> String {
    let mut text = String::new();
    let Some(before) = &measured.before else {
        for (name, n) in measured.after.fields() {
            let _ = writeln!(text, "{name:<24} {n:>16}");
        }
        return text;
    };
    text.push_str(&figures(before, &measured.after, measured.fold.as_ref()));
    text
}

/// Two columns of figures, and what the fold says of itself.
pub(crate) fn figures(before: &Stats, after: &Stats, fold: Option<&FoldReport>) -> String {
    let mut text = String::new();
    two_columns(&mut text, ["before", "after"], before, after);
    if let Some(fold) = fold {
        let _ = writeln!(
            text,
            "lower bound {} bytes, {}",
            fold.lower_bound_bytes,
            fold.proof.name()
        );
        for (rule, n) in &fold.rules_fired {
            let _ = writeln!(text, "rule {rule} fired {n} times");
        }
    }
    text
}

fn two_columns(text: &mut String, titles: [&str; 2], a: &Stats, b: &Stats) {
    let _ = writeln!(text, "{:<24} {:>16} {:>16}", "", titles[0], titles[1]);
    for ((name, x), (_, y)) in a.fields().into_iter().zip(b.fields()) {
        let _ = writeln!(text, "{name:<24} {x:>16} {y:>16}");
    }
}

fn compare(
    paths: &[std::path::PathBuf],
    args: &StatsArgs,
    conditions: &[Condition],
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let [a, b] = paths else {
        return Err(Failure::usage("--compare wants two programs"));
    };
    let a = measure(a, &args.compile, streams)?.after;
    let b = measure(b, &args.compile, streams)?.after;
    if args.json {
        let root = json!({ "schema": SCHEMA, "a": object(&a), "b": object(&b) });
        streams.print(&format!("{root:#}\n"));
    } else {
        let mut text = String::new();
        two_columns(&mut text, ["A", "B"], &a, &b);
        streams.print(&text);
    }
    let mut figures = Figures::default();
    figures.add(&b, Some(&a), None);
    fail_if(conditions, &figures)
}
