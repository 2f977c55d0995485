//! Groups that the physical executor runs tile by tile: bit for bit the same as untiled, in memory that is poisoned
//! before every program, on any number of threads.

use crate::support;

#[allow(
    dead_code,
    unreachable_pub,
    reason = "the blocks of another crate's tests"
)]
#[path = "../../../tests/support/layout_bound.rs"]
mod layout_bound;

use layout_bound::{Numbers, blocks};
use std::fs;
use std::path::{Path, PathBuf};
use support::{Folder, optc};

const FOLD: &str = "--pass=canonicalize,view-fold,tile-propagate";
const PLAIN: &str = "--pass=tile-propagate";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The target `cpu` with this number of bytes of fast memory, as an option.
fn cpu(folder: &Folder, bytes: u64) -> String {
    let text = fs::read_to_string(root().join("targets/builtin/cpu.toml")).expect("it is there");
    let small = text.replace("bytes = 1048576", &format!("bytes = {bytes}"));
    assert_ne!(text, small, "the fast memory has another size");
    let path = folder.write(&format!("cpu{bytes}.toml"), &small);
    format!("--target={path}")
}

/// Runs a program untiled, and tile by tile on several numbers of threads, which must agree; returns the output on one
/// thread.
#[track_caller]
fn same(input: &str, passes: &str, target: &str, threads: &[&str]) -> String {
    let mut first = None;
    for threads in threads {
        let args = [
            "bench",
            passes,
            target,
            threads,
            "--vs=untiled",
            "--runs=1",
            input,
        ];
        let text = optc(&args).ok();
        assert!(text.contains("bit for bit"), "{input}: {text}");
        first.get_or_insert(text);
    }
    first.expect("it was run")
}

#[test]
fn blocks_that_layouts_bound_give_the_same_tile_by_tile() {
    let folder = Folder::new("tiles_bound");
    let targets = [1 << 13, 1 << 16].map(|bytes| cpu(&folder, bytes));
    let threads = ["--threads=1", "--threads=2", "--threads=4"];
    let mut on_tiles = 0;
    for block in Numbers::ALL.iter().flat_map(|&n| blocks(n, true)) {
        let input = folder.write(&format!("{}.ir", block.name), &block.text);
        let ways = [
            (FOLD, &targets[0]),
            (PLAIN, &targets[0]),
            (FOLD, &targets[1]),
        ];
        let ran = ways.map(|(passes, target)| same(&input, passes, target, &threads));
        on_tiles += ran.iter().filter(|text| text.contains(" tiles ")).count();
    }
    assert!(15 < on_tiles, "{on_tiles} runs had groups on tiles");
}

#[test]
fn blocks_of_models_give_the_same_tile_by_tile() {
    let folder = Folder::new("tiles_models");
    let target = cpu(&folder, 1 << 14);
    let (mut on_tiles, mut reasons) = (0, Vec::new());
    let mut inputs: Vec<PathBuf> = fs::read_dir(root().join("tests/blocks"))
        .expect("there are some")
        .map(|entry| entry.expect("it can be read").path())
        .filter(|path| path.extension().is_some_and(|e| e == "ir"))
        .collect();
    inputs.sort();
    for input in inputs {
        let text = same(
            &input.display().to_string(),
            FOLD,
            &target,
            &["--threads=1", "--threads=3"],
        );
        on_tiles += usize::from(text.contains(" tiles "));
        let left = text.lines().filter(|line| line.contains("is run untiled"));
        reasons.extend(left.map(str::to_owned));
    }
    assert!(
        10 < on_tiles,
        "{on_tiles} programs ran on tiles, and not {reasons:#?}"
    );
}
