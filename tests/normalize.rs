//! `normalize-layouts`: programs of every kind, folded and made row-major again, compute the same.

use optc_ir::{Module, Registry, text, verify};
use optc_layout::Notation;
use optc_passes::Boundary;
use optc_tests::check::{cases, run_passes, same_meaning, words};
use optc_tests::generate::largest;
use optc_tests::paths::{files, relative, root};
use optc_tests::{Profile, Tally, program};
use std::sync::Arc;

const TARGETS: [&str; 1] = ["cpu"];

/// The largest number of elements of a value in a program that is run.
const MOST_ELEMENTS: u64 = 1 << 15;

fn boundaries() -> [Boundary; 2] {
    let free = Boundary {
        free_all: true,
        ..Boundary::default()
    };
    [Boundary::default(), free]
}

/// The program after the fold and the normalization; `None` if the fold refuses it.
fn normalized(
    module: &Module,
    target: &str,
    boundary: &Boundary,
    registry: &Arc<Registry>,
) -> Option<Result<[Module; 2], String>> {
    let folded = run_passes(module, "canonicalize,view-fold", target, boundary, registry).ok()?;
    let run = run_passes(
        &folded.module,
        "normalize-layouts",
        target,
        boundary,
        registry,
    );
    Some(run.map(|ran| [folded.module, ran.module]))
}

/// Checks that every value is row-major, that the program verifies, and that it computes the same, if it is one that
/// can be run.
fn judge(
    tally: &mut Tally,
    folded: &Module,
    made: &Module,
    registry: &Registry,
) -> Result<(), String> {
    for func in &made.funcs {
        for &op in &func.body {
            let data = &func.ops[op];
            let tensors = data.results.iter().filter_map(|&v| func.ty(v).as_tensor());
            for ty in tensors {
                if ty.notation != Notation::RowMajor {
                    return Err(format!("{} gives {{{}}}", data.name, ty.notation));
                }
            }
            if ["hbir.view", "hbir.layout_convert"].contains(&&*data.name) {
                return Err(format!("{} is left", data.name));
            }
        }
    }
    verify::verify(made, registry).map_err(|d| words(&d))?;
    let elements = largest(folded).max(largest(made));
    if MOST_ELEMENTS < elements {
        tally.leave_out(format!("{elements} elements"));
        return Ok(());
    }
    match same_meaning(folded, made, registry) {
        // Some cases are programs that cannot be run.
        Err(e) if e.starts_with("the first program") => tally.leave_out(e),
        compared => {
            compared?;
            tally.compared();
        }
    }
    Ok(())
}

#[test]
fn every_case_computes_the_same_row_major() {
    let registry = Arc::new(optc_ops::registry());
    let (mut tried, mut failures) = (0, Vec::new());
    let mut tally = Tally::default();
    let folders = ["tests/cases", "tests/plans"];
    for path in folders.iter().flat_map(|f| files(&root().join(f), "ir")) {
        let source = std::fs::read_to_string(&path).expect("a case is text");
        // An opaque operation has no semantics for permuted dimensions, so nothing can be compared.
        if source.contains("// EVAL: off an opaque operation") {
            continue;
        }
        for part in source.split("// -----") {
            let Ok(module) = text::parse(part) else {
                continue;
            };
            if verify::verify(&module, &registry).is_err() {
                continue;
            }
            for target in TARGETS {
                for boundary in boundaries() {
                    let Some(made) = normalized(&module, target, &boundary, &registry) else {
                        continue;
                    };
                    tried += 1;
                    let judged = match made {
                        Ok([folded, made]) => judge(&mut tally, &folded, &made, &registry),
                        // Arguments may declare tiles, which the target cpu accepts unchanged.
                        Err(e) if e.contains("normalize-layout") => continue,
                        Err(e) => Err(e),
                    };
                    if let Err(e) = judged {
                        failures.push(format!("{} on {target}: {e}", relative(&path)));
                    }
                }
            }
        }
    }
    let text = failures.join("\n");
    assert!(
        failures.is_empty(),
        "{} of {tried} fail\n{text}",
        failures.len()
    );
    assert!(400 < tried, "{tried} programs");
    // Cases about the text have no function `main`.
    tally.leaves_out_at_most_one_in(4);
}

#[test]
fn random_programs_compute_the_same_row_major() {
    let registry = Arc::new(optc_ops::registry());
    let mut tried = 0;
    let mut tally = Tally::default();
    for seed in 0..cases(150) {
        for profile in [Profile::Mixed, Profile::TinyParts] {
            let module = program(seed, profile, &registry);
            for target in TARGETS {
                for boundary in boundaries() {
                    let Some(made) = normalized(&module, target, &boundary, &registry) else {
                        continue;
                    };
                    let judged = made
                        .and_then(|[folded, made]| judge(&mut tally, &folded, &made, &registry));
                    judged.unwrap_or_else(|e| {
                        panic!(
                            "seed {seed}, {profile:?} on {target}: {e}\n{}",
                            text::print(&module)
                        )
                    });
                    tried += 1;
                }
            }
        }
    }
    assert!(cases(200) < tried, "{tried} programs");
    tally.leaves_out_at_most_one_in(10);
}
