//! The path of an input through the library: read, verify, print, read again, fold, print.

use optc::{Compiler, Error, Program, Severity};
use std::sync::Arc;

/// The outcome of an input.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Passed {
    /// It was refused with these codes, in order.
    Refused(Vec<&'static str>),
    /// It was read. The pipeline ran, or was skipped because the program is larger than the limit.
    Read,
    /// It was read, and a pass refused it with these codes.
    NotFolded(Vec<&'static str>),
}

impl Passed {
    /// The codes of the refusal; empty if everything went well.
    #[must_use]
    pub fn codes(&self) -> &[&'static str] {
        match self {
            Passed::Refused(codes) | Passed::NotFolded(codes) => codes,
            Passed::Read => &[],
        }
    }
}

/// Codes that mean a defect of the compiler, whatever the input.
const DEFECTS: &[&str] = &[
    "internal-error",
    "no-lowering",
    "pass-changed",
    "worse-than-naive",
];

/// The name of a built-in target that depends on the bytes only, so that many inputs cover all targets.
#[must_use]
pub fn target_for(bytes: &[u8]) -> &'static str {
    let names = optc::Target::names();
    names[bytes.len() % names.len()]
}

/// Passes the bytes of a file through the library. They are read and verified; the program is printed and read again.
/// The default pipeline runs for `target` on programs of at most `most_ops` operations; its result must verify and
/// print.
///
/// The extension of the name determines the format.
///
/// # Errors
/// A violated promise, in words: a refusal without a code, a text that reads differently after printing, a defect of a
/// pass.
///
/// # Panics
/// Something inside panics, or there is no such target; the caller catches the panic if necessary.
pub fn through(name: &str, bytes: &[u8], target: &str, most_ops: usize) -> Result<Passed, String> {
    let mut compiler = Compiler::new();
    let target = optc::Target::builtin(target).expect("a built-in target");
    compiler.target = Some(Arc::new(target));
    let mut program = match compiler.read(name, bytes, None, false).remove(0) {
        Ok(program) => program,
        Err(error) => return refusal(&error).map(Passed::Refused),
    };
    prints_the_same(&compiler, &program)?;
    let _ = compiler.stats(&program);
    let ops: usize = program.module.funcs.iter().map(|f| f.body.len()).sum();
    if most_ops < ops {
        return Ok(Passed::Read);
    }
    match folded(&compiler, &mut program)? {
        Some(codes) => Ok(Passed::NotFolded(codes)),
        None => Ok(Passed::Read),
    }
}

/// Runs the default pipeline pass by pass; returns the codes of a refusal.
fn folded(compiler: &Compiler, program: &mut Program) -> Result<Option<Vec<&'static str>>, String> {
    for pass in optc::passes::pipeline::DEFAULT {
        if let Err(error) = compiler.compile(program, pass) {
            return refusal(&error).map(Some);
        }
        compiler
            .verify(program)
            .map_err(|e| format!("after {pass}: {e}"))?;
        prints_the_same(compiler, program).map_err(|e| format!("after {pass}: {e}"))?;
    }
    let _ = compiler.stats(program);
    Ok(None)
}

/// The codes of a proper refusal.
fn refusal(error: &Error) -> Result<Vec<&'static str>, String> {
    let text = error.render();
    let codes: Vec<&str> = error.diagnostics.iter().map(|d| d.code.as_str()).collect();
    let defect = |d: &optc::Diagnostic| {
        DEFECTS.contains(&d.code.as_str()) || d.notes.iter().any(|n| n.starts_with("after pass"))
    };
    if error.diagnostics.iter().any(defect) {
        return Err(format!("a defect of the compiler: {text}"));
    }
    let errors = error.diagnostics.iter();
    if !errors.into_iter().any(|d| d.severity == Severity::Error) || text.trim().is_empty() {
        return Err(format!("refused without an error: {text}"));
    }
    Ok(codes)
}

fn prints_the_same(compiler: &Compiler, program: &Program) -> Result<(), String> {
    let printed = program.text();
    let again = compiler
        .parse("printed", &printed)
        .map_err(|e| format!("what was printed is refused: {e}"))?;
    if again.text() == printed {
        Ok(())
    } else {
        Err(format!(
            "printed:\n{printed}\nread and printed again:\n{}",
            again.text()
        ))
    }
}
