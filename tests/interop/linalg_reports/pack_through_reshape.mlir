// An unpack, a reshape that splits the channels, and a pack by the same tiles: the layout does not change.
// moves 0 bytes
func.func @main(%x: tensor<4x6x8x16xf32>) -> tensor<4x6x8x16xf32> {
  %flat = tensor.empty() : tensor<32x96xf32>
  %unpacked = tensor.unpack %x inner_dims_pos = [0, 1] inner_tiles = [8, 16] into %flat : tensor<4x6x8x16xf32> -> tensor<32x96xf32>
  %split = tensor.expand_shape %unpacked [[0], [1, 2]] output_shape [32, 6, 16] : tensor<32x96xf32> into tensor<32x6x16xf32>
  %e = tensor.empty() : tensor<32x6x16xf32>
  %y = linalg.generic {indexing_maps = [affine_map<(d0, d1, d2) -> (d0, d1, d2)>, affine_map<(d0, d1, d2) -> (d0, d1, d2)>], iterator_types = ["parallel", "parallel", "parallel"]} ins(%split : tensor<32x6x16xf32>) outs(%e : tensor<32x6x16xf32>) {
  ^bb0(%in: f32, %out: f32):
    %t = math.tanh %in : f32
    linalg.yield %t : f32
  } -> tensor<32x6x16xf32>
  %joined = tensor.collapse_shape %y [[0], [1, 2]] : tensor<32x6x16xf32> into tensor<32x96xf32>
  %tiles = tensor.empty() : tensor<4x6x8x16xf32>
  %packed = tensor.pack %joined inner_dims_pos = [0, 1] inner_tiles = [8, 16] into %tiles : tensor<32x96xf32> -> tensor<4x6x8x16xf32>
  return %packed : tensor<4x6x8x16xf32>
}
