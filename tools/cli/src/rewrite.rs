//! `optc [--pass=P[,P…]] IN`: reads a program, runs passes, and writes the result.

use crate::args::{CompileArgs, Emit, EmitStage, RemarkStyle, RewriteArgs};
use crate::certificate::CertificateFile;
use crate::codes;
use crate::driver::Main;
use crate::dump;
use crate::failure::{Failure, Status, blames_option};
use crate::fallback::{self, Run};
use crate::inputs::{self, Input};
use crate::model::{self, Written};
use crate::part::Part;
use crate::streams::Streams;
use crate::transform::transform_all;
use crate::{lists, stats, terminal, verify_diagnostics, whole};
use optc::passes::{Timing, view_fold};
use optc::text::Lines;
use optc::{
    Compiler, Diagnostic, Error, FoldReport, Format, Program, Registry, Severity, SizeTable, Stage,
    State, Stats, bound_sizes, distinct_outputs, write_files,
};
use serde_json::json;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// The result of a run of the command, for file tests.
pub(crate) struct Rewritten {
    pub(crate) status: Status,
    pub(crate) parts: Vec<Part>,
}

pub(crate) fn command(
    driver: &Main,
    args: &RewriteArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    execute(driver, args, streams).map(|done| done.status)
}

pub(crate) fn execute(
    driver: &Main,
    args: &RewriteArgs,
    streams: &mut Streams<'_>,
) -> Result<Rewritten, Failure> {
    let mut compiler = inputs::compiler(driver, &args.compile)?;
    if args.list_passes || args.list_rules || args.list_ops {
        list(&compiler, args, streams);
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
    compiler.whole_operators = whole::whole(emit, &stages);
    model::finish(&compiler, emit, &mut stages)?;
    if let Some(name) = &args.explain {
        explaining(&mut stages, name);
    }
    let stage = stage_of(args, emit, &stages)?;
    dump::check_names(&compiler, "--print-ir-before", &args.print_ir_before)?;
    dump::check_names(&compiler, "--print-ir-after", &args.print_ir_after)?;
    let input = Input::read(path, streams)?;
    if fallback::applies(args, emit) {
        let run = Run {
            stages: &stages,
            emit,
            args,
        };
        let (part, written) = fallback::written(&mut compiler, input, &run, streams)?;
        streams.error_text(&written.warnings);
        report(&part, args, streams);
        let parts = vec![part];
        write_all(
            &compiler,
            &parts,
            (emit, stage),
            args,
            Some(written),
            streams,
        )?;
        return Ok(Rewritten {
            status: Status::Done,
            parts,
        });
    }
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
    // The weights of the input model are freed, so that they are not held beside those that are written.
    drop(input);
    write_all(&compiler, &parts, (emit, stage), args, None, streams)?;
    Ok(Rewritten {
        status: Status::Done,
        parts,
    })
}

/// Prints the lists that are asked for.
fn list(compiler: &Compiler, args: &RewriteArgs, streams: &mut Streams<'_>) {
    if args.list_ops {
        lists::operations(compiler, streams);
    }
    if args.list_passes {
        lists::passes(compiler, streams);
    }
    if args.list_rules {
        lists::rules(compiler, streams);
    }
}

/// The failure of an input that is refused, or of which parts are. The results for the other parts go to standard
/// output. A file is not written, so that it holds either everything or its old contents.
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

/// Checks that a model is written to a file if its summary or its test is requested.
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

/// The file to which the program is written; `None` for standard output.
fn output_file(args: &RewriteArgs) -> Option<&Path> {
    args.output.as_deref().filter(|p| *p != Path::new("-"))
}

/// Checks that no two outputs are the same file, since one of them would be lost. The input may be among them, since
/// all of it is read before anything is written.
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

/// The output's format: the requested one, else the one of the output's extension.
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
    if extension == Some("mlir") {
        match inputs::format_of(args.input.as_deref(), &args.compile) {
            Some(Format::StableHlo) => return Ok(Emit::StableHlo),
            Some(Format::Linalg) => return Ok(Emit::Linalg),
            _ => {}
        }
    }
    Emit::of_extension(extension).map_err(|other| {
        let known = Emit::NAMES;
        Failure::usage(format!(
            "found no writer for `.{other}`: the formats of --emit are {known}"
        ))
    })
}

/// The states that a picture shows: the requested ones, else both if passes run.
fn stage_of(args: &RewriteArgs, emit: Emit, stages: &[Stage]) -> Result<EmitStage, Failure> {
    match args.emit_stage {
        Some(_) if !emit.is_picture() => Err(Failure::usage(
            "--emit-stage wants a picture: --emit=dot, svg or model-explorer",
        )),
        Some(stage) => Ok(stage),
        None if stages.is_empty() => Ok(EmitStage::After),
        None => Ok(EmitStage::Both),
    }
}

/// Tells the passes that can explain a value to keep their reasons, and to weigh the alternatives.
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

/// Prints warnings, and remarks and times if they are requested.
fn report(part: &Part, args: &RewriteArgs, streams: &mut Streams<'_>) {
    let said = part.before.diagnostics.iter().chain(&part.cx.remarks);
    let wanted = said.filter(|d| d.severity != Severity::Remark || args.remarks.is_some());
    let wanted: Vec<Diagnostic> = wanted.cloned().collect();
    match args.remarks {
        Some(RemarkStyle::Json) => {
            let lines = Lines::new(part.before.source());
            for diag in part.before.placed(wanted) {
                let line = json_line(&diag, &part.before.name, &lines);
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

fn json_line(diag: &Diagnostic, file: &str, lines: &Lines<'_>) -> String {
    let severity = match diag.severity {
        Severity::Error => "error",
        Severity::Warning => "warning",
        Severity::Remark => "remark",
    };
    let place = diag
        .labels
        .first()
        .map(|(span, _)| lines.position(span.start));
    let value = json!({
        "severity": severity,
        "code": diag.code.as_str(),
        "message": diag.message,
        "file": file,
        "line": place.as_ref().map(|at| at.line),
        "column": place.as_ref().map(|at| at.column),
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
    written: Option<Written>,
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
    let pass = args.compile.pass.as_deref();
    let mut written = match written {
        Some(written) => written,
        None => emitted(parts, emit, pass, streams)?,
    };
    let node_data = node_data(parts, emit, args);
    let mut files: Vec<(&Path, &[u8])> = Vec::new();
    if let Some((path, certificate)) = &certificate {
        files.push((path, certificate.as_bytes()));
    }
    let to_file = output_file(args);
    let outputs = to_file
        .iter()
        .flat_map(|&o| parts.iter().map(move |p| (o, p)));
    for (output, part) in outputs.clone() {
        if written.again.is_none() && summed_up(args, emit.0) {
            written.again = model::read_back(compiler, part, emit.0, (pass, &written)).ok();
        }
        model::keeps_data(part, output, emit.0)?;
        if args.check {
            model::check(compiler, part, output, emit.0, &written)?;
        }
        model::beside(part, output, &written.files)?;
    }
    files.extend(to_file.map(|path| (path, &written.bytes[..])));
    files.extend(
        node_data
            .iter()
            .map(|(path, text)| (&**path, text.as_bytes())),
    );
    write_files(&files)?;
    if to_file.is_none() && explained.is_none() {
        streams.bytes(&written.bytes);
    }
    for (output, part) in outputs {
        let said = || model::summary(part, output, &written, args);
        if args.json {
            streams.print(&said());
        } else if summed_up(args, emit.0) {
            streams.error_text(&said());
        }
    }
    if let Some(explained) = explained {
        streams.print(&explained);
    }
    Ok(())
}

/// The bytes that operations move as node data for Model Explorer, and the file for it: beside `OUT.json` it is
/// `OUT.bytes.json`. `None` for other formats and for standard output.
fn node_data(
    parts: &[Part],
    (emit, stage): (Emit, EmitStage),
    args: &RewriteArgs,
) -> Option<(PathBuf, String)> {
    let output = output_file(args).filter(|_| emit == Emit::ModelExplorer)?;
    let data: Painter =
        |title, states, registry| optc::to_model_explorer(title, states, registry).node_data;
    let pass = args.compile.pass.as_deref();
    let text = picture(data, &parts.iter().collect::<Vec<_>>(), stage, pass);
    Some((output.with_extension("bytes.json"), text))
}

/// True if a summary of the result is printed.
fn summed_up(args: &RewriteArgs, emit: Emit) -> bool {
    args.json || args.check || !model::pipeline(args, emit).is_empty()
}

/// The history of a value's form in the result.
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

/// The programs in the format of the output. Several graphs and several JSON values follow one another; several
/// pictures become one.
fn emitted(
    parts: &[Part],
    (emit, stage): (Emit, EmitStage),
    pass: Option<&str>,
    streams: &mut Streams<'_>,
) -> Result<Written, Failure> {
    if emit == Emit::Onnx {
        let [part] = parts else {
            return Err(Failure::usage("--emit=onnx wants one program"));
        };
        return Ok(model::emitted(part, emit, pass)?);
    }
    let text = texts(parts, (emit, stage), pass, streams)?;
    Ok(Written {
        bytes: text.into_bytes(),
        ..Written::default()
    })
}

/// The programs in a text format.
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
            let mut texts = Vec::with_capacity(parts.len());
            for part in parts {
                let written = model::emitted(part, emit, pass)?;
                streams.error_text(&written.warnings);
                texts.push(String::from_utf8_lossy(&written.bytes).into_owned());
            }
            texts.join("// -----\n")
        }
        Emit::Linalg => {
            let mut texts = Vec::with_capacity(parts.len());
            for part in parts {
                let text = optc::linalg::emit(
                    &part.after.module,
                    &part.cx.registry,
                    &model::elements(part),
                );
                texts.push(text.map_err(|diag| part.after.error(vec![*diag]))?);
            }
            joined(texts, "// -----\n")
        }
        // A model is not text and is written elsewhere.
        Emit::Onnx => String::new(),
        Emit::Pallas | Emit::Jax | Emit::Triton => {
            let mut texts = Vec::with_capacity(parts.len());
            for part in parts {
                let (module, registry) = (&part.after.module, &registry(part));
                let text = match emit {
                    Emit::Jax => optc::jax::emit(module, registry, &part.cx.target),
                    Emit::Triton => optc::triton::emit(module, registry, &part.cx.target),
                    _ => optc::pallas::emit(module, registry, &part.cx.target),
                };
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
        Emit::ModelExplorer => {
            let graphs: Painter =
                |title, states, registry| optc::to_model_explorer(title, states, registry).graphs;
            picture(graphs, &parts.iter().collect::<Vec<_>>(), stage, pass)
        }
        Emit::Svg => picture(optc::to_svg, &parts.iter().collect::<Vec<_>>(), stage, pass),
    })
}

/// Joins texts; a single text, which may be long, is moved.
fn joined(mut texts: Vec<String>, between: &str) -> String {
    match texts.len() {
        1 => texts.swap_remove(0),
        _ => texts.join(between),
    }
}

type Painter = fn(&str, &[State<'_>], &Registry) -> String;

/// One picture of the programs in the requested states.
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
