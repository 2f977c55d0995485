//! `optc reduce`: the smallest program on which a command still fails.

use crate::args::{Emit, ReduceArgs};
use crate::codes;
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::inputs::Input;
use crate::model;
use crate::part::Part;
use crate::streams::Streams;
use optc::{Compiler, Diagnostic, Error, Format, Module, PassContext, Program, write_aside};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

pub(crate) fn command(
    driver: &Main,
    args: &ReduceArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let compiler = &driver.compiler;
    let program = Input::read(&args.input, streams)?.program(compiler, args.from.as_deref())?;
    let trial = Trial::new(args, compiler, &program)?;
    let mut failure = None;
    let mut fails = |module: &Module| match trial.fails(module) {
        Ok(fails) => fails,
        Err(error) => {
            failure.get_or_insert(error);
            false
        }
    };
    let found = optc::reduce::reduce(&program.module, compiler.registry(), &mut fails);
    if let Some(failure) = failure {
        return Err(failure);
    }
    let Some(reduced) = found else {
        let message = format!("the test `{}` does not fail on the program", args.test);
        let diag = Diagnostic::error(codes::TEST_PASSES, message);
        let hint = "the command fails with an exit status other than 0, and with --says if it prints this text";
        return Err(Failure::about(&program.name, diag.hint(hint)));
    };
    let bytes = trial.written(&reduced.module)?;
    let bytes = bytes.map_err(Failure::from)?;
    write_aside(&args.output, &bytes)?;
    let count = |module: &Module| -> usize { module.funcs.iter().map(|f| f.body.len()).sum() };
    streams.error_text(&format!(
        "{}: {} operations in place of {}, {} programs tried",
        args.output.display(),
        count(&reduced.module),
        count(&program.module),
        reduced.tests
    ));
    Ok(Status::Done)
}

/// The test, and the file that it reads.
struct Trial<'a> {
    args: &'a ReduceArgs,
    compiler: &'a Compiler,
    program: &'a Program,
    cx: PassContext,
    emit: Emit,
    file: PathBuf,
}

impl<'a> Trial<'a> {
    fn new(
        args: &'a ReduceArgs,
        compiler: &'a Compiler,
        program: &'a Program,
    ) -> Result<Trial<'a>, Failure> {
        let format = Format::of_extension(&args.output.display().to_string());
        let emit = match format.unwrap_or(program.format) {
            Format::Ir => Emit::Ir,
            Format::Onnx => Emit::Onnx,
            Format::StableHlo => Emit::StableHlo,
            Format::Hlo => Emit::Hlo,
        };
        // The test's file has the extension of the output: the command may tell formats by it.
        let mut name = args.output.file_name().unwrap_or_default().to_os_string();
        name = format!(
            "optc-reduce-{}-{}",
            std::process::id(),
            name.to_string_lossy()
        )
        .into();
        Ok(Trial {
            args,
            compiler,
            program,
            cx: compiler.context(program)?,
            emit,
            file: std::env::temp_dir().join(name),
        })
    }

    /// Returns whether the test fails on a module. One that its format cannot write does not count.
    fn fails(&self, module: &Module) -> Result<bool, Failure> {
        let Ok(bytes) = self.written(module)? else {
            return Ok(false);
        };
        write_aside(&self.file, &bytes)?;
        let ran = run(&self.args.test, &self.file);
        let ran = ran.map_err(|e| Error::io("read", Path::new(&self.args.test), &e))?;
        let _ = std::fs::remove_file(&self.file);
        let says = match &self.args.says {
            Some(text) => [&ran.stdout, &ran.stderr]
                .iter()
                .any(|stream| String::from_utf8_lossy(stream).contains(text)),
            None => true,
        };
        Ok(!ran.status.success() && says)
    }

    /// The bytes of a module in the format of the output; the inner error is of the format.
    fn written(&self, module: &Module) -> Result<Result<Vec<u8>, Error>, Failure> {
        let mut program = self.program.clone();
        program.module = module.clone();
        if self.emit == Emit::Ir {
            return Ok(Ok(program.text().into_bytes()));
        }
        let stages = self.compiler.pipeline("normalize-layouts")?;
        let mut cx = self.cx.clone();
        let mut after = program.clone();
        let done = self.compiler.run_passes(
            &mut after,
            &stages,
            &mut cx,
            &mut optc::passes::Hooks::default(),
        );
        let part = Part {
            before: program,
            after,
            cx,
            timings: Vec::new(),
            canonical: None,
        };
        Ok(done.and_then(|_| Ok(model::emitted(&part, self.emit, Some(""))?.bytes)))
    }
}

/// Runs a test on a file.
fn run(test: &str, file: &Path) -> std::io::Result<std::process::Output> {
    let quoted = format!("'{}'", file.display().to_string().replace('\'', r"'\''"));
    let line = match test.contains("%s") {
        true => test.replace("%s", &quoted),
        false => format!("{test} {quoted}"),
    };
    Command::new("sh")
        .arg("-c")
        .arg(line)
        .stdin(Stdio::null())
        .output()
}
