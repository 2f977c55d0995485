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
use std::sync::atomic::{AtomicUsize, Ordering};

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
    trial.write(&reduced.module, &args.output)??;
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
    /// Files with weights lie beside the file that the test reads, so that it has a folder of its own.
    folder: Folder,
}

/// The number of folders that this process has made.
static FOLDERS: AtomicUsize = AtomicUsize::new(0);

/// A folder that is removed with all that is in it.
struct Folder(PathBuf);

impl Folder {
    fn new() -> Result<Folder, Failure> {
        let number = FOLDERS.fetch_add(1, Ordering::Relaxed);
        let name = format!("optc-reduce-{}-{number}", std::process::id());
        let folder = Folder(std::env::temp_dir().join(name));
        let made = std::fs::create_dir_all(&folder.0);
        made.map_err(|e| Error::io("write", &folder.0, &e))?;
        Ok(folder)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
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
            Format::Linalg => Emit::Linalg,
        };
        Ok(Trial {
            args,
            compiler,
            program,
            cx: compiler.context(program)?,
            emit,
            folder: Folder::new()?,
        })
    }

    /// Returns whether the test fails on a module. One that its format cannot write does not count.
    fn fails(&self, module: &Module) -> Result<bool, Failure> {
        // The file has the extension of the output: the command may tell formats by it.
        let name = self.args.output.file_name().unwrap_or_default();
        let file = self.folder.0.join(name);
        if self.write(module, &file)?.is_err() {
            return Ok(false);
        }
        let ran = run(&self.args.test, &file);
        let ran = ran.map_err(|e| Error::io("read", Path::new(&self.args.test), &e))?;
        let _ = std::fs::remove_file(&file);
        let says = match &self.args.says {
            Some(text) => [&ran.stdout, &ran.stderr]
                .iter()
                .any(|stream| String::from_utf8_lossy(stream).contains(text)),
            None => true,
        };
        Ok(!ran.status.success() && says)
    }

    /// Writes a module in the format of the output, with the files of its weights beside it; the inner error is of the
    /// format.
    fn write(&self, module: &Module, path: &Path) -> Result<Result<(), Error>, Failure> {
        let mut program = self.program.clone();
        program.module = module.clone();
        let mut part = Part {
            after: program.clone(),
            before: program,
            cx: self.cx.clone(),
            timings: Vec::new(),
            canonical: None,
        };
        let (bytes, files) = if self.emit == Emit::Ir {
            (part.after.text().into_bytes(), model::files_of(&part.after))
        } else {
            let stages = self.compiler.pipeline("normalize-layouts")?;
            let (after, cx) = (&mut part.after, &mut part.cx);
            let mut hooks = optc::passes::Hooks::default();
            let done = self.compiler.run_passes(after, &stages, cx, &mut hooks);
            match done.and_then(|_| model::emitted(&part, self.emit, Some(""))) {
                Ok(written) => (written.bytes, written.files),
                Err(error) => return Ok(Err(error)),
            }
        };
        write_aside(path, &bytes)?;
        model::beside(&part, path, &files)?;
        Ok(Ok(()))
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
