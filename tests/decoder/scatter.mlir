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
    %36 = stablehlo.reshape %33 : (tensor<1x1x2x32xf32>) -> tensor<1x2x32xf32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %37 = stablehlo.compare LT, %arg12, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_2 = stablehlo.constant dense<4096> : tensor<i32>
    %38 = stablehlo.add %arg12, %c_2 : tensor<i32>
    %39 = stablehlo.select %37, %38, %arg12 : tensor<i1>, tensor<i32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %41 = "stablehlo.scatter"(%arg9, %40, %36) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]>, unique_indices = true}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      stablehlo.return %arg16 : tensor<f32>
    }) : (tensor<1x4096x2x32xf32>, tensor<1xi32>, tensor<1x2x32xf32>) -> tensor<1x4096x2x32xf32>
    %42 = stablehlo.reshape %35 : (tensor<1x1x2x32xf32>) -> tensor<1x2x32xf32>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %43 = stablehlo.compare LT, %arg12, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_4 = stablehlo.constant dense<4096> : tensor<i32>
    %44 = stablehlo.add %arg12, %c_4 : tensor<i32>
    %45 = stablehlo.select %43, %44, %arg12 : tensor<i1>, tensor<i32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [] : (tensor<i32>) -> tensor<1xi32>
    %47 = "stablehlo.scatter"(%arg10, %46, %42) <{indices_are_sorted = true, scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = [0, 1, 2], inserted_window_dims = [1], scatter_dims_to_operand_dims = [1]>, unique_indices = true}> ({
    ^bb0(%arg15: tensor<f32>, %arg16: tensor<f32>):
      stablehlo.return %arg16 : tensor<f32>
    }) : (tensor<1x4096x2x32xf32>, tensor<1xi32>, tensor<1x2x32xf32>) -> tensor<1x4096x2x32xf32>
    %48 = stablehlo.broadcast_in_dim %41, dims = [0, 1, 2, 4] : (tensor<1x4096x2x32xf32>) -> tensor<1x4096x2x4x32xf32>
    %49 = stablehlo.reshape %48 : (tensor<1x4096x2x4x32xf32>) -> tensor<1x4096x8x32xf32>
    %50 = stablehlo.broadcast_in_dim %47, dims = [0, 1, 2, 4] : (tensor<1x4096x2x32xf32>) -> tensor<1x4096x2x4x32xf32>
    %51 = stablehlo.reshape %50 : (tensor<1x4096x2x4x32xf32>) -> tensor<1x4096x8x32xf32>
    %52 = stablehlo.dot_general %22, %49, batching_dims = [0, 2] x [0, 2], contracting_dims = [3] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x1x8x32xf32>, tensor<1x4096x8x32xf32>) -> tensor<1x8x1x4096xf32>
    %cst_5 = stablehlo.constant dense<0.176776692> : tensor<f32>
    %53 = stablehlo.broadcast_in_dim %cst_5, dims = [] : (tensor<f32>) -> tensor<1x8x1x4096xf32>
    %54 = stablehlo.multiply %52, %53 : tensor<1x8x1x4096xf32>
    %55 = stablehlo.iota dim = 0 : tensor<4096xi32>
    %56 = stablehlo.broadcast_in_dim %arg12, dims = [] : (tensor<i32>) -> tensor<4096xi32>
    %57 = stablehlo.compare LE, %55, %56, SIGNED : (tensor<4096xi32>, tensor<4096xi32>) -> tensor<4096xi1>
    %cst_6 = stablehlo.constant dense<-1.000000e+30> : tensor<f32>
    %58 = call @_where(%57, %54, %cst_6) : (tensor<4096xi1>, tensor<1x8x1x4096xf32>, tensor<f32>) -> tensor<1x8x1x4096xf32>
    %cst_7 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %59 = stablehlo.reduce(%58 init: %cst_7) applies stablehlo.maximum across dimensions = [3] : (tensor<1x8x1x4096xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %cst_8 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %60 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x8x1xf32>
    %61 = stablehlo.maximum %60, %59 : tensor<1x8x1xf32>
    %62 = stablehlo.broadcast_in_dim %61, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x1x1xf32>
    %63 = stablehlo.broadcast_in_dim %62, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<1x8x1x4096xf32>
    %64 = stablehlo.subtract %58, %63 : tensor<1x8x1x4096xf32>
    %65 = stablehlo.exponential %64 : tensor<1x8x1x4096xf32>
    %cst_9 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %66 = stablehlo.reduce(%65 init: %cst_9) applies stablehlo.add across dimensions = [3] : (tensor<1x8x1x4096xf32>, tensor<f32>) -> tensor<1x8x1xf32>
    %67 = stablehlo.broadcast_in_dim %66, dims = [0, 1, 2] : (tensor<1x8x1xf32>) -> tensor<1x8x1x1xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2, 3] : (tensor<1x8x1x1xf32>) -> tensor<1x8x1x4096xf32>
    %69 = stablehlo.divide %65, %68 : tensor<1x8x1x4096xf32>
    %70 = stablehlo.dot_general %51, %69, batching_dims = [0, 2] x [0, 1], contracting_dims = [1] x [3], precision = [DEFAULT, DEFAULT] : (tensor<1x4096x8x32xf32>, tensor<1x8x1x4096xf32>) -> tensor<1x8x32x1xf32>
    %71 = stablehlo.transpose %70, dims = [0, 3, 1, 2] : (tensor<1x8x32x1xf32>) -> tensor<1x1x8x32xf32>
    %72 = stablehlo.reshape %71 : (tensor<1x1x8x32xf32>) -> tensor<1x1x256xf32>
    %73 = stablehlo.dot_general %72, %arg6, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x256xf32>) -> tensor<1x1x256xf32>
    %74 = stablehlo.add %arg11, %73 : tensor<1x1x256xf32>
    %75 = stablehlo.multiply %74, %74 : tensor<1x1x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %76 = stablehlo.reduce(%75 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<1x1x256xf32>, tensor<f32>) -> tensor<1x1xf32>
    %77 = stablehlo.broadcast_in_dim %76, dims = [0, 1] : (tensor<1x1xf32>) -> tensor<1x1x1xf32>
    %cst_11 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %78 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %79 = stablehlo.divide %77, %78 : tensor<1x1x1xf32>
    %cst_12 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %80 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<1x1x1xf32>
    %81 = stablehlo.add %79, %80 : tensor<1x1x1xf32>
    %82 = stablehlo.rsqrt %81 : tensor<1x1x1xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1, 2] : (tensor<1x1x1xf32>) -> tensor<1x1x256xf32>
    %84 = stablehlo.multiply %74, %83 : tensor<1x1x256xf32>
    %85 = stablehlo.broadcast_in_dim %arg3, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %86 = stablehlo.multiply %84, %85 : tensor<1x1x256xf32>
    %87 = stablehlo.dot_general %86, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x512xf32>) -> tensor<1x1x512xf32>
    %88 = call @silu(%87) : (tensor<1x1x512xf32>) -> tensor<1x1x512xf32>
    %89 = stablehlo.dot_general %86, %arg4, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x256xf32>, tensor<256x512xf32>) -> tensor<1x1x512xf32>
    %90 = stablehlo.multiply %88, %89 : tensor<1x1x512xf32>
    %91 = stablehlo.dot_general %90, %arg0, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x1x512xf32>, tensor<512x256xf32>) -> tensor<1x1x256xf32>
    %92 = stablehlo.add %74, %91 : tensor<1x1x256xf32>
    return %92, %41, %47 : tensor<1x1x256xf32>, tensor<1x4096x2x32xf32>, tensor<1x4096x2x32xf32>
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
