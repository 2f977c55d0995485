//! Reads the comments of a file test.

use super::check::{Check, Kind};
use crate::condition::{Condition, ConditionError};
use thiserror::Error;

/// The default number of random inputs on which a module is evaluated.
const SEEDS: u64 = 2;

/// The inputs on which a module is evaluated, besides edge values.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Evaluation {
    /// The number of random inputs.
    pub(super) seeds: u64,
    /// True if infinities and NaN are left out.
    pub(super) finite: bool,
}

/// The requests in the comments of a file.
#[derive(Debug)]
pub(super) struct Header {
    /// The commands, split into words.
    pub(super) runs: Vec<Vec<String>>,
    /// The wanted exit status.
    pub(super) status: Option<u8>,
    /// The inputs for the evaluation; `None` if evaluation is off.
    pub(super) evaluation: Option<Evaluation>,
    pub(super) stats: Vec<Condition>,
    pub(super) checks: Vec<Check>,
    /// Texts that must be in the error stream.
    pub(super) errors: Vec<String>,
    /// Comments that cannot be read.
    pub(super) faults: Vec<String>,
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
    /// A check of an unknown kind.
    #[error("found no check `{0}`")]
    Check(String),
    /// A check that checks nothing.
    #[error("a check without a text")]
    EmptyCheck,
    /// An evaluation that is off without a reason.
    #[error("a reason is missing, wanted {}", EVALUATIONS)]
    Reason,
    /// An evaluation of an unknown form.
    #[error("found `EVAL: {found}`, wanted {}", EVALUATIONS, found = .0)]
    Evaluation(String),
    /// A command that ends within an escape.
    #[error("the command ends with `\\`")]
    Escape,
    /// A character that only a shell knows.
    #[error("found `{0}`: commands are run without a shell")]
    Shell(char),
    /// A quote that is not closed.
    #[error("a quote is not closed")]
    Quote,
    /// A command other than `optc`.
    #[error("found the command `{0}`, wanted `optc`")]
    Command(String),
}

pub(super) fn read(text: &str) -> Header {
    let mut header = Header {
        runs: Vec::new(),
        status: None,
        evaluation: Some(Evaluation {
            seeds: SEEDS,
            finite: false,
        }),
        stats: Vec::new(),
        checks: Vec::new(),
        errors: Vec::new(),
        faults: Vec::new(),
    };
    for (i, line) in text.lines().enumerate() {
        let Some(comment) = line.trim_start().strip_prefix("//") else {
            continue;
        };
        let Some((key, value)) = comment.split_once(':') else {
            continue;
        };
        if let Err(why) = header.entry(key.trim(), value.trim()) {
            header.faults.push(format!("line {}: {why}", i + 1));
        }
    }
    header
}

impl Header {
    fn entry(&mut self, key: &str, value: &str) -> Result<(), HeaderError> {
        match key {
            "RUN" => self.runs.push(command(value)?),
            "EXIT" => {
                let status = value.parse();
                self.status = Some(status.map_err(|_| HeaderError::Exit(value.to_owned()))?);
            }
            "EVAL" => self.evaluation = evaluation(value)?,
            "STATS" => {
                for condition in value.split_whitespace() {
                    let condition: Condition = condition.parse()?;
                    self.stats.push(condition);
                }
            }
            "CHECK" => self.check(Kind::Somewhere, value)?,
            "CHECK-NEXT" => self.check(Kind::Next, value)?,
            "CHECK-NOT" => self.check(Kind::Not, value)?,
            "STDERR" => self.errors.push(value.to_owned()),
            _ if key.starts_with("CHECK-") => {
                return Err(HeaderError::Check(key.to_owned()));
            }
            _ => {}
        }
        Ok(())
    }

    fn check(&mut self, kind: Kind, text: &str) -> Result<(), HeaderError> {
        if text.is_empty() {
            return Err(HeaderError::EmptyCheck);
        }
        self.checks.push(Check {
            kind,
            text: text.to_owned(),
        });
        Ok(())
    }
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

/// Splits a command into words as a shell does: quotes keep blanks, `\` escapes the next character.
///
/// # Errors
/// An unclosed quote, a pipe, a command other than `optc`.
pub fn command(text: &str) -> Result<Vec<String>, HeaderError> {
    let mut words: Vec<String> = Vec::new();
    let mut word: Option<String> = None;
    let mut quote: Option<char> = None;
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        match (c, quote) {
            (c, Some(q)) if c == q => quote = None,
            ('\\', None | Some('"')) => {
                let next = chars.next().ok_or(HeaderError::Escape)?;
                word.get_or_insert_default().push(next);
            }
            (c, Some(_)) => word.get_or_insert_default().push(c),
            ('\'' | '"', None) => {
                quote = Some(c);
                word.get_or_insert_default();
            }
            (c, None) if c.is_whitespace() => words.extend(word.take()),
            ('|' | '>' | '<' | ';' | '&', None) => {
                return Err(HeaderError::Shell(c));
            }
            (c, None) => word.get_or_insert_default().push(c),
        }
    }
    if quote.is_some() {
        return Err(HeaderError::Quote);
    }
    words.extend(word);
    match words.first().map(String::as_str) {
        Some("optc") => Ok(words),
        first => Err(HeaderError::Command(first.unwrap_or("").to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_cut_as_a_shell_does() {
        let found = command("optc --pin x='{order = [1, 0]}'  \"a b\" c\\ d ''").unwrap();
        assert_eq!(
            found,
            ["optc", "--pin", "x={order = [1, 0]}", "a b", "c d", ""]
        );
        for text in ["rm -rf x", "optc 'a", "optc a | b", "optc \\", ""] {
            assert!(command(text).is_err(), "{text}");
        }
    }

    #[test]
    fn entries_are_read_and_faults_told() {
        let header = read(
            "// RUN: optc %s\n// EXIT: 1\n// EVAL: seeds=4\n// STATS: view=1 ops<3\n// CHECK: a\n// just: words\n%0 = ...",
        );
        assert!(header.faults.is_empty(), "{:?}", header.faults);
        let evaluation = |seeds, finite| Some(Evaluation { seeds, finite });
        assert_eq!(
            (header.status, header.evaluation),
            (Some(1), evaluation(4, false))
        );
        assert_eq!(
            (header.stats.len(), header.checks.len(), header.runs.len()),
            (2, 1, 1)
        );
        assert_eq!(read("").evaluation, evaluation(SEEDS, false));
        assert_eq!(
            read("// EVAL: seeds=1 finite").evaluation,
            evaluation(1, true)
        );
        assert_eq!(
            read("// EVAL: off it calls an opaque operation").evaluation,
            None
        );
        for fault in [
            "EVAL: off",
            "EVAL: seeds=0",
            "EVAL: seeds=1 infinite",
            "EXIT: x",
            "STATS: view",
            "CHECK-SAME: a",
            "CHECK:",
        ] {
            assert_eq!(read(&format!("// {fault}")).faults.len(), 1, "{fault}");
        }
    }
}
