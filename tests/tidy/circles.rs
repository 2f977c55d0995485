//! Cycles of files: files of one crate that use each other, so that none can be read before the others. Example: `a.rs`
//! has `use crate::b::B` and `b.rs` has `use crate::a::A`.
//!
//! A file uses another one if it names one of its items, in a `use` or by a path from `crate` or `super`. A `pub use`
//! does not count: it re-exports items of a module's files, and a name that is reached through it counts for the file
//! that defines it. Modules of unit tests are left out.

use super::{read, sources};
use optc_tests::paths::relative;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

#[test]
fn no_files_use_each_other_in_a_circle() {
    let rust = sources("rs");
    let below_src = rust.iter().filter(|p| relative(p).contains("/src/"));
    let files: Vec<(String, String)> = below_src.map(|p| (relative(p), read(p))).collect();
    assert!(100 < files.len(), "the sources are found");
    let circles = circles(&files);
    assert!(circles.is_empty(), "files use each other: {circles:#?}");
}

#[test]
fn circles_are_found_through_shown_names() {
    let files = [
        (
            "a/src/lib.rs",
            "mod x; mod y; mod z; pub use x::{X, again as Y}; pub use y::*;",
        ),
        (
            "a/src/x.rs",
            "use crate::{Z as _, z}; pub struct X; pub fn again() {}",
        ),
        (
            "a/src/y.rs",
            "//! use crate::X;\n fn f() { let _ = \"crate::X\"; } pub struct W;",
        ),
        (
            "a/src/z/mod.rs",
            "mod w; pub fn f(x: super::X) {} #[cfg(test)] mod tests { use crate::W; }",
        ),
        ("a/src/z/w.rs", "use super::super::W; use crate::Y;"),
    ];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let wanted = ["a/src/x.rs", "a/src/z/mod.rs"].map(str::to_owned);
    assert_eq!(circles(&files), [BTreeSet::from(wanted)]);
}

/// A part of a source text.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(super) enum Token {
    Word(String),
    /// `::`
    Path,
    Sign(char),
}

/// The words and signs of a source text, without comments, strings and character literals.
pub(super) fn tokens(text: &str) -> Vec<Token> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let len = if rest.starts_with("//") {
            rest.find('\n').unwrap_or(rest.len())
        } else if rest.starts_with("/*") {
            rest.find("*/").map_or(rest.len(), |end| end + 2)
        } else if let Some(len) = literal(rest) {
            len
        } else if c.is_alphanumeric() || c == '_' {
            let word = |c: char| !(c.is_alphanumeric() || c == '_');
            let len = rest.find(word).unwrap_or(rest.len());
            out.push(Token::Word(rest[..len].to_owned()));
            len
        } else if rest.starts_with("::") {
            out.push(Token::Path);
            2
        } else {
            if !c.is_whitespace() {
                out.push(Token::Sign(c));
            }
            c.len_utf8()
        };
        rest = &rest[len..];
    }
    out
}

/// The length in bytes of the string or character literal at the start of the text.
fn literal(text: &str) -> Option<usize> {
    let raw = text.strip_prefix('r').map(|t| t.trim_start_matches('#'));
    if let Some(inside) = raw.and_then(|t| t.strip_prefix('"')) {
        let open = text.len() - inside.len();
        let close = format!("\"{}", "#".repeat(open - 2));
        return Some(
            inside
                .find(&close)
                .map_or(text.len(), |at| open + at + close.len()),
        );
    }
    let quote = text.chars().next().filter(|&c| c == '"' || c == '\'')?;
    let mut chars = text.char_indices().skip(1);
    let mut seen = 0;
    while let Some((at, c)) = chars.next() {
        match c {
            '\\' => drop(chars.next()),
            _ if c == quote => return Some(at + 1),
            _ => {}
        }
        seen += 1;
        // A lifetime has no second quote.
        if quote == '\'' && seen == 1 && !text[at + c.len_utf8()..].starts_with('\'') && c != '\\' {
            return None;
        }
    }
    None
}

/// A path that a file names, and the name under which it is re-exported.
pub(super) struct Use {
    /// The name of the re-export by `pub use`; `*` for all names.
    pub(super) shown: Option<String>,
    pub(super) path: Vec<String>,
}

/// The definitions and uses of one file.
pub(super) struct Source {
    /// The folder of the crate's sources.
    root: String,
    /// The path of its module from the root.
    module: Vec<String>,
    defines: BTreeSet<String>,
    pub(super) uses: Vec<Use>,
}

const DEFINING: [&str; 8] = [
    "fn", "struct", "enum", "trait", "type", "const", "static", "union",
];

impl Source {
    pub(super) fn new(name: &str, text: &str) -> Source {
        let (folder, below) = name.split_once("/src/").expect("a source is below `src`");
        let below = below.trim_end_matches(".rs");
        let mut module: Vec<String> = below.split('/').map(str::to_owned).collect();
        if matches!(
            module.last().map(String::as_str),
            Some("mod" | "lib" | "main")
        ) {
            module.pop();
        }
        let mut source = Source {
            root: format!("{folder}/src"),
            module,
            defines: BTreeSet::new(),
            uses: Vec::new(),
        };
        source.scan(&without_tests(tokens(text)));
        source
    }

    /// The re-exports under this name.
    fn shows<'s>(&'s self, name: &'s str) -> impl Iterator<Item = &'s Use> {
        let shown = self.uses.iter();
        shown.filter(move |u| u.shown.as_deref() == Some(name))
    }

    fn scan(&mut self, tokens: &[Token]) {
        let word = |at: usize| match tokens.get(at) {
            Some(Token::Word(word)) => Some(word.as_str()),
            _ => None,
        };
        let mut at = 0;
        while at < tokens.len() {
            let start = at;
            at += 1;
            match word(start) {
                Some("use") => {
                    let shown = is_public(&tokens[..start]);
                    at = self.tree(tokens, at, &[], shown);
                }
                Some("crate" | "super") if tokens.get(at) == Some(&Token::Path) => {
                    let (path, end) = path(tokens, start);
                    self.uses.push(Use { shown: None, path });
                    at = end;
                }
                Some("macro_rules") => self.defines.extend(word(at + 1).map(str::to_owned)),
                Some(key) if DEFINING.contains(&key) => {
                    self.defines.extend(word(at).map(str::to_owned));
                }
                _ => {}
            }
        }
    }

    /// Reads the tree of a `use` below the path `before`; returns the position after it.
    fn tree(&mut self, tokens: &[Token], at: usize, before: &[String], shown: bool) -> usize {
        let (own, mut at) = path(tokens, at);
        let mut path = before.to_vec();
        path.extend(own);
        if tokens.get(at) == Some(&Token::Sign('{')) {
            at += 1;
            while at < tokens.len() && tokens[at] != Token::Sign('}') {
                at = self.tree(tokens, at, &path, shown);
                at += usize::from(tokens.get(at) == Some(&Token::Sign(',')));
            }
            return at + 1;
        }
        let mut name = path.last().cloned().unwrap_or_default();
        if tokens.get(at) == Some(&Token::Sign('*')) {
            at += 1;
            name = "*".to_owned();
        }
        if let [Some(Token::Word(key)), Some(Token::Word(alias))] =
            [tokens.get(at), tokens.get(at + 1)]
            && key == "as"
        {
            name.clone_from(alias);
            at += 2;
        }
        let shown = shown.then_some(name);
        self.uses.push(Use { shown, path });
        at
    }
}

/// The words of a path and the position after it, which is also after a trailing `::` before something other than a
/// word.
pub(super) fn path(tokens: &[Token], mut at: usize) -> (Vec<String>, usize) {
    let mut path = Vec::new();
    while let Some(Token::Word(word)) = tokens.get(at) {
        path.push(word.clone());
        at += 1;
        if tokens.get(at) != Some(&Token::Path) {
            break;
        }
        at += 1;
    }
    (path, at)
}

/// Returns whether the tokens end with `pub` or `pub(…)`.
fn is_public(before: &[Token]) -> bool {
    let before = match before.last() {
        Some(Token::Sign(')')) => {
            let open = before.iter().rposition(|t| *t == Token::Sign('('));
            &before[..open.unwrap_or(0)]
        }
        _ => before,
    };
    before.last() == Some(&Token::Word("pub".to_owned()))
}

/// The tokens before the module of unit tests, which is at the end of a file.
fn without_tests(mut all: Vec<Token>) -> Vec<Token> {
    let mark = tokens("#[cfg(test)]");
    let opens = |at: &usize| {
        let Some(behind) = all[*at..].strip_prefix(mark.as_slice()) else {
            return false;
        };
        let item = behind
            .iter()
            .position(|t| *t == Token::Word("mod".to_owned()));
        item.is_some_and(|m| behind.get(m + 2) == Some(&Token::Sign('{')))
    };
    let end = (0..all.len().saturating_sub(mark.len())).find(opens);
    all.truncate(end.unwrap_or(all.len()));
    all
}

/// All files, by crate and module.
struct Crates {
    sources: Vec<Source>,
    at: BTreeMap<(String, Vec<String>), usize>,
}

/// The largest number of re-exports through which a name is followed.
const MAX_LINKS: usize = 8;

impl Crates {
    fn module(&self, root: &str, module: &[String]) -> Option<usize> {
        self.at.get(&(root.to_owned(), module.to_vec())).copied()
    }

    /// The file that defines the item that `path` names in a file.
    fn resolve(&self, from: usize, path: &[String], links: usize) -> Option<usize> {
        let Source { root, module, .. } = &self.sources[from];
        let mut rest = path;
        let mut at = match path.first().map(String::as_str)? {
            "crate" => Vec::new(),
            "self" | "super" => module.clone(),
            first => {
                let child = [module.as_slice(), &[first.to_owned()]].concat();
                self.module(root, &child)?;
                module.clone()
            }
        };
        while let Some(word) = rest
            .first()
            .filter(|w| ["crate", "self", "super"].contains(&w.as_str()))
        {
            if word == "super" {
                at.pop();
            }
            rest = &rest[1..];
        }
        while let Some((next, behind)) = rest.split_first() {
            let inner = [at.as_slice(), std::slice::from_ref(next)].concat();
            if self.module(root, &inner).is_none() {
                break;
            }
            (at, rest) = (inner, behind);
        }
        let file = self.module(root, &at)?;
        match rest.first() {
            Some(name) => Some(self.shown(file, name, links).unwrap_or(file)),
            None => Some(file),
        }
    }

    /// The file that defines a name of a module, through its re-exports.
    fn shown(&self, file: usize, name: &String, links: usize) -> Option<usize> {
        let source = &self.sources[file];
        if source.defines.contains(name) {
            return Some(file);
        }
        let links = links.checked_sub(1)?;
        let named = source
            .shows(name)
            .find_map(|u| self.resolve(file, &u.path, links));
        named.or_else(|| {
            source.shows("*").find_map(|u| {
                let inside = self.resolve(file, &u.path, links)?;
                self.shown(inside, name, links)
            })
        })
    }

    /// The files that each file uses.
    fn edges(&self) -> Vec<BTreeSet<usize>> {
        let used = |from: usize| {
            let own = self.sources[from].uses.iter().filter(|u| u.shown.is_none());
            let all = own.filter_map(|u| self.resolve(from, &u.path, MAX_LINKS));
            all.filter(|&to| to != from).collect()
        };
        (0..self.sources.len()).map(used).collect()
    }
}

/// The maximal sets of files that use each other, directly or indirectly (strongly connected components).
fn circles(files: &[(String, String)]) -> Vec<BTreeSet<String>> {
    let mut crates = Crates {
        sources: Vec::new(),
        at: BTreeMap::new(),
    };
    let names: BTreeSet<&str> = files.iter().map(|(name, _)| name.as_str()).collect();
    for (id, (name, text)) in files.iter().enumerate() {
        let source = Source::new(name, text);
        let library = Path::new(name).with_file_name("lib.rs");
        let beside = name.ends_with("/main.rs") && names.contains(&*library.to_string_lossy());
        if !beside {
            crates
                .at
                .insert((source.root.clone(), source.module.clone()), id);
        }
        crates.sources.push(source);
    }
    let edges = crates.edges();
    let reach: Vec<BTreeSet<usize>> = (0..files.len()).map(|from| reached(&edges, from)).collect();
    let mut found: BTreeSet<BTreeSet<String>> = BTreeSet::new();
    for from in 0..files.len() {
        let both = reach[from].iter().filter(|&&to| reach[to].contains(&from));
        let circle: BTreeSet<String> = both.map(|&to| files[to].0.clone()).collect();
        if !circle.is_empty() {
            found.insert(circle);
        }
    }
    found.into_iter().collect()
}

/// The files that a file uses, directly or indirectly.
fn reached(edges: &[BTreeSet<usize>], from: usize) -> BTreeSet<usize> {
    let mut seen = BTreeSet::new();
    let mut open = vec![from];
    while let Some(at) = open.pop() {
        for &to in &edges[at] {
            if seen.insert(to) {
                open.push(to);
            }
        }
    }
    seen
}
