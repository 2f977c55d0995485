module @jit_numbers attributes {mhlo.num_partitions = 1 : i32, mhlo.num_replicas = 1 : i32} {
  func.func public @main(%arg0: tensor<4x5xf32>, %arg1: tensor<4x5xf32>, %arg2: tensor<6xf32>, %arg3: tensor<7xi32>, %arg4: tensor<4xcomplex<f32>>) -> (tensor<4x5xbf16> {jax.result_info = "result[0]"}, tensor<2x3xf32> {jax.result_info = "result[1]"}, tensor<20x10xf32> {jax.result_info = "result[2]"}, tensor<4x5xf32> {jax.result_info = "result[3]"}, tensor<4x5xf32> {jax.result_info = "result[4]"}, tensor<4x5xf32> {jax.result_info = "result[5]"}, tensor<4x5xf32> {jax.result_info = "result[6]"}, tensor<4x5xf32> {jax.result_info = "result[7]"}, tensor<7xi32> {jax.result_info = "result[8]"}, tensor<7xi32> {jax.result_info = "result[9]"}, tensor<7xi32> {jax.result_info = "result[10]"}, tensor<7xi32> {jax.result_info = "result[11]"}, tensor<4xcomplex<f32>> {jax.result_info = "result[12]"}, tensor<4xf32> {jax.result_info = "result[13]"}, tensor<4x5xcomplex<f32>> {jax.result_info = "result[14]"}, tensor<4x5xf32> {jax.result_info = "result[15]"}, tensor<4x5xf32> {jax.result_info = "result[16]"}, tensor<4x5xi32> {jax.result_info = "result[17]"}, tensor<6xf32> {jax.result_info = "result[18]"}, tensor<10x4xf32> {jax.result_info = "result[19]"}, tensor<4x5xf32> {jax.result_info = "result[20]"}, tensor<4xcomplex<f32>> {jax.result_info = "result[21]"}, tensor<6xf32> {jax.result_info = "result[22]"}, tensor<2x3xi1> {jax.result_info = "result[23]"}, tensor<4x5xf32> {jax.result_info = "result[24]"}, tensor<4x5xf32> {jax.result_info = "result[25]"}) {
    %cst = stablehlo.constant dense<[[1.500000e+00, -2.000000e+00, 0x7F800000], [0x7FC00000, 0.000000e+00, 3.000000e+00]]> : tensor<2x3xf32>
    %cst_0 = stablehlo.constant dense<"0x6CBF003E7F4607BEBDF2233FDFD5D63DA12109BFFD22B93E79E9A63FE673723FFE2734BF55F9A1BFEA8E1FBF6E45293D4ECD14C0EC0A60BE037A9FBFE0753BBF8F540BBF18F2A1BE3DC1D23E1471853F979E03BE46E8AE3F334A2ABF21F9B33ED249673F8589C03DF8553EBF32F66BBF0A5BEABED57A613E2B3B81BF1F3256BEE20B23BEDB740A3F9ACF5B3E69F3B53E506127BF70B904BE9EB2483FC028BF3F0F29A1BF41C8C13FA545AC3F0604483FBA66873E7EBAA0BE6CA0BA3FBFE9FA3FF99BE63F5255A83F91FAB63E2FAA9ABFFAF391BBBE0E283F07E9A4BF704DCA3E1817DC3EDB2F323F2D9197BF576529BF7174DFBE12BC95BF9BA3DE3F03E8FDBEB56EA83E9F6384BE3DAFCA3F9701A93F6623223F4E060DC0551C553D0F062F3FD081803F282F1EBFAB37E93FE203A9BFE75929BF705F6F3F7EED483D332700402D0B413E021922BF0150C1BEADAA8BBF068BA3BFA662213F48C7143F1AB4A53FD82D41BFAC34D83F7B2493BE3686C93F1B96DDBEA2483CBFBDC77F3EA806843FB2DF243E38E515BF16ADABBF0465B3BFD3AF003FD55D7D3FD73C28BECA8489BFB17F5F3FF3E3A3BFA18B36BF07FB1E3F500210C03CD2C53E6AE614BF09CEDF3D67099BBD13F74E3E41B5313F852442BFBDE2B53F48E1393FDDFE573F431A953F629F493F8A15583FD3D09A3D87A0B6BF43490ABEE9FE44BF671CB6BFED53843E758C11BFA2D083BF0F8185BFF76D893EDAA3B73E4946A93F5AFA63BC015B853F6A7DB33FA138933F246117C082459D3FACE2AD3E8FF8D83E8511BE3EBFF8C33E438AA33E7CC3B7BEC968F3BFAF0EDFBD5FC14DBFCB428A3F34D993BE21F5AA3DC77F59BF27B802BF2BF53CBCC620BEBF66F3993E693CD9BDABC597BFA67C19C06257033FEF5C98BEA2AE07BF85D271BE4982E83F1AFC4BBD7165B13D6758BEBF02DCD23F7EE06A3F5291883F7B44433DE3A96A3FBEECBD3EF6F91C3F79D81BBE5CA8BCBF80B1833FC2ACF7BFF5B175BE586E51BE717C85BFA3F51C3F3B234DBE35ADDFBE5914053F2B02F4BE19CAB13FEBF1B33EC6DBF2BEADDDF8BF7564A7BF451D8B3F35464FBDC5F590BE1256D23FDA2DA4BFABED15BF03F7F1BE331A163F"> : tensor<20x10xf32>
    %c = stablehlo.constant dense<[[true, false, true], [true, false, true]]> : tensor<2x3xi1>
    %0 = stablehlo.convert %arg0 : (tensor<4x5xf32>) -> tensor<4x5xbf16>
    %1 = stablehlo.iota dim = 0 : tensor<200xf32>
    %2 = stablehlo.reshape %1 : (tensor<200xf32>) -> tensor<20x10xf32>
    %3 = stablehlo.multiply %2, %cst_0 : tensor<20x10xf32>
    %cst_1 = stablehlo.constant dense<1.000000e+00> : tensor<bf16>
    %4 = stablehlo.broadcast_in_dim %cst_1, dims = [] : (tensor<bf16>) -> tensor<4x5xbf16>
    %5 = stablehlo.add %0, %4 : tensor<4x5xbf16>
    %6 = stablehlo.slice %arg1 [0:2, 0:3] : (tensor<4x5xf32>) -> tensor<2x3xf32>
    %7 = call @_where(%c, %cst, %6) : (tensor<2x3xi1>, tensor<2x3xf32>, tensor<2x3xf32>) -> tensor<2x3xf32>
    %8 = chlo.erf %arg0 : tensor<4x5xf32> -> tensor<4x5xf32>
    %9 = chlo.erfc %arg0 : tensor<4x5xf32> -> tensor<4x5xf32>
    %10 = chlo.sinh %arg0 : tensor<4x5xf32> -> tensor<4x5xf32>
    %cst_2 = stablehlo.constant dense<1.000000e-01> : tensor<f32>
    %11 = stablehlo.broadcast_in_dim %cst_2, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
    %12 = stablehlo.multiply %arg1, %11 : tensor<4x5xf32>
    %13 = chlo.erf_inv %12 : tensor<4x5xf32> -> tensor<4x5xf32>
    %cst_3 = stablehlo.constant dense<2.000000e+00> : tensor<f32>
    %14 = stablehlo.broadcast_in_dim %cst_3, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
    %15 = stablehlo.add %arg0, %14 : tensor<4x5xf32>
    %16 = call @arccosh(%15) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %c_4 = stablehlo.constant dense<3> : tensor<i32>
    %17 = call @floor_divide(%arg3, %c_4) : (tensor<7xi32>, tensor<i32>) -> tensor<7xi32>
    %c_5 = stablehlo.constant dense<4> : tensor<i32>
    %18 = call @remainder(%arg3, %c_5) : (tensor<7xi32>, tensor<i32>) -> tensor<7xi32>
    %c_6 = stablehlo.constant dense<1> : tensor<i32>
    %19 = stablehlo.broadcast_in_dim %c_6, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %20 = stablehlo.shift_right_logical %arg3, %19 : tensor<7xi32>
    %21 = stablehlo.popcnt %arg3 : tensor<7xi32>
    %22 = stablehlo.multiply %arg4, %arg4 : tensor<4xcomplex<f32>>
    %23 = stablehlo.real %arg4 : (tensor<4xcomplex<f32>>) -> tensor<4xf32>
    %24 = stablehlo.convert %arg0 : (tensor<4x5xf32>) -> tensor<4x5xcomplex<f32>>
    %cst_7 = stablehlo.constant dense<(0.000000e+00,1.000000e+00)> : tensor<complex<f32>>
    %25 = stablehlo.broadcast_in_dim %cst_7, dims = [] : (tensor<complex<f32>>) -> tensor<4x5xcomplex<f32>>
    %26 = stablehlo.multiply %25, %24 : tensor<4x5xcomplex<f32>>
    %27 = stablehlo.exponential %26 : tensor<4x5xcomplex<f32>>
    %cst_8 = stablehlo.constant dense<2.000000e-01> : tensor<f32>
    %cst_9 = stablehlo.constant dense<0.699999988> : tensor<f32>
    %28 = stablehlo.broadcast_in_dim %cst_8, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
    %29 = stablehlo.broadcast_in_dim %cst_9, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
    %30 = stablehlo.clamp %28, %arg1, %29 : tensor<4x5xf32>
    %31 = stablehlo.reduce_precision %arg0, format = e5m10 : tensor<4x5xf32>
    %32 = stablehlo.bitcast_convert %arg0 : (tensor<4x5xf32>) -> tensor<4x5xi32>
    %33 = call @round(%arg2) : (tensor<6xf32>) -> tensor<6xf32>
    %cst_10 = stablehlo.constant dense<5.000000e-01> : tensor<f32>
    %34 = stablehlo.pad %arg0, %cst_10, low = [1, 0], high = [2, -1], interior = [1, 0] : (tensor<4x5xf32>, tensor<f32>) -> tensor<10x4xf32>
    %35 = call @_flip(%arg1) : (tensor<4x5xf32>) -> tensor<4x5xf32>
    %36 = call @fft(%arg4) : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    %37 = stablehlo.convert %arg2 : (tensor<6xf32>) -> tensor<6xf8E4M3FN>
    %38 = stablehlo.convert %37 : (tensor<6xf8E4M3FN>) -> tensor<6xf32>
    %39 = stablehlo.is_finite %cst : (tensor<2x3xf32>) -> tensor<2x3xi1>
    %cst_11 = stablehlo.constant dense<1.000000e+00> : tensor<f32>
    %40 = stablehlo.broadcast_in_dim %cst_11, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
    %41 = stablehlo.add %arg0, %40 : tensor<4x5xf32>
    %42 = chlo.digamma %41 : tensor<4x5xf32> -> tensor<4x5xf32>
    %cst_12 = stablehlo.constant dense<2.500000e+00> : tensor<f32>
    %43 = stablehlo.broadcast_in_dim %cst_12, dims = [] : (tensor<f32>) -> tensor<4x5xf32>
    %44 = stablehlo.power %arg0, %43 : tensor<4x5xf32>
    return %5, %7, %3, %8, %9, %10, %13, %16, %17, %18, %20, %21, %22, %23, %27, %30, %31, %32, %33, %34, %35, %36, %38, %39, %42, %44 : tensor<4x5xbf16>, tensor<2x3xf32>, tensor<20x10xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<7xi32>, tensor<7xi32>, tensor<7xi32>, tensor<7xi32>, tensor<4xcomplex<f32>>, tensor<4xf32>, tensor<4x5xcomplex<f32>>, tensor<4x5xf32>, tensor<4x5xf32>, tensor<4x5xi32>, tensor<6xf32>, tensor<10x4xf32>, tensor<4x5xf32>, tensor<4xcomplex<f32>>, tensor<6xf32>, tensor<2x3xi1>, tensor<4x5xf32>, tensor<4x5xf32>
  }
  func.func private @_where(%arg0: tensor<2x3xi1>, %arg1: tensor<2x3xf32>, %arg2: tensor<2x3xf32>) -> tensor<2x3xf32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<2x3xi1>, tensor<2x3xf32>
    return %0 : tensor<2x3xf32>
  }
  func.func private @arccosh(%arg0: tensor<4x5xf32>) -> tensor<4x5xf32> {
    %0 = chlo.acosh %arg0 : tensor<4x5xf32> -> tensor<4x5xf32>
    return %0 : tensor<4x5xf32>
  }
  func.func private @floor_divide(%arg0: tensor<7xi32>, %arg1: tensor<i32>) -> tensor<7xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %1 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %2 = stablehlo.divide %arg0, %1 : tensor<7xi32>
    %3 = stablehlo.sign %arg0 : tensor<7xi32>
    %4 = stablehlo.sign %0 : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %4, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %6 = stablehlo.compare NE, %3, %5, SIGNED : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi1>
    %7 = stablehlo.broadcast_in_dim %0, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %8 = stablehlo.remainder %arg0, %7 : tensor<7xi32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.broadcast_in_dim %c, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %10 = stablehlo.compare NE, %8, %9, SIGNED : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi1>
    %11 = stablehlo.and %6, %10 : tensor<7xi1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %12 = stablehlo.broadcast_in_dim %c_0, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %13 = stablehlo.subtract %2, %12 : tensor<7xi32>
    %14 = call @_where_0(%11, %13, %2) : (tensor<7xi1>, tensor<7xi32>, tensor<7xi32>) -> tensor<7xi32>
    return %14 : tensor<7xi32>
  }
  func.func private @_where_0(%arg0: tensor<7xi1>, %arg1: tensor<7xi32>, %arg2: tensor<7xi32>) -> tensor<7xi32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<7xi1>, tensor<7xi32>
    return %0 : tensor<7xi32>
  }
  func.func private @remainder(%arg0: tensor<7xi32>, %arg1: tensor<i32>) -> tensor<7xi32> {
    %0 = stablehlo.convert %arg1 : tensor<i32>
    %c = stablehlo.constant dense<0> : tensor<i32>
    %1 = stablehlo.compare EQ, %0, %c, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %c_0 = stablehlo.constant dense<1> : tensor<i32>
    %2 = call @_where_1(%1, %c_0, %0) : (tensor<i1>, tensor<i32>, tensor<i32>) -> tensor<i32>
    %3 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %4 = stablehlo.remainder %arg0, %3 : tensor<7xi32>
    %c_1 = stablehlo.constant dense<0> : tensor<i32>
    %5 = stablehlo.broadcast_in_dim %c_1, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %6 = stablehlo.compare NE, %4, %5, SIGNED : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi1>
    %c_2 = stablehlo.constant dense<0> : tensor<i32>
    %7 = stablehlo.broadcast_in_dim %c_2, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %8 = stablehlo.compare LT, %4, %7, SIGNED : (tensor<7xi32>, tensor<7xi32>) -> tensor<7xi1>
    %c_3 = stablehlo.constant dense<0> : tensor<i32>
    %9 = stablehlo.compare LT, %2, %c_3, SIGNED : (tensor<i32>, tensor<i32>) -> tensor<i1>
    %10 = stablehlo.broadcast_in_dim %9, dims = [] : (tensor<i1>) -> tensor<7xi1>
    %11 = stablehlo.compare NE, %8, %10, UNSIGNED : (tensor<7xi1>, tensor<7xi1>) -> tensor<7xi1>
    %12 = stablehlo.and %11, %6 : tensor<7xi1>
    %13 = stablehlo.broadcast_in_dim %2, dims = [] : (tensor<i32>) -> tensor<7xi32>
    %14 = stablehlo.add %4, %13 : tensor<7xi32>
    %15 = stablehlo.select %12, %14, %4 : tensor<7xi1>, tensor<7xi32>
    return %15 : tensor<7xi32>
  }
  func.func private @_where_1(%arg0: tensor<i1>, %arg1: tensor<i32>, %arg2: tensor<i32>) -> tensor<i32> {
    %0 = stablehlo.select %arg0, %arg1, %arg2 : tensor<i1>, tensor<i32>
    return %0 : tensor<i32>
  }
  func.func private @round(%arg0: tensor<6xf32>) -> tensor<6xf32> {
    %0 = stablehlo.round_nearest_even %arg0 : tensor<6xf32>
    return %0 : tensor<6xf32>
  }
  func.func private @_flip(%arg0: tensor<4x5xf32>) -> tensor<4x5xf32> {
    %0 = stablehlo.reverse %arg0, dims = [0] : tensor<4x5xf32>
    return %0 : tensor<4x5xf32>
  }
  func.func private @fft(%arg0: tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>> {
    %0 = stablehlo.fft %arg0, type = FFT, length = [4] : (tensor<4xcomplex<f32>>) -> tensor<4xcomplex<f32>>
    return %0 : tensor<4xcomplex<f32>>
  }
}
