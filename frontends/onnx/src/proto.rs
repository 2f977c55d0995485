//! The protobuf messages of `onnx.proto`, written by hand for the fields that import needs.
//!
//! Tensors and subgraphs stay undecoded bytes: they share the model's buffer, so their place in the
//! file is known, and nesting costs no recursion.

use prost::Message;
use prost::bytes::Bytes;

/// `ModelProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ModelProto {
    #[prost(int64, optional, tag = "1")]
    pub(crate) ir_version: Option<i64>,
    #[prost(message, optional, tag = "7")]
    pub(crate) graph: Option<GraphProto>,
    #[prost(message, repeated, tag = "8")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
    #[prost(message, repeated, tag = "25")]
    pub(crate) functions: Vec<FunctionProto>,
}

/// `OperatorSetIdProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct OperatorSetIdProto {
    #[prost(string, optional, tag = "1")]
    pub(crate) domain: Option<String>,
    #[prost(int64, optional, tag = "2")]
    pub(crate) version: Option<i64>,
}

/// `GraphProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct GraphProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(string, optional, tag = "2")]
    pub(crate) name: Option<String>,
    /// Each a [`TensorProto`].
    #[prost(bytes = "bytes", repeated, tag = "5")]
    pub(crate) initializer: Vec<Bytes>,
    #[prost(message, repeated, tag = "11")]
    pub(crate) input: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "12")]
    pub(crate) output: Vec<ValueInfoProto>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) value_info: Vec<ValueInfoProto>,
    /// Each a [`SparseTensorProto`].
    #[prost(bytes = "bytes", repeated, tag = "15")]
    pub(crate) sparse_initializer: Vec<Bytes>,
}

/// `NodeProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct NodeProto {
    #[prost(string, repeated, tag = "1")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "2")]
    pub(crate) output: Vec<String>,
    #[prost(string, tag = "3")]
    pub(crate) name: String,
    #[prost(string, tag = "4")]
    pub(crate) op_type: String,
    #[prost(message, repeated, tag = "5")]
    pub(crate) attribute: Vec<AttributeProto>,
    #[prost(string, tag = "7")]
    pub(crate) domain: String,
    #[prost(string, tag = "8")]
    pub(crate) overload: String,
}

/// `AttributeProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct AttributeProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(float, optional, tag = "2")]
    pub(crate) f: Option<f32>,
    #[prost(int64, optional, tag = "3")]
    pub(crate) i: Option<i64>,
    #[prost(bytes = "bytes", optional, tag = "4")]
    pub(crate) s: Option<Bytes>,
    /// A [`TensorProto`].
    #[prost(bytes = "bytes", optional, tag = "5")]
    pub(crate) t: Option<Bytes>,
    /// A [`GraphProto`].
    #[prost(bytes = "bytes", optional, tag = "6")]
    pub(crate) g: Option<Bytes>,
    #[prost(float, repeated, tag = "7")]
    pub(crate) floats: Vec<f32>,
    #[prost(int64, repeated, tag = "8")]
    pub(crate) ints: Vec<i64>,
    #[prost(bytes = "bytes", repeated, tag = "9")]
    pub(crate) strings: Vec<Bytes>,
    /// Each a [`TensorProto`].
    #[prost(bytes = "bytes", repeated, tag = "10")]
    pub(crate) tensors: Vec<Bytes>,
    /// Each a [`GraphProto`].
    #[prost(bytes = "bytes", repeated, tag = "11")]
    pub(crate) graphs: Vec<Bytes>,
    /// The `AttributeType`; old files leave it out.
    #[prost(int32, tag = "20")]
    pub(crate) kind: i32,
    #[prost(string, tag = "21")]
    pub(crate) ref_attr_name: String,
    /// A [`SparseTensorProto`].
    #[prost(bytes = "bytes", optional, tag = "22")]
    pub(crate) sparse_tensor: Option<Bytes>,
}

/// `TensorProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorProto {
    #[prost(int64, repeated, tag = "1")]
    pub(crate) dims: Vec<i64>,
    #[prost(int32, tag = "2")]
    pub(crate) data_type: i32,
    #[prost(float, repeated, tag = "4")]
    pub(crate) float_data: Vec<f32>,
    #[prost(int32, repeated, tag = "5")]
    pub(crate) int32_data: Vec<i32>,
    #[prost(int64, repeated, tag = "7")]
    pub(crate) int64_data: Vec<i64>,
    #[prost(string, tag = "8")]
    pub(crate) name: String,
    #[prost(bytes = "bytes", optional, tag = "9")]
    pub(crate) raw_data: Option<Bytes>,
    #[prost(double, repeated, tag = "10")]
    pub(crate) double_data: Vec<f64>,
    #[prost(uint64, repeated, tag = "11")]
    pub(crate) uint64_data: Vec<u64>,
    #[prost(message, repeated, tag = "13")]
    pub(crate) external_data: Vec<StringStringEntryProto>,
    #[prost(int32, tag = "14")]
    pub(crate) data_location: i32,
}

/// `SparseTensorProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct SparseTensorProto {
    /// A [`TensorProto`].
    #[prost(bytes = "bytes", optional, tag = "1")]
    pub(crate) values: Option<Bytes>,
    /// A [`TensorProto`].
    #[prost(bytes = "bytes", optional, tag = "2")]
    pub(crate) indices: Option<Bytes>,
    #[prost(int64, repeated, tag = "3")]
    pub(crate) dims: Vec<i64>,
}

/// `StringStringEntryProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct StringStringEntryProto {
    #[prost(string, tag = "1")]
    pub(crate) key: String,
    #[prost(string, tag = "2")]
    pub(crate) value: String,
}

/// `ValueInfoProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct ValueInfoProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(message, optional, tag = "2")]
    pub(crate) ty: Option<TypeProto>,
}

/// `TypeProto`; sequences, maps and optionals are told apart from tensors only by their absence.
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TypeProto {
    #[prost(message, optional, tag = "1")]
    pub(crate) tensor_type: Option<TensorTypeProto>,
}

/// `TypeProto.Tensor`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorTypeProto {
    #[prost(int32, tag = "1")]
    pub(crate) elem_type: i32,
    #[prost(message, optional, tag = "2")]
    pub(crate) shape: Option<TensorShapeProto>,
}

/// `TensorShapeProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct TensorShapeProto {
    #[prost(message, repeated, tag = "1")]
    pub(crate) dim: Vec<DimensionProto>,
}

/// `TensorShapeProto.Dimension`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct DimensionProto {
    #[prost(int64, optional, tag = "1")]
    pub(crate) dim_value: Option<i64>,
    #[prost(string, optional, tag = "2")]
    pub(crate) dim_param: Option<String>,
}

/// `FunctionProto`
#[derive(Clone, PartialEq, Message)]
pub(crate) struct FunctionProto {
    #[prost(string, tag = "1")]
    pub(crate) name: String,
    #[prost(string, repeated, tag = "4")]
    pub(crate) input: Vec<String>,
    #[prost(string, repeated, tag = "5")]
    pub(crate) output: Vec<String>,
    #[prost(message, repeated, tag = "7")]
    pub(crate) node: Vec<NodeProto>,
    #[prost(message, repeated, tag = "9")]
    pub(crate) opset_import: Vec<OperatorSetIdProto>,
    #[prost(string, tag = "10")]
    pub(crate) domain: String,
    #[prost(message, repeated, tag = "11")]
    pub(crate) attribute_proto: Vec<AttributeProto>,
    #[prost(string, tag = "13")]
    pub(crate) overload: String,
}

/// `AttributeProto.AttributeType`
pub(crate) mod kind {
    pub(crate) const FLOAT: i32 = 1;
    pub(crate) const INT: i32 = 2;
    pub(crate) const STRING: i32 = 3;
    pub(crate) const TENSOR: i32 = 4;
    pub(crate) const GRAPH: i32 = 5;
    pub(crate) const FLOATS: i32 = 6;
    pub(crate) const INTS: i32 = 7;
    pub(crate) const STRINGS: i32 = 8;
    pub(crate) const TENSORS: i32 = 9;
    pub(crate) const GRAPHS: i32 = 10;
    pub(crate) const SPARSE_TENSOR: i32 = 11;
}

/// `TensorProto.DataLocation.EXTERNAL`
pub(crate) const EXTERNAL: i32 = 1;

impl AttributeProto {
    /// The type, guessed from the field that is set where an old file leaves it out.
    pub(crate) fn kind(&self) -> i32 {
        let guesses = [
            (self.f.is_some(), kind::FLOAT),
            (self.i.is_some(), kind::INT),
            (self.s.is_some(), kind::STRING),
            (self.t.is_some(), kind::TENSOR),
            (self.g.is_some(), kind::GRAPH),
            (!self.floats.is_empty(), kind::FLOATS),
            (!self.ints.is_empty(), kind::INTS),
            (!self.strings.is_empty(), kind::STRINGS),
            (!self.tensors.is_empty(), kind::TENSORS),
            (!self.graphs.is_empty(), kind::GRAPHS),
            (self.sparse_tensor.is_some(), kind::SPARSE_TENSOR),
        ];
        if self.kind != 0 {
            return self.kind;
        }
        guesses
            .iter()
            .find(|(set, _)| *set)
            .map_or(0, |(_, kind)| *kind)
    }
}
