//! Writing files so that nothing half-written is ever seen.

use crate::codes;
use crate::error::Error;
use optc_ir::Diagnostic;
use std::collections::BTreeSet;
use std::fs::{self, File, OpenOptions, Permissions, TryLockError};
use std::hash::{BuildHasher, RandomState};
use std::io::{self, ErrorKind, Write};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Writes a file beside its place and renames it there: a reader sees the old bytes or all of the
/// new ones, and nothing is left behind when it fails.
///
/// A symbolic link is followed, also one that names nothing yet; the file keeps its permissions.
/// What is no regular file (a pipe, `/dev/null`), and an open file under `/dev` or `/proc` such as
/// `/dev/stdout`, is written to as it is.
///
/// # Errors
/// The folder does not exist or cannot be written to.
pub fn write_aside(path: &Path, bytes: &[u8]) -> Result<(), Error> {
    write_files(&[(path, bytes)])
}

/// Writes several files as [`write_aside`] does: none takes its place before all are written.
///
/// # Errors
/// Two of them are one file (`output-twice`), or the first file that cannot be written. Where only
/// its last step fails, the renaming, the files before it are already in place.
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

/// Checks that no two of these outputs are one file, however their paths are spelled. Pipes and
/// devices take the bytes of all.
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

/// Removes what this process is writing and has not finished, for one that is about to end. What is written later fails.
pub fn remove_drafts() {
    for path in &*drafts() {
        // A file that is gone already needs no removal.
        let _ = fs::remove_file(path);
    }
}

/// The file that an output with this path becomes: absolute, all links followed. Nothing for what is
/// written to as it is, and for a path whose folder does not exist.
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

/// The most symbolic links in a row, as on Linux.
const MAX_LINKS: usize = 40;

/// What a path to write to stands for.
enum Target {
    /// A regular file, there or not yet, and the permissions it has.
    File(PathBuf, Option<Permissions>),
    /// A pipe, a device, or a file that is already open: it takes bytes as they come.
    Direct,
}

impl Target {
    /// Follows the links of a path one by one, so that one that names nothing yet leads to the place
    /// of the file to be.
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

/// Whether a link stands for a file that some process has open. What such a link names is a
/// description, and replacing that file would take it from whoever opened it.
fn is_open_file(link: &Path) -> bool {
    let folder = folder_of(link).canonicalize();
    folder.is_ok_and(|folder| folder.starts_with("/proc") || folder.starts_with("/dev/fd"))
}

/// The folder a path stands in.
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
    /// Nothing yet: the place takes bytes as they come.
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
            // What was written before, by whoever opened it, stays.
            Draft::Direct(path, bytes) => {
                let mut file = OpenOptions::new().append(true).open(path)?;
                file.write_all(bytes)
            }
        }
    }
}

/// A file beside its place, removed unless it is published. It is locked as long as it is there: what nobody has locked
/// was left by a process that was killed.
struct Aside {
    path: PathBuf,
    place: PathBuf,
    file: File,
}

impl Aside {
    /// How often another name is tried, should one be taken.
    const ATTEMPTS: usize = 16;

    /// The prefix and the suffix of the names of such files; sixteen digits stand between.
    const NAME: (&'static str, &'static str) = (".optc-", ".tmp");

    /// A new file that nothing else had opened, under a name that cannot be foreseen: what lies in
    /// the folder, a link that someone put there included, is never written to. A `private` one can
    /// be read by nobody else until it gets its permissions.
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
                    // Somebody who removes leftovers may have found it before it was locked.
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

    /// Removes files of a folder that processes left which were killed: those that nobody has locked.
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
            // A file that cannot be opened, locked or removed stays: it is not ours.
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
        // After a rename there is nothing to remove; a failure to clean up adds nothing to the error
        // that is reported.
        let _ = fs::remove_file(&self.path);
        drafts().remove(&self.path);
    }
}
