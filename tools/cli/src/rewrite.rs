//! `optc [--pass=P[,P…]] IN`: reads a program, runs passes, writes what it became.

use crate::args::{CompileArgs, Emit, EmitStage, RemarkStyle, RewriteArgs};
use crate::certificate::CertificateFile;
use crate::codes;
use crate::dump::{self, Dump};
use crate::failure::{Failure, Status, blames_option, internal_error};
use crate::inputs::{self, Input};
use crate::model::{self, Written};
use crate::part::{Part, line_column};
use crate::streams::Streams;
use crate::{lists, stats, terminal, verify_diagnostics};
use optc::passes::{Hooks, Timing, view_fold};
use optc::{
    Compiler, Diagnostic, Error, FoldReport, Format, PassContext, Program, Registry, Severity,
    SizeTable, Stage, State, Stats, bound_sizes, distinct_outputs, write_aside, write_files,
};
use serde_json::json;
use std::fmt::Write as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::Path;

/// What a run of the command came to, for file tests.
pub(crate) struct Rewritten {
    pub(crate) status: Status,
    pub(crate) parts: Vec<Part>,
}

pub(crate) fn command(args: &RewriteArgs, streams: &mut Streams<'_>) -> Result<Status, Failure> {
    execute(args, streams).map(|done| done.status)
}

pub(crate) fn execute(args: &RewriteArgs, streams: &mut Streams<'_>) -> Result<Rewritten, Failure> {
    let mut compiler = inputs::compiler(&args.compile)?;
    if args.list_passes || args.list_rules {
        if args.list_passes {
            lists::passes(&compiler, streams);
        }
        if args.list_rules {
            lists::rules(&compiler, streams);
        }
        return Ok(Rewritten {
            status: Status::Done,
            parts: Vec::new(),
        });
    }
    let Some(path) = &args.input else {
        return Err(Failure::usage("an input is missing"));
    };
    let emit = emit_of(args)?;
    check_outputs(args)?;
    check_summary(args, emit)?;
    let own = model::pipeline(args, emit);
    let mut stages = inputs::stages(&compiler, &args.compile, own)?;
    compiler.whole_operators = model::whole(emit, &stages);
    model::finish(&compiler, emit, &mut stages)?;
    if let Some(name) = &args.explain {
        explaining(&mut stages, name);
    }
    let stage = stage_of(args, emit, &stages)?;
    dump::check_names(&compiler, "--print-ir-before", &args.print_ir_before)?;
    dump::check_names(&compiler, "--print-ir-after", &args.print_ir_after)?;
    let input = Input::read(path, streams)?;
    let (parts, errors) = transform_all(&compiler, &stages, (&input, emit), args, streams)?;
    for part in &parts {
        report(part, args, streams);
    }
    if args.verify_diagnostics {
        let source = String::from_utf8_lossy(&input.bytes);
        let faults = verify_diagnostics::check(&input.name, &source, &parts, &errors);
        if !faults.is_empty() {
            return Err(Failure::check(faults.join("\n")));
        }
    } else if !errors.is_empty() {
        return Err(refused(&parts, errors, (emit, stage), args, streams));
    }
    // A model has its weights; they are not held beside those that are written.
    drop(input);
    write_all(&compiler, &parts, (emit, stage), args, streams)?;
    Ok(Rewritten {
        status: Status::Done,
        parts,
    })
}

/// The failure of an input that is refused, or parts of it. What became of the other parts goes to standard
/// output; a file is not written, so that it holds the whole or what it held before.
fn refused(
    parts: &[Part],
    errors: Vec<Error>,
    emit: (Emit, EmitStage),
    args: &RewriteArgs,
    streams: &mut Streams<'_>,
) -> Failure {
    if let Some(option) = errors.iter().position(blames_option) {
        return errors
            .into_iter()
            .nth(option)
            .map_or_else(|| Failure::check(""), Failure::from);
    }
    let mut text: String = errors.iter().map(Error::render).collect();
    let plain = args.explain.is_none() && args.certificate.is_none();
    if plain && !parts.is_empty() && output_file(args).is_none() {
        match emitted(parts, emit, args.compile.pass.as_deref(), streams) {
            Ok(emitted) => streams.bytes(&emitted.bytes),
            Err(failure) => text.push_str(&failure.text),
        }
    }
    Failure::check(text)
}

/// What is said of a model, or tested, wants one that is written to a file.
fn check_summary(args: &RewriteArgs, emit: Emit) -> Result<(), Failure> {
    let to_file = output_file(args).is_some();
    let asked = [("--check", args.check), ("--json", args.json)];
    match asked.into_iter().find(|(_, on)| *on) {
        Some((option, _)) if model::format_of(emit).is_none() || !to_file => {
            Err(Failure::usage(format!(
                "{option} wants a model that is written to a file: -o OUT.onnx, OUT.hlo, or OUT.mlir of StableHLO"
            )))
        }
        _ => Ok(()),
    }
}

/// The file that the program is written to; nothing for standard output.
fn output_file(args: &RewriteArgs) -> Option<&Path> {
    args.output.as_deref().filter(|p| *p != Path::new("-"))
}

/// No two outputs may be one file: one of them would be lost. The input may be among them, since all
/// of it is read before anything is written.
fn check_outputs(args: &RewriteArgs) -> Result<(), Failure> {
    let others = [args.certificate.as_deref(), args.reproducer.as_deref()];
    let paths: Vec<&Path> = output_file(args)
        .into_iter()
        .chain(others.into_iter().flatten())
        .collect();
    distinct_outputs(&paths).map_err(|error| Failure {
        status: Status::Usage,
        text: error.render(),
    })
}

/// The output's format: the one asked for, else the one that the output's extension tells.
fn emit_of(args: &RewriteArgs) -> Result<Emit, Failure> {
    let emit = format_of(args)?;
    let other = [
        ("--layouts", args.layouts, Emit::Layouts),
        ("--arena", args.arena, Emit::Arena),
    ];
    match other.into_iter().find(|(_, wanted, _)| *wanted) {
        None => Ok(emit),
        Some((_, _, other)) if emit == Emit::Svg => Ok(other),
        Some((option, ..)) => Err(Failure::usage(format!(
            "{option} wants a picture: --emit=svg"
        ))),
    }
}

fn format_of(args: &RewriteArgs) -> Result<Emit, Failure> {
    if let Some(emit) = args.emit {
        return Ok(emit);
    }
    let output = args.output.as_deref();
    let extension = output.and_then(Path::extension).and_then(|e| e.to_str());
    if extension == Some("mlir")
        && inputs::format_of(args.input.as_deref(), &args.compile) == Some(Format::StableHlo)
    {
        return Ok(Emit::StableHlo);
    }
    Emit::of_extension(extension).map_err(|other| {
        let known = Emit::NAMES;
        Failure::usage(format!(
            "found no writer for `.{other}`: the formats of --emit are {known}"
        ))
    })
}

/// Which states a picture shows: those asked for, else both where passes run.
fn stage_of(args: &RewriteArgs, emit: Emit, stages: &[Stage]) -> Result<EmitStage, Failure> {
    match args.emit_stage {
        Some(_) if !emit.is_picture() => Err(Failure::usage(
            "--emit-stage wants a picture: --emit=dot or --emit=svg",
        )),
        Some(stage) => Ok(stage),
        None if stages.is_empty() => Ok(EmitStage::After),
        None => Ok(EmitStage::Both),
    }
}

/// Runs the passes on every module of the input; a module that is refused does not stop the others.
fn transform_all(
    compiler: &Compiler,
    stages: &[Stage],
    (input, emit): (&Input, Emit),
    args: &RewriteArgs,
    streams: &mut Streams<'_>,
) -> Result<(Vec<Part>, Vec<Error>), Failure> {
    let (mut parts, mut errors) = (Vec::new(), Vec::new());
    let from = args.compile.from.as_deref();
    let programs = input.programs(compiler, from, args.split_input_file);
    inputs::check_bindings(compiler, &programs.iter().flatten().collect::<Vec<_>>())?;
    for (number, program) in programs.into_iter().enumerate() {
        match program {
            Err(error) => errors.push(error),
            Ok(mut program) => {
                inputs::set_data(&mut program, args.compile.data.as_deref())?;
                let mut cx = inputs::context(compiler, &program, &args.compile)?;
                cx.explain_remarks =
                    args.remarks.is_some() || args.verify_diagnostics || args.explains_remarks;
                let dump = Dump::new(args, args.split_input_file.then_some(number))?;
                let last = model::unlaid(compiler, args, emit, &cx.target)?;
                let stages: Vec<Stage> = stages.iter().cloned().chain(last).collect();
                match transform(compiler, &stages, program, cx, &dump, streams) {
                    Ok(part) => parts.push(part),
                    Err(error) => errors.push(error),
                }
            }
        }
    }
    Ok((parts, errors))
}

/// Asks the passes that can explain what they do to keep their reasons, and to weigh what this might have been.
fn explaining(stages: &mut [Stage], name: &str) {
    let explains = |stage: &&mut Stage| {
        let options = stage.pass.info().options;
        options.iter().any(|o| o.name == "explain")
    };
    for stage in stages.iter_mut().filter(explains) {
        let options = &mut stage.options.0;
        options.insert("explain".to_owned(), name.to_owned());
    }
}

fn transform(
    compiler: &Compiler,
    stages: &[Stage],
    before: Program,
    mut cx: PassContext,
    dump: &Dump<'_>,
    streams: &mut Streams<'_>,
) -> Result<Part, Error> {
    let args = dump.args;
    let mut after = before.clone();
    let mut canonical = None;
    let (first, last) = stages.split_at(stages.len().saturating_sub(1));
    dump.input(&before.module);
    if 1 < stages.len() && model::ends_without_layouts(stages) {
        compiler.name_sizes(&mut after);
    }
    let done = catch_unwind(AssertUnwindSafe(|| {
        let mut hooks = dump.hooks();
        let mut timings = Vec::new();
        for stage in first {
            dump.before(stage, &after.module);
            timings.extend(run_one(compiler, stage, &mut after, &mut cx, &mut hooks)?);
        }
        canonical = args.certificate.is_some().then(|| after.module.clone());
        for stage in last {
            dump.before(stage, &after.module);
            timings.extend(run_one(compiler, stage, &mut after, &mut cx, &mut hooks)?);
        }
        Ok(timings)
    }));
    streams.error_text(&dump.take_log());
    let timings = done.unwrap_or_else(|panic| {
        let diag = internal_error(&*panic);
        Err(before.error(vec![with_reproducer(diag, &before, &cx, args)]))
    })?;
    dump.take_failure()?;
    Ok(Part {
        before,
        after,
        cx,
        timings,
        canonical,
    })
}

fn run_one(
    compiler: &Compiler,
    stage: &Stage,
    program: &mut Program,
    cx: &mut PassContext,
    hooks: &mut Hooks<'_>,
) -> Result<Vec<Timing>, Error> {
    terminal::doing(|| format!("{}: {}", program.name, stage.pass.info().name));
    compiler.run_passes(program, std::slice::from_ref(stage), cx, hooks)
}

/// Writes the program and the command that failed on it, where the user asked for that.
fn with_reproducer(
    diag: Diagnostic,
    before: &Program,
    cx: &PassContext,
    args: &RewriteArgs,
) -> Diagnostic {
    let Some(path) = &args.reproducer else {
        return diag.note("--reproducer=FILE writes the program and the command that failed on it");
    };
    let pass = args.compile.pass.as_deref().unwrap_or("");
    let target = args.compile.target.as_deref().unwrap_or(&cx.target.name);
    let run = format!("// RUN: optc --pass='{pass}' --target={target} %s\n");
    match write_aside(path, (run + &before.text()).as_bytes()) {
        Ok(()) => diag.note(format!("a reproducer is in `{}`", path.display())),
        Err(error) => diag.note(error.to_string()),
    }
}

/// Warnings always, remarks and times where they were asked for.
fn report(part: &Part, args: &RewriteArgs, streams: &mut Streams<'_>) {
    let said = part.before.diagnostics.iter().chain(&part.cx.remarks);
    let wanted = said.filter(|d| d.severity != Severity::Remark || args.remarks.is_some());
    let wanted: Vec<Diagnostic> = wanted.cloned().collect();
    match args.remarks {
        Some(RemarkStyle::Json) => {
            for diag in part.before.placed(wanted) {
                let line = json_line(&diag, &part.before);
                streams.error_text(&line);
            }
        }
        Some(RemarkStyle::Text) | None => streams.error_text(&part.before.render(&wanted)),
    }
    if args.stats {
        let sizes = SizeTable::new(&part.cx.bindings);
        let (registry, target) = (&part.cx.registry, &part.cx.target);
        let of = |program: &Program| Stats::on(&program.module, registry, &sizes, target);
        let (before, after) = (of(&part.before), of(&part.after));
        let bound = bound_sizes(&part.before.module, &sizes);
        let fold = part.cx.reports.get::<FoldReport>();
        streams.error_text(&stats::figures(&before, &after, fold, &bound));
    }
    if args.timing {
        streams.error_text(&timing_table(&part.timings));
    }
}

fn json_line(diag: &Diagnostic, program: &Program) -> String {
    let severity = match diag.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Remark => "remark",
    };
    let place = diag
        .labels
        .first()
        .map(|(span, _)| line_column(program.source(), span.start));
    let value = json!({
        "severity": severity,
        "code": diag.code.as_str(),
        "message": diag.message,
        "file": program.name,
        "line": place.map(|(line, _)| line),
        "column": place.map(|(_, column)| column),
        "notes": diag.notes,
    });
    value.to_string()
}

fn timing_table(timings: &[Timing]) -> String {
    let total: std::time::Duration = timings.iter().map(|t| t.time).sum();
    let mut text = String::new();
    for timing in timings {
        let ms = timing.time.as_secs_f64() * 1e3;
        let _ = writeln!(text, "{ms:10.3} ms  {}", timing.pass);
    }
    let _ = writeln!(text, "{:10.3} ms  total", total.as_secs_f64() * 1e3);
    text
}

fn write_all(
    compiler: &Compiler,
    parts: &[Part],
    emit: (Emit, EmitStage),
    args: &RewriteArgs,
    streams: &mut Streams<'_>,
) -> Result<(), Failure> {
    let explained = args
        .explain
        .as_deref()
        .map(|value| explain(parts, value))
        .transpose()?;
    let certificate = match &args.certificate {
        Some(path) => Some((path, certificate(parts, &args.compile)?)),
        None => None,
    };
    terminal::doing(|| "writing".to_owned());
    let written = emitted(parts, emit, args.compile.pass.as_deref(), streams)?;
    let mut files: Vec<(&Path, &[u8])> = Vec::new();
    if let Some((path, certificate)) = &certificate {
        files.push((path, certificate.as_bytes()));
    }
    let to_file = output_file(args);
    let outputs = to_file
        .iter()
        .flat_map(|&o| parts.iter().map(move |p| (o, p)));
    for (output, part) in outputs.clone() {
        model::keeps_data(part, output, emit.0)?;
        if args.check {
            model::check(compiler, part, output, emit.0, &written)?;
        }
        model::beside(part, output, &written.files)?;
    }
    files.extend(to_file.map(|path| (path, &written.bytes[..])));
    write_files(&files)?;
    if to_file.is_none() && explained.is_none() {
        streams.bytes(&written.bytes);
    }
    for (output, part) in outputs {
        let said = || model::summary(part, output, (emit.0, &written.bytes), args);
        if args.json {
            streams.print(&said());
        } else if args.check || !model::pipeline(args, emit.0).is_empty() {
            streams.error_text(&said());
        }
    }
    if let Some(explained) = explained {
        streams.print(&explained);
    }
    Ok(())
}

/// How a value of the result came to its form.
fn explain(parts: &[Part], value: &str) -> Result<String, Failure> {
    let explain = |p: &Part| {
        let report = p.cx.reports.get::<FoldReport>()?;
        view_fold::explain(report, &p.cx.registry, &p.after.module, value)
    };
    match parts.iter().find_map(explain) {
        Some(text) => Ok(text + "\n"),
        None if parts
            .iter()
            .all(|p| p.cx.reports.get::<FoldReport>().is_none()) =>
        {
            Err(Failure::usage("--explain wants a pipeline with view-fold"))
        }
        None => {
            let message = format!("the result has no value and no `loc` called `{value}`");
            let diag = Diagnostic::error(codes::UNKNOWN_VALUE, message).note(
                "values are called as the result prints them, nodes by the name in `loc(\"…\")`",
            );
            Err(Failure::about("--explain", diag))
        }
    }
}

/// The certificate of the one program of the input.
fn certificate(parts: &[Part], args: &CompileArgs) -> Result<String, Failure> {
    let [part] = parts else {
        return Err(Failure::usage("--certificate wants one program"));
    };
    let pipeline = args.pass.as_deref().unwrap_or("");
    match (part.cx.reports.get::<FoldReport>(), &part.canonical) {
        (Some(fold), Some(original)) => Ok(CertificateFile {
            certificate: fold.certificate(
                original,
                &part.after.module,
                &part.cx.registry,
                &part.cx.target,
            ),
            pipeline: pipeline.to_owned(),
            original: optc::text::print(original),
            folded: part.after.text(),
        }
        .to_text()),
        _ => Err(Failure::usage(
            "--certificate wants a pipeline that ends with view-fold",
        )),
    }
}

/// The programs in the format of the output; several graphs and several JSON values stand one
/// after another, several pictures are one.
fn emitted(
    parts: &[Part],
    (emit, stage): (Emit, EmitStage),
    pass: Option<&str>,
    streams: &mut Streams<'_>,
) -> Result<Written, Failure> {
    if emit == Emit::Onnx {
        return model::onnx(parts, pass);
    }
    let text = texts(parts, (emit, stage), pass, streams)?;
    Ok(Written {
        bytes: text.into_bytes(),
        files: Vec::new(),
    })
}

/// The programs in a format that is text.
fn texts(
    parts: &[Part],
    (emit, stage): (Emit, EmitStage),
    pass: Option<&str>,
    streams: &mut Streams<'_>,
) -> Result<String, Failure> {
    let registry = |part: &Part| part.cx.registry.clone();
    Ok(match emit {
        Emit::Ir => {
            let texts: Vec<String> = parts.iter().map(|part| part.after.text()).collect();
            texts.join("// -----\n")
        }
        Emit::Json => parts
            .iter()
            .map(|part| optc::to_json(&part.after.module, &registry(part)))
            .collect(),
        Emit::Hlo | Emit::StableHlo => {
            let write = match emit {
                Emit::StableHlo => optc::stablehlo::emit,
                _ => optc::hlo::emit_with,
            };
            let mut texts = Vec::with_capacity(parts.len());
            for part in parts {
                let target = Some(&*part.cx.target);
                let data = model::elements(part);
                let emitted = write(&part.after.module, target, &data);
                let emitted = emitted.map_err(|diag| part.after.error(vec![*diag]))?;
                streams.error_text(&part.after.render(&emitted.warnings));
                texts.push(emitted.text);
            }
            texts.join("// -----\n")
        }
        Emit::Linalg => {
            let mut texts = Vec::with_capacity(parts.len());
            for part in parts {
                let text = optc::linalg::emit(&part.after.module, &model::elements(part));
                texts.push(text.map_err(|diag| part.after.error(vec![*diag]))?);
            }
            joined(texts, "// -----\n")
        }
        // A model is no text; it is written elsewhere.
        Emit::Onnx => String::new(),
        Emit::Pallas => {
            let mut texts = Vec::with_capacity(parts.len());
            for part in parts {
                let target = &part.cx.target;
                let text = optc::pallas::emit(&part.after.module, &registry(part), target);
                texts.push(text.map_err(|diag| part.after.error(vec![*diag]))?);
            }
            texts.join("\n\n# -----\n")
        }
        Emit::Dot => parts
            .iter()
            .map(|part| picture(optc::to_dot, &[part], stage, pass))
            .collect(),
        Emit::Layouts => picture(
            optc::layouts_to_svg,
            &parts.iter().collect::<Vec<_>>(),
            stage,
            pass,
        ),
        Emit::Arena => picture(
            optc::arena_to_svg,
            &parts.iter().collect::<Vec<_>>(),
            EmitStage::After,
            pass,
        ),
        Emit::Svg => picture(optc::to_svg, &parts.iter().collect::<Vec<_>>(), stage, pass),
    })
}

/// Texts one after another; a single one, which may be long, as it is.
fn joined(mut texts: Vec<String>, between: &str) -> String {
    match texts.len() {
        1 => texts.swap_remove(0),
        _ => texts.join(between),
    }
}

type Painter = fn(&str, &[State<'_>], &Registry) -> String;

/// One picture of the programs in the states that are asked for.
fn picture(paint: Painter, parts: &[&Part], stage: EmitStage, pass: Option<&str>) -> String {
    let Some(first) = parts.first() else {
        return paint("", &[], &Registry::empty());
    };
    let file = Path::new(&first.before.name).file_name();
    let name = file.map_or(first.before.name.clone().into(), |n| n.to_string_lossy());
    let title = format!("{name} on {}", first.cx.target.name);
    let after = match pass {
        None | Some("") => "as it is".to_owned(),
        Some(pass) => format!("after {pass}"),
    };
    let mut states = Vec::new();
    for part in parts {
        if stage != EmitStage::After {
            states.push(State {
                title: "before",
                program: &part.before,
            });
        }
        if stage != EmitStage::Before {
            states.push(State {
                title: &after,
                program: &part.after,
            });
        }
    }
    paint(&title, &states, &first.cx.registry)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use optc::passes::PassInfo;
    use optc::{Module, Outcome, Pass, Phase};
    use std::sync::Arc;

    static INFO: PassInfo = PassInfo {
        name: "break-down",
        summary: "panic",
        phases: (Phase::Imported, Phase::Laid),
        required: false,
        options: &[],
    };

    struct BreakDown;

    impl Pass for BreakDown {
        fn info(&self) -> &'static PassInfo {
            &INFO
        }

        fn run(&self, _: &mut Module, _: &mut PassContext) -> Result<Outcome, Box<Diagnostic>> {
            std::panic::panic_any("table 7 is empty".to_owned())
        }
    }

    /// The error of a pass that panics, on a program of one operation.
    fn broken(options: &[&str]) -> (Program, Error) {
        let mut compiler = Compiler::new();
        compiler.passes_mut().add(Arc::new(BreakDown));
        let text = "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n";
        let program = compiler.parse("a.ir", text).unwrap();
        let cx = compiler.context(&program).unwrap();
        let stages = compiler.pipeline("break-down").unwrap();
        let args = ["optc", "--pass=break-down", "a.ir"].iter().chain(options);
        let args = Cli::read(args).unwrap().rewrite;
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut streams = Streams {
            input: &mut std::io::empty(),
            output: &mut output,
            errors: &mut errors,
        };
        let dump = Dump::new(&args, None).unwrap();
        let done = transform(&compiler, &stages, program.clone(), cx, &dump, &mut streams);
        (program, done.err().unwrap())
    }

    #[test]
    fn a_panic_is_a_diagnostic() {
        let (_, error) = broken(&[]);
        assert_eq!(error.code(), "internal-error");
        let text = error.to_string();
        assert!(
            text.contains("the compiler failed: table 7 is empty"),
            "{text}"
        );
        assert!(text.contains("--reproducer=FILE"), "{text}");
    }

    #[test]
    fn a_panic_leaves_a_reproducer_that_runs() {
        let path = std::env::temp_dir().join(format!("optc-reproducer-{}.ir", std::process::id()));
        let option = format!("--reproducer={}", path.display());
        let (program, error) = broken(&[&option]);
        let text = std::fs::read_to_string(&path).unwrap();
        std::fs::remove_file(&path).unwrap();
        assert!(error.to_string().contains("a reproducer is in"), "{error}");
        let run = "// RUN: optc --pass='break-down' --target=cpu %s\n";
        assert_eq!(text, run.to_owned() + &program.text());
    }
}
