// RUN: optc --pass=inline,canonicalize,view-fold,tile-propagate --target=triton --emit=triton %s
// EVAL: off computed by tests/interop/triton_kernels.py
// An encoder layer that JAX wrote as StableHLO.
// CHECK: tl.dot
// CHECK: tl.exp
module @jit_encoder attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<1x128x256xf32>, %arg1: tensor<256x768xf32>, %arg2: tensor<768xf32>, %arg3: tensor<256x256xf32>, %arg4: tensor<256xf32>, %arg5: tensor<256xf32>, %arg6: tensor<256xf32>, %arg7: tensor<256x1024xf32>, %arg8: tensor<1024xf32>, %arg9: tensor<1024x256xf32>, %arg10: tensor<256xf32>, %arg11: tensor<256xf32>, %arg12: tensor<256xf32>) -> (tensor<1x128x256xf32> {jax.result_info = "result"}) {
    %0 = stablehlo.dot_general %arg0, %arg1, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128x256xf32>, tensor<256x768xf32>) -> tensor<1x128x768xf32>
    %1 = stablehlo.broadcast_in_dim %arg2, dims = [2] : (tensor<768xf32>) -> tensor<1x1x768xf32>
    %2 = stablehlo.broadcast_in_dim %1, dims = [0, 1, 2] : (tensor<1x1x768xf32>) -> tensor<1x128x768xf32>
    %3 = stablehlo.add %0, %2 : tensor<1x128x768xf32>
    %4 = stablehlo.slice %3 [0:1, 0:128, 0:256] : (tensor<1x128x768xf32>) -> tensor<1x128x256xf32>
    %5 = stablehlo.slice %3 [0:1, 0:128, 256:512] : (tensor<1x128x768xf32>) -> tensor<1x128x256xf32>
    %6 = stablehlo.slice %3 [0:1, 0:128, 512:768] : (tensor<1x128x768xf32>) -> tensor<1x128x256xf32>
    %7 = stablehlo.reshape %4 : (tensor<1x128x256xf32>) -> tensor<1x128x4x64xf32>
    %8 = stablehlo.transpose %7, dims = [0, 2, 1, 3] : (tensor<1x128x4x64xf32>) -> tensor<1x4x128x64xf32>
    %9 = stablehlo.reshape %5 : (tensor<1x128x256xf32>) -> tensor<1x128x4x64xf32>
    %10 = stablehlo.transpose %9, dims = [0, 2, 1, 3] : (tensor<1x128x4x64xf32>) -> tensor<1x4x128x64xf32>
    %11 = stablehlo.reshape %6 : (tensor<1x128x256xf32>) -> tensor<1x128x4x64xf32>
    %12 = stablehlo.transpose %11, dims = [0, 2, 1, 3] : (tensor<1x128x4x64xf32>) -> tensor<1x4x128x64xf32>
    %13 = stablehlo.transpose %10, dims = [0, 1, 3, 2] : (tensor<1x4x128x64xf32>) -> tensor<1x4x64x128xf32>
    %14 = stablehlo.reshape %8 : (tensor<1x4x128x64xf32>) -> tensor<4x128x64xf32>
    %15 = stablehlo.reshape %13 : (tensor<1x4x64x128xf32>) -> tensor<4x64x128xf32>
    %16 = stablehlo.dot_general %14, %15, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x64xf32>, tensor<4x64x128xf32>) -> tensor<4x128x128xf32>
    %17 = stablehlo.broadcast_in_dim %16, dims = [1, 2, 3] : (tensor<4x128x128xf32>) -> tensor<1x4x128x128xf32>
    %cst = stablehlo.constant dense<1.250000e-01> : tensor<f32>
    %18 = stablehlo.broadcast_in_dim %cst, dims = [] : (tensor<f32>) -> tensor<1x4x128x128xf32>
    %19 = stablehlo.multiply %17, %18 : tensor<1x4x128x128xf32>
    %cst_0 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %20 = stablehlo.reduce(%19 init: %cst_0) applies stablehlo.maximum across dimensions = [3] : (tensor<1x4x128x128xf32>, tensor<f32>) -> tensor<1x4x128xf32>
    %cst_1 = stablehlo.constant dense<0xFF800000> : tensor<f32>
    %21 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<f32>) -> tensor<1x4x128xf32>
    %22 = stablehlo.maximum %21, %20 : tensor<1x4x128xf32>
    %23 = stablehlo.broadcast_in_dim %22, dims = [0, 1, 2] : (tensor<1x4x128xf32>) -> tensor<1x4x128x1xf32>
    %24 = stablehlo.broadcast_in_dim %23, dims = [0, 1, 2, 3] : (tensor<1x4x128x1xf32>) -> tensor<1x4x128x128xf32>
    %25 = stablehlo.subtract %19, %24 : tensor<1x4x128x128xf32>
    %26 = stablehlo.exponential %25 : tensor<1x4x128x128xf32>
    %cst_2 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %27 = stablehlo.reduce(%26 init: %cst_2) applies stablehlo.add across dimensions = [3] : (tensor<1x4x128x128xf32>, tensor<f32>) -> tensor<1x4x128xf32>
    %28 = stablehlo.broadcast_in_dim %27, dims = [0, 1, 2] : (tensor<1x4x128xf32>) -> tensor<1x4x128x1xf32>
    %29 = stablehlo.broadcast_in_dim %28, dims = [0, 1, 2, 3] : (tensor<1x4x128x1xf32>) -> tensor<1x4x128x128xf32>
    %30 = stablehlo.divide %26, %29 : tensor<1x4x128x128xf32>
    %31 = stablehlo.reshape %30 : (tensor<1x4x128x128xf32>) -> tensor<4x128x128xf32>
    %32 = stablehlo.reshape %12 : (tensor<1x4x128x64xf32>) -> tensor<4x128x64xf32>
    %33 = stablehlo.dot_general %31, %32, batching_dims = [0] x [0], contracting_dims = [2] x [1], precision = [DEFAULT, DEFAULT] : (tensor<4x128x128xf32>, tensor<4x128x64xf32>) -> tensor<4x128x64xf32>
    %34 = stablehlo.broadcast_in_dim %33, dims = [1, 2, 3] : (tensor<4x128x64xf32>) -> tensor<1x4x128x64xf32>
    %35 = stablehlo.transpose %34, dims = [0, 2, 1, 3] : (tensor<1x4x128x64xf32>) -> tensor<1x128x4x64xf32>
    %36 = stablehlo.reshape %35 : (tensor<1x128x4x64xf32>) -> tensor<1x128x256xf32>
    %37 = stablehlo.dot_general %36, %arg3, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128x256xf32>, tensor<256x256xf32>) -> tensor<1x128x256xf32>
    %38 = stablehlo.add %arg0, %37 : tensor<1x128x256xf32>
    %39 = stablehlo.broadcast_in_dim %arg4, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %40 = stablehlo.broadcast_in_dim %39, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %41 = stablehlo.add %38, %40 : tensor<1x128x256xf32>
    %cst_3 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %42 = stablehlo.reduce(%41 init: %cst_3) applies stablehlo.add across dimensions = [2] : (tensor<1x128x256xf32>, tensor<f32>) -> tensor<1x128xf32>
    %43 = stablehlo.broadcast_in_dim %42, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<1x128x1xf32>
    %cst_4 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %44 = stablehlo.broadcast_in_dim %cst_4, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %45 = stablehlo.divide %43, %44 : tensor<1x128x1xf32>
    %46 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %47 = stablehlo.subtract %41, %46 : tensor<1x128x256xf32>
    %48 = stablehlo.multiply %47, %47 : tensor<1x128x256xf32>
    %cst_5 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %49 = stablehlo.reduce(%48 init: %cst_5) applies stablehlo.add across dimensions = [2] : (tensor<1x128x256xf32>, tensor<f32>) -> tensor<1x128xf32>
    %50 = stablehlo.broadcast_in_dim %49, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<1x128x1xf32>
    %cst_6 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %51 = stablehlo.broadcast_in_dim %cst_6, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %52 = stablehlo.divide %50, %51 : tensor<1x128x1xf32>
    %53 = stablehlo.broadcast_in_dim %45, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %54 = stablehlo.subtract %41, %53 : tensor<1x128x256xf32>
    %cst_7 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %55 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %56 = stablehlo.add %52, %55 : tensor<1x128x1xf32>
    %57 = stablehlo.rsqrt %56 : tensor<1x128x1xf32>
    %58 = stablehlo.broadcast_in_dim %57, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %59 = stablehlo.multiply %54, %58 : tensor<1x128x256xf32>
    %60 = stablehlo.broadcast_in_dim %arg5, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %61 = stablehlo.broadcast_in_dim %60, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %62 = stablehlo.multiply %59, %61 : tensor<1x128x256xf32>
    %63 = stablehlo.broadcast_in_dim %arg6, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %64 = stablehlo.broadcast_in_dim %63, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %65 = stablehlo.add %62, %64 : tensor<1x128x256xf32>
    %66 = stablehlo.dot_general %65, %arg7, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128x256xf32>, tensor<256x1024xf32>) -> tensor<1x128x1024xf32>
    %67 = stablehlo.broadcast_in_dim %arg8, dims = [2] : (tensor<1024xf32>) -> tensor<1x1x1024xf32>
    %68 = stablehlo.broadcast_in_dim %67, dims = [0, 1, 2] : (tensor<1x1x1024xf32>) -> tensor<1x128x1024xf32>
    %69 = stablehlo.add %66, %68 : tensor<1x128x1024xf32>
    %cst_8 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %70 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<1x128x1024xf32>
    %71 = stablehlo.multiply %70, %69 : tensor<1x128x1024xf32>
    %72 = stablehlo.negate %69 : tensor<1x128x1024xf32>
    %cst_9 = stablehlo.constant dense<0.707106769> : tensor<f32>
    %73 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<1x128x1024xf32>
    %74 = stablehlo.multiply %72, %73 : tensor<1x128x1024xf32>
    %75 = chlo.erfc %74 : tensor<1x128x1024xf32> -> tensor<1x128x1024xf32>
    %76 = stablehlo.multiply %71, %75 : tensor<1x128x1024xf32>
    %77 = stablehlo.dot_general %76, %arg9, contracting_dims = [2] x [0], precision = [DEFAULT, DEFAULT] : (tensor<1x128x1024xf32>, tensor<1024x256xf32>) -> tensor<1x128x256xf32>
    %78 = stablehlo.add %65, %77 : tensor<1x128x256xf32>
    %79 = stablehlo.broadcast_in_dim %arg10, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %80 = stablehlo.broadcast_in_dim %79, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %81 = stablehlo.add %78, %80 : tensor<1x128x256xf32>
    %cst_10 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %82 = stablehlo.reduce(%81 init: %cst_10) applies stablehlo.add across dimensions = [2] : (tensor<1x128x256xf32>, tensor<f32>) -> tensor<1x128xf32>
    %83 = stablehlo.broadcast_in_dim %82, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<1x128x1xf32>
    %cst_11 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %84 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %85 = stablehlo.divide %83, %84 : tensor<1x128x1xf32>
    %86 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %87 = stablehlo.subtract %81, %86 : tensor<1x128x256xf32>
    %88 = stablehlo.multiply %87, %87 : tensor<1x128x256xf32>
    %cst_12 = stablehlo.constant dense<0.000000e+00> : tensor<f32>
    %89 = stablehlo.reduce(%88 init: %cst_12) applies stablehlo.add across dimensions = [2] : (tensor<1x128x256xf32>, tensor<f32>) -> tensor<1x128xf32>
    %90 = stablehlo.broadcast_in_dim %89, dims = [0, 1] : (tensor<1x128xf32>) -> tensor<1x128x1xf32>
    %cst_13 = stablehlo.constant dense<2.560000e+02> : tensor<f32>
    %91 = stablehlo.broadcast_in_dim %cst_13, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %92 = stablehlo.divide %90, %91 : tensor<1x128x1xf32>
    %93 = stablehlo.broadcast_in_dim %85, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %94 = stablehlo.subtract %81, %93 : tensor<1x128x256xf32>
    %cst_14 = stablehlo.constant dense<9.99999974E-6> : tensor<f32>
    %95 = stablehlo.broadcast_in_dim %cst_14, dims = [] : (tensor<f32>) -> tensor<1x128x1xf32>
    %96 = stablehlo.add %92, %95 : tensor<1x128x1xf32>
    %97 = stablehlo.rsqrt %96 : tensor<1x128x1xf32>
    %98 = stablehlo.broadcast_in_dim %97, dims = [0, 1, 2] : (tensor<1x128x1xf32>) -> tensor<1x128x256xf32>
    %99 = stablehlo.multiply %94, %98 : tensor<1x128x256xf32>
    %100 = stablehlo.broadcast_in_dim %arg11, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %101 = stablehlo.broadcast_in_dim %100, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %102 = stablehlo.multiply %99, %101 : tensor<1x128x256xf32>
    %103 = stablehlo.broadcast_in_dim %arg12, dims = [2] : (tensor<256xf32>) -> tensor<1x1x256xf32>
    %104 = stablehlo.broadcast_in_dim %103, dims = [0, 1, 2] : (tensor<1x1x256xf32>) -> tensor<1x128x256xf32>
    %105 = stablehlo.add %102, %104 : tensor<1x128x256xf32>
    return %105 : tensor<1x128x256xf32>
  }
}
