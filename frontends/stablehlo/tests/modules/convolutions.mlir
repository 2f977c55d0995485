module @jit_convs attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x12x10x3xf32>, %arg1: tensor<3x3x3x8xf32>, %arg2: tensor<3x3x1x8xf32>, %arg3: tensor<8xf32>) -> (tensor<1x6x3x3xf32> {jax.result_info = "result[0]"}, tensor<1x3x12x6xf32> {jax.result_info = "result[1]"}) {
    %0 = stablehlo.convolution(%arg0, %arg1) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [2, 2], pad = [[0, 1], [0, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x12x10x3xf32>, tensor<3x3x3x8xf32>) -> tensor<1x6x5x8xf32>
    %1 = stablehlo.broadcast_in_dim %arg3, dims = [3] : (tensor<8xf32>) -> tensor<1x1x1x8xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2, 3] : (tensor<1x1x1x8xf32>) -> tensor<1x6x5x8xf32>
    %3 = stablehlo.add %0, %2 : tensor<1x6x5x8xf32>
    %4 = call @relu(%3) : (tensor<1x6x5x8xf32>) -> tensor<1x6x5x8xf32>
    %5 = stablehlo.convolution(%4, %arg2) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[1, 1], [1, 1]], lhs_dilate = [1, 1], rhs_dilate = [1, 2], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 8 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x6x5x8xf32>, tensor<3x3x1x8xf32>) -> tensor<1x6x3x8xf32>
    %6 = stablehlo.transpose %arg1, dims = [0, 1, 3, 2] : (tensor<3x3x3x8xf32>) -> tensor<3x3x8x3xf32>
    %7 = stablehlo.convolution(%5, %6) dim_numbers = [b, 0, 1, f]x[0, 1, i, o]->[b, 0, 1, f], window = {stride = [1, 1], pad = [[2, 1], [2, 1]], lhs_dilate = [2, 2], rhs_dilate = [1, 1], reverse = [false, false]} {batch_group_count = 1 : i64, feature_group_count = 1 : i64, precision_config = [#stablehlo<precision DEFAULT>, #stablehlo<precision DEFAULT>]} : (tensor<1x6x3x8xf32>, tensor<3x3x8x3xf32>) -> tensor<1x12x6x3xf32>
    %cst = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %8 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<f32>
    %9 = "stablehlo.reduce_window"(%7, %8) <{base_dilations = array<i64: 1, 1, 1, 1>, padding = dense<0> : tensor<4x2xi64>, window_dilations = array<i64: 1, 1, 1, 1>, window_dimensions = array<i64: 1, 2, 2, 1>, window_strides = array<i64: 1, 2, 2, 1>}> ({
    ^bb0(%arg4: tensor<f32>, %arg5: tensor<f32>):
      %11 = stablehlo.maximum %arg4, %arg5 : tensor<f32>
      stablehlo.return %11 : tensor<f32>
    }) : (tensor<1x12x6x3xf32>, tensor<f32>) -> tensor<1x6x3x3xf32>
    %10 = stablehlo.transpose %7, dims = [0, 3, 1, 2] : (tensor<1x12x6x3xf32>) -> tensor<1x3x12x6xf32>
    return %9, %10 : tensor<1x6x3x3xf32>, tensor<1x3x12x6xf32>
  }
  func.func private @relu(%arg0: tensor<1x6x5x8xf32>) -> tensor<1x6x5x8xf32> {
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %0 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x6x5x8xf32>
    %1 = stablehlo.maximum %arg0, %0 : tensor<1x6x5x8xf32>
    return %1 : tensor<1x6x5x8xf32>
  }
}
