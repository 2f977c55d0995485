//! Results that are written in the memory of an operand or an argument.

use crate::physical::{agrees, moved, planned};
use optc_check::check_target;
use optc_compare::SplitMix64;
use optc_ir::op::in_place;
use optc_ir::{Module, Registry, text};
use optc_passes::{Boundary, PassContext};
use optc_tests::check::{cases, parse, run_passes, same_meaning, target};
use optc_tests::paths::root;
use optc_tests::{Profile, program};
use std::sync::Arc;

const FOLD: &str = "canonicalize,view-fold";
const PLAN: &str = "bufferize,plan-memory";

/// The updates of a program, and how many of them keep their operand where it lies.
fn updates(module: &Module, registry: &Registry) -> [usize; 2] {
    let mut found = [0, 0];
    for func in &module.funcs {
        for &op in &func.body {
            let decl = registry.get(&func.ops[op].name);
            let update = decl.and_then(|decl| decl.updates(&func.op_ref(op)));
            found[0] += usize::from(update.is_some());
            let settled = in_place::settled_update(func, op, registry);
            found[1] += usize::from(settled.is_some());
        }
    }
    found
}

/// Counts of a property over random programs.
#[derive(Default, Debug)]
struct Count {
    /// Updates, and those whose operand lies in the result.
    updates: [usize; 2],
    /// Arguments that lie in the memory of a result.
    given: usize,
    /// Programs that were refused.
    refused: usize,
    /// Programs that ran.
    fine: usize,
}

/// Folds a random program, changes the result, and checks it by the oracles and the executor unless it is refused.
fn checked(seed: u64, change: fn(&mut Module, u64), count: &mut Count) -> Result<(), String> {
    let registry = Arc::new(optc_ops::registry());
    let cpu = target("cpu");
    let module = program(seed, Profile::Updates, &registry);
    let mut folded = run_passes(&module, FOLD, "cpu", &Boundary::default(), &registry)?.module;
    change(&mut folded, seed);
    if !check_target(&folded, &registry, &cpu).is_empty() {
        count.refused += 1;
        return Ok(());
    }
    count.fine += 1;
    let [all, settled] = updates(&folded, &registry);
    count.updates = [count.updates[0] + all, count.updates[1] + settled];
    same_meaning(&module, &folded, &registry)?;
    let after = planned(&folded, PLAN, &cpu, &registry)?;
    let func = &after.funcs[0];
    let wholes = in_place::wholes(func, &registry);
    let given = func.args.iter().filter(|arg| wholes.contains_key(*arg));
    count.given += given.count();
    agrees(&module, &after, seed)
}

fn for_programs(seeds: u64, change: fn(&mut Module, u64)) -> Count {
    let mut count = Count::default();
    for seed in 0..cases(seeds) {
        if let Err(problem) = checked(seed, change, &mut count) {
            let module = program(seed, Profile::Updates, &optc_ops::registry());
            panic!("seed {seed}: {problem}\n{}", text::print(&module));
        }
    }
    count
}

#[test]
fn random_updates_give_the_numbers_of_the_reference() {
    let count = for_programs(400, |_, _| {});
    let [all, settled] = count.updates;
    let some = all / 5 < settled && settled < all && 50 < count.given;
    assert!(some && count.refused == 0, "{count:?}");
}

/// Updates that are stated to be in place are refused, or give the numbers of the reference.
#[test]
fn stated_updates_are_refused_or_true() {
    let count = for_programs(300, |module, seed| {
        let registry = optc_ops::registry();
        let mut rng = SplitMix64::new(seed);
        let func = &mut module.funcs[0];
        for op in func.body.clone() {
            let decl = registry.get(&func.ops[op].name);
            let update = decl.and_then(|decl| decl.updates(&func.op_ref(op)));
            if update.is_some() && rng.below(2) == 0 {
                in_place::set(&mut func.ops[op], &[0]);
            }
        }
    });
    assert!(50 < count.refused && 50 < count.fine, "{count:?}");
}

fn requested(source: &str, alias: [&str; 2]) -> Result<(Module, Module, PassContext), String> {
    let module = parse(source);
    let boundary = Boundary {
        aliases: vec![alias.map(str::to_owned).into()],
        ..Boundary::default()
    };
    let registry = Arc::new(optc_ops::registry());
    let ran = run_passes(&module, FOLD, "cpu", &boundary, &registry)?;
    Ok((module, ran.module, ran.cx))
}

/// Keys of 4 heads of 8 numbers for 64 tokens, and one more.
const GROWING: &str = r#"func.func @main(%past: tensor<1x4x64x8xf32>, %new: tensor<1x1x32xf32>, %q: tensor<1x4x1x8xf32>) -> (tensor<1x4x65x8xf32>, tensor<1x4x1x65xf32>) {
  %0 = "hbir.reshape"(%new) <{shape = [1, 1, 4, 8]}> : (tensor<1x1x32xf32>) -> tensor<1x1x4x8xf32>
  %1 = "hbir.transpose"(%0) <{perm = [0, 2, 1, 3]}> : (tensor<1x1x4x8xf32>) -> tensor<1x4x1x8xf32>
  %2 = "hbir.concat"(%past, %1) <{axis = 2}> : (tensor<1x4x64x8xf32>, tensor<1x4x1x8xf32>) -> tensor<1x4x65x8xf32>
  %3 = "hbir.transpose"(%2) <{perm = [0, 1, 3, 2]}> : (tensor<1x4x65x8xf32>) -> tensor<1x4x8x65xf32>
  %4 = "hbir.matmul"(%q, %3) : (tensor<1x4x1x8xf32>, tensor<1x4x8x65xf32>) -> tensor<1x4x1x65xf32>
  return %2, %4 : tensor<1x4x65x8xf32>, tensor<1x4x1x65xf32>
}"#;

#[test]
fn a_growing_value_is_written_in_place_on_request() {
    let registry = Arc::new(optc_ops::registry());
    let (module, folded, cx) = requested(GROWING, ["past", "result0"]).expect("it is met");
    let report: &optc_passes::view_fold::FoldReport = cx.reports.get().expect("it folds");
    assert_eq!(
        (report.bytes_after, report.lower_bound_bytes),
        (2 * 32 * 4, 2 * 32 * 4)
    );
    assert_eq!(report.proof, optc_passes::view_fold::Proof::Optimal);
    let certificate = report.certificate(&module, &folded, &registry, &target("cpu"));
    optc_check::check(&module, &folded, &certificate, &registry, &target("cpu"))
        .expect("the certificate is accepted");
    let after = planned(&folded, PLAN, &target("cpu"), &registry).expect("it is planned");
    agrees(&module, &after, 1).expect("the numbers are equal");
    let (steps, said) = moved(&module, &after, &registry);
    assert_eq!((steps.len(), said), (1, 2 * 32 * 4), "{steps:?}");
    assert_eq!(steps[0].1, said, "only the new row is copied");
}

#[test]
fn named_sizes_grow_too() {
    let registry = Arc::new(optc_ops::registry());
    let source = GROWING
        .replace("1x4x64x8xf32", "1x4x?x8xf32, {dims = [1, 4, \"P\", 8]}")
        .replace("1x4x65x8xf32", "1x4x?x8xf32, {dims = [1, 4, \"P+1\", 8]}")
        .replace("1x4x8x65xf32", "1x4x8x?xf32, {dims = [1, 4, 8, \"P+1\"]}")
        .replace("1x4x1x65xf32", "1x4x1x?xf32, {dims = [1, 4, 1, \"P+1\"]}");
    let (module, folded, _) = requested(&source, ["past", "result0"]).expect("it is met");
    same_meaning(&module, &folded, &registry).expect("the numbers are equal");
    let after = planned(&folded, PLAN, &target("cpu"), &registry).expect("it is planned");
    agrees(&module, &after, 1).expect("the numbers are equal");
}

#[test]
fn requests_that_cannot_be_met_say_why() {
    let read_later = r#"func.func @main(%kv: tensor<8x4xf32>, %n: tensor<1x4xf32>, %i: tensor<si32>, %j: tensor<si32>) -> (tensor<8x4xf32>, tensor<8x4xf32>) {
  %0 = "hbir.dynamic_update_slice"(%kv, %n, %i, %j) : (tensor<8x4xf32>, tensor<1x4xf32>, tensor<si32>, tensor<si32>) -> tensor<8x4xf32>
  %1 = "hbir.add"(%0, %kv) : (tensor<8x4xf32>, tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0, %1 : tensor<8x4xf32>, tensor<8x4xf32>
}"#;
    let computed = r#"func.func @main(%x: tensor<8x4xf32>) -> tensor<8x4xf32> {
  %0 = "hbir.softmax"(%x) <{axis = 1}> : (tensor<8x4xf32>) -> tensor<8x4xf32>
  return %0 : tensor<8x4xf32>
}"#;
    for (source, alias, code, wanted) in [
        (
            read_later,
            ["kv", "result0"],
            "alias-refused",
            "is read after",
        ),
        (
            read_later,
            ["n", "result0"],
            "alias-refused",
            "by `hbir.dynamic_update_slice`",
        ),
        (read_later, ["kv", "result1"], "alias-refused", "kv"),
        (
            computed,
            ["x", "result0"],
            "alias-refused",
            "by `hbir.softmax`",
        ),
        (computed, ["x", "y"], "unknown-port", "`y`"),
        (
            GROWING,
            ["new", "result0"],
            "alias-refused",
            "equal in all but one dimension",
        ),
    ] {
        let error = requested(source, alias).expect_err("it is refused");
        assert!(
            error.contains(code) && error.contains(wanted),
            "{alias:?}: {error}"
        );
    }
}

/// The layers of `tests/decoder`, with a cache of 4096 rows: their requests, and the bytes of the new rows, read and
/// written.
const DECODERS: [(&str, &[[&str; 2]], u64); 5] = [
    (
        "grow.onnx",
        &[["past_k", "present_k"], ["past_v", "present_v"]],
        0,
    ),
    ("grow.mlir", &[["arg9", "result1"], ["arg10", "result2"]], 0),
    ("update.mlir", &[], 2 * 2 * 64 * 4),
    ("heads.mlir", &[], 2 * 2 * 64 * 4),
    ("scatter.mlir", &[], 2 * 2 * 64 * 4),
];

/// A growing cache takes the new rows from the operations that compute them; the others copy two rows.
#[test]
fn a_decoder_copies_only_the_new_rows_of_its_cache() {
    let registry = Arc::new(optc_ops::registry());
    for (file, requests, bytes) in DECODERS {
        let path = root().join("tests/decoder").join(file);
        let module = optc::Compiler::new()
            .load(&path, None)
            .expect("it is read")
            .module;
        let boundary = Boundary {
            aliases: requests
                .iter()
                .map(|pair| pair.map(str::to_owned).into())
                .collect(),
            ..Boundary::default()
        };
        let said = |e: String| panic!("{file}: {e}");
        let none = Boundary::default();
        let inlined = run_passes(&module, "inline,canonicalize", "cpu", &none, &registry);
        let module = inlined.unwrap_or_else(said).module;
        let ran = run_passes(&module, "view-fold", "cpu", &boundary, &registry);
        let ran = ran.unwrap_or_else(said);
        let report = ran.fold().expect("it folds");
        assert_eq!(
            (report.bytes_after, report.lower_bound_bytes),
            (bytes, bytes),
            "{file}"
        );
        assert_eq!(
            report.proof,
            optc_passes::view_fold::Proof::Optimal,
            "{file}"
        );
        let certificate = ran.certificate(&module);
        optc_check::check(
            &module,
            &ran.module,
            &certificate,
            &registry,
            &target("cpu"),
        )
        .unwrap_or_else(|e| panic!("{file}: {e:?}"));
        let after = planned(&ran.module, PLAN, &target("cpu"), &registry).expect("it is planned");
        agrees(&module, &after, 1).unwrap_or_else(|e| panic!("{file}: {e}"));
        let (steps, said) = moved(&module, &after, &registry);
        let done: u64 = steps.iter().map(|(_, bytes)| bytes).sum();
        assert_eq!((done, said), (bytes, bytes), "{file}: {steps:?}");
    }
}
