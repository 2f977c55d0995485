//! Reading files and streams, as far as they may be long.

use crate::codes;
use crate::error::Error;
use optc_ir::Diagnostic;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a regular file that is read whole: what a protocol buffer, and so an ONNX model
/// without its external data, may have.
pub const MAX_FILE_BYTES: u64 = 1 << 31;

/// The most bytes of a pipe, a device or standard input, whose length nobody says: reading what never
/// ends stops with well below 1 GB in memory.
pub const MAX_STREAM_BYTES: u64 = 1 << 29;

/// The most bytes by which the buffer of an input grows at once.
const MAX_STEP: u64 = 1 << 26;

/// Reads a file whole.
///
/// # Errors
/// `io-read` where it cannot be read; `input-too-large` where it is longer than [`MAX_FILE_BYTES`], or
/// is no regular file and gives more than [`MAX_STREAM_BYTES`].
pub fn read_file(path: &Path) -> Result<Vec<u8>, Error> {
    let failed = |e: io::Error| Error::io("read", path, &e);
    let file = File::open(path).map_err(failed)?;
    let meta = file.metadata().map_err(failed)?;
    let name = path.display().to_string();
    if meta.is_file() && MAX_FILE_BYTES < meta.len() {
        return Err(too_large(
            &name,
            &format!("{} bytes", meta.len()),
            MAX_FILE_BYTES,
        ));
    }
    // A file that grows, or whose length is not known, as under `/proc`, is a stream.
    read_bounded(&name, file, meta.len().max(MAX_STREAM_BYTES))
}

/// Reads a file of text whole.
///
/// # Errors
/// As [`read_file`]; `io-read` for what is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read_file(path)?)
        .map_err(|e| Error::io("read", path, &io::Error::other(e.utf8_error())))
}

/// Reads a stream to its end; messages call it `name`.
///
/// # Errors
/// `io-read` where it cannot be read, `input-too-large` where it gives more than
/// [`MAX_STREAM_BYTES`].
pub fn read_stream(name: &str, source: impl Read) -> Result<Vec<u8>, Error> {
    read_bounded(name, source, MAX_STREAM_BYTES)
}

fn read_bounded(name: &str, mut source: impl Read, limit: u64) -> Result<Vec<u8>, Error> {
    let failed = |e: io::Error| Error::io("read", Path::new(name), &e);
    let mut bytes = Vec::new();
    loop {
        let found = bytes.len() as u64;
        if limit < found {
            return Err(too_large(name, &format!("more than {limit} bytes"), limit));
        }
        let step = found.clamp(1 << 16, MAX_STEP).min(limit + 1 - found);
        let room = usize::try_from(step).unwrap_or(usize::MAX);
        bytes
            .try_reserve_exact(room)
            .map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        let read = (&mut source)
            .take(step)
            .read_to_end(&mut bytes)
            .map_err(failed)?;
        if (read as u64) < step {
            return Ok(bytes);
        }
    }
}

fn too_large(name: &str, found: &str, limit: u64) -> Error {
    let message = format!("`{name}` is too large: found {found}, wanted at most {limit}");
    let hint =
        "large weights lie beside the program, as external data; a pipe takes less than a file";
    Error::about(
        name,
        Diagnostic::error(codes::INPUT_TOO_LARGE, message).note(hint),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A stream that never ends, and how much was taken of it.
    struct Endless(u64);

    impl Read for &mut Endless {
        fn read(&mut self, out: &mut [u8]) -> io::Result<usize> {
            self.0 += out.len() as u64;
            Ok(out.len())
        }
    }

    #[test]
    fn a_stream_is_read_up_to_its_limit() {
        for limit in [0, 1, 65_535, 65_536, 1_000_000] {
            let mut endless = Endless(0);
            let error = read_bounded("s", &mut endless, limit).unwrap_err();
            assert_eq!(error.code(), "input-too-large");
            assert_eq!(endless.0, limit + 1);
            let mut zeros = Endless(0);
            let whole = (&mut zeros).take(limit);
            assert_eq!(read_bounded("s", whole, limit).unwrap().len() as u64, limit);
        }
    }
}
