//! Reads files and streams up to a limit.

use crate::codes;
use crate::error::Error;
use optc_ir::Diagnostic;
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// The most bytes of a regular file that is read whole. This is the limit of a protocol buffer, and so of an ONNX model
/// without its external data.
pub const MAX_FILE_BYTES: u64 = 1 << 31;

/// The most bytes of a pipe, a device or standard input, whose length is unknown. An endless stream thus takes well
/// below 1 GB of memory.
pub const MAX_STREAM_BYTES: u64 = 1 << 29;

/// The most bytes of a piece of an input of unknown length.
const MAX_STEP: u64 = 1 << 26;

/// Reads a file whole.
///
/// # Errors
/// `io-read` if it cannot be read; `input-too-large` if it is longer than [`MAX_FILE_BYTES`], or is not a regular file
/// and has more than [`MAX_STREAM_BYTES`].
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
    // A file that grows, or whose length is unknown, as under `/proc`, is treated as a stream.
    let said = if meta.is_file() { meta.len() } else { 0 };
    read_bounded(&name, file, said, said.max(MAX_STREAM_BYTES))
}

/// Reads a file of text whole.
///
/// # Errors
/// As [`read_file`]; `io-read` if it is not UTF-8.
pub fn read_text(path: &Path) -> Result<String, Error> {
    String::from_utf8(read_file(path)?)
        .map_err(|e| Error::io("read", path, &io::Error::other(e.utf8_error())))
}

/// Reads a stream to its end; `name` is its name in messages.
///
/// # Errors
/// `io-read` if it cannot be read, `input-too-large` if it has more than [`MAX_STREAM_BYTES`].
pub fn read_stream(name: &str, source: impl Read) -> Result<Vec<u8>, Error> {
    read_bounded(name, source, 0, MAX_STREAM_BYTES)
}

/// Reads an input whose stated length is `said` bytes, up to `limit` bytes. A longer one is read in pieces that are
/// joined at the end; a buffer that grows would need twice the memory.
fn read_bounded(
    name: &str,
    mut source: impl Read,
    said: u64,
    limit: u64,
) -> Result<Vec<u8>, Error> {
    let failed = |e: io::Error| Error::io("read", Path::new(name), &e);
    let with_room = |room: u64| {
        let mut bytes = Vec::new();
        let room = usize::try_from(room).unwrap_or(usize::MAX);
        let made = bytes.try_reserve_exact(room);
        made.map_err(|_| failed(io::ErrorKind::OutOfMemory.into()))?;
        Ok::<Vec<u8>, Error>(bytes)
    };
    let (mut pieces, mut found) = (Vec::new(), 0u64);
    loop {
        if limit < found {
            return Err(too_large(name, &format!("more than {limit} bytes"), limit));
        }
        let step = match found {
            0 => said.saturating_add(1).max(1 << 16),
            _ => found.min(MAX_STEP),
        };
        let step = step.min(limit + 1 - found);
        let mut piece: Vec<u8> = with_room(step)?;
        let read = (&mut source)
            .take(step)
            .read_to_end(&mut piece)
            .map_err(failed)? as u64;
        found += read;
        pieces.push(piece);
        if read < step {
            break;
        }
    }
    let mut pieces = pieces.into_iter();
    let mut whole = pieces.next().unwrap_or_default();
    if 0 < pieces.len() {
        let first = std::mem::replace(&mut whole, with_room(found)?);
        whole.extend_from_slice(&first);
    }
    pieces.for_each(|piece| whole.extend_from_slice(&piece));
    Ok(whole)
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

    /// An endless stream, and the number of bytes taken from it.
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
            let error = read_bounded("s", &mut endless, 0, limit).unwrap_err();
            assert_eq!(error.code(), "input-too-large");
            assert_eq!(endless.0, limit + 1);
            let mut zeros = Endless(0);
            let whole = (&mut zeros).take(limit);
            assert_eq!(
                read_bounded("s", whole, 0, limit).unwrap().len() as u64,
                limit
            );
        }
    }

    #[test]
    fn pieces_are_joined_in_order_whatever_is_said() {
        let all: Vec<u8> = (0..300_000u32).map(|i| (i / 7) as u8).collect();
        for said in [0, 1, 65_536, 299_999, 300_000, 400_000] {
            let whole = read_bounded("s", &all[..], said, 1_000_000).unwrap();
            assert_eq!(whole, all, "{said}");
        }
    }
}
