//! `optc test` and the meaning of its headers.

use crate::support;

use optc_cli::filetest;
use std::path::Path;
use support::{CANCEL, Folder, TRANSPOSE, optc};

#[track_caller]
fn passes(folder: &Folder, text: &str) -> filetest::Outcome {
    let outcome = filetest::run(Path::new(&folder.write("case.ir", text)));
    assert!(outcome.failures.is_empty(), "{:#?}", outcome.failures);
    outcome
}

#[track_caller]
fn fails(folder: &Folder, text: &str, why: &str) {
    let outcome = filetest::run(Path::new(&folder.write("case.ir", text)));
    assert_eq!(outcome.failures.len(), 1, "{:#?}", outcome.failures);
    assert!(
        outcome.failures[0].contains(why),
        "no `{why}` in\n{}",
        outcome.failures[0]
    );
}

const RUN: &str = "// RUN: optc --pass=canonicalize,view-fold %s\n";

#[test]
fn checks_and_figures() {
    let folder = Folder::new("checks");
    let header = "// STATS: transpose=0 movement_bytes<=0 before.transpose=2\n\
        // CHECK: func.func @main\n// CHECK-NEXT: hbir.view\n// CHECK-NOT: hbir.transpose\n// CHECK: return\n";
    let outcome = passes(&folder, &format!("{RUN}{header}{CANCEL}"));
    let snapshot = outcome.snapshot();
    assert!(
        snapshot.starts_with("--- before\n+++ after\n"),
        "{snapshot}"
    );
    assert!(
        snapshot.ends_with("movement_ops: 2 -> 0\nmovement_bytes: 96 -> 0\n"),
        "{snapshot}"
    );
    let failing = |line: &str, why: &str| fails(&folder, &format!("{RUN}// {line}\n{CANCEL}"), why);
    failing("STATS: transpose=1", "found 0, wanted transpose=1");
    failing("STATS: no_such=1", "found no figure `no_such`");
    failing("CHECK: hbir.transpose", "CHECK: found no");
    failing("CHECK-NOT: hbir.view", "CHECK-NOT: found");
    failing("EXIT: 1", "exit status 0, wanted 1");
    failing("STDERR: anything", "STDERR: found no");
    failing("EVAL: off", "a reason is missing");
    fails(&folder, CANCEL, "no `// RUN:` header");
    fails(
        &folder,
        &format!("{RUN}// RUN: cat %s\n{CANCEL}"),
        "wanted `optc`",
    );
}

#[test]
fn refusals_are_tested_too() {
    let folder = Folder::new("refusals");
    let wrong = "%0 = \"hbir.reshape\"(%x) <{shape = [5]}> : (tensor<2x3xf32>) -> tensor<5xf32>\n";
    let outcome = passes(
        &folder,
        &format!("// RUN: optc %s\n// EXIT: 1\n// STDERR: elements\n{wrong}"),
    );
    assert!(
        outcome.snapshot().contains("exit status: 1"),
        "{}",
        outcome.snapshot()
    );
    let run = "// RUN: optc --verify-diagnostics %s\n";
    passes(
        &folder,
        &format!("{run}// expected-error@+1 {{{{elements}}}}\n{wrong}"),
    );
    fails(&folder, &format!("{run}{wrong}"), "unexpected error[");
    fails(
        &folder,
        &format!("// RUN: optc --wrong-option %s\n{CANCEL}"),
        "exit status 2, wanted 0",
    );
    fails(
        &folder,
        &format!("// RUN: optc test %s\n{CANCEL}"),
        "cannot run file tests",
    );
}

#[test]
fn several_commands_share_a_temporary_file() {
    let folder = Folder::new("several");
    let text = format!(
        "// RUN: optc --pass=canonicalize,view-fold %s -o %t.ir\n// RUN: optc verify %s %t.ir\n\
         // RUN: optc stats --json %t.ir\n// CHECK: equivalent\n// CHECK: \"layout_convert\": 1\n{TRANSPOSE}"
    );
    passes(&folder, &text);
}

#[test]
fn evaluation_finds_a_program_that_cannot_be_run() {
    let folder = Folder::new("evaluation");
    let opaque = "%0 = \"test.op\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n";
    fails(
        &folder,
        &format!("// RUN: optc %s\n{opaque}"),
        "EVAL: @main: ",
    );
    passes(
        &folder,
        &format!("// RUN: optc %s\n// EVAL: off test.op has no semantics\n{opaque}"),
    );
    passes(
        &folder,
        &format!("// RUN: optc %s\n// EVAL: seeds=1\n{TRANSPOSE}"),
    );
}

#[test]
fn the_command_finds_cases_and_counts() {
    let folder = Folder::new("command");
    folder.write("good.ir", &format!("{RUN}{CANCEL}"));
    folder.write("helper.ir", CANCEL);
    folder.write("notes.txt", RUN);
    let root = folder.path("");
    assert_eq!(optc(&["test", &root]).ok(), "1 passed, 0 failed\n");
    let bad = folder.write("bad.ir", &format!("{RUN}// STATS: transpose=1\n{CANCEL}"));
    let ran = optc(&["test", &root]);
    assert_eq!(ran.status, 1);
    let lines: Vec<&str> = ran.output.lines().collect();
    let wanted = [
        &format!("FAILED {bad}"),
        "    STATS: found 0, wanted transpose=1",
        "1 passed, 1 failed",
    ];
    assert_eq!(lines, wanted);
    assert!(
        optc(&["test", "--show", &folder.path("good.ir")])
            .ok()
            .contains("+++ after")
    );
    optc(&["test", &folder.path("absent")]).fails(1, "error[io-read]");
    let empty = Folder::new("command_empty");
    optc(&["test", &empty.path("")]).fails(1, "error[no-tests]");
    optc(&["test"]).fails(2, "<PATH>");
}
