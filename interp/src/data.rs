//! Sources of the bytes of external constants.

use indexmap::IndexMap;
use optc_ir::DType;
use std::fs::{self, File, Metadata};
use std::io::{ErrorKind, Read, Seek, SeekFrom};
use std::path::{Component, Path, PathBuf};
use thiserror::Error;

/// Gives the bytes that `#hbir.external<"file", offset, length>` refers to.
pub trait DataSource {
    /// The `length` bytes of `file` from `offset` on: little-endian, row-major elements of `dtype`.
    ///
    /// # Errors
    /// The bytes do not exist, or may not be read.
    fn read(
        &self,
        file: &str,
        offset: u64,
        length: u64,
        dtype: DType,
    ) -> Result<Vec<u8>, DataError>;
}

/// The reason why external bytes cannot be read.
#[derive(Clone, Debug, Error, PartialEq, Eq)]
pub enum DataError {
    /// There is no such file.
    #[error("the external data file `{file}` does not exist{place}")]
    Missing {
        /// The file as the program names it.
        file: String,
        /// ` in <folder>`, or nothing.
        place: String,
    },
    /// The path leads out of the program's folder.
    #[error("the external data path `{file}` leaves the program's folder")]
    Escapes {
        /// The file as the program names it.
        file: String,
    },
    /// The file ends too early.
    #[error("`{file}` has {found} bytes, wanted {length} from byte {offset} on")]
    Short {
        /// The file as the program names it.
        file: String,
        /// The first byte wanted.
        offset: u64,
        /// The number of bytes wanted.
        length: u64,
        /// The size of the file.
        found: u64,
    },
    /// A pipe, a device or a folder.
    #[error("the external data file `{file}` is not a regular file")]
    Irregular {
        /// The file as the program names it.
        file: String,
    },
    /// Any other failure of the file system.
    #[error("cannot read the external data file `{file}`: {problem}")]
    Io {
        /// The file as the program names it.
        file: String,
        /// The message of the system.
        problem: String,
    },
}

/// No files at all: for programs whose constants are all in the text.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoData;

impl DataSource for NoData {
    fn read(&self, file: &str, _: u64, _: u64, _: DType) -> Result<Vec<u8>, DataError> {
        Err(DataError::Missing {
            file: file.to_owned(),
            place: String::new(),
        })
    }
}

/// Files below one folder. Paths that leave it, also through symbolic links, are refused.
#[derive(Clone, Debug)]
pub struct FolderSource {
    folder: PathBuf,
}

impl FolderSource {
    /// The files below `folder`.
    pub fn new(folder: impl Into<PathBuf>) -> FolderSource {
        FolderSource {
            folder: folder.into(),
        }
    }

    fn resolve(&self, file: &str) -> Result<PathBuf, DataError> {
        if !stays_inside(file) {
            return Err(DataError::Escapes {
                file: file.to_owned(),
            });
        }
        let io = |e: std::io::Error| self.io(file, &e);
        let folder = if self.folder.as_os_str().is_empty() {
            Path::new(".")
        } else {
            &self.folder
        };
        let root = folder.canonicalize().map_err(io)?;
        let path = root.join(file).canonicalize();
        let path = path
            .or_else(|e| read_so(&root, file).ok_or(e))
            .map_err(io)?;
        if !path.starts_with(&root) {
            return Err(DataError::Escapes {
                file: file.to_owned(),
            });
        }
        Ok(path)
    }

    fn io(&self, file: &str, error: &std::io::Error) -> DataError {
        let file = file.to_owned();
        if error.kind() == ErrorKind::NotFound {
            let place = match self.folder.as_os_str().is_empty() {
                true => String::new(),
                false => format!(" in {}", self.folder.display()),
            };
            return DataError::Missing { file, place };
        }
        DataError::Io {
            file,
            problem: error.to_string(),
        }
    }
}

impl DataSource for FolderSource {
    fn read(&self, file: &str, offset: u64, length: u64, _: DType) -> Result<Vec<u8>, DataError> {
        let path = self.resolve(file)?;
        let io = |e: std::io::Error| self.io(file, &e);
        let irregular = |meta: &Metadata| match meta.is_file() {
            true => Ok(()),
            false => Err(DataError::Irregular {
                file: file.to_owned(),
            }),
        };
        // The kind of file is asked first, since opening a pipe waits for its other end.
        irregular(&fs::metadata(&path).map_err(io)?)?;
        let mut handle = File::open(path).map_err(io)?;
        let meta = handle.metadata().map_err(io)?;
        irregular(&meta)?;
        let found = meta.len();
        if offset.checked_add(length).is_none_or(|end| end > found) {
            return Err(DataError::Short {
                file: file.to_owned(),
                offset,
                length,
                found,
            });
        }
        handle.seek(SeekFrom::Start(offset)).map_err(io)?;
        let mut bytes = Vec::new();
        handle.take(length).read_to_end(&mut bytes).map_err(io)?;
        if bytes.len() as u64 != length {
            return Err(DataError::Short {
                file: file.to_owned(),
                offset,
                length,
                found,
            });
        }
        Ok(bytes)
    }
}

/// The one file of a folder whose name is not valid text and is displayed as `file`.
fn read_so(folder: &Path, file: &str) -> Option<PathBuf> {
    if !file.contains(char::REPLACEMENT_CHARACTER) {
        return None;
    }
    let entries = std::fs::read_dir(folder).ok()?.flatten();
    let mut found = entries.filter(|entry| entry.file_name().to_string_lossy() == file);
    let entry = found.next()?;
    if found.next().is_some() {
        return None;
    }
    entry.path().canonicalize().ok()
}

/// Returns whether a path, by its text alone, names something below the folder that it is relative to.
fn stays_inside(file: &str) -> bool {
    let bytes = file.as_bytes();
    let drive = bytes.len() >= 2 && bytes[0].is_ascii_alphabetic() && bytes[1] == b':';
    if file.is_empty() || drive || file.contains(['\\', '\0']) {
        return false;
    }
    Path::new(file)
        .components()
        .all(|c| matches!(c, Component::Normal(_) | Component::CurDir))
}

/// Files in memory, by name.
#[derive(Clone, Debug, Default)]
pub struct MemorySource {
    /// The files.
    pub files: IndexMap<String, Vec<u8>>,
}

impl DataSource for MemorySource {
    fn read(&self, file: &str, offset: u64, length: u64, _: DType) -> Result<Vec<u8>, DataError> {
        let Some(bytes) = self.files.get(file) else {
            return Err(DataError::Missing {
                file: file.to_owned(),
                place: String::new(),
            });
        };
        let found = bytes.len() as u64;
        let part = offset
            .checked_add(length)
            .and_then(|end| bytes.get(usize::try_from(offset).ok()?..usize::try_from(end).ok()?));
        let short = || DataError::Short {
            file: file.to_owned(),
            offset,
            length,
            found,
        };
        part.map(<[u8]>::to_vec).ok_or_else(short)
    }
}

/// The first source, and the second one for files that the first does not have.
#[derive(Clone, Debug)]
pub struct FallbackSource<A, B> {
    /// Asked first.
    pub first: A,
    /// Asked when the first one has no such file.
    pub second: B,
}

impl<A: DataSource, B: DataSource> DataSource for FallbackSource<A, B> {
    fn read(
        &self,
        file: &str,
        offset: u64,
        length: u64,
        dtype: DType,
    ) -> Result<Vec<u8>, DataError> {
        match self.first.read(file, offset, length, dtype) {
            Err(DataError::Missing { .. }) => self.second.read(file, offset, length, dtype),
            done => done,
        }
    }
}

impl<T: DataSource + ?Sized> DataSource for &T {
    fn read(
        &self,
        file: &str,
        offset: u64,
        length: u64,
        dtype: DType,
    ) -> Result<Vec<u8>, DataError> {
        (**self).read(file, offset, length, dtype)
    }
}
