//! File tests: programs with commands and checks in their comments. `docs/testing.md` is their manual.
//!
//! | header | meaning |
//! |---|---|
//! | `// RUN: optc --pass=view-fold %s` | a command to run in this process; `%s` is the file, `%S` its folder, `%t` a temporary file |
//! | `// EXIT: 1` | the exit status of the last command; 0 when left out |
//! | `// EVAL: seeds=4` | compute before and after on this many random inputs and on edge values; on with 2 seeds when left out |
//! | `// EVAL: seeds=4 finite` | the same, but not on infinities and NaN, which another order of summation may change |
//! | `// EVAL: off REASON` | do not |
//! | `// STATS: transpose=2 movement_bytes<=0` | figures after the passes; `before.transpose=2` before them |
//! | `// CHECK: TEXT` | the output holds the text, after those of earlier checks; see `filecheck` |
//! | `// STDERR: TEXT` | a line of the error stream does |
//! | `// XFAIL: REASON` | the test fails, and is wrong if it does not |
//!
//! White space compares as one blank. Every module is evaluated by both oracles, before and after the passes: on
//! logical tensors and on the buffers that its layouts describe.

mod eval;
mod header;
mod words;

use crate::args::Cli;
pub use crate::condition::ConditionError;
use crate::condition::Figures;
use crate::driver::Main;
use crate::failure::Status;
use crate::filecheck::{self, Fault, Options, blanks};
use crate::part::Part;
use crate::streams::Streams;
use crate::{command_line, dump, rewrite};
pub use header::HeaderError;
use header::{Command, Header, Pipeline, Places};
use optc::{FoldReport, Severity, SizeTable, Stats, read_file, read_text};
use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
pub use words::{WordsError, words};

/// The extensions of files that a folder is searched for: those of text that a front end reads.
const EXTENSIONS: [&str; 5] = ["ir", "mlir", "hlo", "stablehlo", "txt"];

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
    /// The failed checks, each with the place in the file; empty if the test passed.
    pub failures: Vec<String>,
    /// True if the test failed and says so (`XFAIL`).
    pub is_expected_failure: bool,
    /// The text of the snapshot in which the paths of the file and of temporary files are `%s` and `%t`.
    pub(crate) portable_snapshot: String,
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
            let text = String::from_utf8_lossy(&bytes);
            let runs = |line: &str| line.trim_start().starts_with("// RUN:");
            if text.lines().any(runs) {
                found.push(entry);
            }
        }
    }
    Ok(found)
}

fn is_text(path: &Path) -> bool {
    let extension = path.extension().and_then(|e| e.to_str());
    extension.is_some_and(|e| EXTENSIONS.contains(&e))
}

/// Runs one file test.
pub(crate) fn run(driver: &Main, path: &Path) -> Outcome {
    let mut outcome = Outcome::default();
    let text = match read_file(path) {
        Ok(bytes) => String::from_utf8_lossy(&bytes).into_owned(),
        Err(e) => {
            outcome.failures.push(format!("cannot read the file: {e}"));
            return outcome;
        }
    };
    let scratch = Scratch::new(path);
    let places = Places {
        file: path,
        scratch: &scratch.0,
    };
    let header = header::read(&text, driver.name, &places);
    let mut test = Test {
        driver,
        path,
        header: &header,
        figures: Figures::default(),
        outcome,
    };
    for pipeline in &header.runs {
        if !test.run(pipeline) {
            break;
        }
    }
    test.judge(&text);
    let mut outcome = test.outcome;
    outcome.portable_snapshot = places.hide(&outcome.snapshot());
    if let Some(line) = header.expected_failure {
        outcome.is_expected_failure = !outcome.failures.is_empty();
        outcome.failures.clear();
        if !outcome.is_expected_failure && header.faults.is_empty() {
            let message = "XFAIL: the test passes".to_owned();
            outcome
                .failures
                .push(placed(path, &Fault { line, message }));
        }
    }
    // A header that cannot be read is no failure that a test may expect.
    let faults = header.faults.iter().map(|fault| placed(path, fault));
    outcome.failures.splice(0..0, faults);
    if header.runs.is_empty() && header.faults.is_empty() {
        let message = "the file has no `// RUN:` header".to_owned();
        outcome
            .failures
            .push(placed(path, &Fault { line: 0, message }));
    }
    outcome
}

/// A fault with its place, `file:line: …`.
fn placed(path: &Path, fault: &Fault) -> String {
    let (path, message) = (path.display(), &fault.message);
    match fault.line {
        0 => format!("{path}: {message}"),
        line => format!("{path}:{line}: {message}"),
    }
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

/// A file test that runs.
struct Test<'a> {
    driver: &'a Main,
    path: &'a Path,
    header: &'a Header,
    figures: Figures,
    outcome: Outcome,
}

/// The end of a command: its status, and the bytes for the next one.
struct Ended {
    status: u8,
    output: Vec<u8>,
}

impl Test<'_> {
    /// Runs the commands of a line. Returns false if one of them failed before the last line, or differs from its checks.
    fn run(&mut self, pipeline: &Pipeline) -> bool {
        let mut input = Vec::new();
        let mut status = 0;
        for command in &pipeline.commands {
            let ended = match &command.check {
                Some(options) => self.check(options, input, pipeline.line),
                None => self.own(command, &input),
            };
            let failed = match command.is_negated {
                true => u8::from(ended.status == 0),
                false => ended.status,
            };
            // As in a shell with `pipefail`, the last command that fails decides.
            status = if failed == 0 { status } else { failed };
            input = ended.output;
        }
        self.outcome
            .output
            .push_str(&String::from_utf8_lossy(&input));
        self.outcome.status = status;
        let is_last = self
            .header
            .runs
            .last()
            .is_some_and(|last| last.line == pipeline.line);
        let wanted = self.header.status.filter(|_| is_last).unwrap_or(0);
        if status == wanted {
            return true;
        }
        let checked = pipeline.commands.iter().any(|c| c.check.is_some());
        // Differences are told already.
        if !checked || self.outcome.failures.is_empty() {
            let errors = self.outcome.errors.trim_end();
            let message = format!("exit status {status}, wanted {wanted}\n{errors}");
            self.fail(pipeline.line, message);
        }
        false
    }

    fn fail(&mut self, line: usize, message: String) {
        let failure = placed(self.path, &Fault { line, message });
        self.outcome.failures.push(failure);
    }

    /// Runs the driver's own command. The programs that it rewrote are evaluated and counted.
    fn own(&mut self, command: &Command, mut input: &[u8]) -> Ended {
        let (mut output, mut errors) = (Vec::new(), Vec::new());
        let mut streams = Streams {
            input: &mut input,
            output: &mut output,
            errors: &mut errors,
        };
        let mut parts = Vec::new();
        let status = match command_line::read(self.driver, &command.words) {
            Ok(Cli {
                command: None,
                mut rewrite,
                ..
            }) => {
                rewrite.explains_remarks = true;
                match rewrite::execute(self.driver, &rewrite, &mut streams) {
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
            Ok(_) | Err(_) => self.driver.call(&command.words, &mut streams),
        };
        for part in parts {
            add_part(&part, self.header, &mut self.figures, &mut self.outcome);
        }
        self.outcome
            .errors
            .push_str(&String::from_utf8_lossy(&errors));
        if command.joins_errors {
            output.extend(errors);
        }
        Ended { status, output }
    }

    /// Compares a text with the checks of a file. The text goes on, as the output of the commands.
    fn check(&mut self, options: &Options, input: Vec<u8>, line: usize) -> Ended {
        let file = Path::new(&options.file);
        let source = match read_text(file) {
            Ok(source) => source,
            Err(error) => {
                self.fail(line, format!("FileCheck: {error}"));
                return Ended {
                    status: Status::Usage.code(),
                    output: input,
                };
            }
        };
        let text = match &options.input_file {
            None => Ok(String::from_utf8_lossy(&input).into_owned()),
            Some(path) => read_text(Path::new(path)),
        };
        let faults = match text {
            Ok(text) => filecheck::compare(&source, &text, options),
            Err(error) => {
                let message = format!("FileCheck: {error}");
                vec![Fault { line: 0, message }]
            }
        };
        let status = u8::from(!faults.is_empty());
        let failures = faults.iter().map(|fault| placed(file, fault));
        self.outcome.failures.extend(failures);
        Ended {
            status,
            output: input,
        }
    }

    /// Compares the results of the commands with the header.
    fn judge(&mut self, source: &str) {
        let header = self.header;
        for (line, condition) in &header.stats {
            match condition.test(&self.figures) {
                Ok((true, _)) => {}
                Ok((false, found)) => {
                    self.fail(*line, format!("STATS: found {found}, wanted {condition}"));
                }
                Err(error) => self.fail(*line, format!("STATS: {error}")),
            }
        }
        if header.checks_output && header.faults.is_empty() {
            let options = Options::of(&self.path.display().to_string());
            for fault in filecheck::compare(source, &self.outcome.output, &options) {
                self.fail(fault.line, fault.message);
            }
        }
        for (line, text) in &header.errors {
            let errors = &self.outcome.errors;
            let wanted = blanks(text, false);
            if !errors
                .lines()
                .any(|line| blanks(line, false).contains(&wanted))
            {
                let message = format!("STDERR: found no `{text}` in\n{}", errors.trim_end());
                self.fail(*line, message);
            }
        }
    }
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
