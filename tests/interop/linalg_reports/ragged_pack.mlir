// A pack that fills its last tile up, and the unpack: the pad and the slice are all that is copied.
// moves 2328 bytes
func.func @main(%x: tensor<13x10xf32>) -> tensor<13x10xf32> {
  %zero = arith.constant 0.0 : f32
  %e0 = tensor.empty() : tensor<2x3x8x4xf32>
  %packed = tensor.pack %x padding_value(%zero : f32) inner_dims_pos = [0, 1] inner_tiles = [8, 4] into %e0 : tensor<13x10xf32> -> tensor<2x3x8x4xf32>
  %y = linalg.exp ins(%packed : tensor<2x3x8x4xf32>) outs(%e0 : tensor<2x3x8x4xf32>) -> tensor<2x3x8x4xf32>
  %e1 = tensor.empty() : tensor<13x10xf32>
  %unpacked = tensor.unpack %y inner_dims_pos = [0, 1] inner_tiles = [8, 4] into %e1 : tensor<2x3x8x4xf32> -> tensor<13x10xf32>
  return %unpacked : tensor<13x10xf32>
}
