//! Logical tensors: the values of the reference semantics.
//!
//! Example: a `tensor<2x3xf16>` has the shape `[2, 3]` and six row-major elements, which are held as `f32` and are
//! exact in `f16`.

use crate::short_float::{bf16_bits, bf16_bits_of_single, bf16_number, f16_bits, f16_number};
use crate::types::{DType, Sign};
use std::ops::Range;
use thiserror::Error;

/// Row-major elements. `f32`, `f16` and `bf16` are held as `f32`, in values that are exactly representable in the
/// element type. Integers and bool are held as `i64` within the range of the element type; `ui64` is held as the `i64`
/// with the same bits. Types that no operation computes with are held as raw bits, so that they never change.
#[derive(Clone, Debug, PartialEq)]
pub enum Data {
    /// f32, f16, bf16.
    F32(Vec<f32>),
    /// f64.
    F64(Vec<f64>),
    /// All integers and bool.
    I64(Vec<i64>),
    /// Floats of at most 8 bits and complex numbers, as the bits of an element: the first byte in memory is the lowest.
    Bits(Vec<u128>),
}

impl Data {
    /// `n` times the first element.
    ///
    /// # Panics
    /// There is no element.
    #[must_use]
    pub fn repeated(&self, n: usize) -> Data {
        match self {
            Data::F32(v) => Data::F32(vec![v[0]; n]),
            Data::F64(v) => Data::F64(vec![v[0]; n]),
            Data::I64(v) => Data::I64(vec![v[0]; n]),
            Data::Bits(v) => Data::Bits(vec![v[0]; n]),
        }
    }

    /// An empty buffer of the same kind.
    #[must_use]
    pub fn emptied(&self) -> Data {
        match self {
            Data::F32(_) => Data::F32(Vec::new()),
            Data::F64(_) => Data::F64(Vec::new()),
            Data::I64(_) => Data::I64(Vec::new()),
            Data::Bits(_) => Data::Bits(Vec::new()),
        }
    }

    /// Appends a range of the elements of a buffer of the same kind.
    ///
    /// # Errors
    /// The buffers are of different kinds.
    ///
    /// # Panics
    /// The range is out of bounds.
    pub fn append(&mut self, others: &Data, run: Range<usize>) -> Result<(), EvalError> {
        match (self, others) {
            (Data::F32(out), Data::F32(v)) => out.extend_from_slice(&v[run]),
            (Data::F64(out), Data::F64(v)) => out.extend_from_slice(&v[run]),
            (Data::I64(out), Data::I64(v)) => out.extend_from_slice(&v[run]),
            (Data::Bits(out), Data::Bits(v)) => out.extend_from_slice(&v[run]),
            (Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bits(_), _) => {
                return Err(EvalError::new("the operands hold different kinds of data"));
            }
        }
        Ok(())
    }
}

/// A logical tensor.
#[derive(Clone, Debug, PartialEq)]
pub struct Tensor {
    /// The element type.
    pub dtype: DType,
    /// The extents, outermost first.
    pub shape: Vec<usize>,
    /// The elements, row-major; their number is the product of `shape`.
    pub data: Data,
}

/// The reason why an operation cannot be evaluated on these operands.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
#[error("{message}")]
pub struct EvalError {
    message: String,
    /// True if the program itself stops on these operands.
    stops: bool,
}

impl EvalError {
    /// An error with this message.
    pub fn new(message: impl Into<String>) -> Self {
        EvalError {
            message: message.into(),
            stops: false,
        }
    }

    /// The error of an assertion that does not hold: the program itself stops on these operands.
    pub fn stop(message: impl Into<String>) -> Self {
        EvalError {
            message: message.into(),
            stops: true,
        }
    }

    /// Returns whether the program itself stops on these operands, by an assertion.
    #[must_use]
    pub fn stops(&self) -> bool {
        self.stops
    }
}

/// Wraps an integer into the range of `dtype`.
#[must_use]
pub fn wrap_int(x: i64, dtype: DType) -> i64 {
    match dtype {
        DType::Int { bits: 64, .. } => x,
        DType::Int {
            bits: 1,
            sign: Sign::Signless,
        } => i64::from(x != 0),
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => x & ((1i64 << bits) - 1),
        DType::Int { bits, .. } => {
            let shift = 64 - u32::from(bits);
            (x << shift) >> shift
        }
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => x,
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => x,
    }
}

/// The least and the greatest number of an integer type.
#[must_use]
pub fn int_range(dtype: DType) -> (i128, i128) {
    match dtype {
        DType::Int {
            bits,
            sign: Sign::Unsigned,
        } => (0, (1i128 << bits) - 1),
        DType::Int {
            bits: 1,
            sign: Sign::Signless,
        } => (0, 1),
        DType::Int { bits, .. } => (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1),
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 => (i128::MIN, i128::MAX),
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => (i128::MIN, i128::MAX),
    }
}

/// A float as an integer of this type: truncated, saturated, NaN is 0.
#[expect(
    clippy::cast_possible_truncation,
    reason = "`as` truncates and saturates"
)]
#[must_use]
pub fn saturate(x: f64, dtype: DType) -> i128 {
    let (low, high) = int_range(dtype);
    (x as i128).clamp(low, high)
}

/// Rounds to the nearest value of a 16- or 32-bit float type, ties to even.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
pub fn round_float(x: f64, dtype: DType) -> f32 {
    match dtype {
        DType::F16 => f16_number(f16_bits(x)),
        DType::BF16 => bf16_number(bf16_bits(x)),
        DType::F64 | DType::F32 | DType::Int { .. } => x as f32,
        DType::Mini(_) | DType::Complex64 | DType::Complex128 => x as f32,
    }
}

/// Converts an integer to a double such that rounding the double to a narrower float gives the float nearest to the
/// integer. If the integer is between two doubles, the one whose last bit is 1 is taken (round to odd). It is never the
/// midpoint of two narrower floats.
#[expect(
    clippy::cast_precision_loss,
    clippy::cast_possible_truncation,
    reason = "what is lost is looked at"
)]
fn odd_double(x: i128) -> f64 {
    let near = x as f64;
    let back = near as i128;
    match near.to_bits() {
        bits if back == x || bits & 1 == 1 => near,
        bits if back.unsigned_abs() < x.unsigned_abs() => f64::from_bits(bits + 1),
        bits => f64::from_bits(bits - 1),
    }
}

/// The encoding of the number nearest to `x`; the imaginary part of a complex number is 0.
///
/// This is for the types of [`Data::Bits`]; any other type gives 0.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "rounding is the purpose")]
pub fn bits_of_float(x: f64, dtype: DType) -> u128 {
    match dtype {
        DType::Mini(float) => u128::from(float.encode(x)),
        DType::Complex64 => u128::from((x as f32).to_bits()),
        DType::Complex128 => u128::from(x.to_bits()),
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 | DType::Int { .. } => 0,
    }
}

/// The number that these bits of a small float encode; NaN for a complex number, which is no real number.
#[must_use]
#[expect(clippy::cast_possible_truncation, reason = "the bits of one byte")]
fn float_of_bits(bits: u128, dtype: DType) -> f64 {
    match dtype {
        DType::Mini(float) => float.decode(bits as u8),
        DType::Complex64 | DType::Complex128 => f64::NAN,
        DType::F64 | DType::F32 | DType::F16 | DType::BF16 | DType::Int { .. } => f64::NAN,
    }
}

impl Tensor {
    /// A tensor of floats, rounded to `dtype`. If `dtype` is an integer type, the floats are truncated and wrapped.
    ///
    /// # Panics
    /// The number of elements is not the product of `shape`.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        reason = "conversion to an integer type saturates"
    )]
    pub fn from_f64(
        dtype: DType,
        shape: Vec<usize>,
        values: impl IntoIterator<Item = f64>,
    ) -> Tensor {
        let values = values.into_iter();
        let data = match dtype {
            DType::F64 => Data::F64(values.collect()),
            DType::F32 | DType::F16 | DType::BF16 => {
                Data::F32(values.map(|x| round_float(x, dtype)).collect())
            }
            DType::Int {
                bits: 64,
                sign: Sign::Unsigned,
            } => Data::I64(values.map(|x| (x as u64).cast_signed()).collect()),
            DType::Int { .. } => Data::I64(values.map(|x| wrap_int(x as i64, dtype)).collect()),
            DType::Mini(_) | DType::Complex64 | DType::Complex128 => {
                Data::Bits(values.map(|x| bits_of_float(x, dtype)).collect())
            }
        };
        let tensor = Tensor { dtype, shape, data };
        assert_eq!(
            tensor.data_len(),
            tensor.len(),
            "as many elements as the shape has"
        );
        tensor
    }

    /// A tensor of integers, wrapped into the range of `dtype`, or converted if `dtype` is a float type.
    ///
    /// # Panics
    /// The number of elements is not the product of `shape`.
    #[must_use]
    #[expect(
        clippy::cast_precision_loss,
        reason = "conversion to a float type rounds"
    )]
    pub fn from_i64(
        dtype: DType,
        shape: Vec<usize>,
        values: impl IntoIterator<Item = i64>,
    ) -> Tensor {
        let values = values.into_iter();
        let data = match dtype {
            DType::F64 => Data::F64(values.map(|x| x as f64).collect()),
            DType::F32 | DType::F16 | DType::BF16 => {
                let rounded = |x| round_float(odd_double(i128::from(x)), dtype);
                Data::F32(values.map(rounded).collect())
            }
            DType::Int { .. } => Data::I64(values.map(|x| wrap_int(x, dtype)).collect()),
            DType::Mini(_) | DType::Complex64 | DType::Complex128 => {
                Data::Bits(values.map(|x| bits_of_float(x as f64, dtype)).collect())
            }
        };
        let tensor = Tensor { dtype, shape, data };
        assert_eq!(
            tensor.data_len(),
            tensor.len(),
            "as many elements as the shape has"
        );
        tensor
    }

    /// A tensor of elements held as bits; bits above the element's width are dropped.
    ///
    /// # Panics
    /// The number of elements is not the product of `shape`, or `dtype` is a type that operations compute with.
    #[must_use]
    pub fn from_bits(
        dtype: DType,
        shape: Vec<usize>,
        values: impl IntoIterator<Item = u128>,
    ) -> Tensor {
        assert!(!dtype.computes(), "a type that is only stored");
        let mask = u128::MAX >> (128 - dtype.bits());
        let data = Data::Bits(values.into_iter().map(|x| x & mask).collect());
        let tensor = Tensor { dtype, shape, data };
        assert_eq!(
            tensor.data_len(),
            tensor.len(),
            "as many elements as the shape has"
        );
        tensor
    }

    /// The number of elements by the shape.
    #[must_use]
    pub fn len(&self) -> usize {
        self.shape.iter().product()
    }

    /// Returns whether a product that contracts dimension 0 of this tensor with all other dimensions only rearranges
    /// elements. The tensor must hold floats 0 and 1. Each column has exactly one 1 along dimension 0; each row has at
    /// most one.
    ///
    /// Matrices of one row or one column do not count.
    #[must_use]
    pub fn is_permutation_matrix(&self) -> bool {
        let rows = self.shape.first().copied().unwrap_or(0);
        let columns: usize = self.shape.iter().skip(1).product();
        if !self.dtype.is_float() || self.shape.len() < 2 || rows < 2 || columns < 2 {
            return false;
        }
        let mut taken = vec![false; columns];
        (0..rows).all(|row| {
            let mut ones = 0;
            (0..columns).all(|column| {
                let value = self.f64_at(row * columns + column);
                let one = value == 1.0;
                ones += usize::from(one);
                let again = one && std::mem::replace(&mut taken[column], true);
                (one || value == 0.0) && !again
            }) && ones == 1
        })
    }

    /// Returns whether the tensor has no elements.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn data_len(&self) -> usize {
        match &self.data {
            Data::F32(v) => v.len(),
            Data::F64(v) => v.len(),
            Data::I64(v) => v.len(),
            Data::Bits(v) => v.len(),
        }
    }

    /// Element `i` in row-major order, as a float; NaN for a complex number.
    #[must_use]
    #[expect(clippy::cast_precision_loss, reason = "integers beyond 2^53 round")]
    pub fn f64_at(&self, i: usize) -> f64 {
        match &self.data {
            Data::F32(v) => f64::from(v[i]),
            Data::F64(v) => v[i],
            Data::I64(v) if self.is_u64() => v[i].cast_unsigned() as f64,
            Data::I64(v) => v[i] as f64,
            Data::Bits(v) => float_of_bits(v[i], self.dtype),
        }
    }

    /// Elements `start..start + into.len()` in row-major order, as floats.
    ///
    /// # Panics
    /// The range is not within the elements.
    #[expect(clippy::cast_precision_loss, reason = "integers beyond 2^53 round")]
    pub fn read_f64(&self, start: usize, into: &mut [f64]) {
        let range = start..start + into.len();
        match &self.data {
            Data::F32(v) => into
                .iter_mut()
                .zip(&v[range])
                .for_each(|(o, &x)| *o = f64::from(x)),
            Data::F64(v) => into.copy_from_slice(&v[range]),
            Data::I64(v) if self.is_u64() => {
                into.iter_mut()
                    .zip(&v[range])
                    .for_each(|(o, &x)| *o = x.cast_unsigned() as f64);
            }
            Data::I64(v) => into
                .iter_mut()
                .zip(&v[range])
                .for_each(|(o, &x)| *o = x as f64),
            Data::Bits(v) => into
                .iter_mut()
                .zip(&v[range])
                .for_each(|(o, &x)| *o = float_of_bits(x, self.dtype)),
        }
    }

    /// All elements in row-major order, as floats.
    #[must_use]
    pub fn to_f64(&self) -> Vec<f64> {
        let mut out = vec![0.0; self.data_len()];
        self.read_f64(0, &mut out);
        out
    }

    fn is_u64(&self) -> bool {
        self.dtype
            == DType::Int {
                bits: 64,
                sign: Sign::Unsigned,
            }
    }

    /// Element `i` of an integer tensor as its mathematical value, including `ui64` values above the range of `i64`;
    /// floats are truncated.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "floats truncate")]
    pub fn i128_at(&self, i: usize) -> i128 {
        match &self.data {
            Data::F32(v) => v[i] as i128,
            Data::F64(v) => v[i] as i128,
            Data::I64(v) if self.is_u64() => i128::from(v[i].cast_unsigned()),
            Data::I64(v) => i128::from(v[i]),
            Data::Bits(v) => float_of_bits(v[i], self.dtype) as i128,
        }
    }

    /// A tensor of integers given as `i128`, wrapped into the range of `dtype`, or converted if `dtype` is a float
    /// type.
    ///
    /// # Panics
    /// The number of elements is not the product of `shape`.
    #[must_use]
    #[expect(
        clippy::cast_possible_truncation,
        clippy::cast_precision_loss,
        reason = "wrapping and rounding are the purpose"
    )]
    pub fn from_i128(
        dtype: DType,
        shape: Vec<usize>,
        values: impl IntoIterator<Item = i128>,
    ) -> Tensor {
        if dtype == DType::F64 {
            return Self::from_f64(dtype, shape, values.into_iter().map(|x| x as f64));
        }
        if !dtype.is_int() {
            return Self::from_f64(dtype, shape, values.into_iter().map(odd_double));
        }
        Self::from_i64(dtype, shape, values.into_iter().map(|x| x as i64))
    }

    /// The same numbers in another type. Floats become integers by truncation and saturation, and NaN becomes 0.
    /// Integers wrap. Any number becomes a truth value by `x != 0`.
    #[must_use]
    pub fn converted(&self, to: DType) -> Tensor {
        let (n, shape) = (self.len(), self.shape.clone());
        if self.dtype == to {
            self.clone()
        } else if to.is_bool() {
            Tensor::from_i128(to, shape, (0..n).map(|i| i128::from(self.f64_at(i) != 0.0)))
        } else if self.dtype.is_int() {
            Tensor::from_i128(to, shape, (0..n).map(|i| self.i128_at(i)))
        } else if to.is_int() {
            Tensor::from_i128(to, shape, (0..n).map(|i| saturate(self.f64_at(i), to)))
        } else {
            Tensor::from_f64(to, shape, self.to_f64())
        }
    }

    /// Element `i` in row-major order, as an integer; floats are truncated.
    #[must_use]
    #[expect(clippy::cast_possible_truncation, reason = "floats truncate")]
    pub fn i64_at(&self, i: usize) -> i64 {
        match &self.data {
            Data::F32(v) => v[i] as i64,
            Data::F64(v) => v[i] as i64,
            Data::I64(v) => v[i],
            Data::Bits(v) => float_of_bits(v[i], self.dtype) as i64,
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
            Data::Bits(v) => Data::Bits((0..n).map(|i| v[index(i)]).collect()),
        };
        Tensor {
            dtype: self.dtype,
            shape,
            data,
        }
    }

    /// A copy in which, for each pair `(from, to)`, element `from` of `updates` replaces element `to`. If `to` occurs
    /// more than once, the last pair wins.
    ///
    /// # Errors
    /// The tensors hold different kinds of data.
    ///
    /// # Panics
    /// An element's number is out of bounds.
    pub fn overwritten(
        &self,
        updates: &Tensor,
        pairs: impl IntoIterator<Item = (usize, usize)>,
    ) -> Result<Tensor, EvalError> {
        let mut out = self.clone();
        let pairs = pairs.into_iter();
        match (&mut out.data, &updates.data) {
            (Data::F32(x), Data::F32(y)) => pairs.for_each(|(from, to)| x[to] = y[from]),
            (Data::F64(x), Data::F64(y)) => pairs.for_each(|(from, to)| x[to] = y[from]),
            (Data::I64(x), Data::I64(y)) => pairs.for_each(|(from, to)| x[to] = y[from]),
            (Data::Bits(x), Data::Bits(y)) => pairs.for_each(|(from, to)| x[to] = y[from]),
            (Data::F32(_) | Data::F64(_) | Data::I64(_) | Data::Bits(_), _) => {
                let message = "what is written is another kind of data than what is there";
                return Err(EvalError::new(message));
            }
        }
        Ok(out)
    }

    /// The same elements in another shape of the same size.
    ///
    /// # Panics
    /// The sizes differ.
    #[must_use]
    pub fn reshaped(&self, shape: Vec<usize>) -> Tensor {
        let out = Tensor {
            dtype: self.dtype,
            shape,
            data: self.data.clone(),
        };
        assert_eq!(
            out.len(),
            self.len(),
            "a reshape keeps the number of elements"
        );
        out
    }

    /// The transpose: axis `i` of the result is axis `perm[i]` of `self`.
    ///
    /// # Panics
    /// `perm` is no permutation of the axes.
    #[must_use]
    pub fn transposed(&self, perm: &[usize]) -> Tensor {
        let strides = self.strides();
        let shape: Vec<usize> = perm.iter().map(|&p| self.shape[p]).collect();
        let steps = perm.iter().map(|&p| strides[p].cast_signed()).collect();
        let offsets = Offsets::new(&shape, steps, 0);
        self.picked(shape, offsets)
    }

    /// A tensor of `shape` with the elements at `offsets`.
    ///
    /// # Panics
    /// The number of offsets is not the number of elements, or an offset is out of bounds.
    #[must_use]
    pub fn picked(&self, shape: Vec<usize>, offsets: Offsets) -> Tensor {
        let data = match &self.data {
            Data::F32(v) => Data::F32(offsets.picked(v)),
            Data::F64(v) => Data::F64(offsets.picked(v)),
            Data::I64(v) => Data::I64(offsets.picked(v)),
            Data::Bits(v) => Data::Bits(offsets.picked(v)),
        };
        let tensor = Tensor {
            dtype: self.dtype,
            shape,
            data,
        };
        assert_eq!(
            tensor.data_len(),
            tensor.len(),
            "as many elements as the shape has"
        );
        tensor
    }

    /// Reads little-endian row-major bytes in the format of files; an element of fewer than 8 bits takes a byte.
    ///
    /// # Errors
    /// The number of bytes does not fit the shape.
    pub fn from_bytes(dtype: DType, shape: Vec<usize>, bytes: &[u8]) -> Result<Tensor, EvalError> {
        let width = storage_bytes(dtype);
        let wanted = shape.iter().try_fold(width, |a, &n| a.checked_mul(n));
        if wanted != Some(bytes.len()) {
            let wanted = wanted.map_or_else(|| "more than there can be".into(), |n| n.to_string());
            let found = bytes.len();
            return Err(EvalError::new(format!(
                "found {found} bytes, wanted {wanted}"
            )));
        }
        let chunks = bytes.chunks_exact(width);
        let data = match dtype {
            DType::F64 => Data::F64(chunks.map(|c| f64::from_bits(low64(le(c)))).collect()),
            DType::F32 => Data::F32(
                chunks
                    .map(|c| f32::from_le_bytes([c[0], c[1], c[2], c[3]]))
                    .collect(),
            ),
            DType::F16 => Data::F32(
                chunks
                    .map(|c| f16_number(u16::from_le_bytes([c[0], c[1]])))
                    .collect(),
            ),
            DType::BF16 => Data::F32(
                chunks
                    .map(|c| bf16_number(u16::from_le_bytes([c[0], c[1]])))
                    .collect(),
            ),
            DType::Int { .. } => Data::I64(
                chunks
                    .map(|c| wrap_int(low64(le(c)).cast_signed(), dtype))
                    .collect(),
            ),
            DType::Mini(_) | DType::Complex64 | DType::Complex128 => {
                let mask = u128::MAX >> (128 - dtype.bits());
                Data::Bits(chunks.map(|c| le(c) & mask).collect())
            }
        };
        Ok(Tensor { dtype, shape, data })
    }

    /// Little-endian row-major bytes; an element of fewer than 8 bits takes a byte.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        match (&self.data, self.dtype) {
            (Data::F64(v), _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            (Data::F32(v), DType::F16) => v
                .iter()
                .flat_map(|&x| f16_bits(x.into()).to_le_bytes())
                .collect(),
            (Data::F32(v), DType::BF16) => v
                .iter()
                .flat_map(|&x| bf16_bits_of_single(x).to_le_bytes())
                .collect(),
            (Data::F32(v), _) => v.iter().flat_map(|x| x.to_le_bytes()).collect(),
            (Data::I64(v), dtype) => {
                let width = storage_bytes(dtype);
                v.iter()
                    .flat_map(|x| x.to_le_bytes().into_iter().take(width))
                    .collect()
            }
            (Data::Bits(v), dtype) => {
                let width = storage_bytes(dtype);
                v.iter()
                    .flat_map(|x| x.to_le_bytes().into_iter().take(width))
                    .collect()
            }
        }
    }
}

/// The bytes that one element takes in a file or an `.npz`; an element of fewer than 8 bits takes one byte.
#[must_use]
pub fn storage_bytes(dtype: DType) -> usize {
    (dtype.bits() as usize).div_ceil(8)
}

fn le(chunk: &[u8]) -> u128 {
    chunk.iter().rev().fold(0, |a, &b| (a << 8) | u128::from(b))
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "elements of the callers have at most 64 bits"
)]
fn low64(bits: u128) -> u64 {
    bits as u64
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

/// An iterator over the indices of a shape in row-major order. For each index it gives an offset into another tensor:
/// `start` plus the sum of index times step.
#[derive(Clone, Debug)]
pub struct Offsets {
    shape: Vec<usize>,
    steps: Vec<isize>,
    index: Vec<usize>,
    at: isize,
    left: usize,
}

impl Offsets {
    /// An iterator over `shape` with one step for each dimension.
    ///
    /// # Panics
    /// `steps` and `shape` differ in length.
    #[must_use]
    pub fn new(shape: &[usize], steps: Vec<isize>, start: isize) -> Offsets {
        assert_eq!(shape.len(), steps.len(), "one step a dimension");
        let left = shape.iter().product();
        Offsets {
            shape: shape.to_vec(),
            steps,
            index: vec![0; shape.len()],
            at: start,
            left,
        }
    }

    /// An iterator over `shape` that gives offsets into a tensor of shape `operand`, which broadcasts to it (numpy's
    /// rule: aligned at the last dimension, extent 1 repeats).
    ///
    /// # Panics
    /// `operand` has a higher rank.
    #[must_use]
    pub fn broadcast(operand: &[usize], shape: &[usize]) -> Offsets {
        let lead = shape.len() - operand.len();
        let mut steps = vec![0; shape.len()];
        for (d, stride) in row_major_strides(operand).into_iter().enumerate() {
            if operand[d] != 1 {
                steps[lead + d] = stride.cast_signed();
            }
        }
        Offsets::new(shape, steps, 0)
    }

    /// The elements at all remaining offsets, in their order.
    ///
    /// # Panics
    /// An offset is out of bounds of `elements`.
    #[must_use]
    pub fn picked<T: Copy>(self, elements: &[T]) -> Vec<T> {
        let mut out = Vec::with_capacity(self.left);
        self.for_each(|at| out.push(elements[at]));
        out
    }

    /// The index of the next item.
    #[must_use]
    pub fn index(&self) -> &[usize] {
        &self.index
    }
}

impl Iterator for Offsets {
    type Item = usize;

    fn next(&mut self) -> Option<usize> {
        self.left = self.left.checked_sub(1)?;
        let at = self.at;
        for d in (0..self.shape.len()).rev() {
            self.index[d] += 1;
            self.at += self.steps[d];
            if self.index[d] < self.shape[d] {
                break;
            }
            self.at -= self.steps[d] * self.shape[d].cast_signed();
            self.index[d] = 0;
        }
        Some(at.cast_unsigned())
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.left, Some(self.left))
    }

    /// Iterates line by line: within the last dimension an offset is the previous one plus the step.
    fn fold<B, F: FnMut(B, usize) -> B>(mut self, init: B, mut f: F) -> B {
        let (line, step) = match (self.shape.last(), self.steps.last()) {
            (Some(&n), Some(&step)) => (n, step),
            _ => (1, 0),
        };
        let mut all = init;
        // The rest of a line that was begun before.
        while self.index.last().is_some_and(|&i| i != 0) {
            let Some(at) = self.next() else { return all };
            all = f(all, at);
        }
        while 0 < self.left {
            let mut at = self.at;
            for _ in 0..line {
                all = f(all, at.cast_unsigned());
                at += step;
            }
            self.left -= line;
            for d in (0..self.shape.len().saturating_sub(1)).rev() {
                self.index[d] += 1;
                self.at += self.steps[d];
                if self.index[d] < self.shape[d] {
                    break;
                }
                self.at -= self.steps[d] * self.shape[d].cast_signed();
                self.index[d] = 0;
            }
        }
        all
    }
}
