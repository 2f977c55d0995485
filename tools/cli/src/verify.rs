//! `optc verify`: tests or certifies that two programs compute the same.

use crate::args::{VerifyArgs, VerifyOptions};
use crate::certificate::CertificateFile;
use crate::codes;
use crate::driver::Main;
use crate::failure::{Failure, Status};
use crate::inputs::{self, Input};
use crate::streams::Streams;
use crate::terminal;
use indexmap::IndexSet;
use optc::interp::{EquivalenceOptions, NotEquivalent, equivalent};
use optc::{Compiler, Diagnostic, Program, Structure, read_text};
use std::path::Path;
use std::sync::Arc;

pub(crate) fn command(
    driver: &Main,
    args: &VerifyArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let mut compiler = driver.compiler.clone();
    inputs::bind(&mut compiler, &args.options.bind)?;
    let mut programs = Vec::new();
    for path in &args.inputs {
        let input = Input::read(path, streams)?;
        let mut program = input.program(&compiler, args.options.from.as_deref())?;
        inputs::set_data(&mut program, args.options.data.as_deref())?;
        programs.push(program);
    }
    inputs::check_bindings(&args.options.bind, &programs.iter().collect::<Vec<_>>())?;
    match (&args.certificate, programs.as_slice()) {
        (Some(path), programs) => {
            let read = check_certificate(&compiler, path, programs, args)?;
            streams.line("certified");
            streams.line(&read);
        }
        (None, [a, b]) => {
            test(&compiler, a, b, &args.options)?;
            streams.line("equivalent");
            let opaque = opaque_kinds(&compiler, b);
            if !opaque.is_empty() {
                let note = "note: treated as unknown functions of their operands";
                streams.error_text(&format!("{note}: {}", opaque.join(", ")));
            }
        }
        (None, _) => {
            return Err(Failure::usage(
                "found one program, wanted two, or --certificate",
            ));
        }
    }
    Ok(Status::Done)
}

/// The names of two programs in messages: their files, with a distinction if it is one file.
pub(crate) fn names(a: &Program, b: &Program) -> [String; 2] {
    match a.name == b.name {
        true => [
            format!("{} (first)", a.name),
            format!("{} (second)", b.name),
        ],
        false => [a.name.clone(), b.name.clone()],
    }
}

/// The opaque operations of a program by their names in their own format, each once.
fn opaque_kinds(compiler: &Compiler, program: &Program) -> Vec<String> {
    let mut kinds = IndexSet::new();
    for func in &program.module.funcs {
        for op in func.body.iter().map(|&op| &func.ops[op]) {
            if compiler.registry().structure(&op.name) == Structure::Opaque {
                kinds.insert(op.props.str("kind").unwrap_or(&op.name).to_owned());
            }
        }
    }
    kinds.into_iter().collect()
}

/// Runs both programs on seeded inputs and edge values, on logical tensors and on their layouts.
fn test(
    compiler: &Compiler,
    a: &Program,
    b: &Program,
    args: &VerifyOptions,
) -> Result<(), Failure> {
    let func = inputs::function(a, args.func.as_deref())?;
    if args.func.is_some() {
        inputs::function(b, args.func.as_deref())?;
    }
    let options = EquivalenceOptions {
        func,
        seeds: (0..args.seeds).collect(),
        naive: !args.reference_only,
        uninterpreted: true,
        names: Arc::new(names(a, b)),
        bindings: compiler.bindings.clone(),
        ..EquivalenceOptions::default()
    };
    let invent = args.random_weights;
    let (data_a, data_b) = (inputs::weights(a, invent), inputs::weights(b, invent));
    terminal::doing(|| format!("{}, {}: running both", a.name, b.name));
    let (registry, modules) = (compiler.registry(), (&a.module, &b.module));
    equivalent(modules.0, modules.1, registry, &*data_a, &*data_b, &options)
        .map_err(|error| refusal(&error, a, b, &options.names))
}

/// The failure of a comparison, attributed to the program that it is about.
pub(crate) fn refusal(
    error: &NotEquivalent,
    a: &Program,
    b: &Program,
    names: &[String; 2],
) -> Failure {
    match error {
        NotEquivalent::Boundary(_) => Failure::about(
            &b.name,
            Diagnostic::error(codes::BOUNDARY_DIFFERS, error.to_string()),
        ),
        NotEquivalent::Differs { .. } => Failure::about(
            &b.name,
            Diagnostic::error(codes::NOT_EQUIVALENT, error.to_string()),
        ),
        NotEquivalent::Run {
            which,
            fill,
            seed,
            sizes,
            source,
            ..
        } => {
            let program = if which.is_first() { a } else { b };
            let run = format!(
                "running {}: {fill:?}, seed {seed}{sizes}",
                which.describe(names)
            );
            program.error(vec![source.to_diagnostic().note(run)]).into()
        }
    }
}

/// Checks a certificate. One program is the input or the output of the passes; two are both. Reports which files it has
/// read, and as what.
fn check_certificate(
    compiler: &Compiler,
    path: &Path,
    programs: &[Program],
    args: &VerifyArgs,
) -> Result<String, Failure> {
    let name = path.display().to_string();
    let text = read_text(path)?;
    let file = CertificateFile::from_text(&name, &text)?;
    let original = compiler.parse(&format!("{name} (original)"), &file.original)?;
    let mut folded = compiler.parse(&format!("{name} (folded)"), &file.folded)?;
    let inside = |what: &str| format!("{what} text in {name}");
    let (mut first, mut second) = (inside("the original's"), inside("the folded program's"));
    match programs {
        [program] if program.text() == file.folded => second.clone_from(&program.name),
        [program] => {
            check_original(compiler, &file, program, args)?;
            first.clone_from(&program.name);
        }
        [program, result] => {
            check_original(compiler, &file, program, args)?;
            folded = result.clone();
            first.clone_from(&program.name);
            second.clone_from(&result.name);
        }
        _ => return Err(Failure::usage("--certificate wants one program or two")),
    }
    let target = match &args.options.target {
        Some(name) => compiler.find_target(name)?,
        None => compiler.default_target(&folded)?,
    };
    let (registry, certificate) = (compiler.registry(), &file.certificate);
    let checked = optc::check::check(
        &original.module,
        &folded.module,
        certificate,
        registry,
        &target,
    );
    checked.map_err(|diags| {
        // Diagnostics of the target are about the operations of the result, all others about the original's.
        let (target, rest): (Vec<_>, Vec<_>) = diags
            .into_iter()
            .partition(|d| d.code.as_str().starts_with("target-"));
        let errors = [(&original, rest), (&folded, target)].into_iter();
        let said = errors.filter(|(_, diags)| !diags.is_empty());
        Failure::check(
            said.map(|(program, diags)| program.error(diags).render())
                .collect::<String>(),
        )
    })?;
    Ok(format!(
        "  certificate  {name}, by the witness of `{}` for target {}\n  original     {first}, sha256:{}\n  folded       {second}, sha256:{}",
        file.pipeline, target.name, certificate.original, certificate.folded
    ))
}

/// Checks that the certificate is about the program: the passes before `view-fold` must turn the program into the
/// certificate's input of `view-fold`.
fn check_original(
    compiler: &Compiler,
    file: &CertificateFile,
    program: &Program,
    args: &VerifyArgs,
) -> Result<(), Failure> {
    let stages = compiler.pipeline(&file.pipeline)?;
    let first = &stages[..stages.len().saturating_sub(1)];
    let mut compiler = compiler.clone();
    let target = args
        .options
        .target
        .as_deref()
        .unwrap_or(&file.certificate.target);
    compiler.target = Some(Arc::new(compiler.find_target(target)?));
    let mut program = program.clone();
    let mut cx = compiler.context(&program)?;
    compiler.run_passes(
        &mut program,
        first,
        &mut cx,
        &mut optc::passes::Hooks::default(),
    )?;
    if program.text() == file.original {
        return Ok(());
    }
    let message = "the certificate is about another program";
    Err(Failure::about(
        &program.name,
        Diagnostic::error(codes::CERTIFICATE_PROGRAM, message),
    ))
}
