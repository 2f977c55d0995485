//! Runs the `before` and `after` fences in the documentation of every pass.

use optc_ir::{AttrDict, Module, text};
use optc_passes::Boundary;
use optc_tests::check::{parse, run_passes, same_meaning};
use optc_tests::paths::{files, relative, root};
use std::path::Path;
use std::sync::Arc;

/// One pair of fences.
struct Example {
    before: String,
    after: String,
}

/// The pairs of fences in the `//!` and `///` comments of a source.
fn examples(source: &str) -> Vec<Example> {
    let mut found = Vec::new();
    let mut before = None;
    let mut open: Option<(&str, String)> = None;
    for line in source.lines() {
        let line = line.trim_start();
        let Some(line) = line
            .strip_prefix("//!")
            .or_else(|| line.strip_prefix("///"))
        else {
            continue;
        };
        let line = line.strip_prefix(' ').unwrap_or(line);
        match (&mut open, line) {
            (None, "```ir before") => open = Some(("before", String::new())),
            (None, "```ir after") => open = Some(("after", String::new())),
            (Some(_), "```") => match open.take() {
                Some(("before", body)) => before = Some(body),
                Some((_, after)) => {
                    let before = before.take().expect("`after` follows `before`");
                    found.push(Example { before, after });
                }
                None => {}
            },
            (Some((_, body)), line) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, _) => {}
        }
    }
    assert!(open.is_none() && before.is_none(), "a fence has no partner");
    found
}

/// The name in the `PassInfo` of a source.
fn pass_name(source: &str) -> Option<&str> {
    let info = &source[source.find("PassInfo = PassInfo {")?..];
    let rest = &info[info.find("name: \"")? + 7..];
    rest.split('"').next()
}

/// The functions as printed, without attributes that a pass adds to the module.
fn body(module: &Module) -> String {
    let mut module = module.clone();
    module.attrs = AttrDict::new();
    module.explicit = false;
    text::print(&module)
}

fn run(path: &Path, pass: &str, example: &Example) {
    let registry = Arc::new(optc_ops::registry());
    let at = relative(path);
    let before = parse(&example.before);
    let ran = run_passes(&before, pass, "cpu", &Boundary::default(), &registry);
    let ran = ran.unwrap_or_else(|e| panic!("{at}: {e}"));
    let wanted = body(&parse(&example.after));
    let found = body(&ran.module);
    if found != wanted {
        panic!("{at}: {pass}\ndocumented:\n{wanted}\nfound:\n{found}");
    }
    let same = same_meaning(&before, &ran.module, &registry);
    same.unwrap_or_else(|e| panic!("{at}: {e}"));
}

#[test]
fn documented_examples_hold() {
    let mut documented = Vec::new();
    for path in files(&root().join("passes/src"), "rs") {
        let source = std::fs::read_to_string(&path).expect("a source is text");
        let found = examples(&source);
        if found.is_empty() {
            continue;
        }
        let pass = pass_name(&source).unwrap_or_else(|| panic!("{} has no pass", relative(&path)));
        for example in &found {
            run(&path, pass, example);
        }
        documented.push(pass.to_owned());
    }
    for pass in optc_passes::registry() {
        let name = pass.info().name;
        assert!(
            documented.iter().any(|d| d == name),
            "pass {name} has no before and after"
        );
    }
}

#[test]
fn fences_are_found() {
    let source = "//! ```ir before\n//! a\n//! ```\n//! ```ir after\n//! b\n//! ```\n";
    let found = examples(source);
    assert_eq!(found.len(), 1);
    assert_eq!((&*found[0].before, &*found[0].after), ("a\n", "b\n"));
    assert_eq!(
        pass_name("static INFO: PassInfo = PassInfo {\n name: \"x-y\",").unwrap(),
        "x-y"
    );
}
