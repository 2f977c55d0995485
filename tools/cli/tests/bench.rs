//! `optc bench` and `optc run --exec=physical`.

use crate::support;

use support::{Folder, optc, optc_with};

const HEADS: &str = r#"func.func @main(%x: tensor<6x5xf32>, %w: tensor<5x8xf32>) -> (tensor<6x8xf32> {hbir.name = "y"}) {
  %0 = "hbir.matmul"(%x, %w) : (tensor<6x5xf32>, tensor<5x8xf32>) -> tensor<6x8xf32>
  %1 = "hbir.transpose"(%0) <{perm = [1, 0]}> : (tensor<6x8xf32>) -> tensor<8x6xf32>
  %2 = "hbir.softmax"(%1) <{axis = 0}> : (tensor<8x6xf32>) -> tensor<8x6xf32>
  %3 = "hbir.transpose"(%2) <{perm = [1, 0]}> : (tensor<8x6xf32>) -> tensor<6x8xf32>
  return %3 : tensor<6x8xf32>
}"#;

#[test]
fn bench_times_a_program_beside_what_it_was() {
    let folder = Folder::new("bench");
    let input = folder.write("in.ir", HEADS);
    let trace = folder.path("trace.json");
    let passes = "--pass=canonicalize,view-fold";
    let text = optc(&[
        "bench", passes, "--vs", "before", "--runs=2", "--trace", &trace, &input,
    ])
    .ok();
    for wanted in [
        "program: median",
        "before: median",
        "contract",
        "rows",
        "GB/s",
        "before / program",
    ] {
        assert!(text.contains(wanted), "no `{wanted}`: {text}");
    }
    let (program, before) = text.split_once("before: median").expect("both are there");
    assert!(
        before.contains("copy") && !program.contains("copy"),
        "{text}"
    );
    let trace: serde_json::Value = serde_json::from_str(&folder.read("trace.json")).expect("JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let names: Vec<&str> = events.iter().filter_map(|e| e["name"].as_str()).collect();
    assert_eq!(names, ["matmul", "softmax"]);
    let text = optc(&["bench", "--vs", "reference", "--runs=1", &input]).ok();
    assert!(text.contains("reference / program"), "{text}");
    let shared = [
        "bench",
        "--threads=2",
        "--vs",
        "reference",
        "--runs=1",
        &input,
    ];
    let text = optc(&shared).ok();
    assert!(text.contains("ms on 2 threads"), "{text}");
    optc(&["bench", "--threads=0", &input]).fails(2, "--threads");
}

#[test]
fn what_cannot_be_run_is_refused() {
    let limit = ["bench", "--memory-limit=64", "-"];
    optc_with(&limit, HEADS).fails(1, "error[execution-memory]");
    optc_with(&["bench", "--runs=0", "-"], HEADS).fails(2, "--runs");
    optc_with(&["bench", "--isa=sse", "-"], HEADS).fails(2, "wanted portable, avx2 or avx512");
    let opaque = "%0 = \"hbir.opaque\"(%x) <{kind = \"f\"}> : (tensor<2xf32>) -> tensor<2xf32>\n";
    optc_with(&["bench", "-"], opaque).fails(1, "error[execution-unsupported]");
}
