//! The committed models import, verify, and survive mutation.

use optc_ir::{text, verify};
use optc_onnx::{Options, import};
use std::path::PathBuf;

/// Mutations tried per model.
const MUTATIONS: u64 = 400;

fn models() -> Vec<(String, Vec<u8>)> {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../tests/models");
    let entries = std::fs::read_dir(folder)
        .unwrap()
        .map(|e| e.unwrap().path());
    let mut paths: Vec<PathBuf> = entries
        .filter(|p| p.extension().is_some_and(|e| e == "onnx"))
        .collect();
    paths.sort();
    assert!(13 <= paths.len(), "the models are there");
    let name = |p: &PathBuf| p.file_name().unwrap().to_str().unwrap().to_owned();
    paths
        .iter()
        .map(|p| (name(p), std::fs::read(p).unwrap()))
        .collect()
}

#[test]
fn every_model_imports_and_verifies_without_an_opaque_op() {
    for (name, bytes) in models() {
        let import = import(
            &bytes,
            &Options {
                name: Some(name.clone()),
                ..Options::default()
            },
        )
        .unwrap();
        assert!(import.diags.is_empty(), "{name}: {:?}", import.diags);
        let func = &import.module.funcs[0];
        let opaque = func
            .body
            .iter()
            .find(|&&op| &*func.ops[op].name == "hbir.opaque");
        assert!(opaque.is_none(), "{name} has an opaque operation");
        let verified = verify::verify(&import.module, &optc_ops::registry());
        assert!(verified.is_ok(), "{name}: {verified:?}");
        let printed = text::print(&import.module);
        let parsed = text::parse(&printed).unwrap_or_else(|d| panic!("{name}: {d:?}"));
        assert_eq!(text::print(&parsed), printed, "{name}");
    }
}

#[test]
fn import_is_deterministic() {
    for (name, bytes) in models() {
        let print = || text::print(&import(&bytes, &Options::default()).unwrap().module);
        assert_eq!(print(), print(), "{name}");
    }
}

/// A generator of reproducible numbers (xorshift).
struct Random(u64);

impl Random {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % n as u64) as usize
    }
}

/// Mutates a few bytes: flips, replaces, removes or repeats them.
fn mutate(bytes: &[u8], random: &mut Random) -> Vec<u8> {
    let mut out = bytes.to_vec();
    for _ in 0..=random.below(4) {
        let at = random.below(out.len());
        match random.below(5) {
            0 => out[at] ^= 1 << random.below(8),
            1 => out[at] = random.below(256) as u8,
            2 => out.truncate(at.max(1)),
            3 => drop(out.drain(at..(at + 1 + random.below(8)).min(out.len()))),
            _ => {
                let part = out[at..(at + 1 + random.below(16)).min(out.len())].to_vec();
                out.splice(at..at, part);
            }
        }
        if out.is_empty() {
            break;
        }
    }
    out
}

/// Mutates models without the bytes of their larger weights, so that mutations hit the structure.
#[test]
fn mutated_models_never_panic() {
    let registry = optc_ops::registry();
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut accepted, mut total) = (0, 0);
    for (_, bytes) in models().into_iter().filter(|(_, b)| b.len() < 20_000) {
        for _ in 0..MUTATIONS {
            let mutant = mutate(&bytes, &mut random);
            total += 1;
            if let Ok(import) = import(&mutant, &Options::default()) {
                accepted += 1;
                let verified = verify::verify(&import.module, &registry);
                assert!(
                    verified.is_ok(),
                    "{verified:?}\n{}",
                    text::print(&import.module)
                );
            }
        }
    }
    assert!(
        3000 < total && 0 < accepted && accepted < total,
        "{accepted} of {total}"
    );
}

#[test]
fn every_truncation_of_a_small_model_is_handled() {
    let (_, bytes) = models().into_iter().min_by_key(|(_, b)| b.len()).unwrap();
    for n in 0..bytes.len() {
        let result = import(&bytes[..n], &Options::default());
        if let Err(diags) = result {
            assert!(!diags.is_empty());
        }
    }
}
