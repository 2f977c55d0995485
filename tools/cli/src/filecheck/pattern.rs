//! One pattern: text, `{{regular expressions}}`, `[[NAME:regular expression]]` and `[[NAME]]`.

use super::posix::{PosixError, literal, translate};
use indexmap::{IndexMap, IndexSet};
use regex_automata::hybrid::BuildError;
use regex_automata::hybrid::dfa::{self, Cache, DFA};
use regex_automata::hybrid::regex::Regex;
use regex_automata::nfa::thompson;
use regex_automata::util::syntax;
use regex_automata::{Anchored, Input, MatchKind};
use std::ops::Range;
use thiserror::Error;

/// The most memory that a compiled regular expression may take, in bytes.
const MAX_NFA: usize = 1 << 22;

/// The values of variables.
pub(super) type Variables = IndexMap<String, String>;

/// The reason why a pattern cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum PatternError {
    /// `{{` without `}}`.
    #[error("`{{{{` is not closed by `}}}}`")]
    Open,
    /// `[[` without `]]`.
    #[error("`[[` is not closed by `]]`")]
    OpenVariable,
    /// A name that no variable can have.
    #[error(
        "found the variable `{0}`, wanted letters, digits and `_`, `$` in front for all blocks"
    )]
    Name(String),
    /// An expression of numbers.
    #[error("found `[[#{0}]]`: numbers are not computed with, but for `[[#@LINE+1]]`")]
    Number(String),
    /// A regular expression.
    #[error("the regular expression `{regex}`: {source}")]
    Regex {
        /// The text.
        regex: String,
        /// The reason why it is none.
        source: PosixError,
    },
}

/// The reason why a pattern cannot be searched for.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub(super) enum SearchError {
    /// A variable is used before it has a value.
    #[error("the variable `{0}` has no value")]
    Undefined(String),
    /// The search would need too much memory.
    #[error("the pattern is too large: {0}")]
    TooLarge(String),
}

impl From<BuildError> for SearchError {
    fn from(error: BuildError) -> SearchError {
        SearchError::TooLarge(error.to_string())
    }
}

/// A part of a pattern.
#[derive(Clone, PartialEq, Eq, Debug)]
enum Piece {
    Text(String),
    /// A regular expression in the syntax of the engine, and the variable that keeps what it matched.
    Regex(String, Option<String>),
    Use(String),
}

/// The text that a directive wants.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) struct Pattern(Vec<Piece>);

/// A match: its place, and the values of variables defined in it.
#[derive(Debug)]
pub(super) struct Match {
    pub(super) place: Range<usize>,
    pub(super) defined: Vec<(String, String)>,
}

impl Pattern {
    /// A pattern that is text alone.
    pub(super) fn literal(text: &str) -> Pattern {
        Pattern(vec![Piece::Text(text.to_owned())])
    }

    /// Reads the text behind a directive on this line.
    pub(super) fn read(text: &str, line: usize) -> Result<Pattern, PatternError> {
        let (mut pieces, mut rest) = (Vec::new(), text);
        while !rest.is_empty() {
            if let Some(inside) = rest.strip_prefix("{{") {
                let (regex, after) = inside.split_once("}}").ok_or(PatternError::Open)?;
                pieces.push(Piece::Regex(translated(regex)?, None));
                rest = after;
            } else if let Some(inside) = rest.strip_prefix("[[") {
                let end = variable_end(inside).ok_or(PatternError::OpenVariable)?;
                pieces.push(variable(&inside[..end], line)?);
                rest = &inside[end + 2..];
            } else {
                let opens = ["{{", "[["].map(|open| rest.find(open).unwrap_or(rest.len()));
                let (fixed, after) = rest.split_at(opens[0].min(opens[1]));
                pieces.push(Piece::Text(fixed.to_owned()));
                rest = after;
            }
        }
        Ok(Pattern(pieces))
    }

    /// The pattern for whole lines, in which blanks may surround it unless they are compared as they are.
    pub(super) fn of_lines(mut self, strict_whitespace: bool) -> Pattern {
        let blanks = if strict_whitespace { "" } else { " *" };
        self.0.insert(0, Piece::Regex(format!("^{blanks}"), None));
        self.0.push(Piece::Regex(format!("{blanks}$"), None));
        self
    }

    /// Returns whether a variable is defined or used.
    pub(super) fn has_variables(&self) -> bool {
        let is_variable = |piece: &Piece| match piece {
            Piece::Regex(_, name) => name.is_some(),
            Piece::Use(_) => true,
            Piece::Text(_) => false,
        };
        self.0.iter().any(is_variable)
    }

    /// The first match: the leftmost, and of these the longest. Of the parts of a pattern the first is as long as it
    /// can be, then the second, and so on.
    pub(super) fn find(
        &self,
        text: &str,
        variables: &Variables,
        ignore_case: bool,
    ) -> Result<Option<Match>, SearchError> {
        let parts = self.parts(variables)?;
        let fixed: Option<String> = parts.iter().map(Part::fixed).collect();
        if let Some(fixed) = fixed.filter(|fixed| !ignore_case || fixed.is_empty()) {
            // LLVM finds a pattern of empty variables nowhere.
            let at = text.find(&fixed).filter(|_| !fixed.is_empty());
            return Ok(at.map(|at| Match {
                place: at..at + fixed.len(),
                defined: Vec::new(),
            }));
        }
        Search::new(parts, text, ignore_case)?.first()
    }

    /// The parts with the values of variables that were defined by earlier patterns.
    fn parts(&self, variables: &Variables) -> Result<Vec<Part>, SearchError> {
        let mut parts: Vec<Part> = Vec::with_capacity(self.0.len());
        for piece in &self.0 {
            parts.push(match piece {
                Piece::Text(text) => Part::Fixed(text.clone()),
                Piece::Regex(regex, name) => Part::Regex(regex.clone(), name.clone()),
                Piece::Use(name) => {
                    let here = |part: &Part| matches!(part, Part::Regex(_, Some(n)) if n == name);
                    match (parts.iter().rposition(here), variables.get(name)) {
                        (Some(earlier), _) => Part::Same(earlier),
                        (None, Some(value)) => Part::Fixed(value.clone()),
                        (None, None) => return Err(SearchError::Undefined(name.clone())),
                    }
                }
            });
        }
        Ok(parts)
    }
}

fn translated(regex: &str) -> Result<String, PatternError> {
    translate(regex).map_err(|source| PatternError::Regex {
        regex: regex.to_owned(),
        source,
    })
}

/// The position of the `]]` that closes a variable; brackets of its regular expression are skipped.
fn variable_end(text: &str) -> Option<usize> {
    let (mut depth, mut escaped) = (0usize, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '[' => depth += 1,
            ']' if depth == 0 => return text[at..].starts_with("]]").then_some(at),
            ']' => depth -= 1,
            _ => {}
        }
    }
    None
}

/// Reads what stands between `[[` and `]]`.
fn variable(text: &str, line: usize) -> Result<Piece, PatternError> {
    let number = text.strip_prefix('#');
    let expression: String = number.unwrap_or(text).split_whitespace().collect();
    if let Some(offset) = expression.strip_prefix("@LINE") {
        let offset = match offset {
            "" => Some(0),
            offset if offset.starts_with(['+', '-']) => offset.parse::<isize>().ok(),
            _ => None,
        };
        let line = offset.and_then(|offset| line.checked_add_signed(offset));
        let line = line.ok_or_else(|| PatternError::Name(text.to_owned()))?;
        return Ok(Piece::Text(line.to_string()));
    }
    if let Some(number) = number {
        return Err(PatternError::Number(number.to_owned()));
    }
    let (name, regex) = match text.split_once(':') {
        Some((name, regex)) => (name, Some(regex)),
        None => (text, None),
    };
    if !is_name(name.strip_prefix('$').unwrap_or(name)) {
        return Err(PatternError::Name(name.to_owned()));
    }
    let name = name.to_owned();
    Ok(match regex {
        Some(regex) => Piece::Regex(translated(regex)?, Some(name)),
        None => Piece::Use(name),
    })
}

/// Returns whether a variable can have this name.
pub(super) fn is_name(name: &str) -> bool {
    let letter = |c: char| c.is_ascii_alphabetic() || c == '_';
    name.starts_with(letter) && name.chars().all(|c| letter(c) || c.is_ascii_digit())
}

/// A part of a pattern whose variables have values.
enum Part {
    Fixed(String),
    Regex(String, Option<String>),
    /// The text that an earlier part of this pattern matched.
    Same(usize),
}

impl Part {
    /// The text, if it is fixed.
    fn fixed(&self) -> Option<&str> {
        match self {
            Part::Fixed(text) => Some(text),
            Part::Regex(..) | Part::Same(_) => None,
        }
    }
}

/// The search for a pattern in a text.
struct Search<'t> {
    text: &'t str,
    parts: Vec<Part>,
    /// True if nothing refers back, so that a part that failed at a place fails there again.
    independent: bool,
    /// The places where a match may start. A part that refers back may match here what its original may.
    start: Regex,
    whole: Anchor,
    /// Each part.
    anchors: Vec<Anchor>,
    /// The places of parts in the match that is tried.
    places: Vec<Range<usize>>,
}

impl<'t> Search<'t> {
    fn new(parts: Vec<Part>, text: &'t str, ignore_case: bool) -> Result<Search<'t>, SearchError> {
        let syntax = syntax::Config::new().multi_line(true);
        let syntax = syntax.case_insensitive(ignore_case);
        let mut regexes: Vec<String> = Vec::with_capacity(parts.len());
        for part in &parts {
            regexes.push(match part {
                Part::Fixed(text) => literal(text),
                Part::Regex(regex, _) => format!("(?:{regex})"),
                Part::Same(earlier) => regexes[*earlier].clone(),
            });
        }
        let joined = regexes.concat();
        let anchors = regexes.iter().map(|regex| Anchor::new(regex, syntax));
        Ok(Search {
            text,
            independent: !parts.iter().any(|part| matches!(part, Part::Same(_))),
            places: vec![0..0; parts.len()],
            parts,
            start: Regex::builder()
                .dfa(lazy())
                .syntax(syntax)
                .thompson(small())
                .build(&joined)?,
            whole: Anchor::new(&joined, syntax)?,
            anchors: anchors.collect::<Result<_, _>>()?,
        })
    }

    fn first(mut self) -> Result<Option<Match>, SearchError> {
        let (mut from, mut cache) = (0, self.start.create_cache());
        while from <= self.text.len() {
            let Some(found) = self
                .start
                .find(&mut cache, Input::new(self.text).range(from..))
            else {
                break;
            };
            let start = found.start();
            let mut end = self.whole.longest(self.text, start..self.text.len());
            while let Some(at) = end {
                if self.is_cut(start, at) {
                    let place = start..at;
                    let defined = self.defined();
                    return Ok(Some(Match { place, defined }));
                }
                end = self.whole.shorter(self.text, start, at);
            }
            let next = self.text[start..].chars().next();
            from = start + next.map_or(1, char::len_utf8);
        }
        Ok(None)
    }

    /// Finds places of all parts between two positions.
    fn is_cut(&mut self, start: usize, end: usize) -> bool {
        self.follow(0, start, end, &mut IndexSet::new())
    }

    /// Finds places of the parts from this one on. `failed` has parts and positions at which that is impossible.
    fn follow(
        &mut self,
        part: usize,
        at: usize,
        end: usize,
        failed: &mut IndexSet<(usize, usize)>,
    ) -> bool {
        if part == self.parts.len() {
            return at == end;
        }
        if self.independent && failed.contains(&(part, at)) {
            return false;
        }
        let mut next = match &self.parts[part] {
            Part::Same(earlier) => {
                let same = &self.text[self.places[*earlier].clone()];
                let there = self.text[at..end].starts_with(same);
                there.then_some(at + same.len())
            }
            Part::Fixed(_) | Part::Regex(..) => self.anchors[part].longest(self.text, at..end),
        };
        while let Some(stop) = next {
            self.places[part] = at..stop;
            if self.follow(part + 1, stop, end, failed) {
                return true;
            }
            next = match &self.parts[part] {
                Part::Regex(..) => self.anchors[part].shorter(self.text, at, stop),
                Part::Fixed(_) | Part::Same(_) => None,
            };
        }
        failed.insert((part, at));
        false
    }

    /// The variables of the match.
    fn defined(&self) -> Vec<(String, String)> {
        let places = self.parts.iter().zip(&self.places);
        let value = |(part, place): (&Part, &Range<usize>)| match part {
            Part::Regex(_, Some(name)) => Some((name.clone(), self.text[place.clone()].to_owned())),
            Part::Regex(_, None) | Part::Fixed(_) | Part::Same(_) => None,
        };
        places.filter_map(value).collect()
    }
}

/// An expression that is matched at one place.
struct Anchor {
    dfa: DFA,
    cache: Cache,
}

impl Anchor {
    fn new(regex: &str, syntax: syntax::Config) -> Result<Anchor, SearchError> {
        let dfa = DFA::builder()
            .configure(lazy().match_kind(MatchKind::All))
            .syntax(syntax)
            .thompson(small())
            .build(regex)?;
        let cache = dfa.create_cache();
        Ok(Anchor { dfa, cache })
    }

    /// The end of the longest match in a range, from its start.
    fn longest(&mut self, text: &str, range: Range<usize>) -> Option<usize> {
        let input = Input::new(text).range(range).anchored(Anchored::Yes);
        let found = self.dfa.try_search_fwd(&mut self.cache, &input);
        // An automaton without a limit for its cache does not give up.
        found.ok().flatten().map(|found| found.offset())
    }

    /// The end of the longest match that is shorter than the one of this end.
    fn shorter(&mut self, text: &str, start: usize, end: usize) -> Option<usize> {
        match end.checked_sub(1) {
            Some(limit) if start <= limit => self.longest(text, start..limit),
            Some(_) | None => None,
        }
    }
}

fn lazy() -> dfa::Config {
    DFA::config().skip_cache_capacity_check(true)
}

fn small() -> thompson::Config {
    thompson::Config::new().nfa_size_limit(Some(MAX_NFA))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The match of a pattern and the variables that it defines.
    #[track_caller]
    fn check(pattern: &str, text: &str, wanted: Option<(&str, &[(&str, &str)])>) {
        let known = Variables::from([
            ("K".to_owned(), "a.c".to_owned()),
            ("E".to_owned(), String::new()),
        ]);
        let pattern = Pattern::read(pattern, 7).unwrap();
        let found = pattern.find(text, &known, false).unwrap();
        let found = found.map(|found| (text[found.place].to_owned(), found.defined));
        let owned = |&(a, b): &(&str, &str)| (a.to_owned(), b.to_owned());
        let wanted = wanted.map(|(text, all)| (text.to_owned(), all.iter().map(owned).collect()));
        assert_eq!(found, wanted);
    }

    #[test]
    fn the_leftmost_longest_match_is_found() {
        check("b.c", "abc b.c", Some(("b.c", &[])));
        check("x{{a|ab}}", "xabc", Some(("xab", &[])));
        check("{{a|ab}}{{c|bcd}}", "abcd", Some(("abcd", &[])));
        check("{{^}}b{{$}}", "ab\nb\nc", Some(("b", &[])));
        check("a{{.*}}c", "a\nc abc", Some(("abc", &[])));
        check("a{{[^x]*}}c", "a\nc", None);
        check("{{a*}}", "b", Some(("", &[])));
        check("é{{.}}é", "éüé", Some(("éüé", &[])));
    }

    #[test]
    fn variables_keep_and_give_text() {
        check(
            "[[X:a+]][[Y:a*b]]",
            "aaab",
            Some(("aaab", &[("X", "aaa"), ("Y", "b")])),
        );
        check(
            "[[X:[a-z]+]] [[X]]",
            "ab abc",
            Some(("ab ab", &[("X", "ab")])),
        );
        check(
            "[[X:[a-z]+]]=[[X]];",
            "ab=b;",
            Some(("b=b;", &[("X", "b")])),
        );
        check("[[E]]", "abc", None);
        check("[[E]]b", "abc", Some(("b", &[])));
        check("x[[K]]", "xabc xa.c", Some(("xa.c", &[])));
        check("[[X:[[:alpha:]]+]]1", "ab1", Some(("ab1", &[("X", "ab")])));
        check(
            "line [[@LINE]] [[#@LINE + 1]] [[@LINE-2]]",
            "line 7 8 5",
            Some(("line 7 8 5", &[])),
        );
    }

    #[test]
    fn faults_are_told() {
        let read = |text| Pattern::read(text, 1).unwrap_err().to_string();
        assert_eq!(read("a {{b"), "`{{` is not closed by `}}`");
        assert_eq!(read("[[X"), "`[[` is not closed by `]]`");
        assert_eq!(read("[[X:a]b]]"), "`[[` is not closed by `]]`");
        assert!(read("[[1]]").starts_with("found the variable `1`, wanted"));
        assert!(read("[[#X+1]]").starts_with("found `[[#X+1]]`: numbers"));
        assert_eq!(
            read("{{*}}"),
            "the regular expression `*`: `*` repeats nothing"
        );
        let used = Pattern::read("[[X]]", 1).unwrap();
        let error = used.find("", &Variables::new(), false).unwrap_err();
        assert_eq!(error.to_string(), "the variable `X` has no value");
    }
}
