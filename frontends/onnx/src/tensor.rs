//! Tensors of the file: element types, dimensions, and the places of their bytes.

use crate::codes;
use optc_ir::tensor::storage_bytes;
use optc_ir::types::Sign;
use optc_ir::{Code, DType, Diagnostic, Dim, Size, Tensor, TensorType};
use optc_onnx_proto::{
    DimensionProto, EXTERNAL, SparseTensorProto, TensorProto, TypeProto, dtype, per_byte,
};
use prost::Message;
use prost::bytes::{Buf, Bytes};
use prost::encoding::{WireType, decode_key, decode_varint, skip_field};
use std::cell::Cell;
use std::sync::Arc;

/// The most bytes of a constant that is written into the program; larger ones refer to the file.
pub(crate) const INLINE_BYTES: usize = 1024;

/// The most elements of a tensor that is computed at import.
pub(crate) const FOLD_ELEMENTS: u64 = 1 << 16;

/// The code of [`unsupported_dtype`].
pub(crate) const UNSUPPORTED: Code = codes::UNSUPPORTED_DTYPE;

/// A diagnostic about an element type that the IR does not have. Tensors of that type are kept, but opaque.
pub(crate) fn unsupported_dtype(what: &str, found: &str) -> Diagnostic {
    Diagnostic::warning(UNSUPPORTED, format!("{what} holds {found}"))
        .note("wanted floats of 4 to 64 bits, integers of 2 to 64 bits, complex numbers, or bool")
}

/// One extent of the file.
pub(crate) fn dim(proto: &DimensionProto) -> Dim {
    match (proto.dim_value, proto.dim_param.as_deref()) {
        (Some(n), _) => u64::try_from(n).map_or(Dim::Unknown, Dim::Fixed),
        // A name that looks like an expression stays a name until its own names are known.
        (None, Some(name)) if !name.is_empty() => {
            Dim::of_size(&Size::name(&name.replace('`', "'")))
        }
        (None, _) => Dim::Unknown,
    }
}

/// The file's statement about the type of a value.
pub(crate) enum Declared {
    /// A tensor of known rank.
    Tensor(TensorType),
    /// A tensor of this element type, of any rank.
    Unranked(DType),
    /// A tensor of an element type that the IR does not have; the type in words.
    Dtype(String),
    /// Not a tensor, or nothing is stated.
    Other,
}

/// Reads a `TypeProto`.
pub(crate) fn declared(ty: Option<&TypeProto>) -> Declared {
    let Some(tensor) = ty.and_then(|t| t.tensor_type.as_ref()) else {
        return Declared::Other;
    };
    match (dtype(tensor.elem_type), &tensor.shape) {
        (Err(found), _) => Declared::Dtype(found.to_string()),
        (Ok(dtype), None) => Declared::Unranked(dtype),
        (Ok(dtype), Some(shape)) => {
            Declared::Tensor(TensorType::new(shape.dim.iter().map(dim).collect(), dtype))
        }
    }
}

/// The most elements that import creates in total, beyond those of the file itself.
const MADE_ELEMENTS: u64 = 1 << 24;

/// The model's bytes and the name of its file.
#[derive(Debug)]
pub(crate) struct File {
    pub(crate) name: Arc<str>,
    pub(crate) bytes: Bytes,
    budget: Cell<u64>,
}

impl File {
    /// A file with its whole budget of elements left.
    pub(crate) fn new(name: &str, bytes: Bytes) -> File {
        let budget = Cell::new(MADE_ELEMENTS);
        File {
            name: Arc::from(name),
            bytes,
            budget,
        }
    }

    /// Returns whether a tensor of `n` elements may be created, and subtracts them from the budget.
    ///
    /// This bounds memory and time for small files with many large constants.
    pub(crate) fn spend(&self, n: u64) -> bool {
        self.spend_within(n, FOLD_ELEMENTS)
    }

    /// As [`File::spend`], for a tensor of at most `most` elements.
    pub(crate) fn spend_within(&self, n: u64, most: u64) -> bool {
        let left = self.budget.get().checked_sub(n);
        let allowed = left.filter(|_| n <= most);
        self.budget.set(allowed.unwrap_or(self.budget.get()));
        allowed.is_some()
    }

    /// The offset of a part of the file's own buffer.
    pub(crate) fn offset_of(&self, part: &Bytes) -> Option<u64> {
        let offset = (part.as_ptr() as usize).checked_sub(self.bytes.as_ptr() as usize)?;
        let end = offset.checked_add(part.len())?;
        (end <= self.bytes.len()).then_some(offset as u64)
    }
}

/// The place of a constant's elements.
#[derive(Clone, Debug)]
pub(crate) enum Storage {
    /// Decoded.
    Here(Tensor),
    /// One element for every position.
    Splat(Tensor),
    /// Bytes of a file, row-major and little-endian; `bytes` is set for the model's own file.
    File {
        file: Arc<str>,
        offset: u64,
        length: u64,
        bytes: Option<Bytes>,
    },
}

/// A constant tensor of the file.
#[derive(Clone, Debug)]
pub(crate) struct Blob {
    pub(crate) name: String,
    pub(crate) ty: TensorType,
    pub(crate) storage: Storage,
}

/// The name of the tensor in a `TensorProto` or, if `sparse`, in a `SparseTensorProto`.
pub(crate) fn name_of(wire: &Bytes, sparse: bool) -> Option<String> {
    let dense = if sparse {
        SparseTensorProto::decode(wire.clone()).ok()?.values?
    } else {
        wire.clone()
    };
    Some(TensorProto::decode(dense).ok()?.name)
}

/// Reads a `TensorProto`; `owner` names it in messages if it has no name.
pub(crate) fn load(file: &File, wire: &Bytes, owner: &str) -> Result<Blob, Diagnostic> {
    let proto = TensorProto::decode(wire.clone())
        .map_err(|e| malformed(&format!("the tensor of {owner} does not decode: {e}")))?;
    let name = if proto.name.is_empty() {
        owner.to_owned()
    } else {
        proto.name.clone()
    };
    let what = format!("tensor `{name}`");
    let dtype =
        dtype(proto.data_type).map_err(|found| unsupported_dtype(&what, &found.to_string()))?;
    let shape = shape(&proto.dims, &what)?;
    let storage = if proto.data_location == EXTERNAL {
        external(&proto, &shape, dtype, &what)?
    } else {
        inline(file, &proto, wire, &shape, dtype, &what)?
    };
    let dims: Vec<u64> = shape.iter().map(|&d| d as u64).collect();
    Ok(Blob {
        name,
        ty: TensorType::fixed(&dims, dtype),
        storage,
    })
}

/// A diagnostic about bytes that are not ONNX.
pub(crate) fn malformed(message: &str) -> Diagnostic {
    Diagnostic::error(codes::MALFORMED_PROTOBUF, message)
}

fn size_error(message: String) -> Diagnostic {
    Diagnostic::error(codes::TENSOR_SIZE_MISMATCH, message)
}

/// The extents as `usize`; the number of bytes must fit the address space.
fn shape(dims: &[i64], what: &str) -> Result<Vec<usize>, Diagnostic> {
    let shape: Option<Vec<usize>> = dims.iter().map(|&d| usize::try_from(d).ok()).collect();
    let shape = shape.ok_or_else(|| size_error(format!("{what} has a negative extent")))?;
    let most = shape
        .iter()
        .filter(|&&d| d != 0)
        .try_fold(8usize, |a, &d| a.checked_mul(d));
    match most {
        Some(bytes) if bytes <= isize::MAX as usize => Ok(shape),
        _ => Err(size_error(format!(
            "{what} has more bytes than memory can address"
        ))),
    }
}

/// Bytes of `n` elements in the file; two elements of 4 bits, or four of 2 bits, share one byte.
fn file_bytes(n: usize, dtype: DType) -> usize {
    match per_byte(dtype) {
        Some(k) => n.div_ceil(k),
        None => n * storage_bytes(dtype),
    }
}

fn external(
    proto: &TensorProto,
    shape: &[usize],
    dtype: DType,
    what: &str,
) -> Result<Storage, Diagnostic> {
    let entry = |key: &str| {
        proto
            .external_data
            .iter()
            .find(|e| e.key == key)
            .map(|e| &*e.value)
    };
    let location = entry("location").unwrap_or_default();
    check_location(location, what)?;
    let number = |key: &str| match entry(key).map(str::trim) {
        None | Some("") => Ok(None),
        Some(text) => text.parse::<u64>().map(Some).map_err(|_| {
            size_error(format!(
                "{what} has the external {key} `{text}`, wanted a number of bytes"
            ))
        }),
    };
    let wanted = file_bytes(shape.iter().product(), dtype) as u64;
    let offset = number("offset")?.unwrap_or(0);
    let length = number("length")?.unwrap_or(wanted);
    if length != wanted {
        return Err(size_error(format!(
            "{what} has {length} external bytes, wanted {wanted} for its dimensions"
        )));
    }
    if offset.checked_add(length).is_none() {
        return Err(size_error(format!(
            "{what} ends beyond the largest file offset"
        )));
    }
    if per_byte(dtype).is_some() {
        return Err(unsupported_dtype(
            what,
            "packed elements below 8 bits in an external file",
        ));
    }
    Ok(Storage::File {
        file: Arc::from(location),
        offset,
        length,
        bytes: None,
    })
}

/// Checks that external data is in the folder of the model, or below it.
fn check_location(location: &str, what: &str) -> Result<(), Diagnostic> {
    let drive = location.as_bytes().get(1) == Some(&b':');
    let fault = if location.is_empty() {
        "is empty"
    } else if location.starts_with('/') || drive {
        "is absolute"
    } else if location.contains('\\') {
        "has a backslash"
    } else if location.chars().any(char::is_control) {
        "has a control character"
    } else if location.split('/').any(|part| part == "..") {
        "leaves the model's folder"
    } else {
        return Ok(());
    };
    let message = format!("the external location {location:?} of {what} {fault}");
    Err(Diagnostic::error(codes::EXTERNAL_PATH_ESCAPES, message)
        .note("wanted a path relative to the folder of the model, without `..`"))
}

fn inline(
    file: &File,
    proto: &TensorProto,
    wire: &Bytes,
    shape: &[usize],
    dtype: DType,
    what: &str,
) -> Result<Storage, Diagnostic> {
    let n: usize = shape.iter().product();
    if let Some(raw) = &proto.raw_data {
        let wanted = file_bytes(n, dtype);
        if raw.len() != wanted {
            let found = raw.len();
            return Err(size_error(format!(
                "{what} has {found} bytes of data, wanted {wanted} for its dimensions"
            )));
        }
        return bytes_storage(file, raw.clone(), shape, dtype);
    }
    if let Some(packed) = packed_bytes(wire, dtype).filter(|p| p.len() == file_bytes(n, dtype)) {
        return bytes_storage(file, packed, shape, dtype);
    }
    let (found, bytes) = typed_bytes(proto, dtype);
    let wanted = per_byte(dtype).map_or(n, |k| n.div_ceil(k));
    if found != wanted {
        return Err(size_error(format!(
            "{what} has {found} values of data, wanted {wanted} for its dimensions"
        )));
    }
    here(bytes, shape, dtype)
}

/// Raw bytes: decoded if they are small or packed below 8 bits, else left in place.
fn bytes_storage(
    file: &File,
    raw: Bytes,
    shape: &[usize],
    dtype: DType,
) -> Result<Storage, Diagnostic> {
    let plain = match dtype {
        DType::Int { bits: 1, .. } => raw.iter().all(|&b| b <= 1),
        _ => per_byte(dtype).is_none(),
    };
    match file.offset_of(&raw) {
        Some(offset) if plain && INLINE_BYTES < raw.len() => Ok(Storage::File {
            file: file.name.clone(),
            offset,
            length: raw.len() as u64,
            bytes: Some(raw),
        }),
        _ => here(raw.to_vec(), shape, dtype),
    }
}

fn here(bytes: Vec<u8>, shape: &[usize], dtype: DType) -> Result<Storage, Diagnostic> {
    let n: usize = shape.iter().product();
    let bytes = match dtype {
        DType::Int { bits: 1, .. } => bytes.iter().map(|&b| u8::from(b != 0)).collect(),
        _ => match per_byte(dtype) {
            Some(k) => unpack(&bytes, k, n),
            None => bytes,
        },
    };
    Tensor::from_bytes(dtype, shape.to_vec(), &bytes)
        .map(Storage::Here)
        .map_err(|e| size_error(e.to_string()))
}

/// Unpacks elements to one byte each; they are packed from the low bits up, `per_byte` in a byte.
fn unpack(bytes: &[u8], per_byte: usize, n: usize) -> Vec<u8> {
    let bits = 8 / per_byte;
    let mask = (1u8 << bits) - 1;
    let at = |i: usize| (bytes[i / per_byte] >> (bits * (i % per_byte))) & mask;
    (0..n).map(at).collect()
}

/// The typed field of a tensor as little-endian bytes, and the number of its values.
fn typed_bytes(proto: &TensorProto, dtype: DType) -> (usize, Vec<u8>) {
    match dtype {
        // A complex number is two floats of the list.
        DType::F32 | DType::Complex64 => {
            let bytes = proto
                .float_data
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect();
            let parts = if dtype == DType::F32 { 1 } else { 2 };
            (proto.float_data.len() / parts, bytes)
        }
        DType::F64 | DType::Complex128 => {
            let bytes = proto
                .double_data
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect();
            let parts = if dtype == DType::F64 { 1 } else { 2 };
            (proto.double_data.len() / parts, bytes)
        }
        DType::Int {
            bits: 64,
            sign: Sign::Signed | Sign::Signless,
        } => {
            let bytes = proto
                .int64_data
                .iter()
                .flat_map(|x| x.to_le_bytes())
                .collect();
            (proto.int64_data.len(), bytes)
        }
        DType::Int {
            bits: bits @ (32 | 64),
            sign: Sign::Unsigned,
        } => {
            let width = usize::from(bits / 8);
            let each = |x: &u64| x.to_le_bytes().into_iter().take(width);
            (
                proto.uint64_data.len(),
                proto.uint64_data.iter().flat_map(each).collect(),
            )
        }
        DType::F16 | DType::BF16 | DType::Int { .. } | DType::Mini(_) => {
            let width = storage_bytes(dtype);
            let each = |x: &i32| x.to_le_bytes().into_iter().take(width);
            (
                proto.int32_data.len(),
                proto.int32_data.iter().flat_map(each).collect(),
            )
        }
    }
}

/// The bytes of `float_data` or `double_data` if the message has them in one packed run.
fn packed_bytes(wire: &Bytes, dtype: DType) -> Option<Bytes> {
    let field = match dtype {
        DType::F32 | DType::Complex64 => 4,
        DType::F64 | DType::Complex128 => 10,
        DType::F16 | DType::BF16 | DType::Int { .. } | DType::Mini(_) => return None,
    };
    let mut rest = wire.clone();
    let mut found = None;
    while rest.has_remaining() {
        let (tag, wire_type) = decode_key(&mut rest).ok()?;
        if tag != field {
            skip_field(
                wire_type,
                tag,
                &mut rest,
                prost::encoding::DecodeContext::default(),
            )
            .ok()?;
            continue;
        }
        if wire_type != WireType::LengthDelimited || found.is_some() {
            return None;
        }
        let length = usize::try_from(decode_varint(&mut rest).ok()?).ok()?;
        if rest.remaining() < length {
            return None;
        }
        found = Some(rest.copy_to_bytes(length));
    }
    found
}

/// Reads a `SparseTensorProto` of at most [`FOLD_ELEMENTS`] elements into a dense constant.
pub(crate) fn load_sparse(file: &File, wire: &Bytes, owner: &str) -> Result<Blob, Diagnostic> {
    let proto = SparseTensorProto::decode(wire.clone()).map_err(|e| {
        malformed(&format!(
            "the sparse tensor of {owner} does not decode: {e}"
        ))
    })?;
    let what = format!("the sparse tensor of {owner}");
    let missing = || malformed(&format!("{what} has no values or no indices"));
    let values = load(file, proto.values.as_ref().ok_or_else(missing)?, owner)?;
    let indices = load(file, proto.indices.as_ref().ok_or_else(missing)?, owner)?;
    let shape = shape(&proto.dims, &what)?;
    let n: usize = shape.iter().product();
    if !file.spend(n as u64) {
        return Err(size_error(format!(
            "{what} has {n} elements, wanted at most {FOLD_ELEMENTS}"
        )));
    }
    let (Some(v), Some(at)) = (values.tensor(file), indices.tensor(file)) else {
        return Err(size_error(format!(
            "{what} keeps its values in another file"
        )));
    };
    let positions = sparse_positions(&at, &shape, v.len())
        .ok_or_else(|| size_error(format!("{what} has indices that do not fit its dimensions")))?;
    let dtype = v.dtype;
    let zeros = Tensor::from_i64(dtype, shape.clone(), std::iter::repeat_n(0, n));
    let pairs = positions.into_iter().enumerate();
    let dense = zeros
        .overwritten(&v, pairs)
        .map_err(|e| size_error(e.to_string()))?;
    let dims: Vec<u64> = shape.iter().map(|&d| d as u64).collect();
    let ty = TensorType::fixed(&dims, dtype);
    Ok(Blob {
        name: values.name,
        ty,
        storage: Storage::Here(dense),
    })
}

/// Row-major positions from linear indices `[n]` or coordinates `[n, rank]`.
fn sparse_positions(at: &Tensor, shape: &[usize], n: usize) -> Option<Vec<usize>> {
    let total: usize = shape.iter().product();
    let linear = at.shape == [n];
    if !linear && at.shape != [n, shape.len()] {
        return None;
    }
    let position = |i: usize| -> Option<usize> {
        if linear {
            return usize::try_from(at.i64_at(i)).ok();
        }
        shape
            .iter()
            .enumerate()
            .try_fold(0usize, |sum, (d, &extent)| {
                let x = usize::try_from(at.i64_at(i * shape.len() + d)).ok()?;
                (x < extent).then(|| sum * extent + x)
            })
    };
    (0..n).map(|i| position(i).filter(|&p| p < total)).collect()
}

impl Blob {
    /// The elements, if they are few and available.
    pub(crate) fn tensor(&self, file: &File) -> Option<Tensor> {
        let n = self.ty.elements().filter(|&n| n <= FOLD_ELEMENTS)?;
        match &self.storage {
            Storage::Here(t) => Some(t.clone()),
            Storage::Splat(one) if file.spend(n) => {
                let shape = usize_shape(&self.ty)?;
                Some(one.gather(shape, |_| 0)).filter(|t| t.len() as u64 == n)
            }
            Storage::File {
                bytes: Some(bytes), ..
            } => Tensor::from_bytes(self.ty.dtype, usize_shape(&self.ty)?, bytes).ok(),
            Storage::Splat(_) | Storage::File { bytes: None, .. } => None,
        }
    }
}

/// The extents as `usize`, if all are known.
pub(crate) fn usize_shape(ty: &TensorType) -> Option<Vec<usize>> {
    ty.shape()?
        .iter()
        .map(|&d| usize::try_from(d).ok())
        .collect()
}
