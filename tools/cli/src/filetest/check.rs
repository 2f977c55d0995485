//! `CHECK`, `CHECK-NEXT` and `CHECK-NOT`: what the lines of an output hold, in order.

/// One check.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Check {
    pub(super) kind: Kind,
    pub(super) text: String,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Kind {
    /// A line after the last match.
    Somewhere,
    /// The line right after the last match.
    Next,
    /// No line between the last match and the next one.
    Not,
}

/// Whether a line holds a text; white space compares as one blank.
pub(super) fn holds(line: &str, text: &str) -> bool {
    blanks(line).contains(&blanks(text))
}

fn blanks(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The first check that does not hold, and every text that must not be there but is.
pub(super) fn run(checks: &[Check], output: &str) -> Vec<String> {
    let lines: Vec<&str> = output.lines().collect();
    let mut faults = Vec::new();
    let mut absent: Vec<&Check> = Vec::new();
    let mut next = 0;
    for check in checks {
        let found = match check.kind {
            Kind::Not => {
                absent.push(check);
                continue;
            }
            Kind::Somewhere => (next..lines.len()).find(|&i| holds(lines[i], &check.text)),
            Kind::Next => Some(next).filter(|&i| i < lines.len() && holds(lines[i], &check.text)),
        };
        let Some(at) = found else {
            let word = if check.kind == Kind::Next {
                "CHECK-NEXT"
            } else {
                "CHECK"
            };
            let rest = lines[next.min(lines.len())..].join("\n");
            faults.push(format!("{word}: found no `{}` in\n{rest}", check.text));
            return faults;
        };
        faults.extend(present(&absent, &lines[next..at]));
        absent.clear();
        next = at + 1;
    }
    faults.extend(present(&absent, &lines[next.min(lines.len())..]));
    faults
}

fn present(absent: &[&Check], lines: &[&str]) -> Vec<String> {
    let mut faults = Vec::new();
    for check in absent {
        if let Some(line) = lines.iter().find(|line| holds(line, &check.text)) {
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
    }
}
