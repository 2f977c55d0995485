//! Logical tensors: what the reference semantics compute on.

use crate::types::{DType, Sign};
use half::{bf16, f16};
use thiserror::Error;

/// Row-major elements. `f32`, `f16` and `bf16` are held as `f32` that are exactly representable in
/// the element type; integers and bool as `i64` in the element type's range (`ui64` wraps: its bits).
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// f32, f16, bf16.
    F32(Vec<f32>),
    /// f64.
    F64(Vec<f64>),
    /// All integers and bool.
    I64(Vec<i64>),
}

/// A logical tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The element type.
    pub dtype: DType,
    /// The extents, outermost first.
    pub shape: Vec<usize>,
    /// The elements, row-major; as many as the product of `shape`.
    pub data: Data,
}

/// Why an operation cannot be evaluated on these operands.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{0}")]
pub struct EvalError(pub String);

impl EvalError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        EvalError(message.into())
    }
}

/// Wraps an integer into the range of `dtype`.
#[must_use]
pub fn wrap_int(x: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Int { bits: 64, .. } => x,
        DType::Int { bits: 1, sign: Sign::Signless } => i64::from(x != 0),
        DType::Int { bits, sign: Sign::Unsigned } => x & ((1i64 << bits) - 1),
        DType::Int { bits, .. } => {
            let shift = 64 - u32::from(bits);
            (x << shift) >> shift
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => x,
    }
}

/// Rounds to the nearest value of a 16- or 32-bit float type, ties to even.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
pub fn round_float(x: f64, dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16::from_f64(x).to_f32(),
        DType::BF16 => bf16::from_f64(x).to_f32(),
        _ => x as f32,
    }
}

impl Tensor {
    /// A tensor of floats, rounded to `dtype`, or converted with wrap-around when `dtype` is an
    /// integer.
    ///
    /// # Panics
    /// The number of elements is not the product of `shape`.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "conversion to an integer type saturates")]
    pub fn from_f64(dtype: DType, shape: Vec<usize>, values: impl IntoIterator<Item = f64>) -> Tensor {
        let values = values.into_iter();
        let data = match dtype {
            DType::F64 => Data::F64(values.collect()),
            DType::F32 | DType::F16 | DType::BF16 => {
                Data::F32(values.map(|x| round_float(x, dtype)).collect())
            }
            DType::Int { .. } => Data::I64(values.map(|x| wrap_int(x as i64, dtype)).collect()),
        };
        let tensor = Tensor { dtype, shape, data };
        assert_eq!(tensor.data_len(), tensor.len(), "as many elements as the shape has");
        tensor
    }

    /// A tensor of integers, wrapped into the range of `dtype` (converted when it is a float).
    ///
    /// # Panics
    /// The number of elements is not the product of `shape`.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "conversion to a float type rounds")]
    pub fn from_i64(dtype: DType, shape: Vec<usize>, values: impl IntoIterator<Item = i64>) -> Tensor {
        let values = values.into_iter();
        let data = match dtype {
            DType::F64 => Data::F64(values.map(|x| x as f64).collect()),
            DType::F32 | DType::F16 | DType::BF16 => {
                Data::F32(values.map(|x| round_float(x as f64, dtype)).collect())
            }
            DType::Int { .. } => Data::I64(values.map(|x| wrap_int(x, dtype)).collect()),
        };
        let tensor = Tensor { dtype, shape, data };
        assert_eq!(tensor.data_len(), tensor.len(), "as many elements as the shape has");
        tensor
    }

    /// The number of elements by the shape.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Whether there is no element.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn data_len(&self) -> usize {
        match &self.data {
            Data::F32(v) => v.len(),
            Data::F64(v) => v.len(),
            Data::I64(v) => v.len(),
        }
    }

    /// Element `i` in row-major order, as a float.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "integers beyond 2^53 round")]
    pub fn f64_at(&self, i: usize) -> f64 {
        match &self.data {
            Data::F32(v) => f64::from(v[i]),
            Data::F64(v) => v[i],
            Data::I64(v) => v[i] as f64,
        }
    }

    /// Element `i` in row-major order, as an integer (floats truncate).
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "floats truncate")]
    pub fn i64_at(&self, i: usize) -> i64 {
        match &self.data {
            Data::F32(v) => v[i] as i64,
            Data::F64(v) => v[i] as i64,
            Data::I64(v) => v[i],
        }
    }

    /// Row-major strides in elements.
    #[must_use]
    pub fn strides(&self) -> Vec<usize> {
        row_major_strides(&self.shape)
    }

    /// A tensor of `shape` whose element `i` (row-major) is element `index(i)` of `self`.
    #[must_use]
    pub fn gather(&self, shape: Vec<usize>, mut index: impl FnMut(usize) -> usize) -> Tensor {
        let n: usize = shape.iter().product();
        let data = match &self.data {
            Data::F32(v) => Data::F32((0..n).map(|i| v[index(i)]).collect()),
            Data::F64(v) => Data::F64((0..n).map(|i| v[index(i)]).collect()),
            Data::I64(v) => Data::I64((0..n).map(|i| v[index(i)]).collect()),
        };
        Tensor { dtype: self.dtype, shape, data }
    }

    /// The same elements in another shape of the same size.
    ///
    /// # Panics
    /// The sizes differ.
    #[must_use]
    pub fn reshaped(&self, shape: Vec<usize>) -> Tensor {
        let out = Tensor { dtype: self.dtype, shape, data: self.data.clone() };
        assert_eq!(out.len(), self.len(), "a reshape keeps the number of elements");
        out
    }

    /// Axis `i` of the result is axis `perm[i]` of `self`.
    ///
    /// # Panics
    /// `perm` is no permutation of the axes.
    #[must_use]
    pub fn transposed(&self, perm: &[usize]) -> Tensor {
        let strides = self.strides();
        let shape: Vec<usize> = perm.iter().map(|&p| self.shape[p]).collect();
        let steps: Vec<usize> = perm.iter().map(|&p| strides[p]).collect();
        let mut index = vec![0usize; shape.len()];
        let mut at = 0usize;
        let mut first = true;
        self.gather(shape.clone(), |_| {
            if first {
                first = false;
                return at;
            }
            for d in (0..shape.len()).rev() {
                index[d] += 1;
                at += steps[d];
                if index[d] < shape[d] {
                    break;
                }
                at -= steps[d] * shape[d];
                index[d] = 0;
            }
            at
        })
    }

    /// Reads little-endian row-major bytes as they lie in a file; sub-byte integers take a byte.
    ///
    /// # Errors
    /// The number of bytes is not what the shape needs.
    pub fn from_bytes(dtype: DType, shape: Vec<usize>, bytes: &[u8]) -> Result<Tensor, EvalError> {
        let n: usize = shape.iter().product();
        let width = storage_bytes(dtype);
        if bytes.len() != n * width {
            let found = bytes.len();
            return Err(EvalError::new(format!("found {found} bytes, wanted {}", n * width)));
        }
        let chunks = bytes.chunks_exact(width);
        let data = match dtype {
            DType::F64 => Data::F64(chunks.map(|c| f64::from_bits(le(c))).collect()),
            DType::F32 => {
                Data::F32(chunks.map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]])).collect())
            }
            DType::F16 => Data::F32(chunks.map(|c| f16::from_le_bytes([c[0], c[1]]).to_f32()).collect()),
            DType::BF16 => {
                Data::F32(chunks.map(|c| bf16::from_le_bytes([c[0], c[1]]).to_f32()).collect())
            }
            DType::Int { .. } => {
                Data::I64(chunks.map(|c| wrap_int(le(c).cast_signed(), dtype)).collect())
            }
        };
        Ok(Tensor { dtype, shape, data })
    }

    /// Little-endian row-major bytes; sub-byte integers take a byte.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match (&self.data, self.dtype) {
            (Data::F64(v), _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            (Data::F32(v), DType::F16) => {
                v.iter().flat_map(|&x| f16::from_f32(x).to_le_bytes()).collect()
            }
            (Data::F32(v), DType::BF16) => {
                v.iter().flat_map(|&x| bf16::from_f32(x).to_le_bytes()).collect()
            }
            (Data::F32(v), _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            (Data::I64(v), dtype) => {
                let width = storage_bytes(dtype);
                v.iter().flat_map(|x| x.to_le_bytes().into_iter().take(width)).collect()
            }
        }
    }
}

/// Bytes one element takes in a file or an `.npz`; sub-byte integers take one.
#[must_use]
pub fn storage_bytes(dtype: DType) -> usize {
    (dtype.bits() as usize).div_ceil(8)
}

fn le(chunk: &[u8]) -> u64 {
    chunk.iter().rev().fold(0u64, |a, &b| (a << 8) | u64::from(b))
}

/// Row-major strides in elements.
#[must_use]
pub fn row_major_strides(shape: &[usize]) -> Vec<usize> {
    let mut strides = vec![1; shape.len()];
    for i in (0..shape.len().saturating_sub(1)).rev() {
        strides[i] = strides[i + 1] * shape[i + 1];
    }
    strides
}
