//! `FileCheck`: compares a text with the directives in a file, as LLVM's tool of this name does.
//!
//! A directive is a prefix, `CHECK` unless an option names others, an ending, and a colon. A pattern is text in which
//! `{{…}}` is a regular expression of POSIX, `[[X:…]]` one whose match `[[X]]` stands for from then on, and `[[@LINE+1]]`
//! the number of a line of the file. Runs of blanks compare as one blank. Three things differ from LLVM's tool: `.` is a
//! character, not a byte, numbers are not computed with, and a group is not referred to by `\1`.

mod directive;
mod options;
mod pattern;
mod posix;

pub(crate) use directive::{ENDINGS, Fault, Kind};
pub(crate) use options::{Options, blanks};

use directive::Check;
use pattern::{Match, Pattern, Variables};
use std::ops::Range;

/// The number of lines that a fault shows of the text in which it searched.
const SHOWN: usize = 12;

/// Compares a text with the directives of a file.
pub(crate) fn compare(source: &str, text: &str, options: &Options) -> Vec<Fault> {
    let whole = |message: String| vec![Fault { line: 0, message }];
    if let Some(message) = options.refused_prefix() {
        return whole(message);
    }
    let mut variables = Variables::new();
    for define in &options.define {
        match define.split_once('=') {
            Some((name, value)) if pattern::is_name(name.trim_start_matches('$')) => {
                variables.insert(name.to_owned(), value.to_owned());
            }
            _ => return whole(format!("found `-D{define}`, wanted `-DNAME=VALUE`")),
        }
    }
    let mut checks = match directive::read(source, options) {
        Ok(checks) => checks,
        Err(faults) => return faults,
    };
    let mut implicit = Vec::new();
    for text in &options.implicit_check_not {
        match Pattern::read(text, 0) {
            Ok(pattern) => implicit.push(Check {
                kind: Kind::Not,
                name: "--implicit-check-not".to_owned(),
                line: 0,
                text: text.clone(),
                pattern,
            }),
            Err(error) => return whole(format!("--implicit-check-not: {error}")),
        }
    }
    if text.is_empty() && !options.allow_empty {
        return whole("the text to check is empty".to_owned());
    }
    checks.push(Check {
        kind: Kind::End,
        name: "the end".to_owned(),
        line: 0,
        text: String::new(),
        pattern: Pattern::literal(""),
    });
    let text = blanks(text, options.strict_whitespace);
    let run = Run {
        text: &text,
        variables,
        options,
        faults: Vec::new(),
    };
    run.all(&steps(&checks, &implicit))
}

/// A directive with those before it that need a later match: `-NOT` and `-DAG`.
struct Step<'c> {
    before: Vec<&'c Check>,
    check: &'c Check,
}

fn steps<'c>(checks: &'c [Check], implicit: &'c [Check]) -> Vec<Step<'c>> {
    let mut steps = Vec::new();
    let mut before: Vec<&Check> = implicit.iter().collect();
    for check in checks {
        match check.kind {
            Kind::Not | Kind::Dag => before.push(check),
            _ => {
                let all = std::mem::replace(&mut before, implicit.iter().collect());
                steps.push(Step { before: all, check });
            }
        }
    }
    steps
}

/// The comparison of a text with steps. All positions are those of the whole text.
struct Run<'a> {
    text: &'a str,
    variables: Variables,
    options: &'a Options,
    faults: Vec<Fault>,
}

/// A failure, which is written down already.
struct Failed;

impl Run<'_> {
    /// Cuts the text into blocks at labels and compares each block.
    fn all(mut self, steps: &[Step<'_>]) -> Vec<Fault> {
        let mut rest = 0..self.text.len();
        let mut first = 0;
        while first < steps.len() {
            let label = |step: &Step<'_>| step.check.kind == Kind::Label;
            let label = steps[first..].iter().position(label).map(|n| first + n);
            let mut region = rest.clone();
            if let Some(label) = label {
                let Ok(found) = self.matches(steps[label].check, rest.clone()) else {
                    return self.faults;
                };
                region.end = found.end;
                rest.start = found.end;
            }
            if first != 0 && self.options.enable_var_scope {
                self.variables.retain(|name, _| name.starts_with('$'));
            }
            let end = label.map_or(steps.len(), |label| label + 1);
            for step in &steps[first..end] {
                match self.step(step, region.clone()) {
                    Ok(found) => region.start = found.end,
                    Err(Failed) => break,
                }
            }
            first = end;
        }
        self.faults
    }

    /// Compares a region with a directive and those before it.
    fn step(&mut self, step: &Step<'_>, region: Range<usize>) -> Result<Range<usize>, Failed> {
        let (start, absent) = self.before(&step.before, region.clone())?;
        let found = self.matches(step.check, start..region.end)?;
        self.lines_between(step.check, start..found.start)?;
        self.absent(&absent, start..found.start)?;
        Ok(found)
    }

    /// The place of a directive's matches, from the first to the last.
    fn matches(&mut self, check: &Check, region: Range<usize>) -> Result<Range<usize>, Failed> {
        let times = match check.kind {
            Kind::Count(n) => n,
            _ => 1,
        };
        let mut place = None;
        let mut from = region.start;
        for _ in 0..times {
            let found = self.find(check, from..region.end)?;
            let Some(found) = found else {
                return Err(self.missing(check, from..region.end));
            };
            from = found.end;
            let first = place.map_or(found.start, |first: Range<usize>| first.start);
            place = Some(first..found.end);
        }
        Ok(place.unwrap_or(from..from))
    }

    /// The first match of a pattern in a region. Its variables get their values.
    fn find(
        &mut self,
        check: &Check,
        region: Range<usize>,
    ) -> Result<Option<Range<usize>>, Failed> {
        let text = &self.text[region.clone()];
        let found = match check.kind {
            Kind::End => return Ok(Some(region.end..region.end)),
            Kind::Empty => {
                return Ok(empty_line(text).map(|at| at + region.start..at + region.start));
            }
            _ => {
                let ignore_case = self.options.ignore_case;
                check.pattern.find(text, &self.variables, ignore_case)
            }
        };
        match found {
            Ok(Some(Match { place, defined })) => {
                self.variables.extend(defined);
                Ok(Some(region.start + place.start..region.start + place.end))
            }
            Ok(None) => Ok(None),
            Err(error) => Err(self.fault(check, format!("`{}`: {error}", check.text))),
        }
    }

    /// Checks the distance of `-NEXT`, `-SAME` and `-EMPTY` from the match before.
    fn lines_between(&mut self, check: &Check, skipped: Range<usize>) -> Result<(), Failed> {
        let wanted = match check.kind {
            Kind::Next | Kind::Empty => 1,
            Kind::Same => 0,
            _ => return Ok(()),
        };
        let found = self.text[skipped.clone()].matches('\n').count();
        if found == wanted {
            return Ok(());
        }
        let (last, here) = (self.line(skipped.start), self.line(skipped.end));
        let wanted = last + wanted;
        let message = format!(
            "the match is on line {here} of the text, wanted line {wanted}\n{}",
            self.shown(skipped.end..skipped.end)
        );
        Err(self.fault(check, message))
    }

    /// Finds the matches of `-DAG`. Returns the position after them, and the `-NOT`s between them and the next match.
    fn before<'c>(
        &mut self,
        before: &[&'c Check],
        region: Range<usize>,
    ) -> Result<(usize, Vec<&'c Check>), Failed> {
        let mut start = region.start;
        let mut absent = Vec::new();
        for group in before.chunk_by(|a, b| (a.kind == Kind::Dag) == (b.kind == Kind::Dag)) {
            if group[0].kind != Kind::Dag {
                absent.extend(group);
                continue;
            }
            // The matches of the group, sorted by place. They do not overlap.
            let mut taken: Vec<Range<usize>> = Vec::new();
            for check in group {
                let mut from = start;
                loop {
                    let found = self.find(check, from..region.end)?;
                    let Some(found) = found else {
                        return Err(self.missing(check, from..region.end));
                    };
                    let later = taken.partition_point(|other| other.end <= found.start);
                    match taken.get(later) {
                        Some(other) if other.start < found.end => from = other.end,
                        _ => {
                            taken.insert(later, found);
                            break;
                        }
                    }
                }
            }
            let first = taken.first().map_or(start, |place| place.start);
            self.absent(&absent, start..first)?;
            absent.clear();
            start = taken.last().map_or(start, |place| place.end);
        }
        Ok((start, absent))
    }

    /// Checks that patterns are not in a region.
    fn absent(&mut self, checks: &[&Check], region: Range<usize>) -> Result<(), Failed> {
        let mut failed = false;
        for check in checks {
            if let Some(found) = self.find(check, region.clone())? {
                let shown = self.shown(found.start..found.start);
                let line = self.line(found.start);
                let text = &check.text;
                let message = format!("found `{text}` on line {line} of the text\n{shown}");
                let Failed = self.fault(check, message);
                failed = true;
            }
        }
        if failed { Err(Failed) } else { Ok(()) }
    }

    /// Writes a fault down.
    fn fault(&mut self, check: &Check, message: String) -> Failed {
        self.faults.push(Fault {
            line: check.line,
            message: format!("{}: {message}", check.name),
        });
        Failed
    }

    /// Writes down that a pattern is not in a region, with the line that is most like it.
    fn missing(&mut self, check: &Check, region: Range<usize>) -> Failed {
        let text = &self.text[region.clone()];
        let from = self.line(region.start);
        let mut message = format!("found no `{}` from line {from} of the text on", check.text);
        if let Some(near) = nearest(&check.text, text) {
            message += &format!(", most like it is\n-{}\n+{}", check.text, near.trim_start());
        }
        message += &format!("\n{}", self.shown(region));
        self.fault(check, message)
    }

    /// The number of the line at a position.
    fn line(&self, at: usize) -> usize {
        self.text[..at].matches('\n').count() + 1
    }

    /// The lines of a region with their numbers, the first ones of many.
    fn shown(&self, region: Range<usize>) -> String {
        let first = self.line(region.start);
        let start = self.text[..region.start].rfind('\n').map_or(0, |at| at + 1);
        let end = region.end.max(region.start);
        let end = self.text[end..]
            .find('\n')
            .map_or(self.text.len(), |at| end + at);
        let lines: Vec<&str> = self.text[start..end].lines().collect();
        let numbered = lines.iter().take(SHOWN).enumerate();
        let mut shown: Vec<String> = numbered
            .map(|(i, line)| format!("{:>5}| {line}", first + i))
            .collect();
        if SHOWN < lines.len() {
            shown.push(format!("     | and {} lines more", lines.len() - SHOWN));
        }
        shown.join("\n")
    }
}

/// The position after the first line break that an empty line follows.
fn empty_line(text: &str) -> Option<usize> {
    let mut breaks = text.match_indices('\n').map(|(at, _)| at + 1);
    breaks.find(|&at| text[at..].is_empty() || text[at..].starts_with('\n'))
}

/// The line that shares most words with a pattern.
fn nearest<'t>(pattern: &str, text: &'t str) -> Option<&'t str> {
    let words = |text: &'_ str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|w| !w.is_empty()).map(str::to_owned).collect()
    };
    let wanted = words(pattern);
    let shared = |line: &&str| {
        let found = words(line);
        wanted.iter().filter(|word| found.contains(word)).count()
    };
    let lines = text.lines().map(|line| (shared(&line), line));
    // The first of the best.
    let best = lines.rev().max_by_key(|(shared, _)| *shared);
    best.filter(|(shared, _)| 0 < *shared).map(|(_, line)| line)
}
