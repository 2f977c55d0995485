//! Checks of the repository itself: dependencies, names, diagnostic codes, links.

mod circles;
mod examples;
mod packages;
mod words;

use indexmap::{IndexMap, IndexSet};
use optc_cli::explain::AREAS;
use optc_ir::{Code, Example};
use optc_passes::RuleInfo;
use optc_tests::paths::{files, relative, root};
use optc_xtask::code::{MOST_LINES, functions_above};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The allowed dependencies: each crate, then the crates of this workspace that its library and binaries depend on.
/// `ARCHITECTURE.md` has the same list with reasons.
const EDGES: &[(&str, &[&str])] = &[
    ("optc-layout", &[]),
    ("optc-solver", &[]),
    ("optc-ir", &["optc-layout"]),
    ("optc-tile", &["optc-ir"]),
    ("optc-ops", &["optc-ir", "optc-tile"]),
    ("optc-target", &["optc-layout"]),
    (
        "optc-check",
        &["optc-ir", "optc-layout", "optc-ops", "optc-target"],
    ),
    (
        "optc-passes",
        &[
            "optc-check",
            "optc-ir",
            "optc-layout",
            "optc-ops",
            "optc-solver",
            "optc-target",
            "optc-tile",
        ],
    ),
    (
        "optc-emit",
        &[
            "optc-check",
            "optc-ir",
            "optc-layout",
            "optc-onnx-proto",
            "optc-ops",
            "optc-target",
            "optc-tile",
        ],
    ),
    ("optc-pictures", &["optc-ir", "optc-layout", "optc-tile"]),
    (
        "optc-exec",
        &[
            "optc-interp",
            "optc-ir",
            "optc-kernels",
            "optc-layout",
            "optc-ops",
            "optc-tile",
        ],
    ),
    ("optc-kernels", &[]),
    ("optc-hlo", &["optc-ir", "optc-layout", "optc-ops"]),
    ("optc-mlir-syntax", &["optc-ir"]),
    ("optc-linalg", &["optc-ir", "optc-mlir-syntax", "optc-ops"]),
    (
        "optc-stablehlo",
        &["optc-hlo", "optc-ir", "optc-layout", "optc-mlir-syntax"],
    ),
    ("optc-onnx-proto", &["optc-ir"]),
    (
        "optc-onnx",
        &["optc-ir", "optc-layout", "optc-onnx-proto", "optc-ops"],
    ),
    ("optc-interp", &["optc-ir", "optc-tile"]),
    ("optc-compare", &["optc-interp", "optc-ir"]),
    ("optc-reduce", &["optc-ir"]),
    (
        "optc",
        &[
            "optc-check",
            "optc-compare",
            "optc-emit",
            "optc-exec",
            "optc-hlo",
            "optc-interp",
            "optc-ir",
            "optc-layout",
            "optc-linalg",
            "optc-onnx",
            "optc-ops",
            "optc-passes",
            "optc-pictures",
            "optc-reduce",
            "optc-stablehlo",
            "optc-target",
            "optc-tile",
        ],
    ),
    ("optc-cli", &["optc"]),
    ("optc-c", &["optc"]),
    ("optc-python", &["optc", "optc-cli"]),
];

/// External crates that a crate must not use.
const FORBIDDEN: &[(&str, &[&str])] = &[
    (
        "optc-layout",
        &["egg", "petgraph", "indexmap", "tracing", "serde"],
    ),
    ("optc-ir", &["egg", "petgraph", "tracing", "serde", "clap"]),
    ("optc-target", &["egg", "petgraph", "tracing", "clap"]),
    ("optc-passes", &["clap", "serde", "prost"]),
    ("optc-interp", &["egg", "petgraph", "clap"]),
    ("optc", &["clap"]),
];

fn metadata() -> serde_json::Value {
    let cargo = std::env::var("CARGO").unwrap_or_else(|_| "cargo".to_owned());
    let output = Command::new(cargo)
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    serde_json::from_slice(&output.stdout).expect("cargo prints JSON")
}

/// The ordinary and build dependencies of each crate of the workspace.
fn dependencies() -> IndexMap<String, IndexSet<String>> {
    let metadata = metadata();
    let text = |v: &serde_json::Value| v.as_str().unwrap_or("").to_owned();
    let list = |v: &serde_json::Value| v.as_array().cloned().unwrap_or_default();
    let mut all = IndexMap::new();
    for package in list(&metadata["packages"]) {
        let used = list(&package["dependencies"]);
        let used = used
            .iter()
            .filter(|d| d["kind"] != "dev")
            .map(|d| text(&d["name"]));
        all.insert(text(&package["name"]), used.collect());
    }
    all
}

#[test]
fn crates_use_whom_the_table_allows() {
    let all = dependencies();
    for (name, allowed) in EDGES {
        let used = all.get(*name).unwrap_or_else(|| panic!("no crate {name}"));
        let mut ours: Vec<&str> = used
            .iter()
            .map(String::as_str)
            .filter(|d| all.contains_key(*d))
            .collect();
        ours.sort_unstable();
        assert_eq!(ours, *allowed, "crate {name}");
    }
    for (name, forbidden) in FORBIDDEN {
        let bad: Vec<_> = all[*name]
            .iter()
            .filter(|d| forbidden.contains(&d.as_str()))
            .collect();
        assert!(bad.is_empty(), "crate {name} must not use {bad:?}");
    }
}

#[test]
fn every_library_crate_is_in_the_table() {
    let tools = [
        "optc-tests",
        "optc-bench",
        "optc-cli",
        "xtask",
        "optc-xtask",
    ];
    for name in dependencies().keys() {
        let listed = EDGES.iter().any(|(n, _)| n == name);
        let known = listed || tools.contains(&name.as_str()) || is_example(name);
        assert!(known, "crate {name} is not in the table of tests/tidy.rs");
    }
}

/// True for users of the library, which depend on the façade and the command only.
fn is_example(name: &str) -> bool {
    let Some(used) = dependencies().get(name).cloned() else {
        return false;
    };
    let folder = root().join("examples");
    let manifests = files(&folder, "toml");
    let quoted = format!("name = \"{name}\"");
    let here = |m: &PathBuf| read(m).contains(&quoted);
    let public = |d: &String| ["optc", "optc-cli"].contains(&&**d) || !d.starts_with("optc");
    manifests.iter().any(here) && used.iter().all(public)
}

#[test]
fn architecture_states_the_same_edges() {
    let text = read(&root().join("ARCHITECTURE.md"));
    for (name, allowed) in EDGES {
        let short = match *name {
            "optc" | "optc-cli" | "optc-c" | "optc-python" => continue,
            "optc-emit" => "lowering/emit",
            "optc-exec" => "lowering/exec",
            "optc-kernels" => "lowering/kernels",
            "optc-pictures" => "lowering/pictures",
            "optc-hlo" => "frontends/hlo",
            "optc-onnx" => "frontends/onnx",
            "optc-linalg" => "frontends/linalg",
            "optc-mlir-syntax" => "formats/mlir",
            "optc-stablehlo" => "frontends/stablehlo",
            "optc-onnx-proto" => "formats/onnx",
            other => other.trim_start_matches("optc-"),
        };
        let row = text
            .lines()
            .find(|l| l.starts_with(&format!("| {short} |")));
        let row = row.unwrap_or_else(|| panic!("ARCHITECTURE.md has no row for {short}"));
        let cell = row.split('|').nth(2).unwrap_or("").trim();
        let mut stated: Vec<String> = if cell == "nothing" {
            Vec::new()
        } else {
            cell.split(", ").map(|n| format!("optc-{n}")).collect()
        };
        stated.sort();
        assert_eq!(stated, *allowed, "the row of {short}");
    }
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// The files of the repository according to git; without git, those in the folders of sources.
fn tracked() -> Vec<PathBuf> {
    let output = Command::new("git")
        .args(["ls-files", "--cached", "--others", "--exclude-standard"])
        .current_dir(root())
        .output();
    match output {
        Ok(output) if output.status.success() && !output.stdout.is_empty() => {
            let text = String::from_utf8_lossy(&output.stdout).into_owned();
            text.lines()
                .map(|l| root().join(l))
                .filter(|p| p.is_file())
                .collect()
        }
        _ => ["rs", "md", "toml", "ir", "py", "sh"]
            .iter()
            .flat_map(|e| sources(e))
            .collect(),
    }
}

const FOLDERS: &[&str] = &[
    "layout",
    "ir",
    "tile",
    "ops",
    "targets",
    "check",
    "passes",
    "solver",
    "lowering",
    "frontends",
    "interp",
    "compare",
    "reduce",
    "api",
    "bindings",
    "tools",
    "tests",
    "benches",
    "examples",
    "docs",
    "fuzz/fuzz_targets",
];

/// The files with an extension below the folders of the workspace.
fn sources(extension: &str) -> Vec<PathBuf> {
    let below = FOLDERS
        .iter()
        .flat_map(|f| files(&root().join(f), extension));
    below
        .filter(|p| !relative(p).contains("/target/"))
        .collect()
}

/// A Rust source without its `#[cfg(test)]` module, which is at the end of the file.
fn code_of(path: &Path) -> String {
    let text = read(path);
    let end = text.find("#[cfg(test)]").unwrap_or(text.len());
    text[..end].to_owned()
}

/// In a crate whose tests are one binary, each file is a module of that binary, or a binary of its own.
#[test]
fn every_file_of_tests_is_run() {
    let all = |path: &PathBuf| path.ends_with("tests/all.rs");
    let mut checked = 0;
    for all in sources("rs").into_iter().filter(all) {
        let (text, folder) = (read(&all), all.parent().expect("a file is in a folder"));
        let manifest = [folder.join("Cargo.toml"), folder.join("../Cargo.toml")];
        let manifest = manifest
            .iter()
            .find(|path| path.exists())
            .map(|path| read(path));
        let manifest = manifest.expect("tests belong to a crate");
        for path in files(folder, "rs")
            .iter()
            .filter(|path| path.parent() == Some(folder))
        {
            let name = path.file_stem().unwrap_or_default().to_string_lossy();
            let module = text.contains(&format!("mod {name};"));
            let binary = manifest.contains(&format!("name = \"{name}\""));
            assert!(module || binary, "{} is not run", relative(path));
            checked += 1;
        }
    }
    assert!(60 < checked, "{checked} files of tests");
}

#[test]
fn nothing_refers_to_places_outside() {
    let needles = [concat!("../", "shared"), concat!("/work", "/")];
    let text_like = [
        "rs", "md", "toml", "ir", "py", "sh", "yml", "json", "snap", "run",
    ];
    for path in tracked() {
        let extension = path.extension().map(|e| e.to_string_lossy().into_owned());
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned());
        let kind = extension.or(name).unwrap_or_default();
        if !text_like.contains(&kind.as_str()) {
            continue;
        }
        let Ok(text) = std::fs::read_to_string(&path) else {
            continue;
        };
        for needle in needles {
            assert!(
                !text.contains(needle),
                "{} mentions {needle}",
                relative(&path)
            );
        }
    }
}

#[test]
fn nothing_is_left_undone() {
    let needles = [
        concat!("todo", "!("),
        concat!("unimplemented", "!("),
        concat!("#[ign", "ore"),
    ];
    for path in sources("rs") {
        let text = read(&path);
        for needle in needles {
            assert!(!text.contains(needle), "{} has {needle}", relative(&path));
        }
    }
}

#[test]
fn unsafe_functions_say_what_they_promise_to_rely_on() {
    let needle = concat!("unsafe", " fn ");
    let mut count = 0;
    for path in sources("rs") {
        let text = code_of(&path);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        for (at, line) in lines.iter().enumerate() {
            let is = line.starts_with(needle) || line.contains(&format!(" {needle}"));
            if !is || line.starts_with("//") {
                continue;
            }
            count += 1;
            let above = lines[..at].iter().rev();
            let mut above = above.take_while(|l| l.starts_with("///") || l.starts_with("#["));
            let says = above.any(|l| *l == "/// # Safety");
            assert!(says, "{}:{}: {line}", relative(&path), at + 1);
        }
    }
    assert!(0 < count);
}

/// Codes that mean a defect of the compiler or a limit; no program is known that causes them.
const DEFECTS: &[&str] = &["no-lowering", "not-saturated", "worse-than-naive"];

fn is_kebab(code: &str) -> bool {
    let good = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    !code.is_empty() && code.chars().all(good) && !code.starts_with('-') && !code.ends_with('-')
}

/// The sources of libraries and tools that report codes, without the lists of codes.
fn reporting_sources() -> Vec<(String, String)> {
    let skip = ["tests/", "benches/", "examples/", "fuzz/", "tools/xtask/"];
    let mut found = Vec::new();
    for path in sources("rs") {
        let at = relative(&path);
        let is_list = AREAS.iter().any(|area| area.list == at);
        if !is_list && !skip.iter().any(|s| at.starts_with(s)) && !at.contains("/tests/") {
            found.push((at, without_lists(&code_of(&path))));
        }
    }
    found
}

/// A source without the lists of codes in it.
fn without_lists(text: &str) -> String {
    without(text, "codes! {\n", ");\n}")
}

/// A text without the ranges from `opens` to `closes`.
fn without(text: &str, opens: &str, closes: &str) -> String {
    let mut out = String::new();
    let mut rest = text;
    while let Some(start) = rest.find(opens) {
        out.push_str(&rest[..start]);
        let list = &rest[start..];
        rest = list
            .find(closes)
            .map_or("", |end| &list[end + closes.len()..]);
    }
    out + rest
}

fn listed_codes() -> impl Iterator<Item = &'static Code> {
    AREAS.iter().flat_map(|area| (area.codes)())
}

#[test]
fn every_code_is_kebab_case() {
    for code in listed_codes() {
        assert!(is_kebab(code.name), "`{}` is not kebab-case", code.name);
    }
}

/// The folders whose sources report the codes of a list.
fn folders_of(list: &str) -> Vec<&str> {
    let own = list.trim_end_matches("codes.rs");
    let more: &[&str] = if own == "tools/cli/src/" {
        &["api/rust/src/", "lowering/emit/src/"]
    } else {
        &[]
    };
    std::iter::once(own).chain(more.iter().copied()).collect()
}

/// The identifiers and numbers of a source.
fn words(text: &str) -> impl Iterator<Item = &str> {
    text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_')
}

#[test]
fn every_listed_code_is_reported() {
    let sources = reporting_sources();
    let mut unused = Vec::new();
    for area in AREAS {
        let folders = folders_of(area.list);
        let own = |at: &str| folders.iter().any(|f| at.starts_with(f));
        let texts = sources.iter().filter(|(at, _)| own(at));
        let said: IndexSet<&str> = texts.flat_map(|(_, text)| words(text)).collect();
        for code in (area.codes)() {
            let constant = code.name.replace('-', "_").to_uppercase();
            if !said.contains(constant.as_str()) {
                unused.push(format!("{} ({})", code.name, area.list));
            }
        }
    }
    assert!(unused.is_empty(), "nothing reports {unused:#?}");
}

/// The folders that may name operations: the operations themselves, and the readers of other formats. All other code
/// uses the declaration of an operation, or its struct; the tables of emitters use the name in the struct.
const NAMES_OPERATIONS: &[&str] = &["ops/", "frontends/"];

#[test]
fn operations_are_named_where_they_are_declared_read_or_written() {
    let registry = optc_ops::registry();
    // MLIR's own `func.call` is part of the text form.
    let names = registry.all().into_iter().map(|decl| decl.name());
    let names = names.filter(|name| name.starts_with("hbir."));
    let names: Vec<String> = names.map(|name| format!("\"{name}\"")).collect();
    let mut found = Vec::new();
    for (at, text) in reporting_sources() {
        if NAMES_OPERATIONS
            .iter()
            .any(|allowed| at.starts_with(allowed))
        {
            continue;
        }
        let code: Vec<&str> = text
            .lines()
            .filter(|line| !line.trim_start().starts_with("//"))
            .collect();
        let code = code.join("\n");
        for name in names.iter().filter(|name| code.contains(*name)) {
            found.push(format!("{at} names {name}"));
        }
    }
    assert!(
        found.is_empty(),
        "{found:#?}: ask the declaration (`OpDecl`), or for the struct (`Transpose::of`)"
    );
}

#[test]
fn generated_pages_are_up_to_date() {
    let stale = optc_xtask::docs::stale();
    assert!(
        stale.is_empty(),
        "{stale:?}: run `cargo run -p optc-xtask -- docs`"
    );
}

#[test]
fn functions_have_at_most_80_lines() {
    let above = |most: usize| functions_above(most).expect("all sources are read");
    assert!(!above(40).is_empty(), "functions are found");
    let long = above(MOST_LINES);
    assert!(long.is_empty(), "split into named stages: {long:#?}");
}

#[test]
fn every_code_has_a_test() {
    let mut tests: String = files(&root().join("tests/cases"), "ir")
        .iter()
        .map(|p| read(p))
        .collect();
    for path in files(&root().join("snapshots"), "snap") {
        tests.push_str(&read(&path));
    }
    for path in sources("rs") {
        let at = relative(&path);
        let text = read(&path);
        if at.starts_with("tests/") || at.contains("/tests/") {
            tests.push_str(&text);
        } else if let Some(start) = text.find("#[cfg(test)]") {
            tests.push_str(&text[start..]);
        }
    }
    let mut untested = Vec::new();
    for code in listed_codes() {
        // The other examples are run by `tests/diagnostics.rs`.
        let Example::Input(_) = code.example else {
            continue;
        };
        let named = [
            format!("\"{}\"", code.name),
            format!("[{}]", code.name),
            format!("{{{{{}}}}}", code.name),
        ];
        if !named.iter().any(|n| tests.contains(n)) && !DEFECTS.contains(&code.name) {
            untested.push(code.name);
        }
    }
    assert!(untested.is_empty(), "no test names {untested:#?}");
}

/// `docs/onnx-ops.md` has a row for each operator, with its state.
#[test]
fn every_onnx_operator_is_documented() {
    let page = read(&root().join("docs/onnx-ops.md"));
    let all = optc_onnx::catalogue();
    for operator in &all {
        let state = match operator.state {
            Some(optc_onnx::State::Native) => "native",
            Some(optc_onnx::State::Decomposed) => "decomposed",
            None => "opaque",
        };
        let row = format!("| `{}` | {state} |", operator.name);
        assert!(page.contains(&row), "docs/onnx-ops.md lacks {row}");
        assert!(page.contains(operator.remark), "{}", operator.name);
    }
    let rows = page.lines().filter(|l| l.starts_with("| `")).count();
    assert_eq!(rows, all.len(), "docs/onnx-ops.md has other operators");
}

#[test]
fn every_pass_has_its_names_and_cases() {
    for pass in optc_passes::registry() {
        let name = pass.info().name;
        assert!(is_kebab(name), "{name}");
        let stem = name.replace('-', "_");
        let source = root().join("passes/src");
        let there = source.join(format!("{stem}.rs")).exists()
            || source.join(&stem).join("mod.rs").exists();
        assert!(there, "pass {name} has no file {stem}");
        let cases = files(&root().join("tests/cases/passes").join(name), "ir");
        assert!(!cases.is_empty(), "pass {name} has no case");
    }
    for folder in std::fs::read_dir(root().join("tests/cases/passes")).expect("there are cases") {
        let name = folder
            .expect("readable")
            .file_name()
            .to_string_lossy()
            .into_owned();
        let known = optc_passes::registry()
            .iter()
            .any(|p| p.info().name == name);
        assert!(known, "tests/cases/passes/{name} belongs to no pass");
    }
}

/// Each rule has a firing and a refusing case, with its name.
#[test]
fn every_rule_has_a_firing_and_a_refusing_case() {
    for pass in optc_passes::registry() {
        let folder = root().join("tests/cases/passes").join(pass.info().name);
        for RuleInfo {
            name: rule,
            equation,
            summary,
        } in pass.list_rules()
        {
            assert!(is_kebab(rule), "{rule}");
            assert!(equation.contains('='), "{rule} is no equation: {equation}");
            assert!(!summary.is_empty(), "{rule} says nothing");
            let stem = rule.replace('-', "_");
            for name in [format!("{stem}.ir"), format!("{stem}_refused.ir")] {
                assert!(
                    folder.join(&name).exists(),
                    "rule {rule} has no case {name}"
                );
            }
        }
    }
}

#[test]
fn every_case_says_what_it_shows() {
    for path in files(&root().join("tests/cases"), "ir") {
        let at = relative(&path);
        let text = read(&path);
        assert!(
            text.starts_with("// RUN: optc"),
            "{at} does not start with its command"
        );
        let sentence = text.lines().any(|l| {
            let Some(words) = l.strip_prefix("// ") else {
                return false;
            };
            let header = words.split(' ').next().unwrap_or("").ends_with(':');
            !header && words.contains(' ') && words.trim_end().ends_with(['.', '?'])
        });
        assert!(sentence, "{at} lacks a sentence that says what it shows");
        let stem = path
            .file_stem()
            .map(|s| s.to_string_lossy().into_owned())
            .unwrap_or_default();
        let snake = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
        assert!(stem.chars().all(snake), "{at} is not snake_case");
    }
}

#[test]
fn links_of_pages_lead_somewhere() {
    for path in tracked()
        .into_iter()
        .filter(|p| p.extension().is_some_and(|e| e == "md"))
    {
        let folder = path.parent().expect("a file has a folder");
        for target in links(&read(&path)) {
            let target = target.split('#').next().unwrap_or("");
            let outside =
                target.is_empty() || target.contains("://") || target.starts_with("mailto");
            if !outside {
                let there = folder.join(target).exists();
                assert!(
                    there,
                    "{} links to {target}, which does not exist",
                    relative(&path)
                );
            }
        }
    }
}

/// The targets of `[text](target)` outside of code.
fn links(text: &str) -> Vec<String> {
    let mut found = Vec::new();
    let mut fenced = false;
    for line in text.lines() {
        fenced ^= line.trim_start().starts_with("```");
        if fenced {
            continue;
        }
        let prose: String = line.split('`').step_by(2).collect();
        for (at, _) in prose.match_indices("](") {
            let rest = &prose[at + 2..];
            if let Some(end) = rest.find(')') {
                found.push(rest[..end].to_owned());
            }
        }
    }
    found
}

#[test]
fn the_finders_find() {
    let typed = "a \"x-c1\"\ncodes! {\n    A = input(\"y-c1\");\n}\nb \"z-c1\"";
    assert_eq!(without_lists(typed), "a \"x-c1\"\n\nb \"z-c1\"");
    let said: Vec<&str> = words("f(codes::A_B1, op)").collect();
    assert_eq!(said, ["f", "codes", "", "A_B1", "", "op", ""]);
    assert_eq!(links("see [x](a.md) and `[y](b.md)`"), ["a.md"]);
}
