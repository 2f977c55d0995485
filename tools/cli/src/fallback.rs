//! The fallback for a model that cannot be written, in part or as a whole: it is written as it was read.
//!
//! If input and output have the same format, the model is written and read back before it replaces the output. If a
//! pass, the writer or the reader refuses an operation, the nodes of its origin are held unchanged and the rest is
//! folded again. The original is written if there is nothing left to hold, if the result moves more than the original,
//! or if it moves the same with more transposes. A remark (`kept-as-read`) reports each case.

use crate::args::{Emit, RewriteArgs};
use crate::codes;
use crate::failure::{Failure, blames_option};
use crate::inputs::{self, Input};
use crate::model::{self, Written};
use crate::part::Part;
use crate::streams::Streams;
use crate::transform::transform_all;
use crate::whole;
use optc::{Compiler, Diagnostic, Error, Program, Severity, SizeTable, Stage, Stats};
use std::path::Path;
use std::sync::Arc;

/// The most rounds of holding nodes. After these the whole model is kept.
const MOST_ROUNDS: usize = 16;

/// Codes of refusals of a form of the program, not of the program itself.
const ABOUT_FORMS: [&str; 9] = [
    "hlo-layout-inexpressible",
    "normalize-layout",
    "onnx-invalid",
    "onnx-layout",
    "onnx-op",
    "rearrange-unknown-size",
    "stablehlo-layout",
    "stablehlo-op",
    "written-invalid",
];

/// A command: the stages, the output format and the arguments.
pub(crate) struct Run<'a> {
    pub(crate) stages: &'a [Stage],
    pub(crate) emit: Emit,
    pub(crate) args: &'a RewriteArgs,
}

impl Run<'_> {
    fn from(&self) -> Option<&str> {
        self.args.compile.from.as_deref()
    }

    fn pass(&self) -> Option<&str> {
        self.args.compile.pass.as_deref()
    }
}

/// True if a model may be written as it was read: it is in the format of the output, and no option asks about its fold.
pub(crate) fn applies(args: &RewriteArgs, emit: Emit) -> bool {
    let asked = args.explain.is_some()
        || args.certificate.is_some()
        || args.verify_diagnostics
        || args.split_input_file;
    let own = model::format_of(emit);
    !asked && own.is_some() && own == inputs::format_of(args.input.as_deref(), &args.compile)
}

/// The one program of the input after the passes, and the model as it is written.
pub(crate) fn written(
    compiler: &mut Compiler,
    input: Input,
    run: &Run<'_>,
    streams: &mut Streams<'_>,
) -> Result<(Part, Written), Failure> {
    let mut source = InputFile {
        path: run.args.input.as_deref().unwrap_or(Path::new("-")),
        input: Some(input),
    };
    let mut held: Vec<Diagnostic> = Vec::new();
    loop {
        let input = source.take(streams)?;
        let done = transform_all(compiler, run.stages, (&input, run.emit), run.args, streams)?;
        source.give_back(input);
        let failed = match attempt(compiler, done, run) {
            Ok((mut part, mut written)) => {
                match worse(compiler, &part, &mut written, run, &mut source, streams)? {
                    None => {
                        part.cx.remarks.extend(held);
                        return Ok((part, written));
                    }
                    Some(diag) => vec![part.before.error(vec![diag])],
                }
            }
            Err(failed) => failed,
        };
        let [reason] = &failed[..] else {
            return Err(refused(failed));
        };
        if !is_about_forms(reason) {
            return Err(refused(failed));
        }
        match hold(compiler, reason) {
            Some(remark) if held.len() < MOST_ROUNDS => held.push(remark),
            _ => return as_read(compiler, source.take(streams)?, run, reason),
        }
    }
}

/// The input. A file is read again if needed, so that its weights are not held beside those that are written.
struct InputFile<'a> {
    path: &'a Path,
    input: Option<Input>,
}

impl InputFile<'_> {
    fn take(&mut self, streams: &mut Streams<'_>) -> Result<Input, Failure> {
        match self.input.take() {
            Some(input) => Ok(input),
            None => Input::read(self.path, streams),
        }
    }

    fn give_back(&mut self, input: Input) {
        self.input = (self.path == Path::new("-")).then_some(input);
    }
}

fn refused(failed: Vec<Error>) -> Failure {
    let text: String = failed.iter().map(Error::render).collect();
    match failed.into_iter().find(blames_option) {
        Some(error) => error.into(),
        None => Failure::check(text),
    }
}

/// Writes the program after the passes, and reads it back.
fn attempt(
    compiler: &Compiler,
    (mut parts, errors): (Vec<Part>, Vec<Error>),
    run: &Run<'_>,
) -> Result<(Part, Written), Vec<Error>> {
    let Some(part) = parts.pop().filter(|_| errors.is_empty()) else {
        return Err(errors);
    };
    let done = model::emitted(&part, run.emit, run.pass()).and_then(|mut written| {
        let again = model::read_back(compiler, &part, run.emit, (run.pass(), &written))?;
        written.again = Some(again);
        Ok(written)
    });
    match done {
        Ok(written) => Ok((part, written)),
        Err(error) => Err(vec![error]),
    }
}

/// The error of a result that moves more than the original does. On a machine with tiles the original is in no tiles, so
/// its bytes are no measure; there `view-fold` compares the result with naive lowering.
fn worse(
    compiler: &Compiler,
    part: &Part,
    written: &mut Written,
    run: &Run<'_>,
    source: &mut InputFile<'_>,
    streams: &mut Streams<'_>,
) -> Result<Option<Diagnostic>, Failure> {
    if part.cx.target.is_tiled() {
        return Ok(None);
    }
    let counted = |program: &Program| {
        let sizes = SizeTable::new(&part.cx.bindings);
        Stats::at(&program.module, &part.cx.registry, &sizes)
    };
    let after = moved(&counted(written.again.as_ref().unwrap_or(&part.after)));
    let mut before = moved(&counted(&part.before));
    if !compiler.held_nodes.is_empty() {
        // Nodes that are held hide the bytes that they move.
        let input = source.take(streams)?;
        let reader = whole::reader(compiler, run.pass());
        let stats = counted(&input.program(&reader, run.from())?);
        source.give_back(input);
        before = moved(&stats);
        written.before = Some(stats);
    }
    let message = match before.0 == after.0 {
        true => "the result would move as much, with more transposes".to_owned(),
        false => format!(
            "the result would move {} bytes, the original moves {}",
            after.0, before.0
        ),
    };
    Ok((before < after).then(|| Diagnostic::error(codes::WRITTEN_INVALID, message)))
}

/// The bytes that a program moves, copies and expands, and the number of its transposes.
fn moved(stats: &Stats) -> (u64, u64) {
    let all = [stats.movement_bytes, stats.copy_bytes, stats.expand_bytes];
    let bytes = all.into_iter().fold(0, u64::saturating_add);
    (bytes, stats.transpose)
}

fn is_about_forms(error: &Error) -> bool {
    let wrong = error.diagnostics.iter();
    let mut wrong = wrong.filter(|d| d.severity == Severity::Error);
    wrong.all(|d| ABOUT_FORMS.contains(&d.code.as_str()))
}

/// Holds the nodes that an error is about; `None` if the error names no node that is not held already.
fn hold(compiler: &mut Compiler, error: &Error) -> Option<Diagnostic> {
    let about = error.diagnostics.iter().flat_map(|d| &d.origin);
    let new: Vec<Arc<str>> = about
        .filter(|&name| !compiler.held_nodes.contains(name))
        .cloned()
        .collect();
    compiler.held_nodes.extend(new.iter().cloned());
    let mut remark = Diagnostic::remark(codes::KEPT_AS_READ, "");
    remark.origin = new;
    remark.message = format!("{} is written unchanged", remark.parts()?);
    Some(reasoned(remark, error))
}

/// A remark with its first reason.
fn reasoned(remark: Diagnostic, error: &Error) -> Diagnostic {
    let mut reasons = error.diagnostics.iter();
    match reasons.find(|d| d.severity == Severity::Error) {
        Some(reason) => remark.note(&*reason.message),
        None => remark,
    }
}

/// The model as it was read.
fn as_read(
    compiler: &mut Compiler,
    input: Input,
    run: &Run<'_>,
    reason: &Error,
) -> Result<(Part, Written), Failure> {
    compiler.held_nodes.clear();
    let mut program = input.program(&whole::reader(compiler, run.pass()), run.from())?;
    inputs::set_data(&mut program, run.args.compile.data.as_deref())?;
    let mut cx = inputs::context(compiler, &program, &run.args.compile)?;
    let remark = Diagnostic::remark(codes::KEPT_AS_READ, "the model is written unchanged");
    cx.remarks.push(reasoned(remark, reason));
    let written = Written {
        files: match run.emit {
            Emit::Onnx => optc::onnx::files_of(&input.bytes),
            _ => Vec::new(),
        },
        bytes: input.bytes,
        warnings: String::new(),
        again: Some(program.clone()),
        before: None,
    };
    let part = Part {
        before: program.clone(),
        after: program,
        cx,
        timings: Vec::new(),
        canonical: None,
    };
    Ok((part, written))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;
    use crate::driver::Main;
    use optc::passes::PassInfo;
    use optc::{Code, Module, Outcome, Pass, PassContext, Phase, codes::shared};
    use std::path::PathBuf;

    static INFO: PassInfo = PassInfo {
        name: "refuse-tanh",
        summary: "refuse programs with a hyperbolic tangent",
        phases: (Phase::Imported, Phase::Laid),
        required: false,
        options: &[],
    };

    const REFUSED: Code = Code::input("normalize-layout", "", "", "");

    /// Refuses programs with a hyperbolic tangent, and states its origin if asked to.
    struct RefuseTanh {
        code: Code,
        says_where: bool,
    }

    impl Pass for RefuseTanh {
        fn info(&self) -> &'static PassInfo {
            &INFO
        }

        fn run(
            &self,
            module: &mut Module,
            _: &mut PassContext,
        ) -> Result<Outcome, Box<Diagnostic>> {
            let func = &module.funcs[0];
            let mut ops = func.body.iter().map(|&op| &func.ops[op]);
            let Some(op) = ops.find(|op| &*op.name == "hbir.tanh") else {
                return Ok(optc::Changed::No.into());
            };
            let names = op.loc.names();
            let names = names.into_iter().filter(|_| self.says_where);
            Err(Box::new(
                Diagnostic::error(self.code, "no tangents").of(names),
            ))
        }
    }

    /// A model of two tangents between transposes that cancel.
    fn model(name: &str) -> PathBuf {
        let text = r#"
            %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32> loc("t")
            %1 = "hbir.relu"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32> loc("r")
            %2 = "hbir.transpose"(%1) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32> loc("u")
            %3 = "hbir.tanh"(%2) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("a")
            %4 = "hbir.tanh"(%3) : (tensor<2x3xf32>) -> tensor<2x3xf32> loc("b")
        "#;
        let program = Compiler::new().parse("a.ir", text).unwrap();
        let data = |_: &str, _, _, _| Err(String::new());
        let emitted = optc::onnx::emit(
            &program.module,
            Compiler::new().registry(),
            optc::onnx::Options::default(),
            &data,
        )
        .unwrap();
        let path = std::env::temp_dir().join(format!("optc-{name}-{}.onnx", std::process::id()));
        std::fs::write(&path, emitted.bytes).unwrap();
        path
    }

    fn ran(name: &str, pass: RefuseTanh) -> (Vec<u8>, Result<(Part, Written), Failure>) {
        let path = model(name);
        let mut compiler = Compiler::new();
        compiler.passes_mut().add(Arc::new(pass));
        let stages = compiler
            .pipeline("refuse-tanh,default,normalize-layouts")
            .unwrap();
        let text = path.display().to_string();
        let args = ["optc", "--pass=default", &text, "-o", "out.onnx"];
        let args = command_line::read(&Main::default(), args).unwrap().rewrite;
        let mut streams = Streams {
            input: &mut std::io::empty(),
            output: &mut std::io::sink(),
            errors: &mut std::io::sink(),
        };
        assert!(applies(&args, Emit::Onnx));
        let input = Input::read(&path, &mut streams).unwrap();
        let bytes = input.bytes.clone();
        let run = Run {
            stages: &stages,
            emit: Emit::Onnx,
            args: &args,
        };
        let done = written(&mut compiler, input, &run, &mut streams);
        std::fs::remove_file(&path).unwrap();
        (bytes, done)
    }

    fn kept(part: &Part) -> Vec<String> {
        let remarks = part.cx.remarks.iter();
        let kept = remarks.filter(|d| d.code == "kept-as-read");
        kept.map(|d| format!("{}: {}", d.message, d.notes.join("; ")))
            .collect()
    }

    #[test]
    fn what_is_refused_goes_out_as_it_came_in_and_the_rest_is_folded() {
        let pass = RefuseTanh {
            code: REFUSED,
            says_where: true,
        };
        let (_, done) = ran("region", pass);
        let (part, written) = done.map_err(|failure| failure.text).unwrap();
        assert_eq!(
            kept(&part),
            [
                "`a` is written unchanged: no tangents",
                "`b` is written unchanged: no tangents",
            ]
        );
        let again = written.again.unwrap();
        let func = again.entry().unwrap();
        let names: Vec<&str> = func.body.iter().map(|&op| &*func.ops[op].name).collect();
        assert_eq!(names, ["hbir.relu", "hbir.tanh", "hbir.tanh"]);
    }

    #[test]
    fn what_names_no_part_keeps_the_model() {
        let pass = RefuseTanh {
            code: REFUSED,
            says_where: false,
        };
        let (bytes, done) = ran("whole", pass);
        let (part, written) = done.map_err(|failure| failure.text).unwrap();
        assert_eq!(kept(&part), ["the model is written unchanged: no tangents"]);
        assert!(written.bytes == bytes);
    }

    #[test]
    fn what_is_about_no_form_is_an_error() {
        let pass = RefuseTanh {
            code: shared::INTERNAL_ERROR,
            says_where: true,
        };
        let (_, done) = ran("error", pass);
        let failure = done.err().unwrap();
        assert!(failure.text.contains("no tangents"), "{}", failure.text);
    }
}
