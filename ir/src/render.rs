//! Diagnostics as text.

use crate::diag::{Diagnostic, Lines, Position};
use crate::span::Span;
use std::fmt::Write;

/// The width in columns to which lines of the source are cut.
#[cfg(feature = "excerpts")]
const WIDTH: usize = 160;

/// The largest distance in lines of two places that are shown in one excerpt.
const TOGETHER: usize = 3;

/// The diagnostic as text: `file:line:column: error[code]: message`, the source lines with every place marked, further
/// places, then the notes. Without the feature `excerpts` there are places in place of source lines. The text ends with
/// a line break.
#[must_use]
pub fn render(diag: &Diagnostic, file: &str, source: &str) -> String {
    render_in(diag, file, &Lines::new(source))
}

/// As [`render`], for many diagnostics of one source.
#[must_use]
pub fn render_in(diag: &Diagnostic, file: &str, lines: &Lines<'_>) -> String {
    let source = lines.source;
    let mut out = String::new();
    let (word, code, message) = (diag.severity.word(), diag.code, &diag.message);
    let mut excerpts = excerpts(&diag.labels, lines);
    match excerpts.first() {
        None => {
            let _ = writeln!(out, "{file}: {word}[{code}]: {message}");
        }
        Some(first) => {
            let at = &first.places[0].at;
            let (line, column) = (at.line, at.column);
            let _ = writeln!(out, "{file}:{line}:{column}: {word}[{code}]: {message}");
            first.render(&mut out, source, true);
        }
    }
    for excerpt in excerpts.iter_mut().skip(1) {
        let place = &mut excerpt.places[0];
        let (line, column) = (place.at.line, place.at.column);
        let label = std::mem::take(&mut place.label);
        let _ = writeln!(out, "{file}:{line}:{column}: {label}");
        excerpt.render(&mut out, source, false);
    }
    for note in &diag.notes {
        let word = if note.starts_with("hint: ") {
            ""
        } else {
            "note: "
        };
        let _ = writeln!(out, "  {word}{note}");
    }
    out
}

/// A place and its label.
struct Label<'a> {
    at: Position<'a>,
    #[cfg_attr(
        not(feature = "excerpts"),
        expect(dead_code, reason = "only an excerpt marks the whole span")
    )]
    span: Span,
    label: &'a str,
}

/// Places in lines that are shown together.
struct Excerpt<'a> {
    places: Vec<Label<'a>>,
}

/// Groups the places into excerpts; the main place is the first one of the first excerpt.
fn excerpts<'a>(labels: &'a [(Span, String)], lines: &Lines<'a>) -> Vec<Excerpt<'a>> {
    let mut excerpts: Vec<Excerpt<'_>> = Vec::new();
    for (span, label) in labels {
        let at = lines.position(span.start);
        let near = |excerpt: &&mut Excerpt<'_>| {
            let lines = excerpt.places.iter().map(|p| p.at.line);
            lines
                .into_iter()
                .any(|line| line.abs_diff(at.line) <= TOGETHER)
        };
        let place = Label {
            at,
            span: *span,
            label,
        };
        match excerpts.iter_mut().find(near) {
            Some(excerpt) => excerpt.places.push(place),
            None => excerpts.push(Excerpt {
                places: vec![place],
            }),
        }
    }
    excerpts
}

impl Excerpt<'_> {
    /// Renders the lines with their numbers and a mark under each place; the first place may be the main one.
    #[cfg(feature = "excerpts")]
    fn render(&self, out: &mut String, source: &str, has_main: bool) {
        use annotate_snippets::{AnnotationKind, Group, Level, Renderer, Snippet};

        let main = match has_main {
            true => AnnotationKind::Primary,
            false => AnnotationKind::Context,
        };
        let lines = self.places.iter().map(|p| (p.at.start, p.at.line));
        let (start, line) = lines.min().unwrap_or((0, 1));
        let ends = self.places.iter().map(|p| p.at.start + p.at.text.len());
        let end = ends.max().unwrap_or(start);
        let text = source.get(start..end).unwrap_or_default();
        let kinds = std::iter::once(main).chain(std::iter::repeat(AnnotationKind::Context));
        let marks = self.places.iter().zip(kinds).map(|(place, kind)| {
            // A place that spans several lines is marked on its first line.
            let last = place.at.start + place.at.text.len();
            let inside = |byte: u32| floor(source, (byte as usize).clamp(place.at.start, last));
            let (from, to) = (inside(place.span.start), inside(place.span.end));
            let mark = kind.span(from - start..to.max(from) - start);
            match place.label {
                "" => mark,
                label => mark.label(label),
            }
        });
        let snippet = Snippet::source(text).line_start(line).annotations(marks);
        let group = Group::with_level(Level::ERROR).element(snippet);
        let shown = Renderer::plain().term_width(WIDTH).render(&[group]);
        for line in shown.lines().filter(|line| line.trim() != "|") {
            let _ = writeln!(out, "{}", line.trim_end());
        }
    }

    /// Renders the places with their labels.
    #[cfg(not(feature = "excerpts"))]
    fn render(&self, out: &mut String, _source: &str, _has_main: bool) {
        for place in self.places.iter().filter(|place| !place.label.is_empty()) {
            let (line, column) = (place.at.line, place.at.column);
            let _ = writeln!(out, "  {line}:{column}: {}", place.label);
        }
    }
}

/// The start of the character that contains a byte.
#[cfg(feature = "excerpts")]
fn floor(source: &str, mut byte: usize) -> usize {
    while !source.is_char_boundary(byte) {
        byte -= 1;
    }
    byte
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Code;

    const A_CODE: Code = Code::input("a-code", "a word", "a word", "try");

    fn span(source: &str, text: &str) -> Span {
        let start = source.find(text).unwrap();
        let place = |n: usize| u32::try_from(n).unwrap();
        Span {
            start: place(start),
            end: place(start + text.len()),
        }
    }

    #[track_caller]
    fn check(source: &str, places: &[(&str, &str)], wanted: &str) {
        let mut diag = Diagnostic::error(A_CODE, "found it").hint("try");
        for (text, label) in places {
            diag = diag.at(span(source, text), *label);
        }
        assert_eq!(render(&diag, "f", source), wanted);
    }

    #[test]
    fn places_on_one_line_are_shown_together() {
        check(
            "first\nadd one, two\n",
            &[("one", "this"), ("two", "and this")],
            "f:2:5: error[a-code]: found it\n\
             2 | add one, two\n  \
               |     ^^^  --- and this\n  \
               |     |\n  \
               |     this\n  \
             hint: try\n",
        );
    }

    #[test]
    fn places_far_apart_are_shown_apart() {
        check(
            "one\n\n\n\n\n\ntwo\n",
            &[("two", "this"), ("one", "first here")],
            "f:7:1: error[a-code]: found it\n\
             7 | two\n  \
               | ^^^ this\n\
             f:1:1: first here\n\
             1 | one\n  \
               | ---\n  \
             hint: try\n",
        );
        check(
            "one\n\n\ntwo\n",
            &[("two", "this"), ("one", "first here")],
            "f:4:1: error[a-code]: found it\n\
             1 | one\n  \
               | --- first here\n\
             ...\n\
             4 | two\n  \
               | ^^^ this\n  \
             hint: try\n",
        );
    }

    #[test]
    fn odd_texts_have_a_place() {
        check(
            "a\tb\u{1b}[0m\r\nc",
            &[("m", "")],
            "f:1:7: error[a-code]: found it\n\
             1 | a    b\u{241b}[0m\n  \
               |          ^\n  \
             hint: try\n",
        );
        check(
            "x",
            &[("", "at the start")],
            "f:1:1: error[a-code]: found it\n\
             1 | x\n  \
               | ^ at the start\n  \
             hint: try\n",
        );
        check(
            "one\ntwo\nthree",
            &[("two\nthree", "both")],
            "f:2:1: error[a-code]: found it\n\
             2 | two\n  \
               | ^^^ both\n  \
             hint: try\n",
        );
        let nowhere = Diagnostic::remark(A_CODE, "found it").note("so it is");
        assert_eq!(
            render(&nowhere, "f", "x"),
            "f: remark[a-code]: found it\n  note: so it is\n"
        );
    }

    #[test]
    fn long_lines_are_cut_around_the_place() {
        let long = format!("{}here{}", "a, ".repeat(100_000), ", b".repeat(100_000));
        let diag = Diagnostic::error(A_CODE, "found it").at(span(&long, "here"), "it");
        let text = render(&diag, "f", &long);
        let lines: Vec<&str> = text.lines().collect();
        assert!(lines[1].contains("a, here, b"), "{text}");
        assert!(
            lines.iter().all(|line| line.chars().count() < 180),
            "{text}"
        );
        assert_eq!(lines[1].find("here"), lines[2].find("^^^^ it"), "{text}");
    }
}
