//! NumPy archives: `.npz` files, zip archives of `.npy` arrays.
//!
//! Element types without a NumPy counterpart are stored as others: bf16 as `uint16` (its bits), floats of 8 bits or
//! less as `uint8`, integers below 8 bits as `int8` (`ui4` and the like as `uint8` or `int8`), `i1` as `bool`. The
//! program's types tell which one is meant. Arrays are little-endian, stored or deflated, in C or Fortran order. A bad
//! file, whatever its bytes, is an error.

mod error;
mod header;

pub use error::ArrayError;
pub use header::Kind;

use header::Header;
use indexmap::{IndexMap, IndexSet};
use optc_interp::{InputError, Scope, argument_keys, type_text};
use optc_ir::tensor::{storage_bytes, wrap_int};
use optc_ir::{Bindings, DType, Func, Sign, Tensor, Type, Value};
use std::io::{Read, Seek, Write};
use thiserror::Error;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The most arrays a file may hold.
const MAX_ARRAYS: usize = 65_536;

/// The reason why an archive cannot be read or written.
#[derive(Debug, Error)]
pub enum NpzError {
    /// The archive itself is broken.
    #[error("not a readable .npz archive: {0}")]
    Archive(String),
    /// An array in the archive is broken.
    #[error("array `{name}`: {problem}")]
    Array {
        /// The key of the array.
        name: String,
        /// The defect.
        problem: ArrayError,
    },
    /// An array does not fit its argument.
    #[error(transparent)]
    Input(#[from] InputError),
    /// The output cannot be written.
    #[error("cannot write the .npz archive: {0}")]
    Write(String),
}

/// One array of a file, in C order.
#[derive(Clone, PartialEq, Debug)]
pub struct NpzArray {
    /// The kind of the elements.
    pub kind: Kind,
    /// The extents, outermost first.
    pub shape: Vec<usize>,
    /// Little-endian elements, row-major.
    pub bytes: Vec<u8>,
}

impl NpzArray {
    /// The array as a tensor of this element type.
    ///
    /// # Errors
    /// The file's element type does not represent `dtype`, or a number is out of its range.
    pub fn to_tensor(&self, dtype: DType) -> Result<Tensor, ArrayError> {
        self.kind.check(dtype)?;
        let tensor = Tensor::from_bytes(dtype, self.shape.clone(), &self.bytes);
        let tensor = tensor.map_err(|e| ArrayError::Body(e.to_string()))?;
        let narrow = dtype.bits() < 8 || dtype.is_bool();
        if narrow && dtype.computes() {
            let signed = self.kind == Kind::Int(1);
            let fits = |&b: &u8| {
                let x = if signed {
                    i64::from(b.cast_signed())
                } else {
                    i64::from(b)
                };
                wrap_int(x, dtype) == x
            };
            if let Some(bad) = self.bytes.iter().find(|b| !fits(b)) {
                return Err(ArrayError::Range {
                    element: *bad,
                    dtype: dtype.to_string(),
                });
            }
        } else if narrow {
            let mut wide = self.bytes.iter().filter(|&&b| b >> dtype.bits() != 0);
            if let Some(bad) = wide.next() {
                return Err(ArrayError::Bits {
                    element: *bad,
                    dtype: dtype.to_string(),
                });
            }
        }
        Ok(tensor)
    }
}

/// The compression of arrays in an archive.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Packing {
    /// Uncompressed, like `numpy.savez`.
    #[default]
    Stored,
    /// Deflated, like `numpy.savez_compressed`.
    Deflated,
}

/// Reads all arrays of an archive, by their keys without `.npy`.
///
/// # Errors
/// The archive or an array is broken, or of a kind that is not read (big-endian, objects, records).
pub fn read<R: Read + Seek>(source: R) -> Result<IndexMap<String, NpzArray>, NpzError> {
    let mut arrays = IndexMap::new();
    each_array(source, |name, mut entry| {
        let array = entry.data().map_err(|problem| entry.fault(problem))?;
        arrays.insert(name.to_owned(), array);
        Ok(())
    })?;
    Ok(arrays)
}

/// Reads the inputs of a function: every argument that the file has, by its key, with the element type of the argument.
/// Arrays that belong to no argument are an error.
///
/// The shape in an array's header is compared with the argument's type before the elements are read. Symbols have the
/// sizes that `bindings` and the arrays before give them. An archive that would inflate to more than the function takes
/// is therefore refused early. [`check_inputs`](optc_interp::check_inputs) checks that no argument is missing.
///
/// # Errors
/// As for [`read`]; also elements of another type or another shape than the argument's.
pub fn read_inputs<R: Read + Seek>(
    source: R,
    func: &Func,
    bindings: &Bindings,
) -> Result<IndexMap<String, Tensor>, NpzError> {
    let keys: IndexMap<String, Value> = argument_keys(func)
        .into_iter()
        .zip(func.args.iter().copied())
        .collect();
    let mut scope = Scope::given(bindings);
    let mut inputs = IndexMap::new();
    each_array(source, |name, mut entry| {
        let Some(&value) = keys.get(name) else {
            let known: Vec<String> = keys.keys().map(|k| format!("`{k}`")).collect();
            return Err(entry.fault(ArrayError::NoArgument(known.join(", "))));
        };
        let ty = match func.ty(value) {
            Type::Tensor(ty) => ty,
            other @ (Type::Scalar(_) | Type::Other(_)) => {
                return Err(entry.fault(ArrayError::NoTensor(type_text(other))));
            }
        };
        entry
            .header
            .kind
            .check(ty.dtype)
            .map_err(|e| entry.fault(e))?;
        scope.bind_shape(name, ty, &entry.header.shape)?;
        let array = entry.data().map_err(|e| entry.fault(e))?;
        let tensor = array.to_tensor(ty.dtype).map_err(|e| entry.fault(e))?;
        inputs.insert(name.to_owned(), tensor);
        Ok(())
    })?;
    Ok(inputs)
}

/// An array of an archive after its header was read.
struct Entry<'a> {
    name: &'a str,
    header: Header,
    body: &'a mut dyn Read,
}

impl Entry<'_> {
    fn fault(&self, problem: ArrayError) -> NpzError {
        let name = self.name.to_owned();
        NpzError::Array { name, problem }
    }

    fn data(&mut self) -> Result<NpzArray, ArrayError> {
        read_body(self.header.clone(), &mut self.body)
    }
}

/// Calls `visit` for every array of an archive. The elements of an array are only read if `visit` reads them.
fn each_array<R: Read + Seek>(
    source: R,
    mut visit: impl FnMut(&str, Entry<'_>) -> Result<(), NpzError>,
) -> Result<(), NpzError> {
    let broken = |e: zip::result::ZipError| NpzError::Archive(e.to_string());
    let mut archive = ZipArchive::new(source).map_err(broken)?;
    if archive.len() > MAX_ARRAYS {
        return Err(NpzError::Archive(format!(
            "it holds {} files",
            archive.len()
        )));
    }
    let mut names: IndexSet<String> = IndexSet::new();
    for i in 0..archive.len() {
        let mut file = archive.by_index(i).map_err(broken)?;
        if file.is_dir() {
            continue;
        }
        let full = file.name().map_err(broken)?.into_owned();
        let name = full.strip_suffix(".npy").unwrap_or(&full).to_owned();
        let fault = |problem| NpzError::Array {
            name: name.clone(),
            problem,
        };
        if !names.insert(name.clone()) {
            return Err(fault(ArrayError::Twice));
        }
        let size = file.size();
        let header = Header::read(&mut file).map_err(fault)?;
        header.check_size(size).map_err(fault)?;
        let body = &mut file;
        let entry = Entry {
            name: &name,
            header,
            body,
        };
        visit(&name, entry)?;
    }
    Ok(())
}

/// Writes tensors into an archive, in the order of the map; the same tensors give the same bytes.
///
/// # Errors
/// The output cannot be written.
pub fn write<W: Write + Seek>(
    target: W,
    tensors: &IndexMap<String, Tensor>,
    packing: Packing,
) -> Result<(), NpzError> {
    let mut archive = ZipWriter::new(target);
    let method = match packing {
        Packing::Stored => CompressionMethod::Stored,
        Packing::Deflated => CompressionMethod::Deflated,
    };
    let broken = |e: &dyn std::fmt::Display| NpzError::Write(e.to_string());
    for (name, tensor) in tensors {
        let head = Header::of(tensor).bytes();
        let body = tensor.to_bytes();
        let large = head.len() + body.len() >= (1 << 31);
        let options = SimpleFileOptions::default()
            .compression_method(method)
            .last_modified_time(zip::DateTime::default())
            .large_file(large);
        archive
            .start_file(format!("{name}.npy"), options)
            .map_err(|e| broken(&e))?;
        archive.write_all(&head).map_err(|e| broken(&e))?;
        archive.write_all(&body).map_err(|e| broken(&e))?;
    }
    archive.finish().map_err(|e| broken(&e))?;
    Ok(())
}

/// Reads one `.npy` array.
///
/// # Errors
/// The defect of the array.
pub fn read_array<R: Read>(source: &mut R) -> Result<NpzArray, ArrayError> {
    let header = Header::read(source)?;
    read_body(header, source)
}

/// Reads the elements that follow a header, and at most one byte more.
fn read_body(header: Header, source: &mut dyn Read) -> Result<NpzArray, ArrayError> {
    let wanted = header.body_bytes()?;
    let mut bytes = Vec::new();
    // The file may hold less than the header says, so no memory is reserved for all of it.
    source
        .take(wanted + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| ArrayError::Body(e.to_string()))?;
    header.check_body(bytes.len() as u64)?;
    let (kind, shape) = (header.kind, header.shape);
    let bytes = if header.fortran {
        to_c_order(&bytes, &shape, kind.width())
    } else {
        bytes
    };
    Ok(NpzArray { kind, shape, bytes })
}

/// Reorders elements whose first dimension is innermost.
fn to_c_order(bytes: &[u8], shape: &[usize], width: usize) -> Vec<u8> {
    let mut steps = Vec::with_capacity(shape.len());
    let mut step = width;
    for &n in shape {
        steps.push(step);
        step *= n;
    }
    let mut out = Vec::with_capacity(bytes.len());
    let mut index = vec![0; shape.len()];
    while out.len() < bytes.len() {
        let at: usize = index.iter().zip(&steps).map(|(i, s)| i * s).sum();
        out.extend_from_slice(&bytes[at..at + width]);
        for d in (0..shape.len()).rev() {
            index[d] += 1;
            if index[d] < shape[d] {
                break;
            }
            index[d] = 0;
        }
    }
    out
}

/// The kinds that may represent an element type, in words.
fn wanted(dtype: DType) -> String {
    let kind = Kind::of(dtype);
    match dtype {
        DType::BF16 => format!("{kind} (the bits of bf16)"),
        DType::Int { bits: ..8, .. } if !dtype.is_bool() => format!("{kind} ({dtype})"),
        DType::Mini(_) => format!("{kind} (the bits of {dtype})"),
        DType::F64 | DType::F32 | DType::F16 | DType::Int { .. } => kind.to_string(),
        DType::Complex64 | DType::Complex128 => kind.to_string(),
    }
}

impl Kind {
    /// The kind as which an element type is written.
    #[must_use]
    pub fn of(dtype: DType) -> Kind {
        let width = storage_bytes(dtype);
        match dtype {
            DType::F64 | DType::F32 | DType::F16 => Kind::Float(width),
            DType::BF16 => Kind::Uint(2),
            DType::Mini(_) => Kind::Uint(1),
            DType::Complex64 | DType::Complex128 => Kind::Complex(width),
            DType::Int {
                bits: 1,
                sign: Sign::Signless,
            } => Kind::Bool,
            DType::Int {
                bits: 8..,
                sign: Sign::Unsigned,
            } => Kind::Uint(width),
            DType::Int { .. } => Kind::Int(width),
        }
    }

    /// Refuses an array whose kind cannot represent this element type.
    fn check(self, dtype: DType) -> Result<(), ArrayError> {
        match self.carries(dtype) {
            true => Ok(()),
            false => Err(ArrayError::Kind {
                found: self.to_string(),
                wanted: wanted(dtype),
            }),
        }
    }

    /// Returns whether an array of this kind may represent a tensor of this element type.
    #[must_use]
    pub fn carries(self, dtype: DType) -> bool {
        let signless = matches!(
            dtype,
            DType::Int {
                sign: Sign::Signless,
                ..
            }
        );
        let narrow = matches!(dtype, DType::Int { bits: ..8, .. });
        self == Kind::of(dtype)
            || (signless && !narrow && self == Kind::Uint(storage_bytes(dtype)))
            || (narrow && matches!(self, Kind::Int(1) | Kind::Uint(1)))
    }
}
