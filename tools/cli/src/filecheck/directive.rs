//! Finds directives in the comments of a file: `CHECK:`, `CHECK-NEXT:` and the others, for each prefix.

use super::options::{COMMENTS, Options, blanks};
use super::pattern::{Pattern, PatternError};

/// The endings of directives, without `COUNT-n`.
pub(crate) const ENDINGS: [(&str, Kind); 6] = [
    ("NEXT", Kind::Next),
    ("SAME", Kind::Same),
    ("NOT", Kind::Not),
    ("DAG", Kind::Dag),
    ("LABEL", Kind::Label),
    ("EMPTY", Kind::Empty),
];

/// The meaning of a directive.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// After the last match, on the same line or a later one.
    Plain,
    /// On the line right after that of the last match.
    Next,
    /// On the line of the last match.
    Same,
    /// Nowhere between the last match and the next one.
    Not,
    /// After the last match that is none of this kind, in any order with its neighbours of this kind.
    Dag,
    /// At the end of a block; matches of other directives do not leave their blocks.
    Label,
    /// The line right after that of the last match is empty.
    Empty,
    /// So many times, one after another.
    Count(usize),
    /// The end of the text.
    End,
}

/// A difference, or a directive that cannot be read.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Fault {
    /// The line of the directive; 0 for the file as a whole.
    pub(crate) line: usize,
    pub(crate) message: String,
}

/// A directive and its pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Check {
    pub(super) kind: Kind,
    /// The directive as it is written.
    pub(super) name: String,
    /// The number of its line.
    pub(super) line: usize,
    /// The text of its pattern.
    pub(super) text: String,
    pub(super) pattern: Pattern,
}

/// A directive as it stands in a line.
struct Found<'t> {
    name: &'t str,
    prefix: &'t str,
    kind: Kind,
    is_literal: bool,
    /// The line after the colon.
    rest: &'t str,
}

/// Reads all directives of a file.
pub(super) fn read(source: &str, options: &Options) -> Result<Vec<Check>, Vec<Fault>> {
    let prefixes = options.prefixes();
    let (mut checks, mut faults) = (Vec::new(), Vec::new());
    let mut unused = prefixes.clone();
    let mut matched = false;
    for (i, line) in source.lines().enumerate() {
        let line_number = i + 1;
        let line = blanks(line, options.strict_whitespace);
        let mut fault = |message: String| {
            faults.push(Fault {
                line: line_number,
                message,
            });
        };
        let found = match find(&line, &prefixes) {
            Ok(Some(found)) => found,
            Ok(None) => continue,
            Err(message) => {
                fault(message);
                continue;
            }
        };
        unused.retain(|prefix| *prefix != found.prefix);
        let before = matches!(found.kind, Kind::Next | Kind::Same | Kind::Empty);
        if before && !matched {
            fault(format!("{}: there is no match before it", found.name));
            continue;
        }
        matched |= !matches!(found.kind, Kind::Not | Kind::Dag);
        match check(&found, line_number, options) {
            Ok(check) => checks.push(check),
            Err(message) => fault(format!("{}: {message}", found.name)),
        }
    }
    if options.allow_unused_prefixes && unused.len() < prefixes.len() {
        unused.clear();
    }
    for prefix in unused {
        let message = format!("found no directive with the prefix `{prefix}`");
        faults.push(Fault { line: 0, message });
    }
    if faults.is_empty() {
        Ok(checks)
    } else {
        Err(faults)
    }
}

fn check(found: &Found<'_>, line: usize, options: &Options) -> Result<Check, String> {
    let strict = options.strict_whitespace && options.match_full_lines;
    let text = match strict {
        true => found.rest,
        false => found.rest.trim_matches([' ', '\t']),
    };
    match (text.is_empty(), found.kind == Kind::Empty) {
        (true, false) => return Err("a text is missing".to_owned()),
        (false, true) => return Err(format!("found `{text}`, wanted nothing")),
        _ => {}
    }
    let mut pattern = match found.is_literal {
        true => Pattern::literal(text),
        false => Pattern::read(text, line).map_err(|e: PatternError| e.to_string())?,
    };
    if found.kind == Kind::Label && pattern.has_variables() {
        return Err("a label has no variables".to_owned());
    }
    if options.match_full_lines && found.kind != Kind::Not {
        pattern = pattern.of_lines(options.strict_whitespace);
    }
    Ok(Check {
        kind: found.kind,
        name: found.name.to_owned(),
        line,
        text: text.to_owned(),
        pattern,
    })
}

/// The first directive of a line.
fn find<'t>(line: &'t str, prefixes: &[&'t str]) -> Result<Option<Found<'t>>, String> {
    let mut from = 0;
    let known = || prefixes.iter().chain(&COMMENTS);
    loop {
        let at = |prefix: &&str| Some((line[from..].find(prefix)? + from, prefix.len()));
        // The leftmost prefix, and of two at one place the longer one.
        let all = known().filter_map(at);
        let Some((start, len)) = all.min_by_key(|&(at, len)| (at, usize::MAX - len)) else {
            return Ok(None);
        };
        let prefix = &line[start..start + len];
        let rest = &line[start + len..];
        from = start + len;
        let inside = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
        if line[..start].ends_with(inside) {
            continue;
        }
        if COMMENTS.contains(&prefix) {
            if rest.starts_with(':') {
                return Ok(None);
            }
            continue;
        }
        let Some((kind, is_literal, after)) = ending(rest)? else {
            continue;
        };
        let end = line.len() - after.len();
        return Ok(Some(Found {
            name: line[start..end].trim_end_matches(':'),
            prefix,
            kind,
            is_literal,
            rest: after,
        }));
    }
}

/// Reads what follows a prefix: the kind, whether `{LITERAL}` is there, and the text after the colon. `None` if it is
/// no directive.
fn ending(rest: &str) -> Result<Option<(Kind, bool, &str)>, String> {
    let Some(word) = rest.strip_prefix('-') else {
        return Ok(modifiers(rest).map(|(literal, after)| (Kind::Plain, literal, after)));
    };
    if let Some(count) = word.strip_prefix("COUNT-") {
        let digits = count.trim_start_matches(|c: char| c.is_ascii_digit());
        let number = count[..count.len() - digits.len()].parse::<u32>();
        let number = number.ok().filter(|n| 0 < *n);
        return match (number, modifiers(digits)) {
            (Some(n), Some((literal, after))) => {
                Ok(Some((Kind::Count(n as usize), literal, after)))
            }
            _ => Err("found no number above 0 after `-COUNT-`".to_owned()),
        };
    }
    for (name, kind) in ENDINGS {
        let Some(after) = word.strip_prefix(name) else {
            continue;
        };
        let mut others = ENDINGS.iter().map(|(other, _)| *other);
        let second = others.find(|other| after.starts_with(&format!("-{other}:")));
        if let Some(second) = second
            && (name == "NOT") != (second == "NOT")
        {
            return Err(format!("`-{name}` and `-{second}` cannot be combined"));
        }
        return Ok(modifiers(after).map(|(literal, after)| (kind, literal, after)));
    }
    Ok(None)
}

/// Reads `:` or `{LITERAL}:`.
fn modifiers(rest: &str) -> Option<(bool, &str)> {
    if let Some(after) = rest.strip_prefix(':') {
        return Some((false, after));
    }
    let (inside, after) = rest.strip_prefix('{')?.split_once("}:")?;
    let all = inside.split(',').all(|word| word.trim() == "LITERAL");
    all.then_some((true, after))
}
