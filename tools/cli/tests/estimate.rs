//! `optc stats --estimate`.

use crate::support;

use serde_json::{Value as Json, json};
use support::{CANCEL, Folder, optc, optc_with};

fn estimate(args: &[&str], program: &str) -> Json {
    let args = [&["stats", "--estimate", "--json"], args, &["-"]].concat();
    let json: Json = serde_json::from_str(&optc_with(&args, program).ok()).unwrap();
    json["estimate"].clone()
}

#[track_caller]
fn assert_near(found: &Json, wanted: f64) {
    let found = found.as_f64().unwrap();
    assert!((found - wanted).abs() <= 1e-9 * wanted, "{found} {wanted}");
}

#[test]
fn a_transpose_that_vanishes_takes_no_time() {
    let json = estimate(&["--target=cpu", "--pass=view-fold"], CANCEL);
    let each = f64::from(2 * 6 * 4) / 20e9;
    assert_near(&json["before"]["seconds"], 3.0 * each);
    assert_near(&json["after"]["seconds"], each);
    assert_near(&json["gain"], 3.0);
    assert_eq!(
        json["after"]["items"],
        json!([{
            "function": "main",
            "ops": ["hbir.relu"],
            "unit": "core",
            "seconds": each,
            "limit": "memory",
            "work": 6,
            "bytes": 48,
            "rated": true,
        }])
    );
    assert_eq!(json["before"]["items"].as_array().unwrap().len(), 3);
    assert_eq!(json["model"], "roofline: modelled, not measured");
    assert_eq!(
        (&json["target"], &json["memory"], &json["cast"]),
        (&json!("cpu"), &json!("dram"), &Json::Null)
    );
    let alone = estimate(&["--target=cpu"], CANCEL);
    assert_near(&alone["after"]["seconds"], 3.0 * each);
    assert_eq!(
        (&alone["before"], &alone["gain"]),
        (&Json::Null, &Json::Null)
    );
    // Without `--estimate` there is no model.
    let plain = optc_with(&["stats", "--json", "--target=cpu", "-"], CANCEL).ok();
    assert!(!plain.contains("estimate"), "{plain}");
}

/// A 128x64 by 64x128 product on `journey6`: the naive lowering pads both sides to blocks of 128.
const PADDED: &str = r#"func.func @main(%x: tensor<128x64xf32>, %y: tensor<64x128xf32>) -> tensor<128x128xf32> {
  %0 = "hbir.matmul"(%x, %y) : (tensor<128x64xf32>, tensor<64x128xf32>) -> tensor<128x128xf32>
  return %0 : tensor<128x128xf32>
}
"#;

#[test]
fn conversions_that_the_target_forces_are_in_the_time_before() {
    let args = ["--target=journey6", "--pass=view-fold", "--cast=si8"];
    let json = estimate(&args, PADDED);
    let before = json["before"]["items"].as_array().unwrap();
    let forced = before.iter().find(|item| item["ops"] == json!([])).unwrap();
    // The value is read unpadded and written in a block of 128, one byte per element.
    assert_eq!(forced["bytes"], 128 * 64 + 128 * 128);
    assert_eq!((&json["cast"], &json["gain"]), (&json!("si8"), &json!(1.0)));
    let text = ["stats", "--estimate", args[0], args[1], args[2], "-"];
    let text = optc_with(&text, PADDED).ok();
    for words in [
        "estimate by a roofline: modelled, not measured",
        "target journey6, ddr with 1.000e11 bytes a second, floats priced as si8",
        "conversions that the target forces",
        "modelled gain 1.000",
    ] {
        assert!(text.contains(words), "no `{words}` in\n{text}");
    }
}

/// A program that is bound by the product: transposes matter less if the product is slower.
const HEAVY: &str = r#"func.func @main(%x: tensor<256x256xf32>, %y: tensor<256x256xf32>) -> tensor<256x256xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [1, 0]}> : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %1 = "hbir.relu"(%0) : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %2 = "hbir.transpose"(%1) <{perm = [1, 0]}> : (tensor<256x256xf32>) -> tensor<256x256xf32>
  %3 = "hbir.matmul"(%2, %y) : (tensor<256x256xf32>, tensor<256x256xf32>) -> tensor<256x256xf32>
  return %3 : tensor<256x256xf32>
}
"#;

#[test]
fn a_sweep_says_where_a_gain_is_crossed() {
    let args = ["--target=cpu", "--pass=view-fold", "--sweep=1.3"];
    let json = estimate(&args, HEAVY);
    let sweep = &json["sweep"];
    assert_eq!(sweep["gain"], 1.3);
    let steps = sweep["steps"].as_array().unwrap();
    assert_eq!(
        (steps.len(), &steps[0]["speed"], &steps[8]["speed"]),
        (9, &json!(0.25), &json!(4.0))
    );
    assert_eq!(steps[4]["gain"], json["gain"]);
    // The time of moved bytes in each step: each transpose and the element-wise operation take `moved`, the product
    // `work`.
    let moved = f64::from(2 * 256 * 256 * 4) / 20e9;
    let work = f64::from(2 * 256 * 256 * 256) / 96e9;
    let crossing = work / (moved * (3.0 - 1.3) / 0.3);
    let found = sweep["crossings"][0].as_f64().unwrap();
    assert!((found / crossing - 1.0).abs() < 1e-6, "{found} {crossing}");
    let text = ["stats", "--estimate", args[0], args[1], "--sweep", "-"];
    let text = optc_with(&text, HEAVY).ok();
    assert!(text.contains("the gain crosses 1.4 at speed "), "{text}");
    let none = ["stats", "--estimate", args[0], args[1], "--sweep=9", "-"];
    let none = optc_with(&none, HEAVY).ok();
    assert!(
        none.contains("the gain is below 9 at all of them"),
        "{none}"
    );
}

#[test]
fn wrong_words_are_refused() {
    let run = |args: &[&str], program: &str| {
        let args = [&["stats"], args, &["-"]].concat();
        optc_with(&args, program)
    };
    run(&["--cast=si8"], CANCEL).fails(2, "--estimate");
    let errors =
        run(&["--estimate", "--cast=sI8"], CANCEL).fails(2, "--cast: found no element type");
    assert!(errors.contains("did you mean si8?"), "{errors}");
    for text in ["i1", "complex<f32>", "f8E4M3FN", "int8"] {
        let option = format!("--cast={text}");
        run(&["--estimate", &option], CANCEL).fails(2, "one of si4, ui4, si8");
    }
    let whole = CANCEL.replace("f32", "si32");
    run(&["--estimate", "--cast=si8"], &whole).fails(2, "has no values of floats");
    run(&["--estimate", "--sweep"], CANCEL).fails(2, "wanted --pass");
    run(&["--estimate", "--sweep=x", "--pass=view-fold"], CANCEL).fails(2, "found `x`");
    let folder = Folder::new("estimate");
    let file = folder.write("a.ir", CANCEL);
    optc(&["stats", "--estimate", "--compare", &file, &file]).fails(2, "cannot be used with");
    let target = "name='t'\nsummary=''\nspelling='order'\n[units]\n";
    let target = format!("--target={}", folder.write("t.toml", target));
    run(&["--estimate", &target], CANCEL).fails(2, "target `t` states no [[memory]]");
}

#[test]
fn wrong_rates_of_a_target_are_refused_at_their_place() {
    let folder = Folder::new("rates");
    let source = optc::Target::source("cpu").unwrap();
    let refused = |from: &str, to: &str, message: &str| {
        let text = source.replacen(from, to, 1);
        let line = text.lines().position(|line| line.contains(to)).unwrap() + 1;
        let path = folder.write("t.toml", &text);
        let target = format!("--target={path}");
        let errors = optc_with(&["stats", "--estimate", &target, "-"], CANCEL).fails(1, message);
        let place = format!("t.toml:{line}:");
        assert!(errors.contains(&place), "no {place} in\n{errors}");
        errors
    };
    refused("f32 = 96.0e9", "f32 = -96.0e9", "a rate of -96000000000");
    let errors = refused("f32 =", "f33 =", "unknown variant `f33`");
    assert!(errors.contains("did you mean f32?"), "{errors}");
    let errors = refused("rates =", "rate =", "unknown field `rate`");
    assert!(errors.contains("did you mean rates?"), "{errors}");
}

#[test]
fn units_say_how_fast_they_are() {
    let text = optc(&["targets", "tpu"]).ok();
    let words = "operations a second: f32 at 3.280e13, f16 at 1.970e14, i8 at 3.940e14, f32 as bf16 at 1.970e14, products in blocks of 8 by 128 by 128";
    assert!(text.contains(words), "{text}");
}
