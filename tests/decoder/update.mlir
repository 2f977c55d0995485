module @jit_layer attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<512x256xf32>, %arg1: tensor<256x512xf32>, %arg2: tensor<256xf32>, %arg3: tensor<256xf32>, %arg4: tensor<256x512xf32>, %arg5: tensor<256x64xf32>, %arg6: tensor<256x256xf32>, %arg7: tensor<256x256xf32>, %arg8: tensor<256x64xf32>, %arg9: tensor<1x4096x2x32xf32> {tf.aliasing_output = 1 : i32}, %arg10: tensor<1x4096x2x32xf32> {tf.aliasing_output = 2 : i32}, %arg11: tensor<1x1x256xf32>, %arg12: tensor<i32>, %arg13: tensor<1x1x1x32xf32>, %arg14: tensor<1x1x1x32xf32>) -> (tensor<1x1x256xf32> {jax.result_info = "result[0]"}, tensor<1x4096x2x32xf32> {jax.result_info = "result[1]"}, tensor<1x4096x2x32xf32> {jax.result_info = "result[2]"}) {
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
    %16 = stablehlo.broadcast_in_dim %arg13, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x1x8x32xf32>
    %17 = stablehlo.multiply %13, %16 : tensor<1x1x8x32xf32>
    %18 = stablehlo.negate %15 : tensor<1x1x8x16xf32>
    %19 = stablehlo.concatenate %18, %14, dim = 3 : (tensor<1x1x8x16xf32>, tensor<1x1x8x16xf32>) -> tensor<1x1x8x32xf32>
    %20 = stablehlo.broadcast_in_dim %arg14, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x1x8x32xf32>
    %21 = stablehlo.multiply %19, %20 : tensor<1x1x8x32xf32>
    %22 = stablehlo.add %17, %21 : tensor<1x1x8x32xf32>
    %23 = stablehlo.dot_general %11, %arg5, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x64xf32>) -> tensor<1x1x64xf32>
    %24 = stablehlo.reshape %23 : (tensor<1x1x64xf32>) -> tensor<1x1x2x32xf32>
    %25 = stablehlo.slice %24 [0:1, 0:1, 0:2, 0:16] : (tensor<1x1x2x32xf32>) -> tensor<1x1x2x16xf32>
    %26 = stablehlo.slice %24 [0:1, 0:1, 0:2, 16:32] : (tensor<1x1x2x32xf32>) -> tensor<1x1x2x16xf32>
    %27 = stablehlo.broadcast_in_dim %arg13, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x1x2x32xf32>
    %28 = stablehlo.multiply %24, %27 : tensor<1x1x2x32xf32>
    %29 = stablehlo.negate %26 : tensor<1x1x2x16xf32>
    %30 = stablehlo.concatenate %29, %25, dim = 3 : (tensor<1x1x2x16xf32>, tensor<1x1x2x16xf32>) -> tensor<1x1x2x32xf32>
    %31 = stablehlo.broadcast_in_dim %arg14, dims = [0, 1, 2, 3] : (tensor<1x1x1x32xf32>) -> tensor<1x1x2x32xf32>
    %32 = stablehlo.multiply %30, %31 : tensor<1x1x2x32xf32>
    %33 = stablehlo.add %28, %32 : tensor<1x1x2x32xf32>
    %34 = stablehlo.dot_general %11, %arg8, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x64xf32>) -> tensor<1x1x64xf32>
    %35 = stablehlo.reshape %34 : (tensor<1x1x64xf32>) -> tensor<1x1x2x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %36 = stablehlo.compare LT, %arg12, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<4096> : tensor<i32>
    %37 = stablehlo.add %arg12, %c_2 : tensor<i32>
    %38 = stablehlo.select %36, %37, %arg12 : tensor<i1>, tensor<i32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %c_4 = stablehlo.constant dense<0> : tensor<i32>
    %c_5 = stablehlo.constant dense<0> : tensor<i32>
    %39 = stablehlo.dynamic_update_slice %arg9, %33, %c_3, %38, %c_4, %c_5 : (tensor<1x4096x2x32xf32>, tensor<1x1x2x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4096x2x32xf32>
    %c_6 = stablehlo.constant dense<0> : tensor<i32>
    %40 = stablehlo.compare LT, %arg12, %c_6, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_7 = stablehlo.constant dense<4096> : tensor<i32>
    %41 = stablehlo.add %arg12, %c_7 : tensor<i32>
    %42 = stablehlo.select %40, %41, %arg12 : tensor<i1>, tensor<i32>
    %c_8 = stablehlo.constant dense<0> : tensor<i32>
    %c_9 = stablehlo.constant dense<0> : tensor<i32>
    %c_10 = stablehlo.constant dense<0> : tensor<i32>
    %43 = stablehlo.dynamic_update_slice %arg10, %35, %c_8, %42, %c_9, %c_10 : (tensor<1x4096x2x32xf32>, tensor<1x1x2x32xf32>, tensor<i32>, tensor<i32>, tensor<i32>, tensor<i32>) -> tensor<1x4096x2x32xf32>
    %44 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2, 4] : (tensor<1x4096x2x32xf32>) -> tensor<1x4096x2x4x32xf32>
    %45 = stablehlo.reshape %44 : (tensor<1x4096x2x4x32xf32>) -> tensor<1x4096x8x32xf32>
    %46 = stablehlo.broadcast_in_dim %43, dims = [0, 1, 2, 4] : (tensor<1x4096x2x32xf32>) -> tensor<1x4096x2x4x32xf32>
    %47 = stablehlo.reshape %46 : (tensor<1x4096x2x4x32xf32>) -> tensor<1x4096x8x32xf32>
    %48 = stablehlo.dot_general %22, %45, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x1x8x32xf32>, tensor<1x4096x8x32xf32>) -> tensor<1x8x1x4096xf32>
    %cst_11 = stablehlo.constant dense<0.176776692> : tensor<f32>
    %49 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x8x1x4096xf32>
    %50 = stablehlo.multiply %48, %49 : tensor<1x8x1x4096xf32>
    %51 = stablehlo.iota dim = 0 : tensor<4096xi32>
    %52 = stablehlo.broadcast_in_dim %arg12, dims = [] : (tensor<i32>) -> tensor<4096xi32>
    %53 = stablehlo.compare LE, %51, %52, SIGNED : (tensor<4096xi32>, tensor<4096xi32>) -> tensor<4096xi1>
    %cst_12 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %54 = call @_where(%53, %50, %cst_12) : (tensor<4096xi1>, tensor<1x8x1x4096xf32>, tensor<f32>) -> tensor<1x8x1x4096xf32>
    %cst_13 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %55 = stablehlo.reduce(%54 init: %cst_13) applies stablehlo.maximum across dimensions = [3] : (tensor<1x8x1x4096xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %cst_14 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %56 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %57 = stablehlo.maximum %56, %55 : tensor<1x8x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x1x1xf32>
    %59 = stablehlo.broadcast_in_dim %58, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<1x8x1x4096xf32>
    %60 = stablehlo.subtract %54, %59 : tensor<1x8x1x4096xf32>
    %61 = stablehlo.exponential %60 : tensor<1x8x1x4096xf32>
    %cst_15 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %62 = stablehlo.reduce(%61 init: %cst_15) applies stablehlo.add across dimensions = [3] : (tensor<1x8x1x4096xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x1x1xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<1x8x1x4096xf32>
    %65 = stablehlo.divide %61, %64 : tensor<1x8x1x4096xf32>
    %66 = stablehlo.dot_general %47, %65, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x4096x8x32xf32>, tensor<1x8x1x4096xf32>) -> tensor<1x8x32x1xf32>
    %67 = stablehlo.transpose %66, dims = [0, 3, 1, 2] : (tensor<1x8x32x1xf32>) -> tensor<1x1x8x32xf32>
    %68 = stablehlo.reshape %67 : (tensor<1x1x8x32xf32>) -> tensor<1x1x256xf32>
    %69 = stablehlo.dot_general %68, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x256xf32>) -> tensor<1x1x256xf32>
    %70 = stablehlo.add %arg11, %69 : tensor<1x1x256xf32>
    %71 = stablehlo.multiply %70, %70 : tensor<1x1x256xf32>
    %cst_16 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %72 = stablehlo.reduce(%71 init: %cst_16) applies stablehlo.add across dimensions = [2] : (tensor<1x1x256xf32>, tensor<f32>) -> tensor<1x1xf32>
    %73 = stablehlo.broadcast_in_dim %72, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %cst_17 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %74 = stablehlo.broadcast_in_dim %cst_17, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %75 = stablehlo.divide %73, %74 : tensor<1x1x1xf32>
    %cst_18 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %76 = stablehlo.broadcast_in_dim %cst_18, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %77 = stablehlo.add %75, %76 : tensor<1x1x1xf32>
    %78 = stablehlo.rsqrt %77 : tensor<1x1x1xf32>
    %79 = stablehlo.broadcast_in_dim %78, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<1x1x256xf32>
    %80 = stablehlo.multiply %70, %79 : tensor<1x1x256xf32>
    %81 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %82 = stablehlo.multiply %80, %81 : tensor<1x1x256xf32>
    %83 = stablehlo.dot_general %82, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x512xf32>) -> tensor<1x1x512xf32>
    %84 = call @silu(%83) : (tensor<1x1x512xf32>) -> tensor<1x1x512xf32>
    %85 = stablehlo.dot_general %82, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x512xf32>) -> tensor<1x1x512xf32>
    %86 = stablehlo.multiply %84, %85 : tensor<1x1x512xf32>
    %87 = stablehlo.dot_general %86, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x512xf32>, tensor<512x256xf32>) -> tensor<1x1x256xf32>
    %88 = stablehlo.add %70, %87 : tensor<1x1x256xf32>
    return %88, %39, %43 : tensor<1x1x256xf32>, tensor<1x4096x2x32xf32>, tensor<1x4096x2x32xf32>
  }
  func.func private @_where(%arg0: tensor<4096xi1>, %arg1: tensor<1x8x1x4096xf32>, %arg2: tensor<f32>) -> tensor<1x8x1x4096xf32> {
    %0 = stablehlo.convert %arg2 : tensor<f32>
    %1 = stablehlo.broadcast_in_dim %arg0, dims = [3] : (tensor<4096xi1>) -> tensor<1x8x1x4096xi1>
    %2 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<f32>) -> tensor<1x8x1x4096xf32>
    %3 = stablehlo.select %1, %arg1, %2 : tensor<1x8x1x4096xi1>, tensor<1x8x1x4096xf32>
    return %3 : tensor<1x8x1x4096xf32>
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
