//! File tests: programs with commands and checks in their comments.
//!
//! | header | meaning |
//! |---|---|
//! | `// RUN: optc --pass=view-fold %s` | a command to run in this process; `%s` is the file, `%S` its folder, `%t` a temporary file |
//! | `// EXIT: 1` | the exit status of the last command; 0 when left out |
//! | `// EVAL: seeds=4` | compute before and after on this many random inputs and on edge values; on with 2 seeds when left out |
//! | `// EVAL: seeds=4 finite` | the same, but not on infinities and NaN, which another order of summation may change |
//! | `// EVAL: off REASON` | do not |
//! | `// STATS: transpose=2 movement_bytes<=0` | figures after the passes; `before.transpose=2` before them |
//! | `// CHECK: TEXT` | the output holds the text, after those of earlier checks |
//! | `// CHECK-NEXT: TEXT` | the line after the last match does |
//! | `// CHECK-NOT: TEXT` | the text between the matches around it does not |
//! | `// STDERR: TEXT` | a line of the error stream does |
//!
//! White space compares as one blank. Every module is evaluated by both oracles, before and after the passes: on
//! logical tensors and on the buffers that its layouts describe.

mod check;
mod eval;
mod header;

use crate::args::Cli;
pub use crate::condition::ConditionError;
use crate::condition::Figures;
use crate::part::Part;
use crate::rewrite;
use crate::{Status, Streams, dump};
use header::Header;
pub use header::{HeaderError, command as words};
use optc::{FoldReport, Severity, SizeTable, Stats, read_file};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The result of running one file.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// The output of the commands.
    pub output: String,
    /// The error stream of the commands.
    pub errors: String,
    /// The exit status of the last command.
    pub status: u8,
    /// The unified diff of the canonical text before and after the passes.
    pub diff: String,
    /// The remarks of the passes, each with its code.
    pub remarks: Vec<String>,
    /// The figures before and after the passes, over all modules of the file; `None` if no command ran passes.
    pub stats: Option<(Stats, Stats)>,
    /// The failed checks; empty if the test passed.
    pub failures: Vec<String>,
}

impl Outcome {
    /// The text of a snapshot: the diff, the remarks, and the moved bytes before and after. For commands that run no
    /// passes, their output.
    #[must_use]
    pub fn snapshot(&self) -> String {
        let mut text = match &self.stats {
            Some(_) => self.diff.clone(),
            None => self.output.clone(),
        };
        if text.is_empty() {
            text.push_str("(no change)\n");
        }
        for remark in &self.remarks {
            let _ = writeln!(text, "{remark}");
        }
        if let Some((before, after)) = &self.stats {
            let (a, b) = (before.movement_ops, after.movement_ops);
            let _ = writeln!(text, "movement_ops: {a} -> {b}");
            let (a, b) = (before.movement_bytes, after.movement_bytes);
            let _ = writeln!(text, "movement_bytes: {a} -> {b}");
        }
        if self.status != 0 {
            let _ = writeln!(
                text,
                "exit status: {}\n{}",
                self.status,
                self.errors.trim_end()
            );
        }
        text
    }
}

/// The file tests under a path: the file itself, or the files below a folder whose text has a
/// `// RUN:` header, sorted by path.
///
/// # Errors
/// A folder or file cannot be read.
pub fn discover(path: &Path) -> io::Result<Vec<PathBuf>> {
    if !fs::metadata(path)?.is_dir() {
        return Ok(vec![path.to_path_buf()]);
    }
    let mut found = Vec::new();
    let mut entries = Vec::new();
    for entry in fs::read_dir(path)? {
        entries.push(entry?.path());
    }
    entries.sort();
    for entry in entries {
        if entry.is_dir() {
            found.extend(discover(&entry)?);
        } else if is_text(&entry) && entry.is_file() {
            let bytes = read_file(&entry).map_err(io::Error::other)?;
            if String::from_utf8_lossy(&bytes).contains("// RUN:") {
                found.push(entry);
            }
        }
    }
    Ok(found)
}

fn is_text(path: &Path) -> bool {
    path.extension().is_some_and(|e| e == "ir" || e == "mlir")
}

/// Runs one file test.
#[must_use]
pub fn run(path: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    let text = match read_file(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => {
            outcome.failures.push(format!("cannot read the file: {e}"));
            return outcome;
        }
    };
    let header = header::read(&text);
    outcome.failures.extend(header.faults.iter().cloned());
    if header.runs.is_empty() {
        outcome
            .failures
            .push("the file has no `// RUN:` header".to_owned());
    }
    let scratch = Scratch::new(path);
    let mut figures = Figures::default();
    for command in &header.runs {
        let last = run_command(command, path, &scratch.0, &mut outcome);
        for part in last {
            add_part(&part, &header, &mut figures, &mut outcome);
        }
    }
    judge(&header, &figures, &mut outcome);
    outcome
}

/// The name of a temporary file, which is removed at the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(path: &Path) -> Scratch {
        static COUNT: AtomicU64 = AtomicU64::new(0);
        let stem = path
            .file_stem()
            .map(|s| s.to_string_lossy().into_owned())
            .unwrap_or_default();
        let number = COUNT.fetch_add(1, Ordering::Relaxed);
        let name = format!("optc-test-{}-{number}-{stem}", std::process::id());
        Scratch(std::env::temp_dir().join(name))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        // Most tests create no such file; the others may add an extension.
        let (Some(folder), Some(stem)) = (self.0.parent(), self.0.file_name()) else {
            return;
        };
        let stem = stem.to_string_lossy().into_owned();
        for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
            if entry.file_name().to_string_lossy().starts_with(&stem) {
                let _ = fs::remove_file(entry.path());
            }
        }
    }
}

/// Runs one command. Its status and its output go to the outcome; the rewritten programs are returned.
fn run_command(
    command: &[String],
    path: &Path,
    scratch: &Path,
    outcome: &mut Outcome,
) -> Vec<Part> {
    let folder = path
        .parent()
        .filter(|p| !p.as_os_str().is_empty())
        .unwrap_or(Path::new("."));
    let place = |word: &String| {
        let word = word.replace("%s", &path.display().to_string());
        let word = word.replace("%S", &folder.display().to_string());
        word.replace("%t", &scratch.display().to_string())
    };
    let args: Vec<String> = command.iter().map(place).collect();
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let mut streams = Streams {
        input: &mut io::empty(),
        output: &mut output,
        errors: &mut errors,
    };
    let mut parts = Vec::new();
    outcome.status = match Cli::read(&args) {
        Ok(Cli {
            command: None,
            mut rewrite,
            ..
        }) => {
            rewrite.explains_remarks = true;
            match rewrite::execute(&rewrite, &mut streams) {
                Ok(done) => {
                    parts = done.parts;
                    done.status.code()
                }
                Err(failure) => {
                    streams.error_text(&failure.text);
                    failure.status.code()
                }
            }
        }
        Ok(Cli {
            command: Some(crate::args::Command::Test(_)),
            ..
        }) => {
            streams.error_text("error: a file test cannot run file tests");
            Status::Usage.code()
        }
        Ok(_) | Err(_) => crate::run_command(&args, &mut streams),
    };
    outcome.output.push_str(&String::from_utf8_lossy(&output));
    outcome.errors.push_str(&String::from_utf8_lossy(&errors));
    parts
}

/// Adds the results for one module: diff, remarks, figures, and the evaluation.
fn add_part(part: &Part, header: &Header, figures: &mut Figures, outcome: &mut Outcome) {
    let (before, after) = (part.before.text(), part.after.text());
    outcome
        .diff
        .push_str(&dump::unified_diff(&before, &after, "after"));
    let said = part.before.diagnostics.iter().chain(&part.cx.remarks);
    for diag in said {
        let kind = match diag.severity {
            Severity::Error => "error",
            Severity::Warning => "warning",
            Severity::Remark => "remark",
        };
        let mut text = format!("{kind}[{}]: {}", diag.code, diag.message);
        for note in &diag.notes {
            let _ = write!(text, "\n  {note}");
        }
        outcome.remarks.push(text);
    }
    let sizes = SizeTable::new(&part.cx.bindings);
    let of = |module| Stats::on(module, &part.cx.registry, &sizes, &part.cx.target);
    let (before, after) = (of(&part.before.module), of(&part.after.module));
    let bound = part
        .cx
        .reports
        .get::<FoldReport>()
        .map(|f| f.lower_bound_bytes);
    figures.add(&after, Some(&before), bound);
    let sum = outcome
        .stats
        .take()
        .map(|(a, b)| (add(a, &before), add(b, &after)));
    outcome.stats = Some(sum.unwrap_or((before, after)));
    if let Some(evaluation) = header.evaluation {
        outcome.failures.extend(eval::compare(part, evaluation));
    }
}

fn add(mut a: Stats, b: &Stats) -> Stats {
    a.ops += b.ops;
    a.reshape += b.reshape;
    a.transpose += b.transpose;
    a.view += b.view;
    a.layout_convert += b.layout_convert;
    a.movement_ops += b.movement_ops;
    a.movement_bytes += b.movement_bytes;
    a.priced_bytes += b.priced_bytes;
    a.slower_bytes += b.slower_bytes;
    a.copy_ops += b.copy_ops;
    a.copy_bytes += b.copy_bytes;
    a.expand_ops += b.expand_ops;
    a.expand_bytes += b.expand_bytes;
    a.constant_movement_ops += b.constant_movement_ops;
    a.constant_movement_bytes += b.constant_movement_bytes;
    a
}

/// Compares the results of the commands with the header.
fn judge(header: &Header, figures: &Figures, outcome: &mut Outcome) {
    let wanted = header.status.unwrap_or(0);
    if outcome.status != wanted {
        let (found, errors) = (outcome.status, outcome.errors.trim_end());
        outcome
            .failures
            .push(format!("exit status {found}, wanted {wanted}\n{errors}"));
    }
    for condition in &header.stats {
        match condition.test(figures) {
            Ok((true, _)) => {}
            Ok((false, found)) => {
                outcome
                    .failures
                    .push(format!("STATS: found {found}, wanted {condition}"));
            }
            Err(error) => outcome.failures.push(format!("STATS: {error}")),
        }
    }
    outcome
        .failures
        .extend(check::run(&header.checks, &outcome.output));
    for text in &header.errors {
        if !outcome.errors.lines().any(|line| check::holds(line, text)) {
            let errors = outcome.errors.trim_end();
            outcome
                .failures
                .push(format!("STDERR: found no `{text}` in\n{errors}"));
        }
    }
}
