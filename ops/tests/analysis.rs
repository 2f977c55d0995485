//! Analyses that use the declarations of operations.

use optc_ir::analysis::live_ops;
use optc_ir::effects::Effects;
use optc_ir::text::parse;

/// `%1` is used only by `%2`, which is unused; the print uses `%3`.
const TEXT: &str = r#"
func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "hbir.relu"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = "hbir.neg"(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %2 = "hbir.add"(%1, %0) : (tensor<2xf32>, tensor<2xf32>) -> tensor<2xf32>
  %3 = "hbir.neg"(%0) : (tensor<2xf32>) -> tensor<2xf32>
  "x.print"(%3) : (tensor<2xf32>) -> ()
  return %0 : tensor<2xf32>
}
"#;

#[test]
fn what_only_dead_operations_read_is_dead() {
    let module = parse(TEXT).expect("the text is read");
    let registry = optc_ops::registry();
    let func = &module.funcs[0];
    let live = live_ops(func, &Effects::of_module(&module, &registry));
    let found: Vec<bool> = func.body.iter().map(|&op| live[op]).collect();
    assert_eq!(found, [true, false, false, true, true]);
}
