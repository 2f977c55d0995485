//! `optc [options] IN`: reading, passes, writing, diagnostics, exit statuses.

use crate::support;

use std::io::Write;
use std::process::{Command, Stdio};
use support::{CANCEL, Folder, TRANSPOSE, optc, optc_with};

const FOLD: &str = "--pass=canonicalize,view-fold";

#[test]
fn without_passes_the_canonical_text_comes_back() {
    let folder = Folder::new("plain");
    let program = folder.write("a.ir", TRANSPOSE);
    assert_eq!(optc(&[&program]).ok(), TRANSPOSE);
    assert_eq!(optc(&["--pass=", &program]).ok(), TRANSPOSE);
    assert_eq!(optc_with(&["-"], TRANSPOSE).ok(), TRANSPOSE);
    assert_eq!(
        optc_with(&["--from=ir", "-", "-o", "-"], TRANSPOSE).ok(),
        TRANSPOSE
    );
}

#[test]
fn the_output_is_written_whole_or_not_at_all() {
    let folder = Folder::new("output");
    let program = folder.write("a.ir", TRANSPOSE);
    let out = folder.path("out.ir");
    assert_eq!(optc(&[&program, "-o", &out]).ok(), "");
    assert_eq!(folder.read("out.ir"), TRANSPOSE);
    let wrong = folder.write(
        "wrong.ir",
        "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<3xf32>\n",
    );
    optc(&[&wrong, "-o", &out]).fails(1, "error[");
    assert_eq!(folder.read("out.ir"), TRANSPOSE);
    assert_eq!(folder.files(), ["a.ir", "out.ir", "wrong.ir"]);
    optc(&[&program, "-o", &folder.path("no/out.ir")]).fails(1, "error[io-write]");
}

#[test]
fn json_is_told_by_option_or_extension() {
    let folder = Folder::new("json");
    let program = folder.write("a.ir", TRANSPOSE);
    let text = optc(&["--emit=json", &program]).ok();
    let json: serde_json::Value = serde_json::from_str(&text).unwrap();
    assert_eq!(json["schema"], 1);
    let func = &json["functions"][0];
    assert_eq!(func["name"], "main");
    assert_eq!(func["arguments"][0]["name"], "x");
    assert_eq!(
        func["arguments"][0]["type"]["shape"],
        serde_json::json!([2, 3, 5])
    );
    let op = &func["operations"][0];
    assert_eq!(op["name"], "hbir.transpose");
    assert_eq!(op["properties"]["perm"], serde_json::json!([1, 0, 2]));
    let cost = serde_json::json!({ "class": "movement", "bytes": 240 });
    assert_eq!(op["cost"], cost);
    assert_eq!(json["stats"]["movement_bytes"], 240);
    assert_eq!(
        (&op["operands"][0], &op["results"][0]["value"]),
        (&0.into(), &1.into())
    );
    assert_eq!(func["results"][0]["name"], "y");
    optc(&[&program, "-o", &folder.path("a.json")]).ok();
    assert_eq!(folder.read("a.json"), text);
}

#[test]
fn formats_that_are_not_written_or_read_are_told() {
    let folder = Folder::new("formats");
    let program = folder.write("a.ir", TRANSPOSE);
    optc(&["--emit=png", &program]).fails(2, "possible values");
    optc(&[&program, "-o", &folder.path("a.pdf")]).fails(2, "no writer for `.pdf`");
    let foreign = folder.write("a.mlir", "%0 = stablehlo.add %a, %b : tensor<2xf32>\n");
    optc(&[&foreign]).fails(1, "error[");
    let hlo = folder.write("a.hlo", "HloModule m\n");
    optc(&[&hlo]).fails(1, "error[hlo-syntax]");
    let bytes = folder.path("bytes.ir");
    std::fs::write(&bytes, [b'%', 0xFF, b'x']).unwrap();
    optc(&[&bytes]).fails(1, "error[text-encoding]");
    let onnx = folder.write("a.onnx", "no model");
    optc(&[&onnx]).fails(1, "error[");
    optc(&["--from=tflite", &program]).fails(2, "possible values");
}

#[test]
fn view_fold_leaves_views_and_one_conversion() {
    let text = optc_with(&[FOLD, "-"], TRANSPOSE).ok();
    assert!(!text.contains("hbir.transpose"), "{text}");
    assert_eq!(text.matches("\"hbir.layout_convert\"").count(), 1, "{text}");
    let text = optc_with(&[FOLD, "-"], CANCEL).ok();
    assert!(
        !text.contains("hbir.transpose") && !text.contains("hbir.layout_convert"),
        "{text}"
    );
    assert!(text.contains("hbir.target = \"cpu\""), "{text}");
}

#[test]
fn the_boundary_is_free_where_it_is_said() {
    let conversions = |args: &[&str]| {
        let args: Vec<&str> = [FOLD, "-"]
            .into_iter()
            .chain(args.iter().copied())
            .collect();
        optc_with(&args, TRANSPOSE)
            .ok()
            .matches("\"hbir.layout_convert\"")
            .count()
    };
    assert_eq!(conversions(&[]), 1);
    assert_eq!(conversions(&["--free-boundary"]), 0);
    assert_eq!(conversions(&["--free-boundary=x"]), 0);
    assert_eq!(conversions(&["--free-boundary=y"]), 0);
    assert_eq!(conversions(&["--pin", "y={order = [1, 0, 2]}"]), 0);
    assert_eq!(conversions(&["--pin", "x={order = [1, 0, 2]}"]), 0);
    assert_eq!(
        conversions(&[
            "--pin",
            "x={order = [2, 1, 0]}",
            "--pin",
            "y={order = [2, 1, 0]}"
        ]),
        1
    );
}

#[test]
fn a_bare_file_has_a_free_boundary_unless_pinned() {
    let bare =
        "%y = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32>\n";
    assert!(
        !optc_with(&[FOLD, "-"], bare)
            .ok()
            .contains("layout_convert")
    );
    assert!(
        optc_with(&[FOLD, "--pin-boundary", "-"], bare)
            .ok()
            .contains("layout_convert")
    );
}

#[test]
fn boundary_options_name_what_exists() {
    optc_with(&[FOLD, "--free-boundary=q", "-"], TRANSPOSE).fails(2, "error[unknown-port]");
    optc_with(&[FOLD, "--pin", "q={order = [0]}", "-"], TRANSPOSE).fails(2, "wanted one of x, y");
    optc_with(&[FOLD, "--pin", "x", "-"], TRANSPOSE).fails(2, "wanted NAME={…}");
    optc_with(&[FOLD, "--pin", "x=[0]", "-"], TRANSPOSE).fails(2, "wanted NAME={…}");
    optc_with(&[FOLD, "--pin", "x={order = [0, 0, 1]}", "-"], TRANSPOSE).fails(2, "--pin:1:");
    optc_with(&[FOLD, "--bind", "B", "-"], TRANSPOSE).fails(2, "wanted NAME=SIZE");
    optc_with(&[FOLD, "--bind", "B=0", "-"], TRANSPOSE).fails(2, "wanted NAME=SIZE");
    let named = r#"%0 = "hbir.relu"(%x) : (tensor<?x3xf32, {dims = ["batch", 3]}>) -> tensor<?x3xf32, {dims = ["batch", 3]}>"#;
    optc_with(&[FOLD, "--bind", "batch=1", "-"], named).ok();
    let args = [FOLD, "--bind", "batch=1,S=128", "-"];
    optc_with(&args, named).fails(2, "--bind: found no size `S`: wanted one of batch");
    optc_with(&args, TRANSPOSE).fails(2, "has no unknown sizes");
    let near = ["--bind=batsh=1", "-"];
    let errors = optc_with(&near, named).fails(2, "--bind: found no size `batsh`");
    assert!(errors.contains("did you mean batch?"), "{errors}");
}

#[test]
fn rules_are_an_option_of_view_fold() {
    optc_with(&[FOLD, "--rules=none", "-"], CANCEL).ok();
    optc_with(&[FOLD, "--rules=all", "-"], CANCEL).ok();
    optc_with(&[FOLD, "--rules=no-such-rule", "-"], CANCEL)
        .fails(2, "--rules: error[unknown-rule]");
    optc_with(&["--pass=canonicalize", "--rules=none", "-"], CANCEL).fails(2, "--rules wants");
}

#[test]
fn names_in_a_pipeline_are_checked() {
    optc_with(&["--pass=no-such-pass", "-"], CANCEL).fails(2, "error[unknown-pass]");
    optc_with(&["--pass=view-fold{no-such=1}", "-"], CANCEL).fails(2, "error[unknown-option]");
    optc_with(&["--pass=view-fold{max-layouts=0}", "-"], CANCEL)
        .fails(2, "--pass: error[option-value]");
    optc_with(&["--pass=default{max-layouts=8}", "-"], CANCEL).fails(2, "takes no options");
    optc_with(&["--pass=view-fold{max-layouts=8", "-"], CANCEL).fails(2, "error[pipeline-syntax]");
    for option in ["--print-ir-after", "--print-ir-before"] {
        let args = [format!("{option}=no-such-pass"), "-".to_owned()];
        let wanted = format!("{option}: found no pass `no-such-pass`");
        optc_with(&args, CANCEL).fails(2, &wanted);
    }
    optc_with(&[FOLD, "--target=gpu", "-"], CANCEL).fails(2, "error[unknown-target]");
    let laid = format!("module attributes {{hbir.target = \"gpu\"}} {{\n{CANCEL}}}\n");
    optc_with(&[FOLD, "-"], &laid).fails(1, "error[unknown-target]");
}

#[test]
fn a_target_may_be_a_file() {
    let folder = Folder::new("target");
    let source = optc::Target::source("cpu").unwrap();
    let target = folder.write(
        "mine.toml",
        &source.replacen("name = \"cpu\"", "name = \"mine\"", 1),
    );
    let text = optc_with(&[FOLD, &format!("--target={target}"), "-"], CANCEL).ok();
    assert!(text.contains("hbir.target = \"mine\""), "{text}");
    let wrong = folder.write("wrong.toml", "name = 3\n");
    optc_with(&[FOLD, &format!("--target={wrong}"), "-"], CANCEL)
        .fails(1, "wrong.toml:1:8: error[target-file]");
    let family = source.replacen("\"softmax\"", "\"softmaks\"", 1);
    let family = folder.write("family.toml", &family);
    let mut lines = source.lines().enumerate();
    let place = |(line, text): (usize, &str)| Some((line + 1, text.find("\"softmax\"")? + 1));
    let (line, column) = lines.find_map(place).unwrap();
    let errors = optc_with(&[FOLD, &format!("--target={family}"), "-"], CANCEL).fails(
        1,
        &format!("family.toml:{line}:{column}: error[target-file]"),
    );
    assert!(errors.contains("did you mean softmax?"), "{errors}");
    let slow = source.replacen("bandwidth = ", "bandwidth = -", 1);
    let slow = folder.write("slow.toml", &slow);
    optc_with(&[FOLD, &format!("--target={slow}"), "-"], CANCEL)
        .fails(1, "wanted a number above 0");
    let absent = format!("--target={}", folder.path("absent.toml"));
    optc_with(&[FOLD, &absent, "-"], CANCEL).fails(1, "error[io-read]");
}

#[test]
fn passes_are_listed_without_an_input() {
    let list = optc(&["--list-passes"]).ok();
    for name in ["canonicalize", "view-fold", "max-layouts=", "rules="] {
        assert!(list.contains(name), "{list}");
    }
    let pipeline = "\npipelines:\ndefault          inline,canonicalize,view-fold\n";
    assert!(list.ends_with(pipeline), "{list}");
    let rules = optc(&["--list-rules"]).ok();
    let of = |pass: &str| {
        let at = rules.find(&format!("{pass}:\n")).unwrap();
        let lines = rules[at..].lines().skip(1);
        lines.take_while(|l| l.starts_with("  ")).count()
    };
    let compiler = optc::Compiler::new();
    for pass in compiler.passes().iter() {
        let known = pass.list_rules().len();
        if known != 0 {
            assert_eq!(of(pass.info().name), known);
        }
    }
    let line = "  identity                         (identity ?x) => ?x\n";
    assert!(rules.contains(line), "{rules}");
}

#[test]
fn the_program_is_printed_after_passes() {
    let all = optc_with(&[FOLD, "--print-ir-after=all", "-"], CANCEL);
    let headings: Vec<&str> = all
        .errors
        .lines()
        .filter(|l| l.contains("IR after"))
        .collect();
    let wanted = [
        "// ----- IR after `canonicalize` -----",
        "// ----- IR after `view-fold` -----",
    ];
    assert_eq!(headings, wanted);
    let one = optc_with(&[FOLD, "--print-ir-after=canonicalize", "-"], CANCEL);
    assert_eq!(one.errors.matches("IR after").count(), 1);
    assert!(one.errors.contains("hbir.relu"));
    let diff = optc_with(&[FOLD, "--print-ir-diff", "-"], CANCEL);
    assert!(
        diff.errors.contains("+++ after view-fold"),
        "{}",
        diff.errors
    );
    assert!(
        diff.errors.contains("\n-  %0 = \"hbir.transpose\""),
        "{}",
        diff.errors
    );
    assert!(
        diff.errors.contains("\n+  %0 = \"hbir.view\""),
        "{}",
        diff.errors
    );
    assert_eq!(diff.output, all.output);
}

#[test]
fn times_and_remarks_go_to_the_error_stream() {
    let ran = optc_with(&[FOLD, "--timing", "--verify-each", "-"], TRANSPOSE);
    assert!(
        ran.errors.contains("ms  view-fold") && ran.errors.contains("ms  total"),
        "{}",
        ran.errors
    );
    assert_eq!(optc_with(&[FOLD, "-"], TRANSPOSE).errors, "");
    let ran = optc_with(&[FOLD, "--remarks", "-"], TRANSPOSE);
    assert!(ran.errors.contains("remark["), "{}", ran.errors);
    let ran = optc_with(&[FOLD, "--remarks=json", "-"], TRANSPOSE);
    for line in ran.errors.lines() {
        let json: serde_json::Value = serde_json::from_str(line).unwrap();
        assert_eq!(json["severity"], "remark");
        assert!(
            json["code"].is_string() && json["message"].is_string(),
            "{line}"
        );
    }
    assert!(ran.errors.lines().count() > 0);
    assert!(ran.output.contains("hbir.layout_convert"));
}

#[test]
fn what_came_from_a_node_is_explained_by_its_name() {
    let named = r#"%0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32> loc("/turn")
%1 = "hbir.relu"(%0) : (tensor<3x2xf32>) -> tensor<3x2xf32> loc("/act")"#;
    let text = optc_with(&[FOLD, "--explain", "/act", "-"], named).ok();
    assert!(text.starts_with("%1: "), "{text}");
    let turned = optc_with(&[FOLD, "--explain", "/turn", "-"], named).ok();
    assert!(turned.starts_with("%0: "), "{turned}");
    let by_value = optc_with(&[FOLD, "--explain", "%1", "-"], named).ok();
    assert_eq!(text, by_value);
    optc_with(&[FOLD, "--explain", "/ac", "-"], named).fails(2, "error[unknown-value]");
}

/// A product of transposed operands whose result is transposed.
const TURNED: &str = r#"func.func @main(%x: tensor<3x2xf32>, %y: tensor<5x3xf32>) -> tensor<5x2xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32> loc("/left")
  %1 = "hbir.transpose"(%y) <{perm = [1, 0]}> : (tensor<5x3xf32>) -> tensor<3x5xf32> loc("/right")
  %2 = "hbir.matmul"(%0, %1) : (tensor<2x3xf32>, tensor<3x5xf32>) -> tensor<2x5xf32> loc("/product")
  %3 = "hbir.transpose"(%2) <{perm = [1, 0]}> : (tensor<2x5xf32>) -> tensor<5x2xf32> loc("/turn")
  return %3 : tensor<5x2xf32>
}
"#;

/// A sum for which either order moves something.
const SUM: &str = r#"func.func @main(%x: tensor<3x2xf32>, %y: tensor<2x3xf32>) -> tensor<3x2xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<3x2xf32>) -> tensor<2x3xf32> loc("/left")
  %1 = "hbir.add"(%0, %y) : (tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32> loc("/sum")
  %2 = "hbir.transpose"(%1) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32> loc("/turn")
  return %2 : tensor<3x2xf32>
}
"#;

/// The lines of an explanation, without indentation and markers.
fn explained(program: &str, name: &str, options: &[&str]) -> Vec<String> {
    let args = ["--pass=view-fold", "--explain", name, "-"];
    let args: Vec<&str> = options.iter().chain(&args).copied().collect();
    let text = optc_with(&args, program).ok();
    text.lines().map(|line| line.trim().to_owned()).collect()
}

#[test]
fn the_rules_of_a_form_are_explained_with_their_equations() {
    // With prices, a product that writes its columns as lines is slower.
    let lines = explained(TURNED, "/product", &["--target=cpu:bytes"]);
    let rule = "by `matmul-transposed`: (convert ?o (contract ?xs)) => (contract (convert (k ?o) ?xs)) if (transposed ?o)";
    assert!(lines.iter().any(|l| l == rule), "{lines:#?}");
    assert!(
        lines
            .last()
            .is_some_and(|l| l.starts_with("the program: optimal, 0 bytes"))
    );
    // Without rules there is one form, which no rule made.
    let plain = explained(TURNED, "/product", &["--rules=none"]);
    let default = "in its default layouts, which no rule is needed for";
    assert!(plain.iter().any(|l| l == default), "{plain:#?}");
    assert!(
        plain.iter().any(|l| l == "no other form was found"),
        "{plain:#?}"
    );
    assert!(!plain.iter().any(|l| l.starts_with("by ")), "{plain:#?}");
}

#[test]
fn what_might_have_been_is_explained_with_its_price() {
    // One operand is converted in either order; in one of the orders the result is too.
    let lines = explained(SUM, "/sum", &[]);
    let chosen =
        "as chosen the function costs 48 bytes; with every operation in its default layouts, 96";
    assert!(lines.iter().any(|l| l == chosen), "{lines:#?}");
    let form = lines
        .iter()
        .find(|l| l.starts_with("other form, "))
        .unwrap();
    assert!(
        form.ends_with("result 0: root in row-major: 96 bytes, 48 more"),
        "{form}"
    );
    let layout = "other layout, root in row-major, its default: 96 bytes, 48 more";
    assert!(lines.iter().any(|l| l == layout), "{lines:#?}");
    // The explanation of a view has the bytes that it would move if unfolded, and the reason for the layout of its
    // source.
    let lines = explained(SUM, "/left", &[]);
    let unfolded = "left unfolded, `hbir.transpose` at \"/left\" reads and writes 48 bytes";
    assert!(lines.iter().any(|l| l == unfolded), "{lines:#?}");
    let pinned = "refused, argument 0, which is pinned, does not give it";
    assert!(lines.iter().any(|l| l.ends_with(pinned)), "{lines:#?}");
    assert_eq!(lines, explained(SUM, "%0", &[]));
}

#[test]
fn a_value_is_explained() {
    let text = optc_with(&[FOLD, "--explain", "%0", "-"], CANCEL).ok();
    assert!(text.starts_with("%0: "), "{text}");
    assert!(!text.contains("func.func"), "{text}");
    optc_with(&[FOLD, "--explain", "%99", "-"], CANCEL).fails(2, "error[unknown-value]");
    optc_with(&["--pass=canonicalize", "--explain", "%0", "-"], CANCEL).fails(2, "view-fold");
}

#[test]
fn modules_of_one_file_are_treated_apart() {
    let both = format!("{TRANSPOSE}// -----\n{CANCEL}");
    let text = optc_with(&["--split-input-file", "-"], &both).ok();
    assert_eq!(text, both);
    let wrong = format!(
        "{TRANSPOSE}// -----\n\nnonsense here\n// -----\n%1 = nonsense\n// -----\n{CANCEL}"
    );
    let ran = optc_with(&["--split-input-file", "-"], &wrong);
    assert_eq!(ran.output, both);
    let errors = ran.fails(1, "<stdin>:7:1: error[");
    assert!(errors.contains("<stdin>:9:6: error["), "{errors}");
    assert_eq!(errors.matches("error[").count(), 2, "{errors}");
}

#[test]
fn a_file_is_written_only_where_all_parts_are_good() {
    let folder = Folder::new("split");
    let input = folder.write("in.ir", &format!("{TRANSPOSE}// -----\nnonsense\n"));
    let out = folder.write("out.ir", "before");
    optc(&["--split-input-file", &input, "-o", &out]).fails(1, "in.ir:6:1: error[");
    assert_eq!(folder.read("out.ir"), "before");
}

#[test]
fn the_program_is_printed_before_passes() {
    let headings = |args: &[&str]| {
        let ran = optc_with(&[&[FOLD, "-"], args].concat(), CANCEL);
        let lines = ran.errors.lines().filter(|l| l.contains("-----"));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let (first, second) = (
        "// ----- IR before `canonicalize` -----",
        "// ----- IR before `view-fold` -----",
    );
    assert_eq!(headings(&["--print-ir-before"]), [first, second]);
    assert_eq!(headings(&["--print-ir-before=all"]), [first, second]);
    assert_eq!(headings(&["--print-ir-before=view-fold"]), [second]);
    // The input of a pass that fails is printed too.
    let ran = optc_with(
        &["--pass=view-fold{rules=x}", "--print-ir-before", "-"],
        CANCEL,
    );
    assert!(ran.errors.contains(second), "{}", ran.errors);
}

#[test]
fn the_program_is_written_into_a_folder_after_each_pass() {
    let folder = Folder::new("print_ir_dir");
    let program = folder.write("a.ir", CANCEL);
    let (dir, deeper) = (folder.path("dump"), Folder::new("print_ir_dir/dump/more"));
    drop(deeper);
    let dir = format!("{dir}/more");
    let option = format!("--print-ir-dir={dir}");
    let output = optc(&[FOLD, &option, &program]).ok();
    let files = || {
        let entries = std::fs::read_dir(&dir).unwrap();
        let mut names: Vec<String> = entries
            .map(|e| e.unwrap().file_name().into_string().unwrap())
            .collect();
        names.sort();
        names
    };
    assert_eq!(
        files(),
        ["00-input.ir", "01-canonicalize.ir", "02-view-fold.ir"]
    );
    let read = |name: &str| std::fs::read_to_string(format!("{dir}/{name}")).unwrap();
    assert_eq!(
        (read("00-input.ir"), read("02-view-fold.ir")),
        (CANCEL.to_owned(), output)
    );
    assert_eq!(
        optc(&["--pass=view-fold", &format!("{dir}/01-canonicalize.ir")]).ok(),
        read("02-view-fold.ir")
    );
    std::fs::remove_dir_all(&dir).unwrap();
    let both = folder.write("b.ir", &format!("{CANCEL}// -----\n{TRANSPOSE}"));
    optc(&["--pass=canonicalize", "--split-input-file", &option, &both]).ok();
    let wanted = [
        "00-00-input.ir",
        "00-01-canonicalize.ir",
        "01-00-input.ir",
        "01-01-canonicalize.ir",
    ];
    assert_eq!(files(), wanted);
    let blocked = format!("--print-ir-dir={program}");
    optc(&[FOLD, &blocked, &program]).fails(1, "error[io-write]");
}

#[test]
fn errors_have_a_place_and_a_caret() {
    let wrong = "%0 = \"hbir.reshape\"(%x) <{shape = [5]}> : (tensor<2x3xf32>) -> tensor<5xf32>\n";
    let ran = optc_with(&["-"], wrong);
    assert_eq!(ran.output, "");
    let errors = ran.fails(1, "<stdin>:1:");
    assert!(
        errors.contains("error[") && errors.contains('^'),
        "{errors}"
    );
}

#[test]
fn expected_diagnostics_are_compared() {
    let wrong = "%0 = \"hbir.reshape\"(%x) <{shape = [5]}> : (tensor<2x3xf32>) -> tensor<5xf32>\n";
    let args = ["--verify-diagnostics", "--split-input-file", "-"];
    optc_with(
        &args,
        &format!("// expected-error@+1 {{{{elements}}}}\n{wrong}"),
    )
    .ok();
    let two = format!("{TRANSPOSE}// -----\n// expected-error@below {{{{elements}}}}\n{wrong}");
    assert_eq!(optc_with(&args, &two).ok(), TRANSPOSE);
    optc_with(&args, wrong).fails(1, "<stdin>:1: unexpected error[");
    let absent = format!("// expected-error@+1 {{{{elements}}}}\n{TRANSPOSE}");
    optc_with(&args, &absent).fails(
        1,
        "<stdin>:1: nothing fits `expected-error {{elements}}` on line 2",
    );
}

#[test]
fn wrong_usage_is_status_two() {
    optc::<&str>(&[]).fails(2, "<IN>");
    optc(&["--no-such-option", "a.ir"]).fails(2, "--no-such-option");
    optc(&["a.ir", "b.ir"]).fails(2, "b.ir");
    optc(&["no-such-file.ir"]).fails(1, "error[io-read]");
    assert!(optc(&["--help"]).ok().contains("Usage"));
    assert!(optc(&["--version"]).ok().starts_with("optc "));
    assert!(optc(&["layout", "view", "--help"]).ok().contains("--perm"));
}

#[test]
fn the_process_has_the_same_statuses() {
    let run = |args: &[&str], input: &str| {
        let mut child = Command::new(env!("CARGO_BIN_EXE_optc"))
            .args(args)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        child
            .stdin
            .take()
            .unwrap()
            .write_all(input.as_bytes())
            .unwrap();
        child.wait_with_output().unwrap()
    };
    let done = run(&["-"], TRANSPOSE);
    assert_eq!(
        (done.status.code(), String::from_utf8(done.stdout).unwrap()),
        (Some(0), TRANSPOSE.to_owned())
    );
    assert!(done.stderr.is_empty());
    let refused = run(&["-"], "nonsense");
    assert_eq!(refused.status.code(), Some(1));
    assert!(refused.stdout.is_empty() && !refused.stderr.is_empty());
    assert_eq!(run(&["--wrong"], "").status.code(), Some(2));
    let logged = run(&["-v", FOLD, "-"], TRANSPOSE);
    let log = String::from_utf8(logged.stderr).unwrap();
    assert!(log.contains("INFO") && !log.contains('\u{1b}'), "{log}");
}

/// Every output format can express element types that nothing computes with.
#[test]
fn small_floats_and_complex_numbers_are_emitted() {
    let folder = Folder::new("element-types");
    let program = folder.write(
        "a.ir",
        "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<3x5xf8E4M3FN>) -> tensor<5x3xf8E4M3FN>\n\
         %1 = \"hbir.constant\"() <{value = dense<[1.5, -2.0]> : tensor<2xf8E5M2>}> : () -> tensor<2xf8E5M2>\n\
         %2 = \"hbir.transpose\"(%z) <{perm = [1, 0]}> : (tensor<3x5xcomplex<f32>>) -> tensor<5x3xcomplex<f32>>\n\
         %3 = \"hbir.constant\"() <{value = dense<[(1.5, -2.0), (0.0, 0.5)]> : tensor<2xcomplex<f64>>}> : () -> tensor<2xcomplex<f64>>\n",
    );
    let wanted = [
        ("hlo", "constant({(1.5, -2), (0, 5e-1)})"),
        ("hlo", "f8e5m2[2]{0} constant({1.5, -2})"),
        ("pallas", "jnp.array([1.5, -2.0], jnp.float8_e5m2)"),
        (
            "pallas",
            "jnp.array([complex(1.5, -2.0), complex(0.0, 0.5)], jnp.complex128)",
        ),
        ("dot", "moves 240 B"),
        ("svg", "moves 30 B"),
        ("json", "\"element\": \"complex<f32>\""),
    ];
    for (format, part) in wanted {
        let text = optc(&[&format!("--emit={format}"), "--pass=", &program]).ok();
        assert!(text.contains(part), "{part} in {text}");
    }
    // Pallas has no kernels of complex numbers, so these stay outside.
    let passes = "--pass=view-fold,tile-propagate";
    let text = optc(&[
        "--emit=pallas",
        passes,
        "--target=tpu",
        "--pin-boundary",
        &program,
    ])
    .ok();
    let kernels = text.split("def main").next().unwrap_or_default();
    assert!(
        text.contains(" = z\n") && !kernels.contains("z_ref"),
        "{text}"
    );
}
