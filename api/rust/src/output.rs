//! Writing files so that nothing half-written is ever seen.

use crate::error::Error;
use std::fs;
use std::path::{Path, PathBuf};

/// Writes a file beside its place and renames it there: a reader sees the old bytes or all of the
/// new ones, and nothing is left behind when it fails.
///
/// A symbolic link is followed; what is no regular file (a pipe, `/dev/null`) is written to.
///
/// # Errors
/// The folder does not exist or cannot be written to.
pub fn write_aside(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    let failed = |e: std::io::Error| Error::io("write", path, &e);
    match fs::metadata(path) {
        Ok(meta) if !meta.is_file() => fs::write(path, bytes).map_err(failed),
        Ok(_) => replace(&path.canonicalize().map_err(failed)?, bytes).map_err(failed),
        Err(_) => replace(path, bytes).map_err(failed),
    }
}

fn replace(path: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let aside = aside_of(path);
    let done = fs::write(&aside, bytes).and_then(|()| fs::rename(&aside, path));
    if done.is_err() {
        // The error that is reported is the first one; a second one, while cleaning up, adds nothing.
        let _ = fs::remove_file(&aside);
    }
    done
}

/// A name in the same folder that no other process uses.
fn aside_of(path: &Path) -> PathBuf {
    let name = path
        .file_name()
        .map(|n| n.to_string_lossy().into_owned())
        .unwrap_or_default();
    path.with_file_name(format!(".{name}.{}.tmp", std::process::id()))
}
