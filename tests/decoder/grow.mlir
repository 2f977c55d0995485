module @jit_layer attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<512x256xf32>, %arg1: tensor<256x512xf32>, %arg2: tensor<256xf32>, %arg3: tensor<256xf32>, %arg4: tensor<256x512xf32>, %arg5: tensor<256x64xf32>, %arg6: tensor<256x256xf32>, %arg7: tensor<256x256xf32>, %arg8: tensor<256x64xf32>, %arg9: tensor<1x4096x2x32xf32>, %arg10: tensor<1x4096x2x32xf32>, %arg11: tensor<1x1x256xf32>, %arg12: tensor<1x1x1x32xf32>, %arg13: tensor<1x1x1x32xf32>) -> (tensor<1x1x256xf32> {jax.result_info = "result[0]"}, tensor<1x4097x2x32xf32> {jax.result_info = "result[1]"}, tensor<1x4097x2x32xf32> {jax.result_info = "result[2]"}) {
    %0 = stablehlo.multiply %arg11, %arg11 : tensor<1x1x256xf32>
    %cst = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %1 = stablehlo.reduce(%0 init: %cst) applies stablehlo.add across dimensions = [2] : (tensor<1x1x256xf32>, tensor<f32>) -> tensor<1x1xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %cst_0 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %3 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %4 = stablehlo.divide %2, %3 : tensor<1x1x1xf32>
    %cst_1 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %5 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %6 = stablehlo.add %4, %5 : tensor<1x1x1xf32>
    %7 = stablehlo.rsqrt %6 : tensor<1x1x1xf32>
    %8 = stablehlo.broadcast_in_dim %7, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<1x1x256xf32>
    %9 = stablehlo.multiply %arg11, %8 : tensor<1x1x256xf32>
    %10 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %11 = stablehlo.multiply %9, %10 : tensor<1x1x256xf32>
    %12 = stablehlo.dot_general %11, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x256xf32>) -> tensor<1x1x256xf32>
    %13 = stablehlo.reshape %12 : (tensor<1x1x256xf32>) -> tensor<1x1x8x32xf32>
    %14 = stablehlo.slice %13 [0:1, 0:1, 0:8, 0:16] : (tensor<1x1x8x32xf32>) -> tensor<1x1x8x16xf32>
    %15 = stablehlo.slice %13 [0:1, 0:1, 0:8, 16:32] : (tensor<1x1x8x32xf32>) -> tensor<1x1x8x16xf32>
    %16 = stablehlo.broadcast_in_dim %arg12, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x1x8x32xf32>
    %17 = stablehlo.multiply %13, %16 : tensor<1x1x8x32xf32>
    %18 = stablehlo.negate %15 : tensor<1x1x8x16xf32>
    %19 = stablehlo.concatenate %18, %14, dim = 3 : (tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>) -> tensor<1x1x8x32xf32>
    %20 = stablehlo.broadcast_in_dim %arg13, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x1x8x32xf32>
    %21 = stablehlo.multiply %19, %20 : tensor<1x1x8x32xf32>
    %22 = stablehlo.add %17, %21 : tensor<1x1x8x32xf32>
    %23 = stablehlo.dot_general %11, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x64xf32>) -> tensor<1x1x64xf32>
    %24 = stablehlo.reshape %23 : (tensor<1x1x64xf32>) -> tensor<1x1x2x32xf32>
    %25 = stablehlo.slice %24 [0:1, 0:1, 0:2, 0:16] : (tensor<1x1x2x32xf32>) -> tensor<1x1x2x16xf32>
    %26 = stablehlo.slice %24 [0:1, 0:1, 0:2, 16:32] : (tensor<1x1x2x32xf32>) -> tensor<1x1x2x16xf32>
    %27 = stablehlo.broadcast_in_dim %arg12, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x1x2x32xf32>
    %28 = stablehlo.multiply %24, %27 : tensor<1x1x2x32xf32>
    %29 = stablehlo.negate %26 : tensor<1x1x2x16xf32>
    %30 = stablehlo.concatenate %29, %25, dim = 3 : (tensor<1x1x2x16xf32>, tensor<1x1x2x16xf32>) -> tensor<1x1x2x32xf32>
    %31 = stablehlo.broadcast_in_dim %arg13, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x1x2x32xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<1x1x2x32xf32>
    %33 = stablehlo.add %28, %32 : tensor<1x1x2x32xf32>
    %34 = stablehlo.dot_general %11, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x64xf32>) -> tensor<1x1x64xf32>
    %35 = stablehlo.reshape %34 : (tensor<1x1x64xf32>) -> tensor<1x1x2x32xf32>
    %36 = stablehlo.concatenate %arg9, %33, dim = 1 : (tensor<1x4096x2x32xf32>, tensor<1x1x2x32xf32>) -> tensor<1x4097x2x32xf32>
    %37 = stablehlo.concatenate %arg10, %35, dim = 1 : (tensor<1x4096x2x32xf32>, tensor<1x1x2x32xf32>) -> tensor<1x4097x2x32xf32>
    %38 = stablehlo.broadcast_in_dim %36, dims = [0, 1, 2, 4] : (tensor<1x4097x2x32xf32>) -> tensor<1x4097x2x4x32xf32>
    %39 = stablehlo.reshape %38 : (tensor<1x4097x2x4x32xf32>) -> tensor<1x4097x8x32xf32>
    %40 = stablehlo.broadcast_in_dim %37, dims = [0, 1, 2, 4] : (tensor<1x4097x2x32xf32>) -> tensor<1x4097x2x4x32xf32>
    %41 = stablehlo.reshape %40 : (tensor<1x4097x2x4x32xf32>) -> tensor<1x4097x8x32xf32>
    %42 = stablehlo.dot_general %22, %39, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x1x8x32xf32>, tensor<1x4097x8x32xf32>) -> tensor<1x8x1x4097xf32>
    %cst_2 = stablehlo.constant dense<0.176776692> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<1x8x1x4097xf32>
    %44 = stablehlo.multiply %42, %43 : tensor<1x8x1x4097xf32>
    %cst_3 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %45 = stablehlo.reduce(%44 init: %cst_3) applies stablehlo.maximum across dimensions = [3] : (tensor<1x8x1x4097xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %cst_4 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %46 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %47 = stablehlo.maximum %46, %45 : tensor<1x8x1xf32>
    %48 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x1x1xf32>
    %49 = stablehlo.broadcast_in_dim %48, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<1x8x1x4097xf32>
    %50 = stablehlo.subtract %44, %49 : tensor<1x8x1x4097xf32>
    %51 = stablehlo.exponential %50 : tensor<1x8x1x4097xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %52 = stablehlo.reduce(%51 init: %cst_5) applies stablehlo.add across dimensions = [3] : (tensor<1x8x1x4097xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %53 = stablehlo.broadcast_in_dim %52, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x1x1xf32>
    %54 = stablehlo.broadcast_in_dim %53, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<1x8x1x4097xf32>
    %55 = stablehlo.divide %51, %54 : tensor<1x8x1x4097xf32>
    %56 = stablehlo.dot_general %41, %55, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x4097x8x32xf32>, tensor<1x8x1x4097xf32>) -> tensor<1x8x32x1xf32>
    %57 = stablehlo.transpose %56, dims = [0, 3, 1, 2] : (tensor<1x8x32x1xf32>) -> tensor<1x1x8x32xf32>
    %58 = stablehlo.reshape %57 : (tensor<1x1x8x32xf32>) -> tensor<1x1x256xf32>
    %59 = stablehlo.dot_general %58, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x256xf32>) -> tensor<1x1x256xf32>
    %60 = stablehlo.add %arg11, %59 : tensor<1x1x256xf32>
    %61 = stablehlo.multiply %60, %60 : tensor<1x1x256xf32>
    %cst_6 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %62 = stablehlo.reduce(%61 init: %cst_6) applies stablehlo.add across dimensions = [2] : (tensor<1x1x256xf32>, tensor<f32>) -> tensor<1x1xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %cst_7 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %64 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %65 = stablehlo.divide %63, %64 : tensor<1x1x1xf32>
    %cst_8 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %66 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %67 = stablehlo.add %65, %66 : tensor<1x1x1xf32>
    %68 = stablehlo.rsqrt %67 : tensor<1x1x1xf32>
    %69 = stablehlo.broadcast_in_dim %68, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<1x1x256xf32>
    %70 = stablehlo.multiply %60, %69 : tensor<1x1x256xf32>
    %71 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %72 = stablehlo.multiply %70, %71 : tensor<1x1x256xf32>
    %73 = stablehlo.dot_general %72, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x512xf32>) -> tensor<1x1x512xf32>
    %74 = call @silu(%73) : (tensor<1x1x512xf32>) -> tensor<1x1x512xf32>
    %75 = stablehlo.dot_general %72, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x512xf32>) -> tensor<1x1x512xf32>
    %76 = stablehlo.multiply %74, %75 : tensor<1x1x512xf32>
    %77 = stablehlo.dot_general %76, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x512xf32>, tensor<512x256xf32>) -> tensor<1x1x256xf32>
    %78 = stablehlo.add %60, %77 : tensor<1x1x256xf32>
    return %78, %36, %37 : tensor<1x1x256xf32>, tensor<1x4097x2x32xf32>, tensor<1x4097x2x32xf32>
  }
  func.func private @silu(%arg0: tensor<1x1x512xf32>) -> tensor<1x1x512xf32> {
    %0 = stablehlo.negate %arg0 : tensor<1x1x512xf32>
    %1 = stablehlo.exponential %0 : tensor<1x1x512xf32>
    %cst = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %2 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x1x512xf32>
    %3 = stablehlo.add %2, %1 : tensor<1x1x512xf32>
    %cst_0 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %4 = stablehlo.broadcast_in_dim %cst_0, dims = [] : (tensor<f32>) -> tensor<1x1x512xf32>
    %5 = stablehlo.divide %4, %3 : tensor<1x1x512xf32>
    %6 = stablehlo.multiply %arg0, %5 : tensor<1x1x512xf32>
    return %6 : tensor<1x1x512xf32>
  }
}
