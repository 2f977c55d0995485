//! The file tests: each case is run, executed by both oracles, and compared with its snapshot.
//!
//! `cargo test -p optc-tests --test filetests passes/view-fold` runs some of them;
//! `INSTA_UPDATE=always cargo test -p optc-tests --test filetests` accepts their output.

use libtest_mimic::{Arguments, Failed, Trial};
use optc_cli::{Main, filetest};
use optc_tests::paths::{files, root};
use std::path::{Path, PathBuf};

const CASES: &str = "tests/cases";
const SNAPSHOTS: &str = "snapshots";

fn main() {
    let args = Arguments::from_args();
    // Messages name the cases relative to the root of the workspace.
    std::env::set_current_dir(root()).expect("the workspace has a root");
    let cases = filetest::discover(Path::new(CASES)).expect("the cases can be read");
    let mut trials: Vec<Trial> = cases.iter().cloned().map(trial).collect();
    let all = cases.clone();
    trials.push(Trial::test("snapshots/all-have-a-case", move || {
        unreferenced(&all)
    }));
    trials.push(Trial::test("cases/all-are-run", move || not_run(&cases)));
    libtest_mimic::run(&args, trials).exit();
}

/// The path of a case relative to the folder of cases, without extension, with `/` as separator.
fn name_of(case: &Path) -> String {
    let inside = case.strip_prefix(CASES).unwrap_or(case).with_extension("");
    inside
        .iter()
        .map(|p| p.to_string_lossy())
        .collect::<Vec<_>>()
        .join("/")
}

fn trial(case: PathBuf) -> Trial {
    Trial::test(name_of(&case), move || run(&case))
}

fn run(case: &Path) -> Result<(), Failed> {
    let outcome = Main::default().test(case);
    if !outcome.failures.is_empty() {
        return Err(format!("{}\n{}", outcome.failures.join("\n"), outcome.output).into());
    }
    let name = name_of(case);
    let (folder, stem) = name.rsplit_once('/').unwrap_or(("", &name));
    let mut settings = insta::Settings::new();
    settings.set_snapshot_path(root().join(SNAPSHOTS).join(folder));
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings.set_input_file(case);
    settings.bind(|| insta::assert_snapshot!(stem, outcome.snapshot()));
    Ok(())
}

/// A snapshot without a case is an error.
fn unreferenced(cases: &[PathBuf]) -> Result<(), Failed> {
    let known: Vec<String> = cases.iter().map(|c| name_of(c)).collect();
    let folder = root().join(SNAPSHOTS);
    for snapshot in files(&folder, "snap") {
        let inside = snapshot
            .strip_prefix(&folder)
            .unwrap_or(&snapshot)
            .with_extension("");
        let name = inside
            .iter()
            .map(|p| p.to_string_lossy())
            .collect::<Vec<_>>()
            .join("/");
        // Snapshots of the kernels of plans and of blocks belong to `tests/tiled.rs`.
        let rooms = [
            ("plans/", "plans", "ir"),
            ("triton/", "cases/lowering/triton", "ir"),
            ("triton/", "cases/lowering/triton", "mlir"),
            ("triton/", "models", "onnx"),
            ("pallas/", "cases/lowering/triton", "ir"),
            ("pallas/", "cases/lowering/triton", "mlir"),
            ("pallas/", "models", "onnx"),
        ];
        let of_kernels = rooms.iter().any(|(prefix, room, ending)| {
            let program = |stem| root().join(format!("tests/{room}/{stem}.{ending}"));
            let stem = name.strip_prefix(prefix);
            stem.is_some_and(|stem| program(stem).exists())
        });
        if !known.contains(&name) && !of_kernels {
            return Err(format!("{SNAPSHOTS}/{name}.snap belongs to no case").into());
        }
    }
    Ok(())
}

/// A case without a command would never run, so it is an error.
fn not_run(cases: &[PathBuf]) -> Result<(), Failed> {
    for path in files(Path::new(CASES), "ir") {
        if !cases.contains(&path) {
            return Err(format!("{} has no `// RUN:` line", path.display()).into());
        }
    }
    Ok(())
}
