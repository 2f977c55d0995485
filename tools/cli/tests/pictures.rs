//! `--emit=dot` and `--emit=svg`.

mod support;

use std::path::Path;
use support::{Folder, optc, optc_with};

const TRANSPOSE: &str = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>\n\
                         %1 = \"hbir.relu\"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32>\n";
const FOLD: &str = "--pass=view-fold";

/// Each page of the documentation that shows a picture names the command that makes it.
#[test]
fn the_picture_in_the_documentation_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let command = "optc --pass=canonicalize,view-fold --target=cpu --emit=svg \
                   tests/models/micro_attention_full.onnx -o docs/attention.svg";
    for page in ["README.md", "docs/pictures.md"] {
        let text = std::fs::read_to_string(root.join(page)).unwrap();
        assert!(text.contains(command), "{page} does not name {command}");
    }
    let model = root.join("tests/models/micro_attention_full.onnx");
    let model = model.display().to_string();
    let args = [
        "--pass=canonicalize,view-fold",
        "--target=cpu",
        "--emit=svg",
    ];
    let drawn = optc(&[args[0], args[1], args[2], &model]).ok();
    let kept = std::fs::read_to_string(root.join("docs/attention.svg")).unwrap();
    assert!(
        drawn == kept,
        "docs/attention.svg is not up to date; run: {command}"
    );
}

#[test]
fn passes_give_two_panels_and_the_stage_chooses() {
    let both = optc_with(&[FOLD, "--emit=svg", "-"], TRANSPOSE).ok();
    assert!(both.starts_with("<svg "), "{both}");
    assert!(
        both.contains(">before<") && both.contains(">after view-fold<"),
        "{both}"
    );
    assert!(both.contains("moved 48 B → "), "{both}");
    let stage = |stage: &str| {
        let stage = format!("--emit-stage={stage}");
        optc_with(&[FOLD, "--emit=dot", &stage, "-"], TRANSPOSE).ok()
    };
    let (before, after) = (stage("before"), stage("after"));
    assert!(before.contains("label=\"transpose") && before.contains("moves 48 B"));
    assert!(!after.contains("label=\"transpose") && after.contains("label=\"view"));
    let both = stage("both");
    assert!(both.contains("label=\"transpose") && both.contains("label=\"view"));
    assert!(both.contains("cluster_p1\""));
    let plain = optc_with(&["--emit=dot", "-"], TRANSPOSE).ok();
    assert!(!plain.contains("cluster_p0\""), "{plain}");
}

#[test]
fn the_extension_tells_the_format() {
    let folder = Folder::new("pictures");
    let program = folder.write("a.ir", TRANSPOSE);
    for (file, start) in [
        ("a.svg", "<svg "),
        ("a.dot", "digraph "),
        ("a.gv", "digraph "),
    ] {
        optc(&[&program, "-o", &folder.path(file)]).ok();
        assert!(folder.read(file).starts_with(start));
    }
    optc(&[&program, "-o", &folder.path("a.png")]).fails(2, "ir, json, hlo, pallas, dot and svg");
    optc(&["--emit-stage=both", &program]).fails(2, "--emit-stage wants a picture");
}

#[test]
fn several_modules_are_one_picture_or_several_graphs() {
    let two = format!("{TRANSPOSE}// -----\n{TRANSPOSE}");
    let run = |emit: &str| optc_with(&["--split-input-file", emit, "-"], &two).ok();
    assert_eq!(run("--emit=svg").matches("<svg ").count(), 1);
    assert_eq!(run("--emit=dot").matches("digraph ").count(), 2);
    let text = run("--emit=json");
    let values = serde_json::Deserializer::from_str(&text).into_iter::<serde_json::Value>();
    assert_eq!(values.filter_map(Result::ok).count(), 2);
}
