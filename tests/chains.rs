//! Random chains of reshapes and transposes fold on every target, with any boundary, and keep their meaning.

use optc_ir::{DType, FuncBuilder, Module, Registry, TensorType, text};
use optc_ops::{Transpose, ints};
use optc_passes::Boundary;
use optc_target::Target;
use optc_tests::Must;
use optc_tests::chains::{Sizes, chain};
use optc_tests::check::{cases, run_passes, same_meaning, words};
use std::sync::Arc;

const TARGETS: [&str; 5] = ["cpu", "tpu", "triton", "mosaic_gpu", "journey6"];

/// Folds a chain with each boundary, and once more with few candidates.
fn folds(
    module: &Module,
    sizes: Sizes,
    target: &str,
    registry: &Arc<Registry>,
) -> Result<(), String> {
    let free = Boundary {
        free_all: true,
        ..Boundary::default()
    };
    let runs = [
        ("pinned", &Boundary::default(), "view-fold"),
        ("free", &free, "view-fold"),
        ("free, one layout", &free, "view-fold{max-layouts=1}"),
    ];
    for (what, boundary, pass) in runs {
        let say = |e: String| format!("{what}: {e}");
        let ran = run_passes(module, pass, target, boundary, registry).map_err(say)?;
        let report = ran.fold().ok_or("no report")?;
        if report.bytes_before < report.bytes_after {
            let (before, after) = (report.bytes_before, report.bytes_after);
            return Err(say(format!("{before} bytes became {after}")));
        }
        let target = Target::builtin(target).map_err(|e| e.to_string())?;
        optc_check::check(
            module,
            &ran.module,
            &ran.certificate(module),
            registry,
            &target,
        )
        .map_err(|d| say(words(&d)))?;
        match same_meaning(module, &ran.module, registry) {
            // Sizes without names are drawn at random, and need not be divisible as the chain requires.
            Err(e) if sizes == Sizes::Open && e.contains("the first program cannot be run") => {}
            same => same.map_err(say)?,
        }
    }
    Ok(())
}

/// Folds every chain, with the targets in turn, and reports all failures together.
#[track_caller]
fn all_fold(sizes: Sizes) {
    let registry = Arc::new(optc_ops::registry());
    let mut failures = Vec::new();
    for seed in 0..cases(100) {
        let module = chain(seed, sizes, &registry);
        let at = usize::try_from(seed).expect("a number") % TARGETS.len();
        let found = folds(&module, sizes, TARGETS[at], &registry);
        if let Err(problem) = found {
            let program = text::print(&module);
            failures.push(format!(
                "seed {seed}, {}: {problem}\n{program}",
                TARGETS[at]
            ));
        }
    }
    let shown = failures.iter().take(8).cloned().collect::<Vec<_>>();
    assert!(
        failures.is_empty(),
        "{} fail\n{}",
        failures.len(),
        shown.join("\n")
    );
}

#[test]
fn chains_of_known_sizes_fold() {
    all_fold(Sizes::Fixed);
}

#[test]
fn chains_of_named_sizes_fold() {
    all_fold(Sizes::Named);
}

#[test]
fn chains_of_open_sizes_fold() {
    all_fold(Sizes::Open);
}

/// A value in more orders than a group has room for candidates.
#[test]
fn a_value_in_very_many_orders_folds() {
    let registry = Arc::new(optc_ops::registry());
    let mut b = FuncBuilder::new(&registry);
    let x = b.arg("x", TensorType::fixed(&[2, 3, 2, 3, 2], DType::F32));
    let mut results = Vec::new();
    for number in 0..90 {
        // The permutation with this number in the factorial number system.
        let (mut left, mut rest): (Vec<usize>, usize) = ((0..5).collect(), number);
        let perm: Vec<usize> = (1..=5)
            .rev()
            .map(|n| {
                let at = rest % n;
                rest /= n;
                left.remove(at)
            })
            .collect();
        let perm = ints(&perm);
        results.push(b.must(&Transpose { perm }, &[x]));
    }
    let module = b.finish(&results);
    let found = folds(&module, Sizes::Fixed, "cpu", &registry);
    assert!(found.is_ok(), "{found:?}");
}

#[test]
fn chains_are_deterministic() {
    let registry = optc_ops::registry();
    for sizes in [Sizes::Fixed, Sizes::Named, Sizes::Open] {
        for seed in 0..20 {
            let print = || text::print(&chain(seed, sizes, &registry));
            assert_eq!(print(), print(), "seed {seed}");
        }
    }
}
