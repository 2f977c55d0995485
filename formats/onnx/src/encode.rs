//! Encodes a model without holding its weights twice.

use crate::ModelProto;
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint, key_len};

/// The number of the field of a model that holds the graph.
const GRAPH: u32 = 7;

/// The number of the field of a graph that holds the weights.
const INITIALIZER: u32 = 5;

impl ModelProto {
    /// The bytes of the file. Weights are last in the graph, and each is freed after it is written.
    #[must_use]
    pub fn into_bytes(mut self) -> Vec<u8> {
        let Some(mut graph) = self.graph.take() else {
            return self.encode_to_vec();
        };
        let weights = std::mem::take(&mut graph.initializer);
        let held = weights
            .iter()
            .map(|weight| field(INITIALIZER, weight.len()));
        let length = graph.encoded_len() + held.sum::<usize>();
        let mut bytes = Vec::with_capacity(self.encoded_len() + field(GRAPH, length));
        start(&mut bytes, GRAPH, length);
        bytes.extend(graph.encode_to_vec());
        for weight in weights {
            start(&mut bytes, INITIALIZER, weight.len());
            bytes.extend_from_slice(&weight);
        }
        bytes.extend(self.encode_to_vec());
        bytes
    }
}

/// The length of a field of `length` bytes, with its key.
fn field(tag: u32, length: usize) -> usize {
    key_len(tag) + prost::length_delimiter_len(length) + length
}

fn start(bytes: &mut Vec<u8>, tag: u32, length: usize) {
    encode_key(tag, WireType::LengthDelimited, bytes);
    encode_varint(length as u64, bytes);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{GraphProto, NodeProto, OperatorSetIdProto};
    use prost::bytes::Bytes;

    #[test]
    fn it_reads_back() {
        let graph = GraphProto {
            name: Some("g".to_owned()),
            node: vec![NodeProto::default()],
            initializer: vec![Bytes::from(vec![1; 300]), Bytes::new()],
            ..GraphProto::default()
        };
        let model = ModelProto {
            ir_version: Some(10),
            graph: Some(graph),
            opset_import: vec![OperatorSetIdProto::default()],
            ..ModelProto::default()
        };
        let bytes = model.clone().into_bytes();
        assert_eq!(bytes.len(), model.encoded_len());
        assert_eq!(ModelProto::decode(&bytes[..]).as_ref(), Ok(&model));
        let empty = ModelProto::default();
        assert_eq!(empty.clone().into_bytes(), empty.encode_to_vec());
    }
}
