//! `CHECK`, `CHECK-NEXT` and `CHECK-NOT`: checks of the lines of an output, in order.

/// One check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Check {
    pub(super) kind: Kind,
    pub(super) text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// After the last match, on the same line or a later one.
    Somewhere,
    /// On the line right after that of the last match.
    Next,
    /// Nowhere between the last match and the next one.
    Not,
}

/// Returns whether a line contains a text; white space compares as one blank.
pub(super) fn holds(line: &str, text: &str) -> bool {
    blanks(line).contains(&blanks(text))
}

fn blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first check that does not hold, and every text that must not be there but is.
pub(super) fn run(checks: &[Check], output: &str) -> Vec<String> {
    let lines: Vec<String> = output.lines().map(blanks).collect();
    let text = lines.join("\n");
    let mut faults = Vec::new();
    let mut absent: Vec<&Check> = Vec::new();
    // The end of the last match; `None` before the first one.
    let mut last: Option<usize> = None;
    for check in checks {
        let start = last.unwrap_or(0);
        let wanted = blanks(&check.text);
        let (word, found) = match check.kind {
            Kind::Not => {
                absent.push(check);
                continue;
            }
            Kind::Somewhere => ("CHECK", text[start..].find(&wanted).map(|i| start + i)),
            Kind::Next => {
                let line = last.map_or(Some(0), |end| Some(end + text[end..].find('\n')? + 1));
                (
                    "CHECK-NEXT",
                    line.and_then(|line| find_in_line(&text, line, &wanted)),
                )
            }
        };
        let Some(at) = found else {
            faults.push(format!(
                "{word}: found no `{}` in\n{}",
                check.text,
                &text[start..]
            ));
            return faults;
        };
        faults.extend(present(&absent, &text[start..at]));
        absent.clear();
        last = Some(at + wanted.len());
    }
    faults.extend(present(&absent, &text[last.unwrap_or(0)..]));
    faults
}

/// The position of a text in the line that starts at byte `start`.
fn find_in_line(text: &str, start: usize, wanted: &str) -> Option<usize> {
    let line = text[start..].lines().next().unwrap_or("");
    line.find(wanted).map(|i| start + i)
}

fn present(absent: &[&Check], between: &str) -> Vec<String> {
    let mut faults = Vec::new();
    for check in absent {
        if let Some(line) = between.lines().find(|line| holds(line, &check.text)) {
            faults.push(format!("CHECK-NOT: found `{}` in\n{line}", check.text));
        }
    }
    faults
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check(checks: &[(Kind, &str)], output: &str, faults: &[&str]) {
        let make = |(kind, text): &(Kind, &str)| Check {
            kind: *kind,
            text: (*text).to_owned(),
        };
        let checks: Vec<Check> = checks.iter().map(make).collect();
        let found = run(&checks, output);
        let first = |fault: &String| fault.lines().next().unwrap_or("").to_owned();
        assert_eq!(found.iter().map(first).collect::<Vec<_>>(), faults);
    }

    #[test]
    fn matches_come_in_order() {
        use Kind::{Next, Not, Somewhere};
        check(&[(Somewhere, "b"), (Next, "c d")], "a\nb\nc   d\n", &[]);
        check(
            &[(Somewhere, "b"), (Somewhere, "a")],
            "a\nb\n",
            &["CHECK: found no `a` in"],
        );
        check(
            &[(Somewhere, "a"), (Next, "c")],
            "a\nb\nc\n",
            &["CHECK-NEXT: found no `c` in"],
        );
        check(&[(Next, "a")], "a\nb\n", &[]);
        check(
            &[(Not, "b"), (Somewhere, "c")],
            "a\nb\nc\n",
            &["CHECK-NOT: found `b` in"],
        );
        check(&[(Not, "c"), (Somewhere, "b")], "a\nb\nc\n", &[]);
        check(
            &[(Somewhere, "b"), (Not, "c")],
            "a\nb\nc\n",
            &["CHECK-NOT: found `c` in"],
        );
        check(&[(Somewhere, "a")], "", &["CHECK: found no `a` in"]);
        check(&[(Somewhere, "a"), (Somewhere, "c")], "a b c\n", &[]);
        check(
            &[(Somewhere, "a"), (Somewhere, "a")],
            "a b c\n",
            &["CHECK: found no `a` in"],
        );
        check(
            &[(Somewhere, "a"), (Next, "b")],
            "a b c\n",
            &["CHECK-NEXT: found no `b` in"],
        );
        check(
            &[(Somewhere, "a"), (Not, "b"), (Somewhere, "c")],
            "a b c\n",
            &["CHECK-NOT: found `b` in"],
        );
    }
}
