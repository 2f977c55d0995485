//! The list of what stays in a written model is that of the nodes in its file that rearrange.

use optc_cli::{Main, Streams};
use optc_onnx_proto::prost::Message;
use optc_onnx_proto::{ModelProto, NodeProto, ValueInfoProto, dtype};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Writes the model of a file for a target; returns the bytes of the rearrangements that the summary lists, sorted, and
/// the model.
fn written(input: &Path, target: &str, name: &str) -> (Vec<u64>, ModelProto) {
    let output = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("left-{name}.onnx"));
    let [from, to] = [input, &output].map(|path| path.display().to_string());
    let target = format!("--target={target}");
    let args = [
        "optc",
        "--pass=default",
        "--json",
        &target,
        &from,
        "-o",
        &to,
    ];
    let (mut text, mut errors) = (Vec::new(), Vec::new());
    let mut streams = Streams {
        input: &mut std::io::empty(),
        output: &mut text,
        errors: &mut errors,
    };
    let status = Main::default().call(args, &mut streams);
    let errors = String::from_utf8_lossy(&errors);
    assert_eq!(status, 0, "{name}: {errors}");
    let summary: serde_json::Value = serde_json::from_slice(&text).unwrap();
    let left = summary["left"].as_array().unwrap().iter();
    let mut left: Vec<u64> = left.map(|one| one["bytes"].as_u64().unwrap()).collect();
    left.sort_unstable();
    let model = ModelProto::decode(&*std::fs::read(output).unwrap()).unwrap();
    (left, model)
}

/// The extents of a value and the bits of an element.
fn shape_of(info: &ValueInfoProto) -> Option<(Vec<u64>, u32)> {
    let tensor = info.ty.as_ref()?.tensor_type.as_ref()?;
    let dims = tensor.shape.as_ref()?.dim.iter();
    let dims = dims.map(|dim| u64::try_from(dim.dim_value?).ok());
    Some((
        dims.collect::<Option<_>>()?,
        dtype(tensor.elem_type).ok()?.bits(),
    ))
}

/// The bytes that the nodes of a model read and write to rearrange elements at run time, sorted.
fn rearranged(model: &ModelProto) -> Vec<u64> {
    let graph = model.graph.as_ref().unwrap();
    let infos = graph
        .input
        .iter()
        .chain(&graph.value_info)
        .chain(&graph.output);
    let shapes: BTreeMap<&str, (Vec<u64>, u32)> = infos
        .filter_map(|info| Some((info.name.as_str(), shape_of(info)?)))
        .collect();
    // A value that depends on no input is known before the program runs.
    let mut live: BTreeSet<&str> = graph.input.iter().map(|i| i.name.as_str()).collect();
    let mut bytes = Vec::new();
    for node in &graph.node {
        if !node.input.iter().any(|name| live.contains(&**name)) {
            continue;
        }
        live.extend(node.output.iter().map(String::as_str));
        let moves = match &*node.op_type {
            "Transpose" => moves(node, &shapes[&*node.output[0]].0),
            "DepthToSpace" | "SpaceToDepth" => true,
            _ => false,
        };
        if moves {
            let (shape, bits) = &shapes[&*node.output[0]];
            bytes.push(2 * shape.iter().product::<u64>() * u64::from(*bits) / 8);
        }
    }
    bytes.sort_unstable();
    bytes
}

/// Returns whether a transpose with a result of these extents changes the order of elements.
fn moves(node: &NodeProto, result: &[u64]) -> bool {
    let perm = node.attribute.iter().find(|attr| attr.name == "perm");
    let perm = perm.unwrap().ints.iter().zip(result);
    let long: Vec<i64> = perm.filter(|(_, n)| **n != 1).map(|(&p, _)| p).collect();
    !long.is_sorted()
}

#[track_caller]
fn check(input: &Path, name: &str) {
    for target in ["onnx", "onnxruntime"] {
        let (left, model) = written(input, target, name);
        assert_eq!(left, rearranged(&model), "{name} for {target}");
    }
}

#[test]
fn of_models() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("models");
    let mut count = 0;
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.extension().is_some_and(|e| e == "onnx") {
            let name = path.file_stem().unwrap().to_string_lossy().into_owned();
            check(&path, &name);
            count += 1;
        }
    }
    assert!(10 < count, "{count} models");
}

/// The extents of an operand before a transpose, and the transpose.
type Operand<'a> = (&'a [u64], &'a [usize]);

/// Products of transposed operands: what an operator of the target reads by itself is in no list.
#[test]
fn of_products() {
    // The extents of both operands before a transpose, and the transposes; `k` is summed.
    let cases: [(&str, Operand<'_>, Operand<'_>); 9] = [
        (
            "right",
            (&[2, 3, 8, 40], &[0, 1, 2, 3]),
            (&[2, 3, 9, 40], &[0, 1, 3, 2]),
        ),
        (
            "left",
            (&[2, 3, 40, 8], &[0, 1, 3, 2]),
            (&[2, 3, 40, 9], &[0, 1, 2, 3]),
        ),
        (
            "both",
            (&[2, 3, 40, 8], &[0, 1, 3, 2]),
            (&[2, 3, 9, 40], &[0, 1, 3, 2]),
        ),
        (
            "heads",
            (&[1, 7, 3, 40], &[0, 2, 1, 3]),
            (&[1, 9, 3, 40], &[0, 2, 3, 1]),
        ),
        (
            "batches",
            (&[2, 7, 3, 40], &[0, 2, 1, 3]),
            (&[2, 9, 3, 40], &[0, 2, 3, 1]),
        ),
        ("matrices", (&[40, 8], &[1, 0]), (&[9, 40], &[1, 0])),
        (
            "weights",
            (&[2, 3, 8, 40], &[0, 1, 2, 3]),
            (&[9, 40], &[1, 0]),
        ),
        (
            "turned",
            (&[2, 3, 40, 8], &[0, 1, 3, 2]),
            (&[9, 40], &[1, 0]),
        ),
        (
            "inside",
            (&[5, 2, 40], &[1, 0, 2]),
            (&[40, 2, 9], &[1, 0, 2]),
        ),
    ];
    let types = ["f32", "f16", "f64", "si32"];
    for (case, left, right) in cases {
        for ty in types {
            let name = format!("{case}-{ty}");
            let text = product(left, right, ty);
            let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("left-{name}.ir"));
            std::fs::write(&path, text).unwrap();
            check(&path, &name);
        }
    }
}

/// A program that multiplies two transposed arguments.
fn product((left, p): Operand<'_>, (right, q): Operand<'_>, ty: &str) -> String {
    let turned =
        |shape: &[u64], perm: &[usize]| -> Vec<u64> { perm.iter().map(|&p| shape[p]).collect() };
    let (a, b) = (turned(left, p), turned(right, q));
    let mut to = a.clone();
    let last = to.len() - 1;
    to[last] = b[b.len() - 1];
    let show = |shape: &[u64]| {
        let dims: Vec<String> = shape.iter().map(u64::to_string).collect();
        format!("tensor<{}x{ty}>", dims.join("x"))
    };
    let [x, y, a, b, to] = [left, right, &a, &b, &to].map(show);
    format!(
        "func.func @main(%x: {x}, %y: {y}) -> {to} {{\n  \
         %0 = \"hbir.transpose\"(%x) <{{perm = {p:?}}}> : ({x}) -> {a}\n  \
         %1 = \"hbir.transpose\"(%y) <{{perm = {q:?}}}> : ({y}) -> {b}\n  \
         %2 = \"hbir.matmul\"(%0, %1) : ({a}, {b}) -> {to}\n  \
         return %2 : {to}\n}}\n"
    )
}
