//! Propagation of sizes: sizes that follow from others get their names.

use optc_ir::verify::verify;
use optc_ir::{name_sizes, text};

#[track_caller]
fn check(source: &str, wanted: &[&str]) {
    let registry = optc_ops::registry();
    let mut module = text::parse(source).unwrap();
    verify(&module, &registry).unwrap();
    let changed = name_sizes(&mut module, &registry);
    verify(&module, &registry).unwrap();
    let func = &module.funcs[0];
    let found: Vec<String> = func
        .values
        .ids()
        .map(|v| text::print_type(func.ty(v)))
        .collect();
    assert_eq!(found, wanted);
    assert!(!name_sizes(&mut module, &registry), "once more");
    assert!(changed || text::print(&module) == text::print(&text::parse(source).unwrap()));
}

#[test]
fn a_permutation_gives_sizes_both_ways() {
    check(
        r#"func.func @main(%x: tensor<?x?x4xf32, {dims = ["?", "B", 4]}>) -> tensor<4x?x?xf32> {
  %0 = "hbir.transpose"(%x) <{perm = [2, 0, 1]}> : (tensor<?x?x4xf32, {dims = ["?", "B", 4]}>) -> tensor<4x?x?xf32>
  %1 = "hbir.transpose"(%0) <{perm = [1, 2, 0]}> : (tensor<4x?x?xf32>) -> tensor<?x?x4xf32, {dims = ["S", "?", 4]}>
  return %0 : tensor<4x?x?xf32>
}"#,
        &[
            r#"tensor<?x?x4xf32, {dims = ["S", "B", 4]}>"#,
            r#"tensor<4x?x?xf32, {dims = [4, "S", "B"]}>"#,
            r#"tensor<?x?x4xf32, {dims = ["S", "B", 4]}>"#,
        ],
    );
}

#[test]
fn shape_rules_give_sizes_forward() {
    check(
        r#"func.func @main(%x: tensor<?x6xf32, {dims = ["B", 6]}>, %y: tensor<?x6xf32>) -> tensor<?x?xf32> {
  %0 = "hbir.reshape"(%x) <{shape = [2, -1]}> : (tensor<?x6xf32, {dims = ["B", 6]}>) -> tensor<?x?xf32>
  %1 = "hbir.concat"(%x, %y) <{axis = 0}> : (tensor<?x6xf32, {dims = ["B", 6]}>, tensor<?x6xf32>) -> tensor<?x?xf32>
  return %1 : tensor<?x?xf32>
}"#,
        &[
            r#"tensor<?x6xf32, {dims = ["B", 6]}>"#,
            "tensor<?x6xf32>",
            r#"tensor<2x?xf32, {dims = [2, "3*B"]}>"#,
            "tensor<?x6xf32>",
        ],
    );
}

#[test]
fn a_size_that_only_its_user_says_stays() {
    // The sum may have the larger of two sizes.
    check(
        r#"func.func @main(%x: tensor<?xf32>, %y: tensor<?xf32, {dims = ["B"]}>) -> tensor<?xf32> {
  %0 = "hbir.add"(%x, %y) : (tensor<?xf32>, tensor<?xf32, {dims = ["B"]}>) -> tensor<?xf32>
  return %0 : tensor<?xf32>
}"#,
        &[
            "tensor<?xf32>",
            r#"tensor<?xf32, {dims = ["B"]}>"#,
            "tensor<?xf32>",
        ],
    );
}
