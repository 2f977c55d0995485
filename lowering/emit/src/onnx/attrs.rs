//! Attributes of nodes.

use super::dense::tensor_proto;
use optc_ir::Tensor;
use optc_onnx_proto::prost::Message;
use optc_onnx_proto::prost::bytes::Bytes;
use optc_onnx_proto::{AttributeProto, kind};

fn named(name: &str, kind: i32) -> AttributeProto {
    AttributeProto {
        name: name.to_owned(),
        kind,
        ..AttributeProto::default()
    }
}

pub(super) fn int(name: &str, n: impl Into<i64>) -> AttributeProto {
    AttributeProto {
        i: Some(n.into()),
        ..named(name, kind::INT)
    }
}

pub(super) fn graph(name: &str, graph: Bytes) -> AttributeProto {
    AttributeProto {
        g: Some(graph),
        ..named(name, kind::GRAPH)
    }
}

pub(super) fn ints(name: &str, list: &[i64]) -> AttributeProto {
    AttributeProto {
        ints: list.to_vec(),
        ..named(name, kind::INTS)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "attributes of ONNX are floats of 32 bits"
)]
pub(super) fn float(name: &str, x: f64) -> AttributeProto {
    AttributeProto {
        f: Some(x as f32),
        ..named(name, kind::FLOAT)
    }
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "attributes of ONNX are floats of 32 bits"
)]
pub(super) fn floats(name: &str, list: &[f64]) -> AttributeProto {
    AttributeProto {
        floats: list.iter().map(|&x| x as f32).collect(),
        ..named(name, kind::FLOATS)
    }
}

pub(super) fn text(name: &str, text: &str) -> AttributeProto {
    AttributeProto {
        s: Some(Bytes::copy_from_slice(text.as_bytes())),
        ..named(name, kind::STRING)
    }
}

pub(super) fn texts(name: &str, list: &[&str]) -> AttributeProto {
    let bytes = list.iter().map(|t| Bytes::copy_from_slice(t.as_bytes()));
    AttributeProto {
        strings: bytes.collect(),
        ..named(name, kind::STRINGS)
    }
}

pub(super) fn tensor(name: &str, tensor: &Tensor) -> Option<AttributeProto> {
    let dims = tensor.shape.iter().map(|&d| d as u64);
    let proto = tensor_proto(
        "",
        &dims.collect::<Vec<_>>(),
        tensor.dtype,
        &tensor.to_bytes(),
    )?;
    Some(AttributeProto {
        t: Some(proto.encode_to_vec().into()),
        ..named(name, kind::TENSOR)
    })
}
