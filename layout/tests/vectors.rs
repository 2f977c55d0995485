//! The conformance vectors of `spec/vectors` for the notations and the view decision.

use std::path::Path;

use optc_layout::notation::{TensorText, parse_tensor};
use optc_layout::{Layout, Notation, ViewMap, XlaShape, deduce, is_view, propagate};
use serde_json::Value;

fn rows(name: &str) -> Vec<Value> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../spec/vectors");
    let text = std::fs::read_to_string(folder.join(name)).expect("the vector file is readable");
    let file: Value = serde_json::from_str(&text).expect("the vector file is JSON");
    file["vectors"]
        .as_array()
        .expect("a list of vectors")
        .clone()
}

fn tensor(text: &Value) -> TensorText {
    let text = text.as_str().expect("a tensor's text");
    parse_tensor(text).unwrap_or_else(|error| panic!("{text}: {error}"))
}

fn numbers(list: &Value) -> Option<Vec<u64>> {
    list.as_array()
        .map(|list| list.iter().filter_map(Value::as_u64).collect())
}

#[test]
fn tensor_index() {
    for row in rows("tensor_index.json") {
        let layout = tensor(&row["text"]).layout;
        let e = numbers(&row["index"]).expect("an index");
        let p = row["linear_index"].as_u64();
        assert_eq!(layout.index(&e), p, "{row}");
        assert_eq!(Some(layout.positions()), row["positions"].as_u64(), "{row}");
        assert_eq!(p.and_then(|p| layout.element_at(p)), Some(e), "{row}");
    }
}

#[test]
fn tensor_maps() {
    for row in rows("tensor_maps.json") {
        let layout = tensor(&row["text"]).layout;
        let shape = layout.shape().to_vec();
        let number = |e: Vec<u64>| e.iter().zip(&shape).fold(0, |k, (i, n)| k * n + i) as i64;
        let memory: Vec<i64> = (0..layout.positions())
            .map(|p| layout.element_at(p).map_or(-1, number))
            .collect();
        let wanted: Vec<i64> = row["memory"]
            .as_array()
            .expect("a memory map")
            .iter()
            .filter_map(Value::as_i64)
            .collect();
        assert_eq!(memory, wanted, "{row}");
    }
}

#[test]
fn layout_equal() {
    for row in rows("layout_equal.json") {
        let (a, b) = (tensor(&row["a"]).layout, tensor(&row["b"]).layout);
        let expected = row["expected"].as_bool().expect("a decision");
        assert_eq!(a.same_function(&b), expected, "{row}");
        assert_eq!(b.same_function(&a), expected, "{row}");
        assert!(!expected || a.function_hash() == b.function_hash(), "{row}");
    }
}

#[test]
fn view() {
    for row in rows("view.json") {
        let (input, output) = (tensor(&row["input"]).layout, tensor(&row["output"]).layout);
        let perm = numbers(&row["perm"]).map(|perm| perm.iter().map(|&i| i as usize).collect());
        let result = output.shape().to_vec();
        let map = ViewMap {
            shape: numbers(&row["shape"]),
            perm,
            result,
        };
        let expected = row["expected"].as_bool().expect("a decision");
        assert_eq!(is_view(&input, &map, &output).is_ok(), expected, "{row}");
        if let Ok(propagated) = propagate(&input, &map) {
            assert!(is_view(&input, &map, &propagated).is_ok(), "{row}");
            assert_eq!(propagated.same_function(&output), expected, "{row}");
        }
    }
}

fn layout(text: &Value) -> Layout {
    let text = text.as_str().expect("a shape's text");
    let shape = XlaShape::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    let array = shape.as_array().expect("an array");
    array
        .layout()
        .unwrap_or_else(|error| panic!("{text}: {error}"))
}

#[test]
fn linear_index() {
    for row in rows("linear_index.json") {
        let layout = layout(&row["layout_text"]);
        let e = numbers(&row["index"]).expect("an index");
        assert_eq!(layout.index(&e), row["linear_index"].as_u64(), "{row}");
        assert_eq!(
            Some(layout.positions()),
            row["num_positions"].as_u64(),
            "{row}"
        );
        let Notation::Xla(xla) = layout.notation() else {
            panic!("{row}");
        };
        let extents = xla.physical_shape(layout.shape()).expect("the extents fit");
        assert_eq!(Some(extents), numbers(&row["expanded_dims"]), "{row}");
    }
}

#[test]
fn linear_maps() {
    for row in rows("linear_maps.json") {
        let layout = layout(&row["layout_text"]);
        let wanted: Vec<i64> = row["memory"]
            .as_array()
            .expect("a memory map")
            .iter()
            .filter_map(Value::as_i64)
            .collect();
        let number =
            |e: Vec<u64>| e.iter().zip(layout.shape()).fold(0, |k, (i, n)| k * n + i) as i64;
        let memory: Vec<i64> = (0..layout.positions())
            .map(|p| layout.element_at(p).map_or(-1, number))
            .collect();
        assert_eq!(memory, wanted, "{row}");
    }
}

#[test]
fn byte_size() {
    for row in rows("byte_size.json") {
        let text = row["text"].as_str().expect("a shape's text");
        let shape = XlaShape::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        let bytes = shape.as_array().expect("an array").bytes();
        assert_eq!(bytes.ok(), row["expected_bytes"].as_u64(), "{row}");
    }
}

#[test]
fn bitcast() {
    for row in rows("bitcast.json") {
        let (input, output) = (
            layout(&row["input"]["text"]),
            layout(&row["output"]["text"]),
        );
        let perm = numbers(&row["perm"]).map(|perm| perm.iter().map(|&i| i as usize).collect());
        let map = ViewMap {
            shape: None,
            perm,
            result: output.shape().to_vec(),
        };
        let expected = row["expected"].as_bool().expect("a decision");
        assert_eq!(is_view(&input, &map, &output).is_ok(), expected, "{row}");
        assert!(!expected || deduce(&input, &output).is_ok(), "{row}");
    }
}

#[test]
fn layout_text() {
    for row in rows("layout_text.json") {
        let text = row["text"].as_str().expect("a shape's text");
        match (row["expected"].as_str(), XlaShape::parse(text)) {
            (Some("ok"), Ok(shape)) => {
                let canonical = row["canonical"].as_str().expect("what XLA prints");
                assert_eq!(shape.to_string(), canonical, "{row}");
                let again = XlaShape::parse(canonical).expect("what is printed reads");
                assert_eq!(again.to_string(), canonical, "{row}");
                let (prefix, end) = XlaShape::parse_prefix(text, 0).expect("the text reads");
                assert_eq!((prefix, end), (shape, text.len()), "{row}");
            }
            (Some("ok"), Err(error)) => panic!("{text}: {error}"),
            (Some("error"), Ok(shape)) => panic!("{text} reads as {shape}: {row}"),
            _ => {}
        }
    }
}
