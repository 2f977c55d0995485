//! The codes of the diagnostics that the command and the façade add.

/// Each code with a line that explains it, sorted.
pub const CODES: &[(&str, &str)] = &[
    (
        "boundary-differs",
        "two programs to compare have other arguments or results",
    ),
    (
        "certificate-program",
        "a certificate is about another program",
    ),
    ("certificate-syntax", "a file is no certificate"),
    ("fail-if", "a condition of `--fail-if` holds"),
    ("format-unsupported", "a format that is not read"),
    ("function-missing", "a program has no function to run"),
    ("index-bounds", "an index is out of bounds of its tensor"),
    (
        "index-rank",
        "an index has more or fewer numbers than its tensor dimensions",
    ),
    ("internal-error", "the compiler failed; a defect of optc"),
    ("io-read", "a file cannot be read"),
    ("io-write", "a file cannot be written"),
    (
        "layout-notation",
        "a layout cannot be written in the notation asked for",
    ),
    ("no-tests", "no file test was found"),
    ("not-equivalent", "two programs compute different numbers"),
    (
        "npz-input",
        "an archive of inputs is broken or does not fit the arguments",
    ),
    ("target-file", "a target file is not well formed"),
    (
        "tensor-syntax",
        "the text of a tensor on the command line cannot be read",
    ),
    ("text-encoding", "a program's text is no UTF-8"),
    (
        "unknown-port",
        "an option names an argument or result that does not exist",
    ),
    ("unknown-target", "a target that does not exist"),
    (
        "unknown-value",
        "`--explain` names a value that the result does not have",
    ),
    ("vectors-kind", "conformance vectors of an unknown kind"),
    ("vectors-syntax", "a file holds no conformance vectors"),
    (
        "view-shape",
        "the shape or permutation of `optc layout view` does not fit",
    ),
];

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::path::{Path, PathBuf};

    fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                sources(&path, found);
            } else if !path.ends_with("codes.rs") {
                found.push(path);
            }
        }
    }

    #[test]
    fn the_list_is_what_the_sources_use() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mut files = Vec::new();
        sources(&root.join("src"), &mut files);
        sources(&root.join("../../api/rust/src"), &mut files);
        let text: String = files
            .iter()
            .map(|p| fs::read_to_string(p).unwrap())
            .collect();
        for (code, line) in CODES {
            assert!(
                text.contains(&format!("\"{code}\"")) || text.contains(&format!("[{code}]")),
                "{code}"
            );
            assert!(!line.ends_with('.'), "{line}");
        }
        for maker in ["Diagnostic::error(", "Diagnostic::warning("] {
            for (at, _) in text.match_indices(maker) {
                let rest = text[at + maker.len()..].trim_start().strip_prefix('"');
                let Some(code) = rest.and_then(|r| r.split('"').next()) else {
                    continue;
                };
                let known = CODES.iter().any(|(c, _)| *c == code) || code == "bad-thing";
                assert!(known, "`{code}` is not listed");
            }
        }
        assert!(CODES.is_sorted_by_key(|(code, _)| code));
    }
}
