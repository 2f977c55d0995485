//! The page of `optc report`: it says all that the remarks say, has every operation in one place, and is escaped.

use optc::{Compiler, Registry};
use optc_cli::{Main, Streams};
use optc_tests::paths::{files, root};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};

/// The output and the messages of a command that succeeds.
#[track_caller]
fn run(args: &[&str], input: &str) -> (String, String) {
    let (mut output, mut errors) = (Vec::new(), Vec::new());
    let args: Vec<&str> = std::iter::once("optc")
        .chain(args.iter().copied())
        .collect();
    let status = Main::default().call(
        &args,
        &mut Streams {
            input: &mut input.as_bytes(),
            output: &mut output,
            errors: &mut errors,
        },
    );
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("the command prints text");
    let (output, errors) = (text(output), text(errors));
    assert_eq!(status, 0, "{args:?}: {errors}");
    (output, errors)
}

fn page(target: &str, path: &Path) -> String {
    let path = path.display().to_string();
    run(&["report", &format!("--target={target}"), &path], "").0
}

fn models() -> Vec<PathBuf> {
    let models = files(&root().join("tests/models"), "onnx");
    assert!(8 <= models.len(), "{models:?}");
    models
}

/// The text of HTML between its tags.
fn unescaped(html: &str) -> String {
    let named = [
        ("&lt;", "<"),
        ("&gt;", ">"),
        ("&quot;", "\""),
        ("&amp;", "&"),
    ];
    named
        .iter()
        .fold(html.to_owned(), |text, (name, c)| text.replace(name, c))
}

/// The data of the page's script.
fn data(page: &str) -> Json {
    let start = page.find("id=\"data\">").expect("the page has data") + "id=\"data\">".len();
    let end = start + page[start..].find("</script>").expect("the data ends");
    serde_json::from_str(&page[start..end]).expect("the data is JSON")
}

fn list<'a>(value: &'a Json, key: &str) -> &'a [Json] {
    value[key].as_array().map_or(&[], Vec::as_slice)
}

#[test]
fn the_page_says_all_that_remarks_say() {
    let mut conversions = 0;
    for path in models() {
        for target in ["cpu", "tpu", "journey6"] {
            let text = unescaped(&page(target, &path));
            let target = format!("--target={target}");
            let model = path.display().to_string();
            let args = ["--pass=default", &target, "--remarks=json", &model];
            for line in run(&args, "").1.lines() {
                let said: Json = serde_json::from_str(line).expect("a remark is JSON");
                let lines = list(&said, "notes")
                    .iter()
                    .chain([&said["message"], &said["code"]]);
                for line in lines.filter_map(Json::as_str) {
                    assert!(text.contains(line), "{model} at {target}: no `{line}`");
                }
                conversions += usize::from(said["code"] == "conversion-stays");
            }
        }
    }
    assert!(0 < conversions, "no model has a conversion that stays");
}

/// Every box and every layer is in one layer, and boxes of a layer do not overlap.
#[test]
fn each_box_has_a_place_of_its_own() {
    for path in models() {
        let page = data(&page("tpu", &path));
        for panel in list(&page, "panels") {
            let (nodes, groups) = (list(panel, "nodes"), list(panel, "groups"));
            let mut seen = [vec![0; nodes.len()], vec![0; groups.len()]];
            for group in groups {
                let mut taken: Vec<[f64; 4]> = Vec::new();
                for kid in list(&group["open"], "kids") {
                    let number = |i: usize| kid[i].as_f64().expect("a number");
                    let (layer, id) = (number(0) as usize, number(1) as usize);
                    seen[layer][id] += 1;
                    let shut = if layer == 1 {
                        &groups[id]["shut"]
                    } else {
                        &nodes[id]
                    };
                    let (x, y) = (number(2), number(3));
                    let (w, h) = (shut["w"].as_f64().unwrap(), shut["h"].as_f64().unwrap());
                    let place = [x, y, x + w, y + h];
                    let apart = |other: &[f64; 4]| {
                        other[2] <= place[0]
                            || place[2] <= other[0]
                            || other[3] <= place[1]
                            || place[3] <= other[1]
                    };
                    assert!(taken.iter().all(apart), "{}: {kid}", path.display());
                    taken.push(place);
                }
            }
            assert!(seen[0].iter().all(|&n| n == 1), "{}", path.display());
            let roots = list(panel, "funcs").len();
            assert_eq!(seen[1].iter().filter(|&&n| n == 0).count(), roots);
            assert!(seen[1].iter().all(|&n| n <= 1));
        }
    }
}

/// The bytes on the boxes are the figures of `optc stats`, and each conversion that stays has its reason.
#[test]
fn the_boxes_have_the_bytes_of_the_statistics() {
    let compiler = Compiler::new();
    for path in models() {
        let mut compiler = compiler.clone();
        compiler.target = Some(optc::find_target("tpu").expect("it is built in").into());
        let program = compiler.load(&path, None).expect("a model");
        let answer = compiler.fold(&program).expect("it folds");
        let page = data(&answer.to_html(&compiler, "default"));
        let after = list(&page, "panels").last().expect("a panel");
        let sum = |kind: &str| -> u64 {
            let nodes = list(after, "nodes").iter().filter(|node| node["k"] == kind);
            nodes.filter_map(|node| node["b"].as_u64()).sum()
        };
        let stats = answer.stats();
        let moved = stats.movement_bytes - stats.priced_bytes;
        assert_eq!((sum("movement"), sum("copy")), (moved, stats.copy_bytes));
        let reasons = list(after, "nodes")
            .iter()
            .filter(|node| node["c"]["k"] == "conversion");
        for node in reasons {
            assert!(
                !list(&node["c"], "r").is_empty(),
                "{}: {node}",
                path.display()
            );
        }
    }
}

/// A remark leads to the box of its operation, also if another function has an operation of the same name.
#[test]
fn remarks_of_two_functions_lead_to_two_boxes() {
    let func = |name: &str, rows: usize| {
        format!(
            "func.func @{name}(%x: tensor<4x6xf32>) -> tensor<{rows}x6xf32> {{
               %0 = \"hbir.slice\"(%x) <{{limits = [{rows}, 6], starts = [0, 0]}}> : (tensor<4x6xf32>) -> tensor<{rows}x6xf32>
               return %0 : tensor<{rows}x6xf32>
             }}\n"
        )
    };
    let text = func("f", 2) + &func("g", 3);
    let page = run(&["report", "--from=ir", "--target=cpu", "-"], &text).0;
    let data = data(&page);
    let after = list(&data, "panels").last().expect("a panel");
    let mut found = Vec::new();
    for remark in page.split("<div class=\"remark\"").skip(1) {
        let goal = remark
            .split_once("data-go=\"n")
            .and_then(|(_, rest)| rest.split_once('"'));
        let goal: usize = goal
            .expect("it leads to a box")
            .0
            .parse()
            .expect("a number");
        let bytes = after["nodes"][goal]["b"].as_u64().expect("bytes");
        assert!(
            remark.contains(&format!("stays: {bytes} bytes")),
            "{remark}"
        );
        assert_eq!(after["nodes"][goal]["c"]["b"], bytes);
        found.push(bytes);
    }
    assert_eq!(found, [96, 144]);
}

#[test]
fn the_same_program_gives_the_same_page() {
    let path = &models()[0];
    assert!(page("tpu", path) == page("tpu", path));
}

/// Names of the program stay text: no tag and no end of a script comes from them.
#[test]
fn names_are_escaped() {
    let text = "%0 = \"hbir.transpose\"(%x) <{perm = [1, 0]}> : (tensor<2x3xf32>) -> tensor<3x2xf32> \
                loc(\"</script><img src=x onerror=alert(1)>/&amp;\")\n";
    let (page, _) = run(&["report", "--from=ir", "-"], text);
    assert!(!page.contains("<img"), "a name is markup");
    let plain = run(
        &["report", "--from=ir", "-"],
        "%0 = \"hbir.relu\"(%x) : (tensor<2xf32>) -> tensor<2xf32>\n",
    )
    .0;
    let ends = |page: &str| page.matches("</script>").count();
    assert_eq!(ends(&page), ends(&plain));
    let names = data(&page)["panels"][0]["nodes"][1]["n"].clone();
    assert_eq!(names[0], "</script><img src=x onerror=alert(1)>/&amp;");
}

/// A page asks for nothing: no address of another file or machine is in it.
#[test]
fn the_page_is_complete() {
    let page = page("cpu", &models()[0]);
    let outside = ["src=", "href=", "@import", "url(http", "fetch(", "import("];
    let found: Vec<&str> = outside
        .into_iter()
        .filter(|word| page.contains(word))
        .collect();
    assert!(found.is_empty(), "{found:?}");
    let own = page.replace("http://www.w3.org/2000/svg", "");
    assert!(!own.contains("http:") && !own.contains("https:"));
}

/// Model Explorer's node data has the bytes of the nodes, and each node a namespace.
#[test]
fn graphs_for_model_explorer_have_namespaces_and_bytes() {
    let compiler = Compiler::new();
    let registry: &Registry = compiler.registry();
    for path in models() {
        let program = compiler.load(&path, None).expect("a model");
        let states = [optc::State {
            title: "before",
            program: &program,
        }];
        let explored = optc::to_model_explorer("a model", &states, registry);
        let graphs: Json = serde_json::from_str(&explored.graphs).expect("JSON");
        let data: Json = serde_json::from_str(&explored.node_data).expect("JSON");
        let graph = &graphs["graphs"][0];
        let id = graph["id"].as_str().expect("a name");
        let mut bytes = 0;
        for node in list(graph, "nodes") {
            let space = node["namespace"].as_str().expect("a namespace");
            assert!(space.starts_with("@"), "{node}");
            let number = node["id"].as_str().expect("an id");
            bytes += data[id]["results"][number]["value"].as_u64().unwrap_or(0);
        }
        let stats = compiler.stats(&program);
        let constants = stats.constant_movement_bytes;
        let all = stats.movement_bytes + stats.copy_bytes + stats.expand_bytes + constants;
        assert_eq!(bytes, all, "{}", path.display());
    }
}
