//! Runs passes on the programs of an input.

use crate::args::{Emit, RewriteArgs};
use crate::dump::Dump;
use crate::failure::Failure;
use crate::inputs::{self, Input};
use crate::model;
use crate::part::Part;
use crate::streams::Streams;
use crate::terminal;
use optc::passes::{Hooks, Timing};
use optc::{Compiler, Diagnostic, Error, PassContext, Program, Stage, internal_error, write_aside};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// Runs the passes on every module of the input; a module that is refused does not stop the others.
pub(crate) fn transform_all(
    compiler: &Compiler,
    stages: &[Stage],
    (input, emit): (&Input, Emit),
    args: &RewriteArgs,
    streams: &mut Streams<'_>,
) -> Result<(Vec<Part>, Vec<Error>), Failure> {
    let (mut parts, mut errors) = (Vec::new(), Vec::new());
    let from = args.compile.from.as_deref();
    let programs = input.programs(compiler, from, args.split_input_file);
    let read: Vec<_> = programs.iter().flatten().collect();
    inputs::check_bindings(&args.compile.bind, &read)?;
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
        let diag = internal_error(args.program, &*panic);
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

/// Writes the program and the command that failed on it to a file, if the user requested it. The diagnostic gets a
/// note.
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
    let run = format!(
        "// RUN: {} --pass='{pass}' --target={target} %s\n",
        args.program
    );
    match write_aside(path, (run + &before.text()).as_bytes()) {
        Ok(()) => diag.note(format!("a reproducer is in `{}`", path.display())),
        Err(error) => diag.note(error.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::command_line;
    use crate::driver::Main;
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
        let args = command_line::read(&Main::default(), args).unwrap().rewrite;
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
