//! `optc stats` and `optc targets`.

mod support;

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
        ["transpose", "2", "0"]
    );
    optc(&["stats", "--compare", &a, &b, "--fail-if=transpose=0"]).fails(1, "fail-if");
    optc(&["stats", "--compare", &a]).fails(2, "--compare");
    optc(&["stats", &a, "--compare", &a, &b]).fails(2, "cannot be used with");
    optc(&["stats"]).fails(2, "<IN>");
    optc(&["stats", &folder.path("absent.ir")]).fails(1, "error[io-read]");
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
