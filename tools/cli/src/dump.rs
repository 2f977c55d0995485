//! The program around each pass: printed, compared, or written into a folder.

use crate::args::RewriteArgs;
use crate::failure::Failure;
use crate::terminal;
use imara_diff::{Algorithm, BasicLineDiffPrinter, Diff, InternedInput, UnifiedDiffConfig};
use optc::passes::Hooks;
use optc::{Compiler, Error, Module, Stage, write_aside};
use std::cell::{Cell, RefCell};
use std::fmt::Write as _;

/// The output about one program while the passes run.
pub(crate) struct Dump<'a> {
    pub(crate) args: &'a RewriteArgs,
    /// The number of the module if the input is split.
    part: Option<usize>,
    /// The number of the next file.
    next: Cell<usize>,
    /// The text for the error stream after the passes.
    log: RefCell<String>,
    /// The first file that could not be written.
    failed: RefCell<Option<Error>>,
}

impl<'a> Dump<'a> {
    /// Makes the folder of `--print-ir-dir`.
    pub(crate) fn new(args: &'a RewriteArgs, part: Option<usize>) -> Result<Dump<'a>, Failure> {
        if let Some(folder) = &args.print_ir_dir {
            std::fs::create_dir_all(folder).map_err(|e| Error::io("write", folder, &e))?;
        }
        Ok(Dump {
            args,
            part,
            next: Cell::new(0),
            log: RefCell::default(),
            failed: RefCell::default(),
        })
    }

    /// Writes the program that was read.
    pub(crate) fn input(&self, module: &Module) {
        self.file("input", module);
    }

    /// Prints the program before a pass.
    pub(crate) fn before(&self, stage: &Stage, module: &Module) {
        let pass = stage.pass.info().name;
        if asked(&self.args.print_ir_before, pass) {
            self.print("before", pass, module);
        }
    }

    /// The hooks that the manager calls after each pass.
    pub(crate) fn hooks(&self) -> Hooks<'_> {
        Hooks {
            after: Some(Box::new(|pass, before, module| {
                self.after(pass, before, module);
            })),
            keep_before: self.args.print_ir_diff,
            ..self.args.compile.hooks()
        }
    }

    fn after(&self, pass: &str, before: Option<&str>, module: &Module) {
        if asked(&self.args.print_ir_after, pass) {
            self.print("after", pass, module);
        }
        if let Some(before) = before.filter(|_| self.args.print_ir_diff) {
            let text = optc::text::print(module);
            let diff = unified_diff(before, &text, &format!("after {pass}"));
            let diff = match terminal::colours() {
                true => terminal::coloured(&diff),
                false => diff,
            };
            self.log.borrow_mut().push_str(&diff);
        }
        self.file(pass, module);
    }

    fn print(&self, when: &str, pass: &str, module: &Module) {
        let text = optc::text::print(module);
        let mut log = self.log.borrow_mut();
        let _ = writeln!(
            log,
            "// ----- IR {when} `{pass}` -----\n{}",
            text.trim_end()
        );
    }

    /// Writes the next file. Its name has its number, after that of the module if there may be several.
    fn file(&self, name: &str, module: &Module) {
        let Some(folder) = &self.args.print_ir_dir else {
            return;
        };
        let number = self.next.replace(self.next.get() + 1);
        let part = self.part.map_or_else(String::new, |n| format!("{n:02}-"));
        let path = folder.join(format!("{part}{number:02}-{name}.ir"));
        if let Err(error) = write_aside(&path, optc::text::print(module).as_bytes()) {
            self.failed.borrow_mut().get_or_insert(error);
        }
    }

    /// The printed text.
    pub(crate) fn take_log(&self) -> String {
        self.log.take()
    }

    /// The error of a file that could not be written.
    pub(crate) fn take_failure(&self) -> Result<(), Error> {
        self.failed.take().map_or(Ok(()), Err)
    }
}

fn asked(names: &[String], pass: &str) -> bool {
    names.iter().any(|name| name == pass || name == "all")
}

/// Checks that the names after an option are passes, or `all`.
pub(crate) fn check_names(
    compiler: &Compiler,
    option: &str,
    names: &[String],
) -> Result<(), Failure> {
    let infos = compiler.passes().infos();
    let mut known: Vec<&str> = infos.iter().map(|info| info.name).collect();
    known.push("all");
    match names.iter().find(|name| !known.contains(&name.as_str())) {
        None => Ok(()),
        Some(name) => {
            let wanted = format!("wanted one of {}", known.join(", "));
            Err(Failure::unknown(option, "pass", name, known, &wanted))
        }
    }
}

/// The unified diff of two programs; empty if they are equal. The contents of a module are not indented, so that a
/// module that gets attributes does not differ in every line.
pub(crate) fn unified_diff(before: &str, after: &str, title: &str) -> String {
    let (before, after) = (without_indent(before), without_indent(after));
    line_diff(&before, &after, ["before", title])
}

/// A unified diff of two texts with titles; empty for equal ones.
pub(crate) fn line_diff(before: &str, after: &str, titles: [&str; 2]) -> String {
    if before == after {
        return String::new();
    }
    let input = InternedInput::new(before, after);
    let mut diff = Diff::compute(Algorithm::Myers, &input);
    diff.postprocess_lines(&input);
    let printer = BasicLineDiffPrinter(&input.interner);
    let hunks = diff.unified_diff(&printer, UnifiedDiffConfig::default(), &input);
    format!("--- {}\n+++ {}\n{hunks}", titles[0], titles[1])
}

fn without_indent(text: &str) -> String {
    if !text.starts_with("module") {
        return text.to_owned();
    }
    let lines = text.split_inclusive('\n');
    lines
        .map(|line| line.strip_prefix("  ").unwrap_or(line))
        .collect()
}
