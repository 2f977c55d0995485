//! `optc test` and the meaning of its headers.

use crate::support;

use optc_cli::Main;
use optc_cli::filetest::Outcome;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use support::{CANCEL, Folder, TRANSPOSE, optc};

#[track_caller]
fn passes(folder: &Folder, text: &str) -> Outcome {
    let outcome = Main::default().test(Path::new(&folder.write("case.ir", text)));
    assert!(outcome.failures.is_empty(), "{:#?}", outcome.failures);
    outcome
}

#[track_caller]
fn fails(folder: &Folder, text: &str, why: &str) {
    let outcome = Main::default().test(Path::new(&folder.write("case.ir", text)));
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
    failing("CHECK: hbir.transpose", "case.ir:2: CHECK: found no");
    failing("CHECK-NOT: hbir.view", "case.ir:2: CHECK-NOT: found");
    failing(
        "CHEKC: hbir.view",
        "case.ir:2: found `CHEKC:`, wanted `CHECK:`",
    );
    failing("EXIT: 1", "exit status 0, wanted 1");
    failing("STDERR: anything", "STDERR: found no");
    failing("EVAL: off", "a reason is missing");
    fails(&folder, CANCEL, "no `// RUN:` header");
    fails(
        &folder,
        &format!("{RUN}// RUN: cat %s\n{CANCEL}"),
        "wanted `optc` or `FileCheck`",
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
    folder.write("notes.md", RUN);
    folder.write("words.txt", "Write // RUN: optc at the start of a line.\n");
    let root = folder.path("");
    assert_eq!(optc(&["test", &root]).ok(), "1 passed, 0 failed\n");
    let bad = folder.write("bad.ir", &format!("{RUN}// STATS: transpose=1\n{CANCEL}"));
    let ran = optc(&["test", &root]);
    assert_eq!(ran.status, 1);
    let lines: Vec<&str> = ran.output.lines().collect();
    let wanted = [
        &format!("FAILED {bad}"),
        &format!("    {bad}:2: STATS: found 0, wanted transpose=1"),
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

#[test]
fn commands_are_piped_and_continued() {
    let folder = Folder::new("pipes");
    let text = format!(
        "// RUN: optc --pass=canonicalize %s | optc --pass=view-fold - \\\n\
         // RUN:   | FileCheck %s --check-prefixes=FOLD,BOTH\n\
         // RUN: optc --pass= %s | FileCheck %s -check-prefix READ\n\
         // RUN: not optc --target=nowhere %s 2>&1 | FileCheck --check-prefix=ERROR %s\n\
         // FOLD: [[V:%[0-9]+]] = \"hbir.view\"\n// BOTH-NEXT: relu\"([[V]])\n\
         // READ-COUNT-2: hbir.transpose\n// ERROR: unknown target `{{{{[a-z]+}}}}`\n{CANCEL}"
    );
    let outcome = passes(&folder, &text);
    assert!(outcome.output.contains("hbir.view"), "{}", outcome.output);
    let wrong = text.replace("relu\"([[", "tanh\"([[");
    assert_ne!(wrong, text);
    fails(
        &folder,
        &wrong,
        "case.ir:6: BOTH-NEXT: found no `tanh\"([[V]])`",
    );
    let without = text.replace("not optc", "optc");
    fails(&folder, &without, "case.ir:4: exit status 2, wanted 0");
    let unread = text.replace("-check-prefix READ", "--check-prefix=ERROR");
    let outcome = Main::default().test(Path::new(&folder.write("case.ir", &unread)));
    let unused = "case.ir:7: no `FileCheck` of this file has the prefix of `READ-COUNT-2`";
    let found = outcome.failures.iter().any(|f| f.ends_with(unused));
    assert!(found, "{:?}", outcome.failures);
}

#[test]
fn a_command_before_the_last_one_must_succeed() {
    let folder = Folder::new("first_fails");
    let runs = "// RUN: optc --target=nowhere %s\n// RUN: optc %s\n";
    fails(
        &folder,
        &format!("{runs}{CANCEL}"),
        "case.ir:1: exit status 2, wanted 0",
    );
    let exit = format!("{runs}// EXIT: 2\n{CANCEL}");
    fails(&folder, &exit, "case.ir:1: exit status 2, wanted 0");
}

#[test]
fn a_difference_shows_the_nearest_line() {
    let folder = Folder::new("nearest");
    let text = format!("{RUN}// CHECK: \"hbir.relu\"(%7)\n{CANCEL}");
    let outcome = Main::default().test(Path::new(&folder.write("case.ir", &text)));
    let wanted = "found no `\"hbir.relu\"(%7)` from line 1 of the text on, most like it is\n\
        -\"hbir.relu\"(%7)\n+%1 = \"hbir.relu\"(%0)";
    assert!(
        outcome.failures[0].contains(wanted),
        "{}",
        outcome.failures[0]
    );
    assert!(
        outcome.failures[0].contains("\n    4|  %1 = \"hbir.relu\""),
        "{}",
        outcome.failures[0]
    );
}

#[test]
fn a_failure_may_be_expected() {
    let folder = Folder::new("expected_failures");
    let fail = format!("{RUN}// XFAIL: there is no such line\n// CHECK: hbir.tanh\n{CANCEL}");
    folder.write("fails.ir", &fail);
    let root = folder.path("");
    let summary = "0 passed, 0 failed, 1 failed as expected\n";
    assert_eq!(optc(&["test", &root]).ok(), summary);
    let passes = fail.replace("hbir.tanh", "hbir.relu");
    fails(&folder, &passes, "case.ir:2: XFAIL: the test passes");
    let misspelt = fail.replace("CHECK:", "CHEKC:");
    fails(&folder, &misspelt, "found `CHEKC:`, wanted `CHECK:`");
}

#[test]
fn snapshots_are_written_and_compared() {
    let folder = Folder::new("snapshots");
    let case = folder.write("a.ir", &format!("{RUN}{CANCEL}"));
    folder.write(
        "b.txt",
        &format!("// RUN: not optc --target=nowhere %s\n{CANCEL}"),
    );
    let root = folder.path("");
    assert_eq!(optc(&["test", &root]).ok(), "2 passed, 0 failed\n");
    let blessed = optc(&["test", "--bless", &root]).ok();
    assert_eq!(blessed, "2 passed, 0 failed, 2 snapshots changed\n");
    assert_eq!(
        optc(&["test", "--bless", &root]).ok(),
        "2 passed, 0 failed\n"
    );
    assert_eq!(optc(&["test", &root]).ok(), "2 passed, 0 failed\n");
    let text = folder.read("snapshots/a.ir.snap");
    assert!(text.starts_with("--- before\n+++ after\n"), "{text}");
    assert!(text.ends_with("movement_bytes: 96 -> 0\n"), "{text}");

    folder.write("a.ir", &format!("{RUN}{TRANSPOSE}"));
    folder.write("c.ir", &format!("{RUN}{CANCEL}"));
    std::fs::remove_file(folder.path("b.txt")).unwrap();
    let ran = optc(&["test", &root]);
    assert_eq!(ran.status, 1);
    let all = [
        &*format!("{case}:1: the result differs from the snapshot; --bless accepts it\n"),
        "    -movement_bytes: 96 -> 0\n    + }\n",
        "c.ir:1: there is no snapshot; --bless writes it\n",
        "b.txt.snap\n    the snapshot belongs to no test; --bless removes it\n",
        "0 passed, 3 failed\n",
    ];
    for text in all {
        assert!(ran.output.contains(text), "no {text} in\n{}", ran.output);
    }
    // One file alone says nothing about the other snapshots.
    assert_eq!(
        optc(&["test", "--bless", &case]).ok(),
        "1 passed, 0 failed, 1 snapshots changed\n"
    );
    assert_eq!(
        optc(&["test", "--bless", &root]).ok(),
        "2 passed, 0 failed, 2 snapshots changed\n"
    );
    assert_eq!(optc(&["test", &root]).ok(), "2 passed, 0 failed\n");
}

/// Every format whose front end reads text: the commands and checks stand in its comments.
#[test]
fn tests_are_in_every_format_of_text() {
    let folder = Folder::new("formats");
    let run = "// RUN: optc --pass=canonicalize %s\n// CHECK: hbir.tanh\n";
    let hlo =
        "HloModule m\n\nENTRY e {\n  x = f32[2,3] parameter(0)\n  ROOT t = f32[2,3] tanh(x)\n}\n";
    let stablehlo = "func.func @main(%x: tensor<2x3xf32>) -> tensor<2x3xf32> {\n  \
        %0 = stablehlo.tanh %x : tensor<2x3xf32>\n  return %0 : tensor<2x3xf32>\n}\n";
    let ir = "%0 = \"hbir.tanh\"(%x) : (tensor<2x3xf32>) -> tensor<2x3xf32>\n";
    for (name, program) in [
        ("a.ir", ir),
        ("a.mlir", stablehlo),
        ("a.stablehlo", stablehlo),
        ("a.hlo", hlo),
        ("a.txt", hlo),
    ] {
        folder.write(name, &format!("{run}{program}"));
    }
    assert_eq!(
        optc(&["test", &folder.path("")]).ok(),
        "5 passed, 0 failed\n"
    );
}

/// `tests/interop/filecheck.py` holds LLVM's FileCheck to the same verdicts.
#[test]
fn directives_mean_what_they_mean_to_filecheck() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/interop/filecheck.json");
    let text = std::fs::read_to_string(path).unwrap();
    let groups: BTreeMap<String, Vec<Vec<Value>>> = serde_json::from_str(&text).unwrap();
    let cases: Vec<&Vec<Value>> = groups.values().flatten().collect();
    assert!(180 < cases.len());
    let folder = Folder::new("filecheck");
    for case in cases {
        let text = |i: usize| case.get(i).and_then(Value::as_str).unwrap_or("");
        let checks = folder.write("checks", &format!("{}\n", text(1)));
        let input = folder.write("text", text(2));
        let run = format!(
            "// RUN: FileCheck {checks} --input-file={input} {}\n",
            text(3)
        );
        let outcome = Main::default().test(Path::new(&folder.write("case.ir", &run)));
        let found = outcome.failures.is_empty();
        assert_eq!(Some(found), case[0].as_bool(), "{case:?}: {outcome:?}");
    }
}
