//! `optc stats` and `optc targets`.

use crate::support;

use serde_json::{Value as Json, json};
use support::{CANCEL, Folder, TRANSPOSE, optc, optc_with};

const KEYS: [&str; 16] = [
    "ops",
    "reshape",
    "transpose",
    "view",
    "layout_convert",
    "movement_ops",
    "movement_bytes",
    "copy_ops",
    "copy_bytes",
    "expand_ops",
    "expand_bytes",
    "padding_bytes",
    "priced_bytes",
    "slower_bytes",
    "constant_movement_ops",
    "constant_movement_bytes",
];

fn stats(args: &[&str], program: &str) -> Json {
    let args: Vec<&str> = ["stats", "--json"]
        .iter()
        .chain(args)
        .copied()
        .chain(["-"])
        .collect();
    serde_json::from_str(&optc_with(&args, program).ok()).unwrap()
}

#[test]
fn figures_of_a_program() {
    let json = stats(&[], TRANSPOSE);
    assert_eq!(json["schema"], 1);
    for key in KEYS {
        assert!(json[key].is_u64(), "{key}");
    }
    assert_eq!(json.as_object().unwrap().len(), KEYS.len() + 1);
    assert_eq!(
        (&json["ops"], &json["transpose"], &json["movement_ops"]),
        (&json!(1), &json!(1), &json!(1))
    );
    assert_eq!(json["movement_bytes"], 2 * 2 * 3 * 5 * 4);
}

/// A transform that stays whole in the model counts whole: the runtime makes none of the transposes of its operations.
#[test]
fn the_figures_of_a_written_model_are_those_of_its_fold() {
    let folder = Folder::new("written_figures");
    let program = r#"module attributes {hbir.onnx_opset = 17} {
func.func @main(%x: tensor<1x64x1xf32>) -> tensor<1x5x15xf32> {
  %0 = "hbir.constant"() <{value = dense<4> : tensor<si64>}> : () -> tensor<si64>
  %1 = "hbir.constant"() <{value = dense<1.0> : tensor<8xf32>}> : () -> tensor<8xf32>
  %2 = "hbir.constant"() <{value = dense<8> : tensor<si64>}> : () -> tensor<si64>
  %3 = "hbir.opaque"(%x, %0, %1, %2) <{domain = "", effect = "pure", kind = "STFT", onnx.onesided = 1}> : (tensor<1x64x1xf32>, tensor<si64>, tensor<8xf32>, tensor<si64>) -> tensor<1x15x5x2xf32>
  %4 = "hbir.reduce"(%3) <{axes = [3], keepdims = false, kind = "sum"}> : (tensor<1x15x5x2xf32>) -> tensor<1x15x5xf32>
  %5 = "hbir.transpose"(%4) <{perm = [0, 2, 1]}> : (tensor<1x15x5xf32>) -> tensor<1x5x15xf32>
  return %5 : tensor<1x5x15xf32>
}
}
"#;
    let [source, output] = ["a.onnx", "b.onnx"].map(|name| folder.path(name));
    optc_with(&["--pass=", "--from=ir", "-", "-o", &source], program).ok();
    let json = |args: &[&str]| -> Json { serde_json::from_str(&optc(args).ok()).unwrap() };
    for target in ["--target=onnx", "--target=onnxruntime"] {
        let said = json(&[&source, target, "-o", &output, "--json"]);
        // The transpose of 15x5 floats at the end; the signal and the frames stay as they are.
        let moved = json!(2 * 15 * 5 * 4);
        assert_eq!(said["lower_bound_bytes"], moved);
        assert_eq!(said["before"]["movement_bytes"], moved);
        assert_eq!(said["after"]["movement_bytes"], moved);
        let found = json(&["stats", "--json", &output]);
        assert_eq!(found["movement_bytes"], moved);
        let folded = json(&["stats", "--json", "--pass=default", target, &source]);
        assert_eq!(folded["movement_bytes"], moved);
    }
    // A machine without that operator computes a convolution between transposes.
    let parts = json(&["stats", "--json", "--target=cpu", &source]);
    assert_eq!(parts["movement_bytes"], 2 * 15 * 5 * 4 + 2 * 15 * 10 * 4);
}

#[test]
fn figures_before_and_after_passes() {
    let json = stats(&["--pass=canonicalize,view-fold"], CANCEL);
    assert_eq!(json["before"]["transpose"], 2);
    assert_eq!(json["before"]["movement_bytes"], 2 * 2 * 6 * 4);
    assert_eq!(
        (&json["transpose"], &json["movement_bytes"]),
        (&json!(0), &json!(0))
    );
    for key in KEYS {
        assert_eq!(json[key], json["after"][key], "{key}");
    }
    assert_eq!(
        (&json["proof"], &json["lower_bound_bytes"]),
        (&json!("optimal"), &json!(0))
    );
    assert!(json["rules"].is_object());
    let none = stats(&["--pass="], CANCEL);
    assert_eq!(
        (&none["before"], &none["proof"]),
        (&none["after"], &Json::Null)
    );
}

#[test]
fn the_table_names_the_same_figures() {
    let table = optc_with(&["stats", "--pass=canonicalize,view-fold", "-"], TRANSPOSE).ok();
    for key in KEYS {
        assert!(
            table.lines().any(|l| l.starts_with(key)),
            "{key} in\n{table}"
        );
    }
    assert!(table.contains("lower bound"), "{table}");
    let plain = optc_with(&["stats", "-"], TRANSPOSE).ok();
    assert_eq!(plain.lines().count(), KEYS.len());
}

#[test]
fn a_condition_that_holds_fails() {
    let run = |condition: &str, pass: &str| {
        let option = format!("--fail-if={condition}");
        optc_with(&["stats", pass, &option, "-"], CANCEL)
    };
    run("movement_bytes>0", "--pass=")
        .fails(1, "error[fail-if]: `movement_bytes>0` holds: found 96");
    run("movement_bytes>0", "--pass=canonicalize,view-fold").ok();
    run(
        "transpose!=0,before.transpose!=2",
        "--pass=canonicalize,view-fold",
    )
    .ok();
    run("view=0,before.transpose=2", "--pass=canonicalize,view-fold")
        .fails(1, "`before.transpose=2`");
    run("movement>0", "--pass=").fails(2, "found no figure `movement`");
    run("movement_bytes", "--pass=").fails(2, "wanted a figure");
}

#[test]
fn two_programs_are_compared() {
    let folder = Folder::new("compare");
    let (a, b) = (folder.write("a.ir", CANCEL), folder.path("b.ir"));
    optc(&["--pass=canonicalize,view-fold", &a, "-o", &b]).ok();
    let json = optc(&["stats", "--json", "--compare", &a, &b]).ok();
    let json: Json = serde_json::from_str(&json).unwrap();
    assert_eq!(
        (&json["a"]["transpose"], &json["b"]["transpose"]),
        (&json!(2), &json!(0))
    );
    let table = optc(&["stats", "--compare", &a, &b]).ok();
    let line = table.lines().find(|l| l.starts_with("transpose")).unwrap();
    assert_eq!(
        line.split_whitespace().collect::<Vec<_>>(),
        ["transpose", "2", "0", "-2"]
    );
    assert_eq!(json["difference"]["transpose"], -2);
    optc(&["stats", "--compare", &a, &b, "--fail-if=transpose=0"]).fails(1, "fail-if");
    optc(&["stats", "--compare", &a]).fails(2, "--compare");
    optc(&["stats", &a, "--compare", &a, &b]).fails(2, "cannot be used with");
    optc(&["stats"]).fails(2, "<IN>");
    optc(&["stats", &folder.path("absent.ir")]).fails(1, "error[io-read]");
}

/// Two transposes and a slice with named locations, and one without a name.
const NAMED: &str = r#"func.func @main(%x: tensor<4x6xf32>) -> tensor<3x4xf32> {
  %0 = "hbir.exp"(%x) : (tensor<4x6xf32>) -> tensor<4x6xf32> loc("exp")
  %1 = "hbir.slice"(%0) <{limits = [4, 3], starts = [0, 0]}> : (tensor<4x6xf32>) -> tensor<4x3xf32> loc("part")
  %2 = "hbir.transpose"(%1) <{perm = [1, 0]}> : (tensor<4x3xf32>) -> tensor<3x4xf32> loc("turn")
  %3 = "hbir.neg"(%2) : (tensor<3x4xf32>) -> tensor<3x4xf32>
  %4 = "hbir.transpose"(%3) <{perm = [1, 0]}> : (tensor<3x4xf32>) -> tensor<4x3xf32>
  %5 = "hbir.transpose"(%4) <{perm = [1, 0]}> : (tensor<4x3xf32>) -> tensor<3x4xf32> loc("back")
  return %5 : tensor<3x4xf32>
}
"#;

/// The output of `stats --compare --json` for two programs, with further arguments.
fn compared(a: &str, b: &str, more: &[&str]) -> Json {
    let args = ["stats", "--json", "--compare", a, b];
    let args: Vec<&str> = args.iter().chain(more).copied().collect();
    serde_json::from_str(&optc(&args).ok()).unwrap()
}

/// The sums over all rows of a comparison, listed or not, by class.
fn summed(json: &Json) -> Vec<(String, i64)> {
    let mut sums: Vec<(String, i64)> = Vec::new();
    let items = json["items"].as_array().unwrap().iter();
    for difference in items.chain([&json["unlisted"]]) {
        for (class, n) in difference["difference"].as_object().unwrap() {
            let n = n.as_i64().unwrap();
            match sums.iter_mut().find(|(name, _)| name == class) {
                Some((_, sum)) => *sum += n,
                None => sums.push((class.clone(), n)),
            }
        }
    }
    sums
}

#[test]
fn what_makes_up_a_difference_is_listed_largest_first() {
    let folder = Folder::new("compare-items");
    let (a, b) = (folder.write("a.ir", NAMED), folder.path("b.ir"));
    optc(&["--pass=canonicalize,view-fold", &a, "-o", &b]).ok();
    let json = compared(&a, &b, &[]);
    let names: Vec<&str> = json["items"]
        .as_array()
        .unwrap()
        .iter()
        .map(|item| item["name"].as_str().unwrap())
        .collect();
    assert!(names.contains(&"\"part\""), "{names:?}");
    assert!(names.contains(&"\"turn\""), "{names:?}");
    // The rows add up to the differences of the totals, however few are listed.
    for top in ["0", "1", "20"] {
        let json = compared(&a, &b, &["--top", top]);
        let listed = json["items"].as_array().unwrap();
        assert!(listed.len() <= top.parse().unwrap());
        for (class, sum) in summed(&json) {
            assert_eq!(json["difference"][&class], sum, "{class} at --top={top}");
        }
        let totals: Vec<i64> = listed
            .iter()
            .map(|item| {
                let classes = [
                    "movement_bytes",
                    "copy_bytes",
                    "expand_bytes",
                    "padding_bytes",
                    "slower_bytes",
                ];
                classes
                    .iter()
                    .map(|c| item["difference"][*c].as_i64().unwrap())
                    .sum()
            })
            .collect();
        assert!(
            totals.is_sorted_by_key(|n| std::cmp::Reverse(n.abs())),
            "{totals:?}"
        );
    }
    // In the opposite direction every difference has the opposite sign; a program has no difference to itself.
    let (there, back) = (compared(&a, &b, &[]), compared(&b, &a, &[]));
    for (class, n) in there["difference"].as_object().unwrap() {
        assert_eq!(
            back["difference"][class].as_i64(),
            n.as_i64().map(|n| -n),
            "{class}"
        );
    }
    let same = compared(&a, &a, &[]);
    assert_eq!(same["items"], json!([]));
    assert!(
        same["difference"]
            .as_object()
            .unwrap()
            .values()
            .all(|n| n == 0)
    );
    let table = optc(&["stats", "--compare", &a, &b]).ok();
    assert!(
        table.contains("where the bytes differ, largest first:"),
        "{table}"
    );
    let part = table.lines().find(|l| l.contains("\"part\"")).unwrap();
    assert!(part.contains("`hbir.slice` -> "), "{part}");
}

#[test]
fn a_parent_that_is_kept_alive_shows_in_the_peak_of_a_comparison() {
    let text = |part: &str| {
        format!(
            r#"func.func @main(%x: tensor<4x6xf32>) -> tensor<4x3xf32> {{
  %0 = "hbir.softmax"(%x) <{{axis = 1}}> : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = "hbir.{part}"(%0) <{{limits = [4, 3], starts = [0, 0]}}> : (tensor<4x6xf32>) -> tensor<4x3xf32>
  %2 = "hbir.softmax"(%1) <{{axis = 1}}> : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %3 = "hbir.softmax"(%2) <{{axis = 0}}> : (tensor<4x3xf32>) -> tensor<4x3xf32>
  %4 = "hbir.add"(%3, %1) : (tensor<4x3xf32>, tensor<4x3xf32>) -> tensor<4x3xf32>
  return %4 : tensor<4x3xf32>
}}
"#
        )
    };
    let folder = Folder::new("compare-peak");
    let a = folder.write("a.ir", &text("slice"));
    let b = folder.write("b.ir", &text("subview"));
    let json = compared(&a, &b, &[]);
    // The sum is written over the copy, which is therefore in the memory of the result. A live part keeps its whole
    // alive.
    assert_eq!(json["a"]["live_bytes"], 24 * 4);
    assert_eq!(json["b"]["live_bytes"], (24 + 12) * 4);
    assert_eq!(json["difference"]["copy_bytes"], -2 * 12 * 4);
}

#[test]
fn programs_of_other_boundaries_are_not_compared() {
    let folder = Folder::new("compare-boundary");
    let program = |from: &str, to: &str| {
        format!("%0 = \"hbir.relu\"(%x) : (tensor<{from}>) -> tensor<{to}>\n")
    };
    let a = folder.write("a.ir", &program("5x6xf32", "5x6xf32"));
    let b = folder.write("b.ir", &program("6x5xf32", "6x5xf32"));
    optc(&["stats", "--compare", &a, &b]).fails(1, "error[boundary-differs]");
    optc(&["stats", "--compare", &a, &b]).fails(1, "tensor<5x6xf32>");
    let turned =
        "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<5x6xf32>) -> tensor<6x5xf32>\n";
    let c = folder.write("c.ir", turned);
    optc(&["stats", "--compare", &a, &c]).fails(1, "result ");
    let cast = "%0 = \"hbir.cast\"(%x) <{to = f16}> : (tensor<5x6xf32>) -> tensor<5x6xf16>\n";
    let d = folder.write("d.ir", cast);
    optc(&["stats", "--compare", &a, &d]).fails(1, "tensor<5x6xf16>");
    optc(&["stats", "--top=3", &a]).fails(2, "cannot be used with");
}

#[test]
fn targets_are_listed_and_explained() {
    let list = optc(&["targets"]).ok();
    let names: Vec<&str> = list
        .lines()
        .filter_map(|l| l.split_whitespace().next())
        .collect();
    assert_eq!(names, optc::Target::names());
    let journey = optc(&["targets", "journey6"]).ok();
    for word in ["matmul", "tensor", "blocks of 128"] {
        assert!(journey.contains(word), "no {word} in\n{journey}");
    }
    assert!(optc(&["targets", "cpu"]).ok().contains("k in one run"));
    optc(&["targets", "gpu"]).fails(2, "error[unknown-target]");
}

/// The program and the commands of `docs/mesh.md`.
fn mesh_page() -> (String, Vec<String>) {
    let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = std::fs::read_to_string(root.join("docs/mesh.md")).unwrap();
    let fences = |kind: &str| -> Vec<String> {
        let open = format!("```{kind}\n");
        let opened = page.split(&open).skip(1);
        opened
            .map(|rest| rest.split("```").next().unwrap().to_owned())
            .collect()
    };
    let commands = fences("sh");
    let commands = commands
        .iter()
        .flat_map(|text| text.lines().map(str::to_owned));
    (fences("mlir").swap_remove(0), commands.collect())
}

/// The words of a command, with files in a folder; quotes keep blanks.
fn words(command: &str, folder: &Folder) -> Vec<String> {
    let mut words = vec![String::new()];
    let mut quoted = false;
    for c in command.chars() {
        match c {
            '\'' => quoted = !quoted,
            ' ' if !quoted => words.push(String::new()),
            c => words.last_mut().unwrap().push(c),
        }
    }
    let file = |word: &String| [".ir", ".py", ".svg"].iter().any(|end| word.ends_with(end));
    let placed = words.iter().map(|word| match file(word) {
        true => folder.path(word),
        false => word.clone(),
    });
    placed.collect()
}

#[test]
fn the_commands_of_the_page_about_meshes_run() {
    let (program, commands) = mesh_page();
    let folder = Folder::new("mesh_page");
    folder.write("mlp.ir", &program);
    let mut outputs = Vec::new();
    for command in &commands {
        let words = words(command, &folder);
        assert_eq!(words[0], "optc", "{command}");
        outputs.push(optc(&words[1..]).ok());
    }
    // The figures that the page names, and those of the written program.
    let sent = ["3670016 in 1", "524288 in 1"];
    for (output, sent) in outputs.iter().zip(sent) {
        assert!(output.contains(sent), "no {sent} in\n{output}");
    }
    assert!(outputs[3].contains("524288 in 1"), "{}", outputs[3]);
    let module = std::fs::read_to_string(folder.path("mlp.py")).unwrap();
    assert!(module.contains("def part(x, w, v):"), "{module}");
    assert!(module.contains("_scatter("), "{module}");
    let picture = std::fs::read_to_string(folder.path("split.svg")).unwrap();
    assert!(picture.contains("reduce-scatter"), "{picture}");
}

/// A reduce-scatter over `model` is all that is sent; its bytes and seconds follow from the ring and the link.
#[test]
fn figures_of_large_meshes_follow_the_formulas() {
    let (program, _) = mesh_page();
    for (n, devices) in [(16u32, 256), (64, 4096)] {
        let mesh = format!("--mesh=data:{n}@dcn,model:{n}@ici");
        let pins = ["x=[data, _]", "w=[_, model]", "v=[model, _]"];
        let pins = pins.iter().flat_map(|pin| ["--shard", pin]);
        let args: Vec<&str> = ["--target=tpu", mesh.as_str()]
            .into_iter()
            .chain(pins)
            .collect();
        let json = &stats(&args, &program)["mesh"];
        let bytes = 4096 / n * 256 * 4 / n * (n - 1);
        assert_eq!(json["devices"], devices);
        assert_eq!(json["axes"][0]["collective_bytes"], 0);
        assert_eq!(json["axes"][0]["link"], "dcn");
        assert_eq!(json["axes"][1]["collective_bytes"], bytes);
        assert_eq!(json["collectives"][0]["kind"], "reduce-scatter");
        let seconds = f64::from(bytes) / 50.0e9 + f64::from(n - 1) * 1.0e-6;
        let found = json["collective_seconds"].as_f64().unwrap();
        assert!((found - seconds).abs() < 1e-12, "{found}, wanted {seconds}");
        // Arguments: rows of x, columns of w, rows of v.
        let parts = (4096 / n * 256 + 2 * 256 * (4096 / n)) * 4;
        assert_eq!(json["resident_bytes"], parts);
    }
}
