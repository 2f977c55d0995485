//! Tiled execution: a plan computes the same as the operations, and an illegal plan is refused with its position.

use indexmap::IndexMap;
use optc_compare::{Fill, compare, random_inputs};
use optc_interp::{NoData, RunError, Schedules, run_reference, run_scheduled, run_tiled};
use optc_ir::{Bindings, Module, Tensor, text};
use optc_tile::{Plan, Schedule};

const MATMUL: &str = r#"func.func @main(%x: tensor<10x12xf32>, %w: tensor<7x12xf32>, %b: tensor<7xf32>) -> tensor<10x7xf32> attributes {hbir.groups = [{grid = [3, 2, 3], order = ["parallel", "parallel", "arbitrary"]}]} {
  %0 = "hbir.linear"(%x, %w, %b) {tile = {group = 0, reduce = ["5 @ g2 * 5"], result = ["4 @ g0 * 4", "4 @ g1 * 4"]}} : (tensor<10x12xf32>, tensor<7x12xf32>, tensor<7xf32>) -> tensor<10x7xf32>
  %1 = "hbir.relu"(%0) {tile = {group = 0, result = ["4 @ g0 * 4", "4 @ g1 * 4"]}} : (tensor<10x7xf32>) -> tensor<10x7xf32>
  return %1 : tensor<10x7xf32>
}"#;

/// A linear, a reshape of its 24 columns to 4 heads of 6, and a transpose that moves the heads to the front. Tiles of 3
/// columns cut inside of a head, so there is an axis of heads and an axis inside of a head.
const FIGURE: &str = r#"func.func @main(%x: tensor<8x5xf32>, %w: tensor<24x5xf32>) -> tensor<4x8x6xf32> attributes {hbir.groups = [{grid = [4, 2]}]} {
  %0 = "hbir.linear"(%x, %w) {tile = {group = 0, result = ["8", "3 @ g0 * 6 + g1 * 3"]}} : (tensor<8x5xf32>, tensor<24x5xf32>) -> tensor<8x24xf32>
  %1 = "hbir.reshape"(%0) <{shape = [8, 4, 6]}> {tile = {group = 0, result = ["8", "1 @ g0", "3 @ g1 * 3"]}} : (tensor<8x24xf32>) -> tensor<8x4x6xf32>
  %2 = "hbir.transpose"(%1) <{perm = [1, 0, 2]}> {tile = {group = 0, result = ["1 @ g0", "8", "3 @ g1 * 3"]}} : (tensor<8x4x6xf32>) -> tensor<4x8x6xf32>
  return %2 : tensor<4x8x6xf32>
}"#;

/// Two 3x3 convolutions: the tile of the first has one more row on each side.
const HALO: &str = r#"func.func @main(%x: tensor<1x2x9x8xf32>, %w: tensor<3x2x3x3xf32>, %v: tensor<2x3x3x3xf32>) -> tensor<1x2x9x8xf32> attributes {hbir.groups = [{grid = [3]}]} {
  %0 = "hbir.conv"(%x, %w) <{pads = [1, 1, 1, 1]}> {tile = {group = 0, result = ["1", "3", "6 @ g0 * 4 - 1", "8"]}} : (tensor<1x2x9x8xf32>, tensor<3x2x3x3xf32>) -> tensor<1x3x9x8xf32>
  %1 = "hbir.relu"(%0) {tile = {group = 0, result = ["1", "3", "6 @ g0 * 4 - 1", "8"]}} : (tensor<1x3x9x8xf32>) -> tensor<1x3x9x8xf32>
  %2 = "hbir.conv"(%1, %v) <{pads = [1, 1, 1, 1]}> {tile = {group = 0, result = ["1", "2", "4 @ g0 * 4", "8"]}} : (tensor<1x3x9x8xf32>, tensor<2x3x3x3xf32>) -> tensor<1x2x9x8xf32>
  return %2 : tensor<1x2x9x8xf32>
}"#;

const SOFTMAX: &str = r#"func.func @main(%q: tensor<2x6x4xf32>, %k: tensor<2x5x4xf32>, %v: tensor<2x5x3xf32>) -> tensor<6x6xf32> attributes {hbir.groups = [{grid = [2, 3]}]} {
  %0 = "hbir.transpose"(%k) <{perm = [0, 2, 1]}> {tile = {group = 0, result = ["1 @ g0", "4", "5"]}} : (tensor<2x5x4xf32>) -> tensor<2x4x5xf32>
  %1 = "hbir.matmul"(%q, %0) {tile = {group = 0, result = ["1 @ g0", "2 @ g1 * 2", "5"]}} : (tensor<2x6x4xf32>, tensor<2x4x5xf32>) -> tensor<2x6x5xf32>
  %2 = "hbir.softmax"(%1) <{axis = 2}> {tile = {group = 0, result = ["1 @ g0", "2 @ g1 * 2", "5"]}} : (tensor<2x6x5xf32>) -> tensor<2x6x5xf32>
  %3 = "hbir.matmul"(%2, %v) {tile = {group = 0, result = ["1 @ g0", "2 @ g1 * 2", "3"]}} : (tensor<2x6x5xf32>, tensor<2x5x3xf32>) -> tensor<2x6x3xf32>
  %4 = "hbir.transpose"(%3) <{perm = [1, 0, 2]}> {tile = {group = 0, result = ["2 @ g1 * 2", "1 @ g0", "3"]}} : (tensor<2x6x3xf32>) -> tensor<6x2x3xf32>
  %5 = "hbir.reshape"(%4) <{shape = [6, 6]}> {tile = {group = 0, result = ["2 @ g1 * 2", "3 @ g0 * 3"]}} : (tensor<6x2x3xf32>) -> tensor<6x6xf32>
  return %5 : tensor<6x6xf32>
}"#;

/// Maxima and sums in parts, a value that is used twice, and a value that leaves the group.
const REDUCE: &str = r#"func.func @main(%x: tensor<6x10xf32>, %i: tensor<6x10xsi32>) -> (tensor<6xf32>, tensor<6x1xf32>, tensor<6xsi32>, tensor<6x10xf32>) attributes {hbir.groups = [{grid = [3, 4], order = ["parallel", "arbitrary"]}]} {
  %0 = "hbir.exp"(%x) {tile = {group = 0, result = ["2 @ g0 * 2", "3 @ g1 * 3"]}} : (tensor<6x10xf32>) -> tensor<6x10xf32>
  %1 = "hbir.reduce"(%0) <{axes = [1], kind = "max"}> {tile = {group = 0, reduce = ["3 @ g1 * 3"], result = ["2 @ g0 * 2"]}} : (tensor<6x10xf32>) -> tensor<6xf32>
  %2 = "hbir.reduce"(%0) <{axes = [1], keepdims = true, kind = "sum"}> {tile = {group = 0, reduce = ["3 @ g1 * 3"], result = ["2 @ g0 * 2", "1"]}} : (tensor<6x10xf32>) -> tensor<6x1xf32>
  %3 = "hbir.reduce"(%i) <{axes = [1], kind = "sum"}> {tile = {group = 0, reduce = ["3 @ g1 * 3"], result = ["2 @ g0 * 2"]}} : (tensor<6x10xsi32>) -> tensor<6xsi32>
  return %1, %2, %3, %0 : tensor<6xf32>, tensor<6x1xf32>, tensor<6xsi32>, tensor<6x10xf32>
}"#;

/// Operations cut along their axes: a slice, a concat, a gather of rows, a pad, an iota.
const AXES: &str = r#"func.func @main(%x: tensor<8x6xf32>, %i: tensor<9xsi64>) -> (tensor<4x6xf32>, tensor<9x6xf32>, tensor<10x6xf32>) attributes {hbir.groups = [{grid = [2]}]} {
  %0 = "hbir.slice"(%x) <{limits = [8, 6], starts = [1, 0], strides = [2, 1]}> {tile = {group = 0, result = ["2 @ g0 * 2", "6"]}} : (tensor<8x6xf32>) -> tensor<4x6xf32>
  %1 = "hbir.gather"(%x, %i) <{axis = 0}> {tile = {group = 0, result = ["5 @ g0 * 5", "6"]}} : (tensor<8x6xf32>, tensor<9xsi64>) -> tensor<9x6xf32>
  %2 = "hbir.relu"(%1) {tile = {group = 0, result = ["5 @ g0 * 5", "6"]}} : (tensor<9x6xf32>) -> tensor<9x6xf32>
  %3 = "hbir.concat"(%x, %0) <{axis = 0}> : (tensor<8x6xf32>, tensor<4x6xf32>) -> tensor<12x6xf32>
  %4 = "hbir.slice"(%3) <{limits = [12, 6], starts = [2, 0]}> : (tensor<12x6xf32>) -> tensor<10x6xf32>
  return %0, %2, %4 : tensor<4x6xf32>, tensor<9x6xf32>, tensor<10x6xf32>
}"#;

fn parse(program: &str) -> Module {
    text::parse(program).unwrap_or_else(|d| panic!("{d:?}"))
}

fn inputs(module: &Module, seed: u64) -> IndexMap<String, Tensor> {
    let bindings = Bindings::default();
    random_inputs(
        module,
        "main",
        Fill::Normal,
        seed,
        &bindings,
        &optc_ops::registry(),
    )
    .unwrap()
}

fn tiled(
    module: &Module,
    inputs: &IndexMap<String, Tensor>,
) -> Result<IndexMap<String, Tensor>, RunError> {
    let (registry, bindings) = (optc_ops::registry(), Bindings::default());
    run_tiled(module, &registry, "main", inputs, &NoData, &bindings)
}

#[track_caller]
fn check(program: &str) {
    let (module, registry) = (parse(program), optc_ops::registry());
    for seed in 0..3 {
        let inputs = inputs(&module, seed);
        let bindings = Bindings::default();
        let wanted = run_reference(&module, &registry, "main", &inputs, &NoData, &bindings);
        let wanted = wanted.unwrap_or_else(|e| panic!("{e}"));
        let found = tiled(&module, &inputs).unwrap_or_else(|e| panic!("{e}"));
        for (key, wanted) in &wanted {
            if let Err(mismatch) = compare(&found[key], wanted) {
                panic!("seed {seed}, {key}: {mismatch}");
            }
        }
    }
}

#[track_caller]
fn refused(program: &str, from: &str, to: &str, wanted: &str) {
    assert!(program.contains(from), "{from}");
    let module = parse(&program.replacen(from, to, 1));
    let found = tiled(&module, &inputs(&module, 1)).unwrap_err().to_string();
    assert!(found.contains(wanted), "found `{found}`, wanted `{wanted}`");
}

/// Runs a program on its schedule with the tiles of a modified text that does not resolve by itself. Tiles that are too
/// small must show up as missing numbers.
#[track_caller]
fn missed(program: &str, from: &str, to: &str, wanted: &str) {
    assert!(program.contains(from), "{from}");
    let (module, registry) = (parse(program), optc_ops::registry());
    let changed = parse(&program.replacen(from, to, 1));
    let plan = Plan::read(&changed.funcs[0]).unwrap().unwrap();
    assert!(Schedule::resolve(&changed.funcs[0], &plan, &registry).is_err());
    let mut schedule = Schedule::read(&module.funcs[0], &registry)
        .unwrap()
        .unwrap();
    let bodies = module.funcs[0].body.iter().zip(&changed.funcs[0].body);
    let changed: indexmap::IndexMap<_, _> = bodies.collect();
    for op in schedule.groups.iter_mut().flat_map(|g| &mut g.ops) {
        let tile = &plan.tiles[changed[&op.op]];
        for (part, tile) in op.parts.iter_mut().zip(tile.parts()) {
            part.results = tile.results;
        }
    }
    let schedules = Schedules::from([("main".to_owned(), schedule)]);
    let (inputs, bindings) = (inputs(&module, 1), Bindings::default());
    let found = run_scheduled(
        &module, &registry, "main", &inputs, &NoData, &bindings, &schedules,
    );
    let found = found.unwrap_err().to_string();
    assert!(found.contains(wanted), "found `{found}`, wanted `{wanted}`");
}

#[test]
fn a_cut_contraction_adds_up_and_its_reader_waits() {
    check(MATMUL);
}

#[test]
fn a_reshape_that_splits_is_cut_by_two_axes() {
    check(FIGURE);
}

#[test]
fn windows_read_a_halo() {
    check(HALO);
}

#[test]
fn attention_is_one_group() {
    check(SOFTMAX);
}

#[test]
fn reductions_combine_and_values_leave_the_group() {
    check(REDUCE);
}

#[test]
fn axes_of_slices_and_gathers_are_cut() {
    check(AXES);
}

/// Both factors of the product are computed online, row by row, so the accumulator is rescaled by both.
#[test]
fn two_operands_are_computed_online() {
    check(
        r#"func.func @main(%x: tensor<4x6xf32>, %y: tensor<6x5xf32>) -> tensor<4x5xf32> attributes {hbir.groups = [{grid = [3], order = ["arbitrary"]}]} {
  %0 = "hbir.softmax"(%x) <{axis = 1}> {tile = {group = 0, reduce = ["2 @ g0 * 2"], result = ["4", "2 @ g0 * 2"]}} : (tensor<4x6xf32>) -> tensor<4x6xf32>
  %1 = "hbir.softmax"(%y) <{axis = 0}> {tile = {group = 0, reduce = ["2 @ g0 * 2"], result = ["2 @ g0 * 2", "5"]}} : (tensor<6x5xf32>) -> tensor<6x5xf32>
  %2 = "hbir.matmul"(%0, %1) {tile = {group = 0, reduce = ["2 @ g0 * 2"], result = ["4", "5"]}} : (tensor<4x6xf32>, tensor<6x5xf32>) -> tensor<4x5xf32>
  return %2 : tensor<4x5xf32>
}"#,
    );
}

/// A constant runs by itself even if it has a tile: its readers read it from memory.
#[test]
fn constants_are_read_from_memory() {
    check(
        r#"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hbir.groups = [{grid = [2]}]} {
  %0 = "hbir.constant"() <{value = dense<[1.0, 2.0, 3.0, 4.0]> : tensor<4xf32>}> {tile = {group = 0, result = ["4"]}} : () -> tensor<4xf32>
  %1 = "hbir.add"(%x, %0) {tile = {group = 0, read = [[], ["4"]], result = ["2 @ g0 * 2"]}} : (tensor<4xf32>, tensor<4xf32>) -> tensor<4xf32>
  return %1 : tensor<4xf32>
}"#,
    );
}

#[test]
fn a_tile_that_is_too_small_is_named() {
    missed(
        HALO,
        "\"6 @ g0 * 4 - 1\", \"8\"]}} : (tensor<1x3x9",
        "\"5 @ g0 * 4 - 1\", \"8\"]}} : (tensor<1x3x9",
        "element [0, 0, 3, 0] of result 0 needs more than the tiles of its operands hold",
    );
    missed(
        FIGURE,
        "[\"8\", \"3 @ g0 * 6 + g1 * 3\"]",
        "[\"8\", \"3 @ g0 * 6\"]",
        "program [0, 1]: needs [3, 4) of dimension 1 of operand 0, whose tile in the group has [0, 3)",
    );
    missed(
        SOFTMAX,
        "\"2 @ g1 * 2\", \"5\"]}} : (tensor<2x6x4",
        "\"2 @ g1 * 2\", \"4\"]}} : (tensor<2x6x4",
        "program [0, 0]: needs [0, 5) of dimension 2 of operand 0, whose tile in the group has [0, 4)",
    );
}

#[test]
fn elements_that_no_program_writes_are_named() {
    refused(
        SOFTMAX,
        "[2, 3]}",
        "[2, 2]}",
        "element [4, 0] of result 0 is used outside of group 0, and no program writes it",
    );
}

#[test]
fn tiles_without_elements_are_refused() {
    refused(
        MATMUL,
        "[3, 2, 3]",
        "[4, 2, 3]",
        "program [3, 0, 2]: the tile [12, 16) of dimension 0 of result 0 holds no element of 10",
    );
}

#[test]
fn sums_over_axes_that_are_not_the_last_or_parallel_are_refused() {
    refused(
        MATMUL,
        "\"arbitrary\"",
        "\"parallel\"",
        "adds up along g2, which is parallel, wanted arbitrary",
    );
    let turned = MATMUL
        .replace(
            "[\"parallel\", \"parallel\", ",
            "[\"arbitrary\", \"parallel\", ",
        )
        .replace("g2 * 5", "g0 * 5")
        .replace("g0 * 4", "g2 * 4");
    refused(
        &turned,
        "[3, 2, 3]",
        "[3, 2, 3]",
        "adds up along g0, and g1, along which it does not, runs faster",
    );
    refused(
        REDUCE,
        "kind = \"max\"",
        "kind = \"l2\"",
        "1 spans of cut reductions, wanted 0",
    );
}

#[test]
fn plans_that_are_incomplete_are_refused() {
    refused(
        MATMUL,
        ", result = [\"4 @ g0 * 4\", \"4 @ g1 * 4\"]}} : (tensor<10x7",
        "}} : (tensor<10x7",
        "has no tile yet",
    );
    refused(
        MATMUL,
        "[\"4 @ g0 * 4\", \"4 @ g1 * 4\"]}} : (tensor<10x7",
        "[\"4 @ g0 * 4\"]}} : (tensor<10x7",
        "has a tile [4 @ g0 * 4] of 1 spans, wanted 2",
    );
    refused(
        MATMUL,
        "group = 0, reduce",
        "group = 7, reduce",
        "in group 7",
    );
}

#[test]
fn a_group_that_needs_its_own_results_through_others_is_refused() {
    let program = r#"func.func @main(%x: tensor<4xf32>) -> tensor<4xf32> attributes {hbir.groups = [{grid = [2]}]} {
  %0 = "hbir.exp"(%x) {tile = {group = 0, result = ["2 @ g0 * 2"]}} : (tensor<4xf32>) -> tensor<4xf32>
  %1 = "hbir.neg"(%0) : (tensor<4xf32>) -> tensor<4xf32>
  %2 = "hbir.relu"(%1) {tile = {group = 0, result = ["2 @ g0 * 2"]}} : (tensor<4xf32>) -> tensor<4xf32>
  return %2 : tensor<4xf32>
}"#;
    refused(program, "", "", "group 0 cannot run as one");
}
