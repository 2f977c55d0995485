//! Elements as ONNX tensors.

use optc_ir::{DType, Dim, TensorType};
use optc_onnx_proto::prost::bytes::Bytes;
use optc_onnx_proto::{
    DimensionProto, EXTERNAL, StringStringEntryProto, TensorProto, TensorShapeProto,
    TensorTypeProto, TypeProto, ValueInfoProto, code, per_byte,
};

/// A tensor of these elements, row-major and little-endian; those below 8 bits take a byte each. `None` if ONNX has no
/// such element type.
pub(super) fn tensor_proto(
    name: &str,
    dims: &[u64],
    dtype: DType,
    bytes: &[u8],
) -> Option<TensorProto> {
    let raw = match per_byte(dtype) {
        None => Bytes::copy_from_slice(bytes),
        Some(n) => packed(bytes, n).into(),
    };
    Some(TensorProto {
        raw_data: Some(raw),
        ..described(name, dims, dtype)?
    })
}

/// A tensor whose elements are in another file.
pub(super) fn external(
    name: &str,
    dims: &[u64],
    dtype: DType,
    (file, offset, length): (&str, u64, u64),
) -> Option<TensorProto> {
    let entry = |key: &str, value: String| StringStringEntryProto {
        key: key.to_owned(),
        value,
    };
    Some(TensorProto {
        external_data: vec![
            entry("location", file.to_owned()),
            entry("offset", offset.to_string()),
            entry("length", length.to_string()),
        ],
        data_location: EXTERNAL,
        ..described(name, dims, dtype)?
    })
}

fn described(name: &str, dims: &[u64], dtype: DType) -> Option<TensorProto> {
    let dims = dims.iter().map(|&d| i64::try_from(d).ok());
    Some(TensorProto {
        dims: dims.collect::<Option<_>>()?,
        data_type: code(dtype)?,
        name: name.to_owned(),
        ..TensorProto::default()
    })
}

/// Packs `per_byte` elements into each byte, the first one in the low bits.
fn packed(bytes: &[u8], per_byte: usize) -> Vec<u8> {
    let bits = 8 / per_byte;
    let mask = (1u16 << bits) - 1;
    let pack = |chunk: &[u8]| {
        let each = chunk.iter().enumerate();
        let sum = each.fold(0u16, |sum, (i, &b)| {
            sum | ((u16::from(b) & mask) << (i * bits))
        });
        sum.to_le_bytes()[0]
    };
    bytes.chunks(per_byte).map(pack).collect()
}

/// The type of an input or result; `None` if ONNX has no such element type.
pub(super) fn value_info(name: &str, ty: &TensorType) -> Option<ValueInfoProto> {
    let dim = |dim: &Dim| match dim {
        Dim::Fixed(n) => DimensionProto {
            dim_value: i64::try_from(*n).ok(),
            dim_param: None,
        },
        Dim::Symbol(text) => DimensionProto {
            dim_value: None,
            dim_param: Some(text.to_string()),
        },
        Dim::Unknown => DimensionProto::default(),
    };
    let tensor = TensorTypeProto {
        elem_type: code(ty.dtype)?,
        shape: Some(TensorShapeProto {
            dim: ty.dims.iter().map(dim).collect(),
        }),
    };
    Some(ValueInfoProto {
        name: name.to_owned(),
        ty: Some(TypeProto {
            tensor_type: Some(tensor),
            ..TypeProto::default()
        }),
    })
}

/// The elements of a tensor with permuted dimensions; each has `width` bytes.
pub(super) fn transposed(bytes: &[u8], dims: &[u64], perm: &[usize], width: usize) -> Vec<u8> {
    let sizes: Vec<usize> = dims
        .iter()
        .map(|&d| usize::try_from(d).unwrap_or(0))
        .collect();
    let mut strides = vec![width; sizes.len()];
    for d in (1..sizes.len()).rev() {
        strides[d - 1] = strides[d] * sizes[d];
    }
    // Innermost dimensions that keep their position are one run of bytes.
    let mut run = width;
    let mut outer = perm.len();
    while 0 < outer && perm[outer - 1] == outer - 1 {
        outer -= 1;
        run *= sizes[outer];
    }
    let mut out = Vec::with_capacity(bytes.len());
    let total: usize = perm[..outer].iter().map(|&p| sizes[p]).product();
    let mut index = vec![0usize; outer];
    for _ in 0..total {
        let at: usize = index.iter().zip(perm).map(|(i, &p)| i * strides[p]).sum();
        out.extend_from_slice(bytes.get(at..at + run).unwrap_or_default());
        for (d, i) in index.iter_mut().enumerate().rev() {
            *i += 1;
            if *i < sizes[perm[d]] {
                break;
            }
            *i = 0;
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn elements_are_packed_from_the_low_bits_up() {
        assert_eq!(packed(&[1, 0xff, 3], 2), [0xf1, 3]);
        assert_eq!(packed(&[1, 2, 3, 0], 4), [0b0011_1001]);
    }

    #[test]
    fn transposes_move_runs() {
        let bytes: Vec<u8> = (0..12).collect();
        let rows = transposed(&bytes, &[2, 3, 2], &[1, 0, 2], 1);
        assert_eq!(rows, [0, 1, 6, 7, 2, 3, 8, 9, 4, 5, 10, 11]);
        assert_eq!(
            transposed(&bytes, &[3, 2], &[1, 0], 2),
            [0, 1, 4, 5, 8, 9, 2, 3, 6, 7, 10, 11]
        );
        assert_eq!(transposed(&bytes, &[12], &[0], 1), bytes);
    }
}
