//! Words and openings that are out: a sentence names its subject first, and a notion has the field's term.

use super::{read, sources};
use optc_tests::paths::{files, relative, root};

/// Openings of documentation that name no subject: `What a step borrows` is `Memory that a step borrows`.
const OPENINGS: &[&str] = &["What ", "Who ", "Of what ", "How often "];

/// Phrases that have a term in the field, and the term.
const PHRASES: &[(&str, &str)] = &[
    ("bytes are less", "zero point"),
    ("bytes less a zero point", "quantized bytes"),
    ("what it moves less", "the bytes that it saves"),
    ("brought side by side", "packed"),
    ("brings the elements side by side", "packs the elements"),
];

/// First lines of documentation comments, with their numbers.
fn first_lines(text: &str) -> Vec<(usize, String)> {
    let mut found = Vec::new();
    let mut inside = false;
    for (i, line) in text.lines().enumerate() {
        let line = line.trim();
        let doc = line.strip_prefix("///").or(line.strip_prefix("//!"));
        if let Some(words) = doc.filter(|_| !inside) {
            found.push((i + 1, words.trim().to_owned()));
        }
        inside = doc.is_some();
    }
    found
}

#[test]
fn documentation_names_its_subject_first() {
    let rust = sources("rs");
    let mut bad = Vec::new();
    for path in rust.iter().filter(|path| relative(path).contains("/src/")) {
        for (number, words) in first_lines(&read(path)) {
            if OPENINGS.iter().any(|opening| words.starts_with(opening)) {
                bad.push(format!("{}:{number}: {words}", relative(path)));
            }
        }
    }
    assert!(
        bad.is_empty(),
        "{} comments begin with no subject: {bad:#?}",
        bad.len()
    );
}

#[test]
fn notions_have_the_terms_of_the_field() {
    let mut pages = files(&root().join("docs"), "md");
    pages.push(root().join("README.md"));
    let rust = sources("rs").into_iter();
    let rust = rust.filter(|path| relative(path).contains("/src/"));
    let mut bad = Vec::new();
    for path in rust.chain(pages) {
        let text = read(&path).to_lowercase();
        for (phrase, term) in PHRASES {
            if text.contains(phrase) {
                bad.push(format!("{}: `{phrase}`, wanted {term}", relative(&path)));
            }
        }
    }
    assert!(bad.is_empty(), "{bad:#?}");
}

#[test]
fn openings_are_found() {
    let text =
        "/// What a step borrows.\n/// What follows is no first line.\nfn f() {}\n//! Memory.\n";
    let wanted = [(1, "What a step borrows."), (4, "Memory.")];
    let wanted = wanted.map(|(at, words)| (at, words.to_owned()));
    assert_eq!(first_lines(text), wanted);
}
