//! NumPy archives: `.npz` files, zip archives of `.npy` arrays.
//!
//! bf16 travels as `uint16` (its bits), integers below 8 bits as `int8` (`ui4` and the like as
//! `uint8` or `int8`), `i1` as `bool`; the program's types say which. Arrays are little-endian, stored
//! or deflated, in C or Fortran order; whatever the bytes, a bad file is an error.

mod header;

pub use header::Kind;

use crate::ports::argument_keys;
use crate::scope::{shape_text, type_text};
use crate::walk::elements_within_limit;
use header::Header;
use indexmap::IndexMap;
use optc_ir::tensor::{storage_bytes, wrap_int};
use optc_ir::{DType, Func, Sign, Tensor, Type};
use std::io::{Read, Seek, Write};
use thiserror::Error;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipArchive, ZipWriter};

/// The most arrays a file may hold.
const MAX_ARRAYS: usize = 65_536;

/// Why an archive cannot be read or written.
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
        /// What is wrong with it.
        problem: String,
    },
    /// The output cannot be written.
    #[error("cannot write the .npz archive: {0}")]
    Write(String),
}

/// One array as it lies in a file, brought into C order.
#[derive(Clone, PartialEq, Debug)]
pub struct NpzArray {
    /// What the elements are.
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
    /// The file's element type does not stand for `dtype`, or a number is out of its range.
    pub fn to_tensor(&self, dtype: DType) -> Result<Tensor, String> {
        if !self.kind.carries(dtype) {
            return Err(format!(
                "its elements are {}, wanted {}",
                self.kind,
                wanted(dtype)
            ));
        }
        let tensor = Tensor::from_bytes(dtype, self.shape.clone(), &self.bytes);
        let tensor = tensor.map_err(|e| e.to_string())?;
        let narrow = matches!(dtype, DType::Int { bits: ..8, .. });
        if narrow {
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
                return Err(format!("the element {bad} is out of the range of {dtype}"));
            }
        }
        Ok(tensor)
    }
}

/// How arrays are packed.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Packing {
    /// As they are, like `numpy.savez`.
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
    let broken = |e: zip::result::ZipError| NpzError::Archive(e.to_string());
    let mut archive = ZipArchive::new(source).map_err(broken)?;
    if archive.len() > MAX_ARRAYS {
        return Err(NpzError::Archive(format!(
            "it holds {} files",
            archive.len()
        )));
    }
    let mut arrays = IndexMap::new();
    for i in 0..archive.len() {
        let mut file = archive.by_index(i).map_err(broken)?;
        if file.is_dir() {
            continue;
        }
        let full = file.name().map_err(broken)?.into_owned();
        let name = full.strip_suffix(".npy").unwrap_or(&full).to_owned();
        let array = read_array(&mut file).map_err(|problem| NpzError::Array {
            name: name.clone(),
            problem,
        })?;
        if arrays.insert(name.clone(), array).is_some() {
            let problem = "it is there twice".to_owned();
            return Err(NpzError::Array { name, problem });
        }
    }
    Ok(arrays)
}

/// Reads the inputs of a function: every argument that the file has, by its key, with the element
/// type that the argument says; arrays that belong to no argument are an error.
///
/// Whether every argument is there and the shapes fit is for [`check_inputs`](crate::check_inputs).
///
/// # Errors
/// As for [`read`]; also elements of another type than the argument's.
pub fn read_inputs<R: Read + Seek>(
    source: R,
    func: &Func,
) -> Result<IndexMap<String, Tensor>, NpzError> {
    let keys = argument_keys(func);
    let mut inputs = IndexMap::new();
    for (name, array) in read(source)? {
        let fail = |problem| NpzError::Array {
            name: name.clone(),
            problem,
        };
        let Some(at) = keys.iter().position(|k| *k == name) else {
            let known: Vec<String> = keys.iter().map(|k| format!("`{k}`")).collect();
            return Err(fail(format!(
                "no argument has this name; they are {}",
                known.join(", ")
            )));
        };
        let ty = func.ty(func.args[at]);
        let Type::Tensor(ty) = ty else {
            return Err(fail(format!("the argument is of type {}", type_text(ty))));
        };
        let tensor = array.to_tensor(ty.dtype).map_err(fail)?;
        inputs.insert(name, tensor);
    }
    Ok(inputs)
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
/// What is wrong with it, in words.
pub fn read_array<R: Read>(source: &mut R) -> Result<NpzArray, String> {
    let header = Header::read(source)?;
    let elements = elements_within_limit(&header.shape).map_err(|e| e.to_string())?;
    let wanted = elements * header.kind.width() as u64;
    let mut bytes = Vec::new();
    source
        .take(wanted + 1)
        .read_to_end(&mut bytes)
        .map_err(|e| e.to_string())?;
    let shape = shape_text(&header.shape);
    if bytes.len() as u64 > wanted {
        return Err(format!(
            "there is more data than the {wanted} bytes of shape {shape}"
        ));
    }
    if (bytes.len() as u64) < wanted {
        let found = bytes.len();
        return Err(format!(
            "it has {found} bytes of data, shape {shape} needs {wanted}"
        ));
    }
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

/// How an element type travels, in words.
fn wanted(dtype: DType) -> String {
    let kind = Kind::of(dtype);
    match dtype {
        DType::BF16 => format!("{kind} (the bits of bf16)"),
        DType::Int { bits: ..8, .. } if !dtype.is_bool() => format!("{kind} ({dtype})"),
        DType::F64 | DType::F32 | DType::F16 | DType::Int { .. } => kind.to_string(),
    }
}

impl Kind {
    /// How an element type is written.
    #[must_use]
    pub fn of(dtype: DType) -> Kind {
        let width = storage_bytes(dtype);
        match dtype {
            DType::F64 | DType::F32 | DType::F16 => Kind::Float(width),
            DType::BF16 => Kind::Uint(2),
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

    /// Whether an array of this kind may stand for a tensor of this element type.
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
