//! `optc test`: runs file tests.

use crate::args::TestArgs;
use crate::codes;
use crate::driver::Main;
use crate::dump;
use crate::failure::{Failure, Status};
use crate::filetest::{self, Outcome};
use crate::streams::Streams;
use optc::{Diagnostic, Error, write_aside};
use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

/// The folder of snapshots, beside the tests.
const SNAPSHOTS: &str = "snapshots";

pub(crate) fn command(
    driver: &Main,
    args: &TestArgs,
    streams: &mut Streams<'_>,
) -> Result<Status, Failure> {
    let mut cases = Vec::new();
    for path in &args.paths {
        cases.extend(filetest::discover(path).map_err(|e| Error::io("read", path, &e))?);
    }
    if cases.is_empty() {
        let paths: Vec<String> = args.paths.iter().map(|p| p.display().to_string()).collect();
        let message = "found no file with a `// RUN:` header";
        return Err(Failure::about(
            &paths.join(" "),
            Diagnostic::error(codes::NO_TESTS, message),
        ));
    }
    let (mut passed, mut failed, mut expected, mut blessed) = (0usize, 0usize, 0usize, 0usize);
    for case in &cases {
        let mut outcome = driver.test(case);
        if args.show {
            streams.print(&format!("{}:\n{}\n", case.display(), outcome.snapshot()));
        }
        if outcome.failures.is_empty() && !outcome.is_expected_failure {
            blessed += usize::from(compare(case, &mut outcome, args.bless)?);
        }
        match (outcome.failures.is_empty(), outcome.is_expected_failure) {
            (true, false) => passed += 1,
            (true, true) => expected += 1,
            (false, _) => failed += 1,
        }
        fail(case, &outcome.failures, streams);
    }
    for snapshot in without_case(&args.paths, &cases)? {
        if args.bless {
            fs::remove_file(&snapshot).map_err(|e| Error::io("write", &snapshot, &e))?;
            blessed += 1;
        } else {
            failed += 1;
            let message = "the snapshot belongs to no test; --bless removes it".to_owned();
            fail(&snapshot, &[message], streams);
        }
    }
    let mut summary = format!("{passed} passed, {failed} failed");
    for (count, what) in [
        (expected, "failed as expected"),
        (blessed, "snapshots changed"),
    ] {
        if count != 0 {
            summary += &format!(", {count} {what}");
        }
    }
    streams.line(&summary);
    Ok(if failed == 0 {
        Status::Done
    } else {
        Status::Refused
    })
}

/// Prints the failures of a file; nothing without failures.
fn fail(path: &Path, failures: &[String], streams: &mut Streams<'_>) {
    if !failures.is_empty() {
        streams.line(&format!("FAILED {}", path.display()));
    }
    for failure in failures {
        let indented = failure.replace('\n', "\n    ");
        streams.line(&format!("    {indented}"));
    }
}

/// The snapshot of a test.
fn snapshot_of(case: &Path) -> PathBuf {
    let name = case.file_name().unwrap_or_default().to_string_lossy();
    let folder = case.parent().unwrap_or(Path::new(""));
    folder.join(SNAPSHOTS).join(format!("{name}.snap"))
}

/// Compares a test that passed with its snapshot, or writes the snapshot. Without a folder of snapshots there is nothing
/// to compare with. Returns whether a snapshot was written.
fn compare(case: &Path, outcome: &mut Outcome, bless: bool) -> Result<bool, Error> {
    let path = snapshot_of(case);
    let found = &outcome.portable_snapshot;
    let kept = match fs::read(&path) {
        Ok(bytes) => Some(String::from_utf8_lossy(&bytes).into_owned()),
        Err(_) => None,
    };
    if kept.as_ref() == Some(found) {
        return Ok(false);
    }
    if bless {
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|e| Error::io("write", folder, &e))?;
        }
        write_aside(&path, found.as_bytes())?;
        return Ok(true);
    }
    match kept {
        Some(kept) => {
            let title = path.display().to_string();
            let diff = dump::line_diff(&kept, found, [&title, "found"]);
            let message = "the result differs from the snapshot; --bless accepts it";
            let place = format!("{}:1", case.display());
            outcome
                .failures
                .push(format!("{place}: {message}\n{}", diff.trim_end()));
        }
        None if path.parent().is_some_and(Path::is_dir) => {
            let message = "there is no snapshot; --bless writes it";
            outcome
                .failures
                .push(format!("{}:1: {message}", case.display()));
        }
        None => {}
    }
    Ok(false)
}

/// The snapshots in the folders of these tests that belong to no test. Folders are looked at that were searched whole.
fn without_case(paths: &[PathBuf], cases: &[PathBuf]) -> Result<Vec<PathBuf>, Error> {
    let whole = |case: &&PathBuf| paths.iter().any(|p| p.is_dir() && case.starts_with(p));
    let parents = cases.iter().filter(whole).filter_map(|case| case.parent());
    let folders: BTreeSet<PathBuf> = parents.map(|folder| folder.join(SNAPSHOTS)).collect();
    let known: BTreeSet<PathBuf> = cases.iter().map(|case| snapshot_of(case)).collect();
    let mut found = Vec::new();
    for folder in folders.iter().filter(|folder| folder.is_dir()) {
        let entries = fs::read_dir(folder).map_err(|e| Error::io("read", folder, &e))?;
        for entry in entries {
            let path = entry.map_err(|e| Error::io("read", folder, &e))?.path();
            let is_snapshot = path.extension().is_some_and(|e| e == "snap");
            if is_snapshot && !known.contains(&path) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}
