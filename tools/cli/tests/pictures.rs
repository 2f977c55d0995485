//! `--emit=dot` and `--emit=svg`.

use crate::support;

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
fn the_picture_of_layouts_in_the_documentation_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let command = "optc --pass=canonicalize,view-fold --target=tpu --emit=svg --layouts \
                   tests/models/micro_window_partition_reverse.onnx -o docs/figures/layouts.svg";
    let page = std::fs::read_to_string(root.join("docs/pictures.md")).unwrap();
    assert!(page.contains(command), "docs/pictures.md: {command}");
    let model = root.join("tests/models/micro_window_partition_reverse.onnx");
    let passes = "--pass=canonicalize,view-fold";
    let drawn = optc(&[
        passes,
        "--target=tpu",
        "--emit=svg",
        "--layouts",
        &model.display().to_string(),
    ])
    .ok();
    let kept = std::fs::read_to_string(root.join("docs/figures/layouts.svg")).unwrap();
    assert!(drawn == kept, "not up to date; run: {command}");
}

#[test]
fn the_picture_of_an_arena_in_the_documentation_is_up_to_date() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let passes = "--pass=canonicalize,view-fold,bufferize,plan-memory";
    let command = format!(
        "optc {passes} --target=cpu --emit=svg --arena tests/models/micro_attention_full.onnx -o docs/figures/arena.svg"
    );
    let page = std::fs::read_to_string(root.join("docs/pictures.md")).unwrap();
    assert!(page.contains(&command), "docs/pictures.md: {command}");
    let model = root.join("tests/models/micro_attention_full.onnx");
    let model = model.display().to_string();
    let drawn = optc(&[passes, "--target=cpu", "--emit=svg", "--arena", &model]).ok();
    let kept = std::fs::read_to_string(root.join("docs/figures/arena.svg")).unwrap();
    assert!(drawn == kept, "not up to date; run: {command}");
}

#[test]
fn without_a_plan_there_is_no_arena_to_draw() {
    let drawn = optc_with(&["--emit=svg", "--arena", "-"], TRANSPOSE).ok();
    assert!(drawn.contains("run bufferize,plan-memory"), "{drawn}");
    let refused = optc_with(&["--emit=dot", "--arena", "-"], TRANSPOSE);
    refused.fails(2, "--arena wants a picture");
}

/// 2x3 elements in tiles of 2x4: two lines, each with one position of padding. The transposed tile takes its elements
/// from one tile; no two of them are adjacent there.
const TILED: &str = "%0 = \"hbir.layout_convert\"(%x) : \
    (tensor<2x3xf32, {xla = \"1,0:T(2,4)\"}>) -> tensor<2x3xf32, {xla = \"0,1:T(4,2)\"}>\n";

#[test]
fn layouts_are_drawn_with_their_padding_and_what_a_conversion_moves() {
    let folder = Folder::new("layouts");
    let drawn = optc_with(&["--emit=svg", "--layouts", "-"], TILED).ok();
    let conversion =
        "the first tile of the result has 6 elements of 1 tile of the operand, in 6 runs";
    for wanted in [
        conversion,
        "d1 along a line, 3 of 4 positions; d0 down a tile",
        "d0 along a line, 2 of 2 positions; d1 down a tile",
        "32 B, 8 B of it padding (25 %)",
    ] {
        assert!(drawn.contains(wanted), "no `{wanted}`: {drawn}");
    }
    // In the conversion and alone: padding ends each of the operand's two lines, and fills one whole line of the
    // result's four.
    assert_eq!(drawn.matches("url(#padding)").count(), 2 * (2 + 1));

    let program = folder.write("a.ir", TILED);
    let by_extension = folder.path("a.svg");
    optc(&["--layouts", &program, "-o", &by_extension]).ok();
    assert_eq!(folder.read("a.svg").matches("url(#padding)").count(), 6);
    for emit in ["--emit=dot", "--emit=ir"] {
        optc(&[emit, "--layouts", &program]).fails(2, "--layouts wants a picture");
    }

    let scalar = "%0 = \"hbir.relu\"(%x) : (tensor<0x3xf32>) -> tensor<0x3xf32>\n";
    let nothing = optc_with(&["--emit=svg", "--layouts", "-"], scalar).ok();
    assert!(nothing.contains("no value has a layout of known size"));
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
    optc(&[&program, "-o", &folder.path("a.png")]).fails(
        2,
        "ir, json, hlo, stablehlo, linalg, onnx, pallas, jax, triton, dot, svg and model-explorer",
    );
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

type Point = (f64, f64);

/// Closely spaced points of a path of lines and curves, `M`, `L` and `C`.
fn points(path: &str) -> Vec<Point> {
    let mut all: Vec<Point> = Vec::new();
    let starts = path.char_indices().filter(|(_, c)| c.is_alphabetic());
    let starts: Vec<usize> = starts.map(|(at, _)| at).chain([path.len()]).collect();
    for step in starts.windows(2) {
        let (word, numbers) = path[step[0]..step[1]].split_at(1);
        let numbers: Vec<f64> = numbers
            .split_whitespace()
            .map(|n| n.parse().unwrap())
            .collect();
        match (word, &numbers[..], all.last().copied()) {
            ("M", &[x, y], _) => all.push((x, y)),
            ("L", &[x, y], Some(from)) => {
                all.extend((1..=32).map(|i| between(from, (x, y), f64::from(i) / 32.0)));
            }
            ("C", &[a, b, c, d, x, y], Some(from)) => {
                let bends = [from, (a, b), (c, d), (x, y)];
                all.extend((1..=32).map(|i| bezier(bends, f64::from(i) / 32.0)));
            }
            _ => panic!("{path}: not a path of lines and curves"),
        }
    }
    all
}

fn between(from: Point, to: Point, t: f64) -> Point {
    (from.0 + (to.0 - from.0) * t, from.1 + (to.1 - from.1) * t)
}

fn bezier(bends: [Point; 4], t: f64) -> Point {
    let s = 1.0 - t;
    let weights = [s * s * s, 3.0 * s * s * t, 3.0 * s * t * t, t * t * t];
    let sum = |of: fn(&Point) -> f64| bends.iter().zip(weights).map(|(p, w)| of(p) * w).sum();
    (sum(|p| p.0), sum(|p| p.1))
}

/// A wire of a plan passes beside the boxes between its ends, so that a group can be followed.
#[test]
fn wires_of_a_plan_run_behind_no_box() {
    let groups = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/cases/passes/tile-propagate/groups");
    for (name, least) in [
        ("vit_attention", 4),
        ("bert_attention", 6),
        ("llama_attention", 100),
        ("swin_block_shifted", 50),
    ] {
        let program = groups.join(format!("{name}.ir")).display().to_string();
        let passes = "--pass=canonicalize,view-fold,tile-propagate";
        let drawn = optc(&[passes, "--target=tpu", "--emit=svg", &program]).ok();
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let with = |tag: &'static str, attribute: &'static str, value: &'static str| {
            let all = document.descendants();
            all.filter(move |n| n.has_tag_name(tag) && n.attribute(attribute) == Some(value))
        };
        let boxes: Vec<[f64; 4]> = with("rect", "fill", "#fbfcfd")
            .map(|n| {
                ["x", "y", "width", "height"].map(|a| n.attribute(a).unwrap().parse().unwrap())
            })
            .collect();
        let mut passed = 0;
        for wire in with("path", "stroke", "#78909c") {
            let path = points(wire.attribute("d").unwrap());
            for &(x, y) in &path {
                let hit = boxes.iter().find(|[left, top, width, height]| {
                    let inside =
                        |at: f64, from: f64, size: f64| from + 0.5 < at && at < from + size - 0.5;
                    inside(x, *left, *width) && inside(y, *top, *height)
                });
                assert!(
                    hit.is_none(),
                    "{name}: a wire through {x}, {y} runs behind {hit:?}"
                );
            }
            let (top, bottom) = (path[0].1, path[path.len() - 1].1);
            let beside = boxes.iter().filter(|b| top < b[1] + b[3] && b[1] < bottom);
            passed += beside.count();
        }
        assert!(
            passed >= least,
            "{name}: wires pass {passed} boxes, wanted {least}"
        );
    }
}

const LAYERS: &str = r#"
%0 = "hbir.relu"(%x) : (tensor<6x4x5xf32>) -> tensor<6x4x5xf32> loc("/layer.0/first")
%1 = "hbir.transpose"(%0) <{perm = [2, 0, 1]}> : (tensor<6x4x5xf32>) -> tensor<5x6x4xf32> loc("/layer.0/turn")
%2 = "hbir.reshape"(%1) <{shape = [5, 24]}> : (tensor<5x6x4xf32>) -> tensor<5x24xf32> loc("/layer.0/flat")
%3 = "hbir.exp"(%2) : (tensor<5x24xf32>) -> tensor<5x24xf32> loc("/layer.0/second")
%4 = "hbir.transpose"(%3) <{perm = [1, 0]}> : (tensor<5x24xf32>) -> tensor<24x5xf32> loc("/layer.1/turn")
%5 = "hbir.tanh"(%4) : (tensor<24x5xf32>) -> tensor<24x5xf32> loc("/layer.1/first")
%6 = "hbir.neg"(%5) : (tensor<24x5xf32>) -> tensor<24x5xf32> loc("/layer.1/second")
"#;

/// Items that are in the program before and after are at the same height in both panels, also inside of layers.
#[test]
fn what_survives_stands_at_one_height() {
    let folder = Folder::new("heights");
    let model = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join("../../tests/models/micro_attention_full.onnx")
        .display()
        .to_string();
    let layers = folder.write("layers.ir", LAYERS);
    for (program, shown) in [
        (&model, &["matmul", "add", "split", "softmax"][..]),
        (
            &layers,
            &["relu", "exp", "tanh", "neg", "layer.0", "layer.1"],
        ),
    ] {
        let drawn = optc(&[
            "--pass=canonicalize,view-fold",
            "--target=cpu",
            "--emit=svg",
            program,
        ])
        .ok();
        let document = roxmltree::Document::parse(&drawn).unwrap();
        let mut texts: Vec<(String, f64, f64)> = Vec::new();
        for node in document.descendants().filter(|n| n.has_tag_name("text")) {
            let place = ["x", "y"].map(|a| node.attribute(a).unwrap().parse().unwrap());
            let words = node.text().unwrap_or("").trim().to_owned();
            texts.push((words, place[0], place[1]));
        }
        let after = texts
            .iter()
            .find(|(words, _, _)| words.starts_with("after "));
        let middle = after.unwrap().1;
        for name in shown {
            let heights = |right: bool| -> Vec<f64> {
                let of = texts
                    .iter()
                    .filter(|(words, x, _)| words == name && (*x >= middle) == right);
                of.map(|(_, _, y)| *y).collect()
            };
            let (before, after) = (heights(false), heights(true));
            assert!(!before.is_empty(), "{program}: no {name}");
            assert_eq!(before, after, "{program}: {name}");
        }
    }
}

#[test]
fn a_report_is_a_page() {
    let folder = Folder::new("report");
    let input = folder.write("a.ir", TRANSPOSE);
    optc(&["report", &input, "-o", &folder.path("a.html")]).ok();
    let text = folder.read("a.html");
    assert!(text.starts_with("<!DOCTYPE html>") && text.ends_with("</html>\n"));
    assert!(text.contains("<title>a.ir</title>"), "{text}");
    let printed = optc_with(&["report", "--pass=view-fold", "-"], TRANSPOSE).ok();
    assert!(printed.contains("target cpu · view-fold"), "{printed}");
}

#[test]
fn node_data_is_beside_the_graphs_for_model_explorer() {
    let folder = Folder::new("explorer");
    let input = folder.write("a.ir", TRANSPOSE);
    optc(&[
        "--emit=model-explorer",
        &input,
        "-o",
        &folder.path("a.json"),
    ])
    .ok();
    let text = folder.read("a.json");
    assert!(text.contains("\"namespace\":\"@main as it is\""), "{text}");
    let data = folder.read("a.bytes.json");
    assert!(data.contains("\"1\":{\"value\":48}"), "{data}");
    assert_eq!(folder.files(), ["a.bytes.json", "a.ir", "a.json"]);
}
