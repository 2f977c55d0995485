//! Tiny programs with values that are cheap to compute and read in several orders, against every order of every
//! operation, with up to three runs of each operation.

use super::brute;
use optc_check::Stats;
use optc_compare::SplitMix64;
use optc_ir::{Module, Registry, text, verify};
use optc_passes::Boundary;
use optc_passes::view_fold::Proof;
use optc_tests::check::{cases, run_passes, same_meaning};

use std::sync::Arc;

/// The largest number of runs of an operation.
const MOST_RUNS: usize = 3;

/// A program of casts, element-wise operations and transposes of one or two arguments that returns some of its values.
fn tiny(random: &mut SplitMix64, registry: &Registry) -> Module {
    let mut below = |n: usize| usize::try_from(random.below(n as u64)).unwrap_or(0);
    let small = ["si8", "bf16", "f32"][below(3)];
    // The values with their types, and which of the two shapes each has.
    let mut values: Vec<(String, &str, bool)> = vec![
        ("%x".to_owned(), small, false),
        ("%y".to_owned(), "f32", below(2) == 0),
    ];
    let shape = |turned: bool| if turned { "3x2" } else { "2x3" };
    let ty = |dtype: &str, turned: bool| format!("tensor<{}x{dtype}>", shape(turned));
    let mut body: Vec<String> = Vec::new();
    for n in 0..3 + below(3) {
        let a = if n == 0 { 0 } else { below(values.len()) };
        let (a, dtype, turned) = values[a].clone();
        let from = ty(dtype, turned);
        let alike: Vec<String> = values
            .iter()
            .filter(|(_, other, way)| (*other, *way) == (dtype, turned))
            .map(|(name, ..)| name.clone())
            .collect();
        let name = format!("%{n}");
        // The first operation usually gives a larger value than its operand.
        let which = if n == 0 { 0 } else { below(6) };
        let (text, dtype, turned) = match which {
            0 | 1 => {
                let to = ["f32", "bf16"][usize::from(dtype == "f32")];
                let to_ty = ty(to, turned);
                let text = format!("\"hbir.cast\"({a}) <{{to = {to}}}> : ({from}) -> {to_ty}");
                (text, to, turned)
            }
            2 | 3 => {
                let to = ty(dtype, !turned);
                let text =
                    format!("\"hbir.transpose\"({a}) <{{perm = [1, 0]}}> : ({from}) -> {to}");
                (text, dtype, !turned)
            }
            4 => (
                format!("\"hbir.abs\"({a}) : ({from}) -> {from}"),
                dtype,
                turned,
            ),
            _ => {
                let b = &alike[below(alike.len())];
                let text = format!("\"hbir.add\"({a}, {b}) : ({from}, {from}) -> {from}");
                (text, dtype, turned)
            }
        };
        body.push(format!("{name} = {text}"));
        values.push((name, dtype, turned));
    }
    let results: Vec<_> = values.split_off(values.len() - 3);
    let names: Vec<&str> = results.iter().map(|(name, ..)| &**name).collect();
    let types: Vec<String> = results.iter().map(|(_, t, way)| ty(t, *way)).collect();
    let (x, y) = (ty(small, false), ty("f32", values[1].2));
    let (names, types) = (names.join(", "), types.join(", "));
    let mut text = format!("return {names} : {types}\n}}\n");
    // Dead operations are removed, since conversions for them are no movement.
    for (n, line) in body.iter().enumerate().rev() {
        if text.contains(&format!("%{n}")) {
            text = format!("{line}\n{text}");
        }
    }
    let text = format!("func.func @main(%x: {x}, %y: {y}) -> ({types}) {{\n{text}");
    let module = text::parse(&text).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    verify::verify(&module, registry).unwrap_or_else(|e| panic!("{e:?}\n{text}"));
    module
}

#[test]
fn what_is_computed_twice_moves_less_and_is_proved_the_same() {
    let registry = Arc::new(optc_ops::registry());
    let (mut twice, mut least_of_all, mut once, mut missed) = (0, 0, 0, 0);
    for seed in 0..cases(1_200) {
        let module = tiny(&mut SplitMix64::new(seed), &registry);
        let boundary = Boundary {
            free_all: seed % 4 == 3,
            ..Boundary::default()
        };
        let least = |runs| brute::least_bytes(&module, boundary.free_all, runs);
        let (Some(single), Some(fewest)) = (least(1), least(MOST_RUNS)) else {
            continue;
        };
        let ran = run_passes(&module, "view-fold", "cpu", &boundary, &registry).expect("folds");
        let report = ran.fold().expect("a report");
        let found = Stats::of(&ran.module, &registry).movement_bytes;
        let bound = report.lower_bound_bytes;
        let repeats = report.rules_fired.contains_key("compute-twice");
        let context = || {
            format!(
                "seed {seed}: {found} bytes, bound {bound}, {single} computed once, {fewest} at least\n{}{}",
                text::print(&module),
                text::print(&ran.module)
            )
        };
        assert!(fewest <= found && found <= single, "{}", context());
        assert!(bound <= found, "{}", context());
        assert!(repeats == (found < single), "{}", context());
        let optimal = report.proof == Proof::Optimal;
        assert!(!optimal || found == bound, "{}", context());
        same_meaning(&module, &ran.module, &registry)
            .unwrap_or_else(|e| panic!("{e}\n{}", context()));
        let certificate = ran.certificate(&module);
        let target = optc_target::Target::builtin("cpu").expect("built in");
        let checked = optc_check::check(&module, &ran.module, &certificate, &registry, &target);
        assert!(checked.is_ok(), "{checked:?}\n{}", context());
        if repeats {
            twice += 1;
            least_of_all += u32::from(found == fewest);
        } else {
            once += 1;
            missed += u32::from(fewest < found);
        }
        // Without the rule each value is computed once.
        let off = "view-fold{rules=any-order}";
        let plain = run_passes(&module, off, "cpu", &boundary, &registry).expect("folds");
        let plain = Stats::of(&plain.module, &registry).movement_bytes;
        assert!(single <= plain, "{plain} without the rule, {}", context());
    }
    eprintln!(
        "{twice} twice, {least_of_all} of them least; {once} once, {missed} of them not least"
    );
    assert!(
        60 < twice && twice * 9 < least_of_all * 10 && missed * 10 < once,
        "{twice} twice, {least_of_all} of them least; {once} once, {missed} of them not least"
    );
}
