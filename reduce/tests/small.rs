//! Small programs, reduced by hand-written tests.

use optc_ir::Module;
use optc_ir::text::{parse, print};
use optc_reduce::reduce;

/// Reduces a program as long as an operation of this name is in it.
fn reduced(text: &str, name: &str) -> String {
    let registry = optc_ops::registry();
    let module = parse(text).expect("well formed");
    let mut fails = |m: &Module| {
        let func = &m.funcs[0];
        func.body.iter().any(|&op| &*func.ops[op].name == name)
    };
    let found = reduce(&module, &registry, &mut fails).expect("it fails");
    print(&found.module)
}

const PROGRAM: &str = r#"module attributes {acme.note = "kept"} {
  func.func @main(%x: tensor<8x512xf32>, %y: tensor<8x512xf32>) -> (tensor<8x512xf32>, tensor<4096xf32>) {
    %0 = "hbir.add"(%x, %y) : (tensor<8x512xf32>, tensor<8x512xf32>) -> tensor<8x512xf32>
    %1 = "hbir.softmax"(%0) <{axis = 1}> : (tensor<8x512xf32>) -> tensor<8x512xf32>
    %2 = "hbir.reshape"(%1) <{shape = [4096]}> : (tensor<8x512xf32>) -> tensor<4096xf32>
    %3 = "hbir.neg"(%2) : (tensor<4096xf32>) -> tensor<4096xf32>
    return %0, %3 : tensor<8x512xf32>, tensor<4096xf32>
  }
}"#;

#[test]
fn one_operation_is_left_with_extents_of_one() {
    let text = reduced(PROGRAM, "hbir.softmax");
    let line = r#"%0 = "hbir.softmax"(%arg0) : (tensor<1x1xf32>) -> tensor<1x1xf32>"#;
    assert!(text.contains(line) && text.lines().count() == 6, "{text}");
}

#[test]
fn a_reshape_stays_one_of_the_same_elements() {
    let text = reduced(PROGRAM, "hbir.reshape");
    let line = "(%arg0) : (tensor<1x1xf32>) -> tensor<1xf32>";
    assert!(text.contains(line), "{text}");
}

#[test]
fn the_same_test_gives_the_same_program() {
    assert_eq!(reduced(PROGRAM, "hbir.add"), reduced(PROGRAM, "hbir.add"));
}

#[test]
fn a_test_that_does_not_fail_gives_nothing() {
    let module = parse(PROGRAM).expect("well formed");
    let found = reduce(&module, &optc_ops::registry(), &mut |_| false);
    assert!(found.is_none());
}
