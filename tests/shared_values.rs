//! Values that loops, branches and scans share with the functions that they run have one layout inside and outside.
//! Between a transpose and its inverse nothing moves, for every permutation of rank 4, and the numbers stay the same.

use optc_check::Stats;
use optc_compare::{EquivalenceOptions, RandomSource, equivalent};
use optc_ir::{Module, Registry};
use optc_passes::Boundary;
use optc_tests::check::{parse, run_passes, small_bindings};
use std::sync::Arc;

const RANK: usize = 4;
/// Distinct extents, so that no two dimensions can be confused.
const SHAPE: [usize; RANK] = [2, 3, 4, 5];

fn permutations() -> Vec<[usize; RANK]> {
    let mut all = Vec::new();
    for n in 0..RANK.pow(4) {
        let perm = [n / 64, n / 16 % RANK, n / 4 % RANK, n % RANK];
        if (0..RANK).all(|d| perm.contains(&d)) && !perm.is_sorted() {
            all.push(perm);
        }
    }
    all
}

fn inverse(perm: &[usize]) -> Vec<usize> {
    (0..perm.len())
        .map(|d| perm.iter().position(|&p| p == d).expect("a permutation"))
        .collect()
}

fn tensor(shape: &[usize]) -> String {
    let sizes: String = shape.iter().map(|n| format!("{n}x")).collect();
    format!("tensor<{sizes}f32>")
}

/// A program whose operation is between a transpose by `perm` and its inverse.
fn between(perm: &[usize], kind: &str) -> String {
    let turned: Vec<usize> = perm.iter().map(|&d| SHAPE[d]).collect();
    let back = inverse(perm);
    let (x, t) = (tensor(&SHAPE), tensor(&turned));
    let into = format!(r#"%t = "hbir.transpose"(%x) <{{perm = {perm:?}}}> : ({x}) -> {t}"#);
    let out = format!(r#"%y = "hbir.transpose"(%u) <{{perm = {back:?}}}> : ({t}) -> {x}"#);
    match kind {
        "If" => format!(
            r#"
func.func @main(%c: tensor<i1>, %x: {x}) -> {x} {{
  {into}
  %u = "hbir.opaque"(%c, %t, %t, %t) <{{kind = "If", domain = "", effect = "pure", captures = 3, onnx.then_branch = @yes, onnx.else_branch = @no}}> : (tensor<i1>, {t}, {t}, {t}) -> {t}
  {out}
  return %y : {x}
}}
func.func private @yes(%a: {t}) -> {t} {{
  %0 = "hbir.exp"(%a) : ({t}) -> {t}
  return %0 : {t}
}}
func.func private @no(%a: {t}, %b: {t}) -> {t} {{
  %0 = "hbir.neg"(%a) : ({t}) -> {t}
  %1 = "hbir.sub"(%0, %b) : ({t}, {t}) -> {t}
  return %1 : {t}
}}"#
        ),
        "Loop" => {
            let many = tensor(&[&[3], &turned[..]].concat());
            let kept = tensor(&[&[3], &SHAPE[..]].concat());
            let rest = back.iter().map(|d| d + 1);
            let all: Vec<usize> = [0].into_iter().chain(rest).collect();
            format!(
                r#"
func.func @main(%x: {x}) -> ({x}, {kept}) {{
  %n = "hbir.constant"() <{{value = dense<3> : tensor<si64>}}> : () -> tensor<si64>
  {into}
  %u, %s = "hbir.opaque"(%n, %t, %t) <{{kind = "Loop", domain = "", effect = "pure", input_positions = [0, 2], captures = 1, onnx.body = @round}}> : (tensor<si64>, {t}, {t}) -> ({t}, {many})
  {out}
  %z = "hbir.transpose"(%s) <{{perm = {all:?}}}> : ({many}) -> {kept}
  return %y, %z : {x}, {kept}
}}
func.func private @round(%i: tensor<si64>, %go: tensor<i1>, %v: {t}, %w: {t}) -> (tensor<i1>, {t}, {t}) {{
  %0 = "hbir.add"(%v, %w) : ({t}, {t}) -> {t}
  %1 = "hbir.tanh"(%0) : ({t}) -> {t}
  return %go, %0, %1 : tensor<i1>, {t}, {t}
}}"#
            )
        }
        "while" => format!(
            r#"
func.func @main(%x: {x}) -> {x} {{
  %i = "hbir.constant"() <{{value = dense<0> : tensor<si32>}}> : () -> tensor<si32>
  {into}
  %l, %u = "hbir.opaque"(%i, %t) <{{domain = "hlo", effect = "pure", hlo.body = @step, hlo.condition = @goes_on, kind = "while"}}> : (tensor<si32>, {t}) -> (tensor<si32>, {t})
  {out}
  return %y : {x}
}}
func.func private @goes_on(%i: tensor<si32>, %v: {t}) -> tensor<i1> {{
  %0 = "hbir.constant"() <{{value = dense<3> : tensor<si32>}}> : () -> tensor<si32>
  %1 = "hbir.compare"(%i, %0) <{{direction = "lt"}}> : (tensor<si32>, tensor<si32>) -> tensor<i1>
  return %1 : tensor<i1>
}}
func.func private @step(%i: tensor<si32>, %v: {t}) -> (tensor<si32>, {t}) {{
  %0 = "hbir.constant"() <{{value = dense<1> : tensor<si32>}}> : () -> tensor<si32>
  %1 = "hbir.add"(%i, %0) : (tensor<si32>, tensor<si32>) -> tensor<si32>
  %2 = "hbir.sin"(%v) : ({t}) -> {t}
  return %1, %2 : tensor<si32>, {t}
}}"#
        ),
        _ => {
            // Rounds follow one another along the first dimension; the carried value is one slice of the operand.
            let part = tensor(&turned[1..]);
            let axis = perm[0];
            format!(
                r#"
func.func @main(%x: {x}) -> {x} {{
  {into}
  %h = "hbir.reduce"(%t) <{{axes = [0], kind = "max"}}> : ({t}) -> {part}
  %l, %u = "hbir.opaque"(%h, %t) <{{kind = "Scan", domain = "", effect = "pure", onnx.body = @part, onnx.num_scan_inputs = 1, onnx.scan_input_directions = [{reverse}]}}> : ({part}, {t}) -> ({part}, {t})
  {out}
  return %y : {x}
}}
func.func private @part(%s: {part}, %p: {part}) -> ({part}, {part}) {{
  %0 = "hbir.sub"(%s, %p) : ({part}, {part}) -> {part}
  %1 = "hbir.abs"(%0) : ({part}) -> {part}
  return %0, %1 : {part}, {part}
}}"#,
                reverse = axis % 2
            )
        }
    }
}

/// Runs both programs with their functions, and compares the numbers.
fn same_meaning(before: &Module, after: &Module, registry: &Registry) -> Result<(), String> {
    let options = EquivalenceOptions {
        seeds: vec![1],
        uninterpreted: false,
        ..EquivalenceOptions::default()
    };
    let made_up = RandomSource;
    equivalent(before, after, registry, &made_up, &made_up, &options).map_err(|e| e.to_string())
}

fn folded(module: &Module, passes: &str, target: &str, registry: &Arc<Registry>) -> Module {
    let pipeline = format!("canonicalize,{passes}");
    let ran = run_passes(module, &pipeline, target, &Boundary::default(), registry);
    ran.unwrap_or_else(|e| panic!("{e}")).module
}

#[test]
fn nothing_moves_around_what_runs_functions() {
    let registry = Arc::new(optc_ops::registry());
    for kind in ["If", "Loop", "Scan", "while"] {
        for perm in permutations() {
            let module = parse(&between(&perm, kind));
            let name = format!("{kind} behind {perm:?}");
            let after = folded(&module, "view-fold", "cpu", &registry);
            assert_eq!(Stats::of(&after, &registry).movement_bytes, 0, "{name}");
            assert_eq!(same_meaning(&module, &after, &registry), Ok(()), "{name}");
            let pinned = folded(&module, "view-fold{rules=none}", "cpu", &registry);
            assert_eq!(same_meaning(&module, &pinned, &registry), Ok(()), "{name}");
        }
    }
}

/// In a format without layouts the functions have other shapes and the scans other dimensions; no transpose is left.
#[test]
fn formats_without_layouts_get_no_transposes_back() {
    let registry = Arc::new(optc_ops::registry());
    for kind in ["If", "Loop", "Scan"] {
        for perm in permutations() {
            let module = parse(&between(&perm, kind));
            let name = format!("{kind} behind {perm:?}");
            let after = folded(&module, "view-fold,normalize-layouts", "onnx", &registry);
            let text = optc_ir::text::print(&after);
            assert!(!text.contains("hbir.transpose"), "{name}:\n{text}");
            assert!(!text.contains("order ="), "{name}:\n{text}");
            assert_eq!(same_meaning(&module, &after, &registry), Ok(()), "{name}");
        }
    }
}

/// A function that two operations run keeps its declared types, and so does one with unknown sizes.
#[test]
fn what_is_run_twice_keeps_its_boundary() {
    let registry = Arc::new(optc_ops::registry());
    let once = between(&[3, 0, 1, 2], "If");
    let twice = once.replace("onnx.else_branch = @no", "onnx.else_branch = @yes");
    let twice = twice.replace("captures = 3", "captures = 2");
    let twice = twice.replace("(%c, %t, %t, %t)", "(%c, %t, %t)");
    let (t, operands) = (tensor(&[5, 2, 3, 4]), "(tensor<i1>, ");
    let twice = twice.replace(
        &format!("{operands}{t}, {t}, {t})"),
        &format!("{operands}{t}, {t})"),
    );
    let module = parse(&twice);
    let after = folded(&module, "view-fold", "cpu", &registry);
    assert_ne!(Stats::of(&after, &registry).movement_bytes, 0);
    assert_eq!(same_meaning(&module, &after, &registry), Ok(()));
    let after = folded(&module, "view-fold,normalize-layouts", "onnx", &registry);
    assert_eq!(same_meaning(&module, &after, &registry), Ok(()));
}

/// A value that a loop would rearrange in every round is stored in the order that the body needs, and is converted once
/// outside.
#[test]
fn what_a_loop_would_convert_in_every_round_is_converted_around_it() {
    let registry = Arc::new(optc_ops::registry());
    let module = parse(
        r#"
func.func @main(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %n = "hbir.constant"() <{value = dense<3> : tensor<si64>}> : () -> tensor<si64>
  %u = "hbir.opaque"(%n, %x) <{kind = "Loop", domain = "", effect = "pure", input_positions = [0, 2], onnx.body = @round}> : (tensor<si64>, tensor<2x3x4xf32>) -> tensor<2x3x4xf32>
  return %u : tensor<2x3x4xf32>
}
func.func private @round(%i: tensor<si64>, %go: tensor<i1>, %v: tensor<2x3x4xf32>) -> (tensor<i1>, tensor<2x3x4xf32>) {
  %0 = "hbir.transpose"(%v) <{perm = [0, 2, 1]}> : (tensor<2x3x4xf32>) -> tensor<2x4x3xf32>
  %1 = "hbir.softmax"(%0) <{axis = 2}> : (tensor<2x4x3xf32>) -> tensor<2x4x3xf32>
  %2 = "hbir.transpose"(%1) <{perm = [0, 2, 1]}> : (tensor<2x4x3xf32>) -> tensor<2x3x4xf32>
  return %go, %2 : tensor<i1>, tensor<2x3x4xf32>
}"#,
    );
    let after = folded(&module, "view-fold,normalize-layouts", "onnx", &registry);
    let transposes = |func: &optc_ir::Func| {
        let named = func
            .body
            .iter()
            .filter(|&&op| &*func.ops[op].name == "hbir.transpose");
        named.count()
    };
    let counts: Vec<usize> = after.funcs.iter().map(transposes).collect();
    assert_eq!(counts, [2, 0], "{}", optc_ir::text::print(&after));
    assert_eq!(same_meaning(&module, &after, &registry), Ok(()));
}

/// Operations that pass one value from one to the next, including a branch inside of a loop, are laid out together:
/// none would gain from another order alone.
#[test]
fn a_chain_of_what_runs_functions_is_laid_out_together() {
    let registry = Arc::new(optc_ops::registry());
    let (x, t) = ("tensor<2x3x4xf32>", "tensor<4x2x3xf32>");
    let branch = |n: usize, of: &str| {
        format!(
            r#"%u{n} = "hbir.opaque"(%c, {of}, {of}) <{{kind = "If", domain = "", effect = "pure", captures = 2, onnx.then_branch = @yes{n}, onnx.else_branch = @no{n}}}> : (tensor<i1>, {t}, {t}) -> {t}"#
        )
    };
    let functions = |n: usize| {
        format!(
            r#"
func.func private @yes{n}(%a: {t}) -> {t} {{
  %0 = "hbir.exp"(%a) : ({t}) -> {t}
  return %0 : {t}
}}
func.func private @no{n}(%a: {t}) -> {t} {{
  %0 = "hbir.tanh"(%a) : ({t}) -> {t}
  return %0 : {t}
}}"#
        )
    };
    let module = parse(&format!(
        r#"
func.func @main(%c: tensor<i1>, %n: tensor<si64>, %x: {x}) -> {x} {{
  %t = "hbir.transpose"(%x) <{{perm = [2, 0, 1]}}> : ({x}) -> {t}
  {}
  {}
  %l = "hbir.opaque"(%n, %u1, %c) <{{kind = "Loop", domain = "", effect = "pure", input_positions = [0, 2], captures = 1, onnx.body = @round}}> : (tensor<si64>, {t}, tensor<i1>) -> {t}
  {}
  %y = "hbir.transpose"(%u2) <{{perm = [1, 2, 0]}}> : ({t}) -> {x}
  return %y : {x}
}}
func.func private @round(%i: tensor<si64>, %go: tensor<i1>, %v: {t}, %c: tensor<i1>) -> (tensor<i1>, {t}) {{
  {}
  return %go, %u3 : tensor<i1>, {t}
}}{}{}{}{}"#,
        branch(0, "%t"),
        branch(1, "%u0"),
        branch(2, "%l"),
        branch(3, "%v"),
        functions(0),
        functions(1),
        functions(2),
        functions(3)
    ));
    for target in ["cpu", "onnx"] {
        let after = folded(&module, "view-fold", target, &registry);
        let text = optc_ir::text::print(&after);
        assert_eq!(Stats::of(&after, &registry).movement_bytes, 0, "{text}");
        assert_eq!(same_meaning(&module, &after, &registry), Ok(()));
    }
}

/// Named sizes are no obstacle: functions declare the chosen layout.
#[test]
fn functions_of_named_sizes_have_layouts_of_their_own() {
    let registry = Arc::new(optc_ops::registry());
    let x = r#"tensor<?x3x?xf32, {dims = ["B", 3, "S"]}>"#;
    let t = r#"tensor<?x?x3xf32, {dims = ["S", "B", 3]}>"#;
    let module = parse(&format!(
        r#"
func.func @main(%c: tensor<i1>, %x: {x}) -> {x} {{
  %t = "hbir.transpose"(%x) <{{perm = [2, 0, 1]}}> : ({x}) -> {t}
  %u = "hbir.opaque"(%c, %t, %t) <{{kind = "If", domain = "", effect = "pure", captures = 2, onnx.then_branch = @yes, onnx.else_branch = @no}}> : (tensor<i1>, {t}, {t}) -> {t}
  %y = "hbir.transpose"(%u) <{{perm = [1, 2, 0]}}> : ({t}) -> {x}
  return %y : {x}
}}
func.func private @yes(%a: {t}) -> {t} {{
  %0 = "hbir.exp"(%a) : ({t}) -> {t}
  return %0 : {t}
}}
func.func private @no(%a: {t}) -> {t} {{
  %0 = "hbir.tanh"(%a) : ({t}) -> {t}
  return %0 : {t}
}}"#
    ));
    let options = EquivalenceOptions {
        bindings: small_bindings(&module),
        ..EquivalenceOptions::default()
    };
    for passes in ["view-fold", "view-fold,normalize-layouts"] {
        let after = folded(&module, passes, "onnx", &registry);
        let text = optc_ir::text::print(&after);
        assert_eq!(Stats::of(&after, &registry).movement_ops, 0, "{text}");
        assert_eq!(text.contains("order ="), passes == "view-fold", "{text}");
        let data = RandomSource;
        let same = equivalent(&module, &after, &registry, &data, &data, &options);
        assert!(same.is_ok(), "{same:?}\n{text}");
    }
}
