module @jit_attention attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x8x24xf32>, %arg1: tensor<24x24xf32>, %arg2: tensor<24x24xf32>, %arg3: tensor<24x24xf32>, %arg4: tensor<24x24xf32>) -> (tensor<2x8x24xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x24xf32>, tensor<24x24xf32>) -> tensor<2x8x24xf32>
    %1 = stablehlo.reshape %0 : (tensor<2x8x24xf32>) -> tensor<2x8x4x6xf32>
    %2 = stablehlo.transpose %1, dims = [0, 2, 1, 3] : (tensor<2x8x4x6xf32>) -> tensor<2x4x8x6xf32>
    %3 = stablehlo.dot_general %arg0, %arg2, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x24xf32>, tensor<24x24xf32>) -> tensor<2x8x24xf32>
    %4 = stablehlo.reshape %3 : (tensor<2x8x24xf32>) -> tensor<2x8x4x6xf32>
    %5 = stablehlo.transpose %4, dims = [0, 2, 1, 3] : (tensor<2x8x4x6xf32>) -> tensor<2x4x8x6xf32>
    %6 = stablehlo.dot_general %arg0, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x24xf32>, tensor<24x24xf32>) -> tensor<2x8x24xf32>
    %7 = stablehlo.reshape %6 : (tensor<2x8x24xf32>) -> tensor<2x8x4x6xf32>
    %8 = stablehlo.transpose %7, dims = [0, 2, 1, 3] : (tensor<2x8x4x6xf32>) -> tensor<2x4x8x6xf32>
    %9 = stablehlo.transpose %5, dims = [0, 1, 3, 2] : (tensor<2x4x8x6xf32>) -> tensor<2x4x6x8xf32>
    %10 = stablehlo.dot_general %2, %9, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x8x6xf32>, tensor<2x4x6x8xf32>) -> tensor<2x4x8x8xf32>
    %cst = stablehlo.constant dense<6.000000e+00> : tensor<f32>
    %11 = stablehlo.sqrt %cst : tensor<f32>
    %12 = stablehlo.convert %11 : tensor<f32>
    %13 = stablehlo.broadcast_in_dim %12, dims = [] : (tensor<f32>) -> tensor<2x4x8x8xf32>
    %14 = stablehlo.divide %10, %13 : tensor<2x4x8x8xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %15 = stablehlo.reduce(%14 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %16 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<2x4x8xf32>
    %17 = stablehlo.maximum %16, %15 : tensor<2x4x8xf32>
    %18 = stablehlo.broadcast_in_dim %17, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x1xf32>
    %19 = stablehlo.broadcast_in_dim %18, dims = [0, 1, 2, 3] : (tensor<2x4x8x1xf32>) -> tensor<2x4x8x8xf32>
    %20 = stablehlo.subtract %14, %19 : tensor<2x4x8x8xf32>
    %21 = stablehlo.exponential %20 : tensor<2x4x8x8xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %22 = stablehlo.reduce(%21 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<2x4x8x8xf32>, tensor<f32>) -> tensor<2x4x8xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<2x4x8xf32>) -> tensor<2x4x8x1xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<2x4x8x1xf32>) -> tensor<2x4x8x8xf32>
    %25 = stablehlo.divide %21, %24 : tensor<2x4x8x8xf32>
    %26 = stablehlo.dot_general %25, %8, batching_dims = [0, 1] x [0, 1], contracting_dims = [3] x [2], precision = [DEFAULT, DEFAULT] : (tensor<2x4x8x8xf32>, tensor<2x4x8x6xf32>) -> tensor<2x4x8x6xf32>
    %27 = stablehlo.transpose %26, dims = [0, 2, 1, 3] : (tensor<2x4x8x6xf32>) -> tensor<2x8x4x6xf32>
    %28 = stablehlo.reshape %27 : (tensor<2x8x4x6xf32>) -> tensor<2x8x24xf32>
    %29 = stablehlo.dot_general %28, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<2x8x24xf32>, tensor<24x24xf32>) -> tensor<2x8x24xf32>
    %cst_3 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %30 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<2x8x24xf32>
    %31 = stablehlo.multiply %30, %29 : tensor<2x8x24xf32>
    %32 = stablehlo.negate %29 : tensor<2x8x24xf32>
    %cst_4 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %33 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<2x8x24xf32>
    %34 = stablehlo.multiply %32, %33 : tensor<2x8x24xf32>
    %35 = chlo.erfc %34 : tensor<2x8x24xf32> -> tensor<2x8x24xf32>
    %36 = stablehlo.multiply %31, %35 : tensor<2x8x24xf32>
    return %36 : tensor<2x8x24xf32>
  }
}
