//! Operators that stay whole with their graphs.

use crate::onnx_out::{compared, written};
use optc::{Compiler, Format};
use optc_onnx_proto::prost::Message as _;
use optc_onnx_proto::{
    AttributeProto, DimensionProto, GraphProto, ModelProto, NodeProto, OperatorSetIdProto,
    TensorProto, TensorShapeProto, TensorTypeProto, TypeProto, ValueInfoProto, kind,
};
use std::path::Path;

/// A value of this type; its shape is open without extents.
fn value(name: &str, elem_type: i32, dims: Option<&[i64]>) -> ValueInfoProto {
    let dim = |&n: &i64| DimensionProto {
        dim_value: Some(n),
        ..DimensionProto::default()
    };
    let shape = dims.map(|dims| TensorShapeProto {
        dim: dims.iter().map(dim).collect(),
    });
    ValueInfoProto {
        name: name.to_owned(),
        ty: Some(TypeProto {
            tensor_type: Some(TensorTypeProto { elem_type, shape }),
            ..TypeProto::default()
        }),
    }
}

fn node(op_type: &str, input: &[&str], output: &str) -> NodeProto {
    NodeProto {
        op_type: op_type.to_owned(),
        input: input.iter().map(|&name| name.to_owned()).collect(),
        output: vec![output.to_owned()],
        ..NodeProto::default()
    }
}

/// A loop that stays an operator, as each round adds a dimension. It adds the outer value `o`, and its own value `t` has
/// the name of another outer one.
fn kept_loop() -> Vec<u8> {
    let ints = |name: &str, list: &[i64]| AttributeProto {
        name: name.to_owned(),
        kind: kind::INTS,
        ints: list.to_vec(),
        ..AttributeProto::default()
    };
    let axes = TensorProto {
        name: "axes".to_owned(),
        dims: vec![1],
        data_type: 7,
        int64_data: vec![0],
        ..TensorProto::default()
    };
    let [counter, running] = [("i", 7), ("c", 9)].map(|(name, ty)| value(name, ty, Some(&[])));
    let body = GraphProto {
        name: Some("body".to_owned()),
        input: vec![counter, running, value("x", 1, None)],
        initializer: vec![axes.encode_to_vec().into()],
        node: vec![
            node("Identity", &["c"], "c2"),
            node("Unsqueeze", &["x", "axes"], "t"),
            node("Add", &["t", "o"], "y"),
        ],
        output: vec![value("c2", 9, Some(&[])), value("y", 1, None)],
        ..GraphProto::default()
    };
    let mut rounds = node("Loop", &["n", "k", "a"], "z");
    rounds.attribute.push(AttributeProto {
        name: "body".to_owned(),
        kind: kind::GRAPH,
        g: Some(body.encode_to_vec().into()),
        ..AttributeProto::default()
    });
    let mut turned = node("Transpose", &["b"], "t");
    turned.attribute.push(ints("perm", &[1, 0]));
    let graph = GraphProto {
        name: Some("main".to_owned()),
        input: vec![
            value("a", 1, Some(&[2, 3])),
            value("b", 1, Some(&[2, 3])),
            value("n", 7, Some(&[])),
            value("k", 9, Some(&[])),
        ],
        node: vec![node("Relu", &["a"], "o"), rounds, turned],
        output: vec![value("z", 1, None), value("t", 1, Some(&[3, 2]))],
        ..GraphProto::default()
    };
    let model = ModelProto {
        ir_version: Some(8),
        graph: Some(graph),
        opset_import: vec![OperatorSetIdProto {
            version: Some(17),
            ..OperatorSetIdProto::default()
        }],
        ..ModelProto::default()
    };
    model.encode_to_vec()
}

/// The writer names an inner value anew if its name is that of an outer one; the loop computes the same.
#[test]
fn a_kept_loop_is_the_same_under_other_names() {
    let compiler = Compiler::new();
    let path = Path::new(env!("CARGO_TARGET_TMPDIR")).join("kept_loop.onnx");
    std::fs::write(&path, kept_loop()).unwrap();
    let original = compiler.load(&path, None).unwrap();
    let (bytes, again) = written(&compiler, &original, false);
    let count = |bytes: &[u8], text: &str| {
        let all = bytes.windows(text.len());
        all.filter(|found| *found == text.as_bytes()).count()
    };
    assert_eq!(
        (count(&bytes, "Loop"), count(&bytes, "\u{a}\u{1}t")),
        (1, 1)
    );
    compared(&compiler, &original, bytes.clone(), &again).unwrap();
    // Another operator inside is another loop.
    let at = bytes.windows(3).position(|found| found == b"Add").unwrap();
    let mut other = bytes;
    other[at..at + 3].copy_from_slice(b"Sub");
    let read = compiler.read("written.onnx", &other, Some(Format::Onnx), false);
    let again = read.into_iter().next().unwrap().unwrap();
    assert!(compared(&compiler, &original, other, &again).is_err());
}
