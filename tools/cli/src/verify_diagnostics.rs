//! `--verify-diagnostics`: compares diagnostics with the `expected-…` comments of the input.
//!
//! `// expected-error@+1 {{text}}` wants an error on the next line whose code is `text` or whose message or notes
//! contain it. The place is `@+N`, `@-N`, `@above` or `@below`, or `@unknown` for a diagnostic without a place; the
//! default is this line. The severities are `error`, `warning`, `remark` and `note`. Every error and warning must be
//! expected; remarks and notes may be. A comment with another word than these is refused, as a mistake.

use crate::part::Part;
use optc::text::{Lines, nearest};
use optc::{Diagnostic, Error, Severity};

/// The diagnostic that a comment wants.
#[derive(Clone, PartialEq, Eq, Debug)]
struct Expected {
    /// The line of the comment.
    at: usize,
    /// The line of the diagnostic; `None` for `@unknown`.
    line: Option<usize>,
    kind: Kind,
    text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Kind {
    Error,
    Warning,
    Remark,
    Note,
}

const KINDS: [(&str, Kind); 4] = [
    ("expected-error", Kind::Error),
    ("expected-warning", Kind::Warning),
    ("expected-remark", Kind::Remark),
    ("expected-note", Kind::Note),
];

/// A diagnostic and its place.
struct Found {
    line: Option<usize>,
    kind: Kind,
    code: &'static str,
    texts: Vec<String>,
    used: bool,
}

/// One line for each comment without a matching diagnostic, and for each error and warning without a comment.
pub(crate) fn check(name: &str, source: &str, parts: &[Part], errors: &[Error]) -> Vec<String> {
    let mut found = Vec::new();
    let lines = Lines::new(source);
    for part in parts {
        let said = part
            .before
            .diagnostics
            .iter()
            .chain(&part.cx.remarks)
            .cloned()
            .collect();
        for diag in part.before.placed(said) {
            add(&mut found, &diag, &lines);
        }
    }
    for diag in errors.iter().flat_map(|e| &e.diagnostics) {
        add(&mut found, diag, &lines);
    }
    compare(name, source, found)
}

fn add(found: &mut Vec<Found>, diag: &Diagnostic, lines: &Lines<'_>) {
    let line = diag
        .labels
        .first()
        .map(|(span, _)| lines.position(span.start).line);
    let kind = match diag.severity {
        Severity::Error => Kind::Error,
        Severity::Warning => Kind::Warning,
        Severity::Remark => Kind::Remark,
    };
    let labels = diag.labels.iter().map(|(_, text)| text.clone());
    let texts: Vec<String> = labels.chain(diag.notes.iter().cloned()).collect();
    for note in &texts {
        let texts = vec![note.clone()];
        found.push(Found {
            line,
            kind: Kind::Note,
            code: "",
            texts,
            used: false,
        });
    }
    let texts = std::iter::once(diag.message.clone()).chain(texts).collect();
    found.push(Found {
        line,
        kind,
        code: diag.code.as_str(),
        texts,
        used: false,
    });
}

fn compare(name: &str, source: &str, mut found: Vec<Found>) -> Vec<String> {
    let mut faults = Vec::new();
    for expected in expectations(name, source, &mut faults) {
        let fits = |f: &&mut Found| {
            let says =
                f.code == expected.text || f.texts.iter().any(|t| t.contains(&expected.text));
            !f.used && f.kind == expected.kind && f.line == expected.line && says
        };
        match found.iter_mut().find(fits) {
            Some(hit) => hit.used = true,
            None => faults.push(format!(
                "{name}:{}: nothing fits `{} {{{{{}}}}}`{}",
                expected.at,
                word(expected.kind),
                expected.text,
                expected
                    .line
                    .map_or_else(String::new, |line| format!(" on line {line}"))
            )),
        }
    }
    for f in found
        .iter()
        .filter(|f| !f.used && matches!(f.kind, Kind::Error | Kind::Warning))
    {
        let place = f
            .line
            .map_or_else(|| name.to_owned(), |line| format!("{name}:{line}"));
        let message = f.texts.first().map_or("", String::as_str);
        let kind = word(f.kind).trim_start_matches("expected-");
        faults.push(format!("{place}: unexpected {kind}[{}]: {message}", f.code));
    }
    faults
}

fn word(kind: Kind) -> &'static str {
    KINDS
        .iter()
        .find(|(_, k)| *k == kind)
        .map_or("", |(word, _)| word)
}

fn expectations(name: &str, source: &str, faults: &mut Vec<String>) -> Vec<Expected> {
    let mut all = Vec::new();
    for (i, line) in source.lines().enumerate() {
        let Some((_, comment)) = line.split_once("//") else {
            continue;
        };
        for (word, rest) in words(comment) {
            let place = format!("{name}:{}", i + 1);
            let Some((_, kind)) = KINDS.iter().find(|(known, _)| *known == word) else {
                let known = KINDS.map(|(known, _)| known);
                let near = nearest(word, known).unwrap_or(known[0]);
                faults.push(format!("{place}: found `{word}`, wanted `{near}`"));
                continue;
            };
            match expectation(rest, i + 1, *kind) {
                Some(expected) => all.push(expected),
                None => faults.push(format!(
                    "{place}: cannot read `{word}`, wanted `{word}@+1 {{{{text}}}}`"
                )),
            }
        }
    }
    all
}

/// The words `expected-…` of a comment that a place or a text follows, with what follows.
pub(crate) fn words(comment: &str) -> impl Iterator<Item = (&str, &str)> {
    const START: &str = "expected-";
    comment.match_indices(START).filter_map(|(at, _)| {
        let rest = &comment[at + START.len()..];
        let end = rest.find(|c: char| !c.is_ascii_alphabetic() && c != '-')?;
        let after = &rest[end..];
        let opens = after.starts_with('@') || after.trim_start().starts_with("{{");
        opens.then(|| (&comment[at..at + START.len() + end], after))
    })
}

/// Reads `@+1 {{text}}` on line `at`.
fn expectation(rest: &str, at: usize, kind: Kind) -> Option<Expected> {
    let (place, rest) = rest.split_once("{{")?;
    let (text, _) = rest.split_once("}}")?;
    let line = match place.trim() {
        "" => Some(at),
        "@above" => Some(at.checked_sub(1)?),
        "@below" => Some(at + 1),
        "@unknown" => None,
        place => match place.strip_prefix("@+") {
            Some(n) => Some(at.checked_add(n.parse().ok()?)?),
            None => Some(at.checked_sub(place.strip_prefix("@-")?.parse().ok()?)?),
        },
    };
    Some(Expected {
        at,
        line,
        kind,
        text: text.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use optc::{Code, Span};

    const BAD_THING: Code = Code::input("bad-thing", "a word", "a word", "try");
    const REMARK: Code = Code::input("r", "a word", "a word", "try");

    #[track_caller]
    fn check(source: &str, diags: &[Diagnostic], wanted: &[&str]) {
        let mut found = Vec::new();
        for diag in diags {
            add(&mut found, diag, &Lines::new(source));
        }
        assert_eq!(compare("f", source, found), wanted);
    }

    fn error_at(start: u32) -> Diagnostic {
        let span = Span {
            start,
            end: start + 1,
        };
        Diagnostic::error(BAD_THING, "found bad")
            .at(span, "here")
            .note("try good")
    }

    #[test]
    fn codes_messages_and_notes_fit() {
        check(
            "// expected-error@+1 {{bad-thing}}\nx",
            &[error_at(35)],
            &[],
        );
        check("x // expected-error {{found bad}}", &[error_at(0)], &[]);
        check("x // expected-error {{try good}}", &[error_at(0)], &[]);
        check(
            "x\n// expected-error@-1 {{bad}} expected-note@above {{try}}",
            &[error_at(0)],
            &[],
        );
        let nowhere = Diagnostic::error(BAD_THING, "found bad");
        check("// expected-error@unknown {{bad-thing}}", &[nowhere], &[]);
    }

    #[test]
    fn what_differs_is_told() {
        let wrong_line = "f:1: nothing fits `expected-error {{bad-thing}}` on line 2";
        let unexpected = "f:1: unexpected error[bad-thing]: found bad";
        check(
            "// expected-error@+1 {{bad-thing}}",
            &[error_at(0)],
            &[wrong_line, unexpected],
        );
        let once = "x // expected-error {{bad-thing}}";
        check(once, &[error_at(0), error_at(0)], &[unexpected]);
        check("x", &[Diagnostic::remark(REMARK, "said")], &[]);
        let faulty = "f:1: cannot read `expected-error`, wanted `expected-error@+1 {{text}}`";
        check("// expected-error@x {{a}}", &[], &[faulty]);
        check("// expected-error@-1 a", &[], &[faulty]);
        let misspelt = "f:1: found `expected-eror`, wanted `expected-error`";
        check("// expected-eror@-1 {{a}}", &[], &[misspelt]);
        check("// an expected-eror in words", &[], &[]);
    }
}
