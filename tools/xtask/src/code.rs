//! Lines of code of each crate, and the length of its functions.
//!
//! ```text
//! $ cargo run -p optc-xtask -- code
//!   lines  longest  crate
//!    9876       81  passes
//! ```
//!
//! A line of code contains a token outside of comments, of `#[test]` functions and of `#[cfg(test)]` items. Folders of
//! tests and benchmarks are left out. `tests/tidy/circles.rs` checks for files that use each other.

use crate::error::ChoreError;
use proc_macro2::{Span, TokenStream, TokenTree};
use quote::ToTokens;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use syn::visit::{self, Visit};

/// One file of a crate.
#[derive(Debug)]
struct File {
    /// The path relative to the repository.
    path: String,
    /// The number of lines of code.
    lines: usize,
    /// The functions with their numbers of lines of code.
    functions: Vec<(String, usize)>,
}

/// One crate of the workspace.
#[derive(Debug)]
struct Package {
    /// The folder relative to the repository.
    folder: String,
    /// The files.
    files: Vec<File>,
}

impl Package {
    /// The number of lines of code.
    fn lines(&self) -> usize {
        self.files.iter().map(|file| file.lines).sum()
    }

    /// The functions of all files, as `path function`, with their numbers of lines of code.
    fn functions(&self) -> Vec<(String, usize)> {
        let named = |file: &File| {
            let functions = file.functions.iter();
            let named = functions.map(|(name, lines)| (format!("{} {name}", file.path), *lines));
            named.collect::<Vec<_>>()
        };
        self.files.iter().flat_map(named).collect()
    }
}

/// Most lines of code of a function.
pub const MOST_LINES: usize = 80;

/// The functions of all crates with more than `most` lines of code, as `path function`, with their numbers of lines.
///
/// # Errors
/// A source cannot be read or parsed.
pub fn functions_above(most: usize) -> Result<Vec<(String, usize)>, ChoreError> {
    Ok(long(&packages(&root())?, most).collect())
}

fn long(packages: &[Package], most: usize) -> impl Iterator<Item = (String, usize)> {
    let functions = packages.iter().flat_map(Package::functions);
    functions.filter(move |(_, lines)| most < *lines)
}

/// A line for each crate, then the functions with more than [`MOST_LINES`] lines of code.
///
/// # Errors
/// A source cannot be read or parsed.
pub fn table() -> Result<String, ChoreError> {
    let packages = packages(&root())?;
    let mut out = "  lines  longest  crate\n".to_owned();
    for package in &packages {
        let longest = package.functions().iter().map(|f| f.1).max().unwrap_or(0);
        let line = format!("{:>7}{longest:>9}  {}\n", package.lines(), package.folder);
        out.push_str(&line);
    }
    let total: usize = packages.iter().map(Package::lines).sum();
    out.push_str(&format!("{total:>7}{:>11}all\n", ""));
    for (name, lines) in long(&packages, MOST_LINES) {
        out.push_str(&format!("function of {lines} lines: {name}\n"));
    }
    Ok(out)
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The crates of the workspace, without tests and benchmarks.
fn packages(root: &Path) -> Result<Vec<Package>, ChoreError> {
    let manifest = read(&root.join("Cargo.toml"))?;
    let members = manifest
        .split_once("members = [")
        .and_then(|(_, rest)| rest.split_once(']'))
        .ok_or(ChoreError::NoMembers)?;
    let folders = members.0.split('"').skip(1).step_by(2);
    let folders = folders.filter(|folder| !["tests", "benches"].contains(folder));
    folders.map(|folder| package(root, folder)).collect()
}

fn package(root: &Path, folder: &str) -> Result<Package, ChoreError> {
    let src = root.join(folder).join("src");
    let mut paths = Vec::new();
    sources(&src, &mut paths)?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths.iter().filter(|path| !path.ends_with("tests.rs")) {
        let text = read(path)?;
        let name = path
            .strip_prefix(root)
            .unwrap_or(path)
            .display()
            .to_string();
        let parsed = syn::parse_file(&text).map_err(|source| ChoreError::Rust {
            path: name.clone(),
            source,
        })?;
        files.push(file(name, &text, &parsed));
    }
    Ok(Package {
        folder: folder.to_owned(),
        files,
    })
}

fn read(path: &Path) -> Result<String, ChoreError> {
    std::fs::read_to_string(path).map_err(ChoreError::file(path))
}

fn sources(folder: &Path, paths: &mut Vec<PathBuf>) -> Result<(), ChoreError> {
    let entries = std::fs::read_dir(folder).map_err(ChoreError::file(folder))?;
    for entry in entries {
        let path = entry.map_err(ChoreError::file(folder))?.path();
        match path.is_dir() {
            true => sources(&path, paths)?,
            false if path.extension().is_some_and(|e| e == "rs") => paths.push(path),
            false => {}
        }
    }
    Ok(())
}

fn file(path: String, text: &str, parsed: &syn::File) -> File {
    let comments: BTreeSet<usize> = text
        .lines()
        .enumerate()
        .filter(|(_, line)| line.trim_start().starts_with("//"))
        .map(|(i, _)| i + 1)
        .collect();
    let mut reader = Reader {
        comments,
        tests: BTreeSet::new(),
        functions: Vec::new(),
    };
    reader.visit_file(parsed);
    let mut lines = reader.code(parsed.to_token_stream());
    lines.retain(|line| !reader.tests.contains(line));
    File {
        path,
        lines: lines.len(),
        functions: reader.functions,
    }
}

struct Reader {
    comments: BTreeSet<usize>,
    /// The lines of tests.
    tests: BTreeSet<usize>,
    functions: Vec<(String, usize)>,
}

impl Reader {
    /// The lines that hold tokens, without comments.
    fn code(&self, tokens: TokenStream) -> BTreeSet<usize> {
        let mut lines = BTreeSet::new();
        let mut add = |span: Span| lines.extend(span.start().line..=span.end().line);
        let mut open = vec![tokens.into_iter()];
        while let Some(tokens) = open.last_mut() {
            match tokens.next() {
                Some(TokenTree::Group(group)) => {
                    add(group.span_open());
                    add(group.span_close());
                    open.push(group.stream().into_iter());
                }
                Some(token) => add(token.span()),
                None => drop(open.pop()),
            }
        }
        lines.retain(|line| *line != 0 && !self.comments.contains(line));
        lines
    }

    /// Registers the lines of an item if it is a test; returns whether it is one.
    fn is_test(&mut self, attrs: &[syn::Attribute], item: &impl ToTokens) -> bool {
        let is = |attr: &syn::Attribute| {
            let test = attr.path().is_ident("test");
            test || attr.meta.to_token_stream().to_string() == "cfg (test)"
        };
        let test = attrs.iter().any(is);
        if test {
            let lines = self.code(item.to_token_stream());
            self.tests.extend(lines);
        }
        test
    }

    fn function(&mut self, name: &syn::Ident, item: &impl ToTokens) {
        let lines = self.code(item.to_token_stream()).len();
        self.functions.push((name.to_string(), lines));
    }
}

impl Visit<'_> for Reader {
    fn visit_item_mod(&mut self, item: &syn::ItemMod) {
        if !self.is_test(&item.attrs, item) {
            visit::visit_item_mod(self, item);
        }
    }

    fn visit_item_fn(&mut self, item: &syn::ItemFn) {
        if !self.is_test(&item.attrs, item) {
            self.function(&item.sig.ident, item);
            visit::visit_item_fn(self, item);
        }
    }

    fn visit_impl_item_fn(&mut self, item: &syn::ImplItemFn) {
        self.function(&item.sig.ident, item);
        visit::visit_impl_item_fn(self, item);
    }

    fn visit_trait_item_fn(&mut self, item: &syn::TraitItemFn) {
        self.function(&item.sig.ident, item);
        visit::visit_trait_item_fn(self, item);
    }
}
