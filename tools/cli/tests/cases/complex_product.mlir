module @jit__lambda attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<2x3x4xcomplex<f32>>, %arg1: tensor<2x3x5xcomplex<f32>>) -> (tensor<2x4x5xcomplex<f32>> {jax.result_info = "result"}) {
    %0 = stablehlo.transpose %arg0, dims = [0, 2, 1] : (tensor<2x3x4xcomplex<f32>>) -> tensor<2x4x3xcomplex<f32>>
    %cst = stablehlo.constant dense<(2.000000e+00,0.000000e+00)> : tensor<complex<f32>>
    %1 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<complex<f32>>) -> tensor<2x3x5xcomplex<f32>>
    %2 = stablehlo.multiply %arg1, %1 : tensor<2x3x5xcomplex<f32>>
    %3 = stablehlo.dot_general %0, %2, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<2x4x3xcomplex<f32>>, tensor<2x3x5xcomplex<f32>>) -> tensor<2x4x5xcomplex<f32>>
    return %3 : tensor<2x4x5xcomplex<f32>>
  }
}
