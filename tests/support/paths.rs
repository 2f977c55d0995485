//! Paths and lists of the workspace's files.

use std::path::{Path, PathBuf};

/// The root folder of the workspace.
#[must_use]
pub fn root() -> PathBuf {
    let tests = Path::new(env!("CARGO_MANIFEST_DIR"));
    tests
        .parent()
        .expect("the tests are a folder of the workspace")
        .to_owned()
}

/// All files below `folder` with this extension, sorted; empty if there is no such folder.
#[must_use]
pub fn files(folder: &Path, extension: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        let Ok(entries) = std::fs::read_dir(&folder) else {
            continue;
        };
        for path in entries.filter_map(|e| e.ok().map(|e| e.path())) {
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    found
}

/// A path relative to the workspace's root, with `/` as separator.
#[must_use]
pub fn relative(path: &Path) -> String {
    let inside = path.strip_prefix(root()).unwrap_or(path);
    let parts: Vec<_> = inside.iter().map(|p| p.to_string_lossy()).collect();
    parts.join("/")
}
