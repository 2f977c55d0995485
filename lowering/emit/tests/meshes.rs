//! Shardings in modules of JAX: the axes of its mesh are the parts of axes that values are split over.

use optc_emit::jax;
use optc_ir::text::parse;
use optc_target::Target;

/// The module of a value that is stated to be split over two parts of an axis of 12 devices, or the code of its refusal.
fn written(first: &str, second: &str) -> Result<String, String> {
    let module = parse(&format!(
        r#"module attributes {{hbir.mesh = ["model:12"]}} {{
  func.func @main(%x: tensor<12x12xf32>) -> tensor<12x12xf32> {{
    %0 = "hbir.sharding_constraint"(%x) <{{split = ["{first}", ""]}}> : (tensor<12x12xf32>) -> tensor<12x12xf32>
    %1 = "hbir.sharding_constraint"(%0) <{{split = ["{second}", ""]}}> : (tensor<12x12xf32>) -> tensor<12x12xf32>
    return %1 : tensor<12x12xf32>
  }}
}}"#
    ));
    let target = Target::builtin("xla").expect("a target");
    let text = jax::emit(&module.expect("a program"), &optc_ops::registry(), &target);
    text.map_err(|diag| diag.code.to_string())
}

#[test]
fn parts_of_an_axis_are_axes_if_they_divide_one_another() {
    let text = written("model:(1)2", "model:(1)6").expect("both are parts of one mesh");
    let mesh = r#"MESH = {"model0": 2, "model1": 3, "model2": 2}"#;
    assert!(text.contains(mesh), "{text}");
    let refused = written("model:(1)4", "model:(1)6");
    assert_eq!(refused, Err("jax-mesh".to_owned()));
}
