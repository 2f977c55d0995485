//! `optc layout` and `optc spec`.

use crate::support;

use support::{Folder, optc};

#[test]
fn index_gives_the_offset_in_elements() {
    let tensor = "tensor<4x8xsi8, {block = \"2W2H\", order = [1, 0]}>";
    let formula = |h: u64, w: u64| ((w / 2) * 2 + h / 2) * 4 + (w % 2) * 2 + h % 2;
    for (h, w) in [(0, 0), (1, 0), (2, 3), (3, 7)] {
        let found = optc(&["layout", "index", tensor, &format!("{h},{w}")]).ok();
        assert_eq!(found, format!("{}\n", formula(h, w)));
    }
    assert_eq!(optc(&["layout", "index", "tensor<f32>"]).ok(), "0\n");
    assert_eq!(
        optc(&["layout", "index", "tensor<2x3xf32>", "[1, 2]"]).ok(),
        "5\n"
    );
}

#[test]
fn index_refuses_what_is_out_of_bounds() {
    optc(&["layout", "index", "tensor<2x3xf32>", "2,0"]).fails(1, "error[index-bounds]");
    optc(&["layout", "index", "tensor<2x3xf32>", "1"]).fails(1, "error[index-rank]");
    optc(&["layout", "index", "tensor<2x3xf32>", "1,x"]).fails(2, "wanted numbers");
    optc(&["layout", "index", "tensor<2x3xf32>", "-1,0"]).fails(2, "wanted numbers");
}

#[test]
fn a_tensor_that_cannot_be_read_gets_a_caret() {
    let errors = optc(&["layout", "size", "tensor<2x3xf32, {order = [0, 0]}>"]).fails(1, "error[");
    assert!(errors.contains('^'), "{errors}");
    optc(&["layout", "size", "tensor<2x3xf32"]).fails(1, "error[tensor-syntax]");
}

#[test]
fn size_counts_padding_in_bytes() {
    assert_eq!(optc(&["layout", "size", "tensor<3x5xf32>"]).ok(), "60\n");
    let padded = "tensor<3x5xf32, {block = \"2H2W\", order = [0, 1]}>";
    assert_eq!(optc(&["layout", "size", padded]).ok(), "96\n");
}

#[test]
fn size_knows_small_floats_and_complex_numbers() {
    let wanted = [
        ("f8e4m3fn[8,128]{1,0:T(8,128)(4,1)}", 1024),
        ("f8e5m2[7,100]{1,0:T(8,128)(4,1)}", 1024),
        ("f4e2m1fn[3,5]{1,0:E(4)}", 8),
        ("f4e2m1fn[3,5]{1,0}", 15),
        ("c64[3,5]{1,0}", 120),
        ("c128[8,128]{0,1:T(8,128)}", 262_144),
        ("tensor<3x5x!hbir.f4E2M1FN>", 8),
        ("tensor<3x5xf4E2M1FN>", 8),
        ("tensor<3x5xf8E4M3FN>", 15),
        ("tensor<3x5xcomplex<f64>>", 240),
    ];
    for (text, bytes) in wanted {
        let found = optc(&["layout", "size", text]).ok();
        assert_eq!(found, format!("{bytes}\n"), "{text}");
    }
    optc(&["layout", "size", "tensor<3x!hbir.f32>"]).fails(1, "error[tensor-syntax]");
}

#[test]
fn convert_writes_the_same_function() {
    let strided = optc(&[
        "layout",
        "convert",
        "--to=strided",
        "tensor<2x3xf32, {order = [1, 0]}>",
    ]);
    assert_eq!(strided.ok(), "tensor<2x3xf32, {strides = [1, 2]}>\n");
    let digits = optc(&[
        "layout",
        "convert",
        "--to=digits",
        "tensor<4x6xsi8, {order = [1, 0]}>",
    ])
    .ok();
    assert!(digits.contains("digits = "), "{digits}");
    let back = optc(&["layout", "convert", "--to=block", digits.trim()]).ok();
    assert_eq!(back, "tensor<4x6xsi8, {order = [1, 0]}>\n");
}

#[test]
fn convert_says_why_not() {
    let tensor = "tensor<4x8xf32, {block = \"2H2W\", order = [0, 1]}>";
    optc(&["layout", "convert", "--to=strided", tensor]).fails(1, "error[layout-notation]");
    optc(&["layout", "convert", "--to=words", tensor]).fails(2, "possible values");
    let padded = "tensor<3x8xf32, {block = \"2H2W\", order = [0, 1]}>";
    optc(&["layout", "convert", "--to=cute", padded]).fails(1, "error[layout-notation]");
}

#[test]
fn notations_of_others() {
    let blocks = "tensor<20x300xbf16, {block = \"8H128W|2H1W\"}>";
    let xla = optc(&["layout", "convert", "--to=xla", blocks]).ok();
    assert_eq!(xla, "tensor<20x300xbf16, {xla = \"1,0:T(8,128)(2,1)\"}>\n");
    let back = optc(&["layout", "convert", "--to=block", xla.trim()]).ok();
    assert!(back.starts_with("tensor<20x300xbf16, {block = "), "{back}");
    let cute = optc(&["layout", "convert", "--to=cute", "f32[4,8]{0,1}"]).ok();
    assert_eq!(cute, "f32 (4,8):(1,4)\n");
    let order = optc(&["layout", "convert", "--to=block", cute.trim()]).ok();
    assert_eq!(order, "tensor<4x8xf32, {order = [1, 0]}>\n");
    let index = optc(&["layout", "index", "(4,(2,4)):(2,(1,8))", "3,5"]).ok();
    assert_eq!(index, "23\n");
}

#[test]
fn the_algebra_of_cute() {
    let ask = |args: &[&str]| optc(&[&["layout"], args].concat()).ok();
    // The examples of CUTLASS's page on the layout algebra.
    let composed = ask(&["compose", "(6,2):(8,2)", "(4,3):(3,1)"]);
    assert_eq!(composed, "((2,2),3):((24,2),8)\n");
    assert_eq!(ask(&["complement", "4:1", "--below=24"]), "6:4\n");
    assert_eq!(ask(&["complement", "6:4", "--below=24"]), "4:1\n");
    assert_eq!(ask(&["complement", "(4,2):(1,16)"]), "4:4\n");
    assert_eq!(ask(&["inverse", "(4,8):(8,1)"]), "(8,4):(4,1)\n");
    // In tensors the last dimension varies fastest, but the modes are still the dimensions.
    assert_eq!(ask(&["inverse", "f32[4,8]{1,0}"]), "(8,4):(4,1)\n");
    assert_eq!(ask(&["inverse", "4:2"]), "(2,4):(4,1)\n");
    assert_eq!(ask(&["inverse", "--right", "(4,3):(1,8)"]), "4:1\n");
}

#[test]
fn the_algebra_says_why_not() {
    let fails = |args: &[&str], wanted: &str| {
        let all = [&["layout"], args].concat();
        optc(&all).fails(1, wanted)
    };
    let twice = fails(&["inverse", "(4,2):(1,2)"], "error[layout-algebra]");
    assert!(
        twice.contains("stride 2 does not continue after 4"),
        "{twice}"
    );
    fails(&["complement", "(4,2):(1,3)"], "error[layout-algebra]");
    fails(&["compose", "(4,6):(1,5)", "4:3"], "error[layout-algebra]");
    let caret = fails(&["inverse", "(4,8):(8,1"], "error[tensor-syntax]");
    assert!(caret.contains('^'), "{caret}");
    let padded = "f32[3,5]{1,0:T(2,2)}";
    fails(&["complement", padded], "error[layout-notation]");
    optc(&["layout", "complement", "4:1", "--below=x"]).fails(2, "invalid value");
}

#[test]
fn bench_times_each_question() {
    let text = optc(&["layout", "bench", "f32[256,768]{1,0:T(8,128)}"]).ok();
    let mut questions = Vec::new();
    for line in text.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [question, time, "ns"] = words[..] else {
            panic!("{line}");
        };
        assert!(time.parse::<f64>().is_ok_and(|time| 0.0 <= time), "{line}");
        questions.push(question);
    }
    assert_eq!(questions, ["index", "inverse", "view"]);
    optc(&["layout", "bench", "f32[3"]).fails(1, "error[tensor-syntax]");
}

#[test]
fn bench_of_two_layouts_times_the_conversion() {
    let rows = "f32[100,300]{1,0}";
    let text = optc(&["layout", "bench", rows, "f32[100,300]{1,0:T(8,128)}"]).ok();
    let words = |line: &str| line.split_whitespace().next().unwrap_or("").to_owned();
    let mut heads: Vec<String> = text.lines().map(words).collect();
    heads.dedup();
    let wanted = ["kernel", "plan", "convert", "copy", "ratio"];
    assert_eq!(heads, wanted, "{text}");
    let threads = ["layout", "bench", rows, "f32[100,300]{0,1}", "--threads=2"];
    assert!(
        optc(&threads)
            .ok()
            .starts_with("kernel  matrix 100x300 of 4 bytes")
    );
    for wrong in ["f32[300,100]", "f16[100,300]"] {
        optc(&["layout", "bench", rows, wrong]).fails(1, "error[layout-conversion]");
    }
    let huge = "f32[1099511627776]";
    optc(&["layout", "bench", huge, huge]).fails(1, "error[layout-conversion]");
}

#[test]
fn a_view_without_a_map_is_deduced() {
    let view = |a: &str, b: &str| optc(&["layout", "view", "--deduce", a, b]).ok();
    assert_eq!(
        view("f32[4,6]{1,0}", "f32[6,4]{0,1}"),
        "view: transpose [1, 0]\n"
    );
    assert_eq!(view("f32[4,6]{1,0}", "f32[24]{0}"), "view: reshape [24]\n");
    assert_eq!(
        view("f32[4,6]{1,0}", "f32[4,6]{1,0}"),
        "view: nothing changes\n"
    );
    let tiles = view("f32[8,256]{1,0:T(8,128)}", "f32[8,2,128]{2,0,1:T(8,128)}");
    assert_eq!(tiles, "view: reshape [8, 2, 128]\n");
    let refused = view("f32[8,256]{1,0:T(8,128)}", "f32[8,2,128]{2,1,0:T(8,128)}");
    assert!(refused.starts_with("convert: "), "{refused}");
    let all = [
        "layout",
        "view",
        "--deduce",
        "f32[4]{0}",
        "f32[4]{0}",
        "--perm=0",
    ];
    optc(&all).fails(2, "cannot be used with");
}

#[test]
fn explain_gives_words_and_a_program() {
    let text = optc(&["layout", "explain", "bf16[3,5]{1,0:T(2,2)}"]).ok();
    assert!(text.contains("pad 3x5 to 4x6 for tile (2,2)"), "{text}");
    assert!(
        text.contains("the buffer: 24 elements, 48 bytes\n"),
        "{text}"
    );
    let folder = Folder::new("explain");
    let start = text.find("func.func").unwrap();
    let program = folder.write("program.ir", &text[start..]);
    optc(&["--pass=", &program]).ok();
    let overlapping = "tensor<3x3xf32, {strides = [1, 1]}>";
    optc(&["layout", "explain", overlapping]).fails(1, "error[layout-notation]");
}

#[test]
fn draw_writes_text_and_svg() {
    let tensor = "f32[2,3]{1,0:T(2,2)}";
    let text = optc(&["layout", "draw", tensor, "--color=never", "--axes=xla"]).ok();
    assert!(
        text.contains("x=0") && text.contains("[5]") && !text.contains('\u{1b}'),
        "{text}"
    );
    let coloured = optc(&["layout", "draw", tensor, "--color=always"]).ok();
    assert!(coloured.contains('\u{1b}'), "{coloured}");
    let svg = optc(&["layout", "draw", tensor, "-o", "-"]).ok();
    assert!(svg.starts_with("<svg "), "{svg}");
    let folder = Folder::new("draw");
    let file = folder.path("figure.svg");
    assert_eq!(optc(&["layout", "draw", tensor, "-o", &file]).ok(), "");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), svg);
    optc(&["layout", "draw", "f32[0]{0}"]).fails(1, "error[layout-notation]");
    optc(&["layout", "draw", tensor, "--axes=abc"]).fails(2, "3 names for 2 dimensions");
}

#[test]
fn view_answers_first_and_explains_then() {
    let (a, b) = (
        "tensor<128x128xsi8>",
        "tensor<4x32x128xsi8, {block = \"128C\", order = [0, 1, 2]}>",
    );
    assert!(optc(&["layout", "view", a, b]).ok().starts_with("view"));
    let moved = optc(&[
        "layout",
        "view",
        "tensor<2x3xf32>",
        "tensor<3x2xf32>",
        "--perm=1,0",
    ])
    .ok();
    assert!(moved.starts_with("convert"), "{moved}");
    let turned = "tensor<3x2xf32, {order = [1, 0]}>";
    assert!(
        optc(&["layout", "view", "tensor<2x3xf32>", turned, "--perm=1,0"])
            .ok()
            .starts_with("view")
    );
    let chain = optc(&[
        "layout",
        "view",
        "tensor<6xf32>",
        turned,
        "--shape=2,3",
        "--perm=1,0",
    ]);
    assert!(chain.ok().starts_with("view"));
}

#[test]
fn view_gives_the_hint_about_the_letters() {
    let (a, b) = (
        "tensor<128x128xsi8, {block = \"128W\", order = [0, 1]}>",
        "tensor<4x32x128xsi8, {block = \"128W\", order = [0, 1, 2]}>",
    );
    let answer = optc(&["layout", "view", a, b]).ok();
    assert!(answer.starts_with("convert"), "{answer}");
    let hint = "W is dimension 1 (size 32) of HWC; did you mean 128C or axes = \"NHW\"?";
    assert!(answer.contains(hint), "{answer}");
    let named = "tensor<4x32x128xsi8, {axes = \"NHW\", block = \"128W\", order = [0, 1, 2]}>";
    assert!(optc(&["layout", "view", a, named]).ok().starts_with("view"));
}

#[test]
fn view_refuses_a_map_that_does_not_fit() {
    let (a, b) = ("tensor<2x3xf32>", "tensor<2x3xf32>");
    optc(&["layout", "view", a, b, "--shape=2,4"]).fails(1, "error[view-shape]");
    optc(&["layout", "view", a, b, "--perm=0,0"]).fails(1, "error[view-shape]");
    optc(&["layout", "view", a, "tensor<2x4xf32>"]).fails(1, "error[view-shape]");
}

#[test]
fn the_vectors_of_the_project_pass() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../spec/vectors");
    for (kind, count) in [
        ("tensor_index", 689),
        ("tensor_maps", 161),
        ("layout_equal", 473),
        ("view", 588),
        ("linear_index", 473),
        ("linear_maps", 63),
        ("byte_size", 149),
        ("bitcast", 504),
        ("layout_text", 211),
        ("hlo_modules", 37),
        ("blockspec", 89),
        ("program_ids", 19),
        ("tpu_block_legality", 47),
    ] {
        let found = optc(&["spec", &format!("{folder}/{kind}.json")]).ok();
        assert_eq!(found, format!("{count} passed, 0 failed\n"), "{kind}");
    }
}

#[test]
fn wrong_vectors_are_listed_one_a_line() {
    let folder = Folder::new("wrong_vectors");
    let index = folder.write(
        "index.json",
        r#"{"kind": "tensor_index", "vectors": [
        {"id": "a", "text": "tensor<2x3xf32>", "index": [1, 0], "linear_index": 3, "positions": 6},
        {"id": "b", "text": "tensor<2x3xf32>", "index": [1, 0], "linear_index": 4, "positions": 6},
        {"id": "c", "text": "tensor<2x3xf32>", "index": [1, 0], "linear_index": 3, "positions": 7},
        {"id": "d", "text": "tensor<2x", "index": [1, 0], "linear_index": 3, "positions": 7},
        {"text": "tensor<2xf32>"}]}"#,
    );
    let ran = optc(&["spec", &index]);
    assert_eq!(ran.status, 1);
    let lines: Vec<&str> = ran.output.lines().collect();
    assert_eq!(lines.len(), 5, "{}", ran.output);
    assert_eq!(lines[0], "b: expected [4,6], found [3,6]");
    assert_eq!(lines[1], "c: expected [3,7], found [3,6]");
    assert!(
        lines[2].starts_with("d: expected a tensor, found `tensor<2x`"),
        "{}",
        lines[2]
    );
    assert!(lines[3].starts_with("vector 4: "), "{}", lines[3]);
    assert_eq!(lines[4], "1 passed, 4 failed");

    let maps = folder.write(
        "maps.json",
        r#"{"kind": "tensor_maps", "vectors": [
        {"id": "a", "text": "tensor<2x2xf32, {order = [1, 0]}>", "memory": [0, 2, 1, 3]},
        {"id": "b", "text": "tensor<2x2xf32, {order = [1, 0]}>", "memory": [0, 1, 2, 3]},
        {"id": "c", "text": "tensor<2x2xf32>", "memory": [0, 1, 2]}]}"#,
    );
    let ran = optc(&["spec", &maps]);
    assert_eq!(ran.status, 1);
    assert!(
        ran.output
            .contains("b: expected [0,1,2,3], found [0,2,1,3]\n"),
        "{}",
        ran.output
    );
    assert!(
        ran.output.contains("c: expected 3 positions, found 4\n"),
        "{}",
        ran.output
    );

    let more = folder.write("view.json", r#"{"kind": "view", "vectors": [
        {"id": "a", "input": "tensor<2x3xf32>", "output": "tensor<3x2xf32>", "expected": true},
        {"id": "b", "input": "tensor<2x3xf32>", "output": "tensor<3x2xf32>", "perm": [1, 0], "expected": true}]}"#);
    let equal = folder.write("equal.json", r#"{"kind": "layout_equal", "vectors": [
        {"id": "e", "a": "tensor<2x3xf32>", "b": "tensor<2x3xf32, {order = [0, 1]}>", "expected": false}]}"#);
    let ran = optc(&["spec", &more, &equal]);
    assert_eq!(ran.status, 1);
    let wanted =
        "b: expected true, found false\ne: expected false, found true\n1 passed, 2 failed\n";
    assert_eq!(ran.output, wanted);
}

#[test]
fn files_that_are_no_vectors_are_refused() {
    let folder = Folder::new("no_vectors");
    let unknown = folder.write("unknown.json", r#"{"kind": "weather", "vectors": []}"#);
    optc(&["spec", &unknown]).fails(1, "error[vectors-kind]: found vectors of kind `weather`");
    let text = folder.write("text.json", "hello");
    optc(&["spec", &text]).fails(1, "error[vectors-syntax]");
    let list = folder.write("list.json", r#"{"kind": "view"}"#);
    optc(&["spec", &list]).fails(1, "error[vectors-syntax]: found no list `vectors`");
    optc(&["spec", &folder.path("absent.json")]).fails(1, "error[io-read]");
    optc(&["spec"]).fails(2, "FILE.json");
}
