//! Writes files atomically, so that no half-written file is ever visible.

use crate::codes;
use crate::error::Error;
use optc_ir::Diagnostic;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes a file beside its place and renames it there. A reader sees either the old bytes or all of the new ones, and
/// nothing is left behind after a failure.
///
/// A symbolic link is followed, also one without a target yet; the file keeps its permissions. A path that is not a
/// regular file (a pipe, `/dev/null`), and an open file under `/dev` or `/proc` such as `/dev/stdout`, is written to
/// directly.
///
/// # Errors
/// The folder does not exist or cannot be written to.
pub fn write_aside(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_files(&[(path, bytes)])
}

/// Writes several files as [`write_aside`] does; no file is replaced before all are written.
///
/// ```
/// use optc::{copy_aside, distinct_outputs, output_place, read_file, read_stream, read_text, write_aside, write_files};
///
/// let folder = std::env::temp_dir().join(format!("optc-example-{}", std::process::id()));
/// std::fs::create_dir_all(&folder).unwrap();
/// let [a, b, c] = ["a.ir", "b.ir", "c.ir"].map(|name| folder.join(name));
/// distinct_outputs(&[&a, &b])?;
/// write_files(&[(&a, b"one"), (&b, b"two")])?;
/// write_aside(&b, b"three")?;
/// copy_aside(&b, &c)?;
/// assert_eq!((read_file(&a)?, read_text(&c)?), (b"one".to_vec(), "three".to_owned()));
/// assert_eq!(output_place(&c), Some(c.canonicalize().unwrap()));
/// assert_eq!(read_stream("four", &b"four"[..])?, b"four");
/// std::fs::remove_dir_all(&folder).unwrap();
/// # Ok::<(), optc::Error>(())
/// ```
///
/// # Errors
/// Two of them are one file (`output-twice`), or the first file that cannot be written. If the last step of a file
/// fails, the renaming, the files before it are already replaced.
pub fn write_files(files: &[(&Path, &[u8])]) -> Result<(), Error> {
    let paths: Vec<&Path> = files.iter().map(|(path, _)| *path).collect();
    distinct_outputs(&paths)?;
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

/// Checks that no two of these outputs are one file, however their paths are spelled. Several outputs may share a pipe
/// or device.
///
/// # Errors
/// `output-twice`, with both paths.
pub fn distinct_outputs(paths: &[&Path]) -> Result<(), Error> {
    let mut places: Vec<(PathBuf, &Path)> = Vec::with_capacity(paths.len());
    for &path in paths {
        let Some(place) = output_place(path) else {
            continue;
        };
        if let Some((_, first)) = places.iter().find(|(known, _)| *known == place) {
            let (first, second) = (first.display(), path.display());
            let message = format!("found `{first}` and `{second}`, wanted two files: they are one");
            let diag = Diagnostic::error(codes::OUTPUT_TWICE, message);
            return Err(Error::about(
                &second.to_string(),
                diag.note("give each output a path of its own"),
            ));
        }
        places.push((place, path));
    }
    Ok(())
}

/// Copies a file beside its place and renames it there, as [`write_aside`] writes one.
///
/// # Errors
/// The file cannot be read, or the folder cannot be written to.
pub fn copy_aside(from: &Path, to: &Path) -> Result<(), Error> {
    let mut source = File::open(from).map_err(|e| Error::io("read", from, &e))?;
    let mut copy = || {
        let Target::File(place, old) = Target::of(to)? else {
            let mut file = OpenOptions::new().append(true).open(to)?;
            return io::copy(&mut source, &mut file).map(|_| ());
        };
        let mut aside = Aside::create(place, old.is_some())?;
        if let Some(permissions) = old {
            aside.file.set_permissions(permissions)?;
        }
        io::copy(&mut source, &mut aside.file)?;
        aside.publish()
    };
    copy().map_err(|e| Error::io("write", to, &e))
}

/// The files of this process that have not taken their places yet.
static DRAFTS: Mutex<BTreeSet<PathBuf>> = Mutex::new(BTreeSet::new());

fn drafts() -> MutexGuard<'static, BTreeSet<PathBuf>> {
    DRAFTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Removes the unfinished files of this process, which is about to end. Later writes fail.
pub fn remove_drafts() {
    for path in &*drafts() {
        // A file that is gone already needs no removal.
        let _ = fs::remove_file(path);
    }
}

/// The file to which an output with this path is written: absolute, all links followed. `None` for a path that is
/// written to directly, and for one whose folder does not exist.
#[must_use]
pub fn output_place(path: &Path) -> Option<PathBuf> {
    match Target::of(path).ok()? {
        Target::Direct => None,
        Target::File(place, _) => {
            let folder = folder_of(&place).canonicalize().ok()?;
            Some(folder.join(place.file_name()?))
        }
    }
}

/// The most symbolic links in a row, as in Linux.
const MAX_LINKS: usize = 40;

/// The kind of file at an output path.
enum Target {
    /// A regular file that exists or not, and its permissions.
    File(PathBuf, Option<Permissions>),
    /// A pipe, a device, or a file that is already open: bytes are written to it directly.
    Direct,
}

impl Target {
    /// Follows the links of a path one by one, so that a link without a target leads to the place of the future file.
    fn of(path: &Path) -> io::Result<Target> {
        let mut at = path.to_owned();
        for _ in 0..=MAX_LINKS {
            let meta = match fs::symlink_metadata(&at) {
                Ok(meta) => meta,
                Err(e) if e.kind() == ErrorKind::NotFound => return Ok(Target::File(at, None)),
                Err(e) => return Err(e),
            };
            if meta.is_dir() {
                return Err(ErrorKind::IsADirectory.into());
            }
            if meta.is_file() {
                return Ok(Target::File(at, Some(meta.permissions())));
            }
            if !meta.is_symlink() || is_open_file(&at) {
                return Ok(Target::Direct);
            }
            at = folder_of(&at).join(fs::read_link(&at)?);
        }
        Err(io::Error::other("too many symbolic links"))
    }
}

/// Returns whether a link stands for a file that some process has open. Such a link names a file description; replacing
/// the file would take it away from the process that opened it.
fn is_open_file(link: &Path) -> bool {
    let folder = folder_of(link).canonicalize();
    folder.is_ok_and(|folder| folder.starts_with("/proc") || folder.starts_with("/dev/fd"))
}

/// The folder of a path.
fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        Some(_) => Path::new("."),
        None => path,
    }
}

/// The bytes of a file that is not yet in its place.
enum Draft<'a> {
    /// A file beside the place.
    Aside(Aside),
    /// No file: the bytes are written to the place directly.
    Direct(PathBuf, &'a [u8]),
}

impl Draft<'_> {
    fn new<'a>(path: &Path, bytes: &'a [u8]) -> io::Result<Draft<'a>> {
        let Target::File(place, old) = Target::of(path)? else {
            return Ok(Draft::Direct(path.to_owned(), bytes));
        };
        let mut aside = Aside::create(place, old.is_some())?;
        if let Some(permissions) = old {
            aside.file.set_permissions(permissions)?;
        }
        aside.file.write_all(bytes)?;
        Ok(Draft::Aside(aside))
    }

    fn publish(self) -> io::Result<()> {
        match self {
            Draft::Aside(aside) => aside.publish(),
            // Bytes that the process that opened the file has written before stay.
            Draft::Direct(path, bytes) => {
                let mut file = OpenOptions::new().append(true).open(path)?;
                file.write_all(bytes)
            }
        }
    }
}

/// A file beside its place, removed unless it is published. It is locked during its lifetime: a file without a lock was
/// left by a process that was killed.
struct Aside {
    path: PathBuf,
    place: PathBuf,
    file: File,
}

impl Aside {
    /// The number of attempts with another name if one is taken.
    const ATTEMPTS: usize = 16;

    /// The prefix and the suffix of the names of such files, with sixteen digits between them.
    const NAME: (&'static str, &'static str) = (".optc-", ".tmp");

    /// Creates a new file that nothing else has opened, under a name that cannot be predicted. Existing files in the
    /// folder, including links that someone put there, are thus never written to. No one else can read a `private` one
    /// until it gets its permissions.
    fn create(mut place: PathBuf, private: bool) -> io::Result<Aside> {
        Self::remove_left(folder_of(&place));
        let mut options = OpenOptions::new();
        options.write(true).create_new(true);
        #[cfg(unix)]
        if private {
            std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
        }
        #[cfg(not(unix))]
        let _ = private;
        let mut taken = io::Error::from(ErrorKind::AlreadyExists);
        for attempt in 0..Self::ATTEMPTS {
            let number = RandomState::new().hash_one(attempt);
            let (before, after) = Self::NAME;
            let path = place.with_file_name(format!("{before}{number:016x}{after}"));
            drafts().insert(path.clone());
            match options.open(&path) {
                Ok(file) => {
                    let aside = Aside { path, place, file };
                    // Another process that removes leftovers may have found the file before it was locked.
                    let lost = matches!(aside.file.try_lock(), Err(TryLockError::WouldBlock));
                    if !lost && aside.path.exists() {
                        return Ok(aside);
                    }
                    place = aside.place.clone();
                }
                Err(e) => {
                    drafts().remove(&path);
                    if e.kind() != ErrorKind::AlreadyExists {
                        return Err(e);
                    }
                    taken = e;
                }
            }
        }
        Err(taken)
    }

    /// Removes the files that killed processes left in a folder: those without a lock.
    fn remove_left(folder: &Path) {
        let is_draft = |name: &str| {
            let inner = name.strip_prefix(Self::NAME.0);
            let inner = inner.and_then(|name| name.strip_suffix(Self::NAME.1));
            let hexadecimal = |digits: &str| digits.bytes().all(|b| b.is_ascii_hexdigit());
            inner.is_some_and(|digits| digits.len() == 16 && hexadecimal(digits))
        };
        let entries = fs::read_dir(folder).into_iter().flatten().flatten();
        for entry in entries.filter(|e| e.file_name().to_str().is_some_and(is_draft)) {
            let is_file = entry.file_type().is_ok_and(|ty| ty.is_file());
            // A file that cannot be opened, locked or removed belongs to someone else and stays.
            if is_file
                && let Ok(file) = OpenOptions::new().append(true).open(entry.path())
                && file.try_lock().is_ok()
            {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    fn publish(self) -> io::Result<()> {
        fs::rename(&self.path, &self.place)
    }
}

impl Drop for Aside {
    fn drop(&mut self) {
        // After a rename there is nothing to remove. A failed removal adds nothing to the reported error.
        let _ = fs::remove_file(&self.path);
        drafts().remove(&self.path);
    }
}
