//! Reductions to positions, as JAX writes `argmax` and `argmin`.

/// The text of a reduction over elements and positions, as JAX writes `argmax`.
fn argmax(winner: &str, start: &str, counted: usize) -> String {
    format!(
        r#"
module @m {{
  func.func public @main(%arg0: tensor<3x5xf32>) -> tensor<3xi32> {{
    %0 = stablehlo.iota dim = {counted} : tensor<3x5xi32>
    %cst = stablehlo.constant dense<{start}> : tensor<f32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1:2 = stablehlo.reduce(%arg0 init: %cst), (%0 init: %c) across dimensions = [1] : (tensor<3x5xf32>, tensor<3x5xi32>, tensor<f32>, tensor<i32>) -> (tensor<3xf32>, tensor<3xi32>)
     reducer(%arg1: tensor<f32>, %arg3: tensor<f32>) (%arg2: tensor<i32>, %arg4: tensor<i32>)  {{
      %2 = stablehlo.compare {winner}, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %3 = stablehlo.compare NE, %arg1, %arg1, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %4 = stablehlo.or %2, %3 : tensor<i1>
      %5 = stablehlo.compare EQ, %arg1, %arg3, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %6 = stablehlo.compare LT, %arg2, %arg4, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
      %7 = stablehlo.and %5, %6 : tensor<i1>
      %8 = stablehlo.or %4, %7 : tensor<i1>
      %9 = stablehlo.select %4, %arg1, %arg3 : tensor<i1>, tensor<f32>
      %10 = stablehlo.select %8, %arg2, %arg4 : tensor<i1>, tensor<i32>
      stablehlo.return %9, %10 : tensor<f32>, tensor<i32>
    }}
    return %1#1 : tensor<3xi32>
  }}
}}
"#
    )
}

#[test]
fn a_reduction_to_a_position_is_arg_max() {
    let read = |winner: &str, start: &str, counted: usize| {
        let import = optc_stablehlo::import(&argmax(winner, start, counted)).unwrap();
        optc_ir::text::print(&import.module)
    };
    let greatest = read("GT", "0xFF800000", 1);
    assert!(
        greatest.contains(r#""hbir.arg_max"(%arg0) <{axis = 1, keepdims = false"#),
        "{greatest}"
    );
    let least = read("LT", "0x7F800000", 1);
    assert!(
        least.contains(r#""hbir.arg_min"(%arg0) <{axis = 1, keepdims = false"#),
        "{least}"
    );
    // Another winner, another start, and positions along another dimension are other reductions.
    for other in [
        read("GE", "0xFF800000", 1),
        read("GT", "0.0", 1),
        read("GT", "0xFF800000", 0),
    ] {
        assert!(other.contains("hbir.opaque"), "{other}");
    }
}
