//! Reads the comments of a file test.

use super::words::{Token, WordsError, tokens};
use crate::condition::{Condition, ConditionError};
use crate::filecheck::{ENDINGS, Fault, Options};
use crate::verify_diagnostics;
use optc::text::nearest;
use std::path::Path;
use thiserror::Error;

/// The default number of random inputs on which a module is evaluated.
const SEEDS: u64 = 2;

/// The directives of a header, besides checks.
const DIRECTIVES: [&str; 6] = ["RUN", "EXIT", "EVAL", "STATS", "STDERR", "XFAIL"];

/// The inputs on which a module is evaluated, besides edge values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Evaluation {
    /// The number of random inputs.
    pub(super) seeds: u64,
    /// True if infinities and NaN are left out.
    pub(super) finite: bool,
}

/// A command of a `RUN:` line.
#[derive(Clone, Debug)]
pub(super) struct Command {
    /// The words, the program's name first, with paths in place of `%s`.
    pub(super) words: Vec<String>,
    /// The options of `FileCheck`; `None` for the driver's own command.
    pub(super) check: Option<Options>,
    /// True if `not` stands before it: it must fail.
    pub(super) is_negated: bool,
    /// True if its errors go to the output, `2>&1`.
    pub(super) joins_errors: bool,
}

/// The commands of a `RUN:` line, each with the output of the one before as its input.
#[derive(Clone, Debug)]
pub(super) struct Pipeline {
    pub(super) line: usize,
    pub(super) commands: Vec<Command>,
}

/// The requests in the comments of a file.
#[derive(Debug, Default)]
pub(super) struct Header {
    pub(super) runs: Vec<Pipeline>,
    /// The wanted exit status of the last command.
    pub(super) status: Option<u8>,
    /// The inputs for the evaluation; `None` if evaluation is off.
    pub(super) evaluation: Option<Evaluation>,
    /// Conditions on figures, with their lines.
    pub(super) stats: Vec<(usize, Condition)>,
    /// Texts that must be in the error stream, with their lines.
    pub(super) errors: Vec<(usize, String)>,
    /// The line that says that the test fails.
    pub(super) expected_failure: Option<usize>,
    /// True if `CHECK` lines are compared with the output of all commands, since none is `FileCheck`.
    pub(super) checks_output: bool,
    /// Comments that cannot be read.
    pub(super) faults: Vec<Fault>,
}

/// The paths that a command names by `%s`, `%S` and `%t`.
pub(super) struct Places<'a> {
    pub(super) file: &'a Path,
    pub(super) scratch: &'a Path,
}

impl Places<'_> {
    /// The folder of the file.
    fn folder(&self) -> &Path {
        let folder = self.file.parent();
        folder
            .filter(|p| !p.as_os_str().is_empty())
            .unwrap_or(Path::new("."))
    }

    /// A word with paths in place of `%s`, `%S` and `%t`, and `%` in place of `%%`.
    fn put(&self, word: &str) -> String {
        let (mut text, mut rest) = (String::with_capacity(word.len()), word);
        while let Some((before, after)) = rest.split_once('%') {
            text.push_str(before);
            let put = match after.chars().next() {
                Some('s') => self.file.display().to_string(),
                Some('S') => self.folder().display().to_string(),
                Some('t') => self.scratch.display().to_string(),
                Some('%') => "%".to_owned(),
                _ => {
                    text.push('%');
                    rest = after;
                    continue;
                }
            };
            text.push_str(&put);
            rest = &after[1..];
        }
        text + rest
    }

    /// A text in which `%s` and `%t` are in place of the paths of the file and of temporary files.
    pub(super) fn hide(&self, text: &str) -> String {
        let text = text.replace(&self.file.display().to_string(), "%s");
        text.replace(&self.scratch.display().to_string(), "%t")
    }
}

/// The forms of `EVAL`.
const EVALUATIONS: &str = "`EVAL: seeds=N`, `EVAL: seeds=N finite` or `EVAL: off REASON`";

/// Why a line of a header cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum HeaderError {
    /// An exit status that is no number.
    #[error("found `EXIT: {0}`, wanted a number")]
    Exit(String),
    /// A condition on figures.
    #[error("STATS: {0}")]
    Stats(#[from] ConditionError),
    /// A word that is almost a directive.
    #[error("found `{found}`, wanted `{wanted}:`")]
    Misspelt {
        /// The word as it is written.
        found: String,
        /// The directive that is most like it.
        wanted: String,
    },
    /// An ending that no check has.
    #[error("found no check `{0}`")]
    Check(String),
    /// A check with a prefix that no command uses.
    #[error("no `FileCheck` of this file has the prefix of `{0}`")]
    Unused(String),
    /// An evaluation that is off without a reason.
    #[error("a reason is missing, wanted {}", EVALUATIONS)]
    Reason,
    /// An evaluation of an unknown form.
    #[error("found `EVAL: {found}`, wanted {}", EVALUATIONS, found = .0)]
    Evaluation(String),
    /// A failure that is expected for no reason.
    #[error("a reason is missing, wanted `XFAIL: REASON`")]
    Failure,
    /// A command that cannot be cut into words.
    #[error(transparent)]
    Words(#[from] WordsError),
    /// A command that ends with `\` without a line that continues it.
    #[error("the command ends with `\\`, wanted a `RUN:` line below that continues it")]
    Continued,
    /// A command other than the driver's own.
    #[error("found the command `{found}`, wanted {wanted}")]
    Command {
        /// The name of the command.
        found: String,
        /// The commands that are known.
        wanted: String,
    },
    /// Options of `FileCheck`.
    #[error("FileCheck: {0}")]
    FileCheck(String),
    /// `FileCheck` at the head of a pipeline without a text.
    #[error("`FileCheck` wants a text, from a command before it or by --input-file")]
    NoText,
    /// Comments of expected diagnostics that no command reads.
    #[error("no command has --verify-diagnostics, which reads `{0}`")]
    Unread(String),
}

/// Reads the header of a test of a driver of this name.
pub(super) fn read(text: &str, program: &str, places: &Places<'_>) -> Header {
    let mut reader = Reader {
        program,
        places,
        header: Header {
            evaluation: Some(Evaluation {
                seeds: SEEDS,
                finite: false,
            }),
            ..Header::default()
        },
        continued: None,
    };
    for (i, line) in text.lines().enumerate() {
        let line_number = i + 1;
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        let Some((key, value)) = comment.split_once(':') else {
            continue;
        };
        let done = reader.entry(line_number, key.trim(), value.trim());
        reader.note(line_number, done);
    }
    if let Some((line, _)) = reader.continued.take() {
        reader.note(line, Err(HeaderError::Continued));
    }
    reader.doubts(text);
    reader.header
}

struct Reader<'a> {
    program: &'a str,
    places: &'a Places<'a>,
    header: Header,
    /// The line and the text of a command that the next line continues.
    continued: Option<(usize, String)>,
}

impl Reader<'_> {
    fn note(&mut self, line: usize, done: Result<(), HeaderError>) {
        if let Err(why) = done {
            let message = why.to_string();
            self.header.faults.push(Fault { line, message });
        }
    }

    fn entry(&mut self, line: usize, key: &str, value: &str) -> Result<(), HeaderError> {
        let header = &mut self.header;
        match key {
            "RUN" => return self.command_line(line, value),
            "EXIT" => {
                let status = value.parse();
                header.status = Some(status.map_err(|_| HeaderError::Exit(value.to_owned()))?);
            }
            "EVAL" => header.evaluation = evaluation(value)?,
            "STATS" => {
                for condition in value.split_whitespace() {
                    let condition: Condition = condition.parse()?;
                    header.stats.push((line, condition));
                }
            }
            "STDERR" => header.errors.push((line, value.to_owned())),
            "XFAIL" if value.is_empty() => return Err(HeaderError::Failure),
            "XFAIL" => header.expected_failure = Some(line),
            _ => {}
        }
        Ok(())
    }

    /// Reads a command, or the part of one that is on this line.
    fn command_line(&mut self, line: usize, text: &str) -> Result<(), HeaderError> {
        let (line, text) = match self.continued.take() {
            Some((first, before)) => (first, format!("{before} {text}")),
            None => (line, text.to_owned()),
        };
        if let Some(part) = text.strip_suffix('\\') {
            self.continued = Some((line, part.to_owned()));
            return Ok(());
        }
        let mut commands: Vec<Command> = Vec::new();
        let tokens = tokens(&text)?;
        for tokens in tokens.split(|token| *token == Token::Pipe) {
            let command = self.command(tokens)?;
            let fed = command.check.as_ref();
            let fed = fed.is_none_or(|c| c.input_file.is_some() || !commands.is_empty());
            if !fed {
                return Err(HeaderError::NoText);
            }
            commands.push(command);
        }
        self.header.runs.push(Pipeline { line, commands });
        Ok(())
    }

    fn command(&self, tokens: &[Token]) -> Result<Command, HeaderError> {
        let joins_errors = tokens.contains(&Token::Both);
        let words = tokens.iter().filter_map(|token| match token {
            Token::Word(word) => Some(self.places.put(word)),
            Token::Pipe | Token::Both => None,
        });
        let mut words: Vec<String> = words.collect();
        let is_negated = words.first().is_some_and(|word| word == "not");
        if is_negated {
            words.remove(0);
        }
        let check = match words.first().map(String::as_str) {
            Some("FileCheck") => Some(Options::read(&words).map_err(usage)?),
            Some(first) if first == self.program => None,
            first => {
                return Err(HeaderError::Command {
                    found: first.unwrap_or("").to_owned(),
                    wanted: format!("`{}` or `FileCheck`", self.program),
                });
            }
        };
        Ok(Command {
            words,
            check,
            is_negated,
            joins_errors,
        })
    }

    /// Refuses comments that look like directives and are not, and directives that no command reads.
    fn doubts(&mut self, text: &str) {
        let commands = || self.header.runs.iter().flat_map(|run| &run.commands);
        let checks = commands().filter_map(|command| command.check.as_ref());
        let mut prefixes: Vec<String> = checks
            .flat_map(|options| options.prefixes())
            .map(str::to_owned)
            .collect();
        let checks_output = prefixes.is_empty();
        if checks_output {
            prefixes.push("CHECK".to_owned());
        }
        let has = |option: &str| commands().any(|c| c.words.iter().any(|word| word == option));
        let verifies = has("--verify-diagnostics");
        let mut known: Vec<String> = DIRECTIVES.map(str::to_owned).to_vec();
        for prefix in &prefixes {
            known.push(prefix.clone());
            known.extend(
                ENDINGS
                    .iter()
                    .map(|(ending, _)| format!("{prefix}-{ending}")),
            );
        }
        self.header.checks_output = false;
        for (i, line) in text.lines().enumerate() {
            let Some((_, comment)) = line.split_once("//") else {
                continue;
            };
            let done = doubt(comment.trim_start(), &prefixes, &known);
            self.note(i + 1, done);
            let unread = verify_diagnostics::words(comment).next();
            if let Some((word, _)) = unread.filter(|_| !verifies) {
                self.note(i + 1, Err(HeaderError::Unread(word.to_owned())));
            }
            let checks = comment.trim_start().starts_with("CHECK");
            self.header.checks_output |= checks_output && checks;
        }
    }
}

/// The wrong usage of `FileCheck`.
fn usage(error: clap::Error) -> HeaderError {
    let text = error.to_string();
    let text = text.strip_prefix("error: ").unwrap_or(&text);
    HeaderError::FileCheck(text.trim_end().to_owned())
}

/// Refuses a comment that starts with a word that is almost a directive.
fn doubt(comment: &str, prefixes: &[String], known: &[String]) -> Result<(), HeaderError> {
    let part = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let end = comment.find(|c: char| !part(c)).unwrap_or(comment.len());
    let (word, after) = comment.split_at(end);
    let colon = after.starts_with(':') || after.starts_with("{LITERAL}:");
    let is_upper = word.starts_with(|c: char| c.is_ascii_uppercase())
        && !word.contains(|c: char| c.is_ascii_lowercase());
    let is_known = known.iter().any(|k| k == word) || counts(word, prefixes);
    let misspelt = |wanted: &str| {
        Err(HeaderError::Misspelt {
            found: format!("{word}{}", if colon { ":" } else { "" }),
            wanted: wanted.to_owned(),
        })
    };
    if is_known {
        return match colon {
            true => Ok(()),
            false if after.trim_start().starts_with(':') => misspelt(word),
            false if after.starts_with(' ') || after.is_empty() => misspelt(word),
            false => Ok(()),
        };
    }
    if !colon {
        return Ok(());
    }
    if let Some(same) = known.iter().find(|k| k.eq_ignore_ascii_case(word)) {
        return misspelt(same);
    }
    if !is_upper {
        return Ok(());
    }
    if let Some(near) = nearest(word, known.iter().map(String::as_str)) {
        return misspelt(near);
    }
    let ending_of = |prefix: &String| word.strip_prefix(prefix.as_str())?.strip_prefix(['-', '_']);
    if prefixes.iter().any(|prefix| ending_of(prefix).is_some()) {
        return Err(HeaderError::Check(word.to_owned()));
    }
    let endings = ENDINGS
        .iter()
        .any(|(ending, _)| word.ends_with(&format!("-{ending}")));
    if endings || word == "CHECK" || word.contains("-COUNT-") {
        return Err(HeaderError::Unused(word.to_owned()));
    }
    Ok(())
}

/// Returns whether a word is `CHECK-COUNT-n` with one of these prefixes.
fn counts(word: &str, prefixes: &[String]) -> bool {
    let number = |prefix: &String| word.strip_prefix(prefix.as_str())?.strip_prefix("-COUNT-");
    prefixes
        .iter()
        .filter_map(number)
        .any(|n| n.bytes().all(|c| c.is_ascii_digit()))
}

fn evaluation(value: &str) -> Result<Option<Evaluation>, HeaderError> {
    let mut words = value.split_whitespace();
    if value.starts_with("off") {
        let reason = value
            .trim_start_matches("off")
            .trim_matches([' ', ':', '-', '(', ')']);
        return match reason.is_empty() {
            true => Err(HeaderError::Reason),
            false => Ok(None),
        };
    }
    let seeds = words
        .next()
        .and_then(|w| w.strip_prefix("seeds="))
        .and_then(|n| n.parse().ok());
    match (seeds, words.next(), words.next()) {
        (Some(seeds), finite @ (None | Some("finite")), None) if seeds > 0 => {
            Ok(Some(Evaluation {
                seeds,
                finite: finite.is_some(),
            }))
        }
        _ => Err(HeaderError::Evaluation(value.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read_optc(text: &str) -> Header {
        let places = Places {
            file: Path::new("cases/a.ir"),
            scratch: Path::new("/tmp/t"),
        };
        read(text, "optc", &places)
    }

    #[test]
    fn entries_are_read() {
        let header = read_optc(
            "// RUN: optc %s\n// EXIT: 1\n// EVAL: seeds=4\n// STATS: view=1 ops<3\n// CHECK: a\n// just: words\n%0 = ...",
        );
        assert!(header.faults.is_empty(), "{:?}", header.faults);
        let evaluation = |seeds, finite| Some(Evaluation { seeds, finite });
        assert_eq!(
            (header.status, header.evaluation),
            (Some(1), evaluation(4, false))
        );
        assert_eq!((header.stats.len(), header.runs.len()), (2, 1));
        assert!(header.checks_output);
        assert_eq!(read_optc("").evaluation, evaluation(SEEDS, false));
        assert_eq!(
            read_optc("// EVAL: seeds=1 finite").evaluation,
            evaluation(1, true)
        );
        assert_eq!(
            read_optc("// EVAL: off it calls an opaque operation").evaluation,
            None
        );
    }

    #[test]
    fn commands_are_piped_and_continued() {
        let text = "// RUN: not optc %s -o %t.ir 2>&1 \\\n// RUN:   | FileCheck -check-prefix=A %S/%%s\n// A: x\n";
        let header = read_optc(text);
        assert!(header.faults.is_empty(), "{:?}", header.faults);
        let [Pipeline { line: 1, commands }] = &header.runs[..] else {
            panic!("{:?}", header.runs);
        };
        let [optc, check] = &commands[..] else {
            panic!("{commands:?}");
        };
        assert_eq!(optc.words, ["optc", "cases/a.ir", "-o", "/tmp/t.ir"]);
        assert!(optc.is_negated && optc.joins_errors && optc.check.is_none());
        assert_eq!(check.check.as_ref().unwrap().file, "cases/%s");
        assert!(!header.checks_output);
    }

    #[test]
    fn faults_are_told_at_their_lines() {
        for (fault, why) in [
            ("EVAL: off", "a reason is missing"),
            ("EVAL: seeds=0", "found `EVAL: seeds=0`"),
            ("EVAL: seeds=1 infinite", "found `EVAL: seeds=1 infinite`"),
            ("EXIT: x", "wanted a number"),
            ("STATS: view", "found the condition"),
            ("XFAIL:", "a reason is missing"),
            (
                "RUN: cat %s",
                "found the command `cat`, wanted `optc` or `FileCheck`",
            ),
            (
                "RUN: optc > x",
                "found `>`: commands are run without a shell",
            ),
            ("RUN: FileCheck %s", "`FileCheck` wants a text"),
            ("RUN: optc | FileCheck --no", "unexpected argument '--no'"),
            ("RUN: optc \\", "wanted a `RUN:` line below"),
            ("CHEKC: a", "found `CHEKC:`, wanted `CHECK:`"),
            ("CHECK-NXT: a", "found `CHECK-NXT:`, wanted `CHECK-NEXT:`"),
            ("CHECK_NOT: a", "found `CHECK_NOT:`, wanted `CHECK-NOT:`"),
            ("STAT: a", "found `STAT:`, wanted `STATS:`"),
            ("Check: a", "found `Check:`, wanted `CHECK:`"),
            ("CHECK : a", "found `CHECK`, wanted `CHECK:`"),
            ("CHECK a", "found `CHECK`, wanted `CHECK:`"),
            ("CHECK-SOMETIMES: a", "found no check `CHECK-SOMETIMES`"),
            (
                "FOO-NEXT: a",
                "no `FileCheck` of this file has the prefix of `FOO-NEXT`",
            ),
            (
                "expected-error@+1 {{a}}",
                "no command has --verify-diagnostics",
            ),
        ] {
            let faults = read_optc(&format!("// A test.\n// {fault}")).faults;
            let [Fault { line: 2, message }] = &faults[..] else {
                panic!("{fault}: {faults:?}");
            };
            assert!(message.contains(why), "{fault}: {message}");
        }
        for fine in [
            "NOTE: a",
            "it runs: a",
            "CHECK-COUNT-3: a",
            "CHECK{LITERAL}: a",
            "COM: CHEKC: a",
        ] {
            assert_eq!(read_optc(&format!("// {fine}")).faults, [], "{fine}");
        }
    }
}
