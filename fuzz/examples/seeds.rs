//! Fills `corpus/TARGET` with what the repository has: `cargo run --example seeds`.
//!
//! Programs and models of the tests, and the broken ones of `tests/door`; names are hashes of the
//! bytes, as libFuzzer's own.

use optc_tests::mutate::cases;
use optc_tests::paths::{files, root};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::Path;

/// Larger inputs make every run slow and are not needed: small ones reach the same code.
const MOST_BYTES: usize = 16_000;

fn main() -> std::io::Result<()> {
    let corpus = root().join("fuzz/corpus");
    let mut count = 0;
    for path in files(&root().join("tests"), "ir") {
        count += usize::from(write(&corpus.join("ir"), &std::fs::read(path)?)?);
    }
    for path in files(&root().join("tests/models"), "onnx") {
        count += usize::from(write(&corpus.join("onnx"), &std::fs::read(path)?)?);
    }
    for list in files(&root().join("tests/door"), "txt") {
        for case in cases(&list) {
            let target = if case.name.ends_with(".onnx") {
                "onnx"
            } else {
                "ir"
            };
            count += usize::from(write(&corpus.join(target), &case.bytes)?);
        }
    }
    for path in files(&root().join("tests/cases"), "ir") {
        for ty in types(&std::fs::read_to_string(path)?) {
            count += usize::from(write(&corpus.join("layout"), ty.as_bytes())?);
        }
    }
    for path in files(&root().join("frontends/hlo/tests"), "hlo") {
        count += usize::from(write(&corpus.join("hlo"), &std::fs::read(path)?)?);
    }
    for (target, vectors) in [("hlo", "hlo_modules"), ("layout", "layout_text")] {
        for text in vector_texts(&root().join(format!("spec/vectors/{vectors}.json")))? {
            count += usize::from(write(&corpus.join(target), text.as_bytes())?);
        }
    }
    println!("{count} seeds in {}", corpus.display());
    Ok(())
}

/// The `text` of each vector of a file: one vector a line.
fn vector_texts(path: &Path) -> std::io::Result<Vec<String>> {
    let key = "\"text\": \"";
    let file = std::fs::read_to_string(path)?;
    let one = |line: &str| {
        let (_, rest) = line.split_once(key)?;
        let mut text = String::new();
        let mut chars = rest.chars();
        loop {
            match chars.next()? {
                '"' => return Some(text),
                '\\' => match chars.next()? {
                    'n' => text.push('\n'),
                    't' => text.push('\t'),
                    // Other escapes stand for themselves.
                    c => text.push(c),
                },
                c => text.push(c),
            }
        }
    };
    Ok(file.lines().filter_map(one).collect())
}

/// The tensor types with a layout in a program.
fn types(text: &str) -> Vec<&str> {
    let starts = text.match_indices("tensor<").map(|(at, _)| &text[at..]);
    let one = |rest: &'_ str| rest.find("}>").map(|end| end + 2);
    starts
        .filter_map(|rest| Some(&rest[..one(rest)?]))
        .filter(|ty| !ty[1..].contains("tensor<"))
        .collect()
}

fn write(folder: &Path, bytes: &[u8]) -> std::io::Result<bool> {
    if MOST_BYTES < bytes.len() {
        return Ok(false);
    }
    std::fs::create_dir_all(folder)?;
    let mut hasher = DefaultHasher::new();
    bytes.hash(&mut hasher);
    let path = folder.join(format!("{:016x}", hasher.finish()));
    let new = !path.exists();
    std::fs::write(path, bytes)?;
    Ok(new)
}
