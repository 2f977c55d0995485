//! Writing files so that nothing half-written is ever seen.

use crate::error::Error;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Writes a file beside its place and renames it there: a reader sees the old bytes or all of the
/// new ones, and nothing is left behind when it fails.
///
/// A symbolic link is followed; what is no regular file (a pipe, `/dev/null`) is written to.
///
/// # Errors
/// The folder does not exist or cannot be written to.
pub fn write_aside(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_files(&[(path, bytes)])
}

/// Writes several files as [`write_aside`] does: none takes its place before all are written.
///
/// # Errors
/// The first file that cannot be written. Where only its last step fails, the renaming, the files
/// before it are already in place.
pub fn write_files(files: &[(&Path, &[u8])]) -> Result<(), Error> {
    let mut drafts = Vec::with_capacity(files.len());
    for (path, bytes) in files {
        let draft = Draft::new(path, bytes).map_err(|e| Error::io("write", path, &e))?;
        drafts.push((path, draft));
    }
    for (path, draft) in drafts {
        draft.publish().map_err(|e| Error::io("write", path, &e))?;
    }
    Ok(())
}

/// The bytes of a file that is not yet in its place.
enum Draft<'a> {
    /// A file beside the place.
    Aside(Aside),
    /// Nothing yet: the place takes bytes as they come.
    Direct(PathBuf, &'a [u8]),
}

impl Draft<'_> {
    fn new<'a>(path: &Path, bytes: &'a [u8]) -> io::Result<Draft<'a>> {
        let (place, old) = match fs::metadata(path) {
            Ok(meta) if meta.is_dir() => return Err(io::ErrorKind::IsADirectory.into()),
            Ok(meta) if !meta.is_file() => return Ok(Draft::Direct(path.to_owned(), bytes)),
            Ok(meta) => (path.canonicalize()?, Some(meta.permissions())),
            Err(_) => (path.to_owned(), None),
        };
        let (aside, mut file) = Aside::create(place)?;
        file.write_all(bytes)?;
        if let Some(permissions) = old {
            file.set_permissions(permissions)?;
        }
        Ok(Draft::Aside(aside))
    }

    fn publish(self) -> io::Result<()> {
        match self {
            Draft::Aside(aside) => aside.publish(),
            Draft::Direct(path, bytes) => fs::write(path, bytes),
        }
    }
}

/// A file beside its place, removed unless it is published.
struct Aside {
    path: PathBuf,
    place: PathBuf,
}

impl Aside {
    fn create(place: PathBuf) -> io::Result<(Aside, File)> {
        /// Numbers the files of this process, which several threads may write at once.
        static NEXT: AtomicU64 = AtomicU64::new(0);
        let n = NEXT.fetch_add(1, Ordering::Relaxed);
        let path = place.with_file_name(format!(".optc-{}-{n}.tmp", std::process::id()));
        let file = File::create(&path)?;
        Ok((Aside { path, place }, file))
    }

    fn publish(self) -> io::Result<()> {
        fs::rename(&self.path, &self.place)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // After a rename there is nothing to remove; a failure to clean up adds nothing to the error
        // that is reported.
        let _ = fs::remove_file(&self.path);
    }
}
